"""Train one classifier on a source, with the report that a table in memory gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.base import clone

from fairmargin.exceptions import DataError, DisparateTreatmentError
from fairmargin.partitioned.contract import Partition
from fairmargin.partitioned.scan import Sample, hash_rows
from fairmargin.partitioned.training import check_estimator, fit_study
from fairmargin.streaming.question import StreamedQuestion
from fairmargin.tables.explain import reasons_of_groups
from fairmargin.tables.jobs import collected_warnings, report_training
from fairmargin.tables.model import TabularModel
from fairmargin.tables.study import Part, Study

__all__ = ["sampled_study", "train"]

REPORTED = 200_000  # people of each side that a report is made of: a rate of one half is known to 0.2 points then


def train(
    question: StreamedQuestion,
    estimator: Any,
    settings: dict[str, Any] | None = None,
    *,
    gains: Mapping[str, float] | None = None,
) -> tuple[TabularModel, dict[str, Any]]:
    """Train a classifier on all rows; as :func:`fairmargin.tables.jobs.train`, in passes.

    There is a pass for every Newton step, of this classifier and of the one without constraint, and one that draws
    people held out. The report is made of up to ``REPORTED`` people of each side, drawn at random.
    """
    check_estimator(estimator)
    estimator.set_params(pos_label=question.positive)
    free = None if estimator.constraint is None else clone(estimator).set_params(constraint=None)
    with collected_warnings() as said:
        try:
            fitted = fit_study(question.study, estimator)
        except DisparateTreatmentError as error:
            column = question.study.encoder.column_of(error.column)
            raise DataError(str(error), field="exclude", suggestion=column) from None
        if free is not None:
            fit_study(question.study, free)
    study = sampled_study(question)
    model, summary = report_training(study, estimator, free, said, settings, gains)
    trained = question.study.census.n_rows
    share = question.positives / question.people
    summary["data"] |= {"people": question.people, "positives": question.positives, "positive_rate": share}
    summary["data"] |= {"train_people": trained, "test_people": question.people - trained}
    summary["reasons"] = reasons_of_groups(model, study)
    facts = {**model.facts, "data": summary["data"], "passes": fitted.facts["passes"]}
    return replace(model, facts=facts), summary


def sampled_study(question: StreamedQuestion, size: int = REPORTED) -> Study:
    """Return the study in memory of up to ``size`` people of the scan's sample, and as many held out: one pass."""
    study = question.study
    columns = [column.name for column in study.encoder.columns]
    columns += [study.layout.target, *question.groups.columns]
    trained = study.sums.sample.cut(size).table
    held_out = trained.slice(0, 0)
    if question.held_out is not None:
        partitions = question.held_out.partitions
        rows = sum(partition.rows or 0 for partition in partitions)
        task = _Draw(tuple(columns), size, min(1.0, (1.05 * size + 1000) / max(rows, 1)))
        drawn = study.engine.reduce(task, partitions, _Join(size), progress=_report(question))
        held_out = drawn.cut(size).table
    notes = list(question.notes)
    if study.census.n_rows > size or question.people - study.census.n_rows > size:
        notes.append(
            f"Rates, tests and intervals are those of at most {size:,} people trained on and as many held out, drawn "
            "at random; training and certificate are those of everybody."
        )
    return Study(
        _part(question, trained),
        _part(question, held_out),
        study.encoder,
        question.target,
        question.labels,
        question.sensitive,
        question.fingerprint,
        question.settings,
        tuple(notes),
        question.method,
        question.min_people,
    )


def _part(question: StreamedQuestion, table: pa.Table) -> Part:
    frame = table.to_pandas()
    y = (frame[question.target] == question.positive).to_numpy().astype(np.int64)
    words = {name: pd.Categorical(frame[name], known.cat.categories) for name, known in question.groups.items()}
    return Part(question.study.encoder.compact(frame), y, pd.DataFrame(words), frame)


@dataclass(frozen=True)
class _Draw:
    """What a worker does with a partition: draw rows by a hash of where they are."""

    columns: Sequence[str]
    size: int
    share: float

    def __call__(self, partition: Partition) -> Sample:
        table = partition.load(list(self.columns))
        hashes = hash_rows(f"report, {partition.place}", 0, table.num_rows)
        drawn = np.flatnonzero(hashes <= np.uint64(self.share * (2**64 - 2**12)))
        return Sample((table.take(pa.array(drawn)),), hashes[drawn]).cut(self.size)


@dataclass(frozen=True)
class _Join:
    size: int

    def __call__(self, first: Sample, second: Sample) -> Sample:
        return first.joined(second, self.size)


def _report(question: StreamedQuestion) -> Any:
    progress = question.study.progress
    return None if progress is None else lambda done, total: progress("held out", done, total)
