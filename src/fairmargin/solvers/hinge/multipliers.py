"""The hinge loss by Newton's method: the method of multipliers on its corner.

The Moreau envelope of the hinge loss around dual variables ``a`` (N,) is a smoothed hinge of width ``h`` at shifted
margins: ``min_v max(v, 0) + a (1 - m - v) + (1 - m - v)^2 / (2 h)`` is, up to a constant, ``smoothed(m - h a)``. So

    theta <- argmin sum_i c_i smoothed_h(m_i - h a_i) + penalty   subject to the constraints   (Newton)
    a_i   <- clip(a_i + (1 - m_i) / h, 0, 1)

is the proximal point method on the dual of the support vector machine. It converges for every ``h`` and faster the
smaller ``h`` is; on a piecewise quadratic problem it ends after finitely many rounds. Only rows inside the rounded
corner enter a Hessian, and these soon are few: an iteration costs little more than two passes over the data. Unlike
an interior-point method it can start anywhere.

References: Rockafellar, Augmented Lagrangians and applications of the proximal point algorithm, 1976;
Li, Sun and Toh, A highly efficient semismooth Newton augmented Lagrangian method, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.losses import Loss, SmoothedHingeLoss
from fairmargin.problem import Problem, Solution
from fairmargin.solvers.contract import Accuracy, Start
from fairmargin.solvers.curvature import is_well_conditioned
from fairmargin.solvers.hinge.envelope import HingeEnvelope
from fairmargin.solvers.hinge.near_margin import find_crossed, find_near, reach_of_warm_start, restrict
from fairmargin.solvers.hinge.piecewise import COARSE, LEAST_WIDTH, SHRINK, PiecewiseProblem, inner_tolerance
from fairmargin.solvers.newton import solve_newton

__all__ = ["FIRST_WIDTH", "solve_multipliers"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

FIRST_WIDTH = 0.5  # of the corner in the first round
_WARM_WIDTH = 0.005  # and where dual variables of a problem nearby are known
_NARROW = FIRST_WIDTH * SHRINK  # narrower corners are worked on with the rows near the margin only,
_REACH = 0.25  # which are the rows this close to it at first; for more it grows by a factor of 1 / _REACH
_REACH_WIDTHS = 12.0  # a corner this many times narrower than the reach leaves the other rows alone
_FEW_CROSSED = 0.05  # rows that crossed, relative to those near the margin, and simply join them
_LARGEST = 4_000_000, 100  # entries and columns up to which the rows near the margin are handled as a dense matrix


@dataclass
class _Rounds:
    """Where the rounds stand: the next one's start, dual variables ``a`` and width."""

    start: Start | None
    dual: Array | None
    width: float
    n_iter: int = 0
    gap: float = np.inf


def solve_multipliers(problem: Problem, *, start: Start | None = None, accuracy: Accuracy | None = None) -> Solution:
    """Solve a problem with the hinge loss to the duality gap asked for.

    Two rounds with a wide corner see all rows, in single precision if they can. Further ones see only the rows within
    a reach of the margin: the others' losses are straight, which leaves a linear term. If rows turn out to have
    crossed, the certificate on all rows shows it: a few join those near the margin; for more the reach grows.
    """
    if problem.loss.name != "hinge":
        raise ValueError(f"The method of multipliers is for the hinge loss, not the {problem.loss.name} loss.")
    accuracy = Accuracy() if accuracy is None else accuracy
    scores = None if start is None or start.alpha is None else problem.design.matvec(start.theta)
    known = _known(problem, start, scores, accuracy)
    if known is not None:
        return known
    state, margins, reach = _begin(problem, start, scores, accuracy)
    joined = np.empty(0, dtype=np.intp)
    while True:
        near = find_near(margins, reach, problem.design.shape[1], joined)
        if not _is_worthwhile(near, problem) or state.n_iter >= accuracy.max_iter:
            return _finish(problem, state, accuracy)
        before = replace(state)
        solution = _solve_near(problem, state, near, margins, accuracy)
        if solution is not None and solution.certificate.status == "solved":
            return solution
        joined = _join(problem, solution, margins, near)
        if not len(joined):
            reach = max(reach / _REACH, _REACH)
        if solution is None or (not len(joined) and solution.certificate.gap > COARSE):
            state = before  # so many have crossed that this round was in vain
        else:
            margins = problem.y * solution.scores
            state.width = max(state.width, _WARM_WIDTH)


def _is_worthwhile(near: Index, problem: Problem) -> bool:
    """Whether leaving the other rows out saves much, and the rows near the margin are enough to tell a solution."""
    n, p = problem.design.shape
    return p <= len(near) <= 0.7 * n


def _known(problem: Problem, start: Start | None, scores: Array | None, accuracy: Accuracy) -> Solution | None:
    """Return a start that knows its dual variables as a solution, if it is one already."""
    if start is None or start.alpha is None or scores is None:
        return None
    multipliers = np.zeros(problem.n_rows) if start.multipliers is None else start.multipliers
    alpha = np.clip(start.alpha, 0.0, problem.weight)
    short = 1.0 - problem.y * scores
    loss = float(problem.weight @ np.maximum(short, 0.0))
    # The gap is at least what Fenchel's inequality leaves in each row: where that is too much, no pass is needed.
    if loss - float(alpha @ short) > accuracy.tol * problem.gap_unit(loss + problem.penalty(start.theta)):
        return None
    sums = problem.dual_sums(scores, alpha)
    proof = problem.certify(start.theta, multipliers, scores, sums, tol=accuracy.tol, n_iter=max(1, start.n_iter))
    if proof.status != "solved":
        return None
    return Solution(start.theta, multipliers, scores, problem.balanced(alpha, multipliers, sums), proof)


def _join(problem: Problem, solution: Solution | None, margins: Array, near: Index) -> Index:
    """Return the rows ``near`` the margin and those that crossed it, where these are few; else none."""
    if solution is not None:
        crossed = find_crossed(margins, problem.y * solution.scores, near)
        if 0 < len(crossed) <= _FEW_CROSSED * len(near):
            return np.concatenate([near, crossed])
    return np.empty(0, dtype=np.intp)


def _begin(
    problem: Problem, start: Start | None, scores: Array | None, accuracy: Accuracy
) -> tuple[_Rounds, Array, float]:
    """Return the state, margins and reach to go on from: after rounds on all rows, or at a start that knows ``a``."""
    if start is None or start.alpha is None or scores is None:
        state = _Rounds(start, None, FIRST_WIDTH)
        return state, problem.y * _wide_rounds(problem, state, accuracy).scores, _REACH
    state = _Rounds(Start(start.theta, start.multipliers), start.alpha / problem.weight, _WARM_WIDTH)
    margins = problem.y * scores
    reach = reach_of_warm_start(problem, margins)
    least = reach / _REACH_WIDTHS
    if least < _WARM_WIDTH * SHRINK:  # many are so near that they must be sorted first
        found = _fast_rounds(problem, state, accuracy.tol, accuracy.max_iter, least)
        margins, reach = (margins, np.inf) if found is None else (problem.y * found.scores, reach)
    return state, margins, reach


def _wide_rounds(problem: Problem, state: _Rounds, accuracy: Accuracy) -> Solution:
    """Do the first rounds, on all rows: in single precision where that is accurate, since they are rough anyway."""
    how = max(accuracy.tol, COARSE), accuracy.max_iter, _NARROW
    start, twin = state.start, None
    if start is not None and is_well_conditioned(start.hessian):
        twin = replace(problem, loss=SmoothedHingeLoss(FIRST_WIDTH)).single()
    if twin is not None:
        found = _rounds(replace(twin, loss=problem.loss), state, *how)
        if np.isfinite(state.gap) and state.dual is not None:
            state.dual = state.dual.astype(float)
            return found
        state.start, state.dual, state.width, state.gap = start, None, FIRST_WIDTH, np.inf
    return _rounds(problem, state, *how)


def _solve_near(problem: Problem, state: _Rounds, near: Index, margins: Array, accuracy: Accuracy) -> Solution | None:
    """Return the solution for the rows near the margin, certified on all rows; None where it was not found."""
    part = restrict(problem, near, margins)
    if state.dual is not None:
        state.dual = state.dual[near]
    found = _fast_rounds(part, state, 0.5 * accuracy.tol, accuracy.max_iter - state.n_iter)
    if found is None and _is_large(part):
        found = _rounds(part, state, 0.5 * accuracy.tol, accuracy.max_iter, 0.0)
    return None if found is None else _certify(problem, state, found, near, accuracy)


def _finish(problem: Problem, state: _Rounds, accuracy: Accuracy) -> Solution:
    """Do the rounds on all rows, to the end."""
    found = _fast_rounds(problem, state, 0.5 * accuracy.tol, accuracy.max_iter - state.n_iter)
    if found is None:
        found = _rounds(problem, state, 0.5 * accuracy.tol, accuracy.max_iter, 0.0)
    return _certify(problem, state, found, np.arange(len(problem.y)), accuracy)


def _certify(problem: Problem, state: _Rounds, part: Solution, near: Index, accuracy: Accuracy) -> Solution:
    """Return the solution for the rows near the margin as one for all rows, with its certificate there."""
    scores = problem.design.matvec(part.theta)
    alpha = np.where(problem.y * scores < 1.0, problem.weight, 0.0)
    alpha[near] = part.alpha
    sums = problem.dual_sums(scores, alpha)
    certificate = problem.certify(
        part.theta,
        part.multipliers,
        scores,
        sums,
        tol=accuracy.tol,
        n_iter=state.n_iter,
        ending="iteration limit" if state.n_iter >= accuracy.max_iter else "inaccurate",
    )
    state.gap, state.dual = certificate.gap, alpha / problem.weight
    alpha = problem.balanced(alpha, part.multipliers, sums)
    return Solution(part.theta, part.multipliers, scores, alpha, certificate)


def _rounds(problem: Problem, state: _Rounds, tol: float, max_iter: int, least: float) -> Solution:
    """Go on until the gap is ``tol`` or the corner is narrower than ``least``."""
    while True:
        loss: Loss = SmoothedHingeLoss(state.width) if state.dual is None else HingeEnvelope(state.width, state.dual)
        inner = solve_newton(
            replace(problem, loss=loss),
            start=state.start,
            accuracy=Accuracy(inner_tolerance(state.gap, tol), max(1, max_iter - state.n_iter)),
        )
        state.n_iter += inner.certificate.n_iter
        state.dual = -loss.derivative(problem.y * inner.scores)
        inner = replace(inner, alpha=problem.weight * state.dual)
        state.start = Start(inner.theta, inner.multipliers)
        dual = problem.dual_sums(inner.scores, inner.alpha)
        state.gap = problem.certify(inner.theta, inner.multipliers, inner.scores, dual, tol=tol).gap
        state.width *= SHRINK
        if state.gap <= tol or state.n_iter >= max_iter or state.width < max(least, LEAST_WIDTH):
            return inner


def _fast_rounds(problem: Problem, state: _Rounds, tol: float, max_iter: int, least: float = 0.0) -> Solution | None:
    """Go on with few operations per iteration; None where that does not lead to ``tol`` or the rows are too many."""
    if state.start is None or state.dual is None or _is_large(problem):
        return None
    found = PiecewiseProblem(problem).rounds(state.start, state.dual, state.width, state.gap, tol, max_iter, least)
    if found is not None:
        state.n_iter += found.certificate.n_iter
        state.start, state.dual = Start(found.theta, found.multipliers), found.alpha / problem.weight
        state.gap, state.width = found.certificate.gap, min(state.width, least) if least else state.width
    return found


def _is_large(problem: Problem) -> bool:
    """Whether an iteration takes so long that those of the general method, fewer and dearer, pay."""
    n, p = problem.design.shape
    return n * p > _LARGEST[0] or p > _LARGEST[1]
