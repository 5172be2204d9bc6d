"""Dask: the same digits as on this computer, whatever happens to workers."""

import logging
import os
import signal
import threading

import dask
import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import partition_functions as on_workers
from cluster_fixtures import free_port
from fairmargin.exceptions import DataError, EngineError
from fairmargin.partitioned.engines import dask as dask_engine
from fairmargin.partitioned.engines import engine_for
from fairmargin.partitioned.engines.dask import DaskEngine
from fairmargin.partitioned.engines.local import LocalEngine
from fairmargin.partitioned.sources import parquet as parquet_source
from fairmargin.partitioned.sources.dask import DaskSource
from fairmargin.partitioned.sources.parquet import ParquetSource
from partitioned_data import numbers, people, train, write, write_numbers
from waiting import until


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 100)
    return ParquetSource(write_numbers(tmp_path))


@pytest.fixture(scope="module")
def engine(dask_client):
    return DaskEngine(dask_client)


def on_one_thread(function, source):
    return LocalEngine(1).reduce(function, source.partitions, on_workers.add)


def test_files_are_read_by_tasks(engine, source):
    seen = []
    result = engine.reduce(on_workers.sums, source.partitions, on_workers.add, progress=lambda *a: seen.append(a))
    assert result.tobytes() == on_one_thread(on_workers.sums, source).tobytes()
    assert seen == [(k, 20) for k in range(1, 21)]


def test_frames_aligned_by_partition(engine):
    table = numbers(5000)
    ddf = dd.from_pandas(table, npartitions=7)
    source = DaskSource(ddf[["x", "job"]], ddf["y"])
    assert source.schema.names == ["x", "job", "y"]
    assert source.schema.field("job").type == pa.dictionary(pa.int32(), pa.string())
    result = engine.reduce(on_workers.sums, source.partitions, on_workers.add)
    assert result.tobytes() == on_one_thread(on_workers.sums, source).tobytes()
    assert result[3] == 5000
    counts = engine.reduce(on_workers.level_counts, source.partitions, on_workers.add)
    assert counts.tolist() == table["job"].value_counts()[["clerk", "nurse"]].tolist()


def test_frames_kept_by_the_cluster(engine, dask_client):
    ddf = dask_client.persist(dd.from_pandas(numbers(5000), npartitions=4))
    source = DaskSource(ddf[["x"]], ddf["y"])
    result = engine.reduce(on_workers.sums, source.partitions, on_workers.add)
    plain = dd.from_pandas(numbers(5000), npartitions=4)
    assert result.tobytes() == on_one_thread(on_workers.sums, DaskSource(plain[["x", "y"]])).tobytes()


def test_partitions_without_rows_do_not_count(engine):
    ddf = dd.from_pandas(numbers(1000).sort_values("x", ignore_index=True), npartitions=4)
    few = ddf[ddf["x"] > 0]
    result = engine.reduce(on_workers.sums, DaskSource(few).partitions, on_workers.add)
    assert 0 < result[3] < 600
    with pytest.raises(DataError, match="None of the partitions has rows"):
        engine.reduce(on_workers.sums, DaskSource(ddf[ddf["x"] > 1e9]).partitions, on_workers.add)


def test_task_is_small(source):
    ddf = dd.from_pandas(numbers(100), npartitions=50)
    partition = DaskSource(ddf[["x"]], ddf["y"]).partitions[0]
    assert len(partition.parts[0].dask) <= 4  # not the graph of all partitions


def test_frames_that_do_not_fit_together():
    a, b = numbers(100), numbers(100).rename(columns=str.upper)
    with pytest.raises(DataError, match="have 2 and 3 partitions; they must be partitioned alike"):
        DaskSource(dd.from_pandas(a, npartitions=2), dd.from_pandas(b, npartitions=3))
    with pytest.raises(DataError, match="different divisions"):
        DaskSource(dd.from_pandas(a, npartitions=2), dd.from_pandas(b[:80], npartitions=2))
    with pytest.raises(DataError, match="Column 'x' is in more than one of the frames"):
        DaskSource(dd.from_pandas(a, npartitions=2), dd.from_pandas(a, npartitions=2)["x"])
    with pytest.raises(DataError, match="series without a name"):
        DaskSource(dd.from_pandas(a["x"].rename(None), npartitions=2))
    longer = dd.from_pandas(b, npartitions=2).map_partitions(lambda part: part.iloc[1:])
    source = DaskSource(dd.from_pandas(a, npartitions=2), longer.clear_divisions())
    with pytest.raises(DataError, match="The frames have 50 and 49 rows in partition 0"):
        source.partitions[0].load(["x"])


def test_error_of_the_first_partition(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 100)
    parquet.write_table(pa.table({"x": np.zeros(1700)}), tmp_path / "a.parquet", row_group_size=500)
    source = ParquetSource([tmp_path / "a.parquet"] * 3)
    with pytest.raises(DataError, match=r"a\.parquet, row group 3: column 'x' has 200 NaN"):
        engine.reduce(on_workers.nan_in_some, source.partitions, on_workers.add)


class Listener(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


@pytest.fixture
def nanny_log():
    listener, logger = Listener(), logging.getLogger("distributed.nanny")
    logger.addHandler(listener)
    yield listener.lines
    logger.removeHandler(listener)


def replaced(victim, log, client):
    """Wait until a worker's nanny has seen that it was killed, and has started another."""
    until(lambda: any(f"{victim} was killed by signal 9" in line for line in log))
    until(lambda: replacement_is_there(victim, client))


def replacement_is_there(victim, client):
    workers = client.run(os.getpid, on_error="ignore").values()
    return len(workers) == 2 and victim not in workers


def test_killed_worker_changes_no_digit(engine, dask_client, source, nanny_log):
    victim = min(dask_client.run(os.getpid).values())

    def kill_once(done, total):
        if done == 4:
            os.kill(victim, signal.SIGKILL)

    result = engine.reduce(on_workers.slow_sums, source.partitions, on_workers.add, progress=kill_once)
    assert result.tobytes() == on_one_thread(on_workers.sums, source).tobytes()
    replaced(victim, nanny_log, dask_client)


def test_workers_that_die_again_and_again(engine, dask_client, source, monkeypatch):
    monkeypatch.setattr(dask_client.cluster.scheduler, "allowed_failures", 1)
    with pytest.raises(
        EngineError, match=r"died one after the other at part-0\.parquet, row group 0.*smaller row groups"
    ):
        engine.reduce(on_workers.dies, source.partitions[:1], on_workers.add)
    dask_client.wait_for_workers(2, timeout=300)


def test_out_of_memory_says_where(engine, source):
    with pytest.raises(EngineError, match=r"ran out of memory at part-0\.parquet, row group 0"):
        engine.reduce(on_workers.out_of_memory, source.partitions, on_workers.add)


def test_interrupt_leaves_nothing_running(engine, dask_client, source):
    def interrupted(a, b):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.reduce(on_workers.forever, source.partitions, interrupted)
    until(lambda: not any(dask_client.processing().values()))


def test_by_address(dask_client, source):
    engine = engine_for("dask://" + dask_client.scheduler.address.removeprefix("tcp://"))
    result = engine.reduce(on_workers.sums, source.partitions, on_workers.add)
    assert result[3] == 10_000
    engine.close()
    assert isinstance(engine_for(dask_client), DaskEngine)
    assert dask_client.status == "running"


def test_no_scheduler(monkeypatch):
    monkeypatch.setattr(dask_engine, "_CONNECTING", 1.0)
    with pytest.raises(EngineError, match=r"No Dask scheduler answers at dask://127\.0\.0\.1:\d+ within 1 s"):
        engine_for(f"dask://127.0.0.1:{free_port()}")
    assert not [t for t in threading.enumerate() if "fairmargin" in t.name]


@pytest.fixture
def small_cluster():
    from distributed import Client, LocalCluster

    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=0, **options) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


def test_no_workers(small_cluster, monkeypatch):
    monkeypatch.setattr(dask_engine, "_WORKERS", 0.5)
    with pytest.raises(EngineError, match="has had no workers for 0 s: start `dask worker`s"):
        DaskEngine(small_cluster)


def test_paused_workers(engine, dask_client, source, monkeypatch):
    """Workers whose modules alone take most of their memory stay paused after a restart."""
    monkeypatch.setattr(dask_engine, "_WORKERS", 1.0)
    monkeypatch.setattr(dask_engine, "_CONNECTING", 0.2)
    before = dask_client.run(on_workers.pause_above, 1e-9)
    until(lambda: not engine._threads())
    try:
        with pytest.raises(
            EngineError, match=r"have been paused for lack of memory for 1 s: give them more, or write"
        ):
            engine.reduce(on_workers.sums, source.partitions, on_workers.add)
    finally:
        dask_client.run(on_workers.pause_above, next(iter(before.values())))
        until(engine._threads)


def test_a_task_that_ends_as_its_wait_does(engine, dask_client, source, monkeypatch):
    """Waits of no length all end without a result; what is returned is that of the task."""
    monkeypatch.setattr(dask_engine, "_CONNECTING", 1e-3)
    result = engine.reduce(on_workers.sums, source.partitions, on_workers.add)
    assert result.tobytes() == on_one_thread(on_workers.sums, source).tobytes()


def test_closed_client(small_cluster):
    small_cluster.close()
    with pytest.raises(EngineError, match="The Dask client is closed; make a new one"):
        DaskEngine(small_cluster)


def test_workers_without_the_package():
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=1, **options) as cluster, Client(cluster, set_as_default=False) as client:
        client.run(eval, "__import__('sys').modules.__setitem__('fairmargin', None)")
        with pytest.raises(
            EngineError, match=r"cannot import fairmargin: install it on every worker, with pip install"
        ):
            DaskEngine(client)


def test_another_version(dask_client, monkeypatch):
    monkeypatch.setattr("fairmargin.__version__", "9.9.9")
    with pytest.raises(EngineError, match=r"has fairmargin 0\.1\.0, this process 9\.9\.9"):
        DaskEngine(dask_client)


def test_configuration_is_left_alone(engine):
    assert dask.config.get("scheduler", None) is None


@pytest.fixture
def many_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 1)
    return write(people(9000, seed=2), tmp_path / "people", 3, 300)


def test_killed_worker_changes_no_coefficient(dask_client, nanny_log, many_parts):
    victim, killed = min(dask_client.run(os.getpid).values()), []

    def kill_once(name, done, total):
        if name == "evaluate" and done == 3 and not killed:
            killed.append((done, total))
            os.kill(victim, signal.SIGKILL)

    expected = train(many_parts, LocalEngine(1))
    assert train(many_parts, dask_client, kill_once).tobytes() == expected.tobytes()
    assert killed == [(3, 30)]
    replaced(victim, nanny_log, dask_client)


def test_one_worker_gives_the_coefficients_of_two(dask_client, many_parts):
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=1, **options) as cluster, Client(cluster, set_as_default=False) as client:
        alone = train(many_parts, client)
    assert alone.tobytes() == train(many_parts, dask_client).tobytes()
