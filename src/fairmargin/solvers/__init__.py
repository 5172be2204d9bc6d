"""Solvers: functions from a frozen problem to a solution with its certificate.

========================  ====================================================================================
``newton``                smooth losses: Newton's method under linear constraints, with Hessians or, on wide
                          data, with products alone (``matrix_free``)
``hinge``                 the hinge loss: method of multipliers, interior point, linear program
``proximal``              smooth losses without a penalty, where Newton's method alone meets flat directions
``oracle``                what Newton's method asks of the rows, wherever they are
``ladder``                starts for large problems: subsamples and single precision, for any of these
``quadratic_step``        the step of all of these under linear constraints; under many, a ``nearest_point``
``cone_program``          small linear programs with at most one ball, for promises to people
========================  ====================================================================================

:func:`solve` chooses among them; problems whose rows are not in memory register solvers of their own. A solver
declares the losses it takes; a mismatch is an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, singledispatch

import numpy as np

from fairmargin.losses import SmoothedHingeLoss
from fairmargin.problem import Problem, Solution
from fairmargin.solvers.contract import Accuracy, Start
from fairmargin.solvers.curvature import Curvature
from fairmargin.solvers.hinge import (
    FIRST_WIDTH,
    centre_flat_intercept,
    solve_active_set,
    solve_hinge_program,
    solve_interior_point,
    solve_multipliers,
)
from fairmargin.solvers.ladder import Bind, Rung, climb, in_single_precision
from fairmargin.solvers.matrix_free import is_affordable, prefers_products
from fairmargin.solvers.newton import solve_newton
from fairmargin.solvers.proximal import solve_proximal
from fairmargin.solvers.quadratic_step import Diagonal, constrained_step

__all__ = ["Accuracy", "Start", "in_single_precision", "solve", "solve_with_reference"]

_Solver = Callable[..., Solution | None]


@singledispatch
def solve(problem: Problem, *, start: Start | None = None, accuracy: Accuracy | None = None) -> Solution:
    """Solve any problem of the package with the solver its loss needs.

    Smooth losses go to Newton's method, the hinge loss to the method of multipliers. Where these do not reach the
    accuracy, other solvers are tried and the best answer of all is returned.
    """
    accuracy = Accuracy() if accuracy is None else accuracy
    first, others = _solvers(problem)
    with np.errstate(over="ignore", invalid="ignore"):  # iterates may overflow; the certificate tells how it ended
        if start is None:
            start = _start_of_ladder(problem, accuracy)
        best = first(problem, start=start, accuracy=accuracy)
        assert best is not None
        best = _restored(problem, best, accuracy)
        for solver in others:
            if best.certificate.status in ("solved", "separable"):
                break
            other = solver(problem, accuracy=accuracy)
            best = best if other is None else min(best, _restored(problem, other, accuracy), key=_badness)
        if problem.loss.smooth:
            return best
        return centre_flat_intercept(problem, solve_active_set(problem, best, accuracy.tol), accuracy.tol)


def _solvers(problem: Problem) -> tuple[_Solver, list[_Solver]]:
    """Return the solver for a problem, and what else can solve it: slower, or for special cases."""
    is_penalised = bool(np.any(problem.ridge))
    if problem.loss.smooth:
        others: list[_Solver] = [] if is_penalised else [solve_proximal]
        if prefers_products(problem) and is_affordable(problem):
            others.append(partial(solve_newton, make_model=Curvature))
        return solve_newton, others
    if problem.loss.name != "hinge":
        raise ValueError(
            f"The loss {problem.loss!r} is not smooth; of the non-smooth losses only the hinge has a solver."
        )
    if not is_affordable(problem):  # the others need the Hessian
        return solve_multipliers, []
    return solve_multipliers, [solve_interior_point] if is_penalised else [solve_hinge_program, solve_interior_point]


def _restored(problem: Problem, solution: Solution, accuracy: Accuracy) -> Solution:
    """Return a solution moved into its constraints by the shortest way, where that makes it a solved one.

    Many rows of A that nearly contradict each other cost a solver the last digits of feasibility first.
    """
    proof = solution.certificate
    if proof.status in ("solved", "separable") or not np.all(np.isfinite(solution.theta)):
        return solution
    metric = Diagonal(problem.design.scale**2)
    step, _ = constrained_step(problem, solution.theta, np.zeros_like(solution.theta), metric)
    theta = solution.theta + step
    scores = problem.design.matvec(theta)
    value = problem.objective(theta, scores)
    gap = problem.relative_gap(value, proof.dual_bound)
    if not (gap <= accuracy.tol and problem.is_feasible(theta)):
        return solution
    proof = replace(proof, objective=value, gap=gap, violation=problem.violation(theta), status="solved")
    return replace(solution, theta=theta, scores=scores, certificate=proof)


def _badness(solution: Solution) -> tuple[bool, float]:
    proof = solution.certificate
    return proof.status not in ("solved", "separable"), max(proof.gap, proof.violation)


def _start_of_ladder(problem: Problem, accuracy: Accuracy) -> Start | None:
    """Return where to begin; the hinge loss begins with its corner rounded."""
    rung = climb(_rounded(problem), accuracy)
    return None if rung is None else rung.start(rung.first)


def _rounded(problem: Problem) -> Problem:
    """Return the problem with the corner of a hinge loss rounded as in the first round of its solver."""
    return problem if problem.loss.smooth else replace(problem, loss=SmoothedHingeLoss(FIRST_WIDTH))


@singledispatch
def solve_with_reference(
    problem: Problem,
    bind: Bind,
    *,
    near: tuple[Start | None, Start | None] | None = None,
    accuracy: Accuracy | None = None,
    reference_tol: float = 0.0,
) -> tuple[Solution, Solution]:
    """Solve a problem without its constraints, and then under the bounds that ``bind`` makes of that solution.

    Parameters
    ----------
    problem : Problem
        With the rows of A; its bounds are ignored.
    bind : callable
        ``bind(problem, unconstrained_solution)`` returns the problem under bounds, on a sample too.
    near : pair of Start, optional
        Starts for the two, which make samples needless.
    accuracy : Accuracy, optional
    reference_tol : float
        Looser tolerance for the unconstrained solution where it only serves as a reference: 1e-6 gives its
        covariances to some five digits, and single precision will do for that.

    Returns
    -------
    unconstrained, constrained : Solution
    """
    accuracy = Accuracy() if accuracy is None else accuracy
    alone, rung, reference = problem.unconstrained(), None, None
    first, second = (None, None) if near is None else near
    if near is None:
        with np.errstate(over="ignore", invalid="ignore"):
            rung = climb(_rounded(problem), accuracy, bind, reference_tol)
    if rung is not None:
        first = rung.start(rung.first)
    if near is None and reference_tol > accuracy.tol:
        reference = _rough_reference(alone, rung, replace(accuracy, tol=reference_tol))
    if reference is None or bind(problem, reference).violation(reference.theta) == 0.0:  # it may be the answer
        reference = solve(alone, start=first, accuracy=accuracy)
    bound = bind(problem, reference)
    if bound.violation(reference.theta) == 0.0:
        return reference, replace(reference, multipliers=np.zeros(bound.n_rows))
    if near is None:
        second = Start(reference.theta, hessian=reference.hessian)
    if rung is not None:  # with its corner rounded, the hinge loss begins where that rung ends
        second = rung.start_within(bound, reference) if problem.loss.smooth else rung.start(rung.second or rung.first)
    return reference, solve(bound, start=second, accuracy=accuracy)


def _rough_reference(alone: Problem, rung: Rung | None, accuracy: Accuracy) -> Solution | None:
    """Return the unconstrained solution, roughly, where it was found on all rows or is solved by products alone."""
    if rung is None or not alone.loss.smooth:
        return solve(alone, accuracy=accuracy) if prefers_products(alone) else None
    if not rung.is_everybody or rung.first.certificate.status != "solved":
        return None
    return replace(rung.first, scores=rung.first.scores.astype(float), alpha=rung.first.alpha.astype(float))
