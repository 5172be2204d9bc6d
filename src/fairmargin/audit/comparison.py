"""Comparing the rate of a group with that of other people: counts, intervals, tests, and what few decisions change.

**Weights.** With weights that differ, rates are weighted, and intervals and tests take them for rates of *effective*
counts (:func:`fairmargin.guarantee.ratio_test.effective_counts`): as many people with equal weights as would give the
rate its variance. Weights that are all alike change nothing.

**Membership as probabilities.** A person counts in a group by the probability ``p`` of belonging to it. The variance
of a rate ``r`` has two parts: from the draw of people, ``sum w^2 p^2 (d - r)^2``, and from not knowing the group,
``sum w^2 p (1 - p) (d - r)^2``, both over ``(sum w p)^2``. Together they are ``sum w^2 p (d - r)^2``: expected counts
stand for counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.audit.findings import REFERENCE, REST, TOO_FEW
from fairmargin.audit.record import AuditedAttribute, Group
from fairmargin.decisions import RULES, GroupCounts, count_groups, least_ratio
from fairmargin.guarantee.ratio_test import effective_counts
from fairmargin.odds_statistics import odds_ratio, odds_ratio_interval
from fairmargin.rate_statistics import compare_rates, rate_interval, ratio_interval, whole_counts
from fairmargin.sensitive import Attribute

__all__ = ["Comparison", "CountedSides", "Side"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Side:
    """The people on one side of a comparison.

    Attributes
    ----------
    people, positives : int
        How many they are, and how many of them have the positive decision.
    weight, rate : float
        Sum of their weights, and their (weighted) rate.
    k, n : float
        Counts that intervals and tests take the rate for: ``positives`` and ``people``, or effective counts.
    """

    people: int
    positives: int
    weight: float
    rate: float
    k: float
    n: float

    @property
    def whole(self) -> tuple[int, int]:
        """The counts as whole numbers, for exact tests."""
        return whole_counts(self.k, self.n)


@dataclass(frozen=True)
class CountedSides:
    """An outcome counted by the groups of one attribute.

    ``counts`` are weighted; ``people`` and ``squares`` are the same without weights and with squared ones, None where
    weights do not differ. The ``people`` of ``counts`` are effective ones.
    """

    counts: GroupCounts
    people: GroupCounts | None = None
    squares: GroupCounts | None = None

    @classmethod
    def of(
        cls,
        attribute: Attribute,
        outcome: Mask,
        weight: Array | None = None,
        among: NDArray[Any] | None = None,
        min_people: int = 1,
    ) -> CountedSides:
        """Count an outcome, of everybody or ``among`` some: a mask, or how many people each row stands for."""
        counted = None if among is None else among.astype(float)
        people = count_groups(attribute, outcome, counted, min_people)
        people = replace(people, people=people.weight.astype(int))
        if weight is None and attribute.probabilities is None:
            return cls(people)
        weight = np.ones(len(outcome)) if weight is None else weight
        once = np.ones(len(outcome)) if counted is None else counted
        counts, squares = (count_groups(attribute, outcome, once * weight**power, min_people) for power in (1, 2))
        with np.errstate(invalid="ignore"):
            effective = np.nan_to_num(counts.weight**2 / squares.weight)
        return cls(replace(counts, people=np.floor(effective + 1e-9).astype(int)), people, squares)

    def side(self, chosen: Mask) -> Side | None:
        """Return the people of the chosen groups as one side; None if there are none."""
        plain = self.people or self.counts
        people, positives = (round(float(v[chosen].sum())) for v in (plain.weight, plain.positives))
        if not float(plain.weight[chosen].sum()) > 0.0:
            return None
        people = max(people, 1)  # of expected numbers of people
        if self.squares is None:
            return Side(people, positives, float(people), positives / people, float(positives), float(people))
        weight = float(self.counts.weight[chosen].sum())
        rate = min(float(self.counts.positives[chosen].sum()) / weight, 1.0)  # sums may differ by rounding
        sums = (float(v[chosen].sum()) for v in (self.squares.weight, self.squares.positives))
        return Side(people, positives, weight, rate, *effective_counts(rate, weight, *sums))

    def group(self, index: int) -> Side | None:
        """Return one group as a side."""
        return self.side(np.arange(len(self.counts.categories)) == index)

    def rest(self, index: int) -> Side | None:
        """Return everybody outside one group as a side."""
        return self.side(np.arange(len(self.counts.categories)) != index)


@dataclass(frozen=True)
class Comparison:
    """Decisions, and by which numbers groups are compared.

    ``counts`` are the people that each row stands for, zero for those who do not count; None where that is one.
    """

    positive: Mask
    threshold: float
    confidence: float
    min_people: int
    method: str
    weight: Array | None = None
    counts: NDArray[np.int64] | None = None

    def attribute(self, attribute: Attribute, merged: int, named: str | None) -> AuditedAttribute:
        """Compare the groups of one attribute with everybody else, or with its reference group."""
        if len(attribute.categories) < 2:
            raise ValueError(
                f"The sensitive attribute {attribute.name!r} has only one group ({attribute.categories[0]!r}): "
                "there is nothing to compare."
            )
        counted = CountedSides.of(attribute, self.positive, self.weight, self.counts, self.min_people)
        counts = counted.counts
        base = self.reference(counts, named)
        found = {k: side for k in range(len(attribute.categories)) if (side := counted.group(k)) is not None}
        groups = [self._group(attribute.name, counted, k, side, base) for k, side in found.items()]
        if merged and len(attribute.categories) - 1 in found:
            groups[-1] = replace(groups[-1], merged=merged)
        rules = {m: _finite(least_ratio([counts], m)) if counts.judged(m).any() else None for m in RULES}
        return AuditedAttribute(
            attribute.name,
            REST if base is None else str(attribute.categories[base]),
            rules[self.method],
            rules["between_groups"],
            float(counts.difference(self.method)) if counts.judged(self.method).any() else None,
            tuple(groups),
        )

    def reference(self, counts: GroupCounts, named: str | None) -> int | None:
        """Return the group compared with: the one named, or that of the highest rate; None for everybody else."""
        if named is not None:
            return [str(c) for c in counts.categories].index(named)
        if self.method == "one_vs_rest" and len(counts.categories) > 2:
            return None
        eligible = counts.may_be_highest
        return int(np.argmax(np.where(eligible if eligible.any() else counts.weight > 0, counts.rate, -1.0)))

    def _group(self, attribute: str, counted: CountedSides, index: int, side: Side, base: int | None) -> Group:
        name = str(counted.counts.categories[index])
        row = Group(
            attribute, name, side.people, side.positives, side.rate, *rate_interval(side.k, side.n, self.confidence)
        )
        row = replace(row, weight=side.weight, effective_people=side.n)
        if index == base:
            return replace(row, finding=REFERENCE)
        others = counted.rest(index) if base is None else counted.group(base)
        if others is None:  # nobody of the reference group counts
            return replace(row, finding=TOO_FEW)
        # Of two groups each is the other's rest: whichever is the reference, neither may be far below the other.
        both = base is None or (self.method == "one_vs_rest" and len(counted.counts.categories) == 2)
        return self._compared(row, side, others, both=both)

    def _compared(self, row: Group, side: Side, others: Side, *, both: bool) -> Group:
        """Compare a group with others; ``both`` if these may not be worse off either."""
        row = replace(row, **compare_rates(side.k, side.n, others.k, others.n, self.confidence))
        row = replace(row, shortfall=side.weight * (others.rate - side.rate), **self._odds(side, others))
        row = replace(row, rate_of_others=others.rate, effective_others=others.n)
        if min(side.n, others.n) < self.min_people:
            row = replace(row, finding=TOO_FEW)
        if others.positives == 0:
            return row if side.positives == 0 or not both else replace(row, rule=0.0, ratio=math.inf)
        ratio, more, fewer = (_ratio(side, others, step) for step in (0, 1, -1))
        towards = 1 if ratio < 100.0 else -1
        flipped = ratio if ratio == 100.0 else _ratio(side, others, towards, -towards)
        low, high = ratio_interval(side.k, side.n, others.k, others.n, self.confidence)
        rules = [_two_sided(value) if both else value for value in (ratio, more, fewer, flipped)]
        return replace(
            row,
            rule=rules[0],
            ratio=ratio,
            ratio_low=100.0 * low,
            ratio_high=100.0 * high,
            ratio_one_more=more if side.positives < side.people else None,
            ratio_one_fewer=fewer,
            one_decision_matters=min(rules[:3]) < self.threshold <= max(rules[:3]),
            ratio_flipped=None if math.isinf(flipped) or ratio == 100.0 else flipped,
            flip_matters=(rules[0] < self.threshold) != (rules[3] < self.threshold),
            flip_reverses=(ratio < 100.0 <= flipped) or (ratio > 100.0 >= flipped),
        )

    def _odds(self, side: Side, others: Side) -> dict[str, Any]:
        """Return the odds ratio with its exact limits."""
        limits = odds_ratio_interval(*side.whole, *others.whole, self.confidence)
        found = {"odds_ratio": odds_ratio(side.k, side.n, others.k, others.n)}
        if limits is not None:
            found |= {"odds_ratio_low": limits[0], "odds_ratio_high": limits[1]}
        return found


def _two_sided(ratio: float) -> float:
    """Return the lower rate in percent of the higher."""
    return ratio if ratio <= 100.0 else 1e4 / ratio


def _ratio(side: Side, others: Side, step: int, step_others: int = 0) -> float:
    """Return the ratio in percent if so many more (of average weight) on each side had the positive decision."""
    rate, other = _moved(side, step), _moved(others, step_others)
    if other[0] == 0:
        return math.inf
    return 100.0 * ((rate[0] * other[1]) / (rate[1] * other[0]))


def _moved(side: Side, step: int) -> tuple[float, float]:
    """Return accepted and all people of a side, in units of people, after ``step`` more acceptances."""
    accepted = float(side.positives) if side.k == side.positives else side.rate * side.people
    return min(max(accepted + step, 0.0), side.people), side.people


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
