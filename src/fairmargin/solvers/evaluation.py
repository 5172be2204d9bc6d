"""What Newton's method needs to know at a point: losses and derivatives (pointwise) and the gradient (one pass)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.problem import DualSums, Problem

__all__ = ["Point", "add_gradient", "centre_intercept", "evaluate", "objective_rounding"]

Array = NDArray[np.float64]

# Rows that pointwise work is done on at a time: temporary arrays of less than 128 KB stay in the cache, and the C
# library gives their memory back to the next ones rather than to the system.
_BLOCK = 12_000
_CLOSE = 1e-2  # of the goal, or of the unit that margins have


@dataclass
class Point:
    """A point with everything evaluated there.

    Attributes
    ----------
    theta : (p,)
    scores, signed, curvature : (N,)
        ``Xa theta``, ``-c_i l'(m_i) y_i`` (dual variables with the sign of the label) and ``l''(m_i)``.
    loss, objective : float
        ``sum_i c_i l(m_i)``, and ``L``: that and the penalty.
    n_curved : int
        Rows with ``l'' > 0``.
    gradient : (p,)
        Of ``L``; empty until :func:`add_gradient`.
    dual : DualSums or None
        The sums that a dual bound needs, if they were asked for.
    """

    theta: Array
    scores: Array
    signed: Array
    curvature: Array
    loss: float
    objective: float
    n_curved: int
    gradient: Array = field(default_factory=lambda: np.empty(0))
    dual: DualSums | None = None

    @property
    def is_curved(self) -> bool:
        """Whether every row has ``l'' > 0``."""
        return self.n_curved == len(self.scores)

    @property
    def rounding(self) -> float:
        """What rounding may do to the objective, a sum in the precision of the scores."""
        return objective_rounding(self.objective, self.scores.dtype)


def objective_rounding(objective: float, precision: Any = float) -> float:
    """Return what rounding may do to an objective, a sum over all rows in a precision."""
    return 50.0 * float(np.finfo(precision).eps) * abs(objective)


def evaluate(problem: Problem, theta: Array, scores: Array) -> Point:
    """Return the point without its gradient: no pass over the data."""
    n = len(scores)
    signed, curvature, total = np.empty_like(scores), np.empty_like(scores), 0.0
    for start in range(0, n, _BLOCK):
        block = slice(start, start + _BLOCK)
        margins = problem.y[block] * scores[block]
        value, slope, curvature[block] = problem.loss.of(block).derivatives(margins)
        np.multiply(slope, problem.lever[block], out=signed[block])
        total += float(problem.weight[block] @ value)
    n_curved = n if curvature.min() > 0 else int(np.count_nonzero(curvature))
    return Point(theta, scores, signed, curvature, total, total + problem.penalty(theta), n_curved)


def add_gradient(problem: Problem, point: Point, with_dual: bool) -> Point:
    """Add the gradient and, ``with_dual``, the sums behind a dual bound: one pass over the data."""
    pull = problem.design.rmatvec(point.signed)
    point.gradient = problem.penalty_gradient(point.theta) - pull
    if with_dual:
        # Fenchel's equality: -c l*(-a) = c l(m) + alpha m at a = -l'(m).
        terms = point.loss + float(point.signed @ point.scores)
        point.dual = problem.sum_up(terms, point.signed, point.scores, pull)
    return point


def centre_intercept(problem: Problem, point: Point, goal: float) -> Point:
    """Return the point with one Newton step of the intercept alone: no pass over the data.

    The dual bound loses about what is left of the intercept's gradient, and is quadratic in all others: nothing is
    done where that is well below the ``goal`` for the gap.
    """
    if not problem.design.fit_intercept or problem.ridge[-1] > 0 or np.any(problem.rows[:, -1]):
        return point
    tilt = 0.0 if problem.tilt is None else float(problem.tilt[-1])
    slope, curve = tilt - float(point.signed.sum()), float(problem.weight @ point.curvature)
    if abs(slope) <= _CLOSE * goal or not abs(slope) < _CLOSE * curve:  # close enough, or not close at all
        return point
    theta = point.theta.copy()
    theta[-1] -= slope / curve
    moved = evaluate(problem, theta, point.scores - slope / curve)
    return moved if abs(tilt - float(moved.signed.sum())) < abs(slope) else point
