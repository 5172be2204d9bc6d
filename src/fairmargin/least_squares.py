"""Least squares by a factorisation that always ends.

LAPACK's default goes through singular values, an iteration that now and then does not converge, depending on the
processor and its threads. A QR factorisation with pivoting has no iteration, and is faster.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

__all__ = ["least_norm_solution"]

Array = NDArray[np.float64]


def least_norm_solution(matrix: Array, right: Array) -> Array:
    """Return the ``x`` of least norm among those that minimise ``|matrix x - right|``.

    Parameters
    ----------
    matrix : array of shape (m, n)
        Of any rank; rows and columns should be of order one, since the rank is decided relative to the largest.
    right : array of shape (m,) or (m, k)
    """
    if right.size == 0:  # LAPACK refuses
        return np.zeros((matrix.shape[1], *right.shape[1:]))
    rounding = max(matrix.shape) * np.finfo(float).eps  # what is left of a dependent row or column
    solution: Array = scipy.linalg.lstsq(matrix, right, rounding, check_finite=False, lapack_driver="gelsy")[0]
    return solution
