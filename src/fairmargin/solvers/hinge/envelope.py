"""The Moreau envelope of the hinge loss around given dual variables: a rounded corner, shifted row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.losses import Loss, SmoothedHingeLoss

__all__ = ["HingeEnvelope"]

Array = NDArray[np.float64]


class HingeEnvelope(Loss):
    """The smoothed hinge at margins shifted by ``width * a``, one shift per row."""

    name = "hinge envelope"

    def __init__(self, width: float, a: Array) -> None:
        self._smoothed, self._a, self._shift = SmoothedHingeLoss(width), a, width * a

    def of(self, people: slice | NDArray[np.intp]) -> HingeEnvelope:
        """Return the loss of some of the rows."""
        return HingeEnvelope(self._smoothed.width, self._a[people])

    def value(self, m: Array) -> Array:
        """Return the smoothed hinge at the shifted margins."""
        return self._smoothed.value(m - self._shift)

    def derivative(self, m: Array) -> Array:
        """Return its derivative, minus the updated dual variables."""
        return self._smoothed.derivative(m - self._shift)

    def second_derivative(self, m: Array) -> Array:
        """Return ``1 / width`` within the corner."""
        return self._smoothed.second_derivative(m - self._shift)

    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        """Return value and both derivatives."""
        return self._smoothed.derivatives(m - self._shift)
