"""Solvers for partitioned problems: a start from the sample, then passes over everybody until the gap is proved.

Smooth losses take Newton's method (:mod:`fairmargin.solvers.newton`) with one pass per step. The hinge loss is solved
on the rows near the margin, which are brought to the driver; the loss of everybody else is a straight line as long as
nobody crosses the margin. A straight line lies below the hinge, so that the bound proved for the small problem holds
for the whole one, whoever crossed: the gap on everybody tells whether to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.partitioned.lockstep import run_in_lockstep
from fairmargin.partitioned.passes import NearRows, design_of
from fairmargin.partitioned.problem import PartitionedProblem
from fairmargin.problem import Certificate, Problem, Solution, Status
from fairmargin.solvers import Accuracy, Start, solve, solve_with_reference
from fairmargin.solvers.ladder import Bind
from fairmargin.solvers.newton import solve_newton
from fairmargin.tolerances import HAIR

__all__ = ["SAMPLE", "solve_hinge", "solve_smooth", "solve_together"]

Array = NDArray[np.float64]

SAMPLE = Accuracy(tol=1e-7, max_iter=100)  # of a sample, whose statistical error is far larger
_MOST_ROUNDS = 20  # of near rows and their solution; two or three are enough after a good start
_AT_ONCE = 2  # solvers of the hinge loss at a time: each holds as many rows as the sample has
_WIDER = 2.0  # by which the share of rows near the margin grows where others crossed it


@solve.register
def solve_smooth(
    problem: PartitionedProblem, *, start: Start | None = None, accuracy: Accuracy | None = None
) -> Solution:
    """Solve a partitioned problem: smooth losses here, the hinge loss by :func:`solve_hinge`."""
    accuracy = Accuracy() if accuracy is None else accuracy
    if not problem.loss.smooth:
        return solve_hinge(problem, start, accuracy)
    if start is None:
        start = _start_at(_solve_on_sample(problem))
    elif start.hessian is not None:
        problem = replace(problem, renews=False)
    with np.errstate(over="ignore", invalid="ignore"):
        return solve_newton(problem, start=start, accuracy=replace(accuracy, proof=True))


def _solve_on_sample(problem: PartitionedProblem) -> Solution | None:
    """Return the solution of the same problem on the sample, None where that says nothing."""
    sample = problem.on_sample()
    if abs(sample.y.sum()) == len(sample.y):
        return None
    found = solve(sample, accuracy=SAMPLE)
    return found if np.all(np.isfinite(found.theta)) else None


def _start_at(solution: Solution | None) -> Start | None:
    """Return a start at a solution on the sample; its Hessian is that of the sample and is formed anew."""
    return None if solution is None else Start(solution.theta, solution.multipliers)


def solve_together(problem: PartitionedProblem, jobs: list[Callable[[], Solution]]) -> list[Solution]:
    """Run several solvers of problems on the same rows, which share every pass; with the hinge loss, two by two."""
    if problem.loss.smooth:
        return run_in_lockstep(jobs, problem.passes.evaluate_now)
    pairs = [jobs[k : k + _AT_ONCE] for k in range(0, len(jobs), _AT_ONCE)]
    return [found for pair in pairs for found in run_in_lockstep(pair, problem.passes.near_now)]


@solve_with_reference.register
def solve_in_passes_with_reference(
    problem: PartitionedProblem,
    bind: Bind,
    *,
    near: tuple[Start | None, Start | None] | None = None,
    accuracy: Accuracy | None = None,
    reference_tol: float = 0.0,
) -> tuple[Solution, Solution]:
    """Solve without constraints and under bounds, both in the same passes where the bounds are known beforehand."""
    accuracy = Accuracy() if accuracy is None else accuracy
    rough = replace(accuracy, tol=max(accuracy.tol, reference_tol))
    alone = problem.unconstrained()
    first, second = near or _starts_from_sample(problem, bind)
    guess = None if first is None else bind(problem, _at(first))
    if guess is None or not _same_bounds(guess, bind(problem, _at(Start(np.zeros_like(problem.ridge))))):
        free = solve(alone, start=first, accuracy=accuracy)
        bound = bind(problem, free)
        if bound.violation(free.theta) == 0.0:
            return free, replace(free, multipliers=np.zeros(bound.n_rows))
        return free, solve(bound, start=_shifted(second, first, free), accuracy=accuracy)
    free, solution = solve_together(
        problem,
        [
            lambda: solve(alone, start=first, accuracy=rough),
            lambda: solve(guess, start=second, accuracy=accuracy),
        ],
    )
    if guess.violation(free.theta) == 0.0:  # nothing binds: the reference is the answer
        if not np.any(solution.multipliers):
            free = replace(solution, multipliers=np.zeros(0))
        elif rough.tol > accuracy.tol:
            free = solve(alone, start=Start(free.theta, hessian=free.hessian), accuracy=accuracy)
        return free, replace(free, multipliers=np.zeros(guess.n_rows))
    return free, solution


def _starts_from_sample(problem: PartitionedProblem, bind: Bind) -> tuple[Start | None, Start | None]:
    sample = problem.on_sample()
    if abs(sample.y.sum()) == len(sample.y):
        return None, None
    free, solution = solve_with_reference(sample, bind, accuracy=SAMPLE)
    return _start_at(free), _start_at(solution)


def _at(start: Start) -> Solution:
    """Return a start in the form of a solution, for functions of a solution's coefficients."""
    nothing = np.empty(0)
    return Solution(start.theta, nothing, nothing, nothing, Certificate(0.0, 0.0, 0.0, 0.0))


def _same_bounds(first: Problem, second: Problem) -> bool:
    return bool(np.array_equal(first.lower, second.lower) and np.array_equal(first.upper, second.upper))


def _shifted(second: Start | None, first: Start | None, free: Solution) -> Start:
    """Return the start of the problem under bounds: the error that the sample makes in one it makes in the other."""
    if first is None or second is None:
        return Start(free.theta, hessian=free.hessian)
    return replace(second, theta=second.theta + (free.theta - first.theta))


def solve_hinge(problem: PartitionedProblem, start: Start | None, accuracy: Accuracy) -> Solution:
    """Solve a problem with the hinge loss exactly.

    Each round is one pass: it returns the objective at the present point, which with the bound of the round before
    gives the gap, and the rows near the margin there for the next round.
    """
    first = _solve_on_sample(problem) if start is None else None
    theta = np.zeros_like(problem.ridge) if start is None else start.theta
    if first is not None:
        theta = first.theta
    # About as many rows are near as the sample has.
    share = len(problem.sample.y) / problem.design.shape[0]
    reach, n_iter = 0.0, 0
    bound, multipliers = problem.trivial_bound, np.zeros(problem.n_rows)  # which prove the bound
    best: Solution | None = None
    for _ in range(min(_MOST_ROUNDS, accuracy.max_iter)):
        reach = max(reach, _reach(problem, theta, share))  # where theta has moved, nobody may be as near as before
        near = problem.passes.near(theta, reach)
        value = near.loss + problem.penalty(theta)
        if best is None or _is_better(problem, theta, value, best):
            best = _solution(problem, theta, multipliers, value, bound, n_iter, accuracy)
        else:  # so many crossed the margin that the step was in vain: look at more rows from the best point
            best = _solution(problem, best.theta, multipliers, best.objective, bound, n_iter, accuracy)
            share *= _WIDER
            near = None
        if best.certificate.status == "solved":
            return best
        if near is None:
            theta = best.theta
            reach = max(_WIDER * reach, _reach(problem, theta, share))
            near = problem.passes.near(theta, reach)
        found = solve(
            _restrict(problem, near), start=Start(theta), accuracy=replace(accuracy, tol=0.3 * accuracy.tol)
        )
        del near  # its rows need not be in memory beside those of the next pass
        n_iter += found.certificate.n_iter
        theta = found.theta
        if found.certificate.dual_bound > bound:
            bound, multipliers = found.certificate.dual_bound, found.multipliers
    assert best is not None
    return best


def _is_better(problem: Problem, theta: Array, value: float, best: Solution) -> bool:
    """Whether a point is better than another: one within the bounds is better than one that is not."""
    is_feasible, was_feasible = problem.is_feasible(theta), problem.is_feasible(best.theta)
    return value < best.objective if is_feasible == was_feasible else is_feasible


def _reach(problem: PartitionedProblem, theta: Array, share: float) -> float:
    """Return how near to the margin a share of the rows is: a quantile of the sample, at which many may be at once.

    A hair more, so that rounding leaves none of them out.
    """
    sample = problem.sample
    distance = np.abs(1.0 - sample.y * sample.design.matvec(theta))
    return float(np.quantile(distance, min(share, 1.0)) + HAIR * (1.0 + distance.max()))


def _restrict(problem: PartitionedProblem, near: NearRows) -> Problem:
    """Return the problem of the rows near the margin, the others' losses taken as straight lines."""
    design = problem.design
    return Problem(
        design_of(near.rows.X, design.fit_intercept, design.scale),
        near.rows.y,
        near.rows.loss_weight,
        problem.loss,
        problem.ridge,
        problem.rows,
        problem.lower,
        problem.upper,
        near.tilt if problem.tilt is None else near.tilt + problem.tilt,
        problem.offset + near.offset,
    )


def _solution(
    problem: Problem,
    theta: Array,
    multipliers: Array,
    value: float,
    bound: float,
    n_iter: int,
    accuracy: Accuracy,
) -> Solution:
    gap = problem.relative_gap(value, bound)
    status: Status = "solved" if gap <= accuracy.tol and problem.is_feasible(theta) else "iteration limit"
    proof = Certificate(value, bound, gap, problem.violation(theta), n_iter, status)
    return Solution(theta, multipliers, np.empty(0), np.empty(0), proof)
