"""The contract of a notion of fairness, and the names under which notions are known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.named import Named, Registry
from fairmargin.sensitive import Sensitive, centre

__all__ = ["Notion", "get_notion", "register"]

Array = NDArray[np.float64]


class Notion(Named):
    """Base class and contract of a notion of fairness.

    Attributes
    ----------
    name : str
        How constraints refer to it: ``CovarianceBound(0.0, notion="selection_rate")``.
    people : str
        Whom it compares, for messages: "the people with a positive label".
    """

    name: str = ""
    people: str = ""

    def counts(self, y: Array) -> NDArray[np.bool_]:
        """Return which people count, shape (N,), given their labels in {-1, +1}."""
        raise NotImplementedError

    def centred(self, sensitive: Sensitive, y: Array, weight: Array) -> Array:
        """Return ``(W / W_S) 1{i in S} (z_ik - zbar_k^S)``, shape (N, K), with W the weight of all and W_S that of S.

        The factor makes the covariance over everybody the covariance among the people who count.
        """
        chosen = np.flatnonzero(self.counts(y))
        self._check(sensitive, chosen)
        columns = sensitive.columns()
        centred = np.zeros_like(columns)
        centred[chosen] = centre(columns[chosen], weight[chosen]) * (weight.sum() / weight[chosen].sum())
        return centred

    def _check(self, sensitive: Sensitive, chosen: NDArray[np.intp]) -> None:
        for attribute in sensitive.attributes:
            values = attribute.codes if attribute.codes is not None else attribute.values
            assert values is not None
            if len(np.unique(values[chosen])) < 2:
                raise ValueError(
                    f"The notion {self.name!r} compares groups of {attribute.name!r} among {self.people}, "
                    "of whom at most one group has any."
                )


_NOTIONS: Registry[Notion] = Registry()
register = _NOTIONS.register


def get_notion(notion: str | Notion | Any) -> Notion:
    """Return the notion called ``notion``, or ``notion`` itself if it is one."""
    if isinstance(notion, Notion):
        return notion
    if notion not in _NOTIONS:
        known = ", ".join(repr(name) for name in _NOTIONS.names)
        raise ValueError(f"notion must be one of {known} or an instance of a Notion, got {notion!r}.")
    return _NOTIONS.make(notion)
