"""Frames of any library: read as pandas, and results given back in the library of what the caller gave."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pandas as pd

__all__ = ["as_pandas", "in_library_of"]


def as_pandas(frame: Any) -> pd.DataFrame:
    """Return a frame of pandas, polars or pyarrow as one of pandas."""
    if isinstance(frame, pd.DataFrame):
        return frame
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise TypeError(f"Expected a frame (pandas, polars, pyarrow), got {type(frame).__name__}.") from None
    return pd.DataFrame({name: table[name].to_list() for name in table.columns})


def in_library_of(given: Any, result: pd.DataFrame) -> Any:
    """Return a result in the library of what was given, a frame or a column; pandas for anything else.

    Other libraries than pandas have no index: its levels become the first columns.
    """
    native = nw.from_native(given, eager_only=True, allow_series=True, pass_through=True)
    if not isinstance(native, nw.DataFrame | nw.Series) or native.implementation.is_pandas_like():
        return result
    flat = result.reset_index() if any(name is not None for name in result.index.names) else result
    columns = {str(name): _alike(flat[name].tolist()) for name in flat.columns}
    return nw.to_native(nw.from_dict(columns, backend=native.implementation))


def _alike(values: list[Any]) -> list[Any]:
    """Return values of one type: those of several, as the groups of several attributes may be, as text."""
    return values if len({type(value) for value in values}) <= 1 else [str(value) for value in values]
