"""People for the tests of partitioned data, in memory and as Parquet files."""

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet


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


def write(frame, folder, files=3, row_group=2500):
    """Write a frame to Parquet files of row groups; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), files)):
        table = pa.Table.from_pandas(frame.iloc[rows], preserve_index=False)
        parquet.write_table(table, folder / f"part-{k}.parquet", row_group_size=row_group)
    return folder
