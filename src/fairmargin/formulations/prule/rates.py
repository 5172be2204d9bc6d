"""Rates made smooth: a further family of candidates, by sequential convex programming.

A rate counts decisions ``1{f(x_i) >= 0}``. Replaced by ``sigma(k f(x_i))``, with sigma the logistic function, it is
smooth in the coefficients, and nearly the rate itself where ``k`` is large. Around a classifier the gap between the
smoothed rates of a group and of the rest is linear: a covariance in which the people near the boundary count. The
convex problem of least loss with all gaps brought part of the way to what the rule allows gives the next classifier,
from the unconstrained one on, while ``k`` grows. Unlike a price per gap, that closes the gaps of several conditions
at once: with equal odds on Adult (a difference of .016) it finds 83.9% accuracy, prices and covariances 83.1%.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fairmargin.formulations.prule.families import Candidate
from fairmargin.formulations.task import Task
from fairmargin.problem import Problem, Solution
from fairmargin.solvers import Start

__all__ = ["Allowed", "SmoothedRates"]

Array = NDArray[np.float64]
Allowed = Callable[[Array, Array], Array]  # the gaps that a rule allows, given the rates of groups and of the rest

# Sharpness k of each problem, in units of one over the spread of the scores. Blunter ones stop short of the rates,
# sharper ones see too few people near the boundary.
_SHARPNESS = np.geomspace(5.0, 20.0, 8)
_LEFT = 0.6  # share of a gap that a step leaves: the linear model holds near the classifier it was made at
_AIM = 0.5  # share of what the rule allows that the gaps are brought to: room for the cut


class SmoothedRates:
    """Classifiers of least loss whose smoothed rates approach what a rule allows."""

    name = "rates"

    def __init__(self, task: Task, free: Solution) -> None:
        self.task, self.free = task, free
        columns, weight = task.sensitive.columns(), task.data.people_weight
        refused = [condition.sign < 0 for condition in task.columns.conditions]
        self._sign = np.repeat(np.array(refused), columns.shape[1], axis=0).T  # whose refusal is counted, (N, J K)
        counted = [np.where(c.counts, weight, 0.0)[:, None] for c in task.columns.conditions]
        self._inside = np.hstack([_shares(w * columns) for w in counted])
        self._rest = np.hstack([_shares(w * (1.0 - columns)) for w in counted])
        both = (self._inside.sum(axis=0) > 0) & (self._rest.sum(axis=0) > 0)
        signs = np.where(self._sign, -1.0, 1.0)
        self._gap = np.where(both, (self._inside - self._rest) * signs, 0.0)

    def steps(self, allowed: Allowed, trust: Array | float = 1.0) -> Iterator[Candidate]:
        """Yield the candidates one after the other, each made around the one before.

        ``trust`` is the share of each gap that counts.
        """
        solution = self.free
        spread = float(np.std(solution.scores))
        for sharpness in _SHARPNESS / spread if spread > 0 else ():
            candidate = self._next(solution, float(sharpness), allowed, trust)
            if candidate.is_infeasible:
                return
            yield candidate
            solution = candidate.solution

    def _next(self, around: Solution, sharpness: float, allowed: Allowed, trust: Array | float) -> Candidate:
        smooth = expit(sharpness * around.scores.astype(float))
        design = self.task.problem.design
        slope = sharpness * smooth * (1.0 - smooth)
        rows = np.ascontiguousarray(design.rmatvec(self._gap * slope[:, None]).T, dtype=float)
        events = np.where(self._sign, 1.0 - smooth[:, None], smooth[:, None])
        rate, rest = np.sum(self._inside * events, axis=0), np.sum(self._rest * events, axis=0)
        gap = np.where(np.any(self._gap != 0, axis=0), rate - rest, 0.0)
        aim = _AIM * allowed(rate, rest) / np.maximum(trust, np.finfo(float).tiny)
        reach = np.where(np.asarray(trust) > 0, np.maximum(_LEFT * np.abs(gap), aim), np.inf)
        offset = gap - rows @ around.theta

        def pose(base: Problem) -> Problem:
            return base.with_rows(rows, -reach - offset, reach - offset)

        solution = self.task.solve(pose(self.task.problem), Start(around.theta, None, around.hessian))
        return Candidate(self.name, sharpness, pose, solution)


def _shares(weight: Array) -> Array:
    """Return the share of each person in the total weight of a column; zero where that is zero."""
    size = weight.sum(axis=0)
    return np.divide(weight, size, out=np.zeros_like(weight), where=size > 0)
