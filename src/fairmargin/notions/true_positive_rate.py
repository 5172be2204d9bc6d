"""True positive rates: the people with a positive label count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.notions.base import Notion, register

__all__ = ["TruePositiveRate"]


@register
class TruePositiveRate(Notion):
    """Positive decisions among the people with ``y = +1``: equal opportunity.

    Of those who deserve the favourable outcome by their label, each group should get it equally often (Hardt, Price,
    Srebro, *Equality of Opportunity in Supervised Learning*, NIPS 2016).
    """

    name = "true_positive_rate"
    people = "the people with a positive label"
    rate = "true positive rate"
    event = "and a positive label are accepted"

    def counts(self, y: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return True for ``y = +1``."""
        return y > 0
