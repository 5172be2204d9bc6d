"""Which Hessian Newton's method works with: one policy for renewing, correcting or keeping it.

A Hessian costs a sandwich ``Xa' diag(c l'') Xa``, the most expensive pass over the data, so it is kept while steps
are fast. Where every row is curved it is corrected after each step by what the gradient's change shows of the
curvature along the step (BFGS). A new one is formed when the steps still to come with the old one would cost more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.problem import Problem
from fairmargin.solvers.evaluation import Point
from fairmargin.solvers.quadratic_step import DAMPING, LEAST_SHIFT, Factor, constrained_step
from fairmargin.tolerances import EPS

__all__ = ["Curvature", "form_hessian", "hessian_weights", "is_well_conditioned"]

Array = NDArray[np.float64]

# Smallest pivot (of the Hessian scaled to a unit diagonal) for which single precision will do: float32 sums are
# good to some 1e-6, which leaves two digits in the flattest direction.
_SINGLE_PIVOT = 1e-4
# A corrected Hessian is trusted if the smallest pivot is well above the rounding of its update, and the curvature
# seen is within this factor of the one expected: beyond it, it is noise.
_SECANT_PIVOT, _CREDIBLE = EPS**0.5, 10.0
# A sandwich takes about as long as p / 13 steps: p / 2 multiplications per entry of X at the speed of a matrix
# product, against two at the speed of memory and a few pointwise functions (measured in single precision, where
# most are formed). With a fresh one a step leaves exp(-5) of the gap, or less.
_COLUMNS_PER_STEP, _FRESH = 13.0, 5.0


def is_well_conditioned(hessian: Array | None) -> bool:
    """Whether single precision is accurate enough near a point with this Hessian."""
    if hessian is None or not np.all(np.isfinite(hessian)):
        return False
    return Factor(hessian).pivot >= _SINGLE_PIVOT


class Curvature:
    """The Hessian in use and its factor.

    Parameters
    ----------
    problem : Problem
    hessian : (p, p) or None
        One to begin with, from a point nearby.
    """

    def __init__(self, problem: Problem, hessian: Array | None = None) -> None:
        self.problem = problem
        self.hessian = hessian
        self._factor: Factor | None = None
        self._shift = LEAST_SHIFT
        self._is_fresh = False
        self._in_single = True
        self._n_corrections = 0

    def step(self, point: Point, multipliers: Array, gap: float, last_gap: float, goal: float) -> tuple[Array, Array]:
        """Return the step from a point and its multipliers; the gap was ``last_gap`` before the last step."""
        factor = self._get_factor(point, gap, last_gap, goal)
        return constrained_step(self.problem, point.theta, point.gradient, factor)

    def _get_factor(self, point: Point, gap: float, last_gap: float, goal: float) -> Factor:
        if self.hessian is None or self._is_worth_renewing(gap, last_gap, goal):
            # A Hessian of this very neighbourhood that was slow had too few digits.
            self._in_single = self._in_single and not (self._is_fresh and gap > 0.5 * last_gap)
            self._renew(point)
        else:
            self._is_fresh = False
        if self._factor is None:
            assert self.hessian is not None
            self._factor = Factor(self.hessian, self._shift)
        return self._factor

    def refine(self, point: Point) -> tuple[Array, Array] | None:
        """Return one more step from a point and its multipliers, with the Hessian at hand; None without one."""
        if self.hessian is None or not np.all(np.isfinite(self.hessian)):
            return None
        if self._factor is None:
            self._factor = Factor(self.hessian, self._shift)
        return constrained_step(self.problem, point.theta, point.gradient, self._factor)

    def learn(self, before: Point, after: Point) -> None:
        """Correct the Hessian after a step by the change of the gradient along it."""
        self._shift = max(self._shift / DAMPING, LEAST_SHIFT)
        assert self._factor is not None
        assert self.hessian is not None
        if not after.is_curved or self._factor.pivot < _SECANT_PIVOT:
            return
        step, change = after.theta - before.theta, after.gradient - before.gradient
        image = self.hessian @ step
        old, curve = float(step @ image), float(step @ change)
        if old / _CREDIBLE < curve < old * _CREDIBLE:
            self.hessian = self.hessian - np.outer(image, image / old) + np.outer(change, change / curve)
            self._factor = None
            self._n_corrections += 1

    def reject(self) -> bool:
        """Prepare for another try after a step that led nowhere; return whether there is anything left to try.

        First the Hessian of the point itself, then in double precision, then ones with a larger shift.
        """
        self._factor = None
        if not self._is_fresh:
            self.hessian = None
        elif self._in_single:
            self.hessian, self._in_single = None, False
        else:
            self._shift *= DAMPING
        return self._shift <= 1.0

    def _is_worth_renewing(self, gap: float, last_gap: float, goal: float) -> bool:
        """Whether the steps still to come with this Hessian would cost more than a new one."""
        if not np.isfinite(last_gap) or gap <= goal:
            return False
        if gap >= 0.5 * last_gap:
            return True
        # Steps become faster with the second correction; without a penalty the optimum may lie at infinity, and on
        # the way there no Hessian is good for long.
        if self._n_corrections == 1 and np.any(self.problem.ridge):
            return False
        way = np.log(gap / goal)
        return way / np.log(last_gap / gap) > self.problem.design.shape[1] / _COLUMNS_PER_STEP + way / _FRESH

    def _renew(self, point: Point) -> None:
        """Form the Hessian at a point, in single precision where that is accurate enough."""
        self._is_fresh, self._n_corrections = True, 0
        if self._in_single:
            hessian = form_hessian(self.problem, point, single=True)
            if np.all(np.isfinite(hessian)):
                factor = Factor(hessian, self._shift)
                if factor.pivot >= _SINGLE_PIVOT:
                    self.hessian, self._factor = hessian, factor
                    return
            self._in_single = False
        self.hessian, self._factor = form_hessian(self.problem, point), None


def hessian_weights(problem: Problem, point: Point) -> Array:
    """Return ``l''`` at a point, (N,), or a stand-in where no row is curved."""
    if point.n_curved == 0:  # a loss that is straight here, as the smoothed hinge at 0: bend it by its slope
        return np.abs(point.signed) / problem.weight
    return point.curvature


def form_hessian(problem: Problem, point: Point, single: bool = False) -> Array:
    """Return ``Xa' diag(c l'') Xa + diag(rho)`` at a point, (p, p)."""
    curvature = hessian_weights(problem, point)
    # Rows without curvature add nothing.
    rows = np.flatnonzero(curvature) if 0 < point.n_curved < 0.5 * len(curvature) else None
    return problem.design.sandwich(problem.weight * curvature, rows, single) + np.diag(problem.ridge)
