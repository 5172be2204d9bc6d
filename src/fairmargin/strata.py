"""Strata: groups are compared among the people of each stratum only (conditional parity).

A difference in rates that a legitimate factor explains, such as the job applied for, is none within its values. Every
condition of a notion is divided into one per stratum; the rest of the package sees more conditions and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmargin.formatting import listed
from fairmargin.intersections import cross
from fairmargin.sensitive import Attribute, Sensitive, encode_groups
from fairmargin.validation import ONE_AT_A_TIME, People, TrainingData

if TYPE_CHECKING:
    from fairmargin.notions.base import Condition

__all__ = ["encode_strata", "strata_to_fit", "within_strata"]


def encode_strata(strata: Any, n_people: int) -> Attribute:
    """Read and check strata: one column of groups, or several, which are crossed.

    Numbers are taken as they are, one stratum for each; cut them into groups first.
    """
    columns = encode_groups(strata, n_people, "strata")
    return columns[0] if len(columns) == 1 else cross(columns)


def strata_to_fit(strata: Any, people: People | TrainingData) -> Attribute | None:
    """Return the strata of the people who are trained on, of those of everybody given; None without any."""
    if strata is None:
        return None
    if people.sensitive is None:
        raise ValueError("strata are to compare groups within: give sensitive_features, too.")
    with ONE_AT_A_TIME:
        return encode_strata(strata, people.n_given).take(people.kept)


def within_strata(
    conditions: Sequence[Condition], strata: Attribute, sensitive: Sensitive, notion: str
) -> tuple[Condition, ...]:
    """Return every condition within every stratum; raise for strata in which there is nothing to compare."""
    _check_recoding(strata, sensitive)
    assert strata.codes is not None
    divided = tuple(
        condition.within(f"{strata.name}={category!r}", strata.codes == k)
        for condition in conditions
        for k, category in enumerate(strata.categories)
    )
    alone = [
        f"{condition.name} ({attribute.name!r})"
        for condition in divided
        for attribute in sensitive.attributes
        if not _varies(attribute, condition)
    ]
    if alone:
        raise ValueError(
            f"The notion {notion!r} compares groups within strata, but at most one group has anybody in: "
            f"{listed(alone, '; ')}. Merge strata, or leave out the people in them."
        )
    return divided


def _varies(attribute: Attribute, condition: Condition) -> bool:
    columns = attribute.columns()[condition.counts]
    return bool(len(columns) and np.any(np.ptp(columns, axis=0)))


def _check_recoding(strata: Attribute, sensitive: Sensitive) -> None:
    """Raise for strata that tell the group: within them everybody is of one group, and any rule holds."""
    assert strata.codes is not None
    for attribute in sensitive.attributes:
        columns = attribute.columns()
        within = [columns[strata.codes == k] for k in range(len(strata.categories))]
        if all(not np.any(np.ptp(part, axis=0)) for part in within):
            raise ValueError(
                f"The strata {strata.name!r} tell the sensitive attribute {attribute.name!r}: every stratum has one "
                "group only, so that there is nothing to compare within them. Leave that column out of the strata."
            )
