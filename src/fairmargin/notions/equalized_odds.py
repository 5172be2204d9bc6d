"""Equalised odds: true and false positive rates at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.notions.base import Condition, Notion, register

__all__ = ["EqualizedOdds"]


@register
class EqualizedOdds(Notion):
    """Positive decisions among the people with ``y = +1``, and among those with ``y = -1``.

    Both rates must be alike in all groups: the decision may depend on a group only through the label (Hardt, Price,
    Srebro, *Equality of Opportunity in Supervised Learning*, NIPS 2016). Every sensitive column has two covariances.
    """

    name = "equalized_odds"
    people = "the people with either label"
    rate = "true and false positive rates"
    event = "and the same label are accepted"

    def conditions(self, y: NDArray[np.float64]) -> tuple[Condition, ...]:
        """Return the two conditions, ``y = +1`` first."""
        sign = np.ones(len(y))
        return (
            Condition("y=+1", "the people with a positive label", y > 0, sign),
            Condition("y=-1", "the people with a negative label", y < 0, sign),
        )
