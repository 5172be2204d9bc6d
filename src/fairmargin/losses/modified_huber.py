"""The modified Huber loss: a squared hinge that one outlier cannot decide."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.losses.base import Loss, register

__all__ = ["ModifiedHuberLoss"]

Array = NDArray[np.float64]


@register
class ModifiedHuberLoss(Loss):
    """The squared hinge loss, continued by its tangent below a margin of -1.

    ``l(m) = max(0, 1 - m)^2`` for ``m >= -1`` and ``-4 m`` below: curved as the squared hinge loss near the margin,
    and only straight for people far on the wrong side. It is ``loss="modified_huber"`` of
    ``sklearn.linear_model.SGDClassifier`` (Zhang, *Solving large scale linear prediction problems using stochastic
    gradient descent algorithms*, ICML 2004).
    """

    name = "modified_huber"
    single = True

    def value(self, m: Array) -> Array:
        """Return ``max(0, 1 - m)^2``, and ``-4 m`` below -1."""
        short = np.maximum(1.0 - m, 0.0)
        inside = np.minimum(short, 2.0)
        return inside * (2.0 * short - inside)

    def derivative(self, m: Array) -> Array:
        """Return ``-2 max(0, 1 - m)``, and -4 below -1."""
        return -2.0 * np.clip(1.0 - m, 0.0, 2.0)

    def second_derivative(self, m: Array) -> Array:
        """Return 2 on the curved part, 0 elsewhere."""
        return np.where((m < 1.0) & (m > -1.0), 2.0, 0.0)

    def inverse(self, u: Array) -> Array:
        """Return ``1 - sqrt(u)`` up to a loss of 4, and ``-u / 4`` above."""
        u = np.asarray(u, dtype=float)
        curved = 1.0 - np.sqrt(np.maximum(u, 0.0))
        return np.where(u < 0, np.inf, np.where(u <= 4.0, curved, -0.25 * u))
