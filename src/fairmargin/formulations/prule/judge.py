"""What decisions reach: the p%-rule, their accuracy, and the most accurate cut of a ranking that keeps the rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin import formatting
from fairmargin.caller import warn
from fairmargin.constraints import PRuleBound
from fairmargin.decisions import GroupCounts, highest_difference, least_ratio
from fairmargin.exceptions import SmallGroupWarning, TrivialClassifierWarning
from fairmargin.formulations.prule.rule import EQUAL, Rule, make_rule
from fairmargin.formulations.task import Task
from fairmargin.formulations.ties import without_rounding
from fairmargin.problem import Solution
from fairmargin.ranking import Population, Ranking
from fairmargin.tolerances import HAIR, NEARLY_ALL

__all__ = ["Cut", "Judge", "make_judge", "warn_of_small_groups"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cut:
    """Accepting where ``score >= threshold``, and the accuracy of that."""

    accuracy: float
    threshold: float


@dataclass(frozen=True)
class Judge:
    """Judges decisions on the training data.

    Parameters
    ----------
    people : Population
        The people trained on.
    rule : Rule
        What must be reached.
    may_cut : bool
        Whether the intercept may be moved; without one, the only cut is at zero.
    smooth_below : float
        Size up to which groups are filled for their rates (:meth:`fairmargin.decisions.GroupCounts.smoothed`).
    """

    people: Population
    rule: Rule
    may_cut: bool
    smooth_below: float = 0.0

    def reached(self, scores: Array) -> float:
        """Return the level of the rule that the decisions ``scores >= 0`` reach, as in :class:`Rule`."""
        return self._reached(scores >= 0)

    def _reached(self, accepted: NDArray[np.bool_]) -> float:
        return float(self.rule.reached(self._smoothed(self.people.counts(accepted))))

    def measures(self, scores: Array) -> tuple[float, float]:
        """Return the p, in percent, and the largest difference of rates, neither smoothed, of ``scores >= 0``.

        The p is 100 where the counted decision is made for nobody.
        """
        counts, method = self.people.counts(scores >= 0), self.rule.method
        ratio = float(least_ratio(counts, method))
        return EQUAL if math.isnan(ratio) else ratio, float(highest_difference(counts, method))

    def at(self, level: float) -> Judge:
        """Return a judge of the same rule at another level."""
        return replace(self, rule=self.rule.at(level))

    def _smoothed(self, counts: list[GroupCounts]) -> list[GroupCounts]:
        return [c.smoothed(self.smooth_below) for c in counts] if self.smooth_below else counts

    @property
    def trust(self) -> list[Array]:
        """For everything compared, the share of its own gap that a group's smoothed rate keeps, (G,).

        It is zero for groups of fewer than ``min_people``, which no rule is about.
        """
        size, least = max(self.smooth_below, 1.0), self.people.min_people
        sizes = [c.people for c in self.people.group_totals]
        return [np.where(people >= least, np.minimum(people / size, 1.0), 0.0) for people in sizes]

    def keeps(self, scores: Array) -> bool:
        """Whether the decisions ``scores >= 0`` reach the rule."""
        return self.reached(scores) >= self.rule.level

    def keeps_constant(self, accepted: bool) -> bool:
        """Whether accepting everybody, or nobody, reaches the rule."""
        return self._reached(np.full(len(self.people.weight), accepted)) >= self.rule.level

    def is_constant(self, scores: Array) -> bool:
        """Whether ``scores >= 0`` decides the same for everybody."""
        accepted = scores >= 0
        return bool(accepted.all() or not accepted.any())

    def is_useful(self, accuracy: float) -> bool:
        """Whether an accuracy is above that of the better constant decision by more than about its standard error."""
        return accuracy > self.people.constant_accuracy + 0.5 / math.sqrt(len(self.people.weight))

    def allowed_gaps(self, rate: Array, rest: Array) -> Array:
        """Return the gaps that the rule allows between the rates of groups and of the rest, by column."""
        return self.rule.allowed(rate, rest)

    @property
    def trust_in_gaps(self) -> Array:
        """The share of each column's gap that counts; of two groups, that of the smaller."""
        return np.concatenate([t if len(t) > 2 else [t.min()] for t in self.trust])

    def may_stay(self, found: Solution) -> bool:
        """Whether a classifier may decide as it is, whatever the rule says."""
        return True

    def cuts(self, found: Solution, ranking: Ranking) -> tuple[NDArray[np.intp], Array]:
        """Return the cuts that may be made, ascending, and the threshold of each."""
        cuts = np.arange(len(ranking.accuracy))
        return cuts, ranking.thresholds(cuts)

    def best_cut(self, found: Solution) -> Cut | None:
        """Return the most accurate cut that keeps the rule and accepts some but not all; None if there is none.

        Of equally accurate cuts, the one that moves the intercept least is returned.
        """
        return self.look(found)[0]

    def look(self, found: Solution, floor: float = 0.0) -> tuple[Cut | None, float]:
        """Return the best cut, with an accuracy of at least ``floor``, and the accuracy of the best without the rule.

        Without an intercept there is but one cut.
        """
        scores = without_rounding(found.scores)
        if not self.may_cut:
            accuracy = self.people.accuracy(scores >= 0)
            keeps = self.keeps(scores) and not self.is_constant(scores)
            return (Cut(accuracy, 0.0) if keeps else None), 1.0
        ranking = self.people.rank(scores)
        ceiling = float(ranking.accuracy.max(initial=0.0))
        cuts = np.flatnonzero(ranking.accuracy >= floor)
        if len(cuts):
            cuts = cuts[self.levels(ranking, cuts) >= self.rule.level]
        if not len(cuts):
            return None, ceiling
        best = cuts[ranking.accuracy[cuts] >= ranking.accuracy[cuts].max() - HAIR]
        thresholds = ranking.thresholds(best)
        nearest = int(np.argmin(np.abs(thresholds)))
        return Cut(float(ranking.accuracy[best[nearest]]), float(thresholds[nearest])), ceiling

    def levels(self, ranking: Ranking, cuts: NDArray[np.intp]) -> Array:
        """Return the level of the rule that each of the cuts with ascending indices ``cuts`` reaches."""
        return np.asarray(self.rule.reached(self._smoothed(ranking.counts(cuts))))

    def constant_cut(self, found: Solution) -> Cut | None:
        """Return the better of the cuts that accept everybody and nobody; None if the intercept may not be moved.

        Deciding the same for everybody keeps every rule but those on error rates, which depend on the labels: a
        cut that breaks the rule is left out. The cut is as far beyond the last score as the scores spread, so that it
        means the same for other people.
        """
        if not self.may_cut:
            return None
        cuts = [
            Cut(self.people.accuracy(np.full(len(found.scores), accepted)), threshold)
            for accepted, threshold in self.constant_thresholds(found).items()
            if self.keeps_constant(accepted)
        ]
        return max(cuts, key=lambda cut: cut.accuracy, default=None)

    def constant_thresholds(self, found: Solution) -> dict[bool, float]:
        """Return the thresholds that accept everybody (True) and nobody (False)."""
        low, high = float(found.scores.min()), float(found.scores.max())
        room = max(high - low, 1.0)
        return {True: low - room, False: high + room}

    def warn(self, scores: Array) -> None:
        """Warn if the decisions ``scores >= 0`` are no better than constant ones, or rest on small groups."""
        self._warn_if_trivial(scores)
        if np.any(scores >= 0):
            self.warn_of_small_groups(scores)

    @property
    def text(self) -> str:
        """What is asked for, in words."""
        return self.rule.text

    def _warn_if_trivial(self, scores: Array) -> None:
        people = replace(self.people, stakes=None)  # whatever class weights say, decide by plain accuracy what to say
        accuracy, constant = people.accuracy(scores >= 0), people.constant_accuracy
        if self.is_constant(scores):
            what = f"{'accepts' if scores[0] >= 0 else 'refuses'} everybody"
        elif accuracy <= constant + HAIR:
            what = (
                f"has an accuracy of {accuracy:.3f}, no better than deciding the same for everybody ({constant:.3f})"
            )
        elif (alike := self._decided_alike(scores)) > NEARLY_ALL:
            what = f"decides the same for {alike:.2%} of the people"
        else:
            return
        warn(
            f"The classifier found for the {self.text} {what}. Ask for {self.rule.weaker}, merge small groups, "
            "or add features.",
            TrivialClassifierWarning,
        )

    def _decided_alike(self, scores: Array) -> float:
        """Return the share of the people who get the more frequent decision."""
        accepted = float(self.people.weight @ (scores >= 0)) / self.people.total
        return max(accepted, 1.0 - accepted)

    def warn_of_small_groups(self, scores: Array) -> None:
        """Warn of groups that are too small for the rule."""
        warn_of_small_groups(self.rule, self.people.counts(scores >= 0))


def warn_of_small_groups(rule: Rule, counted: Sequence[GroupCounts]) -> None:
    """Warn where chance alone moves a group's rate by more than the rule allows (95% interval)."""
    small = []
    for counts in counted:
        among = f", {counts.among}" if counts.among else ""
        present = counts.weight > 0
        if np.all(counts.rate[present] >= 1.0):
            continue  # decided alike, as everybody: chance moves nothing
        few = rule.too_few(counts.rate, counts.people) & present
        for k in np.flatnonzero(few):
            small.append(
                f"{counts.name}={counts.categories[k]!r}{among} ({formatting.people(round(counts.people[k]))})"
            )
    if small:
        warn(
            f"The {rule.text} holds on the training data, but in these groups chance alone moves the "
            f"{rule.rates or 'positive rate'} by more than the rule allows: {', '.join(small)}. For "
            "other people it may not hold.",
            SmallGroupWarning,
        )


def make_judge(constraint: PRuleBound, task: Task) -> Judge:
    """Return the judge of a constraint on the data of a task; raise for an attribute without groups."""
    data = task.data
    people = Population(
        data.y > 0,
        data.people_weight,
        task.sensitive.attributes,
        constraint.min_people,
        data.loss_weight,
        task.columns.conditions,
    )
    people.group_totals  # noqa: B018 - raises for numeric attributes
    may_cut, below = task.problem.design.fit_intercept, float(constraint.smooth_below or 0)
    return Judge(people, make_rule(constraint), may_cut, below)
