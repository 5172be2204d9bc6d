"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from fairmargin.exceptions import UnwritableError

__all__ = ["UnwritableError", "check_writable", "write_atomic"]


def check_writable(path: str | Path) -> None:
    """Say at once, before long work, that a file cannot be written."""
    path = Path(path)
    folder = path.parent
    if path.is_dir():
        raise UnwritableError(f"{str(path)!r} is a folder; give the name of a file.")
    if not folder.is_dir():
        raise UnwritableError(f"The folder {str(folder)!r} does not exist; make it first.")
    try:
        handle, name = tempfile.mkstemp(prefix=".fairmargin-", dir=folder)
    except OSError as error:
        raise UnwritableError(f"Nothing can be written to {str(folder)!r}: {error.strerror or error}.") from None
    os.close(handle)
    os.unlink(name)


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Write a file whole or not at all: to a new file beside it, flushed to the disk, which then takes its place."""
    target = Path(os.path.realpath(path))
    data = content.encode() if isinstance(content, str) else content
    try:
        handle, name = tempfile.mkstemp(prefix=".fairmargin-", dir=target.parent)
    except FileNotFoundError:
        raise UnwritableError(f"The folder {str(target.parent)!r} does not exist; make it first.") from None
    except OSError as error:
        raise UnwritableError(
            f"Nothing can be written to {str(target.parent)!r}: {error.strerror or error}."
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode(target))
        os.replace(name, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError):
            raise UnwritableError(f"{str(target)!r} cannot be written: {error.strerror or error}.") from None
        raise


def _mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, or those that a new file would have."""
    with contextlib.suppress(OSError):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
