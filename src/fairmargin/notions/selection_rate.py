"""Selection rates: everybody counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmargin.notions.base import Notion, register

__all__ = ["SelectionRate"]


@register
class SelectionRate(Notion):
    """Positive decisions among everybody: disparate impact, the notion of the paper."""

    name = "selection_rate"
    people = "everybody"
    rate = "selection rate"
    event = "are accepted"
    needs_labels = False

    def counts(self, y: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return True for everybody."""
        return np.ones(len(y), dtype=bool)
