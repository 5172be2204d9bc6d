"""The unconstrained logistic regression of other trainers on the same Parquet files: CPU, and the loss reached.

    python bench/partitioned_peers.py fairmargin DIRECTORY
    python bench/partitioned_peers.py sgd DIRECTORY --epochs 3
    python bench/partitioned_peers.py spark DIRECTORY
    python bench/partitioned_peers.py dask DIRECTORY

All minimise ``sum loss + 1/2 ||w||^2`` over about 51 encoded columns. CPU includes reading and encoding; of Spark it
is that of the Java process and of this one. Losses are per row and measured on all rows by the same code. Spark's is
its own last objective: its indicators leave out another level of each category, so that its penalty, about 1e-6 of
the objective, is not quite the same.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from partitioned import scanned

from fairmargin import FairLogisticRegression
from fairmargin.partitioned import fit_study
from fairmargin.partitioned.passes import Request


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
    from sklearn.linear_model import SGDClassifier

    start = time.process_time()
    study = scanned(directory, 1, sample, 1)
    posed = study.task(FairLogisticRegression(constraint=None))
    rows = study.census.n_rows
    # The default step size is 1 / (alpha t), far too long for such a small penalty: the loss was 4.2 per row.
    learner = SGDClassifier(
        loss="log_loss", alpha=1.0 / rows, average=True, random_state=0, learning_rate="invscaling", eta0=0.05
    )
    for _ in range(epochs):
        for partition in study.source.partitions:
            read = posed.passes.reading.read(partition)
            learner.partial_fit(read.X[np.arange(len(read.y))].toarray(), read.y, classes=[-1.0, 1.0])
    seconds = time.process_time() - start
    theta = np.append(learner.coef_[0], learner.intercept_)
    (sums,) = posed.passes.evaluate([Request(theta, posed.task.problem.loss)])
    return {"cpu": seconds, "loss": float(sums.loss.sum() + posed.task.problem.penalty(theta)) / rows}


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


def by_spark(directory: Path) -> dict[str, Any]:
    """Return CPU and loss of Spark ML's logistic regression at its own tolerance, on two local threads."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.ml import Pipeline
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import OneHotEncoder, StandardScaler, StringIndexer, VectorAssembler
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "6g")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    frame = session.read.parquet(str(directory))
    rows = frame.count()
    words, numbers = [f"c{k}" for k in range(5)], [f"x{j}" for j in range(10)]
    learner = LogisticRegression(
        featuresCol="features", labelCol="y", regParam=1.0 / rows, standardization=False, maxIter=100, tol=1e-6
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
    parser.add_argument("trainer", choices=["fairmargin", "sgd", "spark", "dask"])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--sample", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=1)
    given = parser.parse_args()
    if given.trainer == "fairmargin":
        found = by_fairmargin(given.directory, given.sample)
    elif given.trainer == "sgd":
        found = by_sgd(given.directory, given.sample, given.epochs)
    elif given.trainer == "dask":
        found = by_dask(given.directory, given.sample)
    else:
        found = by_spark(given.directory)
    found["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps(found))


if __name__ == "__main__":
    main()
