"""The certificate of a kernel machine, computed from the function that predicts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.formulations import Outcome, Task, certify_function
from fairmargin.kernel.span import Expansion, Span
from fairmargin.problem import Certificate, Solution

__all__ = ["Evaluation", "certify", "covariance_weights"]

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


def certify(task: Task, outcome: Outcome, seen: Evaluation, scores: Array, tol: float) -> Certificate:
    """Return the certificate of the function that predicts ``scores`` (with the intercept) on the training rows.

    The objective is computed from the function itself: losses from the scores, the penalty as ``1/2 beta' K beta``.
    On a refined span the dual bound holds for the whole space of the kernel; otherwise it is that of the solution.
    The status stays "solved" if the gap (on a refined span) or the distance to the solver's objective (on another) is
    at most ``tol``, and if covariances and promises are kept up to :data:`ROUNDING`.
    """
    proof = certify_function(task, outcome, seen.function.squared_norm, scores, tol=tol, rounding=ROUNDING)
    if seen.dual is None:
        return proof
    bound = float(max(proof.dual_bound - 0.5 * _span(task).outside(seen.dual), task.problem.trivial_bound))
    gap = task.problem.relative_gap(proof.objective, bound)
    status = proof.status if proof.status != "solved" or gap <= tol else "inaccurate"
    return replace(proof, dual_bound=bound, gap=gap, status=status)


def _span(task: Task) -> Span:
    assert isinstance(task.feature_map, Span)
    return task.feature_map


def _dual_coefficients(task: Task, solution: Solution) -> Array:
    """Return ``beta`` of the function that the multipliers of a solution stand for."""
    beta = solution.alpha * task.problem.y
    if np.any(solution.multipliers):
        beta = beta - covariance_weights(task) @ solution.multipliers
    return beta


def covariance_weights(task: Task) -> Array:
    """Return ``s_i (z_ik - zbar_k) / S``, shape (N, K)."""
    weight = task.data.people_weight
    return (weight / weight.sum())[:, None] * task.centred
