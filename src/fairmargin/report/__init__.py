"""Reports: one plain summary dict, rendered as HTML, Markdown, JSON and on the terminal."""

from __future__ import annotations

from fairmargin.report.html import to_html
from fairmargin.report.markdown import to_markdown
from fairmargin.report.summary import audit_summary, frontier_summary, to_json, training_summary

__all__ = ["audit_summary", "frontier_summary", "to_html", "to_json", "to_markdown", "training_summary"]
