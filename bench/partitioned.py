"""Passes over Parquet larger than memory: CPU beside decoding alone, passes to a proved gap, peak memory.

    python bench/partitioned.py make DIRECTORY --rows 10000000
    python bench/partitioned.py passes DIRECTORY
    python bench/partitioned.py fit DIRECTORY --loss logistic --groups 5
    python bench/partitioned.py same DIRECTORY --loss hinge

Ten numbers and five categories, about 51 encoded columns; a binary attribute and one of five groups. ``passes`` gives
the CPU seconds of one read of all columns, and of each pass relative to it in the same run, single-threaded; ``fit``
the passes to a certified gap of 1e-9, the CPU and the peak memory of this process; ``same`` compares the objective
with that of the solver in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from fairmargin import CovarianceBound, FairLinearSVC, FairLogisticRegression
from fairmargin.partitioned import fit_study, prepare
from fairmargin.partitioned.engines.local import LocalEngine
from fairmargin.partitioned.passes import Request
from fairmargin.partitioned.sources.parquet import ParquetSource

LEVELS = (3, 5, 8, 12, 18)  # of the five categories: 46 levels, 41 indicators, with ten numbers 51 columns
ROW_GROUP = 250_000
PER_FILE = 2_500_000


def make(directory: Path, rows: int, seed: int) -> None:
    """Write ``rows`` people to Parquet files of ten row groups each."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=10) * 0.4
    effects = [rng.normal(size=k) * 0.4 for k in LEVELS]
    for number, start in enumerate(range(0, rows, PER_FILE)):
        count = min(PER_FILE, rows - start)
        writer = None
        for done in range(0, count, ROW_GROUP):
            table = _people(min(ROW_GROUP, count - done), slopes, effects, rng)
            writer = writer or parquet.ParquetWriter(directory / f"part-{number:03d}.parquet", table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()


def _people(n: int, slopes: Any, effects: list[Any], rng: np.random.Generator) -> pa.Table:
    man = rng.random(n) < 0.45
    group = np.minimum(rng.exponential(1.2, n), 4).astype(np.int64)
    columns: dict[str, Any] = {}
    score = -0.3 + 0.5 * man
    for j, slope in enumerate(slopes):
        x = rng.normal(size=n) + 0.3 * (j % 3 == 0) * man
        columns[f"x{j}"] = x * (1 + j) + 10 * j
        score = score + slope * x
    for k, effect in enumerate(effects):
        code = (rng.random(n) ** 1.5 * len(effect)).astype(np.int32)
        score = score + effect[code]
        words = pa.array([f"level {i}" for i in range(len(effect))])
        columns[f"c{k}"] = pa.DictionaryArray.from_arrays(pa.array(code), words)
    columns["sex"] = pa.DictionaryArray.from_arrays(pa.array(man.astype(np.int32)), pa.array(["woman", "man"]))
    columns["origin"] = pa.DictionaryArray.from_arrays(pa.array(group.astype(np.int32)), pa.array(list("abcde")))
    columns["y"] = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.int8)
    return pa.table(columns)


class Decode:
    """Reads the columns of a partition and does nothing with them."""

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns

    def __call__(self, partition: Any) -> int:
        return partition.load(self.columns).num_rows


def cpu(work: Any) -> tuple[float, Any]:
    """Return the CPU seconds of a piece of work, and its result."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


class Weighed(LocalEngine):
    """Takes note of what travels between workers and driver, and of the time that merging takes."""

    def reduce(self, function: Any, partitions: Any, merge: Any, *, progress: Any = None) -> Any:
        sizes, seconds = [], []

        def weighed(first: Any, second: Any) -> Any:
            sizes.append(len(pickle.dumps(second)))
            start = time.process_time()
            merged = merge(first, second)
            seconds.append(time.process_time() - start)
            return merged

        found = super().reduce(function, partitions, weighed, progress=progress)
        self.seen = {
            "task_bytes": len(pickle.dumps(function)),
            "result_bytes": float(np.mean(sizes)),
            "merge_seconds": float(np.mean(seconds)),
        }
        return found


def scanned(directory: Path, groups: int, sample: int, n_jobs: int) -> Any:
    sensitive, other = (["origin"], "sex") if groups > 1 else (["sex"], "origin")
    return prepare(
        ParquetSource(directory),
        LocalEngine(n_jobs),
        target="y",
        sensitive=sensitive,
        exclude=[other],
        sample_size=sample,
    )


def measure_passes(directory: Path, groups: int, sample: int, n_rounds: int) -> dict[str, Any]:
    """Return the CPU of every kind of pass relative to decoding the same columns."""
    source, engine, weighed = ParquetSource(directory), LocalEngine(1), Weighed(1)
    columns = [name for name in source.schema.names if name != ("sex" if groups > 1 else "origin")]
    study = scanned(directory, groups, sample, 1)
    posed = study.task(FairLogisticRegression())
    loss, p = posed.task.problem.loss, len(study.encoder.feature_names) + 1
    thetas = 0.1 * np.random.default_rng(0).normal(size=(21, p))

    def evaluate(count: int, hessian: bool) -> Any:
        return posed.passes.evaluate([Request(theta, loss, hessian) for theta in thetas[:count]])

    works: dict[str, Any] = {
        "decode": lambda: engine.reduce(Decode(columns), source.partitions, lambda a, b: a + b),
        "gradient": lambda: evaluate(1, False),
        "hessian": lambda: evaluate(1, True),
        "21 points": lambda: evaluate(21, False),
        "scan": lambda: scanned(directory, groups, sample, 1),
    }
    # In turns, so that what else runs on the machine slows all of them alike; the least of each is compared.
    rounds = [{name: cpu(work)[0] for name, work in works.items()} for _ in range(n_rounds)]
    least = {name: min(seconds[name] for seconds in rounds) for name in works}
    found = {"rows": study.census.n_rows, "columns": p, "decode_cpu": least["decode"], "rounds": rounds}
    found |= {name: least[name] / least["decode"] for name in works if name != "decode"}
    posed.passes.engine = weighed
    for name, count, hessian in (("gradient", 1, False), ("hessian", 1, True), ("21 points", 21, False)):
        evaluate(count, hessian)
        found[f"{name}, travels"] = weighed.seen
    found["file_bytes"] = sum(file.stat().st_size for file in directory.glob("*.parquet"))
    found["partitions"] = len(source.partitions)
    return found


def measure_fit(directory: Path, groups: int, sample: int, loss: str, n_jobs: int) -> dict[str, Any]:
    """Return passes, CPU, gap and peak memory of a fit."""
    kind = FairLinearSVC if loss == "hinge" else FairLogisticRegression
    scan, study = cpu(lambda: scanned(directory, groups, sample, n_jobs))
    estimator = kind(constraint=CovarianceBound(0.0))
    seconds, model = cpu(lambda: fit_study(study, estimator))
    proof = estimator.certificate_
    return {
        "rows": study.census.n_rows,
        "loss": loss,
        "K": len(estimator.covariance_),
        "passes": model.facts["passes"],
        "status": proof.status,
        "gap": proof.gap,
        "scan_cpu": scan,
        "fit_cpu": seconds,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def compare_with_memory(directory: Path, groups: int, sample: int, loss: str) -> dict[str, Any]:
    """Return how far the objective of a fit is from that of the same fit in memory, relative to it."""
    how = {"constraint": CovarianceBound(0.0), "tol": 1e-9 if loss == "hinge" else 1e-12}
    kind = FairLinearSVC if loss == "hinge" else FairLogisticRegression
    study, estimator, twin = scanned(directory, groups, sample, 1), kind(**how), kind(**how)
    model = fit_study(study, estimator)
    (name,) = study.layout.sensitive
    table = parquet.read_table(directory)
    people = {name: table[name].to_pandas()}
    twin.fit(model.encoder.transform(table.to_pandas()), table["y"].to_numpy(), sensitive_features=people)
    ours, theirs = estimator.certificate_, twin.certificate_
    return {
        "rows": study.census.n_rows,
        "loss": loss,
        "difference": ours.objective / theirs.objective - 1.0,
        "gap": ours.gap,
        "gap_in_memory": theirs.gap,
    }


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "passes", "fit", "same"])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--groups", type=int, choices=[1, 5], default=1)
    parser.add_argument("--sample", type=int, default=1_000_000)
    parser.add_argument("--loss", choices=["logistic", "hinge"], default="logistic")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="of every kind of pass")
    given = parser.parse_args()
    if given.what == "make":
        make(given.directory, given.rows, given.seed)
    elif given.what == "passes":
        found = measure_passes(given.directory, given.groups, given.sample, given.rounds)
        print(json.dumps(found, indent=1))
    elif given.what == "same":
        found = compare_with_memory(given.directory, given.groups, given.sample, given.loss)
        print(json.dumps(found, indent=1))
    else:
        found = measure_fit(given.directory, given.groups, given.sample, given.loss, given.threads)
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
