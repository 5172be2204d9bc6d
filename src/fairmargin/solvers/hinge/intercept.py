"""Which intercept, where the hinge losses leave a choice.

As functions of the intercept the losses are piecewise linear, and their sum can be flat at its minimum: then
rounding, which differs from machine to machine, would choose. The middle of the interval is taken instead.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.problem import Problem, Solution
from fairmargin.tolerances import ROUNDING

__all__ = ["centre_flat_intercept"]

Array = NDArray[np.float64]

_NEAR = 1e-7  # shifts of the intercept within which a row may be on either side of its corner


def centre_flat_intercept(problem: Problem, solution: Solution, tol: float) -> Solution:
    """Return the solution with its intercept in the middle of the interval on which the objective is least.

    A row with ``y = +1`` has slope ``-c`` up to the shift at which its margin is 1, a row with ``y = -1`` has slope
    ``c`` from there on: the slope of the sum is the weight of the corners passed, less the positive class's weight.
    """
    if not problem.design.fit_intercept or problem.ridge[-1] > 0 or np.any(problem.rows[:, -1]):
        return solution
    corner = problem.y - solution.scores  # the shift of the intercept at which a row's margin is 1
    tilt = 0.0 if problem.tilt is None else float(problem.tilt[-1])
    first = tilt - float(problem.weight[problem.y > 0].sum())
    rounding = ROUNDING * float(problem.weight.sum())
    left, right = (first + float(problem.weight[corner <= side].sum()) for side in (-_NEAR, _NEAR))
    if left < -rounding and right > rounding:
        return solution  # the usual case: the objective rises to either side
    order = np.argsort(corner, kind="stable")
    slope = first + np.cumsum(problem.weight[order])
    flat = np.flatnonzero(np.abs(slope[:-1]) <= rounding)
    if not len(flat):
        return solution
    shift = 0.5 * float(corner[order[flat[0]]] + corner[order[flat[-1] + 1]])
    theta = solution.theta.copy()
    theta[-1] += shift
    scores = problem.design.matvec(theta)
    proof = solution.certificate
    value = problem.objective(theta, scores)
    gap = problem.relative_gap(value, proof.dual_bound)
    if gap > max(tol, proof.gap):  # beside a huge weight every slope looks flat
        return solution
    proof = replace(proof, objective=value, gap=gap)
    return replace(solution, theta=theta, scores=scores, certificate=proof)
