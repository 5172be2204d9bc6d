"""Features of any kind as numbers, to be compared with sensitive attributes before an ensemble sees them."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from fairmargin.categories import categorical_columns

__all__ = ["code_columns", "coded_categories"]

Array = NDArray[np.float64]


def code_columns(X: Any) -> Any:
    """Return a matrix or frame of finite numbers in which equal columns are those that were equal before.

    Categories and texts become codes; missing values become a number below all others.
    """
    if sp.issparse(X):
        return X
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        native = frame.to_native()
        columns = native if isinstance(native, pd.DataFrame) else pd.DataFrame(frame.to_dict(as_series=False))
        coded = [_coded(columns.iloc[:, k]) for k in range(columns.shape[1])]
        return pd.DataFrame(np.column_stack(coded) if coded else np.empty((len(columns), 0)), columns=columns.columns)
    values = np.asarray(X)
    if values.ndim != 2:
        return values
    if values.dtype.kind == "f" and not np.isnan(values).any():
        return values
    if values.dtype.kind in "biuf":
        return _filled(values.astype(float))
    if values.dtype.kind == "c":
        return values  # refused with scikit-learn's message
    return np.column_stack([_coded(pd.Series(column).infer_objects()) for column in values.T])


def coded_categories(X: Any, coded: Any) -> list[tuple[str, int, NDArray[np.intp]]]:
    """Return name, place and codes of the columns of text or categories; ``coded`` is ``code_columns(X)``."""
    names = set(categorical_columns(X))
    if not names:
        return []
    columns = [(str(name), place) for place, name in enumerate(coded.columns) if str(name) in names]
    return [(name, place, coded.iloc[:, place].to_numpy().astype(np.intp)) for name, place in columns]


def _coded(column: pd.Series) -> Array:
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):
        return _filled(column.to_numpy(dtype=float, na_value=np.nan))
    try:
        return pd.factorize(column, sort=False)[0].astype(float)  # a missing value is -1
    except TypeError:
        raise TypeError("X holds an entry that is neither; argument must be a string or a number.") from None


def _filled(values: Array) -> Array:
    """Return numbers with a lower one in place of missing ones, per column."""
    missing = np.isnan(values)
    if not missing.any():
        return values
    lowest = np.min(values, axis=0, initial=0.0, where=~missing & np.isfinite(values))
    return np.where(missing, lowest - 1.0, values)
