"""Parquet files by name: finding them, their footers, and whether they have changed."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import os
import posixpath
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fairmargin.exceptions import DataError, DataFileError
from fairmargin.formatting import shorten

__all__ = ["Located", "Stamp", "filesystem", "find_files", "folder_keys", "footer", "stamps"]

_SUFFIXES = (".parquet", ".parq", ".pq")
_READERS = 8  # footers read at once: they are small and far away, so that waiting dominates


@dataclass(frozen=True)
class Located:
    """A file, by its path or address, and the values of its folders ``key=value``."""

    address: str
    keys: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Name for messages: the file's, with the folders ``key=value`` that it is in."""
        folders = [f"{key}={value}" for key, value in self.keys]
        return "/".join([*folders, posixpath.basename(self.address.replace(os.sep, "/"))])


@dataclass(frozen=True)
class Stamp:
    """A version of a file: size in bytes, time of the last change in nanoseconds, and SHA-256 of its footer."""

    file: Located
    size: int
    mtime: int | None
    digest: str

    def check(self) -> None:
        """Raise if the file is no longer this version."""
        try:
            now = stamp(self.file)
        except (OSError, DataError):
            raise DataFileError(
                f"{self.file.name} was removed or can no longer be read: a file must not change between passes."
            ) from None
        if now != self:
            raise DataFileError(
                f"{self.file.name} changed between passes: {_difference(self, now)}; "
                "fit again once nothing writes to it."
            )


def _difference(before: Stamp, now: Stamp) -> str:
    if now.size != before.size:
        return f"it had {before.size:,} bytes and has {now.size:,}"
    return "its footer is another" if now.digest != before.digest else "it was written to"


@functools.lru_cache(maxsize=4096)
def filesystem(address: str) -> tuple[Any, str]:
    """Return the pyarrow file system of a path or address, and the path there."""
    from pyarrow import fs

    if "://" not in address:
        return fs.LocalFileSystem(), os.path.abspath(address)
    try:
        return fs.FileSystem.from_uri(address.replace("s3a://", "s3://", 1))
    except Exception as error:  # pyarrow has many
        raise DataError(f"{shorten(address, 200)!r} cannot be read: {shorten(error, 200)}.") from None


def find_files(text: str | Path) -> list[Located]:
    """Return the Parquet files of a path, a folder or a pattern, sorted by name.

    Files whose name, or the name of a folder on the way, starts with ``_`` or ``.`` are left out. Folders
    ``key=value`` below the folder or the first wildcard are columns.
    """
    from pyarrow import fs

    text = str(text)
    system, path = filesystem(text)
    prefix = text.split("://")[0].replace("s3a", "s3") + "://" if "://" in text else ""
    kind = system.get_file_info(path).type
    if kind == fs.FileType.File:
        return [Located(prefix + path)]
    if kind == fs.FileType.NotFound:
        wildcard = re.search(r"[*?[]", path)
        if wildcard is None:
            raise DataError(f"There is no file or folder {shorten(text, 200)!r}.")
        base = posixpath.dirname(path[: wildcard.start()])
        found = [p for p in _below(system, base) if _matches(p, path)]
        if not found:
            raise DataError(f"No file matches {shorten(text, 200)!r}.")
        return _located(found, base, prefix)
    found = list(_below(system, path))
    if not found:
        raise DataError(f"The folder {shorten(text, 200)!r} has no Parquet files.")
    return _located([p for p in found if p.endswith(_SUFFIXES)] or found, path, prefix)


def _below(system: Any, base: str) -> Iterable[str]:
    from pyarrow import fs

    for info in system.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True)):
        parts = posixpath.relpath(info.path, base).split("/")
        if info.type == fs.FileType.File and not any(part.startswith(("_", ".")) for part in parts):
            yield info.path


def _matches(path: str, pattern: str) -> bool:
    """Whether a path matches a pattern in which ``*`` stays within a folder and ``**`` stands for any folders."""
    return _parts_match(path.split("/"), pattern.split("/"))


def _parts_match(parts: list[str], patterns: list[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_parts_match(parts[k:], patterns[1:]) for k in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], patterns[0]) and _parts_match(parts[1:], patterns[1:])


def _located(paths: Iterable[str], base: str, prefix: str) -> list[Located]:
    return [Located(prefix + path, folder_keys(posixpath.relpath(path, base))) for path in sorted(paths)]


def folder_keys(path: str) -> tuple[tuple[str, str], ...]:
    """Return the names and values of the folders ``key=value`` of a path."""
    folders = (part.partition("=") for part in path.split("/")[:-1])
    return tuple((unquote(key), unquote(value)) for key, sign, value in folders if key and sign)


def stamps(files: Iterable[Located]) -> list[Stamp]:
    """Return the versions of all files."""
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(stamp, files))


def stamp(file: Located) -> Stamp:
    """Return the version of a file."""
    system, path = filesystem(file.address)
    info = system.get_file_info(path)
    try:
        with system.open_input_file(path) as stream:
            size = stream.size()
            tail = stream.read_at(8, size - 8) if size >= 12 else b""
            if tail[4:] == b"PARE":
                raise DataError(f"{file.name} is encrypted; only plain Parquet files can be read.")
            length = int.from_bytes(tail[:4], "little")
            if tail[4:] != b"PAR1" or length + 12 > size:
                raise DataError(f"{file.name} is not a Parquet file, or its end is missing.")
            digest = hashlib.sha256(stream.read_at(length + 8, size - length - 8)).hexdigest()
    except FileNotFoundError:
        raise DataError(f"There is no file {shorten(file.address, 200)!r}.") from None
    except OSError as error:
        raise DataError(f"{file.name} cannot be read: {shorten(error, 200)}.") from None
    return Stamp(file, size, info.mtime_ns, digest)


@functools.lru_cache(maxsize=256)
def footer(version: Stamp) -> Any:
    """Return the parsed footer (``pyarrow.parquet.FileMetaData``); kept, since every row group needs it again."""
    from pyarrow import parquet

    system, path = filesystem(version.file.address)
    try:
        with system.open_input_file(path) as stream:
            return parquet.read_metadata(stream)
    except Exception as error:  # pyarrow has many; none of them is ours
        raise DataError(f"{version.file.name} is a damaged Parquet file: {shorten(error, 200)}.") from None
