"""From columns to a matrix: one fitted encoder, which is plain data.

Numbers are imputed with the median and standardised. Categories become indicators against the most frequent level;
rare levels, and levels that turn up later, are one level ("other"). What was chosen is recorded in ``notes``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.categories import CodedMatrix
from fairmargin.exceptions import DataError
from fairmargin.formatting import people, shorten
from fairmargin.tables.columns import MISSING_GROUP, find_column, is_number_column, value_as_text

__all__ = ["LARGEST", "OTHER", "TAKEN_AS", "CategoryColumn", "NumberColumn", "TableEncoder", "choose_levels"]

Array = NDArray[np.float64]

OTHER = "(other)"
TAKEN_AS = "was taken as"  # by which notes on what a column was taken for are known
_WORDS = {"number": "a number", "category": "categories"}
_MOST_CODES = 10  # as many different whole numbers may be codes; as for sensitive columns
_MIN_IDENTIFIERS = 20  # so many whole numbers, all different, are hardly measurements
_BOOLEANS = ("false", "true")
_MOST_WRITTEN_OUT = 100  # features, up to which a plain array is as fast as codes
LARGEST = 1e150  # the square of a larger number, and so a variance, is beyond what a float can hold


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
        values = _numbers(column)
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
        return {"missing": int(np.isnan(_numbers(column)).sum())}

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


_KINDS: dict[str, type[NumberColumn] | type[CategoryColumn]] = {
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


def _numbers(column: pd.Series) -> Array:
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


@dataclass(frozen=True)
class TableEncoder:
    """A fitted encoding of a frame as a matrix; plain data, so that it can be written down.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [20, 30, 40], "job": ["a", "b", "a"]})
    >>> encoder = TableEncoder.fit(frame, min_frequency=1)
    >>> encoder.feature_names
    ['age', 'job=b']
    >>> encoder.transform(frame).round(2).tolist()
    [[-1.22, 0.0], [0.0, 1.0], [1.22, 0.0]]
    """

    columns: tuple[NumberColumn | CategoryColumn, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)
    taken: tuple[str, ...] = field(default=(), compare=False)
    suspects: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def fit(
        cls,
        frame: pd.DataFrame,
        *,
        min_frequency: float = 0.005,
        max_levels: int = 50,
        scale: bool = True,
        categorical: Sequence[str] = (),
        numeric: Sequence[str] = (),
    ) -> TableEncoder:
        """Learn the encoding of a frame.

        Parameters
        ----------
        frame : DataFrame
        min_frequency : float
            Levels of fewer people than this are merged: a share if below 1, otherwise a number of people.
        max_levels : int
            Largest number of levels kept per column, the most frequent ones.
        scale : bool
            Whether numbers are standardised.
        categorical, numeric : lists of column names
            Columns to take as categories or as numbers, whatever they look like. ``taken`` says for every column what
            it was taken for and why, ``suspects`` which numbers look like codes or identifiers.
        """
        if not min_frequency >= 0:
            raise DataError(f"min_frequency must be zero or positive, got {min_frequency}.", field="min_frequency")
        least = min_frequency if min_frequency >= 1 else max(2.0, min_frequency * len(frame))
        columns: list[NumberColumn | CategoryColumn] = []
        notes: list[str] = []
        taken: list[str] = []
        suspects: list[str] = []
        codes: dict[str, int] = {}
        for name in frame.columns:
            kind, reason = _kind(frame[name], name in categorical, name in numeric)
            column, said = _fit_column(frame[name], kind, least, max_levels, scale)
            notes += said
            if column is not None:
                columns.append(column)
                taken.append(f"{shorten(name)!r} {TAKEN_AS} {_WORDS[kind]}: {reason}.")
                if kind == NumberColumn.kind and name not in numeric:
                    suspects += _identifier(frame[name])
                    codes |= _codes(frame[name])
        if not columns:
            raise DataError("No feature is left to learn from: all columns are constant or left out.")
        return cls(tuple(columns), tuple(notes), tuple(taken), (*suspects, *_codes_in_words(codes)))

    @property
    def feature_names(self) -> list[str]:
        """Names of the matrix's columns."""
        return [feature for column in self.columns for feature in column.features]

    def column_of(self, feature: int) -> str:
        """Return the name of the table's column that a feature, given by its index, comes from."""
        owners = [column.name for column in self.columns for _ in column.features]
        return owners[feature]

    def transform(self, frame: pd.DataFrame) -> Array:
        """Return the matrix of a frame, shape (n, number of features)."""
        self.check_columns(frame)
        X = np.zeros((len(frame), len(self.feature_names)))
        start = 0
        for column in self.columns:
            stop = start + len(column.features)
            column.encode(frame[find_column(frame, column.name, "feature")], X[:, start:stop])
            start = stop
        return X

    def check_columns(self, frame: pd.DataFrame) -> None:
        """Name all columns that are missing at once; of a single one :func:`find_column` says more."""
        missing = [column.name for column in self.columns if column.name not in frame.columns]
        listed = ", ".join(repr(shorten(name, 30)) for name in missing)
        advice = "The model was trained with it: add the column, or train again without it (exclude)."
        if len(missing) > 1:
            advice = "The model was trained with them: add the columns, or train again without them (exclude)."
            raise DataError(f"The columns {listed} are missing. {advice}")
        if missing:
            try:
                find_column(frame, missing[0], "feature")
            except DataError as error:
                raise DataError(f"{error} {advice}", field=error.field) from None

    def compact(self, frame: pd.DataFrame) -> Array | CodedMatrix:
        """Return the same matrix, with categories as codes where there are so many that they would take long."""
        if len(self.feature_names) <= _MOST_WRITTEN_OUT:
            return self.transform(frame)
        self.check_columns(frame)
        numbers, places, codes, sizes, starts, start = [], [], [], [], [], 0
        for column in self.columns:
            values = frame[find_column(frame, column.name, "feature")]
            if isinstance(column, CategoryColumn):
                where = column.places(values)
                codes.append(np.where(where < 0, len(column.levels), where).astype(np.int32))
                sizes.append(len(column.levels))
                starts.append(start)
            else:
                out = np.empty((len(frame), 1))
                column.encode(values, out)
                numbers.append(out)
                places.append(start)
            start += len(column.features)
        stacked = np.hstack(numbers) if numbers else np.empty((len(frame), 0))
        sources = [column.name for column in self.columns]
        where_numbers = np.array(places, dtype=np.intp)
        return CodedMatrix(stacked, where_numbers, codes, sizes, starts, self.feature_names, sources)

    def warnings(self, frame: pd.DataFrame) -> list[str]:
        """Return notes on what in a frame differs from the data that the encoding was learnt from."""
        return self.notes_on(self.count_different(frame))

    def count_different(self, frame: pd.DataFrame) -> Counter[tuple[str, str]]:
        """Return how many values of a frame are missing or were never seen, by column and by which of the two."""
        found: Counter[tuple[str, str]] = Counter()
        for column in self.columns:
            counts = column.count_different(frame[column.name])
            found.update({(column.name, kind): number for kind, number in counts.items() if number})
        return found

    def notes_on(self, different: Mapping[tuple[str, str], int]) -> list[str]:
        """Return notes on what :meth:`count_different` counted."""
        columns = {column.name: column for column in self.columns}
        order = {name: k for k, name in enumerate(columns)}
        found = sorted(different, key=lambda key: (order[key[0]], key[1]))
        return [columns[name].difference(kind, different[name, kind]) for name, kind in found]

    def to_dict(self) -> dict[str, Any]:
        """Return the encoding as plain data."""
        rows = [{"kind": column.kind, **asdict(column)} for column in self.columns]
        return {"columns": [{k: list(v) if isinstance(v, tuple) else v for k, v in row.items()} for row in rows]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TableEncoder:
        """Return the encoding that :meth:`to_dict` wrote down."""
        columns = []
        for row in plain["columns"]:
            values = dict(row)
            kind = values.pop("kind")
            if kind not in _KINDS:
                raise ValueError(f"unknown kind of column {kind!r}")
            columns.append(_KINDS[kind](**values))
        names = [column.name for column in columns]
        if len(set(names)) < len(names):
            raise ValueError("two columns have the same name")
        return cls(tuple(columns))


def _kind(column: pd.Series, is_category: bool, is_number: bool) -> tuple[str, str]:
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
    values = _numbers(column)
    values = values[~np.isnan(values)]
    return len(np.unique(values)) if np.all(values == np.rint(values)) else 0


def _identifier(column: pd.Series) -> list[str]:
    """Return a sentence on a column of numbers that looks like an identifier."""
    if _whole_numbers(column) != len(column) or len(column) < _MIN_IDENTIFIERS:
        return []
    label = shorten(column.name)
    return [f"{label!r} has another whole number for everybody and is taken as a number: exclude identifiers."]


def _codes(column: pd.Series) -> dict[str, int]:
    """Return the number of different values of a column of numbers that looks like codes of categories."""
    distinct = _whole_numbers(column)
    is_identifier = distinct == len(column) >= _MIN_IDENTIFIERS
    return {shorten(column.name): distinct} if 2 < distinct <= _MOST_CODES and not is_identifier else {}


def _codes_in_words(codes: Mapping[str, int]) -> list[str]:
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


def _fit_column(
    column: pd.Series, kind: str, least: float, max_levels: int, scale: bool
) -> tuple[NumberColumn | CategoryColumn | None, list[str]]:
    name, label = str(column.name), shorten(column.name)
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        return None, [f"{label!r} holds dates and was left out; turn it into numbers to use it."]
    if kind == NumberColumn.kind:
        return _fit_numbers(column, name, label, scale)
    return _fit_categories(column, name, least, max_levels)


def _fit_numbers(
    column: pd.Series, name: str, label: str, scale: bool
) -> tuple[NumberColumn | CategoryColumn | None, list[str]]:
    values = _numbers(column)
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
