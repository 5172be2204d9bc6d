"""The least covariance found within a bound on accuracy, AUC or profit: a search along the covariance path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fairmargin.decisions import mean_gain
from fairmargin.formulations.covariance import Path
from fairmargin.formulations.outcome import Outcome
from fairmargin.formulations.task import Task, solve_task
from fairmargin.performance import PerformanceBound
from fairmargin.problem import Solution

__all__ = ["PerformanceOutcome", "solve_performance_bound"]

Array = NDArray[np.float64]

_STEPS = 16  # of the first look along the path: the measure wavers, and what lies between two steps may be missed
_HALVINGS = 6  # of the last step: to a thousandth of the unconstrained covariance
_ROOM = 1e-12  # relative, for rounding of the measure


@dataclass(frozen=True)
class PerformanceOutcome(Outcome):
    """What a bound on a measure adds to an outcome.

    Attributes
    ----------
    factor : float
        The least ``t`` found with ``|cov_k| <= t |cov*_k|`` for every column.
    performance, unconstrained_performance : float
        The measure on the training data, and that of the unconstrained classifier.
    """

    factor: float = 1.0
    performance: float = np.nan
    unconstrained_performance: float = np.nan


@solve_task.register
def solve_performance_bound(constraint: PerformanceBound, task: Task) -> Outcome:
    """Return the classifier of least covariance found whose measure is within the bound."""
    measure = _measure(constraint, task)
    free = task.solve(task.problem.unconstrained())
    best = measure(free.scores)
    floor = best - constraint.gamma * abs(best) - _ROOM * abs(best)
    path = Path(task, free, task.problem.rows @ free.theta)

    def within(t: float) -> bool:
        return measure(path.at(t).scores) >= floor

    # Scores of the last few points only are kept by trace; the search needs one at a time.
    allowed = [t for t, s in path.trace(np.linspace(1.0, 0.0, _STEPS + 1).tolist()) if measure(s.scores) >= floor]
    high = min(allowed, default=1.0)
    low = high - 1.0 / _STEPS
    for _ in range(_HALVINGS if high > 0.0 else 0):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if within(middle) else (middle, high)
    solution: Solution = path.at(high)
    return PerformanceOutcome(
        solution,
        path.problem(high),
        free,
        factor=high,
        performance=measure(solution.scores),
        unconstrained_performance=best,
    )


def _measure(constraint: PerformanceBound, task: Task) -> Callable[[Array], float]:
    """Return the measure of scores on the training data; higher is better."""
    label, weight = task.data.y > 0, task.data.people_weight
    if constraint.measure == "auc":
        return lambda scores: float(roc_auc_score(label, scores, sample_weight=weight))
    gains = constraint.gains if constraint.gains is not None else {"tp": 1.0, "tn": 1.0}  # accuracy
    return lambda scores: mean_gain(scores >= 0, label, gains, weight)
