"""The verdict on a bound on differences of rates: whether every group is within so many points of the others.

As for ratios (:mod:`fairmargin.report.verdict`), all groups keep a bound beyond doubt as soon as the 95% interval of
every one of them lies within it; some group breaks it beyond doubt where an interval that is corrected for the number
of groups (Bonferroni) lies outside. Intervals of differences are Newcombe's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairmargin.formatting import distance, number_beside, points
from fairmargin.rate_statistics import compare_rates
from fairmargin.report.verdict import (
    FAILS,
    FAILS_MAYBE,
    PASSES,
    PASSES_MAYBE,
    SELECTED,
    corrected_for,
    describe,
    is_judged,
    list_groups,
    name_group,
    nearly_alike,
    no_verdict,
    not_judged,
    rate_in_words,
    sides_of,
    unless_selected,
    words,
)

__all__ = ["judge_differences"]


def judge_differences(
    audit: Mapping[str, Any],
    *,
    limit: float,
    held_out: bool,
    subject: str = "The proposed model",
    selected: bool = False,
) -> dict[str, Any]:
    """Return the verdict on a bound on differences of rates.

    Parameters
    ----------
    audit : dict
        Plain data of an audit.
    limit : float
        The largest difference allowed, a share.
    held_out, subject, selected
        As in :func:`fairmargin.report.verdict.judge`.

    Returns
    -------
    dict
        As that of ``judge``, with ``difference`` in place of ``p_rule``; ``asked``, ``difference``, ``low`` and
        ``high`` are shares, and ``below`` are the groups that are further apart from others than asked.
    """
    found: dict[str, Any] = {"kind": "difference", "asked": limit, "requested": True, "difference": None}
    found |= {"p_rule": None, "low": None, "high": None, "margin": None, "below": [], "not_judged": not_judged(audit)}
    nothing = no_verdict(audit, subject)
    if nothing is not None:
        return found | nothing
    judged = [(a, g) for a in audit["attributes"] for g in a["groups"] if is_judged(g)]
    rows = [_row(a, g, len(judged)) for a, g in judged]
    widest = max(rows, key=lambda r: r["gap"])
    beyond = sorted((r for r in rows if r["gap"] > limit), key=lambda r: -r["gap"])
    status = unless_selected(_status(rows, limit, may_be_sure=held_out), selected)
    nothing = nearly_alike(status, audit, subject)
    if nothing is not None:
        return found | {"difference": widest["gap"], "low": widest["low"], "high": widest["high"]} | nothing
    counted = audit["counted"]
    what = f"the {audit['rate']}" if rate_in_words(audit) else "selection rates"
    within = f"{100 * limit:g} points"
    headlines = {
        PASSES: f"Yes. {subject} keeps differences of {what} within {within}.",
        PASSES_MAYBE: f"Yes on these people, but not beyond doubt. {subject} keeps differences of {what} within "
        f"{within} here.",
        FAILS_MAYBE: f"Not on these people. {subject} lets {what} differ by more than {within} here, but in the "
        "population they may differ by less.",
        FAILS: f"No. {subject} lets {what} differ by more than {within}.",
    }
    found |= {"difference": widest["gap"], "low": widest["low"], "high": widest["high"], "below": beyond}
    found |= {"margin": 100.0 * (limit - widest["gap"])}
    return found | words(
        status,
        headlines[status],
        f"The largest difference is {_gap(widest['gap'], limit)} points. At most {100 * limit:g} are asked for. That "
        f"is {distance(abs(found['margin']))} points {'less' if found['margin'] >= 0 else 'more'}. Furthest apart: "
        f"{describe(widest, counted)}.",
        _sure(status, rows, limit, held_out, audit["compared_people"], selected),
        _for_whom(beyond, limit, audit, counted),
    )


def _row(attribute: Mapping[str, Any], group: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return a group with its difference without sign, the least and greatest it may be, and the corrected least."""
    limits = corrected = group["difference_low"], group["difference_high"]
    if count > 1:
        found = compare_rates(*sides_of(group), corrected_for(count))
        corrected = found["difference_low"], found["difference_high"]
    kept = ("attribute", "group", "people", "rate", "rate_of_others", "difference", "finding")
    return {
        **{key: group[key] for key in kept},
        "gap": abs(group["difference"]),
        "low": _least(*limits),
        "high": max(map(abs, limits)),
        "corrected": _least(*corrected),
        "limits": limits,
        "corrected_limits": corrected,
        "reference": attribute["reference"],
    }


def _least(low: float, high: float) -> float:
    return 0.0 if low <= 0.0 <= high else min(abs(low), abs(high))


def _status(rows: Sequence[Mapping[str, Any]], limit: float, *, may_be_sure: bool) -> str:
    if all(r["gap"] <= limit for r in rows):
        return PASSES if may_be_sure and all(r["high"] <= limit for r in rows) else PASSES_MAYBE
    return FAILS if may_be_sure and any(r["corrected"] > limit for r in rows) else FAILS_MAYBE


def _gap(gap: float, limit: float) -> str:
    return number_beside(100.0 * gap, 100.0 * limit)


def _sure(
    status: str, rows: Sequence[Mapping[str, Any]], limit: float, held_out: bool, count: int, selected: bool
) -> str:
    by = {PASSES: "high", PASSES_MAYBE: "high", FAILS_MAYBE: "gap", FAILS: "corrected"}[status]
    shown = max(rows, key=lambda r: (r[by], r["gap"]))
    where = "held-out people, who were not trained on" if held_out else "people trained on"
    limits, corrected = (" to ".join(map(points, shown[key])) for key in ("limits", "corrected_limits"))
    span = f"Measured on {count:,} {where}. The 95% interval of the difference of {name_group(shown)} is "
    span += f"{limits} points."
    if status == FAILS_MAYBE and len(rows) > 1:
        span += f" Corrected for {len(rows)} comparisons at once it is {corrected} points."
    if not held_out:
        return f"{span} Nobody was held out. On the people a model was trained on, a rule says little about others."
    if selected and status == PASSES_MAYBE:
        return f"{span} {SELECTED}"
    said = {
        PASSES: f"All intervals lie within {100 * limit:g} points. Chance is an unlikely reason.",
        PASSES_MAYBE: f"It reaches beyond {100 * limit:g} points. These people are too few to be sure.",
        FAILS_MAYBE: f"That reaches below {100 * limit:g} points: the data do not settle it.",
        FAILS: f"It lies beyond {100 * limit:g} points, even corrected for the number of groups. Chance is an "
        "unlikely reason.",
    }
    return f"{span} {said[status]}"


def _for_whom(beyond: Sequence[Mapping[str, Any]], limit: float, audit: Mapping[str, Any], counted: str) -> str:
    missed = [f"{describe(r, counted)}, {_gap(r['gap'], limit)} points" for r in beyond]
    return list_groups(missed, f"further apart than {100 * limit:g} points", audit)
