"""Train a linear classifier on partitioned data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import (
    Constraint,
    CovarianceBound,
    CovariancePenalty,
    IndividualLossBound,
    LossBound,
    PRuleBound,
)
from fairmargin.diagnostics import Deviations, measure_movement, warn_if_bought, warn_if_constant
from fairmargin.formulations import Outcome, warn_unless_solved
from fairmargin.formulations.task import solve_task
from fairmargin.inputs import is_dask_frame
from fairmargin.linear import FairLinearSVC, FairLogisticRegression, FairMarginClassifier
from fairmargin.notions import compare
from fairmargin.partitioned import solver  # noqa: F401  (registers the solvers of partitioned problems)
from fairmargin.partitioned.contract import Source
from fairmargin.partitioned.engines import current_client, engine_for
from fairmargin.partitioned.individual import check_promises, solve_individual
from fairmargin.partitioned.passes import scores_of
from fairmargin.partitioned.prule import check_path, solve_p_rule
from fairmargin.partitioned.rules import solve_beside_rules
from fairmargin.partitioned.several import solve_beside_promises
from fairmargin.partitioned.sources.parquet import ParquetSource
from fairmargin.partitioned.study import PartitionedStudy, PartitionedTask, Report, prepare
from fairmargin.partitioned.ties import settle
from fairmargin.several import Several, has_rule, notion_of
from fairmargin.tables.model import TabularModel

__all__ = [
    "check_estimator",
    "check_sensitive",
    "fit",
    "fit_study",
    "make_model",
    "needs_sums_only",
    "open_source",
    "store_outcome",
]

Array = NDArray[np.float64]

_SUPPORTED = (type(None), CovarianceBound, CovariancePenalty, LossBound, IndividualLossBound, PRuleBound)


def fit(
    estimator: Any,
    data: Any,
    *,
    target: str,
    sensitive: Sequence[str] | str = (),
    sample_weight: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    categorical: Sequence[str] = (),
    engine: Any = None,
    min_frequency: float = 0.005,
    max_levels: int = 50,
    sample_size: int = 1_000_000,
    seed: int = 0,
    progress: Report | None = None,
) -> TabularModel:
    """Train a linear classifier on data larger than memory.

    The data are read once to learn the encoding and to draw a sample, on which the descent begins, and then once per
    Newton step until the duality gap on all rows is within the estimator's ``tol``. Memory depends on the sample and
    on the size of a partition, not on the number of rows.

    Parameters
    ----------
    estimator : FairLogisticRegression, FairLinearSVC or FairMarginClassifier
        Fitted in place.
    data : path, pattern, list of paths, Dask frame, Spark frame or Source
        Parquet files, folders or patterns such as ``"data/*.parquet"``; a frame; or a source of partitions.
    target : str
        Column with the labels, of two values.
    sensitive : sequence of str
        Columns that the classifier must be fair to; they are no features. Text, truth values and categories are
        groups; numbers with more than two values are taken as numbers.
    sample_weight : str, optional
        Column with the weights of the rows.
    features : sequence of str, optional
        By default all other columns, less ``exclude``.
    categorical : sequence of str
        Columns of numbers to take as categories.
    engine : str, client, session or Engine, optional
        What works on the partitions: ``"local"`` (threads of this computer), ``"dask://host:8786"`` or a Dask client,
        ``"spark://host:7077"`` or a Spark session. By default threads; the current client for a Dask frame, its
        session for a Spark frame.
    min_frequency, max_levels
        As in :meth:`fairmargin.tables.TableEncoder.fit`.
    sample_size : int
        Rows of the sample.
    seed : int
        Of the sample, which does not depend on the engine.
    progress : callable, optional
        ``progress(name of the pass, partitions done, partitions in all)``.

    Returns
    -------
    model : TabularModel
        The fitted estimator with its encoder: decides on frames, and can be saved with :func:`fairmargin.io.save`.
        ``model.estimator`` has the attributes of an in-memory fit; ``diagnostics_`` and ``n_ties_`` are those of the
        sample, and ``training_rates_`` is None except with ``PRuleBound``, whose passes count decisions.
    """
    check_estimator(estimator)
    check_sensitive(estimator, sensitive)
    engine = engine_of(data) if engine is None else engine
    source, opened = open_source(data), engine_for(engine)
    try:
        study = prepare(
            source,
            opened,
            target=target,
            sensitive=sensitive,
            sample_weight=sample_weight,
            features=features,
            exclude=exclude,
            categorical=categorical,
            min_frequency=min_frequency,
            max_levels=max_levels,
            sample_size=sample_size,
            seed=seed,
            progress=progress,
        )
        return fit_study(study, estimator)
    finally:
        if opened is not engine:
            opened.close()


def fit_study(study: PartitionedStudy, estimator: Any) -> TabularModel:
    """Train a classifier on data that were scanned already; see :func:`fit`."""
    check_estimator(estimator)
    check_sensitive(estimator, study.layout.sensitive)
    constraint = estimator._constraint()
    posed = study.task(estimator)
    study.check_treatment(posed)
    if isinstance(constraint, PRuleBound):
        outcome: Outcome = solve_p_rule(study, estimator, posed, constraint)
    elif isinstance(constraint, IndividualLossBound):
        outcome = solve_individual(study, posed, constraint)
    elif isinstance(constraint, Several) and constraint.of(PRuleBound):
        outcome = solve_beside_rules(study, estimator, posed, constraint)
    elif isinstance(constraint, Several) and constraint.of(IndividualLossBound):
        outcome = solve_beside_promises(study, posed, constraint)
    else:
        outcome = settle(posed, solve_task(constraint, posed.task))
    store_outcome(estimator, posed, outcome, constraint)
    proof = estimator.certificate_
    if proof.status == "solved" and outcome.unconstrained is not None:
        proof = outcome.unconstrained.certificate
    warn_unless_solved(proof, max(posed.task.tol, proof.gap if proof.status == "solved" else 0.0))
    return make_model(study, posed, estimator)


def make_model(study: PartitionedStudy, posed: PartitionedTask, estimator: Any) -> TabularModel:
    """Return a fitted estimator with the encoder, and the facts of its training."""
    labels = tuple(str(label) for label in estimator.classes_.tolist())
    facts = {
        "data": {"rows": study.census.n_rows, "fingerprint": study.source.fingerprint},
        "passes": {"scan": 1, **posed.passes.counts},
        "notes": list(study.encoder.notes),
    }
    return TabularModel(
        estimator, study.encoder, study.layout.target, (labels[0], labels[1]), tuple(study.layout.sensitive), facts
    )


def check_estimator(estimator: Any) -> None:
    """Forget an earlier fit; raise unless the estimator can be trained in passes."""
    for name in [name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")]:
        delattr(estimator, name)  # a fit that fails leaves the estimator unfitted
    if not isinstance(estimator, FairLogisticRegression | FairLinearSVC | FairMarginClassifier):
        raise TypeError(
            f"{type(estimator).__name__} needs all rows in memory; partitioned data train FairLogisticRegression, "
            "FairLinearSVC and FairMarginClassifier."
        )
    constraint = estimator._constraint()
    parts = constraint.constraints if isinstance(constraint, Several) else [constraint]
    needing = [one for one in parts if not needs_sums_only(one)]
    if needing:
        named, s = " and ".join(map(repr, needing)), "s" if len(needing) > 1 else ""
        raise ValueError(
            f"The constraint{s} {named} need{'' if s else 's'} all rows in memory; partitioned data support "
            "CovarianceBound, CovariancePenalty, LossBound(norm='max'), IndividualLossBound, a PRuleBound without a "
            f"confidence, and lists of these. {_instead_of(constraint)}"
        )
    check_promises(constraint)
    for one in parts:
        if isinstance(one, PRuleBound):
            check_path(one)


def check_sensitive(
    estimator: Any, sensitive: Sequence[str] | str, asked_as: str = "columns; name them with sensitive=[...]"
) -> None:
    """Raise, before a pass is made, for a constraint without anything to be fair to."""
    constraint = estimator._constraint()
    if constraint is not None and len(sensitive) == 0:
        raise ValueError(
            f"{type(estimator).__name__} with the constraint {constraint!r} needs sensitive {asked_as}, or set "
            "constraint=None for an unconstrained classifier."
        )


def needs_sums_only(constraint: Constraint | None) -> bool:
    """Return whether passes can answer one constraint: from sums over the rows, and a few of them."""
    is_supported = isinstance(constraint, _SUPPORTED) and getattr(constraint, "norm", "max") == "max"
    return is_supported and getattr(constraint, "confidence", None) is None


def _instead_of(constraint: Any) -> str:
    """Return what to do about a constraint that passes cannot answer."""
    if isinstance(constraint, Several):
        return "Leave out what does not bind (constraints_ of a fit() to a sample shows it), or train on a sample."
    return "Train on a sample with fit() instead."


def store_outcome(
    estimator: Any,
    posed: PartitionedTask,
    outcome: Outcome,
    constraint: Constraint | None,
    *,
    warn: bool = True,
) -> None:
    """Turn an outcome into fitted attributes, as a fit in memory does, and warn of what they show."""
    task, solution = posed.task, outcome.solution
    for name in Outcome.all_fitted_attributes() & set(vars(estimator)):
        delattr(estimator, name)
    w, b = task.coefficients(solution)
    estimator.classes_ = task.data.classes
    estimator.coef_, estimator.intercept_ = w[None, :], np.array([b])
    estimator.n_features_in_ = len(w)
    estimator.certificate_, estimator.n_iter_ = solution.certificate, solution.certificate.n_iter
    estimator.covariance_ = estimator.unconstrained_covariance_ = estimator.multipliers_ = None
    estimator.diagnostics_ = estimator.training_rates_ = None
    scores = scores_of(posed.sample.X, solution.theta, posed.passes.fit_intercept)
    tied = np.count_nonzero(np.abs(scores) <= 1e-9 * (float(np.sqrt(np.mean(scores**2))) or 1.0))
    estimator.n_ties_ = outcome.n_ties or int(tied)
    for name, value in outcome.fitted_attributes().items():
        setattr(estimator, name, value)
    if task.compared is None or posed.sample_sensitive is None:
        return
    columns, rows = task.compared, task.problem.rows
    multipliers = solution.multipliers if len(solution.multipliers) else np.zeros(len(rows))
    estimator.covariance_ = columns.series(rows @ solution.theta, "covariance")
    estimator.multipliers_ = columns.series(multipliers[: len(rows)], "multiplier")
    if outcome.unconstrained is None:
        return
    free = outcome.unconstrained
    estimator.unconstrained_covariance_ = columns.series(rows @ free.theta, "covariance")
    before = scores_of(posed.sample.X, free.theta, posed.passes.fit_intercept)
    if warn:
        warn_if_constant(before, scores)
    notion = notion_of(constraint)
    weight = posed.sample.people_weight
    try:
        seen = compare(posed.sample_sensitive, notion, posed.sample.y, weight)
    except ValueError:  # a group that is too rare for the sample
        return
    estimator.diagnostics_ = measure_movement(Deviations(seen.centred, weight), before, scores)
    if warn:
        warn_if_bought(estimator.diagnostics_, columns.labels, has_rule=has_rule(constraint))


def open_source(data: Any) -> Source:
    """Return a source: one that was given, or that of Parquet files or of a frame."""
    if isinstance(data, str | Path):
        return ParquetSource(data)
    if is_dask_frame(data):
        from fairmargin.partitioned.sources.dask import DaskSource

        return DaskSource(data)
    if _is_spark_frame(data):
        from fairmargin.partitioned.sources.spark import spark_source

        return spark_source(data)
    if hasattr(data, "partitions") and hasattr(data, "fingerprint"):
        return data
    if isinstance(data, Iterable):
        return ParquetSource(list(data))
    raise TypeError(f"data must be a path, a pattern, a list of paths or a source of partitions, got {type(data)}.")


def engine_of(data: Any) -> Any:
    """Return what works on a frame unless something else is asked for: its own cluster; None for files."""
    if is_dask_frame(data):
        return current_client()
    return data.sparkSession if _is_spark_frame(data) else None


def _is_spark_frame(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pyspark" and hasattr(data, "sparkSession")
