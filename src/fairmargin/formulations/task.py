"""From a task to an outcome.

A task is the unconstrained problem with the covariance rows at hand. :func:`solve_task` dispatches on the
constraint and returns an outcome: the solution, the problem it solves, and what this formulation has to tell beyond
that. Estimators read their fitted attributes from outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fairmargin.constraints import Constraint
from fairmargin.design import make_design
from fairmargin.diagnostics import Deviations
from fairmargin.formulations.outcome import Outcome
from fairmargin.formulations.region import Region
from fairmargin.formulations.ties import settle_ties
from fairmargin.losses import Loss, SmoothedHingeLoss
from fairmargin.notions import Compared, Notion, SelectionRate, compare
from fairmargin.problem import Problem, Solution
from fairmargin.ranking import Population
from fairmargin.row_space import reduce_few_rows, reduce_rank, reduce_wide
from fairmargin.sensitive import Sensitive
from fairmargin.solvers import Accuracy, Start, in_single_precision, solve
from fairmargin.validation import TrainingData

__all__ = ["FeatureMap", "Task", "make_task", "run", "solve_task", "start_at"]

Array = NDArray[np.float64]

# Entries of the triangular factor that decides a rank: 1.6 GB. A matrix that is not dense has its rank found on
# blocks of rows and is written out only where columns depend on each other: five times as many are let through.
_RANK_ENTRIES, _SPARSE_SHARE = 200_000_000, 5
_FEW_ROWS = 500  # of sparse data, whose products with each other (n, n) take no longer than a fit
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

    Attributes
    ----------
    problem : Problem
        With the covariance rows (K, p) and infinite bounds.
    data : TrainingData
    compared : Compared or None
        The sensitive columns under the notion of fairness; None without sensitive features.
    tol, max_iter : accuracy asked for
    feature_map : FeatureMap or None
        The features that ``problem`` is written in; None for the columns of ``data.X``.
    near : Outcome or None
        Of nearly the same task, to start from.
    proof : bool
        Whether gaps must be proved, or estimates will do.
    region : Region or None
        What else every solution must satisfy, where several constraints are asked for.
    """

    problem: Problem
    data: TrainingData
    compared: Compared | None
    tol: float
    max_iter: int
    feature_map: FeatureMap | None = None
    near: Outcome | None = None
    proof: bool = True
    region: Region | None = None

    @property
    def sensitive(self) -> Sensitive:
        """The sensitive attributes, which a constraint needs."""
        assert self.data.sensitive is not None
        return self.data.sensitive

    @property
    def columns(self) -> Compared:
        """The sensitive columns under the notion of fairness, which a constraint needs."""
        assert self.compared is not None
        return self.compared

    @property
    def centred(self) -> Array:
        """``z - zbar``, among the people whom the notion of fairness counts, and zero for the others, (N, K)."""
        return np.empty((len(self.data.y), 0)) if self.compared is None else self.compared.centred

    @property
    def accuracy(self) -> Accuracy:
        """What solvers are asked for."""
        return Accuracy(self.tol, self.max_iter, self.proof)

    def solve(self, problem: Problem, start: Start | None = None) -> Solution:
        """Solve a problem of this task, within its region, to the task's accuracy."""
        if self.region is not None:
            return self.region.solve(problem, start, self.accuracy)
        return solve(problem, start=start, accuracy=self.accuracy)

    def roughly(self, tol: float, near: Solution, *, in_single: bool) -> tuple[Task, Solution]:
        """Return the task and its unconstrained solution for scouting: a wide tolerance and no proofs.

        ``near`` is the unconstrained solution or, without a Hessian, that of a similar loss. ``in_single`` allows
        single precision where it will do.
        """
        rough = replace(self, tol=max(self.tol, tol), proof=False)
        is_solution = near.hessian is not None
        single = in_single_precision(self.problem, near) if in_single and self.region is None else None
        if single is not None:
            rough, near = replace(rough, problem=single[0]), single[1]
        if is_solution:
            return rough, near
        return rough, rough.solve(rough.problem.unconstrained(), Start(near.theta, hessian=near.hessian))

    def smoothed(self) -> Task:
        """Return the task with the corner of a hinge loss rounded a little, for which there are faster methods."""
        if self.problem.loss.smooth:
            return self
        return self.with_loss(SmoothedHingeLoss(_ROUNDED))

    def with_loss(self, loss: Loss) -> Task:
        """Return the task with another loss."""
        return replace(self, problem=replace(self.problem, loss=loss))

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

    @cached_property
    def deviations(self) -> Deviations:
        """:attr:`centred`, ready for covariances."""
        return Deviations(self.centred, self.data.people_weight)

    @cached_property
    def people(self) -> Population:
        """The people, whose decisions are counted by group."""
        groups = tuple(a for a in self.sensitive.attributes if not a.is_numeric)
        return Population(self.data.y > 0, self.data.people_weight, groups)

    def covariance(self, scores: Array) -> Array:
        """Return the decision boundary covariances of scores, (K,)."""
        return self.deviations.covariance(scores)


def start_at(solution: Solution | None) -> Start | None:
    """Return a start from a solution, if there is one."""
    return None if solution is None else Start.at(solution)


def make_task(
    data: TrainingData,
    loss: Loss,
    C: float,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    feature_map: FeatureMap | None = None,
    notion: Notion | None = None,
) -> Task:
    """Write down the problem: weights, penalty and covariance rows (one pass over the data)."""
    is_penalised = bool(np.isfinite(C))
    if feature_map is None:
        feature_map = _coordinates(data.X, is_penalised, fit_intercept)
    design = make_design(data.X if feature_map is None else feature_map.features, fit_intercept)
    with np.errstate(over="ignore"):
        weight = data.loss_weight * (C if is_penalised else 1.0)
        if np.isinf(weight.sum()):
            raise ValueError("C times the sum of the weights is beyond the range of float64; make C smaller.")
    compared, centred = None, np.empty((len(data.y), 0))
    if data.sensitive is not None:
        notion = SelectionRate() if notion is None else notion
        compared = compare(data.sensitive, notion, data.y, data.people_weight, data.strata)
        centred = compared.centred
    problem = _write_problem(design, data, centred, loss, weight, is_penalised)
    return Task(problem, data, compared, tol, max_iter, feature_map)


def _coordinates(X: Any, is_penalised: bool, fit_intercept: bool) -> FeatureMap | None:
    """Return fewer coordinates in which the same classifiers can be written, where there are any; else None."""
    n, d = X.shape
    if not is_penalised:
        _check_rank_is_affordable(X)
        return reduce_rank(X, fit_intercept)
    if d > n and isinstance(X, np.ndarray):
        return reduce_wide(X)
    if d > n and sp.issparse(X) and n <= _FEW_ROWS:
        return reduce_few_rows(X)
    return None


def _check_rank_is_affordable(X: Any) -> None:
    """Raise where the rank of X, which a problem without a penalty depends on, would take too large a matrix."""
    n, d = X.shape
    entries = min(n, d) * d
    if not isinstance(X, np.ndarray):  # the features in a basis of the row space are dense
        entries = max(entries, n * d // _SPARSE_SHARE)
    if entries > _RANK_ENTRIES:
        raise ValueError(
            f"Without a penalty (C=inf) the rank of X decides which coefficients are determined; for {n} rows and "
            f"{d} columns that takes a dense matrix of {8e-9 * entries:.0f} GB. Set C to a finite value."
        )


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
    """Return ``A = (1/S) (Z - zbar)' diag(s) Xa``, shape (K, p).

    The intercept drops out where the deviations add up to zero: unless a notion counts wrong decisions.
    """
    if centred.shape[1] == 0:
        return np.empty((0, design.shape[1]))
    weighted = centred * (people_weight / people_weight.sum())[:, None]
    rows = design.rmatvec(weighted).T
    # A sum of n terms is zero up to about sqrt(n) roundings of their size. What is zero up to that must be zero:
    # as a constraint it would be a real one on nothing.
    rounding = 4.0 * np.sqrt(len(centred)) * np.finfo(float).eps
    size = np.abs(weighted).sum(axis=0)
    rows[np.abs(rows) <= rounding * size[:, None] * design.scale] = 0.0
    if design.fit_intercept:
        total = weighted.sum(axis=0)  # sum_i s_i (z_i - zbar)
        rows[:, -1] = np.where(np.abs(total) <= rounding * size, 0.0, total)
    return np.ascontiguousarray(rows)


def run(task: Task, constraint: Constraint | None) -> Outcome:
    """Solve a task under a constraint, and settle the people on the boundary."""
    return settle_ties(solve_task(constraint, task), task.tol)


@singledispatch
def solve_task(constraint: Any, task: Task) -> Outcome:
    """Return the outcome of a task under ``constraint``."""
    raise ValueError(
        "constraint must be None, a constraint for classifiers (CovarianceBound, PRuleBound, ...) or a list of them, "
        f"got {constraint!r}."
    )


@solve_task.register
def solve_unconstrained(constraint: None, task: Task) -> Outcome:
    """Return the solution without any constraint."""
    near = None if task.near is None else start_at(task.near.unconstrained)
    problem = task.problem.unconstrained()
    solution = task.solve(problem, near)
    return Outcome(solution, problem, solution, is_as_solved=task.region is None)
