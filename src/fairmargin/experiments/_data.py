"""What the experiments share: data sets with their groups, splits, and what is measured of a classifier."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch

from fairmargin import CovarianceWarning, SmallGroupWarning, cv_score, p_rule
from fairmargin.datasets import load_adult, load_bank

__all__ = ["SETS", "DataSet", "Part", "expected_warnings", "measure", "measure_parts", "parts", "train_and_test"]

TEST_SHARE = 0.3


@dataclass(frozen=True)
class DataSet:
    """A data set of the paper: its binary sensitive attribute, and what the two groups are called."""

    title: str
    attribute: str
    protected: str
    non_protected: str
    protected_title: str
    non_protected_title: str


SETS = {
    "adult": DataSet("Adult", "sex", "Female", "Male", "women", "men"),
    "bank": DataSet("Bank", "age_group", "25 to 60", "under 25 or over 60", "aged 25 to 60", "under 25 or over 60"),
}


@dataclass(frozen=True)
class Part:
    """Some people: features (n, d), labels (n,) in {0, 1}, sensitive attributes (n, k)."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    Z: pd.DataFrame

    def __len__(self) -> int:
        return len(self.y)


@lru_cache(maxsize=2)
def _loaded(name: str) -> Bunch:
    return {"adult": load_adult, "bank": load_bank}[name](encoded=True)


def parts(name: str, number: int) -> tuple[Part, Part]:
    """Return the training and the test people of a random 70/30 split; its number is its seed."""
    data = _loaded(name)
    X, y = data.data.to_numpy(), data.target.to_numpy()
    rows = train_test_split(np.arange(len(y)), test_size=TEST_SHARE, random_state=number)
    train, test = (Part(X[r], y[r], data.sensitive_features.iloc[r].reset_index(drop=True)) for r in rows)
    return train, test


def train_and_test(name: str, number: int) -> tuple[Part, Part]:
    """Return the parts of a split with the data set's binary attribute alone."""
    attribute = SETS[name].attribute
    train, test = (Part(part.X, part.y, part.Z[[attribute]]) for part in parts(name, number))
    return train, test


def measure(name: str, decisions: NDArray[Any], part: Part) -> dict[str, float]:
    """Return what is measured of decisions (n,) for a data set's binary attribute; shares in percent."""
    groups = part.Z[SETS[name].attribute].to_numpy()
    positive = np.asarray(decisions) == 1
    return {
        "accuracy": 100.0 * float(np.mean(positive == (part.y == 1))),
        "p_rule": p_rule(part.y, decisions, sensitive_features=groups, zero_division=100.0),
        "cv_score": 100.0 * cv_score(part.y, decisions, sensitive_features=groups),
        "protected": 100.0 * float(positive[groups == SETS[name].protected].mean()),
        "non_protected": 100.0 * float(positive[groups == SETS[name].non_protected].mean()),
    }


def measure_parts(name: str, classifier: Any, train: Part, test: Part, **options: Any) -> dict[str, float]:
    """Return the measures of a classifier on both parts, as ``train_accuracy`` and so on."""
    row: dict[str, float] = {}
    for title, part in (("train", train), ("test", test)):
        extra = dict.fromkeys(options.get("needs", ()), part.Z[SETS[name].attribute])
        measures = measure(name, classifier.predict(part.X, **extra), part)
        row |= {f"{title}_{key}": value for key, value in measures.items()}
    return row


@contextmanager
def expected_warnings() -> Iterator[None]:
    """Silence what the rows say in numbers: accuracy of the solution, decisions that did not follow, small groups."""
    with warnings.catch_warnings():
        for category in (ConvergenceWarning, CovarianceWarning, SmallGroupWarning):
            warnings.simplefilter("ignore", category)
        yield
