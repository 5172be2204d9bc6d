"""The dialect of a CSV file, inferred from its first lines, and its rows as a frame."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd

from fairmargin.exceptions import DataError
from fairmargin.formatting import shorten

__all__ = ["MISSING", "read_csv"]

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "NULL", "null")
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
_ADULT_WIDTH = 15  # columns of UCI Adult
_SAMPLE = 1 << 16  # bytes from which the dialect is inferred: some hundred lines of a usual table
_SAMPLE_ROWS = 100  # at most, of these bytes


def read_csv(
    source: str,
    content: bytes,
    *,
    names: str | Sequence[str] | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    missing: tuple[str, ...] = MISSING,
    decimal: str = ".",
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of a CSV file, and notes on what was inferred.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    content : bytes
    names, header, delimiter, encoding, missing, decimal
        As in :func:`fairmargin.tables.read_table`.
    """
    content = _as_utf8(source, content, encoding)
    skipped, content = _without_comment(content)
    notes = [f"The first line of {source} is a comment and was skipped."] if skipped else []
    sample = _sample(source, content)
    guessed = _guess_delimiter(sample)
    if delimiter is None:
        delimiter = guessed
        if delimiter != ",":
            notes.append(f"Columns are separated by {_DELIMITERS[delimiter]}s.")
    _check_delimiter(delimiter)
    records = _records(sample, delimiter)
    if len(records[0]) < 2 and guessed != delimiter:
        raise DataError(
            f"{source} has one column when read with the delimiter {delimiter!r}; it looks "
            f"{_DELIMITERS[guessed]}-separated.",
            field="delimiter",
            suggestion=guessed,
        )
    if header is None:
        header = _has_header(records)
    columns, said = _choose_names(source, records, names, header)
    _check_widths(source, content, delimiter, len(records[0]), lines_before=int(skipped))
    if decimal not in (".", ",") or decimal == delimiter:
        raise DataError(
            f"The decimal mark is a point or a comma, not the delimiter; got {shorten(decimal)!r}.",
            field="decimal",
        )
    frame = _parse(source, content, delimiter, missing, header, columns, decimal)
    if columns is not None and len(columns) == _ADULT_WIDTH and columns == _adult_names():
        said += _drop_full_stops(source, frame)
    return frame, [*notes, *said]


def _as_utf8(source: str, content: bytes, encoding: str) -> bytes:
    """Return the text in UTF-8 without byte order mark."""
    try:
        if codecs.lookup(encoding).name == "utf-8":
            content = content.removeprefix(codecs.BOM_UTF8)
        else:
            content = content.decode(encoding).removeprefix("\ufeff").encode()
    except UnicodeError:
        raise _wrong_encoding(source, content, encoding) from None
    except LookupError:
        raise DataError(f"There is no text encoding {shorten(encoding)!r}.", field="encoding") from None
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise _wrong_encoding(source, content, encoding)
    if b"\0" in content:
        raise DataError(f"{source} is neither a text file nor Parquet.")
    return content


def _wrong_encoding(source: str, content: bytes, encoding: str) -> DataError:
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return DataError(
        f"{source} is not {shorten(encoding)} text; give its encoding.",
        field="encoding",
        suggestion="utf-16" if is_utf16 else "latin-1",
    )


def _without_comment(content: bytes) -> tuple[bool, bytes]:
    """Drop a first line such as that of ``adult.test`` ("|1x3 Cross validator")."""
    first, _, rest = content.partition(b"\n")
    if first.startswith((b"|", b"#")) and b"," not in first and b";" not in first and b"\t" not in first:
        return True, rest
    return False, content


def _sample(source: str, content: bytes) -> str:
    """Return the first lines, whole ones only."""
    end = content.find(b"\n", _SAMPLE)
    try:
        return (content if end < 0 else content[: end + 1]).decode()
    except UnicodeDecodeError:
        raise _wrong_encoding(source, content, "utf-8") from None


def _check_delimiter(delimiter: str) -> None:
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise DataError(
            f"The delimiter must be one ASCII character, no quote or line break, got {shorten(delimiter)!r}.",
            field="delimiter",
        )


def _split(text: TextIO, delimiter: str) -> Any:
    """Return a reader that splits text into rows the same way as pandas does."""
    return csv.reader(text, delimiter=delimiter, skipinitialspace=True)


def _records(sample: str, delimiter: str) -> list[list[str]]:
    try:
        rows = _split(io.StringIO(sample, newline=""), delimiter)
        found = [[cell.strip() for cell in row] for _, row in zip(range(_SAMPLE_ROWS), rows, strict=False) if row]
    except csv.Error as error:
        raise DataError(f"This is no proper CSV file: {shorten(error, 200)}.") from None
    return found or [[""]]


def _guess_delimiter(sample: str) -> str:
    """Return the delimiter under which most of the first lines have the same number of columns."""

    def evenness(delimiter: str) -> tuple[float, int]:
        try:
            sizes = Counter(len(row) for row in _records(sample, delimiter))
        except DataError:  # the wrong delimiter can make a field longer than any may be
            return 0.0, 0
        size, often = sizes.most_common(1)[0]
        return (often / sizes.total(), size) if size > 1 else (0.0, 0)

    return max(_DELIMITERS, key=evenness)


def _has_header(records: list[list[str]]) -> bool:
    """Return whether the first line is a header: it is unless it looks like the lines that follow."""
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


def _choose_names(
    source: str, records: list[list[str]], names: str | Sequence[str] | None, header: bool
) -> tuple[list[str] | None, list[str]]:
    """Return the names to use, None for those of the header, and notes."""
    width = len(records[0])
    if names is not None:
        given = _given_names(names)
        if len(given) != width:
            raise DataError(f"{len(given)} names are given, but {source} has {width} columns.", field="names")
        twice = [name for name, count in Counter(given).items() if count > 1]
        if twice:
            raise DataError(f"The name {shorten(twice[0])!r} is given to two columns.", field="names")
        return given, [f"The header of {source} is replaced by the names given."] if header else []
    if header:
        return None, []
    if _is_adult(records[0]):
        return _adult_names(), [f"{source} has no header; it was recognised as UCI Adult and named so."]
    said = f"{source} has no header; its columns are called column_1 to column_{width} (other names can be given)."
    return [f"column_{k + 1}" for k in range(width)], [said]


def _given_names(names: str | Sequence[str]) -> list[str]:
    if not isinstance(names, str):
        return [str(name) for name in names]
    if names == "adult":
        return _adult_names()
    if "," in names:
        return [name.strip() for name in names.split(",")]
    try:
        text = Path(names).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise DataError(
            f"Names are text with commas between, 'adult', or a text file; {shorten(names)!r} is none of these.",
            field="names",
        ) from None
    return _listed_names(text)


def _listed_names(text: str) -> list[str]:
    """Return the names in a text: all in one line, one per line, or before the colons of lines (UCI)."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("|", "#"))]
    if len(lines) == 1:
        return [name.strip() for name in lines[0].split(",")]
    described = [line.split(":")[0].strip() for line in lines if re.match(r"^[\w .\-]+:\s*\S", line)]
    return described or [line.strip() for line in lines]


def _is_adult(row: list[str]) -> bool:
    return len(row) == _ADULT_WIDTH and row[9] in ("Male", "Female") and row[14].rstrip(".") in ("<=50K", ">50K")


def _adult_names() -> list[str]:
    from fairmargin.datasets.adult import COLUMNS

    return list(COLUMNS)


def _drop_full_stops(source: str, frame: pd.DataFrame) -> list[str]:
    """Read the labels of ``adult.test``, which end in a full stop, as those of ``adult.data``; return a note."""
    label = frame.columns[-1]
    if not frame[label].isin(["<=50K.", ">50K."]).any():
        return []
    frame[label] = frame[label].str.rstrip(".")
    return [f"The labels of {source} end in a full stop, which was left out: '<=50K' and '>50K'."]


def _check_widths(source: str, content: bytes, delimiter: str, width: int, *, lines_before: int) -> None:
    """Raise unless every row has ``width`` fields: pandas drops or invents fields in rows that have not."""
    found = _first_odd_line(content, delimiter, width)
    if found is not None:
        line, fields = found
        raise DataError(
            f"Line {line + lines_before:,} of {source} has {fields} field{'' if fields == 1 else 's'} where the "
            f"first has {width}; a field that holds the delimiter must be quoted."
        )


def _first_odd_line(content: bytes, delimiter: str, width: int) -> tuple[int, int] | None:
    """Return the number of the first line that does not have ``width`` fields, and how many it has."""
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n")
    if b'"' in content or b"\r" in content:
        return _first_odd_quoted_line(content, delimiter, width)
    # Without quotes every delimiter counts, and counting bytes is much faster than splitting.
    data = np.frombuffer(content, dtype=np.uint8)
    ends = np.append(np.flatnonzero(data == ord("\n")), len(data))
    fields = np.diff(np.searchsorted(np.flatnonzero(data == ord(delimiter)), ends), prepend=0) + 1
    for line in np.flatnonzero(fields != width).tolist():
        start = int(ends[line - 1]) + 1 if line else 0
        if fields[line] > 1 or content[start : int(ends[line])].strip():  # blank lines are skipped
            return line + 1, int(fields[line])
    return None


def _first_odd_quoted_line(content: bytes, delimiter: str, width: int) -> tuple[int, int] | None:
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="replace", newline="")
    rows = _split(text, delimiter)
    line = 1
    try:
        for row in rows:
            if len(row) != width and not (len(row) <= 1 and not "".join(row).strip()):
                return line, len(row)
            line = rows.line_num + 1
    except csv.Error as error:
        raise DataError(f"Line {line:,} is no proper CSV: {shorten(error, 200)}.") from None
    return None


def _parse(
    source: str,
    content: bytes,
    delimiter: str,
    missing: tuple[str, ...],
    header: bool,
    columns: list[str] | None,
    decimal: str,
) -> pd.DataFrame:
    try:
        return pd.read_csv(
            io.BytesIO(content),
            sep=delimiter,
            decimal=decimal,
            header=0 if header else None,
            names=columns,
            index_col=False,
            skipinitialspace=True,
            na_values=list(missing),
            keep_default_na=False,
            low_memory=False,
        )
    except UnicodeDecodeError:
        raise _wrong_encoding(source, content, "utf-8") from None
    except pd.errors.EmptyDataError:
        raise DataError(f"{source} has no rows of data.") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, OverflowError) as error:
        raise DataError(f"{source} is no proper CSV file: {shorten(error, 200).rstrip('.')}.") from None
