"""From validated data to a regression problem in convenient units, and what a constraint means for it.

Targets are centred (where there is an intercept) and divided by a power of two near their spread, so that solvers see
numbers of size one whatever the units of ``y``: ``y = centre + scale t`` and ``f = centre + scale f~``. Then ``L(w,
b) = unit L~(w~, b~)`` if the weights of the losses are scaled so that both terms of the objective change by the same
factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from fairmargin.constraints import Constraint, LossBound
from fairmargin.exceptions import InfeasibleError
from fairmargin.formulations import Outcome, Task, make_task
from fairmargin.formulations.outcome import as_sure_as
from fairmargin.formulations.task import covariance_rows, solve_task
from fairmargin.problem import Certificate, Problem, Solution
from fairmargin.regression.functionals import Functionals, bounded_by, stack
from fairmargin.regression.losses import ResidualLoss
from fairmargin.regression.problem import as_regression
from fairmargin.solvers import solve_with_reference
from fairmargin.tolerances import HAIR, ROUGH
from fairmargin.validation import TrainingData

__all__ = ["RegressionTask", "Units", "choose_units", "make_regression_task", "solve_regression"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Units:
    """The units in which a problem is solved.

    Attributes
    ----------
    centre, scale : float
        ``y = centre + scale t``.
    unit : float
        Of the objective.
    """

    centre: float
    scale: float
    unit: float

    def certificate(self, proof: Certificate) -> Certificate:
        """Return a certificate in the units of ``y``."""
        return replace(
            proof,
            objective=proof.objective * self.unit,
            dual_bound=proof.dual_bound * self.unit,
            violation=proof.violation * self.scale,
        )

    def multipliers(self, nu: Array) -> Array:
        """Return multipliers in the units of ``y``: objective per unit of what is bounded."""
        return nu * (self.unit / self.scale)


def choose_units(y: Array, weight: Array, fit_intercept: bool, level: float | None) -> tuple[float, float]:
    """Return centre and scale of targets: the mean or, where a ``level`` is given, that quantile; a power of two."""
    centre = 0.0
    if fit_intercept:
        centre = float(np.average(y, weights=weight)) if level is None else _quantile(y, weight, level)
    spread = float(np.average(np.abs(y - centre), weights=weight))
    return centre, float(2.0 ** np.round(np.log2(spread))) if spread > 0 else 1.0


def _quantile(y: Array, weight: Array, level: float) -> float:
    order = np.argsort(y, kind="stable")
    below = np.cumsum(weight[order])
    return float(y[order[np.searchsorted(below, level * below[-1]).clip(max=len(y) - 1)]])


@dataclass(frozen=True)
class RegressionTask(Task):
    """Data, loss and penalty of one regression.

    Attributes
    ----------
    units : Units
    target : (N,)
        ``t``.
    functionals : Functionals or None
        What the rows of the problem are, in the units of ``t``; None for the covariances.
    """

    units: Units = Units(0.0, 1.0, 1.0)
    target: Array | None = None
    functionals: Functionals | None = None

    @property
    def centred(self) -> Array:
        """The columns ``u`` of the rows of the problem, (N, K)."""
        return super().centred if self.functionals is None else self.functionals.columns

    def losses(self, scores: Array) -> tuple[float, float]:
        """Return the sum of the losses at scores, and at zero: where everybody is predicted the centre of units."""
        loss, weight = self.problem.loss, self.problem.weight
        return float(weight @ loss.value(scores)), float(weight @ loss.value(np.zeros_like(scores)))

    def bounded(self, constraints: Sequence[Any]) -> RegressionTask:
        """Return the task whose rows are what the constraints bound, bounds still infinite."""
        assert self.target is not None
        parts = [bounded_by(c, self.columns, self.target * self.units.scale) for c in constraints]
        found = stack(parts)
        share = np.where(found.relative, 1.0, 1.0 / self.units.scale)
        found = replace(found, middle=found.middle / self.units.scale, bound=found.bound * share)
        rows = covariance_rows(self.problem.design, found.columns, self.data.people_weight)
        free = np.full(len(rows), np.inf)
        return replace(self, problem=self.problem.with_rows(rows, -free, free), functionals=found)


def make_regression_task(
    data: TrainingData,
    loss: ResidualLoss,
    units: Units,
    target: Array,
    C: float,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> RegressionTask:
    """Write down the problem, with covariance rows where there are sensitive features."""
    task = make_task(data, loss, C, fit_intercept, tol, max_iter)
    problem = as_regression(task.problem, loss)
    return RegressionTask(problem, data, task.compared, tol, max_iter, task.feature_map, units=units, target=target)


def solve_regression(constraint: Any, task: RegressionTask) -> tuple[RegressionTask, Outcome]:
    """Return the outcome under ``constraint``, and the task whose rows it bounds."""
    if constraint is None or isinstance(constraint, LossBound):
        return task, solve_task(constraint, task)
    asked = list(constraint) if isinstance(constraint, list | tuple) else [constraint]
    asked = [c() if isinstance(c, type) and issubclass(c, Constraint) else c for c in asked]
    if not asked:
        raise ValueError("constraint is an empty list; name at least one constraint, or set None.")
    if any(isinstance(c, LossBound) for c in asked):
        raise ValueError(
            "LossBound minimises covariances and cannot be combined with other constraints; give it alone."
        )
    task = task.bounded(asked)
    return task, _solve_bounds(task)


def _solve_bounds(task: RegressionTask) -> Outcome:
    """Return the least objective with every functional within its bounds."""
    asked = task.functionals
    assert asked is not None
    is_relative = bool(np.any(asked.relative))

    def bind(problem: Problem, free: Solution) -> Problem:
        reference = np.abs(problem.rows @ free.theta)
        bounded = np.isfinite(asked.bound)
        share = np.where(bounded, asked.bound, 0.0)
        bound = np.where(bounded, np.where(asked.relative, share * reference, share), np.inf)
        return problem.with_bounds(asked.middle - bound, asked.middle + bound)

    if np.any(np.abs(asked.middle) > asked.bound):  # zero, which no covariance or difference rules out, may not do
        _check_feasible(task, asked)
    free, solution = solve_with_reference(
        task.problem, bind, accuracy=task.accuracy, reference_tol=0.0 if is_relative else ROUGH
    )
    solution = as_sure_as(solution, free) if is_relative else solution
    return Outcome(solution, bind(task.problem, free), free)


def _check_feasible(task: RegressionTask, asked: Functionals) -> None:
    """Raise where no linear function keeps all bounds.

    ``A theta`` takes the values that ``A A' v`` takes, so that the linear program has K unknowns. It minimises the
    largest excess over the bounds, of which relative ones are not known yet.
    """
    rows = task.problem.rows / np.maximum(np.linalg.norm(task.problem.rows, axis=1), HAIR)[:, None]
    values = task.problem.rows @ rows.T
    kept = np.flatnonzero(np.isfinite(asked.bound) & ~asked.relative)
    bound = np.where(np.isfinite(asked.bound), asked.bound, 0.0)
    slack = np.full((2 * len(kept), 1), -1.0)
    found = linprog(
        np.append(np.zeros(len(rows)), 1.0),
        A_ub=np.hstack([np.vstack([values[kept], -values[kept]]), slack]),
        b_ub=np.concatenate([(asked.middle + bound)[kept], (bound - asked.middle)[kept]]),
        bounds=[(None, None)] * len(rows) + [(0.0, None)],
        method="highs",
    )
    if found.status == 0 and found.x[-1] > HAIR * (1.0 + float(np.abs(asked.middle).max())):
        reached = values @ found.x[:-1]
        missed = np.maximum(reached - asked.middle - bound, asked.middle - bound - reached)
        quantity, name, category = asked.labels[int(kept[np.argmax(missed[kept])])]
        raise InfeasibleError(
            f"No linear function of the features keeps all bounds: whatever it is, one is missed by at least "
            f"{found.x[-1] * task.units.scale:.3g}, such as that on the {quantity} of {name!r} ({category}). Allow "
            "larger bounds, ask for fewer of them, or add features that tell these groups apart."
        )
