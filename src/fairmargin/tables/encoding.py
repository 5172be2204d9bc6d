"""From columns to a matrix: one fitted encoder, which is plain data.

Numbers are imputed with the median and standardised. Categories become indicators against the most frequent level;
rare levels, and levels that turn up later, are one level ("other"). What was chosen is recorded in ``notes``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.coded_matrix import CodedMatrix
from fairmargin.exceptions import DataError
from fairmargin.formatting import shorten
from fairmargin.tables.column_kinds import COLUMN_KINDS, CategoryColumn, NumberColumn
from fairmargin.tables.column_learning import choose_kind, describe_codes, find_codes, find_identifier, fit_column
from fairmargin.tables.columns import find_column

__all__ = ["TAKEN_AS", "TableEncoder"]

Array = NDArray[np.float64]

TAKEN_AS = "was taken as"  # by which notes on what a column was taken for are known
_WORDS = {"number": "a number", "category": "categories"}
_MOST_WRITTEN_OUT = 100  # features, up to which a plain array is as fast as codes


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
            kind, reason = choose_kind(frame[name], name in categorical, name in numeric)
            column, said = fit_column(frame[name], kind, least, max_levels, scale)
            notes += said
            if column is not None:
                columns.append(column)
                taken.append(f"{shorten(name)!r} {TAKEN_AS} {_WORDS[kind]}: {reason}.")
                if kind == NumberColumn.kind and name not in numeric:
                    suspects += find_identifier(frame[name])
                    codes |= find_codes(frame[name])
        if not columns:
            raise DataError("No feature is left to learn from: all columns are constant or left out.")
        return cls(tuple(columns), tuple(notes), tuple(taken), (*suspects, *describe_codes(codes)))

    @property
    def feature_names(self) -> list[str]:
        """Names of the matrix's columns."""
        return [feature for column in self.columns for feature in column.features]

    def column_of(self, feature: int) -> str:
        """Return the name of the table's column that a feature, given by its index, comes from."""
        owners = [column.name for column in self.columns for _ in column.features]
        return owners[feature]

    def category_codes(self, X: Array | CodedMatrix) -> Iterator[tuple[str, int, NDArray[np.integer]]]:
        """Yield the name, the first feature and the codes (n,) of each categorical column of a matrix."""
        if isinstance(X, CodedMatrix):
            yield from X.categorical_columns()
            return
        start = 0
        for column in self.columns:
            stop = start + len(column.features)
            if column.kind == CategoryColumn.kind:
                yield column.name, start, (X[:, start:stop] @ np.arange(1, stop - start + 1)).astype(np.intp)
            start = stop

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
            if kind not in COLUMN_KINDS:
                raise ValueError(f"unknown kind of column {kind!r}")
            columns.append(COLUMN_KINDS[kind](**values))
        names = [column.name for column in columns]
        if len(set(names)) < len(names):
            raise ValueError("two columns have the same name")
        return cls(tuple(columns))
