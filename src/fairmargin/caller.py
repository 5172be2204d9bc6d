"""Warnings that point at the line of the user's code, however deep in the library they arise."""

from __future__ import annotations

import sys
import warnings

__all__ = ["warn"]

# A fit may run within a search or pipeline of scikit-learn, and that within joblib; dispatch and context managers of
# the standard library lie between functions of this package.
_LIBRARIES = frozenset({"contextlib", "fairmargin", "functools", "joblib", "sklearn"})


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning for the innermost line outside of the libraries around it; in a thread, for where it begins."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _LIBRARIES:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
