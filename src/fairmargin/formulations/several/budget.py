"""The cuts of a ranking that a bound on the loss allows: an interval, as the loss is convex in the intercept."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from fairmargin.problem import Problem, Solution
from fairmargin.tolerances import HAIR

__all__ = ["cuts_within"]

_CLOSE = 1e-7  # of an end of the interval, relative to the spread of the scores


def cuts_within(problem: Problem, found: Solution, budget: float) -> tuple[float, float]:
    """Return the least and the largest threshold, taken off every score, at which the objective is within a budget.

    Where none is, the least is infinite and the largest minus infinity. Ends are on the inner side.
    """
    scores = found.scores.astype(float)
    spare = budget * (1.0 + HAIR) - problem.penalty(found.theta)

    def excess(t: float) -> float:
        return float(problem.weight @ problem.loss.value(problem.y * (scores - t))) - spare

    spread = max(float(np.ptp(scores)), 1.0)
    inside = 0.0
    if excess(0.0) > 0.0:
        ends = float(scores.min()) - spread, float(scores.max()) + spread
        inside = float(minimize_scalar(excess, bounds=ends, method="bounded").x)
        if excess(inside) > 0.0:
            return np.inf, -np.inf

    def end(side: float) -> float:
        step = spread
        while excess(inside + side * step) <= 0.0:  # the loss of one class grows without end
            step *= 2.0
        root = brentq(excess, inside, inside + side * step, xtol=_CLOSE * spread)
        while excess(root) > 0.0 and root != inside:
            root = inside + (root - inside) * (1.0 - _CLOSE) if abs(root - inside) > _CLOSE * spread else inside
        return float(root)

    return end(-1.0), end(1.0)
