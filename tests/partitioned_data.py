"""People for the tests of partitioned data, in memory and as Parquet files."""

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from fairmargin import FairLogisticRegression
from fairmargin.partitioned import fit

NO_FEATURES = ("sex", "origin", "age", "weight")


def people(n=30_000, seed=0):
    """Return numbers (one far from zero), categories (some rare), weights, three sensitive columns and a target."""
    rng = np.random.default_rng(seed)
    man = rng.random(n) < 0.4
    frame = pd.DataFrame({f"x{j}": rng.normal(size=n) + 0.5 * (j % 2) * man for j in range(4)})
    frame["year"] = 1990 + rng.integers(0, 30, n)
    frame["job"] = rng.choice(["clerk", "nurse", "smith", "baker"], n, p=[0.5, 0.3, 0.199, 0.001])
    frame["town"] = [f"t{k}" for k in np.minimum(rng.exponential(3.0, n) + man, 11).astype(int)]
    score = (
        frame["x0"] - 0.5 * frame["x1"] + 0.8 * man + 0.4 * (frame["job"] == "nurse") - 0.1 * (frame["town"] == "t3")
    )
    frame["weight"] = rng.integers(0, 4, n) * 0.5
    frame["sex"] = np.where(man, "man", "woman")
    frame["origin"] = rng.choice(list("abcde"), n, p=[0.4, 0.3, 0.2, 0.08, 0.02])
    frame["age"] = rng.normal(40.0, 10.0, n) + 4.0 * man
    frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    return frame


def coded_people(n=6000, seed=1):
    """Return people of few different features, so that many have the same score."""
    rng = np.random.default_rng(seed)
    man = rng.integers(0, 2, n)
    data = pd.DataFrame({"town": rng.choice(list("uvw"), n, p=[0.5, 0.3, 0.2]), "job": rng.choice(list("xyz"), n)})
    data["owner"] = (rng.random(n) < 0.3 + 0.3 * man).astype(float)
    data["grade"] = np.round(rng.normal(size=n) + man)
    score = (data["town"] == "u") + data["owner"] + 0.5 * data["grade"] + 0.7 * rng.normal(size=n)
    return data.assign(sex=np.where(man == 1, "man", "woman"), y=(score > 1.2).astype(int))


def numbers(n, seed=0):
    """Return numbers of many sizes, whose sum depends on the order, and a category."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n) * 10.0 ** rng.integers(-6, 3, n)
    return pd.DataFrame({"x": np.minimum(x, 20.0), "y": rng.normal(size=n), "job": rng.choice(["clerk", "nurse"], n)})


def write_numbers(folder):
    """Write five Parquet files of four row groups of :func:`numbers`; return the folder."""
    for k in range(5):
        table = pa.Table.from_pandas(numbers(2000, k), preserve_index=False)
        parquet.write_table(table, folder / f"part-{k}.parquet", row_group_size=500)
    return folder


def write(frame, folder, files=3, row_group=2500):
    """Write a frame to Parquet files of row groups; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), files)):
        table = pa.Table.from_pandas(frame.iloc[rows], preserve_index=False)
        parquet.write_table(table, folder / f"part-{k}.parquet", row_group_size=row_group)
    return folder


def roles(sensitive, weight=None):
    """Return what the columns of :func:`people` are to a fit; what is neither asked for nor a feature is left out."""
    left_out = [name for name in NO_FEATURES if name not in sensitive and name != weight]
    return {"target": "y", "sensitive": sensitive, "sample_weight": weight, "exclude": left_out}


def train(data, engine, progress=None):
    """Return coefficients and intercept of a fit on files written by :func:`write`."""
    estimator = FairLogisticRegression()
    fit(estimator, data, **roles(["sex"]), sample_size=2000, engine=engine, progress=progress)
    return np.append(estimator.coef_, estimator.intercept_)
