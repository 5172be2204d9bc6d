"""False negative rates: the refusals of people with a positive label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.notions.base import Notion, register

__all__ = ["FalseNegativeRate"]


@register
class FalseNegativeRate(Notion):
    """Negative decisions among the people with ``y = +1``: one of the rates of disparate mistreatment.

    It is one less the true positive rate, so that differences and covariances are the same up to their sign; ratios
    are not, and where nearly everybody with a positive label is accepted, ratios of false negative rates are the
    stricter question.
    """

    name = "false_negative_rate"
    people = "the people with a positive label"
    rate = "false negative rate"
    event = "and a positive label are refused"

    def counts(self, y: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return True for ``y = +1``."""
        return y > 0

    def sign(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return -1: refusals are counted."""
        return np.full(len(y), -1.0)
