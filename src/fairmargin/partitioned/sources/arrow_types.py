"""Arrow tables as partitions load them: text as codes into a dictionary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

__all__ = ["as_coded", "coded_schema"]


def coded_schema(schema: Iterable[pyarrow.Field]) -> pyarrow.Schema:
    """Return the schema in which every text column is a dictionary of strings with 32-bit codes."""
    import pyarrow

    return pyarrow.schema([pyarrow.field(field.name, _coded(field.type)) for field in schema])


def _coded(kind: pyarrow.DataType) -> pyarrow.DataType:
    import pyarrow
    from pyarrow import types

    values = kind.value_type if types.is_dictionary(kind) else kind
    text = types.is_string(values) or types.is_large_string(values) or types.is_string_view(values)
    return pyarrow.dictionary(pyarrow.int32(), pyarrow.string()) if text else kind


def as_coded(table: pyarrow.Table) -> pyarrow.Table:
    """Return the table in the types of `coded_schema`, without metadata."""
    return table.replace_schema_metadata(None).cast(coded_schema(table.schema))
