"""Screening decisions among several classes: one audit per favourable class, and one of all of them together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.audit import Audit, audit
from fairmargin.inputs import check_container, check_same_order
from fairmargin.multiclass.metrics import classes_for, is_among

__all__ = ["audit_classes"]


def audit_classes(
    decisions: Any,
    *,
    sensitive_features: Any,
    favourable: Any = None,
    combined: bool = False,
    y_true: Any = None,
    **options: Any,
) -> dict[Any, Audit]:
    """Compare how often groups are given each favourable class.

    Parameters
    ----------
    decisions : array of shape (n,)
        Decisions, or labels, of several classes.
    sensitive_features : array, series or frame of shape (n,) or (n, k)
        Attributes with groups; cut numbers into groups first.
    favourable : label or list of labels, optional
        The classes that people want to be given; all by default.
    combined : bool, default=False
        Whether to audit the favourable classes as one decision: any of them against the others.
    y_true : array of shape (n,), optional
        Labels, unknown where they are missing: with them error rates are compared, of being given the class or not.
    **options
        As in :func:`fairmargin.audit.audit`. P-values are corrected within a class, not across classes.

    Returns
    -------
    dict of Audit by class

    Examples
    --------
    >>> jobs = ["boss", "boss", "boss", "clerk"] * 25 + ["boss", "clerk", "clerk", "clerk"] * 25
    >>> found = audit_classes(jobs, sensitive_features=["m"] * 100 + ["f"] * 100, favourable="boss")
    >>> found["boss"].lowest.group, round(found["boss"].lowest.ratio, 1)
    ('f', 33.3)
    """
    people = {name: options.get(name) for name in ("sample_weight", "scores", "strata", "features", "counts")}
    check_same_order(decisions=decisions, sensitive_features=sensitive_features, y_true=y_true, **people)
    found = {}
    for name, labels in classes_for(None, decisions, favourable, combined).items():
        truth = None if y_true is None else _labels(y_true, labels)
        given = is_among(decisions, labels)
        found[name] = audit(given, sensitive_features=sensitive_features, pos_label=1, y_true=truth, **options)
    return found


def _labels(y_true: Any, labels: list[Any]) -> NDArray[np.float64]:
    """Return who is of one of the classes, nan where that is not known."""
    check_container(y_true, "y_true")
    return np.where(pd.isna(np.asarray(y_true).ravel()), np.nan, is_among(y_true, labels))
