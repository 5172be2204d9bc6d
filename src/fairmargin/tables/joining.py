"""Two tables of people with the same columns as one: those to train on, then those held out."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.types import union_categoricals

from fairmargin.exceptions import DataError
from fairmargin.formatting import shorten
from fairmargin.tables.columns import is_number_column
from fairmargin.tables.reader import Table

__all__ = ["join_tables"]


def join_tables(table: Table, test: Table) -> pd.DataFrame:
    """Return the rows of both tables, by the columns of the first.

    Raises
    ------
    DataError
        If the second lacks columns, all of which are named, or one holds numbers in one table and text in the other.
    """
    missing = [column for column in table.frame.columns if column not in test.frame.columns]
    if missing:
        listed = ", ".join(repr(shorten(column, 30)) for column in missing)
        raise DataError(f"{test.source} lacks {listed}, which {table.source} has.", field="test")
    later = test.frame[table.frame.columns]
    for column in table.frame.columns:
        first, second = table.frame[column], later[column]
        if second.notna().any() and first.notna().any() and is_number_column(first) != is_number_column(second):
            where = (table.source, test.source) if is_number_column(first) else (test.source, table.source)
            raise DataError(
                f"The column {shorten(column)!r} holds numbers in {where[0]} and other values in {where[1]}.",
                field="test",
            )
    return pd.DataFrame({column: _joined(table.frame[column], later[column]) for column in table.frame.columns})


def _joined(first: pd.Series, second: pd.Series) -> pd.Series:
    """Return one column after another; numbers stay numbers, and categories stay categories."""
    if isinstance(first.dtype, pd.CategoricalDtype) and isinstance(second.dtype, pd.CategoricalDtype):
        return pd.Series(union_categoricals([first, second], ignore_order=True), name=first.name)
    if first.dtype != second.dtype:
        kind: Any = "float64" if is_number_column(first) and is_number_column(second) else object
        first, second = first.astype(kind), second.astype(kind)
    return pd.concat([first, second], ignore_index=True)
