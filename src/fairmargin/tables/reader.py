"""Reading a table from a file: CSV, gzipped or not, or Parquet.

What was inferred while reading is recorded in ``notes``, one sentence each.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fairmargin.exceptions import DataError
from fairmargin.formatting import shorten
from fairmargin.missing_file import describe_missing
from fairmargin.tables.csv_format import MISSING, read_csv

__all__ = ["MAX_BYTES", "MISSING", "Table", "read_table", "table_of_frame"]

MAX_BYTES = 4_000_000_000  # about what a workstation can hold; larger tables must be asked for


@dataclass(frozen=True)
class Table:
    """A table that was read: its frame, the file's name and SHA-256, and notes on how it was read."""

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
    """Return a table of a frame in memory, with the checksum of its CSV text."""
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
    max_bytes: int = MAX_BYTES,
    decimal: str = ".",
) -> Table:
    """Read a CSV or Parquet file.

    Every row of a CSV file must have as many fields as the first one; a row that has not raises an error that names
    its line.

    Parameters
    ----------
    path : path
        ``-`` is the standard input.
    names : str or list of str, optional
        Names of the columns of a file without header: a list, text separated by commas, a file with one name per
        line (UCI's ``name: values.`` too), or ``"adult"``. By default a header is looked for; without one, UCI Adult
        is recognised, and other columns are numbered.
    header : bool, optional
        Whether the first line holds names; by default it does unless it looks like the lines that follow.
    delimiter : str, optional
        By default whichever of comma, semicolon, tab and vertical bar splits the first lines most evenly.
    encoding : str, default="utf-8"
    missing : texts that stand for a missing value
    max_bytes : int
        Size above which a file that is compressed, or is no regular file, is refused: a few kilobytes of gzip or
        Parquet can hold many gigabytes. Uncompressed regular files are read whatever their size.
    decimal : {".", ","}, default="."
        The decimal mark of numbers in a CSV file.

    Raises
    ------
    DataError
        If the file cannot be read; ``field`` names the parameter to change, where there is one.
    """
    path = Path(path)
    content = _read_standard_input(max_bytes) if str(path) == "-" else _read_bytes(path, max_bytes)
    path = Path("standard input") if str(path) == "-" else path
    digest = hashlib.sha256(content).hexdigest()
    if content[:2] == b"\x1f\x8b":
        content = _decompress(path.name, content, max_bytes)
    if content[:4] == b"PAR1":
        frame, notes = _read_parquet(path.name, content, max_bytes)
    else:
        options: dict[str, Any] = {"names": names, "header": header, "delimiter": delimiter, "encoding": encoding}
        options["decimal"] = decimal
        frame, notes = read_csv(path.name, content, missing=tuple(missing), **options)
    if frame.shape[1] == 0 or len(frame) == 0:
        raise DataError(f"{path.name} has no rows of data.")
    frame.columns = _clean_names(frame.columns)
    return Table(frame, path.name, digest, tuple(notes))


def _read_bytes(path: Path, max_bytes: int) -> bytes:
    try:
        with open(path, "rb") as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            content = file.read() if regular else file.read(max_bytes + 1)
    except FileNotFoundError:
        raise DataError(describe_missing(path)) from None
    except IsADirectoryError:
        raise DataError(f"{str(path)!r} is a folder, not a file.") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise DataError(
            f"{shorten(path, 200)!r} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from None
    if not regular and len(content) > max_bytes:
        raise _too_large(path.name, max_bytes)
    if not content.strip():
        raise DataError(f"{path.name} is empty.")
    return content


def _read_standard_input(max_bytes: int) -> bytes:
    content = sys.stdin.buffer.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise _too_large("standard input", max_bytes)
    if not content.strip():
        raise DataError("The standard input is empty.")
    return content


def _too_large(name: str, max_bytes: int) -> DataError:
    return DataError(
        f"{name} holds more than {max_bytes:,} bytes; raise the limit if that is intended.", field="max_bytes"
    )


def _decompress(name: str, content: bytes, max_bytes: int) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            text = file.read(max_bytes + 1)
    except EOFError:
        raise DataError(f"{name} is a truncated gzip file: its end is missing.") from None
    except (OSError, zlib.error) as error:
        raise DataError(f"{name} is a damaged gzip file: {shorten(error, 100)}.") from None
    if len(text) > max_bytes:
        raise _too_large(name, max_bytes)
    if not text.strip():
        raise DataError(f"{name} is empty.")
    return text


def _read_parquet(name: str, content: bytes, max_bytes: int) -> tuple[pd.DataFrame, list[str]]:
    try:
        from pyarrow import parquet, types
    except ImportError:
        raise DataError('Reading Parquet needs pyarrow: pip install "fairmargin[cli]".') from None
    try:
        metadata = parquet.read_metadata(io.BytesIO(content))
        groups = (metadata.row_group(k) for k in range(metadata.num_row_groups))
        # Encoded pages can be far smaller than the values in memory, of eight bytes each at least.
        size = max(sum(group.total_byte_size for group in groups), 8 * metadata.num_rows * metadata.num_columns)
        if size > max_bytes:
            raise _too_large(name, max_bytes)
        schema = parquet.read_schema(io.BytesIO(content))
        nested = [field.name for field in schema if types.is_nested(field.type)]
        columns = [field.name for field in schema if field.name not in nested] if nested else None
        frame = pd.read_parquet(io.BytesIO(content), columns=columns)
    except DataError:
        raise
    except Exception as error:  # pyarrow has many; none of them is ours
        raise DataError(f"{name} is a damaged Parquet file: {shorten(error, 200).rstrip('.')}.") from None
    # pandas writes a frame's index as a column; it is data like the others where it has a name.
    named = any(level is not None for level in frame.index.names)
    notes = [f"{shorten(column)!r} holds lists or records and was left out." for column in nested]
    return frame.reset_index(drop=not named), notes


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
