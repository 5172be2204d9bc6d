"""The contract of a notion of fairness, and the names under which notions are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.named import Named, Registry

__all__ = ["NOTIONS", "Condition", "Notion", "get_notion", "register"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Condition:
    """People among whom groups are compared, and which of their decisions is counted.

    Attributes
    ----------
    name : str
        For tables, e.g. ``"y=+1"``; empty where a notion has but one condition.
    people : str
        The same in words, for messages.
    counts : (N,) of bool
        Who counts.
    sign : (N,)
        +1 for those whose positive decision is counted, -1 for those whose negative one is.
    """

    name: str
    people: str
    counts: Mask
    sign: Array

    def events(self, accepted: Mask) -> Mask:
        """Return for whom the counted decision was made, (N,); it means nothing for those who do not count."""
        return np.asarray(accepted, dtype=bool) == self._is_positive

    @cached_property
    def _is_positive(self) -> Mask:
        return self.sign > 0

    def within(self, name: str, inside: Mask) -> Condition:
        """Return the condition among some of the people, a stratum called ``name``."""
        both = f"{self.name}, {name}" if self.name else name
        return replace(self, name=both, people=f"{self.people} in {name}", counts=self.counts & inside)

    def take(self, rows: NDArray[Any]) -> Condition:
        """Return the condition of some of the people."""
        return replace(self, counts=self.counts[rows], sign=self.sign[rows])


class Notion(Named):
    """Base class and contract of a notion of fairness.

    A notion of one rate defines :meth:`counts` and, where refusals or errors are counted, :meth:`sign`; one of
    several rates, which must all be alike, defines :meth:`conditions` instead.

    Attributes
    ----------
    name : str
        How constraints refer to it: ``CovarianceBound(0.0, notion="selection_rate")``.
    people : str
        Whom it compares, for messages: "the people with a positive label".
    rate : str
        What is compared, for tables and figures: "true positive rate".
    event : str
        What is counted, for sentences that begin "people with sex = Female": "and a positive label are accepted".
    needs_labels : bool
        Whether who counts, or what is counted, depends on labels.
    """

    name: str = ""
    people: str = ""
    rate: str = ""
    event: str = ""
    needs_labels: bool = True

    def counts(self, y: Array) -> Mask:
        """Return which people count, shape (N,), given their labels in {-1, +1}."""
        raise NotImplementedError

    def sign(self, y: Array) -> Array:
        """Return +1 for those whose positive decision is counted, as by default for all, and -1 for the others."""
        return np.ones(len(y))

    def conditions(self, y: Array) -> tuple[Condition, ...]:
        """Return the conditions under which groups are compared, given labels in {-1, +1}."""
        return (Condition("", self.people, np.asarray(self.counts(y), dtype=bool), self.sign(y)),)


NOTIONS: Registry[Notion] = Registry()
register = NOTIONS.register

_MEANT = {  # other usual names
    "accuracy": "error_rate",
    "demographic_parity": "selection_rate",
    "disparate_impact": "selection_rate",
    "equal_opportunity": "true_positive_rate",
    "equalised_odds": "equalized_odds",
    "fnr": "false_negative_rate",
    "fpr": "false_positive_rate",
    "predictive_equality": "false_positive_rate",
    "tpr": "true_positive_rate",
}


def get_notion(notion: str | Notion | Any) -> Notion:
    """Return the notion called ``notion``, or ``notion`` itself if it is one."""
    if isinstance(notion, Notion):
        return notion
    if notion not in NOTIONS:
        known = ", ".join(repr(name) for name in NOTIONS.names)
        meant = _MEANT.get(notion) if isinstance(notion, str) else None
        hint = "" if meant is None else f"; did you mean {meant!r}?"
        raise ValueError(f"notion must be one of {known} or an instance of a Notion, got {notion!r}{hint or '.'}")
    return NOTIONS.make(notion)
