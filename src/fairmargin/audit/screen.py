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

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.audit.findings import (
    ABOVE,
    ABOVE_MAYBE,
    BELOW,
    BELOW_MAYBE,
    DIFFERENT,
    NOTHING,
    REFERENCE,
    REST,
    TOO_FEW,
    UNDEFINED,
)
from fairmargin.audit.groups import intersection, named_reference, with_groups
from fairmargin.audit.record import Audit, AuditedAttribute, Group
from fairmargin.decisions import RULES, GroupCounts, count_groups, least_ratio
from fairmargin.discrimination_rules import find_discrimination_rules
from fairmargin.inputs import check_container
from fairmargin.metrics import decision_boundary_covariance
from fairmargin.proxies import find_proxies
from fairmargin.rate_statistics import compare_rates, rate_interval, ratio_interval, statsmodels_module
from fairmargin.sensitive import Attribute
from fairmargin.validation import check_count, check_number

__all__ = ["audit"]

Array = NDArray[np.float64]

_RULES = 10  # discriminatory rules of each kind on the list: more than anybody reads


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
    >>> from fairmargin.audit import audit
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
    attributes = with_groups(sensitive_features, len(positive), max_groups)
    if intersections:
        attributes.append(intersection(sensitive_features, len(positive), max_groups))
    unknown = set(reference or {}) - {a.name for a, _ in attributes}
    if unknown:
        raise ValueError(
            f"reference names {', '.join(map(repr, sorted(unknown, key=str)))}, which is no sensitive attribute; "
            f"there are {', '.join(repr(a.name) for a, _ in attributes)}."
        )
    check = _Comparison(positive, threshold, confidence, min_people, method)
    rows = [check.attribute(a, merged, named_reference(reference, a)) for a, merged in attributes]
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


def _with_covariance(row: AuditedAttribute, attribute: Attribute, scores: Any) -> AuditedAttribute:
    if scores is None:
        return row
    assert attribute.codes is not None
    groups = np.array([str(c) for c in attribute.categories], dtype=object)[attribute.codes]
    values = decision_boundary_covariance(None, scores, sensitive_features=groups)
    names = values.index.get_level_values("category")
    return replace(row, covariance=tuple(zip(map(str, names), map(float, values), strict=True)))
