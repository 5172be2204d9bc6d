"""Fewer coordinates in which the same classifiers can be written: bases of the row space of ``X``.

A score ``w.x`` depends on the part of ``w`` in the row space only. Where that space is smaller than the number of
columns (more columns than rows, dependent columns), a basis of it makes the problem smaller, or determined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from fairmargin.design import check_sizes, column_moments

__all__ = ["GramReduction", "Reduction", "reduce_few_rows", "reduce_rank", "reduce_wide"]

Array = NDArray[np.float64]

_LEAST_EIGENVALUE = 1e-5  # of X X', relative to the largest, for which its coordinates have eleven digits
_SMALL_ENTRIES = 1 << 21  # of a sparse matrix that may be written out: 16 MB
_BLOCK_BYTES = 1 << 22  # of the rows that are added to a triangular factor at a time
# Without a penalty a certificate reaches some ten units of each coefficient, while the optimum may be as far as the
# inverse of the least singular value of columns of unit norm: from here on it would miss a hundred times its gap.
_INDEPENDENT = 1e-3


@dataclass(frozen=True)
class Reduction:
    """Features ``F = X Q`` in a basis ``Q`` (d, r) of the row space: ``w = Q beta``.

    Under a penalty the basis is orthonormal, so that ``|w| = |beta|``.
    """

    features: Array
    basis: Array

    def expand(self, beta: Array) -> Array:
        """Return ``w = Q beta``."""
        return self.basis @ beta


def reduce_wide(X: Any) -> Reduction:
    """Rewrite a matrix with more columns than rows in at most N orthonormal coordinates, exactly.

    The optimum lies in the row space of ``X`` (the covariance rows are in it too), so nothing is lost and
    the Newton systems shrink from d x d to N x N.
    """
    X = X.toarray() if sp.issparse(X) else X  # the basis is as large, and dense
    Q, R = scipy.linalg.qr(np.asarray(X, dtype=np.float64).T, mode="economic", check_finite=False)
    return Reduction(np.ascontiguousarray(R.T), Q)


@dataclass(frozen=True)
class GramReduction:
    """The same for a sparse matrix: features ``F = U S^(1/2)`` of ``X X' = U S U'``, with ``Q = X' U S^(-1/2)``
    unformed."""

    features: Array
    X: Any
    coordinates: Array

    def expand(self, beta: Array) -> Array:
        """Return ``w = Q beta``."""
        return np.asarray(self.X.T @ (self.coordinates @ beta))


def reduce_few_rows(X: Any) -> Reduction | GramReduction | None:
    """Rewrite a sparse matrix with few rows and more columns in as many coordinates as it has rows.

    ``X X'`` has the square of the condition number of ``X``: where that costs more than five digits (columns of very
    different sizes, dependent rows), a small matrix is written out and a large one, None, is left as it is.
    """
    X = X.astype(np.float64, copy=False)
    values, vectors = scipy.linalg.eigh((X @ X.T).toarray(), check_finite=False)
    if values[0] > _LEAST_EIGENVALUE * values[-1]:
        size = np.sqrt(values)
        return GramReduction(vectors * size, X, vectors / size)
    return reduce_wide(X.toarray()) if X.shape[0] * X.shape[1] <= _SMALL_ENTRIES else None


def reduce_rank(X: Any, fit_intercept: bool) -> Reduction | None:
    """Rewrite a matrix with (nearly) dependent columns in as many coordinates as its rank; None if they are not.

    Without a penalty, dependent columns leave the coefficients undetermined, and nearly dependent ones leave them to
    differences that no gradient shows. In these coordinates, whose features are orthogonal, they are determined, and
    ``w = Q beta`` is the one of least norm among all that give the same scores. With an intercept the row space is
    that of the centred columns: a constant column is the intercept once more and gets a coefficient of zero.

    The rank is decided on columns of unit norm, as ``numpy.linalg.matrix_rank`` does, from the triangular factor of
    a QR decomposition taken block by block.
    """
    n, d = X.shape
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
        R, mean = _triangular_factor(X, fit_intercept)
        norm = np.sqrt(np.einsum("ij,ij->j", R, R))
    check_sizes(norm)
    # Centring leaves rounding of the size of the mean: a column with no more than that is constant.
    rounding = max(n, d) * np.finfo(float).eps
    norm = np.where(norm <= rounding * (norm + np.sqrt(n) * np.abs(mean)), 0.0, norm)
    used = norm > 0
    _, values, Vt = scipy.linalg.svd(R / np.where(used, norm, np.inf), full_matrices=False, check_finite=False)
    rank = int(np.sum(values > rounding * values.max(initial=0.0)))
    if rank == d and values[-1] >= _INDEPENDENT * values[0]:
        return None
    # Features of unit spread, orthogonal to each other.
    basis = (Vt[:rank] / np.where(used, norm, np.inf)).T * (np.sqrt(n) / values[:rank])
    if rank < d:  # the row space of X is that of the scaled columns, scaled back
        rows = scipy.linalg.qr((Vt[:rank] * norm).T, mode="economic", check_finite=False)[0]
        basis = rows @ (rows.T @ basis)
    return Reduction(np.ascontiguousarray(X @ basis), basis)


def _triangular_factor(X: Any, fit_intercept: bool) -> tuple[Array, Array]:
    """Return the factor R of a QR decomposition of the columns, centred if there is an intercept, and their means."""
    n, d = X.shape
    mean = column_moments(X)[0] if fit_intercept else np.zeros(d)
    R = np.empty((0, d))
    size = max(256, _BLOCK_BYTES // (8 * d), d)
    for start in range(0, n, size):
        part = X[start : start + size]
        part = np.asarray(part.toarray() if sp.issparse(part) else part, dtype=np.float64) - mean
        R = scipy.linalg.qr(np.vstack([R, part]), mode="r", check_finite=False)[0][:d]
    return R, mean
