"""From what the user hands over to checked training data; nothing is trained on what fails here."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, validate_data

from fairmargin.sensitive import Sensitive, encode_sensitive

__all__ = ["TrainingData", "check_number", "validate_training"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrainingData:
    """Checked data of the people with a positive weight.

    ``X`` (N, d) dense or CSR; ``y`` (N,) of -1 and +1, +1 for ``classes[1]``; ``people_weight`` (N,) are the
    sample weights, which define means and covariances; ``loss_weight`` (N,) have the class weights in them.
    ``kept`` (N,) indexes the rows that the user gave, of which there were ``n_given``.
    """

    X: Any
    y: Array
    classes: NDArray[Any]
    people_weight: Array
    loss_weight: Array
    sensitive: Sensitive | None
    kept: NDArray[np.intp]
    n_given: int


def validate_training(
    estimator: Any,
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: Any,
    *,
    class_weight: Any = None,
    needs_sensitive: bool,
) -> TrainingData:
    """Check everything that ``fit`` gets and return it in the package's own terms."""
    if needs_sensitive and sensitive_features is None:
        raise ValueError(
            f"{type(estimator).__name__} with the constraint {estimator.constraint!r} needs "
            "sensitive_features in fit; give them, or set constraint=None for an unconstrained classifier."
        )
    names = _column_names(X)
    X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order=None)
    classes, signed = _binary_labels(y)
    n = X.shape[0]
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    kept = np.flatnonzero(weight > 0) if sample_weight is not None else np.arange(n)
    if len(kept) == 0:
        raise ValueError("Every sample weight is zero: there is nobody to learn from.")
    sensitive = None
    if sensitive_features is not None:
        sensitive = encode_sensitive(sensitive_features, n)
        _check_disparate_treatment(X, names, sensitive)
    if len(kept) < n:
        X, signed, weight = X[kept], signed[kept], weight[kept]
        sensitive = None if sensitive is None else sensitive.take(kept)
        _check_two_classes(signed, classes)
        _check_two_groups(sensitive)
    loss_weight = weight * _class_factors(class_weight, classes, signed)
    return TrainingData(X, signed, classes, weight, loss_weight, sensitive, kept, n)


def _column_names(X: Any) -> list[str]:
    columns = getattr(X, "columns", None)
    return [] if columns is None else [str(c) for c in columns]


def _binary_labels(y: Any) -> tuple[NDArray[Any], Array]:
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    classes, codes = np.unique(y, return_inverse=True)
    if kind != "binary" or len(classes) > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}: it has "
            f"{len(classes)} classes."
        )
    signed = np.where(codes == 1, 1.0, -1.0)
    if len(classes) < 2:
        raise ValueError(f"y has only one class ({classes[0]!r}); a classifier needs two classes to learn from.")
    return classes, signed


def _check_two_classes(signed: Array, classes: NDArray[Any]) -> None:
    if abs(signed.sum()) == len(signed):
        only = classes[1] if signed[0] > 0 else classes[0]
        raise ValueError(f"All people with a positive weight are of one class ({only!r}); two classes are needed.")


def _check_two_groups(sensitive: Sensitive | None) -> None:
    for attribute in () if sensitive is None else sensitive.attributes:
        if not np.any(np.ptp(attribute.columns(), axis=0)):
            raise ValueError(
                f"All people with a positive weight are in only one group of the sensitive attribute "
                f"{attribute.name!r}: there is nothing to be fair between."
            )


def _class_factors(class_weight: Any, classes: NDArray[Any], signed: Array) -> Array:
    if class_weight is None:
        return np.ones_like(signed)
    labels = classes[(signed > 0).astype(int)]
    factors = compute_class_weight(class_weight, classes=classes, y=labels)
    if np.any(factors <= 0) or not np.all(np.isfinite(factors)):
        raise ValueError(f"class_weight must be positive for both classes, got {class_weight!r}.")
    return np.where(signed > 0, factors[1], factors[0])


def _check_disparate_treatment(X: Any, names: list[str], sensitive: Sensitive) -> None:
    """Refuse a sensitive attribute among the features, by name or by what it says about people."""
    for attribute in sensitive.attributes:
        if attribute.name in names:
            raise ValueError(
                f"The sensitive attribute {attribute.name!r} is also a column of X: deciding by it is disparate "
                "treatment. Remove it from X."
            )
    found = _find_equal_column(X, sensitive.columns())
    if found is not None:
        j, k = found
        name, category = sensitive.labels[k]
        where = repr(names[j]) if names else f"number {j}"
        raise ValueError(
            f"Column {where} of X tells the same as the sensitive attribute {name!r} ({category!r}): "
            "deciding by it is disparate treatment. Remove it from X."
        )


def _find_equal_column(X: Any, sensitive: Array) -> tuple[int, int] | None:
    """Return a column of X and one of ``sensitive`` (N, K) that are equal up to shift and scale, if there are any.

    Few pairs survive the comparison on 64 people, so that all people are looked at for these only.
    """
    n = len(sensitive)
    probe = np.unique(np.linspace(0, n - 1, min(n, 64)).astype(int))
    sample = X[probe].toarray() if sp.issparse(X) else np.asarray(X[probe], dtype=float)
    features, columns = _on_unit_interval(sample), _on_unit_interval(sensitive[probe])
    for k in range(columns.shape[1]):
        for j in np.flatnonzero(_same(features, columns[:, [k]])):
            full = X[:, [j]].toarray() if sp.issparse(X) else np.asarray(X[:, [j]], dtype=float)
            column = sensitive[:, [k]]
            if (
                np.ptp(full) > 0
                and np.ptp(column) > 0
                and _same(_on_unit_interval(full), _on_unit_interval(column))[0]
            ):
                return int(j), k
    return None


def _on_unit_interval(columns: Array) -> Array:
    """Return the columns shifted and scaled to [0, 1]; a constant one is all zero."""
    low, span = columns.min(axis=0), np.ptp(columns, axis=0)
    return (columns - low) / np.where(span > 0, span, 1.0)


def _same(a: Array, b: Array) -> NDArray[np.bool_]:
    """Whether columns on the unit interval agree, or one is the other turned round."""
    return (np.abs(a - b).max(axis=0) <= 1e-9) | (np.abs(a - (b.max(axis=0) - b)).max(axis=0) <= 1e-9)


def check_number(value: Any, name: str, *, positive: bool = False, allow_inf: bool = False) -> float:
    """Return ``value`` as a float, or say in one sentence what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}.")
    number = float(value)
    if np.isnan(number) or (np.isinf(number) and not allow_inf):
        raise ValueError(f"{name} must be finite, got {value!r}.")
    if positive and number <= 0:
        raise ValueError(f"{name} must be positive, got {value!r}.")
    return number
