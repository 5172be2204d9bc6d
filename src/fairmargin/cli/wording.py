"""Advice of the library in the words of the command line.

Warnings and errors of the library name parameters of Python; here each becomes the option that sets it.
"""

from __future__ import annotations

__all__ = ["in_options"]

_OPTIONS = {
    "raise max_iter": "raise --max-iter",
    "; if that is enough, raise tol.": ".",
    "scale the features or lower C": "leave --scale on, or lower --C",
    "exclude identifiers.": "leave identifiers out (--exclude).",
    "if they are codes, make it categorical": "if they are codes, give --categorical",
    "Lower C, merge": "Lower --C, merge",
    "merge rare categories": "merge rare categories (--min-frequency)",
    "ask for the decisions themselves with PRuleBound": "ask for the decisions themselves (--constraint p-rule=80)",
    "Set fit_intercept=True, ask": "Ask",
    "Ask for a lower p, merge small groups": "Ask for a lower p-rule, merge small groups (--merge-small)",
    "a larger bound, merge small groups": "a larger bound (--constraint), merge small groups (--merge-small)",
    "lower min_people, or merge groups": "lower --min-people, or give --merge-small",
}


def in_options(text: str) -> str:
    """Return a sentence of the library with options in place of parameters."""
    for parameter, option in _OPTIONS.items():
        text = text.replace(parameter, option)
    return text
