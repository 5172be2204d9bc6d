"""Families of candidate classifiers for a p%-rule, each the solution of a convex problem.

The *covariance path* ``min L s.t. cov = t cov*`` runs from the unconstrained classifier (``t = 1``) through zero
covariance to the other sign.

The *decision path* charges for the gap between the rates of groups. With
``a_ik = (z_ik - p_k) / (p_k (1 - p_k))`` the gap in selection rates, of group k against the rest, is the mean of
``a_ik`` over the accepted. In terms of prices ``u_k``, which have one scale for large and small groups, the costs are
``c_i = y_i - 2 sum_k u_k (z_ik - p_k)``, and the classifier solves the weighted problem
``min sum_i |c_i| loss(sign(c_i) f(x_i)) + penalty``. Under another notion of fairness there is a price for every
group and condition; ``z_ik - p_k`` is taken among the people who count, is zero for the others, and changes its sign
where refusals are counted (:attr:`fairmargin.notions.Compared.deviations`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairmargin.formulations.covariance import Path
from fairmargin.formulations.task import Task
from fairmargin.notions import Condition
from fairmargin.problem import Problem, Solution
from fairmargin.solvers import Start
from fairmargin.tolerances import NEAR

__all__ = ["Candidate", "CovarianceFamily", "DecisionFamily", "Family", "Prices", "unconstrained_candidate"]

Array = NDArray[np.float64]
Pose = Callable[[Problem], Problem]  # from data, loss and penalty to the convex problem of a candidate


@dataclass(frozen=True)
class Candidate:
    """A classifier of a family.

    Attributes
    ----------
    path : str
        Name of the family.
    point : float, (K,) or None
        Where on the family it is: a number, or the prices.
    pose : callable
        Writes down the candidate's convex problem, given data, loss and penalty.
    solution : Solution
        Of that problem, as accurate as the task asked for.
    """

    path: str
    point: Any
    pose: Pose
    solution: Solution

    @property
    def is_solved(self) -> bool:
        """Whether the problem has a solution near this one: covariances of errors may not reach the other sign.

        One that ran out of iterations may be used: decisions are counted, not proved, and its status is kept, so
        that ``fit`` warns. Leaving it out would say that no classifier keeps the rule where only iterations lacked.
        """
        proof = self.solution.certificate
        return not self.is_infeasible and (proof.status != "inaccurate" or proof.gap <= NEAR)

    @property
    def is_infeasible(self) -> bool:
        """Whether other constraints leave no classifier here."""
        return self.solution.certificate.status == "infeasible"

    def solved(self, task: Task) -> Candidate:
        """Return the candidate solved with the loss and to the tolerance of ``task``, its scores computed anew.

        A rule is judged in the end on scores formed as a prediction forms them, so that rounding tips none over zero.
        """
        problem, known = self.pose(task.problem), self.solution
        multipliers = known.multipliers if problem.n_rows else None
        alpha = np.clip(known.alpha.astype(float), 0.0, problem.weight)
        exact = task.solve(problem, Start(known.theta, multipliers, known.hessian, alpha))
        scores = task.problem.design.matvec(exact.theta)
        multipliers = exact.multipliers if problem.n_rows else known.multipliers
        return replace(self, solution=replace(exact, scores=scores, multipliers=multipliers))


class Family(Protocol):
    """Candidates that depend on one number."""

    def at(self, t: float) -> Candidate:
        """Return the candidate at ``t``."""


def unconstrained_candidate(free: Solution) -> Candidate:
    """Return the unconstrained classifier, which belongs to every family, as a candidate."""
    return Candidate("unconstrained", None, Problem.unconstrained, free)


class CovarianceFamily:
    """The covariance path, by its factor ``t``."""

    name = "covariance"

    def __init__(self, task: Task, free: Solution) -> None:
        self._path = Path(task, free, task.problem.rows @ free.theta, signed=True)

    def at(self, t: float) -> Candidate:
        """Return the candidate with ``t`` times the unconstrained covariances."""
        return Candidate(self.name, t, lambda base: self._path.pose(base, t), self._path.at(t))


class DecisionFamily:
    """The decision path, for a vector of prices with one entry per sensitive column and condition."""

    name = "decisions"

    def __init__(self, task: Task, free: Solution) -> None:
        self.task, self.free = task, free
        self.compared = task.columns
        self.weight = task.data.people_weight / task.data.people_weight.sum()
        self.n_prices = len(self.compared.labels)
        self._prices = np.zeros((1, self.n_prices))
        self._solved = [(free.theta, free.hessian)]

    def within(self, tol: float) -> DecisionFamily:
        """Return the same family, solved to another tolerance from what is known."""
        closer = DecisionFamily(replace(self.task, tol=tol), self.free)
        closer._prices, closer._solved = self._prices, list(self._solved)
        return closer

    def costs(self, prices: Array) -> Array:
        """Return ``c_i = y_i - 2 sum_k u_k (z_ik - p_k)``, the worth of accepting person i at ``prices``, (N,)."""
        return self.task.data.y - 2.0 * (self.compared.deviations @ prices)

    def priced(self, prices: Array) -> Candidate:
        """Return the candidate for ``prices``."""
        cost = self.costs(prices)

        def pose(base: Problem) -> Problem:
            kind = base.weight.dtype
            size = np.maximum(np.abs(cost), np.finfo(kind).eps).astype(kind, copy=False)
            y = np.copysign(1.0, cost).astype(kind, copy=False)
            return replace(base.unconstrained(), y=y, weight=base.weight * size)

        solution = self.task.solve(pose(self.task.problem), self._start(prices))
        self._prices = np.vstack([self._prices, prices])
        self._solved.append((solution.theta, solution.hessian))
        solution = replace(solution, multipliers=np.zeros(self.task.problem.n_rows))
        return Candidate(self.name, prices, pose, solution)

    def one_price(self) -> Prices:
        """Return the candidates by the price of the only gap, positive where it closes that gap."""
        rate, rest = self.rates(self.free.scores)
        return Prices(self, np.where(rate < rest, -1.0, 1.0))

    def _start(self, prices: Array) -> Start:
        """Start at the solution of the nearest prices; for a single price, on the line through the nearest two."""
        nearest = np.argsort(np.abs(self._prices - prices).max(axis=1), kind="stable")[:2]
        theta, hessian = self._solved[nearest[0]]
        if len(nearest) == 2 and len(prices) == 1:
            here, there = self._prices[nearest, 0]
            if here != there:
                share = float(np.clip((prices[0] - here) / (there - here), -2.0, 2.0))
                theta = theta + share * (self._solved[nearest[1]][0] - theta)
        return Start(theta, hessian=hessian)

    def rates(self, scores: Array) -> tuple[Array, Array]:
        """Return the rate of each group and of the rest, by column and condition; both are 0 where one has nobody."""
        accepted = scores >= 0
        pairs = zip(self.compared.conditions, self._sizes, strict=True)
        found = [self._rates(condition, *sizes, accepted) for condition, sizes in pairs]
        return np.concatenate([rate for rate, _ in found]), np.concatenate([rest for _, rest in found])

    def _rates(
        self, condition: Condition, counted: Array, size: Array, others: Array, accepted: NDArray[np.bool_]
    ) -> tuple[Array, Array]:
        events = counted * condition.events(accepted)
        inside, both = events @ self._columns, (size > 0) & (others > 0)
        rate = np.divide(inside, size, out=np.zeros_like(size), where=both)
        return rate, np.divide(events.sum() - inside, others, out=np.zeros_like(size), where=both)

    @cached_property
    def _sizes(self) -> list[tuple[Array, Array, Array]]:
        """For every condition the weights of the people who count, (N,), and those of the groups and of the rest."""
        counted = [np.where(condition.counts, self.weight, 0.0) for condition in self.compared.conditions]
        sizes = [weight @ self._columns for weight in counted]
        return [(weight, size, weight.sum() - size) for weight, size in zip(counted, sizes, strict=True)]

    @cached_property
    def _columns(self) -> Array:
        return self.task.sensitive.columns()


@dataclass(frozen=True)
class Prices:
    """The decision path along one direction of the prices, by its length."""

    family: DecisionFamily
    direction: Array

    def at(self, t: float) -> Candidate:
        """Return the candidate for the prices ``t * direction``."""
        return self.family.priced(t * self.direction + 0.0)  # no negative zeros
