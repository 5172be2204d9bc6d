"""Newton's method for smooth losses under a few linear constraints.

Each iteration minimises the quadratic model of ``L`` over the constraints. With the Hessian ``H`` factored
once, that is a dual problem in K unknowns (:func:`fairmargin.solvers.small.solve_box_dual`):

    M = A H^-1 A',  q = A (theta - H^-1 g),  nu from (M, q, bounds),  step = -H^-1 (g + A' nu).

One ``matvec`` and one ``rmatvec`` an iteration; the line search works on the N scores alone. A feasible point
stays feasible, because the step ends in the box and steps are never longer than 1. Three things save passes over
the data, and above all sandwiches, the dearest ones: the way from zero to the neighbourhood of the optimum is
gone on samples of the people, each six times the one before, the largest of which have Hessians as good as
everybody's; a Hessian is kept, corrected by what every step shows of the curvature along it (BFGS), as long as a
new one would cost more steps than it saves; and where no direction is too flat for that, samples and first steps
on everybody are in single precision. The gap is quadratic in the error of the gradient, so float32's seven digits
bring it close to 1e-9 already; the point returned and its certificate are always of float64.

Reference: Nocedal and Wright, Numerical Optimization, 2nd edition, chapter 18 (SQP); the problem is convex,
so the exact Hessian and an Armijo search on ``L`` converge globally and quadratically.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.losses import Loss
from fairmargin.problem import Certificate, Problem, Solution, support
from fairmargin.solvers.small import Factor, constrained_step, flatten

__all__ = ["Start", "refined", "renewed", "single_tol", "solve_newton"]

Array = NDArray[np.float64]

_SAMPLE_SHRINK = 6  # each sample has this share of the rows of the next
_SAMPLE_ROWS = 3000  # smallest sample worth starting on
_SAMPLE_PER_COLUMN = 20  # rows a column that make a sample's optimum worth having
_LIKE_ALL = 500  # rows a column that make a sample's Hessian nearly that of everybody
SAMPLE_TOL = 1e-2
SINGLE_TOL = 5e-10  # about where the rounding of float32 shows in the gap
SINGLE_STEPS = 8  # to get there
_REFINED = 10.0  # times that a refined solution's gap is smaller, at least
_KEEP_HESSIAN = 0.01  # keep a Hessian of some of the people while a step leaves less than this share of the gap
_SLOW = 0.5  # a step that leaves more than this share of the gap had a bad Hessian
_FAST = 5.0  # a step with a new Hessian leaves exp(-this) of the gap, near the end
_CREDIBLE = 10.0  # a secant's curvature beyond this many times the Hessian's is noise
_SINGLE_PIVOT = 1e-4  # least pivot of a Hessian that single precision is good enough for
_SECANT_PIVOT = 1e-8  # and of one that rounding in a correction cannot turn over
_STRAIGHT = 5e-7  # a change of scores so small that its cube is beyond rounding
_LAST = 1e-5  # relative gap from which one more step is likely to be the last
_NEAR = 1e-2  # relative gap within which a Hessian of the point itself must do well
_MANY = 1 << 18  # people whose losses are worked out some at a time
_SOME = 1 << 15
_ARMIJO = 1e-4
_DRIFT = 1e3  # scores that were this many times larger on the way have lost digits
_LEAST_DAMPING = 1e-13  # share of the Hessian's diagonal that is added to it
_LONGEST = 1e6  # times a step that no curvature limits
_FLAT = 0.1  # share of a step's slope that may be left where a line search ends
_FLATTER = 0.5  # a full step may end this steep, uphill, relative to where it began
_ROUNDING = 50.0  # changes of the objective below this many times its last digit mean nothing
_EPSILON = {kind: float(np.finfo(kind).eps) for kind in "fd"}
_CLEAR = 1e3  # times that, and they can be trusted
_PATIENCE = 4  # iterations without progress in the gap before giving up


@dataclass(frozen=True)
class Start:
    """Where to begin: a point and, where known, its multipliers, a Hessian near it and its dual variables.

    A start found on the same people in single precision, which may well be the answer, tells after how many
    iterations.
    """

    theta: Array
    multipliers: Array | None = None
    hessian: Array | None = None
    alpha: Array | None = None
    after: int | None = None


@dataclass
class _State:
    """The current point and everything evaluated there; ``pull`` and ``gradient`` cost a pass over the data."""

    theta: Array
    scores: Array
    objective: float
    terms: float  # sum_i -c_i l*(-a_i), the data part of the dual bound
    alpha: Array
    curvature: Array
    bent: int  # people whose loss is curved here
    pull: Array  # Xa'(alpha y)
    gradient: Array


def solve_newton(
    problem: Problem, *, start: Start | None = None, tol: float = 1e-9, max_iter: int = 100, proof: bool = True
) -> Solution:
    """Solve a problem with a smooth loss to a relative duality gap of ``tol``.

    Without ``proof`` an estimate of the gap is trusted and there is no certificate: good enough for a start.

    Returns the best point found with its certificate; ``certificate.status`` says how it ended.
    """
    if not problem.loss.smooth:
        raise ValueError(f"Newton's method needs a smooth loss; the {problem.loss.name} loss is not.")
    if start is None:
        start = _start_on_sample(problem, tol, max_iter)
    state = _evaluate(problem, start.theta, problem.design.matvec(start.theta))
    start, state = _or_zero(problem, start, state)
    multipliers = np.zeros(problem.n_rows) if start.multipliers is None else start.multipliers
    # A start that is as good as the answer is made ready for its certificate at once.
    state = _complete(problem, _centre(problem, state) if start.after is not None else state)
    reach = _farthest(state.scores)
    feasible = problem.is_feasible(state.theta)
    hessian, factor = start.hessian, None
    gap, best, stalled, status = np.inf, (np.inf, state, multipliers), 0, "iteration limit"
    damping, at_rounding = _LEAST_DAMPING, False
    patience = _PATIENCE if proof else 1
    single, fresh_last = True, False  # whether single precision will do for Hessians
    before = start.after or 0
    for n_iter in range(before, max(before, max_iter) + 1):
        last_gap, gap = gap, _gap_estimate(problem, state, multipliers) if feasible else np.inf
        unit = problem.gap_unit(state.objective)
        close = feasible and min(gap, state.objective - problem.trivial_bound) <= tol * unit
        if close and not proof:
            certificate = Certificate(state.objective, state.objective - gap, tol, 0.0, n_iter, "solved")
            return _solution(state, multipliers, certificate, hessian)
        if close:
            state = _settle(problem, state, reach)
            certificate = _certify(problem, state, multipliers, n_iter, "solved")
            if certificate.gap <= tol:
                return _solution(state, multipliers, certificate, hessian)
        stalled = stalled + 1 if at_rounding and gap >= 0.5 * best[0] else 0
        if gap < best[0] or not at_rounding:
            best = gap, state, multipliers
        if feasible and problem.is_vanishing(state.objective):
            status = "separable"
            break
        if n_iter >= max_iter or stalled >= patience or np.isnan(state.objective):
            status = "iteration limit" if n_iter >= max_iter else "inaccurate"
            break
        fresh = hessian is None or _is_stale(problem, state, gap, last_gap, tol * unit)
        if hessian is None or fresh:
            single = single and not (fresh_last and gap < _NEAR * unit)
            hessian, factor, single = _curve(problem, state, damping, single)
        if factor is None:
            factor = Factor(hessian, damping)
        fresh_last = fresh
        step, new_multipliers = constrained_step(problem, state.theta, state.gradient, factor)
        length, trial = _line_search(problem, state, step, feasible)
        if length == 0.0 and _gap_estimate(problem, state, new_multipliers) < 0.5 * gap:
            multipliers = new_multipliers  # the point was right and its multipliers were not
            continue
        if length == 0.0:  # no way down: ask the Hessian of this point, and then one that is better conditioned
            damping = max(1e3 * damping, 1e-10) if fresh else damping
            hessian, factor = (hessian if fresh else None), None
            if damping > 1.0:
                status = "inaccurate"
                break
            continue
        damping = max(1e-2 * damping, _LEAST_DAMPING)
        at_rounding = feasible and _at_rounding(state, step)
        multipliers = new_multipliers
        # Close to the end the point is made ready for its certificate before the pass, not after it.
        left, state = state, _complete(problem, _centre(problem, trial) if proof and gap < _LAST * unit else trial)
        if state.bent == len(state.scores) and factor.pivot >= _SECANT_PIVOT:
            hessian = _secant(hessian, state.theta - left.theta, state.gradient - left.gradient)
            factor = None
        if proof:
            reach = max(reach, _farthest(state.scores))
        feasible = feasible or length >= 1.0
    if feasible:
        _, state, multipliers = best
    if not proof:
        certificate = Certificate(state.objective, state.objective - best[0], np.inf, 0.0, n_iter, status)
        return _solution(state, multipliers, certificate, hessian)
    state = _settle(problem, state, reach)
    certificate = _certify(problem, state, multipliers, n_iter, status)
    if certificate.gap <= tol and feasible:
        certificate = replace(certificate, status="solved")
    return _solution(state, multipliers, certificate, hessian)


def _evaluate(problem: Problem, theta: Array, scores: Array) -> _State:
    """Return the state at a point but for its gradient: pointwise work only."""
    loss, terms, bent, alpha, curvature = _losses(problem, scores)
    objective = loss + problem.penalty(theta)
    return _State(theta, scores, objective, terms, alpha, curvature, bent, np.empty(0), np.empty(0))


def _or_zero(problem: Problem, start: Start, state: _State) -> tuple[Start, _State]:
    """Return a start and its state, or those of zero if that is the better one.

    As it is where a few people are far out whom the sample has missed.
    """
    zero = np.zeros_like(start.theta)
    if problem.beats_zero(state.objective) or not np.any(start.theta) or not problem.is_feasible(zero):
        return start, state
    there = _evaluate(problem, zero, np.zeros_like(state.scores))
    return (start, state) if state.objective <= there.objective else (Start(zero), there)


def _losses(problem: Problem, scores: Array) -> tuple[float, float, int, Array, Array]:
    """Return total loss, ``sum_i -c_i l*(-a_i)``, number of people with a curved loss, ``alpha`` and ``l''``.

    Many people are taken some at a time, so that what is in between never leaves the cache.
    """
    n = len(scores)
    if n <= _MANY:
        return _losses_of(problem.loss, problem.y, problem.weight, scores)
    alpha, curvature = np.empty_like(scores), np.empty_like(scores)
    loss, terms, bent = 0.0, 0.0, 0
    for start in range(0, n, _SOME):
        some = slice(start, start + _SOME)
        part = _losses_of(problem.loss.of(some), problem.y[some], problem.weight[some], scores[some])
        loss, terms, bent = loss + part[0], terms + part[1], bent + part[2]
        alpha[some], curvature[some] = part[3:]
    return loss, terms, bent, alpha, curvature


def _losses_of(loss: Loss, y: Array, weight: Array, scores: Array) -> tuple[float, float, int, Array, Array]:
    margins = y * scores
    value, slope, curvature = loss.derivatives(margins)
    alpha = -weight * slope
    total = float(weight @ value)
    bent = len(curvature) if curvature.min() > 0 else int(np.count_nonzero(curvature))
    return total, total + float(alpha @ margins), bent, alpha, curvature


def _complete(problem: Problem, state: _State) -> _State:
    """Add the gradient: one pass over the data."""
    state.pull = problem.design.rmatvec(state.alpha * problem.y)
    state.gradient = problem.penalty_gradient(state.theta) - state.pull
    return state


def _is_stale(problem: Problem, state: _State, gap: float, last_gap: float, goal: float) -> bool:
    """Whether a new Hessian is worth its price, at a gap that was ``last_gap`` before the last step.

    If steps go on like the last one, the new Hessian, with which they are fast, must save more of them than it costs.
    """
    if not np.isfinite(last_gap) or gap <= 0:
        return False
    left = gap / last_gap if last_gap > 0 else np.inf
    if state.bent < len(state.scores):  # people enter and leave the Hessian, far away many
        return left > _KEEP_HESSIAN or gap > state.objective - problem.trivial_bound
    if left >= _SLOW:
        return True
    way = np.log(max(gap / goal, 1.0))
    return way / -np.log(left) > _cost_of_hessian(problem) + way / _FAST


def _cost_of_hessian(problem: Problem) -> float:
    """Return, roughly, how many steps take as long as a sandwich; the seconds are one machine's.

    Sandwiches are in single precision mostly; steps in double precision are several times slower than in single.
    """
    n, p = problem.design.shape
    row = 8e-9 + 2e-10 * p if problem.weight.dtype == np.float32 else 2e-8 + 1.5e-9 * p
    return 3.5e-11 * n * p**2 / (2e-4 + n * row)


def _secant(hessian: Array, step: Array, change: Array) -> Array:
    """Return the Hessian corrected along a step by the change of the gradient, as Broyden and others do (BFGS)."""
    image = hessian @ step
    old, curve = float(step @ image), float(step @ change)
    if not old / _CREDIBLE < curve < old * _CREDIBLE:
        return hessian
    return hessian - np.outer(image, image / old) + np.outer(change, change / curve)


def _curve(problem: Problem, state: _State, damping: float, single: bool) -> tuple[Array, Factor, bool]:
    """Return the Hessian, its factor and whether single precision was enough for it.

    It is where even the flattest direction is far from float32's rounding; the step is then off by that share.
    """
    if single:
        with np.errstate(over="ignore", invalid="ignore"):
            hessian = _hessian(problem, state, single=True)
        if np.all(np.isfinite(hessian)):
            factor = Factor(hessian, damping)
            if factor.pivot >= _SINGLE_PIVOT:
                return hessian, factor, True
    hessian = _hessian(problem, state)
    return hessian, Factor(hessian, damping), False


def _hessian(problem: Problem, state: _State, single: bool = False) -> Array:
    curvature = state.curvature
    if state.bent == 0:  # a loss that is straight here, as the smoothed hinge at 0: bend it by its slope
        curvature = state.alpha / problem.weight
    # Rows without curvature add nothing.
    rows = np.flatnonzero(curvature) if 0 < state.bent < 0.7 * len(curvature) else None
    return problem.design.sandwich(problem.weight * curvature, rows, single) + np.diag(problem.ridge)


def _farthest(scores: Array) -> float:
    """Return ``max_i |f_i|``."""
    return max(float(scores.max()), -float(scores.min()))


def _settle(problem: Problem, state: _State, reach: float) -> _State:
    """Return the same point ready for its certificate.

    Scores that were summed up step by step are computed anew if they went as far as ``reach`` on the way and
    lost digits there, and the intercept is moved to its best place.
    """
    if reach > _DRIFT * (1.0 + _farthest(state.scores)):
        state = _complete(problem, _evaluate(problem, state.theta, problem.design.matvec(state.theta)))
    centred = _centre(problem, state)
    return state if centred is state else _complete(problem, centred)


def _centre(problem: Problem, state: _State) -> _State:
    """Move a free intercept to where ``sum_i alpha_i y_i`` vanishes to rounding.

    By Newton steps that touch the N scores alone, so that the gradient is not known afterwards.
    """
    if not _has_free_intercept(problem):
        return state
    for _ in range(3):
        curvature = float(problem.weight @ state.curvature)
        shift = (float(state.alpha @ problem.y) - problem.intercept_tilt) / max(curvature, 1e-100)
        if abs(shift) <= 1e-15 * (1.0 + abs(state.theta[-1])) or abs(shift) > 1e-2:
            break
        if abs(shift) < _STRAIGHT and state.bent == len(state.scores):
            return _shift(problem, state, shift)
        theta = state.theta.copy()
        theta[-1] += shift
        state = _evaluate(problem, theta, state.scores + shift)
        if abs(shift) < 1e-8:  # Newton squares what is left, which is rounding now
            break
    return state


def _shift(problem: Problem, state: _State, shift: float) -> _State:
    """Return the state with the intercept moved so little that losses without corners are parabolas on the way."""
    theta, scores = state.theta.copy(), state.scores + shift
    theta[-1] += shift
    bend = problem.weight * state.curvature
    loss = state.objective - problem.penalty(state.theta)
    loss += shift * (0.5 * shift * float(bend.sum()) - float(state.alpha @ problem.y))
    alpha = np.maximum(state.alpha - shift * (bend * problem.y), 0.0)
    objective, terms = loss + problem.penalty(theta), loss + float(alpha @ (problem.y * scores))
    return replace(state, theta=theta, scores=scores, objective=objective, terms=terms, alpha=alpha)


def _has_free_intercept(problem: Problem) -> bool:
    """Whether the intercept enters the losses only."""
    return problem.design.fit_intercept and problem.ridge[-1] == 0 and not np.any(problem.rows[:, -1])


def _at_rounding(state: _State, step: Array) -> bool:
    """Whether the step promises less than what rounding does to the objective."""
    return -float(state.gradient @ step) <= _digit(state)


def _digit(state: _State) -> float:
    """Return what rounding may do to the objective, summed up in the precision of the scores."""
    return _ROUNDING * _EPSILON[state.scores.dtype.char] * abs(state.objective)


def _gap_estimate(problem: Problem, state: _State, multipliers: Array) -> float:
    """Return the duality gap but for the intercept, whose part is estimated: no pass over the data."""
    r, gap = state.gradient, 0.0
    if problem.n_rows:
        r = r + multipliers @ problem.rows
        gap = support(problem.lower, problem.upper, multipliers) - float(multipliers @ (problem.rows @ state.theta))
    gap += 0.5 * float(problem.inverse_ridge @ (r * r))
    free = problem.unpenalised
    if problem.design.fit_intercept and len(free) == 1:
        rest = abs(float(r[-1]))
        gap += rest * min(rest / max(float(problem.weight @ state.curvature), 1e-100), 1.0)
    else:
        gap += float(np.abs(r[free]) @ problem.radius(state.theta)[free])
    return gap


def _line_search(problem: Problem, state: _State, step: Array, feasible: bool) -> tuple[float, _State]:
    """Return the step length and the state there: 1 if that is good enough, else where ``L`` is least.

    Close to the optimum differences of ``L`` drown in rounding; there its slope along the step must fall. Where
    the slope too is rounding the step is taken as it is, and the gap tells whether it was one forward. Where
    nobody's loss is curved the step is no Newton step and may be far too short: it is prolonged.
    """
    change = problem.design.matvec(step)
    full = _evaluate(problem, state.theta + step, state.scores + change)
    slope = float(state.gradient @ step)
    if not feasible or abs(slope) <= _digit(state):
        return 1.0, full
    if slope >= 0:
        return 0.0, state
    longest = 1.0
    if state.bent and -slope > _CLEAR * _digit(state):
        accepted = full.objective <= state.objective + _ARMIJO * slope
    else:
        end = float(problem.penalty_gradient(full.theta) @ step) - float(full.alpha @ (problem.y * change))
        accepted = end <= -_FLATTER * slope
        if end < 0 and not state.bent:
            longest, accepted = _room(problem, state.theta, step), False
    if accepted:
        return 1.0, full
    length = _minimise_on_segment(problem, state, step, change, longest)
    return length, _evaluate(problem, state.theta + length * step, state.scores + length * change)


def _room(problem: Problem, theta: Array, step: Array) -> float:
    """Return how many times the step may be taken, at least once, without leaving the constraints."""
    value, change = problem.rows @ theta, problem.rows @ step
    change = np.where(problem.lower == problem.upper, 0.0, change)
    ahead = np.where(change > 0, problem.upper - value, value - problem.lower)
    # A row that is at its bound already and moves by rounding only is no obstacle; the next step sets it right.
    moving = np.abs(change) > 1e-14 * (np.abs(problem.rows) @ (np.abs(theta) + np.abs(step)))
    return float(np.clip(np.min(ahead[moving] / np.abs(change[moving]), initial=_LONGEST), 1.0, _LONGEST))


def _minimise_on_segment(problem: Problem, state: _State, step: Array, change: Array, longest: float) -> float:
    """Return nearly the minimiser of the convex ``t -> L(theta + t step)`` on (0, longest), by its derivative."""
    curve = float(problem.ridge @ (step * step))
    base = float(problem.penalty_gradient(state.theta) @ step)
    lever = problem.weight * problem.y * change
    margins, move = problem.y * state.scores, problem.y * change

    def derivative(t: float) -> float:
        return float(lever @ problem.loss.derivative(margins + t * move)) + base + t * curve

    low, high = 0.0, 1.0
    at_low, at_high = float(state.gradient @ step), derivative(1.0)
    while at_high <= 0:
        if high >= longest:
            return high
        low, at_low = high, at_high
        high = min(2.0 * high, longest)
        at_high = derivative(high)
    return flatten(derivative, low, at_low, high, at_high, _FLAT * abs(float(state.gradient @ step)))


def _certify(problem: Problem, state: _State, multipliers: Array, n_iter: int, status: str) -> Certificate:
    known = state.objective, state.terms, state.pull
    return problem.certify(state.theta, multipliers, state.scores, state.alpha, n_iter, status, known)


def _solution(state: _State, multipliers: Array, certificate: Certificate, hessian: Array | None) -> Solution:
    return Solution(state.theta, multipliers, state.scores, state.alpha, certificate, hessian, state.gradient)


def _start_on_sample(problem: Problem, tol: float, max_iter: int) -> Start:
    """Return the optimum on a sample of the people, or zero where the data are small.

    Sample and way from there in single precision, where that is good enough.
    """
    twin = problem.single()
    sample = take_sample(problem if twin is None else twin)
    if sample is None:
        return Start(np.zeros(problem.design.shape[1]))
    solution = solve_newton(sample, tol=SAMPLE_TOL, max_iter=min(20, max_iter), proof=False)
    start = _start_at(renewed(sample, solution))
    if not np.all(np.isfinite(start.theta)):
        return Start(np.zeros(problem.design.shape[1]))
    if twin is None or not fits_single(start.hessian):
        return start
    steps = min(SINGLE_STEPS, max_iter)
    solution = solve_newton(twin, start=start, tol=single_tol(tol), max_iter=steps, proof=False)
    return replace(_start_at(refined(twin, solution)), after=solution.certificate.n_iter)


def single_tol(tol: float) -> float:
    """Return the gap in single precision from which refinement leads to ``tol``."""
    return _REFINED * max(tol, SINGLE_TOL)


def refined(problem: Problem, solution: Solution) -> Solution:
    """Return a solution with parameters and multipliers one step further, where that takes no pass: to start from."""
    if solution.hessian is None or solution.gradient is None or not np.all(np.isfinite(solution.hessian)):
        return solution
    factor = Factor(solution.hessian, _LEAST_DAMPING)
    step, multipliers = constrained_step(problem, solution.theta, solution.gradient, factor)
    return replace(solution, theta=solution.theta + step, multipliers=multipliers)


def renewed(sample: Problem, solution: Solution) -> Solution:
    """Return a sample's solution with a new Hessian near it, if steps of everybody, who are more, gain by it."""
    n, p = sample.design.shape
    if n < _LIKE_ALL * p or not np.all(np.isfinite(solution.theta)):
        return solution
    state = _evaluate(sample, solution.theta, solution.scores)
    return replace(solution, hessian=_curve(sample, state, _LEAST_DAMPING, single=True)[0])


def _start_at(solution: Solution) -> Start:
    return Start(solution.theta, solution.multipliers, solution.hessian)


def fits_single(hessian: Array | None) -> bool:
    """Whether single precision is enough near a point with this Hessian."""
    return hessian is not None and Factor(hessian, _LEAST_DAMPING).pivot >= _SINGLE_PIVOT


def take_sample(problem: Problem) -> Problem | None:
    """Return the problem on a sixth of the people, or None where that is too few to be of use."""
    n, p = problem.design.shape
    size = n // _SAMPLE_SHRINK
    if size < max(_SAMPLE_ROWS, _SAMPLE_PER_COLUMN * p):
        return None
    sample = problem.take(spread_sample(n, size))
    return None if abs(sample.y.sum()) == size else sample  # one class is no problem at all


def spread_sample(n: int, size: int) -> NDArray[np.intp]:
    """Return ``size`` of ``n`` indices, one drawn from each of ``size`` equal stretches; always the same."""
    jitter = np.random.default_rng(0).random(size)
    return np.floor((np.arange(size) + jitter) * (n / size)).astype(np.intp)
