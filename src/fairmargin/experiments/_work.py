"""Units of work: small, independent, each written whole or not at all.

A unit is a function at the top of a module, and its parameters. Its result is a list of rows (flat mappings of
numbers and words), kept in a file that is named after the parameters and says which code it came from. A run looks at
the files first and computes what is missing: killed at any point, it goes on where it was.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from types import CodeType
from typing import Any

from fairmargin.atomic_write import write_atomic
from fairmargin.exceptions import WorkError

__all__ = ["Row", "Store", "Unit", "WorkError", "run_units"]

Row = Mapping[str, Any]
Done = Callable[[int, int, str], None]

# What a result does not depend on: how it is shown, and the command line.
_PRESENTATION = (
    *("experiments", "report", "tables", "cli", "audit.py", "formatting.py", "atomic_write.py"),
    *("io.py", "tabular.py", "workflow.py", "__main__.py"),
)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Unit:
    """A piece of work: ``function(**parameters)`` returns rows.

    ``cost`` is a rough guess in seconds: long work is begun first, so that both cores end together.
    """

    function: Callable[..., list[dict[str, Any]]]
    parameters: Mapping[str, Any]
    cost: float = field(default=1.0, compare=False)

    @property
    def kind(self) -> str:
        """Name of the function."""
        return self.function.__name__

    @property
    def title(self) -> str:
        """What is done, for people."""
        return f"{self.kind} {', '.join(_word(v) for v in self.parameters.values())}"

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the result: code and parameters."""
        where = f"{self.function.__module__}:{self.kind}"
        parameters = json.loads(json.dumps(dict(self.parameters)))
        return {"function": where, "parameters": parameters, "code": _fingerprint(self.function)}

    @property
    def file(self) -> str:
        """Name of the file that holds the result."""
        words = re.sub(r"[^A-Za-z0-9.+-]+", "-", "-".join(_word(v) for v in self.parameters.values()))
        digest = hashlib.sha256(json.dumps(self.identity["parameters"], sort_keys=True).encode()).hexdigest()[:10]
        return f"{self.kind}/{words[:60]}-{digest}.json"


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{len(value)} values" if isinstance(value, list | tuple) else str(value)


@lru_cache
def _package_digest() -> str:
    """Return a digest of the code that every result depends on: the package but its presentation."""
    import fairmargin

    root = Path(fairmargin.__file__).parent
    files = [path for path in root.rglob("*.py") if path.relative_to(root).parts[0] not in _PRESENTATION]
    digest = hashlib.sha256()
    for path in sorted([*files, root / "experiments" / "_data.py"]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@lru_cache
def _fingerprint(function: Callable[..., Any]) -> str:
    """Return a digest of the package and of what the function needs of its own module.

    How its results are drawn or described is in the same module and may change without computing them again.
    """
    parts: dict[str, str] = {}
    _gather(function, parts)
    return hashlib.sha256((_package_digest() + json.dumps(parts, sort_keys=True)).encode()).hexdigest()[:16]


def _gather(function: Any, parts: dict[str, str]) -> None:
    """Collect the source of a function, and of the functions and constants of its module that it names."""
    parts[function.__name__] = inspect.getsource(function)
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        if name in parts or value is None or inspect.ismodule(value):
            continue
        if inspect.isfunction(value):
            if value.__module__ == function.__module__:
                _gather(value, parts)
        elif not isinstance(value, type):
            # Addresses of objects differ between processes.
            parts[name] = re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _names(code: CodeType) -> set[str]:
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


class Store:
    """The folder of finished units."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, unit: Unit) -> Path:
        """Where the result of a unit is kept."""
        return self.folder / unit.file

    def read(self, unit: Unit) -> list[dict[str, Any]] | None:
        """Return the rows of a finished unit; None where there are none, or they are not of this code."""
        try:
            content = json.loads(self.path(unit).read_text())
            return list(content["rows"]) if content["unit"] == unit.identity else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, unit: Unit, rows: Sequence[Row], seconds: float, identity: dict[str, Any]) -> None:
        """Keep the rows of a unit, and what it was when the run began."""
        content = {"unit": identity, "seconds": round(seconds, 3), "rows": list(rows)}
        path = self.path(unit)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(content, indent=None) + "\n")

    def clear(self) -> None:
        """Forget every finished unit."""
        for path in self.folder.glob("*/*.json"):
            path.unlink()

    def sweep(self) -> None:
        """Remove what writers left that were killed while writing."""
        for path in self.folder.glob("*/.fairmargin-*"):
            path.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out of the folder; the lock goes with the process, however that ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            import fcntl
        except ImportError:  # not on this system: two runs would do the same work twice, no more
            yield
            return
        with open(self.folder / ".lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise WorkError(f"Another run is at work in {str(self.folder.parent)!r}.") from None
            yield


def run_units(units: Iterable[Unit], store: Store, *, jobs: int = 1, done: Done | None = None) -> int:
    """Compute every unit that is not finished yet, on ``jobs`` processes, and return how many that were.

    ``done`` is called with (units finished, units in all, what was finished last).
    """
    wanted = list({unit.file: unit for unit in units}.values())
    missing = [unit for unit in wanted if store.read(unit) is None]
    missing.sort(key=lambda unit: -unit.cost)
    say = done or (lambda finished, total, title: None)
    finished = len(wanted) - len(missing)
    say(finished, len(wanted), "")
    failed = []
    # Closing the results ends the workers, however the loop is left.
    with _one_thread(), closing(_each(missing, store, min(jobs, len(missing)))) as results:
        for unit, error in results:
            if error is not None:
                failed.append(f"{unit.title}: {type(error).__name__}: {error}")
                continue
            finished += 1
            say(finished, len(wanted), unit.title)
    if failed:
        raise WorkError(f"{len(failed)} of {len(wanted)} units failed; the first: {failed[0]}") from None
    return len(missing)


def _each(units: list[Unit], store: Store, jobs: int) -> Generator[tuple[Unit, BaseException | None]]:
    """Compute units and yield each as it is finished, with its error if it has failed."""
    if jobs <= 1:
        for unit in units:
            try:
                _compute(unit, store, unit.identity)
            except Exception as error:
                yield unit, error
            else:
                yield unit, None
        return
    others = set(active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin_worker)
    try:
        with _ctrl_c_held_back():  # a worker that is starting would die of it with a traceback
            pending: dict[Future[None], Unit] = {
                pool.submit(_compute, unit, store, unit.identity): unit for unit in units
            }
        while pending:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                yield pending.pop(future), future.exception()
    except BaseException:
        # Nobody waits for the results any more; a worker deep in a computation would notice only at its end.
        for worker in set(active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Deliver a Ctrl-C only afterwards, and never to the processes that are started meanwhile."""
    if not hasattr(signal, "pthread_sigmask"):  # not on this system
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _compute(unit: Unit, store: Store, identity: dict[str, Any]) -> None:
    from threadpoolctl import threadpool_limits

    begun = time.perf_counter()
    with threadpool_limits(1):
        rows = unit.function(**unit.parameters)
    store.write(unit, rows, time.perf_counter() - begun, identity)


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let the workers have one BLAS thread each: more would wait for each other longer than they work."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
