"""The last digits of a hinge solution: the linear system that its active rows make.

At the optimum of the hinge loss some rows sit on the margin (``0 < alpha_i < c_i``), some rows of A are at a bound
(``nu_k != 0``), and all others are on one side. Once a solver knows which, the solution is that of a quadratic
program with equality constraints only,

    min   1/2 theta' diag(rho) theta + t' theta - sum_inside c_i y_i x_i' theta
    s.t.  m_i = 1 on the margin,   A theta = bound where nu != 0,

exact to rounding where an iteration is exact to its tolerance. Decisions on people who share a score then do not
depend on how the iteration went.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.least_squares import least_norm_solution
from fairmargin.problem import Problem, Solution

__all__ = ["solve_active_set"]

Array = NDArray[np.float64]

_MOST_COLUMNS = 250  # of X, beyond which it takes longer than the iteration did
_MOST = 1000  # different rows on the margin, beyond which the system is not worth its time


def solve_active_set(problem: Problem, solution: Solution, tol: float) -> Solution:
    """Return the solution of the system that belongs to the active rows, or the one given if that is no better."""
    is_large = len(problem.ridge) > _MOST_COLUMNS
    if is_large or solution.certificate.status != "solved" or not np.any(problem.ridge):
        return solution
    share = solution.alpha / problem.weight
    # Rows whose dual variable is farther from both ends of its range than their margin is from 1.
    on = np.flatnonzero(np.minimum(share, 1.0 - share) > np.abs(1.0 - problem.y * solution.scores))
    # Equal rows on the margin are one condition.
    signed = np.unique(problem.y[on, None] * problem.design.rows(on), axis=0)
    if len(signed) > _MOST:
        return solution
    theta = _solve(problem, solution, on, signed, share > 0.5)
    scores = problem.design.matvec(theta)
    proof = solution.certificate
    value = problem.objective(theta, scores)
    gap = problem.relative_gap(value, proof.dual_bound)
    if not (gap <= max(tol, proof.gap) and value <= proof.objective * (1.0 + tol) and problem.is_feasible(theta)):
        return solution
    proof = replace(proof, objective=value, gap=gap, violation=problem.violation(theta))
    return replace(solution, theta=theta, scores=scores, certificate=proof)


def _solve(
    problem: Problem, solution: Solution, on: NDArray[np.intp], signed: Array, inside: NDArray[np.bool_]
) -> Array:
    """Return the solution of the system; ``signed`` are the different rows ``y x`` among those ``on`` the margin."""
    p = len(problem.ridge)
    nu = solution.multipliers
    # What is known of the multipliers goes to the right: with a large weight of the losses they are so large that
    # their rounding would be that of the solution.
    push = np.where(inside, problem.weight, 0.0)
    push[on] = solution.alpha[on]
    linear = problem.design.rmatvec(push * problem.y) - problem.rows.T @ nu
    if problem.tilt is not None:
        linear = linear - problem.tilt
    active = np.flatnonzero((nu != 0) | (problem.lower == problem.upper))
    bound = np.where(nu > 0, problem.upper, problem.lower)[active]
    conditions = np.vstack([signed, problem.rows[active]])
    targets = np.concatenate([np.ones(len(signed)), bound])
    # Steps from the solution at hand, in columns and conditions of order one.
    scale = 1.0 / problem.design.scale
    size = np.sqrt(np.einsum("ij,ij->i", conditions * scale, conditions * scale))
    size = np.where(size > 0, size, 1.0)
    conditions = conditions / size[:, None]
    missed = targets / size - conditions @ solution.theta
    conditions = conditions * scale
    if len(conditions) > p:  # more than there are unknowns: as many of the same row space, with the same solution
        Q, conditions = np.linalg.qr(conditions)
        missed = Q.T @ missed
    left = np.zeros((p + len(conditions),) * 2)
    ridge = problem.ridge * scale**2
    unit = max(float(ridge.max()), np.finfo(float).tiny)
    left[:p, :p] = np.diag(ridge / unit)
    left[p:, :p] = conditions
    left[:p, p:] = conditions.T
    right = np.concatenate([(linear - problem.ridge * solution.theta) * scale / unit, missed])
    step = least_norm_solution(left, right)
    return solution.theta + scale * step[:p]
