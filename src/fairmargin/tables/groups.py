"""Sensitive columns as named groups."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.exceptions import DataError
from fairmargin.formatting import people, shorten
from fairmargin.tables.columns import MISSING_GROUP, as_text, find_column, is_number_column

__all__ = ["find_sensitive_columns", "group_column", "group_columns", "people_with_values"]

Counts = NDArray[np.int64] | None

_PUT_TOGETHER = "other"
_HOW_MISSING = ("group", "error", "drop")
_NUMBER = r"-?(?:\d+(?:\.\d+)?(?:e[+-]\d+)?)"
_BAND = re.compile(rf"(?:(under) )?({_NUMBER})(?: to under {_NUMBER}| and over)?")
_TIMES = " × "  # between the names of groups that are combined
_MAX_COMBINATIONS = 30  # as many groups as an audit lists before it puts the smallest together
_MAX_CODES = 10  # numbers of more distinct values than this are measurements, not codes, and are cut


def find_sensitive_columns(frame: pd.DataFrame, names: Sequence[str], target: str | None = None) -> list[str]:
    """Return the sensitive columns of a frame; raise unless there are some, all different and none is the target."""
    missing = [name for name in names if name not in frame.columns]
    if len(missing) > 1:
        listed = ", ".join(repr(shorten(name, 30)) for name in missing)
        known = ", ".join(shorten(column, 30) for column in frame.columns[:12])
        more = ", ..." if frame.shape[1] > 12 else ""
        raise DataError(f"There are no sensitive columns {listed}; the columns are {known}{more}.", field="sensitive")
    found = [find_column(frame, name, "sensitive column", field="sensitive") for name in names]
    if not found:
        raise DataError("Name at least one sensitive column.", field="sensitive")
    if len(set(found)) < len(found):
        raise DataError("A sensitive column is named twice.", field="sensitive")
    if target in found:
        raise DataError(
            f"The column {shorten(target)!r} cannot be the target and sensitive at once.", field="sensitive"
        )
    return found


def people_with_values(
    frame: pd.DataFrame, sensitive: Sequence[str], missing: str, counts: Counts = None
) -> tuple[NDArray[np.bool_], list[str]]:
    """Return whom to keep, (n,), and notes: with ``missing="drop"``, those with all sensitive values."""
    kept, notes = np.ones(len(frame), dtype=bool), []
    for name in sensitive if missing == "drop" else ():
        unknown = frame[name].isna().to_numpy()
        without = int(unknown.sum() if counts is None else counts[unknown].sum())
        if without:
            notes.append(f"{shorten(name)!r} is missing for {people(without)}, who were left out.")
        kept &= ~unknown
    if not kept.any():
        raise DataError("Everybody lacks a sensitive value, and nobody is left.", field="missing_sensitive")
    return kept, notes


def group_columns(
    frame: pd.DataFrame,
    sensitive: Sequence[str],
    bins: Mapping[str, Sequence[float]] | None,
    missing: str,
    merge_under: int = 0,
    *,
    intersections: bool = False,
    names: Mapping[str, Mapping[str, str]] | None = None,
    counts: Counts = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Return the sensitive columns as groups, and notes on what was done; parameters as in :func:`group_column`.

    ``names`` are readable names of groups, by column and value; several values may share one. Groups of fewer than
    ``merge_under`` people are put together, with the next smallest until they are as many, as long as two groups are
    left; people without a value stay by themselves. With ``missing="drop"``, the frame is without them already
    (:func:`people_with_values`). Bands of numbers are in the order of the numbers.
    With ``intersections`` the combinations of all columns are one more.
    """
    for name in bins or {}:
        if name not in sensitive:
            raise DataError(f"Limits are given for {shorten(name)!r}, which is no sensitive column.", field="bins")
    _check_names(names or {}, sensitive)
    columns, notes = {}, []
    for name in sensitive:
        words, said = group_column(frame[name], edges=(bins or {}).get(name), missing=missing, counts=counts)
        words = _renamed(words, (names or {}).get(name, {}))
        words, also = _merge_small_groups(words, merge_under, counts)
        columns[name], said = _in_order(words), [*said, *also]
        notes += said
        if columns[name].nunique() < 2:
            only = shorten(columns[name].iloc[0]) if len(frame) else ""
            raise DataError(
                f"The sensitive column {shorten(name)!r} has only one group ({only!r}): there is nothing to compare.",
                field="sensitive",
            )
    if intersections:
        words, said = _combined(pd.DataFrame(columns), merge_under, counts)
        columns[str(words.name)], notes = _in_order(words), [*notes, *said]
    return pd.DataFrame(columns), notes


def _check_names(names: Mapping[str, Any], sensitive: Sequence[str]) -> None:
    for column in names:
        if column not in sensitive:
            raise DataError(
                f"Names are given for {shorten(column)!r}, which is no sensitive column.", field="value_names"
            )


def _renamed(words: pd.Series, names: Mapping[str, str]) -> pd.Series:
    """Return groups under readable names; raise if a value that is named does not occur."""
    present = set(words.unique())
    for value in names:
        if value not in present:
            listed = ", ".join(repr(shorten(word, 20)) for word in sorted(present)[:8])
            raise DataError(
                f"{shorten(words.name)!r} has no group {shorten(value)!r} to name; there are {listed}.",
                field="value_names",
            )
    return words.map(lambda word: names.get(word, word)) if names else words


def _combined(groups: pd.DataFrame, merge_under: int, counts: Counts) -> tuple[pd.Series, list[str]]:
    """Return the combinations of all columns as one column of groups."""
    if groups.shape[1] < 2:
        raise DataError("Intersections need at least two sensitive columns.", field="sensitive")
    name = _TIMES.join(map(str, groups.columns))
    words = pd.Series([_TIMES.join(row) for row in groups.astype(str).to_numpy()], name=name, dtype=object)
    words, said = group_column(words, max_groups=_MAX_COMBINATIONS, counts=counts)
    words, also = _merge_small_groups(words, merge_under, counts)
    return words, [*said, *also]


def _in_order(words: pd.Series) -> pd.Series:
    """Return groups as a categorical column: bands by their limits, everything else as text, what is put together and
    what is missing last."""

    def place(word: str) -> tuple[int, float, str]:
        if word == MISSING_GROUP or word.startswith(_PUT_TOGETHER):
            return 2, 0.0, word
        band = _BAND.fullmatch(word)
        if band is None:
            return 1, 0.0, word
        under, low = band.group(1), band.group(2)
        return 0, -math.inf if under is not None else float(low), word

    return words.astype(pd.CategoricalDtype(sorted(words.unique(), key=place)))


def _merge_small_groups(words: pd.Series, least: int, counts: Counts) -> tuple[pd.Series, list[str]]:
    """Put groups of fewer than ``least`` people together, with the next smallest until they are as many.

    Two groups are left at least, not counting the people without a value, who are no group to be joined.
    """
    sizes = words.value_counts() if counts is None else pd.Series(counts).groupby(words.to_numpy()).sum()
    known = sorted((word for word in sizes.index if word != MISSING_GROUP), key=lambda word: (sizes[word], word))
    small = [word for word in known if sizes[word] < least]
    if not small:
        return words, []
    reached = np.cumsum([sizes[word] for word in known])
    joined = known[: min(max(len(small), int(np.searchsorted(reached, least)) + 1), len(known) - 1)]
    name = shorten(words.name)
    if len(joined) < 2:
        return words, [f"{name!r}: nothing was put together, as fewer than two groups would be left."]
    merged = words.where(~words.isin(joined), f"{_PUT_TOGETHER} ({len(joined)} groups)")
    listed = ", ".join(shorten(word, 20) for word in sorted(joined)[:8]) + (", ..." if len(joined) > 8 else "")
    what = f"{len(joined):,} groups of fewer than {least:,} people"
    if len(joined) > len(small):
        what = f"the {len(joined):,} smallest groups, some of fewer than {least:,} people,"
    return merged, [f"{name!r}: {what} were put together ({listed})."]


def group_column(
    column: pd.Series,
    *,
    edges: Sequence[float] | None = None,
    missing: str = "group",
    max_groups: int = 12,
    counts: Counts = None,
) -> tuple[pd.Series, list[str]]:
    """Return a sensitive column as named groups, and notes on what was done.

    Parameters
    ----------
    column : Series
        Numbers with more than ten distinct values are cut: at ``edges``, or into quarters.
    edges : list of float, optional
    missing : {"group", "error", "drop"}
        How to treat people with a missing sensitive value: as a group of their own, or as an error. With ``"drop"``
        there must be none: :func:`people_with_values` says whom to leave out first.
    max_groups : int
        If there are more groups than this, the smallest are merged.
    counts : array of int, optional
        How many people each row stands for; one by default.
    """
    name, notes = shorten(column.name), []
    if missing not in _HOW_MISSING:
        raise DataError(
            f"Missing sensitive values are a 'group', an 'error', or left out ('drop'), not {shorten(missing)!r}.",
            field="missing_sensitive",
        )
    unknown = column.isna().to_numpy()
    without = int(unknown.sum() if counts is None else counts[unknown].sum())
    if without and missing != "group":
        raise DataError(
            f"The sensitive column {name!r} is missing for {people(without)}; fill it in, make them a group "
            "of their own, or leave them out.",
            field="missing_sensitive",
            suggestion="group",
        )
    number = is_number_column(column)
    if edges is not None and not number:
        raise DataError(
            f"The sensitive column {name!r} holds no numbers and cannot be cut at {list(edges)}.", field="bins"
        )
    if edges is None and number and column.nunique() > _MAX_CODES:
        edges = sorted({float(f"{q:.6g}") for q in _quarters(column, counts)})
        notes.append(f"{name!r} holds numbers and was cut into quarters; other limits can be given.")
    words = _cut(column, edges) if edges is not None else as_text(column)
    if unknown.any():
        words = np.where(unknown, MISSING_GROUP, words)
        notes.append(f"{name!r} is missing for {people(without)}: a group of their own.")
    words, merged = _merge_rare_groups(words, max_groups, counts)
    if merged:
        notes.append(f"{name!r} has {merged + max_groups - 1:,} groups; the {merged:,} smallest were put together.")
    return pd.Series(words, name=str(column.name), dtype=object), notes


def _quarters(column: pd.Series, counts: Counts) -> list[float]:
    """Return the quartiles of the finite numbers, between two of them by linear interpolation."""
    values = column.to_numpy(dtype=float, na_value=np.nan)
    finite = np.flatnonzero(np.isfinite(values))
    order = finite[np.argsort(values[finite], kind="stable")]
    reached = np.cumsum(np.ones(len(order), dtype=int) if counts is None else counts[order])
    if not len(order):
        return []
    found = []
    for share in (0.25, 0.5, 0.75):
        place = share * (reached[-1] - 1)
        low, high = (values[order[np.searchsorted(reached, k, side="right")]] for k in (int(place), math.ceil(place)))
        found.append(float(low + (high - low) * (place - int(place))))
    return found


def _cut(column: pd.Series, edges: Sequence[float]) -> NDArray[Any]:
    limits = sorted({float(e) for e in edges})
    if not limits or not np.all(np.isfinite(limits)):
        raise DataError(
            f"Give at least one number, and finite ones only, at which to cut {shorten(column.name)!r}.", field="bins"
        )
    words = [f"{low:.12g} to under {high:.12g}" for low, high in pairwise(limits)]
    words = [f"under {limits[0]:.12g}", *words, f"{limits[-1]:.12g} and over"]
    values = column.to_numpy(dtype=float, na_value=np.nan)
    return np.array(words, dtype=object)[np.searchsorted(limits, values, side="right").clip(max=len(limits))]


def _merge_rare_groups(words: NDArray[Any], max_groups: int, counts: Counts) -> tuple[NDArray[Any], int]:
    codes, values = pd.factorize(words, sort=True)
    if len(values) <= max_groups:
        return words, 0
    order = np.argsort(-np.bincount(codes, weights=counts), kind="stable")
    rare = order[max_groups - 1 :]
    return np.where(np.isin(codes, rare), f"{_PUT_TOGETHER} ({len(rare)} groups)", words), len(rare)
