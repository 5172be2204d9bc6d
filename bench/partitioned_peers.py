"""The unconstrained logistic regression of other trainers on the same Parquet files: CPU, and the loss reached.

    python bench/partitioned_peers.py fairmargin DIRECTORY
    python bench/partitioned_peers.py sgd DIRECTORY --epochs 3
    python bench/partitioned_peers.py spark DIRECTORY --iterations 10
    python bench/partitioned_peers.py dask DIRECTORY
    python bench/partitioned_peers.py vw DIRECTORY --epochs 3

All minimise ``sum loss + 1/2 ||w||^2`` over about 51 encoded columns. CPU includes reading and encoding, but not the
search for a step size; of Spark it is that of the Java process and of this one. Losses are per row and measured on
all rows by the same code. Spark's is its own last objective: its indicators leave out another level of each category,
so that its penalty, about 1e-6 of the objective, is not quite the same. Vowpal Wabbit reads its own text format;
writing that is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from partitioned import scanned
from pyarrow import csv

from fairmargin import FairLogisticRegression
from fairmargin.partitioned import fit_study
from fairmargin.partitioned.passes import Request

STEPS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # first step sizes of stochastic gradient descent, tried on the sample
TUNED = 200_000  # rows of the sample that it learns from then, and as many on which it is judged


def by_fairmargin(directory: Path, sample: int) -> dict[str, Any]:
    """Return CPU and loss of a fit certified to 1e-9."""
    start = time.process_time()
    study = scanned(directory, 1, sample, 1)
    estimator = FairLogisticRegression(constraint=None)
    model = fit_study(study, estimator)
    proof = estimator.certificate_
    return {
        "cpu": time.process_time() - start,
        "loss": proof.objective / study.census.n_rows,
        "gap": proof.gap,
        "passes": model.facts["passes"],
    }


def by_sgd(directory: Path, sample: int, epochs: int) -> dict[str, Any]:
    """Return CPU and loss of stochastic gradient descent, one row group at a time; the scan gives the encoding."""
    start = time.process_time()
    study = scanned(directory, 1, sample, 1)
    posed = study.task(FairLogisticRegression(constraint=None))
    rows = study.census.n_rows
    seconds = time.process_time() - start
    make, step = _tuned_sgd(posed, 1.0 / rows)
    start, learner = time.process_time(), make(step)
    for _ in range(epochs):
        for partition in study.source.partitions:
            read = posed.passes.reading.read(partition)
            learner.partial_fit(read.X[np.arange(len(read.y))].toarray(), read.y, classes=[-1.0, 1.0])
    seconds += time.process_time() - start
    theta = np.append(learner.coef_[0], learner.intercept_)
    (sums,) = posed.passes.evaluate([Request(theta, posed.task.problem.loss)])
    loss = float(sums.loss.sum() + posed.task.problem.penalty(theta)) / rows
    return {"cpu": seconds, "loss": loss, "eta0": step}


def _tuned_sgd(posed: Any, alpha: float) -> tuple[Any, float]:
    """Return how a learner of a first step size is made, and the step size of least loss on other rows of the sample.

    The default step size is 1 / (alpha t), far too long for such a small penalty: the loss was 4.2 per row.
    """
    from sklearn.linear_model import SGDClassifier
    from sklearn.metrics import log_loss

    def make(eta0: float) -> Any:
        how: dict[str, Any] = {"loss": "log_loss", "average": True, "random_state": 0, "learning_rate": "invscaling"}
        return SGDClassifier(alpha=alpha, eta0=eta0, **how)

    sample = posed.sample
    learn, judge = (sample.take(np.arange(k * TUNED, (k + 1) * TUNED)) for k in (0, 1))

    def loss(eta0: float) -> float:
        learner = make(eta0).partial_fit(learn.X.toarray(), learn.y, classes=[-1.0, 1.0])
        return float(log_loss(judge.y, learner.predict_proba(judge.X.toarray())))

    return make, min(STEPS, key=loss)


def by_dask(directory: Path, sample: int) -> dict[str, Any]:
    """Return CPU and loss of dask-ml's L-BFGS on rows kept in memory, on one thread; the scan gives the encoding."""
    import dask
    import dask.array as da
    from dask_ml.linear_model import LogisticRegression

    start = time.process_time()
    study = scanned(directory, 1, sample, 1)
    posed = study.task(FairLogisticRegression(constraint=None))
    partitions, width = study.source.partitions, len(study.encoder.feature_names)

    def read(partition: Any) -> Any:
        rows = posed.passes.reading.read(partition)
        return rows.X[np.arange(len(rows.y))].toarray(), (rows.y > 0).astype(float)

    parts = [(dask.delayed(read)(partition), partition.rows) for partition in partitions]
    X = da.concatenate([da.from_delayed(part[0], (n, width), float) for part, n in parts])
    y = da.concatenate([da.from_delayed(part[1], (n,), float) for part, n in parts])
    with dask.config.set(scheduler="threads", num_workers=1):
        X, y = dask.persist(X, y)
        fitted = LogisticRegression(solver="lbfgs", C=1.0, max_iter=100, tol=1e-8).fit(X, y)
    seconds = time.process_time() - start
    theta = np.append(fitted.coef_.ravel(), fitted.intercept_)
    (sums,) = posed.passes.evaluate([Request(theta, posed.task.problem.loss)])
    loss = float(sums.loss.sum() + posed.task.problem.penalty(theta))
    return {"cpu": seconds, "loss": loss / study.census.n_rows}


def by_vw(directory: Path, sample: int, epochs: int) -> dict[str, Any]:
    """Return CPU and loss of Vowpal Wabbit's online learning; the scan gives means and scales of the numbers."""
    study = scanned(directory, 1, sample, 1)
    rows = study.census.n_rows
    with tempfile.TemporaryDirectory(dir=directory.parent) as folder:
        text, model, scores = (str(Path(folder) / name) for name in ("rows.vw", "model", "scores"))
        y = _write_vw(study, text)
        learn = ["--loss_function", "logistic", "--l2", str(1.0 / rows), "--passes", str(epochs), "--holdout_off"]
        start = _cpu_of_children()
        _run_vw("-d", text, "--cache_file", f"{text}.cache", "-f", model, *learn)
        seconds = _cpu_of_children() - start
        _run_vw("-d", text, "-t", "-i", model, "-r", scores)
        margins = y * np.loadtxt(scores)
    return {"cpu": seconds, "loss": float(np.logaddexp(0.0, -margins).mean())}


def _write_vw(study: Any, path: str) -> Any:
    """Write the rows as text, numbers standardised; return the labels."""
    labels = []
    with pa.OSFile(path, "wb") as file:
        for partition in study.source.partitions:
            table = partition.load(study.layout.columns)
            y = 2 * table[study.layout.target].to_numpy() - 1
            labels.append(y)
            parts: list[Any] = [pa.array(y).cast(pa.string()), " |"]
            for column in study.encoder.columns:
                if column.kind == "number":
                    x = (table[column.name].to_numpy() - column.mean) / column.scale
                    parts += [f" {column.name}:", pa.array(x.round(6)).cast(pa.string())]
                else:
                    words = pc.replace_substring(table[column.name].cast(pa.string()), " ", "_")
                    parts += [f" {column.name}_", words]
            lines = pc.binary_join_element_wise(*parts, "")
            how = csv.WriteOptions(include_header=False, quoting_style="none")
            csv.write_csv(pa.table([lines], ["rows"]), file, how)
    return np.concatenate(labels).astype(float)


def _run_vw(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "vowpalwabbit", "--quiet", *arguments], check=True)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def by_spark(directory: Path, iterations: int) -> dict[str, Any]:
    """Return CPU and loss of Spark ML's logistic regression after some iterations at most, on two local threads."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.ml import Pipeline
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import OneHotEncoder, StandardScaler, StringIndexer, VectorAssembler
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "8g")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    frame = session.read.parquet(str(directory))
    rows = frame.count()
    words, numbers = [f"c{k}" for k in range(5)], [f"x{j}" for j in range(10)]
    learner = LogisticRegression(
        featuresCol="features", labelCol="y", regParam=1.0 / rows, standardization=False, maxIter=iterations, tol=1e-6
    )
    steps = [
        StringIndexer(inputCols=words, outputCols=[f"{c}i" for c in words]),
        OneHotEncoder(inputCols=[f"{c}i" for c in words], outputCols=[f"{c}v" for c in words]),
        VectorAssembler(inputCols=numbers, outputCol="numbers"),
        StandardScaler(inputCol="numbers", outputCol="scaled", withMean=True),
        VectorAssembler(inputCols=["scaled", *(f"{c}v" for c in words)], outputCol="features"),
        learner,
    ]
    start = _cpu_of_java(session)
    fitted = Pipeline(stages=steps).fit(frame).stages[-1]
    seconds = _cpu_of_java(session) - start
    found = {
        "cpu": seconds,
        "loss": float(fitted.summary.objectiveHistory[-1]),
        "iterations": int(fitted.summary.totalIterations),
    }
    session.stop()
    return found


def _cpu_of_java(session: Any) -> float:
    """Return the CPU seconds of the Java process and of this one so far."""
    fields = Path(f"/proc/{session.sparkContext._gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK") + time.process_time()


def main() -> None:
    """Run one trainer and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainer", choices=["fairmargin", "sgd", "spark", "dask", "vw"])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--sample", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=100)
    given = parser.parse_args()
    if given.trainer == "fairmargin":
        found = by_fairmargin(given.directory, given.sample)
    elif given.trainer == "sgd":
        found = by_sgd(given.directory, given.sample, given.epochs)
    elif given.trainer == "dask":
        found = by_dask(given.directory, given.sample)
    elif given.trainer == "vw":
        found = by_vw(given.directory, given.sample, given.epochs)
    else:
        found = by_spark(given.directory, given.iterations)
    found["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps(found))


if __name__ == "__main__":
    main()
