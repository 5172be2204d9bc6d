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
from fairmargin.formulations.promises import BINDING, Held, Promises, PromisesInMemory
from fairmargin.formulations.region import Region, Search, few, least_factor
from fairmargin.formulations.task import Task, solve_task
from fairmargin.formulations.ties import settle_ties
from fairmargin.problem import Problem, Solution
from fairmargin.tolerances import HAIR, ROUGH, ROUNDING

__all__ = [
    "IndividualOutcome",
    "keep_promises",
    "make_promises",
    "penalty_radius",
    "reference_solution",
    "solve_individual_loss_bound",
]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_WIDE = 200  # columns from which on there is often room for no covariance at all


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

    def check(self, scores: Array) -> None:
        """Raise where somebody is refused whose positive decision must be kept."""
        if self.promises is not None:
            self.promises.check_decisions(scores)


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
    if task.problem.design.shape[1] > _WIDE:
        found = _without_covariance(task, free, promises, radius)
        if found is not None:
            return found
    counted = reach > 0
    A = task.problem.rows[counted] / reach[counted, None]  # |A theta| <= t
    least = least_factor(task.problem, free, A, np.zeros(len(A)), np.ones(len(A)), promises, radius)
    if least.factor >= 1.0 - BINDING:  # the promises leave no room: nothing to gain, and nothing to pay for
        return replace(unchanged, solution=least.as_sure(unchanged.solution))
    problem, solution = _least_loss(task, free, promises, least.factor * reach, radius, least.theta, least.working)
    return Bound(problem, least.as_sure(_kept(task, problem, solution, free, promises)), least.factor)


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
    problem = task.problem.with_bounds(-limit, limit)
    region = Region.of_promises(promises, radius, problem.design.shape[1], promises.first(1))
    search = Search(region, problem, promises.start(free), task.accuracy)
    while True:
        solution = search.among_working()
        if solution.certificate.status != "solved" or search.outside(solution):
            return None
        room = problem.design.shape[1] - problem.n_rows - len(region.working)
        broken = promises.look(solution.theta, solution.scores).broken(region.working, few(problem))
        if len(broken) == 0:
            return Bound(region.written(problem), solution, 0.0)
        if len(broken) > room:
            return None
        region.working = region.working.joined(broken)


def _least_loss(
    task: Task, free: Solution, promises: Promises, bound: Array, radius: float, first: Array, working: Held
) -> tuple[Problem, Solution]:
    """Return the least loss with covariances within ``bound``, all promises kept and the penalty in its ball.

    ``first`` is the first stage's own point, for where ball and covariance leave no room for the loss.
    """
    limit = np.where(bound > 0, bound * (1.0 + BINDING), 0.0)
    limit = np.maximum(limit, HAIR * np.abs(task.problem.rows @ free.theta))
    region = Region.of_promises(promises, radius, task.problem.design.shape[1], working, first)
    problem = task.problem.with_bounds(-limit, limit)
    return region.solve_written(problem, promises.start(free), task.accuracy)
