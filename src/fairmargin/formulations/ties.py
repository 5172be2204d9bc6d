"""Nobody's decision may hang on the last digit: scores that are zero up to rounding are moved off the boundary.

With equal rows and a loss with corners, many people can have a score of exactly zero, and rounding, which differs
from machine to machine, would decide on them. After a fit they are accepted together: the intercept, which no
covariance depends on, is moved by a margin well above rounding and so small that the objective keeps its
certificate. Where that would break a promise, they are refused together; where both would, they are left alone.

Without an intercept, the coefficients move in the shortest direction that lifts the scores of all of them (alike,
where that is possible) and takes no covariance beyond its bound. Where opposite features allow none, they move
along a direction that the features and scores of everybody decide, and which takes each of them off the boundary.

Where constraints leave no classifier but that of zero scores, all that a solver returns is rounding of either sign.
Such coefficients become exactly zero first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from fairmargin.formulations.outcome import Outcome
from fairmargin.least_squares import least_norm_solution
from fairmargin.problem import ROUNDING_ROOM, Problem
from fairmargin.tolerances import HAIR, NEAR, ROUGH

__all__ = ["settle_ties", "tie_width", "without_rounding"]

Array = NDArray[np.float64]

# Where the losses of many people have a corner, the widest margin may cost more than the certificate allows; the
# narrowest is still two digits above rounding.
_NARROWER = 10.0 ** np.arange(4)
_LARGEST = 10_000_000  # entries of the rows of ties without an intercept: 80 MB
_MOST_ROWS = 1000  # different ones that are not all raised alike, beyond which a linear program takes long


def settle_ties(outcome: Outcome, tol: float, design: Any = None) -> Outcome:
    """Return the outcome with its scores where no decision depends on rounding, and the number of ties.

    ``design`` has the rows that the scores are of, if these are not all rows of the problem.
    """
    if not len(outcome.solution.scores):
        return outcome  # of partitioned data, where people in the sample show ties
    outcome = _without_rounding(outcome, tol)
    problem, scores = outcome.problem, outcome.solution.scores
    widest = tie_width(scores)
    tied = np.abs(scores) <= widest
    n_ties = max(int(np.count_nonzero(tied)), outcome.n_ties)
    if not np.any(tied):
        return outcome
    way = _lift(problem, design or problem.design, outcome.solution.theta, scores)
    if way is None:
        return replace(outcome, n_ties=n_ties)
    for side in (1.0, -1.0):
        for window in widest / _NARROWER:
            shift = _clear_shift(side * scores, way.raises, window)
            moved = _shifted(outcome, way, side * shift, tol)
            if moved is not None:
                return replace(moved, n_ties=n_ties)
    return replace(outcome, n_ties=n_ties)


def tie_width(scores: Array) -> float:
    """Return how near to zero a score is that of a tie.

    Five digits above the rounding of a score, and so little that among a million people two are that close by chance
    at most once in a thousand fits.
    """
    return HAIR * (float(np.sqrt(scores @ scores / len(scores))) or 1.0)


def without_rounding(scores: Array) -> Array:
    """Return scores of exactly zero where all of them are zero up to rounding, and else the scores as they are.

    Losses bend at margins of order 1: beside that, scores this small change an objective by less than its gap.
    """
    return np.zeros_like(scores) if float(np.abs(scores).max()) <= ROUNDING_ROOM else scores


def _without_rounding(outcome: Outcome, tol: float) -> Outcome:
    """Return the outcome with coefficients of exactly zero, where all scores are zero up to rounding."""
    solution = outcome.solution
    scores = without_rounding(solution.scores)
    if scores is solution.scores or not np.any(solution.scores):
        return outcome
    zeroed = _moved(outcome, np.zeros_like(solution.theta), scores, tol)
    return outcome if zeroed is None else zeroed


@dataclass(frozen=True)
class _Way:
    """A direction for the coefficients, (p,), and by how much it raises each score, (N,): ties by 1 at least."""

    direction: Array
    raises: Array


def _lift(problem: Problem, design: Any, theta: Array, scores: Array) -> _Way | None:
    """Return the shortest direction that raises all ties, or one that moves all; None if there is none.

    It takes no covariance that is at its bound beyond it.
    """
    n, p = design.shape
    if design.fit_intercept:
        return _Way(np.eye(1, p, p - 1)[0], np.ones(n))
    tied = np.flatnonzero(np.abs(scores) <= tie_width(scores))
    if len(tied) * p > _LARGEST:
        return None
    rows = np.unique(design.rows(tied) / design.scale, axis=0)
    rows = rows[np.any(rows, axis=1)]  # no features: a score of exactly 0
    if not len(rows):
        return None
    inward = _inward(problem, theta) / design.scale
    raised = np.append(np.ones(len(rows)), np.zeros(len(inward)))
    both = np.vstack([rows, inward])
    size = np.linalg.norm(both, axis=1)
    for find in (least_norm_solution, _shortest_that_raises):
        direction = find(both / size[:, None], raised / size)
        allowed = raised - np.append(np.full(len(rows), NEAR), ROUGH * size[len(rows) :] * np.linalg.norm(direction))
        if np.all(both @ direction >= allowed):
            return _way(design, direction)
    direction = _generic_direction(design, inward, scores)
    moves = np.abs(rows @ direction)
    return _way(design, direction / moves.min()) if moves.min() > ROUGH * moves.max() else None


def _way(design: Any, scaled: Array) -> _Way:
    direction = scaled / design.scale
    return _Way(direction, design.matvec(direction))


def _inward(problem: Problem, theta: Array) -> Array:
    """Return the rows of A that are at a bound, with the sign that leads away from it; equalities with both."""
    value, room = problem.rows @ theta, problem.room(theta)
    has_entries = np.any(problem.rows, axis=1)
    at_upper = has_entries & (value >= problem.upper - room)
    at_lower = has_entries & (value <= problem.lower + room)
    return np.vstack([-problem.rows[at_upper], problem.rows[at_lower]])


def _generic_direction(design: Any, held: Array, scores: Array) -> Array:
    """Return a direction that does not depend on the order of rows and columns, and changes no row of ``held``.

    It sums up the features of everybody, and those weighted by the scores.
    """
    pulls = [design.rmatvec(weight) / design.scale for weight in (np.ones_like(scores), scores)]
    # Some share that is not a simple one, lest the two cancel.
    size = [float(np.linalg.norm(pull)) for pull in pulls]
    direction = sum(
        (share / s * pull for share, s, pull in zip((1.0, 0.618), size, pulls, strict=True) if s > 0), 0.0
    )
    direction = np.broadcast_to(direction, design.scale.shape)
    length = np.linalg.norm(held, axis=1)[:, None]
    return direction - least_norm_solution(held / length, (held / length) @ direction)


def _shortest_that_raises(rows: Array, raised: Array) -> Array:
    """Return an ``x`` with ``rows x >= raised``, the shortest by the sum of absolute values, or zero without one."""
    p = rows.shape[1]
    if np.count_nonzero(raised) > _MOST_ROWS:
        return np.zeros(p)
    both = np.hstack([rows, -rows])  # of the positive part of x and the negative one
    found = linprog(np.ones(2 * p), -both, -raised)
    return found.x[:p] - found.x[p:] if found.status == 0 else np.zeros(p)


def _clear_shift(scores: Array, raises: Array, window: float) -> float:
    """Return a shift that lifts the ties above zero and, if there is one, lets nobody else cross it."""
    shift = 2 * window
    for _ in range(2):
        moved = scores + shift * raises
        if np.any(((scores < -window) & (moved >= -window)) | ((scores > window) & (moved <= window))):
            shift *= 2
    return shift


def _shifted(outcome: Outcome, way: _Way, shift: float, tol: float) -> Outcome | None:
    """Return the outcome moved along the way, None where that breaks a promise or the certificate."""
    if shift == 0.0:
        return None
    solution = outcome.solution
    return _moved(outcome, solution.theta + shift * way.direction, solution.scores + shift * way.raises, tol)


def _moved(outcome: Outcome, theta: Array, scores: Array, tol: float) -> Outcome | None:
    """Return the outcome at another point, None where that breaks a promise or the certificate."""
    problem, solution = outcome.problem, outcome.solution
    proof = solution.certificate
    value = problem.objective(theta, scores)
    limit = max(tol, proof.gap) if proof.status == "solved" else np.inf
    kept = np.all(outcome.broken(scores) <= np.maximum(outcome.broken(solution.scores), 0.0))
    if problem.relative_gap(value, proof.dual_bound) > limit or not kept or not problem.is_feasible(theta):
        return None
    proof = replace(proof, objective=value, gap=problem.relative_gap(value, proof.dual_bound))
    return replace(
        outcome, solution=replace(solution, theta=theta, scores=scores, certificate=proof), is_as_solved=False
    )
