"""Reports: one plain summary dict, rendered as HTML, Markdown, JSON and on the terminal."""

from __future__ import annotations

from fairmargin.report.html import to_html
from fairmargin.report.markdown import to_markdown
from fairmargin.report.plain import to_json
from fairmargin.report.run_record import add_record, is_intact
from fairmargin.report.summary import audit_summary, frontier_summary, training_summary

__all__ = [
    "add_record",
    "audit_summary",
    "frontier_summary",
    "is_intact",
    "to_html",
    "to_json",
    "to_markdown",
    "training_summary",
]
