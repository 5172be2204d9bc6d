"""Spark: the same digits as on this computer, whatever happens to executors."""

import os
import shutil
import signal
import time
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import partition_functions as on_workers
from cluster_fixtures import free_port
from fairmargin.exceptions import DataError, EngineError
from fairmargin.partitioned.engines import engine_for
from fairmargin.partitioned.engines import spark as spark_engine
from fairmargin.partitioned.engines.local import LocalEngine
from fairmargin.partitioned.engines.spark import SparkEngine
from fairmargin.partitioned.sources import parquet as parquet_source
from fairmargin.partitioned.sources.parquet import ParquetSource
from fairmargin.partitioned.sources.spark import SparkFrameSource, spark_source
from partitioned_data import numbers, people, train, write, write_numbers

cluster = pytest.mark.spark
# PySpark says so of pandas 3 whenever Arrow is used.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 100)
    return write_numbers(tmp_path)


@pytest.fixture(scope="module")
def engine(spark_session):
    return SparkEngine(spark_session)


def on_one_thread(function, source):
    return LocalEngine(1).reduce(function, source.partitions, on_workers.add)


@cluster
@pytest.mark.parametrize("per_core", [4, 1])  # 20 partitions in three jobs, and in ten
def test_files_are_read_by_tasks(engine, folder, monkeypatch, per_core):
    monkeypatch.setattr(spark_engine, "_PER_CORE", per_core)
    source, seen = ParquetSource(folder), []
    result = engine.reduce(on_workers.sums, source.partitions, on_workers.add, progress=lambda *a: seen.append(a))
    assert result.tobytes() == on_one_thread(on_workers.sums, source).tobytes()
    assert seen == [(k, 20) for k in range(1, 21)]


@cluster
def test_plain_frames_are_read_as_row_groups(engine, spark_session, folder):
    plain = spark_session.read.parquet(f"file://{folder}")
    source = spark_source(plain.select("y", "x"))
    assert isinstance(source, ParquetSource)
    assert len(source.partitions) == 20  # however few partitions Spark makes of the five files
    assert source.fingerprint == ParquetSource(folder).fingerprint
    result = engine.reduce(on_workers.sums, source.partitions, on_workers.add)
    assert result.tobytes() == on_one_thread(on_workers.sums, ParquetSource(folder)).tobytes()
    for other in (plain.where("x > 0"), plain.selectExpr("y", "-x as x"), plain.limit(10)):
        assert isinstance(spark_source(other), SparkFrameSource)
    narrower = spark_session.read.schema("x float, y double").parquet(f"file://{folder}")
    assert isinstance(spark_source(narrower), SparkFrameSource)


@cluster
def test_any_frame(engine, spark_session, folder):
    some = spark_session.read.parquet(f"file://{folder}").where("x > 0 and job = 'nurse'")
    source = spark_source(some)
    assert source.schema.field("job").type == pa.dictionary(pa.int32(), pa.string())
    everyone = pd.concat([numbers(2000, k) for k in range(5)])
    expected = everyone[(everyone["x"] > 0) & (everyone["job"] == "nurse")]
    result = engine.reduce(on_workers.sums, source.partitions, on_workers.add)
    assert result[3] == len(expected)
    np.testing.assert_allclose(result[:2], [expected["x"].sum(), expected["x"] @ expected["y"]], rtol=1e-12)
    assert engine.reduce(on_workers.level_counts, source.partitions, on_workers.add).tolist() == [0, len(expected)]
    assert sum(partition.load(["x"]).num_rows for partition in source.partitions) == len(expected)
    with pytest.raises(DataError, match="None of the partitions has rows"):
        engine.reduce(on_workers.sums, spark_source(some.where("x > 1e9")).partitions, on_workers.add)


@cluster
def test_folders_name_columns(spark_session, tmp_path):
    parquet.write_to_dataset(
        pa.table({"x": [1.0, 2.0, 3.0], "year": [2023, 2023, 2024]}), tmp_path, partition_cols=["year"]
    )
    source = spark_source(spark_session.read.parquet(f"file://{tmp_path}"))
    assert isinstance(source, ParquetSource)
    assert source.partitions[0].load(["year", "x"]).to_pydict() == {"year": [2023, 2023, 2024], "x": [1.0, 2.0, 3.0]}


@cluster
def test_error_of_the_first_partition(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 100)
    parquet.write_table(pa.table({"x": np.zeros(1700)}), tmp_path / "a.parquet", row_group_size=500)
    source = ParquetSource([tmp_path / "a.parquet"] * 3)
    with pytest.raises(DataError, match=r"a\.parquet, row group 3: column 'x' has 200 NaN"):
        engine.reduce(on_workers.nan_in_some, source.partitions, on_workers.add)


@cluster
def test_killed_executor_changes_no_digit(engine, spark_cluster, folder):
    source, kills = ParquetSource(folder), spark_cluster.log().count("exitStatus 137")

    def kill_once(done, total):
        if done == 8:  # an executor has just answered; before the first tasks those of a test before may be starting
            os.kill(spark_cluster.executors()[0].pid, signal.SIGKILL)

    result = engine.reduce(on_workers.slow_sums, source.partitions, on_workers.add, progress=kill_once)
    assert result.tobytes() == on_one_thread(on_workers.sums, source).tobytes()
    wait_for_another_kill(spark_cluster, kills)


def wait_for_another_kill(cluster, kills):
    end = time.monotonic() + 300
    while cluster.log().count("exitStatus 137") == kills and time.monotonic() < end:  # 128 + SIGKILL
        time.sleep(0.1)
    assert cluster.log().count("exitStatus 137") > kills


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 1)
    return write(people(4500, seed=2), tmp_path / "people", 3, 150)


def wait_for_executors(context, number):
    end = time.monotonic() + 300
    while context.getExecutorMemoryStatus().size() - 1 != number and time.monotonic() < end:
        time.sleep(0.1)
    assert context.getExecutorMemoryStatus().size() - 1 == number  # the driver is in the list, too


@cluster
def test_one_executor_gives_the_coefficients_of_two(spark_session, data):
    context = spark_session.sparkContext._jsc.sc()
    wait_for_executors(context, 2)
    expected = train(data, spark_session)
    assert expected.tobytes() == train(data, LocalEngine(1)).tobytes()
    context.killExecutor(context.getExecutorIds().head())
    try:
        wait_for_executors(context, 1)
        assert train(data, spark_session).tobytes() == expected.tobytes()
        assert context.getExecutorMemoryStatus().size() - 1 == 1
    finally:
        nothing = spark_session.sparkContext._jvm.PythonUtils.toScalaMap({})  # about where tasks should run
        context.requestTotalExecutors(2, 0, nothing)
        wait_for_executors(context, 2)


@cluster
def test_killed_executor_changes_no_coefficient(spark_session, spark_cluster, data):
    kills, killed = spark_cluster.log().count("exitStatus 137"), []

    def kill_once(name, done, total):
        if name == "evaluate" and done == 3 and not killed:
            killed.append((done, total))
            os.kill(spark_cluster.executors()[0].pid, signal.SIGKILL)

    expected = train(data, LocalEngine(1))
    assert train(data, spark_session, kill_once).tobytes() == expected.tobytes()
    assert killed == [(3, 30)]
    wait_for_another_kill(spark_cluster, kills)


@cluster
@pytest.mark.parametrize("function", [on_workers.dies, on_workers.out_of_memory])
def test_tasks_that_die_again_and_again(engine, folder, function):
    with pytest.raises(
        EngineError, match=r"died one after the other at part-0\.parquet, row group 0.*smaller row groups"
    ):
        engine.reduce(function, ParquetSource(folder).partitions[:1], on_workers.add)


@cluster
def test_interrupt_leaves_nothing_running(engine, spark_session, folder):
    def interrupted(a, b):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.reduce(on_workers.slow_sums, ParquetSource(folder).partitions, interrupted)
    tracker, end = spark_session.sparkContext.statusTracker(), time.monotonic() + 300
    while list(tracker.getActiveJobsIds()) and time.monotonic() < end:  # it hears of the end of jobs a little later
        time.sleep(0.05)
    assert list(tracker.getActiveJobsIds()) == []


def test_interrupt_waits_for_the_end_of_a_call(monkeypatch):
    handler, done = signal.getsignal(signal.SIGINT), []

    def interrupted():
        with spark_engine.uninterrupted() as is_stopped:
            signal.raise_signal(signal.SIGINT)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a session that is started sets one of its own
            done.append(is_stopped())

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is handler
    with spark_engine.uninterrupted() as is_stopped:
        assert not is_stopped()
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_IGN)  # a job in the background
    with spark_engine.uninterrupted():
        assert signal.signal(signal.SIGINT, handler) is handler


@cluster
def test_executors_without_the_package(spark_session, tmp_path, monkeypatch):
    # A module of that name, found first, that cannot be imported.
    (tmp_path / "fairmargin.py").write_text("raise ModuleNotFoundError(\"No module named 'fairmargin'\")\n")
    monkeypatch.setitem(spark_session.sparkContext.environment, "PYTHONPATH", str(tmp_path))
    with pytest.raises(EngineError, match=r"cannot import fairmargin: install it on every worker, with pip install"):
        SparkEngine(spark_session)


@cluster
def test_no_executor_says_how_much_memory_it_takes(spark_session, monkeypatch):
    engine = SparkEngine(spark_session)
    monkeypatch.setattr(spark_engine, "_EXECUTORS", 0.0)
    monkeypatch.setattr(engine, "_executors", lambda: 0)
    asked = spark_session.sparkContext.getConf().get("spark.executor.memory", "1g")
    with pytest.raises(EngineError, match=rf"no executor .* takes {asked} \(spark\.executor\.memory"):
        engine._wait(Future(), "the first task")


def test_another_version(spark_session, monkeypatch):
    monkeypatch.setattr("fairmargin.__version__", "9.9.9")
    with pytest.raises(EngineError, match=r"has fairmargin 0\.1\.0, this process 9\.9\.9"):
        SparkEngine(spark_session)


@cluster
def test_by_address(engine, spark_session, spark_cluster, folder):
    by_address = engine_for(spark_cluster.master)
    assert by_address.reduce(on_workers.sums, ParquetSource(folder).partitions, on_workers.add)[3] == 10_000
    by_address.close()  # leaves the session alone, which was there before
    assert isinstance(engine_for(spark_session), SparkEngine)
    other = free_port()
    with pytest.raises(EngineError, match=f"No Spark master answers at spark://127.0.0.1:{other}"):
        engine_for(f"spark://127.0.0.1:{other}")


def test_no_java(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EngineError, match="needs Java 17"):
        engine_for("spark://127.0.0.1:7077")


@cluster
def test_files_whose_types_differ(engine, spark_session, folder):
    table = pa.Table.from_pandas(numbers(50), preserve_index=False)
    parquet.write_table(table.set_column(0, "x", table["x"].cast(pa.string())), folder / "part-9.parquet")
    source = spark_source(spark_session.read.schema("x double, y double").parquet(f"file://{folder}"))
    with pytest.raises(
        EngineError, match=r"column 'x' of \S+part-9\.parquet has another type .*; write it with the same"
    ):
        engine.reduce(on_workers.sums, source.partitions, on_workers.add)


def test_stopped_session():
    stopped = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))
    with pytest.raises(EngineError, match="The Spark session was stopped; make a new one"):
        SparkEngine(stopped)


def test_no_master():
    port = free_port()
    if shutil.which("java") is None:
        pytest.skip("the lack of Java is reported first")
    with pytest.raises(EngineError, match=f"No Spark master answers at spark://127.0.0.1:{port}"):
        engine_for(f"spark://127.0.0.1:{port}")
