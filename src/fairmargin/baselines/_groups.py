"""The people that compared methods learn from: groups of sensitive values, a binary label, and both counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from fairmargin.inputs import check_same_order
from fairmargin.membership import Membership, probabilities_refused
from fairmargin.sensitive import read_columns
from fairmargin.validation import favourable_class

__all__ = [
    "BinaryGroups",
    "Groups",
    "LabelledGroups",
    "cell_totals",
    "encode_favourable",
    "positive_targets",
    "read_people",
]


@dataclass(frozen=True)
class Groups:
    """The values (G,) of a sensitive attribute, sorted, and what it is called.

    Of several attributes, the groups are the combinations of values that occur; a value is then a tuple.
    """

    values: np.ndarray
    name: str

    @classmethod
    def learn(cls, sensitive_features: Any, X: Any, *, method: str) -> tuple[Self, np.ndarray]:
        """Return the groups and the code, 0 to G - 1, of each row (n,)."""
        columns, name = _columns(sensitive_features, X, method=method)
        codes, values = _factorise(columns)
        if (codes < 0).any():
            raise ValueError(f"The sensitive attribute {name} has missing values.")
        if len(values) < 2:
            raise ValueError(f"{method} compares groups, but {name} has only the value {_listed(values)}.")
        return cls(values, name), codes

    def encode(self, sensitive_features: Any, X: Any, *, method: str) -> np.ndarray:
        """Return the code of each row (n,) of new data."""
        columns, _ = _columns(sensitive_features, X, method=method)
        rows = _rows(columns)
        codes = _index(self.values).get_indexer(_index(rows))
        self._check_known(codes, rows)
        return codes

    def _check_known(self, codes: np.ndarray, rows: np.ndarray) -> None:
        if (codes < 0).any():
            unknown = list(dict.fromkeys(rows[codes < 0].tolist()))
            raise ValueError(
                f"The sensitive attribute {self.name} has values that were not there when the model was "
                f"fitted: {_listed(unknown)}; known are {_listed(self.values)}."
            )


@dataclass(frozen=True)
class BinaryGroups(Groups):
    """The two values (2,) of one sensitive attribute, sorted, and what it is called."""

    @classmethod
    def learn(cls, sensitive_features: Any, X: Any, *, method: str) -> tuple[Self, np.ndarray]:
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
        self._check_known(codes, column)
        return codes


def _columns(sensitive_features: Any, X: Any, *, method: str) -> tuple[list[pd.Series], str]:
    """Return the sensitive columns and, in words, what they are called."""
    if sensitive_features is None:
        raise ValueError(f"{method} needs sensitive_features: the value of each attribute for each row of X.")
    check_same_order(X=X, sensitive_features=sensitive_features)
    found = read_columns(sensitive_features)
    for name, column in found:
        if isinstance(column, Membership):
            raise probabilities_refused(name, method)
        check_consistent_length(X, column)
    if len(found) == 1:
        return [found[0][1]], _name(sensitive_features)
    return [column for _, column in found], " and ".join(repr(name) for name, _ in found)


def _factorise(columns: Sequence[pd.Series]) -> tuple[np.ndarray, np.ndarray]:
    """Return the code of each row (n,), -1 where a value is missing, and the values or combinations (G,)."""
    factorised = [pd.factorize(np.asarray(column), sort=True) for column in columns]
    if len(factorised) == 1:
        codes, values = factorised[0]
        return codes, np.asarray(values)
    joint = np.zeros(len(columns[0]), dtype=np.int64)
    missing = np.zeros(len(columns[0]), dtype=bool)
    for codes, values in factorised:
        joint = joint * len(values) + codes
        missing |= codes < 0
    present, first, joint = np.unique(joint, return_index=True, return_inverse=True)
    rows = _rows([column.iloc[first] for column in columns])
    assert len(rows) == len(present)
    return np.where(missing, -1, joint), rows


def _rows(columns: Sequence[pd.Series]) -> np.ndarray:
    """Return the value of each row (n,), a tuple of values where there are several columns."""
    if len(columns) == 1:
        return np.asarray(columns[0])
    rows = np.empty(len(columns[0]), dtype=object)
    rows[:] = list(zip(*(np.asarray(column).tolist() for column in columns), strict=True))
    return rows


def _index(values: np.ndarray) -> pd.Index:
    joint = values.dtype == object and len(values) and isinstance(values[0], tuple)
    return pd.MultiIndex.from_tuples(values.tolist()) if joint else pd.Index(values)


def _single_column(sensitive_features: Any, X: Any, *, method: str) -> tuple[np.ndarray, str]:
    if sensitive_features is None:
        raise ValueError(f"{method} needs sensitive_features: the value of one attribute for each row of X.")
    check_same_order(X=X, sensitive_features=sensitive_features)
    if isinstance(sensitive_features, Membership | Mapping):
        columns, name = _columns(sensitive_features, X, method=method)
        if len(columns) > 1:
            raise ValueError(f"{method} works with one sensitive attribute, but sensitive_features has {name}.")
        return np.asarray(columns[0]), name
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
    shown = ", ".join(repr(getattr(value, "item", lambda value=value: value)()) for value in list(values)[:most])
    return shown + (", ..." if len(values) > most else "")


def _encode_labels(y: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return 0 or 1 for each row (n,), 1 being the positive class ``classes[1]``, and the classes (2,)."""
    labels = column_or_1d(y, warn=True)
    check_consistent_length(X, labels)
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) == 1:
        raise ValueError(f"y must have two classes, got 1 class: {_listed(classes)}.")
    if len(classes) != 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {type_of_target(labels)}: "
            f"y must have two classes, got {len(classes)}."
        )
    return codes, classes


def encode_favourable(y: Any, X: Any, pos_label: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return 1 for the favourable class and 0 for the other (n,), and the classes (2,), the favourable one second.

    It is ``pos_label`` or, by default, the later class in sorted order; with a ``FavourableClassWarning``
    where the labels do not tell.
    """
    codes, classes = _encode_labels(y, X)
    favourable = favourable_class(classes, pos_label)
    return (codes, classes) if favourable == classes[1] else (1 - codes, classes[::-1])


def cell_totals(
    group: np.ndarray,
    label: np.ndarray,
    groups: Groups,
    classes: np.ndarray,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Count the rows (or sum their weights) by group and label, (G, 2); no cell may be empty."""
    size = len(groups.values)
    totals = np.bincount(2 * group + label, weights=weight, minlength=2 * size).reshape(size, 2)
    if not (totals > 0).all():
        empty_group, empty_label = np.argwhere(totals <= 0)[0]
        raise ValueError(
            f"Every combination of sensitive value and label needs people, but none has {groups.name} = "
            f"{_listed(groups.values[[empty_group]])} and label {_listed(classes[[empty_label]])}."
        )
    return totals


@dataclass(frozen=True)
class LabelledGroups:
    """What a method learns from, beside the features.

    Attributes
    ----------
    label : (n,) of int
        1 for the favourable class, 0 for the other.
    classes : (2,)
        The favourable one second.
    group : (n,) of int
    groups : Groups
    totals : (G, 2)
        People (or sums of their weights) by group and label, none of them zero.
    """

    label: np.ndarray
    classes: np.ndarray
    group: np.ndarray
    groups: Groups
    totals: np.ndarray


def read_people(
    X: Any,
    y: Any,
    sensitive_features: Any,
    *,
    pos_label: Any,
    method: str,
    kind: type[Groups] = Groups,
    weight: np.ndarray | None = None,
) -> LabelledGroups:
    """Check labels and sensitive features, which errors say that ``method`` needs; every cell must have people."""
    check_same_order(X=X, y=y, sensitive_features=sensitive_features)
    label, classes = encode_favourable(y, X, pos_label)
    groups, group = kind.learn(sensitive_features, X, method=method)
    return LabelledGroups(label, classes, group, groups, cell_totals(group, label, groups, classes, weight))


def positive_targets(totals: np.ndarray, strength: float) -> np.ndarray:
    """Return how many positives each group would have (G,), as whole numbers of the same sum.

    The way goes from ``N_s+`` (``strength = 0``) to independence of label and group, ``N_s N_+ / N``. What is left
    over by rounding down goes to the largest remainders, so that groups and classes keep their sizes.
    """
    positives, sizes = totals[:, 1], totals.sum(axis=1)
    exact = positives + strength * (sizes * positives.sum() / sizes.sum() - positives)
    # Whole numbers that rounding has put just below themselves must not lose a person.
    whole = np.floor(exact + 1e-9)
    short = int(np.rint(positives.sum() - whole.sum()))
    whole[np.argsort(whole - exact, kind="stable")[:short]] += 1
    return whole.astype(np.int64)
