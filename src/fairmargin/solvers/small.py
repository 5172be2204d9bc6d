"""The small dense linear algebra inside a Newton step: a safe factor and a box-constrained dual problem."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

__all__ = ["Factor", "solve_box_dual"]

Array = NDArray[np.float64]


class Factor:
    """Cholesky factor of a positive semidefinite matrix, equilibrated and minimally shifted.

    The matrix is scaled to a unit diagonal first, so that badly scaled columns cost no digits, and shifted
    by ``shift`` (relative) so that collinear columns have a factor at all. In a Newton method the shift is
    a proximal term: it damps steps where there is no curvature and leaves the solution where it is.
    """

    def __init__(self, matrix: Array, shift: float = 1e-13) -> None:
        diagonal = np.diag(matrix)
        size = np.where(diagonal > 0, diagonal, 1.0)
        self._scale = 1.0 / np.sqrt(size)
        scaled = matrix * self._scale * self._scale[:, None]
        here = np.arange(len(diagonal))
        base = scaled[here, here].copy()
        while True:
            scaled[here, here] = base + shift
            try:
                self._factor = scipy.linalg.cholesky(scaled, lower=True, check_finite=False)
                return
            except np.linalg.LinAlgError:
                if not np.all(np.isfinite(scaled)) or shift > 1.0:
                    raise
                shift *= 100.0

    def solve(self, right: Array) -> Array:
        """Return ``matrix^-1 right`` for a vector or several columns."""
        scale = self._scale if right.ndim == 1 else self._scale[:, None]
        return scale * scipy.linalg.cho_solve((self._factor, True), scale * right, check_finite=False)


def solve_box_dual(M: Array, q: Array, lower: Array, upper: Array) -> Array:
    """Return ``nu`` with ``v = q - M nu`` in ``[lower, upper]`` and complementarity.

    ``nu_k > 0`` only where ``v_k = upper_k``, ``nu_k < 0`` only where ``v_k = lower_k``: the multipliers of
    ``min 1/2 (v - q)' M^-1 (v - q)`` over the box. M (K, K) is positive semidefinite; dependent rows
    (the categories of one attribute sum to a constant) share their multiplier evenly (least norm).

    Block principal pivoting: guess which rows are active, solve, exchange every row that disagrees; where
    the number of disagreements has stopped falling, exchange only the last one, which ends after finitely
    many steps (Judice and Pires, 1994). For one row, or for equalities, the first guess is right.
    """
    K = len(q)
    if K == 0:
        return np.zeros(0)
    equal = lower == upper
    width = np.sqrt(np.maximum(np.diag(M), 0.0))
    slack = 1e-12 * (np.abs(q) + width) + 1e-300
    side = np.where(equal, 2, np.where(q > upper + slack, 1, np.where(q < lower - slack, -1, 0)))
    fewest, patience = K + 1, 3
    for _ in range(50 + 20 * K):
        nu = _solve_active(M, q, np.where(side == -1, lower, upper), side != 0)
        v = q - M @ nu
        wrong_sign = ((side == 1) & (nu < 0)) | ((side == -1) & (nu > 0))
        above, below = (side == 0) & (v > upper + slack), (side == 0) & (v < lower - slack)
        wrong = wrong_sign | above | below
        count = int(wrong.sum())
        if count == 0:
            return nu
        if count < fewest:
            fewest, patience = count, 3
        elif patience > 0:
            patience -= 1
        else:
            last = int(np.flatnonzero(wrong)[-1])
            wrong = np.zeros(K, dtype=bool)
            wrong[last] = True
        side = np.where(wrong & wrong_sign, 0, side)
        side = np.where(wrong & above, 1, np.where(wrong & below, -1, side))
    return nu


def _solve_active(M: Array, q: Array, target: Array, active: NDArray[np.bool_]) -> Array:
    """Return ``nu``, zero off the active rows, with ``(q - M nu)_active = target_active`` (least norm)."""
    nu = np.zeros(len(q))
    index = np.flatnonzero(active)
    if len(index) == 0:
        return nu
    block = M[np.ix_(index, index)]
    scale = np.sqrt(np.maximum(np.diag(block), 0.0))
    alive = scale > 0
    index, scale = index[alive], scale[alive]
    if len(index) == 0:
        return nu
    right = (q[index] - target[index]) / scale
    scaled = block[np.ix_(alive, alive)] / scale / scale[:, None]
    if len(index) == 1:
        solved = right
    else:
        values, vectors = scipy.linalg.eigh(scaled, check_finite=False)
        keep = values > 1e-11 * values[-1]
        solved = vectors[:, keep] @ ((vectors[:, keep].T @ right) / values[keep])
    nu[index] = solved / scale
    return nu
