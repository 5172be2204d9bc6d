"""The least covariance within a bound on the loss: a point of the covariance path, found by a root search."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import LossBound
from fairmargin.formulations.covariance import Path
from fairmargin.formulations.necessity import Necessity, prove_necessity
from fairmargin.formulations.outcome import Outcome, as_sure_as, loss_increase
from fairmargin.formulations.prices import Prices
from fairmargin.formulations.task import Task, solve_task
from fairmargin.problem import Problem, Solution
from fairmargin.solvers import solve_with_reference
from fairmargin.tolerances import EPS, HAIR, MOST_ROUNDS, RIM, ROUGH, ROUNDING, TINY

__all__ = ["LossBoundOutcome", "least_factor", "least_sum", "solve_loss_bound", "units"]

Array = NDArray[np.float64]

_DEARER = 8.0  # from one price to the next where it is not known which is high


@dataclass(frozen=True)
class LossBoundOutcome(Outcome):
    """What a bound on the loss adds to an outcome.

    Attributes
    ----------
    loss_increase : float
        ``L / L* - 1``, how much of the bound on the loss was spent.
    factor : float or None
        The least ``t`` with ``|cov_k| <= t |cov*_k| / weight_k`` for every column; None for ``norm="sum"``.
    necessity : Necessity or None
        The covariance below which no classifier within the bound can fall; None where the bound leaves no room.
    """

    loss_increase: float = 0.0
    factor: float | None = None
    necessity: Necessity | None = None


@solve_task.register
def solve_loss_bound(constraint: LossBound, task: Task) -> Outcome:
    """Return the least covariance with an objective within ``(1 + gamma) L*``."""
    weights = task.columns.repeated(constraint.column_weights(task.sensitive))
    task = replace(task, tol=min(task.tol, HAIR))  # a root search needs the losses better than its own accuracy
    free, zero = _ends(task, (weights > 0) & (constraint.gamma > 0))
    budget = (1.0 + constraint.gamma) * free.objective
    unit, largest = units(task.problem, free, weights)
    counted = np.isfinite(unit)
    if constraint.gamma == 0 or not np.any(counted):
        solution = replace(free, multipliers=np.zeros(task.problem.n_rows))
        return _outcome(task.problem, solution, free, 1.0)
    if constraint.norm == "sum" and counted.sum() > 1:
        problem, solution = _certified(task, least_sum(task, free, zero, unit, budget), np.isfinite(unit))
        outcome = _outcome(problem, solution, free, None)
        return replace(outcome, necessity=_necessity(constraint, task, outcome, unit, budget))
    path = Path(task, free, unit, zero=zero)
    factor, solution = least_factor(path, budget)
    outcome = _outcome(path.problem(factor), solution, free, factor * largest)
    return replace(outcome, necessity=_necessity(constraint, task, outcome, unit, budget))


def units(problem: Problem, free: Solution, weights: Array) -> tuple[Array, float]:
    """Return the units of ``|cov_k| <= t unit_k``, infinite for columns that do not count, and the largest weight.

    One number t runs from 1, where nothing binds, down to zero. What the unconstrained classifier has not, but for
    rounding, is not worth a share of the loss.
    """
    reach = np.abs(problem.rows @ free.theta)
    counted = (weights > 0) & (reach > problem.room(free.theta))
    largest = float(weights[counted].max(initial=0.0))
    return np.where(counted, reach * largest / np.where(counted, weights, 1.0), np.inf), largest


def _ends(task: Task, counted: NDArray[np.bool_]) -> tuple[Solution, Solution]:
    """Return the classifiers without a constraint and without the counted covariances, which share samples."""

    def bind(problem: Problem, free: Solution) -> Problem:
        bound = np.where(counted & (np.abs(problem.rows @ free.theta) > problem.room(free.theta)), 0.0, np.inf)
        return problem.with_bounds(-bound, bound)

    return solve_with_reference(task.problem, bind, accuracy=task.accuracy)


def _necessity(constraint: LossBound, task: Task, outcome: Outcome, unit: Array, budget: float) -> Necessity | None:
    """Return what the multipliers of the outcome prove of all classifiers within the budget.

    None where they speak of a part of the classifiers only: of those in the span of a kernel's landmarks.
    """
    if getattr(task.feature_map, "is_part", False):
        return None
    K = task.problem.n_rows
    solution = outcome.solution
    return prove_necessity(
        constraint.gamma,
        constraint.norm,
        task.columns.labels,
        unit,
        task.problem.rows @ solution.theta,
        outcome.problem.upper[:K],
        solution.multipliers[:K],
        budget - solution.certificate.dual_bound,
    )


def _outcome(problem: Problem, solution: Solution, free: Solution, factor: float | None) -> LossBoundOutcome:
    increase = loss_increase(solution.objective, free.objective, problem)
    return LossBoundOutcome(as_sure_as(solution, free), problem, free, loss_increase=increase, factor=factor)


def _certified(task: Task, solution: Solution, counted: NDArray[np.bool_]) -> tuple[Problem, Solution]:
    """Return a solution with the proof that it has the least loss among those of its covariances or smaller."""
    bound = np.where(counted, np.abs(task.problem.rows @ solution.theta), np.inf)
    problem = task.problem.with_bounds(-bound, bound)
    alpha = problem.dual_variables(solution.scores) if problem.loss.smooth else solution.alpha
    proof = problem.certify(
        solution.theta,
        solution.multipliers,
        solution.scores,
        problem.dual_sums(solution.scores, alpha),
        tol=max(task.tol, ROUGH),
        n_iter=solution.certificate.n_iter,
    )
    return problem, as_sure_as(replace(solution, alpha=alpha, certificate=proof), _roughly(solution))


def least_factor(path: Path, budget: float) -> tuple[float, Solution]:
    """Return the least ``t`` whose ``V(t) = min L`` stays within the budget, and its solution.

    ``V`` is convex and falls to ``L*`` at ``t = 1``, and its derivative comes with every solution: minus what the
    multipliers weigh. Newton's method from the left meets the root from above the budget; the chord through the last
    point on either side gives points within it.
    """
    solution = path.at(path.least)
    if solution.objective <= budget:
        return path.least, solution
    above, within = path.bracket(budget)
    low, high = path.least if above is None else above, 1.0 if within is None else within
    at_low, at_high = path.at(low), path.at(high)
    close = HAIR * path.free.objective
    for _ in range(MOST_ROUNDS):
        if budget - at_high.objective <= close and (high < 1.0 or high == low):
            break
        t = low + (at_low.objective - budget) / _price(path, at_low)
        if not low < t < high:
            t = 0.5 * (low + high)
        # Aim a little inside the budget, so that the search ends on its right side.
        t = min(t + 0.5 * close / _price(path, at_low), 0.5 * (t + high))
        here = path.at(t)
        if here.objective <= budget:
            high, at_high = t, here
        else:
            low, at_low = t, here
        if high - low <= EPS:
            break
    if budget - at_high.objective > ROUGH * path.free.objective:  # multipliers that misled the search
        return high, replace(at_high, certificate=replace(at_high.certificate, status="inaccurate"))
    # That less is not possible is proved by the point beyond the budget, if it was solved.
    return high, as_sure_as(at_high, at_low)


def _price(path: Path, solution: Solution) -> float:
    """Return ``-V'(t)``: what the multipliers weigh."""
    bounded = np.isfinite(path.reach)
    return max(float(np.abs(solution.multipliers[bounded]) @ np.abs(path.reach[bounded])), TINY)


def least_sum(task: Task, free: Solution, zero: Solution | None, unit: Array, budget: float) -> Solution:
    """Return the solution that minimises ``sum_k |cov_k| / unit_k`` within the budget.

    On the path ``min L + mu sum_k |cov_k| / unit_k`` the loss grows with ``mu``; its root against the budget is
    searched. ``zero`` is the classifier of no covariance, None where promises to people may leave no room for it.
    """
    if zero is not None and zero.objective <= budget:
        return zero
    prices = Prices(task, free, np.where(np.isfinite(unit), 1.0 / unit, 0.0))
    if zero is not None:
        # At the largest of the multipliers of zero covariance, zero is optimal for the priced problem too.
        high = float(np.max(np.abs(zero.multipliers) * np.where(np.isfinite(unit), unit, 0.0)))
    else:
        high = _high_price(prices, free, budget)
        zero = prices.at(high)
        if zero.objective <= budget:
            return zero
    best = replace(free, multipliers=np.zeros(task.problem.n_rows))
    low, at_low, beyond = 0.0, best, zero
    close = HAIR * free.objective
    for step in range(MOST_ROUNDS):
        share = (budget - at_low.objective) / max(zero.objective - at_low.objective, TINY)
        mu = 0.5 * (low + high) if step % 3 else low + (high - low) * float(np.clip(share, RIM, 1 - RIM))
        here = prices.at(mu)
        if here.objective <= budget:
            low, at_low = mu, here
            best = here
        else:
            high, beyond = mu, here
        if 0 <= budget - best.objective <= close or high - low <= ROUNDING * high:
            break
    # That less is not possible is shown by the point beyond the budget, if it was solved.
    return as_sure_as(_spend_rest(task, best, unit, budget, prices, high), _roughly(beyond))


def _roughly(solution: Solution) -> Solution:
    """Return a solution whose status is about the wider tolerance of sums of covariances."""
    proof = solution.certificate
    is_close = proof.status == "inaccurate" and proof.gap <= ROUGH
    return replace(solution, certificate=replace(proof, status="solved")) if is_close else solution


def _high_price(prices: Prices, free: Solution, budget: float) -> float:
    """Return a price that exceeds the budget, or else one above which the priced covariances fall no further."""
    rows, last = prices.task.problem.rows, np.inf
    paid = float(prices.price @ np.abs(rows @ free.theta))
    mu = budget / max(paid, TINY)
    for _ in range(MOST_ROUNDS):
        here = prices.at(mu)
        paid = float(prices.price @ np.abs(rows @ here.theta))
        if here.objective > budget or paid >= last * (1.0 - ROUGH):
            break
        mu, last = _DEARER * mu, paid
    return mu


def _spend_rest(task: Task, within: Solution, unit: Array, budget: float, prices: Prices, mu: float) -> Solution:
    """Return the best mix of the solutions on either side of the budget, where the path jumps there.

    For a loss that is not strictly convex the priced problem has several solutions at one ``mu``. ``L`` is convex,
    so the longest step from the one within the budget towards the one beyond is found by bisection.
    """
    beyond = prices.at(mu)
    norm = np.where(np.isfinite(unit), 1.0 / unit, 0.0)
    problem = task.problem

    def size(s: Solution) -> float:
        return float(norm @ np.abs(problem.rows @ s.theta))

    if budget - within.objective <= HAIR * budget or size(beyond) >= size(within):
        return within
    low, high = 0.0, 1.0
    change, moved = beyond.theta - within.theta, beyond.scores - within.scores
    for _ in range(MOST_ROUNDS):
        t = 0.5 * (low + high)
        value = problem.objective(within.theta + t * change, within.scores + t * moved)
        low, high = (t, high) if value <= budget else (low, t)
    theta, scores = within.theta + low * change, within.scores + low * moved
    certificate = replace(within.certificate, objective=problem.objective(theta, scores))
    return replace(within, theta=theta, scores=scores, certificate=certificate, hessian=None)
