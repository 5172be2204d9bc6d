"""The multinomial objective: values, derivatives and entropies, with what passes over the data share.

It does not know of constraints, so that problems under different ones share it, and points evaluated on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairmargin.tolerances import EPS

__all__ = ["MultinomialObjective", "MultinomialPoint", "class_basis"]

Array = NDArray[np.float64]

_BLOCK = 1 << 14  # rows that pointwise work is done on at a time: their temporary arrays stay in the cache


@lru_cache(maxsize=32)
def class_basis(n_classes: int) -> Array:
    """Return ``U``, an orthonormal basis of the vectors of mean zero, (Q, Q-1)."""
    basis = np.ascontiguousarray(scipy.linalg.helmert(n_classes).T)
    basis.flags.writeable = False
    return basis


@lru_cache(maxsize=32)
def _differences(n_classes: int) -> Array:
    """Return ``U' (e_q - e_r) (e_q - e_r)' U`` of every pair of classes, as (pairs, (Q-1)^2)."""
    U = class_basis(n_classes)
    rows = np.array([U[q] - U[r] for q, r in combinations(range(n_classes), 2)])
    return (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)


@dataclass
class MultinomialPoint:
    """A point with everything evaluated there.

    Attributes
    ----------
    objective : MultinomialObjective
        What was evaluated.
    phi : ((Q-1) p,)
    scores, probabilities : (Q, N)
    value : float
        ``L``.
    entropy : float
        ``sum_i c_i H(P_i)``.
    gradient : ((Q-1) p,)
        Of ``L``; empty until it is added, as is
    pull : (Q, p)
        ``Xa'(c P - T)``.
    """

    objective: MultinomialObjective
    phi: Array
    scores: Array
    probabilities: Array
    value: float
    entropy: float
    gradient: Array
    pull: Array

    @property
    def rounding(self) -> float:
        """What rounding may do to the value."""
        return 50.0 * EPS * abs(self.value)


@dataclass(frozen=True, eq=False)
class MultinomialObjective:
    """``L`` in the coordinates ``Phi``; see :mod:`fairmargin.multiclass.problem` for the mathematics.

    Parameters
    ----------
    design : Design, N rows and p columns
    masses : (Q, N), the ``T_iq``
    ridge : (p,), the ``rho_j >= 0``
    """

    design: Any
    masses: Array
    ridge: Array

    @property
    def n_classes(self) -> int:
        """Number of classes Q."""
        return len(self.masses)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of ``Phi``."""
        return self.n_classes - 1, self.design.shape[1]

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return (self.n_classes - 1) * int(self.design.shape[1])

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

    @cached_property
    def total(self) -> float:
        """Sum of all masses."""
        return float(self.weight.sum())

    @cached_property
    def at_zero(self) -> float:
        """``L`` at ``Theta = 0``."""
        return self.total * float(np.log(self.n_classes))

    @cached_property
    def all_scales(self) -> Array:
        """Size of the column behind every coordinate of ``Phi``."""
        return np.tile(self.design.scale, self.n_classes - 1)

    def take(self, index: NDArray[np.intp]) -> MultinomialObjective:
        """Return the objective on some of the rows of X, weighted up to the same total."""
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
    def unpenalised(self) -> NDArray[np.intp]:
        """The coordinates of ``Phi`` without a penalty."""
        return np.flatnonzero(self.all_ridge == 0)

    @cached_property
    def inverse_ridge(self) -> Array:
        """One over ``all_ridge``, zero where that is zero."""
        return np.divide(1.0, self.all_ridge, out=np.zeros(self.size), where=self.all_ridge > 0)

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
        return MultinomialPoint(self, phi, scores, P, losses + self.penalty(phi), entropy, empty, empty)

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
        design, p = self._single_design if single else self.design, self.design.shape[1]
        if np.any(point.phi):
            weighted = self.weight * point.probabilities
            pairs = combinations(range(self.n_classes), 2)
            grams = np.array(
                [design.sandwich(weighted[q] * point.probabilities[r], None, single).ravel() for q, r in pairs]
            )
            blocks = _differences(self.n_classes).T @ grams
        else:  # all pairs have the same
            gram = design.sandwich(self.weight / self.n_classes**2, None, single).ravel()
            blocks = np.outer(_differences(self.n_classes).sum(axis=0), gram)
        rest = self.n_classes - 1
        hessian = blocks.reshape(rest, rest, p, p).transpose(0, 2, 1, 3).reshape(self.size, self.size)
        np.einsum("ii->i", hessian)[:] += self.all_ridge
        return hessian

    @cached_property
    def _single_design(self) -> Any:
        """The data in single precision where that pays, made once for all Gram matrices."""
        single = self.design.single()
        return self.design if single is None else single
