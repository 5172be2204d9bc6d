"""The points of a frontier, made one after the other.

In covariance the frontier is the path of ``min L s.t. |cov_k| <= a |cov*_k|`` from the unconstrained classifier (``a
= 1``) to zero covariance (``a = 0``). Neighbouring points are so close that extrapolating the last two, corrected by
one Newton step for the new bounds, nearly gives the next one: a whole frontier costs little more than a few fits.

In the p%-rule the points are the most accurate classifiers that one search finds at all levels
(:mod:`fairmargin.formulations.prule.levels`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fairmargin.base import FairClassifier
from fairmargin.caller import warn
from fairmargin.constraints import Constraint, CovarianceBound, CovariancePenalty, PRuleBound
from fairmargin.exceptions import InfeasibleError, TrivialClassifierWarning
from fairmargin.formulations import Outcome, Task
from fairmargin.formulations.covariance import Path
from fairmargin.formulations.individual import reference_solution
from fairmargin.formulations.loss import least_factor
from fairmargin.formulations.prule.judge import make_judge
from fairmargin.formulations.prule.levels import LevelSearch
from fairmargin.formulations.several import least_loss
from fairmargin.formulations.task import solve_task
from fairmargin.formulations.ties import settle_ties
from fairmargin.notions import Compared, Condition, compare, get_notion
from fairmargin.problem import Certificate, Problem, Solution
from fairmargin.several import Several, as_constraint
from fairmargin.tolerances import HAIR
from fairmargin.validation import ONE_AT_A_TIME

__all__ = [
    "CovariancePoints",
    "LevelPoints",
    "Point",
    "SeveralPoints",
    "TrainingTuple",
    "number_of_use",
    "spaced_levels",
]

_PLAIN = str | int | float | None  # parameters that points may share
_DIGITS = 9  # of a level in percent: far below one person in a billion
TrainingTuple = tuple[Any, Any, Any, Any, Any]  # X, y, sample_weight, sensitive_features, strata
_Rival = tuple[Any, NDArray[np.bool_]]  # a fitted classifier and whom of the people trained on it accepts


@dataclass(frozen=True)
class Point:
    """A point of a frontier.

    Attributes
    ----------
    estimator : fitted estimator
    certificate : Certificate
    facts : dict
        What the table shows of it, by column.
    accepted : (N,) of bool
        Its decisions on the training data.
    is_whole : bool
        Whether the estimator takes the data as they were given, before the first steps of a pipeline.
    """

    estimator: Any
    certificate: Certificate
    facts: dict[str, float]
    accepted: NDArray[np.bool_]
    is_whole: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether everybody gets the same decision."""
        return bool(self.accepted.all() or not self.accepted.any())


class _Points:
    """What both frontiers share: an estimator that is copied for each point, a task, the unconstrained solution."""

    def __init__(self, estimator: FairClassifier, data: TrainingTuple, constraint: Any) -> None:
        with ONE_AT_A_TIME:
            self.prototype = clone(estimator).set_params(constraint=constraint)
        self.notion = getattr(constraint, "notion", CovarianceBound.notion)
        self.task: Task = self.prototype._refine(self.prototype._prepare(*data), as_constraint(constraint), path=True)

    @property
    def free(self) -> Solution:
        """The unconstrained solution."""
        raise NotImplementedError

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions under which groups are compared in the table."""
        return self.task.columns.conditions

    def unconstrained(self) -> Any:
        """Return the unconstrained classifier, fitted."""
        free, task = self.free, self.task
        solution = replace(free, multipliers=np.zeros(task.problem.n_rows))
        outcome = settle_ties(Outcome(solution, task.problem.unconstrained(), free), task.tol)
        return self._fitted(None, outcome)

    @property
    def n_looked_at(self) -> int:
        """Number of classifiers that the search solved to low accuracy."""
        return 0

    def better(self, point: Point, rivals: Sequence[_Rival]) -> Point:
        """Return the point, or a rival that serves its purpose better."""
        return point

    def warn(self) -> None:
        """Warn of what was found out on the way."""

    def _point(self, constraint: Any, place: dict[str, float], outcome: Outcome) -> Point:
        with ONE_AT_A_TIME:
            fitted = self._fitted(constraint, outcome)
        facts = {**place, "objective": outcome.solution.objective, **self._by_column(fitted)}
        return Point(fitted, fitted.certificate_, facts, outcome.solution.scores >= 0)

    def _by_column(self, fitted: Any) -> dict[str, float]:
        """Return covariances and multipliers by column of the table."""
        found: dict[str, float] = {}
        for word, series in (("covariance", fitted.covariance_), ("multiplier", fitted.multipliers_)):
            values = zip(self.task.columns.names, series, strict=True)
            found |= {f"{word}[{name}]": float(value) for name, value in values}
        return found

    def _fitted(self, constraint: Any, outcome: Outcome) -> Any:
        """Return an outcome as a fitted estimator."""
        point = copy(self.prototype)  # not yet fitted, but for what it knows of X; clone would take longer
        for name, value in vars(self.prototype).items():
            if not (name.endswith("_") or name == "constraint" or isinstance(value, _PLAIN)):
                setattr(point, name, clone(value, safe=False))
        point.constraint = constraint
        point._store(self.task, outcome, warn=False)  # the table shows bought covariance for all points at once
        return point


class CovariancePoints(_Points):
    """Points of least loss, evenly spaced in the covariance or in the loss."""

    def __init__(self, estimator: FairClassifier, data: TrainingTuple, n_points: int, evenly: str) -> None:
        notion = getattr(estimator.constraint, "notion", CovarianceBound.notion)
        super().__init__(estimator, data, CovarianceBound(notion=notion))
        if evenly == "loss":
            self.task = replace(self.task, tol=min(self.task.tol, 1e-9))  # as LossBound, whose points these are
        self.n_points, self.evenly = n_points, evenly
        self._free = self.task.solve(self.task.problem.unconstrained())

    @property
    def free(self) -> Solution:
        """The unconstrained solution."""
        return self._free

    def points(self) -> Iterator[Point]:
        """Yield the points, the unconstrained classifier first."""
        for factor, problem, solution in self._solved():
            constraint = CovarianceBound(round(float(factor), 12), relative=True, notion=self.notion)
            outcome = settle_ties(Outcome(solution, problem, self.free, is_as_solved=True), self.task.tol)
            yield self._point(constraint, {"factor": float(factor)}, outcome)

    def _solved(self) -> Iterable[tuple[float, Problem, Solution]]:
        task, free = self.task, self.free
        path = Path(task, free, task.problem.rows @ free.theta)
        steps = np.linspace(1.0, 0.0, self.n_points)
        if self.evenly == "covariance":
            for factor, solution in path.trace(steps.tolist()):
                yield factor, path.problem(factor), solution
            return
        most = path.at(0.0).objective
        for step in steps:
            budget = free.objective + (1.0 - float(step)) * (most - free.objective)
            factor, solution = (0.0, path.at(0.0)) if step == 0.0 else least_factor(path, budget)
            yield factor, path.problem(factor), solution


class LevelPoints(_Points):
    """The most accurate classifiers found at levels of the p%-rule."""

    def __init__(
        self,
        estimator: FairClassifier,
        data: TrainingTuple,
        n_points: int,
        levels: Sequence[float],
        method: str,
        min_people: int,
    ) -> None:
        asked = estimator.constraint
        if not isinstance(asked, PRuleBound):
            asked = PRuleBound(80, notion=getattr(asked, "notion", PRuleBound.notion))
        rule = replace(asked, p=80, difference=None, method=method, min_people=min_people, confidence=None)
        super().__init__(estimator, data, rule)
        self.rule = rule
        self.search = LevelSearch(self.task, rule)
        self.levels = _levels(self.search.reached, n_points, levels)

    @property
    def free(self) -> Solution:
        """The unconstrained solution."""
        return self.search.free

    @property
    def n_looked_at(self) -> int:
        """Number of classifiers that the search solved to low accuracy."""
        return self.search.n_looked_at

    def points(self) -> Iterator[Point]:
        """Yield the points by ascending level; levels that nothing reaches are left out."""
        outcomes = self.search.find(self.levels)
        if all(outcome is None for outcome in outcomes):
            raise InfeasibleError(
                "No classifier found reaches any level of the frontier, and without an intercept there are no other "
                "cuts to try. Set fit_intercept=True, or merge small groups."
            )
        for level, outcome in zip(self.levels, outcomes, strict=True):
            if outcome is not None:
                yield self._point(replace(self.rule, p=level), {"level": level}, outcome)

    def better(self, point: Point, rivals: Sequence[_Rival]) -> Point:
        """Return the most accurate of a point and the rivals that reach its level."""
        level, best = point.facts["level"], point
        for model, accepted in rivals:
            if self._reached(accepted) >= level and self._accuracy(accepted) > self._accuracy(best.accepted) + HAIR:
                last = model[-1] if hasattr(model, "steps") else model
                facts = {"level": level, "objective": last.certificate_.objective, **self._by_column(last)}
                best = Point(model, last.certificate_, facts, accepted, is_whole=True)
        return best

    def _reached(self, accepted: NDArray[np.bool_]) -> float:
        return self.search.judge.reached(np.where(accepted, 1.0, -1.0))

    def _accuracy(self, accepted: NDArray[np.bool_]) -> float:
        return self.search.judge.people.accuracy(accepted)


class SeveralPoints(_Points):
    """Points of a list of constraints: one of them is traced, and all others hold at every point.

    With ``which="covariance"`` the points have the least loss, and budgets and promises are only limits; with
    ``which="p_rule"`` each is the most accurate classifier that one search finds. Points for which the other
    constraints leave no classifier are left out.
    """

    def __init__(self, frontier: Any, estimator: FairClassifier, data: TrainingTuple) -> None:
        self.traced, self.rest = _split(as_constraint(estimator.constraint), frontier)
        super().__init__(estimator, data, [self.traced, *self.rest])
        self.notion = self.traced.notion
        self.n_points, self.asked_levels = frontier.n_points, frontier.levels or ()
        self._free = reference_solution(self.task)
        self._end: tuple[str, float, float, str] | None = None  # where the other constraints end the frontier

    @property
    def free(self) -> Solution:
        """The unconstrained solution."""
        return self._free

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of the constraint that is traced."""
        data = self.task.data
        assert data.sensitive is not None
        return compare(data.sensitive, get_notion(self.notion), data.y, data.people_weight, data.strata).conditions

    def points(self) -> Iterator[Point]:
        """Yield the points, the weakest bound or the lowest level first."""
        word = "level" if isinstance(self.traced, PRuleBound) else "factor"
        found: list[Any] = []
        for place, constraint in self._constraints():
            asked = Several((constraint, *self.rest))
            try:
                outcome = solve_task(asked, self.task) if word == "level" else least_loss(asked, self.task, self.free)
            except InfeasibleError as error:
                if not found:
                    raise
                self._end = word, found[-1][0], place, str(error)
                break
            found.append((place, [constraint, *self.rest], settle_ties(outcome, self.task.tol)))
        if word == "level":
            found = self._never_rising(found)
        for place, constraints, outcome in found:
            yield self._point(constraints, {word: place}, outcome)

    def warn(self) -> None:
        """Warn where the other constraints leave no classifier for the points that follow."""
        if self._end is not None:
            word, last, first, why = self._end
            warn(
                f"The frontier ends at {word} {last:.4g}: from {first:.4g} on, no classifier was found that keeps "
                f"the other constraints, too. {why}",
                UserWarning,
            )

    def _constraints(self) -> Iterator[tuple[float, Constraint]]:
        if isinstance(self.traced, PRuleBound):
            reached = make_judge(self.traced, self._alone()).reached(self.free.scores)
            for level in _levels(reached, self.n_points, self.asked_levels):
                yield level, replace(self.traced, p=level)
            return
        for factor in np.linspace(1.0, 0.0, self.n_points):
            yield float(factor), replace(self.traced, c=round(float(factor), 12))

    def _alone(self) -> Task:
        """Return the task under the notion that is traced."""
        data = self.task.data
        assert data.sensitive is not None
        return replace(self.task, compared=Compared(data.sensitive, self.conditions, data.people_weight))

    def _never_rising(self, found: list[Any]) -> list[Any]:
        """Return the points, each replaced by one of a higher level where that is more accurate."""
        label, best = self.task.data.y > 0, None
        for k, (place, constraints, outcome) in reversed(list(enumerate(found))):
            accuracy = np.average((outcome.solution.scores >= 0) == label, weights=self.task.data.people_weight)
            if best is not None and accuracy < best[0]:
                found[k] = (place, constraints, best[1])
            else:
                best = accuracy, outcome
        return found


def number_of_use(levels: Sequence[tuple[float, bool]]) -> int:
    """Return how many points of a frontier in levels come before everybody gets the same decision.

    Given are the level of each point and whether it is constant. All of them, where none is of use; what is constant
    is warned of.
    """
    constant = [level for level, is_constant in levels if is_constant]
    if not constant:
        return len(levels)
    of_use = max((k for k, (_, is_constant) in enumerate(levels, start=1) if not is_constant), default=len(levels))
    listed = ", ".join(f"{level:.4g}%" for level in constant)
    ends = f" The frontier ends at {levels[of_use - 1][0]:.4g}%." if of_use < len(levels) else ""
    warn(
        f"Deciding the same for everybody is the most accurate that was found at {listed} of the p%-rule.{ends}",
        TrivialClassifierWarning,
    )
    return of_use


def _split(asked: Several, frontier: Any) -> tuple[Any, tuple[Constraint, ...]]:
    """Return the constraint of a list that a frontier traces, and the others; raise for what cannot be traced."""
    if frontier.which == "loss":
        raise ValueError("which='loss' is for one constraint; trace a list with which='covariance' or 'p_rule'.")
    kind: type = PRuleBound if frontier.which == "p_rule" else CovarianceBound
    first = next((c for c in asked.constraints if isinstance(c, kind)), asked.constraints[0])
    is_named = isinstance(first, kind)
    rest = tuple(_untested(c) for c in asked.constraints if c is not first or not is_named)
    if kind is PRuleBound:
        rule = first if isinstance(first, PRuleBound) else PRuleBound(80, notion=first.notion)
        compared = {"method": frontier.method, "min_people": frontier.min_people, "confidence": None}
        return replace(rule, p=80, difference=None, **compared), rest
    wrong = [c for c in rest if isinstance(c, PRuleBound | CovariancePenalty)]
    if wrong:
        raise ValueError(
            f"{type(wrong[0]).__name__} changes what is minimised, and which='covariance' traces the least loss; "
            "leave it out of the list, or trace which='p_rule'."
        )
    return CovarianceBound(0.0, relative=True, notion=first.notion), rest


def _untested(constraint: Constraint) -> Constraint:
    """Return a constraint without a confidence: nobody is set aside for a frontier, whose rules hold in training."""
    return replace(constraint, confidence=None) if isinstance(constraint, PRuleBound) else constraint


def _levels(reached: float, n_points: int, levels: Sequence[float]) -> list[float]:
    """Return evenly spaced levels from what the unconstrained classifier reaches to 100, and those asked for."""
    first = np.floor(reached * 10**_DIGITS) / 10**_DIGITS
    if first <= 1.0:  # a level of at most 1 is taken for a share by mistake
        first = 0.0
    return spaced_levels(float(first), n_points, levels)


def spaced_levels(first: float, n_points: int, levels: Sequence[float]) -> list[float]:
    """Return evenly spaced levels from the first to 100, and those asked for that are not below it."""
    evenly = np.linspace(first, 100.0, n_points).tolist()
    return sorted(
        {round(p, _DIGITS) for p in (first, *evenly, *map(float, levels)) if p >= first and (p > 1 or p == 0)}
    )
