"""Kernel functions, and kernel matrices whose entries are computed on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from fairmargin.validation import check_number

__all__ = ["Gram", "Kernel", "PrecomputedGram", "make_kernel"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

NAMES = ("linear", "poly", "rbf", "sigmoid")
_BLOCK_ENTRIES = 1 << 17  # entries of a kernel matrix per block, which then stays in the second-level cache
_COLUMNS = 512  # of a block: products of nearly square blocks are faster than those of a few long rows
_TILE = 256  # rows or columns per block where a matrix is symmetric
_KEPT_BYTES = 1 << 27  # of half a kernel matrix that is kept at most: 5,792 rows
_DOUBLE = float(np.finfo(np.float64).eps)
_EXPONENT_ERROR = 1e-13  # tolerated in gamma times a squared distance
_NEGLIGIBLE = -40.0  # exponents of the rbf kernel below which it is less than the rounding of 1


@dataclass(frozen=True)
class Kernel:
    """A kernel function as in ``sklearn.svm.SVC``; a callable takes two matrices and returns their kernel matrix."""

    function: str | Callable[[Any, Any], Any]
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0

    @property
    def is_positive(self) -> bool:
        """Whether the kernel is known to be positive semidefinite."""
        if self.function == "poly":
            return self.coef0 >= 0 and float(self.degree).is_integer()
        return self.function in ("linear", "rbf")

    @property
    def is_strictly_positive(self) -> bool:
        """Whether the kernel matrix of distinct rows is known to be nonsingular."""
        return self.function == "rbf"

    def matrix(self, X: Any, Y: Any) -> Array:
        """Return ``k(x, y)`` for the rows of two matrices."""
        out = np.empty((X.shape[0], Y.shape[0]))
        if out.size == 0:
            return out
        if callable(self.function):
            return self._call(X, Y)
        for rows, columns, part in self._blocks(X, Y):
            out[rows, columns] = part
        return out

    def apply(self, X: Any, Y: Any, coef: Array) -> Array:
        """Return ``k(X, Y) @ coef`` without keeping the kernel matrix."""
        return self.apply_each(X, Y, [coef])[0]

    def apply_each(self, X: Any, Y: Any, coefs: Sequence[Array]) -> list[Array]:
        """Return ``k(X, Y) @ coef`` for several ``coef``, each bit for bit as if computed alone."""
        out = [np.zeros((X.shape[0], *coef.shape[1:])) for coef in coefs]
        if Y.shape[0] == 0:
            return out
        for rows, columns, part in self._blocks(X, Y):
            for values, coef in zip(out, coefs, strict=True):
                values[rows] += part @ coef[columns]
        return out

    def lower_half(self, X: Any) -> Iterator[tuple[slice, slice, Array]]:
        """Yield the lower half of ``k(X, X)`` in blocks with their rows and columns; diagonal blocks are whole."""
        for own in _slices(X.shape[0], _TILE):
            for rows, _, part in self._blocks(X[own.start :], X[own]):
                yield slice(own.start + rows.start, own.start + rows.stop), own, part

    def diagonal(self, X: Any) -> Array:
        """Return ``k(x, x)`` of each row."""
        if self.function == "rbf":
            return np.ones(X.shape[0])
        if callable(self.function):
            steps = range(0, X.shape[0], 32)
            return np.concatenate([np.diag(self._call(X[i : i + 32], X[i : i + 32])) for i in steps])
        return self._finish(row_norms(X, squared=True).astype(np.float64))

    def _blocks(self, X: Any, Y: Any) -> Iterator[tuple[slice, slice, Array]]:
        """Yield the kernel matrix in blocks that fit the cache, with their rows and columns.

        The rows of a sparse Y, and those passed to a callable kernel, are taken all at once, because slices and calls
        are slow.
        """
        width = Y.shape[0] if sp.issparse(Y) or callable(self.function) else min(_COLUMNS, Y.shape[0])
        height = max(16, _BLOCK_ENTRIES // max(1, width))
        shift = _centre(Y) if self.function == "rbf" else None
        Y = _as_double(Y, shift)
        norms = row_norms(Y, squared=True) if self.function == "rbf" else None
        lifted = None if norms is None else self._lift(Y, norms)
        for rows in _slices(X.shape[0], height):
            if callable(self.function):
                yield rows, slice(0, width), self._call(X[rows], Y)
                continue
            entries = self._entries(_as_double(X[rows], shift), Y, norms, lifted)
            for columns in _slices(Y.shape[0], width):
                yield rows, columns, entries(columns)

    def _entries(self, X: Any, Y: Any, norms: Array | None, lifted: Array | None) -> Callable[[slice], Array]:
        """Return the function that computes the kernel of the rows of X with some of Y.

        ``norms`` are the squared norms of the rows of Y for a kernel of distances, ``lifted`` is made by ``_lift``.
        """
        raised = None if lifted is None else self._raise(X)
        if raised is not None and lifted is not None:
            return partial(_exponentials, raised, lifted)
        X_norms = None if norms is None else row_norms(X, squared=True)

        def entries(columns: slice) -> Array:
            some = Y if sp.issparse(Y) else Y[columns]  # a sparse Y is taken as a whole
            product = safe_sparse_dot(X, some.T, dense_output=True)
            if norms is not None and X_norms is not None:
                product = self._minus_distances(product, X, X_norms, some, norms[columns])
            return self._finish(product)

        return entries

    @property
    def _largest_norm(self) -> float:
        """Squared norm of a row above which cancellation costs the rbf kernel digits."""
        return _EXPONENT_ERROR / (_DOUBLE * self.gamma)

    def _lift(self, Y: Any, norms: Array) -> Array | None:
        """Return ``(y, 1, -gamma |y|^2)``, for which exponents take one product; None where unsafe."""
        if sp.issparse(Y) or norms.max(initial=0.0) > self._largest_norm:
            return None
        return np.column_stack([Y, np.ones(len(Y)), -self.gamma * norms])

    def _raise(self, X: Array) -> Array | None:
        """Return ``(2 gamma x, -gamma |x|^2, 1)``, whose product with a lifted ``y`` is ``-gamma |x - y|^2``."""
        norms = row_norms(X, squared=True)
        if norms.max(initial=0.0) > self._largest_norm:
            return None
        return np.column_stack([2.0 * self.gamma * X, -self.gamma * norms, np.ones(len(X))])

    def _minus_distances(self, product: Array, X: Any, X_norms: Array, Y: Any, Y_norms: Array) -> Array:
        """Turn inner products into minus the squared distances, in place.

        ``|x|^2 - 2 x.y + |y|^2`` cancels where rows are close to each other and far from the centre. Where that would
        cost the kernel digits, distances are computed from the differences of the rows.
        """
        product *= 2.0
        product -= X_norms[:, None]
        product -= Y_norms
        np.minimum(product, 0.0, out=product)
        limit = self._largest_norm
        if max(X_norms.max(initial=0.0), Y_norms.max(initial=0.0)) > limit:
            close = product > _NEGLIGIBLE / self.gamma
            i, j = np.nonzero(close & (np.maximum(X_norms[:, None], Y_norms) > limit))
            for k in range(0, len(i), _BLOCK_ENTRIES // X.shape[1] + 1):
                pairs = slice(k, k + _BLOCK_ENTRIES // X.shape[1] + 1)
                product[i[pairs], j[pairs]] = -row_norms(X[i[pairs]] - Y[j[pairs]], squared=True)
        return product

    def _finish(self, product: Array) -> Array:
        """Turn inner products (for rbf, minus squared distances) into the kernel, in place."""
        if self.function == "linear":
            return product
        product *= self.gamma
        if self.function == "rbf":
            return np.exp(product, out=product)
        product += self.coef0
        if self.function == "sigmoid":
            return np.tanh(product, out=product)
        with np.errstate(over="ignore"):  # the factorisation checks the diagonal, which is the largest
            return _power(product, self.degree)

    def _call(self, X: Any, Y: Any) -> Array:
        assert callable(self.function)
        out = np.array(self.function(X, Y), dtype=np.float64)
        if out.shape != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"The kernel function must return a matrix of shape {(X.shape[0], Y.shape[0])} for matrices of "
                f"{X.shape[0]} and {Y.shape[0]} rows, got {out.shape}."
            )
        if not np.all(np.isfinite(out)):
            raise ValueError("The kernel function returned values that are not finite.")
        return out


def _slices(length: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, length)) for start in range(0, length, step))


def _apply_lower_half(blocks: Iterable[tuple[slice, slice, Array]], coefs: Sequence[Array]) -> list[Array]:
    """Return ``K @ coef`` for several ``coef``, from the lower half of a symmetric matrix."""
    out = [np.zeros(coef.shape) for coef in coefs]
    for rows, own, part in blocks:
        below = slice(max(rows.start, own.stop), max(rows.stop, own.stop))  # the diagonal counts once
        mirrored = part[below.start - rows.start :].T
        for values, coef in zip(out, coefs, strict=True):
            values[rows] += part @ coef[own]
            values[own] += mirrored @ coef[below]
    return out


def _exponentials(raised: Array, lifted: Array, columns: slice) -> Array:
    """Return the rbf kernel from the products that are its exponents."""
    product = raised @ lifted[columns].T
    np.minimum(product, 0.0, out=product)
    return np.exp(product, out=product)


def _centre(Y: Any) -> Array | None:
    """Return a point near the rows: distances computed far from the origin lose digits."""
    return None if sp.issparse(Y) else np.asarray(Y.mean(axis=0), dtype=np.float64)


def _as_double(X: Any, shift: Array | None) -> Any:
    if sp.issparse(X):
        return X.astype(np.float64, copy=False)
    X = np.asarray(X, dtype=np.float64)
    return X if shift is None else X - shift


def _power(base: Array, degree: float) -> Array:
    """Return ``base ** degree``, by multiplication for small whole degrees, which is much faster."""
    if degree in (2, 3, 4, 5):
        out = base.copy()
        for _ in range(int(degree) - 1):
            out *= base
        return out
    return base**degree


@dataclass(frozen=True)
class Gram:
    """The kernel matrix of the rows of ``X``; only the parts that are asked for are ever computed.

    With ``keep``, and if half of the matrix takes at most 128 MB, that half is computed for the first product with
    the matrix and kept for the others.
    """

    kernel: Kernel
    X: Any
    precision: float = _DOUBLE
    keep: bool = False

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @cached_property
    def order(self) -> Index:
        """The rows sorted by their content, so that draws do not depend on the order in which they are passed."""
        size = abs(self.X).max(axis=0)
        size = np.asarray(size.toarray() if sp.issparse(size) else size, dtype=np.float64).ravel()
        direction = np.random.default_rng(0).standard_normal(len(size)) / np.where(size > 0, size, 1.0)
        return np.argsort(self.X @ direction, kind="stable")

    def vectors(self, index: Index) -> Any:
        """Return the rows of X that prediction evaluates the kernel against."""
        return self.X[index]

    def diagonal(self) -> Array:
        """Return ``k(x_i, x_i)``."""
        return self.kernel.diagonal(self.X)

    def block(self, rows: Index | None, columns: Index) -> Array:
        """Return a block of the matrix; all rows for None."""
        return self.kernel.matrix(self.X if rows is None else self.X[rows], self.X[columns])

    def apply(self, columns: Index, coef: Array) -> Array:
        """Return ``K[:, columns] @ coef``."""
        return self.apply_each(columns, [coef])[0]

    def apply_each(self, columns: Index, coefs: Sequence[Array]) -> list[Array]:
        """Return ``K[:, columns] @ coef`` for several ``coef``."""
        if len(columns) == 0:
            return [np.zeros((len(self), *coef.shape[1:])) for coef in coefs]
        if self.keep and 4 * len(self) ** 2 <= _KEPT_BYTES:
            return _apply_lower_half(self._kept, [self._spread(columns, coef) for coef in coefs])
        if len(columns) == len(self):
            return _apply_lower_half(self.kernel.lower_half(self.X), coefs)
        return self.kernel.apply_each(self.X, self.X[columns], coefs)

    @cached_property
    def _kept(self) -> list[tuple[slice, slice, Array]]:
        """The lower half of the matrix, in one piece of memory."""
        n = len(self)
        memory, kept = np.empty(n * (n + _TILE) // 2), []
        for rows, own, part in self.kernel.lower_half(self.X):
            block, memory = memory[: part.size].reshape(part.shape), memory[part.size :]
            block[...] = part
            kept.append((rows, own, block))
        return kept

    def _spread(self, columns: Index, coef: Array) -> Array:
        """Return the coefficients of all columns, zero for those not given."""
        if len(columns) == len(self):
            return coef
        whole = np.zeros((len(self), *coef.shape[1:]))
        whole[columns] = coef
        return whole


@dataclass(frozen=True)
class PrecomputedGram:
    """A kernel matrix that the user computed."""

    K: Any
    kernel: None = None

    @property
    def precision(self) -> float:
        """Relative error of an entry."""
        return float(np.finfo(self.K.dtype).eps)

    def __len__(self) -> int:
        return int(self.K.shape[0])

    @property
    def order(self) -> Index:
        """The rows in the order in which they are passed, because nothing else is known about them."""
        return np.arange(len(self))

    def vectors(self, index: Index) -> Array:
        """Return an empty matrix, because the rows behind a precomputed matrix are not known."""
        return np.empty((0, 0))

    def diagonal(self) -> Array:
        """Return the diagonal."""
        return np.array(np.diag(self.K), dtype=np.float64)

    def block(self, rows: Index | None, columns: Index) -> Array:
        """Return a block of the matrix; all rows for None."""
        chosen = self.K[:, columns] if rows is None else self.K[np.ix_(rows, columns)]
        return np.array(chosen, dtype=np.float64)

    def apply(self, columns: Index, coef: Array) -> Array:
        """Return ``K[:, columns] @ coef``."""
        return self.apply_each(columns, [coef])[0]

    def apply_each(self, columns: Index, coefs: Sequence[Array]) -> list[Array]:
        """Return ``K[:, columns] @ coef`` for several ``coef``."""
        part = self.K if len(columns) == len(self) else self.K[:, columns]
        return [np.asarray(part @ coef, dtype=np.float64) for coef in coefs]

    def check(self) -> None:
        """Raise unless the matrix is symmetric."""
        K, n = self.K, len(self)
        slack = max(1e-10, 100 * self.precision) * float(np.max(np.abs(self.diagonal()), initial=0.0))
        for i in range(0, n, _TILE):
            for j in range(0, i + 1, _TILE):
                off = np.abs(K[i : i + _TILE, j : j + _TILE] - K[j : j + _TILE, i : i + _TILE].T)
                if np.max(off) > slack:
                    a, b = np.unravel_index(int(np.argmax(off)), off.shape)
                    a, b = a + i, b + j
                    raise ValueError(
                        f"The precomputed kernel matrix is not symmetric: entry ({a}, {b}) is {K[a, b]:g} and entry "
                        f"({b}, {a}) is {K[b, a]:g}."
                    )


def make_kernel(kernel: Any, gamma: Any, degree: Any, coef0: Any, X: Any, weight: Array) -> Kernel:
    """Check the parameters of a kernel; ``gamma="scale"`` is computed from the rows and their weights."""
    if callable(kernel):
        return Kernel(kernel)
    if kernel not in NAMES:
        known = ", ".join(repr(name) for name in NAMES)
        raise ValueError(f"kernel must be one of {known}, 'precomputed' or a function, got {kernel!r}.")
    degree, coef0 = check_number(degree, "degree", positive=True), check_number(coef0, "coef0")
    return Kernel(kernel, _gamma(gamma, X, weight), degree, coef0)


def _gamma(gamma: Any, X: Any, weight: Array) -> float:
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma == "scale":
        variance = _variance(X, weight)
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
    if isinstance(gamma, str):
        raise ValueError(f"gamma must be 'scale', 'auto' or a positive number, got {gamma!r}.")
    return check_number(gamma, "gamma", positive=True)


def _variance(X: Any, weight: Array) -> float:
    """Return the variance of all entries of X, each row counted by its weight."""
    share = weight / (weight.sum() * X.shape[1])
    mean = float(share @ np.asarray(X.sum(axis=1), dtype=np.float64).ravel())
    if sp.issparse(X):
        return float(share @ np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()) - mean**2
    deviation = np.asarray(X, dtype=np.float64) - mean
    return float(share @ np.einsum("ij,ij->i", deviation, deviation))
