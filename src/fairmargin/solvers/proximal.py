"""The proximal point method: problems without a penalty by problems with one.

Without a penalty (``C = inf``) a problem may be flat in some directions: nobody's loss is curved
along them, or columns are collinear. A penalty around the last point takes that away, and the points

    theta <- argmin L(theta) + 1/2 sum_j eps_j (theta_j - last_j)^2   subject to the rows

still end at an optimum of ``L``.

Reference: Rockafellar, Monotone operators and the proximal point algorithm, 1976.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.problem import Problem, Solution
from fairmargin.solvers.newton import Start, solve_newton

__all__ = ["solve_proximal"]

Array = NDArray[np.float64]

_FIRST = 1e-3  # of the curvature that a loss of curvature one would have
_SHRINK = 0.1
_LEAST = 1e-6
_ROUNDS = 12
_INNER = 1e-4  # what the penalty squares away, an unpenalised problem feels in full: rounds must be more exact


def solve_proximal(problem: Problem, *, tol: float = 1e-9, max_iter: int = 200) -> Solution:
    """Solve a problem with a smooth loss and no penalty to a relative duality gap of ``tol``."""
    size = float(problem.weight.sum()) * problem.design.scale**2
    if problem.design.fit_intercept:
        size[-1] = 0.0
    inner = max(_INNER * tol, 1e-14)
    solution = solve_newton(_around(problem, np.zeros_like(size), _FIRST * size), tol=inner, max_iter=max_iter)
    n_iter, best = 0, None
    for k in range(_ROUNDS):
        n_iter += solution.certificate.n_iter
        certificate = problem.certify(
            solution.theta, solution.multipliers, solution.scores, solution.alpha, n_iter, "solved"
        )
        solution = replace(solution, certificate=certificate)
        if best is None or certificate.gap < best.certificate.gap:
            best = solution
        if certificate.gap <= tol:
            return best
        eps = max(_FIRST * _SHRINK ** (k + 1), _LEAST) * size
        start = Start(solution.theta, solution.multipliers)
        solution = solve_newton(_around(problem, solution.theta, eps), start=start, tol=inner, max_iter=max_iter)
    assert best is not None
    return replace(best, certificate=replace(best.certificate, status="inaccurate", n_iter=n_iter))


def _around(problem: Problem, centre: Array, eps: Array) -> Problem:
    """Return the problem with the penalty ``1/2 sum_j eps_j (theta_j - centre_j)^2``."""
    tilt = -eps * centre if problem.tilt is None else problem.tilt - eps * centre
    return replace(problem, ridge=eps, tilt=tilt, offset=problem.offset + 0.5 * float(eps @ centre**2))
