"""Products with the encoded rows of a partition, a block of rows at a time.

A pass over coded columns spends its time in gathers and counts, one per column, point and product. Columns with few
levels are combined into groups of at most 256 combinations: one gather and one count then serve all columns of a
group, and the sums of the single columns are margins of the table of sums.

Blocks are encoded into the same memory again and again: it stays in the cache, and the operating system need not
find new pages for every block (on Dask workers, whose allocator returns memory at once, that was a third of a pass).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fairmargin.partitioned.reading import CategoryPart, NumberPart

__all__ = ["Block", "Blocks", "CurvatureSums", "Points", "PullSums"]

Array = NDArray[np.float64]

_CELLS = 256  # combinations in a group: its table, and that of two groups (half a megabyte), stay in the cache
_ROWS = 1 << 13  # rows in a block: temporary arrays of one number per row, 64 KB, stay in the cache


class JointColumns:
    """Some categorical columns that have one code for their combination."""

    def __init__(self, members: Sequence[CategoryPart]) -> None:
        self.members = members
        self.shape = tuple(part.size + 1 for part in members)
        self.slices = [slice(part.start, part.start + part.size) for part in members]
        self.size = int(np.prod(self.shape))
        strides = [int(np.prod(self.shape[k + 1 :])) for k in range(len(members))]
        self._steps = [stride * part.positions for stride, part in zip(strides, members, strict=True)]

    def fill(self, code: NDArray[np.intp], rows: slice) -> None:
        """Write the joint codes of some rows."""
        first, *others = zip(self._steps, self.members, strict=True)
        np.take(first[0], first[1].codes[rows], out=code, mode="clip")
        for steps, part in others:
            code += steps.take(part.codes[rows], mode="clip")

    def table(self, w: Array) -> Array:
        """Return what each combination adds to a score, (size,)."""
        total = np.zeros(self.shape)
        for axis, here in enumerate(self.slices):
            shape = [1] * len(self.shape)
            shape[axis] = -1
            total += np.append(w[here], 0.0).reshape(shape)
        return total.ravel()

    def margins(self, sums: Array) -> list[Array]:
        """Return the sums by level of each column, without the level that has no indicator, from (..., size)."""
        table = sums.reshape(*sums.shape[:-1], *self.shape)
        first = sums.ndim - 1
        found = []
        for axis in range(len(self.shape)):
            others = tuple(first + k for k in range(len(self.shape)) if k != axis)
            found.append(table.sum(axis=others)[..., :-1])
        return found

    def pairs(self, sums: Array) -> list[tuple[slice, slice, Array]]:
        """Return the sums by levels of every two columns of this group, from (size,)."""
        table, found = sums.reshape(self.shape), []
        for i in range(len(self.shape)):
            for j in range(i):
                others = tuple(k for k in range(len(self.shape)) if k not in (i, j))
                found.append((self.slices[j], self.slices[i], table.sum(axis=others)[:-1, :-1]))
        return found


class Block:
    """Some encoded rows.

    Attributes
    ----------
    numbers : (q + 1, n)
        Standardised numbers, and ones for the intercept.
    codes : list of (n,), one per group of categorical columns
    rows : slice
        Which rows of the partition they are.
    """

    def __init__(self, numbers: Array, codes: list[NDArray[np.intp]], rows: slice) -> None:
        self.numbers, self.codes, self.rows = numbers, codes, rows

    def take(self, index: NDArray[np.intp], into: Block) -> Block:
        """Return the rows in another order, in the memory of a block of at least that many rows."""
        n = len(index)
        moved = Block(into.numbers[:, :n], [code[:n] for code in into.codes], self.rows)
        for before, after in zip([*self.numbers[:-1], *self.codes], [*moved.numbers[:-1], *moved.codes], strict=True):
            np.take(before, index, out=after, mode="clip")  # in range: no look for indices that are not
        return moved


class Blocks:
    """The encoded rows of one partition, ``Xa = [X, 1]`` or ``X`` without an intercept; iterates over blocks.

    Parameters
    ----------
    numbers, categories : sequences of NumberPart and CategoryPart
    n_rows, n_features : int
    fit_intercept : bool
    keep_codes : bool
        Whether the joint codes of all rows are kept for curvatures, in as few bytes as they need.
    """

    def __init__(
        self,
        numbers: Sequence[NumberPart],
        categories: Sequence[CategoryPart],
        n_rows: int,
        n_features: int,
        fit_intercept: bool,
        keep_codes: bool = False,
    ) -> None:
        self.parts, self.n_rows, self.fit_intercept = numbers, n_rows, fit_intercept
        self.places = np.array([part.start for part in numbers], dtype=np.intp)
        self.p = n_features + int(fit_intercept)
        self.groups = [JointColumns([categories[j] for j in members]) for members in _pack(categories)]
        kept = self.groups if keep_codes and len(self.groups) > 1 else []
        self.codes = [np.empty(n_rows, dtype=np.min_scalar_type(group.size - 1)) for group in kept]

    def memory(self) -> Block:
        """Return a block whose content is to be written."""
        n = min(_ROWS, self.n_rows)
        codes = [np.empty(n, dtype=np.intp) for _ in self.groups]
        return Block(np.ones((len(self.parts) + 1, n)), codes, slice(0, n))

    def slices(self) -> Iterator[slice]:
        """Yield which rows each block has."""
        for start in range(0, self.n_rows, _ROWS):
            yield slice(start, min(start + _ROWS, self.n_rows))

    def __iter__(self) -> Iterator[Block]:
        memory = self.memory()
        for rows in self.slices():
            n = rows.stop - rows.start
            for here, part in zip(memory.numbers, self.parts, strict=False):
                np.subtract(part.values[rows], part.mean, out=here[:n])
                here[:n] *= part.factor
            for code, group in zip(memory.codes, self.groups, strict=True):
                group.fill(code[:n], rows)
            for kept, code in zip(self.codes, memory.codes, strict=False):
                kept[rows] = code[:n]
            yield Block(memory.numbers[:, :n], [code[:n] for code in memory.codes], rows)


class Points:
    """Several points at which blocks are scored.

    Parameters
    ----------
    blocks : Blocks
    thetas : (T, p)
    """

    def __init__(self, blocks: Blocks, thetas: Array) -> None:
        intercept = thetas[:, -1:] if blocks.fit_intercept else np.zeros((len(thetas), 1))
        self.slopes = np.hstack([thetas[:, blocks.places], intercept]).T
        self.tables = [np.array([group.table(theta) for theta in thetas]).T.copy() for group in blocks.groups]
        self._scores, self._more = np.empty((2, min(_ROWS, blocks.n_rows), len(thetas)))

    def scores(self, block: Block) -> Array:
        """Return the scores of a block, (n, T), in memory that the next call writes to."""
        n = block.numbers.shape[1]
        scores, more = self._scores[:n], self._more[:n]
        np.matmul(block.numbers.T, self.slopes, out=scores)
        for code, table in zip(block.codes, self.tables, strict=True):
            scores += np.take(table, code, axis=0, out=more, mode="clip")
        return scores


class PullSums:
    """``Xa' r`` at T points, collected block by block."""

    def __init__(self, blocks: Blocks, n_points: int) -> None:
        self._blocks = blocks
        self._numbers = np.zeros((n_points, len(blocks.places) + 1))
        self._groups = [np.zeros((group.size, n_points)) for group in blocks.groups]

    def add(self, block: Block, rows: slice, r: Array) -> None:
        """Add some rows of a block, for ``r`` (number of rows, T)."""
        self._numbers += r.T @ block.numbers[:, rows].T
        for total, code in zip(self._groups, block.codes, strict=True):
            total += _sums(code[rows], r, len(total))

    def expand(self) -> Array:
        """Return the sums by column of ``Xa``, (T, p)."""
        found = np.zeros((len(self._numbers), self._blocks.p))
        if self._blocks.fit_intercept:
            found[:, -1] = self._numbers[:, -1]
        found[:, self._blocks.places] = self._numbers[:, :-1]
        for group, sums in zip(self._blocks.groups, self._groups, strict=True):
            for here, part in zip(group.slices, group.margins(np.ascontiguousarray(sums.T)), strict=True):
                found[:, here] = part
        return found


class CurvatureSums:
    """``Xa' diag(weights) Xa``, collected block by block.

    The tables of two groups are counted at the end, one after the other, from codes and weights that are kept: all
    at once they would take half a megabyte each, for every two groups and every point.

    Parameters
    ----------
    blocks : Blocks
        That keep the codes.
    """

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        q = len(blocks.places) + 1
        self._gram = np.zeros((q, q))
        self._products = [np.zeros((q, group.size)) for group in blocks.groups]
        self._weights = np.empty(blocks.n_rows if len(blocks.groups) > 1 else 0)
        self._weighted = np.empty((q, min(_ROWS, blocks.n_rows)))

    def add(self, block: Block, order: NDArray[np.intp], weights: Array) -> None:
        """Add a block of rows that are in another order than in the partition."""
        weighted = np.multiply(block.numbers, weights, out=self._weighted[:, : len(weights)])
        self._gram += block.numbers @ weighted.T
        for total, code in zip(self._products, block.codes, strict=True):
            for here, values in zip(total, weighted, strict=True):
                here += np.bincount(code, weights=values, minlength=len(here))
        if len(self._weights):
            self._weights[block.rows][order] = weights

    def expand(self) -> Array:
        """Return the sums, (p, p)."""
        blocks = self._blocks
        gram = np.zeros((blocks.p, blocks.p))
        places = np.append(blocks.places, blocks.p - 1) if blocks.fit_intercept else blocks.places
        gram[np.ix_(places, places)] = self._gram[: len(places), : len(places)]
        for i, (group, products) in enumerate(zip(blocks.groups, self._products, strict=True)):
            for here, part in zip(group.slices, group.margins(products), strict=True):
                _put(gram, places, here, part[: len(places)])
                gram[here, here] = np.diag(part[-1])  # the last row of numbers is one
            for first, second, part in group.pairs(products[-1]):
                _put(gram, first, second, part)
            for j, other in enumerate(blocks.groups[:i]):
                self._cross(gram, other, group, self._pair(j, i))
        return gram

    def _pair(self, first: int, second: int) -> Array:
        """Return the sums of the weights by the combinations of two groups."""
        blocks = self._blocks
        shape = blocks.groups[first].size, blocks.groups[second].size
        table = np.zeros(shape[0] * shape[1])
        for rows in blocks.slices():
            joint = blocks.codes[first][rows] * np.intp(shape[1])
            joint += blocks.codes[second][rows]
            np.add.at(table, joint, self._weights[rows])  # in place: a new table per block has more cells than rows
        return table.reshape(shape)

    @staticmethod
    def _cross(gram: Array, first: JointColumns, second: JointColumns, table: Array) -> None:
        """Fill in the blocks between the columns of two groups."""
        for here, rows in zip(first.slices, first.margins(table.T), strict=True):  # (second.size, levels)
            for there, part in zip(second.slices, second.margins(rows.T), strict=True):
                _put(gram, here, there, part)


def _sums(code: NDArray[np.intp], values: Array, size: int) -> Array:
    """Return the sums of values (n, T) by code, (size, T)."""
    n, width = values.shape
    if width == 1:
        return np.bincount(code, weights=values[:, 0], minlength=size)[:, None].astype(np.float64, copy=False)
    indicators = sparse.csc_array((np.ones(n), code, np.arange(n + 1)), shape=(size, n))
    return np.asarray(indicators @ values)


def _put(gram: Array, first: Any, second: slice, part: Array) -> None:
    gram[first, second] = part
    gram[second, first] = part.T


def _pack(categories: Sequence[CategoryPart]) -> list[list[int]]:
    """Return the columns in groups of at most ``_CELLS`` combinations, small columns first; large ones stay alone."""
    sizes = [part.size + 1 for part in categories]
    groups: list[list[int]] = []
    cells: list[int] = []
    for j in sorted(range(len(sizes)), key=lambda j: sizes[j]):
        fits = [k for k, size in enumerate(cells) if size * sizes[j] <= _CELLS]
        if fits:
            k = max(fits, key=lambda k: cells[k])
            groups[k].append(j)
            cells[k] *= sizes[j]
        else:
            groups.append([j])
            cells.append(sizes[j])
    return groups
