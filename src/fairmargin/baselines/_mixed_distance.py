"""The distance of situation testing between people described by numbers, ordered and unordered categories.

The distance is the mean over the columns of

- numbers: ``|u - u'|`` with ``u = (x - mean) / (mean absolute deviation)``; 3 where either is missing,
- categories: 0 if equal, 1 otherwise or where either is missing,
- ordered categories (pandas): ``|v - v'|`` with v the rank over its largest value; where one is missing the largest
  that it could be, ``max(v, 1 - v)``, and 1 where both are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from fairmargin.baselines._frames import is_number

__all__ = ["MixedDistance"]

_BLOCK = 131_072  # distances computed at once: 1 MB, which stays in the cache of a core
_LANES = 32  # candidates of which only the nearest is looked at first
_MISSING_NUMBER = 3.0  # by the definition of the distance


@dataclass(frozen=True)
class MixedDistance:
    """People as rows whose L1 distance, with corrections where values are missing, is the distance.

    ``numbers`` (n, p) and ``ranks`` (n, q) have nan where a value is missing; ``indicators`` (n, l) of the levels of
    ``n_categories`` columns have no 1 there: the number of categories that two rows share is a product of matrices.
    """

    numbers: np.ndarray
    ranks: np.ndarray
    indicators: np.ndarray
    n_categories: int

    @classmethod
    def of(cls, frame: pd.DataFrame) -> MixedDistance:
        """Standardise and code the columns of a frame."""
        numbers, ranks, levels = [], [], []
        for name in frame:
            column = frame[name]
            if is_number(column):
                numbers.append(_standardised(column.to_numpy(dtype=float)))
            elif isinstance(column.dtype, pd.CategoricalDtype) and column.cat.ordered:
                ranks.append(_ranked(column))
            else:
                levels.append(pd.get_dummies(column.astype(object)).to_numpy(dtype=np.float32))
        n = len(frame)
        return cls(_stack(numbers, n), _stack(ranks, n), _stack(levels, n), len(levels))

    @property
    def n_columns(self) -> int:
        """Number of columns that the mean is over."""
        return self.numbers.shape[1] + self.ranks.shape[1] + self.n_categories

    @cached_property
    def _whole(self) -> np.ndarray:
        """Which columns of numbers have no missing value."""
        return ~np.isnan(self.numbers).any(axis=0)

    def distances(self, of: np.ndarray, among: np.ndarray) -> np.ndarray:
        """Return the distances (len(of), len(among)) between rows."""
        return self._sums(of, self._take(among)) / self.n_columns

    def neighbours(self, of: np.ndarray, among: np.ndarray, k: int) -> np.ndarray:
        """Return the k rows of ``among`` (ascending) nearest to each row of ``of``, (len(of), k), never itself.

        Equal distances go to the earlier row of ``among``. All distances are computed, in blocks: a tree is slower
        with the many indicator columns that categories take.
        """
        candidates, size = self._take(among), max(1, _BLOCK // len(among))
        found = []
        for start in range(0, len(of), size):
            rows = of[start : start + size]
            sums = self._sums(rows, candidates)
            place = np.searchsorted(among, rows)
            itself = np.flatnonzero(among.take(place, mode="clip") == rows)
            sums[itself, place[itself]] = np.inf
            found.append(among[_smallest(sums, k)])
        return np.concatenate(found) if found else np.empty((0, k), dtype=np.intp)

    def _take(self, rows: np.ndarray) -> MixedDistance:
        return replace(self, numbers=self.numbers[rows], ranks=self.ranks[rows], indicators=self.indicators[rows])

    def _sums(self, of: np.ndarray, among: MixedDistance) -> np.ndarray:
        """Return the sums over the columns of the distances between rows and other people."""
        shared = self.indicators[of] @ among.indicators.T  # exact: whole numbers
        whole = self._whole
        total = cdist(self.numbers[np.ix_(of, whole)], among.numbers[:, whole], "cityblock")
        total += self.n_categories - shared
        for ours, theirs in zip(self.numbers.T[~whole], among.numbers.T[~whole], strict=True):
            apart = np.abs(ours[of, None] - theirs)
            total += np.where(np.isnan(apart), _MISSING_NUMBER, apart)
        for ours, theirs in zip(self.ranks.T, among.ranks.T, strict=True):
            total += _rank_distance(ours[of, None], theirs)
        return total


def _smallest(values: np.ndarray, k: int) -> np.ndarray:
    """Return the indices of the k smallest entries of each row, ascending, the earlier of equal ones first."""
    n, width = values.shape
    padded = np.full((n, -(-width // _LANES) * _LANES), np.inf)
    padded[:, :width] = values
    # The k-th smallest of the lanes' minima bounds the k-th smallest entry; few entries are below it.
    minima = padded.reshape(n, _LANES, -1).min(axis=1)
    bound = np.partition(minima, k - 1, axis=1)[:, k - 1] if k <= minima.shape[1] else np.full(n, np.inf)
    row, column = np.nonzero(values <= bound[:, None])
    order = np.lexsort((column, values[row, column], row))
    first = np.searchsorted(row, np.arange(n))
    return column[order][first[:, None] + np.arange(k)]


def _standardised(values: np.ndarray) -> np.ndarray:
    """Return ``(x - mean) / (mean absolute deviation)``; zeros for a constant column."""
    known = ~np.isnan(values)
    centred = values - (values[known].mean() if known.any() else 0.0)
    deviation = np.abs(centred[known]).mean() if known.any() else 0.0
    return centred / deviation if deviation > 0 else np.where(known, 0.0, np.nan)


def _ranked(column: pd.Series) -> np.ndarray:
    """Return the rank of ordered categories over the largest, in [0, 1]."""
    codes = column.cat.codes.to_numpy()
    return np.where(codes < 0, np.nan, codes / max(len(column.cat.categories) - 1, 1))


def _rank_distance(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    apart = np.abs(ours - theirs)
    known = np.where(np.isnan(ours), theirs, ours)
    farthest = np.where(np.isnan(known), 1.0, np.maximum(known, 1.0 - known))
    return np.where(np.isnan(apart), farthest, apart)


def _stack(columns: list[np.ndarray], n: int) -> np.ndarray:
    return np.column_stack(columns) if columns else np.empty((n, 0), dtype=np.float32)
