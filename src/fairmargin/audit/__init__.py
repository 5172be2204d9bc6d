"""Screening decisions for disparate impact: :func:`audit`, what it finds, and what belongs to it.

``screen`` puts an audit together: ``people`` checks what is known, ``groups`` makes the groups that are compared,
``comparison`` compares rates, ``errors`` error rates, ``scores`` scores, ``strata`` groups within strata.
``findings`` says what can be found, ``record`` holds the result, and ``drift`` compares it with an earlier one.
"""

from __future__ import annotations

from fairmargin.audit.drift import Drift, DriftedGroup, audit_drift
from fairmargin.audit.errors import ERROR_RATES, ErrorRate
from fairmargin.audit.findings import (
    ABOVE,
    ABOVE_MAYBE,
    BELOW,
    BELOW_MAYBE,
    DIFFERENT,
    FINDINGS,
    NOTHING,
    REFERENCE,
    REST,
    TOO_FEW,
    UNDEFINED,
)
from fairmargin.audit.record import Audit, AuditedAttribute, Group
from fairmargin.audit.scores import ScoredGroup
from fairmargin.audit.screen import audit
from fairmargin.audit.strata import StratifiedGroup
from fairmargin.proxies import Proxy, find_proxies
from fairmargin.rate_statistics import ratio_interval

__all__ = [
    "ABOVE",
    "ABOVE_MAYBE",
    "BELOW",
    "BELOW_MAYBE",
    "DIFFERENT",
    "ERROR_RATES",
    "FINDINGS",
    "NOTHING",
    "REFERENCE",
    "REST",
    "TOO_FEW",
    "UNDEFINED",
    "Audit",
    "AuditedAttribute",
    "Drift",
    "DriftedGroup",
    "ErrorRate",
    "Group",
    "Proxy",
    "ScoredGroup",
    "StratifiedGroup",
    "audit",
    "audit_drift",
    "find_proxies",
    "ratio_interval",
]
