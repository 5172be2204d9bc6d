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
from fairmargin.solvers.contract import Accuracy, Start
from fairmargin.solvers.newton import solve_newton
from fairmargin.tolerances import EPS

__all__ = ["solve_proximal"]

Array = NDArray[np.float64]

# Penalties of the rounds, relative to the curvature that a loss of curvature one would have. Smaller ones take fewer
# rounds, each of them harder.
_PENALTIES = [1e-3, 1e-4, 1e-5] + 9 * [1e-6]
_INNER = 1e-4  # of the tolerance: an unpenalised gap is linear in the residuals that a penalty would square


def solve_proximal(problem: Problem, *, accuracy: Accuracy | None = None) -> Solution:
    """Solve a problem with a smooth loss and no penalty to the duality gap asked for."""
    accuracy = Accuracy() if accuracy is None else accuracy
    size = float(problem.weight.sum()) * problem.design.scale**2
    if problem.design.fit_intercept:
        size[-1] = 0.0
    inner = replace(accuracy, tol=max(_INNER * accuracy.tol, 10 * EPS))
    centre, start = np.zeros_like(size), None
    n_iter, best = 0, None
    for penalty in _PENALTIES:
        eps = penalty * size
        inside = solve_newton(_around(problem, centre, eps), start=start, accuracy=inner)
        n_iter += inside.certificate.n_iter
        inside = replace(inside, alpha=problem.dual_variables(inside.scores))
        sums = problem.dual_sums(inside.scores, inside.alpha)
        proof = problem.certify(
            inside.theta, inside.multipliers, inside.scores, sums, tol=accuracy.tol, n_iter=n_iter
        )
        solution = replace(inside, certificate=proof)
        if best is None or proof.gap < best.certificate.gap:
            best = solution
        if proof.status == "solved":
            return solution
        centre, start = inside.theta, Start(inside.theta, inside.multipliers)
    assert best is not None
    return replace(best, certificate=replace(best.certificate, n_iter=n_iter))


def _around(problem: Problem, centre: Array, eps: Array) -> Problem:
    """Return the problem with the penalty ``1/2 sum_j eps_j (theta_j - centre_j)^2``."""
    tilt = -eps * centre if problem.tilt is None else problem.tilt - eps * centre
    return replace(problem, ridge=eps, tilt=tilt, offset=problem.offset + 0.5 * float(eps @ centre**2))
