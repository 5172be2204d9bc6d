"""The problem every solver solves, written down once.

    minimise over theta   L(theta) = sum_i c_i l(m_i) + 1/2 sum_j rho_j theta_j^2  [+ t' theta + offset]
    subject to            lower <= A theta <= upper

with margins ``m = y * (Xa theta)``, ``Xa`` the augmented matrix of :mod:`fairmargin.design`, so that
``theta = (w, b)`` and the intercept is simply the coordinate with ``rho_j = 0``. In scikit-learn's
convention ``c_i = C s_i`` (s the sample weights) and ``rho = 1`` on ``w``; for ``C = inf``, ``c_i = s_i`` and
``rho = 0``. The rows of ``A`` are decision boundary covariances, whose intercept entry is 0, and, for
promises made to single people, their signed feature vectors. The linear term in brackets is zero but for
two uses: prices on covariances (``t = A' nu``) and people whose loss is known to be straight.

**The certificate.** For ``a_i >= 0`` and multipliers ``nu`` (one a row, of either sign), Fenchel's duality gives

    D(a, nu) = sum_i -c_i l*(-a_i) - sum_j r_j^2 / (2 rho_j) - sum_k (upper_k nu_k^+ - lower_k nu_k^-),
    r = Xa'(c a y) - t - A' nu,

a lower bound on ``L`` at every feasible point. A free intercept asks for ``r_b = 0``, met exactly by scaling
the ``a_i`` of one class down (``l*`` is convex and ``l*(0) = -inf l``, so the scaled bound needs no new conjugate).
What is left in coordinates without a penalty, rounding for the intercept, and all of them for ``C = inf``,
is charged with ``|r_j| R_j``: there the bound speaks of all ``|theta_j| <= R_j = 10 (|theta_j| + 1/scale_j)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairmargin.design import Design
from fairmargin.losses import Loss

__all__ = ["Certificate", "Problem", "Solution", "support"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Certificate:
    """Proof of how good a fitted classifier is, in the units of the training objective.

    Attributes
    ----------
    objective : float
        ``L`` at the returned coefficients.
    dual_bound : float
        No feasible classifier has a smaller ``L`` than this.
    gap : float
        ``(objective - dual_bound) / objective`` (see :meth:`Problem.gap_unit` for an objective of zero).
    violation : float
        Largest amount by which a bound on a covariance (or a promise to a person) is missed.
    n_iter : int
        Iterations of the solver.
    status : str
        ``"solved"``, ``"inaccurate"`` (no further progress), ``"iteration limit"``, ``"separable"`` (without a
        penalty the loss falls to zero as the coefficients grow without end: there is no optimum).
    """

    objective: float
    dual_bound: float
    gap: float
    violation: float
    n_iter: int = 0
    status: str = "solved"


@dataclass(frozen=True)
class Solution:
    """What a solver returns: the point, its multipliers and their proof.

    ``alpha`` (N,) are the dual variables ``c_i a_i``; ``multipliers`` (K,) has one entry a row of ``A``. A Hessian
    near the point and the gradient of ``L`` there tell, where known, how the point could be improved.
    """

    theta: Array
    multipliers: Array
    scores: Array
    alpha: Array
    certificate: Certificate
    hessian: Array | None = None
    gradient: Array | None = None

    @property
    def objective(self) -> float:
        """Training objective at the solution."""
        return self.certificate.objective


@dataclass(frozen=True)
class Problem:
    """Frozen data of one convex problem; see the module for the mathematics.

    Parameters
    ----------
    design : Design, N rows and p columns
    y : (N,) of -1 and +1
    weight : (N,), the positive ``c_i``
    loss : Loss
    ridge : (p,), the ``rho_j >= 0``
    rows : (K, p), the matrix ``A``
    lower, upper : (K,), infinite where there is no bound
    tilt : (p,) or None, the linear term ``t``
    offset : float, a constant in the objective
    """

    design: Design
    y: Array
    weight: Array
    loss: Loss
    ridge: Array
    rows: Array
    lower: Array
    upper: Array
    tilt: Array | None = None
    offset: float = 0.0

    @property
    def n_rows(self) -> int:
        """Number of linear constraints K."""
        return self.rows.shape[0]

    def with_bounds(self, lower: Array, upper: Array) -> Problem:
        """Return the same problem under other bounds."""
        return replace(self, lower=np.asarray(lower, float), upper=np.asarray(upper, float))

    def unconstrained(self) -> Problem:
        """Return the problem without its rows."""
        p = self.rows.shape[1]
        return replace(self, rows=np.empty((0, p)), lower=np.empty(0), upper=np.empty(0))

    def with_rows(self, rows: Array, lower: Array, upper: Array) -> Problem:
        """Return the problem under these rows only."""
        return replace(self, rows=rows, lower=lower, upper=upper)

    def take(self, index: NDArray[np.intp]) -> Problem:
        """Return the problem on some of the people, weighted up to the same total."""
        weight = self.weight[index]
        weight = weight * (self.weight.sum() / weight.sum())
        return replace(self, design=self.design.take(index), y=self.y[index], weight=weight, loss=self.loss.of(index))

    def single(self) -> Problem | None:
        """Return the problem with data in single precision, or None where that would not do or not pay."""
        penalised = bool(np.all(self.ridge[: -1 if self.design.fit_intercept else None]))
        in_range = self.weight.min() > 1e-30 and self.weight.sum() < 1e30
        able = vars(type(self.loss)).get("single", False)  # of the class itself: one derived from it may not be
        design = self.design.single() if able and penalised and in_range else None
        if design is None:
            return None
        return replace(self, design=design, y=self.y.astype(np.float32), weight=self.weight.astype(np.float32))

    @cached_property
    def inverse_ridge(self) -> Array:
        """``1 / rho``, and 0 for coordinates without a penalty."""
        return np.divide(1.0, self.ridge, out=np.zeros_like(self.ridge), where=self.ridge > 0)

    @cached_property
    def unpenalised(self) -> NDArray[np.intp]:
        """The coordinates without a penalty."""
        return np.flatnonzero(self.ridge <= 0)

    def penalty(self, theta: Array) -> float:
        """Return ``1/2 sum_j rho_j theta_j^2 + t' theta + offset``: all of ``L`` but the losses."""
        value = 0.5 * float(self.ridge @ (theta * theta)) + self.offset
        return value if self.tilt is None else value + float(self.tilt @ theta)

    @property
    def intercept_tilt(self) -> float:
        """The entry of ``t`` that belongs to the intercept."""
        return 0.0 if self.tilt is None or not self.design.fit_intercept else float(self.tilt[-1])

    def penalty_gradient(self, theta: Array) -> Array:
        """Return ``rho theta + t``."""
        gradient = self.ridge * theta
        return gradient if self.tilt is None else gradient + self.tilt

    def objective(self, theta: Array, scores: Array) -> float:
        """Return ``L(theta)`` from the scores ``Xa theta``."""
        return float(self.weight @ self.loss.value(self.y * scores)) + self.penalty(theta)

    def violation(self, theta: Array) -> float:
        """Return the largest amount by which a row misses its bounds."""
        if not self.n_rows:
            return 0.0
        value = self.rows @ theta
        missed = float(np.max(np.maximum(value - self.upper, self.lower - value)))
        return np.inf if np.isnan(missed) else max(0.0, missed)

    def is_feasible(self, theta: Array) -> bool:
        """Whether every row is within its bounds, but for rounding."""
        if not self.n_rows:
            return True
        room = 1e-12 * (np.abs(self.rows) @ np.abs(theta))
        value = self.rows @ theta
        return bool(np.all(value <= self.upper + room) and np.all(value >= self.lower - room))

    def radius(self, theta: Array) -> Array:
        """Return ``R``, how far the certificate reaches in coordinates without a penalty."""
        return 10.0 * (np.abs(theta) + 1.0 / self.design.scale)

    def dual_bound(self, theta: Array, multipliers: Array, terms: float, pull: Array) -> float:
        """Return ``D`` from ``terms = sum_i -c_i l*(-a_i)`` and ``pull = Xa'(c a y)``."""
        r = pull - self.rows.T @ multipliers
        if self.tilt is not None:
            r = r - self.tilt
        quadratic = 0.5 * float(self.inverse_ridge @ (r * r))
        linear = float(np.abs(r[self.unpenalised]) @ self.radius(theta)[self.unpenalised])
        return terms + self.offset - quadratic - linear - support(self.lower, self.upper, multipliers)

    @cached_property
    def trivial_bound(self) -> float:
        """The dual bound at ``a = 0, nu = 0``: every loss at its infimum and no penalty."""
        if self.tilt is not None and np.any(self.tilt):
            return -np.inf
        return float(self.weight.sum()) * self.loss.infimum + self.offset

    @cached_property
    def _at_zero(self) -> float:
        """The losses at ``theta = 0``, where they are the same for everybody."""
        return float(self.weight.sum()) * float(self.loss.value(np.zeros(1))[0])

    def gap_unit(self, value: float) -> float:
        """Return what gaps are relative to: the objective, or 1e-16 of it at ``theta = 0`` where that is more."""
        return max(abs(value), 1e-16 * abs(self._at_zero), np.finfo(float).tiny)

    def beats_zero(self, value: float) -> bool:
        """Whether an objective is lower than that of ``theta = 0``."""
        return value <= self._at_zero + self.offset

    def relative_gap(self, value: float, bound: float) -> float:
        """Return ``value - bound``, relative and at least 0; infinite where a number is beyond what can be held."""
        gap = value - bound
        return max(0.0, gap) / self.gap_unit(value) if np.isfinite(gap) else np.inf

    def is_vanishing(self, value: float) -> bool:
        """Whether nothing keeps ``L`` from falling to a bound it never reaches: no penalty, separable data."""
        if np.any(self.ridge) or self.loss.value(np.array([100.0]))[0] <= self.loss.infimum:
            return False
        return value - self.trivial_bound <= 1e-12 * abs(self._at_zero)

    def certify(
        self,
        theta: Array,
        multipliers: Array,
        scores: Array,
        alpha: Array,
        n_iter: int,
        status: str,
        known: tuple[float, float, Array] | None = None,
    ) -> Certificate:
        """Return the certificate of a point with dual variables ``alpha = c a``.

        ``known = (L, sum_i -c_i l*(-a_i), Xa'(alpha y))`` at the point, if at hand, saves working them out again
        where the classes balance already. Where
        every loss can be zero at once (separable data without a penalty) the objective is 0 and a relative gap
        would be 0/0: there the bound ``L >= sum_i c_i inf l``, the dual at ``a = 0``, is the better one, and the
        gap is relative to :meth:`gap_unit`, which is never zero.
        """
        ratios = self._balance(alpha)
        if known is not None and min(ratios) >= 1.0 - 1e-13:
            value, terms, pull = known
        else:
            value = self.objective(theta, scores)
            ratio = np.where(self.y > 0, *ratios)
            dual = self.loss.dual_terms(self.y * scores, alpha / self.weight)
            terms = float(self.weight @ (ratio * dual + (1.0 - ratio) * self.loss.infimum))
            pull = self.design.rmatvec(ratio * alpha * self.y)
        bound = max(self.dual_bound(theta, multipliers, terms, pull), self.trivial_bound)
        gap = self.relative_gap(value, bound)
        return Certificate(value, bound, gap, self.violation(theta), n_iter, status)

    def _balance(self, alpha: Array) -> tuple[float, float]:
        """Return factors in [0, 1] for both classes that make ``sum_i alpha_i y_i = t_b`` for a free intercept."""
        if not self.design.fit_intercept or np.any(self.rows[:, -1]):
            return 1.0, 1.0
        total, excess = float(alpha.sum()), float(alpha @ self.y)
        up, down = 0.5 * (total + excess), 0.5 * (total - excess)
        tilt = self.intercept_tilt
        if excess > tilt and up > 0:
            return max(down + tilt, 0.0) / up, 1.0
        if excess < tilt and down > 0:
            return 1.0, max(up - tilt, 0.0) / down
        return 1.0, 1.0


def support(lower: Array, upper: Array, multipliers: Array) -> float:
    """Return ``sum_k (upper_k nu_k^+ - lower_k nu_k^-)``, where ``0 * inf`` counts as 0."""
    pushed = np.flatnonzero(multipliers)
    if not len(pushed):
        return 0.0
    nu = multipliers[pushed]
    return float(np.where(nu > 0, upper[pushed], lower[pushed]) @ nu)
