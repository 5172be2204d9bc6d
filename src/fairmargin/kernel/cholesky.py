"""Kernels as features: a partial Cholesky factorisation ``K ~ F F'`` that never forms the kernel matrix.

Landmarks are chosen in blocks. Rows are drawn in proportion to the part of ``k(x_i, x_i)`` that the features so far
do not explain, twice as many as are needed; of these, complete pivoting picks those that add most, so that near
copies of each other are not both taken. A block costs one evaluation of its kernel columns and one matrix
product; N (d + r) r operations in all, and memory N r.

With ``P`` the projection on the landmarks' span in the space of the kernel, the rows of ``F`` are the
``P phi(x_i)`` in an orthonormal basis. So a function ``F w`` has exactly the norm ``|w|``, and all that is lost is
that functions outside of the span are not considered.

References: Chen, Epperly, Tropp and Webber, Randomly pivoted Cholesky, 2022; Dong, Chen, Martinsson and Pearce,
Robust blockwise random pivoting, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf

from fairmargin.exceptions import IndefiniteKernelError

__all__ = ["IndefiniteKernelError", "KernelMatrix", "PartialCholesky", "check_positive", "factorise", "positive_part"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_BLOCK = 64  # landmarks in the first blocks; later blocks have a quarter of those so far
_LARGEST_BLOCK = 256
_CHECKED = 2000  # rows on which a kernel is checked to be positive semidefinite


class KernelMatrix(Protocol):
    """What a factorisation needs of a kernel matrix, N x N and symmetric."""

    @property
    def precision(self) -> float:
        """Relative error of an entry."""
        ...

    def __len__(self) -> int:
        """Return N."""
        ...

    @property
    def order(self) -> Index:
        """A permutation of the rows, (N,): the order in which random numbers are assigned to them."""
        ...

    def diagonal(self) -> Array:
        """Return ``k(x_i, x_i)``, shape (N,)."""
        ...

    def block(self, rows: Index | None, columns: Index) -> Array:
        """Return ``k(x_i, x_j)`` for ``rows`` (None for all) and ``columns``."""
        ...


@dataclass(frozen=True)
class PartialCholesky:
    """``K ~ F F'``, with ``F[landmarks] = corner``.

    Attributes
    ----------
    features : (N, r)
        ``F``, in row-major order.
    landmarks : (m,)
        Rows whose kernel columns span the features; m = r except for the positive part of an indefinite kernel.
    basis : (m, r)
        ``F(x) = k(x, landmarks) @ basis`` for any ``x``.
    error : float
        The part of the trace that is left out: ``tr(K - F F') / tr(K)``.
    """

    features: Array
    landmarks: Index
    basis: Array
    error: float


def factorise(kernel: KernelMatrix, tol: float, max_rank: int, seed: np.random.RandomState) -> PartialCholesky:
    """Factorise until the relative trace error is ``tol`` or there are ``max_rank`` columns.

    It also stops when the remainder is only rounding error.
    """
    diagonal = kernel.diagonal()
    _check_finite(diagonal)
    total, largest = float(diagonal.sum()), float(diagonal.max())
    if np.min(diagonal) < 0:
        raise IndefiniteKernelError(_indefinite("k(x, x) is negative for some row"))
    n = len(kernel)
    max_rank = min(max_rank, n)
    features = np.empty((n, min(max_rank, 4 * _BLOCK)))
    landmarks = np.empty(0, dtype=np.intp)
    left = diagonal.copy()
    # Equal pivots are common (k(x, x) = 1, equal rows), and rounding must not choose between them.
    preference = np.empty(n)
    preference[kernel.order] = 1.0 + 1e-6 * np.random.default_rng(0).random(n)
    noise = 10.0 * max(kernel.precision, n * np.finfo(float).eps) * largest
    while len(landmarks) < max_rank and left.sum() > tol * total and left.max() > noise:
        r = len(landmarks)
        size = min(max(_BLOCK, r // 4), _LARGEST_BLOCK, max_rank - r)
        chosen, corner = _choose(kernel, features[:, :r], left, preference, noise, size, seed)
        if features.shape[1] < r + len(chosen):
            features = _widen(features, r, min(max_rank, max(2 * r, r + len(chosen))))
        new = kernel.block(None, chosen)
        new -= features[:, :r] @ features[chosen, :r].T
        new = scipy.linalg.solve_triangular(corner, new.T, lower=True, check_finite=False, overwrite_b=True).T
        used = _enough(new, left.sum() - tol * total)
        chosen, new = chosen[:used], new[:, :used]
        features[:, r : r + used] = new
        left -= np.einsum("ij,ij->i", new, new)
        left[chosen] = 0.0
        if left.min() < -1e3 * noise:
            raise IndefiniteKernelError(_indefinite("the features of a row are longer than its k(x, x)"))
        np.maximum(left, 0.0, out=left)
        landmarks = np.concatenate([landmarks, chosen])
    features = np.ascontiguousarray(features[:, : len(landmarks)])
    error = float(left.sum()) / total if total > 0 else 0.0
    return PartialCholesky(features, landmarks, _invert(features[landmarks]), error)


def _choose(
    kernel: KernelMatrix,
    features: Array,
    left: Array,
    preference: Array,
    noise: float,
    size: int,
    seed: np.random.RandomState,
) -> tuple[Index, Array]:
    """Return new landmarks and the factor of what is left of the kernel between them.

    Pivots are multiplied by ``preference`` (N,), which is close to 1, before they are compared.
    """
    alive = kernel.order[left[kernel.order] > noise]
    # The largest of log-weights with Gumbel noise are a draw without replacement in proportion to the weights.
    keys = np.log(left[alive]) + seed.gumbel(size=len(alive))
    count = min(2 * size, len(alive))
    drawn = alive[np.sort(np.argpartition(-keys, count - 1)[:count])]
    schur = kernel.block(drawn, drawn) - features[drawn] @ features[drawn].T
    factor, order, rank, _ = dpstrf(schur * preference[drawn] * preference[drawn, None], tol=noise, lower=1)
    used = max(1, min(size, rank))
    chosen = drawn[order[:used] - 1]
    return chosen, np.tril(factor[:used, :used]) / preference[chosen, None]


def _widen(features: Array, rank: int, width: int) -> Array:
    wider = np.empty((features.shape[0], width))
    wider[:, :rank] = features[:, :rank]
    return wider


def _enough(new: Array, missing: float) -> int:
    """Return how many of the new columns it takes to cover ``missing`` of the trace."""
    covered = np.cumsum(np.einsum("ij,ij->j", new, new))
    return min(int(np.searchsorted(covered, missing)) + 1, new.shape[1])


def _invert(corner: Array) -> Array:
    """Return ``corner^-T`` of the lower triangular factor of the landmarks' kernel matrix."""
    identity = np.eye(len(corner))
    return scipy.linalg.solve_triangular(np.tril(corner), identity, lower=True, trans="T", check_finite=False)


def check_positive(kernel: KernelMatrix, seed: np.random.RandomState) -> None:
    """Raise unless the kernel matrix of all rows, or of a sample of them, is positive semidefinite.

    Eigenvalues that are negative by less than the precision of the kernel are tolerated.
    """
    n = len(kernel)
    rows = np.arange(n) if n <= _CHECKED else np.sort(seed.choice(n, _CHECKED, replace=False))
    matrix = kernel.block(rows, rows)
    matrix = 0.5 * (matrix + matrix.T)
    diagonal = np.diag(matrix)
    if diagonal.min() < 0:
        raise IndefiniteKernelError(_indefinite("k(x, x) is negative for some row"))
    slack = len(rows) * max(1e-10, 10 * kernel.precision) * max(float(diagonal.max()), np.finfo(float).tiny)
    matrix[np.diag_indices_from(matrix)] += slack
    try:
        scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        raise IndefiniteKernelError(_indefinite("its matrix has negative eigenvalues")) from None


def _check_finite(entries: Array) -> None:
    """Raise if the kernel, or the sum of these entries, exceeds the range of floating point numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(np.sum(entries))
    if not finite:
        raise ValueError("The kernel matrix has entries that are too large to compute with; scale the features.")


def _indefinite(why: str) -> str:
    return (
        f"The kernel is indefinite, so it is not an inner product and the problem is not convex ({why}); use another "
        'kernel, or set indefinite="clip" to use its positive part.'
    )


def positive_part(kernel: KernelMatrix, tol: float, max_rank: int, seed: np.random.RandomState) -> PartialCholesky:
    """Return features of the positive part of an indefinite kernel matrix.

    Eigenvalues of the landmarks' matrix that are not positive are dropped, and so are the smallest positive ones
    whose sum is at most the share ``tol`` of the total. Landmarks are all rows, or a sample of ``max_rank`` of them.
    """
    n = len(kernel)
    landmarks = np.arange(n) if n <= max_rank else np.sort(seed.choice(n, max_rank, replace=False))
    matrix = kernel.block(landmarks, landmarks)
    _check_finite(matrix)
    values, vectors = scipy.linalg.eigh(0.5 * (matrix + matrix.T), check_finite=False)
    values, vectors = values[::-1], vectors[:, ::-1]
    positive = np.maximum(values, 0.0)
    if positive[0] <= 0:
        raise IndefiniteKernelError("The kernel has no positive part: none of its eigenvalues is positive.")
    tail = 1.0 - np.cumsum(positive) / positive.sum()
    solid = int(np.sum(values > len(values) * max(1e-13, kernel.precision) * values[0]))
    rank = min(int(np.argmax(tail <= max(tol, 1e-15))) + 1, solid)
    basis = vectors[:, :rank] / np.sqrt(values[:rank])
    features = np.ascontiguousarray(kernel.block(None, landmarks) @ basis)
    return PartialCholesky(features, landmarks, basis, max(0.0, float(tail[rank - 1])))
