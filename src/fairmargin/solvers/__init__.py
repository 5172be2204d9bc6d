"""Solvers: functions from a frozen problem to a solution with its certificate."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fairmargin.problem import Problem, Solution
from fairmargin.solvers.hinge_program import solve_hinge_program
from fairmargin.solvers.interior_point import solve_interior_point
from fairmargin.solvers.multipliers import solve_multipliers
from fairmargin.solvers.newton import (
    SAMPLE_TOL,
    SINGLE_STEPS,
    SINGLE_TOL,
    Start,
    fits_single,
    refined,
    renewed,
    single_tol,
    solve_newton,
    take_sample,
)
from fairmargin.solvers.proximal import solve_proximal

__all__ = ["Start", "few_threads", "fits_single", "refined", "solve", "solve_free_and_bound"]

Array = NDArray[np.float64]
Bind = Callable[[Problem, Solution], Problem]

_SMALL = 20_000_000  # entries of X below which more BLAS threads cost more than they bring


def solve(
    problem: Problem, *, start: Start | None = None, tol: float = 1e-9, max_iter: int = 200, proof: bool = True
) -> Solution:
    """Solve any problem of the package with the solver its loss needs.

    Smooth losses go to Newton's method, the hinge loss to the method of multipliers. Where these do not reach
    ``tol`` other ways are tried, and the best answer of all is returned. Without ``proof`` an estimate of the gap may
    do, for scouting.
    """
    if not problem.loss.smooth and problem.loss.name != "hinge":
        raise ValueError(
            f"The loss {problem.loss!r} is not smooth; of the non-smooth losses only the hinge has a solver."
        )
    with _quietly():
        if problem.loss.smooth:
            best = solve_newton(problem, start=start, tol=tol, max_iter=max_iter, proof=proof)
        else:
            best = solve_multipliers(problem, start=start, tol=tol, max_iter=max_iter)
        for way in _other_ways(problem):
            if best.certificate.status in ("solved", "separable"):
                break
            other = way(problem, tol=tol, max_iter=max_iter)
            if other is not None:
                best = min(best, other, key=lambda s: max(s.certificate.gap, s.certificate.violation))
    return best


def _quietly() -> np.errstate:
    """Return a context for iterates that may leave the range of numbers; the certificate tells how it ended."""
    return np.errstate(over="ignore", invalid="ignore")


def _other_ways(problem: Problem) -> list[Callable[..., Solution | None]]:
    """Return what else can solve the problem: slower, or for special cases."""
    penalised = bool(np.any(problem.ridge))
    if problem.loss.smooth:
        return [] if penalised else [solve_proximal]
    return [solve_interior_point] if penalised else [solve_hinge_program, solve_interior_point]


def solve_free_and_bound(
    problem: Problem,
    bind: Bind,
    *,
    near: tuple[Start | None, Start | None] | None = None,
    tol: float = 1e-9,
    free_tol: float = 0.0,
    max_iter: int = 200,
) -> tuple[Solution, Solution]:
    """Solve a problem without its rows, and then under the bounds that ``bind`` makes of that solution.

    Both are solved on a sample first (recursively), and then in single precision. The errors that a sample makes
    in the two are nearly the same, so that the bound solution starts from the sample's, corrected by the free
    one's error. ``near`` are starts for the two that make samples needless. ``free_tol`` is for the free solution
    where it is only what the other is compared with and people are many: 1e-6, refined, gives its covariances to some
    five digits. Single precision will do for that, and no proof is needed.
    """
    free_problem = problem.unconstrained()
    rough = max(tol, free_tol)
    with _quietly():
        pair = _roughly(problem, bind, (rough, tol), max_iter) if problem.loss.smooth and near is None else None
    if problem.loss.smooth and pair is None:  # few people: accuracy costs little
        rough = tol
    if pair is not None:
        near = (_continue(pair[0], problem), None)
    if pair is not None and _is_enough(pair[0], problem, free_tol):
        free = replace(pair[0], scores=pair[0].scores.astype(float), alpha=pair[0].alpha.astype(float))
    else:
        begin, proof = None if near is None else near[0], rough <= tol
        free = solve(free_problem, start=begin, tol=rough, max_iter=max_iter, proof=proof)
        free = free if proof else refined(free_problem, free)
    if pair is not None:
        start: Start | None = _correct(pair[1], pair[0], free)
    else:
        start = Start(free.theta, hessian=free.hessian) if near is None else near[1]
    bound = bind(problem, free)
    if bound.violation(free.theta) == 0.0 and rough > tol:  # it may be the answer: then at full accuracy
        free = solve(free_problem, start=_continue(free, problem), tol=tol, max_iter=max_iter)
    if bound.violation(free.theta) == 0.0:
        return free, replace(free, multipliers=np.zeros(bound.n_rows))
    return free, solve(bound, start=start, tol=tol, max_iter=max_iter)


def _is_enough(rough: Solution, problem: Problem, free_tol: float) -> bool:
    """Whether a free solution in single precision, without proof, is as good as what it is needed for."""
    return len(rough.scores) == len(problem.y) and free_tol > SINGLE_TOL and rough.certificate.status == "solved"


def _continue(rough: Solution, problem: Problem) -> Start:
    """Return a start at a rough solution, on a sample or on everybody: then it may well be the answer."""
    everybody = len(rough.scores) == len(problem.y)
    return Start(rough.theta, hessian=rough.hessian, after=rough.certificate.n_iter if everybody else None)


def _roughly(
    problem: Problem, bind: Bind, tols: tuple[float, float], max_iter: int
) -> tuple[Solution, Solution] | None:
    """Solve both problems as starts: on a sample, then on everybody in single precision, without proofs."""
    twin = problem.single()
    sample = take_sample(problem if twin is None else twin)
    if sample is None:
        return None
    if twin is None:  # perhaps only because everybody in single precision, too, would be too much memory
        sample = sample.single() or sample
    pair = _on_sample(sample, bind, min(20, max_iter))
    if not _is_finite(pair):
        return None
    if twin is None or not fits_single(pair[0].hessian):
        return pair
    return _rough_pair(twin, bind, pair, (max(tols[0], SINGLE_TOL), single_tol(tols[1])), min(SINGLE_STEPS, max_iter))


def _on_sample(problem: Problem, bind: Bind, max_iter: int) -> tuple[Solution, Solution]:
    """Solve both problems on a sample, starting from a sample of that if it is large."""
    smaller = take_sample(problem)
    before = None if smaller is None else _on_sample(smaller, bind, max_iter)
    if before is not None and not _is_finite(before):
        before = None
    free, bound = _rough_pair(problem, bind, before, (SAMPLE_TOL, SAMPLE_TOL), max_iter)
    slack = bound.theta is free.theta
    free = renewed(problem, free)
    return free, replace(bound, hessian=free.hessian) if slack else renewed(problem, bound)


def _is_finite(pair: tuple[Solution, Solution]) -> bool:
    return all(bool(np.all(np.isfinite(s.theta))) for s in pair)


def _rough_pair(
    problem: Problem, bind: Bind, before: tuple[Solution, Solution] | None, tols: tuple[float, float], max_iter: int
) -> tuple[Solution, Solution]:
    """Return the free and the bound solution without proofs, started from a rougher pair if there is one."""
    quick: dict[str, Any] = {"max_iter": max_iter, "proof": False}
    start = None if before is None else Start(before[0].theta, hessian=before[0].hessian)
    alone = problem.unconstrained()
    free = refined(alone, solve_newton(alone, start=start, tol=tols[0], **quick))
    bound = bind(problem, free)
    if bound.violation(free.theta) == 0.0:
        return free, replace(free, multipliers=np.zeros(bound.n_rows))
    start = Start(free.theta, hessian=free.hessian) if before is None else _correct(before[1], before[0], free)
    return free, refined(bound, solve_newton(bound, start=start, tol=tols[1], **quick))


def _correct(second: Solution, first: Solution, free: Solution) -> Start:
    """Return a start for the bound problem: the sample's bound solution, less the error of its free one."""
    if len(first.scores) == len(free.scores):  # no sample: everybody, in single precision
        return Start(second.theta, second.multipliers, second.hessian, after=second.certificate.n_iter)
    return Start(second.theta + (free.theta - first.theta), second.multipliers, second.hessian)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def few_threads(problem: Problem) -> AbstractContextManager[Any]:
    """Return a context with one BLAS thread for small problems, where more threads only wait for each other."""
    n, p = problem.design.shape
    if n * p > _SMALL:
        return nullcontext()
    return _controller().limit(limits=1, user_api="blas")
