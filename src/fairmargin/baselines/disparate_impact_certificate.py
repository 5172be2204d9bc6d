"""Certification of the absence of disparate impact: can the sensitive attribute be predicted from the features?

Feldman, M., Friedler, S. A., Moeller, J., Scheidegger, C. and Venkatasubramanian, S. (2015), Certifying and removing
disparate impact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from fairmargin.baselines._groups import BinaryGroups, read_people
from fairmargin.rate_statistics import proportion_limits
from fairmargin.validation import check_count, check_share

__all__ = ["DisparateImpactCertificate", "certify_disparate_impact"]


@dataclass(frozen=True)
class DisparateImpactCertificate:
    """Whether the features are too poor in information about z for disparate impact.

    Attributes
    ----------
    certified : bool
        Whether every auditor's error is, with confidence, above the threshold. **It holds for the auditors that were
        tried**: another could do better.
    threshold : float
        ``1/2 - (beta / 2) (1 / tau - 1)``: a classifier with disparate impact would predict z with at most this
        balanced error rate.
    beta : float
        Share of positive labels in the group where it is lower.
    auditors : pandas.DataFrame
        For each auditor, ``balanced_error`` on held-out people and its lower confidence bound ``at_least``.
    """

    certified: bool
    threshold: float
    beta: float
    auditors: pd.DataFrame


def certify_disparate_impact(
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    auditors: Mapping[str, Any] | None = None,
    tau: float = 0.8,
    confidence: float = 0.95,
    cv: int = 5,
    random_state: int = 0,
    pos_label: Any = None,
) -> DisparateImpactCertificate:
    """Certify that no classifier on ``X`` with the labels' share of positives can have disparate impact.

    The balanced error rate of a prediction g of z is ``BER = (P(g = 0 | z = 1) + P(g = 1 | z = 0)) / 2``. A
    classifier C with ``P(C = + | b) = beta`` for the deprived group b and disparate impact at tau
    (``P(C = + | b) <= tau P(C = + | f)``) is itself a prediction of z, with
    ``BER = 1/2 - (P(C = + | f) - beta) / 2 <= 1/2 - (beta / 2) (1 / tau - 1)``. If z cannot be predicted that well,
    there is no such C. Auditors are trained with balanced weights and judged on held-out people; the lower confidence
    bounds are for all of them and for both error rates at once (Bonferroni, Clopper-Pearson).

    The confidence is approximate: the errors of all folds are pooled as if they were those of one auditor on people
    drawn independently, but each fold has an auditor of its own, trained on the people of the other folds.

    Parameters
    ----------
    X : array (n, d)
    y : array (n,)
        Labels or decisions, of which beta is taken.
    sensitive_features : array (n,)
        One attribute of two values.
    auditors : mapping from name to classifier, optional
        By default a logistic regression and boosted trees, both with balanced class weights.
    tau : float
        The threshold of the rule, 0.8 for the 80%-rule.
    confidence : float
    cv : int
        Number of folds.
    random_state : int
        Of the folds.
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.

    Returns
    -------
    DisparateImpactCertificate
        Whether disparate impact is excluded, with the error rates of the auditors.

    See Also
    --------
    DisparateImpactRemover : Repairs features.

    Examples
    --------
    >>> from fairmargin.baselines import certify_disparate_impact
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)
    >>> certify_disparate_impact(X, y, sensitive_features=z).certified      # the features reveal z
    False
    """
    tau, confidence = check_share(tau, "tau"), check_share(confidence, "confidence")
    if tau == 0 or confidence == 1:
        raise ValueError("tau must be positive, and confidence less than 1.")
    method = "certify_disparate_impact"
    people = read_people(X, y, sensitive_features, pos_label=pos_label, method=method, kind=BinaryGroups)
    X = check_array(X, dtype=np.float64)
    beta = float(np.min(people.totals[:, 1] / people.totals.sum(axis=1)))
    threshold = 0.5 - 0.5 * beta * (1.0 / tau - 1.0)
    folds = StratifiedKFold(check_count(cv, "cv"), shuffle=True, random_state=random_state)
    tried = dict(_default_auditors() if auditors is None else auditors)
    if not tried:
        raise ValueError("auditors must have at least one classifier.")
    risk = (1.0 - confidence) / (2 * len(tried))
    rows = {name: _errors(auditor, X, people.group, folds, risk) for name, auditor in tried.items()}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["balanced_error", "at_least"])
    return DisparateImpactCertificate(bool((table["at_least"] > threshold).all()), threshold, beta, table)


def _default_auditors() -> dict[str, Any]:
    linear = LogisticRegression(class_weight="balanced", max_iter=1000)
    return {
        "logistic regression": make_pipeline(StandardScaler(), linear),
        "boosted trees": HistGradientBoostingClassifier(class_weight="balanced", random_state=0),
    }


def _errors(auditor: Any, X: np.ndarray, group: np.ndarray, folds: Any, risk: float) -> tuple[float, float]:
    """Return the balanced error on held-out people and its lower confidence bound."""
    wrong = cross_val_predict(auditor, X, group, cv=folds) != group
    counts = [(int(wrong[group == g].sum()), int((group == g).sum())) for g in (0, 1)]
    estimate = float(np.mean([k / n for k, n in counts]))
    lower = [proportion_limits(k, n, 1.0 - 2.0 * risk)[0] for k, n in counts]  # each is missed with probability risk
    return estimate, float(np.mean(lower))
