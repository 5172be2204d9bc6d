"""Promises to single people: the least covariance that keeps them, and then the least loss.

Every loss decreases in the margin, so ``loss_i <= u_i`` is ``m_i >= tau_i = loss^-1(u_i)``: a linear constraint per
person. Of thousands only a few dozen can bind; they are found by *row generation*: solve with some, look at
everybody, add those whose promise is broken, until nobody's is.

The first stage minimises ``t`` with ``|cov_k| <= t |cov*_k|`` (a linear program, with a ball for the penalty); its
optimum is far from unique. The second minimises the loss over what attains it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import IndividualLossBound
from fairmargin.formulations.outcome import Outcome, as_sure_as
from fairmargin.formulations.promises import Held, Promises, PromisesInMemory
from fairmargin.formulations.task import Task, solve_task
from fairmargin.formulations.ties import settle_ties
from fairmargin.problem import Problem, Solution
from fairmargin.solvers import Start
from fairmargin.solvers.cone_program import ConeProgram, solve_program
from fairmargin.tolerances import HAIR, MOST_ROUNDS, RIM, ROUGH, ROUNDING

__all__ = [
    "BINDING",
    "IndividualOutcome",
    "keep_promises",
    "make_promises",
    "penalty_radius",
    "reference_solution",
    "solve_individual_loss_bound",
]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

BINDING = 2e-7  # room below which a promise binds; share by which the second stage may exceed the least covariance
_MOST_COUNTED = 200  # coefficients that count for how many promises are looked at: they are rows of a dense matrix
_ADDED = 4  # broken promises taken in a round, for each coefficient
_STIFFEST = 20.0  # logarithm of the largest factor for the penalty


@dataclass(frozen=True)
class IndividualOutcome(Outcome):
    """What promises to people add to an outcome.

    Attributes
    ----------
    factor : float
        The least ``t`` with ``|cov_k| <= t |cov*_k|`` that the promises leave room for.
    binding : ndarray of int
        Rows of the people whose promise is kept with no room to spare.
    loss_increase : float
        ``L / L* - 1``; nan where ``L*`` is zero.
    """

    factor: float = 1.0
    binding: Index = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    loss_increase: float = 0.0
    promises: PromisesInMemory | None = field(default=None, metadata={"fitted": False})

    def broken(self, scores: Array) -> Array:
        """Return by how much each promise is broken by scores; negative where it is kept."""
        return np.empty(0) if self.promises is None else -self.promises.slack(scores)


@solve_task.register
def solve_individual_loss_bound(constraint: IndividualLossBound, task: Task) -> Outcome:
    """Return the least covariance that keeps every promise, with the least objective among those.

    A score that is kept exactly at zero may be below it after rounding. Such ties are lifted together by the
    intercept; where another promise forbids that, or there is no intercept, a hair more than zero is asked for.
    """
    data = task.data
    gamma = constraint.gammas(data.n_given)[data.kept]
    free = reference_solution(task)
    kept = constraint.kept(task.sensitive, free.scores >= 0, data.kept, data.n_given)
    if task.problem.design.fit_intercept:
        outcome = settle_ties(_solve_promises(task, free, gamma, kept, 0.0), task.tol)
        scores = outcome.solution.scores
        if np.all(scores[kept] > ROUNDING * (1.0 + float(np.abs(scores).max()))):
            return outcome
    return _solve_promises(task, free, gamma, kept, HAIR * (1.0 + float(np.abs(free.scores).max())))


def make_promises(constraint: IndividualLossBound, task: Task, free: Solution) -> tuple[PromisesInMemory, float]:
    """Return what is promised to whom, decisions by a hair more than zero, and the largest ``||w||``."""
    data = task.data
    gamma = constraint.gammas(data.n_given)[data.kept]
    kept = constraint.kept(task.sensitive, free.scores >= 0, data.kept, data.n_given)
    hair = HAIR * (1.0 + float(np.abs(free.scores).max()))
    finite = gamma[np.isfinite(gamma)]
    radius = penalty_radius(task.problem, free, float(finite.max()) if finite.size else np.inf)
    return PromisesInMemory.make(task.problem, free, gamma, kept, hair), radius


def _solve_promises(task: Task, free: Solution, gamma: Array, kept: NDArray[np.bool_], hair: float) -> Outcome:
    problem = task.problem
    promises = PromisesInMemory.make(problem, free, gamma, kept, hair)
    finite = gamma[np.isfinite(gamma)]
    radius = penalty_radius(problem, free, float(finite.max()) if finite.size else np.inf)
    solved = Bound(problem, replace(free, multipliers=np.zeros(problem.n_rows)), 1.0)
    if np.any(gamma > 0):
        solved = keep_promises(task, free, promises, radius)
    solution = solved.solution
    binding = np.unique(promises.people[promises.slack(solution.scores) <= BINDING])
    return IndividualOutcome(
        as_sure_as(solution, free),
        solved.problem,
        free,
        factor=solved.factor,
        binding=task.data.kept[binding],
        loss_increase=relative_increase(solution, free),
        promises=promises,
    )


@dataclass(frozen=True)
class Bound:
    """The least covariance under promises: what was solved, its solution, and the least factor."""

    problem: Problem
    solution: Solution
    factor: float


def keep_promises(task: Task, free: Solution, promises: Promises, radius: float) -> Bound:
    """Return the least covariance that keeps all promises, and the least loss at it.

    Parameters
    ----------
    task : Task
    free : Solution
        Without constraints; keeps all promises.
    promises : Promises
    radius : float
        Of the ball that the penalty's own bound is.
    """
    reach = np.abs(task.problem.rows @ free.theta)
    unchanged = Bound(task.problem, replace(free, multipliers=np.zeros(task.problem.n_rows)), 1.0)
    if not np.any(reach > 0):
        return unchanged
    if task.problem.design.shape[1] > _MOST_COUNTED:
        found = _without_covariance(task, free, promises, radius)
        if found is not None:
            return found
    factor, first, working = _least_covariance(task.problem, free, promises, reach, radius)
    if factor >= 1.0 - BINDING:  # the promises leave no room: nothing to gain, and nothing to pay for
        return unchanged
    problem, solution = _least_loss(task, free, promises, factor * reach, radius, first, working)
    return Bound(problem, _kept(task, problem, solution, free, promises), factor)


def relative_increase(solution: Solution, free: Solution) -> float:
    """Return ``L / L* - 1``; nan where ``L*`` is zero."""
    return solution.objective / free.objective - 1.0 if free.objective > 0 else np.nan


def reference_solution(task: Task) -> Solution:
    """Return the unconstrained classifier that promises refer to: the one that a fit without constraint returns."""
    problem = task.problem.unconstrained()
    return settle_ties(Outcome(task.solve(problem), problem), task.tol).solution


def _kept(task: Task, problem: Problem, solution: Solution, free: Solution, promises: Promises) -> Solution:
    """Return a solution that keeps every promise: where the solver left one broken, as much as that takes of
    ``free``.

    The unconstrained classifier keeps all of them, and the losses are convex: so does what lies between the two, from
    some point on. The covariances may exceed their bounds by that share, which the certificate shows.
    """
    share = promises.look(solution.theta, solution.scores).share_of_free()
    if share == 0.0:
        return solution
    between = promises.evaluate(problem, solution.theta + share * (free.theta - solution.theta), task.tol)
    theta, value, proof = between.theta, between.objective, solution.certificate
    gap = problem.relative_gap(value, proof.dual_bound)
    is_solved = proof.status == "solved" and gap <= max(proof.gap, ROUGH) and problem.is_feasible(theta)
    proof = replace(
        proof,
        objective=value,
        gap=gap,
        violation=problem.violation(theta),
        status=proof.status if is_solved or proof.status != "solved" else "inaccurate",
    )
    return replace(solution, theta=theta, scores=between.scores, certificate=proof)


def penalty_radius(problem: Problem, free: Solution, gamma: float) -> float:
    """Return the largest ``||w||`` that the penalty's own bound allows."""
    if np.isinf(gamma) or not np.any(problem.ridge > 0):
        return np.inf
    return float(np.sqrt((1.0 + gamma) * np.sum(free.theta[problem.ridge > 0] ** 2)))


def _without_covariance(task: Task, free: Solution, promises: Promises, radius: float) -> Bound | None:
    """Return the least loss at no covariance where few promises bind, or None where that was not found.

    Wide data have room for that, and the first stage, which knows no loss, would look at far more promises. More rows
    than there are columns may contradict each other: then the first stage decides.
    """
    limit = HAIR * np.abs(task.problem.rows @ free.theta)
    search = _SecondStage(task, promises, limit, free, promises.first(1), radius)
    while True:
        solution = search.among_working()
        if solution.certificate.status != "solved" or search.outside(solution, radius):
            return None
        room = task.problem.design.shape[1] - task.problem.n_rows - len(search.working)
        broken = promises.look(solution.theta, solution.scores).broken(search.working, _few(task.problem))
        if len(broken) == 0:
            return Bound(search.problem(), solution, 0.0)
        if len(broken) > room:
            return None
        search.working = search.working.joined(broken)


def _least_covariance(
    problem: Problem, free: Solution, promises: Promises, reach: Array, radius: float
) -> tuple[float, Array, Held]:
    """Return the least factor ``t``, a point that attains it and the promises that were looked at."""
    few = _few(problem)
    counted = reach > 0
    A = problem.rows[counted] / reach[counted, None]
    working = promises.first(3 * few)
    for _ in range(MOST_ROUNDS):
        theta, factor = _least_factor(problem, free.theta, A, working.rows, working.tau, radius)
        view = promises.look(theta)
        broken = view.broken(working, _ADDED * few)
        if len(broken) == 0:
            break
        working = working.joined(broken)
    # Few of the promises looked at on the way bind in the end; the second stage starts from these.
    return max(factor, 0.0), theta, view.tightest(2 * few)


def _few(problem: Problem) -> int:
    return min(problem.design.shape[1], _MOST_COUNTED)


def _least_factor(
    problem: Problem, inside: Array, A: Array, rows: Array, tau: Array, radius: float
) -> tuple[Array, float]:
    """Return ``theta`` and the least ``t`` with ``|A theta| <= t`` and ``rows theta >= tau`` in the ball.

    ``inside`` (p,) keeps all promises: the unconstrained classifier.
    """
    basis, ball = _span(problem, np.vstack([A, rows, inside]))
    A, rows, inside = A @ basis, rows @ basis, inside @ basis
    one, none = np.ones((len(A), 1)), np.zeros((len(rows), 1))
    last = np.append(np.zeros(basis.shape[1]), 1.0)
    # t - A theta >= 0, t + A theta >= 0, t >= 0, and the promises
    G = np.vstack([np.hstack([-A, one]), np.hstack([A, one]), last, np.hstack([rows, none])])
    h = np.concatenate([np.zeros(2 * len(A) + 1), tau])
    x = solve_program(ConeProgram(last, G, h, np.append(ball, False), radius), np.append(inside, 2.0))
    return basis @ x[:-1], float(x[-1])


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


def _least_loss(
    task: Task, free: Solution, promises: Promises, bound: Array, radius: float, first: Array, working: Held
) -> tuple[Problem, Solution]:
    """Return the least loss with covariances within ``bound``, all promises kept and the penalty in its ball."""
    limit = np.where(bound > 0, bound * (1.0 + BINDING), 0.0)
    limit = np.maximum(limit, HAIR * np.abs(task.problem.rows @ free.theta))
    search = _SecondStage(task, promises, limit, free, working, radius)
    solution = search.at(1.0)
    if search.outside(solution, radius):
        solution = search.within(solution, radius, first)
    return search.problem(), solution


class _SecondStage:
    """The least-loss problem under promises, for growing sets of promises looked at."""

    def __init__(
        self, task: Task, promises: Promises, limit: Array, free: Solution, working: Held, radius: float
    ) -> None:
        self.task, self.promises, self.limit, self.working = task, promises, limit, working
        self.radius = radius
        self.start = promises.start(free)

    def among_working(self, stiffness: float = 1.0) -> Solution:
        """Return the solution under the promises looked at so far, with the penalty multiplied by ``stiffness``."""
        problem = self.problem()
        solution = self.task.solve(replace(problem, ridge=stiffness * problem.ridge), self.start)
        self.start = Start(solution.theta, hessian=solution.hessian)
        return solution

    def at(self, stiffness: float) -> Solution:
        """Return the solution with the penalty multiplied by ``stiffness``, its objective as if it were not."""
        problem = self.task.problem
        for _ in range(MOST_ROUNDS):
            solution = self.among_working(stiffness)
            broken = self.promises.look(solution.theta, solution.scores).broken(self.working, _few(problem))
            if len(broken) == 0:
                break
            self.working = self.working.joined(broken)
        if stiffness == 1.0:
            return solution
        stiff = replace(problem, ridge=stiffness * problem.ridge)
        value = solution.objective - stiff.penalty(solution.theta) + problem.penalty(solution.theta)
        # Every feasible point of the ball costs no less than the stiffened bound less the ball's largest share.
        bound = solution.certificate.dual_bound - 0.5 * (stiffness - 1.0) * self.radius**2
        gap = problem.relative_gap(value, bound)
        status = solution.certificate.status if gap <= max(self.task.tol, ROUGH) else "inaccurate"
        proof = replace(solution.certificate, objective=value, dual_bound=bound, gap=gap, status=status)
        return replace(solution, certificate=proof)

    def within(self, outside: Solution, radius: float, first: Array) -> Solution:
        """Return the solution in the ball: a larger penalty is its Lagrangian, and its factor a root.

        ``log(||w|| / R)`` falls in the logarithm of the factor; regula falsi with the Illinois rule.
        """
        low, at_low = 0.0, np.log(self._length(outside) / radius)
        high = 1.0
        while self.outside(solution := self.at(float(np.exp(high))), radius):
            low, at_low, high = high, np.log(self._length(solution) / radius), high + 2.0
            if high > _STIFFEST:
                return self.from_first_stage(first)
        at_high = np.log(self._length(solution) / radius)
        was_outside: bool | None = None
        for _ in range(MOST_ROUNDS):
            if self.near(solution, radius) or high - low < HAIR:
                break
            middle = (low * at_high - high * at_low) / (at_high - at_low)
            rim = RIM * (high - low)
            middle = float(np.clip(middle, low + rim, high - rim))
            here = self.at(float(np.exp(middle)))
            value, is_outside = np.log(self._length(here) / radius), self.outside(here, radius)
            share = 0.5 if is_outside == was_outside else 1.0  # of the end that stays a second time
            if is_outside:
                low, at_low, at_high = middle, value, share * at_high
            else:
                high, at_high, at_low, solution = middle, value, share * at_low, here
            was_outside = is_outside
        return solution

    def problem(self) -> Problem:
        """Return the problem under the promises looked at so far."""
        problem = self.task.problem
        rows, tau = np.vstack([problem.rows, self.working.rows]), self.working.tau
        lower = np.concatenate([-self.limit, tau])
        upper = np.concatenate([self.limit, np.full(len(tau), np.inf)])
        return problem.with_rows(rows, lower, upper)

    def outside(self, solution: Solution, radius: float) -> bool:
        """Whether the penalty exceeds its own bound."""
        return self._length(solution) > radius * (1.0 + HAIR)

    def near(self, solution: Solution, radius: float) -> bool:
        """Whether the penalty is within its bound and close to it."""
        return radius * (1.0 - 10 * HAIR) <= self._length(solution) <= radius * (1.0 + HAIR)

    def _length(self, solution: Solution) -> float:
        penalised = self.task.problem.ridge > 0
        return float(np.sqrt(np.sum(solution.theta[penalised] ** 2)))

    def from_first_stage(self, theta: Array) -> Solution:
        """Return the first stage's own point: where ball and covariance leave no room for the loss."""
        return self.promises.evaluate(self.problem(), theta, self.task.tol)
