"""Newton's method for the multinomial problem under linear constraints.

Each iteration evaluates the objective and a dual bound (one pass ``Xa' R``), minimises the quadratic model over the
constraints (:func:`fairmargin.solvers.quadratic_step.constrained_step`) and searches along the step. Most of the
descent runs on nested subsamples, each six times larger; a Hessian is formed in single precision where it is well
conditioned, and kept while steps with it are fast.

Reference: Nocedal and Wright, Numerical Optimization, 2nd edition, chapter 18 (SQP).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmargin.multiclass.objective import MultinomialPoint
from fairmargin.multiclass.problem import MultinomialProblem
from fairmargin.problem import Certificate, Status
from fairmargin.solvers.quadratic_step import (
    DAMPING,
    LEAST_SHIFT,
    Factor,
    constrained_step,
    find_flat,
    solve_active_rows,
)
from fairmargin.tolerances import PATIENCE, ROUGH

__all__ = ["SUBSAMPLE_GAP", "MultinomialSolution", "solve_multinomial", "subsample"]

Array = NDArray[np.float64]

_SINGLE_PIVOT = 1e-4  # smallest pivot of a scaled Hessian for which sums in float32 leave two digits everywhere
_LARGER = 6  # times the rows of one subsample that the next one has
_ROWS_PER_COORDINATE = 20  # of a subsample whose optimum is near that of all rows
SUBSAMPLE_GAP = 1e-2  # relative gap to which a subsample is solved: its optimum is no nearer to that of all rows
_FAST = 0.03  # share of the gap that a step with a kept Hessian may leave before a new one is formed
_FINEST = 1e-14  # relative gap below which there is only rounding
_REFINEMENTS = 3  # steps at most after the tolerance is reached, each without a new Hessian
_ENOUGH = 0.3  # of the slope, as a decrease over a full step: a quadratic has half of it
_FLAT = 0.5  # share of the first slope that may be left at the end of a full step
_CLOSE = 1e-3  # relative gap below which what the intercepts are off shows in it
_NEAR = 1e-2  # share of the mass in the wrong class above which other parts of the gap are larger


@dataclass(frozen=True)
class MultinomialSolution:
    """A point, its multipliers (one per row of B), their proof, and the factored Hessian last used."""

    point: MultinomialPoint
    multipliers: Array
    certificate: Certificate
    factor: Factor | None = None

    @property
    def phi(self) -> Array:
        """The coordinates of the point."""
        return self.point.phi


def solve_multinomial(
    problem: MultinomialProblem,
    *,
    start: MultinomialSolution | None = None,
    tol: float = 1e-9,
    max_iter: int = 200,
) -> MultinomialSolution:
    """Solve to a relative duality gap of ``tol``; ``certificate.status`` says how it ended.

    A solution is taken a few steps further with the Hessian at hand where that helps, so that decisions depend far
    less on rounding than the tolerance would allow.
    """
    loop = _Loop(problem, tol, _begin(problem, start, max_iter), start)
    progress, ending = _Progress(), None
    before = 0 if start is None else start.certificate.n_iter  # steps that led to the start count too
    for n_iter in range(before, before + max_iter + 1):
        proof = problem.certify(loop.point, loop.multipliers, tol, n_iter, "iteration limit")
        here = MultinomialSolution(loop.point, loop.multipliers, proof, loop.factor)
        if proof.status == "solved":
            return loop.refined(here) if tol < ROUGH else here
        gap = proof.gap if problem.is_feasible(here.phi) else np.inf  # of a point that may be returned
        progress.note(here, gap)
        ending = _reason_to_stop(problem, here, progress.stalled)
        if ending is not None or not loop.advance(gap):
            break
    assert progress.best is not None
    return _ended(progress.best, ending or "inaccurate", n_iter, before + max_iter)


class _Progress:
    """The best solution so far, and the number of iterations since one was clearly better."""

    def __init__(self) -> None:
        self.best: MultinomialSolution | None = None
        self._least, self.stalled = np.inf, 0

    def note(self, here: MultinomialSolution, gap: float) -> None:
        """Compare the solution of an iteration with the best one; ``gap`` is infinite where it is not feasible."""
        best = self.best
        has_descended = best is None or here.point.value < best.point.value - here.point.rounding
        self.stalled = 0 if has_descended or gap < 0.5 * self._least else self.stalled + 1
        if has_descended or gap <= self._least:
            self.best, self._least = here, gap


def _ended(best: MultinomialSolution, ending: Status, n_iter: int, limit: int) -> MultinomialSolution:
    proof = best.certificate
    status: Status = "iteration limit" if n_iter >= limit and ending == "inaccurate" else ending
    proof = Certificate(proof.objective, proof.dual_bound, proof.gap, proof.violation, n_iter, status)
    return MultinomialSolution(best.point, best.multipliers, proof, best.factor)


def _reason_to_stop(problem: MultinomialProblem, here: MultinomialSolution, stalled: int) -> Status | None:
    value = here.point.value
    f = problem.objective
    if not np.any(f.ridge) and not f.is_soft and value <= 1e-12 * f.at_zero:
        return "separable"
    if stalled > PATIENCE or not np.isfinite(value):
        return "inaccurate"
    return None


def _begin(problem: MultinomialProblem, start: MultinomialSolution | None, max_iter: int) -> Array:
    """Return where to begin: the start given, the optimum of a subsample, or zero."""
    if start is not None:
        return start.phi
    part = subsample(problem)
    if part is None:
        return np.zeros(problem.objective.size)
    return solve_multinomial(part, tol=SUBSAMPLE_GAP, max_iter=max_iter).phi


def subsample(problem: MultinomialProblem) -> MultinomialProblem | None:
    """Return the problem on a sample of the rows whose optimum is near that of all; None where they are too few."""
    n = problem.objective.masses.shape[1]
    fewer = n // _LARGER
    if fewer < _ROWS_PER_COORDINATE * problem.objective.size:
        return None
    part = problem.take(np.sort(np.random.default_rng(0).permutation(n)[:fewer]))
    return part if np.all(part.objective.class_masses > 0) else None


class _Loop:
    """The point, its multipliers and the model of ``L``, from iteration to iteration."""

    def __init__(
        self, problem: MultinomialProblem, tol: float, phi: Array, start: MultinomialSolution | None
    ) -> None:
        self.problem, self.objective, self.tol = problem, problem.objective, tol
        self.factor = None if start is None else start.factor
        self._shift, self._in_single, self._is_fresh = LEAST_SHIFT, True, False
        self._last_gap: float | None = None
        self.multipliers = np.zeros(problem.n_rows)
        is_known = start is not None and start.point.objective is self.objective
        self.point = start.point if start is not None and is_known else self._evaluated(phi)
        zero = np.zeros_like(phi)
        if self.point.value > self.objective.at_zero and problem.is_feasible(zero):
            self.point, self.factor = self._evaluated(zero), None

    def _evaluated(self, phi: Array) -> MultinomialPoint:
        return self._complete(self.objective.evaluate(phi, self.objective.class_scores(phi)))

    def _complete(self, point: MultinomialPoint) -> MultinomialPoint:
        if self._last_gap is None or self._last_gap <= _CLOSE:
            point = centre_intercepts(self.problem, point, self.tol)
        return self.objective.add_gradient(point)

    def advance(self, gap: float) -> bool:
        """Take one step from a point of this gap, infinite where it is not feasible; return whether there was one."""
        last = self._last_gap
        if self.factor is None or (last is not None and not (last < np.inf and gap <= _FAST * last)):
            # Close to the optimum a fresh Hessian is slow only where it has too few digits.
            self._renew(is_slow=self._is_fresh and last is not None and last <= _CLOSE and gap > 0.5 * last)
        else:
            self._is_fresh = False
        self._last_gap = gap
        while True:
            assert self.factor is not None
            step, multipliers = self._step(self.point)
            trial = search_step(self.problem, self.point, step, gap < np.inf)
            if trial is not None:
                break
            if not self._strengthen():
                return False
        self._shift = max(self._shift / DAMPING, LEAST_SHIFT)
        self.point, self.multipliers = self._complete(trial), multipliers
        return True

    def _step(self, point: MultinomialPoint) -> tuple[Array, Array]:
        """Return the step of the model from a point, and the multipliers of all rows."""
        assert self.factor is not None
        equalities = self.problem.equalities
        if equalities is None:
            return constrained_step(self.problem, point.phi, point.gradient, self.factor)
        step, found = equality_step(equalities.rows, equalities.values, point.phi, point.gradient, self.factor)
        return step, equalities.share @ found

    def refined(self, solution: MultinomialSolution) -> MultinomialSolution:
        """Return the solution a few steps further, until these stop helping."""
        for _ in range(_REFINEMENTS):
            proof, phi = solution.certificate, solution.phi
            if self.factor is None or proof.gap <= _FINEST:
                break
            step, multipliers = self._step(solution.point)
            point = self._evaluated(phi + step)
            further = self.problem.certify(point, multipliers, self.tol, proof.n_iter, "inaccurate")
            if further.status != "solved" or further.gap > proof.gap:
                break
            solution = MultinomialSolution(point, multipliers, further, self.factor)
        return solution

    def _renew(self, is_slow: bool) -> None:
        """Form the Hessian of the point, in single precision where that is accurate enough."""
        self._in_single = self._in_single and not is_slow
        self._is_fresh = True
        if self._in_single:
            hessian = self.objective.hessian(self.point, single=True)
            if np.all(np.isfinite(hessian)):
                self.factor = Factor(hessian, self._shift)
                if self.factor.pivot >= _SINGLE_PIVOT:
                    return
            self._in_single = False
        self.factor = Factor(self.objective.hessian(self.point), self._shift)

    def _strengthen(self) -> bool:
        """Prepare for another try after a step that led nowhere; return whether anything is left to try."""
        if self._is_fresh and not self._in_single:
            self._shift *= DAMPING
            if self._shift > 1.0:
                return False
        self._renew(is_slow=self._is_fresh)
        return True


def equality_step(rows: Array, values: Array, phi: Array, gradient: Array, factor: Factor) -> tuple[Array, Array]:
    """Return the step to the minimum of the quadratic model where ``rows @ phi = values``, and its multipliers.

    The rows are independent, so that this takes no search. The second round removes the rounding of the first.
    """
    step = -factor.solve(gradient)
    lifted = factor.solve(rows.T)
    M = rows @ lifted
    multipliers = np.zeros(len(rows))
    for _ in range(2):
        more = solve_active_rows(M, rows @ (phi + step), values, np.ones(len(rows), dtype=bool))
        step, multipliers = step - lifted @ more, multipliers + more
    return step, multipliers


def search_step(
    problem: MultinomialProblem, point: MultinomialPoint, step: Array, is_feasible: bool
) -> MultinomialPoint | None:
    """Return the next point without its gradient; None where the step does not lead downhill.

    The full step where it decreases ``L`` and is not far too long; else about the minimum before it. From a point
    that is not feasible the full step, which ends within the constraints, is taken as it is.
    """
    f = problem.objective
    change = f.class_scores(step)
    full = f.evaluate(point.phi + step, point.scores + change)
    first = float(point.gradient @ step)
    if not is_feasible or abs(first) <= point.rounding:
        return full
    if first > 0:
        return None

    def at(t: float) -> MultinomialPoint:
        return f.evaluate(point.phi + t * step, point.scores + t * change)

    def slope_of(trial: MultinomialPoint) -> float:
        residual = f.weight * trial.probabilities - f.masses
        return float(np.einsum("qi,qi->", residual, change)) + float((f.all_ridge * trial.phi) @ step)

    if full.value <= point.value + _ENOUGH * first:
        return full
    end = slope_of(full)
    if full.value <= point.value + point.rounding and end <= _FLAT * abs(first):
        return full
    if end <= 0:
        return None
    length = find_flat(lambda t: slope_of(at(t)), first, 0.0, first, 1.0, end)
    return at(length) if length > 0 else None


def centre_intercepts(problem: MultinomialProblem, point: MultinomialPoint, tol: float) -> MultinomialPoint:
    """Return the point after one Newton step of the intercepts alone: no pass over the data.

    The dual bound loses about what the classes' masses are off, and is quadratic in everything else.
    """
    f = problem.objective
    if not f.has_free_intercept:
        return point
    off = f.imbalance(point)
    mass = f.total
    size = float(np.abs(off).max())
    if size <= 0.01 * tol * problem.gap_unit(point.value) or size > _NEAR * mass:
        return point
    weighted = f.weight * point.probabilities
    curve = np.diag(weighted.sum(axis=1)) - weighted @ point.probabilities.T
    U = f.basis
    move = -Factor(U.T @ curve @ U).solve(U.T @ off)
    phi = point.phi.copy().reshape(f.shape)
    phi[:, -1] += move
    moved = f.evaluate(phi.ravel(), point.scores + (U @ move)[:, None])
    return moved if np.abs(f.imbalance(moved)).max() < size else point
