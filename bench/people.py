"""The data of the benchmarks: Adult, Bank, COMPAS, and made ones of any size."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from fairmargin.datasets import load_adult, load_bank, load_compas

LOADERS = {"Adult": load_adult, "Bank": load_bank, "COMPAS": load_compas}


@dataclass(frozen=True)
class People:
    """Features (n, d) C-ordered, labels 0 and 1 (n,), sensitive attributes (n, k), the features before encoding."""

    name: str
    X: Any
    y: Any
    z: pd.DataFrame
    frame: Any = None
    columns: Any = ()

    def __len__(self):
        return len(self.y)

    @property
    def signed(self):
        return 2.0 * self.y - 1.0

    @property
    def z01(self):
        """The (only) attribute as 0 and 1."""
        codes, values = pd.factorize(self.z.iloc[:, 0], sort=True)
        assert len(values) == 2
        return codes.astype(float)

    def take(self, rows):
        frame = None if self.frame is None else self.frame.iloc[rows].reset_index(drop=True)
        z = self.z.iloc[rows].reset_index(drop=True)
        return replace(self, X=np.ascontiguousarray(self.X[rows]), y=self.y[rows], z=z, frame=frame)

    def of(self, *attributes):
        """The same people with only these attributes."""
        return replace(self, z=self.z[list(attributes)])


@cache
def load(name):
    loader = LOADERS[name]
    table = loader(encoded=True)
    z = table.sensitive_features.reset_index(drop=True)
    if name == "COMPAS":
        # Some races are a dozen people: one group against the rest, as is usual for these data.
        black = np.where(z["race"].astype(str) == "African-American", "African-American", "other")
        z = pd.DataFrame({"sex": z["sex"], "race": black})
    z = z.astype("category")
    return People(
        name,
        np.ascontiguousarray(table.data.to_numpy(dtype=float)),
        table.target.to_numpy().astype(int),
        z,
        loader(encoded=False).data.reset_index(drop=True),
        list(table.data.columns),
    )


def split(people, seed, share=0.7):
    """Return people to train on (70%) and to test on."""
    order = np.random.default_rng(seed).permutation(len(people))
    size = round(share * len(people))
    return people.take(np.sort(order[:size])), people.take(np.sort(order[size:]))


def repeated(people, times, seed=0):
    """Return the people ``times`` over, with noise of 1% of a standard deviation on every feature."""
    rng = np.random.default_rng(seed)
    X = np.tile(people.X, (times, 1))
    X += 0.01 * people.X.std(axis=0) * rng.standard_normal(X.shape)
    z = pd.concat([people.z] * times, ignore_index=True)
    return People(f"{people.name} x {times}", X, np.tile(people.y, times), z)


def made(n, d, k=1, seed=0):
    """Return made people whose label and k binary attributes both depend on the features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    w = rng.standard_normal(d) / np.sqrt(d)
    y = (X @ w + 0.7 * rng.logistic(size=n) > 0).astype(int)
    z = np.empty((n, k), dtype=int)
    for j in range(k):
        v = 0.5 * w + rng.standard_normal(d) / np.sqrt(d)
        z[:, j] = X @ v + rng.standard_normal(n) > 0
    return People("made", X, y, pd.DataFrame(z, columns=[f"z{j}" for j in range(k)]))
