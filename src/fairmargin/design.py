"""The matrix contract: everything the solvers do with data is one of three operations.

A design presents the augmented matrix ``Xa = [X - 1 mu', 1]`` (N rows, p = d + 1 columns, or ``X`` itself
without an intercept) through

- ``matvec(theta)``: ``Xa theta``, shape (N,);
- ``rmatvec(r)``: ``Xa' r``, shape (p,), or (p, k) for k vectors at once;
- ``sandwich(weights)``: ``Xa' diag(weights) Xa``, shape (p, p).

The shift ``mu`` is zero but for columns whose mean dwarfs their spread (years, timestamps), where forming
a Gram matrix without it would lose most digits. ``to_original`` undoes it. ``X`` is never copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

__all__ = ["DenseDesign", "Design", "PassCount", "SparseDesign", "make_design", "reduce_wide"]

Array = NDArray[np.float64]

_BLOCK_BYTES = 1 << 19  # a block of rows and its weighted copy stay in the second-level cache
_SHIFT_RATIO = 30.0  # |mean| / spread above which a column is shifted


@dataclass
class PassCount:
    """How often each operation went through the data."""

    matvec: int = 0
    rmatvec: int = 0
    sandwich: float = 0.0  # one on a subset of the rows counts as that share


class Design(Protocol):
    """What a solver may ask of the data."""

    passes: PassCount
    scale: Array
    fit_intercept: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Rows N and columns p."""
        ...

    def matvec(self, theta: Array) -> Array:
        """Return ``Xa theta``."""
        ...

    def rmatvec(self, r: Array) -> Array:
        """Return ``Xa' r``."""
        ...

    def sandwich(self, weights: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return ``Xa' diag(weights) Xa`` (over ``rows`` only, if given)."""
        ...

    def take(self, rows: NDArray[np.intp]) -> Design:
        """Return the design of these rows, with the same shift."""
        ...

    def rows(self, index: NDArray[np.intp]) -> Array:
        """Return some rows of ``Xa`` as a dense matrix."""
        ...

    def to_original(self, theta: Array) -> tuple[Array, float]:
        """Return ``(w, b)`` of the unshifted features."""
        ...

    def from_original(self, w: Array, b: float) -> Array:
        """Return ``theta`` for ``(w, b)``: the inverse of ``to_original``."""
        ...


@dataclass
class _Base:
    """What dense and sparse designs share: the shift, the intercept column and its inverse."""

    X: Any
    mu: Array
    scale: Array  # (p,) typical size of each column, 1 where unknown
    fit_intercept: bool
    passes: PassCount = field(default_factory=PassCount)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1] + int(self.fit_intercept)

    def _offset(self, theta: Array) -> float:
        """Return the constant that ``X w`` lacks to be ``Xa theta``."""
        if not self.fit_intercept:
            return 0.0
        return float(theta[-1] - self.mu @ theta[:-1])

    def _weights(self, theta: Array) -> Array:
        return theta[:-1] if self.fit_intercept else theta

    def to_original(self, theta: Array) -> tuple[Array, float]:
        return self._weights(theta).copy(), self._offset(theta)

    def from_original(self, w: Array, b: float) -> Array:
        if not self.fit_intercept:
            return np.asarray(w, dtype=float).copy()
        return np.append(w, b + self.mu @ w)

    def rows(self, index: NDArray[np.intp]) -> Array:
        part = self.X[index]
        part = np.asarray(part.toarray() if sp.issparse(part) else part, dtype=float)
        if not self.fit_intercept:
            return part
        return np.hstack([part - self.mu, np.ones((len(part), 1))])

    def _close_rmatvec(self, xr: Array, r: Array) -> Array:
        if not self.fit_intercept:
            return xr
        total = r.sum(axis=0)
        if np.any(self.mu):
            xr = xr - (self.mu * total if r.ndim == 1 else np.outer(self.mu, total))
        return np.concatenate([xr, np.atleast_1d(total)[None] if r.ndim == 2 else [total]])


class DenseDesign(_Base):
    """A dense matrix, float64 or float32, in either memory order."""

    def matvec(self, theta: Array) -> Array:
        self.passes.matvec += 1
        w = np.ascontiguousarray(self._weights(theta))
        if self.X.dtype == np.float64:
            scores = self.X @ w
        else:  # float32 rows are widened block by block: sums must not be taken in single precision
            scores = np.empty(self.X.shape[0])
            for block in self._blocks(self.X.shape[0]):
                scores[block] = self.X[block].astype(np.float64) @ w
        if self.fit_intercept:
            scores += self._offset(theta)
        return scores

    def rmatvec(self, r: Array) -> Array:
        self.passes.rmatvec += 1
        if self.X.dtype == np.float64:
            return self._close_rmatvec(self.X.T @ r, r)
        xr = np.zeros((self.X.shape[1], *r.shape[1:]))
        for block in self._blocks(self.X.shape[0]):
            xr += self.X[block].astype(np.float64).T @ r[block]
        return self._close_rmatvec(xr, r)

    def sandwich(self, weights: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Accumulate the symmetric product block by block: half the multiplications, no N x p copy."""
        n, p = self.shape
        d = self.X.shape[1]
        count = n if rows is None else len(rows)
        self.passes.sandwich += count / n
        root = np.sqrt(weights if rows is None else weights[rows])
        row_major = self.X.flags.c_contiguous
        shifted = bool(np.any(self.mu))
        gram = np.zeros((p, p), order="F")
        buffer = np.empty((0, p))
        for block in self._blocks(count):
            size = block.stop - block.start
            if size != buffer.shape[0]:
                buffer = np.empty((size, p), order="C" if row_major else "F")
            part = self.X[block] if rows is None else self.X[rows[block]]
            scale = root[block, None]
            if shifted:
                np.subtract(part, self.mu, out=buffer[:, :d])
                buffer[:, :d] *= scale
            else:
                np.multiply(part, scale, out=buffer[:, :d])
            if self.fit_intercept:
                buffer[:, d] = root[block]
            if row_major:
                gram = dsyrk(1.0, buffer.T, beta=1.0, c=gram, overwrite_c=1)
            else:
                gram = dsyrk(1.0, buffer, beta=1.0, c=gram, trans=1, overwrite_c=1)
        return _mirror(gram)

    def take(self, rows: NDArray[np.intp]) -> DenseDesign:
        return DenseDesign(self.X[rows], self.mu, self.scale, self.fit_intercept)

    def _blocks(self, count: int) -> list[slice]:
        size = max(64, _BLOCK_BYTES // (8 * max(1, self.shape[1])))
        return [slice(i, min(i + size, count)) for i in range(0, count, size)]


class SparseDesign(_Base):
    """A CSR matrix. The Gram matrix is formed sparsely or through dense blocks, whichever is cheaper."""

    def matvec(self, theta: Array) -> Array:
        self.passes.matvec += 1
        return self.X @ self._weights(theta) + self._offset(theta)

    def rmatvec(self, r: Array) -> Array:
        self.passes.rmatvec += 1
        return self._close_rmatvec(self.X.T @ r, r)

    def sandwich(self, weights: Array, rows: NDArray[np.intp] | None = None) -> Array:
        n, p = self.shape
        X = self.X
        if rows is not None:
            X, weights = X[rows], weights[rows]
        self.passes.sandwich += X.shape[0] / n
        d = X.shape[1]
        gram = np.empty((p, p))
        gram[:d, :d] = self._product(X, weights)
        if self.fit_intercept:
            gram[:d, d] = gram[d, :d] = X.T @ weights
            gram[d, d] = weights.sum()
        return gram

    def _product(self, X: Any, weights: Array) -> Array:
        n, d = X.shape
        # Measured: a sparse product costs some 6 ns for each pair of entries in a row, a dense one 0.1 ns.
        if X.nnz**2 / max(n, 1) * 6.0 < n * d**2 * 0.1:
            return (X.T @ X.multiply(weights[:, None]).tocsr()).toarray()
        gram = np.zeros((d, d))
        size = max(64, _BLOCK_BYTES // (8 * d))
        for start in range(0, n, size):
            part = X[start : start + size].toarray()
            gram += part.T @ (part * weights[start : start + size, None])
        return gram

    def take(self, rows: NDArray[np.intp]) -> SparseDesign:
        return SparseDesign(self.X[rows], self.mu, self.scale, self.fit_intercept)


def _mirror(gram: Array) -> Array:
    """Return the full symmetric matrix from its upper triangle."""
    upper = np.triu(gram, 1)
    return upper + upper.T + np.diag(np.diag(gram))


def make_design(X: Any, fit_intercept: bool = True) -> DenseDesign | SparseDesign:
    """Wrap a dense or CSR matrix, choosing the shift from an even sample of the rows."""
    n, d = X.shape
    mu = np.zeros(d)
    sample = X[:: max(1, n // 1000)]
    sample = np.asarray(sample.toarray() if sp.issparse(X) else sample, dtype=np.float64)
    mean, spread = sample.mean(axis=0), sample.std(axis=0)
    if fit_intercept and not sp.issparse(X):
        # A constant column is the intercept once more: shifting it to zero takes it out of the problem.
        mu = np.where(np.abs(mean) > _SHIFT_RATIO * spread, mean, 0.0)
    scale = np.sqrt(spread**2 + (mean - mu) ** 2)
    scale = np.append(np.where(scale > 0, scale, 1.0), [1.0] * fit_intercept)
    kind = SparseDesign if sp.issparse(X) else DenseDesign
    return kind(X, mu, scale, fit_intercept)


@dataclass(frozen=True)
class WideReduction:
    """An orthonormal basis ``Q`` (d x r) of the row space: ``X = F Q'``, ``w = Q beta``, ``|w| = |beta|``."""

    features: Array
    basis: Array

    def expand(self, beta: Array) -> Array:
        """Return ``w = Q beta``."""
        return self.basis @ beta


def reduce_wide(X: Any) -> WideReduction:
    """Rewrite a matrix with more columns than rows in at most N orthonormal coordinates, exactly.

    The optimum lies in the row space of ``X`` (the covariance rows are in it too), so nothing is lost and
    the Newton systems shrink from d x d to N x N.
    """
    X = X.toarray() if sp.issparse(X) else X  # the basis is as large, and dense
    Q, R = scipy.linalg.qr(np.asarray(X, dtype=np.float64).T, mode="economic", check_finite=False)
    return WideReduction(np.ascontiguousarray(R.T), Q)
