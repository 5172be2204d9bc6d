"""Parquet files as a table in partitions: row groups, read one at a time."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairmargin.exceptions import DataError, DataFileError
from fairmargin.formatting import shorten
from fairmargin.partitioned.sources.arrow_types import as_coded, coded_schema
from fairmargin.partitioned.sources.parquet_files import Located, Stamp, filesystem, find_files, footer, stamps

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ParquetPartition", "ParquetSource", "Piece"]

# Row groups are read together up to this many rows: below, starting a task on a cluster (about a millisecond, and as
# much for its result) costs more than a tenth of decoding fifteen columns.
FEW_ROWS = 2**17

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # what pandas writes an index without a name as: no data
_NULL_KEY = "__HIVE_DEFAULT_PARTITION__"  # what Hive and Spark write where the value is missing


@dataclass(frozen=True)
class Key:
    """The value of one folder ``key=value``; `whole` if all values of that key are integers."""

    name: str
    value: int | str | None
    whole: bool

    @property
    def type(self) -> pyarrow.DataType:
        """Type of the column."""
        import pyarrow

        return pyarrow.int64() if self.whole else pyarrow.string()


@dataclass(frozen=True)
class Piece:
    """Row groups of one file that are next to each other: from `first` up to, not including, `end`."""

    version: Stamp
    first: int
    end: int
    rows: int
    keys: tuple[Key, ...] = ()

    @property
    def place(self) -> str:
        """Name of the file and numbers of the row groups, from 0."""
        groups = (
            f"row group {self.first}" if self.end == self.first + 1 else f"row groups {self.first} to {self.end - 1}"
        )
        return f"{self.version.file.name}, {groups}"

    def alone(self, k: int) -> Piece:
        """Return one of its row groups."""
        return Piece(self.version, k, k + 1, footer(self.version).row_group(k).num_rows, self.keys)

    def load(self, columns: Sequence[str]) -> pyarrow.Table:
        """Read the columns; see ``Partition.load``."""
        from pyarrow import parquet, types

        self.version.check()
        metadata = footer(self.version)
        schema = metadata.schema.to_arrow_schema()
        folders = [key for key in self.keys if key.name in columns]
        stored = [name for name in columns if name not in {key.name for key in folders}]
        _require(stored, schema.names, self.version.file.name)
        coded = coded_schema(schema)
        text = [name for name in stored if types.is_dictionary(coded.field(name).type)]
        system, path = filesystem(self.version.file.address)
        try:
            with system.open_input_file(path) as stream:
                how = {"read_dictionary": text, "page_checksum_verification": True}
                file = parquet.ParquetFile(stream, metadata=metadata, **how)
                table = file.read_row_groups(range(self.first, self.end), columns=stored, use_threads=False)
        except MemoryError:  # pyarrow's are among these, and engines say what to do
            raise
        except Exception as error:  # pyarrow has many; none of them is ours
            self.version.check()  # the likely reason
            raise DataFileError(f"{self.place} cannot be read: {shorten(error, 200)}.") from None
        self.version.check()
        return as_coded(_with_keys(table, folders, self.rows).select(list(columns)))


@dataclass(frozen=True)
class ParquetPartition:
    """Some row groups: one, or several small ones."""

    pieces: tuple[Piece, ...]

    @property
    def place(self) -> str:
        """Names of the first and the last file, and numbers of the row groups."""
        first, last = self.pieces[0].place, self.pieces[-1].place
        return first if len(self.pieces) == 1 else f"{first}, up to {last}"

    @property
    def rows(self) -> int:
        """Number of rows, from the footers."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def row_groups(self) -> list[ParquetPartition]:
        """Each row group as a partition of its own; none where there is one only."""
        found = [piece.alone(k) for piece in self.pieces for k in range(piece.first, piece.end)]
        return [ParquetPartition((piece,)) for piece in found] if len(found) > 1 else []

    def load(self, columns: Sequence[str]) -> pyarrow.Table:
        """Read the columns; see ``Partition.load``."""
        import pyarrow

        return pyarrow.concat_tables([piece.load(columns) for piece in self.pieces])


class ParquetSource:
    """Parquet files with the same columns.

    Parameters
    ----------
    paths : path, or list of paths
        Files, folders (searched with their subfolders), patterns such as ``"data/*.parquet"``, or addresses that
        pyarrow knows (``s3://``, ``hdfs://``). Folders ``key=value``, as Hive and Spark write them, are columns.

    Attributes
    ----------
    partitions : list of ParquetPartition
        Row groups in the order of the files' names; consecutive small ones together.
    schema : pyarrow.Schema
        Columns that all files have in the same type; text is dictionary-encoded. The index of a pandas frame is none.
    fingerprint : str
        SHA-256 of the footers, in order. Names and times of files do not count.

    Raises
    ------
    DataError
        If there is no such file, a file is not Parquet, no file has rows, or columns differ between files.
    """

    def __init__(self, paths: str | Path | Iterable[str | Path]) -> None:
        given = [paths] if isinstance(paths, str | Path) else list(paths)
        self._open([file for path in given for file in find_files(path)])

    @classmethod
    def of_files(cls, files: Iterable[Located]) -> ParquetSource:
        """Return a source of files whose folders are known."""
        source = cls.__new__(cls)
        source._open(list(files))
        return source

    def _open(self, files: Sequence[Located]) -> None:
        if not files:
            raise DataError("There are no files to read.")
        versions = stamps(files)
        keys = _typed_keys(files)
        self.schema = _common_schema(versions, keys[0])
        self.partitions = _partitions(versions, keys)
        if not self.partitions:
            raise DataError(f"{_several(files)} no rows of data.")
        digest = hashlib.sha256()
        for version, values in zip(versions, keys, strict=True):
            digest.update(f"{version.digest} {values}\n".encode())
        self.fingerprint = digest.hexdigest()

    @property
    def rows(self) -> int:
        """Number of rows, from the footers."""
        return sum(partition.rows for partition in self.partitions)


def _several(files: Sequence[Located]) -> str:
    return f"{files[0].name} has" if len(files) == 1 else f"The {len(files)} files have"


def _require(columns: Iterable[str], known: Sequence[str], name: str) -> None:
    for column in columns:
        if column not in known:
            near = difflib.get_close_matches(column, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise DataError(f"{name} has no column {shorten(column)!r}{hint}")


def _typed_keys(files: Sequence[Located]) -> list[tuple[Key, ...]]:
    """Return the values of folders ``key=value``, as integers where all of a key are."""
    names = [name for name, _ in files[0].keys]
    for file in files:
        if (others := [name for name, _ in file.keys]) != names:
            raise DataError(
                f"The folders of {file.name} name the columns {others}, those of {files[0].name} {names}."
            )
    columns = [_typed_key(name, [file.keys[k][1] for file in files]) for k, name in enumerate(names)]
    return [tuple(column[i] for column in columns) for i in range(len(files))]


def _typed_key(name: str, texts: Sequence[str]) -> list[Key]:
    values = [None if text == _NULL_KEY else text for text in texts]
    whole = all(value is None or value.removeprefix("-").isdecimal() for value in values)
    return [Key(name, int(value) if whole and value is not None else value, whole) for value in values]


def _with_keys(table: pyarrow.Table, keys: Sequence[Key], rows: int) -> pyarrow.Table:
    import pyarrow

    if keys and table.num_columns == 0:  # pyarrow forgets the number of rows
        table = pyarrow.table({"": pyarrow.nulls(rows)})
    for key in keys:
        table = table.append_column(key.name, pyarrow.repeat(pyarrow.scalar(key.value, key.type), rows))
    return table


def _said(kind: pyarrow.DataType) -> str:
    """Return a type in words: text is coded, whatever it was."""
    import pyarrow

    return "text" if pyarrow.types.is_dictionary(kind) else str(kind)


def _common_schema(versions: Sequence[Stamp], keys: Sequence[Key]) -> pyarrow.Schema:
    """Return the columns of all files; raise an error that names file and column where they differ."""
    import pyarrow

    found = [footer(version).schema.to_arrow_schema() for version in versions]
    schemas = [
        coded_schema([field for field in schema if not _PANDAS_INDEX.fullmatch(field.name)]) for schema in found
    ]
    first, first_name = schemas[0], versions[0].file.name
    for schema, version in zip(schemas, versions, strict=True):
        name = version.file.name
        for column in sorted(set(first.names) ^ set(schema.names)):
            has, has_not = (first_name, name) if column in first.names else (name, first_name)
            raise DataError(f"{has} has a column {shorten(column)!r} that {has_not} does not have.")
        for column in first.names:
            before, now = first.field(column).type, schema.field(column).type
            if now != before:
                raise DataError(
                    f"Column {shorten(column)!r} is {_said(now)} in {name} but {_said(before)} in {first_name}; "
                    "write it with the same type in all files."
                )
    for key in keys:
        if key.name in first.names:
            raise DataError(f"{first_name} has a column {shorten(key.name)!r}, and its folder names one too.")
        first = first.append(pyarrow.field(key.name, key.type))
    return coded_schema(first)


def _partitions(versions: Sequence[Stamp], keys: Sequence[tuple[Key, ...]]) -> list[ParquetPartition]:
    partitions: list[list[Piece]] = []
    rows = FEW_ROWS
    for version, values in zip(versions, keys, strict=True):
        metadata = footer(version)
        for k in range(metadata.num_row_groups):
            count = metadata.row_group(k).num_rows
            if count == 0:
                continue
            piece = Piece(version, k, k + 1, count, values)
            if rows + count > FEW_ROWS:
                partitions.append([piece])
                rows = count
            else:
                partitions[-1] = _joined(partitions[-1], piece)
                rows += count
    return [ParquetPartition(tuple(pieces)) for pieces in partitions]


def _joined(pieces: list[Piece], piece: Piece) -> list[Piece]:
    last = pieces[-1]
    if last.version == piece.version and last.end == piece.first:
        return [*pieces[:-1], Piece(last.version, last.first, piece.end, last.rows + piece.rows, last.keys)]
    return [*pieces, piece]
