"""The least loss plus the price of the covariances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairmargin.constraints import CovariancePenalty
from fairmargin.formulations.outcome import Outcome
from fairmargin.formulations.prices import Prices
from fairmargin.formulations.task import Task, solve_task, start_at

__all__ = ["PenaltyOutcome", "solve_covariance_penalty"]


@dataclass(frozen=True)
class PenaltyOutcome(Outcome):
    """What a price adds to an outcome.

    Attributes
    ----------
    bound : pandas.Series
        The bounds on the covariances under which the same classifier has the least loss; infinite where the price
        is zero.
    """

    bound: Any = None


@solve_task.register
def solve_covariance_penalty(constraint: CovariancePenalty, task: Task) -> Outcome:
    """Return the least ``L + sum_k price_k |cov_k|``, certified as the least ``L`` under the bounds it attains."""
    price = task.columns.repeated(constraint.prices(task.sensitive))
    near = None if task.near is None else start_at(task.near.unconstrained)
    free = task.solve(task.problem.unconstrained(), near)
    solution = replace(free, multipliers=np.zeros(task.problem.n_rows))
    if np.any(price > 0):
        solution = Prices(task, free, price).at(1.0)
    bound = np.where(price > 0, np.abs(task.problem.rows @ solution.theta), np.inf)
    problem = task.problem.with_bounds(-bound, bound)
    return PenaltyOutcome(solution, problem, free, bound=task.columns.series(bound, "bound"))
