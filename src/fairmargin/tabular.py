"""From the table of an analyst to matrices, and back to decisions on the next table.

The target and the sensitive columns as groups, and one fitted encoder: numbers are imputed with the median and
standardised, categories become indicators against the most frequent level, rare levels and levels never seen before
are one ("other"). Whatever was chosen or repaired on the way is said in ``notes``, a sentence each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.reading import DataError, Table, find_column, read_table, shorten, table_of_frame

__all__ = [
    "DataError",
    "Study",
    "Table",
    "TableEncoder",
    "TabularModel",
    "find_column",
    "group_column",
    "prepare",
    "read_table",
    "read_target",
    "table_of_frame",
]

Array = NDArray[np.float64]

MISSING_GROUP = "(missing)"
OTHER = "(other)"


def read_target(
    column: pd.Series, positive: str | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], tuple[str, str]]:
    """Return who is positive, whose target is known, and the texts of the negative and the positive value.

    Parameters
    ----------
    column : Series of two values
    positive : str, optional
        The positive value, as text; needed unless the values are 0 and 1, -1 and 1, or False and True.
    """
    known = column.notna().to_numpy()
    text = _as_text(column)
    values = sorted(set(text[known]), key=_number_first)
    name = shorten(column.name)
    if len(values) > 2:
        listed = ", ".join(repr(shorten(v, 20)) for v in values[:6]) + (", ..." if len(values) > 6 else "")
        raise DataError(f"The column {name!r} has {len(values)} values ({listed}); exactly two are needed.")
    if len(values) < 2:
        only = repr(shorten(values[0])) if values else "nothing at all"
        raise DataError(f"The column {name!r} holds only {only}; exactly two values are needed.")
    chosen = _positive_value(values, positive, name)
    negative = values[1 - values.index(chosen)]
    return text == chosen, known, (negative, chosen)


def _positive_value(values: list[str], positive: str | None, name: str) -> str:
    if positive is None:
        if values in (["0", "1"], ["-1", "1"], ["False", "True"]):
            return values[1]
        raise DataError(
            f"Say which value of {name!r} is the favourable one: --positive {values[0]!r} or {values[1]!r}."
        )
    if positive in values:
        return positive
    same = [v for v in values if _number_first(v) == _number_first(positive) and _number_first(v)[0] == 0]
    if same:
        return same[0]
    raise DataError(
        f"--positive {shorten(positive)!r} does not occur in {name!r}, whose values are {values[0]!r}, {values[1]!r}."
    )


def _number_first(value: str) -> tuple[int, Any]:
    try:
        return 0, float(value)
    except ValueError:
        return 1, value


def _as_text(column: pd.Series) -> NDArray[Any]:
    """Return every value as text, whole numbers without a decimal point; missing values are ""."""
    codes, values = pd.factorize(column)
    words = np.array([*(_word(v) for v in values), ""], dtype=object)
    return words[codes]


def _word(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def group_column(
    column: pd.Series, *, edges: Sequence[float] | None = None, missing: str = "group", max_groups: int = 12
) -> tuple[pd.Series, list[str]]:
    """Turn a sensitive column into groups with names, and say what was done.

    Parameters
    ----------
    column : Series
        Numbers of more than ten values are cut: at ``edges``, or into quarters.
    edges : list of float, optional
    missing : {"group", "error"}
        Whether people without a value are a group of their own, or an error.
    max_groups : int
        Of more groups than that, the smallest are put together.
    """
    name, notes = shorten(column.name), []
    if missing not in ("group", "error"):
        raise DataError(f"--missing-sensitive is group or error, not {shorten(missing)!r}.")
    unknown = column.isna().to_numpy()
    if unknown.any() and missing == "error":
        raise DataError(
            f"The sensitive column {name!r} is missing for {unknown.sum():,} people; fill it in, or make them a "
            "group with --missing-sensitive group."
        )
    number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if edges is not None and not number:
        raise DataError(f"The sensitive column {name!r} holds no numbers and cannot be cut at {list(edges)}.")
    if edges is None and number and column.nunique() > 10:
        edges = sorted({float(f"{q:.6g}") for q in column.quantile([0.25, 0.5, 0.75])})
        notes.append(f"{name!r} holds numbers and was cut into quarters (choose other limits with --bin).")
    words = _cut(column, edges) if edges is not None else _as_text(column)
    if unknown.any():
        words = np.where(unknown, MISSING_GROUP, words)
        notes.append(f"{name!r} is missing for {unknown.sum():,} people, who are a group of their own.")
    words, merged = _merge_rare_groups(words, max_groups)
    if merged:
        notes.append(f"{name!r} has {merged + max_groups - 1:,} groups; the {merged:,} smallest were put together.")
    return pd.Series(words, name=str(column.name), dtype=object), notes


def _cut(column: pd.Series, edges: Sequence[float]) -> NDArray[Any]:
    limits = sorted(float(e) for e in edges)
    if not limits:
        raise DataError(f"Give at least one number at which to cut {shorten(column.name)!r}.")
    words = [f"{low:g} to under {high:g}" for low, high in pairwise(limits)]
    words = [f"under {limits[0]:g}", *words, f"{limits[-1]:g} and over"]
    values = column.to_numpy(dtype=float, na_value=np.nan)
    return np.array(words, dtype=object)[np.searchsorted(limits, values, side="right").clip(max=len(limits))]


def _merge_rare_groups(words: NDArray[Any], max_groups: int) -> tuple[NDArray[Any], int]:
    codes, values = pd.factorize(words, sort=True)
    if len(values) <= max_groups:
        return words, 0
    order = np.argsort(-np.bincount(codes), kind="stable")
    rare = order[max_groups - 1 :]
    return np.where(np.isin(codes, rare), f"other ({len(rare)} groups)", words), len(rare)


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: imputed with ``median``, then ``(x - mean) / scale``."""

    name: str
    median: float
    mean: float
    scale: float
    missing: int = 0

    @property
    def features(self) -> list[str]:
        """Names of the features that the column becomes."""
        return [self.name]

    def encode(self, column: pd.Series, out: Array) -> None:
        """Write the column's feature to ``out`` (n, 1)."""
        values = _numbers(column)
        values = np.where(np.isnan(values), self.median, values)
        out[:, 0] = (values - self.mean) / self.scale


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: one indicator for each of ``levels``, none for ``reference``.

    ``OTHER`` among the levels stands for the ``merged`` rare ones and for values never seen before; where it
    is not a level, unseen values count as the reference.
    """

    name: str
    reference: str
    levels: tuple[str, ...]
    merged: int = 0
    missing: int = 0

    @property
    def features(self) -> list[str]:
        """Names of the features that the column becomes."""
        return [f"{self.name}={level}" for level in self.levels]

    def encode(self, column: pd.Series, out: Array) -> None:
        """Write the column's indicators to ``out`` (n, number of levels)."""
        codes, values = pd.factorize(column)
        position = {level: k for k, level in enumerate(self.levels)}
        position[self.reference] = -1
        other = position.get(OTHER, -1)
        words = [*(_word(v) for v in values), MISSING_GROUP]
        places = np.array([position.get(word, other) for word in words])[codes]
        rows = np.flatnonzero(places >= 0)
        out[rows, places[rows]] = 1.0

    def unseen(self, column: pd.Series) -> int:
        """Return how many people have a value that is no level of its own."""
        known = {self.reference, *self.levels}
        counts = column.value_counts(dropna=True)
        return int(sum(count for value, count in counts.items() if _word(value) not in known))


def _numbers(column: pd.Series) -> Array:
    if pd.api.types.is_numeric_dtype(column):
        values = column.to_numpy(dtype=float, na_value=np.nan)
    else:
        converted = pd.to_numeric(column, errors="coerce")
        wrong = (converted.isna() & column.notna()).to_numpy()
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(
                f"The column {shorten(column.name)!r} should hold numbers, but row {row + 1} has "
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

    @classmethod
    def fit(
        cls, frame: pd.DataFrame, *, min_frequency: float = 0.005, max_levels: int = 50, scale: bool = True
    ) -> TableEncoder:
        """Learn the encoding of a frame.

        Parameters
        ----------
        frame : DataFrame
        min_frequency : float
            Levels of fewer people than this are put together: a share below 1, a number of people from 1.
        max_levels : int
            A column's most frequent levels that are kept at most.
        scale : bool
            Whether numbers are standardised.
        """
        least = min_frequency if min_frequency >= 1 else max(2.0, min_frequency * len(frame))
        columns: list[NumberColumn | CategoryColumn] = []
        notes: list[str] = []
        for name in frame.columns:
            column, said = _fit_column(frame[name], least, max_levels, scale)
            notes += said
            if column is not None:
                columns.append(column)
        if not columns:
            raise DataError("No feature is left to learn from: all columns are constant or left out.")
        return cls(tuple(columns), tuple(notes))

    @property
    def feature_names(self) -> list[str]:
        """Names of the matrix's columns."""
        return [feature for column in self.columns for feature in column.features]

    def transform(self, frame: pd.DataFrame) -> Array:
        """Return the matrix of a frame, shape (n, number of features)."""
        X = np.zeros((len(frame), len(self.feature_names)))
        start = 0
        for column in self.columns:
            stop = start + len(column.features)
            column.encode(frame[find_column(frame, column.name, "feature")], X[:, start:stop])
            start = stop
        return X

    def warnings(self, frame: pd.DataFrame) -> list[str]:
        """Say what in a frame was not so in the data that the encoding was learnt from."""
        said = []
        for column in self.columns:
            values = frame[column.name]
            name = shorten(column.name)
            if isinstance(column, CategoryColumn):
                unseen = column.unseen(values)
                if unseen and OTHER not in column.levels:
                    said.append(f"{name!r} has values for {unseen:,} people that training never saw.")
            elif int(np.isnan(_numbers(values)).sum()):
                said.append(
                    f"{name!r} is missing for {int(np.isnan(_numbers(values)).sum()):,} people: the median is used."
                )
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return the encoding as plain data."""
        kinds = {NumberColumn: "number", CategoryColumn: "category"}
        rows = [{"kind": kinds[type(column)], **asdict(column)} for column in self.columns]
        for row in rows:
            if "levels" in row:
                row["levels"] = list(row["levels"])
        return {"columns": rows}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TableEncoder:
        """Return the encoding that :meth:`to_dict` wrote down."""
        columns: list[NumberColumn | CategoryColumn] = []
        for row in plain["columns"]:
            values = {key: value for key, value in row.items() if key != "kind"}
            if row["kind"] == "number":
                columns.append(NumberColumn(**values))
            elif row["kind"] == "category":
                columns.append(CategoryColumn(**{**values, "levels": tuple(values["levels"])}))
            else:
                raise ValueError(f"unknown kind of column {row['kind']!r}")
        return cls(tuple(columns))


def _fit_column(
    column: pd.Series, least: float, max_levels: int, scale: bool
) -> tuple[NumberColumn | CategoryColumn | None, list[str]]:
    name, label = str(column.name), shorten(column.name)
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        return None, [f"{label!r} holds dates and was left out; turn it into numbers to use it."]
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return _fit_numbers(column, name, label, scale)
    return _fit_categories(column, name, label, least, max_levels)


def _fit_numbers(
    column: pd.Series, name: str, label: str, scale: bool
) -> tuple[NumberColumn | CategoryColumn | None, list[str]]:
    values = _numbers(column)
    missing = int(np.isnan(values).sum())
    if missing == len(values):
        return None, [f"{label!r} has no values and was left out."]
    median = float(np.nanmedian(values))
    notes = [f"{label!r} is missing for {missing:,} people: the median {median:g} is used."] if missing else []
    values = np.where(np.isnan(values), median, values)
    spread = float(values.std())
    if not spread > 0:
        return None, [f"{label!r} is the same for everybody and was left out."]
    mean, spread = (float(values.mean()), spread) if scale else (0.0, 1.0)
    return NumberColumn(name, median, mean, spread, missing), notes


def _fit_categories(
    column: pd.Series, name: str, label: str, least: float, max_levels: int
) -> tuple[NumberColumn | CategoryColumn | None, list[str]]:
    codes, values = pd.factorize(column)
    words = np.array([*(_word(v) for v in values), MISSING_GROUP], dtype=object)
    counts: Counter[str] = Counter()
    for word, count in zip(words, np.bincount(codes % len(words), minlength=len(words)).tolist(), strict=True):
        if count:
            counts[word] += count
    missing = counts.get(MISSING_GROUP, 0)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    if len(ranked) < 2:
        return None, [f"{label!r} is the same for everybody and was left out."]
    kept = [word for word in ranked[:max_levels] if counts[word] >= least]
    rare = [word for word in ranked if word not in set(kept)]
    notes = []
    if missing:
        notes.append(f"{label!r} is missing for {missing:,} people, who are a level of their own.")
    if not kept:
        return None, [f"{label!r} has {len(ranked):,} values, none of them frequent, and was left out."]
    if rare:
        people = sum(counts[word] for word in rare)
        notes.append(f"{label!r}: {len(rare):,} rare of {len(ranked):,} values ({people:,} people) are put together.")
        kept.append(OTHER)
    levels = tuple(sorted(word for word in kept[1:]))
    if not levels:
        return None, [f"{label!r} is the same for everybody and was left out."]
    return CategoryColumn(name, kept[0], levels, len(rare), missing), notes


@dataclass(frozen=True)
class Part:
    """The people of training, or those held out: matrix, target, groups, and the columns they come from."""

    X: Array
    y: NDArray[np.int64]
    sensitive: pd.DataFrame
    frame: pd.DataFrame

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Study:
    """One question put to one table: encoded, grouped and split.

    ``labels`` are the texts of the negative and the positive value of the target; ``y`` is 1 for the second.
    """

    train: Part
    test: Part
    encoder: TableEncoder
    target: str
    labels: tuple[str, str]
    sensitive: tuple[str, ...]
    fingerprint: dict[str, Any]
    settings: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def people(self) -> int:
        """Number of people, of training and held out."""
        return len(self.train) + len(self.test)


def prepare(
    table: Table,
    *,
    target: str,
    sensitive: Sequence[str],
    positive: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    bins: Mapping[str, Sequence[float]] | None = None,
    missing_sensitive: str = "group",
    min_frequency: float = 0.005,
    max_levels: int = 50,
    scale: bool = True,
    test_share: float = 0.3,
    seed: int = 0,
) -> Study:
    """Put a question to a table: who gets the target, by which features, fair between which groups.

    The encoding is learnt from the people trained on. These are drawn so that every combination of target and
    groups has its share among those held out.

    Parameters
    ----------
    table : Table
    target, positive : str
        The column to predict and its favourable value.
    sensitive : list of str
        Columns that the classifier must be fair to; they are no features.
    features : list of str, optional
        By default all other columns, less ``exclude``.
    bins : mapping from column to limits, optional
        Where to cut sensitive numbers into groups.
    missing_sensitive : {"group", "error"}
    min_frequency, max_levels, scale
        As in :meth:`TableEncoder.fit`.
    test_share : float
        Share of the people who are held out; 0 for nobody.
    seed : int
    """
    frame = table.frame
    target = find_column(frame, target, "target column")
    sensitive = [find_column(frame, name, "sensitive column") for name in sensitive]
    if not sensitive:
        raise DataError("Name at least one sensitive column with --sensitive.")
    if len(set(sensitive)) < len(sensitive):
        raise DataError("A sensitive column is named twice.")
    if target in sensitive:
        raise DataError(f"The column {shorten(target)!r} cannot be the target and sensitive at once.")
    chosen = _feature_columns(frame, target, sensitive, features, exclude)
    y, known, labels = read_target(frame[target], positive)
    notes = list(table.notes)
    if not known.all():
        notes.append(f"{int((~known).sum()):,} people without a value of {shorten(target)!r} were left out.")
    frame, y = frame[known].reset_index(drop=True), y[known]
    groups, said = group_columns(frame, sensitive, bins, missing_sensitive)
    notes += said
    train, test = _split(y, groups, test_share, seed)
    encoder = TableEncoder.fit(
        frame.loc[train, chosen], min_frequency=min_frequency, max_levels=max_levels, scale=scale
    )
    X = encoder.transform(frame)

    def part(rows: NDArray[np.intp]) -> Part:
        return Part(X[rows], y[rows].astype(np.int64), groups.iloc[rows].reset_index(drop=True), frame.iloc[rows])

    settings = {
        "target": target,
        "positive": labels[1],
        "sensitive": list(sensitive),
        "features": chosen,
        "bins": {name: [float(e) for e in edges] for name, edges in (bins or {}).items()},
        "missing_sensitive": missing_sensitive,
        "min_frequency": min_frequency,
        "max_levels": max_levels,
        "scale": scale,
        "test_share": test_share,
        "seed": seed,
    }
    return Study(
        part(train),
        part(test),
        encoder,
        target,
        labels,
        tuple(sensitive),
        table.fingerprint,
        settings,
        (*notes, *encoder.notes),
    )


def group_columns(
    frame: pd.DataFrame, sensitive: Sequence[str], bins: Mapping[str, Sequence[float]] | None, missing: str
) -> tuple[pd.DataFrame, list[str]]:
    """Return the sensitive columns as groups, and what was done to them; refuse those of one group."""
    for name in bins or {}:
        if name not in sensitive:
            raise DataError(f"--bin names {shorten(name)!r}, which is no sensitive column.")
    columns, notes = {}, []
    for name in sensitive:
        columns[name], said = group_column(frame[name], edges=(bins or {}).get(name), missing=missing)
        notes += said
        if columns[name].nunique() < 2:
            only = shorten(columns[name].iloc[0]) if len(frame) else ""
            raise DataError(
                f"The sensitive column {shorten(name)!r} has only one group ({only!r}): there is nothing to compare."
            )
    return pd.DataFrame(columns).astype("category"), notes


def _feature_columns(
    frame: pd.DataFrame, target: str, sensitive: Sequence[str], features: Sequence[str] | None, exclude: Sequence[str]
) -> list[str]:
    left_out = {find_column(frame, name, "column") for name in exclude}
    if features is None:
        chosen = [str(c) for c in frame.columns if c != target and c not in sensitive and c not in left_out]
    else:
        chosen = [find_column(frame, name, "feature") for name in features]
        for name in chosen:
            if name in sensitive or name == target:
                raise DataError(
                    f"The column {shorten(name)!r} cannot be a feature and the target or sensitive at once."
                )
        chosen = [name for name in chosen if name not in left_out]
    if not chosen:
        raise DataError("No column is left to be a feature.")
    return chosen


def _split(
    y: NDArray[np.bool_], groups: pd.DataFrame, test_share: float, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw who is held out, within every combination of target and groups."""
    if not 0.0 <= test_share < 1.0:
        raise DataError(f"The share of people held out must be from 0 to less than 1, got {test_share}.")
    n = len(y)
    if n < 10:
        raise DataError(f"There are only {n} people with a known target; at least 10 are needed.")
    if test_share == 0.0:
        return np.arange(n), np.arange(0)
    keys = pd.factorize(pd.MultiIndex.from_frame(groups.assign(**{"": y})), sort=True)[0]
    rng = np.random.default_rng(seed)
    # A random order within each cell, and every cell gives up the same share: those ranked lowest.
    order = np.lexsort((rng.random(n), keys))
    sizes = np.bincount(keys)
    start = np.cumsum(sizes) - sizes
    rank = np.empty(n)
    rank[order] = (np.arange(n) - np.repeat(start, sizes) + rng.random(len(sizes)).repeat(sizes)) / sizes.repeat(
        sizes
    )
    held_out = rank < test_share
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


@dataclass(frozen=True)
class TabularModel:
    """A fitted classifier with the encoding of its table: from a frame to decisions, without sensitive columns.

    ``facts`` is plain data for people: settings, scores on held-out data, fingerprint of the training data.
    """

    estimator: Any
    encoder: TableEncoder
    target: str
    labels: tuple[str, str]
    sensitive: tuple[str, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    def scores(self, frame: pd.DataFrame) -> Array:
        """Return ``f(x)`` of every row."""
        return np.asarray(self.estimator.decision_function(self.encoder.transform(frame)))

    def decide(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return decision (as text of the target), score and, if there is one, probability of every row."""
        scores = self.scores(frame)
        words = np.array(self.labels, dtype=object)[(scores >= 0).astype(int)]
        result = pd.DataFrame({"decision": words, "score": scores})
        if hasattr(self.estimator, "predict_proba"):
            from scipy.special import expit

            result["probability"] = expit(scores)
        return result
