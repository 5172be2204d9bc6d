"""Advice of the library in the words of the command line.

Warnings and errors of the library name parameters of Python; here each becomes the option that sets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fairmargin.exceptions import InfeasibleError

__all__ = ["as_typed", "in_options"]

_OPTIONS = {
    "raise max_iter": "raise --max-iter",
    "; if that is enough, raise tol.": ".",
    "scale the features or lower C": "leave --scale on, or lower --C",
    "exclude identifiers.": "leave identifiers out (--exclude).",
    "if they are codes, make it categorical": "if they are codes, give --categorical",
    "If these are codes, make them categorical": "If these are codes, give --categorical",
    "Lower C, merge": "Lower --C, merge",
    "Lower C, or merge": "Lower --C, or merge",
    "merge rare categories": "merge rare categories (--min-frequency)",
    "ask for the decisions themselves with PRuleBound": "ask for the decisions themselves (--constraint p-rule=80)",
    "Set fit_intercept=True, ask": "Ask",
    "Ask for a lower p, merge small groups": "Ask for a lower p-rule, merge small groups (--merge-small)",
    "a larger bound, merge small groups": "a larger bound (--constraint), merge small groups (--merge-small)",
    "more people to help: ask for a lower p.": "more people to help: ask for a lower p-rule.",
    "Or leave people without a value out": "Or leave people without a value out (--missing-sensitive drop)",
    "merge small groups with others, or leave them out": "merge small groups with others (--merge-small with a "
    "larger --min-people), or leave their rows out of the table",
    " or an instance of a Notion, got": ", got",
    "without it (exclude)": "without it (--exclude)",
    "without them (exclude)": "without them (--exclude)",
    "lower min_people, or merge groups": "lower --min-people, or of three groups or more give --merge-small",
}


# The command frontier has no --constraint: it searches among candidates of many.
_OF_FRONTIER = {
    "ask for the decisions themselves with PRuleBound": "prefer a candidate that was trained for a p%-rule",
    "a larger bound, merge small groups": "a larger bound, merge small groups (--merge-small)",
}


def in_options(text: str, command: str = "") -> str:
    """Return a sentence of the library with options of a command in place of parameters."""
    options = _OPTIONS | (_OF_FRONTIER if command == "frontier" else {})
    for parameter, option in options.items():
        text = text.replace(parameter, option)
    return text


@contextmanager
def as_typed(texts: Sequence[str], constraints: Any) -> Iterator[None]:
    """Name constraints that cannot be satisfied as they were typed, ``--constraint p-rule=80``.

    ``constraints`` is what the texts stand for: a list, of several.
    """
    try:
        yield
    except InfeasibleError as error:
        said = str(error)
        for text, constraint in zip(
            texts, constraints if isinstance(constraints, list) else [constraints], strict=True
        ):
            said = said.replace(repr(constraint), f"--constraint {text}")
        raise InfeasibleError(said) from None
