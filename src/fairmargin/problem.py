"""The problem every solver solves, written down once.

    minimise over theta   L(theta) = sum_i c_i l(m_i) + 1/2 sum_j rho_j theta_j^2  [+ t' theta + offset]
    subject to            lower <= A theta <= upper

with margins ``m = y * (Xa theta)`` and ``Xa`` the augmented matrix of :mod:`fairmargin.design`, so that ``theta =
(w, b)`` and the intercept is the coordinate with ``rho_j = 0``. In scikit-learn's convention ``c_i = C s_i`` (s the
sample weights) and ``rho = 1`` on ``w``; for ``C = inf``, ``c_i = s_i`` and ``rho = 0``. The rows of ``A`` are
decision boundary covariances, whose intercept entry is 0, and signed feature vectors of people with a promise. The
linear term in brackets is zero except for prices on covariances (``t = A' nu``) and for rows whose loss is known to
be a straight line.

**The certificate.** For ``a_i >= 0`` and multipliers ``nu`` (one per row of A, of either sign), Fenchel duality gives

    D(a, nu) = sum_i -c_i l*(-a_i) - sum_j r_j^2 / (2 rho_j) - sum_k (upper_k nu_k^+ - lower_k nu_k^-),
    r = Xa'(c a y) - t - A' nu,

a lower bound on ``L`` at every feasible point. An unpenalised intercept requires ``r_b = 0``. Scaling down the
largest ``a_i`` of one class achieves that exactly: ``l*`` is convex and ``l*(0) = -inf l``, so that the bound of
the scaled ``a`` follows without a further pass over the data. The rest in unpenalised coordinates (rounding for the
intercept; every coordinate for ``C = inf``) is charged with ``|r_j| R_j``: there the bound holds for all
``|theta_j| <= R_j = 10 (|theta_j| + 1/scale_j)``.

**Solved** means: the relative gap ``|L - D| / L`` is within the tolerance, and every row of A is kept up to
:data:`ROUNDING_ROOM` of the size of its terms. An objective below the bound is as wrong as one above it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairmargin.design import Design
from fairmargin.losses import Loss

__all__ = ["ROUNDING_ROOM", "Certificate", "DualSums", "Problem", "Solution", "Status", "largest", "support"]

Array = NDArray[np.float64]
Status = Literal["solved", "inaccurate", "iteration limit", "separable", "infeasible"]

# A row of A counts as kept if it misses its bound by at most this share of |A| |theta| + |bound|: six digits above
# the rounding of float64, and far below any covariance or margin that matters.
ROUNDING_ROOM = 1e-10

# Cached properties of a problem that do not depend on its rows of A and their bounds; some are sums over all rows.
_OF_OBJECTIVE = (
    "_can_vanish",
    "_least_unit",
    "at_zero",
    "inverse_ridge",
    "lever",
    "total_weight",
    "trivial_bound",
    "unpenalised",
)


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
        ``|objective - dual_bound| / objective`` (see :meth:`Problem.gap_unit` for an objective of zero).
    violation : float
        Largest amount by which a bound on a covariance (or a promise to a person) is missed.
    n_iter : int
        Iterations of the solver.
    status : str
        ``"solved"`` (gap and violation are within tolerance), ``"inaccurate"`` (no further progress),
        ``"iteration limit"``, ``"separable"`` (without a penalty the loss falls to zero as the coefficients grow
        without end: there is no optimum), ``"infeasible"`` (no classifier satisfies the rows of A; only candidates of
        a search end so, and none is returned).

    Notes
    -----
    The tolerance of the gap is the estimator's ``tol``. It is 1e-6 for ``LossBound(norm="sum")``, and for
    ``IndividualLossBound`` where its bound on the penalty is reached.

    Under convex constraints ``"solved"`` proves the classifier optimal within that tolerance. With ``PRuleBound``
    the bound and the gap of ``certificate_`` are against all classifiers, fair or not, so that the gap may be large;
    ``"solved"`` is then about ``path_certificate_``, and does not prove that no more accurate classifier keeps the
    rule.
    """

    objective: float
    dual_bound: float
    gap: float
    violation: float
    n_iter: int = 0
    status: Status = "solved"


@dataclass(frozen=True)
class Solution:
    """What a solver returns: the point, its multipliers and their proof.

    ``scores`` (N,) are ``Xa theta``; if the status is "solved", they are the product itself and the objective is
    computed from them, rather than updated from step to step. ``alpha`` (N,), the dual variables ``c_i a_i``, and
    ``multipliers`` (K,), one per row of ``A``, prove the dual bound. ``hessian`` (p, p), where known, is that of
    ``L`` near the point.
    """

    theta: Array
    multipliers: Array
    scores: Array
    alpha: Array
    certificate: Certificate
    hessian: Array | None = None

    @property
    def objective(self) -> float:
        """Training objective at the solution."""
        return self.certificate.objective


@dataclass(frozen=True)
class DualSums:
    """What a dual bound needs of dual variables ``alpha = c a``: sums over all rows, and two single rows.

    Attributes
    ----------
    terms : float
        ``sum_i -c_i l*(-a_i)``.
    pull : (p,)
        ``Xa'(alpha y)``.
    heaviest : (2,) of int
        The row of largest ``alpha`` in each class, negative first,
    push : (2,)
        its ``alpha``,
    worth : (2,)
        its term of the sum, less ``c inf l``,
    features : (2, p)
        and its row of ``Xa``.
    """

    terms: float
    pull: Array
    heaviest: NDArray[np.intp]
    push: Array
    worth: Array
    features: Array


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
        return self.with_rows(self.rows, np.asarray(lower, float), np.asarray(upper, float))

    def unconstrained(self) -> Problem:
        """Return the problem without its rows."""
        return self.with_rows(np.empty((0, self.rows.shape[1])), np.empty(0), np.empty(0))

    def with_rows(self, rows: Array, lower: Array, upper: Array) -> Problem:
        """Return the problem under these rows only; what the objective alone decides is computed once for all."""
        bounded = replace(self, rows=rows, lower=lower, upper=upper)
        vars(bounded).update({name: getattr(self, name) for name in _OF_OBJECTIVE})
        return bounded

    def take(self, index: NDArray[np.intp]) -> Problem:
        """Return the problem on some of the rows of X, weighted up to the same total."""
        weight = self.weight[index]
        weight = weight * (self.weight.sum() / weight.sum())
        return replace(self, design=self.design.take(index), y=self.y[index], weight=weight, loss=self.loss.of(index))

    def single(self) -> Problem | None:
        """Return the problem with data in single precision, or None where that is not accurate or not worth it."""
        penalised = bool(np.all(self.ridge[: -1 if self.design.fit_intercept else None]))
        in_range = self.weight.min() > 1e-30 and self.weight.sum() < 1e30
        able = vars(type(self.loss)).get("single", False)  # declared by the class itself: a subclass may differ
        design = self.design.single() if able and penalised and in_range else None
        if design is None:
            return None
        return replace(self, design=design, y=self.y.astype(np.float32), weight=self.weight.astype(np.float32))

    @cached_property
    def lever(self) -> Array:
        """``-c_i y_i``, (N,): what slopes of losses are multiplied by to pull at the scores."""
        return -self.weight * self.y

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

    def penalty_gradient(self, theta: Array) -> Array:
        """Return ``rho theta + t``."""
        gradient = self.ridge * theta
        return gradient if self.tilt is None else gradient + self.tilt

    def objective(self, theta: Array, scores: Array) -> float:
        """Return ``L(theta)`` from the scores ``Xa theta``."""
        return float(self.weight @ self.loss.value(self.y * scores)) + self.penalty(theta)

    def violation(self, theta: Array) -> float:
        """Return the largest amount by which a row of A misses its bounds."""
        return largest(self._missed(self.rows @ theta))

    def is_feasible(self, theta: Array, slack: float = 1.0) -> bool:
        """Whether every row of A is within its bounds, up to ``slack`` times rounding (:data:`ROUNDING_ROOM`)."""
        return not self.n_rows or bool(np.all(self._missed(self.rows @ theta) <= slack * self.room(theta)))

    def _missed(self, value: Array) -> Array:
        return np.maximum(value - self.upper, self.lower - value)

    def room(self, theta: Array) -> Array:
        """Return by how much each row may miss its bound and still count as kept, (K,).

        A share of the size of its terms, or the rounding of terms that move scores by 1: constraints may force all of
        them to zero.
        """
        size, least = self._room_at_zero
        return ROUNDING_ROOM * (size @ np.abs(theta)) + least

    def attained(self, theta: Array) -> Array:
        """Return ``|A theta|``, exactly zero where it is rounding: as bounds, such numbers would only mislead."""
        value = np.abs(self.rows @ theta)
        return np.where(value <= self.room(theta), 0.0, value)

    @cached_property
    def _room_at_zero(self) -> tuple[Array, Array]:
        """``|A|``, and the part of :meth:`room` that does not depend on ``theta``."""
        bound = np.maximum(_finite_size(self.lower), _finite_size(self.upper))
        size, eps = np.abs(self.rows), np.finfo(float).eps
        return size, ROUNDING_ROOM * bound + eps * (size @ (1.0 / self.design.scale))

    def radius(self, theta: Array) -> Array:
        """Return ``R``, how far the certificate reaches in coordinates without a penalty."""
        return 10.0 * (np.abs(theta) + 1.0 / self.design.scale)

    def dual_variables(self, scores: Array) -> Array:
        """Return ``alpha = -c l'(m)``, the dual variables that belong to scores, (N,)."""
        return -self.weight * self.loss.derivative(self.y * scores)

    def clip_dual(self, alpha: Array) -> Array:
        """Return dual variables of the hinge loss moved into ``[0, c]``."""
        return np.clip(alpha, 0.0, self.weight)

    def dual_sums(self, scores: Array, alpha: Array) -> DualSums:
        """Return what the dual bound needs of ``alpha``: one pass over the data.

        For a smooth loss ``alpha`` must be :meth:`dual_variables` of these very scores, which makes Fenchel's
        inequality an equality; for the hinge loss any ``0 <= alpha <= c`` will do.
        """
        terms = float(self.weight @ self.loss.dual_terms(self.y * scores, alpha / self.weight))
        signed = alpha * self.y
        return self.sum_up(terms, signed, scores, self.design.rmatvec(signed))

    def sum_up(self, terms: float, signed: Array, scores: Array, pull: Array) -> DualSums:
        """Return the sums of dual variables, as ``signed = alpha y``, whose terms and pull are known."""
        heaviest = np.array([np.argmin(signed), np.argmax(signed)])
        y, weight = self.y[heaviest], self.weight[heaviest]
        terms_of = self.loss.of(heaviest).dual_terms(y * scores[heaviest], y * signed[heaviest] / weight)
        push = np.maximum((-1.0, 1.0) * signed[heaviest], 0.0)  # 0 for a class without a row
        worth = weight * (terms_of - self.loss.infimum)
        return DualSums(terms, pull, heaviest, push, worth, self.design.rows(heaviest))

    def dual_bound(self, theta: Array, multipliers: Array, sums: DualSums) -> float:
        """Return ``D`` at the dual variables behind ``sums``, one of them scaled down for the intercept."""
        row, share = self._balance(sums, multipliers)
        r = sums.pull - self.rows.T @ multipliers
        r = r - share * sums.push[row] * (-1.0, 1.0)[row] * sums.features[row]
        if self.tilt is not None:
            r = r - self.tilt
        quadratic = 0.5 * float(self.inverse_ridge @ (r * r))
        linear = float(np.abs(r[self.unpenalised]) @ self.radius(theta)[self.unpenalised])
        terms = sums.terms - share * float(sums.worth[row])
        bound = terms + self.offset - quadratic - linear - support(self.lower, self.upper, multipliers)
        return float(max(bound, self.trivial_bound))

    def balanced(self, alpha: Array, multipliers: Array, sums: DualSums) -> Array:
        """Return the dual variables that the bound is about, (N,)."""
        row, share = self._balance(sums, multipliers)
        alpha = alpha.copy()
        alpha[sums.heaviest[row]] *= 1.0 - share
        return alpha

    def _balance(self, sums: DualSums, multipliers: Array) -> tuple[int, float]:
        """Return the class whose heaviest row is scaled down for ``r_b = 0``, and by which share."""
        if not self.design.fit_intercept or self.ridge[-1] > 0:
            return 0, 0.0
        excess = float(sums.pull[-1]) - float(self.rows[:, -1] @ multipliers)
        if self.tilt is not None:
            excess -= float(self.tilt[-1])
        row = int(excess > 0)
        return row, min(abs(excess) / sums.push[row], 1.0) if sums.push[row] > 0 else 0.0

    @cached_property
    def total_weight(self) -> float:
        """``sum_i c_i``."""
        return float(self.weight.sum())

    @cached_property
    def trivial_bound(self) -> float:
        """The dual bound at ``a = 0, nu = 0``: every loss at its infimum and no penalty."""
        if self.tilt is not None and np.any(self.tilt):
            return -np.inf
        return self.total_weight * self.loss.infimum + self.offset

    @cached_property
    def at_zero(self) -> float:
        """``L`` at ``theta = 0``."""
        value = self.loss.value(np.zeros(1))
        # The same for every row, unless every row has a loss of its own.
        losses = self.weight.sum() * value[0] if value.shape == (1,) else self.weight @ value
        return float(losses) + self.offset

    @cached_property
    def _least_unit(self) -> float:
        """1e-16 of the losses at ``theta = 0`` if every row weighed as little as the lightest."""
        return 1e-16 * len(self.y) * float(self.weight.min()) * float(np.max(self.loss.value(np.zeros(1))))

    def gap_unit(self, value: float) -> float:
        """Return what gaps are relative to: the objective, or rounding where that is (nearly) zero."""
        return max(abs(value), self._least_unit, np.finfo(float).tiny)

    def relative_gap(self, value: float, bound: float) -> float:
        """Return ``|value - bound|``, relative; infinite where a number is beyond what can be held.

        A value below the bound is no gap of 0: it belongs to a point that is not feasible.
        """
        gap = value - bound
        return abs(gap) / self.gap_unit(value) if np.isfinite(gap) else np.inf

    def is_vanishing(self, value: float) -> bool:
        """Whether nothing keeps ``L`` from falling to a bound it never reaches: no penalty, separable data."""
        return self._can_vanish and value - self.trivial_bound <= 1e-12 * abs(self.at_zero)

    @cached_property
    def _can_vanish(self) -> bool:
        return not np.any(self.ridge) and bool(self.loss.value(np.array([100.0]))[0] > self.loss.infimum)

    def certify(
        self,
        theta: Array,
        multipliers: Array,
        scores: Array,
        dual: DualSums,
        *,
        tol: float,
        n_iter: int = 0,
        ending: Status = "inaccurate",
    ) -> Certificate:
        """Return the certificate of a point, given its scores and the sums of its dual variables.

        The status is "solved" if the gap is within ``tol`` and the point is feasible, and ``ending`` otherwise.
        """
        value = self.objective(theta, scores)
        return self.certify_value(theta, multipliers, value, dual, tol=tol, n_iter=n_iter, ending=ending)

    def certify_value(
        self,
        theta: Array,
        multipliers: Array,
        value: float,
        dual: DualSums,
        *,
        tol: float,
        n_iter: int = 0,
        ending: Status = "inaccurate",
    ) -> Certificate:
        """Return the certificate of a point whose objective is known."""
        bound = self.dual_bound(theta, multipliers, dual)
        gap = self.relative_gap(value, bound)
        status: Status = "solved" if gap <= tol and self.is_feasible(theta) else ending
        return Certificate(value, bound, gap, self.violation(theta), n_iter, status)


def _finite_size(bound: Array) -> Array:
    return np.where(np.isfinite(bound), np.abs(bound), 0.0)


def largest(missed: Array) -> float:
    """Return the largest positive entry, 0 if there is none, and infinity if one is nan."""
    worst = float(np.max(missed, initial=0.0))
    return np.inf if np.isnan(worst) else worst


def support(lower: Array, upper: Array, multipliers: Array) -> float:
    """Return ``sum_k (upper_k nu_k^+ - lower_k nu_k^-)``, where ``0 * inf`` counts as 0."""
    pushed = multipliers != 0
    if not pushed.any():
        return 0.0
    bound = np.where(multipliers > 0, upper, lower)
    return float(bound @ multipliers) if pushed.all() else float(bound[pushed] @ multipliers[pushed])
