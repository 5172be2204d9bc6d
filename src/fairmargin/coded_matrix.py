"""Categorical columns without one-hot expansion: codes in memory, indicators in the mathematics.

A column with k categories is k indicators, of which every row has one. Stored as codes it takes 4 bytes per row
whatever k is (12 in a sparse matrix), products are gathers and counts, and the Gram matrix is made of cross
tabulations. :class:`fairmargin.CategoryEncoder` makes such a matrix of a frame; the linear classifiers take it as
they take an array or a sparse matrix.

tabmat does the same in compiled code. Measured on 1,000,000 rows with columns of 10, 100, 1,000 and 10,000 categories
(one thread): a product takes 3.5 ms by tabmat, 4.6 ms by a sparse matrix of scipy and 1.1 times that here; the Gram
matrix of the first three columns takes 17 ms by tabmat, 590 ms by scipy and 19 ms here. What is slow is as fast, and
what is slower is a small part of a fit, which takes a dozen products: not worth a compiled dependency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.design import BaseDesign, make_design

__all__ = ["CodedDesign", "CodedMatrix"]

Array = NDArray[np.float64]
Codes = NDArray[np.int32]

_BLOCK = 1 << 14  # rows at a time: what is gathered stays in the cache
# Combinations of categories that are coded together: their table stays in the cache, and is small beside
# the rows that it saves a pass over.
_MOST_CELLS, _ROWS_PER_CELL = 1 << 14, 8
# Seconds, measured: per code that is gathered or counted, and per multiplication of a Gram matrix.
_CODE, _PRODUCT, _CALL = 2e-9, 1e-10, 5e-5


@dataclass(frozen=True)
class CodedMatrix:
    """A matrix (n, d) of numbers and of the indicators of categories, stored as codes.

    Attributes
    ----------
    numbers : (n, q)
        The columns of numbers.
    places : (q,) of int
        Their places among the d columns.
    codes : sequence of (n,) of int32
        Of each categorical column, from 0 to k, where k stands for a row without an indicator: a category that is
        the reference, or that training never saw.
    sizes : sequence of int
        How many indicators k each categorical column has.
    starts : sequence of int
        The place of the first of them among the d columns; the others follow.
    names : sequence of str
        Names of the d columns.
    sources : sequence of str
        Names of the columns that they were made of.
    """

    numbers: Array
    places: NDArray[np.intp]
    codes: Sequence[Codes]
    sizes: Sequence[int]
    starts: Sequence[int]
    names: Sequence[str] = ()
    sources: Sequence[str] = ()

    dtype = np.dtype(np.float64)
    ndim = 2

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<CodedMatrix of shape ({rows}, {columns}); toarray() makes an array of it>"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.numbers.shape[0], len(self.places) + int(sum(self.sizes))

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self.numbers.nbytes + sum(code.nbytes for code in self.codes)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """Return some rows as a coded matrix, or with ``X[rows, columns]`` some of their columns as an array.

        ``X[rows, :]`` and ``X[rows, ...]``, as scikit-learn selects rows, are rows too.
        """
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        is_all = columns is Ellipsis or (isinstance(columns, slice) and columns == slice(None))
        if isinstance(rows, Integral):
            part = self[[rows], columns]
            return part.toarray()[0] if is_all else part[0]
        if is_all:
            return replace(self, numbers=self.numbers[rows], codes=tuple(code[rows] for code in self.codes))
        chosen, place = np.unique(np.arange(self.shape[1])[columns], return_inverse=True)
        return self[rows]._written_out(chosen)[:, place]

    def _written_out(self, chosen: NDArray[np.intp]) -> Array:
        """Return some columns, in order, as an array."""
        place = np.full(self.shape[1], -1)  # of each column among the chosen ones
        place[chosen] = np.arange(len(chosen))
        part = np.zeros((len(self), len(chosen)))
        numbers = np.flatnonzero(place[self.places] >= 0)
        part[:, place[self.places[numbers]]] = self.numbers[:, numbers]
        for code, size, start in zip(self.codes, self.sizes, self.starts, strict=True):
            where = np.append(place[start : start + size], -1)[code]
            rows = np.flatnonzero(where >= 0)
            part[rows, where[rows]] = 1.0
        return part

    def categorical_columns(self) -> list[tuple[str, int, Codes]]:
        """Return the categorical columns: the name, the place of the first indicator, and the codes of each."""
        parts = zip(self.starts, self.sizes, self.codes, strict=True)
        return [(self._source(start), start, codes) for start, size, codes in parts if size]

    def _source(self, start: int) -> str:
        name = self.names[start] if self.names else f"column {start}"
        return next((source for source in self.sources if name.startswith(f"{source}=")), name)

    def __matmul__(self, w: Array) -> Array:
        """Return ``X w`` for a vector (d,), or for the columns of a matrix (d, k)."""
        w = np.asarray(w, dtype=float)
        if w.ndim == 2:
            return np.column_stack([self @ np.ascontiguousarray(column) for column in w.T])
        total = self.numbers @ w[self.places]
        tables = [np.append(w[s : s + k], 0.0) for k, s in zip(self.sizes, self.starts, strict=True)]
        for begin in range(0, len(self), _BLOCK):
            part = total[begin : begin + _BLOCK]
            for code, table in zip(self.codes, tables, strict=True):
                part += table.take(code[begin : begin + _BLOCK])  # faster than indexing
        return total

    def __abs__(self) -> CodedMatrix:
        return replace(self, numbers=np.abs(self.numbers))

    def pull(self, r: Array) -> Array:
        """Return ``X' r``, (d,) or (d, k) for k vectors at once."""
        if r.ndim == 2:
            return np.column_stack([self.pull(np.ascontiguousarray(column)) for column in r.T])
        total = np.empty(self.shape[1])
        total[self.places] = self.numbers.T @ r
        for code, size, start in zip(self.codes, self.sizes, self.starts, strict=True):
            total[start : start + size] = np.bincount(code, weights=r, minlength=size + 1)[:size]
        return total

    def toarray(self) -> Array:
        """Return the matrix with its indicators, (n, d)."""
        return self._written_out(np.arange(self.shape[1]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.toarray().astype(dtype or np.float64, copy=False)

    def as_design(self, fit_intercept: bool) -> CodedDesign:
        """Return the design of this matrix; only columns of numbers may be shifted."""
        d = self.shape[1]
        mu, scale = np.zeros(d), np.ones(d + int(fit_intercept))
        if len(self.places):
            numbers = make_design(self.numbers, fit_intercept)
            mu[self.places], scale[self.places] = numbers.mu, numbers.scale[: len(self.places)]
        for code, size, start in zip(self.codes, self.sizes, self.starts, strict=True):
            share = np.bincount(code, minlength=size + 1)[:size] / max(len(self), 1)
            scale[start : start + size] = np.sqrt(np.where(share > 0, share, 1.0))
        return CodedDesign(self, mu, scale, fit_intercept)


@dataclass(frozen=True)
class _Cells:
    """Categorical columns as one: every row has one combination of their categories.

    ``codes`` (n,) number the combinations; the indicators of a column start at its place in ``starts``.
    """

    codes: Codes
    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    def table(self, w: Array) -> Array:
        """Return what each combination adds to a score; rows without an indicator have zero in its place."""
        total = np.zeros(1)
        for start, size in zip(self.starts, self.sizes, strict=True):
            total = np.add.outer(total, np.append(w[start : start + size], 0.0)).ravel()
        return total

    def pull(self, r: Array, out: Array) -> None:
        """Write the sums of ``r`` by category of every column into ``out``."""
        shape = tuple(size + 1 for size in self.sizes)
        sums = np.bincount(self.codes, weights=r, minlength=int(np.prod(shape))).reshape(shape)
        for axis, (start, size) in enumerate(zip(self.starts, self.sizes, strict=True)):
            others = tuple(k for k in range(len(shape)) if k != axis)
            out[start : start + size] = sums.sum(axis=others)[:size]


def _combine(X: CodedMatrix) -> list[_Cells]:
    """Return the categorical columns in groups of few combinations: a product reads one code for each group."""
    most = min(_MOST_CELLS, max(len(X) // _ROWS_PER_CELL, 1))
    groups: list[_Cells] = []
    for j in np.argsort(X.sizes, kind="stable"):
        code, start, size = X.codes[j], X.starts[j], X.sizes[j]
        fits = [k for k, g in enumerate(groups) if np.prod([s + 1 for s in g.sizes]) * (size + 1) <= most]
        if fits:
            known = groups[fits[0]]
            joint = known.codes * np.int32(size + 1) + code
            groups[fits[0]] = _Cells(joint, (*known.starts, start), (*known.sizes, size))
        else:
            groups.append(_Cells(code, (start,), (size,)))
    return groups


class CodedDesign(BaseDesign):
    """The design of a matrix with categorical columns.

    Products take columns together whose combinations are few: on Adult its eight are two.
    """

    @cached_property
    def _cells(self) -> list[_Cells]:
        return _combine(self.X)

    def matvec(self, theta: Array) -> Array:
        """Return ``Xa theta``."""
        self.passes.matvec += 1
        X, w, offset = self.X, self.weights(theta), self.offset(theta)
        tables = [cells.table(w) for cells in self._cells]
        chosen, total = w[X.places], np.empty(len(X))
        for begin in range(0, len(X), _BLOCK):
            here = slice(begin, begin + _BLOCK)
            part = X.numbers[here] @ chosen
            part += offset
            for cells, table in zip(self._cells, tables, strict=True):
                part += table.take(cells.codes[here])  # faster than indexing
            total[here] = part
        return total

    def rmatvec(self, r: Array) -> Array:
        """Return ``Xa' r``."""
        self.passes.rmatvec += 1
        if r.ndim == 2:
            return self.close_rmatvec(self.X.pull(r), r)
        total = np.empty(self.X.shape[1])
        total[self.X.places] = self.X.numbers.T @ r
        for cells in self._cells:
            cells.pull(r, total)
        return self.close_rmatvec(total, r)

    def squares(self, weights: Array, pull: Array | None = None) -> Array:
        """Return the diagonal of the Gram matrix."""
        total = (self.rmatvec(weights) if pull is None else pull).copy()  # indicators are their squares
        places, shift = self.X.places, self.mu[self.X.places]
        total[places] = 0.0
        for begin in range(0, len(self.X), _BLOCK):
            numbers = self.X.numbers[begin : begin + _BLOCK] - shift
            total[places] += weights[begin : begin + _BLOCK] @ (numbers * numbers)
        return total

    def sandwich(self, weights: Array, rows: NDArray[np.intp] | None = None, single: bool = False) -> Array:
        """Return the Gram matrix: products of numbers, sums by category and cross tabulations."""
        if rows is not None:
            self.passes.sandwich += len(rows) / self.shape[0]
            part = self.take(rows)
            return part.sandwich(weights[rows])
        self.passes.sandwich += 1
        gram = np.zeros((self.shape[1], self.shape[1]))
        for begin in range(0, self.shape[0], _BLOCK):  # a weighted copy of all numbers is as large as the data
            here = slice(begin, begin + _BLOCK)
            gram += self._sandwich_of(self.X[here], weights[here])
        return gram

    def _sandwich_of(self, X: CodedMatrix, weights: Array) -> Array:
        """Return the part of the Gram matrix that a block of rows adds."""
        p, places = self.shape[1], X.places
        gram = np.zeros((p, p))
        numbers = X.numbers - self.mu[places]
        weighted = numbers * weights[:, None]
        gram[np.ix_(places, places)] = numbers.T @ weighted
        blocks = [slice(s, s + k) for k, s in zip(X.sizes, X.starts, strict=True)]
        for i, (code, here) in enumerate(zip(X.codes, blocks, strict=True)):
            size = X.sizes[i]
            for column, place in enumerate(places):
                gram[here, place] = np.bincount(code, weights=weighted[:, column], minlength=size + 1)[:size]
                gram[place, here] = gram[here, place]
            count = np.bincount(code, weights=weights, minlength=size + 1)[:size]
            gram[here, here][np.diag_indices(size)] = count
            for j in range(i):
                table = _cross_tabulate(code, X.codes[j], size, X.sizes[j], weights)
                gram[here, blocks[j]], gram[blocks[j], here] = table, table.T
        if self.fit_intercept:
            gram[:-1, -1] = gram[-1, :-1] = self.close_rmatvec(X.pull(weights), weights)[:-1]
            gram[-1, -1] = weights.sum()
        return gram

    def rows(self, index: NDArray[np.intp] | slice) -> Array:
        """Return some rows of ``Xa``."""
        part = self.X[index].toarray() - self.mu
        return np.column_stack([part, np.ones(len(part))]) if self.fit_intercept else part

    def take(self, rows: NDArray[np.intp]) -> CodedDesign:
        """Return the design of these rows."""
        return CodedDesign(self.X[rows], self.mu, self.scale, self.fit_intercept)

    def single(self) -> None:
        """Return None: codes are as short in single precision."""

    @property
    def pass_cost(self) -> float:
        """About how many seconds a pass takes."""
        n, numbers, coded = self.shape[0], len(self.X.places), len(self.X.codes)
        return _CALL + n * (_CODE * coded + 5.0 * _PRODUCT * numbers)

    @property
    def sandwich_cost(self) -> float:
        """About how many seconds a Gram matrix takes."""
        n, numbers, coded = self.shape[0], len(self.X.places), len(self.X.codes)
        return n * (_CODE * (coded**2 + coded * numbers) + 0.5 * _PRODUCT * numbers**2)

    @property
    def n_bytes(self) -> int:
        """Memory of the data."""
        return self.X.nbytes


def _cross_tabulate(first: Codes, second: Codes, k: int, m: int, weights: Array) -> Array:
    """Return the sum of the weights by category of the first and of the second column, (k, m)."""
    cells = first.astype(np.int64) * (m + 1) + second
    sums: Array = np.bincount(cells, weights=weights, minlength=(k + 1) * (m + 1)).astype(np.float64, copy=False)
    return sums.reshape(k + 1, m + 1)[:k, :m]
