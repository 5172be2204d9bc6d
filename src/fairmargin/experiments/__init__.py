"""The paper, run: one file for each figure or table, on the package's public interface.

``fairmargin reproduce`` (or :func:`fairmargin.experiments.run.reproduce`) does all of them. Work is cut into small
units (:mod:`fairmargin.experiments._work`), each written whole or not at all, so that a run that was stopped goes on
where it was.

``fairmargin compare`` (or :func:`compare`) runs every method of the package on any data set in the same way.
"""

from __future__ import annotations

from typing import Any

__all__ = ["compare"]


def __getattr__(name: str) -> Any:
    if name == "compare":  # imported when it is used: it needs all methods
        from fairmargin.experiments.comparison import compare

        return compare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
