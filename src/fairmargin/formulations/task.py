"""From a task to an outcome.

A task is the unconstrained problem with the covariance rows at hand; :func:`solve_task` dispatches on the
constraint and answers with an outcome, from which estimators read their fitted attributes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from fairmargin.constraints import Constraint
from fairmargin.design import make_design, reduce_wide
from fairmargin.losses import Loss, SmoothedHingeLoss
from fairmargin.problem import Problem, Solution
from fairmargin.sensitive import Sensitive
from fairmargin.solvers import Start, few_threads, fits_single, solve
from fairmargin.validation import TrainingData

__all__ = [
    "FeatureMap",
    "Outcome",
    "Task",
    "loss_increase",
    "make_task",
    "run",
    "solve_task",
    "start_at",
    "warn_unless_solved",
]

Array = NDArray[np.float64]

_ROUNDED = 0.1  # width of a hinge loss's corner where a rounded one will do


class FeatureMap(Protocol):
    """Features in which the score is linear, and the way back from their coefficients to the function."""

    @property
    def features(self) -> Array:
        """The features of the training rows, shape (N, p)."""
        ...

    def expand(self, w: Array) -> Array:
        """Return the coefficients of the function whose coefficients in the features are ``w``."""
        ...


@dataclass(frozen=True)
class Task:
    """Data, loss and penalty of one training, before anything is asked of it.

    ``problem`` carries the covariance rows (K, p) with infinite bounds; ``centred`` (N, K) is ``z - zbar``;
    ``feature_map`` gives the features that ``problem`` is written in, None for the columns of ``data.X``;
    ``near`` is the outcome of nearly the same task, to start from; without ``proof`` estimates of gaps are trusted.
    """

    problem: Problem
    data: TrainingData
    centred: Array
    tol: float
    max_iter: int
    feature_map: FeatureMap | None = None
    near: Outcome | None = None
    proof: bool = True

    @property
    def sensitive(self) -> Sensitive:
        """The sensitive attributes, which a constraint needs."""
        assert self.data.sensitive is not None
        return self.data.sensitive

    def solve(self, problem: Problem, start: Start | None = None) -> Solution:
        """Solve a problem of this task with the task's tolerances."""
        return solve(problem, start=start, tol=self.tol, max_iter=self.max_iter, proof=self.proof)

    def roughly(self, tol: float, solution: Solution) -> tuple[Task, Solution]:
        """Return task and solution for scouting: a wide tolerance, no proofs, single precision if that will do."""
        smooth = self.smoothed()
        if smooth is not self:
            free, start = smooth.problem.unconstrained(), Start(solution.theta)
            solution = solve(free, start=start, tol=tol, max_iter=self.max_iter, proof=False)
        rough = replace(smooth, tol=max(self.tol, tol), proof=False)
        twin = smooth.problem.single() if fits_single(solution.hessian) else None
        if twin is None:
            return rough, solution
        vectors: dict[str, Any] = {k: getattr(solution, k).astype(np.float32) for k in ("scores", "alpha")}
        return replace(rough, problem=twin), replace(solution, **vectors)

    def smoothed(self) -> Task:
        """Return the task with the corner of a hinge loss rounded a little, for which there are faster methods."""
        if self.problem.loss.smooth:
            return self
        return replace(self, problem=replace(self.problem, loss=SmoothedHingeLoss(_ROUNDED)))

    def coefficients(self, solution: Solution) -> tuple[Array, float]:
        """Return the function of a solution: its coefficients, expanded by the feature map, and the intercept."""
        w, b = self.problem.design.to_original(solution.theta)
        return (w if self.feature_map is None else self.feature_map.expand(w)), b

    def on(self, feature_map: FeatureMap) -> Task:
        """Return the same task on other features."""
        old = self.problem
        design = make_design(feature_map.features, old.design.fit_intercept)
        penalised = bool(np.any(old.ridge))
        problem = _write_problem(design, self.data, self.centred, old.loss, old.weight, penalised)
        return replace(self, problem=problem, feature_map=feature_map, near=None)


@dataclass(frozen=True)
class Outcome:
    """A solved task.

    ``unconstrained`` is the solution without constraint where it was needed or asked for; ``facts`` holds
    what a formulation has to tell beyond that, by fitted attribute.
    """

    solution: Solution
    unconstrained: Solution | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def start_at(solution: Solution | None) -> Start | None:
    """Return a start from a solution, if there is one."""
    if solution is None:
        return None
    return Start(solution.theta, solution.multipliers, solution.hessian, solution.alpha)


def make_task(
    data: TrainingData,
    loss: Loss,
    C: float,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    feature_map: FeatureMap | None = None,
) -> Task:
    """Write down the problem: weights, penalty and covariance rows (one pass over the data)."""
    n, d = data.X.shape
    if feature_map is None and d > n:
        feature_map = reduce_wide(data.X)
    design = make_design(data.X if feature_map is None else feature_map.features, fit_intercept)
    weight = data.loss_weight * (1.0 if np.isinf(C) else C)
    centred = np.empty((n, 0)) if data.sensitive is None else data.sensitive.centred(data.people_weight)
    problem = _write_problem(design, data, centred, loss, weight, bool(np.isfinite(C)))
    return Task(problem, data, centred, tol, max_iter, feature_map)


def _write_problem(
    design: Any, data: TrainingData, centred: Array, loss: Loss, weight: Array, penalised: bool
) -> Problem:
    ridge = np.full(design.shape[1], float(penalised))
    if design.fit_intercept:
        ridge[-1] = 0.0
    rows = covariance_rows(design, centred, data.people_weight)
    free = np.full(len(rows), np.inf)
    return Problem(design, data.y, weight, loss, ridge, rows, -free, free)


def covariance_rows(design: Any, centred: Array, people_weight: Array) -> Array:
    """Return ``A = (1/S) (Z - zbar)' diag(s) Xa``, shape (K, p); the intercept drops out."""
    if centred.shape[1] == 0:
        return np.empty((0, design.shape[1]))
    weighted = centred * (people_weight / people_weight.sum())[:, None]
    rows = design.rmatvec(weighted).T
    # What is zero but for rounding must be zero: as a constraint it would be a real one on nothing.
    rows[np.abs(rows) <= 1e-15 * np.abs(weighted).sum(axis=0)[:, None] * design.scale] = 0.0
    if design.fit_intercept:
        rows[:, -1] = 0.0  # sum_i s_i (z_i - zbar) is zero but for rounding
    return np.ascontiguousarray(rows)


def run(task: Task, constraint: Constraint | None) -> Outcome:
    """Solve a task under a constraint, and warn of what a user must not overlook."""
    with few_threads(task.problem):
        outcome = solve_task(constraint, task)
    warn_unless_solved(outcome.solution, task.tol)
    if outcome.unconstrained is not None and outcome.solution.certificate.status == "solved":
        warn_unless_solved(outcome.unconstrained, task.tol)  # what covariances and losses are measured against
    return outcome


def loss_increase(value: float, best: float) -> float:
    """Return ``value / best - 1``, where a share of the best objective means something."""
    if not best > 1e-12:
        raise ValueError(
            "The data can be separated without any loss, and a share of a loss of zero means nothing; set a finite C."
        )
    return value / best - 1.0


@singledispatch
def solve_task(constraint: Any, task: Task) -> Outcome:
    """Return the outcome of a task under ``constraint``."""
    raise ValueError(
        f"constraint must be None or one of the package's constraints (CovarianceBound, ...), got {constraint!r}."
    )


@solve_task.register
def _(constraint: None, task: Task) -> Outcome:
    near = None if task.near is None else start_at(task.near.unconstrained)
    solution = task.solve(task.problem.unconstrained(), near)
    return Outcome(solution, solution)


def warn_unless_solved(solution: Solution, tol: float) -> None:
    """Warn of a solver that did not reach its tolerance, with the gap it reached."""
    proof = solution.certificate
    if proof.status == "solved":
        return
    if proof.status == "separable":
        warnings.warn(
            "The data are separable: without a penalty (C=inf) the coefficients grow without end and there is no "
            f"best classifier; training stopped at a loss of {proof.objective:.1e}. Set a finite C.",
            ConvergenceWarning,
            stacklevel=4,
        )
        return
    hint = "raise max_iter" if proof.status == "iteration limit" else "scale the features or set a finite C"
    warnings.warn(
        f"The solver stopped ({proof.status}) after {proof.n_iter} iterations at a relative duality gap of "
        f"{proof.gap:.1e}, above tol={tol:.1e}; the largest violation is {proof.violation:.1e}. "
        f"To get closer, {hint}.",
        ConvergenceWarning,
        stacklevel=4,
    )
