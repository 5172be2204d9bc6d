"""The most accurate classifier under a bound on the covariance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import CovarianceBound
from fairmargin.formulations.outcome import Outcome, as_sure_as
from fairmargin.formulations.task import Task, solve_task, start_at
from fairmargin.problem import Problem, Solution
from fairmargin.solvers import Start, solve_with_reference
from fairmargin.solvers.ladder import Bind
from fairmargin.tolerances import ROUGH, TINY

__all__ = ["Path", "extrapolate", "solve_bounds", "solve_covariance_bound"]

Array = NDArray[np.float64]

_KEPT = 6  # solutions: more than a cubic needs, so that the errors of single ones cancel
_FARTHEST = 16.0  # sum of the absolute weights that extrapolation may put on known solutions, which amplifies errors


@solve_task.register
def solve_covariance_bound(constraint: CovarianceBound, task: Task) -> Outcome:
    """Return the least objective with every covariance within its bound."""
    thresholds = task.columns.repeated(constraint.thresholds(task.sensitive))

    def bind(problem: Problem, free: Solution) -> Problem:
        bounds = thresholds
        if constraint.relative:
            reference = np.abs(problem.rows @ free.theta)
            bounds = np.where(np.isfinite(thresholds), thresholds, 1.0) * reference
            bounds = np.where(np.isfinite(thresholds), bounds, np.inf)
        return problem.with_bounds(-bounds, bounds)

    return solve_bounds(task, bind, constraint.relative)


def solve_bounds(task: Task, bind: Bind, relative: bool) -> Outcome:
    """Return the least objective under the bounds that ``bind`` makes of the unconstrained solution.

    An absolute bound, if not ``relative``, needs that solution only to compare with.
    """
    near = None if task.near is None else (start_at(task.near.unconstrained), start_at(task.near.solution))
    reference_tol = 0.0 if relative else ROUGH
    free, solution = solve_with_reference(
        task.problem, bind, near=near, accuracy=task.accuracy, reference_tol=reference_tol
    )
    solution = as_sure_as(solution, free) if relative else solution
    return Outcome(solution, bind(task.problem, free), free, is_as_solved=task.region is None)


class Path:
    """The classifiers ``min L s.t. |cov_k| <= t r_k`` for a factor ``t``, each started from its neighbours.

    Parameters
    ----------
    task : Task
    free : Solution
        The unconstrained solution, the point of the path at ``t = 1`` and beyond.
    reach : (K,)
        ``r``, the bounds at ``t = 1``; usually the unconstrained covariances.
    signed : bool
        Whether the covariance must equal ``t r`` (so that ``t`` may be negative) rather than stay within it.
    zero : Solution, optional
        The solution at ``t = 0``, if it is known.
    least : float
        The smallest factor at which there is a solution.
    """

    def __init__(
        self,
        task: Task,
        free: Solution,
        reach: Array,
        signed: bool = False,
        zero: Solution | None = None,
        least: float = 0.0,
    ) -> None:
        self.least = least
        self.free = replace(free, multipliers=np.zeros(task.problem.n_rows))
        self.task, self.reach, self.signed = task, np.asarray(reach, float), signed
        self._solved: dict[float, Solution] = {1.0: self.free} | ({} if zero is None else {0.0: zero})

    def problem(self, t: float) -> Problem:
        """Return the problem at ``t``."""
        return self.pose(self.task.problem, t)

    def pose(self, base: Problem, t: float) -> Problem:
        """Return ``base`` under the bounds at ``t``."""
        if self.signed:
            return base.with_bounds(t * self.reach, t * self.reach)
        bounded = np.isfinite(self.reach)
        bound = np.where(bounded, abs(t) * np.abs(np.where(bounded, self.reach, 0.0)), np.inf)
        return base.with_bounds(-bound, bound)

    def at(self, t: float) -> Solution:
        """Return the solution at ``t``, solved once."""
        if t not in self._solved:
            problem = self.problem(t)
            if not self.signed and problem.violation(self.free.theta) == 0.0:
                self._solved[t] = self.free
            else:
                self._solved[t] = self.task.solve(problem, self._start(t))
        return self._solved[t]

    def trace(self, factors: Sequence[float]) -> Iterator[tuple[float, Solution]]:
        """Yield the solutions at ``factors`` in the order given, neighbours first; only the last few are kept."""
        for t in factors:
            yield t, self.at(t)
            for old in list(self._solved)[:-_KEPT]:
                del self._solved[old]

    def bracket(self, budget: float) -> tuple[float | None, float | None]:
        """Return the nearest factors solved on either side of an objective: above it, and within it."""
        above = [t for t, s in self._solved.items() if s.objective > budget]
        within = [t for t, s in self._solved.items() if s.objective <= budget]
        return max(above, default=None), min(within, default=None)

    def _start(self, t: float) -> Start:
        """Continue the curve through the nearest solutions; their Hessian is nearly the one at ``t``.

        A cubic where the loss is smooth; the path of the hinge loss is made of straight pieces.
        """
        smooth = self.task.problem.loss.smooth
        nearest = sorted(self._solved, key=lambda s: abs(s - t))[: _KEPT if smooth else 2]
        first = self._solved[nearest[0]]
        if first.certificate.status != "solved":
            nearest = nearest[:1]
        share = extrapolate(nearest, t, 3)
        while np.abs(share).sum() > _FARTHEST:  # far extrapolation is worse than none
            nearest = nearest[:-1]
            share = extrapolate(nearest, t, len(nearest) // 2)
        known = [self._solved[s] for s in nearest]
        theta = _combine(share, [s.theta for s in known])
        multipliers = _combine(share, [s.multipliers for s in known])
        if smooth:
            return Start(theta, multipliers, first.hessian, scores=_combine(share, [s.scores for s in known]))
        alpha = self.task.problem.clip_dual(_combine(share, [s.alpha for s in known]))
        return Start(theta, multipliers, first.hessian, alpha)


def _combine(shares: Array, vectors: Sequence[Array]) -> Array:
    """Return a linear combination in the precision of the vectors, which may be long: without a matrix of them."""
    total = vectors[0] * vectors[0].dtype.type(shares[0])
    term = np.empty_like(total)
    for share, vector in zip(shares[1:], vectors[1:], strict=True):
        total += np.multiply(vector, vector.dtype.type(share), out=term)
    return total


def extrapolate(nodes: Sequence[float], t: float, degree: int) -> Array:
    """Return the weights at ``nodes`` of the polynomial, fitted to values there (the nearer the closer), at ``t``."""
    away = np.array(nodes) - t
    closeness = 1.0 / np.maximum(np.abs(away), TINY)
    powers = np.vander(away, min(degree + 1, len(nodes)))
    return np.linalg.pinv(powers * closeness[:, None])[-1] * closeness
