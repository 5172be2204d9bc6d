"""Fitted columns of a table: what a column of numbers and a column of categories become in the matrix."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.exceptions import DataError
from fairmargin.formatting import people, shorten
from fairmargin.tables.columns import MISSING_GROUP, value_as_text

__all__ = ["COLUMN_KINDS", "OTHER", "CategoryColumn", "NumberColumn", "read_numbers"]

Array = NDArray[np.float64]

OTHER = "(other)"
_BOOLEANS = ("false", "true")


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: imputed with ``median``, then ``(x - mean) / scale``."""

    kind: ClassVar[str] = "number"

    name: str
    median: float
    mean: float
    scale: float
    missing: int = 0

    def __post_init__(self) -> None:
        _check_name(self.name)
        for field_name in ("median", "mean", "scale"):
            value = getattr(self, field_name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"the {field_name} of {shorten(self.name)!r} must be a finite number, got {value!r}")
        if not self.scale > 0:
            raise ValueError(f"the scale of {shorten(self.name)!r} must be positive, got {self.scale!r}")

    @property
    def features(self) -> list[str]:
        """Names of the features that the column becomes."""
        return [self.name]

    def encode(self, column: pd.Series, out: Array) -> None:
        """Write the column's feature to ``out`` (n, 1)."""
        values = read_numbers(column)
        values = np.where(np.isnan(values), self.median, values)
        with np.errstate(over="ignore"):
            out[:, 0] = (values - self.mean) / self.scale
        wrong = np.flatnonzero(~np.isfinite(out[:, 0]))
        if len(wrong):
            raise DataError(
                f"The column {shorten(self.name)!r} has {values[wrong[0]]:g} in row {wrong[0] + 1:,}, too large a "
                "number for this model."
            )

    def count_different(self, column: pd.Series) -> dict[str, int]:
        """Return how many values are missing."""
        return {"missing": int(np.isnan(read_numbers(column)).sum())}

    def difference(self, kind: str, number: int) -> str:
        """Return a note on as many such values."""
        return f"{shorten(self.name)!r} is missing for {people(number)}: the median is used."


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: one indicator for each of ``levels``, none for ``reference``.

    ``OTHER`` among the levels stands for the ``merged`` rare ones and for values never seen before; where it
    is not a level, unseen values count as the reference.
    """

    kind: ClassVar[str] = "category"

    name: str
    reference: str
    levels: tuple[str, ...]
    merged: int = 0
    missing: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.levels))
        _check_name(self.name)
        words = [self.reference, *self.levels]
        if not all(isinstance(word, str) for word in words) or len(set(words)) < len(words) or not self.levels:
            raise ValueError(f"the levels of {shorten(self.name)!r} must be different texts, at least two")

    @property
    def features(self) -> list[str]:
        """Names of the features that the column becomes."""
        return [f"{self.name}={level}" for level in self.levels]

    def encode(self, column: pd.Series, out: Array) -> None:
        """Write the column's indicators to ``out`` (n, number of levels)."""
        places = self.places(column)
        rows = np.flatnonzero(places >= 0)
        out[rows, places[rows]] = 1.0

    def places(self, column: pd.Series) -> NDArray[np.intp]:
        """Return which of the levels each row has, -1 for the reference."""
        codes, values = pd.factorize(column)
        position = {self.reference: -1} | {level: k for k, level in enumerate(self.levels)}
        other = position.get(OTHER, -1)
        found = [*self._levels_of(values), MISSING_GROUP]
        return np.array([other if level is None else position.get(level, other) for level in found])[codes]

    def _levels_of(self, values: Iterable[Any]) -> list[str | None]:
        """Return the level, or the reference, of each value; None for values never seen before.

        The type of a column depends on what else it holds: ``TRUE`` and ``FALSE`` alone are booleans and ``01`` and
        ``02`` numbers, which the same fields beside an ``unknown`` are not. A value is the same all the same.
        """
        known = (self.reference, *self.levels)
        as_number = {number: level for level in reversed(known) if (number := _number_or_none(level)) is not None}
        as_boolean = {level.casefold(): level for level in reversed(known) if level.casefold() in _BOOLEANS}
        exact = set(known)
        found: list[str | None] = []
        for value in values:
            word = value_as_text(value)
            if word in exact:
                found.append(word)
            elif isinstance(value, str | bool | np.bool_):
                found.append(as_boolean.get(word.casefold()))
            else:
                number = _number_or_none(word)
                found.append(None if number is None else as_number.get(number))
        return found

    def count_different(self, column: pd.Series) -> dict[str, int]:
        """Return how many values are missing, and how many were never seen in training."""
        missing = int(column.isna().sum())
        if OTHER in self.levels:
            return {"missing": missing}  # it stands for values never seen before
        counts = column.value_counts(dropna=True)
        levels = self._levels_of(counts.index)
        unseen = int(sum(count for level, count in zip(levels, counts, strict=True) if level is None))
        return {"missing": missing, "unseen": unseen}

    def difference(self, kind: str, number: int) -> str:
        """Return a note on as many such values."""
        if kind == "missing":
            known = (self.reference, *self.levels)
            counted = MISSING_GROUP if MISSING_GROUP in known else OTHER if OTHER in known else self.reference
            what = "a level of their own" if counted == MISSING_GROUP else f"taken as {shorten(counted)!r}"
            return f"{shorten(self.name)!r} is missing for {people(number)}: {what}."
        return f"{shorten(self.name)!r} has values for {number:,} people that training never saw."


COLUMN_KINDS: dict[str, type[NumberColumn] | type[CategoryColumn]] = {
    cls.kind: cls for cls in (NumberColumn, CategoryColumn)
}


def _number_or_none(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise ValueError(f"a column's name must be text, got {name!r}")


def read_numbers(column: pd.Series) -> Array:
    """Return the values as numbers, nan where they are missing or infinite."""
    if pd.api.types.is_numeric_dtype(column):
        values = column.to_numpy(dtype=float, na_value=np.nan)
    else:
        converted = pd.to_numeric(column, errors="coerce")
        wrong = (converted.isna() & column.notna()).to_numpy()
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(
                f"The column {shorten(column.name)!r} should hold numbers, but row {row + 1:,} has "
                f"{shorten(column.iloc[row], 30)!r}."
            )
        values = converted.to_numpy(dtype=float, na_value=np.nan)
    return np.where(np.isinf(values), np.nan, values)
