"""The rounds of the method of multipliers on few rows, in as few operations as possible.

Near its end the method (:mod:`fairmargin.solvers.hinge.multipliers`) works on a thousand rows or so, and an iteration
of the general Newton method would spend most of its time on its own generality. Here the loss is known: with margins
``m`` and ``u = a + (1 - m) / h``, the envelope's slopes are ``-clip(u, 0, 1)`` and its curvatures ``1 / h`` where
``0 < u < 1``. The objective is piecewise quadratic, and its derivative along a line is piecewise linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmargin.problem import Certificate, Problem, Solution, support
from fairmargin.solvers.contract import Start
from fairmargin.solvers.evaluation import objective_rounding
from fairmargin.solvers.quadratic_step import DAMPING, LEAST_SHIFT, Factor, constrained_step, find_flat
from fairmargin.tolerances import PATIENCE

__all__ = ["COARSE", "LEAST_WIDTH", "SHRINK", "PiecewiseProblem", "inner_tolerance"]

Array = NDArray[np.float64]

SHRINK = 0.2  # of the width, per round
LEAST_WIDTH = 1e-10  # of a corner: narrower ones are lost in the rounding of margins of order 1
COARSE = 1e-3  # gap of the first rounds; with rounds ten times rougher the dual variables hardly get better
_COPIED = 300_000  # entries of X up to which signed rows are worth a copy


def inner_tolerance(gap: float, tol: float) -> float:
    """Return the gap to which a round is solved: a tenth of what it starts with, of the goal at least."""
    return max(min(gap, COARSE), tol) / 10


@dataclass(frozen=True)
class _Point:
    """A point with its multipliers and dual variables ``a``, the gradient there, and the iterations to it."""

    theta: Array
    multipliers: Array
    dual: Array
    gradient: Array
    n_iter: int


class PiecewiseProblem:
    """The rounded hinge loss of few rows, under the constraints and the penalty of a problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.weight = problem.weight
        self.signed = problem.weight * problem.y
        # Signed rows G, with m = G theta.
        n, p = problem.design.shape
        self.G = problem.design.rows(slice(None)) if n * p <= _COPIED else None
        if self.G is not None:
            self.G *= problem.y[:, None]
        self.tilt = np.zeros(len(problem.ridge)) if problem.tilt is None else problem.tilt
        free = problem.ridge <= 0
        self.price = np.where(free, 0.0, 0.5 / np.where(free, 1.0, problem.ridge))
        self.free = free.astype(float)

    def rounds(
        self, start: Start, dual: Array, width: float, gap: float, tol: float, max_iter: int, least: float = 0.0
    ) -> Solution | None:
        """Go on from a point and dual variables ``a`` until the gap, relative to the objective, is about ``tol``.

        Or until the width is below ``least``. Returns None where that takes more than ``max_iter`` iterations or
        there is no progress.
        """
        theta = start.theta
        multipliers = np.zeros(self.problem.n_rows) if start.multipliers is None else start.multipliers
        margins, n_iter = self._margins(theta), 0
        value = self._values(theta, margins, dual)[0]
        while True:
            unit = self.problem.gap_unit(value)
            inner = inner_tolerance(gap, tol) * unit
            flat = objective_rounding(unit)
            end = self._minimise(theta, multipliers, margins, dual, width, inner, flat, max_iter - n_iter)
            if end is None:
                return None
            theta, multipliers, dual = end.theta, end.multipliers, end.dual
            n_iter += end.n_iter
            margins = self._margins(theta)
            value, terms = self._values(theta, margins, dual)
            gap = (value - terms + self._charge(end.gradient, theta, multipliers)) / unit
            width *= SHRINK
            if gap <= tol or width < least:
                certificate = Certificate(value, value - gap * unit, gap, 0.0, n_iter)
                return Solution(theta, multipliers, self.problem.y * margins, dual * self.weight, certificate)
            if n_iter >= max_iter or width < LEAST_WIDTH:
                return None

    def _margins(self, theta: Array) -> Array:
        return self.problem.y * self.problem.design.matvec(theta) if self.G is None else self.G @ theta

    def _gradient(self, theta: Array, slope: Array) -> Array:
        if self.G is None:
            pull = self.problem.design.rmatvec(self.signed * slope)
        else:
            pull = (self.weight * slope) @ self.G
        return self.problem.ridge * theta + self.tilt - pull

    def _values(self, theta: Array, margins: Array, dual: Array) -> tuple[float, float]:
        """Return the objective, and what of the dual bound is known without the gradient."""
        value = float(self.weight @ np.maximum(1.0 - margins, 0.0)) + self.problem.penalty(theta)
        # sum c a + c a m - 1/2 theta' rho theta is the bound but for what _charge takes off.
        terms = float((self.weight * dual) @ (1.0 - margins)) + self.problem.penalty(theta)
        return value, terms

    def _charge(self, gradient: Array, theta: Array, multipliers: Array) -> float:
        """Return what the gradient and the multipliers take off the dual bound (the intercept's part about)."""
        rows = self.problem.rows
        r = gradient + rows.T @ multipliers
        gap = support(self.problem.lower, self.problem.upper, multipliers) - float(multipliers @ (rows @ theta))
        return gap + float((r * r) @ self.price) + float(np.abs(r) @ self.free)

    def _minimise(
        self,
        theta: Array,
        multipliers: Array,
        margins: Array,
        a: Array,
        width: float,
        tol: float,
        flat: float,
        max_iter: int,
    ) -> _Point | None:
        """Minimise the envelope around ``a`` by Newton's method to a gap of ``tol``; None where that fails.

        A slope within ``flat`` of zero is rounding. The step is taken in full then: it returns to bounds that the
        point misses by rounding, which may lead uphill by as little.
        """
        problem = self.problem
        feasible = problem.is_feasible(theta)
        damping, stuck = LEAST_SHIFT, 0
        for n_iter in range(max_iter + 1):
            u = a + (1.0 - margins) / width
            slope = np.minimum(np.maximum(u, 0.0), 1.0)
            gradient = self._gradient(theta, slope)
            if feasible and self._charge(gradient, theta, multipliers) <= tol:
                return _Point(theta, multipliers, slope, gradient, n_iter)
            if n_iter == max_iter or stuck >= PATIENCE:
                break
            bent = ((u > 0.0) & (u < 1.0)).nonzero()[0]
            hessian = self._gram(bent, width)
            hessian.flat[:: len(theta) + 1] += problem.ridge  # the diagonal
            step, multipliers = constrained_step(problem, theta, gradient, Factor(hessian, damping))
            change = self._margins(step)
            start = float(gradient @ step)
            is_flat = abs(start) <= flat
            length = 1.0 if is_flat or not feasible else self._length(theta, step, u, change, width, start)
            stuck = stuck + 1 if is_flat or length <= 0.0 else 0
            damping = damping * DAMPING if length <= 0.0 else max(damping / DAMPING, LEAST_SHIFT)
            theta = theta + length * step
            margins = margins + length * change
            feasible = feasible or length >= 1.0
        return None

    def _gram(self, bent: NDArray[np.intp], width: float) -> Array:
        """Return ``Xa' diag(c / h) Xa`` over some rows."""
        if self.G is None:
            return self.problem.design.sandwich(self.weight / width, bent)
        part = self.G[bent] * np.sqrt(self.weight[bent] / width)[:, None]
        return part.T @ part

    def _length(self, theta: Array, step: Array, u: Array, change: Array, width: float, start: float) -> float:
        """Return how far to go: all the way if that is still downhill, else to where the slope is nearly gone."""
        base = float((self.problem.ridge * theta + self.tilt) @ step)
        curve = float(self.problem.ridge @ (step * step))
        lever, move = self.weight * change, change / width

        def derivative(t: float) -> float:
            return base + t * curve - float(lever @ np.minimum(np.maximum(u - t * move, 0.0), 1.0))

        if start >= 0:
            return 0.0
        end = derivative(1.0)
        return 1.0 if end <= 0 else find_flat(derivative, start, 0.0, start, 1.0, end)
