"""The matrix contract: everything the solvers do with data is one of three operations.

A design presents the augmented matrix ``Xa = [X - 1 mu', 1]`` (N rows, p = d + 1 columns, or ``X`` itself
without an intercept) through

- ``matvec(theta)``: ``Xa theta``, shape (N,), and ``matmat`` for several;
- ``rmatvec(r)``: ``Xa' r``, shape (p,), or (p, k) for k vectors at once;
- ``sandwich(weights)``: ``Xa' diag(weights) Xa``, shape (p, p), and ``squares(weights)``, its diagonal.

The shift ``mu`` is zero but for columns whose mean dwarfs their spread (years, timestamps), where forming
a Gram matrix without it would lose most digits. ``to_original`` undoes it. ``X`` is never copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = [
    "BaseDesign",
    "DenseDesign",
    "Design",
    "PassCount",
    "SparseDesign",
    "check_sizes",
    "column_moments",
    "make_design",
]

Array = NDArray[np.float64]

_BLOCK_BYTES = 1 << 19  # a block of rows and its weighted copy stay in the second-level cache
_ROWS, _PART_BYTES = 4096, 1 << 22  # rows of X that a Gram matrix takes at a time: fewer of wide ones
_SUMMED = 1 << 14  # rows over which sums in single precision are good enough; the rest is summed up in double
_SINGLE_ENTRIES = 50_000_000  # of a matrix worth a copy in single precision
_TINY = 1e-12  # columns smaller or, turned over, larger than this leave the range of float32 when squared
# Seconds, measured: per multiplication of a Gram matrix formed densely, per pair of entries in a row of one formed
# sparsely, and per entry of X in a pass over it, besides what a call takes.
_DENSE_PRODUCT, _SPARSE_PRODUCT = 1e-10, 6e-9
_DENSE_PASS, _SPARSE_PASS, _CALL = 5e-10, 2e-9, 5e-5
_SHIFT_RATIO = 30.0  # |mean| / spread above which a column is shifted


@dataclass
class PassCount:
    """How often each operation went through the data.

    On a subset of the rows it counts as that share, and in single precision, with half the bytes, as a half.
    """

    matvec: float = 0.0
    rmatvec: float = 0.0
    sandwich: float = 0.0


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

    def matmat(self, thetas: Array) -> Array:
        """Return ``Xa theta`` of several ``theta``, the rows of (k, p), as (k, N)."""
        ...

    def rmatvec(self, r: Array) -> Array:
        """Return ``Xa' r``."""
        ...

    def sandwich(self, weights: Array, rows: NDArray[np.intp] | None = None, single: bool = False) -> Array:
        """Return ``Xa' diag(weights) Xa`` (over ``rows`` only, if given); ``single`` precision may be had faster."""
        ...

    def squares(self, weights: Array, pull: Array | None = None) -> Array:
        """Return the diagonal of ``Xa' diag(weights) Xa``, (p,); ``pull`` is ``Xa' weights`` where that is known."""
        ...

    @property
    def pass_cost(self) -> float:
        """About how many seconds ``matvec`` or ``rmatvec`` takes."""
        ...

    @property
    def sandwich_cost(self) -> float:
        """About how many seconds ``sandwich`` takes."""
        ...

    @property
    def n_bytes(self) -> int:
        """Memory of the data."""
        ...

    def take(self, rows: NDArray[np.intp]) -> Design:
        """Return the design of these rows, with the same shift."""
        ...

    def single(self) -> Design | None:
        """Return the design in single precision, for work that need not be exact, or None where it does not pay."""
        ...

    def rows(self, index: NDArray[np.intp] | slice) -> Array:
        """Return some rows of ``Xa`` as a dense matrix of its own."""
        ...

    def to_original(self, theta: Array) -> tuple[Array, float]:
        """Return ``(w, b)`` of the unshifted features."""
        ...

    def from_original(self, w: Array, b: float) -> Array:
        """Return ``theta`` for ``(w, b)``: the inverse of ``to_original``."""
        ...


@dataclass
class BaseDesign:
    """What dense and sparse designs share: the shift, the intercept column and its inverse."""

    X: Any
    mu: Array
    scale: Array  # (p,) typical size of each column, 1 where unknown
    fit_intercept: bool
    passes: PassCount = field(default_factory=PassCount)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1] + int(self.fit_intercept)

    @cached_property
    def is_shifted(self) -> bool:
        """Whether ``mu`` is not zero."""
        return bool(np.any(self.mu))

    def offset(self, theta: Array) -> float:
        """Return the constant that ``X w`` lacks to be ``Xa theta``."""
        if not self.fit_intercept:
            return 0.0
        return float(theta[-1] - self.mu @ theta[:-1])

    def weights(self, theta: Array) -> Array:
        """Return the coefficients of the columns of ``X``."""
        return theta[:-1] if self.fit_intercept else theta

    def to_original(self, theta: Array) -> tuple[Array, float]:
        return self.weights(theta).copy(), self.offset(theta)

    def from_original(self, w: Array, b: float) -> Array:
        if not self.fit_intercept:
            return np.asarray(w, dtype=float).copy()
        return np.append(w, b + self.mu @ w)

    def matmat(self, thetas: Array) -> Array:
        """Return ``Xa theta`` of several ``theta``, the rows of (k, p), as (k, N): one pass where ``X`` allows it."""
        return np.array([self.matvec(theta) for theta in thetas])

    def matvec(self, theta: Array) -> Array:
        raise NotImplementedError

    def rows(self, index: NDArray[np.intp] | slice) -> Array:
        part = self.X[index]
        part = part.toarray() if sp.issparse(part) else part
        rows = np.ones((part.shape[0], self.shape[1]))
        np.subtract(part, self.mu, out=rows[:, : part.shape[1]])
        return rows

    def close_rmatvec(self, xr: Array, r: Array) -> Array:
        """Return ``Xa' r``, given ``X' r``."""
        if not self.fit_intercept:
            return xr
        total = r.sum(axis=0)
        if self.is_shifted:
            xr = xr - (self.mu * total if r.ndim == 1 else np.outer(self.mu, total))
        return np.concatenate([xr, np.atleast_1d(total)[None] if r.ndim == 2 else [total]])


class DenseDesign(BaseDesign):
    """A dense matrix, float64 or float32, in either memory order."""

    def matvec(self, theta: Array) -> Array:
        self.passes.matvec += 1
        w = np.ascontiguousarray(self.weights(theta))
        if self.X.dtype == np.float64:
            scores = self.X @ w
        else:  # float32 rows are widened block by block: sums must not be taken in single precision
            scores = np.empty(self.X.shape[0])
            for block in self._blocks(self.X.shape[0]):
                scores[block] = self.X[block].astype(np.float64) @ w
        if self.fit_intercept:
            scores += self.offset(theta)
        return scores

    def matmat(self, thetas: Array) -> Array:
        if self.X.dtype != np.float64:
            return super().matmat(thetas)
        self.passes.matvec += 1
        scores = np.array([self.weights(theta) for theta in thetas]) @ self.X.T
        scores += np.array([self.offset(theta) for theta in thetas])[:, None]
        return scores

    def rmatvec(self, r: Array) -> Array:
        self.passes.rmatvec += 1
        if self.X.dtype == np.float64:
            return self.close_rmatvec(self.X.T @ r, r)
        xr = np.zeros((self.X.shape[1], *r.shape[1:]))
        for block in self._blocks(self.X.shape[0]):
            xr += self.X[block].astype(np.float64).T @ r[block]
        return self.close_rmatvec(xr, r)

    def sandwich(self, weights: Array, rows: NDArray[np.intp] | None = None, single: bool = False) -> Array:
        """Accumulate the symmetric product block by block: half the multiplications, no N x p copy.

        In single precision a block is summed up in float32 and the blocks in float64.
        """
        n, p = self.shape
        count = n if rows is None else len(rows)
        self.passes.sandwich += count / n * (0.5 if single else 1.0)
        kind = np.float32 if single else np.float64
        root = np.sqrt(weights if rows is None else weights[rows]).astype(kind, copy=False)
        padded = _whole_registers(p)
        size = min(count, _ROWS, max(256, _PART_BYTES // (8 * padded)))
        buffer = np.zeros((size, padded), dtype=kind, order="C" if self.X.flags.c_contiguous else "F")
        gram = np.zeros((padded, padded))
        for start in range(0, count, max(size, 1)):
            block = slice(start, min(start + size, count))
            part = buffer[: block.stop - start]
            self._weigh(self.X[block] if rows is None else self.X[rows[block]], root[block, None], part)
            gram += part.T @ part  # numpy sees that it is symmetric
        return np.ascontiguousarray(gram[:p, :p])

    def _weigh(self, source: Any, root: Any, out: Array) -> None:
        """Write some rows of ``Xa``, made of those of ``X`` and each multiplied by its ``root``, into ``out``."""
        d = source.shape[1]
        if self.is_shifted:
            source = source - self.mu
        np.multiply(source, root, out=out[:, :d], casting="same_kind")
        if self.fit_intercept:
            out[:, d] = root[:, 0]

    def squares(self, weights: Array, pull: Array | None = None) -> Array:
        self.passes.rmatvec += 1
        total = np.zeros(self.shape[1])
        for block in self._blocks(self.X.shape[0]):
            rows = self.rows(block)
            rows *= rows
            total += weights[block] @ rows
        return total

    @property
    def pass_cost(self) -> float:
        return _CALL + _DENSE_PASS * self.shape[0] * self.shape[1]

    @property
    def sandwich_cost(self) -> float:  # half the multiplications: it is symmetric
        return 0.5 * _DENSE_PRODUCT * self.shape[0] * self.shape[1] ** 2

    @property
    def n_bytes(self) -> int:
        return int(self.X.nbytes)

    def take(self, rows: NDArray[np.intp]) -> DenseDesign:
        return type(self)(self.X[rows], self.mu, self.scale, self.fit_intercept)

    def single(self) -> SingleDesign | None:
        n, p = self.shape
        width = _whole_registers(p)
        if n * width > _SINGLE_ENTRIES or self.scale.max() > 1.0 / _TINY or self.scale.min() < _TINY:
            return None
        d = self.X.shape[1]
        Xa = np.empty((n, width), dtype=np.float32, order="C" if self.X.flags.c_contiguous else "F")
        try:
            with np.errstate(over="raise"):
                if self.is_shifted:
                    np.subtract(self.X, self.mu, out=Xa[:, :d], casting="same_kind")
                else:
                    np.copyto(Xa[:, :d], self.X, casting="same_kind")
        except FloatingPointError:  # a lone huge entry
            return None
        Xa[:, d:] = np.arange(d, width) < p
        return SingleDesign(Xa, np.zeros(d), self.scale, self.fit_intercept, self.passes)

    def _blocks(self, count: int) -> list[slice]:
        size = max(64, _BLOCK_BYTES // (8 * max(1, self.shape[1])))
        return [slice(i, min(i + size, count)) for i in range(0, count, size)]


class SingleDesign(DenseDesign):
    """A dense matrix in single precision, whose products with vectors over people are in single precision too.

    ``X`` is ``Xa`` here, shifted and with its column of ones, and followed by columns of zeros.
    """

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], len(self.mu) + int(self.fit_intercept)

    def matvec(self, theta: Array) -> Any:
        self.passes.matvec += 0.5
        padded = np.zeros(self.X.shape[1], dtype=np.float32)
        padded[: len(theta)] = theta
        return self.X @ padded

    def rmatvec(self, r: Any) -> Array:
        self.passes.rmatvec += 0.5
        total = np.zeros((self.X.shape[1], *r.shape[1:]))
        for start in range(0, len(r), _SUMMED):
            total += self.X[start : start + _SUMMED].T @ r[start : start + _SUMMED]
        return total[: self.shape[1]]

    def _weigh(self, source: Any, root: Any, out: Array) -> None:
        np.multiply(source, root, out=out, casting="same_kind")

    def rows(self, index: NDArray[np.intp] | slice) -> Array:
        return self.X[index, : self.shape[1]].astype(np.float64)

    def single(self) -> None:
        return None


def _whole_registers(p: int) -> int:
    """Return the number of columns to which ``p`` is filled up: products of BLAS are faster at whole registers."""
    return -(-p // 4) * 4


class SparseDesign(BaseDesign):
    """A CSR matrix. The Gram matrix is formed sparsely or through dense blocks, whichever is cheaper."""

    def matvec(self, theta: Array) -> Array:
        self.passes.matvec += 1
        return self.X @ self.weights(theta) + self.offset(theta)

    def rmatvec(self, r: Array) -> Array:
        self.passes.rmatvec += 1
        return self.close_rmatvec(self._transposed @ r, r)

    @cached_property
    def _transposed(self) -> Any:
        return self.X.T  # a view; making it takes longer than a product of few entries

    def sandwich(self, weights: Array, rows: NDArray[np.intp] | None = None, single: bool = False) -> Array:
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
        if self.cost_of_gram(X) < _DENSE_PRODUCT * n * d**2:
            return (X.T @ X.multiply(weights[:, None]).tocsr()).toarray()
        gram = np.zeros((d, d))
        size = max(64, _BLOCK_BYTES // (8 * d))
        for start in range(0, n, size):
            part = X[start : start + size].toarray()
            gram += part.T @ (part * weights[start : start + size, None])
        return gram

    def squares(self, weights: Array, pull: Array | None = None) -> Array:
        self.passes.rmatvec += 1
        return self.close_rmatvec(_squared(self.X).T @ weights, weights)

    def outer(self, weights: Array) -> Array:
        """Return ``Xa diag(weights) Xa'``, (N, N), for ``weights`` (p,) of the columns."""
        d = self.X.shape[1]
        gram = (self.X.multiply(weights[:d]).tocsr() @ self._transposed).toarray()
        return gram + weights[d] if self.fit_intercept else gram

    @property
    def pass_cost(self) -> float:
        return self.cost_of_pass(self.X)

    @property
    def sandwich_cost(self) -> float:
        return min(self.cost_of_gram(self.X), _DENSE_PRODUCT * self.X.shape[0] * self.X.shape[1] ** 2)

    @property
    def n_bytes(self) -> int:
        return int(self.X.data.nbytes + self.X.indices.nbytes + self.X.indptr.nbytes)

    @staticmethod
    def cost_of_pass(X: Any) -> float:
        """Return how many seconds a product with a sparse matrix takes."""
        return _CALL + _SPARSE_PASS * (X.nnz + sum(X.shape))

    @staticmethod
    def cost_of_gram(X: Any) -> float:
        """Return how many seconds a sparse Gram matrix takes, if rows have about the same number of entries."""
        return _SPARSE_PRODUCT * float(X.nnz) ** 2 / max(X.shape[0], 1)

    def take(self, rows: NDArray[np.intp]) -> SparseDesign:
        return SparseDesign(self.X[rows], self.mu, self.scale, self.fit_intercept)

    def single(self) -> None:
        return None


def make_design(X: Any, fit_intercept: bool = True) -> Any:
    """Wrap a dense or CSR matrix, choosing the shift from an even sample of the rows."""
    n, d = X.shape
    if hasattr(X, "as_design"):  # a matrix that knows how
        return X.as_design(fit_intercept)
    if sp.issparse(X):
        X = X.astype(np.float64, copy=False)  # products would widen it every time
        with np.errstate(over="ignore"):
            scale = np.sqrt(_squared(X).T @ np.full(n, 1.0 / n))
        return SparseDesign(X, np.zeros(d), _usable(scale, fit_intercept), fit_intercept)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
        mean, spread = column_moments(X[:: max(1, n // 1000)])
        still = np.flatnonzero(spread == 0)  # constant in the sample; perhaps not in all rows
        if len(still):
            mean[still], spread[still] = column_moments(X.T[still].T)
        mu = np.zeros(d)
        if fit_intercept:
            # A constant column is the intercept once more: shifting it to zero takes it out of the problem.
            mu = np.where(np.abs(mean) > _SHIFT_RATIO * spread, mean, 0.0)
        scale = np.sqrt(spread**2 + (mean - mu) ** 2)
    return DenseDesign(X, mu, _usable(scale, fit_intercept), fit_intercept)


def _usable(scale: Array, fit_intercept: bool) -> Array:
    """Return the sizes of the columns of ``Xa``, 1 for the intercept and for columns of zeros."""
    check_sizes(scale)
    return np.append(np.where(scale > 0, scale, 1.0), [1.0] * fit_intercept)


def check_sizes(size: Array) -> None:
    """Raise where the size of a column, a root of squares, is not finite."""
    if not np.all(np.isfinite(size)):
        column = int(np.argmin(np.isfinite(size)))
        raise ValueError(
            f"Column {column} of X has values whose squares are beyond the range of float64; divide it by a constant."
        )


def _squared(X: Any) -> Any:
    """Return the squares of a sparse matrix's entries; the indices are shared."""
    return sp.csr_array((X.data**2, X.indices, X.indptr), shape=X.shape)


def column_moments(X: Any) -> tuple[Array, Array]:
    """Return mean and standard deviation per column: exactly its value and 0 for a constant one."""
    if sp.issparse(X):
        X = X.tocsc()
        mean = np.asarray(X.mean(axis=0), dtype=float).ravel()
        square = np.asarray(X.multiply(X).mean(axis=0), dtype=float).ravel()
        low, high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
        spread = np.where(low == high, 0.0, np.maximum(spread, np.finfo(float).tiny))
    else:
        # Sums along a few strided columns would take longer.
        columns = np.ascontiguousarray(np.asarray(X).T, dtype=np.float64)
        mean, spread = columns.mean(axis=1), columns.std(axis=1)
        low, high = columns.min(axis=1), columns.max(axis=1)
        spread = np.where(low == high, 0.0, spread)
    return np.where(low == high, low, mean), spread
