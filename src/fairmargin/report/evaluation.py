"""Decisions on a part of a study: rates by group, p%-rule and accuracy, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.decisions import GroupCounts, count_groups
from fairmargin.notions import Condition, Notion, get_notion
from fairmargin.rate_statistics import rate_interval, ratio_interval
from fairmargin.sensitive import encode_sensitive
from fairmargin.tables.study import Part

__all__ = ["conditions_of", "evaluate", "measured_by_frontier"]


def measured_by_frontier(row: pd.Series, name: str) -> dict[str, float | None]:
    """Return accuracy, p%-rule and CV score on the data called ``name`` from a row of a frontier's table."""
    return {key: _finite(row[f"{name}_{key}"]) for key in ("accuracy", "p_rule", "cv_score")}


def evaluate(
    accepted: NDArray[np.bool_],
    part: Part,
    measured: Mapping[str, float | None] | None = None,
    *,
    method: str = "one_vs_rest",
    min_people: int = 1,
    notion: Notion | None = None,
) -> dict[str, Any]:
    """Return accuracy, p%-rule (both with 95% intervals), CV score and rates by group of decisions.

    ``constant_accuracy`` is that of the better of the two constant decisions, and ``decides_alike`` says which of
    them (``"accepts"`` or ``"refuses"``) the decisions are, None if neither.

    Parameters
    ----------
    accepted : bool array of shape (n,)
        Who gets the positive decision.
    part : Part of n people
    measured : mapping, optional
        Accuracy, p%-rule and CV score where a frontier has measured them already.
    method, min_people, notion
        How groups are compared, as in :func:`fairmargin.p_rule`; by default by selection rates.
    """
    sensitive = encode_sensitive(part.sensitive, len(part), groups=False)
    counts = [
        count_groups(attribute, accepted, min_people=min_people, condition=condition)
        for condition in conditions_of(part, notion)
        for attribute in sensitive.attributes
    ]
    attributes = [_attribute(c, method) for c in counts]
    judged = [a for a in attributes if a["p_rule"] is not None]
    worst = min(judged, key=lambda a: a["p_rule"], default={"p_rule": None, "low": None, "high": None})
    if measured is None:
        measured = {
            "accuracy": float(np.mean(accepted == (part.y == 1))),
            "p_rule": worst["p_rule"],
            "cv_score": max((a["cv_score"] for a in attributes if a["cv_score"] is not None), default=None),
        }
    if measured["p_rule"] is None:
        worst = {"low": None, "high": None}
    accuracy = measured["accuracy"] or 0.0
    low, high = rate_interval(round(accuracy * len(part)), len(part))
    share = float(np.mean(part.y == 1))
    return {
        "people": len(part),
        "accuracy": accuracy,
        "accuracy_low": low,
        "accuracy_high": high,
        "constant_accuracy": max(share, 1.0 - share),
        "decides_alike": {0: "refuses", len(part): "accepts"}.get(int(accepted.sum())),
        "positives": int(accepted.sum()),
        "rate": float(accepted.mean()),
        "p_rule": measured["p_rule"],
        "p_rule_low": worst["low"],
        "p_rule_high": worst["high"],
        "worst": {key: worst[key] for key in ("attribute", "group", "people", "against")}
        if "group" in worst
        else None,
        "cv_score": measured["cv_score"],
        "attributes": attributes,
        "groups": [row for c in counts for row in _groups(c)],
    }


def conditions_of(part: Part, notion: Notion | None) -> tuple[Condition, ...]:
    """Return among whom a notion compares the groups of a part; everybody by default."""
    return (notion or get_notion("selection_rate")).conditions(np.where(part.y == 1, 1.0, -1.0))


def _name(counts: GroupCounts) -> str:
    """Return the name of an attribute under a condition, as audits call it."""
    return f"{counts.name} ({counts.among})" if counts.among else counts.name


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _groups(counts: GroupCounts) -> list[dict[str, Any]]:
    rows = []
    for group, people, positives in zip(counts.categories, counts.people, counts.positives, strict=True):
        if people:
            k, n = int(positives), int(people)
            low, high = rate_interval(k, n)
            names = {"attribute": _name(counts), "group": str(group), "too_few": n < counts.min_people}
            names |= {"column": counts.name, "among": counts.among}
            rows.append({**names, "people": n, "positives": k, "rate": k / n, "low": low, "high": high})
    return rows


def _attribute(counts: GroupCounts, method: str) -> dict[str, Any]:
    """Return the p%-rule of one attribute with its interval, and the group that has it, against whom."""
    row: dict[str, Any] = {"attribute": _name(counts), "p_rule": None, "low": None, "high": None, "group": None}
    row |= {"people": 0, "against": None, "cv_score": None}
    judged = counts.judged(method)
    if not judged.any():
        return row
    row["cv_score"] = float(counts.difference(method))
    ratio = float(counts.ratio(method))
    if not np.isfinite(ratio):  # nobody gets the positive decision: 0/0
        return row
    k, against, here, others = _worst(counts, method, judged)
    lower_first = here[0] * others[1] <= others[0] * here[1]
    low, high = ratio_interval(*(here + others if lower_first else others + here))
    row |= {"group": str(counts.categories[k]), "people": here[1], "against": against}
    return row | {"p_rule": 100.0 * ratio, "low": 100.0 * low, "high": min(100.0 * high, 100.0)}


def _worst(
    counts: GroupCounts, method: str, judged: NDArray[np.bool_]
) -> tuple[int, str, tuple[int, int], tuple[int, int]]:
    """Return the group that sets the rule, against whom, and positives and people of both sides."""
    everybody = int(counts.positives.sum()), int(counts.people.sum())

    def side(g: int) -> tuple[int, int]:
        return int(counts.positives[g]), int(counts.people[g])

    rate = np.where(judged, counts.rate, np.nan)
    if method == "between_groups":
        top = int(np.argmax(np.where(counts.may_be_highest, counts.rate, -1.0)))
        k = int(np.nanargmin(rate))
        return k, str(counts.categories[top]), side(k), side(top)
    rest = counts.rate_of_rest
    with np.errstate(invalid="ignore"):
        share = np.minimum(rate, rest) / np.maximum(rate, rest)
    # Of two groups that are each other's rest, the one with the lower rate is named.
    k = min(np.flatnonzero(share <= np.nanmin(share)).tolist(), key=lambda g: rate[g])
    return k, "everybody else", side(k), (everybody[0] - side(k)[0], everybody[1] - side(k)[1])
