"""The certificate of a kernel machine, computed from the function that predicts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.formulations import Task
from fairmargin.kernel.span import Expansion, Span
from fairmargin.problem import Certificate, Problem, Solution

__all__ = ["Evaluation", "balanced", "certify", "covariance_weights", "covariances"]

Array = NDArray[np.float64]

ROUNDING = 1e-8  # difference between solver and prediction that is tolerated, relative to the largest score


@dataclass(frozen=True)
class Evaluation:
    """The function that predicts and, for a refined span, the one that the multipliers stand for."""

    function: Expansion
    dual: Expansion | None

    @classmethod
    def of(cls, task: Task, solution: Solution, beta: Array) -> Evaluation:
        """Evaluate the function ``sum_i beta_i phi(x_i)`` of a solution as predictions do, in one pass."""
        span = _span(task)
        used = np.flatnonzero(beta)
        if not span.refined:
            return cls(Expansion(beta, span.gram.apply(used, beta[used])), None)
        dual = _dual_coefficients(task, solution)
        values, dual_values = span.gram.apply_each(used, [beta[used], dual[used]])
        rest = np.flatnonzero((dual != 0) & (beta == 0))
        return cls(Expansion(beta, values), Expansion(dual, dual_values + span.gram.apply(rest, dual[rest])))


def certify(task: Task, solution: Solution, seen: Evaluation, scores: Array, tol: float) -> Certificate:
    """Return the certificate of the function that predicts ``scores`` (with the intercept) on the training rows.

    The objective is computed from the function itself: losses from the scores, the penalty as ``1/2 beta' K beta``.
    On a refined span the bound holds for the whole space of the kernel, otherwise it is the solution's. The violation
    is the solution's plus what covariances (under promises to single people: scores) differ by. ``"solved"``
    remains so if the gap is at most ``tol`` on a refined span, or the objective within ``tol`` of the solver's on
    another, and if covariances and promises are those of the solver but for rounding.
    """
    problem, proof, span = task.problem, solution.certificate, _span(task)
    value = float(problem.weight @ problem.loss.value(problem.y * scores))
    if np.any(problem.ridge):
        value += 0.5 * seen.function.squared_norm
    bound = proof.dual_bound
    if seen.dual is not None:
        bound = float(max(bound - 0.5 * span.outside(seen.dual), problem.trivial_bound))
    gap = _relative(problem, value, bound)
    off = gap if seen.dual is not None else _relative(problem, value, proof.objective)
    drift, is_rounding = _drift(task, solution, scores)
    status = proof.status
    if status == "solved" and not (off <= tol and is_rounding):
        status = "inaccurate"
    return replace(
        proof, objective=value, dual_bound=bound, gap=gap, violation=proof.violation + drift, status=status
    )


def _relative(problem: Problem, value: float, other: float) -> float:
    """Return the distance of two objectives, relative to the first; infinite where one is not a number."""
    distance = abs(value - other) / problem.gap_unit(value)
    return float(distance) if np.isfinite(distance) else np.inf


def _span(task: Task) -> Span:
    assert isinstance(task.feature_map, Span)
    return task.feature_map


def _dual_coefficients(task: Task, solution: Solution) -> Array:
    """Return ``beta`` of the function that the multipliers of a solution stand for."""
    beta = balanced(task.problem, solution.alpha) * task.problem.y
    if np.any(solution.multipliers):
        beta = beta - covariance_weights(task) @ solution.multipliers
    return beta


def _drift(task: Task, solution: Solution, scores: Array) -> tuple[float, bool]:
    """Return by how much predictions miss what the solver promised at most, and whether that is rounding."""
    rows = task.problem.rows
    reach = max(float(np.max(np.abs(scores), initial=0.0)), np.finfo(float).eps)  # margins are of size 1
    off = np.abs(covariances(task, scores) - rows @ solution.theta)
    unit = np.abs(covariance_weights(task)).sum(axis=0)
    same = True
    if len(solution.multipliers) > len(rows):  # promises to single people, on their losses and decisions
        off, unit = np.append(off, np.max(np.abs(scores - solution.scores))), np.append(unit, 1.0)
        same = np.array_equal(scores >= 0, solution.scores >= 0)
    return float(np.max(off, initial=0.0)), same and bool(np.all(off <= ROUNDING * unit * reach))


def balanced(problem: Problem, alpha: Array) -> Array:
    """Return ``alpha`` with one class scaled down: a free intercept requires ``sum_i alpha_i y_i = 0``."""
    up, down = float(alpha[problem.y > 0].sum()), float(alpha[problem.y < 0].sum())
    if not problem.design.fit_intercept or up == down:
        return alpha
    least = min(up, down)
    return alpha * np.where(problem.y > 0, least / up if up else 0.0, least / down if down else 0.0)


def covariance_weights(task: Task) -> Array:
    """Return ``s_i (z_ik - zbar_k) / S``, shape (N, K)."""
    weight = task.data.people_weight
    return (weight / weight.sum())[:, None] * task.centred


def covariances(task: Task, scores: Array) -> Array:
    """Return the decision boundary covariances of scores, shape (K,)."""
    return scores @ covariance_weights(task)
