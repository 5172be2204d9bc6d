"""Minimises a quadratic model under a few linear constraints by products with its Hessian alone.

The model ``g'v + 1/2 v'Hv`` is minimised over ``lower <= A (theta + v) <= upper`` by conjugate gradients,
preconditioned by ``P ~ H`` and projected: on the rows of A that are active, every direction satisfies ``A d = 0``.
With ``L = P^-1 A'`` and ``G = A L`` (K, K) the projection of a residual ``r`` is

    nu = -G^-1 L' r,    y = P^-1 (r + A' nu),

so that it costs K inner products, and ``nu`` becomes the multipliers of the rows as ``r + A' nu`` vanishes. A
direction that meets the bound of another row ends there and that row becomes active; a row whose multiplier has the
wrong sign once the residual is small is released. Equalities (a covariance of zero) never change.

Reference: Gould, Hribar and Nocedal, On the solution of equality constrained quadratic programming problems arising
in optimization, SIAM J. Sci. Comput. 23, 2001.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairmargin.problem import Problem
from fairmargin.solvers.quadratic_step import LEAST_SHIFT, solve_box_dual

__all__ = ["QuadraticModel", "minimise_model"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class QuadraticModel:
    """A quadratic model at ``theta``: its gradient (p,), products with its Hessian and with the inverse of ``P``."""

    theta: Array
    gradient: Array
    hessian: Callable[[Array], Array]
    inverse: Callable[[Array], Array]


def minimise_model(
    problem: Problem,
    model: QuadraticModel,
    multipliers: Array,
    is_enough: Callable[[Array], bool],
    most: int,
) -> tuple[Array, Array]:
    """Return the step to about the minimum of a model within the constraints, and its multipliers.

    Parameters
    ----------
    problem : Problem
        For its rows and bounds.
    model : QuadraticModel
    multipliers : (K,)
        Known ones; where they are not zero, a row at its bound is taken to be active.
    is_enough : callable
        Whether a residual ``g + H v + A' nu`` (p,) is small enough.
    most : int
        Products with the Hessian after which to stop.
    """
    rows = _Rows(problem, model)
    v = rows.restore()
    r = model.gradient + model.hessian(v) if np.any(v) else model.gradient.copy()
    rows.guess_active(v, multipliers)
    left = most
    while True:
        left, is_blocked = _descend(rows, model, v, r, is_enough, left)
        if left <= 0 or not (is_blocked or rows.release(r)):
            break
    nu = rows.signed(rows.multipliers(r))
    return rows.corrected(v), nu


def _descend(
    rows: _Rows, model: QuadraticModel, v: Array, r: Array, is_enough: Callable[[Array], bool], left: int
) -> tuple[int, bool]:
    """Go on from ``v`` with the residual ``r``, both changed in place, on the active rows.

    Returns the number of products left, and whether a further row has become active.
    """
    d, last = np.zeros_like(v), 1.0
    while True:
        s = rows.project(r)
        if is_enough(s) or left <= 0:
            return left, False
        y = model.inverse(s)
        size = float(s @ y)
        d = -y + (size / last) * d if np.any(d) else -y
        image = model.hessian(d)
        left -= 1
        curve = float(d @ image)
        if not (curve > 0 and size > 0):  # no curvature left but rounding
            return 0, False
        length, blocking = rows.length(v, d, size / curve)
        v += length * d
        r += length * image
        if blocking is not None:
            rows.activate(*blocking)
            return left, True
        last = size


class _Rows:
    """The rows of A, which of them are active (at their lower or upper bound: side -1 or 1) and their projection."""

    def __init__(self, problem: Problem, model: QuadraticModel) -> None:
        self.problem = problem
        self.value = problem.rows @ model.theta
        self.lifted = np.empty((problem.rows.shape[1], problem.n_rows), order="F")
        for k, row in enumerate(problem.rows):
            self.lifted[:, k] = model.inverse(row)
        gram = problem.rows @ self.lifted
        self.gram = 0.5 * (gram + gram.T)
        self.is_equality = problem.lower == problem.upper
        self.side = np.where(self.is_equality, 1, 0)
        self._changes = 3 * problem.n_rows + 10  # of the active rows, beyond which they go round in circles

    def restore(self) -> Array:
        """Return the shortest step, in the metric of P, to a point within the bounds."""
        problem = self.problem
        if not problem.n_rows:
            return np.zeros(len(self.lifted))
        return -self.lifted @ solve_box_dual(self.gram, self.value, problem.lower, problem.upper)

    def corrected(self, v: Array) -> Array:
        """Return the step without what rounding has left of it outside the bounds."""
        problem = self.problem
        value = self.value + problem.rows @ v
        if np.all(value <= problem.upper) and np.all(value >= problem.lower):
            return v
        zero = np.zeros_like(value)
        return v - self.lifted @ solve_box_dual(self.gram, zero, problem.lower - value, problem.upper - value)

    def guess_active(self, v: Array, multipliers: Array) -> None:
        """Take as active the equalities, and rows at a bound that known multipliers push against."""
        problem = self.problem
        value = self.value + problem.rows @ v
        slack = problem.room(v)
        at_upper, at_lower = value >= problem.upper - slack, value <= problem.lower + slack
        self.side = np.where((multipliers > 0) & at_upper, 1, np.where((multipliers < 0) & at_lower, -1, 0))
        self.side[self.is_equality] = 1
        self._factor()

    def activate(self, row: int, side: int) -> None:
        """Keep a row at its bound."""
        self.side[row] = side
        self._factor()

    def release(self, r: Array) -> bool:
        """Let go of the row whose multiplier has the wrong sign by most; return whether there was one."""
        nu = self.multipliers(r)
        wrong = np.where(self.is_equality, 0.0, -self.side * nu) * np.sqrt(np.maximum(self.gram.diagonal(), 0.0))
        self._changes -= 1
        if self._changes < 0 or not np.any(wrong > 0):
            return False
        self.side[int(np.argmax(wrong))] = 0
        self._factor()
        return True

    def signed(self, nu: Array) -> Array:
        """Return multipliers without those of the wrong sign."""
        return np.where(self.is_equality | (self.side * nu > 0), nu, 0.0)

    def multipliers(self, r: Array) -> Array:
        """Return the multipliers that make the residual least in the metric of ``P^-1``, zero off active rows."""
        nu = np.zeros(len(self.side))
        if len(self.active):
            nu[self.active] = -self._solve(self.lifted[:, self.active].T @ r)
        return nu

    def project(self, r: Array) -> Array:
        """Return ``r + A' nu``."""
        if not len(self.active):
            return r
        return r + self.multipliers(r)[self.active] @ self.problem.rows[self.active]

    def length(self, v: Array, d: Array, length: float) -> tuple[float, tuple[int, int] | None]:
        """Return how far to go along ``d``, at most ``length``, and the row that stops it with its side, if any."""
        free = np.flatnonzero(self.side == 0)
        if not len(free):
            return length, None
        problem = self.problem
        change = problem.rows[free] @ d
        value = self.value[free] + problem.rows[free] @ v
        bound = np.where(change > 0, problem.upper[free], problem.lower[free])
        moving = np.flatnonzero(change)
        room = np.maximum((bound - value)[moving] / change[moving], 0.0)
        if not len(moving) or room.min() >= length:
            return length, None
        first = moving[int(np.argmin(room))]
        return float(room.min()), (int(free[first]), 1 if change[first] > 0 else -1)

    def _factor(self) -> None:
        """Decompose ``G`` of the active rows, which may depend on each other."""
        self.active = np.flatnonzero(self.side)
        gram = self.gram[np.ix_(self.active, self.active)]
        size = np.sqrt(np.maximum(gram.diagonal(), 0.0))
        self._size = np.where(size > 0, 1.0 / np.where(size > 0, size, 1.0), 0.0)
        if len(self.active):
            values, self._vectors = scipy.linalg.eigh(gram * self._size * self._size[:, None], check_finite=False)
            keeps = values > LEAST_SHIFT * len(values) * values.max()
            self._inverse = np.where(keeps, 1.0 / np.where(keeps, values, 1.0), 0.0)

    def _solve(self, right: Array) -> Array:
        return self._size * (self._vectors @ (self._inverse * (self._vectors.T @ (self._size * right))))
