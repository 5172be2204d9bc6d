"""Counting decisions by group: rates, ratios and differences.

This is the one place where decisions are counted, with the cuts along a ranking (:mod:`fairmargin.ranking`). The
metrics, the audit, the frontier's table and the search for a p%-rule all use it, so that a rule that holds in one
holds in all. It knows groups, weights and decisions only.

Conventions. A group without people (or without weight) has no rate: it is nan and left out of comparisons. Where
nobody at all gets the positive decision, ratios of rates are 0/0: they are nan here, and each caller decides what
that means. If one group has no positive decision and another has one, the ratio is 0. Sums of whole-number weights
are exact, in whatever order they are formed.

One definition of the p%-rule serves every part of the package. By default (``"one_vs_rest"``, on the command line
``rest``) each group is compared with everybody else; ``"between_groups"`` (``highest``) compares with the group of
the highest rate, which is stricter. A comparison counts only if both of its sides have ``min_people`` people; people
whose attribute is missing are compared with others, but are never the highest group.

Under a notion of fairness (:mod:`fairmargin.notions`) some of the people count, and the decision that is counted may
be the negative one: "positive" then stands for the counted decision. Several conditions are counted one after the
other; where the counted decision is made for nobody under one of them, that one decides nothing. People whose group
is known as probabilities count by these in every group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.notions.base import Condition
from fairmargin.sensitive import MISSING_GROUP, Attribute, label_index

__all__ = [
    "RULES",
    "Comparison",
    "GroupCounts",
    "count_decisions",
    "count_groups",
    "highest_difference",
    "least_ratio",
    "mean_gain",
    "rates_by_group",
    "size_groups",
]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# How groups may be compared: the method, its short name, and what it compares with, in words.
RULES = {
    "one_vs_rest": ("rest", "each group against everybody else"),
    "between_groups": ("highest", "each group against the one with the highest rate"),
}


@dataclass(frozen=True)
class Comparison:
    """Two sets of groups of one attribute whose rates a p%-rule compares, in one direction.

    Attributes
    ----------
    attribute : str
    group, other : str
        The two sides in words; the rule asks that the first is accepted often enough beside the second.
    inside, outside : (G,) of bool
        Which groups are on which side.
    """

    attribute: str
    group: str
    other: str
    inside: Mask
    outside: Mask


@dataclass(frozen=True)
class GroupCounts:
    """People and positive decisions in each group of one attribute.

    Attributes
    ----------
    name : str
        Name of the attribute.
    categories : tuple
        The G groups.
    people : (G,)
        Number of people.
    weight : (G,)
        Sum of their weights.
    positives : (G,) or (G, M)
        Weight of the people with a positive decision, for one decision rule or for M of them.
    min_people : int
        Comparisons with fewer people on a side decide nothing.
    among : str
        The condition under which people count; empty for the only one.
    membership_error : (G,) or None
        Standard error of the rates that comes from groups which are known as probabilities only.
    """

    name: str
    categories: tuple[Any, ...]
    people: NDArray[Any]
    weight: Array
    positives: Array
    min_people: int = 1
    among: str = ""
    membership_error: Array | None = None

    @cached_property
    def rate(self) -> Array:
        """Positive rate of each group, shaped as ``positives``."""
        return _divide(self.positives, self._per_group(self.weight))

    @cached_property
    def rate_of_rest(self) -> Array:
        """Positive rate of everybody outside each group, shaped as ``positives``."""
        return _divide(_sum_of_others(self.positives), self._per_group(_sum_of_others(self.weight)))

    @property
    def n_present(self) -> int:
        """Number of groups with a positive weight."""
        return int(np.count_nonzero(self.weight > 0))

    def smoothed(self, size: float) -> GroupCounts:
        """Return the counts with every group of fewer than ``size`` people filled up to ``size``.

        Those added are accepted at the rate of everybody outside the group: ``(x + m r) / (n + m)`` with ``m`` people
        added is the usual shrinkage of a small group's rate towards the rate ``r`` of the rest.
        """
        few = (self.people > 0) & (self.people < size)
        added = np.where(few, self.weight * (size / np.maximum(self.people, 1) - 1.0), 0.0)
        rest = np.nan_to_num(self.rate_of_rest)
        positives = self.positives + self._per_group(added) * rest
        return replace(self, weight=self.weight + added, positives=positives)

    def ratio(self, method: str = "one_vs_rest") -> Any:
        """Return the p of the p%-rule as a share, one number per decision rule; nan if nobody is accepted.

        ``"one_vs_rest"`` compares each group with everybody else, the lower rate over the higher, and takes the
        least; ``"between_groups"`` divides the lowest rate by the highest. Only comparisons of ``min_people`` people
        on each side count.
        """
        low, high = self._compared(method)
        return _divide(low, high).min(axis=0)

    def difference(self, method: str = "one_vs_rest") -> Any:
        """Return the largest absolute difference of rates (CV score), one number per decision rule."""
        low, high = self._compared(method)
        return (high - low).max(axis=0)

    def judged(self, method: str = "one_vs_rest") -> Mask:
        """Return which groups' comparisons count: both sides have weight and at least ``min_people`` people."""
        _check_method(method)
        enough = (self.weight > 0) & (self.people >= self.min_people)
        if method == "between_groups" or self.n_present == 2:
            return enough if np.count_nonzero(enough) > 1 else np.zeros_like(enough)
        others = int(self.people.sum()) - self.people
        return enough & (others >= max(self.min_people, 1)) & (self.n_present > 1)

    def comparisons(self, method: str = "one_vs_rest") -> list[Comparison]:
        """Return what the rule compares, each comparison in both directions; groups without weight are left out."""
        _check_method(method)
        present = np.flatnonzero(self.weight > 0)
        names = [f"{self.name}={c!r}" for c in self.categories]
        single = np.eye(len(self.categories), dtype=bool)
        if len(present) == 2 or method == "between_groups":
            pairs = [(names[i], names[j], single[i], single[j]) for i in present for j in present if i != j]
        else:
            rest = [(names[i], f"everybody but {names[i]}", single[i], ~single[i]) for i in present]
            pairs = [p for a, b, x, y in rest for p in ((a, b, x, y), (b, a, y, x))]
        return [Comparison(self.name, *pair) for pair in pairs]

    def _compared(self, method: str) -> tuple[Array, Array]:
        """Return the lower and the higher rate of each comparison that ``method`` makes."""
        _check_method(method)
        present = self.weight > 0
        if np.count_nonzero(present) < 2:
            empty = [repr(str(c)) for c, n in zip(self.categories, self.weight, strict=True) if not n]
            among = f" among {self.among}" if self.among else ""
            nobody = f": nobody of {', '.join(empty)} counts{among}" if empty else ""
            raise ValueError(
                f"The sensitive attribute {self.name!r} has fewer than two groups with people to compare{nobody}."
            )
        judged = self.judged(method)
        if not judged.any():
            raise ValueError(
                f"The sensitive attribute {self.name!r} has no two sides of at least {self.min_people} "
                "people to compare; lower min_people, or merge groups."
            )
        rate = self.rate if np.all(judged) else self.rate[judged]
        if method == "between_groups" or self.n_present == 2:  # of two groups, each is the rest of the other
            highest = self.rate[self.may_be_highest] if method == "between_groups" else rate
            return rate.min(axis=0, keepdims=True), highest.max(axis=0, keepdims=True)
        rest = self.rate_of_rest if np.all(judged) else self.rate_of_rest[judged]
        return np.minimum(rate, rest), np.maximum(rate, rest)

    @property
    def may_be_highest(self) -> Mask:
        """Which groups others may be compared with: those that count, people without a value only if need be."""
        judged = self.judged("between_groups")
        known = judged & np.array([str(c) != MISSING_GROUP for c in self.categories], dtype=bool)
        return known if known.any() else judged

    def _per_group(self, values: Array) -> Array:
        """Return one value per group in a shape that divides ``positives``."""
        return values if self.positives.ndim == 1 else values[:, None]


def count_groups(
    attribute: Attribute,
    accepted: Any,
    weight: Array | None = None,
    min_people: int = 1,
    condition: Condition | None = None,
) -> GroupCounts:
    """Count the people and the positive decisions in the groups of an attribute.

    Parameters
    ----------
    attribute : Attribute
        With groups; a numeric one raises.
    accepted : (N,) of bool or of 0 and 1
    weight : (N,), optional
        By default everybody counts once.
    min_people : int
        Comparisons with fewer people on a side decide nothing.
    condition : Condition, optional
        Who counts, and which decision; by default everybody, and the positive one.
    """
    accepted = np.asarray(accepted, dtype=bool)
    return count_decisions(
        size_groups(attribute, weight, min_people, condition), attribute, accepted, weight, condition
    )


def size_groups(
    attribute: Attribute, weight: Array | None, min_people: int, condition: Condition | None
) -> GroupCounts:
    """Return the counts without decisions: nobody of any group has one that is counted."""
    _check_groups(attribute)
    counts = None if condition is None else condition.counts
    people = attribute.group_sizes(counts)
    total = people.astype(float)
    if weight is not None:
        total = attribute.group_weights(weight if counts is None else counts * weight)
    among = "" if condition is None else condition.name
    return GroupCounts(attribute.name, attribute.categories, people, total, np.zeros_like(total), min_people, among)


def count_decisions(
    sizes: GroupCounts, attribute: Attribute, accepted: Mask, weight: Array | None, condition: Condition | None
) -> GroupCounts:
    """Return the counts with decisions."""
    events = accepted if condition is None else condition.events(accepted) & condition.counts
    error = None
    if attribute.probabilities is not None:
        each = np.ones(len(accepted)) if weight is None else weight
        error = _membership_error(attribute, events, each if condition is None else condition.counts * each)
    if weight is None:
        positives = attribute.group_sizes(events).astype(float)
    else:
        positives = attribute.group_weights(events * weight)
    return replace(sizes, positives=positives, membership_error=error)


def _membership_error(attribute: Attribute, events: Mask, weight: Array) -> Array:
    """Return by how much rates vary, as a standard deviation, where each person's group is drawn by probabilities.

    With ``r_g`` the rate, ``sum_i w_i 1{g_i = g} (e_i - r_g) / sum_i w_i p_ig`` is its first-order change.
    """
    p = attribute.probabilities
    assert p is not None
    total = weight @ p
    rate = _divide((weight * events) @ p, total)
    variance = (weight**2) @ (p * (1.0 - p) * (events[:, None] - rate) ** 2)
    return _divide(np.sqrt(variance), total)


def least_ratio(counts: Sequence[GroupCounts], method: str = "one_vs_rest") -> Any:
    """Return the p of the p%-rule in percent over all attributes and conditions; nan where nobody is accepted."""
    return 100.0 * np.fmin.reduce([c.ratio(method) for c in _that_compare(counts, method)], axis=0)


def highest_difference(counts: Sequence[GroupCounts], method: str = "one_vs_rest") -> Any:
    """Return the largest absolute difference of rates (CV score) over all attributes."""
    return np.max([c.difference(method) for c in _that_compare(counts, method)], axis=0)


def rates_by_group(counts: Sequence[GroupCounts]) -> pd.Series | None:
    """Return the positive rates by attribute and category; None where nothing was counted."""
    found = {(c.name, str(g)): float(r) for c in counts for g, r in zip(c.categories, c.rate, strict=True)}
    if not found:
        return None
    return pd.Series(np.array(list(found.values())), index=label_index(list(found)), name="positive rate")


def mean_gain(accepted: Mask, label: Mask, gains: Mapping[str, float], weight: Array | None = None) -> float:
    """Return the mean worth of decisions; ``gains`` says what each of "tp", "fp", "fn" and "tn" is worth, else 0."""
    kinds = {"tp": accepted & label, "fp": accepted & ~label, "fn": ~accepted & label, "tn": ~accepted & ~label}
    return float(sum(gain * np.average(kinds[kind], weights=weight) for kind, gain in gains.items()))


def _that_compare(counts: Sequence[GroupCounts], method: str) -> Sequence[GroupCounts]:
    """Leave out attributes without two sides of enough people; if that is all of them, comparing the first raises."""
    return [c for c in counts if c.min_people == 1 or c.judged(method).any()] or counts


def _check_groups(attribute: Attribute) -> None:
    """Raise for a numeric attribute, which has no groups."""
    if attribute.is_numeric:
        raise ValueError(
            f"The sensitive attribute {attribute.name!r} is numeric and has no groups, which comparing rates needs; "
            "bin it (e.g. with pandas.cut)."
        )


def _check_method(method: str) -> None:
    if method not in ("one_vs_rest", "between_groups"):
        raise ValueError(f"method must be 'one_vs_rest' or 'between_groups', got {method!r}.")


def _sum_of_others(values: Array) -> Array:
    """Return, for each entry along the first axis, the sum of all others.

    Two running sums rather than a difference from the total, which would leave rounding where the answer is 0.
    """
    before, after = np.zeros_like(values), np.zeros_like(values)
    np.cumsum(values[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumsum(values[:0:-1], axis=0)[::-1]
    return before + after


def _divide(a: Array, b: Array) -> Array:
    """Return ``a / b`` with nan for 0/0, and inf for other divisions by zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return a / b
