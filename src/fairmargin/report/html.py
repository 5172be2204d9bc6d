"""A summary as one HTML file: opens from disk, needs no network, holds everything.

The chart is plotly's, whose JavaScript is taken from the installed Python package. Names and values from the data
are escaped by jinja (autoescape), never reach plotly's texts, and a content security policy lets only the two known
scripts run, by their hashes: whatever a column is called, nothing in it is executed, and nothing is fetched.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fairmargin import formatting
from fairmargin.audit import FINDINGS
from fairmargin.report.evidence import RATES, all_sections, candidate_section
from fairmargin.report.plain import plain
from fairmargin.report.sections import limits_of

__all__ = ["to_html"]

_HERE = Path(__file__).parent
# Tables that the page shows as drawings, or elsewhere.
_DRAWN = (RATES, "Scores of this model by group", "What was tried")

# Columns of tables that "How to read this" explains, by the place there; the last ones only where a model is shown.
_MODELLED = {"AUC": "auc", "KS": "auc", "SMD": "auc", "gain / lose": "gain", "no limit": "no-limit"}
_TERMS = {
    "ratio": "ratio",
    "p%-rule": "ratio",
    "p%-rule (AIR)": "ratio",
    "common ratio": "ratio",
    "95% interval": "interval",
    "p (adj.)": "chance",
    "odds ratio": "odds",
    "common odds ratio": "odds",
    "CV score": "cv",
    **_MODELLED,
}

_EXPLORED = ("unconstrained", "curves", "answers")


def to_html(summary: Mapping[str, Any]) -> str:
    """Return a summary of any kind as a self-contained page."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise ImportError('The report needs jinja2: pip install "fairmargin[cli]".') from None
    environment = Environment(loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {
        "percent": formatting.percent,
        "points": formatting.points,
        "deviations": formatting.deviations,
        "whole": formatting.whole,
        "people": formatting.people,
        "ratio": formatting.ratio,
        "ratio_beside": formatting.ratio_beside,
        "interval": formatting.interval,
        "probability": formatting.probability,
        "short": partial(formatting.shorten, width=40),
        "signed_percent": formatting.signed_percent,
        "setting": _setting,
    }
    explored, limits = summary["kind"] == "frontier", limits_of(summary)
    scripts = _scripts() if explored else ("", "")
    return environment.get_template("report.html.jinja").render(
        s={"guarantee": None, "record": None, "held_out": None, **plain(summary)},
        limits=limits,
        shown={"limits": limits, **{key: summary[key] for key in _EXPLORED}} if explored else None,
        sections=[section for section in all_sections(summary) if section.title not in _DRAWN],
        tried=candidate_section(summary["candidates"], limits) if explored else None,
        findings=FINDINGS,
        terms=_TERMS
        if explored or "proposal" in summary
        else {key: _TERMS[key] for key in _TERMS if key not in _MODELLED},
        css=Markup(_read("report.css")),
        plotly=Markup(scripts[0]),
        script=Markup(scripts[1]),
        script_hashes=Markup(" ".join(f"'sha256-{_hash(script)}'" for script in scripts)),
    )


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _scripts() -> tuple[str, str]:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ImportError('The report needs plotly: pip install "fairmargin[cli]".') from None
    return get_plotlyjs(), _read("report.js")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _setting(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or formatting.NONE
    if isinstance(value, Mapping):
        return "; ".join(f"{k}: {_setting(v)}" for k, v in value.items()) or formatting.NONE
    return formatting.NONE if value is None else str(value)
