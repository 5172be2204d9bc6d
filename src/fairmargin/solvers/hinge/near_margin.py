"""The rows near the margin, on which the last rounds of the method of multipliers work.

The loss of every other row is a straight line as long as that row does not cross the margin; together they are a
linear term. Whether somebody crossed shows in the certificate on all rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.problem import Problem

__all__ = ["find_crossed", "find_near", "reach_of_warm_start", "restrict"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# From a start with good dual variables the nearest rows are enough: this share of all, and several times as many as
# there are columns, of which about so many sit on the margin itself. Found on Adult and Bank; a bad guess costs a
# round.
_WARM_SHARE, _WARM_PER_COLUMN = 0.06, 4.0
_WARM_REACH = 1e-3, 0.08


def find_near(margins: Array, reach: float, least: int, joined: Index) -> Index:
    """Return the rows within ``reach`` of the margin, at least ``least`` of them, and those who ``joined`` them."""
    distance = np.abs(1.0 - margins)
    if least < len(distance):
        reach = max(reach, float(np.partition(distance, least)[least]))
    near = distance <= reach
    near[joined] = True
    return np.flatnonzero(near)


def find_crossed(before: Array, after: Array, near: Index) -> Index:
    """Return the rows that were not near the margin and are on its other side now."""
    crossed = (before < 1.0) != (after < 1.0)
    crossed[near] = False
    return np.flatnonzero(crossed)


def reach_of_warm_start(problem: Problem, margins: Array) -> float:
    """Return how near to the margin rows are looked at from a start with good dual variables."""
    n, p = problem.design.shape
    share = min(1.0, max(_WARM_SHARE, _WARM_PER_COLUMN * p / n))
    return float(np.clip(np.quantile(np.abs(1.0 - margins), share), *_WARM_REACH))


def restrict(problem: Problem, near: Index, margins: Array) -> Problem:
    """Return the problem of the rows ``near`` the margin, the others' losses taken as straight lines."""
    inside = margins < 1.0
    inside[near] = False
    pushed = np.where(inside, problem.weight, 0.0)
    tilt = -problem.design.rmatvec(pushed * problem.y)
    return replace(
        problem,
        design=problem.design.take(near),
        y=problem.y[near],
        weight=problem.weight[near],
        tilt=tilt if problem.tilt is None else tilt + problem.tilt,
        offset=problem.offset + float(pushed.sum()),
    )
