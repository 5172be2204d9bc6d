"""Merging results in partition order."""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeVar

from fairmargin.exceptions import DataError
from fairmargin.partitioned.contract import Partition, Progress
from fairmargin.partitioned.engines.blas import one_blas_thread

__all__ = ["Nothing", "fold", "run"]

R = TypeVar("R")


class Nothing(enum.Enum):
    """The result of a partition without rows, as frames may have them after filtering."""

    NOTHING = 0


def run(function: Callable[[Partition], R], partition: Partition) -> R | Nothing:
    """Call the function with one BLAS thread, unless there are no rows.

    An error in one of several row groups that are read together names that row group.
    """
    if partition.rows == 0:
        return Nothing.NOTHING
    with one_blas_thread:
        try:
            return function(partition)
        except DataError:
            for part in getattr(partition, "row_groups", ()):
                function(part)
            raise


def fold(
    results: Generator[R | Nothing, None, None], total: int, merge: Callable[[R, R], R], progress: Progress | None
) -> R:
    """Return the results merged from the left, and report after each.

    Parameters
    ----------
    results : generator
        Yields the result of each partition, in order; closed at the end and after an error, so that it can stop
        what it started.
    total : int
        Number of partitions.
    merge, progress : callable
        As in ``Engine.reduce``.
    """
    if total < 1:
        raise ValueError("There are no partitions.")
    merged: R | Nothing = Nothing.NOTHING
    with closing(results):
        for done, result in enumerate(results, start=1):
            if merged is Nothing.NOTHING:
                merged = result
            elif result is not Nothing.NOTHING:
                merged = merge(merged, result)
            if progress is not None:
                progress(done, total)
    if merged is Nothing.NOTHING:
        raise DataError("None of the partitions has rows.")
    return merged
