"""Covariances of errors, by the convex-concave procedure: a further family of candidates.

Zafar, Valera, Gomez Rodriguez, Gummadi, *Fairness Beyond Disparate Treatment & Disparate Impact* (WWW 2017) bound the
covariance of ``z`` and ``g_i = min(0, y_i f(x_i))`` among the people who count: how far wrong decisions are on the
wrong side. That is a difference of convex functions of the coefficients. Around a classifier, ``g_i`` is
``y_i f(x_i)`` for the people whom it decides wrongly and 0 for the others, which makes the covariance linear; the
convex problem under it gives the next classifier, from the unconstrained one on. (The procedure replaces the concave
part only; here both are replaced, so that each problem is one of this package and carries its certificate. A
classifier that reproduces itself is stationary for either.) Margins are not rates: candidates are judged on their
decisions, as all others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.formulations.prule.families import Candidate
from fairmargin.formulations.task import Task, covariance_rows
from fairmargin.problem import Problem, Solution
from fairmargin.solvers import Start

__all__ = ["ErrorCovarianceFamily"]

Array = NDArray[np.float64]

_ROUNDS = 10  # of replacing the constraint by a linear one; on COMPAS six leave fewer than 0.1% to change
_SETTLED = 1e-3  # share of the people decided wrongly in one round and not in the next, below which it has settled


class ErrorCovarianceFamily:
    """Classifiers with ``t`` times the unconstrained classifier's covariances of errors."""

    name = "ccp"

    def __init__(self, task: Task, free: Solution) -> None:
        self.task, self.free = task, free
        conditions = task.columns.conditions
        signs = np.repeat([c.sign for c in conditions], len(task.sensitive.labels), axis=0).T
        self._off = task.centred * signs * task.data.y[:, None]  # (z - zbar) y among the people who count
        self._near = (1.0, free)
        self.reach = self._rows(free.scores) @ free.theta

    def _rows(self, scores: Array) -> Array:
        """Return the covariances of errors around a classifier as rows of coefficients, (K, p)."""
        wrong = self.task.data.y * scores < 0
        return covariance_rows(
            self.task.problem.design, np.where(wrong[:, None], self._off, 0.0), self.task.data.people_weight
        ).astype(float)

    def at(self, t: float) -> Candidate:
        """Return the candidate at ``t``, from the one that was last solved."""
        _, solution = self._near
        bound = t * self.reach
        for _ in range(_ROUNDS):
            before = self.task.data.y * solution.scores < 0
            rows = self._rows(solution.scores)

            def pose(base: Problem, rows: Array = rows) -> Problem:
                return base.with_rows(rows, bound, bound)

            solution = self.task.solve(pose(self.task.problem), Start(solution.theta, None, solution.hessian))
            if solution.certificate.status == "infeasible":  # beside other constraints: no start for other points
                return Candidate(self.name, t, pose, solution)
            if np.mean(before != (self.task.data.y * solution.scores < 0)) < _SETTLED:
                break
        self._near = (t, solution)
        return Candidate(self.name, t, pose, solution)
