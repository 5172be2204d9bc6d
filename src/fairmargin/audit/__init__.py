"""Screening decisions for disparate impact: :func:`audit`, what it finds, and what belongs to it.

``screen`` compares rates group by group, ``findings`` says what can be found, ``record`` holds the result, and
``groups`` makes the groups that are compared.
"""

from __future__ import annotations

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
from fairmargin.audit.screen import audit
from fairmargin.proxies import Proxy, find_proxies
from fairmargin.rate_statistics import ratio_interval

__all__ = [
    "ABOVE",
    "ABOVE_MAYBE",
    "BELOW",
    "BELOW_MAYBE",
    "DIFFERENT",
    "FINDINGS",
    "NOTHING",
    "REFERENCE",
    "REST",
    "TOO_FEW",
    "UNDEFINED",
    "Audit",
    "AuditedAttribute",
    "Group",
    "Proxy",
    "audit",
    "find_proxies",
    "ratio_interval",
]
