"""Classifiers to be tested on other people, in the order of the tests.

A test on people set aside looks at one classifier after the other and stops at the first that fails, so that their
number needs no correction. The order may depend on the training data in any way. Here it is by *margin*: the
statistic of the test (in standard errors, the least over all comparisons) that a classifier would have on the people
set aside if its rates were those of training. First comes the classifier of the largest margin, which may accept
more people than is most accurate; then, as the margin falls to zero, ever more accurate ones. The last that passes is
the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import PRuleBound
from fairmargin.decisions import GroupCounts
from fairmargin.formulations.outcome import Outcome
from fairmargin.formulations.prule.families import Candidate, DecisionFamily, Prices
from fairmargin.formulations.prule.judge import Cut, Judge, make_judge
from fairmargin.formulations.prule.outcome import make_outcome
from fairmargin.formulations.prule.rates import SmoothedRates
from fairmargin.formulations.prule.search import Found, Scout, close_gaps, line_of, smooth_tasks, unconstrained
from fairmargin.formulations.task import Task
from fairmargin.formulations.ties import settle_ties
from fairmargin.guarantee.ratio_test import score
from fairmargin.problem import Solution
from fairmargin.tolerances import HAIR

__all__ = ["Allowed", "SafetySequence"]

Array = NDArray[np.float64]

_STEP = 0.2  # of the margin, in standard errors, between neighbouring classifiers
_HIGHEST = 8.0  # margin above which no test fails
_POINTS = 12  # of each family between no constraint and equal rates (decisions) or no covariance; a third more beyond


@dataclass(frozen=True)
class _Ranked:
    """A candidate with the margin and the accuracy of each of its worthwhile cuts."""

    candidate: Candidate
    task: Task
    thresholds: Array
    margin: Array
    accuracy: Array

    def cut(self, margin: float) -> Cut | None:
        """Return the most accurate cut with a margin of at least ``margin``; of equal ones that moved least."""
        enough = np.flatnonzero(self.margin >= margin)
        if not len(enough):
            return None
        best = enough[self.accuracy[enough] >= self.accuracy[enough].max() - HAIR]
        nearest = best[np.argmin(np.abs(self.thresholds[best]))]
        return Cut(float(self.accuracy[nearest]), float(self.thresholds[nearest]))


@dataclass(frozen=True)
class Allowed:
    """What is searched for classifiers to test.

    Attributes
    ----------
    judge : Judge
        Of everything that is asked.
    start : Solution
        The classifier of least loss.
    tested : Judge
        Of the rule that is tested.
    accuracy : float
        Of the unconstrained classifier.
    """

    judge: Judge
    start: Solution
    tested: Judge
    accuracy: float

    @classmethod
    def everything(cls, task: Task, constraint: PRuleBound) -> Allowed:
        """Return what a rule alone allows."""
        judge = make_judge(replace(constraint, smooth_below=None), task)  # a test is about the rates themselves
        free = unconstrained(task)
        return cls(judge, free, judge, judge.people.accuracy(free.scores >= 0))


class SafetySequence:
    """The classifiers of a task by their margins.

    Parameters
    ----------
    task : Task
        On the people who train.
    constraint : PRuleBound
    n_test : float
        Number of people who will be tested, in all.
    allowed : Allowed, optional
        What other constraints allow; everything by default.
    """

    def __init__(self, task: Task, constraint: PRuleBound, n_test: float, allowed: Allowed | None = None) -> None:
        self.task, self.constraint = task, constraint
        allowed = Allowed.everything(task, constraint) if allowed is None else allowed
        self.judge, self.free, self.tested = allowed.judge, allowed.start, allowed.tested
        self.share = n_test / len(task.data.y)
        people = self.judge.people
        self.floor = people.constant_accuracy + max(
            constraint.min_gain * (allowed.accuracy - people.constant_accuracy), 2.0 * HAIR
        )
        self._ranked = [r for r in map(self._rank, self._pool()) if len(r.margin)]
        self._solved: dict[int, _Ranked] = {}

    @property
    def highest(self) -> float:
        """The largest margin there is; negative infinity where no classifier is accurate enough."""
        return min(max((float(r.margin.max()) for r in self._ranked), default=-np.inf), _HIGHEST)

    def margins(self, highest: float | None = None) -> Array:
        """Return the margins of the classifiers to test, descending to zero."""
        top = self.highest if highest is None else highest
        return np.arange(np.floor(top / _STEP), -0.5, -1.0) * _STEP if top >= 0 else np.empty(0)

    def __iter__(self) -> Iterator[Outcome]:
        """Yield the classifiers, each once, by descending margin."""
        last = None
        for margin in self.margins():
            found = self.at(margin)
            if found is None:
                continue
            key = (id(found.candidate), found.cut.threshold)
            if key != last:
                yield self.outcome(found)
            last = key

    def at(self, margin: float) -> Found | None:
        """Return the most accurate classifier with a margin of at least ``margin``, solved exactly."""
        order = [(cut.accuracy, k) for k, r in enumerate(self._ranked) if (cut := r.cut(margin)) is not None]
        for _, k in sorted(order, key=lambda pair: -pair[0])[:_POINTS]:
            exact = self._exact(k)
            cut = exact.cut(margin)
            if cut is not None:
                return Found(exact.candidate, cut)
        return None

    def outcome(self, found: Found) -> Outcome:
        """Return what is kept of a classifier, with nobody on its boundary."""
        return settle_ties(self._made(found), self.task.tol)

    def _made(self, found: Found) -> Outcome:
        return make_outcome(self.task, self.judge, found, self.free)

    def _exact(self, k: int) -> _Ranked:
        if k not in self._solved:
            rough = self._ranked[k]
            self._solved[k] = self._rank((rough.candidate.solved(rough.task), rough.task))
        return self._solved[k]

    def _pool(self) -> Iterator[tuple[Candidate, Task]]:
        """Yield the unconstrained classifier and those of the families, each with the task that solves it."""
        for smooth in smooth_tasks(self.task)[:1]:
            scout = Scout(smooth, self.free)
            yield scout.unconstrained, smooth
            if self.constraint.path in ("auto", "decisions"):
                family = DecisionFamily(scout.rough, scout.start)
                ray = Prices(family, close_gaps(family, self.tested.rule.equal_rates.allowed))
                for k in range(1, 1 + _POINTS + _POINTS // 3):
                    yield ray.at(k / _POINTS), smooth
            if self.constraint.path == "rates":
                steps = SmoothedRates(scout.rough, scout.start).steps(self.tested.rule.equal_rates.allowed)
                yield from ((candidate, smooth) for candidate in steps)
            elif self.constraint.path != "decisions":
                line = line_of(self.constraint.path, scout)
                for k in range(_POINTS - 1, -1 - _POINTS // 3, -1):
                    yield line.at(k / _POINTS), smooth

    def _rank(self, pair: tuple[Candidate, Task]) -> _Ranked:
        candidate, task = pair
        if not self.judge.may_cut:
            return self._uncut(candidate, task)
        scores = candidate.solution.scores
        ranking = self.judge.people.rank(scores)
        cuts, thresholds = self.judge.cuts(candidate.solution, ranking)
        enough = ranking.accuracy[cuts] >= self.floor
        cuts, thresholds = cuts[enough], thresholds[enough]
        margin = self._margin(self.tested.people.rank(scores).counts(cuts)) if len(cuts) else np.empty(0)
        keeps = margin >= 0.0
        return _Ranked(candidate, task, thresholds[keeps], margin[keeps], ranking.accuracy[cuts[keeps]])

    def _uncut(self, candidate: Candidate, task: Task) -> _Ranked:
        accepted = candidate.solution.scores >= 0
        margin = np.atleast_1d(self._margin(self.tested.people.counts(accepted)))
        accuracy = np.array([self.judge.people.accuracy(accepted)])
        keeps = (margin >= 0) & (accuracy >= self.floor) & self.judge.may_stay(candidate.solution)
        return _Ranked(candidate, task, np.zeros(int(keeps.sum())), margin[keeps], accuracy[keeps])

    def _margin(self, counts: list[GroupCounts]) -> Array:
        """Return the least statistic over all comparisons, with the rates of training and the people of the test."""
        ratio = max(self.tested.rule.share, HAIR)
        found = []
        for c in counts:
            people = np.maximum(c.people * self.share, 1.0)
            rate = np.nan_to_num(c.rate)
            for side in c.comparisons(self.tested.rule.method):
                n1, n0 = people[side.inside].sum(), people[side.outside].sum()
                x1 = np.tensordot(people[side.inside], rate[side.inside], axes=1)
                x0 = np.tensordot(people[side.outside], rate[side.outside], axes=1)
                found.append(score(x1, n1, x0, n0, ratio))
        return np.min(found, axis=0)
