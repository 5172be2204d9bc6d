"""The record of a run: who made it, when, by which command, of which data and model, with a digest of all of it.

The digest is the SHA-256 of the whole summary without the digest itself, as JSON with sorted keys and no spaces. Who
has the JSON summary can tell by it whether anything was changed since. With a key it is an HMAC, which only those who
have the key can make: a signature between people who share one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import date
from typing import Any

from fairmargin.report.plain import plain

__all__ = ["add_record", "digest", "is_intact"]


def add_record(
    summary: dict[str, Any],
    *,
    title: str | None = None,
    purpose: str | None = None,
    author: str | None = None,
    made: str | None = None,
    command: str | None = None,
    model_sha256: str | None = None,
    key: bytes | None = None,
) -> None:
    """Add the record of the run to a summary, and the digest of everything in it.

    Parameters
    ----------
    summary : dict
        It is changed in place, and its numbers become plain data.
    title : str, optional
        Instead of the summary's own.
    purpose, author, made, command : str, optional
        What the model is for, who made the report, when (by default today), and by which command.
    model_sha256 : str, optional
        Of the model file.
    key : bytes, optional
        The digest is then an HMAC with this key.
    """
    if title is not None:
        summary["title"] = title
    summary["record"] = {
        "purpose": purpose,
        "author": author,
        "date": made or date.today().isoformat(),
        "command": command,
        "seed": summary["settings"].get("seed"),
        "data_sha256": summary["data"].get("sha256"),
        "test_sha256": summary["data"].get("test_sha256"),
        "model_sha256": model_sha256,
        "versions": summary["versions"],
        "digest_kind": "SHA-256" if key is None else "HMAC-SHA-256",
    }
    summary.update(plain(summary))
    summary["record"]["digest"] = digest(summary, key)


def digest(summary: Mapping[str, Any], key: bytes | None = None) -> str:
    """Return the digest of a summary, whatever digest its record holds."""
    record = {name: value for name, value in summary["record"].items() if name != "digest"}
    text = json.dumps({**summary, "record": record}, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    content = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest() if key is None else hmac.new(key, content, "sha256").hexdigest()


def is_intact(summary: Mapping[str, Any], key: bytes | None = None) -> bool:
    """Whether a summary is what its digest was made of; with ``key``, whether one who has the key made it."""
    found = summary.get("record", {}).get("digest")
    return isinstance(found, str) and hmac.compare_digest(found, digest(summary, key))
