"""One question put to partitioned data: scanned once, encoded, and written down as a problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.disparate_treatment import check_disparate_treatment, refuse_recodings
from fairmargin.exceptions import DisparateTreatmentError
from fairmargin.formulations import Task
from fairmargin.losses import Loss
from fairmargin.notions import compare
from fairmargin.partitioned.arrow import as_numbers
from fairmargin.partitioned.contract import Engine, Source
from fairmargin.partitioned.layout import Layout, make_layout
from fairmargin.partitioned.passes import Passes, design_of
from fairmargin.partitioned.prepare import Census, FeatureSums, expand, fit_encoder, sample_medians, take_census
from fairmargin.partitioned.problem import PartitionedProblem, RemoteDesign
from fairmargin.partitioned.reading import Reading, Rows
from fairmargin.partitioned.scan import ScanSums, scan
from fairmargin.problem import Problem
from fairmargin.sensitive import Sensitive
from fairmargin.several import notion_of
from fairmargin.tables.encoding import TableEncoder
from fairmargin.validation import (
    TrainingData,
    check_count,
    check_flag,
    check_number,
    class_factors,
    favourable_class,
)

__all__ = ["PartitionedStudy", "prepare"]

Array = NDArray[np.float64]
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class PartitionedStudy:
    """Partitioned data after the scan: encoding, census and a sample of the rows.

    Attributes
    ----------
    source, engine : where the rows are, and what works on them
    layout : Layout
    encoder : TableEncoder
    census : Census
    sums : ScanSums
    progress : callable or None
    """

    source: Source
    engine: Engine
    layout: Layout
    encoder: TableEncoder
    census: Census
    sums: ScanSums
    progress: Report | None = None

    def task(self, estimator: Any) -> PartitionedTask:
        """Write down the problem that an estimator asks about these data.

        No pass is made: the scan has collected the covariance rows.
        """
        constraint = estimator._constraint()
        census = self.census
        positive = favourable_class(census.classes, estimator.pos_label, ask=constraint is not None)
        classes = census.classes if positive == census.classes[1] else census.classes[::-1]
        weights = census.class_weights()
        weights = weights if positive == census.classes[1] else weights[::-1]
        C = estimator._weight_of_loss()
        factors = class_factors(estimator.class_weight, classes, np.array([-1.0, 1.0]), weights)
        factors = factors * (C if np.isfinite(C) else 1.0)
        fit_intercept = check_flag(estimator.fit_intercept, "fit_intercept")
        label = classes.tolist()[1]
        reading = Reading(
            self.encoder.columns,
            self.layout.target,
            label,
            self.layout.weight,
            (float(factors[0]), float(factors[1])),
            census.groups,
        )
        passes = Passes(self.source, self.engine, reading, fit_intercept, self.progress)
        sample = reading.encode(self.sums.sample.table, "the sample")
        features = FeatureSums(self.sums, census, self.encoder)
        scale = np.append(features.scale(), [1.0] * fit_intercept)
        compared, rows = None, np.empty((0, len(scale)))
        if census.sensitive is not None:
            compared = compare(census.sensitive, notion_of(constraint), census.signs(label), census.weight)
            rows = features.covariance_rows(compared, scale, fit_intercept)
        problem = _write_problem(
            passes, sample, estimator._loss(), bool(np.isfinite(C)), rows, scale, weights * factors, self.sums
        )
        data = TrainingData(
            None,
            census.signs(label),
            classes,
            census.weight,
            census.weight,
            census.sensitive,
            np.arange(len(census.cells)),
            census.n_rows,
        )
        tol = check_number(estimator.tol, "tol", positive=True)
        task = Task(problem, data, compared, tol, check_count(estimator.max_iter, "max_iter"))
        return PartitionedTask(task, passes, sample, self._sample_attributes(reading))

    def priced(self, posed: PartitionedTask, prices: Array) -> PartitionedProblem:
        """Return the problem of the decision path at ``prices``, one per sensitive column and condition.

        ``c_i = y_i - 2 sum_k u_k (z_ik - p_k)``, the worth of accepting person i, depends on label and group only.
        """
        census, problem = self.census, posed.task.problem
        assert isinstance(problem, PartitionedProblem)
        cost = posed.task.data.y - 2.0 * posed.task.columns.deviations @ prices
        size = np.maximum(np.abs(cost), np.finfo(float).eps)
        tables = self._charges(posed.task, prices)
        reading = replace(posed.passes.reading, prices=tables)
        passes = posed.passes.reading_as(reading)
        factors = np.array(reading.factors)[(posed.task.data.y > 0).astype(int)]
        weight = census.weight * factors * size
        totals = np.array([weight[cost < 0].sum(), weight[cost >= 0].sum()])
        sample = reading.encode(self.sums.sample.table, "the sample", posed.sample.X)
        penalised, scale = bool(np.any(problem.ridge)), problem.design.scale
        found = _write_problem(passes, sample, problem.loss, penalised, problem.rows, scale, totals, self.sums)
        return replace(found, least_weight=found.least_weight * float(size.min()))

    def _charges(self, task: Task, prices: Array) -> tuple[Array, ...]:
        """Return what is charged for accepting somebody by label and group, (2, groups) for each attribute."""
        census, compared = self.census, task.columns
        assert census.of_values is not None
        columns, by_column = compared.sensitive.columns(), np.zeros((2, len(compared.sensitive.labels)))
        base = np.zeros((2, 1))
        for condition, part in zip(compared.conditions, prices.reshape(len(compared.conditions), -1), strict=True):
            mean = np.average(columns[condition.counts], axis=0, weights=census.weight[condition.counts])
            for label in (0, 1):  # cells of a label are alike in who counts, and in which decision
                cell = int(np.flatnonzero((task.data.y > 0) == label)[0])
                if condition.counts[cell]:
                    by_column[label] += 2.0 * condition.sign[cell] * part
                    base[label] += 2.0 * condition.sign[cell] * (mean @ part)
        by_name = {a.name: a for a in census.of_values.attributes}
        parts, start = {}, 0
        for attribute in compared.sensitive.attributes:
            stop = start + len(attribute.column_categories)
            parts[attribute.name] = by_column[:, start:stop] @ by_name[attribute.name].columns().T
            start = stop
        tables = [parts[name] for name, _ in census.groups]
        return (tables[0] - base, *tables[1:])

    def _sample_attributes(self, reading: Reading) -> Sensitive | None:
        """Return the sensitive attributes of the rows in the sample."""
        if self.census.of_values is None:
            return None
        table = self.sums.sample.table
        codes = dict(zip([name for name, _ in reading.groups], reading.group_codes(table), strict=True))
        return Sensitive(
            tuple(
                expand(attribute, codes[attribute.name])
                if attribute.name in codes
                else replace(attribute, values=as_numbers(table[attribute.name]))
                for attribute in self.census.of_values.attributes
            )
        )

    def check_treatment(self, task: PartitionedTask) -> None:
        """Raise if a feature tells the same as a sensitive attribute, judged by the sample."""
        if task.sample_sensitive is None:
            return
        try:
            check_disparate_treatment(task.sample.X, self.encoder.feature_names, task.sample_sensitive)
            refuse_recodings(self.encoder.category_codes(task.sample.X), task.sample_sensitive)
        except DisparateTreatmentError as error:
            column = self.encoder.column_of(error.column)
            raise DisparateTreatmentError(
                f"The column {column!r} tells the sensitive attribute {error.attribute}: deciding by it is disparate "
                "treatment. Leave it out.",
                column=error.column,
                attribute=error.attribute,
            ) from None


@dataclass(frozen=True)
class PartitionedTask:
    """A task whose problem is partitioned, and the sample that belongs to it."""

    task: Task
    passes: Passes
    sample: Rows
    sample_sensitive: Sensitive | None


def _write_problem(
    passes: Passes,
    sample: Rows,
    loss: Loss,
    is_penalised: bool,
    rows: Array,
    scale: Array,
    totals: Array,
    sums: ScanSums,
) -> PartitionedProblem:
    fit_intercept = passes.fit_intercept
    ridge = np.full(len(scale), float(is_penalised))
    if fit_intercept:
        ridge[-1] = 0.0
    free = np.full(len(rows), np.inf)
    shared = (loss, ridge, rows, -free, free)
    # Both classes weigh in the sample what they weigh in all data.
    weight = sample.loss_weight.copy()
    for total, which in zip(totals, (sample.y < 0, sample.y > 0), strict=True):
        if np.any(which):
            weight[which] *= total / weight[which].sum()
    kept = np.flatnonzero(weight > 0)
    X = sample.X if len(kept) == len(weight) else sample.X[kept]  # problems at many prices share the features
    small = Problem(design_of(X, fit_intercept, scale), sample.y[kept], weight[kept], *shared)
    design: Any = RemoteDesign(sums.n_rows, scale, fit_intercept)
    return PartitionedProblem(
        design,
        np.empty(0),
        np.empty(0),
        *shared,
        passes=passes,
        sample=small,
        class_totals=totals,
        least_weight=sums.least_weight * float(min(passes.reading.factors)),
    )


def prepare(
    source: Source,
    engine: Engine,
    *,
    target: str,
    sensitive: Sequence[str] | str = (),
    sample_weight: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    categorical: Sequence[str] = (),
    min_frequency: float = 0.005,
    max_levels: int = 50,
    sample_size: int = 1_000_000,
    seed: int = 0,
    impute: bool = True,
    progress: Report | None = None,
) -> PartitionedStudy:
    """Scan partitioned data: one pass, after which any number of classifiers can be trained.

    Parameters as in :func:`fairmargin.partitioned.fit`. Missing numbers are replaced by the median of the sample;
    unless ``impute``, they raise an error.
    """
    check_count(sample_size, "sample_size")
    layout = make_layout(
        source.schema,
        target=target,
        sensitive=sensitive,
        weight=sample_weight,
        features=features,
        exclude=exclude,
        categorical=categorical,
    )

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress("scan", done, total)

    how: dict[str, Any] = {"sample_size": sample_size, "seed": seed, "impute": impute}
    sums, layout = scan(source, layout, engine, progress=report, **how)
    census, medians = take_census(sums, layout), sample_medians(sums, layout)
    sums = sums.with_medians(medians)
    encoder = fit_encoder(sums, layout, medians, min_frequency=min_frequency, max_levels=max_levels)
    return PartitionedStudy(source, engine, layout, encoder, census, sums, progress)
