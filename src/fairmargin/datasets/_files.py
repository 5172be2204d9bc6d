"""Where the original data files come from: a folder of the user's, the cache, or the web.

A file is looked for in ``$FAIRMARGIN_DATA``, then in the cache (``$FAIRMARGIN_CACHE``, by default
``fairmargin`` in ``$XDG_CACHE_HOME`` or ``~/.cache``), and is otherwise downloaded into the cache. Wherever
it comes from, its SHA-256 must match: a damaged file is refused by name, never parsed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fairmargin.exceptions import DataFileError

__all__ = ["FILES", "UCI", "DataFileError", "RemoteFile", "cache_dir", "is_available", "publish", "read"]

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"

# What goes wrong on the web, on the disk, and inside a damaged archive; those of requests are OSErrors.
_DOWNLOAD_ERRORS = (OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class RemoteFile:
    """One original file: its name, its SHA-256, and where it is published.

    ``member`` is the path of the file inside the archive where ``url`` is that of a zip archive. The checksum
    is always that of the file itself, so an archive may be repacked by its publisher.
    """

    name: str
    sha256: str
    url: str
    member: str | None = None


FILES: dict[str, RemoteFile] = {}


def publish(*files: RemoteFile) -> None:
    """Make original files known, each under its name; called by the module with their loader."""
    FILES.update({file.name: file for file in files})


def cache_dir() -> Path:
    """Return the folder that downloaded files are kept in (it need not exist yet)."""
    if chosen := os.environ.get("FAIRMARGIN_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "fairmargin"


def read(name: str) -> bytes:
    """Return the content of the original file ``name``, checked; download it first if it is nowhere.

    The bytes that were checked are the bytes returned: nothing can change between the two.
    """
    file = FILES[name]
    path = _find(name)
    if path is None:
        path = _download(file, cache_dir())
    content = path.read_bytes()
    if problem := _mismatch(content, file):
        raise DataFileError(f"{path} is damaged or incomplete ({problem}). {_remedy(path)}")
    return content


def is_available(name: str) -> bool:
    """Tell whether ``name`` can be had without a download."""
    return _find(name) is not None


def _find(name: str) -> Path | None:
    """Return the path of a local copy, or None; a damaged copy is found too, to be refused by name."""
    folders = [cache_dir()]
    if chosen := os.environ.get("FAIRMARGIN_DATA"):
        folders.insert(0, Path(chosen).expanduser())
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _mismatch(content: bytes, file: RemoteFile) -> str:
    """Say how ``content`` differs from what is expected; the empty string when it does not."""
    found = hashlib.sha256(content).hexdigest()
    if found == file.sha256:
        return ""
    return f"{len(content):,} bytes with SHA-256 {found}, expected {file.sha256}"


def _remedy(path: Path) -> str:
    if path.parent == cache_dir():
        return "Delete it and run again to download it anew."
    return "Replace it by the original file, or delete it there to have it downloaded into the cache."


def _download(file: RemoteFile, folder: Path) -> Path:
    """Download ``file`` into ``folder`` and return its path there.

    All work is done in a private folder beside the final place, and the file is renamed once it is whole and
    checked: a process killed midway leaves nothing under the final name, and two processes do not disturb
    each other.
    """
    downloader = _downloader(file)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as scratch:
            received, whole = Path(scratch, "received"), Path(scratch, file.name)
            downloader(file.url, str(received), None)
            content = _unpack(received, file)
            problem = _mismatch(content, file)
            if not problem:
                whole.write_bytes(content)
                return whole.replace(folder / file.name)
    except _DOWNLOAD_ERRORS as error:
        raise DataFileError(
            f"{file.name} could not be downloaded from {file.url} into {folder} ({error}). {_by_hand(file)}"
        ) from error
    raise DataFileError(
        f"{file.name} as downloaded from {file.url} is damaged or incomplete ({problem}) and was not kept. "
        f"Try again later. {_by_hand(file)}"
    )


def _downloader(file: RemoteFile) -> Callable[..., object]:
    try:
        from pooch import HTTPDownloader
    except ImportError as error:
        raise ImportError(
            f"{file.name} is not on this computer and downloading it needs pooch: "
            f'pip install "fairmargin[data]". {_by_hand(file)}'
        ) from error
    return HTTPDownloader(progressbar=False, timeout=60)


def _unpack(received: Path, file: RemoteFile) -> bytes:
    if file.member is None:
        return received.read_bytes()
    with zipfile.ZipFile(received) as archive:
        return archive.read(file.member)


def _by_hand(file: RemoteFile) -> str:
    if chosen := os.environ.get("FAIRMARGIN_DATA"):
        return f"FAIRMARGIN_DATA is set to {chosen}, which has no {file.name}: put it there or mend the path."
    return f"To use a copy of your own, put {file.name} into a folder and set FAIRMARGIN_DATA to that folder."
