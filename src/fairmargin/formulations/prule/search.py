"""The search for the most accurate classifier of the families that keeps the rule.

Each family is searched on its own, so that searching both is not worse than searching one. A family with one
parameter is looked at on a coarse grid, from the unconstrained classifier on, for as long as its classifiers are
accurate enough at *some* cut, and then ever closer around the best point. Every candidate is judged at every cut of
its ranking. Where people are many, candidates are solved only roughly, in single precision where that will do. The
best are then solved to the tolerance of the task and judged anew, the most promising first, until no other promises
more.

The scores of the hinge loss crowd at the margins, so that no cut may divide people as the rule asks. The wider its
corner is rounded, the more they spread: the hinge loss is searched with rounded corners, and a rounded one is
returned where it is more accurate than the hinge loss itself.

Of two classifiers the more accurate one is preferred; of equally accurate ones, that of lower training objective.
Prices and factors are multiples of powers of two, so that the last digits of rough solutions do not reach the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairmargin.formulations.outcome import Outcome
from fairmargin.formulations.prule.families import (
    Candidate,
    CovarianceFamily,
    DecisionFamily,
    Family,
    Prices,
    unconstrained_candidate,
)
from fairmargin.formulations.prule.judge import Cut, Judge
from fairmargin.formulations.prule.mistreatment import ErrorCovarianceFamily
from fairmargin.formulations.prule.rates import Allowed, SmoothedRates
from fairmargin.formulations.task import Task
from fairmargin.formulations.ties import settle_ties
from fairmargin.losses import SmoothedHingeLoss
from fairmargin.problem import Solution
from fairmargin.tolerances import HAIR, NEAR

__all__ = [
    "FARTHEST",
    "FINALISTS",
    "STEP",
    "Found",
    "Scout",
    "close_gaps",
    "families_of",
    "find_classifier",
    "line_of",
    "settled",
    "smooth_tasks",
    "unconstrained",
]

Array = NDArray[np.float64]

# Seconds of a pass up to which a solve takes milliseconds: that over a dense matrix of a million entries. Then
# candidates are solved to a smaller gap, at which decisions are nearly those of the exact solution.
_QUICK, _CLOSE = 5.5e-4, 1e-4
STEP = 0.25  # of the first look along a family
_HALVINGS = 3  # of the step around the best point of a family
_UNIT = STEP / 2 ** (2 * _HALVINGS)  # of prices that close gaps
FARTHEST = 2.5  # price up to which to look; from 1 on, two equal groups outweigh the labels, on Bank it takes 2.1
_SOLVES = 75  # per stage of the search in several prices; with six on Adult the best came as late as the 58th
_AFTER = 12  # solves without progress after which to stop where the rule is kept; before, 30 may pass without
_STEP_GAP = 0.1  # of smoothed rates; with a smaller one the best are no more accurate, and take more steps
FINALISTS = 3  # candidates per family that are solved exactly at most
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
    """Return the unconstrained solution, see :func:`settled`."""
    return settled(task).solution


def settled(task: Task) -> Outcome:
    """Return the unconstrained classifier, with ties at the boundary settled before a rule judges its decisions.

    Scores are computed anew wherever a rule is judged in the end: rounding must not tip a score over zero.
    """
    problem = task.problem.unconstrained()
    outcome = settle_ties(Outcome(task.solve(problem), problem), task.tol)
    scores = task.problem.design.matvec(outcome.solution.theta)
    free = replace(outcome.solution, multipliers=np.zeros(task.problem.n_rows), scores=scores)
    return replace(outcome, solution=free)


def find_classifier(task: Task, judge: Judge, free: Solution, path: str) -> Found | None:
    """Return the most accurate classifier found that keeps the rule and accepts some people but not all.

    ``free`` is the unconstrained solution; ``path`` is as in :class:`fairmargin.PRuleBound`.
    """
    cut = judge.best_cut(free)
    best = None if cut is None else Found(unconstrained_candidate(free), cut)
    scouts = [Scout(smooth, free) for smooth in smooth_tasks(task)]
    best = _search_families(task, judge, scouts, path, best)
    if best is None and not judge.may_cut:  # rough solutions may differ from exact ones in who is beyond zero
        best = _search_families(task, judge, [Scout(task, free, exact=True)], path, best)
    return best


def _search_families(task: Task, judge: Judge, scouts: list[Scout], path: str, best: Found | None) -> Found | None:
    """Return the best of the classifier given and of those found on the families that ``path`` names."""
    for name in families_of(path, task):
        least = 0.0 if best is None else best.accuracy
        best = _better(task, best, _search_family(task, judge, scouts, _LOOKS[name], least))
        if name == DecisionFamily.name and best is not None and judge.is_useful(best.accuracy) and not scouts[0].few:
            break  # of many people the best on the covariance path was never more accurate (Adult, Bank)
    return best


def _search_family(task: Task, judge: Judge, scouts: list[Scout], look: _Look, least: float) -> Found | None:
    """Return the best classifier of one family, None where none promises to reach the accuracy ``least``.

    The search itself does not depend on ``least``: a family may gain more by a closer look than a coarse one shows.
    One with a rounded corner is returned only where that of the loss itself is, or promises to be, less accurate.
    """
    walks: list[_Walk] = []
    for scout in scouts:
        walk = _Walk(judge, scout.few, max((w.most for w in walks), default=0.0))
        if scout.task is not task:
            walk.judged(scout.unconstrained)
        look(scout, walk)
        walks.append(walk)
    rivals = [(scout.task, walk, FINALISTS) for scout, walk in zip(scouts, walks, strict=True)]
    if scouts[0].task is not task:  # the loss itself, where its corner is rounded least
        rivals.insert(0, (task, walks[0], 1))
    best: Found | None = None
    for rival, walk, most in sorted(rivals, key=lambda rival: -rival[1].most):
        if walk.most < least - walk.noise or (best is not None and best.accuracy >= walk.most):
            break
        found = _best_of(rival, judge, walk, most)
        best = best if _as_accurate(best, found) else found
    return best


def smooth_tasks(task: Task) -> list[Task]:
    """Return the task itself or, for the hinge loss, the task with its corner rounded over several widths."""
    if task.problem.loss.smooth:
        return [task]
    return [replace(task, problem=replace(task.problem, loss=SmoothedHingeLoss(width))) for width in _CORNERS]


class Scout:
    """A task to search on: with a smooth loss and prepared for rough solutions, unless ``exact``.

    Attributes
    ----------
    task : Task
        Solves exactly.
    free : Solution
        The unconstrained solution of the original task.
    few : bool
        Whether solves are so fast that rough ones would not pay.
    """

    def __init__(self, task: Task, free: Solution, exact: bool = False) -> None:
        self.task, self.free, self.exact = task, free, exact
        self.few = bool(task.problem.design.pass_cost <= _QUICK)

    @cached_property
    def _prepared(self) -> tuple[Task, Solution]:
        task, free = self.task, self.free
        if self.exact:
            return task, free
        return task.roughly(_CLOSE if self.few else NEAR, free, in_single=not self.few)

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
    """Rough candidates of one family that keep the rule.

    ``least`` is an accuracy that is known to be attained: candidates below it do not matter.
    """

    def __init__(self, judge: Judge, few: bool, least: float = 0.0) -> None:
        self.judge, self.few, self.least = judge, few, least
        # By how much a rough accuracy may be off, or grow in a closer look: about the standard error of an accuracy.
        self.reserve = 0.5 / np.sqrt(len(judge.people.weight))
        self.found: list[Found] = []  # the most accurate first

    @property
    def noise(self) -> float:
        """By how much the accuracy of an exact solution may be above that of the rough one."""
        return 0.0 if self.few else self.reserve / 2

    @property
    def most(self) -> float:
        """The highest accuracy found, minus infinity where nothing was."""
        return self.found[0].accuracy if self.found else -np.inf

    @property
    def worthwhile(self) -> float:
        """The accuracy below which a candidate cannot lead to the best one."""
        return max(self.most, self.least) - self.reserve

    def judged(self, candidate: Candidate) -> tuple[float, float]:
        """Keep a candidate that keeps the rule.

        Returns
        -------
        accuracy : float
            At the best cut that keeps the rule; minus infinity if that is not worthwhile.
        ceiling : float
            Without the rule, at the best cut of all; minus infinity where there is no classifier.
        """
        if candidate.is_infeasible:
            return -np.inf, -np.inf
        cut, ceiling = self.judge.look(candidate.solution, self.worthwhile)
        if cut is None or not candidate.is_solved:
            return -np.inf, ceiling
        found = Found(candidate, cut)
        self.found = sorted([*self.found, found], key=lambda f: -f.accuracy)[:FINALISTS]  # each holds N scores
        return found.accuracy, ceiling

    def along(
        self,
        family: Family,
        grid: Iterable[float],
        ends: tuple[float, float],
        seen: dict[float, float] | None = None,
    ) -> None:
        """Judge a family on a grid for as long as its ceiling is worthwhile, then ever closer around the best.

        No point is beyond ``ends``. ``seen`` are the accuracies of points that were judged before.
        """
        accuracy = dict(seen or {})

        def look(t: float) -> float:
            if t in accuracy:
                return np.inf
            accuracy[t], ceiling = self.judged(family.at(t))
            return ceiling

        for t in grid:
            if look(float(t)) < self.worthwhile:
                break
        for _ in range(_HALVINGS):
            if not accuracy or max(accuracy.values()) < self.worthwhile:
                break
            for t in _halfway(accuracy, ends):
                look(t)

    def close_gap(self, family: Family) -> dict[float, float]:
        """Return the accuracies of points on the way to where a family's own decisions just keep the rule.

        By steps, and then by bisection.
        """
        accuracy: dict[float, float] = {}

        def keeps(t: float) -> bool:
            candidate = family.at(t)
            accuracy[t], ceiling = self.judged(candidate)
            return ceiling < self.worthwhile or self.judge.keeps(candidate.solution.scores)

        low, high = 0.0, STEP
        while not keeps(high) and high < FARTHEST:
            low, high = high, high + STEP
        while high - low > STEP / 2 ** (_HALVINGS + 1):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if keeps(middle) else (middle, high)
        return accuracy


def _halfway(accuracy: dict[float, float], ends: tuple[float, float]) -> list[float]:
    """Return the points halfway from the most accurate one to its neighbours, or to the ends of the family."""
    best = max(sorted(accuracy), key=lambda t: accuracy[t])
    left = max((t for t in accuracy if t < best), default=ends[0])
    right = min((t for t in accuracy if t > best), default=ends[1])
    return [(left + best) / 2, (best + right) / 2]


def _look_along_covariance(scout: Scout, walk: _Walk) -> None:
    """Look along the covariance path, from nearly unconstrained to the opposite covariance."""
    _look_along_line(scout, walk, "covariance")


def _look_along_errors(scout: Scout, walk: _Walk) -> None:
    """Look along covariances of errors in the same way."""
    _look_along_line(scout, walk, ErrorCovarianceFamily.name)


def _look_along_line(scout: Scout, walk: _Walk, path: str) -> None:
    walk.along(line_of(path, scout), np.arange(1.0 - STEP, -1.0 - STEP / 2, -STEP), (-1.0, 1.0))


def line_of(path: str, scout: Scout) -> Family:
    """Return the family of a path by its factor, from 1 for no constraint to -1."""
    family = ErrorCovarianceFamily if path == ErrorCovarianceFamily.name else CovarianceFamily
    return family(scout.rough, scout.start)


def _look_along_decisions(scout: Scout, walk: _Walk) -> None:
    """Look along the price of the only gap; of several, along the ray through prices that close them, and near it."""
    family, judge = DecisionFamily(scout.rough, scout.start), walk.judge
    if family.n_prices == 1:
        line = family.one_price()
        walk.along(line, np.arange(STEP, FARTHEST, STEP), (0.0, FARTHEST), walk.close_gap(line))
        return
    prices = close_gaps(family, judge.allowed_gaps, walk.judged, judge.trust_in_gaps)
    walk.along(Prices(family, prices), [1.0], (1.0 - STEP, 1.0 + STEP))
    _polish(family, walk)


def _look_along_rates(scout: Scout, walk: _Walk) -> None:
    """Look at classifiers whose smoothed rates approach each other, for as long as their ceiling is worthwhile."""
    judge, task = walk.judge, scout.rough
    if not scout.exact:  # a step is only where the next one starts
        task = replace(task, tol=max(task.tol, _STEP_GAP))
    for candidate in SmoothedRates(task, scout.start).steps(judge.allowed_gaps, judge.trust_in_gaps):
        _, ceiling = walk.judged(candidate)
        if ceiling < walk.worthwhile:
            break


_Look = Callable[[Scout, _Walk], None]
_LOOKS: dict[str, _Look] = {
    DecisionFamily.name: _look_along_decisions,
    SmoothedRates.name: _look_along_rates,
    CovarianceFamily.name: _look_along_covariance,
    ErrorCovarianceFamily.name: _look_along_errors,
}


def families_of(path: str, task: Task) -> tuple[str, ...]:
    """Return the names of the families that a path stands for.

    With a single gap of selection rates, one price closes it; where rates are compared among some of the people, or
    errors, or under several conditions, smoothed rates do better in fewer solves.
    """
    if path != "auto":
        return (path,)
    conditions = task.columns.conditions
    simple = len(conditions) == 1 and bool(np.all(conditions[0].counts & (conditions[0].sign > 0)))
    return (DecisionFamily.name if simple else SmoothedRates.name, CovarianceFamily.name)


def close_gaps(
    family: DecisionFamily,
    allowed_gaps: Allowed,
    visit: Callable[[Candidate], object] = lambda candidate: None,
    trust: Array | float = 1.0,
    *,
    start: Array | None = None,
    most: int = _SOLVES,
) -> Array:
    """Return prices at which the decisions about reach a rule at the solution's own intercept.

    The gap between a group and the rest falls as the group's price rises. As in a dual ascent, a price rises while
    its gap exceeds what the rule allows and falls, at most to zero, while it does not. Each price moves by a step of
    its own, which is halved where the direction changes and grows by a fifth where it does not (resilient
    propagation, Rprop): gaps of rare groups jump, so that their size says little about the right step. ``trust`` is
    the share of each gap that counts. Where steps have become small and gaps still jump across what the rule allows,
    smaller gaps are aimed at. The first steps are smaller from prices ``start`` near the right ones; at most ``most``
    candidates are solved, and at most ``_AFTER`` after the one that keeps the rule with the most room.
    """
    prices, least = np.zeros(family.n_prices) if start is None else start, np.inf
    first = STEP if start is None else STEP / 2**_HALVINGS
    best, step, before, room = prices, np.full(len(prices), first), np.zeros(len(prices)), 0.0
    scores = family.priced(prices).solution.scores if np.any(prices) else family.free.scores
    stale = 0
    for _ in range(most):
        rate, rest = family.rates(scores)
        gap, allowed = trust * (rate - rest), allowed_gaps(rate, rest)
        excess = float(np.max(np.abs(gap) - allowed))
        stale = 0 if excess < least else stale + 1
        if excess < least:
            best, least = prices, excess
        if stale >= _AFTER and least <= 0:
            break
        aim = np.maximum(allowed - room, 0.0)
        target = np.where(prices == 0.0, np.clip(gap, -aim, aim), np.sign(prices) * aim)
        way = np.sign(gap - target)
        factor = np.where(way * before < 0, 0.5, np.where(way * before > 0, 1.2, 1.0))
        step = np.clip(factor * step, _UNIT, STEP)
        if np.all((way == 0) | (step <= 2 * _UNIT)):
            if least <= 0 or not np.any(way):
                break
            room, step = room + least, np.full(len(prices), STEP / 2**_HALVINGS)
        moved = np.round((prices + way * step) / _UNIT) * _UNIT
        prices, before = np.where(prices * moved < 0, 0.0, moved), way
        candidate = family.priced(prices)
        visit(candidate)
        scores = candidate.solution.scores
    return best


def _polish(family: DecisionFamily, walk: _Walk) -> None:
    """Move one price at a time away from the best prices found, while that makes the decisions more accurate.

    The best are solved more closely first: among many prices those win whose rough solutions happen to keep the rule
    for small groups, and the exact ones may be two points less accurate (Adult by race). Without a Hessian moves
    take too long for what they gain.
    """
    if family.task.tol > _CLOSE:
        family, rough, walk.found = family.within(_CLOSE), walk.found, []
        for found in rough:
            known = found.candidate
            walk.judged(known if known.point is None else family.priced(known.point))
    if not walk.found or not (walk.few or family.free.hessian is not None):
        return
    best, axes = walk.found[0], np.eye(family.n_prices)
    point = np.zeros(len(axes)) if best.candidate.point is None else best.candidate.point
    accuracy = best.accuracy
    moves = [STEP / 2**n * axis for n in (1, 2) for axis in (*axes, *-axes)]
    for move in moves[:_SOLVES]:
        reached, _ = walk.judged(family.priced(point + move))
        if reached > accuracy:
            point, accuracy = point + move, reached


def _best_of(task: Task, judge: Judge, walk: _Walk, most: int = FINALISTS) -> Found | None:
    """Solve ``most`` candidates exactly, the most accurate first, until no other promises to be better."""
    best: Found | None = None
    for rough in walk.found[:most]:
        if best is not None and best.accuracy >= rough.accuracy - walk.noise:
            break
        candidate = rough.candidate.solved(task)
        cut = judge.best_cut(candidate.solution) if candidate.is_solved else None
        if cut is None:
            continue
        exact = Found(candidate, cut)
        if judge.keeps(task.problem.design.matvec(exact.theta)):
            best = _better(task, best, exact)
    return best


def _as_accurate(one: Found | None, other: Found | None) -> bool:
    return other is None or (one is not None and one.accuracy >= other.accuracy - HAIR)


def _better(task: Task, one: Found | None, other: Found | None) -> Found | None:
    """Return the more accurate of two classifiers; of equally accurate ones, that of lower training objective."""
    if one is None or other is None:
        return other if one is None else one
    if abs(one.accuracy - other.accuracy) > HAIR:
        return one if one.accuracy > other.accuracy else other
    return one if _objective(task, one) <= _objective(task, other) else other


def _objective(task: Task, found: Found) -> float:
    theta = found.theta
    return task.problem.objective(theta, task.problem.design.matvec(theta))
