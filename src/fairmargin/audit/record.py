"""What an audit holds: groups, attributes, and all of them together as plain data."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd

from fairmargin.audit.findings import NOTHING, REFERENCE, TOO_FEW
from fairmargin.decisions import RULES
from fairmargin.discrimination_rules import DiscriminationRule
from fairmargin.proxies import Proxy

__all__ = ["Audit", "AuditedAttribute", "Group"]


@dataclass(frozen=True)
class Group:
    """One group of one attribute. Rates are shares, ratios percent; None where a number is not defined.

    Attributes
    ----------
    attribute, group : str
    people, positives : int
    rate : float
        Share of positive decisions, with its 95% interval (Wilson) in ``rate_low``, ``rate_high``.
    ratio : float
        Percent of the rate of those the group is compared with; for the interval see
        :func:`fairmargin.rate_statistics.ratio_interval`.
    rule : float
        What the threshold is held against: ``ratio`` or, where groups are compared with everybody else, the lower
        rate in percent of the higher.
    difference : float
        Rate less the others'; the interval is Newcombe's.
    z : float
        Standard deviations between the two rates, pooled variance.
    p_value, p_adjusted : float
        Fisher's exact test, two-sided; the second corrected for the number of comparisons that are judged.
    shortfall : float
        Positive decisions that the group lacks to have the others' rate; negative for a surplus.
    ratio_one_more, ratio_one_fewer : float
        The ratio if one more, or one fewer, of the group's people had the positive decision.
    one_decision_matters : bool
        Whether one changed decision moves the ratio across the threshold.
    finding : str
        One of the keys of ``FINDINGS``.
    merged : int
        How many small groups this row puts together; 0 for a group proper.
    """

    attribute: str
    group: str
    people: int
    positives: int
    rate: float
    rate_low: float
    rate_high: float
    rule: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    z: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    shortfall: float | None = None
    ratio_one_more: float | None = None
    ratio_one_fewer: float | None = None
    one_decision_matters: bool = False
    finding: str = NOTHING
    merged: int = 0


@dataclass(frozen=True)
class AuditedAttribute:
    """One attribute (or the intersection of all), its measures over all groups, and its groups.

    ``reference`` is whom groups are compared with. ``p_rule`` compares groups by the method of the audit, as
    :func:`fairmargin.p_rule` does, and ``p_rule_between_groups`` the lowest with the highest rate; both in percent,
    of comparisons with enough people on both sides, None if there are none.
    """

    name: str
    reference: str
    p_rule: float | None
    p_rule_between_groups: float | None
    cv_score: float | None
    groups: tuple[Group, ...]
    covariance: tuple[tuple[str, float], ...] = ()
    intersection: bool = False


@dataclass(frozen=True)
class Audit:
    """What :func:`audit` found; :meth:`to_dict` is plain data, :attr:`table` a frame."""

    people: int
    positives: int
    threshold: float
    confidence: float
    correction: str
    min_people: int
    attributes: tuple[AuditedAttribute, ...]
    proxies: tuple[Proxy, ...] = ()
    rules: tuple[DiscriminationRule, ...] = ()
    notes: tuple[str, ...] = field(default=())
    method: str = "one_vs_rest"

    @property
    def groups(self) -> list[Group]:
        """All groups of all attributes."""
        return [group for attribute in self.attributes for group in attribute.groups]

    @property
    def table(self) -> pd.DataFrame:
        """All groups, a row each, by attribute and group."""
        return pd.DataFrame([asdict(g) for g in self.groups]).set_index(["attribute", "group"])

    @property
    def lowest(self) -> Group | None:
        """The group with the lowest rule of those with enough people to say; None if there is none."""
        said = [g for g in self.groups if g.rule is not None and g.finding not in (REFERENCE, TOO_FEW)]
        return min(said, key=lambda g: g.rule or 0.0, default=None)

    @property
    def too_small(self) -> list[Group]:
        """The groups about which nothing is concluded."""
        return [g for g in self.groups if g.finding == TOO_FEW]

    @property
    def decides_alike(self) -> str | None:
        """``"accepts"`` or ``"refuses"`` where everybody gets the same decision, else None."""
        return {0: "refuses", self.people: "accepts"}.get(self.positives)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data: dicts, lists, text and finite numbers."""
        plain = asdict(self)
        for attribute, row in zip(self.attributes, plain["attributes"], strict=True):
            row["covariance"] = [{"group": g, "value": v} for g, v in attribute.covariance]
        plain["lowest"] = None if self.lowest is None else asdict(self.lowest)
        plain |= {"rule": RULES[self.method][0], "compared": RULES[self.method][1]}
        plain |= {"decides_alike": self.decides_alike}
        for group in (*(g for row in plain["attributes"] for g in row["groups"]), plain["lowest"] or {}):
            if group.get("ratio") == math.inf:
                group["ratio"] = None
        return plain
