"""Good starts for large problems: nested subsamples, then all rows in single precision.

Most of the descent from zero runs on subsamples, each six times larger than the one before; the largest have a
Hessian close to the full one. Where no direction is too flat for it, samples and the first steps on all rows are in
single precision: the duality gap is quadratic in the error of the gradient, so that the seven digits of float32
bring it close to 1e-9. What a rung of this ladder returns is a start and proves nothing; the last steps and every
certificate are computed in float64 by the solver itself.

Two linked problems (one without constraints, and one under bounds made from its solution) climb together: a
sample's errors in the two are nearly the same, so that the second starts from its own solution on the rung before,
corrected by the error that the first turned out to have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.problem import Problem, Solution
from fairmargin.solvers.contract import Accuracy, Start
from fairmargin.solvers.curvature import form_hessian, is_well_conditioned
from fairmargin.solvers.evaluation import evaluate
from fairmargin.solvers.matrix_free import prefers_products
from fairmargin.solvers.newton import solve_newton
from fairmargin.solvers.quadratic_step import Factor, constrained_step, is_definite

__all__ = ["Bind", "Rung", "climb", "in_single_precision", "start_near"]

Array = NDArray[np.float64]
Bind = Callable[[Problem, Solution], Problem]  # from a problem and its unconstrained solution to the one under bounds

_SHRINK = 6  # rows per row of the next smaller sample
_LEAST_ROWS = 3000  # of a sample; below, solving the whole problem takes no longer
_ROWS_PER_COLUMN = 20  # from which a sample's optimum is closer to the full one than zero is
# Rows per column from which a sample hands on its Hessian. It is off by some 2 / sqrt(100) = 20% then, so that a step
# of a larger rung leaves 4% of the gap.
_LIKE_ALL = 100
_SAMPLE = Accuracy(tol=1e-2, max_iter=20, proof=False)  # its statistical error is larger than that
_SINGLE_FLOOR = 1e-8  # relative gap near which the rounding of float32 shows


@dataclass(frozen=True)
class Rung:
    """Solutions on one rung: of the problem alone, or of it without constraints and under bounds."""

    first: Solution
    second: Solution | None = None
    is_everybody: bool = False  # all rows, in single precision

    def start(self, solution: Solution) -> Start:
        """Return a start at one of the two solutions, for the whole problem."""
        n_iter = solution.certificate.n_iter if self.is_everybody else 0
        return replace(start_near(solution), n_iter=n_iter)

    def start_within(self, bound: Problem, reference: Solution) -> Start:
        """Return a start for the problem under bounds made of ``reference``, which is nearer than ``first``.

        The error that a rung makes in one problem, and in its Hessian, it makes in the other. To first order in what
        is left, and in how far the bounds have moved, the solution is that of a quadratic model with the gradient
        ``-A' nu``.
        """
        if self.second is None:
            return Start(reference.theta, hessian=reference.hessian)
        start = self.start(self.second)
        theta = start.theta + (reference.theta - self.first.theta)
        nu, hessian = self.second.multipliers, start.hessian
        if hessian is None or not np.all(np.isfinite(hessian)):
            return replace(start, theta=theta)
        hessian = _corrected(hessian, self.first.hessian, reference.hessian)
        start = replace(start, hessian=hessian)
        step, multipliers = constrained_step(bound, theta, -nu @ bound.rows, Factor(hessian))
        return replace(start, theta=theta + step, multipliers=multipliers)

    @property
    def is_finite(self) -> bool:
        """Whether the solutions are numbers."""
        return all(np.all(np.isfinite(s.theta)) for s in (self.first, self.second) if s is not None)


def climb(problem: Problem, accuracy: Accuracy, bind: Bind | None = None, reference_tol: float = 0.0) -> Rung | None:
    """Return approximate solutions to start from, or None where the data are too few for a ladder.

    Without ``bind`` the problem is solved as it is; with it, first without its constraints (to ``reference_tol`` at
    most, where given) and then under the bounds that ``bind`` makes of that solution.
    """
    if _sample_size(problem) is None:
        return None
    whole = problem.single()
    rung: Rung | None = None
    for sample in _samples(problem, whole):
        goal = replace(_SAMPLE, max_iter=min(_SAMPLE.max_iter, accuracy.max_iter))
        rung = _share_hessian(sample, _solve_rung(sample, bind, rung, (goal, goal)))
        if not rung.is_finite:
            return None
    if rung is None or whole is None or not is_well_conditioned(rung.first.hessian):
        return rung
    goal = Accuracy(max(accuracy.tol, _SINGLE_FLOOR), min(_SAMPLE.max_iter, accuracy.max_iter), proof=False)
    first = replace(goal, tol=max(goal.tol, reference_tol))
    top = replace(_solve_rung(whole, bind, rung, (first, goal)), is_everybody=True)
    return top if top.is_finite else rung


def in_single_precision(problem: Problem, near: Solution) -> tuple[Problem, Solution] | None:
    """Return a problem and a solution near its own in single precision; None where that is not accurate enough.

    The solution is returned with a Hessian, that of the problem if it has none.
    """
    if near.hessian is None and not prefers_products(problem):
        near = _with_hessian(problem, near)
    twin = problem.single() if is_well_conditioned(near.hessian) else None
    if twin is None:
        return None
    vectors: dict[str, Any] = {k: getattr(near, k).astype(np.float32) for k in ("scores", "alpha")}
    return twin, replace(near, **vectors)


def _samples(problem: Problem, whole: Problem | None) -> list[Problem]:
    """Return nested subsamples from the smallest to the largest, in single precision where that is possible."""
    samples: list[Problem] = []
    sample = _take_sample(problem if whole is None else whole)
    if sample is not None and whole is None:  # perhaps only because all rows would be too much memory
        sample = sample.single() or sample
    while sample is not None:
        samples.insert(0, sample)
        sample = _take_sample(sample)
    return samples


def _take_sample(problem: Problem) -> Problem | None:
    """Return the problem on a sixth of the rows, or None where these are too few to be of use."""
    size = _sample_size(problem)
    if size is None:
        return None
    sample = problem.take(_spread(problem.design.shape[0], size))
    return None if abs(sample.y.sum()) == size else sample  # one class alone has no optimum


def _sample_size(problem: Problem) -> int | None:
    n, p = problem.design.shape
    size = n // _SHRINK
    return size if size >= max(_LEAST_ROWS, _ROWS_PER_COLUMN * p) else None


def _spread(n: int, size: int) -> NDArray[np.intp]:
    """Return ``size`` of ``n`` indices, one drawn from each of ``size`` equal stretches; always the same."""
    jitter = np.random.default_rng(0).random(size)
    return np.floor((np.arange(size) + jitter) * (n / size)).astype(np.intp)


def _solve_rung(
    problem: Problem, bind: Bind | None, below: Rung | None, accuracies: tuple[Accuracy, Accuracy]
) -> Rung:
    alone = problem if bind is None else problem.unconstrained()
    start = None if below is None else start_near(below.first)
    first = solve_newton(alone, start=start, accuracy=accuracies[0])
    if bind is None:
        return Rung(first)
    bound = bind(problem, first)
    if bound.violation(first.theta) == 0.0:
        return Rung(first, replace(first, multipliers=np.zeros(bound.n_rows)))
    start = Start(first.theta, hessian=first.hessian) if below is None else below.start_within(bound, first)
    return Rung(first, solve_newton(bound, start=start, accuracy=accuracies[1]))


def _with_hessian(problem: Problem, solution: Solution) -> Solution:
    """Return a solution with the Hessian of a problem there."""
    point = evaluate(problem, solution.theta, solution.scores)
    return replace(solution, hessian=form_hessian(problem, point, single=True))


def start_near(solution: Solution) -> Start:
    """Return a start at a solution of nearly the same problem, on other rows perhaps: without dual variables."""
    return Start(solution.theta, solution.multipliers, solution.hessian)


def _corrected(hessian: Array, there: Array | None, here: Array | None) -> Array:
    """Return a Hessian of one rung, corrected by the difference of another problem's from the rung to here.

    It stays as it is where the difference would take more than half of the curvature in some direction.
    """
    if there is None or here is None:
        return hessian
    change = here - there
    return hessian + change if is_definite(0.5 * hessian + change) else hessian


def _share_hessian(sample: Problem, rung: Rung) -> Rung:
    """Return the rung with Hessians at its solutions, where larger rungs, on more rows, gain by them."""
    n, p = sample.design.shape
    if n < _LIKE_ALL * p or not rung.is_finite:
        return rung

    first = _with_hessian(sample, rung.first)
    if rung.second is None or rung.second.theta is rung.first.theta:
        return replace(rung, first=first, second=None if rung.second is None else replace(first))
    return replace(rung, first=first, second=_with_hessian(sample, rung.second))
