"""A p%-rule for people not seen yet: exact tests, and the certificate of any fitted classifier."""

from __future__ import annotations

from fairmargin.guarantee.certification import certify
from fairmargin.guarantee.record import GroupRecord, Guarantee

__all__ = ["GroupRecord", "Guarantee", "certify"]
