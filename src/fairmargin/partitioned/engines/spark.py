"""Partitions on the executors of a Spark cluster."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import shutil
import signal
import socket
import threading
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fairmargin.exceptions import EngineError
from fairmargin.formatting import shorten
from fairmargin.partitioned.contract import Partition, Progress
from fairmargin.partitioned.engines.fold import Nothing, fold, run
from fairmargin.partitioned.engines.installation import VERSION_ON_WORKER, check_versions, missing_package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkEngine", "connect", "uninterrupted"]

R = TypeVar("R")

_CONNECTING = 10.0  # seconds; a master that lives answers within one
_EXECUTORS = 60.0  # seconds to wait for the first executor, or for one to come back: what a container takes to start
_PER_CORE = 4  # partitions per core and job: enough that cores which are done early find others to do
_JOBS = 2  # jobs at once, so that cores which one job no longer needs begin with the next


def connect(address: str) -> SparkEngine:
    """Return an engine with a session of its own on the master at ``host:port``."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise EngineError('The engine spark:// needs PySpark: pip install "fairmargin[spark]".') from None
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise EngineError("The engine spark:// needs Java 17 or later, and there is no `java` on the path.")
    host, _, port = address.partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECTING).close()
    except (OSError, ValueError, OverflowError) as error:
        raise EngineError(
            f"No Spark master answers at spark://{address} ({error}); start one, or check host and port."
        ) from None
    with uninterrupted():
        active = SparkSession.getActiveSession()
    if active is not None:
        if active.sparkContext.master != f"spark://{address}":
            raise EngineError(
                f"This process has a Spark session on {active.sparkContext.master} and cannot have a second one on "
                f"spark://{address}; stop the first, or hand it over instead of the address."
            )
        return SparkEngine(active)
    builder = SparkSession.builder.master(f"spark://{address}").appName("fairmargin")
    with uninterrupted() as is_stopped, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        try:
            session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        except Exception as error:  # Py4J's and PySpark's have no common class
            raise EngineError(f"Spark could not start a session on spark://{address}: {_reason(error)}") from None
        if is_stopped():
            session.stop()
        else:
            session.sparkContext.setLogLevel("ERROR")  # errors of this package say what went wrong
    return SparkEngine(session, owned=True)


@contextlib.contextmanager
def uninterrupted() -> Iterator[Callable[[], bool]]:
    """Put off a Ctrl-C to the end; the function yielded says whether there was one.

    In the middle of a call to Java it would break the connection, which is still needed to stop what runs, and Py4J
    would log a traceback. A session that is made inside does not replace the process's handler of Ctrl-C either.
    """
    # Signals are the main thread's, and a job in the background may be deaf to this one.
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield lambda: False
        return
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, before)
        if seen:
            signal.raise_signal(signal.SIGINT)


class SparkEngine:
    """Spark jobs with one task per partition; only the results travel to this process.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Not one of Spark Connect, which has no jobs of this kind.
    owned : bool, default=False
        Whether ``close`` stops the session.

    Notes
    -----
    A pass is a sequence of jobs of a few tasks per core, two of them at a time: results of one job can be merged, and
    let go, while the next one runs. Spark repeats the tasks of an executor that is lost.
    """

    def __init__(self, session: SparkSession, *, owned: bool = False) -> None:
        self._session = session
        self._owned = owned
        try:
            with uninterrupted():
                self._context = session.sparkContext
        except Exception:  # Spark Connect has its own class of error
            raise EngineError(
                "A Spark Connect session cannot be used; give a classic SparkSession, or spark://host:port."
            ) from None
        if self._context._jsc is None:
            raise EngineError("The Spark session was stopped; make a new one, and read the frame anew.")
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        expression = VERSION_ON_WORKER
        # A lambda travels by value: the executors need nothing of ours to run it.
        with uninterrupted():
            numbers = self._context.parallelize(range(2), 2).map(lambda _: eval(expression))
        with self._jobs() as submit:
            versions = self._wait(submit(numbers, list, [0, 1]), "the first task")
        check_versions([("A Spark executor", version) for version in versions], "spark")

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
        # Frames that are not plain files bring their own way of handing rows to the function.
        of_frame = getattr(partitions[0], "outcomes", None)
        with uninterrupted():
            if of_frame is not None:
                rdd, collect = of_frame(_Outcome(function))
            else:
                rdd, collect = self._context.parallelize(partitions, len(partitions)), _OnPartitions(function)
            size = _PER_CORE * max(1, self._context.defaultParallelism)
        windows = iter([range(k, min(k + size, len(partitions))) for k in range(0, len(partitions), size)])
        running: deque[tuple[range, Future[list[Any]]]] = deque()
        with self._jobs() as submit:
            while True:
                while len(running) < _JOBS and (window := next(windows, None)) is not None:
                    running.append((window, submit(rdd, collect, list(window))))
                if not running:
                    return
                window, job = running.popleft()
                places = f"{partitions[window[0]].place}, or later"
                for fine, value in self._wait(job, places):
                    if not fine:
                        raise value
                    yield value

    @contextlib.contextmanager
    def _jobs(self) -> Iterator[Callable[..., Future[list[Any]]]]:
        """Yield a function that starts a job; jobs that run at the end, after an error or Ctrl-C, are cancelled."""
        from pyspark import inheritable_thread_target

        with uninterrupted():
            in_session: Callable[..., Any] = inheritable_thread_target(self._session)
        context, group = self._context, f"fairmargin-{uuid.uuid4()}"
        pool = ThreadPoolExecutor(_JOBS, thread_name_prefix="fairmargin")
        started: list[Future[list[Any]]] = []

        def job(rdd: Any, collect: Callable[[Iterable[Any]], Iterable[Any]], partitions: list[int]) -> list[Any]:
            context.setJobGroup(group, "fairmargin", interruptOnCancel=True)
            return context.runJob(rdd, collect, partitions)

        def submit(*arguments: Any) -> Future[list[Any]]:
            with uninterrupted():
                started.append(pool.submit(in_session(job), *arguments))
            return started[-1]

        try:
            yield submit
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in started):
                with contextlib.suppress(Exception), uninterrupted():  # a context that is gone has nothing to cancel
                    context.cancelJobGroup(group)  # again: a job may have been about to start
                time.sleep(0.1)

    def _wait(self, job: Future[list[Any]], place: str) -> list[Any]:
        alive = time.monotonic()
        while True:
            try:
                return job.result(timeout=1.0)
            except TimeoutError:
                if self._executors():
                    alive = time.monotonic()
                elif time.monotonic() - alive > _EXECUTORS:
                    with uninterrupted():
                        memory = self._context.getConf().get("spark.executor.memory", "1g")
                    raise EngineError(
                        f"The Spark master {self._context.master} has had no executor for this application for "
                        f"{_EXECUTORS:.0f} s: start workers, or free cores and memory of theirs. An executor takes "
                        f"{memory} (spark.executor.memory of the session or of spark-defaults.conf)."
                    ) from None
            except Exception as error:  # Py4J's and PySpark's have no common class
                raise _explained(error, place) from None

    def _executors(self) -> int:
        if str(self._context.master).startswith("local"):
            return 1
        with uninterrupted():
            # The driver is in the list, too.
            return int(self._context._jsc.sc().getExecutorMemoryStatus().size()) - 1

    def close(self) -> None:
        """Stop the session if the engine made it."""
        if self._owned:
            with uninterrupted():
                self._session.stop()


class _Outcome(Generic[R]):
    """Calls a function on an executor: ``(True, result)`` or ``(False, error)``.

    Errors of the function are results: Spark would repeat the task, and then hand over the error as text. A lack of
    memory is Spark's to deal with.
    """

    def __init__(self, function: Callable[[Partition], R]) -> None:
        self._function = function

    def __call__(self, partition: Partition) -> tuple[bool, Any]:
        try:
            return True, run(self._function, partition)
        except MemoryError:
            raise
        except Exception as error:
            return False, error
        finally:
            _spare_what_was_imported()


@functools.cache
def _spare_what_was_imported() -> None:
    """Leave modules out of garbage collections, once in each Python process of an executor.

    PySpark collects after every task, which took 80 ms with numpy, pandas and scikit-learn imported: half as long as
    the work on a row group.

    Other jobs of the same application may get the same process. They lose nothing: what exists now is still freed
    when nothing refers to it, except for cycles among it, and their own objects are collected as ever.
    """
    gc.collect()
    gc.freeze()


class _OnPartitions(Generic[R]):
    """A task: calls the function on the partitions of a slice, of which there is one."""

    def __init__(self, function: Callable[[Partition], R]) -> None:
        self._outcome = _Outcome(function)

    def __call__(self, partitions: Iterable[Partition]) -> list[tuple[bool, Any]]:
        return [self._outcome(partition) for partition in partitions]


def _explained(error: Exception, place: str) -> EngineError:
    """Return what a failed job means, by the words in Spark's message."""
    text = str(error)
    if "No module named 'fairmargin'" in text:
        return missing_package("spark", "A Spark executor")
    if "PYTHON_VERSION_MISMATCH" in text:
        return EngineError(
            "The Spark executors have another version of Python than this process: set PYSPARK_PYTHON to one of the "
            "same version."
        )
    differs = re.search(r"reading file (\S+)\. Data type mismatches .*? column \[(.*?)\]\. (.*?)\. SQLSTATE", text)
    if differs:
        return EngineError(
            f"The column {differs[2]!r} of {differs[1]} has another type than in other files ({differs[3]}); write "
            "it with the same type in all files."
        )
    if any(words in text for words in ("MemoryError", "ExecutorLostFailure", "exited unexpectedly")):
        return EngineError(
            f"Several Spark executors died one after the other at {place}: most likely they ran out of memory. "
            "Give them more, or write the data with smaller row groups."
        )
    return EngineError(f"Spark could not work on {place}: {_reason(error)}")


def _reason(error: Exception) -> str:
    """Return the last line of an error's text that names one, as a sentence: Java's have hundreds of lines."""
    text = str(error)
    lines = [line.strip().removeprefix("Caused by: ") for line in text.splitlines()]
    named = [line for line in lines if re.search("Error|Exception", line) and not line.startswith("at ")]
    return shorten((named or lines or [type(error).__name__])[-1], 300).rstrip(".") + "."
