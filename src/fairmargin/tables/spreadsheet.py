"""Text cells that a spreadsheet does not take for formulas."""

from __future__ import annotations

from typing import Any

import pandas as pd

__all__ = ["escape_formulas"]

_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


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
        if not pd.api.types.is_numeric_dtype(dtype):
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
