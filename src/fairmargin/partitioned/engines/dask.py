"""Partitions on the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

from fairmargin.exceptions import EngineError
from fairmargin.partitioned.contract import Partition, Progress
from fairmargin.partitioned.engines.fold import Nothing, fold, run
from fairmargin.partitioned.engines.installation import VERSION_ON_WORKER, check_versions, missing_package

if TYPE_CHECKING:
    import distributed

__all__ = ["DaskEngine", "connect"]

R = TypeVar("R")

_CONNECTING = 10.0  # seconds; a scheduler that lives answers within one
_WORKERS = 60.0  # seconds to wait for the first worker, or for one to come back: what a container takes to start
_PER_THREAD = 3  # tasks per thread that are sent ahead: one runs, one waits, one has its result on the way


def connect(address: str) -> distributed.Client:
    """Return a client of the scheduler at ``host:port``."""
    try:
        from distributed import Client
    except ImportError:
        raise EngineError('The engine dask:// needs Dask: pip install "fairmargin[dask]".') from None
    try:
        return Client(f"tcp://{address}", timeout=_CONNECTING, set_as_default=False)
    except (OSError, ValueError) as error:
        raise EngineError(
            f"No Dask scheduler answers at dask://{address} within {_CONNECTING:.0f} s ({error}); "
            "start one with `dask scheduler`, or check host and port."
        ) from None


class DaskEngine:
    """Tasks on a Dask cluster, one per partition; only their results travel to this process.

    Parameters
    ----------
    client : distributed.Client
        A client of the cluster; not an asynchronous one.
    owned : bool, default=False
        Whether ``close`` closes the client.

    Notes
    -----
    The scheduler repeats the tasks of a worker that is lost elsewhere. Function and partition travel within the task:
    data scattered in advance would be lost with the worker that holds them.
    """

    def __init__(self, client: distributed.Client, *, owned: bool = False) -> None:
        self._client = client
        self._owned = owned
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        if self._client.asynchronous:
            raise EngineError("An asynchronous Dask client cannot be used; give Client(..., asynchronous=False).")
        if self._client.status != "running":
            raise EngineError(f"The Dask client is {self._client.status}; make a new one.")
        try:
            self._client.wait_for_workers(1, timeout=_WORKERS)
        except TimeoutError:
            raise EngineError(self._no_workers()) from None
        except OSError as error:
            raise EngineError(f"The Dask scheduler {self._where()} cannot be reached: {error}.") from None
        found = self._client.run(eval, VERSION_ON_WORKER, on_error="return")
        versions = []
        for worker, version in found.items():
            if isinstance(version, ImportError):
                raise missing_package("dask", f"The Dask worker {worker}")
            versions.append((f"The Dask worker {worker}", str(version)))
        check_versions(versions, "dask")

    def _where(self) -> str:
        scheduler = self._client.scheduler
        return f"at {scheduler.address}" if scheduler is not None else "of the client"

    def _no_workers(self) -> str:
        if self._workers():
            return (
                f"The workers of the Dask scheduler {self._where()} have been paused for lack of memory for "
                f"{_WORKERS:.0f} s: give them more, or write the data with smaller row groups."
            )
        return f"The Dask scheduler {self._where()} has had no workers for {_WORKERS:.0f} s: start `dask worker`s."

    def reduce(
        self,
        function: Callable[[Partition], R],
        partitions: Sequence[Partition],
        merge: Callable[[R, R], R],
        *,
        progress: Progress | None = None,
    ) -> R:
        """Merge the results of all partitions; see ``Engine.reduce``."""
        return fold(self._results(function, partitions), len(partitions), merge, progress)

    def _results(
        self, function: Callable[[Partition], R], partitions: Sequence[Partition]
    ) -> Generator[R | Nothing, None, None]:
        running: deque[tuple[Partition, distributed.Future]] = deque()
        ahead = iter(partitions)
        try:
            while True:
                room = _PER_THREAD * max(1, self._threads()) - len(running)
                while room > 0 and (partition := next(ahead, None)) is not None:
                    running.append((partition, self._submit(function, partition)))
                    room -= 1
                if not running:
                    return
                yield self._result(*running[0])
                running.popleft()
        finally:  # an error or Ctrl-C too: what waits is cancelled, what runs ends with its partition
            with contextlib.suppress(Exception):  # a cluster that is gone has nothing to cancel
                self._client.cancel([future for _, future in running])

    def _workers(self) -> list[dict[str, Any]]:
        return list(self._client.scheduler_info(n_workers=-1)["workers"].values())

    def _threads(self) -> int:
        """Return how many tasks can run at once; workers that are short of memory pause."""
        return sum(worker["nthreads"] for worker in self._workers() if worker["status"] == "running")

    def _submit(self, function: Callable[[Partition], R], partition: Partition) -> distributed.Future:
        # Frames are computed by the cluster and handed to the task; other partitions are read by the task itself.
        of_frames = getattr(partition, "task", None)
        if of_frames is not None:
            return self._client.compute(of_frames(function))
        return self._client.submit(run, function, partition, pure=False)

    def _result(self, partition: Partition, future: distributed.Future) -> Any:
        from distributed import KilledWorker

        waited_since = time.monotonic()
        while True:
            done = future.done()  # asked before the wait: a task may end just when the wait does
            try:
                return future.result(timeout=None if done else _CONNECTING)
            except TimeoutError:
                if done:
                    raise  # the function's own
                if self._threads():
                    waited_since = time.monotonic()
                elif time.monotonic() - waited_since > _WORKERS:
                    raise EngineError(self._no_workers()) from None
            except KilledWorker as error:
                raise EngineError(
                    f"Several Dask workers died one after the other at {partition.place}, the last one "
                    f"{error.last_worker.address}: most likely they ran out of memory. Give them more, "
                    "or write the data with smaller row groups."
                ) from None
            except MemoryError:
                raise EngineError(
                    f"A Dask worker ran out of memory at {partition.place}: give workers more, or write the data "
                    "with smaller row groups."
                ) from None
            except ModuleNotFoundError as error:
                if error.name != "fairmargin":
                    raise
                raise missing_package("dask", "A Dask worker") from None
            except CancelledError as error:
                raise EngineError(f"The Dask cluster was lost at {partition.place}: {error}.") from None

    def close(self) -> None:
        """Close the client if the engine made it."""
        if self._owned:
            self._client.close()
