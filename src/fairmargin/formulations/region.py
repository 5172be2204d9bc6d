"""Classifiers that satisfy what is asked besides: rows of A within bounds, promises to people, a bounded penalty.

Of thousands of promises only a few dozen can bind; they are found by *row generation*: solve with some, look at
everybody, add those whose promise is broken, until nobody's is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.formulations.promises import Held, Promises
from fairmargin.problem import ROUNDING_ROOM, Problem, Solution
from fairmargin.solvers import Accuracy, Start, solve
from fairmargin.solvers.cone_program import ConeProgram, solve_program
from fairmargin.tolerances import HAIR, MOST_ROUNDS, RIM, ROUGH

__all__ = ["LeastFactor", "Region", "Search", "few", "least_factor"]

Array = NDArray[np.float64]

_MOST_COUNTED = 200  # coefficients that count for how many promises are looked at: they are rows of a dense matrix
_ADDED = 4  # broken promises taken in a round, for each coefficient
_STIFFEST = 20.0  # logarithm of the largest factor for the penalty


class Region:
    """Solves problems under further rows of A, promises and a ball.

    Parameters
    ----------
    rows : (M, p), lower, upper : (M,)
        Rows of A besides the problem's own.
    promises : Promises, optional
    radius : float
        Largest ``||w||``.
    working : Held, optional
        The promises to look at first. They grow by every promise that a solution breaks.
    inside : (p,), optional
        A point that keeps everything, for where the ball leaves no room.
    """

    def __init__(
        self,
        rows: Array,
        lower: Array,
        upper: Array,
        promises: Promises | None = None,
        radius: float = np.inf,
        working: Held | None = None,
        inside: Array | None = None,
    ) -> None:
        self.rows, self.lower, self.upper = rows, lower, upper
        self.promises, self.radius, self.inside = promises, radius, inside
        none = Held(np.empty(0, dtype=np.int64), np.empty((0, rows.shape[1])), np.empty(0))
        self.working = none if working is None else working

    @classmethod
    def of_promises(
        cls, promises: Promises | None, radius: float, p: int, working: Held | None, inside: Array | None = None
    ) -> Region:
        """Return a region without further rows."""
        return cls(np.empty((0, p)), np.empty(0), np.empty(0), promises, radius, working, inside)

    def written(self, problem: Problem) -> Problem:
        """Return a problem with the rows of the region, and of the promises looked at so far, after its own."""
        held = self.working
        return problem.with_rows(
            np.vstack([problem.rows, self.rows, held.rows]),
            np.concatenate([problem.lower, self.lower, held.tau]),
            np.concatenate([problem.upper, self.upper, np.full(len(held), np.inf)]),
        )

    def solve(self, problem: Problem, start: Start | None, accuracy: Accuracy) -> Solution:
        """Return the solution of a problem within the region, with the multipliers of the problem's own rows.

        Where the region leaves no room for the problem's own rows, the status is ``"infeasible"``.
        """
        search = Search(self, problem, start, accuracy)
        solution = search.solve()
        if search.failed(solution) or search.outside(solution):
            solution = replace(solution, certificate=replace(solution.certificate, status="infeasible"))
        return replace(solution, multipliers=solution.multipliers[: problem.n_rows])

    def solve_written(self, problem: Problem, start: Start | None, accuracy: Accuracy) -> tuple[Problem, Solution]:
        """Return a problem with the rows of the region, and its solution."""
        solution = Search(self, problem, start, accuracy).solve()
        return self.written(problem), solution


class Search:
    """Solutions of one problem within a region: row generation, and the penalty's factor that keeps the ball."""

    def __init__(self, region: Region, problem: Problem, start: Start | None, accuracy: Accuracy) -> None:
        self.region, self.problem, self.accuracy = region, problem, accuracy
        # Multipliers of rows that come and go are no use to a solver.
        self.start = None if start is None else replace(start, multipliers=None)

    def solve(self) -> Solution:
        """Return the solution; where rows and promises contradict each other, the point at which that showed."""
        region = self.region
        if region.promises is not None:
            region.working = region.working.joined(region.promises.foresee(region, self.problem))
        solution = self.at(1.0)
        return self.within(solution) if self.outside(solution) and not self.failed(solution) else solution

    def failed(self, solution: Solution) -> bool:
        """Whether the solver left rows broken by far more than it does where there is a solution."""
        if solution.certificate.status == "solved":
            return False
        return not self.region.written(self.problem).is_feasible(solution.theta, ROUGH / ROUNDING_ROOM)

    def among_working(self, stiffness: float = 1.0) -> Solution:
        """Return the solution under the promises looked at so far, with the penalty multiplied by ``stiffness``."""
        problem = self.region.written(self.problem)
        stiff = replace(problem, ridge=stiffness * problem.ridge)
        solution = solve(stiff, start=self.start, accuracy=self.accuracy)
        self.start = Start(solution.theta, hessian=solution.hessian)
        return solution

    def at(self, stiffness: float) -> Solution:
        """Return the solution with the penalty multiplied by ``stiffness``, its objective as if it were not."""
        region, problem = self.region, self.problem
        for _ in range(MOST_ROUNDS):
            solution = self.among_working(stiffness)
            if region.promises is None or self.failed(solution):  # further promises only ask for more
                break
            broken = region.promises.look(solution.theta, solution.scores).broken(region.working, few(problem))
            if len(broken) == 0:
                break
            region.working = region.working.joined(broken)
        if stiffness == 1.0:
            return solution
        stiff = replace(problem, ridge=stiffness * problem.ridge)
        value = solution.objective - stiff.penalty(solution.theta) + problem.penalty(solution.theta)
        # Every feasible point of the ball costs no less than the stiffened bound less the ball's largest share.
        bound = solution.certificate.dual_bound - 0.5 * (stiffness - 1.0) * region.radius**2
        gap = problem.relative_gap(value, bound)
        status = solution.certificate.status if gap <= max(self.accuracy.tol, ROUGH) else "inaccurate"
        proof = replace(solution.certificate, objective=value, dual_bound=bound, gap=gap, status=status)
        return replace(solution, certificate=proof)

    def within(self, outside: Solution) -> Solution:
        """Return the solution in the ball: a larger penalty is its Lagrangian, and its factor a root.

        ``log(||w|| / R)`` falls in the logarithm of the factor; regula falsi with the Illinois rule.
        """
        radius = self.region.radius
        if radius == 0.0:  # the unconstrained classifier is constant: only the intercept is left
            constant = np.where(self.problem.ridge > 0, 0.0, outside.theta)
            return self._known(constant if self.region.inside is None else self.region.inside)
        low, at_low = 0.0, np.log(self._length(outside) / radius)
        high = 1.0
        while self.outside(solution := self.at(float(np.exp(high)))):
            low, at_low, high = high, np.log(self._length(solution) / radius), high + 2.0
            if high > _STIFFEST:
                return solution if self.region.inside is None else self._known(self.region.inside)
        at_high = np.log(self._length(solution) / radius)
        was_outside: bool | None = None
        for _ in range(MOST_ROUNDS):
            if self.near(solution) or high - low < HAIR:
                break
            middle = (low * at_high - high * at_low) / (at_high - at_low)
            rim = RIM * (high - low)
            middle = float(np.clip(middle, low + rim, high - rim))
            here = self.at(float(np.exp(middle)))
            value, is_outside = np.log(self._length(here) / radius), self.outside(here)
            share = 0.5 if is_outside == was_outside else 1.0  # of the end that stays a second time
            if is_outside:
                low, at_low, at_high = middle, value, share * at_high
            else:
                high, at_high, at_low, solution = middle, value, share * at_low, here
            was_outside = is_outside
        return solution

    def outside(self, solution: Solution) -> bool:
        """Whether the penalty exceeds its own bound."""
        return self._length(solution) > self.region.radius * (1.0 + HAIR)

    def near(self, solution: Solution) -> bool:
        """Whether the penalty is within its bound and close to it."""
        radius = self.region.radius
        return radius * (1.0 - 10 * HAIR) <= self._length(solution) <= radius * (1.0 + HAIR)

    def _length(self, solution: Solution) -> float:
        penalised = self.problem.ridge > 0
        return float(np.sqrt(np.sum(solution.theta[penalised] ** 2)))

    def _known(self, theta: Array) -> Solution:
        """Return a known point as a solution: where ball and rows leave no room for the loss."""
        assert self.region.promises is not None
        return self.region.promises.evaluate(self.region.written(self.problem), theta, self.accuracy.tol)


@dataclass(frozen=True)
class LeastFactor:
    """The least ``t`` that promises leave room for.

    Attributes
    ----------
    factor : float
    theta : (p,)
        A point that attains it.
    working : Held
        The promises that were tight there.
    is_exact : bool
        Whether the program that found it was solved: features of very different sizes may leave it without digits.
    """

    factor: float
    theta: Array
    working: Held
    is_exact: bool

    def as_sure(self, solution: Solution) -> Solution:
        """Return a solution within the factor, which is not solved unless the factor is."""
        proof = solution.certificate
        if self.is_exact or proof.status != "solved":
            return solution
        return replace(solution, certificate=replace(proof, status="inaccurate"))


def least_factor(
    problem: Problem, free: Solution, A: Array, base: Array, unit: Array, promises: Promises, radius: float
) -> LeastFactor:
    """Return the least ``t >= 0`` with ``|A theta| <= base + t unit`` that keeps all promises in the ball."""
    some = few(problem)
    working = promises.first(3 * some)
    for _ in range(MOST_ROUNDS):
        theta, factor, error = _least_factor(problem, free.theta, (A, base, unit), working, radius)
        view = promises.look(theta)
        broken = view.broken(working, _ADDED * some)
        if len(broken) == 0:
            break
        working = working.joined(broken)
    # Few of the promises looked at on the way bind in the end; what follows starts from these.
    return LeastFactor(max(factor, 0.0), theta, view.tightest(2 * some), error <= ROUGH)


def few(problem: Problem) -> int:
    """Return how many promises are few beside the coefficients of a problem."""
    return min(problem.design.shape[1], _MOST_COUNTED)


def _least_factor(
    problem: Problem, near: Array, bounds: tuple[Array, Array, Array], held: Held, radius: float
) -> tuple[Array, float, float]:
    """Return ``theta``, the least ``t`` for ``bounds = (A, base, unit)`` and the promises held, in the ball, and how
    far they are from optimal.

    ``near`` (p,) is where to begin: the unconstrained classifier.
    """
    (A, base, unit), rows = bounds, held.rows
    basis, ball = _span(problem, np.vstack([A, rows, near]))
    A, rows, near = A @ basis, rows @ basis, near @ basis
    grows, none = unit[:, None], np.zeros((len(rows), 1))
    last = np.append(np.zeros(basis.shape[1]), 1.0)
    # base + t unit -+ A theta >= 0, t >= 0, and the promises
    G = np.vstack([np.hstack([-A, grows]), np.hstack([A, grows]), last, np.hstack([rows, none])])
    h = np.concatenate([-base, -base, [0.0], held.tau])
    x, error = solve_program(ConeProgram(last, G, h, np.append(ball, False), radius), np.append(near, 2.0))
    return basis @ x[:-1], float(x[-1]), error


def _span(problem: Problem, vectors: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return orthonormal coordinates (p, m) in which the first stage is written, and which of them are in the ball.

    What is orthogonal to all constraints changes none of them and only adds to the penalty: with fewer constraints
    than columns the optimum lies in their span, besides the coordinates without a penalty.
    """
    p = vectors.shape[1]
    in_ball = problem.ridge > 0
    if len(vectors) >= np.count_nonzero(in_ball):
        return np.eye(p), in_ball
    spanned = np.linalg.qr(vectors[:, in_ball].T)[0]
    basis = np.zeros((p, len(vectors) + p - len(spanned)))
    basis[in_ball, : len(vectors)] = spanned
    basis[~in_ball, len(vectors) :] = np.eye(p - len(spanned))
    return basis, np.arange(basis.shape[1]) < len(vectors)
