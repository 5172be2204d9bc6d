"""Further tables of a summary, the same in every output: a title, a sentence, columns and rows of text.

Renderers print them as they are; cells are plain text and are escaped where they are printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairmargin import formatting
from fairmargin.audit.errors import ERROR_RATES

__all__ = ["Section", "asked_for", "audit_sections", "limits_of", "number", "profile_titles", "section_of"]

_MOST = 40  # rows that a table on paper still bears; the JSON has all


@dataclass(frozen=True)
class Section:
    """One table for people: texts only. The first column names the row; ``left`` says which others are words."""

    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...] = ()


def audit_sections(summary: Mapping[str, Any]) -> list[Section]:
    """Return the tables that follow the comparison of rates: those of an audit that has what they show."""
    audit, limits = summary["audit"], limits_of(summary)
    found = [
        *_profile(summary.get("profile")),
        _error_rates(audit.get("error_rates") or ()),
        _odds(audit, limits),
        _strata(audit.get("strata") or (), limits),
        _above_median(audit.get("scoring") or (), limits),
        _scored(audit.get("scored") or ()),
        _drift(summary.get("drift"), limits),
        _reasons(summary.get("reasons") or ()),
        _repeats(summary.get("repeats"), limits),
    ]
    return [section for section in found if section is not None and section.rows]


def profile_titles(summary: Mapping[str, Any]) -> list[str]:
    """Return the titles of the tables that a profile requires."""
    return [section.title for section in _profile(summary.get("profile"))]


def asked_for(settings: Mapping[str, Any]) -> str:
    """Return the constraint of a training in words, with the confidence that it was tested at, if any."""
    constraint, confidence = str(settings.get("constraint", "none")), settings.get("confidence")
    return constraint if confidence is None else f"{constraint}, with a confidence of {100 * confidence:.4g}%"


def limits_of(summary: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the p%-rules that ratios in a summary are held against: no rounded ratio may read as one of these."""
    verdict = summary["verdict"] if "verdict" in summary else summary["proposal"]["verdict"]
    asked = [rule["asked"] for rule in verdict.get("rules", [verdict]) if rule["kind"] == "p-rule"]
    return tuple(sorted({float(summary["audit"]["threshold"]), *asked}))


def number(value: float | None, digits: int = 2) -> str:
    """Return a number with so many digits, an infinite one as such, none as a dash."""
    if value is None:
        return formatting.NONE
    return "∞" if math.isinf(value) else f"{value:.{digits}f}"


def _span(low: float | None, high: float | None) -> str:
    if low is None:
        return formatting.NONE
    return f"{low:.2f} and more" if high is None or math.isinf(high) else f"{low:.2f}–{high:.2f}"


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['attribute']} = {row['group']}"


def _error_rates(rows: Sequence[Mapping[str, Any]]) -> Section | None:
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "group": _name,
        "measure": lambda r: str(r["measure"]),
        "people": lambda r: f"{r['people']:,}",
        "rate": lambda r: formatting.percent(r["rate"]),
        "95% interval": lambda r: _percentages(r["rate_low"], r["rate_high"]),
        "of others": lambda r: formatting.percent(r["rate_of_others"]),
        "difference": lambda r: formatting.points(r["difference"]),
        "p (adj.)": lambda r: "too few people" if r["too_few"] else formatting.probability(r["p_adjusted"]),
    }
    said = "; ".join(f"{measure}: {words}" for measure, words in ERROR_RATES.items())
    text = f"{said[0].upper()}{said[1:]}. Differences in percentage points, tested by Fisher's exact test."
    return section_of("Error rates by group", text, columns, rows, left=(1,))


def _percentages(low: float | None, high: float | None) -> str:
    return formatting.NONE if low is None or high is None else formatting.interval(100 * low, 100 * high)


def _odds(audit: Mapping[str, Any], limits: tuple[float, ...]) -> Section | None:
    rows = [g for a in audit["attributes"] for g in a["groups"] if g.get("ratio_flipped") is not None]
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "group": _name,
        "odds ratio": lambda g: number(g["odds_ratio"]),
        "95% interval": lambda g: _span(g["odds_ratio_low"], g["odds_ratio_high"]),
        "ratio": lambda g: formatting.ratio_beside(g["ratio"], *limits),
        "after an exchange": lambda g: formatting.ratio_beside(g["ratio_flipped"], *limits),
        "which": _exchange,
    }
    what = "positive decision" if audit["notion"] == "selection_rate" else "decision that is counted"
    text = (
        f"Odds of the {what} over those of the people compared with, with exact limits; and the ratio if "
        "two people changed places: one of the side with the lower rate has that decision, one of the other not."
    )
    return section_of("Odds ratios, and two people who change places", text, columns, rows, left=(5,))


def _exchange(group: Mapping[str, Any]) -> str:
    if group["flip_reverses"]:
        return "takes the difference away"
    return "crosses the threshold" if group["flip_matters"] else "stays on the same side of the threshold"


def _strata(rows: Sequence[Mapping[str, Any]], limits: tuple[float, ...]) -> Section | None:
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "group": _name,
        "compared with": lambda r: str(r["reference"]),
        "strata": lambda r: f"{r['common']['informative']} of {r['common']['strata']}",
        "common ratio": lambda r: formatting.ratio_beside(r["common"]["ratio"], *limits),
        "95% interval": lambda r: formatting.interval(
            r["common"]["ratio_low"], r["common"]["ratio_high"], beside=limits
        ),
        "common odds ratio": lambda r: number(r["common"]["odds_ratio"]),
        "95% of it": lambda r: _span(r["common"]["odds_ratio_low"], r["common"]["odds_ratio_high"]),
        "p (adj.)": lambda r: "too few people" if r["too_few"] else formatting.probability(r["p_adjusted"]),
        "p of equal odds": lambda r: formatting.probability(r["common"]["p_equal"]),
    }
    by = " and ".join(rows[0]["by"]) if rows else ""
    text = (
        f"Groups compared within strata of {by}, pooled by Mantel and Haenszel. Strata in which everybody is decided "
        "alike say nothing and are not counted. A small p of equal odds says that strata differ among themselves."
    )
    return section_of("Within strata", text, columns, rows, left=(1,))


def _above_median(attributes: Sequence[Mapping[str, Any]], limits: tuple[float, ...]) -> Section | None:
    rows = [g for a in attributes for g in a["groups"]]
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "group": _name,
        "people": lambda g: f"{g['people']:,}",
        "above the median": lambda g: f"{g['positives']:,}",
        "rate": lambda g: formatting.percent(g["rate"]),
        "ratio": lambda g: formatting.ratio_beside(g["ratio"], *limits),
        "95% interval": lambda g: formatting.interval(g["ratio_low"], g["ratio_high"], beside=limits),
        "p (adj.)": lambda g: formatting.probability(g["p_adjusted"]),
    }
    text = "The share of each group with a score above the median of everybody's, compared as decisions are."
    return section_of("Scores above the median", text, columns, rows)


def _scored(rows: Sequence[Mapping[str, Any]]) -> Section | None:
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "group": _name,
        "people": lambda r: f"{r['people']:,}",
        "mean score": lambda r: f"{r['mean']:.4g}",
        "standardised difference": lambda r: formatting.NONE if r["smd"] is None else f"{r['smd']:+.2f}",
        "AUC": lambda r: number(r["auc"], 3),
    }
    text = (
        "Mean scores; the difference from the people compared with in standard deviations of everybody's scores; and "
        "how well scores rank the people of the group by their label (0.5: not at all)."
    )
    return section_of("Scores by group", text, columns, rows)


def _drift(drift: Mapping[str, Any] | None, limits: tuple[float, ...]) -> Section | None:
    if drift is None:
        return None
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "group": _name,
        "people": lambda r: f"{r['people_before']:,} → {r['people']:,}",
        "rate": lambda r: f"{formatting.percent(r['rate_before'])} → {formatting.percent(r['rate'])}",
        "ratio": lambda r: " → ".join(formatting.ratio_beside(r[key], *limits) for key in ("ratio_before", "ratio")),
        "odds ratio": lambda r: f"{number(r['odds_ratio_before'])} → {number(r['odds_ratio'])}",
        "p of rate": lambda r: formatting.probability(r["p_rate"]),
        "p of disparity": lambda r: formatting.probability(r["p_disparity"]),
        "finding": lambda r: str(r["finding"]),
    }
    text = "Each group against everybody else, then and now. Fisher's exact test of the rate and Zelen's of the odds "
    text += "ratio, corrected for the number of groups."
    for when, names in (("only before", drift["only_before"]), ("only now", drift["only_now"])):
        text += f" Groups {when}: {', '.join(names)}." if names else ""
    return section_of("Since the earlier audit", text, columns, drift["groups"], left=(7,))


def _reasons(rows: Sequence[Mapping[str, Any]]) -> Section | None:
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "group": _name,
        "column": lambda r: str(r["feature"]),
        "difference": lambda r: f"{r['difference']:+.3f}",
        "of all columns": lambda r: f"{r['total']:+.3f}",
    }
    text = (
        "The mean score of a group less that of everybody else is the sum of these differences over all columns, "
        "exactly; the largest are shown."
    )
    return section_of("What sets the scores of groups apart", text, columns, rows, left=(1,))


def _repeats(repeats: Mapping[str, Any] | None, limits: tuple[float, ...]) -> Section | None:
    if repeats is None:
        return None
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "split": lambda r: str(r["split"]),
        "accuracy": lambda r: formatting.percent(r["accuracy"]),
        "accepted": lambda r: formatting.percent(r["rate"]),
        "p%-rule": lambda r: formatting.ratio_beside(r["p_rule"], *limits),
        "CV score": lambda r: formatting.percent(r["cv_score"]),
    }
    return section_of("Other splits", repeats["text"], columns, [*repeats["splits"], *repeats["totals"]])


def _profile(profile: Mapping[str, Any] | None) -> list[Section]:
    """Return the tables that a profile of rules requires, and what it leaves out."""
    if profile is None:
        return []
    tables = [
        Section(t["title"], t["text"], tuple(t["columns"]), tuple(tuple(row) for row in t["rows"]), tuple(t["left"]))
        for t in profile["tables"]
    ]
    head = f"{profile['name']}, as of {profile['dated']}. {profile['summary']}"
    facts = [("source", source) for source in profile["sources"]]
    facts += [("left out", words) for words in profile["leaves_out"]]
    return [Section(f"Profile: {profile['title']}", head, ("", ""), tuple(facts), (1,)), *tables]


def section_of(
    title: str,
    text: str,
    columns: Mapping[str, Callable[[Mapping[str, Any]], str]],
    rows: Sequence[Mapping[str, Any]],
    left: tuple[int, ...] = (),
) -> Section:
    """Return a table of some rows; ``columns`` say what each column shows of a row."""
    shown = tuple(tuple(show(row) for show in columns.values()) for row in rows[:_MOST])
    if len(rows) > _MOST:
        text += f" The first {_MOST} of {len(rows)} rows; the JSON summary has all."
    return Section(title, text, tuple(columns), shown, left)
