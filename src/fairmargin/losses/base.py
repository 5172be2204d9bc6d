"""The contract of a margin loss, and the names under which losses are known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmargin.named import Named, Registry

__all__ = ["LOSSES", "Loss", "get_loss", "register"]

Array = NDArray[np.float64]


class Loss(Named):
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


LOSSES: Registry[Loss] = Registry()
register = LOSSES.register


def get_loss(loss: str | Loss | Any) -> Loss:
    """Return the loss called ``loss``, or check that an own loss keeps the contract.

    An own loss is probed on a grid of margins: finite, non-increasing, convex, and with derivatives that match its
    values. A breach raises a ``ValueError`` that says which of these failed.
    """
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(f"Unknown loss {loss!r}; the known ones are {', '.join(LOSSES.names)}.")
        return LOSSES.make(loss)
    if LOSSES.has_kind(loss):
        return loss
    if isinstance(loss, type) or not isinstance(loss, Loss):
        raise ValueError(
            f"loss must be one of {', '.join(LOSSES.names)} or an instance of a subclass of "
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
