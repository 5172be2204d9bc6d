"""Features of mixed type: frames with numbers and categories beside plain matrices."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from sklearn.utils.validation import check_array, validate_data

__all__ = ["is_number", "read_features"]


def read_features(estimator: Any, X: Any, *, reset: bool, allow_missing: bool = False) -> pd.DataFrame:
    """Return the features as a frame with columns 0, 1, ...: numbers as float64, everything else as it is.

    ``reset`` is for the first look at data, which fixes the number and names of the columns. Numbers must be finite;
    ``allow_missing`` lets nan pass. Missing categories always do.
    """
    frame = _frame(X)
    finite = "allow-nan" if allow_missing else True
    if frame is None or all(is_number(frame[name]) for name in frame):
        array = validate_data(estimator, X, dtype=np.float64, ensure_all_finite=finite, reset=reset)
        return pd.DataFrame(array)
    validate_data(estimator, X, skip_check_array=True, reset=reset)
    numbers = [k for k in range(frame.shape[1]) if is_number(frame[k])]
    if numbers:
        checked = check_array(frame[numbers], dtype=np.float64, ensure_all_finite=finite, estimator=estimator)
        for k, column in zip(numbers, checked.T, strict=True):
            frame[k] = column
    return frame


def is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers; truth values count as categories."""
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _frame(X: Any) -> pd.DataFrame | None:
    """Return a copy of a frame with numbered columns; None for anything that is no frame."""
    native = nw.from_native(X, pass_through=True, eager_only=True)
    if not isinstance(native, nw.DataFrame):
        return None
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame({c: native[c].to_list() for c in native.columns})
    columns = {k: frame.iloc[:, k].reset_index(drop=True) for k in range(frame.shape[1])}
    return pd.DataFrame(columns)
