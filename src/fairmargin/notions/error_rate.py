"""Error rates: wrong decisions among everybody."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.notions.base import Notion, register

__all__ = ["ErrorRate"]


@register
class ErrorRate(Notion):
    """Wrong decisions among everybody: overall misclassification, the first rate of disparate mistreatment.

    What is counted is the positive decision for ``y = -1`` and the negative one for ``y = +1``. The covariance is
    that of ``z`` with ``-y f(x)``, on which the intercept has a bearing (Zafar, Valera, Gomez Rodriguez, Gummadi,
    *Fairness Beyond Disparate Treatment & Disparate Impact*, WWW 2017).
    """

    name = "error_rate"
    people = "everybody"
    rate = "error rate"
    event = "are decided wrongly"

    def counts(self, y: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return True for everybody."""
        return np.ones(len(y), dtype=bool)

    def sign(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``-y``: whichever decision is wrong is counted."""
        return -np.sign(y)
