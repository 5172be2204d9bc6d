"""Real clusters on this computer: Dask with two processes, Spark with a master and two workers.

They are started when the first test asks for them and stopped at the end of the session. All traffic is on loopback.
"""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LOOPBACK = "127.0.0.1"
# Short-lived JVMs: less compilation, no threads for collecting garbage.
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def dask_client():
    """A client of a cluster of two processes with one thread and 600 MB each."""
    import dask
    from distributed import Client, LocalCluster

    with (
        # On a busy machine a worker that was killed takes longer than the 15 s after which it is given up.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host=LOOPBACK,
            dashboard_address=f"{LOOPBACK}:0",
            memory_limit="600MB",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


class SparkCluster:
    """A standalone master and two workers, of one core each, as processes."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.port = free_port()
        self.master = f"spark://{LOOPBACK}:{self.port}"
        self.processes = []

    @property
    def environment(self):
        import pyspark

        import fairmargin

        return os.environ | {
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JVM,
            "SPARK_WORKER_DIR": str(self.folder / "work"),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "PYTHONPATH": os.pathsep.join([str(Path(fairmargin.__file__).parents[1]), str(HERE)]),
        }

    def start(self):
        self._run("master.Master", "--host", LOOPBACK, "--port", str(self.port), "--webui-port", "0")
        wait_for_port(self.port)
        for _ in range(2):
            limits = ["--cores", "1", "--memory", "480m", "--webui-port", "0"]
            self._run("worker.Worker", self.master, "--host", LOOPBACK, *limits)

    def _run(self, cls, *arguments):
        program = Path(self.environment["SPARK_HOME"], "bin", "spark-class")
        with open(self.folder / f"{len(self.processes)}-{cls}.log", "w") as log:
            command = [str(program), f"org.apache.spark.deploy.{cls}", *arguments]
            self.processes.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))

    def log(self):
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def executors(self):
        """Return the processes of the executors."""
        import psutil

        children, found = [], []
        for process in self.processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                children += psutil.Process(process.pid).children(recursive=True)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):  # one that has just ended
                if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                    found.append(child)
        return found

    def stop(self):
        executors = self.executors()
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(60)
        for executor in executors:
            with contextlib.suppress(Exception):  # gone already
                executor.kill()


@pytest.fixture(scope="session")
def spark_cluster():
    """The processes of a Spark cluster."""
    with tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True) as folder:
        cluster = SparkCluster(folder)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="session")
def spark_session(spark_cluster):
    """A session on that cluster."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": JVM,
        "spark.executor.memory": "480m",
        "spark.executor.extraJavaOptions": JVM,
        "spark.local.dir": str(spark_cluster.folder / "local"),
        "spark.sql.warehouse.dir": str(spark_cluster.folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    names = {"SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    builder = SparkSession.builder.master(spark_cluster.master).appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        gateway = session.sparkContext._gateway
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # the driver's JVM ends with its input
        gateway.proc.wait(60)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def free_port():
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        return listener.getsockname()[1]


def wait_for_port(port, seconds=600):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection((LOOPBACK, port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")
