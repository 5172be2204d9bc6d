"""Nobody's decision may hang on the last digit: scores that are zero up to rounding are moved off the boundary.

With equal rows and a loss with corners, many people can have a score of exactly zero, and rounding, which differs
from machine to machine, would decide on them. After a fit they are accepted together: the intercept, which no
covariance depends on, is moved by a margin well above rounding and so small that the objective keeps its
certificate. Where that would break a promise, they are refused together; where both would, they are left alone.

Without an intercept, the coefficients move in the shortest direction that lifts the scores of all of them (alike,
where that is possible) and changes no covariance. Where their features allow none, they are left alone too.

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
from fairmargin.tolerances import HAIR, NEAR

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
    way = _lift(problem, design or problem.design, tied)
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


def _lift(problem: Problem, design: Any, tied: NDArray[np.bool_]) -> _Way | None:
    """Return the shortest direction that raises all ties and changes no covariance, None if there is none."""
    n, p = design.shape
    if design.fit_intercept:
        return _Way(np.eye(1, p, p - 1)[0], np.ones(n))
    if np.count_nonzero(tied) * p > _LARGEST:
        return None
    rows = np.unique(design.rows(np.flatnonzero(tied)) / design.scale, axis=0)
    rows = np.vstack([rows[np.any(rows, axis=1)], problem.rows / design.scale])  # no features: a score of exactly 0
    size = np.linalg.norm(rows, axis=1)
    raised = np.append(np.ones(len(rows) - problem.n_rows), np.zeros(problem.n_rows))
    rows, raised = rows[size > 0], raised[size > 0]
    size = size[size > 0]
    rows, raised = rows / size[:, None], raised / size
    for find in (least_norm_solution, _shortest_that_raises):
        direction = find(rows, raised) / design.scale
        raises = design.matvec(direction)
        is_featureless = (raises == 0.0) & tied
        if np.all(raises[tied & ~is_featureless] >= 1.0 - NEAR) and not np.all(is_featureless[tied]):
            return _Way(direction, raises)
    return None


def _shortest_that_raises(rows: Array, raised: Array) -> Array:
    """Return an ``x`` with ``rows x >= raised`` where that is positive and 0 elsewhere, or zero if there is none.

    It is the shortest by the sum of absolute values.
    """
    up, p = raised > 0, rows.shape[1]
    if np.count_nonzero(up) > _MOST_ROWS:
        return np.zeros(p)
    both = np.hstack([rows, -rows])  # of the positive part of x and the negative one
    fixed = (None, None) if np.all(up) else (both[~up], raised[~up])
    found = linprog(np.ones(2 * p), -both[up], -raised[up], *fixed)
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
