"""Nobody's decision may hang on the last digit: scores that are zero up to rounding are moved off the boundary.

With equal rows and a loss with corners, many people can have a score of exactly zero, and rounding, which differs
from machine to machine, would decide on them. After a fit they are accepted together: the intercept, which no
covariance depends on, is moved by a margin well above rounding and so small that the objective keeps its
certificate. Where that would break a promise, they are refused together; where both would, they are left alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.formulations.outcome import Outcome
from fairmargin.tolerances import HAIR

__all__ = ["settle_ties"]

Array = NDArray[np.float64]


def settle_ties(outcome: Outcome, tol: float) -> Outcome:
    """Return the outcome with its intercept where no decision depends on rounding, and the number of ties."""
    problem, scores = outcome.problem, outcome.solution.scores
    if not problem.design.fit_intercept:
        return outcome  # scores cannot be moved without changing covariances
    if not len(scores):
        return outcome  # of partitioned data, where people in the sample show ties
    # Five digits above the rounding of a score, and so little that among a million people two are that close by
    # chance at most once in a thousand fits.
    window = HAIR * (float(np.sqrt(np.mean(scores**2))) or 1.0)
    n_ties = int(np.count_nonzero(np.abs(scores) <= window))
    if n_ties == 0:
        return outcome
    for side in (1.0, -1.0):
        moved = _shifted(outcome, side * _clear_shift(side * scores, window), tol)
        if moved is not None:
            return replace(moved, n_ties=n_ties)
    return replace(outcome, n_ties=n_ties)


def _clear_shift(scores: Array, window: float) -> float:
    """Return a shift that lifts the ties above zero and, if there is one, lets nobody else cross it."""
    shift = 2 * window
    for _ in range(2):
        if np.any((scores < -window) & (scores >= -shift - window)):
            shift *= 2
    return shift


def _shifted(outcome: Outcome, shift: float, tol: float) -> Outcome | None:
    """Return the outcome with its intercept moved, None where that breaks a promise or the certificate."""
    if shift == 0.0:
        return None
    problem, solution = outcome.problem, outcome.solution
    theta = solution.theta.copy()
    theta[-1] += shift
    scores = solution.scores + shift
    proof = solution.certificate
    value = problem.objective(theta, scores)
    limit = max(tol, proof.gap) if proof.status == "solved" else np.inf
    kept = np.all(outcome.broken(scores) <= np.maximum(outcome.broken(solution.scores), 0.0))
    if problem.relative_gap(value, proof.dual_bound) > limit or not kept or not problem.is_feasible(theta):
        return None
    proof = replace(proof, objective=value, gap=problem.relative_gap(value, proof.dual_bound))
    return replace(outcome, solution=replace(solution, theta=theta, scores=scores, certificate=proof))
