"""The contract of a notion of fairness, and the names under which notions are known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.sensitive import Sensitive, centre

__all__ = ["Notion", "get_notion", "register"]

Array = NDArray[np.float64]

_BY_NAME: dict[str, type[Notion]] = {}


class Notion:
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(vars(self).items()))))


def register(notion: type[Notion]) -> type[Notion]:
    """Make a notion known under its name; a class decorator."""
    _BY_NAME[notion.name] = notion
    return notion


def get_notion(notion: str | Notion | Any) -> Notion:
    """Return the notion called ``notion``, or ``notion`` itself if it is one."""
    if isinstance(notion, Notion):
        return notion
    if not isinstance(notion, str) or notion not in _BY_NAME:
        known = ", ".join(repr(name) for name in sorted(_BY_NAME))
        raise ValueError(f"notion must be one of {known} or an instance of a Notion, got {notion!r}.")
    return _BY_NAME[notion]()
