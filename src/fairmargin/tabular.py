"""From a file of an analyst to matrices, and back to decisions on the next file.

Reading (CSV with any common delimiter, gzipped or not, and Parquet), the target and the sensitive columns as
groups, and one fitted encoder: numbers are imputed with the median and standardised, categories become
indicators against the most frequent level, rare levels and levels never seen before are one ("other"). Whatever
was chosen or repaired on the way is said in ``notes``, a sentence each.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "NULL", "null")
MISSING_GROUP = "(missing)"
OTHER = "(other)"
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
_SAMPLE = 1 << 16


class DataError(ValueError):
    """The data are not what they should be; the message says in one line what, and what to do."""


@dataclass(frozen=True)
class Table:
    """A file that was read: its frame, name and SHA-256, and what was found out while reading."""

    frame: pd.DataFrame
    source: str
    sha256: str
    notes: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What identifies the data: name of the file, checksum, rows and columns."""
        rows, columns = self.frame.shape
        return {"source": self.source, "sha256": self.sha256, "rows": rows, "columns": columns}


def table_of_frame(frame: pd.DataFrame, source: str, notes: Sequence[str] = ()) -> Table:
    """Return a table of a frame in memory, with the checksum of its text."""
    digest = hashlib.sha256(frame.to_csv(index=False).encode()).hexdigest()
    return Table(frame, source, digest, tuple(notes))


def read_table(
    path: str | Path,
    *,
    names: str | Sequence[str] | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    missing: Iterable[str] = MISSING,
) -> Table:
    """Read a CSV or Parquet file.

    Parameters
    ----------
    path : path
    names : str or list of str, optional
        Names of the columns of a file without header: a list, text with commas, a file with a name a line (UCI's
        ``name: values.`` too), or ``"adult"``. By default a header is looked for; without one, UCI Adult is
        recognised, and other columns are numbered.
    delimiter : str, optional
        By default the one of comma, semicolon, tab and vertical bar that splits the first lines most evenly.
    encoding : str, default="utf-8"
    missing : texts that stand for a missing value
    """
    path = Path(path)
    content = _content(path)
    digest = hashlib.sha256(content).hexdigest()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    if content[:4] == b"PAR1":
        frame, notes = _read_parquet(path, content), list[str]()
    else:
        frame, notes = _read_csv(path.name, content, names, delimiter, encoding, tuple(missing))
    if frame.shape[1] == 0 or len(frame) == 0:
        raise DataError(f"{path.name} has no rows of data.")
    frame.columns = _clean_names(frame.columns)
    return Table(frame, path.name, digest, tuple(notes))


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"There is no file {str(path)!r}{_nearby(path)}") from None
    except IsADirectoryError:
        raise DataError(f"{str(path)!r} is a folder, not a file.") from None
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from None
    if not content.strip():
        raise DataError(f"{path.name} is empty.")
    return content


def _nearby(path: Path) -> str:
    try:
        others = [p.name for p in path.parent.iterdir()]
    except OSError:
        return f"; the folder {str(path.parent)!r} does not exist either."
    near = difflib.get_close_matches(path.name, others, n=1)
    return f"; did you mean {near[0]!r}?" if near else "."


def _read_parquet(path: Path, content: bytes) -> pd.DataFrame:
    try:
        return pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise DataError('Reading Parquet needs pyarrow: pip install "fairmargin[cli]".') from None
    except Exception as error:  # pyarrow has many; none of them is ours
        raise DataError(f"{path.name} is a damaged Parquet file: {_one_line(error)}.") from None


def _read_csv(
    source: str,
    content: bytes,
    names: str | Sequence[str] | None,
    delimiter: str | None,
    encoding: str,
    missing: tuple[str, ...],
) -> tuple[pd.DataFrame, list[str]]:
    if b"\0" in content[:4096]:
        raise DataError(f"{source} is neither a text file nor Parquet.")
    content = content.removeprefix(b"\xef\xbb\xbf")
    skipped, content = _without_comment(content)
    notes = [f"The first line of {source} is a comment and was skipped."] if skipped else []
    try:
        sample = content[:_SAMPLE].decode(encoding, errors="strict" if len(content) <= _SAMPLE else "ignore")
    except (UnicodeDecodeError, LookupError):
        raise DataError(f"{source} is not {encoding} text; give its encoding, e.g. --encoding latin-1.") from None
    guessed = _guess_delimiter(sample)
    if delimiter is None:
        delimiter = guessed
        if delimiter != ",":
            notes.append(f"Columns are separated by {_DELIMITERS[delimiter]}s.")
    elif len(delimiter) != 1:
        raise DataError(f"The delimiter must be one character, got {delimiter!r}.")
    records = _records(sample, delimiter)
    if len(records[0]) < 2 and guessed != delimiter:
        raise DataError(
            f"{source} has one column when read with the delimiter {delimiter!r}; it looks {_DELIMITERS[guessed]}-"
            f"separated: --delimiter {guessed!r}."
        )
    header, columns, said = _choose_names(source, records, names)
    frame = _parse_csv(source, content, delimiter, encoding, missing, header, columns)
    return frame, [*notes, *said]


def _without_comment(content: bytes) -> tuple[bool, bytes]:
    """Drop a first line such as that of ``adult.test`` ("|1x3 Cross validator")."""
    first, _, rest = content.partition(b"\n")
    if first.startswith((b"|", b"#")) and b"," not in first and b";" not in first and b"\t" not in first:
        return True, rest
    return False, content


def _parse_csv(
    source: str,
    content: bytes,
    delimiter: str,
    encoding: str,
    missing: tuple[str, ...],
    header: bool,
    columns: list[str] | None,
) -> pd.DataFrame:
    try:
        return pd.read_csv(
            io.BytesIO(content),
            sep=delimiter,
            encoding=encoding,
            header=0 if header else None,
            names=columns,
            index_col=False,
            skipinitialspace=True,
            na_values=list(missing),
            keep_default_na=False,
            low_memory=False,
        )
    except UnicodeDecodeError:
        raise DataError(f"{source} is not {encoding} text; give its encoding, e.g. --encoding latin-1.") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if found:
            expected, line, saw = found.groups()
            raise DataError(f"Line {line} of {source} has {saw} columns where the first has {expected}.") from None
        raise DataError(f"{source} is no proper CSV file: {_one_line(error)}.") from None


def _records(sample: str, delimiter: str) -> list[list[str]]:
    text = sample if len(sample) < _SAMPLE // 2 else sample[: sample.rfind("\n") + 1] or sample
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
        found = [[cell.strip() for cell in row] for _, row in zip(range(100), rows, strict=False) if row]
    except csv.Error as error:
        raise DataError(f"This is no proper CSV file: {_one_line(error)}.") from None
    return found or [[""]]


def _guess_delimiter(sample: str) -> str:
    """Return the delimiter under which most of the first lines have the same number of columns."""

    def evenness(delimiter: str) -> tuple[float, int]:
        sizes = Counter(len(row) for row in _records(sample, delimiter))
        size, often = sizes.most_common(1)[0]
        return (often / sizes.total(), size) if size > 1 else (0.0, 0)

    return max(_DELIMITERS, key=evenness)


def _choose_names(
    source: str, records: list[list[str]], names: str | Sequence[str] | None
) -> tuple[bool, list[str] | None, list[str]]:
    """Return whether the first line is a header, the names to use instead of it, and what to say."""
    header = _has_header(records)
    width = len(records[0])
    if names is not None:
        given = _given_names(names)
        if len(given) != width:
            raise DataError(f"--names has {len(given)} names, but {source} has {width} columns.")
        return header, given, [f"The header of {source} is replaced by the names given."] if header else []
    if header:
        return True, None, []
    if _is_adult(records[0]):
        return False, _adult_names(), [f"{source} has no header; it was recognised as UCI Adult and named so."]
    said = f"{source} has no header; its columns are called column_1 to column_{width} (name them with --names)."
    return False, [f"column_{k + 1}" for k in range(width)], [said]


def _has_header(records: list[list[str]]) -> bool:
    """A first line is a header unless it looks like the lines that follow."""
    first, rest = records[0], records[1:20]
    numeric = [bool(rest) and all(_is_number(row[k]) for row in rest if len(row) > k) for k in range(len(first))]
    if any(column and not _is_number(cell) for column, cell in zip(numeric, first, strict=True)):
        return True
    return not any(_is_number(cell) for cell in first if cell)


def _is_number(cell: str) -> bool:
    if cell in MISSING:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _given_names(names: str | Sequence[str]) -> list[str]:
    if not isinstance(names, str):
        return [str(name) for name in names]
    if names == "adult":
        return _adult_names()
    if "," in names:
        return [name.strip() for name in names.split(",")]
    try:
        text = Path(names).read_text(encoding="utf-8")
    except OSError:
        raise DataError(f"--names takes names with commas between, 'adult', or a file; {names!r} is none.") from None
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("|", "#"))]
    if len(lines) == 1:
        return [name.strip() for name in lines[0].split(",")]
    described = [line.split(":")[0].strip() for line in lines if re.match(r"^[\w .\-]+:\s*\S", line)]
    return described or [line.strip() for line in lines]


def _is_adult(row: list[str]) -> bool:
    return len(row) == 15 and row[9] in ("Male", "Female") and row[14].rstrip(".") in ("<=50K", ">50K")


def _adult_names() -> list[str]:
    from fairmargin.datasets.adult import COLUMNS

    return list(COLUMNS)


def _clean_names(columns: Iterable[Any]) -> pd.Index:
    given = [str(c) for c in columns]
    stripped = [name.strip() for name in given]
    if len(set(stripped)) == len(stripped):
        return pd.Index(stripped, dtype=object)
    return pd.Index(given if len(set(given)) == len(given) else _numbered(given), dtype=object)


def _numbered(names: list[str]) -> list[str]:
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        result.append(f"{name}.{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return result


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:200].rstrip(".")


def find_column(frame: pd.DataFrame, name: str, role: str = "column") -> str:
    """Return ``name`` if it is a column; otherwise say which name is nearest."""
    if name in frame.columns:
        return name
    columns = [str(c) for c in frame.columns]
    folded = {c.casefold().replace("-", "_"): c for c in columns}
    near = folded.get(name.casefold().replace("-", "_"))
    if near is None:
        near = next(iter(difflib.get_close_matches(name, columns, n=1)), None)
    if near is not None:
        raise DataError(f"There is no {role} {_short(name)!r}; did you mean {_short(near)!r}?")
    if len(columns) == 1:
        raise DataError(
            f"There is no {role} {_short(name)!r}: the file has one column, {_short(columns[0])!r}. "
            "If it has another delimiter, give --delimiter."
        )
    listed = ", ".join(_short(c, 30) for c in columns[:12]) + (", ..." if len(columns) > 12 else "")
    hint = " (no header was found; give --names)" if columns[0] == "column_1" else ""
    raise DataError(f"There is no {role} {_short(name)!r}; the columns are {listed}{hint}.")


def _short(text: object, width: int = 60) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


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
    name = _short(column.name)
    if len(values) > 2:
        listed = ", ".join(repr(_short(v, 20)) for v in values[:6]) + (", ..." if len(values) > 6 else "")
        raise DataError(f"The column {name!r} has {len(values)} values ({listed}); exactly two are needed.")
    if len(values) < 2:
        only = repr(_short(values[0])) if values else "nothing at all"
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
        f"--positive {_short(positive)!r} does not occur in {name!r}; its values are {values[0]!r} and {values[1]!r}."
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
    name, notes = _short(column.name), []
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
        raise DataError(f"Give at least one number at which to cut {_short(column.name)!r}.")
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
                f"The column {_short(column.name)!r} should hold numbers, but row {row + 1} has "
                f"{_short(column.iloc[row], 30)!r}."
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
            name = _short(column.name)
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
    name, label = str(column.name), _short(column.name)
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
        raise DataError(f"The column {_short(target)!r} cannot be the target and sensitive at once.")
    chosen = _feature_columns(frame, target, sensitive, features, exclude)
    y, known, labels = read_target(frame[target], positive)
    notes = list(table.notes)
    if not known.all():
        notes.append(f"{int((~known).sum()):,} people without a value of {_short(target)!r} were left out.")
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
            raise DataError(f"--bin names {_short(name)!r}, which is no sensitive column.")
    columns, notes = {}, []
    for name in sensitive:
        columns[name], said = group_column(frame[name], edges=(bins or {}).get(name), missing=missing)
        notes += said
        if columns[name].nunique() < 2:
            only = _short(columns[name].iloc[0]) if len(frame) else ""
            raise DataError(
                f"The sensitive column {_short(name)!r} has only one group ({only!r}): there is nothing to compare."
            )
    return pd.DataFrame(columns), notes


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
                    f"The column {_short(name)!r} cannot be a feature and the target or sensitive at once."
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
