"""Categorical columns counted together: one code for the combination of several small columns.

A pass over coded columns spends its time in gathers and counts, one per column, point and product. Columns with few
levels are combined into groups of at most 256 combinations: one gather and one count then serve all columns of a
group, and the sums of the single columns are margins of the table of sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.categories import CodedMatrix

__all__ = ["JointColumns", "JointMatrix", "PullSums", "group_columns"]

Array = NDArray[np.float64]

_CELLS = 256  # combinations in a group: its table, and that of two groups (half a megabyte), stay in the cache


class JointColumns:
    """Some columns with their joint code."""

    def __init__(self, X: CodedMatrix, members: list[int]) -> None:
        self.shape = tuple(X.sizes[j] + 1 for j in members)
        self.slices = [slice(X.starts[j], X.starts[j] + X.sizes[j]) for j in members]
        self.size = int(np.prod(self.shape))
        code = X.codes[members[0]].astype(np.intp)
        for j, size in zip(members[1:], self.shape[1:], strict=True):
            code *= size
            code += X.codes[j]
        self.code = code

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


@dataclass
class PullSums:
    """``Xa' r`` by class at T points, before it is spread over the columns.

    Attributes
    ----------
    numbers : (T, 2, number of numeric columns)
    groups : list of (T, 2 times the combinations of a group)
    total : (T, 2)
        Sums of ``r``.
    """

    numbers: Array
    groups: list[Array]
    total: Array

    def add(self, other: PullSums) -> PullSums:
        """Add the sums over other rows."""
        self.numbers += other.numbers
        self.total += other.total
        for mine, more in zip(self.groups, other.groups, strict=True):
            mine += more
        return self


class JointMatrix:
    """Products with the encoded rows of one partition, ``Xa = [X, 1]`` or ``X`` without an intercept.

    Parameters
    ----------
    X : CodedMatrix
    up : (n,) of bool
        Which rows are of the positive class.
    fit_intercept : bool
    groups : from :func:`group_columns`
        The categorical columns with their joint codes.
    """

    def __init__(
        self, X: CodedMatrix, up: NDArray[np.bool_], fit_intercept: bool, groups: list[JointColumns]
    ) -> None:
        self.X, self.fit_intercept = X, fit_intercept
        self.p = X.shape[1] + int(fit_intercept)
        self.up = up.astype(np.float64)
        self.groups = groups
        self._by_class = [group.code + group.size * up for group in self.groups]
        self._known: tuple[Array, list[list[Array]]] | None = None

    def scores(self, thetas: Array, rows: slice) -> Array:
        """Return the scores of some rows at several points, (T, number of rows), for ``thetas`` (T, p)."""
        scores = thetas[:, self.X.places] @ self.X.numbers[rows].T
        if self.fit_intercept:
            scores += thetas[:, -1:]
        for group, tables in zip(self.groups, self._tables(thetas), strict=True):
            code = group.code[rows]
            for here, table in zip(scores, tables, strict=True):
                here += table.take(code, mode="clip")  # codes are in range: no look for those that are not
        return scores

    def _tables(self, thetas: Array) -> list[list[Array]]:
        """Return what each combination adds to a score, for each group and point; kept for the blocks of a pass."""
        if self._known is None or self._known[0] is not thetas:
            self._known = thetas, [[group.table(theta) for theta in thetas] for group in self.groups]
        return self._known[1]

    def pull_by_class(self, r: Array, rows: slice) -> PullSums:
        """Return ``Xa' r`` over some rows by class, for ``r`` (T, number of rows).

        Signs tell classes apart: ``r`` is positive for rows of the positive class only, and negative for others only.
        """
        sums = [
            np.array([_sum(code[rows], here, 2 * group.size) for here in r])
            for group, code in zip(self.groups, self._by_class, strict=True)
        ]
        up, numbers = np.maximum(r, 0.0), self.X.numbers[rows]
        of_both, of_up = r @ numbers, up @ numbers
        total, total_up = r.sum(axis=1), up.sum(axis=1)
        return PullSums(
            np.stack([of_both - of_up, of_up], axis=1), sums, np.stack([total - total_up, total_up], axis=1)
        )

    def expand(self, pull: PullSums) -> Array:
        """Return sums of pulls by column of ``Xa``, (T, 2, p)."""
        found = np.zeros((len(pull.total), 2, self.p))
        found[:, :, self.X.places] = pull.numbers
        for group, sums in zip(self.groups, pull.groups, strict=True):
            table = sums.reshape(len(sums), 2, group.size)
            for here, part in zip(group.slices, group.margins(table), strict=True):
                found[:, :, here] = part
        if self.fit_intercept:
            found[:, :, -1] = pull.total
        return found

    def sandwich(self, weights: Array) -> Array:
        """Return ``Xa' diag(weights) Xa``, (p, p)."""
        X, places = self.X, self.X.places
        gram = np.zeros((self.p, self.p))
        weighted = X.numbers * weights[:, None]
        gram[np.ix_(places, places)] = X.numbers.T @ weighted
        tables = [_sum(group.code, weights, group.size) for group in self.groups]
        for i, group in enumerate(self.groups):
            products = np.empty((len(places), group.size))
            for k in range(len(places)):
                products[k] = _sum(group.code, weighted[:, k], group.size)
            for here, part in zip(group.slices, group.margins(products), strict=True):
                _put(gram, places, here, part)
            for here, counts in zip(group.slices, group.margins(tables[i]), strict=True):
                gram[here, here] = np.diag(counts)
            for first, second, part in group.pairs(tables[i]):
                _put(gram, first, second, part)
            for other in self.groups[:i]:
                self._cross(gram, other, group, weights)
        if self.fit_intercept:
            gram[places, -1] = gram[-1, places] = weights @ X.numbers
            for group, table in zip(self.groups, tables, strict=True):
                for here, counts in zip(group.slices, group.margins(table), strict=True):
                    gram[here, -1] = gram[-1, here] = counts
            gram[-1, -1] = weights.sum()
        return gram

    @staticmethod
    def _cross(gram: Array, first: JointColumns, second: JointColumns, weights: Array) -> None:
        """Fill in the blocks between the columns of two groups."""
        code = first.code * second.size + second.code
        table = _sum(code, weights, first.size * second.size).reshape(first.size, second.size)
        for here, rows in zip(first.slices, first.margins(table.T), strict=True):  # (second.size, levels)
            for there, part in zip(second.slices, second.margins(rows.T), strict=True):
                _put(gram, here, there, part)


def group_columns(X: CodedMatrix) -> list[JointColumns]:
    """Return the categorical columns in groups that are counted together."""
    return [JointColumns(X, members) for members in _pack([size + 1 for size in X.sizes])]


def _sum(code: NDArray[np.intp], weights: Array, size: int) -> Array:
    return np.bincount(code, weights=weights, minlength=size).astype(np.float64, copy=False)


def _put(gram: Array, first: Any, second: slice, part: Array) -> None:
    gram[first, second] = part
    gram[second, first] = part.T


def _pack(sizes: list[int]) -> list[list[int]]:
    """Return the columns in groups of at most ``_CELLS`` combinations, small columns first; large ones stay alone."""
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
