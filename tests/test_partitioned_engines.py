"""Engines: results merged in partition order, errors of the first partition, nothing left running."""

import importlib
import sys
import threading
import time
from types import ModuleType

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from fairmargin.exceptions import DataError, EngineError
from fairmargin.partitioned.engines import blas, engine_for
from fairmargin.partitioned.engines.local import LocalEngine


class Numbers:
    """A partition of made numbers."""

    def __init__(self, seed, rows=1000):
        self.seed, self.rows = seed, rows

    @property
    def place(self):
        return f"numbers {self.seed}"


def add(a, b):
    return a + b


def total(partition):
    # Magnitudes far apart, so that another order of summation gives other digits.
    rng = np.random.default_rng(partition.seed)
    return np.array([np.sum(rng.normal(size=partition.rows)) * 10.0 ** rng.integers(-8, 8)])


PARTITIONS = [Numbers(seed) for seed in range(40)]


def expected():
    result = total(PARTITIONS[0])
    for partition in PARTITIONS[1:]:
        result = add(result, total(partition))
    return result


@pytest.mark.parametrize("n_jobs", [1, 2, 5, None])
def test_merged_in_partition_order(n_jobs):
    def late_first(partition):
        time.sleep(0.01 * (partition.seed % 3 == 0))
        return total(partition)

    seen = []
    result = LocalEngine(n_jobs).reduce(late_first, PARTITIONS, add, progress=lambda *a: seen.append(a))
    assert result.tobytes() == expected().tobytes()
    assert seen == [(k, 40) for k in range(1, 41)]


def test_few_results_wait_for_their_turn():
    begun, merged = [], []

    def work(partition):
        begun.append(partition.seed)
        return total(partition)

    def merge(a, b):
        merged.append(len(begun))
        return a + b

    LocalEngine(2).reduce(work, PARTITIONS, merge)
    assert max(ahead - k for k, ahead in enumerate(merged)) <= 2 + 4  # the merged, their next, and two per thread


def test_error_of_the_first_partition():
    def fails(partition):
        if partition.seed in (7, 9):
            time.sleep(0.05 * (partition.seed == 7))
            raise DataError(f"{partition.place} has a NaN.")
        return total(partition)

    with pytest.raises(DataError, match=r"numbers 7 has a NaN\."):
        LocalEngine(4).reduce(fails, PARTITIONS, add)
    assert not [t for t in threading.enumerate() if t.name.startswith("fairmargin")]


def test_out_of_memory_says_where():
    def too_much(partition):
        raise MemoryError

    with pytest.raises(EngineError, match="Out of memory at numbers 0: use fewer threads"):
        LocalEngine(1).reduce(too_much, PARTITIONS, add)


def test_interrupt_leaves_nothing_running():
    begun = []

    def work(partition):
        begun.append(partition)
        time.sleep(0.02)
        return 1

    def interrupted(a, b):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalEngine(2).reduce(work, PARTITIONS, interrupted)
    assert not [t for t in threading.enumerate() if t.name.startswith("fairmargin")]
    assert len(begun) < 10


def test_blas_libraries_are_looked_for_again_after_imports(monkeypatch):
    looks = []
    monkeypatch.setattr(blas, "ThreadpoolController", lambda: looks.append(1) or ThreadpoolController())
    for name in ("imported_first", "imported_second"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        for _ in range(2):
            with blas.one_blas_thread:
                pass
    assert len(looks) == 2


def test_one_blas_thread_while_it_runs():
    def libraries():
        return {(p["filepath"], p["num_threads"]) for p in threadpool_info() if p["user_api"] == "blas"}

    def threads(partition):
        time.sleep(0.005)
        return {number for _, number in libraries()}

    with threadpool_limits(2, user_api="blas"):
        before = libraries()  # some library may have been built for one thread only
        assert max(number for _, number in before) == 2
        assert LocalEngine(3).reduce(threads, PARTITIONS[:9], set.union) == {1}
        assert libraries() == before


def test_bad_arguments():
    with pytest.raises(ValueError, match="n_jobs must be at least 1, got 0"):
        LocalEngine(0)
    with pytest.raises(ValueError, match="There are no partitions"):
        LocalEngine().reduce(total, [], add)


@pytest.mark.parametrize(("engine", "package"), [("dask", "distributed"), ("spark", "pyspark.sql")])
def test_missing_extras_are_named(engine, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EngineError, match=rf'pip install "fairmargin\[{engine}\]"'):
        engine_for(f"{engine}://127.0.0.1:1")


def test_missing_arrow_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("fairmargin.partitioned")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'need pyarrow: pip install "fairmargin\[cli\]"'):
        importlib.import_module("fairmargin.partitioned")


def test_engines_by_name():
    assert engine_for().n_jobs == engine_for("local").n_jobs == engine_for("local[*]").n_jobs
    assert engine_for("local[3]").n_jobs == 3
    engine = LocalEngine(2)
    assert engine_for(engine) is engine
    for text in ("ray://x:1", "dask://", "dask://host:x", "spark", "local[0x]", "local[0]"):
        with pytest.raises(EngineError, match=r"Unknown engine .* use local, .* dask://host:port"):
            engine_for(text)
    for text, port in (("dask://127.0.0.9", 8786), ("spark://127.0.0.9", 7077)):
        with pytest.raises(EngineError, match=f"answers at {text}:{port}"):
            engine_for(text)
    with pytest.raises(EngineError, match="must be text, a Dask client or a Spark session, got int"):
        engine_for(3)
