"""Counting people by combinations of values, in one pass: exact whole numbers, whatever the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from fairmargin.exceptions import DataError
from fairmargin.formatting import shorten
from fairmargin.partitioned.arrow import as_codes, as_numbers, check_tells_groups, is_number_type
from fairmargin.partitioned.contract import Engine, Partition, Progress, Source

__all__ = ["PEOPLE", "Cells", "add_cells", "cell_codes", "cells_frame", "count_cells", "count_codes"]

Cells = dict[tuple[Any, ...], int]
Limits = Mapping[str, tuple[float, ...]]

PEOPLE = "(people)"  # the column of counts beside those of the values
_MOST_VALUES = 10_000  # of one column: more are measurements or names, not groups
_LARGEST_CODE = 2**62  # of a combination of values, in an int64
_MOST_CELLS = 1_000_000  # combinations; a dictionary of so many takes a few hundred megabytes


def count_cells(
    source: Source,
    engine: Engine,
    columns: Sequence[str],
    limits: Mapping[str, Sequence[float]] | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Return the combinations of values that occur, and how many people have each.

    Parameters
    ----------
    source, engine : where the rows are, and what works on them
    columns : sequence of str
    limits : mapping from column to numbers, optional
        Numbers of these columns are counted by band: each stands for all numbers from a limit up to the next one.
    progress : callable, optional

    Returns
    -------
    cells : DataFrame
        With the columns, and ``PEOPLE``.
    """
    for name in columns:
        check_tells_groups(source.schema, name)
    cut = {name: tuple(sorted({float(v) for v in values})) for name, values in (limits or {}).items()}
    task = _Count(tuple(dict.fromkeys(columns)), cut)
    return cells_frame(task.columns, engine.reduce(task, source.partitions, add_cells, progress=progress))


def cells_frame(columns: Sequence[str], cells: Cells) -> pd.DataFrame:
    """Return counted combinations as a frame, in the order in which they were found."""
    values = zip(*cells, strict=True) if cells else ((),) * len(columns)
    frame = pd.DataFrame({name: list(of_column) for name, of_column in zip(columns, values, strict=True)})
    frame[PEOPLE] = np.array(list(cells.values()), dtype=np.int64)
    return frame


@dataclass(frozen=True)
class _Count:
    """What a worker does with a partition."""

    columns: tuple[str, ...]
    limits: Limits = field(default_factory=dict)

    def __call__(self, partition: Partition) -> Cells:
        table, place = partition.load(list(self.columns)), partition.place
        return count_codes([cell_codes(table[name], name, place, self.limits.get(name)) for name in self.columns])


def cell_codes(
    column: pa.ChunkedArray, name: str, place: str, limits: Sequence[float] | None = None
) -> tuple[NDArray[np.int64], list[Any]]:
    """Return which of its values each row of a column has, and these values; None where one is missing.

    With limits, numbers are cut: the value of a band is its lower limit, and that of the lowest the next number
    below the first limit.
    """
    if limits is not None and is_number_type(column.type):
        numbers = as_numbers(column)
        below = float(np.nextafter(limits[0], -np.inf))
        code = np.searchsorted(limits, numbers, side="right")
        return np.where(np.isnan(numbers), len(limits) + 1, code), [below, *limits, None]
    found, values = as_codes(column)
    if len(values) > _MOST_VALUES:
        raise DataError(
            f"The column {shorten(name)!r} has more than {_MOST_VALUES:,} values in {place}, too many to be groups; "
            "cut numbers into bands, or leave the column out.",
            field="bins",
        )
    return found.astype(np.int64), [None if value != value else value for value in values]  # nan is a missing value


def count_codes(columns: Sequence[tuple[NDArray[np.int64], Sequence[Any]]]) -> Cells:
    """Return how many rows have each combination of values; columns are codes and what they stand for."""
    joint, keys = np.zeros(len(columns[0][0]), dtype=np.int64), [()]
    pending: list[tuple[NDArray[np.int64], Sequence[Any]]] = []
    for column in columns:
        if len(keys) * math.prod(len(values) for _, values in (*pending, column)) > _LARGEST_CODE:
            joint, keys = _combined(joint, keys, pending)
            pending = []
        pending.append(column)
    joint, keys = _combined(joint, keys, pending)
    found: Cells = {}
    for key, number in zip(keys, np.bincount(joint, minlength=len(keys)).tolist(), strict=True):
        found[key] = found.get(key, 0) + number
    return found


def _combined(
    joint: NDArray[np.int64],
    keys: Sequence[tuple[Any, ...]],
    columns: Sequence[tuple[NDArray[np.int64], Sequence[Any]]],
) -> tuple[NDArray[np.int64], list[tuple[Any, ...]]]:
    """Return codes of the combinations of ``keys`` and further columns that occur, and these combinations."""
    for code, values in columns:
        joint = joint * len(values) + code
    present, joint = np.unique(joint, return_inverse=True)
    where = np.unravel_index(present, [len(keys), *(len(values) for _, values in columns)])
    rows = zip(*(at.tolist() for at in where), strict=True)
    found = [
        (*keys[first], *(values[k] for (_, values), k in zip(columns, rest, strict=True))) for first, *rest in rows
    ]
    return joint, found


def add_cells(first: Cells, second: Cells) -> Cells:
    """Add the counts of two partitions."""
    for key, number in second.items():
        first[key] = first.get(key, 0) + number
    if len(first) > _MOST_CELLS:
        raise DataError("The columns have too many combinations of values to be counted; name fewer of them.")
    return first
