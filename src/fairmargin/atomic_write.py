"""Writing files whole or not at all.

A regular file is replaced at once, when its new content is complete. Anything else, such as a device, a named pipe or
``/dev/stdout``, is written into and never replaced.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from fairmargin.exceptions import DataFileError, UnwritableError

__all__ = ["as_bytes", "check_writable", "is_same_file", "open_atomic", "write_atomic"]


def check_writable(path: str | Path) -> None:
    """Raise at once, before long work, if a file cannot be written."""
    path = Path(path)
    if path.is_dir():
        raise UnwritableError(f"{str(path)!r} is a folder; give the name of a file.")
    if path.exists() and not os.access(path, os.W_OK):  # replacing it would get around its protection
        raise UnwritableError(f"{str(path)!r} is read-only; give another name.")
    if _is_special(path):
        return
    folder = _real(path).parent
    if not folder.is_dir():
        raise UnwritableError(f"The folder {str(path.parent)!r} does not exist; make it first.")
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except OSError as error:  # above all, a name that is too long
        raise _unwritable(path, error) from None
    handle, name = _temporary(folder)
    os.close(handle)
    os.unlink(name)


def is_same_file(path: str | Path, others: Iterable[str | Path]) -> bool:
    """Whether ``path`` is one of the other files, under whatever name: links of both kinds are followed.

    Devices and pipes hold no content that could be overwritten, and are never the same.
    """
    if _is_special(path):
        return False
    return any(_same(path, other) for other in others)


def _same(a: str | Path, b: str | Path) -> bool:
    try:
        return os.path.samefile(a, b)
    except (OSError, ValueError):  # one of them does not exist yet
        return os.path.realpath(a) == os.path.realpath(b)


def as_bytes(text: str) -> bytes:
    """Return text as it is written to files.

    File names that are not UTF-8 reach us as lone surrogates, which only an escape can write.
    """
    return text.encode("utf-8", "backslashreplace")


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Write a file whole or not at all: to a new file beside it, flushed to the disk, which then takes its place."""
    data = as_bytes(content) if isinstance(content, str) else content
    if _is_special(path):
        _write_into(path, data)
        return
    with open_atomic(path) as file:
        file.write(data)


@contextlib.contextmanager
def open_atomic(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file to be written bit by bit; a regular one appears at the end, and not at all after an error."""
    if _is_special(path):
        with open(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as file:
            yield file
        return
    target = _real(path)
    handle, name = _temporary(target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode(target))
        os.replace(name, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError) and not isinstance(error, DataFileError):  # which is about what is read
            raise _unwritable(target, error) from None
        raise


def _is_special(path: str | Path) -> bool:
    """Whether to write into a file rather than to replace it."""
    if str(path).startswith(("/dev/fd/", "/dev/std", "/proc/")):  # a stream that is open, perhaps on a regular file
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    except ValueError as error:  # a name that no file can have
        raise UnwritableError(f"{str(path)!r} cannot be written: {error}.") from None
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _real(path: str | Path) -> Path:
    """Return the file that a link points to: the file is replaced, not the link."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)


def _write_into(path: str | Path, data: bytes) -> None:
    try:
        if stat.S_ISBLK(os.stat(path).st_mode):
            raise UnwritableError(f"{str(path)!r} is a disk; give the name of a file.")
        with open(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as file:
            file.write(data)
    except BrokenPipeError:  # the reader has seen enough
        raise
    except UnwritableError:
        raise
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: str | Path, error: OSError) -> UnwritableError:
    return UnwritableError(f"{str(path)!r} cannot be written: {error.strerror or error}.")


def _temporary(folder: Path) -> tuple[int, str]:
    try:
        return tempfile.mkstemp(prefix=".fairmargin-", dir=folder)
    except FileNotFoundError:
        raise UnwritableError(f"The folder {str(folder)!r} does not exist; make it first.") from None
    except OSError as error:
        raise UnwritableError(f"Nothing can be written to {str(folder)!r}: {error.strerror or error}.") from None


def _mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, or those that a new file would have."""
    with contextlib.suppress(OSError):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
