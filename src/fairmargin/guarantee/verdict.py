"""Whether counted decisions support a p%-rule: every comparison of every attribute, in both directions.

The rule is broken if *any* group falls short. It is claimed only if the hypothesis "this group falls short" is
refuted for *every* group, in either direction, at the full level: an intersection-union test, which needs no
correction for the number of groups or attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmargin.decisions import Comparison, GroupCounts, count_groups
from fairmargin.guarantee.ratio_test import effective_counts, people_needed, rejects, rejects_weighted
from fairmargin.guarantee.record import GroupRecord
from fairmargin.membership import probabilities_refused
from fairmargin.notions import Condition
from fairmargin.sensitive import Attribute

__all__ = ["CountedDecisions", "Question", "check_groups_known"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Question:
    """Which rule, and how sure to be of it: ``p`` in percent, ``confidence`` from 0 to 1, ``method`` of comparing."""

    p: float
    confidence: float
    method: str = "one_vs_rest"

    @property
    def ratio(self) -> float:
        """The least ratio of rates."""
        return self.p / 100.0

    @property
    def level(self) -> float:
        """Probability of a mistake that is allowed."""
        return 1.0 - self.confidence


def check_groups_known(attributes: Sequence[Attribute]) -> None:
    """Raise for attributes known as probabilities only: the tests need counts of people."""
    for attribute in attributes:
        if attribute.probabilities is not None:
            raise probabilities_refused(attribute.name, "a guarantee")


@dataclass(frozen=True)
class Needed:
    """About how many people a comparison would need, given the share of a group and the overall rate."""

    people: int
    group: str
    share: float
    rate: float


@dataclass(frozen=True)
class CountedDecisions:
    """Decisions on people not used in training, counted by group.

    Parameters
    ----------
    counts : list of GroupCounts
        One per attribute and condition of the notion.
    squares : list of GroupCounts or None
        The same with squared weights, where people have weights that differ; None for the exact test.
    unweighted : list of GroupCounts or None
        The same without weights, where people have weights that differ.
    people : int
        Number of those who count under any condition.
    given : int
        Number of those given, who count or not.
    constant : str
        ``"accepts"`` or ``"refuses"`` where everybody who counts is decided alike; else empty.
    """

    counts: Sequence[GroupCounts]
    squares: Sequence[GroupCounts] | None
    unweighted: Sequence[GroupCounts] | None
    people: int
    given: int
    constant: str

    @classmethod
    def of(
        cls,
        attributes: Sequence[Attribute],
        accepted: Mask,
        weight: Array | None,
        conditions: Sequence[Condition],
    ) -> CountedDecisions:
        """Count decisions under conditions; equal weights are counted as people."""
        check_groups_known(attributes)

        def count(weight: Array | None) -> list[GroupCounts]:
            return [count_groups(a, accepted, weight, 1, c) for c in conditions for a in attributes]

        counted = np.any([c.counts for c in conditions], axis=0)
        if weight is not None:
            counted &= weight > 0
        decided = accepted[counted]
        constant = "" if decided.any() and not decided.all() else "accepts" if decided.all() else "refuses"
        sizes = (len(decided), len(accepted), constant)
        if weight is None or not len(decided) or np.ptp(weight[counted]) == 0.0:
            return cls(count(None), None, None, *sizes)
        return cls(count(weight), count(weight**2), count(None), *sizes)

    @property
    def kind(self) -> str:
        """What the test can claim."""
        return "exact" if self.squares is None else "asymptotic"

    def supports(self, question: Question) -> bool:
        """Whether every group has people, some but not all people are accepted, and every comparison passes."""
        if self.empty or self.constant:
            return False
        return all(self._passes(k, c, question) for k, c in self._comparisons(question.method))

    @property
    def empty(self) -> tuple[str, ...]:
        """The groups without anybody."""
        return tuple(
            f"{c.name}={category!r}" + (f" | {c.among}" if c.among else "")
            for c in self.counts
            for category, weight in zip(c.categories, c.weight, strict=True)
            if weight == 0
        )

    def failures(self, question: Question) -> list[tuple[int, Comparison]]:
        """Return the comparisons that do not pass, with the index of their attribute."""
        return [(k, c) for k, c in self._comparisons(question.method) if not self._passes(k, c, question)]

    def needed(self, question: Question, failures: list[tuple[int, Comparison]], *, split: bool) -> Needed | None:
        """Return about how many people the hardest of the failed comparisons would need; None if none helps."""
        found = [self._needed(k, c, question, split) for k, c in failures]
        return (
            None if None in found else max((n for n in found if n is not None), key=lambda n: n.people, default=None)
        )

    def _needed(self, k: int, side: Comparison, question: Question, split: bool) -> Needed | None:
        counts = self.counts[k]
        n1, n0 = counts.weight[side.inside].sum(), counts.weight[side.outside].sum()
        x1, x0 = counts.positives[side.inside].sum(), counts.positives[side.outside].sum()
        if min(n1, n0) == 0 or x0 == 0:
            return None
        rate, share = float((x1 + x0) / (n1 + n0)), float(min(n1, n0) / (n1 + n0))
        ratio = 1.0 if split else float((x1 / n1) / (x0 / n0))
        needed = people_needed(rate, share, question.ratio, question.confidence, split=split, ratio=ratio)
        if needed is None:
            return None
        # Of several groups, these two are only a part of the people who count, and those a part of the people.
        everybody = round(needed * counts.weight.sum() / (n1 + n0) * self.given / counts.people.sum())
        smaller = side.group if n1 <= n0 else side.other
        return Needed(everybody, smaller, float(min(n1, n0) / counts.weight.sum()), rate)

    @property
    def groups(self) -> tuple[GroupRecord, ...]:
        """The people of every group, how many of them are accepted and, where weights differ, the weighted rate."""
        found = []
        for k, counts in enumerate(self.counts if self.unweighted is None else self.unweighted):
            rate = [None if self.unweighted is None else float(r) for r in np.nan_to_num(self.counts[k].rate)]
            for row in zip(counts.categories, counts.people, counts.positives, rate, strict=True):
                category, people, accepted, share = row
                found.append(GroupRecord(counts.name, str(category), int(people), int(accepted), share, counts.among))
        return tuple(found)

    def _comparisons(self, method: str) -> list[tuple[int, Comparison]]:
        return [(k, c) for k, counts in enumerate(self.counts) for c in counts.comparisons(method)]

    def _passes(self, k: int, side: Comparison, question: Question) -> bool:
        if question.ratio <= 0.0:
            return True
        one, two = side.inside, side.outside
        counts = self.counts[k]
        x1, n1 = counts.positives[one].sum(), counts.weight[one].sum()
        x0, n0 = counts.positives[two].sum(), counts.weight[two].sum()
        if self.squares is None:
            return rejects(int(x1), int(n1), int(x0), int(n0), question.ratio, question.level)
        return rejects_weighted(self._effective(k, one), self._effective(k, two), question.ratio, question.level)

    def _effective(self, k: int, side: Mask) -> tuple[float, float]:
        """Return the effective counts of the people of some groups: accepted, and all of them."""
        assert self.squares is not None
        counts, squares = self.counts[k], self.squares[k]
        total = float(counts.weight[side].sum())
        rate = min(float(counts.positives[side].sum()) / total, 1.0)  # sums may differ by rounding
        return effective_counts(rate, total, float(squares.weight[side].sum()), float(squares.positives[side].sum()))
