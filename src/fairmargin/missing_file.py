"""What to say of a file that is not there; of plain Python alone, so that a mistyped name costs no import."""

from __future__ import annotations

import difflib
from pathlib import Path

from fairmargin.formatting import shorten

__all__ = ["describe_missing"]


def describe_missing(path: Path, what: str = "file") -> str:
    """Return one sentence on a file that does not exist, with the name nearest to it in its folder."""
    missing = f"There is no {what} {shorten(path, 200)!r}"
    try:
        others = [p.name for p in path.parent.iterdir()]
    except OSError:
        return f"{missing}; the folder {str(path.parent)!r} does not exist either."
    near = difflib.get_close_matches(path.name, others, n=1)
    return f"{missing}; did you mean {near[0]!r}?" if near else f"{missing}."
