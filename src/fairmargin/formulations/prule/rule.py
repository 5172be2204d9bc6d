"""What a rule asks of the rates of groups: a least ratio, or a largest difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import PRuleBound
from fairmargin.decisions import GroupCounts, highest_difference, least_ratio
from fairmargin.formatting import ratio_beside
from fairmargin.notions import Notion, get_notion

__all__ = ["EQUAL", "Rule", "make_rule"]

Array = NDArray[np.float64]

EQUAL = 100.0  # the p, in percent, of equal rates
_NORMAL_95 = 1.96  # two-sided 95% quantile of the normal distribution
_TAIL = 0.025  # beyond it


@dataclass(frozen=True)
class Rule:
    """How alike the rates of groups must be.

    Attributes
    ----------
    kind : {"ratio", "difference"}
    level : float
        What must be reached: the p of a ratio, in percent, or minus the largest difference. Of either kind, a higher
        level asks for more.
    method : str
        How groups are compared, as in :func:`fairmargin.p_rule`.
    rates : str
        What is compared, in words; empty for selection rates.
    """

    kind: str
    level: float
    method: str = "one_vs_rest"
    rates: str = ""

    @property
    def asks_nothing(self) -> bool:
        """Whether all decisions keep the rule."""
        return self.kind == "ratio" and self.level == 0.0

    @property
    def share(self) -> float:
        """The p of a ratio, as a share."""
        return self.level / EQUAL

    def at(self, level: float) -> Rule:
        """Return the same rule at another level."""
        return replace(self, level=level)

    @property
    def equal_rates(self) -> Rule:
        """The rule that asks for equal rates."""
        return self.at(EQUAL if self.kind == "ratio" else 0.0)

    def reached(self, counts: Sequence[GroupCounts]) -> Any:
        """Return the level that counted decisions reach, one number per decision rule.

        Where the counted decision is made for nobody, all groups are treated alike.
        """
        if self.kind == "difference":
            return 0.0 - highest_difference(counts, self.method)
        ratio = least_ratio(counts, self.method)
        return np.where(np.isnan(ratio), EQUAL, ratio)

    def allowed(self, rate: Array, rest: Array) -> Array:
        """Return the gap that the rule allows between the rates of a group and of everybody else.

        Where groups are compared with each other, each may be off to one side: then half of the room is for each.
        """
        between = self.method == "between_groups"
        if self.kind == "difference":
            return np.full(len(rate), -self.level * (0.5 if between else 1.0))
        return (1.0 - (math.sqrt(self.share) if between else self.share)) * np.maximum(rate, rest)

    def too_few(self, rate: Array, people: Array) -> NDArray[np.bool_]:
        """Return where chance alone moves a rate among ``people`` by more than the rule allows (95% interval)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            error = _NORMAL_95 * np.sqrt(rate * (1.0 - rate) / people)
            # Where all or none of them are counted, the distance of the exact limit (Clopper and Pearson).
            error = np.where((rate <= 0) | (rate >= 1), 1.0 - _TAIL ** (1.0 / people), error)
            if self.kind == "difference":
                return error > -self.level
            allowed = -np.log(max(self.share, np.finfo(float).tiny))
            return (rate <= 0) | (error / rate > allowed)

    @property
    def text(self) -> str:
        """The rule in words."""
        if self.kind == "difference":
            return f"difference of at most {-self.level:g} between {self.rates or 'selection rates'}"
        return f"{self.level:g}%-rule" + (f" of {self.rates}" if self.rates else "")

    def told(self, reached: float) -> str:
        """Return a level that was reached in words."""
        return f"{-reached:.3f}" if self.kind == "difference" else ratio_beside(reached, self.level)

    @property
    def weaker(self) -> str:
        """What to ask for instead, in words."""
        return "a larger difference" if self.kind == "difference" else "a lower p"


def rates_in_words(notion: Notion) -> str:
    """Return the rates that a notion compares, in the plural; empty for selection rates."""
    if notion.name == "selection_rate":
        return ""
    return notion.rate if notion.rate.endswith("s") else f"{notion.rate}s"


def make_rule(constraint: PRuleBound) -> Rule:
    """Return the rule that a constraint asks for."""
    rates = rates_in_words(get_notion(constraint.notion))
    if constraint.difference is not None:
        return Rule("difference", -float(constraint.difference), constraint.method, rates)
    assert constraint.p is not None
    return Rule("ratio", float(constraint.p), constraint.method, rates)
