"""What the compared methods share: declared capabilities, and one binary attribute beside a binary label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

__all__ = ["BinaryGroups", "Capabilities", "cell_totals", "encode_labels"]


@dataclass(frozen=True)
class Capabilities:
    """What a method can do, in the columns of the paper's Table 1, and whether it needs z to decide.

    ``avoids_disparate_treatment`` and ``avoids_disparate_impact`` say which kinds of unfairness the method is
    made to avoid, ``business_necessity`` whether fairness can be had under a bound on the loss of accuracy,
    ``polyvalent`` whether an attribute may have more than two values, ``multiple`` whether there may be
    several attributes, ``classifiers`` what it can be applied to.
    """

    avoids_disparate_treatment: bool
    avoids_disparate_impact: bool
    business_necessity: bool
    polyvalent: bool
    multiple: bool
    classifiers: str
    needs_z_at_prediction: bool


@dataclass(frozen=True)
class BinaryGroups:
    """The two values (2,) of a sensitive attribute, sorted, and what it is called."""

    values: np.ndarray
    name: str

    @classmethod
    def learn(cls, sensitive_features: Any, X: Any, *, method: str) -> tuple[BinaryGroups, np.ndarray]:
        """Return the groups and the code, 0 or 1, of each row (n,)."""
        column, name = _single_column(sensitive_features, X, method=method)
        codes, values = pd.factorize(column, sort=True)
        if (codes < 0).any():
            raise ValueError(f"The sensitive attribute {name} has missing values.")
        if len(values) != 2:
            raise ValueError(
                f"{method} needs a sensitive attribute with exactly two values, "
                f"but {name} has {len(values)}: {_listed(values)}."
            )
        return cls(np.asarray(values), name), codes

    def encode(self, sensitive_features: Any, X: Any, *, method: str) -> np.ndarray:
        """Return the code, 0 or 1, of each row (n,) of new data."""
        column, _ = _single_column(sensitive_features, X, method=method)
        codes = pd.Index(self.values).get_indexer(pd.Index(column))
        if (codes < 0).any():
            unknown = pd.unique(column[codes < 0])
            raise ValueError(
                f"The sensitive attribute {self.name} has values that were not there when the model was "
                f"fitted: {_listed(unknown)}; known are {_listed(self.values)}."
            )
        return codes


def _single_column(sensitive_features: Any, X: Any, *, method: str) -> tuple[np.ndarray, str]:
    if sensitive_features is None:
        raise ValueError(f"{method} needs sensitive_features: the value of one attribute for each row of X.")
    column = np.asarray(sensitive_features)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(
            f"{method} works with one sensitive attribute, but sensitive_features has shape {column.shape}."
        )
    check_consistent_length(X, column)
    return column, _name(sensitive_features)


def _name(sensitive_features: Any) -> str:
    columns = getattr(sensitive_features, "columns", None)
    name = columns[0] if columns is not None else getattr(sensitive_features, "name", None)
    return repr(str(name)) if name else "sensitive_features"


def _listed(values: Any, most: int = 5) -> str:
    shown = ", ".join(repr(value) for value in np.asarray(values)[:most].tolist())
    return shown + (", ..." if len(values) > most else "")


def encode_labels(y: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return 0 or 1 for each row (n,), 1 being the positive class ``classes[1]``, and the classes (2,)."""
    labels = column_or_1d(y, warn=True)
    check_consistent_length(X, labels)
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) != 2:
        raise ValueError(f"Classification is binary: y must have two classes, got {len(classes)}.")
    return codes, classes


def cell_totals(
    group: np.ndarray,
    label: np.ndarray,
    groups: BinaryGroups,
    classes: np.ndarray,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Count the rows (or sum their weights) by group and label, (2, 2); no cell may be empty."""
    totals = np.bincount(2 * group + label, weights=weight, minlength=4).reshape(2, 2)
    if not (totals > 0).all():
        empty_group, empty_label = np.argwhere(totals <= 0)[0]
        raise ValueError(
            f"Every combination of sensitive value and label needs people, but none has {groups.name} = "
            f"{_listed(groups.values[[empty_group]])} and label {_listed(classes[[empty_label]])}."
        )
    return totals
