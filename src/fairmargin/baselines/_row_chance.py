"""Chance that belongs to a row: draws that depend on what a person is, not on who else is in the table."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fairmargin.baselines._frames import is_number

__all__ = ["draw_by_row"]

Words = NDArray[np.uint64]

# Increment and multipliers of the SplitMix64 generator (Steele, Lea and Flood, 2014), whose output passes BigCrush.
_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def draw_by_row(frame: pd.DataFrame, random_state: Any, draws: int) -> NDArray[np.float64]:
    """Return numbers in [0, 1), (n, d, draws), for each row and column of a frame (n, d).

    With a whole number as ``random_state`` they are a hash of it and of the row's values. Equal rows are told apart
    by their order: the second in a table has other draws than the first. With a RandomState or None, draws are
    taken from that, row after row.
    """
    rng = check_random_state(random_state)
    if not isinstance(random_state, Integral):
        return rng.uniform(size=(*frame.shape, draws))
    row = np.full(len(frame), random_state, dtype=np.uint64)
    for name in frame:
        row = _mix(row ^ _words(frame[name]))
    before = pd.Series(row).groupby(row).cumcount().to_numpy(dtype=np.int64)  # equal rows further up
    row = _mix(row ^ before.astype(np.uint64))
    places = np.arange(1, frame.shape[1] * draws + 1, dtype=np.uint64)
    bits = _mix(row[:, None] + places * _STEP) >> np.uint64(11)  # the 53 bits that a float holds
    return (bits.astype(np.float64) * 2.0**-53).reshape(*frame.shape, draws)


def _words(column: pd.Series) -> Words:
    """Return a word of 64 bits for each value; equal values have equal words."""
    if is_number(column):
        return (column.to_numpy(dtype=float) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    text = column.astype(object).where(column.notna(), "").astype(str)
    return pd.util.hash_array(text.to_numpy(dtype=object), categorize=True)


def _mix(words: Words) -> Words:
    """Return words whose every bit depends on all bits of the given ones."""
    words = words + _STEP
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))
