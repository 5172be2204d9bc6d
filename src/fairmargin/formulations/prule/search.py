"""The search for the most accurate classifier of the families that keeps the rule.

Where people are many, the search solves convex problems only roughly: with a wide tolerance and in single precision
where that will do. The hinge loss is searched with a rounded corner. Every candidate is judged at every cut of its
ranking. The most accurate candidates are then solved to the tolerance of the task and judged anew.

Of two classifiers the more accurate one is preferred; of equally accurate ones, that of lower training objective.
Prices and factors are multiples of powers of two, so that the last digits of rough solutions do not reach the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairmargin.formulations.prule.families import (
    Candidate,
    CovarianceFamily,
    DecisionFamily,
    Family,
    Prices,
    unconstrained_candidate,
)
from fairmargin.formulations.prule.judge import TIED, Cut, Judge
from fairmargin.formulations.task import Task
from fairmargin.losses import SmoothedHingeLoss
from fairmargin.problem import Solution
from fairmargin.solvers import Start

__all__ = ["Found", "Scout", "close_gaps", "find_classifier", "smooth_tasks", "unconstrained"]

Array = NDArray[np.float64]

_ROUGH = 1e-2  # relative gap of the search
_NOISE = 1e-3  # difference in accuracy between rough and exact solutions
_FEW = 5000  # people up to whom a solve takes milliseconds: these get a closer look, with exact solutions
_NARROW = 200  # columns up to which it takes no more than that
_STEP = 0.25  # of the first look along a family; half of that for few people
_HALVINGS = 2  # of the step around the best point of a family
_FARTHEST = 1.5  # price up to which few people are looked at; from 1 on, two equal groups outweigh the labels
_SOLVES = 75  # per stage of the search in several prices; with six on Adult the best came as late as the 58th
_DIGIT = 1 / 256  # prices are multiples of this
_SHRINK, _GROW = 0.5, 1.2  # the usual factors of Rprop
_FINALISTS = 8  # candidates per family that are solved exactly at most
_CORNERS = (0.1, 1.0)  # widths of a rounded hinge loss: nearly the hinge loss, and rounded over the whole margin


@dataclass(frozen=True)
class Found:
    """A candidate that keeps the rule at a cut."""

    candidate: Candidate
    cut: Cut

    @property
    def accuracy(self) -> float:
        """Accuracy at the cut."""
        return self.cut.accuracy

    @property
    def theta(self) -> Array:
        """Coefficients, with the intercept moved to the cut."""
        theta = self.candidate.solution.theta.copy()
        if self.cut.threshold:
            theta[-1] -= self.cut.threshold
        return theta


def unconstrained(task: Task) -> Solution:
    """Return the unconstrained solution.

    Scores are computed anew wherever a rule is judged in the end: rounding must not tip a score over zero.
    """
    free = task.solve(task.problem.unconstrained())
    scores = task.problem.design.matvec(free.theta)
    return replace(free, multipliers=np.zeros(task.problem.n_rows), scores=scores)


def find_classifier(task: Task, judge: Judge, free: Solution, path: str) -> Found | None:
    """Return the most accurate classifier found that keeps the rule and accepts some people but not all.

    ``free`` is the unconstrained solution; ``path`` is as in :class:`fairmargin.PRuleBound`.
    """
    cut = judge.best_cut(free.scores)
    best = None if cut is None else Found(unconstrained_candidate(free), cut)
    scouts = [Scout(smooth, free) for smooth in smooth_tasks(task)]
    best = _search_families(task, judge, scouts, path, best)
    if best is None and not judge.may_cut:  # rough solutions may differ from exact ones in who is beyond zero
        best = _search_families(task, judge, [Scout(task, free, exact=True)], path, best)
    return best


def _search_families(task: Task, judge: Judge, scouts: list[Scout], path: str, best: Found | None) -> Found | None:
    """Return the best of the classifier given and of those found on the families that ``path`` names.

    Of few people, each family is searched as if it were alone, so that searching both is never worse than one.
    """
    for name, look in _LOOKS.items():
        if path in ("auto", name):
            known = None if _are_few(task) else best
            best = _better(task, best, _search_family(task, judge, scouts, look, known))
    return best


def _search_family(task: Task, judge: Judge, scouts: list[Scout], look: _Look, known: Found | None) -> Found | None:
    """Return the best classifier of one family, looking closer only if it may be better than the one known.

    The scores of the hinge loss crowd at the margins, so that no cut may divide people as the rule asks. The wider
    its corner, the more the scores spread. A rounded one is returned where it is clearly better than the hinge loss,
    and the widest is tried where the others lose much.
    """
    best: Found | None = None
    for scout in scouts:
        first = scout is scouts[0]
        if not first and not _is_costly(judge, scout.free, _better(task, best, known)):
            break
        walk = _Walk(judge, _are_few(task))
        look(scout, walk)
        walk.refine()
        if known is not None and walk.accuracy < known.accuracy - walk.reserve:
            continue
        if first:
            best = _first_as_good(task, judge, walk.found)
        if scout.task is not task:
            best = _clearly_better(task, best, _first_as_good(scout.task, judge, walk.found))
    return best


def smooth_tasks(task: Task) -> list[Task]:
    """Return the task itself or, for the hinge loss, the task with its corner rounded over several widths."""
    if task.problem.loss.smooth:
        return [task]
    return [replace(task, problem=replace(task.problem, loss=SmoothedHingeLoss(width))) for width in _CORNERS]


def _is_costly(judge: Judge, free: Solution, best: Found | None) -> bool:
    """Whether more than half of what the unconstrained classifier gains over a constant decision is lost."""
    before = judge.people.accuracy(free.scores >= 0)
    return best is None or best.accuracy < 0.5 * (before + judge.people.constant_accuracy)


class Scout:
    """A task to search on: with a smooth loss and prepared for rough solutions, unless ``exact``.

    Attributes
    ----------
    task : Task
        Solves exactly.
    free : Solution
        The unconstrained solution of the original task.
    rough : Task
        Solves roughly.
    start : Solution
        The unconstrained solution of ``rough``.
    """

    def __init__(self, task: Task, free: Solution, exact: bool = False) -> None:
        self.task, self.free, self.exact = task, free, exact

    @cached_property
    def _prepared(self) -> tuple[Task, Solution]:
        task, free = self.task, self.free
        if self.exact:
            return task, free
        few = _are_few(task)
        scout = replace(task, tol=task.tol if few else max(task.tol, _ROUGH), proof=False)
        if free.hessian is None:  # that of the hinge loss
            free = scout.solve(task.problem.unconstrained(), Start(free.theta))
        return (scout, free) if few else task.roughly(_ROUGH, free)

    @property
    def unconstrained(self) -> Candidate:
        """The unconstrained classifier of the rough task."""
        return unconstrained_candidate(self.start)

    @property
    def rough(self) -> Task:
        """The task that solves roughly."""
        return self._prepared[0]

    @property
    def start(self) -> Solution:
        """The unconstrained solution of the rough task."""
        return self._prepared[1]


class _Walk:
    """Rough candidates of one family that keep the rule, most of them along lines."""

    def __init__(self, judge: Judge, few: bool) -> None:
        self.judge = judge
        self.few = few
        # What refining may add to an accuracy: about the standard error of an accuracy, or anything for few people.
        self.reserve = 1.0 if self.few else 0.5 / np.sqrt(len(judge.people.weight))
        self.found: list[Found] = []  # the most accurate first
        self._lines: list[_Line] = []

    @property
    def accuracy(self) -> float:
        """The highest accuracy found; 0 if nothing keeps the rule."""
        return self.found[0].accuracy if self.found else 0.0

    @property
    def worthwhile(self) -> float:
        """The accuracy below which a candidate cannot become the best one."""
        return self.accuracy - self.reserve

    def judged(self, candidate: Candidate) -> Found | None:
        """Keep a candidate if one of its worthwhile cuts keeps the rule."""
        cut = self.judge.best_cut(candidate.solution.scores, self.worthwhile)
        if cut is None:
            return None
        found = Found(candidate, cut)
        self.found = sorted([*self.found, found], key=lambda f: -f.accuracy)[:_FINALISTS]  # each holds N scores
        return found

    def along(self, family: Family, grid: Iterable[float], step: float) -> None:
        """Judge the candidates of a family on a grid; of many people, until they are no longer worthwhile."""
        line = _Line(self, family, step)
        self._lines.append(line)
        for t in grid:
            if line.look(float(t)) < self.worthwhile and self.found and not self.few:
                break

    def refine(self) -> None:
        """Look closer around the best point of every line that may hold the best one."""
        for line in self._lines:
            line.refine()


class _Line:
    """The candidates of a family with one parameter, each judged once."""

    def __init__(self, walk: _Walk, family: Family, step: float) -> None:
        self.walk, self.family, self.step = walk, family, step
        self._accuracy: dict[float, float] = {}

    def look(self, t: float) -> float:
        """Return the accuracy of the candidate at ``t``; minus infinity if it is not kept."""
        if t not in self._accuracy:
            found = self.walk.judged(self.family.at(t))
            self._accuracy[t] = -np.inf if found is None else found.accuracy
        return self._accuracy[t]

    def refine(self) -> None:
        """Halve the step around the best point, if that is worthwhile."""
        step = self.step
        for _ in range(_HALVINGS):
            best = max(self._accuracy, key=lambda t: self._accuracy[t])
            if self._accuracy[best] < self.walk.worthwhile:
                break
            step /= 2.0
            self.look(best - step)
            self.look(best + step)


def _are_few(task: Task) -> bool:
    n, p = task.problem.design.shape
    return n <= _FEW and p <= _NARROW


def _look_along_covariance(scout: Scout, walk: _Walk) -> None:
    """Look along the covariance path, from nearly unconstrained to the opposite covariance.

    The rule is reached on one side of zero covariance: of many people, the other is looked at only if that was wrong.
    """
    family = CovarianceFamily(scout.rough, scout.start)
    if walk.few:
        walk.along(family, np.arange(1.0 - _STEP / 2, -1.0 - _STEP / 4, -_STEP / 2), _STEP / 2)
        return
    nearer, farther = np.arange(0.0, 1.0, _STEP), np.arange(0.0, -1.0 - _STEP / 2, -_STEP)
    if not walk.judge.keeps(family.at(0.0).solution.scores):
        nearer, farther = farther, nearer
    walk.along(family, nearer, _STEP)
    if not walk.found:
        walk.along(family, farther, _STEP)


def _look_along_decisions(scout: Scout, walk: _Walk) -> None:
    """Look for prices that close the gaps, along the ray through them, and at other prices near the best."""
    family = DecisionFamily(scout.rough, scout.start)
    prices = close_gaps(family, walk.judge.allowed_ratio, walk.judged)
    walk.along(Prices(family, prices), [1.0], _STEP / 4)
    grid = np.arange(-_FARTHEST, _FARTHEST + _STEP / 4, _STEP / 2)
    if walk.few and len(prices) * len(grid) <= _SOLVES:
        for axis in np.eye(len(prices)):
            walk.along(Prices(family, axis), grid, _STEP / 2)
    if len(prices) > 1:
        _polish(family, walk)


_Look = Callable[[Scout, _Walk], None]
_LOOKS: dict[str, _Look] = {"decisions": _look_along_decisions, "covariance": _look_along_covariance}


def close_gaps(
    family: DecisionFamily, ratio: float, visit: Callable[[Candidate], object] = lambda candidate: None
) -> Array:
    """Return prices at which the decisions about reach a ratio of rates at the solution's own intercept.

    The gap between a group and the rest falls as the group's price rises. As in a dual ascent, a price rises while
    its gap exceeds what the rule allows and falls, at most to zero, while it does not. Each price moves by a step of
    its own, which shrinks where the direction changes and grows where it does not (resilient propagation, Rprop):
    gaps of rare groups jump, so that their size says little about the right step.
    """
    prices, least = np.zeros(len(family.share)), np.inf
    best, step, before = prices, np.full(len(prices), _STEP), np.zeros(len(prices))
    scores = family.free.scores
    for _ in range(_SOLVES):
        gap, allowed = family.gaps(scores, ratio)
        excess = float(np.max(np.abs(gap) - allowed))
        if excess < least:
            best, least = prices, excess
        target = np.where(prices == 0.0, np.clip(gap, -allowed, allowed), np.sign(prices) * allowed)
        way = np.sign(gap - target)
        factor = np.where(way * before < 0, _SHRINK, np.where(way * before > 0, _GROW, 1.0))
        step = np.clip(factor * step, _DIGIT, _STEP)
        if np.all((way == 0) | (step <= 2 * _DIGIT)):
            break
        moved = np.round((prices + way * step) / _DIGIT) * _DIGIT
        prices, before = np.where(prices * moved < 0, 0.0, moved), way
        candidate = family.priced(prices)
        visit(candidate)
        scores = candidate.solution.scores
    return best


def _polish(family: DecisionFamily, walk: _Walk) -> None:
    """Move one price at a time away from the best prices found, while that makes the decisions more accurate."""
    if not walk.found:
        return
    best, axes = walk.found[0], np.eye(len(family.share))
    moves = [_STEP / 2**n * axis for n in range(1, 1 + _HALVINGS) for axis in (*axes, *-axes)]
    for move in moves[:_SOLVES]:
        found = walk.judged(family.priced(best.candidate.point.to_numpy() + move))
        if found is not None and found.accuracy > best.accuracy:
            best = found


def _clearly_better(task: Task, one: Found | None, other: Found | None) -> Found | None:
    """Return the better of two classifiers, ``one`` if the other is not clearly better."""
    if one is not None and other is not None and one.accuracy >= other.accuracy - _NOISE:
        return one
    return _better(task, one, other)


def _first_as_good(task: Task, judge: Judge, found: list[Found]) -> Found | None:
    """Solve candidates exactly, the most accurate first, until no other promises to be clearly better."""
    best: Found | None = None
    for rough in found:
        if best is not None and best.accuracy >= rough.accuracy - _NOISE:
            break
        candidate = rough.candidate.solved(task)
        cut = judge.best_cut(candidate.solution.scores)
        if cut is None:
            continue
        exact = Found(candidate, cut)
        if judge.keeps(task.problem.design.matvec(exact.theta)):
            best = _better(task, best, exact)
    return best


def _better(task: Task, one: Found | None, other: Found | None) -> Found | None:
    """Return the more accurate of two classifiers; of equally accurate ones, that of lower training objective."""
    if one is None or other is None:
        return other if one is None else one
    if abs(one.accuracy - other.accuracy) > TIED:
        return one if one.accuracy > other.accuracy else other
    return one if _objective(task, one) <= _objective(task, other) else other


def _objective(task: Task, found: Found) -> float:
    theta = found.theta
    return task.problem.objective(theta, task.problem.design.matvec(theta))
