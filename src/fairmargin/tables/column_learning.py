"""What each column of a table is taken for, and what is learnt of it: medians, scales, levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd

from fairmargin.exceptions import DataError
from fairmargin.formatting import people, shorten
from fairmargin.tables.column_kinds import OTHER, CategoryColumn, NumberColumn, read_numbers
from fairmargin.tables.columns import MISSING_GROUP, is_number_column, value_as_text

__all__ = [
    "LARGEST",
    "choose_kind",
    "choose_levels",
    "describe_codes",
    "find_codes",
    "find_identifier",
    "fit_column",
]

LARGEST = 1e150  # the square of a larger number, and so a variance, is beyond what a float can hold
_MOST_CODES = 10  # as many different whole numbers may be codes; as for sensitive columns
_MIN_IDENTIFIERS = 20  # so many whole numbers, all different, are hardly measurements


def choose_kind(column: pd.Series, is_category: bool, is_number: bool) -> tuple[str, str]:
    """Return what a column is taken for, and why."""
    if is_category and is_number:
        raise DataError(
            f"The column {shorten(column.name)!r} cannot be categorical and numeric at once.", field="categorical"
        )
    if is_category or is_number:
        return (CategoryColumn.kind if is_category else NumberColumn.kind), "as asked"
    if is_number_column(column):
        return NumberColumn.kind, "it holds numbers only"
    if isinstance(column.dtype, pd.CategoricalDtype):
        return CategoryColumn.kind, "the file says so"
    return CategoryColumn.kind, "it holds truth values" if pd.api.types.is_bool_dtype(column) else "it holds text"


def _whole_numbers(column: pd.Series) -> int:
    """Return how many different numbers a column has if all of them are whole, else 0."""
    values = read_numbers(column)
    values = values[~np.isnan(values)]
    return len(np.unique(values)) if np.all(values == np.rint(values)) else 0


def find_identifier(column: pd.Series) -> list[str]:
    """Return a sentence on a column of numbers that looks like an identifier."""
    if _whole_numbers(column) != len(column) or len(column) < _MIN_IDENTIFIERS:
        return []
    label = shorten(column.name)
    return [f"{label!r} has another whole number for everybody and is taken as a number: exclude identifiers."]


def find_codes(column: pd.Series) -> dict[str, int]:
    """Return the number of different values of a column of numbers that looks like codes of categories."""
    distinct = _whole_numbers(column)
    is_identifier = distinct == len(column) >= _MIN_IDENTIFIERS
    return {shorten(column.name): distinct} if 2 < distinct <= _MOST_CODES and not is_identifier else {}


def describe_codes(codes: Mapping[str, int]) -> list[str]:
    """Return one sentence on all columns that may be codes."""
    if len(codes) < 2:
        return [
            f"{label!r} has {distinct} different whole numbers and is taken as a number: if they are codes, make it "
            "categorical."
            for label, distinct in codes.items()
        ]
    listed = ", ".join(f"{label!r} ({distinct})" for label, distinct in codes.items())
    return [
        f"{len(codes)} columns have few different whole numbers and are taken as numbers: {listed}. If these are "
        "codes, make them categorical."
    ]


def fit_column(
    column: pd.Series, kind: str, least: float, max_levels: int, scale: bool
) -> tuple[NumberColumn | CategoryColumn | None, list[str]]:
    """Return what is learnt of a column, None for one that is left out, and notes."""
    name, label = str(column.name), shorten(column.name)
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        return None, [f"{label!r} holds dates and was left out; turn it into numbers to use it."]
    if kind == NumberColumn.kind:
        return _fit_numbers(column, name, label, scale)
    return _fit_categories(column, name, least, max_levels)


def _fit_numbers(
    column: pd.Series, name: str, label: str, scale: bool
) -> tuple[NumberColumn | CategoryColumn | None, list[str]]:
    values = read_numbers(column)
    missing = int(np.isnan(values).sum())
    if missing == len(values):
        return None, [f"{label!r} has no values and was left out."]
    median = float(np.nanmedian(values))
    notes = [f"{label!r} is missing for {people(missing)}: the median {median:g} is used."] if missing else []
    values = np.where(np.isnan(values), median, values)
    if np.max(np.abs(values)) > LARGEST:
        return None, [f"{label!r} holds numbers beyond {LARGEST:g} and was left out."]
    spread = float(values.std())
    if not spread > 0:
        return None, [f"{label!r} is the same for everybody and was left out."]
    mean, spread = (float(values.mean()), spread) if scale else (0.0, 1.0)
    return NumberColumn(name, median, mean, spread, missing), notes


def _fit_categories(
    column: pd.Series, name: str, least: float, max_levels: int
) -> tuple[NumberColumn | CategoryColumn | None, list[str]]:
    codes, values = pd.factorize(column)
    words = np.array([*(value_as_text(v) for v in values), MISSING_GROUP], dtype=object)
    counts: Counter[str] = Counter()
    for word, count in zip(words, np.bincount(codes % len(words), minlength=len(words)).tolist(), strict=True):
        if count:
            counts[word] += count
    return choose_levels(name, counts, least, max_levels)


def choose_levels(
    name: str, counts: Mapping[str, int], least: float, max_levels: int
) -> tuple[CategoryColumn | None, list[str]]:
    """Return the column of categories with these numbers of people, None for one that tells nothing, and notes."""
    label = shorten(name)
    missing = counts.get(MISSING_GROUP, 0)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    if len(ranked) < 2:
        return None, [f"{label!r} is the same for everybody and was left out."]
    kept = [word for word in ranked[:max_levels] if counts[word] >= least and word != OTHER]
    common = set(kept)
    rare = [word for word in ranked if word not in common]
    notes = []
    if missing:
        notes.append(f"{label!r} is missing for {people(missing)}: a level of their own.")
    if not kept:
        return None, [f"{label!r} has {len(ranked):,} values, none of them frequent, and was left out."]
    if rare:
        together = people(sum(counts[word] for word in rare))
        notes.append(f"{label!r}: {len(rare):,} rare of {len(ranked):,} values ({together}) are put together.")
        kept.append(OTHER)
    levels = tuple(sorted(word for word in kept[1:]))
    if not levels:
        return None, [f"{label!r} is the same for everybody and was left out."]
    return CategoryColumn(name, kept[0], levels, len(rare), missing), notes
