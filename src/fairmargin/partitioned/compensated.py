"""Sums over partitions that lose no digits, and tables of sums whose rows and columns have names.

Within a partition numpy sums pairwise or by blocks; between partitions every sum carries what rounding took away
(Neumaier), so that a total over a thousand row groups is as good as one over a single array.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Crosstab", "Total"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Total:
    """A sum of arrays of one shape: the value and the rounding it lacks."""

    value: Array
    rest: Array

    @classmethod
    def of(cls, value: Any) -> Total:
        """Return the sum of one term."""
        value = np.asarray(value, dtype=np.float64)
        return cls(value, np.zeros_like(value))

    def __add__(self, other: Total) -> Total:
        total = self.value + other.value
        part = total - self.value
        lost = (self.value - (total - part)) + (other.value - part)
        return Total(total, self.rest + other.rest + lost)

    @property
    def rounded(self) -> Array:
        """The sum, rounded once."""
        return self.value + self.rest


@dataclass(frozen=True)
class Crosstab:
    """Sums by row and column, either of which may turn up in some partitions only.

    Attributes
    ----------
    rows, columns : tuples of hashable keys, in the order in which they turned up
    total : Total of shape (number of rows, number of columns)
    """

    rows: tuple[Hashable, ...]
    columns: tuple[Hashable, ...]
    total: Total

    @classmethod
    def of(cls, rows: Sequence[Hashable], columns: Sequence[Hashable], values: Any) -> Crosstab:
        """Return the table of one partition."""
        return cls(tuple(rows), tuple(columns), Total.of(values))

    def __add__(self, other: Crosstab) -> Crosstab:
        if (self.rows, self.columns) == (other.rows, other.columns):
            return Crosstab(self.rows, self.columns, self.total + other.total)
        rows = tuple(dict.fromkeys((*self.rows, *other.rows)))
        columns = tuple(dict.fromkeys((*self.columns, *other.columns)))
        both = [table.spread(rows, columns) for table in (self, other)]
        return Crosstab(rows, columns, both[0] + both[1])

    def spread(self, rows: Sequence[Hashable], columns: Sequence[Hashable]) -> Total:
        """Return the sums at these rows and columns, zero where the table has none."""
        place = [{key: k for k, key in enumerate(keys)} for keys in (rows, columns)]
        where = np.ix_([place[0][key] for key in self.rows], [place[1][key] for key in self.columns])
        value, rest = np.zeros((2, len(rows), len(columns)))
        value[where], rest[where] = self.total.value, self.total.rest
        return Total(value, rest)

    def at(self, rows: Sequence[Hashable], columns: Sequence[Hashable]) -> Array:
        """Return the sums of some rows and columns, all of which the table has."""
        place = [{key: k for k, key in enumerate(keys)} for keys in (self.rows, self.columns)]
        where = np.ix_([place[0][key] for key in rows], [place[1][key] for key in columns])
        return self.total.rounded[where]
