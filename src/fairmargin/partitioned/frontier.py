"""The whole trade-off between accuracy and fairness on partitioned data, all points in the same few passes.

Loss against covariance: the unconstrained classifier is solved first. Then the path is traced on the sample, where it
costs no pass; every point of it, moved by the error that the sample makes in the unconstrained classifier, starts a
solver on all rows. These solvers run in lockstep: each pass evaluates all points that are not solved yet. One more
pass counts the decisions of all points by group.

Accuracy against the p%-rule: a sample is searched at all levels at once, and the points found there are solved and
cut on all rows (:mod:`fairmargin.partitioned.prule`).
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

from fairmargin.caller import warn
from fairmargin.constraints import Constraint, CovarianceBound, PRuleBound
from fairmargin.exceptions import InfeasibleError, TrivialClassifierWarning
from fairmargin.formulations import Outcome, warn_unless_solved
from fairmargin.formulations.covariance import Path
from fairmargin.frontier import Asked, FairnessFrontier, frontier_table
from fairmargin.frontier_points import spaced_levels
from fairmargin.partitioned.counts import Counted
from fairmargin.partitioned.engines import engine_for
from fairmargin.partitioned.points import describe_counted, make_point, table_row
from fairmargin.partitioned.problem import PartitionedProblem
from fairmargin.partitioned.prule import (
    PartitionedPRuleOutcome,
    check_groups,
    fit_twins,
    followed_paths,
    sample_data,
    solve_levels,
)
from fairmargin.partitioned.solver import SAMPLE, solve_together
from fairmargin.partitioned.study import PartitionedStudy, PartitionedTask, prepare
from fairmargin.partitioned.ties import settle
from fairmargin.partitioned.training import check_estimator, open_source
from fairmargin.problem import Solution
from fairmargin.solvers import Start
from fairmargin.tables.model import TabularModel

__all__ = ["PartitionedFrontier", "trace", "trace_levels", "trace_study"]

Array = NDArray[np.float64]

_SEARCHED = 200_000  # rows of the sample that are searched at all levels: a candidate holds a score of each of them


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
    which: str = "covariance",
    levels: Sequence[float] | None = None,
    method: str = "one_vs_rest",
    min_people: int = 1,
    engine: Any = None,
    **columns: Any,
) -> PartitionedFrontier:
    """Trace a frontier on data larger than memory: of least loss and covariance, or of accuracy and the p%-rule.

    Parameters
    ----------
    estimator : FairLogisticRegression, FairLinearSVC or FairMarginClassifier
        Of its constraint only the notion of fairness counts. With a smooth loss all points share every pass; those
        of the hinge loss are solved one after the other, each in two or three passes.
    data : path, pattern, list of paths or Source
    n_points : int
        The unconstrained classifier first and zero covariance last, evenly spaced in the covariance factor; or levels
        of the p%-rule from that which the unconstrained classifier of the sample has there to 100%.
    which : {"covariance", "p_rule"}
        ``"covariance"``: the exact frontier of least loss. ``"p_rule"``: the most accurate classifier found at each
        level; those at which nothing better than the same decision for everybody is found are left out, with a
        warning.
    levels : sequence of float, optional
        With ``which="p_rule"``: levels in percent that are points, too.
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
    if which not in ("covariance", "p_rule"):
        raise ValueError(f"which must be 'covariance' or 'p_rule' for data read in passes, got {which!r}.")
    if levels is not None and which != "p_rule":
        raise ValueError(f"levels are for which='p_rule', and which is {which!r}.")
    check_estimator(_prototype(estimator))
    source, opened = open_source(data), engine_for(engine)
    try:
        study = prepare(source, opened, **columns)
        how: dict[str, Any] = {"n_points": n_points, "method": method, "min_people": min_people}
        if which == "p_rule":
            return trace_levels(study, estimator, levels=levels or (), **how)
        return trace_study(study, estimator, **how)
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
    """Trace the frontier of least loss on data that were scanned already; see :func:`trace`."""
    shown = FairnessFrontier(_prototype(estimator), n_points=n_points, method=method, min_people=min_people)
    posed = _pose(study, shown)
    task, factors = posed.task, np.linspace(1.0, 0.0, n_points).tolist()
    free = task.solve(task.problem.unconstrained())
    path = Path(task, free, task.problem.rows @ free.theta)
    solutions = [path.free, *_solve_points(posed, path, free, factors[1:])]
    outcomes = [settle(posed, Outcome(s, path.problem(t), free)) for s, t in zip(solutions, factors, strict=True)]
    thetas = [outcome.solution.theta for outcome in outcomes]
    counted = posed.passes.rates(thetas, [np.zeros(1)] * len(thetas))
    notion = shown.estimator.constraint.notion
    bounds = [CovarianceBound(round(t, 12), relative=True, notion=notion) for t in factors]
    made = _assemble(study, posed, shown, [{"factor": t} for t in factors], bounds, outcomes, counted, counted[0])
    warn_unless_solved(max((s.certificate for s in solutions), key=lambda c: (c.status != "solved", c.gap)), task.tol)
    return made


def trace_levels(
    study: PartitionedStudy,
    estimator: Any,
    *,
    n_points: int = 21,
    levels: Sequence[float] = (),
    method: str = "one_vs_rest",
    min_people: int = 1,
) -> PartitionedFrontier:
    """Trace the frontier of the p%-rule on data that were scanned already; see :func:`trace`."""
    notion = _prototype(estimator).constraint.notion
    rule = PRuleBound(80, notion=notion, method=method, min_people=min_people)
    how: dict[str, Any] = {"n_points": n_points, "which": "p_rule", "levels": list(levels)}
    prototype = clone(estimator).set_params(constraint=rule)
    shown = FairnessFrontier(prototype, method=method, min_people=min_people, **how)
    study = replace(study, sums=replace(study.sums, sample=study.sums.sample.cut(_SEARCHED)))
    posed = _pose(study, shown)
    check_groups(posed, rule)
    task = posed.task
    twins = _search_sample(study, posed, shown, rule)
    models = [e for twin in twins for e in twin.estimators_]
    points = list({(e.path_, str(e.path_point_)): (e.path_, e.path_point_) for e in models}.values())
    free = task.solve(task.problem.unconstrained())
    asked = sorted({level for twin in twins for level in twin.table_["level"]})
    found, of_free = solve_levels(study, posed, rule, free, [("unconstrained", None), *points], asked)
    kept = [(level, outcome) for level, outcome in zip(asked, found, strict=True) if outcome.reached >= level]
    if not kept:
        raise InfeasibleError(
            "No classifier found reaches any level of the frontier on all rows. Take a larger sample, or merge small "
            "groups."
        )
    bounds = [replace(rule, p=level) for level, _ in kept]
    outcomes = [outcome for _, outcome in kept]
    places = [{"level": level} for level, _ in kept]
    made = _assemble(study, posed, shown, places, bounds, outcomes, [o.counted for o in outcomes], of_free)
    made.frontier.n_looked_at_ = sum(twin.n_looked_at_ for twin in twins)
    worst = max((o.path_certificate for o in outcomes), key=lambda c: (c.status != "solved", c.gap))
    warn_unless_solved(worst, task.tol)
    _warn_of_constant(spaced_levels(asked[0], n_points, levels), kept)
    return made


def _search_sample(
    study: PartitionedStudy, posed: PartitionedTask, shown: FairnessFrontier, rule: PRuleBound
) -> list[FairnessFrontier]:
    """Return frontiers on the sample of rows, one for each path that passes can follow."""
    favourable = posed.task.data.classes.tolist()[1]
    twins = []
    for path in followed_paths(rule):
        twin = clone(shown)
        twin.estimator.set_params(pos_label=favourable, constraint=replace(rule, path=path))
        twins.append(twin)
    return fit_twins(twins, *sample_data(study, posed))


def _warn_of_constant(asked: Sequence[float], kept: Sequence[tuple[float, PartitionedPRuleOutcome]]) -> None:
    """Warn of levels at which no decisions that differ between people were found."""
    below = [level for level, outcome in kept if not outcome.is_constant]
    missing = [level for level in asked if level not in below]
    if missing:
        listed = ", ".join(f"{level:.4g}%" for level in missing)
        ends = f" The frontier ends at {below[-1]:.4g}%." if below else ""
        warn(
            f"Nothing better than deciding the same for everybody was found at {listed} of the p%-rule.{ends}",
            TrivialClassifierWarning,
        )


def _pose(study: PartitionedStudy, shown: FairnessFrontier) -> PartitionedTask:
    """Check what is asked for and write down the problem."""
    shown._check_parameters()
    check_estimator(shown.estimator)
    if study.census.sensitive is None:
        raise ValueError("A frontier needs sensitive columns; name them with sensitive=[...].")
    posed = study.task(shown.estimator)
    study.check_treatment(posed)
    return posed


def _assemble(
    study: PartitionedStudy,
    posed: PartitionedTask,
    shown: FairnessFrontier,
    places: Sequence[dict[str, float]],
    bounds: Sequence[Constraint],
    outcomes: Sequence[Outcome],
    counted: Sequence[Counted],
    of_free: Counted,
) -> PartitionedFrontier:
    """Return solved points, and the unconstrained classifier, with the decisions of each, as a fitted frontier."""
    prototype, notion = shown.estimator, shown.estimator.constraint.notion
    free = outcomes[0].unconstrained
    assert free is not None
    points = list(zip(bounds, outcomes, counted, strict=True))
    models = [make_point(study, posed, prototype, *point) for point in points]
    rows = []
    for place, model, people in zip(places, models, counted, strict=True):
        measured = describe_counted(study, people, notion, method=shown.method, min_people=shown.min_people)
        rows.append({**place, **table_row(posed, model.estimator), **measured})
    shown.classes_, shown.estimators_ = posed.task.data.classes, [model.estimator for model in models]
    shown.table_ = frontier_table(rows, free.objective, posed.task.problem, in_loss=shown.which != "p_rule")
    nothing = Outcome(free, posed.task.problem.unconstrained(), free)
    shown.unconstrained_ = make_point(study, posed, prototype, None, nothing, of_free).estimator
    shown.n_looked_at_ = 0
    shown._asked = Asked(notion, in_strata=False)
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
