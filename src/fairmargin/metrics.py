"""Fairness of decisions and scores: ``metric(y_true, y_pred, *, sensitive_features)``.

By default selection rates are compared: ``y_true`` is used to find out which label is the positive one and for
nothing else; it is there to follow the calling convention of scikit-learn and fairlearn. With ``notion=`` other rates
are compared (:mod:`fairmargin.notions`): ``"true_positive_rate"``, ``"false_positive_rate"``,
``"false_negative_rate"``, ``"error_rate"``, or both of ``"equalized_odds"``, of which the worse decides. ``strata``
compares groups within each stratum only, and the worst stratum decides; ``intersections`` compares crossed groups,
too (:mod:`fairmargin.intersections`).

A group without people (or without weight) has no rate: it is left out of comparisons, and its rate in the table of
:func:`positive_rates` is nan. Where that is because of the labels or strata of its people, an
``UndefinedMetricWarning`` names it. Where nobody at all gets the positive decision, ratios are 0/0: the functions
return ``zero_division``, by default 100 (all groups are treated alike) with an ``UndefinedMetricWarning``. If one
group has no positive decision and another has one, the ratio is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d

from fairmargin.caller import warn
from fairmargin.decisions import GroupCounts, count_groups, highest_difference, least_ratio
from fairmargin.formatting import listed
from fairmargin.frames import in_library_of
from fairmargin.inputs import check_container, check_labels, check_same_order
from fairmargin.intersections import with_intersections
from fairmargin.notions import Condition, Notion, compare, get_notion
from fairmargin.sensitive import Sensitive, encode_sensitive
from fairmargin.strata import encode_strata, within_strata
from fairmargin.validation import check_count, favourable_class

__all__ = ["cv_score", "decision_boundary_covariance", "p_rule", "positive_rates"]

Array = NDArray[np.float64]
Method = Literal["one_vs_rest", "between_groups"]


def p_rule(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    pos_label: Any = None,
    method: Method = "one_vs_rest",
    min_people: int = 1,
    notion: Any = "selection_rate",
    strata: Any = None,
    intersections: Any = False,
    zero_division: float | Literal["warn"] = "warn",
) -> float:
    """Return the p of the p%-rule, in percent: 80 or more passes the 80%-rule.

    The positive rate of each group is compared with that of everybody else, the lower over the higher; the result is
    the least of these ratios over all groups and attributes. For a binary attribute this is the formula of the paper.
    ``method="between_groups"`` divides the lowest rate among an attribute's groups by the highest instead.

    Parameters
    ----------
    y_true : array of shape (n,) or None
    y_pred : array of shape (n,)
        Decisions.
    sensitive_features : array, series or frame of shape (n,) or (n, k)
    sample_weight : array of shape (n,), optional
    pos_label : label, optional
        The positive decision; by default 1, or the later of two labels in sorted order.
    method : {"one_vs_rest", "between_groups"}
    min_people : int, default=1
        Comparisons with fewer people on a side are left out. The audit and the command line use 30, and name the
        groups they leave out: ``min_people=30`` gives their figure.
    notion : str or Notion, default="selection_rate"
        Which rates are compared.
    strata : array, series or frame of shape (n,) or (n, k), optional
        Groups are compared among the people of each stratum only.
    intersections : bool or list of tuples of names, default=False
        Whether to compare the groups that all attributes together make, or those named, too.
    zero_division : float or "warn"
        What to return (in percent) where nobody gets the positive decision.

    Returns
    -------
    float
        From 0 to 100; 100 if all rates are equal.

    See Also
    --------
    cv_score : The difference of the rates instead of their ratio.
    positive_rates : The rates themselves, by group.
    certify : The same rule with a confidence, for people not seen yet.

    Examples
    --------
    >>> p_rule(None, [1, 0, 1, 1, 1, 1], sensitive_features=list("aabbbb"))
    50.0
    >>> p_rule([1, 0, 1, 0, 1, 1], [1, 0, 1, 1, 0, 1], sensitive_features=list("aabbbb"), notion="true_positive_rate")
    66.66666666666666
    """
    asked = _Asked(notion, strata, intersections)
    counts = _counts(y_true, y_pred, sensitive_features, sample_weight, pos_label, min_people, asked)
    reached = float(least_ratio(counts, method))
    _warn_of_empty(counts, asked)
    return _nobody_accepted(counts, zero_division) if math.isnan(reached) else reached


def cv_score(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    pos_label: Any = None,
    method: Method = "one_vs_rest",
    min_people: int = 1,
    notion: Any = "selection_rate",
    strata: Any = None,
    intersections: Any = False,
) -> float:
    """Return the Calders-Verwer score: the largest absolute difference of positive rates, in [0, 1].

    Each group is compared with everybody else or, with ``method="between_groups"``, with the other groups of its
    attribute.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, sample_weight, pos_label
    method, min_people, notion, strata, intersections
        As in :func:`p_rule`.

    Returns
    -------
    float
        From 0 (all rates are equal) to 1.

    See Also
    --------
    p_rule : The ratio of the rates instead of their difference.

    Examples
    --------
    >>> cv_score(None, [1, 0, 1, 1], sensitive_features=list("aabb"))
    0.5
    """
    asked = _Asked(notion, strata, intersections)
    counts = _counts(y_true, y_pred, sensitive_features, sample_weight, pos_label, min_people, asked)
    found = float(highest_difference(counts, method))
    _warn_of_empty(counts, asked)
    return found


def positive_rates(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    pos_label: Any = None,
    notion: Any = "selection_rate",
    strata: Any = None,
    intersections: Any = False,
) -> Any:
    """Return the rate of every group, one row per attribute and category (and condition, if there are several).

    Parameters
    ----------
    y_true, y_pred, sensitive_features, sample_weight, pos_label
    notion, strata, intersections
        As in :func:`p_rule`.

    Returns
    -------
    pandas.DataFrame
        Indexed by attribute and category; for polars or pyarrow attributes, a frame of that library with the
        columns ``attribute`` and ``category``. Columns: ``people`` (count of those who count), ``weight`` (sum of
        weights), ``positives`` (weight of the counted decisions: the positive ones, or the errors of an error rate),
        ``rate``, ``rate_of_rest`` (of everybody else) and ``ratio`` (rate over rate of rest, in percent; nan where
        that is 0/0). For attributes given as :class:`fairmargin.Membership` there is also ``membership_error``: the
        standard error of the rate that comes from not knowing the groups, beside that of drawing the people.

    See Also
    --------
    p_rule : The least ratio as one number.
    fairmargin.audit.audit : Rates with intervals and tests.

    Examples
    --------
    >>> positive_rates(None, [1, 0, 1, 1], sensitive_features=list("aabb"))["rate"].tolist()
    [0.5, 1.0]
    """
    asked = _Asked(notion, strata, intersections)
    counts = _counts(y_true, y_pred, sensitive_features, sample_weight, pos_label, asked=asked)
    several = any(c.among for c in counts)
    return in_library_of(sensitive_features, pd.concat([_rates_table(c, several) for c in counts]))


def decision_boundary_covariance(
    y_true: Any,
    y_score: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    pos_label: Any = None,
    notion: Any = "selection_rate",
    strata: Any = None,
    intersections: Any = False,
) -> pd.Series:
    """Return the covariance of each sensitive column with the scores, by attribute and category.

    ``cov_k = (1/S) sum_i s_i (z_ik - zbar_k) f(x_i)``, the paper's measure of unfairness. A binary attribute has one
    entry, for the later of its two values. Under another notion than selection rates it is the covariance among the
    people who count, with the sign of what is counted.

    Parameters
    ----------
    y_true : array of shape (n,) or None
        Labels; needed for notions other than selection rates.
    y_score : array of shape (n,)
        Values of ``decision_function``.
    sensitive_features, sample_weight, pos_label, notion, strata, intersections
        As in :func:`p_rule`.

    Returns
    -------
    pandas.Series
        Indexed by attribute and category.

    See Also
    --------
    CovarianceBound : A bound on it in training.

    Examples
    --------
    >>> decision_boundary_covariance(None, [-1.0, 1.0, 1.0, 3.0], sensitive_features=list("aabb")).tolist()
    [0.5]
    """
    check_container(y_score, "y_score")
    if np.iscomplexobj(y_score):
        raise ValueError("y_score has complex values; scores are real numbers.")
    scores = column_or_1d(np.asarray(y_score, dtype=float))
    if not np.all(np.isfinite(scores)):
        raise ValueError("y_score has nan or infinite values.")
    people = {"sensitive_features": sensitive_features, "sample_weight": sample_weight, "strata": strata}
    check_same_order(y_true=y_true, y_score=y_score, **people)
    sensitive = encode_sensitive(sensitive_features, len(scores), groups=False)
    sensitive = with_intersections(sensitive, intersections)
    weight = _weights(sample_weight, scores)
    share = weight / weight.sum()
    if not (get_notion(notion).needs_labels or strata is not None):
        return sensitive.series(sensitive.centred(weight).T @ (share * scores), "covariance")
    signed = _signed(get_notion(notion), y_true, scores, pos_label)
    encoded = None if strata is None else encode_strata(strata, len(scores))
    compared = compare(sensitive, get_notion(notion), signed, weight, encoded)
    return compared.series(compared.centred.T @ (share * scores), "covariance")


@dataclass(frozen=True)
class _Asked:
    """Which rates are compared, within what, and of which crossed groups."""

    notion: Any = "selection_rate"
    strata: Any = None
    intersections: Any = False

    def conditions(self, y_true: Any, like: Array, positive: Any, sensitive: Sensitive) -> tuple[Condition, ...]:
        notion = get_notion(self.notion)
        found = notion.conditions(_signed(notion, y_true, like, positive))
        if self.strata is None:
            return found
        return within_strata(found, encode_strata(self.strata, len(like)), sensitive, notion.name)


def _signed(notion: Notion, y_true: Any, like: Array, positive: Any) -> Array:
    """Return labels in {-1, +1}; of a notion that needs none, any will do."""
    if not notion.needs_labels:
        return np.ones(len(like))
    if y_true is None:
        raise ValueError(f"The notion {notion.name!r} compares {notion.people}: give the labels y_true, too.")
    check_labels(y_true, "y_true")
    labels = column_or_1d(y_true)
    if positive is None:
        positive = _positive_label(None, labels, None)
    return np.where(labels == positive, 1.0, -1.0)


def _counts(
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    sample_weight: Any,
    pos_label: Any,
    min_people: int = 1,
    asked: _Asked = _Asked(),
) -> list[GroupCounts]:
    check_labels(y_pred, "y_pred")
    decisions = column_or_1d(y_pred)
    if len(decisions) == 0:
        raise ValueError("y_pred is empty: there are no decisions to compare.")
    if y_true is not None:
        check_labels(y_true, "y_true")
        check_consistent_length(y_true, decisions)
    people = {"sensitive_features": sensitive_features, "sample_weight": sample_weight, "strata": asked.strata}
    check_same_order(y_true=y_true, y_pred=y_pred, **people)
    label = _positive_label(y_true, decisions, pos_label)
    positive = (decisions == label).astype(float)
    sensitive = encode_sensitive(sensitive_features, len(positive), groups=False)
    sensitive = with_intersections(sensitive, asked.intersections)
    weight = _weights(sample_weight, positive)
    least = check_count(min_people, "min_people")
    conditions = asked.conditions(y_true, positive, label, sensitive)
    return [count_groups(a, positive, weight, least, c) for c in conditions for a in sensitive.attributes]


def _warn_of_empty(counts: list[GroupCounts], asked: _Asked) -> None:
    """Warn of groups in which nobody counts, under a notion about labels or within strata: they have no rate."""
    notion = get_notion(asked.notion)
    if not notion.needs_labels and asked.strata is None:
        return
    empty = [
        f"{c.name}={c.categories[k]!r} among {c.among or notion.people}"
        for c in counts
        for k in np.flatnonzero(c.weight == 0)
    ]
    if empty:
        warn(
            f"The notion {notion.name!r} has no rate where nobody counts, in {listed(empty, '; ')}: left out of "
            "the comparison.",
            UndefinedMetricWarning,
        )


def _weights(sample_weight: Any, like: Array) -> Array:
    if sample_weight is not None and not isinstance(sample_weight, Real):
        check_container(sample_weight, "sample_weight")
    weight = _check_sample_weight(sample_weight, like[:, None], dtype=np.float64, ensure_non_negative=True)
    if not weight.sum() > 0:
        raise ValueError("Every sample weight is zero: there are no decisions to compare.")
    return weight


def _positive_label(y_true: Any, decisions: NDArray[Any], pos_label: Any) -> Any:
    """Return the label of positive decisions."""
    labels = set(np.unique(decisions).tolist())
    if y_true is not None:
        labels |= set(np.unique(column_or_1d(y_true)).tolist())
    if pos_label is not None:
        # Zeros alone are decisions too: nobody got the 1.
        if pos_label not in labels and not (pos_label == 1 and labels <= {-1, 0}):
            raise ValueError(f"pos_label={pos_label!r} is not among the labels, which are {_listed(labels)}.")
        return pos_label
    if (1 in labels and labels <= {-1, 0, 1}) or labels in ({0}, {-1}):
        return 1
    if len(labels) == 2:
        return favourable_class(np.array(sorted(labels)), None)
    raise ValueError(f"Cannot tell which of the labels {_listed(labels)} is positive; give pos_label.")


def _listed(labels: set[Any]) -> str:
    """Return some labels as text."""
    return listed(sorted(map(repr, labels)))


def _rates_table(counts: GroupCounts, several: bool) -> pd.DataFrame:
    levels: list[Any] = [[counts.name], counts.categories]
    names = ["attribute", "category"]
    if several:
        levels, names = [*levels, [counts.among]], [*names, "among"]
    index = pd.MultiIndex.from_product(levels, names=names)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = counts.rate / counts.rate_of_rest
    columns = {
        "people": counts.people,
        "weight": counts.weight,
        "positives": counts.positives,
        "rate": counts.rate,
        "rate_of_rest": counts.rate_of_rest,
        "ratio": 100.0 * ratio,
    }
    if counts.membership_error is not None:
        columns["membership_error"] = counts.membership_error
    return pd.DataFrame(columns, index=index)


def _nobody_accepted(counts: list[GroupCounts], zero_division: float | Literal["warn"]) -> float:
    if zero_division != "warn":
        return float(zero_division)
    names = ", ".join(repr(c.name) for c in counts)
    warn(
        f"Nobody gets the positive decision: the p%-rule for {names} is 0/0 and 100 is returned. "
        "Set zero_division to choose another answer.",
        UndefinedMetricWarning,
    )
    return 100.0
