"""The logistic loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fairmargin.losses.base import Loss, register

__all__ = ["LogisticLoss"]

Array = NDArray[np.float64]


@register
class LogisticLoss(Loss):
    """``l(m) = log(1 + exp(-m))``: logistic regression."""

    name = "logistic"
    single = True

    def value(self, m: Array) -> Array:
        """Return ``log(1 + exp(-m))`` without overflow."""
        loss = np.abs(m)
        np.negative(loss, out=loss)
        np.exp(loss, out=loss)
        np.log1p(loss, out=loss)
        loss -= np.minimum(m, 0.0)
        return loss

    def derivative(self, m: Array) -> Array:
        """Return ``-1 / (1 + exp(m))``."""
        return -expit(-m)

    def second_derivative(self, m: Array) -> Array:
        """Return ``p (1 - p)`` with ``p = 1 / (1 + exp(-m))``."""
        p = expit(-np.abs(m))
        return p * (1.0 - p)

    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        """Return value and both derivatives from one exponential a row, with few temporary arrays."""
        e = np.abs(m)
        np.negative(e, out=e)
        np.exp(e, out=e)
        larger = 1.0 + e  # to be the larger of the two class probabilities
        # log1p keeps the digits of the smallest losses, which float32 has not; it has no fast version there.
        value = np.log(larger) if e.dtype == np.float32 else np.log1p(e)
        value -= np.minimum(m, 0.0)
        np.reciprocal(larger, out=larger)
        e *= larger  # the smaller one
        slope = larger - e
        slope *= m <= 0.0  # faster than np.where, which stumbles over signs that change from row to row
        slope += e  # the probability of the other class
        np.negative(slope, out=slope)
        e *= larger
        return value, slope, e

    def inverse(self, u: Array) -> Array:
        """Return ``-log(exp(u) - 1)``, stable for large ``u``."""
        u = np.asarray(u, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            m = -(u + np.log(-np.expm1(-u)))
        return np.where(u <= 0, np.inf, np.where(np.isposinf(u), -np.inf, m))
