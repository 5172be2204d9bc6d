"""A table as CSV text that spreadsheets and other readers take for nothing but data."""

from __future__ import annotations

import csv
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

__all__ = ["escape_formulas", "to_csv"]

_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def to_csv(frame: pd.DataFrame, *, escape: bool = True, header: bool = True) -> bytes:
    """Return a frame as CSV in UTF-8, by default with formulas escaped and the names in the first line."""
    written = escape_formulas(frame) if escape else frame
    text_columns = (frame.iloc[:, k] for k, dtype in enumerate(frame.dtypes) if not is_numeric_dtype(dtype))
    returns = any("\r" in str(value) for values in (frame.columns, *text_columns) for value in values)
    # Python's writer leaves a carriage return unquoted, which readers take for the end of a row.
    quoting: Any = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    return written.to_csv(index=False, quoting=quoting, header=header).encode("utf-8", "backslashreplace")


def escape_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame in which no text, in cells or column names, begins a formula.

    Spreadsheets execute a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break, whoever wrote it.
    Such text is prefixed with a single quote, unless it is a number.

    Examples
    --------
    >>> escape_formulas(pd.DataFrame({"note": ["=1+1", "-5", "plain"]}))["note"].tolist()
    ["'=1+1", '-5', 'plain']
    """
    escaped = frame.copy()
    for k, dtype in enumerate(frame.dtypes):
        if not is_numeric_dtype(dtype):
            cells = [_escaped(value) for value in frame.iloc[:, k]]
            escaped.isetitem(k, pd.Series(cells, dtype=object).to_numpy())
    escaped.columns = pd.Index([_escaped(name) for name in frame.columns], dtype=object)
    return escaped


def _escaped(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(_STARTS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value if value[0] in "+-" else f"'{value}"
