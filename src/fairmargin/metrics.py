"""Fairness of decisions and scores: ``metric(y_true, y_pred, *, sensitive_features)``.

Decisions are compared between groups only, so that ``y_true`` is not looked at except to learn which label is
the positive one; it is there for the sake of scikit-learn's and fairlearn's calling convention.

What happens where a rate is not defined is said here once. A group without people (or weight) has no rate:
it is left out of comparisons, and shows as nan in the table of :func:`positive_rates`. Where nobody at all
gets the positive decision, ratios are 0/0: the answer is ``zero_division``, by default 100 (all are treated
alike) with an ``UndefinedMetricWarning``. If one group has no positives and another has, the ratio is 0.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d

from fairmargin.sensitive import Attribute, encode_sensitive

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
    zero_division: float | Literal["warn"] = "warn",
) -> float:
    """Return the p of the p%-rule, in percent: 80 or more passes the 80%-rule.

    For a value g of an attribute, the ratio of the positive rates of g and of everybody else, the smaller over
    the larger; the result is the least over all values and attributes. For a binary attribute this is the
    formula of the paper. ``method="between_groups"`` takes the lowest over the highest rate among an
    attribute's groups instead.

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
    zero_division : float or "warn"
        The answer (in percent) where nobody gets the positive decision.

    Examples
    --------
    >>> p_rule(None, [1, 0, 1, 1, 1, 1], sensitive_features=list("aabbbb"))
    50.0
    """
    rates = _rates(y_true, y_pred, sensitive_features, sample_weight, pos_label)
    shares = [(r.name, r.p(method)) for r in rates]
    return 100.0 * min(_nobody(name, zero_division) if p is None else p for name, p in shares)


def cv_score(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    pos_label: Any = None,
    method: Method = "one_vs_rest",
) -> float:
    """Return the Calders-Verwer score: the largest absolute difference of positive rates, in [0, 1].

    Of each value of each attribute against everybody else, or, with ``method="between_groups"``, between the
    groups of an attribute. Parameters as in :func:`p_rule`.

    Examples
    --------
    >>> cv_score(None, [1, 0, 1, 1], sensitive_features=list("aabb"))
    0.5
    """
    rates = _rates(y_true, y_pred, sensitive_features, sample_weight, pos_label)
    return max(r.difference(method) for r in rates)


def positive_rates(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    pos_label: Any = None,
) -> pd.DataFrame:
    """Return the positive rate of every group, a row each, by attribute and category.

    Columns: ``people`` (count), ``weight`` (sum of weights), ``positives`` (weight of the positive decisions),
    ``rate``, ``rate_of_rest`` (of everybody else) and ``ratio`` (rate over rate of rest, in percent; nan where
    that is 0/0). Parameters as in :func:`p_rule`.
    """
    rates = _rates(y_true, y_pred, sensitive_features, sample_weight, pos_label)
    return pd.concat([_rates_table(r) for r in rates])


def decision_boundary_covariance(
    y_true: Any, y_score: Any, *, sensitive_features: Any, sample_weight: Any = None
) -> pd.Series:
    """Return the covariance of each sensitive column with the scores, by attribute and category.

    ``cov_k = (1/S) sum_i s_i (z_ik - zbar_k) f(x_i)``, the paper's measure of unfairness, with ``y_score`` the
    values of ``decision_function``. A binary attribute has one entry, for the later of its two values.
    """
    scores = column_or_1d(np.asarray(y_score, dtype=float))
    if not np.all(np.isfinite(scores)):
        raise ValueError("y_score has nan or infinite values.")
    sensitive = encode_sensitive(sensitive_features, len(scores), groups=False)
    weight = _weights(sample_weight, scores)
    share = weight / weight.sum()
    return sensitive.series(sensitive.centred(weight).T @ (share * scores), "covariance")


def _rates(y_true: Any, y_pred: Any, sensitive_features: Any, sample_weight: Any, pos_label: Any) -> list[GroupRates]:
    decisions = column_or_1d(y_pred)
    if len(decisions) == 0:
        raise ValueError("y_pred is empty: there are no decisions to compare.")
    if y_true is not None:
        check_consistent_length(y_true, decisions)
    positive = (decisions == _positive_label(y_true, decisions, pos_label)).astype(float)
    sensitive = encode_sensitive(sensitive_features, len(positive), groups=False)
    weight = _weights(sample_weight, positive)
    return [group_rates(a, positive, weight) for a in sensitive.attributes]


def _weights(sample_weight: Any, like: Array) -> Array:
    weight = _check_sample_weight(sample_weight, like[:, None], dtype=np.float64, ensure_non_negative=True)
    if not weight.sum() > 0:
        raise ValueError("Every sample weight is zero: there is nobody to look at.")
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


@dataclass(frozen=True)
class GroupRates:
    """Positive rates of one attribute's groups, arrays of shape (groups,)."""

    name: str
    categories: tuple[Any, ...]
    people: NDArray[np.intp]
    weight: Array
    positives: Array
    rate: Array
    rate_of_rest: Array

    def p(self, method: str = "one_vs_rest") -> float | None:
        """Return the p of the p%-rule as a share; None where nobody gets the positive decision."""
        _check_method(method)
        present = self._present()
        rate, rest = self.rate[present], self.rate_of_rest[present]
        if not rate.max() > 0:
            return None
        if method == "between_groups":
            return float(rate.min() / rate.max())
        return float(np.min(np.minimum(rate, rest) / np.maximum(rate, rest)))

    def difference(self, method: str = "one_vs_rest") -> float:
        """Return the largest absolute difference of rates."""
        _check_method(method)
        present = self._present()
        rate, rest = self.rate[present], self.rate_of_rest[present]
        if method == "between_groups":
            return float(rate.max() - rate.min())
        return float(np.max(np.abs(rate - rest)))

    def _present(self) -> NDArray[np.bool_]:
        present = self.weight > 0
        if present.sum() < 2:
            raise ValueError(
                f"The sensitive attribute {self.name!r} has fewer than two groups with people to compare."
            )
        return present


def group_rates(attribute: Attribute, positive: Array, weight: Array) -> GroupRates:
    """Return the rates of an attribute's groups; ``positive`` (N,) is 1 for a positive decision, else 0."""
    if attribute.codes is None:
        raise ValueError(
            f"The sensitive attribute {attribute.name!r} is numeric and has no groups; bin it (e.g. with "
            "pandas.cut) to compare rates."
        )
    size = len(attribute.categories)
    people = np.bincount(attribute.codes, minlength=size)
    total = np.bincount(attribute.codes, weights=weight, minlength=size).astype(float)
    positives = np.bincount(attribute.codes, weights=weight * positive, minlength=size).astype(float)
    # Sums over the others directly: a difference of totals would leave rounding where the answer is 0.
    others = 1.0 - np.eye(size)
    rate, rest = _divide(positives, total), _divide(others @ positives, others @ total)
    return GroupRates(attribute.name, attribute.categories, people, total, positives, rate, rest)


def _rates_table(rates: GroupRates) -> pd.DataFrame:
    index = pd.MultiIndex.from_product([[rates.name], rates.categories], names=["attribute", "category"])
    columns = {
        "people": rates.people,
        "weight": rates.weight,
        "positives": rates.positives,
        "rate": rates.rate,
        "rate_of_rest": rates.rate_of_rest,
        "ratio": 100.0 * _divide(rates.rate, rates.rate_of_rest),
    }
    return pd.DataFrame(columns, index=index)


def _divide(a: Array, b: Array) -> Array:
    """Return ``a / b``: nan for 0/0, inf for the rest of divisions by zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return a / b


def _check_method(method: str) -> None:
    if method not in ("one_vs_rest", "between_groups"):
        raise ValueError(f"method must be 'one_vs_rest' or 'between_groups', got {method!r}.")


def _nobody(name: str, zero_division: float | Literal["warn"]) -> float:
    if zero_division != "warn":
        return float(zero_division) / 100.0
    warnings.warn(
        f"Nobody gets the positive decision: the p%-rule for {name!r} is 0/0 and 100 is returned. "
        "Set zero_division to choose another answer.",
        UndefinedMetricWarning,
        stacklevel=4,
    )
    return 1.0
