"""The most accurate classifier found at each of many levels of a p%-rule, all from one search.

A candidate is ranked once, and every cut of its ranking is judged against every level: what is found on the way to
one level serves all others. Both families are looked at on a grid, and then ever closer around the best candidate of
each level. Candidates are solved roughly first; those that promise most at a level are solved exactly and judged at
all levels again. A classifier that reaches a level also reaches every lower one, so that accuracy never rises with
the level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import PRuleBound
from fairmargin.formulations.prule.families import (
    Candidate,
    DecisionFamily,
    unconstrained_candidate,
)
from fairmargin.formulations.prule.judge import Cut, Judge, make_judge
from fairmargin.formulations.prule.outcome import PRuleOutcome, make_outcome
from fairmargin.formulations.prule.rates import SmoothedRates
from fairmargin.formulations.prule.search import (
    FARTHEST,
    FINALISTS,
    STEP,
    Found,
    Scout,
    close_gaps,
    families_of,
    line_of,
    smooth_tasks,
    unconstrained,
)
from fairmargin.formulations.task import Task
from fairmargin.formulations.ties import settle_ties
from fairmargin.tolerances import HAIR

__all__ = ["LevelSearch"]

Array = NDArray[np.float64]

_STEP = STEP / 2  # of the first look along a family: several levels are searched at once
_HALVINGS = 4  # of that step around the best candidate of each level
_SOLVES = 15  # per level while the gaps of several groups are closed; each level starts at the prices of the last
_NOISE = (
    0.125  # share of the reserve by which an exact accuracy may fall short of a rough one; half lost .06% on Adult
)


@dataclass(frozen=True)
class _Entry:
    """A candidate with its best cut at each level, None where it reaches the level at no useful cut.

    ``scout`` can solve it exactly; None if it is exact.
    """

    candidate: Candidate
    cuts: tuple[Cut | None, ...]
    scout: Scout | None = None

    @property
    def accuracies(self) -> Array:
        """The accuracy at each level, minus infinity where it is not reached."""
        return np.array([-np.inf if cut is None else cut.accuracy for cut in self.cuts])

    def found(self, level: int) -> Found:
        """Return the classifier at a level that it reaches."""
        cut = self.cuts[level]
        assert cut is not None
        return Found(self.candidate, cut)


class LevelSearch:
    """Finds classifiers for many levels of a p%-rule on the data of a task.

    Parameters
    ----------
    task : Task
    constraint : PRuleBound
        Which families to search and how groups are compared; its ``p`` is not used.

    Attributes
    ----------
    judge : Judge
    free : Solution
        The unconstrained solution.
    levels : tuple of float
        Those asked for, ascending.
    best : (L,)
        The highest accuracy seen at each level, rough or exact.
    n_looked_at : int
        Candidates that were solved roughly and judged.
    """

    def __init__(self, task: Task, constraint: PRuleBound) -> None:
        self.task, self.path = task, constraint.path
        self.judge = make_judge(constraint, task)
        self.free = unconstrained(task)
        self.floor = self.judge.people.constant_accuracy if self.judge.may_cut else 0.0
        # By how much a rough accuracy may be off, or grow in a closer look: about the standard error of an accuracy.
        self.reserve = 0.5 / np.sqrt(len(self.judge.people.weight))
        self.levels: tuple[float, ...] = ()
        self.best = np.empty(0)
        self.n_looked_at = 0
        self._rough: list[_Entry] = []

    @property
    def reached(self) -> float:
        """The p, in percent, that the unconstrained classifier reaches; 0 if it decides the same for everybody."""
        scores = self.free.scores
        return 0.0 if self.judge.is_constant(scores) else self.judge.reached(scores)

    def find(self, levels: Sequence[float]) -> list[PRuleOutcome | None]:
        """Return the most accurate classifier found for each ascending level; None where no classifier reaches it."""
        self.levels, self.best, self._rough = tuple(levels), np.full(len(levels), self.floor), []
        exact = [self._unconstrained()]
        self.best = np.maximum(self.best, exact[0].accuracies)
        for smooth in smooth_tasks(self.task):
            self._look(Scout(smooth, self.free))
        self._solve_finalists(exact)
        return [
            None if f is None else self._outcome(f, p) for f, p in zip(self._choose(exact), self.levels, strict=True)
        ]

    def _look(self, scout: Scout) -> None:
        """Look along the families that the constraint names."""
        if scout.task is not self.task:
            self.add(scout.unconstrained, scout)
        for name in families_of(self.path, self.task):
            if name == DecisionFamily.name:
                family = DecisionFamily(scout.rough, scout.start)
                look = _look_at_one_price if family.n_prices == 1 else _look_at_prices
                look(self, family, scout)
            elif name == SmoothedRates.name:
                _look_at_rates(self, scout)
            else:
                at = line_of(name, scout).at
                _look_along(self, scout, at, np.arange(1.0 - _STEP, -1.0 - _STEP / 2, -_STEP))

    def add(self, candidate: Candidate, scout: Scout) -> tuple[Array, float]:
        """Judge a rough candidate; return its accuracies at the levels, and that of its best cut of all."""
        self.n_looked_at += 1
        cuts, ceiling = self._cuts(candidate)
        entry = _Entry(candidate, cuts, scout)
        accuracies = entry.accuracies
        self.best = np.maximum(self.best, accuracies)
        if np.any(accuracies > self.best - self.reserve):
            self._rough.append(entry)
            self._forget()
        return accuracies, ceiling

    def may_help(self, ceiling: float) -> bool:
        """Whether neighbours of a candidate whose best cut of all is this accurate may be the best at a level."""
        return ceiling >= float(self.best.min()) - self.reserve

    def _cuts(self, candidate: Candidate) -> tuple[tuple[Cut | None, ...], float]:
        """Return the best cut of a candidate at each level, and the accuracy of its best cut of all."""
        judge, scores = self.judge, candidate.solution.scores
        if not candidate.is_solved:
            return (None,) * len(self.levels), 0.0
        if not judge.may_cut:
            reached = -1.0 if judge.is_constant(scores) else judge.reached(scores)
            cut = Cut(judge.people.accuracy(scores >= 0), 0.0)
            return tuple(cut if reached >= level else None for level in self.levels), 1.0
        ranking = judge.people.rank(scores)
        ceiling = float(ranking.accuracy.max(initial=0.0))
        useful = np.flatnonzero(ranking.accuracy >= max(float(self.best.min()) - self.reserve, self.floor))
        if not len(useful):
            return (None,) * len(self.levels), ceiling
        accuracy, reach = ranking.accuracy[useful], judge.levels(ranking, useful)
        cuts: list[Cut | None] = []
        for level in self.levels:
            kept = np.flatnonzero(reach >= level)
            if not len(kept):
                cuts.append(None)
                continue
            most = kept[accuracy[kept] >= accuracy[kept].max() - HAIR]
            thresholds = ranking.thresholds(useful[most])
            nearest = int(np.argmin(np.abs(thresholds)))
            cuts.append(Cut(float(accuracy[most[nearest]]), float(thresholds[nearest])))
        return tuple(cuts), ceiling

    def _forget(self) -> None:
        """Keep the finalists of each level only: every candidate holds a score per person."""
        if len(self._rough) > 2 * FINALISTS * len(self.levels):
            kept = {id(e) for level in range(len(self.levels)) for e in self._finalists(level)}
            self._rough = [e for e in self._rough if id(e) in kept]

    def _finalists(self, level: int) -> list[_Entry]:
        """Return the most accurate rough candidates at a level, the best first."""
        reach = [e for e in self._rough if e.cuts[level] is not None]
        return sorted(reach, key=lambda e: -e.found(level).accuracy)[:FINALISTS]

    def leading_prices(self) -> list[Array]:
        """Return the prices of the best candidate at each level that is on the decision path, each once."""
        found = {}
        for level in range(len(self.levels)):
            for entry in self._finalists(level)[:1]:
                if entry.candidate.path == DecisionFamily.name:
                    found[id(entry)] = entry.candidate.point
        return list(found.values())

    def _unconstrained(self) -> _Entry:
        """Return the unconstrained classifier, its intercept unmoved where no other place is more accurate."""
        scores = self.free.scores
        free = unconstrained_candidate(self.free)
        cuts, _ = self._cuts(free)
        unmoved = Cut(self.judge.people.accuracy(scores >= 0), 0.0)
        kept = self.reached

        def better(cut: Cut | None, level: float) -> Cut | None:
            tied = cut is not None and kept >= level and unmoved.accuracy >= cut.accuracy - HAIR
            return unmoved if tied else cut

        return _Entry(free, tuple(better(c, p) for c, p in zip(cuts, self.levels, strict=True)))

    def _solve_finalists(self, exact: list[_Entry]) -> None:
        """Solve the candidates that promise more at a level than any exact one, and judge them at all levels."""
        solved: set[int] = set()
        for level in range(len(self.levels)):
            for rough in self._finalists(level):
                assert rough.scout is not None
                noise = 0.0 if rough.scout.few else _NOISE * self.reserve
                if max(e.accuracies[level] for e in exact) >= rough.accuracies[level] - noise:
                    break
                if id(rough) not in solved:
                    solved.add(id(rough))
                    # The hinge loss was searched with rounded corners: the loss itself comes first.
                    rounded = [] if rough.scout.task is self.task else [rough.scout.task]
                    exact += [self._exact(rough, task) for task in (self.task, *rounded)]

    def _exact(self, rough: _Entry, task: Task) -> _Entry:
        solved = rough.candidate.solved(task)
        return _Entry(solved, self._cuts(solved)[0])

    def _choose(self, exact: list[_Entry]) -> list[Found | None]:
        """Return the best exact classifier of each level, a constant one where none is better."""
        chosen: list[Found | None] = []
        for level, asked in enumerate(self.levels):
            judge = self.judge.at(asked)
            best = self._winner(exact, level, judge)
            constant = judge.constant_cut(self.free)
            if constant is not None and (best is None or best.accuracy < constant.accuracy):
                best = Found(unconstrained_candidate(self.free), constant)
            chosen.append(best)
        for level in reversed(range(len(chosen) - 1)):  # what serves a level serves those below it
            above, here = chosen[level + 1], chosen[level]
            if above is not None and (here is None or here.accuracy < above.accuracy):
                chosen[level] = above
        return chosen

    def _winner(self, exact: list[_Entry], level: int, judge: Judge) -> Found | None:
        """Return the most accurate exact classifier whose decisions, as they will be made, reach a level."""
        reach = [e.found(level) for e in exact if e.cuts[level] is not None]
        for found in sorted(reach, key=lambda f: -f.accuracy):  # of equal ones, the first that was solved
            if judge.keeps(self.task.problem.design.matvec(found.theta)):
                return found
        return None

    def _outcome(self, found: Found, level: float) -> PRuleOutcome:
        made = make_outcome(self.task, self.judge.at(level), found, self.free)
        outcome = settle_ties(made, self.task.tol)
        assert isinstance(outcome, PRuleOutcome)
        return outcome


def _look_along(search: LevelSearch, scout: Scout, at: Callable[[float], Candidate], grid: Iterable[float]) -> None:
    """Look at a family of one number on a grid, and ever closer around the best candidate of each level."""
    seen: dict[float, Array] = {}

    def visit(t: float) -> bool:
        if t in seen:
            return True
        seen[t], ceiling = search.add(at(t), scout)
        return search.may_help(ceiling)

    for t in grid:
        if not visit(float(t)):
            break
    step = _STEP
    for _ in range(_HALVINGS):
        step /= 2.0
        places, accuracies = np.array(list(seen)), np.array(list(seen.values()))
        leads = accuracies.max(axis=0) >= search.best - search.reserve
        for t in np.unique(places[accuracies.argmax(axis=0)[leads]]):
            visit(float(t - step))
            visit(float(t + step))


def _look_at_one_price(search: LevelSearch, family: DecisionFamily, scout: Scout) -> None:
    """Look along the price of the only gap, from zero on."""
    _look_along(search, scout, family.one_price().at, np.arange(_STEP, FARTHEST, _STEP))


def _look_at_prices(search: LevelSearch, family: DecisionFamily, scout: Scout) -> None:
    """Close the gaps of several groups to the extent that each level asks for, then move single prices."""
    prices = np.zeros(family.n_prices)
    trust = search.judge.trust_in_gaps

    def visit(candidate: Candidate) -> None:
        search.add(candidate, scout)

    for level in search.levels:
        prices = close_gaps(family, search.judge.at(level).allowed_gaps, visit, trust, start=prices, most=_SOLVES)
    for move in np.vstack([np.eye(len(prices)), -np.eye(len(prices))]) * _STEP / 2.0:
        for leading in search.leading_prices():
            visit(family.priced(leading + move))


def _look_at_rates(search: LevelSearch, scout: Scout) -> None:
    """Bring smoothed rates as close to each other as each level asks for."""
    family, trust = SmoothedRates(scout.rough, scout.start), search.judge.trust_in_gaps
    for level in search.levels:
        for candidate in family.steps(search.judge.at(level).allowed_gaps, trust):
            search.add(candidate, scout)
