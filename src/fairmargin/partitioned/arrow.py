"""Columns of Arrow tables as numpy arrays: numbers, and codes with the values they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairmargin.exceptions import DataError

__all__ = [
    "as_codes",
    "as_finite_numbers",
    "as_known_numbers",
    "as_numbers",
    "check_tells_groups",
    "is_category_type",
    "is_date_type",
    "is_number_type",
]

Array = NDArray[np.float64]


def is_number_type(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers; booleans are categories."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_category_type(kind: pa.DataType) -> bool:
    """Whether a column of this type holds categories: text, truth values, or what the file says are categories."""
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(text or pa.types.is_boolean(kind) or pa.types.is_dictionary(kind))


def is_date_type(kind: pa.DataType) -> bool:
    """Whether a column of this type holds dates, times or durations."""
    return bool(pa.types.is_temporal(kind))


def check_tells_groups(schema: pa.Schema, name: str, role: str = "") -> None:
    """Raise unless a column has values that tell groups of people: text, numbers, truth values or dates."""
    kind = schema.field(name).type
    if pa.types.is_null(kind) or is_number_type(kind) or is_category_type(kind) or is_date_type(kind):
        return
    named = f"{role} column".strip()
    raise DataError(f"The {named} {name!r} of type {kind} holds neither numbers nor categories.", field=role or None)


def as_numbers(column: pa.ChunkedArray) -> Array:
    """Return a column as float64, nan where a value is missing."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if column.type != pa.float64():
        column = pc.cast(column, pa.float64(), safe=False)
    return np.asarray(column.to_numpy(), dtype=np.float64)


def as_known_numbers(column: pa.ChunkedArray, name: str, place: str, missing: float = np.nan) -> Array:
    """Return a column as float64, ``missing`` where there is no value; raise where one is infinite, and say where."""
    values = as_numbers(column)
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    if np.isfinite(total):
        return values
    infinite = int(np.count_nonzero(np.isinf(values)))  # a sum of finite numbers may overflow
    if infinite:
        raise DataError(
            f"The column {name!r} has {infinite:,} infinite values in {place}; remove these rows, or leave the "
            "column out.",
            field="exclude",
            suggestion=name,
        )
    return values if np.isnan(missing) else np.where(np.isnan(values), missing, values)


def as_finite_numbers(column: pa.ChunkedArray, name: str, place: str) -> Array:
    """Return a column as float64; raise where a value is missing, nan or infinite, and say where."""
    values = as_numbers(column)
    wrong = len(values) - int(np.count_nonzero(np.isfinite(values)))
    if wrong:
        raise DataError(
            f"The column {name!r} has {wrong:,} values that are missing, NaN or infinite in {place}; fill them in, "
            "or remove these rows."
        )
    return values


def as_codes(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], list[Any]]:
    """Return which of its values each row of a column has, and these values; the last one is None, for missing."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), dtype=np.int32), [None]
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if column.num_chunks == 0:
        return np.empty(0, dtype=np.int32), [None]
    chunk = column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()
    if isinstance(chunk, pa.ChunkedArray):
        chunk = chunk.chunk(0)
    values = chunk.dictionary.to_pylist()
    indices = chunk.indices
    if indices.null_count:
        indices = pc.fill_null(pc.cast(indices, pa.int32()), len(values))
    return np.asarray(indices.to_numpy(zero_copy_only=False), dtype=np.int32), [*values, None]
