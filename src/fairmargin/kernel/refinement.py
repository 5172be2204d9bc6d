"""Refinement: directions are added to a span until the full kernel's certificate holds.

The stationarity condition shows what is missing. With multipliers ``alpha`` of the losses and ``nu`` of the
covariances, the optimum over the whole space H of the kernel is

    f = sum_i beta_i phi(x_i),   beta_i = alpha_i y_i - sum_k nu_k s_i (z_ik - zbar_k) / S,

and the optimum over a span is the projection ``P f`` of that. The part outside, ``(I - P) f``, is added to the span,
and half its squared norm is exactly the difference between the dual bound over the span and the lower one over H. So
each round adds this one direction, solves again from the last solution, and knows its distance to the optimum with
the full kernel. Every row with a nonzero ``beta_i`` takes part in the expansion of ``f``.

Meanwhile the corner of a hinge loss is rounded around the multipliers of the previous round: the method of
multipliers (:mod:`fairmargin.solvers.hinge.multipliers`), one step of it on each span. A few Newton steps lead from
one span to the next. The results are multipliers of the hinge loss, whose certificate shows what the rounding costs.
The rounded part is narrowed only where it costs more than what the span lacks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import Constraint, CovarianceBound
from fairmargin.formulations import Outcome, Task
from fairmargin.formulations.task import solve_task, start_at
from fairmargin.kernel.certificate import covariance_weights
from fairmargin.kernel.span import Expansion, Span
from fairmargin.losses import SmoothedHingeLoss
from fairmargin.problem import Solution
from fairmargin.solvers import Start
from fairmargin.solvers.hinge.envelope import HingeEnvelope

__all__ = ["refine"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_ROUNDS = 100
_FIRST_WIDTH, _LEAST_WIDTH = 0.1, 1e-4  # of a hinge loss's corner, rounded while the span grows
_SHRINK = 0.4  # of that width, where the rounding costs more than what the span lacks
_FIRST_TOL = 1e-2
_SOLVED_SHARE = 0.06  # of the gap that rounding and span leave
_REFERENCE_SHARE = 0.3  # of the tolerance, to which the rounded unconstrained problem is solved
_AIM = 0.9  # share of the tolerance to refine to: the certificate is computed afresh from the function that predicts
_LACKING = 0.7  # share of that aim which the span alone may leave
_SINGLES = 32  # rows per round whose own phi(x_i) is added


def refine(task: Task, constraint: Constraint | None, tol: float, both: bool = False) -> Task:
    """Return the task on a span whose optimum is within ``tol`` of the full kernel's, and a solution to start from.

    With ``both``, that holds without a constraint as well as under it.
    If ``tol`` cannot be reached because the kernel matrix is numerically singular, the refinement stops at the best
    span found, and the certificate of the final solution shows the gap.
    """
    return _Refinement(task, constraint, tol, both).run(task)


class _Multipliers:
    """The function that the multipliers of a solution stand for, kept up to date as they change.

    ``own`` is its part ``sum_i alpha_i y_i phi(x_i)``, ``change`` how much each ``alpha_i`` changed last.
    """

    def __init__(self, n: int) -> None:
        self.function = self.own = Expansion(np.zeros(n), np.zeros(n))
        self.change = np.zeros(n)

    def aim(self, task: Task, solution: Solution) -> Array:
        """Return the change of ``own.beta`` towards the multipliers of a solution, 0 where it is only rounding."""
        target = solution.alpha * task.problem.y
        change = target - self.own.beta
        self.change = np.abs(change)
        return np.where(self.change > 1e-10 * np.max(np.abs(target), initial=0.0), change, 0.0)

    def move(self, change: Expansion, covariance: Expansion | None) -> None:
        """Change ``own``, and add to it the part of the covariances."""
        self.function = self.own = self.own + change
        if covariance is not None:
            self.function = self.own + covariance


class _Refinement:
    """The state of a refinement: functions of the multipliers, and the rows that are in the span on their own.

    ``covariance_values`` (N, K) are the values of ``u_k = sum_i s_i (z_ik - zbar_k) / S phi(x_i)``, for which
    ``cov_k = <u_k, f>``; they are computed at the first use.
    """

    def __init__(self, task: Task, constraint: Constraint | None, tol: float, both: bool) -> None:
        span = _span(task)
        n = len(span.gram)
        self.aim = _AIM * max(tol, task.tol)
        self.finest = max(0.1 * self.aim, task.tol)
        self.constraint, self.both = constraint, both
        self.free, self.bound = _Multipliers(n), _Multipliers(n)
        self.covariance_beta = covariance_weights(task)
        self.covariance_values: Array | None = None
        self._own = np.zeros(n, dtype=bool)
        self._own[span.found.landmarks] = True
        self._first = True

    def run(self, task: Task) -> Task:
        """Solve and extend the span in turn."""
        exact, width, tol, worst = task.problem.loss.smooth, _FIRST_WIDTH, _FIRST_TOL, 0.0
        for _ in range(_ROUNDS):
            # Newton's method converges so fast that smooth losses may as well be solved accurately at once.
            rounded = task if exact else _round_corner(task, width)
            outcome = self._solve(replace(rounded, tol=0.5 * self.finest if exact else max(tol, self.finest)))
            task = replace(task, near=outcome)
            lacking, worst = self._measure(task, outcome)
            corner = 0.0 if exact else _gap(task, outcome)
            if worst + corner <= self.aim:
                if exact or not self._needs_reference():
                    break
                exact = True  # the hinge loss itself will be solved, whose multipliers may lack more
                continue
            bigger = self._extend(_span(task), lacking) if lacking else None
            if bigger is not None:
                larger = task.on(bigger)
                task = replace(larger, near=_lift(outcome, task, larger))
            elif corner <= self.finest or width < _LEAST_WIDTH:
                break
            if bigger is None or corner > worst:
                width *= _SHRINK
            tol = min(tol, _SOLVED_SHARE * (worst + corner))
        return self._finish(task, worst)

    def _finish(self, task: Task, lacking: float) -> Task:
        """Return the task at the end of a refinement, with the tolerance that the span leaves."""
        task = replace(task, feature_map=replace(_span(task), refined=True), tol=self.finest)
        near = task.near
        if task.problem.loss.smooth or near is None or self._needs_reference():
            return task
        tol = max(self.aim - lacking, self.finest)
        if near.unconstrained is None:
            near = replace(near, unconstrained=_solve_rounded(task, near.solution, tol))
        return replace(task, near=near, tol=tol)

    def _needs_reference(self) -> bool:
        """Whether the unconstrained solution must be accurate: asked for, or what the constraint is relative to."""
        constraint = self.constraint
        if self.both:
            return True
        return constraint is not None and not (isinstance(constraint, CovarianceBound) and not constraint.relative)

    def _solve(self, task: Task) -> Outcome:
        """Return the outcome on a span, without the unconstrained solution where the bounds do not depend on it."""
        if not isinstance(self.constraint, CovarianceBound):
            return solve_task(self.constraint, task)
        bound = task.columns.repeated(self.constraint.thresholds(task.sensitive))
        if self.both or (self.constraint.relative and np.any(bound[np.isfinite(bound)] > 0)):
            return solve_task(self.constraint, task)
        problem = task.problem.with_bounds(-bound, bound)
        near = None if task.near is None else start_at(task.near.solution)
        return Outcome(task.solve(problem, near), problem)

    def _measure(self, task: Task, outcome: Outcome) -> tuple[list[_Multipliers], float]:
        """Return the functions that the span lacks, and the largest relative cost of lacking them."""
        pairs = [(self.bound, outcome.solution)]
        if outcome.unconstrained is not None and outcome.unconstrained is not outcome.solution:
            pairs.append((self.free, outcome.unconstrained))
        self._update(task, pairs)
        lacking, worst = [], 0.0
        for multipliers, solution in pairs:
            missing = 0.5 * _span(task).outside(multipliers.function)
            missing /= task.problem.gap_unit(solution.objective)
            worst = max(worst, missing)
            if missing > _LACKING * self.aim:
                lacking.append(multipliers)
        return lacking, worst

    def _update(self, task: Task, pairs: list[tuple[_Multipliers, Solution]]) -> None:
        """Take over the multipliers of solutions, in one pass over the rows whose multipliers changed."""
        changes = [multipliers.aim(task, solution) for multipliers, solution in pairs]
        first = self.covariance_values is None and any(np.any(solution.multipliers) for _, solution in pairs)
        coef = np.column_stack([*changes, self.covariance_beta] if first else changes)
        moved = np.flatnonzero(np.any(coef, axis=1))
        values = _span(task).gram.apply(moved, coef[moved])
        if first:
            self.covariance_values = values[:, len(pairs) :]
        for k, (multipliers, solution) in enumerate(pairs):
            covariance = None
            if np.any(solution.multipliers):
                assert self.covariance_values is not None
                covariance = Expansion(
                    -self.covariance_beta @ solution.multipliers, -self.covariance_values @ solution.multipliers
                )
            multipliers.move(Expansion(changes[k], values[:, k]), covariance)

    def _extend(self, span: Span, lacking: list[_Multipliers]) -> Span | None:
        # Multipliers that keep changing are those between their bounds: such rows get functions of their own.
        change = np.sum([multipliers.change for multipliers in lacking], axis=0)
        change[self._own] = 0.0
        # Rounded, so that equal changes (of equal rows, of multipliers at their bounds) tie on every machine.
        order = span.gram.order
        ranking = np.round(change[order] / max(float(change.max()), np.finfo(float).tiny), 6)
        restless = order[np.argsort(-ranking, kind="stable")[: 0 if self._first else _SINGLES]]
        restless = restless[change[restless] > 0]
        self._own[restless], self._first = True, False
        return span.extended([multipliers.function for multipliers in lacking], restless)


def _span(task: Task) -> Span:
    assert isinstance(task.feature_map, Span)
    return task.feature_map


def _round_corner(task: Task, width: float) -> Task:
    """Return the task with the corner of the hinge loss rounded, around the dual variables last known."""
    if task.near is None:
        return task.with_loss(SmoothedHingeLoss(width))
    return task.with_loss(HingeEnvelope(width, task.near.solution.alpha / task.problem.weight))


def _solve_rounded(task: Task, solution: Solution, tol: float) -> Solution:
    """Return the unconstrained solution with a gap of ``tol``, by rounding the corner less and less from a start."""
    problem = task.problem.unconstrained()
    width, accuracy = _FIRST_WIDTH, _FIRST_TOL
    while True:
        rounded = _round_corner(replace(task, near=Outcome(solution, problem), tol=accuracy), width)
        solution = rounded.solve(rounded.problem.unconstrained(), Start(solution.theta))
        width, accuracy = _SHRINK * width, min(accuracy, _REFERENCE_SHARE * tol)
        if width < _LEAST_WIDTH or _gap(task, Outcome(solution, problem)) <= tol:
            return solution


def _gap(task: Task, outcome: Outcome) -> float:
    """Return the gap of a solution with a rounded corner as one of the hinge loss."""
    solution = outcome.solution
    problem = replace(outcome.problem, loss=task.problem.loss)
    sums = problem.dual_sums(solution.scores, solution.alpha)
    return problem.certify(solution.theta, solution.multipliers, solution.scores, sums, tol=0.0).gap


def _lift(outcome: Outcome, old: Task, new: Task) -> Outcome:
    """Return an outcome in the coordinates of a larger span."""

    def lift(solution: Solution) -> Solution:
        w, b = old.problem.design.to_original(solution.theta)
        design = new.problem.design
        width = design.shape[1] - int(design.fit_intercept)
        theta = design.from_original(np.concatenate([w, np.zeros(width - len(w))]), b)
        return replace(solution, theta=theta, hessian=None)

    free = outcome.unconstrained
    return Outcome(lift(outcome.solution), new.problem, None if free is None else lift(free))
