"""Several convex constraints: one convex problem, with one certificate.

Bounds on covariances of all notions are rows of A, promises are further rows, and a bound on the penalty is a ball.
What is left to be found are the bounds on those covariances that are to be as small as possible: they are the least
factor ``t`` of ``|cov_k| <= t unit_k`` that promises leave room for (a linear program) and that the budget of loss
affords (a root of the convex ``V(t)``, the least loss at ``t``), or the covariances that their prices are worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import LossBound
from fairmargin.exceptions import InfeasibleError
from fairmargin.formulations.covariance import Path
from fairmargin.formulations.loss import least_factor as within_budget
from fairmargin.formulations.loss import least_sum
from fairmargin.formulations.outcome import as_sure_as
from fairmargin.formulations.performance import least_worthwhile
from fairmargin.formulations.prices import Prices
from fairmargin.formulations.promises import BINDING
from fairmargin.formulations.region import LeastFactor, Region, least_factor
from fairmargin.formulations.several.demands import Demands
from fairmargin.formulations.task import Task
from fairmargin.problem import Problem, Solution
from fairmargin.solvers import Start
from fairmargin.tolerances import HAIR, ROUGH

__all__ = ["afforded_bounds", "check_feasible", "solve_convex"]

Array = NDArray[np.float64]

_HALVINGS = 40  # of the share of prices that a budget affords: to the last digits of the objective
# Relative, of the share that a floor affords: nearer to its end, scores of equal rank are about to part, and an AUC
# that takes them for equal says little.
_FLOOR_RESOLUTION = 1e-3


def check_feasible(demands: Demands) -> Solution:
    """Return the least loss within all bounds and promises; raise where they or a budget leave no classifier."""
    free, problem = demands.free, demands.task.problem
    bounds = demands.bounds
    bounded = np.flatnonzero(np.isfinite(bounds))
    excess = np.maximum(np.abs(problem.rows[bounded] @ free.theta) - bounds[bounded], 0.0)
    missed = excess > problem.room(free.theta)[bounded]
    if np.any(missed) and demands.promises is not None:
        # From the unconstrained classifier, which keeps every promise, to the bounds: which share of the way is left?
        excess = np.where(missed, excess, 0.0)
        left = least_factor(
            problem, free, problem.rows[bounded], bounds[bounded], excess, demands.promises, demands.radius
        )
        if left.factor > ROUGH:
            raise InfeasibleError("The promises to people leave no room for the bounds on covariances.")
        demands.region.working = left.working
    base = _within(demands)
    if base.objective > demands.budget * (1.0 + HAIR):
        raise InfeasibleError("The least loss under the other constraints exceeds the bound on the loss.")
    if not demands.rules and not demands.performs(base.scores):
        named = " and ".join(f.constraint.measure for f in demands.floors if not f.keeps(base.scores))
        raise InfeasibleError(f"The least loss under the other constraints loses more of the {named} than allowed.")
    return base


def _within(demands: Demands) -> Solution:
    """Return the least loss within the region."""
    task, free = demands.task, demands.free
    bounds = demands.bounds
    problem = task.problem.with_bounds(-bounds, bounds)
    if demands.promises is None and problem.violation(free.theta) <= 0.0:
        return replace(free, multipliers=np.zeros(problem.n_rows))
    start = Start(free.theta, hessian=free.hessian)
    _, solution = demands.region.solve_written(problem, start, task.accuracy)
    return replace(solution, multipliers=solution.multipliers[: problem.n_rows])


def solve_convex(demands: Demands, base: Solution) -> tuple[Problem, Solution, float | None]:
    """Return the problem with all rows, its solution, and the least factor where a covariance is minimised."""
    least = paid = None
    if np.any(demands.prices > 0):
        judged = paid = _paid(demands, base)
        bounds, factor = np.minimum(demands.bounds, _paid_bounds(demands, paid)), None
    else:
        least = _least_promised(demands)
        bounds, factor, judged = _least_bounds(demands, base, least)
    task = demands.task
    promises, radius = demands.promises, demands.radius
    last = Region.of_promises(promises, radius, task.problem.rows.shape[1], demands.region.working)
    start = Start(base.theta, hessian=base.hessian)
    problem, solution = last.solve_written(task.problem.with_bounds(-bounds, bounds), start, task.accuracy)
    if not demands.performs(solution.scores):  # a loss with corners may have several solutions
        solution = _proved_by(solution, problem, judged, task.tol)
    if paid is not None:  # the last solution proves the loss at these covariances, not that they are worth it
        solution = as_sure_as(solution, paid)
    return problem, solution if least is None else least.as_sure(solution), factor


def _proved_by(proof: Solution, problem: Problem, judged: Solution, tol: float) -> Solution:
    """Return a solution of a problem that was found before, with the dual variables of another one as its proof."""
    value, shown = problem.objective(judged.theta, judged.scores), proof.certificate
    gap, violation = problem.relative_gap(value, shown.dual_bound), problem.violation(judged.theta)
    is_proved = gap <= max(tol, shown.gap) and problem.is_feasible(judged.theta)
    status = shown.status if shown.status != "solved" or is_proved else "inaccurate"
    certificate = replace(shown, objective=value, gap=gap, violation=violation, status=status)
    return replace(judged, multipliers=proof.multipliers, alpha=proof.alpha, certificate=certificate)


def _least_bounds(
    demands: Demands, base: Solution, promised: LeastFactor | None
) -> tuple[Array, float | None, Solution]:
    """Return the bounds on all covariances, with those to be minimised at their least, and what is worth enough.

    That is a solution within these bounds where there is a floor, and else of no use.
    """
    task = replace(demands.task, region=demands.region)
    bounds, rows = demands.bounds, task.problem.rows
    if demands.least is None:
        return bounds, None, base
    constraint, unit, largest = demands.least
    counted = np.isfinite(unit)
    if not np.any(counted):
        return bounds, 1.0, base
    # Of what promises leave room for a little more, so that there is an inside.
    least = 0.0 if promised is None else max(promised.factor * (1.0 + BINDING), HAIR)
    if not np.isfinite(demands.budget) and not demands.floors:
        return np.minimum(bounds, _times(least, unit)), least * largest, base
    task = replace(task, tol=min(task.tol, HAIR))  # a root search needs the losses better than its own accuracy
    if isinstance(constraint, LossBound) and constraint.norm == "sum" and counted.sum() > 1:
        summed, judged = _least_sum(demands, base, unit)
        return np.minimum(bounds, summed), None, judged
    # The base is where nothing more is asked: the far end of the path.
    far = float(np.max(np.abs(rows[counted] @ base.theta) / unit[counted]))
    if far <= least:
        return np.minimum(bounds, _times(least, unit)), least * largest, base
    path = Path(task, base, _times(far, unit), least=least / far)
    t, judged = within_budget(path, demands.budget) if np.isfinite(demands.budget) else (path.least, base)
    if demands.floors:
        t, judged = least_worthwhile(path, demands.performs, t)
    return np.minimum(bounds, _times(t * far, unit)), t * far * largest, judged


def _paid(demands: Demands, base: Solution) -> Solution:
    """Return the solution at the prices or, where the budget does not afford it, at the largest share that it does.

    With a multiplier ``mu`` of the budget, ``(1 + mu) L + price |cov|`` is minimised: the solution at a share
    ``1 / (1 + mu)`` of the prices.
    """

    def affords(solution: Solution) -> bool:
        return solution.objective <= demands.budget * (1.0 + HAIR)

    def within(solution: Solution) -> bool:
        return affords(solution) and demands.performs(solution.scores)

    prices = Prices(replace(demands.task, region=demands.region), base, demands.prices)
    best, low, high = prices.at(1.0), 0.0, 1.0
    if within(best):
        return best
    best, beyond = base, best
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        here = prices.at(middle)
        if within(here):
            best, low = here, middle
        else:
            beyond, high = here, middle
        if affords(beyond) and high - low <= _FLOOR_RESOLUTION * high:
            return best
    return as_sure_as(best, beyond)  # that the budget affords no more is shown by the point beyond it


def afforded_bounds(demands: Demands, base: Solution) -> Array:
    """Return the bounds on covariances that the prices correspond to, (K,)."""
    return _paid_bounds(demands, _paid(demands, base))


def _paid_bounds(demands: Demands, paid: Solution) -> Array:
    """Return the covariances that are charged for, as bounds."""
    return np.where(demands.prices > 0, demands.task.problem.attained(paid.theta), np.inf)


def _least_promised(demands: Demands) -> LeastFactor | None:
    """Return the least factor that promises and bounds leave room for, None where nothing of that is asked."""
    if demands.promises is None or demands.least is None:
        return None
    unit = demands.least[1]
    problem, counted = demands.task.problem, np.isfinite(unit)
    if not np.any(counted):
        return None
    asked = np.flatnonzero(counted | np.isfinite(demands.bounds))
    # A covariance that is bounded and minimised has two rows.
    fixed = asked[np.isfinite(demands.bounds[asked])]
    moving = asked[counted[asked]]
    A = problem.rows[np.concatenate([fixed, moving])]
    base = np.concatenate([demands.bounds[fixed], np.zeros(len(moving))])
    grows = np.concatenate([np.zeros(len(fixed)), unit[moving]])
    found = least_factor(problem, demands.free, A, base, grows, demands.promises, demands.radius)
    demands.region.working = demands.region.working.joined(found.working)
    return found


def _least_sum(demands: Demands, base: Solution, unit: Array) -> tuple[Array, Solution]:
    """Return bounds on the covariances of the least sum or, of those worth enough, of the one nearest to it found.

    The solution is the one that was found worth enough.
    """
    task = replace(demands.task, region=demands.region, tol=min(demands.task.tol, HAIR))
    zero = None
    if demands.promises is None:
        none = np.where(np.isfinite(unit), 0.0, np.inf)
        zero = task.solve(task.problem.with_bounds(-none, none), Start(base.theta, hessian=base.hessian))
    found = least_sum(task, base, zero, unit, demands.budget)
    least, most = (np.where(np.isfinite(unit), task.problem.attained(s.theta), np.inf) for s in (found, base))
    if demands.performs(found.scores):
        return least, found
    between = _Between(task, base, least, most)
    t, judged = least_worthwhile(between, demands.performs)
    return between.bounds(t), judged


class _Between:
    """The least losses under bounds from ``most``, the covariances of a start, at 1 to ``least`` at 0."""

    def __init__(self, task: Task, start: Solution, least: Array, most: Array) -> None:
        self.task, self.start, self.least, self.most = task, start, least, most

    def bounds(self, t: float) -> Array:
        """Return the bounds at ``t``."""
        finite = np.isfinite(self.least)
        rise = np.maximum(np.where(finite, self.most, 0.0) - np.where(finite, self.least, 0.0), 0.0)
        return self.least + t * rise

    def at(self, t: float) -> Solution:
        """Return the solution at ``t``: at 1 the start, which has the least loss of all."""
        if t == 1.0:
            return self.start
        bounds = self.bounds(t)
        start = Start(self.start.theta, hessian=self.start.hessian)
        return self.task.solve(self.task.problem.with_bounds(-bounds, bounds), start)

    def trace(self, factors: Sequence[float]) -> Iterator[tuple[float, Solution]]:
        """Yield several."""
        return ((t, self.at(t)) for t in factors)


def _times(t: float, unit: Array) -> Array:
    return np.where(np.isfinite(unit), t * np.where(np.isfinite(unit), unit, 0.0), np.inf)
