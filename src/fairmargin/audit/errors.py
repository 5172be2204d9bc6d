"""Error rates by group: what share of those with a label, or with a decision, the decisions get right or wrong.

With ``y = 1`` the favourable label and ``d = 1`` the positive decision:

==================== ================ ===========================
measure              rate             among
==================== ================ ===========================
true positive rate   ``d = 1``        people with ``y = 1``
false positive rate  ``d = 1``        people with ``y = 0``
precision            ``y = 1``        people with ``d = 1``
accuracy             ``y = d``        everybody with a label
==================== ================ ===========================

Each group is compared with the same people as in the audit of the decisions, by Fisher's exact test and Newcombe's
interval of the difference. P-values are corrected for all error rates that are judged together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.audit.comparison import CountedSides
from fairmargin.rate_statistics import adjusted, compare_rates, rate_interval
from fairmargin.sensitive import Attribute

__all__ = ["ERROR_RATES", "ErrorRate", "error_rates"]

Mask = NDArray[np.bool_]

# What each measure is a rate of, in words for the reader.
ERROR_RATES = {
    "true positive rate": "positive decisions among the people with the favourable label",
    "false positive rate": "positive decisions among the people without the favourable label",
    "precision": "favourable labels among the people with a positive decision",
    "accuracy": "decisions that equal the label",
}


@dataclass(frozen=True)
class ErrorRate:
    """One error rate of one group; shares, None where nobody counts.

    Attributes
    ----------
    attribute, group, measure : str
    people : int
        How many people of the group the rate is among.
    rate, rate_low, rate_high : float or None
        The rate and its interval (Wilson).
    rate_of_others : float or None
        The same rate of the people whom the group is compared with; None for the reference group.
    difference, difference_low, difference_high : float or None
        Rate less the others', with Newcombe's interval.
    p_value, p_adjusted : float or None
        Fisher's exact test; the second corrected for all error rates that are judged.
    too_few : bool
        Whether there are too few people on a side to conclude anything.
    """

    attribute: str
    group: str
    measure: str
    people: int
    rate: float | None = None
    rate_low: float | None = None
    rate_high: float | None = None
    rate_of_others: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    too_few: bool = False


def error_rates(
    attributes: Sequence[tuple[Attribute, int | None]],
    positive: Mask,
    label: Mask,
    known: Mask,
    *,
    weight: NDArray[np.float64] | None = None,
    counts: NDArray[np.int64] | None = None,
    confidence: float = 0.95,
    min_people: int = 30,
    correction: str = "holm",
) -> list[ErrorRate]:
    """Return every error rate of every group.

    Parameters
    ----------
    attributes : list of (Attribute, int or None)
        Each with the index of its reference group, None where groups are compared with everybody else.
    positive, label, known : bool arrays of shape (n,)
        Positive decisions, favourable labels, and whose label is known.
    weight : array of shape (n,), optional
    counts : array of shape (n,), optional
        How many people each row stands for.
    confidence, min_people, correction
        As in :func:`fairmargin.audit.audit`.
    """
    outcomes: dict[str, tuple[Mask, Mask]] = {
        "true positive rate": (positive, known & label),
        "false positive rate": (positive, known & ~label),
        "precision": (label, known & positive),
        "accuracy": (label == positive, known),
    }
    rows = []
    for attribute, base in attributes:
        for measure, (outcome, among) in outcomes.items():
            who = among if counts is None else among * counts
            counted = CountedSides.of(attribute, outcome, weight, who)
            for index in range(len(attribute.categories)):
                row = ErrorRate(attribute.name, str(attribute.categories[index]), measure, 0)
                rows.append(_compared(row, counted, index, base, confidence, min_people))
    judged = [row.p_value for row in rows if row.p_value is not None and not row.too_few]
    corrected = iter(adjusted(judged, correction))
    return [row if row.p_value is None or row.too_few else replace(row, p_adjusted=next(corrected)) for row in rows]


def _compared(
    row: ErrorRate, counted: CountedSides, index: int, base: int | None, confidence: float, min_people: int
) -> ErrorRate:
    side = counted.group(index)
    if side is None:
        return replace(row, too_few=True)
    low, high = rate_interval(side.k, side.n, confidence)
    row = replace(row, people=side.people, rate=side.rate, rate_low=low, rate_high=high)
    row = replace(row, too_few=side.n < min_people)
    others = None if index == base else counted.rest(index) if base is None else counted.group(base)
    if others is None:
        return row
    found: dict[str, Any] = compare_rates(side.k, side.n, others.k, others.n, confidence)
    kept = ("difference", "difference_low", "difference_high", "p_value")
    few = min(side.n, others.n) < min_people
    return replace(row, rate_of_others=others.rate, too_few=few, **{key: found[key] for key in kept})
