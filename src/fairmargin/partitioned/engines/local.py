"""Partitions on threads of this computer."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from fairmargin.exceptions import EngineError
from fairmargin.partitioned.contract import Partition, Progress
from fairmargin.partitioned.engines.blas import one_blas_thread
from fairmargin.partitioned.engines.fold import Nothing, fold, run

__all__ = ["LocalEngine"]

R = TypeVar("R")


class LocalEngine:
    """Threads of this process: decoding Parquet and numpy release the interpreter lock.

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads, by default one per processor that this process may use.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        if n_jobs is not None and n_jobs < 1:
            raise ValueError(f"n_jobs must be at least 1, got {n_jobs}.")
        self.n_jobs = n_jobs or _processors()

    def reduce(
        self,
        function: Callable[[Partition], R],
        partitions: Sequence[Partition],
        merge: Callable[[R, R], R],
        *,
        progress: Progress | None = None,
    ) -> R:
        """Merge the results of all partitions; see ``Engine.reduce``."""
        with one_blas_thread:  # once, instead of back and forth with every partition
            return fold(self._results(function, partitions), len(partitions), merge, progress)

    def _results(
        self, function: Callable[[Partition], R], partitions: Sequence[Partition]
    ) -> Generator[R | Nothing, None, None]:
        pool = ThreadPoolExecutor(self.n_jobs, thread_name_prefix="fairmargin")
        running: deque[Future[R | Nothing]] = deque()
        ahead = iter(partitions)
        try:
            while True:
                # One partition per thread is waiting, so that no thread waits for the merge of another's result.
                while len(running) < 2 * self.n_jobs and (partition := next(ahead, None)) is not None:
                    running.append(pool.submit(_on_thread, function, partition))
                if not running:
                    return
                yield running.popleft().result()
        finally:  # an error or Ctrl-C too: what runs is waited for, the rest is not begun
            pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Do nothing: threads end with each pass."""


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux: containers and queues restrict processes to some processors
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _on_thread(function: Callable[[Partition], R], partition: Partition) -> R | Nothing:
    try:
        return run(function, partition)
    except MemoryError:
        raise EngineError(
            f"Out of memory at {partition.place}: use fewer threads, or write the file with smaller row groups."
        ) from None
