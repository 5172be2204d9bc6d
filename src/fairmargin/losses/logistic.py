"""The logistic loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.losses.base import Loss, register

__all__ = ["LogisticLoss"]

Array = NDArray[np.float64]


@register
class LogisticLoss(Loss):
    """``l(m) = log(1 + exp(-m))``: logistic regression.

    Everything is computed from the odds ``exp(-m)`` of the other class, up to a margin where they overflow.
    """

    name = "logistic"
    single = True

    def value(self, m: Array) -> Array:
        """Return ``log(1 + exp(-m))`` without overflow."""
        return _continued(np.log1p(_odds(m)), m)

    def derivative(self, m: Array) -> Array:
        """Return ``-1 / (1 + exp(m))``."""
        odds = _odds(m)
        odds /= -1.0 - odds
        return odds

    def second_derivative(self, m: Array) -> Array:
        """Return ``p (1 - p)`` with ``p = 1 / (1 + exp(-m))``."""
        odds = _odds(m)
        p = 1.0 / (1.0 + odds)
        return odds * p * p

    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        """Return value and both derivatives from one exponential per row, with few temporary arrays."""
        odds = _odds(m)
        p = 1.0 + odds
        # log1p keeps the digits of the smallest losses, which float32 has not; it has no fast version there.
        value = _continued(np.log(p) if odds.dtype == np.float32 else np.log1p(odds), m)
        np.reciprocal(p, out=p)
        odds *= p  # the probability of the other class
        p *= odds
        np.negative(odds, out=odds)
        return value, odds, p

    def inverse(self, u: Array) -> Array:
        """Return ``-log(exp(u) - 1)``, stable for large ``u``."""
        u = np.asarray(u, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            m = -(u + np.log(-np.expm1(-u)))
        return np.where(u <= 0, np.inf, np.where(np.isposinf(u), -np.inf, m))


def _odds(m: Array) -> Array:
    """Return ``exp(-m)``, as it is at the farthest margin below that."""
    odds = np.negative(m)
    np.minimum(odds, _farthest(odds), out=odds)
    return np.exp(odds, out=odds)


def _continued(value: Array, m: Array) -> Array:
    """Return the losses with those below the farthest margin, where the loss is straight."""
    farthest = _farthest(m)
    if m.size and m.min() < -farthest:
        value -= np.minimum(m + farthest, 0.0)
    return value


def _farthest(m: Array) -> float:
    """Return how far a margin may be below 0 for neither its odds nor their inverse to leave the range of numbers."""
    return 85.0 if m.dtype == np.float32 else 700.0
