"""The same passes on threads, on Dask and on Spark: rows per second, CPU, and the peak memory of workers.

    python bench/partitioned_engines.py DIRECTORY --files 2

Two threads of this process; two Dask workers of one thread, as processes; two Spark executors of one core, as
processes, with the Python workers they start. Each engine scans the data first, then the engines take turns: one pass
with gradient and Hessian each, ``ROUNDS`` times. Rows per second are those of the quickest round; CPU is that of all
processes of an engine with this one, per round. Memory is the peak of one worker, the scan included: of the Dask
worker, and of the Spark executor's Java and Python processes together.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import psutil

from fairmargin import FairLogisticRegression
from fairmargin.partitioned import prepare
from fairmargin.partitioned.engines import engine_for
from fairmargin.partitioned.passes import Request
from fairmargin.partitioned.sources.parquet import ParquetSource

ROUNDS = 3
LOOPBACK = "127.0.0.1"


def descendants(process: psutil.Process) -> list[psutil.Process]:
    """Return a process and all that it started, directly or not."""
    return [process, *process.children(recursive=True)]


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """Return user and system time of processes so far."""
    times = [process.cpu_times() for process in processes]
    return sum(seen.user + seen.system for seen in times)


def is_executor(process: psutil.Process) -> bool:
    """Return whether a process is the Java process of a Spark executor."""
    try:
        return process.name() == "java" and any("CoarseGrained" in word for word in process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):  # of those that start others, some have just ended
        return False


def peak_bytes(process: psutil.Process) -> int:
    """Return the largest resident size that a process has had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


class Bench:
    """One engine: what it works with, and the processes of its workers."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine_for(engine)
        self.workers: list[psutil.Process] = []
        self.driver: list[psutil.Process] = []

    def prepare(self, source: ParquetSource) -> None:
        """Scan the data and pose the problem."""
        asked: dict[str, Any] = {"target": "y", "sensitive": ["sex"], "exclude": ["origin"], "sample_size": 100_000}
        self.study = prepare(source, self.engine, **asked)
        self.posed = self.study.task(FairLogisticRegression())
        self.theta = 0.1 * np.random.default_rng(0).normal(size=len(self.study.encoder.feature_names) + 1)

    def run(self) -> tuple[float, float, bytes]:
        """Return the seconds and the CPU seconds of one pass, and its sums."""
        processes = [psutil.Process(), *self.driver, *(p for worker in self.workers for p in descendants(worker))]
        used, start = cpu_seconds(processes), time.perf_counter()
        (sums,) = self.posed.passes.evaluate([Request(self.theta, self.posed.task.problem.loss, True)])
        return time.perf_counter() - start, cpu_seconds(processes) - used, sums.hessian.tobytes()

    def peaks(self) -> list[float]:
        """Return the peak memory of each worker, in GB of 1e9 bytes."""
        return [sum(map(peak_bytes, descendants(worker))) / 1e9 for worker in self.workers]


@contextmanager
def on_dask() -> Iterator[Bench]:
    """Yield two Dask workers."""
    from distributed import Client, LocalCluster

    where = {"host": LOOPBACK, "dashboard_address": f"{LOOPBACK}:0", "memory_limit": "2GB"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **where) as cluster, Client(cluster) as client:
        bench = Bench(client)
        bench.workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
        yield bench


@contextmanager
def on_spark() -> Iterator[Bench]:
    """Yield two Spark executors with a master and two workers of their own."""
    import pyspark
    from pyspark.sql import SparkSession

    os.environ |= {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # The first number is that of workers, then cores and memory of each.
    builder = SparkSession.builder.master("local-cluster[2,1,512]").config("spark.executor.memory", "512m")
    session = (
        builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        bench = Bench(session)
        driver = psutil.Process(session.sparkContext._gateway.proc.pid)
        bench.workers = [process for process in descendants(driver) if is_executor(process)]
        bench.driver = [driver]
        yield bench
    finally:
        session.stop()


def main() -> None:
    """Run all engines and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--files", type=int, default=2, help="the first files of the directory")
    given = parser.parse_args()
    source = ParquetSource(sorted(given.directory.glob("*.parquet"))[: given.files])
    with ExitStack() as stack:
        benches = {"local": Bench("local[2]")}
        benches["dask"] = stack.enter_context(on_dask())
        benches["spark"] = stack.enter_context(on_spark())
        for bench in benches.values():
            bench.prepare(source)
            bench.run()  # Java compiles what it runs often
        rounds = [{name: bench.run() for name, bench in benches.items()} for _ in range(ROUNDS)]
        rows = benches["local"].study.census.n_rows
        found: dict[str, Any] = {"rows": rows, "partitions": len(source.partitions)}
        for name in benches:
            seconds, cpu = ([seen[name][k] for seen in rounds] for k in (0, 1))
            found[name] = {"seconds": seconds, "cpu": cpu, "rows_per_second": rows / min(seconds)}
            found[name]["workers_peak_gb"] = benches[name].peaks()
        found["same_digits"] = len({seen[2] for by_name in rounds for seen in by_name.values()}) == 1
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
