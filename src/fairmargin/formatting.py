"""Numbers and names as text: the same in every report, error message and terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

__all__ = [
    "NONE",
    "clean",
    "deviations",
    "distance",
    "escape_markdown",
    "interval",
    "number_beside",
    "people",
    "percent",
    "points",
    "probability",
    "ratio",
    "ratio_beside",
    "shorten",
    "signed_percent",
    "whole",
    "with_article",
]

NONE = "–"


def clean(text: Any) -> str:
    """Return text that is safe on one line of a terminal.

    Line breaks become spaces. Control characters, which could move the cursor, and marks that change the direction
    of writing are replaced.
    """
    kept = []
    for character in str(text):
        kind = unicodedata.category(character)
        if character in "\r\n\t\v\f\x85\u2028\u2029":
            kept.append(" ")
        elif kind == "Cc" or kind == "Cs" or (kind == "Cf" and character != "\u200d"):
            kept.append("\N{REPLACEMENT CHARACTER}")
        else:
            kept.append(character)
    return "".join(kept)


def escape_markdown(text: Any) -> str:
    """Return text on one line that Markdown, and HTML in Markdown, read as nothing but text."""
    line = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|#~])", r"\\\1", line)


def shorten(text: Any, width: int = 60) -> str:
    """Return text on one line, cut to ``width`` characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def listed(names: Sequence[str], between: str = ", ", most: int = 5) -> str:
    """Return names in one line, with the number of those beyond the first ``most``."""
    return between.join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def with_article(text: str) -> str:
    """Return a text behind its indefinite article; one that begins with a number is read aloud: "an 80%-rule"."""
    vowel = re.match(r"8|1[18](?!\d)", text)
    return f"an {text}" if vowel else f"a {text}"


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share as a percentage."""
    return NONE if share is None else f"{100.0 * share:.{digits}f}%"


def signed_percent(share: float | None, digits: int = 2) -> str:
    """Return a relative change as a percentage with its sign."""
    return NONE if share is None else f"{100.0 * share:+.{digits}f}%"


def points(share: float | None) -> str:
    """Return a difference of shares in percentage points with its sign."""
    if share is None:
        return NONE
    text = f"{100.0 * share:+.1f}"
    return "+0.0" if text == "-0.0" else text


def deviations(value: float | None) -> str:
    """Return a number of standard deviations with its sign."""
    if value is None:
        return NONE
    text = f"{value:+.1f}"
    return "+0.0" if text == "-0.0" else text


def whole(value: float | None) -> str:
    """Return a number rounded to a whole one, never "-0"."""
    if value is None:
        return NONE
    text = f"{value:,.0f}"
    return "0" if text == "-0" else text


def people(count: int) -> str:
    """Return a number of people in words."""
    return f"{count:,} {'person' if count == 1 else 'people'}"


def distance(points: float) -> str:
    """Return a number of points that is not negative, never "0.0" unless it is zero."""
    return f"{points:.1f}" if points == 0 or points >= 0.05 else f"{points:.1g}"


def number_beside(value: float, *limits: float) -> str:
    """Return a number with as many digits as it takes to tell it from limits that it does not equal."""
    return f"{value:.{_digits(value, limits)}f}"


def ratio_beside(value: float | None, *limits: float) -> str:
    """Return a ratio in percent with as many digits as it takes to tell it from limits that it does not equal."""
    return NONE if value is None else f"{number_beside(value, *limits)}%"


def ratio(value: float | None) -> str:
    """Return a ratio that is already a percentage."""
    return NONE if value is None else f"{value:.1f}%"


def interval(low: float | None, high: float | None, digits: int = 1, beside: Sequence[float] = ()) -> str:
    """Return an interval of percentages; open above where only ``high`` is None.

    With as many digits as it takes to tell its ends from the limits ``beside`` it.
    """
    if low is None:
        return ""
    digits = max(_digits(end, beside, digits) for end in (low, low if high is None else high))
    return f"{low:.{digits}f}% and more" if high is None else f"{low:.{digits}f}–{high:.{digits}f}%"


def _digits(value: float, limits: Sequence[float], least: int = 1) -> int:
    """Return the number of digits, at least so many, at which a value no longer reads as a limit it differs from."""
    far = (d for d in range(least, 12) if all(float(f"{value:.{d}f}") != limit or value == limit for limit in limits))
    return next(far, 12)


def probability(value: float | None) -> str:
    """Return a p-value with three digits, never a bare zero."""
    if value is None:
        return NONE
    return "<0.001" if value < 0.001 else f"{value:.3f}"
