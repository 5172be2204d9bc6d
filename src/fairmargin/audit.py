"""Screening decisions for disparate impact, group by group and with intervals.

For every group of every sensitive attribute: size, positive rate, ratio and difference against a reference group
with 95% intervals, Fisher's exact test, the number of standard deviations, the shortfall in people, and what one
changed decision would do. The statistics are computed by scipy and statsmodels.

What is compared. The reference group of an attribute is the one with the highest positive rate among the groups
that are large enough (``min_people`` people, and 2% of all), unless one is named. P-values are corrected for the
number of comparisons in the whole table (Holm). A group with fewer than ``min_people`` people is listed, but
nothing is concluded about it.

This is a screen. It finds differences worth explaining; whether a difference is justified or lawful is not a question
that a table answers, and the result does not claim to.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.decisions import GroupCounts, count_groups, least_ratio
from fairmargin.discrimination_rules import DiscriminationRule, find_discrimination_rules
from fairmargin.inputs import check_container
from fairmargin.metrics import decision_boundary_covariance
from fairmargin.proxies import Proxy, find_proxies
from fairmargin.sensitive import Attribute, encode_sensitive
from fairmargin.validation import check_count, check_number

__all__ = ["FINDINGS", "Audit", "AuditedAttribute", "Group", "Proxy", "audit", "find_proxies", "ratio_interval"]

Array = NDArray[np.float64]

REFERENCE = "reference"
TOO_FEW = "too few people to say"
UNDEFINED = "nobody gets the positive decision"
BELOW = "below the threshold, beyond chance"
BELOW_MAYBE = "below the threshold, may be chance"
DIFFERENT = "above the threshold, but different beyond chance"
NOTHING = "no difference found"
FINDINGS = {
    REFERENCE: "the group that the others are compared with",
    TOO_FEW: "the group is so small that its rate says little",
    UNDEFINED: "the rates of this group and of the reference are both zero",
    BELOW: "the ratio of rates is below the threshold, and chance alone seldom makes such a difference",
    BELOW_MAYBE: "the ratio of rates is below the threshold, but chance alone may well make such a difference",
    DIFFERENT: "the ratio of rates reaches the threshold, yet chance alone seldom makes such a difference",
    NOTHING: "the ratio of rates reaches the threshold, and chance alone may well make such a difference",
}
_RULES = 10  # discriminatory rules of each kind on the list: more than anybody reads
_MIN_SHARE = 0.02  # groups under 2% of the people are not made the reference


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
        Percent of the reference group's rate; the interval is that of the logarithm of the ratio with half a
        person added (Walters), from statsmodels.
    difference : float
        Rate less the reference group's; the interval is Newcombe's.
    z : float
        Standard deviations between the two rates, pooled variance.
    p_value, p_adjusted : float
        Fisher's exact test, two-sided; the second corrected for the number of comparisons.
    shortfall : float
        Positive decisions that the group lacks to have the reference group's rate; negative for a surplus.
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

    ``p_rule`` compares each group with everybody else, as :func:`fairmargin.p_rule` does, and
    ``p_rule_between_groups`` the lowest with the highest rate; both in percent, small groups included.
    """

    name: str
    reference: str
    p_rule: float | None
    p_rule_between_groups: float | None
    cv_score: float
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
        """The group with the lowest ratio of those with enough people to say; None if there is none."""
        said = [g for g in self.groups if g.ratio is not None and g.finding not in (REFERENCE, TOO_FEW)]
        return min(said, key=lambda g: g.ratio or 0.0, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data: dicts, lists, text and finite numbers."""
        plain = asdict(self)
        for attribute, row in zip(self.attributes, plain["attributes"], strict=True):
            row["covariance"] = [{"group": g, "value": v} for g, v in attribute.covariance]
        plain["lowest"] = None if self.lowest is None else asdict(self.lowest)
        return plain


def audit(
    decisions: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = 1,
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
    scores : array of shape (n,), optional
        Values of a ``decision_function``; their covariance with the attributes is reported.
    reference : mapping from attribute to group, optional
        Whom to compare with; by default the group with the highest rate.
    intersections : bool
        Whether to compare the groups that all attributes together make, too.
    threshold : float, default=80
        Percent; the ratio below which a group is pointed out.
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
    check = _Comparison(positive, threshold, confidence, min_people)
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
        tuple(_concluded(rows, threshold, 1.0 - confidence, correction, min_people)),
        proxies,
        rules,
    )


def _check_options(threshold: float, confidence: float, min_people: int, max_groups: int) -> None:
    if not 0 < check_number(threshold, "threshold") <= 100:
        raise ValueError(f"threshold is in percent: above 0 and at most 100, got {threshold!r}.")
    if not 0 < check_number(confidence, "confidence") < 1:
        raise ValueError(f"confidence is a probability between 0 and 1, such as 0.95, got {confidence!r}.")
    check_count(min_people, "min_people")
    check_count(max_groups, "max_groups")


def ratio_interval(k: int, n: int, k_ref: int, n_ref: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of the ratio ``(k/n) / (k_ref/n_ref)``, from statsmodels (``log-adjusted``).

    Where nobody of the group is positive the interval begins at 0. Where everybody of both is, that method
    claims certainty, and Newcombe's interval of the difference is used instead.
    """
    interval = statsmodels_module("proportion").confint_proportions_2indep

    if k == n and k_ref == n_ref:
        low, _ = interval(k, n, k_ref, n_ref, compare="diff", method="newcomb", alpha=1.0 - confidence)
        return 1.0 + float(low), 1.0 / (1.0 + float(low))
    low, high = interval(k, n, k_ref, n_ref, compare="ratio", method="log-adjusted", alpha=1.0 - confidence)
    return (0.0 if k == 0 else float(low)), float(high)


def statsmodels_module(name: str) -> Any:
    """Return a module of ``statsmodels.stats``, or say how to get it."""
    try:
        return import_module(f"statsmodels.stats.{name}")
    except ImportError:
        raise ImportError('The audit needs statsmodels: pip install "fairmargin[cli]".') from None


@dataclass(frozen=True)
class _Comparison:
    """Decisions, and by which numbers groups are compared."""

    positive: NDArray[np.bool_]
    threshold: float
    confidence: float
    min_people: int

    def attribute(self, attribute: Attribute, merged: int, reference: str | None) -> AuditedAttribute:
        """Compare the groups of one attribute with its reference group."""
        if len(attribute.categories) < 2:
            raise ValueError(
                f"The sensitive attribute {attribute.name!r} has only one group ({attribute.categories[0]!r}): "
                "there is nothing to compare."
            )
        counts = count_groups(attribute, self.positive)
        chosen = self._reference(counts, reference)
        rows = zip(attribute.categories, counts.positives, counts.people, strict=True)
        groups = [self._group(attribute.name, str(c), int(k), int(n)) for c, k, n in rows]
        base = groups[chosen]
        groups = [self._compared(g, base) if g is not base else replace(g, finding=REFERENCE) for g in groups]
        if merged:
            groups[-1] = replace(groups[-1], merged=merged)
        return AuditedAttribute(
            attribute.name,
            base.group,
            _finite(least_ratio([counts])),
            _finite(least_ratio([counts], "between_groups")),
            float(counts.difference()),
            tuple(groups),
        )

    def _reference(self, counts: GroupCounts, named: str | None) -> int:
        if named is not None:
            return [str(c) for c in counts.categories].index(named)
        people = counts.people
        enough = (people >= self.min_people) & (people >= _MIN_SHARE * people.sum())
        return int(np.argmax(np.where(enough, counts.rate, -1.0) if enough.any() else counts.rate))

    def _group(self, attribute: str, name: str, k: int, n: int) -> Group:
        proportion_confint = statsmodels_module("proportion").proportion_confint

        low, high = proportion_confint(k, n, alpha=1.0 - self.confidence, method="wilson")
        return Group(attribute, name, n, k, k / n, float(low), float(high))

    def _compared(self, row: Group, base: Group) -> Group:
        k, n, k_ref, n_ref = row.positives, row.people, base.positives, base.people
        row = replace(row, **_test(k, n, k_ref, n_ref), **_difference(k, n, k_ref, n_ref, self.confidence))
        if k_ref == 0:
            return row
        ratio, more, fewer = (100.0 * _ratio(c, n, k_ref, n_ref) for c in (k, min(k + 1, n), max(k - 1, 0)))
        low, high = ratio_interval(k, n, k_ref, n_ref, self.confidence)
        return replace(
            row,
            ratio=ratio,
            ratio_low=100.0 * low,
            ratio_high=100.0 * high,
            ratio_one_more=more,
            ratio_one_fewer=fewer,
            one_decision_matters=fewer < self.threshold <= more,
        )


def _ratio(k: int, n: int, k_ref: int, n_ref: int) -> float:
    return (k * n_ref) / (n * k_ref)


def _test(k: int, n: int, k_ref: int, n_ref: int) -> dict[str, Any]:
    from scipy.stats import fisher_exact

    proportions_ztest = statsmodels_module("proportion").proportions_ztest

    p_value = float(fisher_exact([[k, n - k], [k_ref, n_ref - k_ref]]).pvalue)
    if k + k_ref in (0, n + n_ref):
        return {"p_value": p_value, "z": None}  # no variance: all alike
    return {"p_value": p_value, "z": float(proportions_ztest([k, k_ref], [n, n_ref])[0])}


def _difference(k: int, n: int, k_ref: int, n_ref: int, confidence: float) -> dict[str, Any]:
    interval = statsmodels_module("proportion").confint_proportions_2indep

    low, high = interval(k, n, k_ref, n_ref, compare="diff", method="newcomb", alpha=1.0 - confidence)
    return {
        "difference": k / n - k_ref / n_ref,
        "difference_low": float(low),
        "difference_high": float(high),
        "shortfall": n * k_ref / n_ref - k,
    }


def _concluded(
    rows: list[AuditedAttribute], threshold: float, alpha: float, correction: str, min_people: int
) -> list[AuditedAttribute]:
    """Correct the p-values of the whole table for their number, and say what was found."""
    multipletests = statsmodels_module("multitest").multipletests

    p_values = [g.p_value for row in rows for g in row.groups if g.p_value is not None]
    adjusted = iter(multipletests(p_values, alpha=alpha, method=correction)[1].tolist())
    concluded = []
    for row in rows:
        base = next(g for g in row.groups if g.finding == REFERENCE)
        groups = []
        for group in row.groups:
            if group.p_value is not None:
                group = replace(group, p_adjusted=float(next(adjusted)))
            small = min(group.people, base.people) < min_people
            groups.append(replace(group, finding=_finding(group, small, threshold, alpha)))
        concluded.append(replace(row, groups=tuple(groups)))
    return concluded


def _finding(group: Group, small: bool, threshold: float, alpha: float) -> str:
    if group.finding == REFERENCE:
        return REFERENCE
    if small:
        return TOO_FEW
    if group.ratio is None:
        return UNDEFINED if group.positives == 0 else NOTHING
    beyond = group.p_adjusted is not None and group.p_adjusted < alpha
    if group.ratio < threshold:
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
