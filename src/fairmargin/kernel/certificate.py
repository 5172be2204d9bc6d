"""The certificate of a kernel machine, computed from the function that predicts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.formulations import Task
from fairmargin.kernel.span import Expansion, Span
from fairmargin.problem import Certificate, Problem, Solution

__all__ = ["balanced", "certify", "covariance_weights", "covariances"]

Array = NDArray[np.float64]

ROUNDING = 1e-8  # difference between solver and prediction that is tolerated, relative to the largest score


def certify(task: Task, solution: Solution, function: Expansion, scores: Array, tol: float) -> Certificate:
    """Return the certificate of the ``function`` that predicts ``scores`` (with the intercept) on the training rows.

    The objective is computed from the function itself: losses from the scores, the penalty as ``1/2 beta' K beta``.
    On a refined span the bound holds for the whole space of the kernel, otherwise it is the solution's. The violation
    is the solution's plus what covariances (under promises to single people: scores) differ by. ``"solved"``
    remains so if the gap is at most ``tol`` on a refined span, the objective within ``tol`` of the solver's on
    another, and covariances and promises are those of the solver but for rounding.
    """
    problem, proof = task.problem, solution.certificate
    assert isinstance(task.feature_map, Span)
    span = task.feature_map
    value = float(problem.weight @ problem.loss.value(problem.y * scores))
    if np.any(problem.ridge):
        value += 0.5 * function.squared_norm
    bound = proof.dual_bound
    if span.refined:
        bound = max(bound - 0.5 * span.outside(_dual_function(task, solution, span)), problem.trivial_bound)
    gap = _relative(problem, value, bound)
    off = gap if span.refined else _relative(problem, value, proof.objective)
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
    return distance if np.isfinite(distance) else np.inf


def _dual_function(task: Task, solution: Solution, span: Span) -> Expansion:
    """Return the function that the multipliers of a solution stand for."""
    beta = balanced(task.problem, solution.alpha) * task.problem.y
    if np.any(solution.multipliers):
        beta = beta - covariance_weights(task) @ solution.multipliers
    used = np.flatnonzero(beta)
    return Expansion(beta, span.gram.apply(used, beta[used]))


def _drift(task: Task, solution: Solution, scores: Array) -> tuple[float, bool]:
    """Return by how much predictions miss what the solver promised at most, and whether that is rounding."""
    rows, reach = task.problem.rows, float(np.max(np.abs(scores), initial=0.0))
    off = np.abs(covariances(task, scores) - rows @ solution.theta)
    unit = np.abs(covariance_weights(task)).sum(axis=0)
    if len(solution.multipliers) > len(rows):  # promises to single people
        off, unit = np.append(off, np.max(np.abs(scores - solution.scores))), np.append(unit, 1.0)
    return float(np.max(off, initial=0.0)), bool(np.all(off <= ROUNDING * unit * reach))


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
