"""Merging results in partition order."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeVar

from fairmargin.partitioned.contract import Progress

__all__ = ["fold"]

R = TypeVar("R")


def fold(results: Generator[R, None, None], total: int, merge: Callable[[R, R], R], progress: Progress | None) -> R:
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
    with closing(results):
        merged = next(results)
        done = 1
        if progress is not None:
            progress(done, total)
        for result in results:
            merged = merge(merged, result)
            done += 1
            if progress is not None:
                progress(done, total)
    return merged
