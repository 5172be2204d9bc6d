"""The step of Newton's method under a few linear constraints, and the small dense algebra it takes.

The quadratic model of ``L`` at ``theta`` with Hessian ``H`` and gradient ``g`` is minimised over ``lower <= A theta
<= upper``. With ``H`` factored once, that is a dual problem in K unknowns (:func:`solve_box_dual`):

    M = A H^-1 A',  q = A (theta - H^-1 g),  nu from (M, q, bounds),  step = -H^-1 (g + A' nu).

Under many rows, as promises to people are, ``M`` is nearly singular and the search takes long; with ``H = L L'`` the
same step is the point of a polyhedron that is nearest to the unconstrained one
(:func:`fairmargin.solvers.nearest_point.nearest_point`), found without ``M``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv, dpotrf, dpotrs, dtrtrs

from fairmargin.least_squares import least_norm_solution
from fairmargin.solvers.nearest_point import nearest_point
from fairmargin.tolerances import HAIR, MOST_ROUNDS, ROUNDING, TINY

__all__ = [
    "DAMPING",
    "LEAST_SHIFT",
    "STEP_SHARE",
    "Diagonal",
    "Factor",
    "LinearRows",
    "constrained_step",
    "find_flat",
    "is_definite",
    "longest_step",
    "solve_active_rows",
    "solve_box_dual",
]

Array = NDArray[np.float64]

LEAST_SHIFT = 1e-13  # about 1000 roundings of a unit diagonal: collinear columns still have a factor
DAMPING = 1000.0  # by which a shift grows where a step failed, and shrinks where one succeeded
STEP_SHARE = 0.99  # of the way to the boundary that a step of an interior-point method goes
_FEW_ROWS = 20  # up to which the search among them is as fast, and shares multipliers of dependent rows evenly
_FLAT = 0.1  # share of a step's slope that may be left where a line search ends
_PART = 1e-3  # of an interval that a search leaves on either side, and below which it ends


class LinearRows(Protocol):
    """The linear constraints ``lower <= A theta <= upper`` of a problem, whatever its objective is."""

    @property
    def rows(self) -> Array:
        """The matrix ``A``, (K, p)."""
        ...

    @property
    def lower(self) -> Array:
        """Lower bounds, (K,)."""
        ...

    @property
    def upper(self) -> Array:
        """Upper bounds, (K,)."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of constraints K."""
        ...


class Factor:
    """Cholesky factor of a positive semidefinite matrix, equilibrated and minimally shifted.

    The matrix is scaled to a unit diagonal first, so that badly scaled columns lose no digits, and shifted by
    ``shift`` (relative) so that collinear columns have a factor at all. In Newton's method the shift is a proximal
    term: it damps steps where there is no curvature and leaves the solution where it is. ``pivot``, the smallest
    pivot of the scaled matrix, tells how large an error in the matrix would still be harmless.
    """

    def __init__(self, matrix: Array, shift: float = LEAST_SHIFT) -> None:
        diagonal = matrix.diagonal()
        self._scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scaled = np.multiply(matrix, self._scale, order="C")
        scaled *= self._scale[:, None]
        here = scaled.reshape(-1)[:: len(scaled) + 1]  # a view of the diagonal
        base = here.copy()
        while True:
            here[:] = base + shift
            self._factor, info = dpotrf(scaled, lower=1)
            if info == 0:
                self.pivot = float(self._factor.diagonal().min()) ** 2
                return
            if not np.all(np.isfinite(scaled)) or shift > 1.0:
                raise np.linalg.LinAlgError("The matrix has no Cholesky factor, whatever is added to its diagonal.")
            shift *= DAMPING

    def solve(self, right: Array) -> Array:
        """Return ``matrix^-1 right`` for a vector or several columns."""
        scale = self._scale if right.ndim == 1 else self._scale[:, None]
        return scale * dpotrs(self._factor, scale * right, lower=1)[0]

    def whiten(self, right: Array) -> Array:
        """Return ``L^-1 right`` for several columns, where ``matrix = L L'``."""
        return dtrtrs(self._factor, self._scale[:, None] * right, lower=1)[0]

    def unwhiten(self, vector: Array) -> Array:
        """Return ``L'^-1 vector``."""
        return self._scale * dtrtrs(self._factor, vector, lower=1, trans=1)[0]


def is_definite(matrix: Array) -> bool:
    """Whether a symmetric matrix is positive definite."""
    return bool(dpotrf(matrix, lower=1)[1] == 0)


class Diagonal:
    """A diagonal matrix, in the place of a factored one."""

    def __init__(self, entries: Array) -> None:
        self._entries = entries

    def solve(self, right: Array) -> Array:
        """Return ``matrix^-1 right`` for a vector or several columns."""
        return right / (self._entries if right.ndim == 1 else self._entries[:, None])

    def whiten(self, right: Array) -> Array:
        """Return ``L^-1 right`` for several columns, where ``matrix = L L'``."""
        return right / np.sqrt(self._entries)[:, None]

    def unwhiten(self, vector: Array) -> Array:
        """Return ``L'^-1 vector``."""
        return vector / np.sqrt(self._entries)


def constrained_step(
    problem: LinearRows, theta: Array, gradient: Array, factor: Factor | Diagonal
) -> tuple[Array, Array]:
    """Return the step to the minimum of the quadratic model over the rows of A, and its multipliers."""
    newton = -factor.solve(gradient)
    if not problem.n_rows:
        return newton, np.zeros(0)
    q = problem.rows @ (theta + newton)
    if np.count_nonzero(problem.lower < problem.upper) > max(_FEW_ROWS, problem.n_rows - 1):
        found = nearest_point(factor.whiten(problem.rows.T), problem.lower - q, problem.upper - q)
        if found is not None:
            return newton + factor.unwhiten(found[0]), found[1]
    lifted = factor.solve(problem.rows.T)
    M = problem.rows @ lifted
    M = 0.5 * (M + M.T)
    multipliers = solve_box_dual(M, q, problem.lower, problem.upper)
    step = newton - lifted @ multipliers
    # One round of iterative refinement removes the rounding of the solves from the constraints.
    value = problem.rows @ (theta + step)
    if np.any(value > problem.upper) or np.any(value < problem.lower):
        correction = solve_box_dual(M, np.zeros_like(value), problem.lower - value, problem.upper - value)
        step, multipliers = step - lifted @ correction, multipliers + correction
    return step, multipliers


def longest_step(value: Array, change: Array) -> float:
    """Return the largest t with ``value + t change >= 0`` where ``value > 0``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steepest = float(np.max(np.where(value > 0, -change / value, -np.inf), initial=-np.inf))
    return 1.0 / steepest if steepest > 0 else np.inf


def find_flat(
    slope: Callable[[float], float], first: float, low: float, at_low: float, high: float, at_high: float
) -> float:
    """Return ``t`` near the root of an increasing ``slope``, below the root: downhill all the way.

    ``first < 0`` is the slope at 0, ``at_low < 0 < at_high`` are those at ``0 <= low < high``; a tenth of the first
    is near enough to zero. Regula falsi with the Illinois rule, and every third time a bisection (geometric, since
    the root may be orders of magnitude below ``high``). Returns 0 where no ``t > 0`` with a negative slope was found.
    """
    for k in range(1, MOST_ROUNDS):
        if k % 3:
            t = low - at_low * (high - low) / (at_high - at_low)
        else:
            t = sqrt(low * high) if low > 0 else _PART * high
        rim = _PART * (high - low)
        t = min(max(t, low + rim), high - rim)
        here = slope(t)
        if here < 0:
            low, at_low, at_high = t, here, 0.5 * at_high
        else:
            high, at_high, at_low = t, here, 0.5 * at_low
        if low > 0 and (_FLAT * first <= here < 0 or high - low <= _PART * low):
            break
    return low


def solve_box_dual(M: Array, q: Array, lower: Array, upper: Array) -> Array:
    """Return ``nu`` with ``v = q - M nu`` in ``[lower, upper]`` and complementarity.

    ``nu_k > 0`` only where ``v_k = upper_k``, ``nu_k < 0`` only where ``v_k = lower_k``: the multipliers of
    ``min 1/2 (v - q)' M^-1 (v - q)`` over the box. M (K, K) is positive semidefinite and often singular: the
    categories of one attribute sum to a constant, and there may be more rows than features. So this is the proximal
    point method from zero: each round solves with ``M + eps I``, which has one solution, and the rounds end with the
    multiplier shared evenly among dependent rows (nearly least norm). Every row is scaled by its own diagonal entry,
    so that the units of an attribute do not matter; a row of zeros cannot be moved and gets no multiplier.
    """
    if len(q) == 1:
        reach = q - np.minimum(np.maximum(q, lower), upper)
        return reach / M[0] if M[0, 0] > 0 else np.zeros(1)
    first = _solve_independent_rows(M, q, lower, upper)
    if first is not None:
        return first
    nu = np.zeros(len(q))
    width = np.sqrt(np.maximum(np.diag(M), 0.0))
    alive = np.flatnonzero(width > 0)
    if len(alive) == 0:
        return nu
    size = width[alive]
    scaled = M[np.ix_(alive, alive)] / size / size[:, None]
    q, lower, upper = q[alive] / size, lower[alive] / size, upper[alive] / size
    reach = np.abs(q) + np.abs(q - np.clip(q, lower, upper))
    slack = LEAST_SHIFT * (reach + reach.max() / 10) + TINY
    missed = np.inf
    moved, eps = np.zeros(len(alive)), ROUNDING * (len(alive) - 1)
    definite = scaled + eps * np.eye(len(alive))
    for _ in range(MOST_ROUNDS):  # each gains some ten digits
        moved = _active_set(definite, q + eps * moved, lower, upper, moved, slack)
        v = q - scaled @ moved
        last, missed = missed, float(np.max(np.maximum(v - upper, lower - v) / slack))
        if missed <= 1.0 or missed > 0.5 * last:  # there, or as near as rounding permits
            break
    nu[alive] = moved / size
    return nu


def _solve_independent_rows(M: Array, q: Array, lower: Array, upper: Array) -> Array | None:
    """Return the solution of the box problem by guessing the active rows, None where that does not settle.

    The primal-dual active-set method (Hintermueller, Ito, Kunisch 2002): solve for the rows thought active; those
    whose multiplier has the wrong sign are released and those missed are added, all at once. It takes one or two
    rounds for a few rows. None as well where active rows are nearly dependent, which should share multipliers evenly.
    """
    fixed = lower == upper
    if fixed.all():
        nu = _solve_definite(M, q - upper)
        slack = LEAST_SHIFT * (np.abs(q) + np.abs(q - upper))
        return None if nu is None or np.any(np.abs(q - M @ nu - upper) > slack) else nu
    reach = q - np.minimum(np.maximum(q, lower), upper)
    slack = LEAST_SHIFT * (np.abs(q) + np.abs(reach))
    side = np.sign(np.where(fixed, 0.0, reach))
    for _ in range(1 + len(q)):
        rows = ((side != 0) | fixed).nonzero()[0]
        nu = np.zeros(len(q))
        if len(rows):
            part = M if len(rows) == len(q) else M[rows][:, rows]
            beyond = q - np.where(side < 0, lower, upper)
            found = _solve_definite(part, beyond[rows])
            if found is None:
                return None
            nu[rows] = found
        v = q - M @ nu
        missed = (v > upper + slack) * 1.0 - (v < lower - slack)
        here = np.where(side == 0, missed * ~fixed, side * (side * nu > 0))
        if np.array_equal(here, side):
            return None if np.any(missed) else nu
        side = here
    return None


def _solve_definite(M: Array, right: Array) -> Array | None:
    """Return ``M^-1 right``, None where rows of ``M`` are nearly dependent."""
    factor, found, info = dposv(M, right, lower=1)
    return None if info != 0 or np.any(factor.diagonal() ** 2 <= HAIR * M.diagonal()) else found


def _active_set(M: Array, q: Array, lower: Array, upper: Array, nu: Array, slack: Array) -> Array:
    """Solve the box problem with a positive definite ``M``, starting from ``nu``.

    Lawson and Hanson's active-set method: solve for the rows thought active; go there, or as far as no multiplier
    changes its sign, and release the row that stopped it; then add the row that is missed most. The dual objective
    rises throughout, so that it ends. For one row, or for equalities, the first guess (the rows missed at the
    start) is right.
    """
    v = q - M @ nu
    side = np.where(nu != 0, np.sign(nu), np.where(v > upper + slack, 1, np.where(v < lower - slack, -1, 0)))
    side = np.where(lower == upper, 2, side)
    for _ in range(MOST_ROUNDS + MOST_ROUNDS * len(q)):
        aim = solve_active_rows(M, q, np.where(side == -1, lower, upper), side != 0)
        wrong = (np.abs(side) == 1) & (side * aim < 0)
        if np.any(wrong):
            part = nu[wrong] / (nu[wrong] - aim[wrong])
            nu = nu + part.min() * (aim - nu)
            gone = np.flatnonzero(wrong)[part <= part.min()]
            nu[gone], side[gone] = 0.0, 0
            continue
        nu, v = aim, q - M @ aim
        missed = np.where(side == 0, np.maximum(v - upper, lower - v) - slack, 0.0)
        worst = int(np.argmax(missed))
        if missed[worst] <= 0:
            break
        side[worst] = 1 if v[worst] > upper[worst] else -1
    return nu


def solve_active_rows(M: Array, q: Array, target: Array, active: NDArray[np.bool_]) -> Array:
    """Return ``nu``, zero off the active rows, with ``(q - M nu)_active = target_active``."""
    nu = np.zeros(len(q))
    index = np.flatnonzero(active)
    if len(index):
        right, part = q[index] - target[index], M[np.ix_(index, index)]
        _, nu[index], info = dposv(part, right, lower=1)
        if info != 0:  # dependent to the last digit
            nu[index] = least_norm_solution(part, right)
    return nu
