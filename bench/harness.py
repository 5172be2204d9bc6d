"""Measuring: interleaved runs, runs in a process of their own, budgets, the machine.

Set the number of threads before numpy is imported: import this module first.
"""

import os
import sys

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["NUMEXPR_NUM_THREADS"] = "1"
# Some peers start "python" as a process of their own: it must be this one.
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")

import contextlib
import ctypes
import gc
import importlib.metadata
import multiprocessing
import platform
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

_MMAP_THRESHOLD = -3  # of glibc's mallopt
PEERS = (
    "scikit-learn",
    "glum",
    "tabmat",
    "scikit-lego",
    "cvxpy",
    "clarabel",
    "ecos",
    "scs",
    "fairlearn",
    "aif360",
    "ethicml",
)


@dataclass
class Budget:
    """Seconds that a section may take; sections ask before each piece of work."""

    seconds: float
    started: float = field(default_factory=time.perf_counter)

    @property
    def spent(self):
        return time.perf_counter() - self.started

    @property
    def left(self):
        return max(0.0, self.seconds - self.spent)

    def share(self, part):
        """Return a budget for a part of this one, or for what is left if that is less."""
        return Budget(min(part * self.seconds, self.left))


def timed(work):
    """Return the result of ``work()`` and its seconds, without collection of garbage on the way."""
    gc.collect()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            result = work()
            return result, time.perf_counter() - start
    finally:
        gc.enable()


def interleaved(works, rounds, budget, least=1):
    """Run every work once to warm up and then in turn; return the seconds of each, and errors by name.

    The order is reversed every other round, so that nobody always follows the same neighbour.
    """
    seconds, errors = {name: [] for name in works}, {}
    for name, work in works.items():
        try:
            timed(work)
        except Exception as error:  # a peer that fails is reported, not hidden
            errors[name] = shortly(error)
    names = [name for name in works if name not in errors]
    for number in range(rounds):
        if budget.left <= 0 and number >= least:
            break
        for name in names if number % 2 == 0 else reversed(names):
            seconds[name].append(timed(works[name])[1])
    return {name: s for name, s in seconds.items() if s}, errors


def apart(work, timeout, in_use=False):
    """Run ``work()`` in a forked process: dict with seconds, peak (bytes above the start) and value, or error.

    Data are shared with the fork, so the peak counts what the work itself asks for. ``in_use`` leaves out what is
    free again and only kept for reuse, which depends on what was done before; it takes more time.
    """
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_in_fork, args=(work, theirs, in_use))
    process.start()
    theirs.close()
    try:
        answer = mine.recv() if mine.poll(timeout) else _stopped(timeout)
    except EOFError:
        answer = {"error": "the process ended without an answer"}
    if process.is_alive():
        process.join(1.0)
        process.kill()
    process.join()
    return answer


def _stopped(timeout):
    return {"error": f"stopped after {timeout:.0f} s", "stopped": timeout}


def _in_fork(work, pipe, in_use):
    try:
        before, files = _reset_peak(), _file_pages()
        value, seconds = _afresh(work) if in_use else timed(work)
        # A fork has to look up the pages of libraries again: they are nobody's extra memory.
        grown = _peak() - before - (_file_pages() - files)
        pipe.send({"seconds": seconds, "peak": max(0, grown), "value": value})
    except BaseException as error:
        pipe.send({"error": shortly(error)})
    finally:
        pipe.close()
        os._exit(0)


def _afresh(work):
    """Run ``work()`` where no memory is left from before and large arrays are given back as soon as they are free."""
    with contextlib.suppress(OSError):  # not Linux
        ctypes.CDLL("libc.so.6").mallopt(_MMAP_THRESHOLD, 1 << 17)
    with ThreadPoolExecutor(1) as thread:  # another thread has memory of its own
        return thread.submit(timed, work).result()


def _reset_peak():
    """Give free memory back, forget the largest size so far, and return the present size."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass  # not Linux: the peak is then that of the whole process
    return psutil.Process().memory_info().rss


def _file_pages():
    """Return the bytes of files (libraries) in memory."""
    return getattr(psutil.Process().memory_info(), "shared", 0)


def _peak():
    try:
        with open("/proc/self/status") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def shortly(error):
    text = " ".join(str(error).split()).replace(str(Path.home()), "~")
    if isinstance(error, ImportError):
        return f"not installed: {text}"[:160]
    return f"{type(error).__name__}: {text}"[:200]


def describe(error):
    return "".join(traceback.format_exception(error))[-2000:]


def median(seconds):
    return float(np.median(seconds)) if len(seconds) else float("nan")


def machine():
    """What the figures depend on, without anything that names the machine."""
    import scipy.linalg  # noqa: F401  (its BLAS is listed too)
    from threadpoolctl import threadpool_info

    memory = psutil.virtual_memory().total / 2**30
    blas = sorted(
        {f"{i.get('internal_api')} {i.get('version')} ({i.get('architecture')})" for i in threadpool_info()}
    )
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "blas": ", ".join(blas),
        "threads": os.environ["OMP_NUM_THREADS"],
        "load_before": round(os.getloadavg()[0], 2),
        "versions": {name: _version(name) for name in ("fairmargin", "numpy", "scipy", *PEERS)},
    }


def _processor():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def log(*words):
    print(*words, file=sys.stderr, flush=True)
