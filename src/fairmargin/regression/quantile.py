"""Quantile regression, exactly: the method of multipliers on the corner of the pinball loss.

    theta <- argmin sum_i c_i envelope_h(t_i - f_i; a_i) + penalty   subject to the constraints   (Newton)
    a_i   <- clip(a_i + (t_i - f_i) / h, q - 1, q)

is the proximal point method on the dual, as for the hinge loss (:mod:`fairmargin.solvers.hinge.multipliers`): it
converges for every width ``h``, faster the smaller ``h`` is, and ends after finitely many rounds. Any ``a`` within
its box proves a dual bound.

If the rounds stall, the interior-point method of :mod:`fairmargin.solvers.hinge.interior_point` takes over: without
its linear part ``(1 - q) (f - t)``, the pinball loss is a hinge loss whose corner is at the target. Without a penalty
the problem is a linear program, and HiGHS is the last resort.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from fairmargin.problem import Solution, Status
from fairmargin.regression.losses import HingeAtTarget, PinballEnvelope
from fairmargin.regression.problem import QuantileProblem
from fairmargin.solvers import Accuracy, Start, solve
from fairmargin.solvers.hinge import solve_interior_point
from fairmargin.solvers.matrix_free import is_affordable
from fairmargin.solvers.newton import solve_newton
from fairmargin.tolerances import ROUNDING

__all__ = ["solve_quantile"]

Array = NDArray[np.float64]

# Of the corner, in units in which targets have a spread of about one: in the first round, where dual variables of a
# problem nearby are known, the least, and the factor from round to round. As for the hinge loss, where they were
# tuned.
_FIRST, _WARM, _LEAST, _SHRINK = 0.5, 0.005, 1e-10, 0.2
_PATIENCE = 2  # rounds without progress before another method is tried
_MOST = 30  # iterations of a round, which usually takes five
_COARSE = 1e-3  # gap of the first rounds: the dual variables hardly get better by finer ones


@solve.register
def solve_quantile(
    problem: QuantileProblem, *, start: Start | None = None, accuracy: Accuracy | None = None
) -> Solution:
    """Solve a problem with the pinball loss to the duality gap asked for."""
    accuracy = Accuracy() if accuracy is None else accuracy
    with np.errstate(over="ignore", invalid="ignore"):
        best = _rounds(problem, start, accuracy)
        for other in _other_solvers(problem):
            if best.certificate.status == "solved":
                break
            found = other(problem, accuracy)
            if found is not None and _badness(found) < _badness(best):
                best = found
        return _centre_flat_intercept(problem, best, accuracy.tol)


def _other_solvers(problem: QuantileProblem) -> list[Callable[[QuantileProblem, Accuracy], Solution | None]]:
    """Return what else can solve a problem, where there is memory for it."""
    if not is_affordable(problem):
        return []
    return [_interior_point] if np.any(problem.ridge) else [_interior_point, _linear_program]


def _badness(solution: Solution) -> tuple[bool, float]:
    proof = solution.certificate
    return proof.status != "solved", max(proof.gap, proof.violation)


def _rounds(problem: QuantileProblem, start: Start | None, accuracy: Accuracy) -> Solution:
    """Return the best solution that the rounds find."""
    loss = problem.pinball
    dual, width = np.zeros(len(problem.y)), _FIRST
    if start is not None and start.alpha is not None:
        dual, width = problem.clip_dual(start.alpha) / problem.weight, _WARM
    at = None if start is None else Start(start.theta, start.multipliers)
    best, n_iter, gap, stalled = None, 0, 10 * _COARSE, 0
    while True:
        envelope = PinballEnvelope(loss.target, loss.quantile, width, dual)
        most = min(_MOST, max(1, accuracy.max_iter - n_iter))
        inner = Accuracy(max(min(gap, _COARSE), accuracy.tol) / 10, most)
        found = solve_newton(replace(problem, loss=envelope), start=at, accuracy=inner)
        n_iter += found.certificate.n_iter
        dual = -envelope.derivative(found.scores)
        is_spent = n_iter >= accuracy.max_iter
        solution = _certified(
            problem, found, dual, accuracy.tol, n_iter, "iteration limit" if is_spent else "inaccurate"
        )
        gap = solution.certificate.gap
        stalled = 0 if best is None or gap < 0.5 * best.certificate.gap else stalled + 1
        best = solution if best is None or _badness(solution) < _badness(best) else best
        is_over = found.certificate.status != "solved" or width < _LEAST or stalled >= _PATIENCE
        if best.certificate.status == "solved" or is_spent or is_over:
            return replace(best, certificate=replace(best.certificate, n_iter=n_iter))
        at, width = Start(found.theta, found.multipliers), width * _SHRINK


def _certified(
    problem: QuantileProblem, found: Solution, dual: Array, tol: float, n_iter: int, ending: Status
) -> Solution:
    """Return a point with the proof that dual variables ``a`` give, for the pinball loss itself."""
    alpha = problem.weight * dual
    sums = problem.dual_sums(found.scores, alpha)
    proof = problem.certify(found.theta, found.multipliers, found.scores, sums, tol=tol, n_iter=n_iter, ending=ending)
    alpha = problem.balanced(alpha, found.multipliers, sums)
    return replace(found, alpha=alpha, certificate=proof, hessian=None)


def _interior_point(problem: QuantileProblem, accuracy: Accuracy) -> Solution:
    """Return the solution of the hinge problem with a linear term that this problem is."""
    q, weight = problem.pinball.quantile, problem.weight
    pull = (1.0 - q) * problem.design.rmatvec(weight)
    tilt = pull if problem.tilt is None else problem.tilt + pull
    offset = problem.offset - (1.0 - q) * float(weight @ problem.pinball.target)
    loss = HingeAtTarget(problem.pinball.target)
    # Half the tolerance: the proof is made anew for the pinball loss, whose dual variables are balanced differently.
    half = replace(accuracy, tol=0.5 * accuracy.tol)
    found = solve_interior_point(replace(problem, loss=loss, tilt=tilt, offset=offset), accuracy=half)
    dual = problem.clip_dual(found.alpha - (1.0 - q) * weight) / weight
    ending = found.certificate.status
    return _certified(
        problem, found, dual, accuracy.tol, found.certificate.n_iter, ending if ending != "solved" else "inaccurate"
    )


def _linear_program(problem: QuantileProblem, accuracy: Accuracy) -> Solution | None:
    """Return the solution of the problem without a penalty by HiGHS, None where it finds none.

    ``min sum_i c_i (q u_i + (1 - q) v_i) + tilt' theta`` over ``theta`` and ``u, v >= 0`` with
    ``Xa theta + u - v = t`` and the rows of A.
    """
    n, p = problem.design.shape
    q, weight = problem.pinball.quantile, problem.weight
    rows = sp.csr_matrix(problem.design.rows(slice(None)))
    identity = sp.identity(n, format="csr")
    tilt = np.zeros(p) if problem.tilt is None else problem.tilt
    cost = np.concatenate([tilt, q * weight, (1.0 - q) * weight])
    above, below = np.isfinite(problem.upper), np.isfinite(problem.lower)
    A = np.vstack([problem.rows[above], -problem.rows[below]])
    found = linprog(
        cost,
        A_ub=sp.hstack([sp.csr_matrix(A), sp.csr_matrix((len(A), 2 * n))]) if len(A) else None,
        b_ub=np.concatenate([problem.upper[above], -problem.lower[below]]) if len(A) else None,
        A_eq=sp.hstack([rows, identity, -identity]),
        b_eq=problem.pinball.target,
        bounds=[(None, None)] * p + [(0, None)] * (2 * n),
        method="highs",
    )
    if found.status != 0:
        return None
    multipliers = np.zeros(problem.n_rows)
    if len(A):
        price = -found.ineqlin.marginals
        multipliers[above] += price[: above.sum()]
        multipliers[below] -= price[above.sum() :]
    theta = found.x[:p]
    point = Solution(theta, multipliers, problem.design.matvec(theta), np.empty(0), None)  # type: ignore[arg-type]
    dual = np.clip(found.eqlin.marginals / weight, q - 1.0, q)
    return _certified(problem, point, dual, accuracy.tol, int(found.nit), "inaccurate")


def _centre_flat_intercept(problem: QuantileProblem, solution: Solution, tol: float) -> Solution:
    """Return the solution with its intercept in the middle of the interval on which the objective is least.

    As a function of a shift of the intercept the objective has the slope ``weight of the residuals below it - q
    (weight of all)``; where that is zero, rounding would choose.
    """
    if not problem.design.fit_intercept or problem.ridge[-1] > 0 or np.any(problem.rows[:, -1]):
        return solution
    residual = problem.pinball.target - solution.scores
    order = np.argsort(residual, kind="stable")
    total = problem.total_weight
    tilt = 0.0 if problem.tilt is None else float(problem.tilt[-1])
    slope = np.cumsum(problem.weight[order]) - problem.pinball.quantile * total + tilt
    flat = np.flatnonzero(np.abs(slope[:-1]) <= ROUNDING * total)
    if not len(flat):
        return solution
    theta = solution.theta.copy()
    theta[-1] += 0.5 * float(residual[order[flat[0]]] + residual[order[flat[-1] + 1]])
    scores = problem.design.matvec(theta)
    proof = solution.certificate
    value = problem.objective(theta, scores)
    gap = problem.relative_gap(value, proof.dual_bound)
    if gap > max(tol, proof.gap):
        return solution
    return replace(solution, theta=theta, scores=scores, certificate=replace(proof, objective=value, gap=gap))
