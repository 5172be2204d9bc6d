"""The hinge loss by Newton's method: the method of multipliers on its corner.

The Moreau envelope of the hinge loss around dual variables ``a`` (N,) is a smoothed hinge of width ``h`` at
shifted margins: ``min_v max(v, 0) + a (1 - m - v) + (1 - m - v)^2 / (2 h)`` is, up to a constant,
``smoothed(m - h a)``. So

    theta <- argmin sum_i c_i smoothed_h(m_i - h a_i) + penalty   subject to the rows   (Newton)
    a_i   <- clip(a_i + (1 - m_i) / h, 0, 1)

is the proximal point method on the dual of the support vector machine. It converges for every ``h`` and
faster the smaller ``h`` is; on a piecewise quadratic problem it ends after finitely many rounds. Only
people inside the rounded corner enter a Hessian, and these soon are few: an iteration costs little more
than two passes over the data. It can start anywhere, unlike an interior-point method.

References: Rockafellar, Augmented Lagrangians and applications of the proximal point algorithm, 1976;
Li, Sun and Toh, A highly efficient semismooth Newton augmented Lagrangian method, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.losses import Loss, SmoothedHingeLoss
from fairmargin.problem import Problem, Solution
from fairmargin.solvers.corner import INNER, LEAST_WIDTH, SHRINK, Corner
from fairmargin.solvers.newton import Start, solve_newton

__all__ = ["solve_multipliers"]

Array = NDArray[np.float64]

_FIRST_WIDTH = 0.5  # of the corner in the first round
_WARM_WIDTH = 0.005  # and where dual variables of a problem close by are known
_NARROW = 0.1  # corners below this width are worked on with the people near the margin only
_REACH = 0.25  # how near that is, at first
_ASTRAY = 1e-3  # gap on everybody of a solution for the people near the margin that is worse than its start
_FEW_CROSSED = 0.05  # people who were thought far from the margin, relative to those near it, and join them
_REACH_WIDTHS = 12.0  # a corner this many times narrower than the reach leaves the others alone
_NEAR_STEPS = 120  # for the people near the margin, unless some must have crossed
_FEW_ENTRIES = 4_000_000  # of the rows of these people, to be handled as one dense matrix
_FEW_COLUMNS = 100
_WARM_REACH = 0.08  # and where it is known who is near,
_WARM_COLUMNS, _LEAST_REACH = 4.0, 1e-3
_WARM_SHARE = 0.06  # or these nearest people, if that is nearer


class _Envelope(Loss):
    """The smoothed hinge at margins shifted by ``width * a``, one shift a person."""

    name = "hinge envelope"

    def __init__(self, width: float, a: Array) -> None:
        self._smoothed, self._a, self._shift = SmoothedHingeLoss(width), a, width * a

    def of(self, people: slice | NDArray[np.intp]) -> _Envelope:
        return _Envelope(self._smoothed.width, self._a[people])

    def value(self, m: Array) -> Array:
        return self._smoothed.value(m - self._shift)

    def derivative(self, m: Array) -> Array:
        return self._smoothed.derivative(m - self._shift)

    def second_derivative(self, m: Array) -> Array:
        return self._smoothed.second_derivative(m - self._shift)

    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        return self._smoothed.derivatives(m - self._shift)


def solve_multipliers(
    problem: Problem, *, start: Start | None = None, tol: float = 1e-9, max_iter: int = 200
) -> Solution:
    """Solve a problem with the hinge loss to a relative duality gap of ``tol``.

    Two rounds with a wide corner see everybody. Further ones only the people within a reach of the margin:
    the others' losses are straight, which leaves a linear term. If people turn out to have crossed, the
    certificate on everybody shows it: a few join those near the margin, for more the reach grows.
    """
    if start is not None and start.alpha is not None:
        state = _Rounds(Start(start.theta, start.multipliers), start.alpha / problem.weight, _WARM_WIDTH)
        scores = problem.design.matvec(start.theta)
        reach = _warm_reach(problem, scores)
        least = reach / _REACH_WIDTHS
        if least < _WARM_WIDTH * SHRINK:  # many are so near that they must be sorted first
            found = _fast_rounds(problem, state, tol, min(_NEAR_STEPS, max_iter), least)
            scores, reach = (scores, np.inf) if found is None else (found.scores, reach)
    else:
        state = _Rounds(start, None, _FIRST_WIDTH)
        scores, reach = _rounds(problem, state, max(tol, 1e-3), max_iter, _NARROW).scores, _REACH
    joined = none = np.empty(0, dtype=np.intp)
    while True:
        margins = problem.y * scores
        near = _near_margin(margins, reach, problem.design.shape[1], joined)
        if len(near) > 0.7 * len(margins) or len(near) < problem.design.shape[1] or state.n_iter >= max_iter:
            return _finish(problem, state, tol, max_iter)
        part = _restrict(problem, near, margins)
        entry = replace(state)
        if state.dual is not None:
            state.dual = state.dual[near]
        found = _fast_rounds(part, state, 0.5 * tol, min(_NEAR_STEPS, max_iter - state.n_iter))
        if found is None and _is_large(part):
            found = _rounds(part, state, 0.5 * tol, max_iter, 0.0)
        solution = None if found is None else _on_everybody(problem, state, found, near)
        if solution is not None and solution.certificate.gap <= tol:
            return solution
        crossed = none if solution is None else _crossed(problem, margins, solution, near)
        if 0 < len(crossed) <= _FEW_CROSSED * len(near):
            joined = np.concatenate([near, crossed])
        else:
            joined, reach = none, max(4.0 * reach, _REACH)
        if solution is None or (not len(joined) and solution.certificate.gap > _ASTRAY):
            state = entry  # so many have crossed that it was for nothing
        else:
            scores = solution.scores
            state.width = max(state.width, 1e-2 * min(reach, 1.0))


def _crossed(problem: Problem, margins: Array, solution: Solution, near: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the people who were not near the margin and are on its other side now."""
    crossed = (margins < 1.0) != (problem.y * solution.scores < 1.0)
    crossed[near] = False
    return np.flatnonzero(crossed)


def _warm_reach(problem: Problem, scores: Array) -> float:
    """Return how near to the margin people are looked at from a start with good dual variables.

    So near that a share of the people are, and a few times as many as there are columns: about so many sit on the
    margin itself at the optimum. Where ties put more people there, a little beyond it.
    """
    n, p = problem.design.shape
    share = min(1.0, max(_WARM_SHARE, _WARM_COLUMNS * p / n))
    distance = float(np.quantile(np.abs(1.0 - problem.y * scores), share))
    return min(_WARM_REACH, max(distance, _LEAST_REACH))


def _finish(problem: Problem, at: _Rounds, tol: float, max_iter: int) -> Solution:
    """Do the rounds for everybody, to the end."""
    found = _fast_rounds(problem, at, 0.5 * tol, max_iter - at.n_iter)
    if found is None:
        found = _rounds(problem, at, 0.5 * tol, max_iter, 0.0)
    solution = _on_everybody(problem, at, found, np.arange(len(problem.y)))
    status = "solved"
    if not solution.certificate.gap <= tol:
        status = "iteration limit" if at.n_iter >= max_iter else "inaccurate"
    return replace(solution, certificate=replace(solution.certificate, status=status))


@dataclass
class _Rounds:
    """Where the rounds stand: the next one's start, dual variables ``a`` and width."""

    start: Start | None
    dual: Array | None
    width: float
    n_iter: int = 0
    gap: float = 1e-2


def _rounds(problem: Problem, at: _Rounds, tol: float, max_iter: int, least: float) -> Solution:
    """Go on until the gap is ``tol`` or the corner is narrower than ``least``."""
    while True:
        loss: Loss = SmoothedHingeLoss(at.width) if at.dual is None else _Envelope(at.width, at.dual)
        inner = solve_newton(
            replace(problem, loss=loss),
            start=at.start,
            tol=max(INNER * at.gap, 1e-2 * tol),
            max_iter=max(1, max_iter - at.n_iter),
        )
        at.n_iter += inner.certificate.n_iter
        at.dual = inner.alpha / problem.weight
        at.start = Start(inner.theta, inner.multipliers)
        certificate = problem.certify(inner.theta, inner.multipliers, inner.scores, inner.alpha, at.n_iter, "solved")
        at.gap = certificate.gap
        at.width *= SHRINK
        if at.gap <= tol or at.n_iter >= max_iter or at.width < max(least, LEAST_WIDTH):
            return inner


def _fast_rounds(problem: Problem, at: _Rounds, tol: float, max_iter: int, least: float = 0.0) -> Solution | None:
    """Go on until the gap is ``tol``, the fast way; None where that does not lead there or people are too many."""
    if at.start is None or at.dual is None or _is_large(problem):
        return None
    found = Corner(problem).rounds(at.start, at.dual, at.width, at.gap, tol, max_iter, least)
    if found is not None:
        at.n_iter += found.certificate.n_iter
        at.start, at.dual = Start(found.theta, found.multipliers), found.alpha / problem.weight
        at.gap, at.width = found.certificate.gap, min(at.width, least) if least else at.width
    return found


def _is_large(problem: Problem) -> bool:
    """Whether an iteration takes so long that those of the general method, fewer and dearer, pay."""
    n, p = problem.design.shape
    return n * p > _FEW_ENTRIES or p > _FEW_COLUMNS


def _near_margin(margins: Array, reach: float, least: int, joined: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the people within ``reach`` of the margin, and those who ``joined`` them.

    At least so many that they can fix the coefficients.
    """
    distance = np.abs(1.0 - margins)
    if least < len(distance):
        reach = max(reach, float(np.partition(distance, least)[least]))
    near = distance <= reach
    near[joined] = True
    return np.flatnonzero(near)


def _restrict(problem: Problem, near: NDArray[np.intp], margins: Array) -> Problem:
    """Return the problem of the people ``near`` the margin, the others' losses taken as straight lines."""
    inside = margins < 1.0
    inside[near] = False
    pushed = np.where(inside, problem.weight, 0.0)
    tilt = -problem.design.rmatvec(pushed * problem.y)
    return replace(
        problem,
        design=problem.design.take(near),
        y=problem.y[near],
        weight=problem.weight[near],
        tilt=tilt if problem.tilt is None else tilt + problem.tilt,
        offset=problem.offset + float(pushed.sum()),
    )


def _on_everybody(problem: Problem, at: _Rounds, part: Solution, near: NDArray[np.intp]) -> Solution:
    """Put the solution for the people near the margin before everybody."""
    scores = problem.design.matvec(part.theta)
    alpha = np.where(problem.y * scores < 1.0, problem.weight, 0.0)
    alpha[near] = part.alpha
    certificate = problem.certify(part.theta, part.multipliers, scores, alpha, at.n_iter, "solved")
    at.gap, at.dual = certificate.gap, alpha / problem.weight
    return Solution(part.theta, part.multipliers, scores, alpha, certificate)
