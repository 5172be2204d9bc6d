"""Checks that containers of data are containers, made before anything converts them.

Conversions are too willing: numpy drops the mask of a masked array, makes one object of a set, and the text "--" of a
masked entry in a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
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


def check_same_order(**given: Any) -> None:
    """Raise where two arguments of a call have the same row labels in another order: rows are taken by position.

    ``given`` are arguments of one entry or row per person, by their names; of a mapping each value is one. Arrays,
    lists and frames of other libraries have no row labels. Labels that differ, or occur twice, tell no order.
    """
    seen: list[tuple[str, pd.Index]] = []
    for name, values in _with_row_labels(given):
        labels = values.index
        if any(labels.equals(known) for _, known in seen):
            continue
        for first, known in seen:
            if _is_another_order(known, labels):
                place = f"loc[{first}.index]"
                or_else = f", or {name}.to_numpy() if they are in the same order already"
                or_else *= hasattr(values, "to_numpy")
                give = f"give {name}.{place}" if hasattr(values, "loc") else f"make {name} of probabilities.{place}"
                raise ValueError(
                    f"The rows of {first} and {name} have the same labels in another order, and rows are taken by "
                    f"position: {give}{or_else}."
                )
        seen.append((name, labels))


def _with_row_labels(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what has a pandas index among arguments and in mappings, with its name."""
    for name, values in given.items():
        if isinstance(getattr(values, "index", None), pd.Index):
            yield name, values
        elif isinstance(values, Mapping):
            yield from _with_row_labels({f"{name}[{key!r}]": column for key, column in values.items()})


def _is_another_order(known: pd.Index, labels: pd.Index) -> bool:
    """Whether two indexes that are not equal have the same labels, each once."""
    if len(known) != len(labels) or known.nlevels != labels.nlevels:
        return False
    return bool(known.is_unique and labels.is_unique and labels.isin(known).all())


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
