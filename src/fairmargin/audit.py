"""Screening decisions for disparate impact, group by group and with intervals.

For every group of every sensitive attribute: size, positive rate, ratio and difference against other people with 95%
intervals, Fisher's exact test, the number of standard deviations, the shortfall in people, and what one
changed decision would do. The statistics are computed by scipy and statsmodels.

What is compared. Each group is compared with everybody else, as :func:`fairmargin.p_rule` does: ``rule`` is the lower
of the two rates in percent of the higher. With ``method="between_groups"``, of two groups, and where a reference is
named, groups are compared with a reference group: the one with the highest rate of those with enough people, unless
one is named. P-values are corrected for the number of comparisons that are judged (Holm). A group with fewer than
``min_people`` people, or with fewer to compare it with, is listed, but nothing is concluded about it.

This is a screen. It finds differences worth explaining; whether a difference is justified or lawful is not a question
that a table answers, and the result does not claim to.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.decisions import RULES, GroupCounts, count_groups, least_ratio
from fairmargin.discrimination_rules import DiscriminationRule, find_discrimination_rules
from fairmargin.inputs import check_container
from fairmargin.metrics import decision_boundary_covariance
from fairmargin.proxies import Proxy, find_proxies
from fairmargin.rate_statistics import compare_rates, rate_interval, ratio_interval, statsmodels_module
from fairmargin.sensitive import Attribute, encode_sensitive
from fairmargin.validation import check_count, check_number

__all__ = ["FINDINGS", "Audit", "AuditedAttribute", "Group", "Proxy", "audit", "find_proxies", "ratio_interval"]

Array = NDArray[np.float64]

REFERENCE = "reference"
REST = "everybody else"
TOO_FEW = "too few people to say"
UNDEFINED = "nobody gets the positive decision"
BELOW = "below the threshold, beyond chance"
BELOW_MAYBE = "below the threshold, may be chance"
ABOVE = "others are below the threshold, beyond chance"
ABOVE_MAYBE = "others are below the threshold, may be chance"
DIFFERENT = "above the threshold, but different beyond chance"
NOTHING = "no difference found"
FINDINGS = {
    REFERENCE: "the group that the others are compared with",
    TOO_FEW: "the group, or the people it is compared with, are so few that their rate says little",
    UNDEFINED: "the rates of this group and of those it is compared with are both zero",
    BELOW: "the ratio of rates is below the threshold, and chance alone seldom makes such a difference",
    BELOW_MAYBE: "the ratio of rates is below the threshold, but chance alone may well make such a difference",
    ABOVE: "the others' rate in percent of this group's is below the threshold, and chance alone seldom does that",
    ABOVE_MAYBE: "the others' rate in percent of this group's is below the threshold, but chance may well do that",
    DIFFERENT: "the ratio of rates reaches the threshold, yet chance alone seldom makes such a difference",
    NOTHING: "the ratio of rates reaches the threshold, and chance alone may well make such a difference",
}
_RULES = 10  # discriminatory rules of each kind on the list: more than anybody reads


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


def audit(
    decisions: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = 1,
    method: str = "one_vs_rest",
    scores: Any = None,
    reference: Mapping[str, Any] | None = None,
    intersections: bool = False,
    threshold: float = 80.0,
    confidence: float = 0.95,
    correction: str = "holm",
    min_people: int = 30,
    max_groups: int = 30,
    features: pd.DataFrame | None = None,
) -> Audit:
    """Compare the decisions on groups of people.

    Parameters
    ----------
    decisions : array of shape (n,)
        Decisions, or labels; positive where they equal ``pos_label``.
    sensitive_features : array, series or frame of shape (n,) or (n, k)
        Attributes with groups; cut numbers into groups first.
    pos_label : label, default=1
    method : {"one_vs_rest", "between_groups"}, default="one_vs_rest"
        Whether groups are compared with everybody else or with the group of the highest rate.
    scores : array of shape (n,), optional
        Values of a ``decision_function``; their covariance with the attributes is reported.
    reference : mapping from attribute to group, optional
        Whom to compare the groups of an attribute with, instead.
    intersections : bool
        Whether to compare the groups that all attributes together make, too.
    threshold : float, default=80
        Percent; the rule below which a group is pointed out.
    confidence : float, default=0.95
    correction : str, default="holm"
        Any method of ``statsmodels.stats.multitest.multipletests``.
    min_people : int, default=30
        Nothing is concluded about smaller groups.
    max_groups : int, default=30
        Of more groups than that, the smallest are put together, and counted.
    features : DataFrame of n rows, optional
        Columns to search for proxies of the sensitive attributes, and for combinations in which a group is refused
        more often (discriminatory rules).

    Examples
    --------
    >>> result = audit([1, 1, 1, 0] * 25 + [1, 0, 0, 0] * 25, sensitive_features=["a"] * 100 + ["b"] * 100)
    >>> round(result.lowest.ratio, 1), result.lowest.finding
    (33.3, 'below the threshold, beyond chance')
    """
    check_container(decisions, "decisions")
    _check_options(threshold, confidence, min_people, max_groups)
    if method not in RULES:
        raise ValueError(f"method must be one of {', '.join(map(repr, RULES))}, got {method!r}.")
    positive = (np.asarray(decisions) == pos_label).ravel()
    if len(positive) == 0:
        raise ValueError("There are no decisions to audit.")
    attributes = _with_groups(sensitive_features, len(positive), max_groups)
    if intersections:
        attributes.append(_intersection(sensitive_features, len(positive), max_groups))
    unknown = set(reference or {}) - {a.name for a, _ in attributes}
    if unknown:
        raise ValueError(
            f"reference names {', '.join(map(repr, sorted(unknown, key=str)))}, which is no sensitive attribute; "
            f"there are {', '.join(repr(a.name) for a, _ in attributes)}."
        )
    check = _Comparison(positive, threshold, confidence, min_people, method)
    rows = [check.attribute(a, merged, _named_reference(reference, a)) for a, merged in attributes]
    rows = [_with_covariance(row, a, scores) for row, (a, _) in zip(rows, attributes, strict=True)]
    if intersections:
        rows[-1] = replace(rows[-1], intersection=True)
    proxies = () if features is None else tuple(find_proxies(features, sensitive_features))
    rules = (
        ()
        if features is None
        else tuple(find_discrimination_rules(features, sensitive_features, positive, most=_RULES))
    )
    return Audit(
        len(positive),
        int(positive.sum()),
        float(threshold),
        float(confidence),
        correction,
        int(min_people),
        tuple(_concluded(rows, threshold, 1.0 - confidence, correction)),
        proxies,
        rules,
        method=method,
    )


def _check_options(threshold: float, confidence: float, min_people: int, max_groups: int) -> None:
    if not 0 < check_number(threshold, "threshold") <= 100:
        raise ValueError(f"threshold is in percent: above 0 and at most 100, got {threshold!r}.")
    if not 0 < check_number(confidence, "confidence") < 1:
        raise ValueError(f"confidence is a probability between 0 and 1, such as 0.95, got {confidence!r}.")
    check_count(min_people, "min_people")
    check_count(max_groups, "max_groups")


@dataclass(frozen=True)
class _Comparison:
    """Decisions, and by which numbers groups are compared."""

    positive: NDArray[np.bool_]
    threshold: float
    confidence: float
    min_people: int
    method: str

    def attribute(self, attribute: Attribute, merged: int, named: str | None) -> AuditedAttribute:
        """Compare the groups of one attribute with everybody else, or with its reference group."""
        if len(attribute.categories) < 2:
            raise ValueError(
                f"The sensitive attribute {attribute.name!r} has only one group ({attribute.categories[0]!r}): "
                "there is nothing to compare."
            )
        counts = count_groups(attribute, self.positive, min_people=self.min_people)
        rows = zip(attribute.categories, counts.positives, counts.people, strict=True)
        groups = [self._group(attribute.name, str(c), int(k), int(n)) for c, k, n in rows]
        if named is None and self.method == "one_vs_rest" and len(groups) > 2:
            reference = REST
            total = int(counts.positives.sum()), int(counts.people.sum())
            groups = [self._compared(g, total[0] - g.positives, total[1] - g.people, both=True) for g in groups]
        else:
            base = groups[self._reference(counts, named)]
            reference = base.group
            groups = [
                replace(g, finding=REFERENCE) if g is base else self._compared(g, base.positives, base.people)
                for g in groups
            ]
        if merged:
            groups[-1] = replace(groups[-1], merged=merged)
        rules = {m: _finite(least_ratio([counts], m)) if counts.judged(m).any() else None for m in RULES}
        return AuditedAttribute(
            attribute.name,
            reference,
            rules[self.method],
            rules["between_groups"],
            float(counts.difference(self.method)) if counts.judged(self.method).any() else None,
            tuple(groups),
        )

    def _reference(self, counts: GroupCounts, named: str | None) -> int:
        """Return the group named or, of those with enough people, the one with the highest rate."""
        if named is not None:
            return [str(c) for c in counts.categories].index(named)
        eligible = counts.may_be_highest
        return int(np.argmax(np.where(eligible, counts.rate, -1.0) if eligible.any() else counts.rate))

    def _group(self, attribute: str, name: str, k: int, n: int) -> Group:
        return Group(attribute, name, n, k, k / n, *rate_interval(k, n, self.confidence))

    def _compared(self, row: Group, k_ref: int, n_ref: int, *, both: bool = False) -> Group:
        """Compare a group with ``k_ref`` of ``n_ref`` others; ``both`` if these may not be worse off either."""
        k, n = row.positives, row.people
        row = replace(row, **compare_rates(k, n, k_ref, n_ref, self.confidence))
        if min(n, n_ref) < self.min_people:
            row = replace(row, finding=TOO_FEW)
        if k_ref == 0:
            return row if k == 0 or not both else replace(row, rule=0.0, ratio=math.inf)
        ratio, more, fewer = (100.0 * _ratio(c, n, k_ref, n_ref) for c in (k, min(k + 1, n), max(k - 1, 0)))
        low, high = ratio_interval(k, n, k_ref, n_ref, self.confidence)
        rules = [_two_sided(value) if both else value for value in (ratio, more, fewer)]
        return replace(
            row,
            rule=rules[0],
            ratio=ratio,
            ratio_low=100.0 * low,
            ratio_high=100.0 * high,
            ratio_one_more=more,
            ratio_one_fewer=fewer,
            one_decision_matters=min(rules) < self.threshold <= max(rules),
        )


def _two_sided(ratio: float) -> float:
    """Return the lower rate in percent of the higher."""
    return ratio if ratio <= 100.0 else 1e4 / ratio


def _ratio(k: int, n: int, k_ref: int, n_ref: int) -> float:
    return (k * n_ref) / (n * k_ref)


def _concluded(
    rows: list[AuditedAttribute], threshold: float, alpha: float, correction: str
) -> list[AuditedAttribute]:
    """Correct the p-values of the groups that are judged for their number, and say what was found."""
    multipletests = statsmodels_module("multitest").multipletests

    judged = [g for row in rows for g in row.groups if g.finding not in (REFERENCE, TOO_FEW)]
    p_values = [g.p_value for g in judged]
    adjusted = iter(multipletests(p_values, alpha=alpha, method=correction)[1].tolist() if p_values else [])
    concluded = []
    for row in rows:
        groups = []
        for group in row.groups:
            if group.finding not in (REFERENCE, TOO_FEW):
                group = replace(group, p_adjusted=float(next(adjusted)))
                group = replace(group, finding=_finding(group, threshold, alpha))
            groups.append(group)
        concluded.append(replace(row, groups=tuple(groups)))
    return concluded


def _finding(group: Group, threshold: float, alpha: float) -> str:
    if group.rule is None or group.ratio is None:
        return UNDEFINED if group.positives == 0 else NOTHING
    beyond = group.p_adjusted is not None and group.p_adjusted < alpha
    if group.rule < threshold and group.ratio > 100.0:
        return ABOVE if beyond else ABOVE_MAYBE
    if group.rule < threshold:
        return BELOW if beyond else BELOW_MAYBE
    return DIFFERENT if beyond else NOTHING


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _with_groups(sensitive_features: Any, n: int, max_groups: int) -> list[tuple[Attribute, int]]:
    attributes = encode_sensitive(sensitive_features, n, groups=False).attributes
    for attribute in attributes:
        if attribute.is_numeric:
            raise ValueError(
                f"The sensitive attribute {attribute.name!r} is numeric and has no groups; cut it into some "
                "(e.g. with pandas.cut)."
            )
    return [_merge_small(a, max_groups) for a in attributes]


def _intersection(sensitive_features: Any, n: int, max_groups: int) -> tuple[Attribute, int]:
    attributes = encode_sensitive(sensitive_features, n, groups=False).attributes
    if len(attributes) < 2:
        raise ValueError("Intersections need at least two sensitive attributes.")
    name = " × ".join(a.name for a in attributes)
    code = np.zeros(n, dtype=np.int64)
    for a in attributes:
        assert a.codes is not None
        code = code * len(a.categories) + a.codes
    present, codes = np.unique(code, return_inverse=True)
    categories = []
    for value in present.tolist():
        parts = []
        for a in reversed(attributes):
            value, part = divmod(value, len(a.categories))
            parts.append(str(a.categories[part]))
        categories.append(" × ".join(reversed(parts)))
    return _merge_small(Attribute(name, tuple(categories), codes.astype(np.intp)), max_groups)


def _merge_small(attribute: Attribute, max_groups: int) -> tuple[Attribute, int]:
    """Put the smallest of more than ``max_groups`` groups together; return how many these are."""
    size = len(attribute.categories)
    if size <= max_groups:
        return attribute, 0
    assert attribute.codes is not None
    people = np.bincount(attribute.codes, minlength=size)
    kept = np.sort(np.argsort(-people, kind="stable")[: max_groups - 1])
    position = np.full(size, max_groups - 1)
    position[kept] = np.arange(max_groups - 1)
    merged = size - len(kept)
    categories = (*(attribute.categories[g] for g in kept), f"other ({merged} groups)")
    return Attribute(attribute.name, categories, position[attribute.codes].astype(np.intp)), merged


def _named_reference(reference: Mapping[str, Any] | None, attribute: Attribute) -> str | None:
    named = (reference or {}).get(attribute.name)
    if named is None:
        return None
    groups = [str(c) for c in attribute.categories]
    if str(named) not in groups:
        near = difflib.get_close_matches(str(named), groups, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, groups[:8]))}."
        raise ValueError(f"The reference {named!r} is no group of {attribute.name!r}; {hint}")
    return str(named)


def _with_covariance(row: AuditedAttribute, attribute: Attribute, scores: Any) -> AuditedAttribute:
    if scores is None:
        return row
    assert attribute.codes is not None
    groups = np.array([str(c) for c in attribute.categories], dtype=object)[attribute.codes]
    values = decision_boundary_covariance(None, scores, sensitive_features=groups)
    names = values.index.get_level_values("category")
    return replace(row, covariance=tuple(zip(map(str, names), map(float, values), strict=True)))
