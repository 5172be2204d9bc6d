"""Reason codes: the features that moved a person's score most, against a reference person.

A score is explained as ``f(x) = f(r) + sum_j phi_j``, with ``r`` the reference and ``phi_j`` the contribution of
feature j.

- For a **linear** model ``phi_j = w_j (x_j - r_j)``, exactly.
- For **any other** model (trees, kernels, pipelines), features change one after another from the reference's value to
  the person's, and ``phi_j`` is what feature j changes on the way, averaged over several random orders and their
  reverses. The contributions add up exactly, too; how they are divided among features that interact is an estimate of
  the Shapley values, which average over all orders.

The reasons of a decision are the features whose contributions point the way that it went: of a refusal those that
lowered the score most. They say what the model did, not what would have to change for another decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from fairmargin.validation import check_count

__all__ = ["add_orders", "contributions", "group_reasons", "linear_coefficients", "reason_codes", "top_reasons"]

Array = NDArray[np.float64]


def reason_codes(
    model: Any,
    X: Any,
    *,
    reference: Any = None,
    n_reasons: int = 4,
    n_orders: int = 8,
    random_state: int = 0,
) -> pd.DataFrame:
    """Return the features that moved each person's score most towards the decision.

    Parameters
    ----------
    model : fitted classifier with ``decision_function``
    X : array or frame of shape (n, p)
    reference : array of shape (p,), series or frame of one row, optional
        The person to compare with; by default one with the median of every numeric feature of ``X``, and the most
        frequent value of every other.
    n_reasons : int, default=4
    n_orders : int, default=8
        Random orders, each with its reverse, for models that are not linear.
    random_state : int, default=0

    Returns
    -------
    DataFrame of n rows
        Columns ``reason_1``, ``contribution_1``, ...; empty where no further feature points that way.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> model = LogisticRegression().fit(X, [0, 0, 1, 1])
    >>> reason_codes(model, X, reference=[1.5, 0.5], n_reasons=1)["reason_1"].tolist()
    ['x0', 'x0', 'x0', 'x0']
    """
    check_count(n_reasons, "n_reasons")
    moved = contributions(model, X, reference=reference, n_orders=n_orders, random_state=random_state)
    return top_reasons(moved, np.asarray(model.decision_function(X)) >= 0, n_reasons)


def contributions(
    model: Any, X: Any, *, reference: Any = None, n_orders: int = 8, random_state: int = 0
) -> pd.DataFrame:
    """Return the contribution of every feature to every score, ``f(x) - f(r)`` in all; parameters as above."""
    check_count(n_orders, "n_orders")
    X = X.toarray() if sparse.issparse(X) else X
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    names = [str(c) for c in frame.columns] if isinstance(X, pd.DataFrame) else _names(model, frame.shape[1])
    row = _reference(frame, reference)
    coefficients = linear_coefficients(model, X)
    if coefficients is not None:
        distance = frame.to_numpy(dtype=float) - row.to_numpy(dtype=float)
        return pd.DataFrame(distance * coefficients, columns=names)

    def scores(mixed: pd.DataFrame) -> Array:
        return np.asarray(model.decision_function(mixed if isinstance(X, pd.DataFrame) else mixed.to_numpy()))

    moved = add_orders(scores, frame, row, n_orders, random_state)
    return pd.DataFrame(moved, columns=names)


def _names(model: Any, p: int) -> list[str]:
    named = getattr(model, "feature_names_in_", None)
    return [str(n) for n in named] if named is not None and len(named) == p else [f"x{j}" for j in range(p)]


def _reference(frame: pd.DataFrame, reference: Any) -> pd.DataFrame:
    """Return the person to compare with as a frame of one row, of the types of ``frame``."""
    if reference is None:
        values = [_typical(frame[column]) for column in frame.columns]
    else:
        given = reference.to_numpy() if hasattr(reference, "to_numpy") else np.asarray(reference, dtype=object)
        values = list(given.ravel())
        if len(values) != frame.shape[1]:
            raise ValueError(f"The reference has {len(values)} values for {frame.shape[1]} features.")
    row = frame.iloc[[0]].reset_index(drop=True)
    for column, value in zip(frame.columns, values, strict=True):
        numeric = pd.api.types.is_numeric_dtype(frame[column]) and not pd.api.types.is_bool_dtype(frame[column])
        row[column] = pd.Series([float(value)]) if numeric else pd.Series([value], dtype=frame[column].dtype)
    return row


def _typical(column: pd.Series) -> Any:
    """Return the median of numbers, and the most frequent value of anything else."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return column.median()
    counts = column.value_counts()
    return counts.index[0] if len(counts) else None


def linear_coefficients(model: Any, X: Any) -> Array | None:
    """Return the coefficients of a model that is linear in ``X``; None for any other.

    A model counts as linear if its ``coef_`` and ``intercept_`` give its scores of the first rows.
    """
    coefficients = getattr(model, "coef_", None)
    if coefficients is None or np.ndim(coefficients) > 2 or not hasattr(model, "intercept_"):
        return None
    weights = np.asarray(coefficients, dtype=float).ravel()
    rows = X.iloc[:5] if isinstance(X, pd.DataFrame) else np.asarray(X)[:5]
    try:
        values = np.asarray(rows, dtype=float)
    except (TypeError, ValueError):
        return None
    if values.ndim != 2 or len(weights) != values.shape[1] or not np.all(np.isfinite(values)):
        return None
    scores = values @ weights + float(np.ravel(model.intercept_)[0])
    size = np.abs(values) @ np.abs(weights) + abs(float(np.ravel(model.intercept_)[0]))
    # Sums of p products differ by rounding, in single precision at the worst.
    close = np.abs(scores - np.asarray(model.decision_function(rows), dtype=float)) <= 1e-5 * np.maximum(size, 1e-30)
    return weights if bool(np.all(close)) else None


def add_orders(
    scores: Callable[[pd.DataFrame], Array], frame: pd.DataFrame, reference: pd.DataFrame, n_orders: int, seed: int
) -> Array:
    """Return contributions, (n, p), by changing columns from the reference's values to the people's in random orders.

    Parameters
    ----------
    scores : callable
        From a frame to the scores of its rows.
    frame, reference : DataFrame of n rows and of one, with p columns
    n_orders, seed : int
    """
    n, p = frame.shape
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
    moved = np.zeros((n, p))
    base = reference.iloc[np.zeros(n, dtype=int)].reset_index(drop=True)
    people = frame.reset_index(drop=True)
    orders = [order for _ in range(n_orders) for order in _both_ways(rng.permutation(p))]
    start = scores(base)
    for order in orders:
        mixed, before = base.copy(), start
        for j in order:
            mixed[mixed.columns[j]] = people.iloc[:, j]
            after = scores(mixed)
            moved[:, j] += after - before
            before = after
    return moved / len(orders)


def _both_ways(order: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    return order, order[::-1]


def top_reasons(moved: pd.DataFrame, accepted: NDArray[np.bool_], n_reasons: int) -> pd.DataFrame:
    """Return the largest contributions that point the way of each decision, largest first.

    Parameters
    ----------
    moved : DataFrame of n rows
        Contributions, one column per feature.
    accepted : bool array of shape (n,)
    n_reasons : int
    """
    values = moved.to_numpy(dtype=float)
    towards = np.where(np.asarray(accepted)[:, None], values, -values)
    order = np.argsort(-towards, axis=1, kind="stable")[:, :n_reasons]
    names = np.array([str(c) for c in moved.columns], dtype=object)
    columns: dict[str, Any] = {}
    for k in range(min(n_reasons, values.shape[1])):
        chosen = order[:, k]
        size = np.take_along_axis(values, chosen[:, None], axis=1)[:, 0]
        points = np.take_along_axis(towards, chosen[:, None], axis=1)[:, 0] > 0.0
        columns[f"reason_{k + 1}"] = np.where(points, names[chosen], "")
        columns[f"contribution_{k + 1}"] = np.where(points, size, np.nan)
    return pd.DataFrame(columns)


def group_reasons(moved: pd.DataFrame, sensitive_features: pd.DataFrame, n_reasons: int = 4) -> pd.DataFrame:
    """Return the features that set groups' mean scores apart from everybody else's.

    The mean score of a group less that of everybody else is the sum over features of the differences of their mean
    contributions, whatever the reference; the largest of these are returned.

    Parameters
    ----------
    moved : DataFrame of n rows
        Contributions, one column per feature.
    sensitive_features : DataFrame of n rows
        Attributes with groups.
    n_reasons : int, default=4

    Returns
    -------
    DataFrame
        ``attribute``, ``group``, ``feature``, ``difference`` (of mean contributions), ``total`` (of mean scores), the
        largest first within each group.
    """
    values = moved.to_numpy(dtype=float)
    rows: list[dict[str, Any]] = []
    for attribute in sensitive_features.columns:
        words = sensitive_features[attribute].astype(str).to_numpy()
        for group in dict.fromkeys(_in_order(sensitive_features[attribute])):
            inside = words == group
            if inside.all() or not inside.any():
                continue
            apart = values[inside].mean(axis=0) - values[~inside].mean(axis=0)
            for j in np.argsort(-np.abs(apart), kind="stable")[:n_reasons]:
                row: dict[str, Any] = {"attribute": str(attribute), "group": group, "feature": str(moved.columns[j])}
                rows.append({**row, "difference": float(apart[j]), "total": float(apart.sum())})
    return pd.DataFrame(rows, columns=["attribute", "group", "feature", "difference", "total"])


def _in_order(column: pd.Series) -> Sequence[str]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return [str(c) for c in column.cat.categories]
    return sorted(column.astype(str).unique())
