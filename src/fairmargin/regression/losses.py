"""Losses of a residual, as losses of a score with one target per row.

The problem of :mod:`fairmargin.problem` has losses ``l(y_i f(x_i))``. With ``y_i = 1`` and a target per row,
``l_i(f) = rho(t_i - f)``, the same problem, solvers and certificate serve regression. The dual variable ``a =
-l_i'(f) = rho'(t_i - f)`` is of either sign here, and the dual term is ``-l_i*(-a) = a t_i - rho*(a)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.losses import HingeLoss, Loss

__all__ = ["HingeAtTarget", "HuberLoss", "PinballEnvelope", "PinballLoss", "ResidualLoss", "SquaredError"]

Array = NDArray[np.float64]


class ResidualLoss(Loss):
    """Base of the losses ``rho(t_i - f)``.

    Parameters
    ----------
    target : (N,)
        ``t``.
    """

    def __init__(self, target: Array) -> None:
        self.target = target

    def of(self, people: slice | NDArray[np.intp]) -> ResidualLoss:
        """Return the loss of some of the rows."""
        return type(self)(self.target[people])


class SquaredError(ResidualLoss):
    """``rho(r) = r^2 / 2``: least squares."""

    name = "squared_error"

    def value(self, m: Array) -> Array:
        """Return ``(t - m)^2 / 2``."""
        return 0.5 * (self.target - m) ** 2

    def derivative(self, m: Array) -> Array:
        """Return ``m - t``."""
        return m - self.target

    def second_derivative(self, m: Array) -> Array:
        """Return 1."""
        return np.ones_like(m)


class HuberLoss(ResidualLoss):
    """``r^2 / 2`` up to ``|r| = delta``, and its tangents beyond.

    Parameters
    ----------
    target : (N,)
    delta : float
        In the units of the target.
    """

    name = "huber"

    def __init__(self, target: Array, delta: float) -> None:
        super().__init__(target)
        self.delta = delta

    def of(self, people: slice | NDArray[np.intp]) -> HuberLoss:
        """Return the loss of some of the rows."""
        return HuberLoss(self.target[people], self.delta)

    def value(self, m: Array) -> Array:
        """Return the loss."""
        size = np.abs(self.target - m)
        inside = np.minimum(size, self.delta)
        return inside * (size - 0.5 * inside)

    def derivative(self, m: Array) -> Array:
        """Return ``-clip(t - m, -delta, delta)``."""
        return -np.clip(self.target - m, -self.delta, self.delta)

    def second_derivative(self, m: Array) -> Array:
        """Return 1 on the curved part, 0 elsewhere."""
        return np.where(np.abs(self.target - m) < self.delta, 1.0, 0.0)


class PinballLoss(ResidualLoss):
    """``q r`` for ``r >= 0`` and ``(q - 1) r`` below: its minimiser is the quantile ``q``.

    Parameters
    ----------
    target : (N,)
    quantile : float
        ``q``, between 0 and 1.
    """

    name = "quantile"
    smooth = False

    def __init__(self, target: Array, quantile: float) -> None:
        super().__init__(target)
        self.quantile = quantile

    def of(self, people: slice | NDArray[np.intp]) -> PinballLoss:
        """Return the loss of some of the rows."""
        return PinballLoss(self.target[people], self.quantile)

    def value(self, m: Array) -> Array:
        """Return the loss."""
        r = self.target - m
        return np.maximum(self.quantile * r, (self.quantile - 1.0) * r)

    def derivative(self, m: Array) -> Array:
        """Return a subgradient: ``-q`` below the target, ``1 - q`` above it, 0 at it."""
        r = self.target - m
        return np.where(r > 0, -self.quantile, np.where(r < 0, 1.0 - self.quantile, 0.0))

    def second_derivative(self, m: Array) -> Array:
        """Return 0: the loss is piecewise linear."""
        return np.zeros_like(m)

    def dual_terms(self, m: Array, a: Array) -> Array:
        """Return ``a t``, for every ``a`` in ``[q - 1, q]`` whatever the score."""
        return a * self.target


class PinballEnvelope(ResidualLoss):
    """The Moreau envelope of the pinball loss around dual variables: its corner rounded, and shifted row by row.

    With ``u = r + width a`` and ``s = clip(u / width, q - 1, q)`` it is ``s u - width s^2 / 2`` (up to a constant),
    and ``s`` are the next dual variables.

    Parameters
    ----------
    target : (N,)
    quantile : float
    width : float
    dual : (N,)
        ``a``, in ``[q - 1, q]``.
    """

    name = "pinball envelope"

    def __init__(self, target: Array, quantile: float, width: float, dual: Array) -> None:
        super().__init__(target)
        self.quantile, self.width, self.dual = quantile, width, dual
        self._corner = target + width * dual

    def of(self, people: slice | NDArray[np.intp]) -> PinballEnvelope:
        """Return the loss of some of the rows."""
        return PinballEnvelope(self.target[people], self.quantile, self.width, self.dual[people])

    def value(self, m: Array) -> Array:
        """Return the envelope."""
        u = self._corner - m
        s = np.clip(u / self.width, self.quantile - 1.0, self.quantile)
        return s * (u - 0.5 * self.width * s)

    def derivative(self, m: Array) -> Array:
        """Return ``-s``."""
        return -np.clip((self._corner - m) / self.width, self.quantile - 1.0, self.quantile)

    def second_derivative(self, m: Array) -> Array:
        """Return ``1 / width`` within the corner."""
        u = (self._corner - m) / self.width
        return np.where((u > self.quantile - 1.0) & (u < self.quantile), 1.0 / self.width, 0.0)


class HingeAtTarget(HingeLoss):
    """``max(0, t_i - f)``: the pinball loss less its linear part ``(1 - q) (f - t_i)``.

    Parameters
    ----------
    target : (N,)
    """

    def __init__(self, target: Array) -> None:
        self.corner = target

    def of(self, people: slice | NDArray[np.intp]) -> HingeAtTarget:
        """Return the loss of some of the rows."""
        return HingeAtTarget(np.asarray(self.corner)[people])

    def value(self, m: Array) -> Array:
        """Return ``max(0, t - m)``."""
        return np.maximum(self.corner - m, 0.0)

    def derivative(self, m: Array) -> Array:
        """Return -1 below the target and 0 above: one subgradient."""
        return np.where(m < self.corner, -1.0, 0.0)

    def dual_terms(self, m: Array, a: Array) -> Array:
        """Return ``a t``, for every ``a`` in ``[0, 1]``."""
        return a * self.corner
