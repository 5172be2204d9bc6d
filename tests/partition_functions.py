"""What tests run on workers, which import it by name."""

import os
import signal
import time

import numpy as np

from fairmargin.exceptions import DataError


def add(a, b):
    return a + b


def sums(partition):
    """Sums of two numeric columns in which magnitudes are far apart: another order gives other digits."""
    table = partition.load(["x", "y"])
    x, y = (table[name].to_numpy() for name in ("x", "y"))
    return np.array([np.sum(x), np.dot(x, y), np.sum(np.exp(x)), float(len(x))])


def slow_sums(partition):
    time.sleep(0.15)
    return sums(partition)


def level_counts(partition):
    values = partition.load(["job"])["job"]
    return np.array([sum(value == job for value in values.to_pylist()) for job in ("clerk", "nurse")])


def nan_in_some(partition):
    table = partition.load(["x"])
    if len(table) != 500:
        raise DataError(f"{partition.place}: column 'x' has {len(table)} NaN.")
    return 1


def out_of_memory(partition):
    raise MemoryError


def dies(partition):
    os.kill(os.getpid(), signal.SIGKILL)


def forever(partition):
    time.sleep(0.5)
    return 1


def pause_above(share, dask_worker):
    """Let a Dask worker pause above a share of its memory; return the share until now."""
    manager = dask_worker.memory_manager
    before, manager.memory_pause_fraction = manager.memory_pause_fraction, share
    return before
