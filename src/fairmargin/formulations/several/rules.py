"""Rules on decisions beside other constraints: the search of a p%-rule among the classifiers that satisfy the others.

Every candidate is solved within the region of the convex constraints. Its cut must keep the promises too, bounds on
covariances that depend on the intercept, and a bound on the loss: an interval of thresholds. Several rules are judged
together, each under its own notion.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.exceptions import InfeasibleError
from fairmargin.formatting import with_article
from fairmargin.formulations.prule import PRuleOutcome
from fairmargin.formulations.prule.families import unconstrained_candidate
from fairmargin.formulations.prule.judge import Cut, Judge, make_judge
from fairmargin.formulations.prule.outcome import make_outcome
from fairmargin.formulations.prule.search import Found, find_classifier
from fairmargin.formulations.several.budget import cuts_within
from fairmargin.formulations.several.demands import Demands
from fairmargin.formulations.task import Task
from fairmargin.formulations.ties import without_rounding
from fairmargin.problem import Solution
from fairmargin.ranking import Ranking
from fairmargin.tolerances import HAIR

__all__ = ["JointJudge", "make_joint", "solve_rules"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class JointJudge(Judge):
    """Judges decisions by several rules at once, at cuts that the other constraints allow.

    Parameters
    ----------
    people, rule, may_cut, smooth_below
        As in :class:`Judge`: everybody under the notions of all rules, and the first rule, which guide the search.
    parts : tuple of Judge
        One per rule, each under its own notion: they alone decide what is kept and measured.
    places : tuple of (K,) of bool
        The columns of each of them among those of all rules.
    demands : Demands
        The other constraints.
    """

    parts: tuple[Judge, ...] = ()
    places: tuple[NDArray[np.bool_], ...] = ()
    demands: Demands | None = field(default=None, compare=False)

    def reached(self, scores: Array) -> float:
        """Return the level of the first rule, less what any rule is missed by."""
        short = min(part.reached(scores) - part.rule.level for part in self.parts)
        return min(self.parts[0].reached(scores), self.rule.level + short)

    def allowed_gaps(self, rate: Array, rest: Array) -> Array:
        """Return the gaps that all rules allow, each under its own notion, by column."""
        found = np.full(len(rate), np.inf)
        for part, place in zip(self.parts, self.places, strict=True):
            found[place] = np.minimum(found[place], part.allowed_gaps(rate[place], rest[place]))
        return found

    @property
    def trust_in_gaps(self) -> Array:
        """The share of each column's gap that counts for the rule that takes it for most."""
        found = np.zeros(len(self.places[0]))
        for part, place in zip(self.parts, self.places, strict=True):
            found[place] = np.maximum(found[place], part.trust_in_gaps)
        return found

    def look(self, found: Solution, floor: float = 0.0) -> tuple[Cut | None, float]:
        """Return the best allowed cut that keeps all rules, and the accuracy of the best allowed one without them."""
        scores = without_rounding(found.scores)
        if not self.may_cut:
            keeps = self.may_stay(found) and not self.is_constant(scores)
            return (Cut(self.people.accuracy(scores >= 0), 0.0) if keeps else None), 1.0
        ranking = self.people.rank(scores)
        allowed, thresholds = self._allowed_cuts(found, ranking)
        ceiling = float(ranking.accuracy[allowed].max(initial=0.0))
        cuts = self._that_keep(ranking, scores, allowed[ranking.accuracy[allowed] >= floor])
        if not len(cuts):
            return None, ceiling
        best = cuts[ranking.accuracy[cuts] >= ranking.accuracy[cuts].max() - HAIR]
        nearest = best[int(np.argmin(np.abs(thresholds[best])))]
        return Cut(float(ranking.accuracy[nearest]), float(thresholds[nearest])), ceiling

    def cuts(self, found: Solution, ranking: Ranking) -> tuple[NDArray[np.intp], Array]:
        """Return the cuts that keep all rules and everything else, ascending, and the threshold of each."""
        allowed, thresholds = self._allowed_cuts(found, ranking)
        cuts = self._that_keep(ranking, without_rounding(found.scores), allowed)
        return cuts, thresholds[cuts]

    def _allowed_cuts(self, found: Solution, ranking: Ranking) -> tuple[NDArray[np.intp], Array]:
        """Return the cuts that bounds and promises allow, and the thresholds of all cuts."""
        least, most = self.thresholds(found)
        cuts = np.arange(len(ranking.accuracy))
        thresholds = np.clip(ranking.thresholds(cuts), *_open(least, most))
        last = ranking.accepted - 1
        # A threshold at an end of what is allowed may still divide the same people.
        divides = (thresholds <= ranking.scores[last]) & (thresholds > ranking.scores[last + 1])
        return cuts[divides & (least <= most)], thresholds

    def _that_keep(self, ranking: Ranking, scores: Array, cuts: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return those of some cuts that keep all rules and are worth enough."""
        for part in self.parts:
            if len(cuts):
                cuts = cuts[part.levels(part.people.rank(scores), cuts) >= part.rule.level]
        assert self.demands is not None
        for one in self.demands.floors:
            cuts = cuts[one.at_cuts(ranking, scores)[cuts] >= one.least]
        return cuts

    def may_stay(self, found: Solution) -> bool:
        """Whether a classifier keeps all rules and everything else as it is."""
        return self._is_allowed(found) and self.keeps(without_rounding(found.scores))

    def _is_allowed(self, found: Solution) -> bool:
        least, most = self.thresholds(found)
        return least <= 0.0 <= most

    def measures(self, scores: Array) -> tuple[float, float]:
        """Return those of the first rule, under its notion."""
        return self.parts[0].measures(scores)

    def keeps(self, scores: Array) -> bool:
        """Whether the decisions ``scores >= 0`` reach all rules and keep what else is asked."""
        assert self.demands is not None
        least, most = self._allowed(scores)
        kept = least <= 0.0 <= most and self.demands.performs(scores)
        return kept and all(part.keeps(scores) for part in self.parts)

    def keeps_constant(self, accepted: bool) -> bool:
        """Whether accepting everybody, or nobody, reaches all rules and is worth enough."""
        assert self.demands is not None
        scores = np.full(len(self.people.weight), 1.0 if accepted else -1.0)
        worth = all(floor.keeps(scores) for floor in self.demands.floors if floor.constraint.measure != "auc")
        return worth and all(part.keeps_constant(accepted) for part in self.parts)

    def constant_thresholds(self, found: Solution) -> dict[bool, float]:
        """Return the allowed thresholds that accept everybody (True) and nobody (False), where there are any."""
        least, most = self.thresholds(found)
        if least > most:
            return {}
        scores = found.scores
        assert self.demands is not None
        # Moving the intercept leaves the ranking and its AUC as they are.
        if not all(floor.keeps(scores) for floor in self.demands.floors if floor.constraint.measure == "auc"):
            return {}
        far = {accepted: min(max(t, least), most) for accepted, t in super().constant_thresholds(found).items()}
        beyond = {True: far[True] <= scores.min(), False: far[False] > scores.max()}
        return {accepted: t for accepted, t in far.items() if beyond[accepted]}

    @property
    def text(self) -> str:
        """All rules, in words."""
        return " and ".join(part.text for part in self.parts)

    def warn_of_small_groups(self, scores: Array) -> None:
        """Warn of groups that are too small for a rule, of each rule by itself."""
        for part in self.parts:
            part.warn_of_small_groups(scores)

    def thresholds(self, found: Solution) -> tuple[float, float]:
        """Return the least and the largest threshold that the other constraints allow for a classifier."""
        assert self.demands is not None
        least, most = self._allowed(found.scores)
        if np.isinf(self.demands.budget) or least > most:
            return least, most
        low, high = cuts_within(self.demands.task.problem, found, self.demands.budget)
        return max(least, low), min(most, high)

    def _allowed(self, scores: Array) -> tuple[float, float]:
        """Return the same without the bound on the loss, which depends on more than the ranking."""
        assert self.demands is not None
        least, most = -np.inf, np.inf
        if self.demands.promises is not None:
            least, most = self.demands.promises.cuts(scores)
        low, high = self._covariance_cuts(scores)
        return max(least, low), min(most, high)

    def _covariance_cuts(self, scores: Array) -> tuple[float, float]:
        """Return the thresholds within the bounds on covariances; the intercept enters those of wrong decisions."""
        assert self.demands is not None
        task, bounds = self.demands.task, self.demands.bounds
        bounded = np.isfinite(bounds)
        if not np.any(bounded):
            return -np.inf, np.inf
        covariance, slope = task.covariance(scores)[bounded], task.covariance(np.ones_like(scores))[bounded]
        size = np.abs(task.centred[:, bounded]).mean(axis=0)
        room = HAIR * size * (1.0 + float(np.abs(scores).max()))  # what is within a bound but for rounding is within
        moves = np.abs(slope) > HAIR * size
        upper = bounds[bounded] + room
        if np.any(np.abs(covariance[~moves]) > upper[~moves]):  # a candidate whose problem has no solution
            return np.inf, -np.inf
        ends = [(covariance[moves] + side * upper[moves]) / slope[moves] for side in (-1.0, 1.0)]
        return float(np.max(np.minimum(*ends), initial=-np.inf)), float(np.min(np.maximum(*ends), initial=np.inf))


def _open(least: float, most: float) -> tuple[float, float]:
    """Return an interval as ``clip`` takes it, also where it is empty."""
    return least, max(least, most)


def make_joint(demands: Demands, base: Solution) -> tuple[Task, JointJudge, Solution]:
    """Return the task to search on, the judge of all rules, and the least loss within the region, to start at."""
    rules = demands.rules
    task = replace(demands.part(rules), region=demands.region)
    parts = tuple(make_judge(rule, demands.part([rule])) for rule in rules)
    whole = make_judge(rules[0], task)
    columns = [demands.columns(rule) for rule in rules]
    places = tuple(place[np.any(columns, axis=0)] for place in columns)
    judge = JointJudge(whole.people, whole.rule, whole.may_cut, whole.smooth_below, parts, places, demands)
    base = replace(base, multipliers=np.zeros(task.problem.n_rows), scores=task.problem.design.matvec(base.theta))
    return task, judge, base


def solve_rules(demands: Demands, base: Solution) -> PRuleOutcome:
    """Return the most accurate classifier found that keeps all rules; ``base`` has the least loss in the region."""
    task, judge, base = make_joint(demands, base)
    best = find_classifier(task, judge, base, demands.rules[0].path)
    constant = judge.constant_cut(base)
    if constant is not None and (best is None or best.accuracy < constant.accuracy):
        best = Found(unconstrained_candidate(base), constant)
    if best is None:
        raise InfeasibleError(
            f"No classifier found that satisfies the other constraints reaches {_told(judge.parts)} on the training "
            "data."
        )
    return make_outcome(task, judge, best, base)


def _told(parts: tuple[Judge, ...]) -> str:
    return " and ".join(with_article(part.rule.text) for part in parts)
