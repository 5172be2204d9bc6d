"""Checks that containers of data are containers, made before anything converts them.

Conversions are too willing: numpy drops the mask of a masked array, makes one object of a set, and the text "--" of a
masked entry in a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np
import pandas as pd

__all__ = [
    "check_container",
    "check_labels",
    "check_no_missing",
    "check_same_order",
    "describe_type",
    "is_dask_frame",
]

_ARRAY_LIKE = ("shape", "__array__", "__array_interface__", "__dataframe__", "__arrow_c_stream__")


def is_dask_frame(values: Any) -> bool:
    """Whether ``values`` is a Dask frame or series; Dask is not imported for that."""
    library = type(values).__module__.partition(".")[0]
    return library in ("dask", "dask_expr") and hasattr(values, "map_partitions") and hasattr(values, "divisions")


def check_container(values: Any, name: str) -> None:
    """Raise unless ``values`` is an array, series, frame or list, without masked entries."""
    sequence = isinstance(values, list | tuple | range)
    if not sequence and (isinstance(values, type) or not any(hasattr(values, a) for a in _ARRAY_LIKE)):
        hint = "; call .collect() to read it" if hasattr(values, "collect") else ""
        hint = "; give the values, not the name of a column" if isinstance(values, str) else hint
        raise ValueError(f"{name} must be an array, series, frame or list, got {describe_type(values)}{hint}.")
    if getattr(values, "shape", None) == ():
        raise ValueError(f"{name} must have one entry for each person, got the single value {values!r}.")
    _check_masks(values, name)
    if sequence:
        _check_entries(values, name)


def check_no_missing(values: Any, name: str) -> None:
    """Raise where entries are None, nan or the like, with their number."""
    entries = np.asarray(values)
    if entries.dtype.kind in "fO" and (missing := int(pd.isna(entries).sum())):
        raise ValueError(
            f"{name} contains NaN: {missing} of {entries.size} values are missing; leave these people out, or fill "
            "the values in."
        )


def check_labels(values: Any, name: str) -> None:
    """Raise unless ``values`` is an array, series or list of labels in which nothing is missing."""
    check_container(values, name)
    check_no_missing(values, name)
    entries = np.asarray(values)
    if entries.dtype.kind == "f" and np.any(between := entries % 1 != 0):
        raise ValueError(
            f"{name} has numbers such as {entries[between][0]:.3g}, which are no labels: take decisions first, with "
            "predict or by comparing scores with a threshold."
        )


def check_same_order(first: Any, other: Any, names: tuple[str, str]) -> None:
    """Raise an error where two pandas objects have the same row labels in another order: rows are not aligned."""
    kinds = (pd.DataFrame, pd.Series)
    if not (isinstance(first, kinds) and isinstance(other, kinds) and len(first) == len(other)):
        return
    if first.index.equals(other.index) or not (first.index.is_unique and other.index.is_unique):
        return
    if first.index.isin(other.index).all():
        raise ValueError(
            f"The rows of {names[0]} and {names[1]} have the same labels in another order, and rows are taken by "
            f"position: give {names[1]}.loc[{names[0]}.index]."
        )


def _check_masks(values: Any, name: str) -> None:
    masked = 0
    if isinstance(values, np.ma.MaskedArray):
        masked = int(np.sum(np.ma.getmaskarray(values)))
    elif isinstance(values, list | tuple):
        masked = sum(v is np.ma.masked for v in values)
    if masked:
        raise ValueError(
            f"{name} has {masked} masked values, which are missing ones; fill them in, or leave these people out."
        )


def _check_entries(values: Any, name: str) -> None:
    wrong = next((v for v in values if isinstance(v, Mapping | Set)), None)
    if wrong is not None:
        raise ValueError(f"{name} must hold numbers or labels, got {describe_type(wrong)} among them.")
    try:
        np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must have rows of equal length, got a list of unequal ones.") from None


def describe_type(value: Any) -> str:
    """Return a value's type in words: "None", "a dict", "an int"."""
    if value is None:
        return "None"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
