"""A problem whose rows are read in passes, and how Newton's method sees it.

The loop, the step and the certificate are those of :mod:`fairmargin.solvers.newton`. Here an evaluation is one pass,
which returns objective, gradient, dual sums and, on request, the Hessian at once; no vector over the rows is kept.

**The dual bound.** An unpenalised intercept requires ``sum_i alpha_i y_i = 0``. In memory the largest ``alpha`` of
one class is scaled down; here all of one class are, by the same share: ``l*`` is convex, so that the sums by class
tell what the bound loses by it, and no further pass is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.design import BaseDesign
from fairmargin.partitioned.passes import Request, Sums
from fairmargin.problem import DualSums, Problem
from fairmargin.solvers.curvature import Curvature
from fairmargin.solvers.evaluation import Point
from fairmargin.solvers.oracle import make_oracle
from fairmargin.solvers.quadratic_step import DAMPING, LEAST_SHIFT

__all__ = ["PartitionedProblem", "RemoteDesign"]

Array = NDArray[np.float64]

_NONE = np.empty(0)
_FLAT = 0.5  # share of the first slope that may be left at the end of a full step, as in memory
_SHORTER = (0.5, 0.25, 0.1, 0.03, 0.01, 1e-3)  # parts of a step that went too far, tried in one pass
_SLOW = 0.01  # share of a gap that a step may leave before a new Hessian is asked for


class RemoteDesign(BaseDesign):
    """Shape and scale of a matrix that is nowhere in memory."""

    def __init__(self, n_rows: int, scale: Array, fit_intercept: bool) -> None:
        d = len(scale) - int(fit_intercept)
        super().__init__(None, np.zeros(d), scale, fit_intercept)
        self.n_rows = n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_rows, len(self.scale)


@dataclass(frozen=True)
class PartitionedProblem(Problem):
    """A problem whose ``y`` and ``weight`` are empty: its rows are behind ``passes``.

    Attributes
    ----------
    passes : Passes
    sample : Problem
        The problem on a sample of rows in memory, weighted up to the same total.
    class_totals : (2,)
        Sum of the ``c_i`` of both classes, negative first.
    least_weight : float
        Least of the ``c_i``.
    renews : bool
        Whether the first pass forms a Hessian: the one of the start is from a sample, or from far away.
    """

    passes: Any = None
    sample: Any = None
    class_totals: Any = (0.0, 0.0)
    least_weight: float = 0.0
    renews: bool = True

    @cached_property
    def total_weight(self) -> float:
        """``sum_i c_i``."""
        return float(sum(self.class_totals))

    @cached_property
    def at_zero(self) -> float:
        """``L`` at ``theta = 0``."""
        return self.total_weight * float(self.loss.value(np.zeros(1))[0]) + self.offset

    @cached_property
    def _least_unit(self) -> float:
        return 1e-16 * self.design.shape[0] * self.least_weight * float(self.loss.value(np.zeros(1))[0])

    def single(self) -> None:
        """Return None: passes are in double precision."""

    def objective(self, theta: Array, scores: Array) -> float:
        """Return ``L(theta)``, by one pass; the scores are not those of all rows."""
        (sums,) = self.passes.evaluate([Request(theta, self.loss)])
        return float(sums.loss.sum()) + self.penalty(theta)

    def on_sample(self) -> Problem:
        """Return the same problem on the sample: its loss, rows, bounds and linear term."""
        return replace(
            self.sample,
            loss=self.loss,
            ridge=self.ridge,
            rows=self.rows,
            lower=self.lower,
            upper=self.upper,
            tilt=self.tilt,
            offset=self.offset,
        )


@dataclass
class PassPoint(Point):
    """A point evaluated in one pass: gradient, dual sums and perhaps the Hessian, but no vectors over the rows."""

    hessian: Array | None = None
    n_rows: int = 0

    @property
    def is_curved(self) -> bool:
        """Whether every row has ``l'' > 0``."""
        return self.n_curved == self.n_rows

    @property
    def rounding(self) -> float:
        """What rounding may do to the objective."""
        return 50.0 * float(np.finfo(float).eps) * abs(self.objective)


class PassOracle:
    """The oracle of a partitioned problem."""

    def __init__(self, problem: PartitionedProblem) -> None:
        self.problem = problem
        self.wants_hessian = problem.renews

    def at(self, theta: Array, scores: Array | None = None) -> Point:
        """Return the point with everything, by one pass; scores are not kept."""
        return self._ask([theta])[0]

    def renewed(self, point: PassPoint) -> PassPoint:
        """Return the point with its Hessian: one pass, unless it has it."""
        if point.hessian is not None:
            return point
        self.wants_hessian = True
        return self._ask([point.theta])[0]

    def _ask(self, thetas: list[Array]) -> list[PassPoint]:
        problem = self.problem
        wanted, self.wants_hessian = self.wants_hessian, False
        sums = problem.passes.evaluate([Request(theta, problem.loss, wanted) for theta in thetas])
        return [self._point(theta, found) for theta, found in zip(thetas, sums, strict=True)]

    def _point(self, theta: Array, sums: Sums) -> PassPoint:
        problem = self.problem
        pull = sums.pull.sum(axis=0)
        hessian = None if sums.hessian is None else sums.hessian + np.diag(problem.ridge)
        return PassPoint(
            theta,
            _NONE,
            _NONE,
            _NONE,
            float(sums.loss.sum()),
            float(sums.loss.sum()) + problem.penalty(theta),
            sums.n_curved,
            problem.penalty_gradient(theta) - pull,
            _dual_sums(problem, sums, pull),
            hessian,
            problem.design.shape[0],
        )

    def complete(self, point: Point, with_dual: bool) -> Point:
        """Return the point: it is complete."""
        return point

    def centre(self, point: Point, goal: float) -> Point:
        """Return the point: another intercept would cost a pass."""
        return point

    def search(self, point: Point, step: Array, is_feasible: bool) -> Point | None:
        """Take the full step where it leads downhill, and otherwise the best of several parts of it."""
        full = self._ask([point.theta + step])[0]
        slope = float(point.gradient @ step)
        if not is_feasible or abs(slope) <= point.rounding:
            return full
        if slope > 0:
            return None
        end = float(full.gradient @ step)
        is_downhill = full.objective <= point.objective + point.rounding
        if is_downhill and end <= _FLAT * abs(slope):
            return full
        self.wants_hessian = True
        trials = self._ask([point.theta + t * step for t in _SHORTER])
        best = min([full, *trials], key=lambda trial: trial.objective)
        return best if best.objective < point.objective + point.rounding else None

    def choose_model(self, hessian: Array | None) -> PassCurvature:
        """Return the model of the curvature."""
        return PassCurvature(self.problem, self, hessian)

    def scores(self, theta: Array) -> Array:
        """Return an empty vector: scores are not kept."""
        return _NONE

    def objective(self, point: Point, theta: Array, scores: Array) -> float:
        """Return the objective of the point; there is no step beyond it."""
        return point.objective

    def dual_variables(self, point: Point, multipliers: Array) -> Array:
        """Return an empty vector: dual variables are not kept."""
        return _NONE


def _dual_sums(problem: PartitionedProblem, sums: Sums, pull: Array) -> DualSums:
    """Return the dual sums, in which a whole class takes the place of its heaviest row."""
    if not problem.design.fit_intercept:
        return DualSums(float(sums.dual.sum()), pull, np.empty(0, np.intp), np.zeros(2), np.zeros(2), sums.pull)
    push = np.abs(sums.pull[:, -1])  # the sum of alpha
    sign = np.array([[-1.0], [1.0]])
    mean = np.divide(sign * sums.pull, push[:, None], out=np.zeros_like(sums.pull), where=push[:, None] > 0)
    worth = sums.dual - np.asarray(problem.class_totals) * problem.loss.infimum
    return DualSums(float(sums.dual.sum()), pull, np.empty(0, np.intp), push, worth, mean)


class PassCurvature(Curvature):
    """The Hessian in use: formed by a pass that evaluates anyway, and corrected by what steps show of it.

    A Hessian adds less than half to the cost of a pass, and never needs one of its own unless a step led nowhere.
    """

    def __init__(self, problem: Problem, oracle: PassOracle, hessian: Array | None) -> None:
        super().__init__(problem, hessian)
        self._oracle = oracle

    def step(self, point: Point, multipliers: Array, gap: float, last_gap: float, goal: float) -> tuple[Array, Array]:
        """Return the step from a point; a slow one makes the next pass form a Hessian."""
        assert isinstance(point, PassPoint)
        if self.hessian is None:
            point = self._oracle.renewed(point)
        if point.hessian is not None:
            self.hessian, self._factor, self._is_fresh = point.hessian, None, True
        else:
            self._is_fresh = False
        self._oracle.wants_hessian = bool(np.isfinite(last_gap)) and gap > _SLOW * last_gap and not self._is_fresh
        found = super().refine(point)
        assert found is not None
        return found

    def refine(self, point: Point) -> None:
        """Return None: the objective one step further would cost a pass."""

    def learn(self, before: Point, after: Point) -> None:
        """Correct the Hessian, unless the new point brings its own."""
        if getattr(after, "hessian", None) is None:
            super().learn(before, after)
        else:
            self._shift = max(self._shift / DAMPING, LEAST_SHIFT)

    def reject(self) -> bool:
        """Prepare for another try: first with the Hessian of the point itself, then with a larger shift."""
        self._factor = None
        if not self._is_fresh:
            self.hessian = None
        else:
            self._shift *= DAMPING
        return self._shift <= 1.0


@make_oracle.register
def make_pass_oracle(problem: PartitionedProblem) -> PassOracle:
    """Return what asks the passes over partitions."""
    return PassOracle(problem)
