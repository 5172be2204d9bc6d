"""The multinomial problem, written down once.

With Q classes, scores ``F = Xa Theta'`` (one row ``theta_q`` of coefficients per class) and label masses
``T_iq >= 0`` (``c_i`` at the label of row i and zero elsewhere, unless labels are soft; ``c_i = sum_q T_iq``),

    minimise over Theta   L = sum_i [c_i log sum_q exp(F_iq) - sum_q T_iq F_iq] + 1/2 sum_qj rho_j theta_qj^2
    subject to            lower <= B Theta <= upper.

**One gauge.** Adding one vector to every ``theta_q`` changes no probability, and no decision. The constraints must
not change either, so they are about the boundary between a class and the others,

    cov_qk = cov(z_k, f_q(x) - mean of the other classes' scores),

which for two classes is the decision boundary covariance of binary classification. Then the penalty puts the mean of
the ``theta_q`` at zero, and the problem is solved in ``Theta = U Phi`` with ``U`` (Q, Q-1) an orthonormal basis of
the vectors of mean zero: ``||Theta|| = ||Phi||``, and the row of (q, k) is ``Q / (Q-1) U_q x A_k``. Two classes have
``rho = 2``, which is the penalty ``1/2 ||w||^2`` of binary logistic regression.

**The Hessian** is ``sum_{q<r} (e_q - e_r)(e_q - e_r)' x Xa' diag(c P_q P_r) Xa``, so that Q (Q-1) / 2 weighted Gram
matrices suffice; those of the diagonal blocks follow.

**The certificate.** For any probabilities ``P_i`` and multipliers ``nu``, Fenchel duality gives

    D(P, nu) = sum_i c_i H(P_i) - sum_qj r_qj^2 / (2 rho_j) - sum_k (upper_k nu_k^+ - lower_k nu_k^-),
    r = Xa'(c P - T) + B' nu,    H the entropy,

a lower bound on ``L`` at every feasible point. Unpenalised intercepts require that the probabilities sum up to the
classes' masses. Mixing them with one distribution ``v`` for everybody, ``(1 - eps) P + eps v``, achieves that exactly
for the least ``eps`` with ``v >= 0``; the entropy is concave, so that the bound of the mixture follows without a
further pass. What is left in unpenalised coordinates (every one for ``C = inf``) is charged as in
:mod:`fairmargin.problem`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairmargin.multiclass.objective import MultinomialObjective, MultinomialPoint, class_basis
from fairmargin.problem import ROUNDING_ROOM, Certificate, Status, largest, support
from fairmargin.tolerances import EPS, HAIR, TINY

__all__ = ["MultinomialProblem", "class_rows"]

Array = NDArray[np.float64]


def class_rows(covariances: list[Array]) -> Array:
    """Return ``B`` (Q K, (Q-1) p) from the covariance rows ``A`` (K, p) of each class, class by class."""
    n_classes = len(covariances)
    U = class_basis(n_classes) * (n_classes / (n_classes - 1.0))
    return np.vstack(
        [(U[q][:, None] * A[:, None]).reshape(len(A), U.shape[1] * A.shape[1]) for q, A in enumerate(covariances)]
    )


@dataclass(frozen=True)
class Equalities:
    """Orthonormal equalities ``rows @ phi = values``, and how all rows share their multipliers (of least norm)."""

    rows: Array
    values: Array
    share: Array


@dataclass(frozen=True)
class MultinomialProblem:
    """Frozen data of one convex problem; see the module for the mathematics.

    Parameters
    ----------
    objective : MultinomialObjective
        ``L``, shared by problems under different constraints.
    rows : (M, (Q-1) p), the matrix ``B`` in the coordinates ``Phi``
    lower, upper : (M,), infinite where there is no bound
    """

    objective: MultinomialObjective
    rows: Array
    lower: Array
    upper: Array

    @property
    def n_rows(self) -> int:
        """Number of linear constraints."""
        return len(self.rows)

    @cached_property
    def equalities(self) -> Equalities | None:
        """The rows as orthonormal ones, where all are equalities."""
        if not self.n_rows or np.any(self.lower != self.upper):
            return None
        size = np.linalg.norm(self.rows, axis=1)
        size = np.where(size > 0, size, 1.0)[:, None]
        left, spread, right = np.linalg.svd(self.rows / size, full_matrices=False)
        rank = int(np.sum(spread > HAIR * spread[0]))
        share = left[:, :rank] / spread[:rank] / size
        return Equalities(right[:rank], share.T @ self.upper, share)

    def with_bounds(self, lower: Array, upper: Array) -> MultinomialProblem:
        """Return the same problem under other bounds."""
        return replace(self, lower=lower, upper=upper)

    def unconstrained(self) -> MultinomialProblem:
        """Return the problem without its rows."""
        return replace(self, rows=self.rows[:0], lower=self.lower[:0], upper=self.upper[:0])

    def with_rows_of(self, other: MultinomialProblem) -> MultinomialProblem:
        """Return this problem under the constraints of another one."""
        return replace(self, rows=other.rows, lower=other.lower, upper=other.upper)

    def take(self, index: NDArray[np.intp]) -> MultinomialProblem:
        """Return the problem on some of the rows of X, weighted up to the same total."""
        return replace(self, objective=self.objective.take(index))

    def dual_bound(self, point: MultinomialPoint, multipliers: Array) -> float:
        """Return ``D`` at the point's probabilities, mixed for the intercepts."""
        f, pull, entropy = self.objective, point.pull, point.entropy
        if f.has_free_intercept:
            given = f.class_masses + pull[:, -1]
            share = largest(1.0 - f.class_masses / np.maximum(given, TINY))
            if share > 0:
                v = np.maximum((f.class_masses - (1.0 - share) * given) / (share * f.total), 0.0)
                pull = pull - share * (pull + f.label_pull) + share * np.outer(v, f.weight_pull)
                entropy = (1.0 - share) * entropy - share * f.total * float(v @ np.log(np.maximum(v, TINY)))
        r = (f.basis.T @ pull).ravel() + multipliers @ self.rows
        free = f.unpenalised
        quadratic = 0.5 * float((r * r) @ f.inverse_ridge)
        rest = float(np.abs(r[free]) @ self.radius(point.phi)[free])
        return entropy - quadratic - rest - support(self.lower, self.upper, multipliers)

    def radius(self, phi: Array) -> Array:
        """Return how far the certificate reaches in coordinates without a penalty."""
        return 10.0 * (np.abs(phi) + 1.0 / self.objective.all_scales)

    def missed(self, phi: Array) -> Array:
        """Return by how much each row misses its bounds, negative where it keeps them, (M,)."""
        value = self.rows @ phi
        return np.maximum(value - self.upper, self.lower - value)

    def room(self, phi: Array) -> Array:
        """Return by how much each row may miss its bound and still count as kept: rounding, (M,)."""
        return ROUNDING_ROOM * (self._row_sizes @ np.abs(phi)) + self._least_room

    @cached_property
    def _row_sizes(self) -> Array:
        return np.abs(self.rows)

    @cached_property
    def _least_room(self) -> Array:
        """The part of ``room`` that is the same everywhere.

        Constraints may force all coefficients to zero. What is left of them then is the rounding of the steps that
        led there, from scores of size one: sums over the constraints, of which a row adds up the coordinates.
        """
        bound = np.maximum(*(np.where(np.isfinite(b), np.abs(b), 0.0) for b in (self.lower, self.upper)))
        rounding = EPS * (self.objective.size + self.n_rows)
        return ROUNDING_ROOM * bound + rounding * (self._row_sizes @ (1.0 / self.objective.all_scales))

    def is_feasible(self, phi: Array) -> bool:
        """Whether every row is within its bounds, up to rounding."""
        return not self.n_rows or bool(np.all(self.missed(phi) <= self.room(phi)))

    def gap_unit(self, value: float) -> float:
        """Return what gaps are relative to: the objective, or rounding where that is (nearly) zero."""
        return max(abs(value), 1e-16 * self.objective.at_zero, TINY)

    def certify(
        self, point: MultinomialPoint, multipliers: Array, tol: float, n_iter: int, ending: Status
    ) -> Certificate:
        """Return the certificate of a point with its gradient; "solved", or ``ending`` where it is not."""
        bound = self.dual_bound(point, multipliers)
        gap = abs(point.value - bound) / self.gap_unit(point.value)
        is_solved = gap <= tol and self.is_feasible(point.phi)
        violation = largest(self.missed(point.phi)) if self.n_rows else 0.0
        return Certificate(point.value, bound, gap, violation, n_iter, "solved" if is_solved else ending)
