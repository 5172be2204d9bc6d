"""Small dense programs: a linear objective, linear inequalities and at most one ball.

    min q'x   s.t.   G x >= h,   sum_{j in ball} x_j^2 <= R^2

by a primal-dual interior-point method. With row generation on top, n is some fifty and G has some hundreds
of rows; HiGHS takes no ball and, on the linear part alone, no less time for so small a program.

Reference: Boyd and Vandenberghe, Convex Optimization, section 11.7, with Mehrotra's choice of the centring.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmargin.least_squares import least_norm_solution
from fairmargin.solvers.quadratic_step import STEP_SHARE, Factor, longest_step
from fairmargin.tolerances import MOST_ROUNDS, PATIENCE, ROUNDING

__all__ = ["ConeProgram", "solve_program"]

Array = NDArray[np.float64]

_AWAY = 1e-3  # from every boundary, at least, in rows of unit length: where the iteration starts


@dataclass(frozen=True)
class ConeProgram:
    """The data of one program; ``ball`` (n,) masks the coordinates in the ball, ``radius`` is R (inf: no ball)."""

    q: Array
    G: Array
    h: Array
    ball: NDArray[np.bool_]
    radius: float = np.inf

    def scaled(self) -> tuple[ConeProgram, Array]:
        """Return the same program for ``y`` with ``x = T y``, better conditioned, and ``T`` (n, n).

        Rows are of unit length and the ball has radius one. Coordinates that are neither in the ball nor in the
        objective (an intercept) take over what columns have in common with theirs: features far from zero are nearly
        the intercept's column otherwise.
        """
        G = self.G / _length(self.G, axis=1)[:, None]
        has_ball = bool(np.isfinite(self.radius))
        unit = np.where(self.ball, self.radius if has_ball else 1.0, 1.0 / _length(G, axis=0))
        T = np.diag(unit)
        free = ~self.ball & (self.q == 0)
        if np.any(free):
            T[np.ix_(free, self.ball)] = -least_norm_solution(G[:, free], G[:, self.ball]) * unit[self.ball]
        G = self.G @ T
        size = _length(G, axis=1)
        return ConeProgram(
            T.T @ self.q, G / size[:, None], self.h / size, self.ball, 1.0 if has_ball else self.radius
        ), T


def _length(G: Array, axis: int) -> Array:
    """Return the length of rows or columns, 1 for those of zeros."""
    size = np.sqrt(np.sum(G * G, axis=axis))
    return np.where(size > 0, size, 1.0)


def solve_program(program: ConeProgram, start: Array, tol: float = 10 * ROUNDING) -> tuple[Array, float]:
    """Return a minimiser, from any start, and its largest residual: ``tol``, or as near to that as it gets."""
    if program.radius == 0.0:
        return _outside_of_the_ball(program, start, tol)
    program, T = program.scaled()
    has_ball = bool(np.isfinite(program.radius))
    x = np.linalg.solve(T, start).astype(np.float64)
    m = len(program.h) + has_ball
    s, multipliers = _central_start(program, x, has_ball)
    best, best_error, stalled = x.copy(), np.inf, 0
    for _ in range(MOST_ROUNDS):
        G, missed, dual = _linearise(program, x, s, multipliers, has_ball)
        mu = float(s @ multipliers) / m
        error = max(float(np.abs(missed).max()), float(np.abs(dual).max()), mu * m)
        stalled = 0 if error < 0.5 * best_error else stalled + 1
        if error < best_error:
            best, best_error = x.copy(), error
        if error <= tol or (stalled >= PATIENCE and mu <= tol):
            break
        factor = Factor(_matrix(program, G, s, multipliers, has_ball))
        affine = _step(factor, G, missed, dual, s, multipliers, -s * multipliers)
        length = min(longest_step(s, affine[1]), longest_step(multipliers, affine[2]), 1.0)
        after = float((s + length * affine[1]) @ (multipliers + length * affine[2])) / m
        target = (after / mu) ** 3 * mu - s * multipliers - affine[1] * affine[2]
        dx, ds, dm = _step(factor, G, missed, dual, s, multipliers, target)
        primal, dual_length = (
            min(1.0, STEP_SHARE * longest_step(s, ds)),
            min(1.0, STEP_SHARE * longest_step(multipliers, dm)),
        )
        if has_ball:  # curvature couples x and the multipliers
            primal = dual_length = min(primal, dual_length)
        if not np.all(np.isfinite(dx)) or max(primal, dual_length) < ROUNDING:
            break
        x, s, multipliers = x + primal * dx, s + primal * ds, multipliers + dual_length * dm
    return T @ best, best_error


def _outside_of_the_ball(program: ConeProgram, start: Array, tol: float) -> tuple[Array, float]:
    """Return a minimiser where the ball is a point: its coordinates are zero, the others are left."""
    left = ~program.ball
    x = np.zeros(len(start))
    rest = ConeProgram(program.q[left], program.G[:, left], program.h, np.zeros(int(left.sum()), dtype=bool))
    x[left], error = solve_program(rest, start[left], tol)
    return x, error


def _central_start(program: ConeProgram, x: Array, has_ball: bool) -> tuple[Array, Array]:
    """Return slacks and multipliers of equal products, large enough to carry the whole objective."""
    s = np.maximum(_residual(program, x, has_ball), _AWAY)
    G, _, _ = _linearise(program, x, s, 1.0 / s, has_ball)
    pull = G.T @ (1.0 / s)
    mu = float(program.q @ program.q) / max(float(program.q @ pull), _AWAY)
    return s, mu / s


def _residual(program: ConeProgram, x: Array, has_ball: bool) -> Array:
    """Return the slack of every constraint, the ball's last."""
    slack = program.G @ x - program.h
    if has_ball:
        inside = program.radius**2 - float(np.sum(x[program.ball] ** 2))
        slack = np.append(slack, 0.5 * inside / program.radius)
    return slack


def _linearise(
    program: ConeProgram, x: Array, s: Array, multipliers: Array, has_ball: bool
) -> tuple[Array, Array, Array]:
    """Return the constraints' Jacobian, what the slacks miss, and the dual residual."""
    G = program.G
    if has_ball:
        G = np.vstack([G, -np.where(program.ball, x, 0.0) / program.radius])
    return G, _residual(program, x, has_ball) - s, program.q - G.T @ multipliers


def _matrix(program: ConeProgram, G: Array, s: Array, multipliers: Array, has_ball: bool) -> Array:
    H = G.T @ (G * (multipliers / s)[:, None])
    if has_ball:
        H[np.diag_indices_from(H)] += np.where(program.ball, multipliers[-1] / program.radius, 0.0)
    return H


def _step(
    factor: Factor, G: Array, missed: Array, dual: Array, s: Array, multipliers: Array, target: Array
) -> tuple[Array, Array, Array]:
    right = -dual + G.T @ ((target - multipliers * missed) / s)
    dx = factor.solve(right)
    ds = G @ dx + missed
    return dx, ds, (target - multipliers * ds) / s
