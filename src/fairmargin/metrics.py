"""Fairness of decisions and scores: ``metric(y_true, y_pred, *, sensitive_features)``.

Decisions are only compared between groups. ``y_true`` is used to find out which label is the positive one and for
nothing else; it is there to follow the calling convention of scikit-learn and fairlearn.

A group without people (or without weight) has no rate: it is left out of comparisons, and its rate in the table of
:func:`positive_rates` is nan. Where nobody at all gets the positive decision, ratios are 0/0: the functions return
``zero_division``, by default 100 (all groups are treated alike) with an ``UndefinedMetricWarning``. If one group has
no positive decision and another has one, the ratio is 0.
"""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d

from fairmargin.decisions import GroupCounts, count_groups, highest_difference, least_ratio
from fairmargin.inputs import check_container
from fairmargin.sensitive import encode_sensitive
from fairmargin.validation import check_count

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
        Comparisons with fewer people on a side decide nothing; the audit and the command line ask for 30.
    zero_division : float or "warn"
        What to return (in percent) where nobody gets the positive decision.

    Examples
    --------
    >>> p_rule(None, [1, 0, 1, 1, 1, 1], sensitive_features=list("aabbbb"))
    50.0
    """
    counts = _counts(y_true, y_pred, sensitive_features, sample_weight, pos_label, min_people)
    reached = float(least_ratio(counts, method))
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
) -> float:
    """Return the Calders-Verwer score: the largest absolute difference of positive rates, in [0, 1].

    Each group is compared with everybody else or, with ``method="between_groups"``, with the other groups of its
    attribute. Parameters as in :func:`p_rule`.

    Examples
    --------
    >>> cv_score(None, [1, 0, 1, 1], sensitive_features=list("aabb"))
    0.5
    """
    counts = _counts(y_true, y_pred, sensitive_features, sample_weight, pos_label, min_people)
    return float(highest_difference(counts, method))


def positive_rates(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    pos_label: Any = None,
) -> pd.DataFrame:
    """Return the positive rate of every group, one row per attribute and category.

    Columns: ``people`` (count), ``weight`` (sum of weights), ``positives`` (weight of the positive decisions),
    ``rate``, ``rate_of_rest`` (of everybody else) and ``ratio`` (rate over rate of rest, in percent; nan where
    that is 0/0). Parameters as in :func:`p_rule`.
    """
    counts = _counts(y_true, y_pred, sensitive_features, sample_weight, pos_label)
    return pd.concat([_rates_table(c) for c in counts])


def decision_boundary_covariance(
    y_true: Any, y_score: Any, *, sensitive_features: Any, sample_weight: Any = None
) -> pd.Series:
    """Return the covariance of each sensitive column with the scores, by attribute and category.

    ``cov_k = (1/S) sum_i s_i (z_ik - zbar_k) f(x_i)``, the paper's measure of unfairness, with ``y_score`` the
    values of ``decision_function``. A binary attribute has one entry, for the later of its two values.
    """
    check_container(y_score, "y_score")
    if np.iscomplexobj(y_score):
        raise ValueError("y_score has complex values; scores are real numbers.")
    scores = column_or_1d(np.asarray(y_score, dtype=float))
    if not np.all(np.isfinite(scores)):
        raise ValueError("y_score has nan or infinite values.")
    sensitive = encode_sensitive(sensitive_features, len(scores), groups=False)
    weight = _weights(sample_weight, scores)
    share = weight / weight.sum()
    return sensitive.series(sensitive.centred(weight).T @ (share * scores), "covariance")


def _counts(
    y_true: Any, y_pred: Any, sensitive_features: Any, sample_weight: Any, pos_label: Any, min_people: int = 1
) -> list[GroupCounts]:
    check_container(y_pred, "y_pred")
    decisions = column_or_1d(y_pred)
    if len(decisions) == 0:
        raise ValueError("y_pred is empty: there are no decisions to compare.")
    if y_true is not None:
        check_container(y_true, "y_true")
        check_consistent_length(y_true, decisions)
    positive = (decisions == _positive_label(y_true, decisions, pos_label)).astype(float)
    sensitive = encode_sensitive(sensitive_features, len(positive), groups=False)
    weight = _weights(sample_weight, positive)
    return [count_groups(a, positive, weight, check_count(min_people, "min_people")) for a in sensitive.attributes]


def _weights(sample_weight: Any, like: Array) -> Array:
    if sample_weight is not None and not isinstance(sample_weight, Real):
        check_container(sample_weight, "sample_weight")
    weight = _check_sample_weight(sample_weight, like[:, None], dtype=np.float64, ensure_non_negative=True)
    if not weight.sum() > 0:
        raise ValueError("Every sample weight is zero: there are no decisions to compare.")
    return weight


def _positive_label(y_true: Any, decisions: NDArray[Any], pos_label: Any) -> Any:
    labels = set(np.unique(decisions).tolist())
    if y_true is not None:
        labels |= set(np.unique(column_or_1d(y_true)).tolist())
    if pos_label is not None:
        # Zeros alone are decisions too: nobody got the 1.
        if pos_label not in labels and not (pos_label == 1 and labels <= {-1, 0}):
            known = ", ".join(sorted(map(repr, labels)))
            raise ValueError(f"pos_label={pos_label!r} is not among the labels, which are {known}.")
        return pos_label
    if (1 in labels and labels <= {-1, 0, 1}) or labels in ({0}, {-1}):
        return 1
    if len(labels) == 2:
        return max(labels)
    raise ValueError(f"Cannot tell which of the labels {sorted(map(str, labels))} is positive; give pos_label.")


def _rates_table(counts: GroupCounts) -> pd.DataFrame:
    index = pd.MultiIndex.from_product([[counts.name], counts.categories], names=["attribute", "category"])
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
    return pd.DataFrame(columns, index=index)


def _nobody_accepted(counts: list[GroupCounts], zero_division: float | Literal["warn"]) -> float:
    if zero_division != "warn":
        return float(zero_division)
    names = ", ".join(repr(c.name) for c in counts)
    warnings.warn(
        f"Nobody gets the positive decision: the p%-rule for {names} is 0/0 and 100 is returned. "
        "Set zero_division to choose another answer.",
        UndefinedMetricWarning,
        stacklevel=3,
    )
    return 100.0
