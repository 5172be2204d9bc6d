"""Train one classifier on a source, or trace the trade-off, with the report that a table in memory gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.base import clone

from fairmargin.constraints import CovarianceBound, PRuleBound
from fairmargin.exceptions import DataError, DisparateTreatmentError
from fairmargin.partitioned import trace_levels, trace_study
from fairmargin.partitioned.contract import Partition
from fairmargin.partitioned.points import describe_counted
from fairmargin.partitioned.scan import Sample, hash_rows
from fairmargin.partitioned.training import check_estimator, fit_study
from fairmargin.report.candidates import Candidate, Selection
from fairmargin.streaming.question import StreamedQuestion
from fairmargin.tables.explain import reasons_of_groups
from fairmargin.tables.jobs import (
    ask_questions,
    collected_warnings,
    frontier_candidates,
    report_search,
    report_training,
)
from fairmargin.tables.model import TabularModel
from fairmargin.tables.study import Part, Study

__all__ = ["propose", "refit", "sampled_study", "train"]

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
    with collected_warnings() as said, _named_columns(question):
        fitted = fit_study(question.study, estimator)
        if free is not None:
            fit_study(question.study, free)
    study = sampled_study(question)
    model, summary = report_training(study, estimator, free, said, settings, gains)
    summary["data"] |= _everybody(question)
    summary["reasons"] = reasons_of_groups(model, study)
    facts = {**model.facts, "data": summary["data"], "passes": fitted.facts["passes"]}
    return replace(model, facts=facts), summary


def propose(
    question: StreamedQuestion,
    estimator: Any,
    selection: Selection,
    *,
    n_points: int = 21,
    individual_loss: float = 2.0,
    progress: Callable[..., None] = lambda step, done=0, total=None: None,
) -> tuple[TabularModel, dict[str, Any]]:
    """Trace both frontiers on all rows and propose a candidate; as :func:`fairmargin.tables.jobs.propose`, in passes.

    Accuracy and p%-rule by which candidates are chosen are those of everybody trained on; the rest of the report is
    made of up to ``REPORTED`` people of each side, drawn at random.
    """
    check_estimator(estimator)
    estimator = clone(estimator).set_params(constraint=None, pos_label=question.positive)
    traced = clone(estimator).set_params(constraint=CovarianceBound(notion=selection.notion))
    rule = PRuleBound(80, method=question.method, min_people=question.min_people, notion=selection.notion)
    how: dict[str, Any] = {"n_points": n_points, "method": question.method, "min_people": question.min_people}
    with collected_warnings() as said, _named_columns(question):
        answers = ask_questions(
            estimator, selection, rule, individual_loss, lambda c: _fit_candidate(question, c), progress
        )
        progress("tracing the exact frontier")
        exact = trace_study(question.study, traced, **how).frontier
        progress("tracing the p%-rule")
        levels = sorted({80.0, selection.asked} - {0.0})
        rules = trace_levels(question.study, traced, levels=levels, **how).frontier
    candidates = [*frontier_candidates(rules, "rule"), *frontier_candidates(exact, "covariance")]
    candidates += _counted(question, answers, selection.notion)
    progress("summing up")
    study = sampled_study(question)
    settings = {"points": n_points, "individual_loss": individual_loss}
    trained = question.study.census.n_rows
    model, summary = report_search(study, estimator, selection, candidates, exact, rules, said, settings, trained)
    summary["data"] |= _everybody(question)
    return replace(model, facts={**model.facts, "data": summary["data"]}), summary


def refit(model: TabularModel, everybody: StreamedQuestion) -> TabularModel:
    """Train the classifier of a model again, with the same constraint, on a question in which nobody is held out."""
    again = clone(model.estimator)
    with collected_warnings() as said:
        fit_study(everybody.study, again)
    note = (
        f"Trained again on all {everybody.people:,} people. Measures are those of the model that was trained without "
        "the people held out."
    )
    facts = {**model.facts, "notes": [*model.facts.get("notes", []), note], "refit_warnings": said}
    return replace(model, estimator=again, encoder=everybody.study.encoder, facts=facts)


def _fit_candidate(question: StreamedQuestion, classifier: Any) -> None:
    """Train a candidate; one that passes cannot train is refused in the words of a report."""
    try:
        check_estimator(classifier)
    except ValueError:
        said = "Needs all rows in memory, and these data are read in passes: give a sample of them."
        raise DataError(said) from None
    fit_study(question.study, classifier)


def _counted(question: StreamedQuestion, answers: Sequence[Candidate], notion: str) -> list[Candidate]:
    """Return answers with their accuracy and p%-rule on everybody trained on: one pass for all of them."""
    fitted = [answer for answer in answers if answer.classifier is not None]
    if not fitted:
        return list(answers)
    passes = question.study.task(fitted[0].classifier).passes
    thetas = [np.append(a.classifier.coef_[0], a.classifier.intercept_) for a in fitted]
    thetas = [theta if passes.fit_intercept else theta[:-1] for theta in thetas]
    found = passes.rates(thetas, [np.zeros(1)] * len(thetas))
    how: dict[str, Any] = {"method": question.method, "min_people": question.min_people}
    rows = [pd.Series(describe_counted(question.study, people, notion, **how)) for people in found]
    by_key = {answer.key: row for answer, row in zip(fitted, rows, strict=True)}
    return [replace(answer, row=by_key.get(answer.key)) for answer in answers]


@contextmanager
def _named_columns(question: StreamedQuestion) -> Iterator[None]:
    """Suggest to leave out the column that gives a sensitive attribute away."""
    try:
        yield
    except DisparateTreatmentError as error:
        column = question.study.encoder.column_of(error.column)
        raise DataError(str(error), field="exclude", suggestion=column) from None


def _everybody(question: StreamedQuestion) -> dict[str, Any]:
    """Return how many people there are, of whom a report shows some."""
    trained, share = question.study.census.n_rows, question.positives / question.people
    return {
        "people": question.people,
        "positives": question.positives,
        "positive_rate": share,
        "train_people": trained,
        "test_people": question.people - trained,
    }


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
