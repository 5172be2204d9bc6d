"""Screening decisions for disparate impact, group by group and with intervals.

For every group of every sensitive attribute: size, positive rate, ratio and difference against other people with 95%
intervals, Fisher's exact test, the number of standard deviations, the shortfall in people, and what one
changed decision would do. The statistics are computed by scipy and statsmodels.

What is compared. Each group is compared with everybody else, as :func:`fairmargin.p_rule` does: ``rule`` is the lower
of the two rates in percent of the higher. With ``method="between_groups"``, of two groups, and where a reference is
named, groups are compared with a reference group: the one with the highest rate of those with enough people, unless
one is named. P-values are corrected for the number of comparisons that are judged (Holm). A group with fewer than
``min_people`` people, or with fewer to compare it with, is listed, but nothing is concluded about it.

Under another notion than selection rates (``notion="true_positive_rate"``) the same comparison is made of its rates,
among the people whom it counts. Where it has several conditions (equalised odds), every attribute is there once for
each, its name followed by the condition: ``sex (y=+1)``.

This is a screen. It finds differences worth explaining; whether a difference is justified or lawful is not a question
that a table answers, and the result does not claim to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fairmargin.audit.comparison import Comparison
from fairmargin.audit.errors import ErrorRate, error_rates
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
from fairmargin.audit.people import People
from fairmargin.audit.record import Audit, AuditedAttribute, Group
from fairmargin.audit.scores import ScoredGroup, score_groups, weighted_quantile
from fairmargin.audit.strata import StratifiedGroup, stratify
from fairmargin.decisions import RULES
from fairmargin.discrimination_rules import find_discrimination_rules
from fairmargin.membership import Membership
from fairmargin.metrics import decision_boundary_covariance
from fairmargin.notions import Condition, get_notion
from fairmargin.proxies import find_proxies
from fairmargin.rate_statistics import adjusted
from fairmargin.sensitive import Attribute
from fairmargin.validation import check_count, check_number

__all__ = ["audit"]

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
    y_true: Any = None,
    sample_weight: Any = None,
    strata: Any = None,
    counts: Any = None,
    notion: Any = "selection_rate",
) -> Audit:
    """Compare the decisions on groups of people.

    Parameters
    ----------
    decisions : array of shape (n,)
        Decisions, or labels; positive where they equal ``pos_label``.
    sensitive_features : array, series or frame of shape (n,) or (n, k)
        Attributes with groups; cut numbers into groups first. :class:`fairmargin.Membership` stands for groups known
        as probabilities only, unless there are ``features``.
    pos_label : label, default=1
    method : {"one_vs_rest", "between_groups"}, default="one_vs_rest"
        Whether groups are compared with everybody else or with the group of the highest rate.
    scores : array of shape (n,), optional
        Values of a ``decision_function``; their covariance with the attributes is reported, who is above the
        median, and how many standard deviations groups are apart.
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
    y_true : array of shape (n,), optional
        Labels, favourable where they equal ``pos_label``, unknown where they are missing. With them the error rates
        of the decisions are compared, too.
    sample_weight : array of shape (n,), optional
        People of weight zero are left out. With weights that differ, rates are weighted, and tests are made on
        effective counts.
    strata : array, series or frame of shape (n,) or (n, k), optional
        Groups are compared within strata as well, and the strata are pooled (Mantel and Haenszel); not with weights.
    counts : array of int of shape (n,), optional
        How many people each row stands for, where rows are cells of a table of counts; one by default. Results are
        those of as many rows. Not with weights, scores or features.
    notion : str or Notion, default="selection_rate"
        Which rates are compared (:mod:`fairmargin.notions`); others than selection rates need ``y_true``. The
        threshold, the findings and the strata are then about these rates.

    Examples
    --------
    >>> from fairmargin.audit import audit
    >>> result = audit([1, 1, 1, 0] * 25 + [1, 0, 0, 0] * 25, sensitive_features=["a"] * 100 + ["b"] * 100)
    >>> round(result.lowest.ratio, 1), result.lowest.finding
    (33.3, 'below the threshold; the rates differ beyond chance')
    """
    _check_options(threshold, confidence, min_people, max_groups)
    if method not in RULES:
        raise ValueError(f"method must be one of {', '.join(map(repr, RULES))}, got {method!r}.")
    people = People.of(
        decisions, pos_label, sensitive_features, y_true, sample_weight, scores, strata, features, counts
    )
    attributes = with_groups(people.sensitive, len(people.positive), max_groups, people.counts)
    if intersections:
        attributes.append(intersection(people.sensitive, len(people.positive), max_groups, people.counts))
    _check_reference(reference, [a for a, _ in attributes])
    notion = get_notion(notion)
    conditions = people.conditions(notion)
    check = Comparison(people.positive, threshold, confidence, min_people, method, people.weight, people.counts)
    rows, absent, named = [], [], dict(reference or {})
    for condition in conditions:
        among = replace(check, positive=condition.events(people.positive), counts=people.among(condition.counts))
        for k, (a, merged) in enumerate(attributes):
            row = _with_covariance(_attribute(among, a, merged, named, condition), a, people, condition)
            rows.append(replace(row, intersection=intersections and k == len(attributes) - 1))
            absent += _absent(row, a, condition)
            if method == "one_vs_rest" and row.reference != REST:  # of two groups, the same one for every rate
                named.setdefault(a.name, row.reference)
    compared = [(a, _base(row, a)) for (a, _), row in zip(attributes, rows, strict=False)]
    options: dict[str, Any] = {"confidence": confidence, "min_people": min_people, "correction": correction}
    stratified = _stratified(people, attributes, rows, conditions, options)
    return Audit(
        people.number(np.ones(len(people.positive), dtype=bool)),
        people.number(people.positive),
        float(threshold),
        float(confidence),
        correction,
        int(min_people),
        tuple(_concluded(rows, threshold, 1.0 - confidence, correction)),
        () if people.features is None else tuple(find_proxies(people.features, people.sensitive)),
        () if people.features is None else _discrimination_rules(people),
        notes=(*people.notes, *absent, *_incomparable(stratified)),
        method=method,
        weighted=people.weight is not None,
        error_rates=_error_rates(people, compared, options),
        scoring=_above_median(people, check, attributes, rows, correction),
        scored=_scored(people, compared),
        strata=stratified,
        notion=notion.name,
        rate=notion.rate,
        counted=_counted(conditions[0]),
        among=notion.people,
        compared_people=people.number(np.any([c.counts for c in conditions], axis=0)),
    )


def _attribute(
    check: Comparison, attribute: Attribute, merged: int, reference: Mapping[str, Any] | None, condition: Condition
) -> AuditedAttribute:
    """Compare the groups of an attribute under one condition, whose name it gets."""
    people = attribute.group_sizes(condition.counts)
    if len(people) > 1 and np.sum(people > 0) < 2:
        empty = [repr(str(c)) for c, n in zip(attribute.categories, people, strict=True) if not n]
        raise ValueError(
            f"Nobody of the groups {', '.join(empty)} of {attribute.name!r} is among {condition.people}: there is "
            "nothing to compare."
        )
    name = f"{attribute.name} ({condition.name})" if condition.name else attribute.name
    return check.attribute(replace(attribute, name=name), merged, named_reference(reference, attribute))


def _absent(row: AuditedAttribute, attribute: Attribute, condition: Condition) -> list[str]:
    """Name the groups of whom nobody counts."""
    there = {group.group for group in row.groups}
    gone = [f"{attribute.name} = {c}" for c in map(str, attribute.categories) if c not in there]
    return [f"Nobody of {', '.join(gone)} is among {condition.people}."] if gone else []


def _counted(condition: Condition) -> str:
    """Return what happens to the people who are counted, in a word."""
    sign = condition.sign[condition.counts]
    if (sign > 0).all():
        return "accepted"
    return "refused" if (sign < 0).all() else "decided wrongly"


def _base(row: AuditedAttribute, attribute: Attribute) -> int | None:
    """Return the index of the reference group; None where groups are compared with everybody else."""
    named = next((g.group for g in row.groups if g.finding == REFERENCE), None)
    return None if named is None else [str(c) for c in attribute.categories].index(named)


def _check_reference(reference: Mapping[str, Any] | None, attributes: list[Attribute]) -> None:
    unknown = set(reference or {}) - {a.name for a in attributes}
    if unknown:
        raise ValueError(
            f"reference names {', '.join(map(repr, sorted(unknown, key=str)))}, which is no sensitive attribute; "
            f"there are {', '.join(repr(a.name) for a in attributes)}."
        )


def _discrimination_rules(people: People) -> tuple[Any, ...]:
    return tuple(find_discrimination_rules(people.features, people.sensitive, people.positive, most=_RULES))


def _error_rates(people: People, compared: list[Any], options: dict[str, Any]) -> tuple[ErrorRate, ...]:
    if people.label is None or people.known is None:
        return ()
    options = options | {"weight": people.weight, "counts": people.counts}
    return tuple(error_rates(compared, people.positive, people.label, people.known, **options))


def _above_median(
    people: People, check: Comparison, attributes: list[Any], rows: list[AuditedAttribute], correction: str
) -> tuple[AuditedAttribute, ...]:
    """Compare who has a score above the median, with the same people as decisions are."""
    if people.scores is None:
        return ()
    above = people.scores > weighted_quantile(people.scores, 0.5, people.weight)
    check = replace(check, positive=above)
    named = [None if row.reference == REST else row.reference for row in rows]
    rows = [check.attribute(a, merged, base) for (a, merged), base in zip(attributes, named, strict=False)]
    return tuple(_concluded(rows, check.threshold, 1.0 - check.confidence, correction))


def _scored(people: People, compared: list[Any]) -> tuple[ScoredGroup, ...]:
    if people.scores is None:
        return ()
    return tuple(score_groups(compared, people.scores, people.weight, people.label, people.known))


def _stratified(
    people: People,
    attributes: list[Any],
    rows: list[AuditedAttribute],
    conditions: tuple[Condition, ...],
    options: dict[str, Any],
) -> tuple[StratifiedGroup, ...]:
    if people.strata is None:
        return ()
    if len(conditions) > 1:
        raise ValueError("Strata are pooled for one rate; name a notion of one rate, or leave out strata.")
    named = [(a, _base(row, a), row.reference) for (a, _), row in zip(attributes, rows, strict=True)]
    events, among = conditions[0].events(people.positive), people.among(conditions[0].counts)
    return tuple(stratify(named, events, people.strata, counts=among, **options))


def _incomparable(stratified: tuple[StratifiedGroup, ...]) -> list[str]:
    """Return notes on attributes of which no stratum has two groups: the strata are a recoding of them."""
    seen = {row.attribute: row.by for row in stratified}
    compared = {row.attribute for row in stratified if row.common.strata}
    return [
        f"The strata {' x '.join(by)!r} tell the sensitive attribute {name!r}: every stratum has one group only, so "
        "that nothing is compared within them."
        for name, by in seen.items()
        if name not in compared
    ]


def _check_options(threshold: float, confidence: float, min_people: int, max_groups: int) -> None:
    if not 0 < check_number(threshold, "threshold") <= 100:
        raise ValueError(f"threshold is in percent: above 0 and at most 100, got {threshold!r}.")
    if not 0 < check_number(confidence, "confidence") < 1:
        raise ValueError(f"confidence is a probability between 0 and 1, such as 0.95, got {confidence!r}.")
    check_count(min_people, "min_people")
    check_count(max_groups, "max_groups")


def _concluded(
    rows: list[AuditedAttribute], threshold: float, alpha: float, correction: str
) -> list[AuditedAttribute]:
    """Correct the p-values of the groups that are judged for their number, and say what was found."""
    judged = [g for row in rows for g in row.groups if g.finding not in (REFERENCE, TOO_FEW)]
    corrected = iter(adjusted([g.p_value for g in judged if g.p_value is not None], correction))
    concluded = []
    for row in rows:
        groups = []
        for group in row.groups:
            if group.finding not in (REFERENCE, TOO_FEW):
                group = replace(group, p_adjusted=next(corrected))
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


def _with_covariance(
    row: AuditedAttribute, attribute: Attribute, people: People, condition: Condition
) -> AuditedAttribute:
    """Add the covariances of scores among the people who count."""
    if people.scores is None:
        return row
    names = [str(c) for c in attribute.categories]
    groups: Any
    if attribute.probabilities is not None:
        groups = Membership(attribute.probabilities[condition.counts], groups=names)
    else:
        groups = np.array(names, dtype=object)[attribute.codes][condition.counts]
    who, weight = condition.counts, people.weight
    values = decision_boundary_covariance(
        None,
        (condition.sign * people.scores)[who],
        sensitive_features=groups,
        sample_weight=None if weight is None else weight[who],
    )
    columns = values.index.get_level_values("category")
    return replace(row, covariance=tuple(zip(map(str, columns), map(float, values), strict=True)))
