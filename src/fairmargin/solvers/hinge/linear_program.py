"""The hinge loss without a penalty is a linear program; HiGHS ends at a vertex, exact to rounding.

    min  sum_i c_i xi_i + t' theta   s.t.  m_i + xi_i >= 1  (alpha_i),  xi >= 0,  lower <= A theta <= upper  (nu)

Interior-point and multiplier methods come near the optimum of such a problem, but flat directions keep them from
the last digits. This is the last resort: it holds the features in memory once more, as a sparse matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from fairmargin.problem import ROUNDING_ROOM, Problem, Solution
from fairmargin.solvers.contract import Accuracy

__all__ = ["solve_hinge_program"]

Array = NDArray[np.float64]

_LARGEST = 300_000  # entries of X beyond which the simplex method is too slow to be a resort
_EXACT = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), ROUNDING_ROOM)


def solve_hinge_program(problem: Problem, *, accuracy: Accuracy | None = None) -> Solution | None:
    """Solve a problem with the hinge loss and no penalty; None where HiGHS has no answer or it would take long."""
    accuracy = Accuracy() if accuracy is None else accuracy
    n, p = problem.design.shape
    if n * p > _LARGEST:
        return None
    program, unit, length = _write(problem)
    answer = linprog(**program, method="highs", options=_EXACT | {"maxiter": 1000 * accuracy.max_iter})
    if answer.status != 0:
        return None
    theta = answer.x[:p] / problem.design.scale
    price = np.concatenate([answer.ineqlin.marginals, answer.eqlin.marginals]) * -unit
    multipliers = _per_row(problem, price[n:]) / length
    alpha = np.clip(price[:n], 0.0, problem.weight)
    scores = problem.design.matvec(theta)
    sums = problem.dual_sums(scores, alpha)
    certificate = problem.certify(theta, multipliers, scores, sums, tol=accuracy.tol, n_iter=int(answer.nit))
    return Solution(theta, multipliers, scores, alpha, certificate)


def _write(problem: Problem) -> tuple[dict[str, Any], float, Array]:
    """Return the program in units in which features, rows and weights are of order one, and the last two units."""
    n, p = problem.design.shape
    size, unit = problem.design.scale, float(problem.weight.mean())
    rows = problem.rows / size
    length = np.sqrt((rows**2).sum(axis=1))
    length = np.where(length > 0, length, 1.0)
    rows, lower, upper = rows / length[:, None], problem.lower / length, problem.upper / length
    equal, above, below = _sides(problem)
    signed = sp.csr_matrix(-problem.y[:, None] * (problem.design.rows(slice(None)) / size))
    ranges = sp.csr_matrix(np.vstack([rows[above], -rows[below]]))
    tilt = np.zeros(p) if problem.tilt is None else problem.tilt / size
    program = {
        "c": np.concatenate([tilt, problem.weight]) / unit,
        "A_ub": sp.vstack([sp.hstack([signed, -sp.identity(n, format="csr")]), _pad(ranges, n)]).tocsr(),
        "b_ub": np.concatenate([-np.ones(n), upper[above], -lower[below]]),
        "A_eq": _pad(sp.csr_matrix(rows[equal]), n),
        "b_eq": lower[equal],
        "bounds": [(None, None)] * p + [(0, None)] * n,
    }
    return program, unit, length


def _pad(rows: sp.csr_matrix, n: int) -> Any:
    return sp.hstack([rows, sp.csr_matrix((rows.shape[0], n))]).tocsr()


def _sides(problem: Problem) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    equal = problem.lower == problem.upper
    return equal, ~equal & np.isfinite(problem.upper), ~equal & np.isfinite(problem.lower)


def _per_row(problem: Problem, price: Array) -> Array:
    """Return one multiplier per row of A from those of its sides, in the order of the program."""
    equal, above, below = _sides(problem)
    up, down, both = np.split(price, [above.sum(), above.sum() + below.sum()])
    multipliers = np.zeros(problem.n_rows)
    multipliers[above] += up
    multipliers[below] -= down
    multipliers[equal] = both
    return multipliers
