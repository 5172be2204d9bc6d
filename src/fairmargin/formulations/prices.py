"""Prices on covariances: the solutions of ``min L + sum_k p_k |cov_k|``.

An active-set method over the signs of the covariances. Where ``cov_k`` has a sign its price is linear (a tilt of the
objective); where it is zero it is held there by a constraint. A step towards the solution for the signs at hand ends
where the first covariance changes its sign: that one is held from there on. At a solution that keeps the signs, the
multipliers of the held covariances must be within their prices; where no choice of them is, the subgradient of least
norm is a direction of descent, and the covariances that it moves are let go. Every step lowers the priced objective.

The dual variables of people at a corner of the hinge loss are a choice as well. Where many are, as if everybody gets
the same score, those of a solution may fit no multipliers within the prices though others do: a linear program finds
them.

With multipliers ``|nu_k| <= p_k``, equal where ``cov_k`` is not zero, the solution is also that of the bounds
``|cov_k|``, with the same dual bound less what is paid: that is how it is certified.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, lsq_linear

from fairmargin.formulations.task import Task
from fairmargin.problem import Certificate, Solution
from fairmargin.solvers import Start
from fairmargin.tolerances import HAIR, MOST_ROUNDS, ROUGH, ROUNDING

__all__ = ["Prices"]

Array = NDArray[np.float64]


class Prices:
    """Solutions of ``min L + mu sum_k price_k |cov_k|`` for factors ``mu``, each started from the one before.

    Parameters
    ----------
    task : Task
    free : Solution
        The unconstrained solution.
    price : (K,)
        At ``mu = 1``; 0 for columns that are not charged.
    """

    def __init__(self, task: Task, free: Solution, price: Array) -> None:
        self.task, self.price = task, price
        self.theta = free.theta  # a point whose covariances have the signs
        self.sign = self._signs(free.theta)
        self.last = Start(free.theta, hessian=free.hessian)
        self._solved: dict[float, Solution] = {}

    def at(self, mu: float) -> Solution:
        """Return the solution at ``mu``, certified as the least ``L`` within the covariances that it has."""
        if mu not in self._solved:
            with np.errstate(over="ignore", invalid="ignore"):  # as while solving
                self._solved[mu] = self._search(mu * self.price)
        return self._solved[mu]

    def _search(self, price: Array) -> Solution:
        problem = self.task.problem
        seen: set[tuple[float, ...]] = set()
        best: tuple[float, Solution] | None = None
        for _ in range(MOST_ROUNDS):
            solution = self._solve_with_signs(price)
            multipliers, let_go = self._multipliers(solution, price)
            found = replace(solution, multipliers=multipliers, certificate=self._proof(solution, price))
            value = found.objective + float(price @ np.abs(problem.rows @ solution.theta))
            if best is None or value <= best[0]:
                best = value, found
            further = self._next_signs(solution, price, let_go, seen)
            if further is None:
                break
            self.sign = further
            seen.add(tuple(further))
        assert best is not None
        if not np.any(let_go):
            return best[1]
        # Not within the prices, and no way down was found.
        proved = proved_at_corners(self.task, best[1], price)
        if proved is not None:
            return proved
        return replace(best[1], certificate=replace(best[1].certificate, status="inaccurate"))

    def _solve_with_signs(self, price: Array) -> Solution:
        """Return a solution whose covariances have the signs at hand; those that changed sign are held at zero.

        Every step holds at least one more of them, so that there are at most as many as there are covariances.
        """
        solution = self._solve(price)
        while self._step_towards(solution.theta):
            self.last = Start(self.theta)  # the solution for signs that do not hold may be far away
            solution = self._solve(price)
        return solution

    def _proof(self, solution: Solution, price: Array) -> Certificate:
        """Return the certificate of ``L`` under the bounds ``|cov_k|``, without what is paid for them."""
        problem, proof = self.task.problem, solution.certificate
        paid = float((self.sign * price) @ (problem.rows @ solution.theta))
        value = proof.objective - paid
        gap = problem.relative_gap(value, proof.dual_bound - paid)
        return replace(proof, objective=value, dual_bound=proof.dual_bound - paid, gap=gap)

    def _solve(self, price: Array) -> Solution:
        """Return the solution for the signs at hand: their prices as a tilt, the other covariances held at zero."""
        problem = self.task.problem
        bound = np.where((self.price > 0) & (self.sign == 0), 0.0, np.inf)
        priced = replace(problem.with_bounds(-bound, bound), tilt=problem.rows.T @ (self.sign * price))
        solution = self.task.solve(priced, self.last)
        proof = self._proof(solution, price)
        if self.task.proof and solution.certificate.status == "solved" and proof.gap > self.task.tol:
            # A gap within tolerance of loss and price, but not of the loss alone, which the certificate is about.
            share = problem.gap_unit(proof.objective) / problem.gap_unit(solution.objective)
            closer = replace(self.task, tol=share * self.task.tol)
            solution = closer.solve(priced, Start.at(solution))
        self.last = Start(solution.theta, solution.multipliers, solution.hessian)
        return solution

    def _step_towards(self, theta: Array) -> bool:
        """Move to ``theta``, or as far towards it as the signs hold; return whether a covariance stopped it."""
        rows = self.task.problem.rows
        here, there = rows @ self.theta, rows @ theta
        crossed = (self.sign != 0) & (self.sign * there < -self.task.problem.room(theta))
        if not np.any(crossed):
            self.theta = theta
            return False
        here = np.where(self.sign * here > 0, here, 0.0)
        share = np.where(crossed, here / np.where(crossed, here - there, 1.0), np.inf)
        step = float(share.min())
        self.theta = self.theta + step * (theta - self.theta)
        self.sign = np.where(share <= step + ROUNDING, 0.0, self.sign)
        return True

    def _multipliers(self, solution: Solution, price: Array) -> tuple[Array, Array]:
        """Return multipliers within the prices that fit a solution best, and the signs of what must be let go.

        Rows of A depend on each other (the categories of an attribute add up to nothing), so that the multipliers of
        covariances at zero, held or not, are a choice: the one whose subgradient has the least norm.
        """
        rows = self.task.problem.rows
        whole = np.where(self.sign != 0, self.sign * price, np.where(price > 0, solution.multipliers, 0.0))
        let_go = np.zeros_like(whole)
        if np.all(np.abs(whole) <= price * (1 + HAIR)):
            return np.clip(whole, -price, price), let_go
        nearly = np.abs(rows @ solution.theta) <= self.task.problem.room(solution.theta)
        zero = np.flatnonzero((price > 0) & ((self.sign == 0) | nearly))
        part = np.linalg.qr(rows[zero].T, mode="r")
        room = (1 + HAIR) * price[zero]
        chosen = lsq_linear(part, part @ whole[zero], (-room, room), method="bvls", tol=ROUNDING).x
        way = rows[zero] @ (rows[zero].T @ (whole[zero] - chosen))  # of each covariance, down the subgradient
        scale = np.abs(rows[zero]) @ np.abs(rows[zero].T @ whole[zero])
        moved = (np.abs(way) > HAIR * scale) & (self.sign[zero] == 0)
        let_go[zero] = np.where(moved, np.sign(way), 0.0)
        whole[zero] = np.clip(chosen, -price[zero], price[zero])
        return whole, let_go

    def _next_signs(
        self, solution: Solution, price: Array, let_go: Array, seen: set[tuple[float, ...]]
    ) -> Array | None:
        """Return signs not tried yet, with all that must be let go or, beside other constraints, one of them."""
        if not np.any(let_go):
            return None
        held = np.where((price > 0) & (self.sign == 0), solution.multipliers, 0.0)
        excess = np.abs(held) > price * (1 + HAIR)
        alone = [np.where(np.arange(len(held)) == k, np.sign(held), 0.0) for k in np.flatnonzero(excess)]
        return next((s for s in (self.sign + way for way in (let_go, *alone)) if tuple(s) not in seen), None)

    def _signs(self, theta: Array) -> Array:
        rows = self.task.problem.rows
        covariance = rows @ theta
        seen = np.abs(covariance) > HAIR * (np.abs(rows) @ np.abs(theta))
        return np.where((self.price > 0) & seen, np.sign(covariance), 0.0)


def proved_at_corners(task: Task, solution: Solution, price: Array) -> Solution | None:
    """Return a solution of the hinge problem with dual variables that prove it at ``price``; None if there are none.

    With ``a_i`` at its end for people off the corner and ``nu_k`` for covariances that are not zero, the others are
    to make ``rho theta - Xa'(a y) + A' nu`` zero. Its size, in units in which columns are alike, is minimised with
    what is lost where people are beside the corner, or covariances beside zero.
    """
    problem, theta, scores = task.problem, solution.theta, solution.scores
    if problem.loss.smooth or not len(scores):
        return None
    short = 1.0 - problem.y * scores
    at_corner = np.flatnonzero(np.abs(short) <= ROUGH)  # what a choice for people beside it costs is in the proof
    covariance = problem.rows @ theta
    is_zero = np.abs(covariance) <= ROUGH * (np.abs(problem.rows) @ (np.abs(theta) + 1.0 / problem.design.scale))
    free = np.flatnonzero((price > 0) & is_zero)
    alpha = np.where(short > ROUGH, problem.weight, 0.0)
    nu = np.where(is_zero, 0.0, np.sign(covariance) * price)
    left = problem.ridge * theta - problem.design.rmatvec(alpha * problem.y) + problem.rows.T @ nu
    pushed = problem.design.rows(at_corner).T * -problem.y[at_corner]
    unit = 1.0 / problem.design.scale
    some = np.eye(len(theta))
    found = linprog(
        np.concatenate([-short[at_corner], -covariance[free], np.ones(2 * len(theta))]),
        A_eq=np.hstack([unit[:, None] * pushed, unit[:, None] * problem.rows[free].T, some, -some]),
        b_eq=-unit * left,
        bounds=[
            *((0.0, c) for c in problem.weight[at_corner]),
            *((-p, p) for p in price[free]),
            *[(0.0, None)] * (2 * len(theta)),
        ],
        method="highs",
    )
    if found.status != 0:
        return None
    n_corner = len(at_corner)  # HiGHS keeps bounds up to a tolerance of its own
    alpha[at_corner] = np.clip(found.x[:n_corner], 0.0, problem.weight[at_corner])
    nu[free] = np.clip(found.x[n_corner : n_corner + len(free)], -price[free], price[free])
    bound = np.where(price > 0, np.abs(covariance), np.inf)
    sums = problem.dual_sums(scores, alpha)
    n_iter = solution.certificate.n_iter
    proof = problem.with_bounds(-bound, bound).certify(theta, nu, scores, sums, tol=task.tol, n_iter=n_iter)
    if proof.status != "solved":
        return None
    return replace(solution, multipliers=nu, alpha=problem.balanced(alpha, nu, sums), certificate=proof)
