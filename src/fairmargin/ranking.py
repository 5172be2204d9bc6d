"""People in descending order of their scores, and the decisions of every cut between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.decisions import GroupCounts, count_decisions, size_groups
from fairmargin.descending import descending
from fairmargin.notions.base import Condition
from fairmargin.sensitive import Attribute, label_index

__all__ = ["Population", "Ranking", "rank_together"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Scores closer than this share of their size count as equal: far above the rounding of a score, which depends on the
# processor, and far below any difference that a decision should rest on.
_CLEARLY_APART = 1e-7
# Decimals of an accuracy: sums of the same people in another order agree in these, so that of equally accurate
# classifiers the same one is preferred on every machine.
_DECIMALS = 12


@dataclass(frozen=True)
class Population:
    """People on whom decisions are judged.

    Parameters
    ----------
    label : (N,) of bool
        Whether the true label is the positive one.
    weight : (N,)
    attributes : tuple of Attribute
        The attributes with groups.
    min_people : int
        Comparisons with fewer people on a side decide nothing.
    stakes : (N,), optional
        What a correct decision on each person counts in accuracies, class weights included; their weight by default.
        Rates of groups do not depend on it.
    conditions : tuple of Condition, optional
        Under which groups are compared; by default everybody counts, and the positive decision.
    """

    label: Mask
    weight: Array
    attributes: tuple[Attribute, ...]
    min_people: int = 1
    stakes: Array | None = None
    conditions: tuple[Condition, ...] = ()

    @cached_property
    def compared(self) -> list[tuple[Condition, Attribute]]:
        """What is counted: every attribute under every condition."""
        return [(c, a) for c in self.conditions or (self._everybody,) for a in self.attributes]

    @property
    def _everybody(self) -> Condition:
        return Condition("", "everybody", np.ones(len(self.label), dtype=bool), np.ones(len(self.label)))

    @cached_property
    def total(self) -> float:
        """Weight of everybody."""
        return float(self.weight.sum())

    @cached_property
    def worth(self) -> Array:
        """What a correct decision on each person adds to an accuracy, (N,); all of them add up to 1."""
        stakes = self.weight if self.stakes is None else self.stakes
        return stakes / stakes.sum()

    @cached_property
    def refusing_accuracy(self) -> float:
        """Accuracy of refusing everybody."""
        return float(self.worth[~self.label].sum())

    @cached_property
    def constant_accuracy(self) -> float:
        """Accuracy of the better of the two constant decisions, accepting everybody and refusing everybody."""
        everybody = np.ones(len(self.label), dtype=bool)
        return max(self.accuracy(everybody), self.accuracy(~everybody))

    def counts(self, accepted: Mask) -> list[GroupCounts]:
        """Count the decisions in the groups of every attribute, under every condition."""
        sized = zip(self._sizes, self.compared, strict=True)
        return [count_decisions(sizes, a, accepted, self._unequal_weight, c) for sizes, (c, a) in sized]

    @cached_property
    def _sizes(self) -> list[GroupCounts]:
        """The groups of everything that is compared, which are the same whatever is decided."""
        return [size_groups(a, self._unequal_weight, self.min_people, c) for c, a in self.compared]

    @cached_property
    def _unequal_weight(self) -> Array | None:
        """The weights, or None where everybody counts once: people are counted faster than weights are added up."""
        return None if np.all(self.weight == 1.0) else self.weight

    def rates(self, accepted: Mask) -> pd.Series | None:
        """Return the positive rates by attribute and category; None where no attribute has groups."""
        counts = self.counts(accepted)
        if not counts:
            return None
        return pd.Series(np.concatenate([c.rate for c in counts]), index=self._labels, name="positive rate")

    @cached_property
    def _labels(self) -> pd.MultiIndex:
        return label_index([(a.name, str(g)) for _, a in self.compared for g in a.categories])

    def accuracy(self, accepted: Mask) -> float:
        """Return the weighted share of correct decisions."""
        return round(float(self.worth @ (accepted == self.label)), _DECIMALS)

    def rank(self, scores: Array) -> Ranking:
        """Return the people in descending order of their scores."""
        return Ranking(self, scores)

    @cached_property
    def gain(self) -> Array:
        """What accepting each person adds to the accuracy, against refusing everybody."""
        return np.where(self.label, self.worth, -self.worth)

    @cached_property
    def additions(self) -> list[Array]:
        """For everything that is compared, what accepting each person adds to the counts of the groups, (G, N).

        That is the person's weight, zero in other groups, and negative where refusals are counted.
        """
        return [
            np.ascontiguousarray(a.members().T) * np.where(c.counts, c.sign * self.weight, 0.0)
            for c, a in self.compared
        ]

    @cached_property
    def group_totals(self) -> list[GroupCounts]:
        """The counts where nobody is accepted: sizes of groups, and the refusals that are counted."""
        return self.counts(np.zeros(len(self.weight), dtype=bool))


class Ranking:
    """People in descending order of score, and the cuts between them.

    A cut accepts the people above it. Cuts are made only between scores that are clearly apart, so that a decision
    never depends on the last digits of a score; cuts that decide the same for everybody are not among them.

    Attributes
    ----------
    order : (N,)
        The people, highest score first.
    accepted : (M,)
        How many people each of the M cuts accepts, ascending, all from 1 to N - 1.
    accuracy : (M,)
        Accuracy of each cut.
    """

    def __init__(self, population: Population, scores: Array) -> None:
        self.population = population
        self.order = descending(scores)
        self.scores = scores.take(self.order)
        self.accepted = 1 + np.flatnonzero(_steps(self.scores) > 0)
        gain = np.cumsum(population.gain.take(self.order)).take(self.accepted - 1)
        self.accuracy = np.round(population.refusing_accuracy + gain, _DECIMALS)

    def thresholds(self, cuts: NDArray[np.intp]) -> Array:
        """Return the scores in the middle of cuts."""
        last = self.accepted.take(cuts) - 1
        return 0.5 * (self.scores.take(last).astype(float) + self.scores.take(last + 1).astype(float))

    def threshold(self, cut: int) -> float:
        """Return the score in the middle of the cut with index ``cut``."""
        return float(self.thresholds(np.array([cut]))[0])

    def counts(self, cuts: NDArray[np.intp]) -> list[GroupCounts]:
        """Return the counts by group of the cuts with ascending indices ``cuts``; ``positives`` is (G, M)."""
        ends = self.accepted.take(cuts)
        people = self.population
        found = []
        for rows, nobody in zip(people.additions, people.group_totals, strict=True):
            # What is counted where nobody is accepted, and what accepting those above the cut adds to it.
            positives = nobody.positives[:, None] + self._sums(rows, ends)
            # A sum of weights that should be zero has the rounding of its terms, which must not pass for a rate.
            rounding = 4.0 * np.sqrt(len(self.order)) * np.finfo(float).eps * nobody.weight[:, None]
            found.append(replace(nobody, positives=np.where(positives > rounding, positives, 0.0)))
        return found

    def _sums(self, rows: Array, ends: NDArray[np.intp]) -> Array:
        """Return the sums of ``rows`` over the first ``ends`` people; only the span of the ends is summed up."""
        first, last = int(ends[0]), int(ends[-1])
        sums = np.empty((len(rows), last - first + 1))
        sums[:, 0] = rows.take(self.order[:first], axis=1).sum(axis=1)
        np.cumsum(rows.take(self.order[first:last], axis=1), axis=1, out=sums[:, 1:])
        sums[:, 1:] += sums[:, :1]
        return sums.take(ends - first, axis=1)


def rank_together(scores: Array) -> NDArray[np.intp]:
    """Return the rank of each score, from 0 for the lowest; scores that are not clearly apart share a rank."""
    order = descending(scores)
    above = np.append(0, np.cumsum(_steps(scores.take(order)) > 0))
    ranks = np.empty(len(scores), dtype=np.intp)
    ranks[order] = above[-1] - above
    return ranks


def _steps(scores: Array) -> Array:
    """Return how much further apart neighbours among descending scores are than rounding explains, (N - 1,)."""
    above, below = scores[:-1], scores[1:]
    rounding = max(_CLEARLY_APART, 8.0 * float(np.finfo(scores.dtype).eps))
    # A score near zero is a difference of larger terms: its rounding is that of a typical score.
    quarter = len(scores) // 4
    spread = float(scores[quarter]) - float(scores[-1 - quarter])
    return above - below - rounding * np.maximum(spread, np.maximum(np.abs(above), np.abs(below)))
