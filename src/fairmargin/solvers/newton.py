"""Newton's method for smooth losses under a few linear constraints.

Each iteration evaluates the objective and a dual bound at a point (one pass ``Xa' r``), minimises the quadratic
model of ``L`` over the constraints (:mod:`fairmargin.solvers.quadratic_step`) and searches along that step (one
pass ``Xa step``). A feasible point stays feasible, because the step ends within the bounds and is only prolonged as
far as they allow. Which Hessian the model has is decided by :class:`fairmargin.solvers.curvature.Curvature`; on wide
data it has none (:mod:`fairmargin.solvers.matrix_free`). Where a good start comes from is the business of
:mod:`fairmargin.solvers.ladder`; where the rows are, that of :mod:`fairmargin.solvers.oracle`.

Reference: Nocedal and Wright, Numerical Optimization, 2nd edition, chapter 18 (SQP). The problem is convex, so that
the method with exact Hessians and a line search on ``L`` converges globally and quadratically.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmargin.problem import Certificate, Problem, Solution, Status, support
from fairmargin.solvers.contract import Accuracy, Start
from fairmargin.solvers.evaluation import Point
from fairmargin.solvers.matrix_free import StepModel
from fairmargin.solvers.oracle import Oracle, make_oracle
from fairmargin.tolerances import PATIENCE, TINY

__all__ = ["solve_newton"]

Array = NDArray[np.float64]


def solve_newton(
    problem: Problem,
    *,
    start: Start | None = None,
    accuracy: Accuracy | None = None,
    make_model: Callable[[Problem, Array | None], StepModel] | None = None,
) -> Solution:
    """Solve a problem with a smooth loss to the accuracy asked for.

    Returns the best point found, improved by one more step of the last model where that helps, with the certificate
    of exactly the point returned; ``certificate.status`` says how it ended. The model of ``L`` is the one expected to
    cost less, unless ``make_model(problem, hessian)`` is given.
    """
    if not problem.loss.smooth:
        raise ValueError(f"Newton's method needs a smooth loss; the {problem.loss.name} loss is not.")
    accuracy = Accuracy() if accuracy is None else accuracy
    oracle = make_oracle(problem)
    start, point = _begin(problem, oracle, start)
    progress = _Progress(problem, accuracy, start.n_iter, start.scores is not None)
    if accuracy.proof:
        point = oracle.centre(point, accuracy.tol * problem.gap_unit(point.objective))
    point = oracle.complete(point, accuracy.proof)
    multipliers = np.zeros(problem.n_rows) if start.multipliers is None else start.multipliers
    model = oracle.choose_model(start.hessian) if make_model is None else make_model(problem, start.hessian)
    while True:
        # 1. Test: how far is this point from the optimum, and is there progress?
        progress.measure(point, multipliers)
        if progress.is_close:
            solution = _finish(oracle, point, multipliers, model, progress)
            if solution.certificate.status == "solved":
                return solution
        if progress.ending is not None:
            return _finish(oracle, progress.best, progress.best_multipliers, model, progress)
        # 2. Step: to the minimum of a quadratic model within the constraints.
        step, multipliers = model.step(point, multipliers, progress.gap, progress.last_gap, progress.goal)
        # 3. Search along it.
        trial = oracle.search(point, step, progress.is_feasible)
        progress.n_iter += 1
        if trial is None:
            progress.is_stuck = not model.reject()
            continue
        # 4. Evaluate the gradient there, and learn from its change.
        if accuracy.proof:
            trial = oracle.centre(trial, progress.goal)
        last, point = point, oracle.complete(trial, accuracy.proof)
        model.learn(last, point)


class _Progress:
    """Keeps the gap from iteration to iteration, the best point, and the reason to stop.

    ``was_given_scores`` says whether the scores at the start came from the caller rather than from a pass.
    """

    def __init__(self, problem: Problem, accuracy: Accuracy, n_iter: int = 0, was_given_scores: bool = False) -> None:
        self.problem, self.accuracy, self.n_iter = problem, accuracy, n_iter
        self.was_given_scores = was_given_scores
        self.gap = self.last_gap = self.best_gap = np.inf
        self.goal = 0.0
        self.is_feasible = self.is_close = self.is_stuck = False
        self.best: Point
        self.best_multipliers: Array
        self.ending: Status | None = None
        self._stalled = 0

    def measure(self, point: Point, multipliers: Array) -> None:
        """Take note of a point and its multipliers."""
        self.is_feasible = self.problem.is_feasible(point.theta)
        self.goal = self.accuracy.tol * self.problem.gap_unit(point.objective)
        self.last_gap, self.gap = self.gap, self._distance(point, multipliers)
        self.is_close = self.gap <= self.goal
        has_descended = self.best_gap == np.inf or point.objective < self.best.objective - point.rounding
        if self.gap < 0.5 * self.best_gap or has_descended:
            self._stalled = 0
        else:
            self._stalled += 1
        if self.gap < self.best_gap or has_descended:
            self.best, self.best_multipliers, self.best_gap = point, multipliers, self.gap
        self.ending = self._reason_to_stop(point)

    def _distance(self, point: Point, multipliers: Array) -> float:
        """Return the duality gap at a feasible point: proved, or estimated where no proof is asked for."""
        if not self.is_feasible or not np.isfinite(point.objective):
            return np.inf
        if point.dual is None:
            return _estimate_gap(self.problem, point, multipliers)
        return abs(point.objective - self.problem.dual_bound(point.theta, multipliers, point.dual))

    def _reason_to_stop(self, point: Point) -> Status | None:
        patience = PATIENCE if self.accuracy.proof else 1
        if self.is_feasible and self.problem.is_vanishing(point.objective):
            return "separable"
        if self.n_iter >= self.accuracy.max_iter:
            return "iteration limit"
        if self._stalled >= patience or self.is_stuck or np.isnan(point.objective):
            return "inaccurate"
        return None


def _begin(problem: Problem, oracle: Oracle, start: Start | None) -> tuple[Start, Point]:
    """Return the start and its point, or zero where that is better.

    It is where a start from a sample does not know of rows that are far out; its Hessian does not know of them
    either.
    """
    zero = np.zeros(problem.design.shape[1])
    if start is not None and np.any(start.theta):
        point = oracle.at(start.theta, start.scores)
        if point.objective <= problem.at_zero or not problem.is_feasible(zero):
            return start, point
        start = None
    return start or Start(zero), oracle.at(zero)


def _estimate_gap(problem: Problem, point: Point, multipliers: Array) -> float:
    """Return the duality gap from the gradient alone; the part of an unpenalised intercept is estimated."""
    r = point.gradient + multipliers @ problem.rows
    gap = support(problem.lower, problem.upper, multipliers) - float(multipliers @ (problem.rows @ point.theta))
    gap += 0.5 * float(problem.inverse_ridge @ (r * r))
    unpenalised = problem.unpenalised
    if problem.design.fit_intercept and len(unpenalised) == 1:
        rest = abs(float(r[-1]))
        return gap + rest * min(rest / max(float(problem.weight @ point.curvature), TINY), 1.0)
    return gap + float(np.abs(r[unpenalised]) @ problem.radius(point.theta)[unpenalised])


def _finish(oracle: Oracle, point: Point, multipliers: Array, model: StepModel, progress: _Progress) -> Solution:
    """Return the point one step further, or as it is where that is better, with its certificate.

    The step uses the last model and costs no pass but the one for its scores. It squares what is left of the error,
    which makes decisions depend far less on rounding than the tolerance would allow.
    """
    as_it_is = point.theta, multipliers
    refined = model.refine(point)
    first = _Finish(oracle, point, progress, model.hessian)
    if refined is None:
        return first.at(*as_it_is)
    further = first.at(point.theta + refined[0], _better(progress.problem, point, refined[1], multipliers))
    if further.certificate.status == "solved":
        return further
    return min(further, first.at(*as_it_is), key=lambda s: (s.certificate.status != "solved", s.certificate.gap))


def _better(problem: Problem, point: Point, *candidates: Array) -> Array:
    """Return the multipliers with the higher dual bound, where there is one."""
    dual = point.dual
    if dual is None:
        return candidates[0]
    return max(candidates, key=lambda nu: problem.dual_bound(point.theta, nu, dual))


@dataclass(frozen=True)
class _Finish:
    """Makes solutions near a point, proved by the dual sums of that point."""

    oracle: Oracle
    point: Point
    progress: _Progress
    hessian: Array | None

    def at(self, theta: Array, multipliers: Array) -> Solution:
        """Return the solution at ``theta``."""
        alpha = self.oracle.dual_variables(self.point, multipliers)
        if self.point.dual is None:
            # Scores that begin with a pass are good enough unproved; those given may be made of given ones.
            is_known = theta is self.point.theta and not self.progress.was_given_scores
            scores = self.point.scores if is_known else self.oracle.scores(theta)
            return Solution(theta, multipliers, scores, alpha, self._unproved(theta), self.hessian)
        scores = self.oracle.scores(theta)
        proof = self.progress.problem.certify_value(
            theta,
            multipliers,
            self.oracle.objective(self.point, theta, scores),
            self.point.dual,
            tol=self.progress.accuracy.tol,
            n_iter=self.progress.n_iter,
            ending=self.progress.ending or "inaccurate",
        )
        return Solution(theta, multipliers, scores, alpha, proof, self.hessian)

    def _unproved(self, theta: Array) -> Certificate:
        """Return a certificate that repeats the estimated gap and the objective one step before."""
        problem, progress = self.progress.problem, self.progress
        value = self.point.objective
        is_solved = progress.is_close and problem.is_feasible(theta)
        status: Status = "solved" if is_solved else progress.ending or "inaccurate"
        gap = progress.gap / problem.gap_unit(value)
        return Certificate(value, value - progress.gap, gap, problem.violation(theta), progress.n_iter, status)
