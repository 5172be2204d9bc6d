"""False positive rates: the people with a negative label count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.notions.base import Notion, register

__all__ = ["FalsePositiveRate"]


@register
class FalsePositiveRate(Notion):
    """Positive decisions among the people with ``y = -1`` (predictive equality)."""

    name = "false_positive_rate"
    people = "the people with a negative label"
    rate = "false positive rate"
    event = "and a negative label are accepted"

    def counts(self, y: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return True for ``y = -1``."""
        return y < 0
