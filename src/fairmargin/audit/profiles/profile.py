"""Reading profiles, and making the tables that they ask for."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairmargin.audit.profiles.tables import TABLES, Screened
from fairmargin.audit.scores import check_scores
from fairmargin.inputs import check_container, check_same_order

__all__ = ["Profile", "apply_profile", "get_profile", "profile_names"]

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Profile:
    """One profile.

    Attributes
    ----------
    name, title, summary : str
    dated : str
        The day of which the profile is.
    sources, leaves_out : tuple of str
        On what it rests, and what it says nothing about.
    tables : tuple of str
        Names of the tables that it asks for.
    settings : dict
        Settings of the audit that it takes unless others are given.
    threshold : float or None
        In percent; None where the profile has none.
    least_share : float
        Categories of a smaller share of the people are listed, but left out of ratios.
    """

    name: str
    title: str
    dated: str
    summary: str
    sources: tuple[str, ...]
    leaves_out: tuple[str, ...]
    tables: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    threshold: float | None = None
    least_share: float = 0.0


def profile_names() -> list[str]:
    """Return the names of the profiles there are."""
    return sorted(path.stem for path in _HERE.glob("*.toml"))


def get_profile(name: str | Path) -> Profile:
    """Return a profile by its name, or from a TOML file of one's own.

    Examples
    --------
    >>> get_profile("us-four-fifths").threshold
    80.0
    """
    path = _HERE / f"{name}.toml" if str(name) in profile_names() else Path(name)
    if path.suffix != ".toml":
        near = difflib.get_close_matches(str(name), profile_names(), n=1)
        hint = (
            f"did you mean {near[0]!r}?" if near else f"there are {', '.join(profile_names())}, or give a TOML file."
        )
        raise ValueError(f"There is no profile {str(name)!r}; {hint}")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"The profile {path.name} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"The profile {path.name} is no TOML file: {error}.") from None
    return _checked(path.name, values)


def _checked(name: str, values: dict[str, Any]) -> Profile:
    """Return a profile from the values of a file; raise where they make none."""
    for key in ("sources", "leaves_out", "tables"):
        listed = values.get(key)
        if not isinstance(listed, list) or not listed or not all(isinstance(v, str) for v in listed):
            raise ValueError(f"The profile {name} needs {key}, a list of texts.")
        values[key] = tuple(listed)
    unknown = [table for table in values["tables"] if table not in TABLES]
    if unknown:
        raise ValueError(f"The profile {name} asks for the table {unknown[0]!r}; there are {', '.join(TABLES)}.")
    try:
        return Profile(**values)
    except TypeError as error:
        raise ValueError(f"The profile {name} lacks or has too many entries: {error}.") from None


def apply_profile(
    profile: Profile | str,
    decisions: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = 1,
    scores: Any = None,
    reference: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Make the tables of a profile; people are counted without weights.

    Parameters
    ----------
    profile : Profile or str
    decisions : array of shape (n,)
        Positive where they equal ``pos_label``.
    sensitive_features : array, series or frame of shape (n,) or (n, k)
        A group called ``"(missing)"`` is that of the people whose value is not known.
    scores : array of shape (n,), optional
    reference : mapping from attribute to group, optional
        The group to compare with, where the profile does not ask for that of the highest rate.

    Returns
    -------
    dict
        The profile as plain data, with ``tables``: each has ``title``, ``text``, ``columns``, ``rows`` of text,
        ``left`` (which columns are words) and ``data`` (the same rows as numbers).

    Examples
    --------
    >>> made = apply_profile("us-four-fifths", [1, 1, 0, 0] * 20, sensitive_features=["a", "a", "b", "b"] * 20)
    >>> made["tables"][0]["data"][1]["ratio"]
    0.0
    """
    profile = get_profile(profile) if isinstance(profile, str) else profile
    check_container(decisions, "decisions")
    check_same_order(decisions=decisions, sensitive_features=sensitive_features, scores=scores)
    positive = (np.asarray(decisions) == pos_label).ravel()
    screened = Screened.of(
        positive,
        sensitive_features,
        None if scores is None else check_scores(scores, len(positive)),
        dict(reference or {}),
        profile.least_share,
        profile.threshold,
    )
    made = [table for name in profile.tables for table in TABLES[name](screened)]
    return {**asdict(profile), "settings": dict(profile.settings), "tables": made}
