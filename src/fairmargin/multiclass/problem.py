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
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairmargin.problem import ROUNDING_ROOM, Certificate, Status, largest, support
from fairmargin.tolerances import EPS, HAIR, TINY

__all__ = ["MultinomialPoint", "MultinomialProblem", "class_basis", "class_rows"]

Array = NDArray[np.float64]

_BLOCK = 1 << 14  # rows that pointwise work is done on at a time: their temporary arrays stay in the cache


def class_basis(n_classes: int) -> Array:
    """Return ``U``, an orthonormal basis of the vectors of mean zero, (Q, Q-1)."""
    return np.ascontiguousarray(scipy.linalg.helmert(n_classes).T)


def class_rows(covariances: list[Array]) -> Array:
    """Return ``B`` (Q K, (Q-1) p) from the covariance rows ``A`` (K, p) of each class, class by class."""
    n_classes = len(covariances)
    U = class_basis(n_classes) * (n_classes / (n_classes - 1.0))
    return np.vstack([np.kron(U[q][None], A) for q, A in enumerate(covariances)])


@dataclass
class MultinomialPoint:
    """A point with everything evaluated there.

    Attributes
    ----------
    phi : ((Q-1) p,)
    scores, probabilities : (Q, N)
    objective : float
    entropy : float
        ``sum_i c_i H(P_i)``.
    gradient : ((Q-1) p,)
        Of ``L``; empty until it is added, as is
    pull : (Q, p)
        ``Xa'(c P - T)``.
    """

    phi: Array
    scores: Array
    probabilities: Array
    objective: float
    entropy: float
    gradient: Array
    pull: Array

    @property
    def rounding(self) -> float:
        """What rounding may do to the objective."""
        return 50.0 * EPS * abs(self.objective)


@dataclass(frozen=True)
class Equalities:
    """Independent equalities ``rows @ phi = values``, and how all rows share their multipliers (of least norm)."""

    rows: Array
    values: Array
    share: Array


@dataclass(frozen=True)
class MultinomialProblem:
    """Frozen data of one convex problem; see the module for the mathematics.

    Parameters
    ----------
    design : Design, N rows and p columns
    masses : (Q, N), the ``T_iq``
    ridge : (p,), the ``rho_j >= 0``
    rows : (M, (Q-1) p), the matrix ``B`` in the coordinates ``Phi``
    lower, upper : (M,), infinite where there is no bound
    """

    design: Any
    masses: Array
    ridge: Array
    rows: Array
    lower: Array
    upper: Array

    @property
    def n_classes(self) -> int:
        """Number of classes Q."""
        return len(self.masses)

    @property
    def n_rows(self) -> int:
        """Number of linear constraints."""
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of ``Phi``."""
        return self.n_classes - 1, self.design.shape[1]

    @cached_property
    def equalities(self) -> Equalities | None:
        """As many of the rows as are independent, where all are equalities."""
        if not self.n_rows or np.any(self.lower != self.upper):
            return None
        size = np.linalg.norm(self.rows, axis=1)
        size = np.where(size > 0, size, 1.0)[:, None]
        unit = self.rows / size
        triangle, order = scipy.linalg.qr(unit.T, mode="r", pivoting=True)
        rank = int(np.sum(np.abs(np.diag(triangle)) > HAIR))
        chosen = np.sort(order[:rank])
        share = np.linalg.pinv(unit.T, rcond=HAIR) @ self.rows[chosen].T / size
        return Equalities(self.rows[chosen], self.upper[chosen], share)

    @cached_property
    def basis(self) -> Array:
        """``U``, (Q, Q-1)."""
        return class_basis(self.n_classes)

    @cached_property
    def weight(self) -> Array:
        """``c``, (N,)."""
        return self.masses.sum(axis=0)

    @cached_property
    def anchor(self) -> NDArray[np.intp]:
        """The heaviest label of each row, (N,): scores are taken relative to its score, which costs no digits."""
        return np.argmax(self.masses, axis=0)

    @cached_property
    def is_other(self) -> Array:
        """0 at the anchor of each row, 1 elsewhere, (Q, N)."""
        return (np.arange(self.n_classes)[:, None] != self.anchor).astype(float)

    @cached_property
    def is_soft(self) -> bool:
        """Whether any row has more than one label."""
        return bool(np.any(np.count_nonzero(self.masses, axis=0) > 1))

    @cached_property
    def class_masses(self) -> Array:
        """``sum_i T_iq``, (Q,)."""
        return self.masses.sum(axis=1)

    @cached_property
    def label_pull(self) -> Array:
        """``Xa' T``, (Q, p)."""
        return self.design.rmatvec(self.masses.T).T

    @cached_property
    def weight_pull(self) -> Array:
        """``Xa' c``, (p,)."""
        return self.label_pull.sum(axis=0)

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
        masses = self.masses[:, index]
        masses = masses * (self.masses.sum() / masses.sum())
        return replace(self, design=self.design.take(index), masses=masses)

    def coefficients(self, phi: Array) -> Array:
        """Return ``Theta`` (Q, p)."""
        return self.basis @ phi.reshape(self.shape)

    def class_scores(self, phi: Array) -> Array:
        """Return ``F'`` (Q, N): one pass over the data."""
        return self.basis @ self.design.matmat(phi.reshape(self.shape))

    def penalty(self, phi: Array) -> float:
        """Return ``1/2 sum rho theta^2``."""
        return 0.5 * float(self.all_ridge @ (phi * phi))

    @cached_property
    def all_ridge(self) -> Array:
        """``rho`` of every coordinate of ``Phi``."""
        return np.tile(self.ridge, self.n_classes - 1)

    def evaluate(self, phi: Array, scores: Array) -> MultinomialPoint:
        """Return the point without its gradient: no pass over the data."""
        P, losses, entropy = np.empty_like(scores), 0.0, 0.0
        for start in range(0, scores.shape[1], _BLOCK):
            block = slice(start, start + _BLOCK)
            P[:, block], loss, share = self._pointwise(scores[:, block], block)
            losses, entropy = losses + loss, entropy + share
        empty = np.empty(0)
        return MultinomialPoint(phi, scores, P, losses + self.penalty(phi), entropy, empty, empty)

    def _pointwise(self, scores: Array, block: slice) -> tuple[Array, float, float]:
        """Return probabilities, the sum of the losses and that of the entropies of some rows."""
        anchor, weight = self.anchor[block], self.weight[block]
        here = anchor * len(anchor) + np.arange(len(anchor))
        margin = scores - scores.take(here)
        top = margin.max(axis=0)
        P = margin - top
        np.exp(P, out=P)
        own = P.take(here)
        # Summed without the label's own, lest small losses drown.
        others = np.einsum("qi,qi->i", P, self.is_other[:, block])
        P /= others + own
        loss = top + np.log1p(others + (own - 1.0))
        total = float(weight @ loss)
        entropy = total - float(weight @ np.einsum("qi,qi->i", P, margin))
        if self.is_soft:
            total -= float(np.einsum("qi,qi->", self.masses[:, block], margin))
        return P, total, entropy

    def add_gradient(self, point: MultinomialPoint) -> MultinomialPoint:
        """Add the gradient: one pass over the data."""
        point.pull = self.design.rmatvec((self.weight * point.probabilities - self.masses).T).T
        point.gradient = (self.basis.T @ point.pull).ravel() + self.all_ridge * point.phi
        return point

    def imbalance(self, point: MultinomialPoint) -> Array:
        """Return how much more than its labels each class is given by the probabilities, (Q,)."""
        return point.probabilities @ self.weight - self.class_masses

    @property
    def has_free_intercept(self) -> bool:
        """Whether there are intercepts, which are not penalised."""
        return bool(self.design.fit_intercept)

    def hessian(self, point: MultinomialPoint, single: bool = False) -> Array:
        """Return the Hessian of ``L`` at a point: Q (Q-1) / 2 Gram matrices."""
        Q, p = self.n_classes, self.design.shape[1]
        design = self._single_design if single else self.design
        blocks = np.zeros((Q, Q, p, p))
        for q in range(Q):
            weighted = self.weight * point.probabilities[q]
            for r in range(q):
                gram = design.sandwich(weighted * point.probabilities[r], None, single)
                blocks[q, r] = blocks[r, q] = -gram
                blocks[q, q] += gram
                blocks[r, r] += gram
        U = self.basis
        half = np.tensordot(U.T, blocks, 1)  # (Q-1, Q, p, p)
        full = np.tensordot(half, U, ([1], [0]))  # (Q-1, p, p, Q-1)
        size = (Q - 1) * p
        return full.transpose(0, 1, 3, 2).reshape(size, size) + np.diag(self.all_ridge)

    @cached_property
    def _single_design(self) -> Any:
        """The data in single precision where that pays, made once for all Gram matrices."""
        single = self.design.single()
        return self.design if single is None else single

    def dual_bound(self, point: MultinomialPoint, multipliers: Array) -> float:
        """Return ``D`` at the point's probabilities, mixed for the intercepts."""
        pull, entropy = point.pull, point.entropy
        if self.has_free_intercept:
            given = self.class_masses + pull[:, -1]
            share = largest(1.0 - self.class_masses / np.maximum(given, TINY))
            if share > 0:
                mass = float(self.class_masses.sum())
                v = np.maximum((self.class_masses - (1.0 - share) * given) / (share * mass), 0.0)
                pull = pull - share * (pull + self.label_pull) + share * np.outer(v, self.weight_pull)
                entropy = (1.0 - share) * entropy - share * mass * float(v @ np.log(np.maximum(v, TINY)))
        r = (self.basis.T @ pull).ravel() + self.rows.T @ multipliers
        free = self.all_ridge == 0
        quadratic = 0.5 * float((r * r) @ np.where(free, 0.0, 1.0 / np.where(free, 1.0, self.all_ridge)))
        rest = float(np.abs(r[free]) @ self.radius(point.phi)[free])
        return entropy - quadratic - rest - support(self.lower, self.upper, multipliers)

    def radius(self, phi: Array) -> Array:
        """Return how far the certificate reaches in coordinates without a penalty."""
        return 10.0 * (np.abs(phi) + 1.0 / self.all_scales)

    @cached_property
    def all_scales(self) -> Array:
        """Size of the column behind every coordinate of ``Phi``."""
        return np.tile(self.design.scale, self.n_classes - 1)

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
        """The part of ``room`` that is the same everywhere."""
        bound = np.maximum(*(np.where(np.isfinite(b), np.abs(b), 0.0) for b in (self.lower, self.upper)))
        return ROUNDING_ROOM * bound + EPS * (self._row_sizes @ (1.0 / self.all_scales))

    def is_feasible(self, phi: Array) -> bool:
        """Whether every row is within its bounds, up to rounding."""
        return not self.n_rows or bool(np.all(self.missed(phi) <= self.room(phi)))

    @cached_property
    def at_zero(self) -> float:
        """``L`` at ``Theta = 0``."""
        return float(self.weight.sum()) * float(np.log(self.n_classes))

    def gap_unit(self, value: float) -> float:
        """Return what gaps are relative to: the objective, or rounding where that is (nearly) zero."""
        return max(abs(value), 1e-16 * self.at_zero, TINY)

    def certify(
        self, point: MultinomialPoint, multipliers: Array, tol: float, n_iter: int, ending: Status
    ) -> Certificate:
        """Return the certificate of a point with its gradient; "solved", or ``ending`` where it is not."""
        bound = self.dual_bound(point, multipliers)
        gap = abs(point.objective - bound) / self.gap_unit(point.objective)
        is_solved = gap <= tol and self.is_feasible(point.phi)
        violation = largest(self.missed(point.phi))
        return Certificate(point.objective, bound, gap, violation, n_iter, "solved" if is_solved else ending)
