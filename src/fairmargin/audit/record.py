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
    weight, effective_people : float
        Sum of the weights, and how many people with equal weights the rate is worth; the number of people where
        nobody has a weight.
    rate_of_others, effective_others : float
        Rate of the people the group is compared with, and how many people with equal weights it is worth.
    odds_ratio : float
        Odds of the positive decision over those of the people compared with, with exact limits.
    ratio_flipped : float
        The ratio if two people changed places: one of the side that is worse off had the positive decision
        instead of one of the other.
    flip_matters, flip_reverses : bool
        Whether that exchange moves the ratio across the threshold, and whether it takes the difference away.
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
    weight: float | None = None
    effective_people: float | None = None
    rate_of_others: float | None = None
    effective_others: float | None = None
    odds_ratio: float | None = None
    odds_ratio_low: float | None = None
    odds_ratio_high: float | None = None
    ratio_flipped: float | None = None
    flip_matters: bool = False
    flip_reverses: bool = False


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
    """What :func:`audit` found; :meth:`to_dict` is plain data, :attr:`table` a frame.

    Attributes
    ----------
    people, positives : int
        People, and positive decisions.
    threshold, confidence, correction, min_people, method
        As given to :func:`audit`.
    attributes : tuple of AuditedAttribute
    proxies, rules
        What was found among the features.
    weighted : bool
        Whether people have weights that differ.
    error_rates : tuple of ErrorRate
        Where labels were given.
    scoring : tuple of AuditedAttribute
        Where scores were given: the same comparison with "score above the median" for the decision.
    scored : tuple of ScoredGroup
        Where scores were given: means, standardised differences, AUC.
    strata : tuple of StratifiedGroup
        Where strata were given: groups compared within them.
    notion, rate : str
        The notion of fairness, and what it calls the rate that is compared: "selection rate".
    counted : str
        What happens to the people whose rate is compared, in a word: "accepted", "refused", "decided wrongly".
    among : str
        Whom the notion compares.
    compared_people : int
        How many they are.
    """

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
    weighted: bool = False
    error_rates: tuple[Any, ...] = ()
    scoring: tuple[AuditedAttribute, ...] = ()
    scored: tuple[Any, ...] = ()
    strata: tuple[Any, ...] = ()
    notion: str = "selection_rate"
    rate: str = "selection rate"
    counted: str = "accepted"
    among: str = "everybody"
    compared_people: int = 0

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

    def _repr_html_(self) -> str:
        from fairmargin.notebook import audit_html

        return audit_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data: dicts, lists, text and finite numbers."""
        plain = asdict(self)
        for kind in ("attributes", "scoring"):
            for attribute, row in zip(getattr(self, kind), plain[kind], strict=True):
                row["covariance"] = [{"group": g, "value": v} for g, v in attribute.covariance]
        plain["lowest"] = None if self.lowest is None else asdict(self.lowest)
        plain |= {"rule": RULES[self.method][0], "compared": RULES[self.method][1]}
        plain |= {"decides_alike": self.decides_alike}
        rows = [*plain["attributes"], *plain["scoring"]]
        for group in (*(g for row in rows for g in row["groups"]), plain["lowest"] or {}):
            for key in ("ratio", "odds_ratio", "odds_ratio_high"):
                if group.get(key) == math.inf:
                    group[key] = None
        return plain
