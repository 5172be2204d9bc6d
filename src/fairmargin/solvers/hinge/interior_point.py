"""A primal-dual interior-point method for the hinge loss: no smoothing, no subgradients.

With slacks ``xi`` the problem is the quadratic program

    min  sum_i c_i xi_i + 1/2 sum_j rho_j theta_j^2
    s.t. m_i + xi_i - 1 = s_i >= 0  (alpha_i),   xi_i >= 0  (c_i - alpha_i),   lower <= A theta <= upper.

Mehrotra's predictor-corrector method. After elimination each iteration solves with

    H = diag(rho) + Xa' D Xa,   D_i = 1 / (s_i / alpha_i + xi_i / (c_i - alpha_i)),

the same sandwich as in Newton's method, and a K x K system for the multipliers of the rows of A. It starts on
the central path: for a given ``theta`` and barrier ``mu`` the equations ``s alpha = mu``,
``xi (c - alpha) = mu``, ``s - xi = m - 1`` have a closed-form solution.

Reference: Nocedal and Wright, Numerical Optimization, 2nd edition, algorithm 16.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.losses import HingeLoss
from fairmargin.problem import DualSums, Problem, Solution, Status
from fairmargin.solvers.contract import Accuracy, Start
from fairmargin.solvers.quadratic_step import STEP_SHARE, Factor, longest_step, solve_box_dual
from fairmargin.tolerances import NEAR, PATIENCE, ROUNDING, TINY

__all__ = ["solve_interior_point"]

Array = NDArray[np.float64]


@dataclass
class _Point:
    """Primal and dual variables; ``up`` and ``down`` belong to the two sides of the rows that are a range."""

    theta: Array
    s: Array
    xi: Array
    alpha: Array
    beta: Array  # c - alpha, kept for itself: as a difference it would round to zero
    room_up: Array
    room_down: Array
    up: Array
    down: Array
    equal: Array  # multipliers of the rows that are equalities


@dataclass(frozen=True)
class _Rows:
    """The rows of A sorted into equalities and ranges."""

    is_equal: NDArray[np.bool_]
    A_equal: Array
    target: Array
    A_range: Array
    lower: Array
    upper: Array
    has_lower: NDArray[np.bool_]
    has_upper: NDArray[np.bool_]


_REFINEMENTS = 2  # of each linear system: the second removes the rounding of the first


def solve_interior_point(
    problem: Problem, *, start: Start | None = None, accuracy: Accuracy | None = None
) -> Solution:
    """Solve a problem with the hinge loss to the duality gap asked for."""
    if problem.loss.name != "hinge":
        raise ValueError(f"The interior-point method is for the hinge loss, not the {problem.loss.name} loss.")
    accuracy = Accuracy() if accuracy is None else accuracy
    scaled, unit = _of_order_one(problem)
    rows = _sort_rows(scaled)
    point = _central_point(scaled, rows, np.zeros_like(scaled.ridge) if start is None else start.theta)
    scores = scaled.design.matvec(point.theta)
    best: Solution | None = None
    stalled = 0
    for n_iter in range(accuracy.max_iter + 1):
        # 1. Test, with the multipliers that belong to these dual variables.
        sums = problem.dual_sums(scores, unit * point.alpha)
        here = _certified(problem, rows, point, scores, sums, unit, accuracy.tol, n_iter)
        # Far from the optimum neither gap nor violation says much: patience begins where the gap does.
        is_better = best is None or _error(here) < _error(best)
        stalled = stalled + 1 if here.certificate.gap < NEAR and not is_better else 0
        if best is None or is_better:
            best = here
        if best.certificate.status == "solved":
            return best
        if n_iter == accuracy.max_iter:
            return _ended(best, "iteration limit", n_iter)
        # 2. Step: predictor, centring, corrector.
        step = _step_or_none(scaled, rows, point, scores, sums.pull / unit)
        if step is None or stalled > PATIENCE:
            return _ended(best, "inaccurate", n_iter)
        point, scores = step
    raise AssertionError("the loop returns")


def _ended(best: Solution, status: Status, n_iter: int) -> Solution:
    return replace(best, certificate=replace(best.certificate, status=status, n_iter=n_iter))


def _corner(problem: Problem) -> float | Array:
    """Return the margin where the loss bends: 1, unless every row has a corner of its own."""
    assert isinstance(problem.loss, HingeLoss)
    return problem.loss.corner


def _of_order_one(problem: Problem) -> tuple[Problem, float]:
    """Return the problem with its objective divided by a number, whatever C is, and that number."""
    unit = float(np.mean(problem.weight))
    tilt = None if problem.tilt is None else problem.tilt / unit
    return replace(problem, weight=problem.weight / unit, ridge=problem.ridge / unit, tilt=tilt), unit


def _error(solution: Solution) -> float:
    return max(solution.certificate.gap, solution.certificate.violation)


def _certified(
    problem: Problem, rows: _Rows, point: _Point, scores: Array, sums: DualSums, unit: float, tol: float, n_iter: int
) -> Solution:
    """Return the point as a solution, with the certificate of the scores at hand."""
    nu = _best_multipliers(problem, rows, point, sums.pull, unit)
    proof = problem.certify(point.theta, nu, scores, sums, tol=tol, n_iter=n_iter)
    if proof.status == "solved":  # scores are summed up step by step: the proof is about those computed anew
        scores = problem.design.matvec(point.theta)
        proof = problem.certify(point.theta, nu, scores, sums, tol=tol, n_iter=n_iter)
    return Solution(point.theta, nu, scores, problem.balanced(unit * point.alpha, nu, sums), proof)


def _step_or_none(
    problem: Problem, rows: _Rows, at: _Point, scores: Array, pull: Array
) -> tuple[_Point, Array] | None:
    try:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # ends in LinAlgError or no step
            return _iterate(problem, rows, at, scores, pull)
    except np.linalg.LinAlgError:
        return None


def _sort_rows(problem: Problem) -> _Rows:
    equal = problem.lower == problem.upper
    A = problem.rows
    lower, upper = problem.lower[~equal], problem.upper[~equal]
    return _Rows(
        equal, A[equal], problem.lower[equal], A[~equal], lower, upper, np.isfinite(lower), np.isfinite(upper)
    )


def _central_point(problem: Problem, rows: _Rows, theta: Array, mu: float = 1.0) -> _Point:
    """Return the variables that belong to ``theta`` on the central path at ``mu``."""
    scores = problem.design.matvec(theta)
    c = problem.weight
    short = problem.y * scores - _corner(problem)  # = s - xi
    # s solves  c s^2 - (c short + 2 mu) s + mu short = 0  for the larger root; xi = s - short.
    half = 0.5 * (short + 2.0 * mu / c)
    root = np.sqrt(np.maximum(half**2 - mu * short / c, 0.0))
    s = np.where(half > 0, half + root, mu * short / c / np.minimum(half - root, -TINY))
    s = np.maximum(s, ROUNDING)
    xi = np.maximum(s - short, ROUNDING)
    alpha = np.clip(mu / s, ROUNDING * c, (1 - ROUNDING) * c)
    value = rows.A_range @ theta
    least = np.where(rows.has_lower & rows.has_upper, rows.upper - rows.lower, 1.0) / 10
    room_up = np.where(rows.has_upper, np.maximum(rows.upper - value, least), 1.0)
    room_down = np.where(rows.has_lower, np.maximum(value - rows.lower, least), 1.0)
    up = np.where(rows.has_upper, mu / room_up, 0.0)
    down = np.where(rows.has_lower, mu / room_down, 0.0)
    return _Point(theta, s, xi, alpha, c - alpha, room_up, room_down, up, down, np.zeros(len(rows.target)))


def _iterate(problem: Problem, rows: _Rows, at: _Point, scores: Array, pull: Array) -> tuple[_Point, Array] | None:
    """Return the next point and its scores: predictor, centring, corrector."""
    c, y = problem.weight, problem.y
    D = 1.0 / (at.s / at.alpha + at.xi / at.beta)
    H = problem.design.sandwich(D) + np.diag(problem.ridge)
    system = _System(problem, rows, at, H, D)
    missed = y * scores + at.xi - _corner(problem) - at.s
    dual = problem.penalty_gradient(at.theta) - pull + rows.A_range.T @ (at.up - at.down) + rows.A_equal.T @ at.equal
    n_pairs = 2 * len(c) + rows.has_upper.sum() + rows.has_lower.sum()
    mu = _complementarity(at, rows) / n_pairs

    affine = system.solve(dual, missed, *_targets(at, rows, 0.0, None))
    primal, dual_length = _lengths(at, rows, affine, 1.0)
    reached = _complementarity_after(at, rows, affine, primal, dual_length) / n_pairs
    sigma = min(1.0, max((reached / mu) ** 3, ROUNDING))
    step = system.solve(dual, missed, *_targets(at, rows, sigma * mu, affine))
    primal, dual_length = _lengths(at, rows, step, STEP_SHARE)
    if not (np.isfinite(primal) and np.isfinite(dual_length)) or max(primal, dual_length) < ROUNDING:
        return None
    # The quadratic term couples theta to the multipliers: one length for both keeps the dual residual linear.
    length = min(primal, dual_length)
    return _move(at, step, length, length), scores + length * step.scores


@dataclass(frozen=True)
class _Step:
    theta: Array
    scores: Array
    s: Array
    xi: Array
    alpha: Array
    room_up: Array
    room_down: Array
    up: Array
    down: Array
    equal: Array


class _System:
    """The factored Newton system at one point, solved for several right-hand sides."""

    def __init__(self, problem: Problem, rows: _Rows, at: _Point, H: Array, D: Array) -> None:
        self.problem, self.rows, self.at, self.H, self.D = problem, rows, at, H, D
        self.factor = Factor(H)
        self.stiffness = np.maximum(at.up / at.room_up + at.down / at.room_down, TINY)
        self.A = np.vstack([rows.A_range, rows.A_equal])
        self.lifted = self.factor.solve(self.A.T)
        schur = self.A @ self.lifted
        k = len(self.stiffness)
        self.give = np.zeros(len(self.A))
        self.give[:k] = 1.0 / self.stiffness
        self.schur = Factor(schur + np.diag(self.give)) if len(self.A) else None

    def _solve_reduced(self, right: Array, off: Array) -> tuple[Array, Array]:
        """Solve ``H theta + A' nu = right`` and ``A theta - give nu = -off``.

        Towards the end entries of ``H`` differ by twenty powers of ten, and its factor is that of a shifted matrix:
        what the solution misses the equations by is solved for again.
        """
        theta, nu = np.zeros(len(self.H)), np.zeros(len(self.A))
        for _ in range(1 + _REFINEMENTS):
            short = right - self.H @ theta - nu @ self.A
            step = self.factor.solve(short)
            if self.schur is not None:
                more = self.schur.solve(self.A @ (theta + step) - self.give * nu + off)
                step, nu = step - self.lifted @ more, nu + more
            theta = theta + step
        return theta, nu

    def solve(self, dual: Array, missed: Array, t_s: Array, t_xi: Array, t_up: Array, t_down: Array) -> _Step:
        """Return the step for the residuals and the complementarity targets ``t``."""
        at, rows, y = self.at, self.rows, self.problem.y
        a, e = t_s / at.alpha, t_xi / at.beta
        right = -dual + self.problem.design.rmatvec(y * self.D * (a - e - missed))
        value = rows.A_range @ at.theta
        off_up = np.where(rows.has_upper, value + at.room_up - rows.upper, 0.0)
        off_down = np.where(rows.has_lower, value - at.room_down - rows.lower, 0.0)
        h = (t_up + at.up * off_up) / at.room_up - (t_down - at.down * off_down) / at.room_down
        off_equal = rows.A_equal @ at.theta - rows.target
        theta, nu = self._solve_reduced(right, np.concatenate([self.give[: len(h)] * h, off_equal]))
        scores = self.problem.design.matvec(theta)
        alpha = self.D * (a - e - missed - y * scores)
        moved = rows.A_range @ theta
        room_up = np.where(rows.has_upper, -off_up - moved, 0.0)
        room_down = np.where(rows.has_lower, off_down + moved, 0.0)
        up = np.where(rows.has_upper, (t_up - at.up * room_up) / at.room_up, 0.0)
        down = np.where(rows.has_lower, (t_down - at.down * room_down) / at.room_down, 0.0)
        s = a - at.s / at.alpha * alpha
        xi = e + at.xi / at.beta * alpha
        return _Step(theta, scores, s, xi, alpha, room_up, room_down, up, down, nu[len(h) :])


def _targets(at: _Point, rows: _Rows, mu: float, affine: _Step | None) -> tuple[Array, Array, Array, Array]:
    """Return how much each complementarity product should change, with Mehrotra's second-order term."""
    t_s, t_xi = mu - at.s * at.alpha, mu - at.xi * at.beta
    t_up = np.where(rows.has_upper, mu - at.room_up * at.up, 0.0)
    t_down = np.where(rows.has_lower, mu - at.room_down * at.down, 0.0)
    if affine is not None:
        t_s -= affine.s * affine.alpha
        t_xi += affine.xi * affine.alpha
        t_up -= affine.room_up * affine.up
        t_down -= affine.room_down * affine.down
    return t_s, t_xi, t_up, t_down


def _complementarity(at: _Point, rows: _Rows) -> float:
    data = at.s @ at.alpha + at.xi @ at.beta
    return float(data + at.room_up @ at.up + at.room_down @ at.down)


def _complementarity_after(at: _Point, rows: _Rows, step: _Step, primal: float, dual: float) -> float:
    data = (at.s + primal * step.s) @ (at.alpha + dual * step.alpha)
    data += (at.xi + primal * step.xi) @ (at.beta - dual * step.alpha)
    data += (at.room_up + primal * step.room_up) @ (at.up + dual * step.up)
    data += (at.room_down + primal * step.room_down) @ (at.down + dual * step.down)
    return float(data)


def _lengths(at: _Point, rows: _Rows, step: _Step, share: float) -> tuple[float, float]:
    """Return how far the primal and the dual variables may go, at most 1."""
    primal = min(longest_step(at.s, step.s), longest_step(at.xi, step.xi))
    primal = min(primal, longest_step(at.room_up, step.room_up), longest_step(at.room_down, step.room_down))
    dual = min(longest_step(at.alpha, step.alpha), longest_step(at.beta, -step.alpha))
    dual = min(dual, longest_step(at.up, step.up), longest_step(at.down, step.down))
    return min(1.0, share * primal), min(1.0, share * dual)


def _move(at: _Point, step: _Step, primal: float, dual: float) -> _Point:
    return _Point(
        at.theta + primal * step.theta,
        at.s + primal * step.s,
        at.xi + primal * step.xi,
        at.alpha + dual * step.alpha,
        at.beta - dual * step.alpha,
        at.room_up + primal * step.room_up,
        at.room_down + primal * step.room_down,
        at.up + dual * step.up,
        at.down + dual * step.down,
        at.equal + dual * step.equal,
    )


def _multipliers(rows: _Rows, point: _Point) -> Array:
    nu = np.empty(len(rows.is_equal))
    nu[rows.is_equal] = point.equal
    nu[~rows.is_equal] = point.up - point.down
    return nu


def _best_multipliers(problem: Problem, rows: _Rows, point: _Point, pull: Array, unit: float) -> Array:
    """Return the multipliers that belong to ``alpha``: near the end those of the iteration are mostly rounding.

    For given ``alpha`` the dual bound is a box problem in the multipliers, and its best is found exactly.
    """
    penalised = problem.ridge > 0
    A, rho = problem.rows[:, penalised], problem.ridge[penalised]
    if not len(A) or np.any(problem.rows[:, ~penalised]):
        return unit * _multipliers(rows, point)
    tilt = 0.0 if problem.tilt is None else problem.tilt[penalised]
    return solve_box_dual((A / rho) @ A.T, A @ ((pull[penalised] - tilt) / rho), problem.lower, problem.upper)
