"""The hinge loss and its smooth relatives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.losses.base import Loss, register

__all__ = ["HingeLoss", "SmoothedHingeLoss", "SquaredHingeLoss"]

Array = NDArray[np.float64]


@register
class HingeLoss(Loss):
    """``l(m) = max(0, 1 - m)``: the support vector machine."""

    name = "hinge"
    smooth = False
    corner: float | Array = 1.0  # the margin beyond which there is no loss

    def value(self, m: Array) -> Array:
        """Return ``max(0, 1 - m)``."""
        return np.maximum(1.0 - m, 0.0)

    def derivative(self, m: Array) -> Array:
        """Return -1 inside the margin and 0 outside: one subgradient."""
        return np.where(m < 1.0, -1.0, 0.0)

    def second_derivative(self, m: Array) -> Array:
        """Return 0: the hinge loss is piecewise linear."""
        return np.zeros_like(m)

    def dual_terms(self, m: Array, a: Array) -> Array:
        """Return ``-l*(-a) = a``, for every ``a`` in ``[0, 1]`` whatever the margin."""
        return a

    def inverse(self, u: Array) -> Array:
        """Return ``1 - u``."""
        u = np.asarray(u, dtype=float)
        return np.where(u < 0, np.inf, 1.0 - u)


@register
class SquaredHingeLoss(Loss):
    """``l(m) = max(0, 1 - m)^2``: the L2 support vector machine."""

    name = "squared_hinge"
    single = True

    def value(self, m: Array) -> Array:
        """Return ``max(0, 1 - m)^2``."""
        return np.maximum(1.0 - m, 0.0) ** 2

    def derivative(self, m: Array) -> Array:
        """Return ``-2 max(0, 1 - m)``."""
        return -2.0 * np.maximum(1.0 - m, 0.0)

    def second_derivative(self, m: Array) -> Array:
        """Return 2 inside the margin, 0 outside."""
        return np.where(m < 1.0, 2.0, 0.0)

    def inverse(self, u: Array) -> Array:
        """Return ``1 - sqrt(u)``."""
        u = np.asarray(u, dtype=float)
        return np.where(u < 0, np.inf, 1.0 - np.sqrt(np.maximum(u, 0.0)))


@register
class SmoothedHingeLoss(Loss):
    """The hinge loss with its corner rounded over a width (Huber's way).

    ``0`` for ``m >= 1``, ``(1 - m)^2 / (2 width)`` for ``1 - width <= m < 1``, and
    ``1 - m - width / 2`` below.

    Parameters
    ----------
    width : float, default=0.5
        Length of the rounded part; the hinge loss is the limit at 0.
    """

    name = "smoothed_hinge"
    single = True

    def __init__(self, width: float = 0.5) -> None:
        if not (np.isfinite(width) and width > 0):
            raise ValueError(f"The width of the smoothed hinge must be a positive number, got {width!r}.")
        self.width = float(width)

    def value(self, m: Array) -> Array:
        """Return the rounded hinge."""
        short = np.maximum(1.0 - m, 0.0)
        inside = np.minimum(short, self.width)
        return inside * (short - 0.5 * inside) / self.width

    def derivative(self, m: Array) -> Array:
        """Return ``-min(1, max(0, 1 - m) / width)``."""
        return -np.clip((1.0 - m) / self.width, 0.0, 1.0)

    def second_derivative(self, m: Array) -> Array:
        """Return ``1 / width`` on the rounded part, 0 elsewhere."""
        return np.where((m < 1.0) & (m > 1.0 - self.width), 1.0 / self.width, 0.0)

    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        """Return value and both derivatives, which share the distance to the corner."""
        short = np.maximum(1.0 - m, 0.0)
        inside = np.minimum(short, self.width)
        slope = inside / -self.width
        curved = (inside > 0.0) & (inside < self.width)
        return (0.5 * inside - short) * slope, slope, curved / m.dtype.type(self.width)

    def inverse(self, u: Array) -> Array:
        """Return the margin at which the loss is ``u``, piece by piece."""
        u = np.asarray(u, dtype=float)
        rounded = 1.0 - np.sqrt(2.0 * self.width * np.maximum(u, 0.0))
        straight = 1.0 - u - 0.5 * self.width
        return np.where(u < 0, np.inf, np.where(u <= 0.5 * self.width, rounded, straight))
