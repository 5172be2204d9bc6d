"""Reading the file of an analyst: CSV with any common delimiter, gzipped or not, with or without header; Parquet.

Whatever was found out on the way is said in ``notes``, a sentence each; what is wrong is said in one line.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["MISSING", "DataError", "Table", "find_column", "read_table", "shorten", "table_of_frame"]

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "NULL", "null")
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
    header: bool | None = None,
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
    header : bool, optional
        Whether the first line holds names; by default it does unless it looks like the lines that follow.
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
        frame, notes = _read_csv(path.name, content, names, header, delimiter, encoding, tuple(missing))
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
    header: bool | None,
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
    if header is None:
        header = _has_header(records)
    columns, said = _choose_names(source, records, names, header)
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
    source: str, records: list[list[str]], names: str | Sequence[str] | None, header: bool
) -> tuple[list[str] | None, list[str]]:
    """Return the names to use, None for those of the header, and what to say about it."""
    width = len(records[0])
    if names is not None:
        given = _given_names(names)
        if len(given) != width:
            raise DataError(f"--names has {len(given)} names, but {source} has {width} columns.")
        return given, [f"The header of {source} is replaced by the names given."] if header else []
    if header:
        return None, []
    if _is_adult(records[0]):
        return _adult_names(), [f"{source} has no header; it was recognised as UCI Adult and named so."]
    said = f"{source} has no header; its columns are called column_1 to column_{width} (name them with --names)."
    return [f"column_{k + 1}" for k in range(width)], [said]


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
        raise DataError(f"There is no {role} {shorten(name)!r}; did you mean {shorten(near)!r}?")
    if len(columns) == 1:
        raise DataError(
            f"There is no {role} {shorten(name)!r}: the file has one column, {shorten(columns[0])!r}. "
            "If it has another delimiter, give --delimiter."
        )
    listed = ", ".join(shorten(c, 30) for c in columns[:12]) + (", ..." if len(columns) > 12 else "")
    hint = " (no header was found; give --names)" if columns[0] == "column_1" else ""
    raise DataError(f"There is no {role} {shorten(name)!r}; the columns are {listed}{hint}.")


def shorten(text: object, width: int = 60) -> str:
    """Return a text on one line, cut to ``width``, for messages."""
    line = " ".join(str(text).split())
    return line if len(line) <= width else line[: width - 1] + "…"
