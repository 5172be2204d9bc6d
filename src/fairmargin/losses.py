"""Margin losses: pointwise, convex and decreasing functions of the margin ``m = y f(x)``.

A loss knows nothing of data, weights or penalties. What the rest of the package asks of one:

==================  =====================================================================
``value(m)``        ``l(m)``, convex, non-increasing, bounded below by ``infimum``
``derivative(m)``   ``l'(m) <= 0`` (for a non-smooth loss, one subgradient)
``second_derivative(m)``  ``l''(m) >= 0``; only smooth losses need it
``inverse(u)``      the smallest ``m`` with ``l(m) <= u``: ``l(m) <= u  <=>  m >= inverse(u)``
==================  =====================================================================

Write your own by deriving from :class:`Loss`; only the first three are required.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

__all__ = ["HingeLoss", "LogisticLoss", "Loss", "SmoothedHingeLoss", "SquaredHingeLoss", "get_loss"]

Array = NDArray[np.float64]


class Loss:
    """Base class and contract of a convex decreasing margin loss.

    Attributes
    ----------
    name : str
        How the loss is called in messages and tables.
    smooth : bool
        Whether the loss is differentiable; decides which solver can take it.
    infimum : float
        ``inf_m l(m)``; 0 for every loss of this module.
    single : bool
        Whether the formulas hold good for margins in float32, in which first approximations are made.
    """

    name: str = "loss"
    smooth: bool = True
    infimum: float = 0.0
    single: bool = False

    def value(self, m: Array) -> Array:
        """Return ``l(m)``, elementwise."""
        raise NotImplementedError

    def derivative(self, m: Array) -> Array:
        """Return ``l'(m)``, elementwise."""
        raise NotImplementedError

    def second_derivative(self, m: Array) -> Array:
        """Return ``l''(m)``, elementwise (a generalised one at kinks of ``l'``)."""
        raise NotImplementedError

    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        """Return ``l(m), l'(m), l''(m)``; override where they share work."""
        return self.value(m), self.derivative(m), self.second_derivative(m)

    def dual_terms(self, m: Array, a: Array) -> Array:
        """Return ``-l*(-a)`` for ``a = -l'(m)``: by Fenchel's equality it is ``l(m) + a m``."""
        return self.value(m) + a * m

    def of(self, people: slice | NDArray[np.intp]) -> Loss:
        """Return the loss of some of the people: the same, unless every person has one of their own."""
        return self

    def inverse(self, u: Array) -> Array:
        """Return the smallest ``m`` with ``l(m) <= u`` (``inf`` where there is none); by bisection."""
        u = np.asarray(u, dtype=float)
        low, high = np.full(u.shape, -1.0), np.full(u.shape, 1.0)
        for _ in range(60):  # widen until l(low) > u >= l(high)
            low = np.where(self.value(low) <= u, 2 * low, low)
            high = np.where(self.value(high) > u, 2 * high, high)
        for _ in range(120):
            middle = 0.5 * (low + high)
            reached = self.value(middle) <= u
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return np.where(self.value(high) <= u, high, np.inf)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(vars(self).items()))))


class LogisticLoss(Loss):
    """``l(m) = log(1 + exp(-m))``: logistic regression."""

    name = "logistic"
    single = True

    def value(self, m: Array) -> Array:
        """Return ``log(1 + exp(-m))`` without overflow."""
        return np.maximum(-m, 0.0) + np.log1p(np.exp(-np.abs(m)))

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


class HingeLoss(Loss):
    """``l(m) = max(0, 1 - m)``: the support vector machine."""

    name = "hinge"
    smooth = False

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

    def __repr__(self) -> str:
        return f"SmoothedHingeLoss(width={self.width!r})"

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

    def inverse(self, u: Array) -> Array:
        """Return the margin at which the loss is ``u``, piece by piece."""
        u = np.asarray(u, dtype=float)
        rounded = 1.0 - np.sqrt(2.0 * self.width * np.maximum(u, 0.0))
        straight = 1.0 - u - 0.5 * self.width
        return np.where(u < 0, np.inf, np.where(u <= 0.5 * self.width, rounded, straight))


_BY_NAME: dict[str, type[Loss]] = {
    kind.name: kind for kind in (LogisticLoss, HingeLoss, SquaredHingeLoss, SmoothedHingeLoss)
}


def get_loss(loss: str | Loss | Any) -> Loss:
    """Return the loss called ``loss``, or check that an own loss keeps the contract.

    An own loss is probed on a grid of margins: finite, non-increasing, convex, and with derivatives that
    match its values. A breach is a ``ValueError`` that says which of these failed.
    """
    if isinstance(loss, str):
        if loss not in _BY_NAME:
            known = ", ".join(sorted(_BY_NAME))
            raise ValueError(f"Unknown loss {loss!r}; the known ones are {known}.")
        return _BY_NAME[loss]()
    if type(loss) in _BY_NAME.values():
        return loss
    if isinstance(loss, type) or not isinstance(loss, Loss):
        raise ValueError(
            f"loss must be one of {', '.join(sorted(_BY_NAME))} or an instance of a subclass of "
            f"fairmargin.losses.Loss, got {loss!r}."
        )
    _check_contract(loss)
    return loss


def _check_contract(loss: Loss) -> None:
    grid = np.linspace(-8.0, 8.0, 401) + 1e-3  # off the corners at whole numbers
    step = 1e-5
    name = type(loss).__name__
    for needed in ("value", "derivative") + (("second_derivative",) if loss.smooth else ()):
        try:
            answer: ArrayLike = getattr(loss, needed)(grid)
        except NotImplementedError:
            raise ValueError(f"The loss {name} does not define {needed}(m).") from None
        if np.shape(answer) != grid.shape or not np.all(np.isfinite(answer)):
            raise ValueError(f"{name}.{needed}(m) must return one finite number for each margin.")
    value, slope = np.asarray(loss.value(grid)), np.asarray(loss.derivative(grid))
    if loss.smooth:
        each = value, slope, np.asarray(loss.second_derivative(grid))
        if not all(np.allclose(a, b) for a, b in zip(loss.derivatives(grid), each, strict=True)):
            raise ValueError(f"{name}.derivatives(m) does not agree with value, derivative and second_derivative.")
    scale = 1.0 + np.abs(value).max()
    if np.any(np.diff(value) > 1e-9 * scale) or np.any(slope > 1e-9):
        raise ValueError(f"The loss {name} increases in the margin; a margin loss must not.")
    if np.any(np.diff(value, 2) < -1e-9 * scale):
        raise ValueError(f"The loss {name} is not convex in the margin.")
    if np.any(value < loss.infimum - 1e-12):
        raise ValueError(f"The loss {name} falls below its infimum {loss.infimum}; set the attribute right.")
    difference = (np.asarray(loss.value(grid + step)) - np.asarray(loss.value(grid - step))) / (2 * step)
    if np.max(np.abs(difference - slope)) > 1e-3 * (1.0 + np.abs(slope).max()):
        raise ValueError(f"{name}.derivative(m) is not the derivative of {name}.value(m).")
