"""Screening decisions among several classes: one audit per favourable class, and one of all of them together."""

from __future__ import annotations

from typing import Any

from fairmargin.audit import Audit, audit
from fairmargin.multiclass.metrics import decisions_for

__all__ = ["audit_classes"]


def audit_classes(
    decisions: Any, *, sensitive_features: Any, favourable: Any = None, combined: bool = False, **options: Any
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
    return {
        name: audit(given, sensitive_features=sensitive_features, pos_label=1, **options)
        for name, given in decisions_for(None, decisions, favourable, combined).items()
    }
