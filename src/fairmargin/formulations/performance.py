"""The least covariance found within a bound on accuracy, AUC or profit: a search along the covariance path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fairmargin.constraints import PerformanceBound
from fairmargin.decisions import mean_gain
from fairmargin.formulations.covariance import Path
from fairmargin.formulations.outcome import Outcome
from fairmargin.formulations.task import Task, solve_task
from fairmargin.formulations.ties import settle_ties, tie_width, without_rounding
from fairmargin.problem import Solution
from fairmargin.ranking import Ranking, rank_together
from fairmargin.tolerances import ROUNDING

__all__ = ["Floor", "PerformanceOutcome", "least_worthwhile", "solve_performance_bound"]

Array = NDArray[np.float64]

_STEPS = 16  # of the first look along the path: the measure wavers, and what lies between two steps may be missed
_HALVINGS = 6  # of the last step: to a thousandth of the unconstrained covariance


@dataclass(frozen=True)
class Floor:
    """The least value of a measure on the training data that a bound allows; higher is better.

    Attributes
    ----------
    constraint : PerformanceBound
    task : Task
    best : float
        The unconstrained classifier's value.
    """

    constraint: PerformanceBound
    task: Task
    best: float

    @classmethod
    def of(cls, constraint: PerformanceBound, task: Task, free: Solution) -> Floor:
        """Return the floor that a constraint sets below the unconstrained classifier, as that decides in the end."""
        settled = settle_ties(Outcome(free, task.problem.unconstrained()), task.tol).solution
        return replace(unset := cls(constraint, task, np.nan), best=unset.reached(settled.scores))

    @property
    def least(self) -> float:
        """The least value allowed, but for rounding."""
        return self.best - (self.constraint.gamma + ROUNDING) * abs(self.best)

    def measure(self, scores: Array) -> float:
        """Return the measure of a solver's scores, with their ties as they are after the fit: accepted together."""
        scores = without_rounding(scores)
        return self.reached(np.where(np.abs(scores) <= tie_width(scores), 0.0, scores))

    def reached(self, scores: Array) -> float:
        """Return the measure of final scores: of the decisions ``scores >= 0``, or of their ranking."""
        label, weight = self.task.data.y > 0, self.task.data.people_weight
        if self.constraint.measure == "auc":  # what differs by rounding only is equal, lest the order of rows counts
            return float(roc_auc_score(label, rank_together(scores), sample_weight=weight))
        return mean_gain(scores >= 0, label, self._gains, weight)

    def keeps(self, scores: Array) -> bool:
        """Whether a solver's scores are worth enough."""
        return self.measure(scores) >= self.least

    def missed(self, scores: Array) -> float:
        """Return by how much final scores are worth less than allowed; not positive where they are worth enough."""
        return self.least - self.reached(scores)

    def at_cuts(self, ranking: Ranking, scores: Array) -> Array:
        """Return the measure at every cut of a ranking of scores."""
        if self.constraint.measure == "auc":
            return np.full(len(ranking.accepted), self.measure(scores))
        label, weight = self.task.data.y > 0, self.task.data.people_weight
        worth = {"tp": 0.0, "fp": 0.0, "fn": 0.0, "tn": 0.0, **self._gains}
        gain = np.where(label, worth["tp"] - worth["fn"], worth["fp"] - worth["tn"]) * weight / weight.sum()
        nobody = self.reached(np.full(len(scores), -1.0))
        return nobody + np.cumsum(gain[ranking.order])[ranking.accepted - 1]

    @property
    def _gains(self) -> Mapping[str, float]:
        gains = self.constraint.gains
        return {"tp": 1.0, "tn": 1.0} if gains is None else gains  # accuracy


@dataclass(frozen=True, kw_only=True)
class PerformanceOutcome(Outcome):
    """What a bound on a measure adds to an outcome.

    Attributes
    ----------
    floor : Floor
    factor : float
        The least ``t`` found with ``|cov_k| <= t |cov*_k|`` for every column.
    """

    floor: Floor = field(metadata={"fitted": False})
    factor: float
    measured: ClassVar[tuple[str, ...]] = ("performance", "unconstrained_performance")

    @property
    def performance(self) -> float:
        """The measure on the training data."""
        return self.floor.reached(self.solution.scores)

    @property
    def unconstrained_performance(self) -> float:
        """The measure of the unconstrained classifier."""
        return self.floor.best

    def broken(self, scores: Array) -> Array:
        """Return by how much scores miss the floor; not positive where they keep it."""
        return np.array([self.floor.missed(scores)])


@solve_task.register
def solve_performance_bound(constraint: PerformanceBound, task: Task) -> Outcome:
    """Return the classifier of least covariance found whose measure is within the bound."""
    free = task.solve(task.problem.unconstrained())
    floor = Floor.of(constraint, task, free)
    path = Path(task, free, task.problem.rows @ free.theta)
    factor, solution = least_worthwhile(path, floor.keeps)
    return PerformanceOutcome(solution, path.problem(factor), free, floor=floor, factor=factor)


class Line(Protocol):
    """Solutions that depend on one number, as those of a :class:`fairmargin.formulations.covariance.Path`."""

    def at(self, t: float) -> Solution:
        """Return the solution at ``t``."""

    def trace(self, factors: Sequence[float]) -> Iterator[tuple[float, Solution]]:
        """Yield several."""


def least_worthwhile(path: Line, keeps: Callable[[Array], bool], least: float = 0.0) -> tuple[float, Solution]:
    """Return the least factor found, from ``least`` on, whose scores are worth enough, and the solution judged there.

    Solving again may find another solution, which is worth less. Where none are worth enough, the factor is 1.
    """
    # Scores of the last few points only are kept by trace; the search needs one at a time.
    grid = np.linspace(1.0, least, _STEPS + 1)
    high, best = 1.0, path.at(1.0)
    for t, solution in path.trace(grid.tolist()):
        if keeps(solution.scores):
            high, best = t, solution
    low = max(high - (1.0 - least) / _STEPS, least)
    for _ in range(_HALVINGS if high > least else 0):
        middle = 0.5 * (low + high)
        solution = path.at(middle)
        if keeps(solution.scores):
            high, best = middle, solution
        else:
            low = middle
    return high, best
