"""The target column: two values, one of them favourable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.exceptions import DataError
from fairmargin.formatting import shorten
from fairmargin.tables.columns import as_text

__all__ = ["is_plain_pair", "occurs", "read_target"]

# Pairs of values whose second one is favourable without being named.
_NATURAL_PAIRS = (["0", "1"], ["-1", "1"], ["False", "True"])


def read_target(
    column: pd.Series, positive: str | None, *, field: str = "target", positive_field: str = "positive"
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], tuple[str, str]]:
    """Return who is positive, whose target is known, and the texts of the negative and the positive value.

    Parameters
    ----------
    column : Series of two values
    positive : str, optional
        The positive value as text; required unless the values are 0 and 1, -1 and 1, or False and True.
    field, positive_field : str
        The parameters that named the column and the value, for errors.
    """
    known = column.notna().to_numpy()
    text = as_text(column)
    values = _values(column)
    name = shorten(column.name)
    if len(values) > 2:
        listed = ", ".join(repr(shorten(v, 20)) for v in values[:6]) + (", ..." if len(values) > 6 else "")
        raise DataError(
            f"The column {name!r} has {len(values):,} values ({listed}); exactly two are needed.", field=field
        )
    if len(values) < 2:
        held = f"holds only {shorten(values[0])!r}" if values else "has no values"
        raise DataError(f"The column {name!r} {held}; exactly two values are needed.", field=field)
    chosen = _positive_value(values, positive, name, positive_field)
    negative = values[1 - values.index(chosen)]
    return text == chosen, known, (negative, chosen)


def occurs(column: pd.Series, positive: str) -> bool:
    """Whether a favourable value, given as text, is one of a column's two values."""
    values = _values(column)
    try:
        _positive_value(values, positive, str(column.name))
    except DataError:
        return False
    return True


def is_plain_pair(column: pd.Series) -> bool:
    """Whether a column's values tell which one is favourable: 0 and 1, -1 and 1, False and True."""
    return _values(column) in _NATURAL_PAIRS


def _values(column: pd.Series) -> list[str]:
    return sorted(set(as_text(column)[column.notna().to_numpy()]), key=_number_first)


def _positive_value(values: list[str], positive: str | None, name: str, field: str = "positive") -> str:
    both = " and ".join(repr(shorten(value)) for value in values)
    if positive is None:
        if values in _NATURAL_PAIRS:
            return values[1]
        raise DataError(f"Say which value of {name!r} is the favourable one; it has {both}.", field=field)
    if positive in values:
        return positive
    # A column of TRUE and FALSE is read as booleans, one of 01 and 02 as numbers.
    same = [v for v in values if _number_first(v)[0] == 0 and _number_first(v) == _number_first(positive)]
    same += [v for v in values if v in ("False", "True") and v.casefold() == positive.casefold()]
    if same:
        return same[0]
    raise DataError(
        f"The favourable value {shorten(positive)!r} does not occur in {name!r}, whose values are {both}.",
        field=field,
    )


def _number_first(value: str) -> tuple[int, Any]:
    try:
        return 0, float(value)
    except ValueError:
        return 1, value
