"""How far to go along a Newton step.

``phi(t) = L(theta + t step)`` is convex, and its slope at any t takes the scores alone: no pass over the data. A
full step is taken if ``L`` does not grow and the slope is mostly gone there. Otherwise the minimum of ``phi`` is
found roughly: before 1 where the step went too far, beyond 1 (as far as the constraints allow) where it was far too
short, as it is where the loss is straight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.problem import Problem
from fairmargin.solvers.evaluation import Point, evaluate
from fairmargin.solvers.quadratic_step import find_flat
from fairmargin.tolerances import ROUNDING

__all__ = ["search_line"]

Array = NDArray[np.float64]

_FLAT = 0.5  # share of the first slope that may be left, uphill or downhill, at the end of a full step
_LONGEST = 1e6  # times a step that nothing limits


def search_line(problem: Problem, point: Point, step: Array, is_feasible: bool) -> Point | None:
    """Return the next point without its gradient; None where the step does not lead downhill.

    From a point that is not feasible the full step, which ends within the constraints, is taken as it is.
    """
    change = problem.design.matvec(step)
    full = evaluate(problem, point.theta + step, point.scores + change)
    slope = float(point.gradient @ step)
    if not is_feasible or abs(slope) <= point.rounding:
        return full
    if slope > 0:  # uphill only to give back what the point takes, within rounding, beyond its bounds
        return full if problem.violation(full.theta) < problem.violation(point.theta) else None
    end = float(problem.penalty_gradient(full.theta) @ step) - float(full.signed @ change)
    if full.objective <= point.objective + point.rounding and abs(end) <= _FLAT * abs(slope):
        return full
    longest = _room(problem, point.theta, step) if end < 0 else 1.0
    if end < 0 and longest == 1.0:
        return full
    length = _minimise(problem, point, step, change, end, longest)
    if length == 0.0:
        return None
    return evaluate(problem, point.theta + length * step, point.scores + length * change)


def _room(problem: Problem, theta: Array, step: Array) -> float:
    """Return how many times the step may be taken, at least once, without leaving the constraints."""
    value, change = problem.rows @ theta, problem.rows @ step
    change = np.where(problem.lower == problem.upper, 0.0, change)
    ahead = np.where(change > 0, problem.upper - value, value - problem.lower)
    # A row that is at its bound already and moves by rounding only is no obstacle; the next step corrects it.
    moving = np.abs(change) > ROUNDING * (np.abs(problem.rows) @ (np.abs(theta) + np.abs(step)))
    return float(np.clip(np.min(ahead[moving] / np.abs(change[moving]), initial=_LONGEST), 1.0, _LONGEST))


def _minimise(problem: Problem, point: Point, step: Array, change: Array, end: float, longest: float) -> float:
    """Return nearly the minimiser of ``phi`` on (0, longest], by its slope, which is ``end`` at 1."""
    curve = float(problem.ridge @ (step * step))
    base = float(problem.penalty_gradient(point.theta) @ step)
    margins, move = problem.y * point.scores, problem.y * change
    lever = problem.weight * move

    def slope(t: float) -> float:
        return float(lever @ problem.loss.derivative(margins + t * move)) + base + t * curve

    low, high = 0.0, 1.0
    at_low = first = float(point.gradient @ step)
    at_high = end
    while at_high <= 0:
        if high >= longest:
            return high
        low, at_low = high, at_high
        high = min(2.0 * high, longest)
        at_high = slope(high)
    return find_flat(slope, first, low, at_low, high, at_high)
