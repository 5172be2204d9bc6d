"""Solving a piecewise quadratic regression without a penalty to the last digits.

The squared loss is quadratic and the Huber loss is so piecewise. Once Newton's method has reached the piece of the
optimum and knows which rows of A are at a bound, the optimum and its multipliers solve one linear system,

    [ H  A' ] [ step ]   [ -gradient       ]
    [ A  0  ] [ nu   ] = [ bound - A theta ].

Without a penalty the dual bound is linear in what the multipliers leave of the gradient, so that they are needed to
the last digit, also where few rows are curved and ``H`` alone is singular.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.least_squares import least_norm_solution
from fairmargin.problem import Problem, Solution
from fairmargin.regression.problem import RegressionProblem
from fairmargin.solvers import Accuracy, Start, solve
from fairmargin.solvers.matrix_free import is_affordable

__all__ = ["solve_pieces"]

Array = NDArray[np.float64]

_ROUNDS = 3  # the first may end in a neighbouring piece

_solve_any = solve.dispatch(Problem)  # before the one below is registered


@solve.register
def solve_pieces(
    problem: RegressionProblem, *, start: Start | None = None, accuracy: Accuracy | None = None
) -> Solution:
    """Solve a regression with a smooth loss like any other problem, and finish it here if the gap is too large."""
    accuracy = Accuracy() if accuracy is None else accuracy
    best: Solution = _solve_any(problem, start=start, accuracy=accuracy)
    if best.certificate.status == "solved" or np.any(problem.ridge) or not is_affordable(problem):
        return best
    here = best
    for _ in range(_ROUNDS):
        here = _step(problem, here, accuracy.tol)
        if here.certificate.gap < best.certificate.gap or here.certificate.status == "solved":
            best = here
    return best


def _step(problem: RegressionProblem, at: Solution, tol: float) -> Solution:
    """Return the solution of the system at a point, with its certificate."""
    scale, nu = 1.0 / problem.design.scale, at.multipliers
    curvature = problem.loss.second_derivative(at.scores)
    gradient = problem.penalty_gradient(at.theta) - problem.design.rmatvec(problem.dual_variables(at.scores))
    active = np.flatnonzero((nu != 0) | (problem.lower == problem.upper))
    rows = problem.rows[active] * scale
    size = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    size = np.where(size > 0, size, 1.0)
    hessian = problem.design.sandwich(problem.weight * curvature) * np.outer(scale, scale)
    unit = max(float(np.trace(hessian)), np.finfo(float).tiny)
    p = len(scale)
    left = np.zeros((p + len(active),) * 2)
    left[:p, :p] = hessian / unit
    left[p:, :p] = rows / size[:, None]
    left[:p, p:] = left[p:, :p].T
    bound = np.where(nu > 0, problem.upper, problem.lower)[active]
    right = np.concatenate([-gradient * scale / unit, (bound - problem.rows[active] @ at.theta) / size])
    found = least_norm_solution(left, right)
    theta, multipliers = at.theta + scale * found[:p], np.zeros_like(nu)
    multipliers[active] = found[p:] * unit / size
    scores = problem.design.matvec(theta)
    alpha = problem.dual_variables(scores)
    sums = problem.dual_sums(scores, alpha)
    n_iter = at.certificate.n_iter + 1
    proof = problem.certify(theta, multipliers, scores, sums, tol=tol, n_iter=n_iter, ending=at.certificate.status)
    alpha = problem.balanced(alpha, multipliers, sums)
    return replace(at, theta=theta, multipliers=multipliers, scores=scores, alpha=alpha, certificate=proof)
