"""Columns of a table: finding one by name, and its values as text."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.exceptions import DataError
from fairmargin.formatting import shorten
from fairmargin.sensitive import MISSING_GROUP

__all__ = ["MISSING_GROUP", "as_text", "find_column", "is_number_column", "value_as_text"]


def find_column(frame: pd.DataFrame, name: str, role: str = "column", *, field: str | None = None) -> str:
    """Return ``name`` if it is a column of the frame; otherwise raise an error that suggests the nearest name.

    Parameters
    ----------
    frame : DataFrame
    name : str
    role : str
        What the column is for, in the words of the error message.
    field : str, optional
        The parameter that named the column, for the error.
    """
    if name in frame.columns:
        return name
    columns = [str(c) for c in frame.columns]
    folded = {c.casefold().replace("-", "_"): c for c in columns}
    near = folded.get(name.casefold().replace("-", "_"))
    if near is None:
        near = next(iter(difflib.get_close_matches(name, columns, n=1)), None)
    missing = f"There is no {role} {shorten(name)!r}"
    if near is not None:
        raise DataError(f"{missing}; did you mean {shorten(near)!r}?", field=field)
    if len(columns) == 1:
        raise DataError(
            f"{missing}: the file has one column, {shorten(columns[0])!r}; its delimiter may be another one.",
            field="delimiter",
        )
    listed = ", ".join(shorten(c, 30) for c in columns[:12]) + (", ..." if len(columns) > 12 else "")
    if columns[0] == "column_1":
        raise DataError(f"{missing}; no header was found, and the columns are {listed}.", field="names")
    raise DataError(f"{missing}; the columns are {listed}.", field=field)


def is_number_column(column: pd.Series) -> bool:
    """Whether a column holds numbers; booleans are categories."""
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def as_text(column: pd.Series) -> NDArray[Any]:
    """Return every value as text, missing values as an empty one."""
    codes, values = pd.factorize(column)
    words = np.array([*(value_as_text(v) for v in values), ""], dtype=object)
    return words[codes]


def value_as_text(value: Any) -> str:
    """Return a value as text, whole numbers without a decimal point."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)
