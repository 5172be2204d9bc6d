"""The whole trade-off between loss and covariance on partitioned data, all points in the same few passes.

The unconstrained classifier is solved first. Then the path is traced on the sample, where it costs no pass; every
point of it, moved by the error that the sample makes in the unconstrained classifier, starts a solver on all rows.
These solvers run in lockstep: each pass evaluates all points that are not solved yet. One more pass counts the
decisions of all points by group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from fairmargin.constraints import Constraint, CovarianceBound
from fairmargin.decisions import GroupCounts
from fairmargin.formulations import Outcome, warn_unless_solved
from fairmargin.formulations.covariance import Path
from fairmargin.frontier import Asked, FairnessFrontier, describe_decisions, frontier_table
from fairmargin.notions import get_notion
from fairmargin.partitioned.counts import accepted_weight, count_decisions, training_rates
from fairmargin.partitioned.engines import engine_for
from fairmargin.partitioned.problem import PartitionedProblem
from fairmargin.partitioned.solver import SAMPLE, solve_together
from fairmargin.partitioned.study import PartitionedStudy, PartitionedTask, prepare
from fairmargin.partitioned.training import check_estimator, make_model, open_source, store_outcome
from fairmargin.problem import Solution
from fairmargin.solvers import Start
from fairmargin.tables.model import TabularModel

__all__ = ["PartitionedFrontier", "trace", "trace_study"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PartitionedFrontier:
    """A frontier on partitioned data.

    Attributes
    ----------
    frontier : FairnessFrontier
        With ``table_`` (measured on all rows), ``estimators_``, ``select`` and ``plot`` as after a fit in memory.
    models : list of TabularModel, one per point
        The fitted estimators with the encoder: they decide on frames and can be saved. Their ``training_rates_`` are
        those of all rows.
    """

    frontier: FairnessFrontier
    models: list[TabularModel]

    @property
    def table(self) -> pd.DataFrame:
        """One row per point; see :class:`fairmargin.FairnessFrontier`."""
        return self.frontier.table_

    def select(
        self,
        *,
        p_rule: float | None = None,
        max_loss_increase: float | None = None,
        covariance: float | None = None,
    ) -> TabularModel:
        """Return the model that answers one question, as :meth:`fairmargin.FairnessFrontier.select` does."""
        index = self.frontier.select_index(p_rule=p_rule, max_loss_increase=max_loss_increase, covariance=covariance)
        return self.models[index]


def trace(
    estimator: Any,
    data: Any,
    *,
    n_points: int = 21,
    method: str = "one_vs_rest",
    min_people: int = 1,
    engine: Any = None,
    **columns: Any,
) -> PartitionedFrontier:
    """Trace the frontier of least loss under bounds on the covariance, on data larger than memory.

    Parameters
    ----------
    estimator : FairLogisticRegression, FairLinearSVC or FairMarginClassifier
        Of its constraint only the notion of fairness counts. With a smooth loss all points share every pass; those
        of the hinge loss are solved one after the other, each in two or three passes.
    data : path, pattern, list of paths or Source
    n_points : int
        The unconstrained classifier first and zero covariance last, evenly spaced in the covariance factor.
    method, min_people
        How groups are compared, as in :class:`fairmargin.FairnessFrontier`.
    engine : str, client, session or Engine, optional
    **columns
        ``target``, ``sensitive``, ``sample_weight``, ``features``, ``exclude``, ``sample_size`` and the other
        parameters of :func:`fairmargin.partitioned.fit` that say how to read the data.

    Returns
    -------
    frontier : PartitionedFrontier
    """
    check_estimator(_prototype(estimator))
    source, opened = open_source(data), engine_for(engine)
    try:
        study = prepare(source, opened, **columns)
        return trace_study(study, estimator, n_points=n_points, method=method, min_people=min_people)
    finally:
        if opened is not engine:
            opened.close()


def trace_study(
    study: PartitionedStudy,
    estimator: Any,
    *,
    n_points: int = 21,
    method: str = "one_vs_rest",
    min_people: int = 1,
) -> PartitionedFrontier:
    """Trace the frontier on data that were scanned already; see :func:`trace`."""
    shown = FairnessFrontier(_prototype(estimator), n_points=n_points, method=method, min_people=min_people)
    shown._check_parameters()
    check_estimator(shown.estimator)
    if study.census.sensitive is None:
        raise ValueError("A frontier needs sensitive columns; name them with sensitive=[...].")
    posed = study.task(shown.estimator)
    study.check_treatment(posed)
    task, factors = posed.task, np.linspace(1.0, 0.0, n_points).tolist()
    free = task.solve(task.problem.unconstrained())
    path = Path(task, free, task.problem.rows @ free.theta)
    solutions = [path.free, *_solve_points(posed, path, free, factors[1:])]
    thetas = [s.theta for s in solutions]
    counted = posed.passes.rates(thetas, [np.zeros(1)] * len(thetas))
    decisions = [_describe(study, found, shown) for found in counted]
    bounds: list[Constraint] = [
        CovarianceBound(round(t, 12), relative=True, notion=shown.estimator.constraint.notion) for t in factors
    ]
    problems = [path.problem(t) for t in factors]
    models = [
        _model(study, posed, shown.estimator, bound, Outcome(solution, problem, free))
        for bound, solution, problem in zip(bounds, solutions, problems, strict=True)
    ]
    for model, found in zip(models, counted, strict=True):
        model.estimator.training_rates_ = training_rates(study.census, found)
    shown.classes_, shown.estimators_ = task.data.classes, [model.estimator for model in models]
    nothing = Outcome(path.free, task.problem.unconstrained(), free)
    shown.unconstrained_ = _model(study, posed, shown.estimator, None, nothing).estimator
    shown.unconstrained_.training_rates_ = models[0].estimator.training_rates_
    rows = [
        {"factor": t, "objective": s.objective, **_by_column(posed, model.estimator), **measured}
        for t, s, model, measured in zip(factors, solutions, models, decisions, strict=True)
    ]
    shown.table_ = frontier_table(rows, free.objective, task.problem)
    shown._asked = Asked(shown.estimator.constraint.notion, in_strata=False)
    warn_unless_solved(max((s.certificate for s in solutions), key=lambda c: (c.status != "solved", c.gap)), task.tol)
    return PartitionedFrontier(shown, models)


def _prototype(estimator: Any) -> Any:
    notion = getattr(getattr(estimator, "constraint", None), "notion", CovarianceBound.notion)
    return clone(estimator).set_params(constraint=CovarianceBound(notion=notion))


def _solve_points(posed: PartitionedTask, path: Path, free: Solution, factors: Sequence[float]) -> list[Solution]:
    """Return the solutions at all factors, found in the same passes."""
    problem, task = posed.task.problem, posed.task
    assert isinstance(problem, PartitionedProblem)
    starts = _starts(posed, path, free, factors)
    points = zip(factors, starts, strict=True)
    return solve_together(problem, [partial(task.solve, path.problem(t), start) for t, start in points])


def _starts(posed: PartitionedTask, path: Path, free: Solution, factors: Sequence[float]) -> Sequence[Start | None]:
    """Return starts from the path on the sample.

    The error of the sample in the unconstrained classifier, and in its Hessian, is nearly that at every point.
    """
    problem = posed.task.problem
    assert isinstance(problem, PartitionedProblem)
    small = problem.on_sample()
    if not problem.loss.smooth or abs(small.y.sum()) == len(small.y):
        return [None] * len(factors)
    task = replace(posed.task, problem=small, tol=SAMPLE.tol, max_iter=SAMPLE.max_iter)
    reference = task.solve(small.unconstrained())
    shift = free.theta - reference.theta
    missing = None if free.hessian is None or reference.hessian is None else free.hessian - reference.hessian
    found = []
    for _, solution in Path(task, reference, path.reach).trace(list(factors)):
        hessian = None if missing is None or solution.hessian is None else solution.hessian + missing
        found.append(Start(solution.theta + shift, solution.multipliers, hessian))
    return found


def _model(
    study: PartitionedStudy, posed: PartitionedTask, prototype: Any, constraint: Constraint | None, outcome: Outcome
) -> TabularModel:
    estimator = clone(prototype).set_params(constraint=constraint)
    store_outcome(estimator, posed, outcome, constraint, warn=False)
    return make_model(study, posed, estimator)


def _by_column(posed: PartitionedTask, fitted: Any) -> dict[str, float]:
    """Return covariances and multipliers by column of the table."""
    found: dict[str, float] = {}
    for word, series in (("covariance", fitted.covariance_), ("multiplier", fitted.multipliers_)):
        found |= {
            f"{word}[{name}]": float(value) for name, value in zip(posed.task.columns.names, series, strict=True)
        }
    return found


def _describe(
    study: PartitionedStudy, found: Sequence[tuple[NDArray[np.int64], Array]], shown: FairnessFrontier
) -> dict[str, float]:
    """Return accuracy, p%-rule, CV score and rates of one point on all rows, from people counted at its cut."""
    conditions = get_notion(shown.estimator.constraint.notion).conditions(np.array([-1.0, 1.0]))
    counts = [_at_zero(c) for c in count_decisions(study.census, found, conditions, shown.min_people)]
    weight = found[0][1].sum(axis=1).astype(float)  # (2, 2): class, refused or accepted
    accepted = accepted_weight(weight)[:, 0]
    accuracy = (accepted[1] + weight[0].sum() - accepted[0]) / weight.sum()
    return describe_decisions(float(accuracy), counts, "train", shown.method)


def _at_zero(counts: GroupCounts) -> GroupCounts:
    return replace(counts, positives=counts.positives[:, 0])
