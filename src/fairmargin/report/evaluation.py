"""Decisions on a part of a study: rates by group, p%-rule and accuracy, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.audit import ratio_interval, statsmodels_module
from fairmargin.decisions import GroupCounts, count_groups
from fairmargin.sensitive import encode_sensitive
from fairmargin.tables.study import Part

__all__ = ["evaluate", "measured_by_frontier"]


def measured_by_frontier(row: pd.Series, name: str) -> dict[str, float | None]:
    """Return accuracy, p%-rule and CV score on the data called ``name`` from a row of a frontier's table."""
    return {key: _finite(row[f"{name}_{key}"]) for key in ("accuracy", "p_rule", "cv_score")}


def evaluate(
    accepted: NDArray[np.bool_], part: Part, measured: Mapping[str, float | None] | None = None
) -> dict[str, Any]:
    """Return accuracy, p%-rule (both with 95% intervals), CV score and rates by group of decisions.

    Parameters
    ----------
    accepted : bool array of shape (n,)
        Who gets the positive decision.
    part : Part of n people
    measured : mapping, optional
        Accuracy, p%-rule and CV score where a frontier has measured them already.
    """
    sensitive = encode_sensitive(part.sensitive, len(part), groups=False)
    counts = [count_groups(attribute, accepted) for attribute in sensitive.attributes]
    attributes = [_attribute(c) for c in counts]
    worst = min((a for a in attributes if a["p_rule"] is not None), key=lambda a: a["p_rule"], default=None)
    if measured is None:
        measured = {
            "accuracy": float(np.mean(accepted == (part.y == 1))),
            "p_rule": None if worst is None else worst["p_rule"],
            "cv_score": max((a["cv_score"] for a in attributes if a["cv_score"] is not None), default=None),
        }
    if worst is None or measured["p_rule"] is None:
        worst = {"low": None, "high": None}
    accuracy = measured["accuracy"] or 0.0
    low, high = _proportion_interval(round(accuracy * len(part)), len(part))
    return {
        "people": len(part),
        "accuracy": accuracy,
        "accuracy_low": low,
        "accuracy_high": high,
        "positives": int(accepted.sum()),
        "rate": float(accepted.mean()),
        "p_rule": measured["p_rule"],
        "p_rule_low": worst["low"],
        "p_rule_high": worst["high"],
        "worst": {key: worst[key] for key in ("attribute", "group", "people")} if "group" in worst else None,
        "cv_score": measured["cv_score"],
        "attributes": attributes,
        "groups": [row for c in counts for row in _groups(c)],
    }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _proportion_interval(k: int, n: int) -> tuple[float, float]:
    low, high = statsmodels_module("proportion").proportion_confint(k, n, method="wilson")
    return float(low), float(high)


def _groups(counts: GroupCounts) -> list[dict[str, Any]]:
    rows = []
    for group, people, positives in zip(counts.categories, counts.people, counts.positives, strict=True):
        if people:
            k, n = int(positives), int(people)
            low, high = _proportion_interval(k, n)
            names = {"attribute": counts.name, "group": str(group)}
            rows.append({**names, "people": n, "positives": k, "rate": k / n, "low": low, "high": high})
    return rows


def _attribute(counts: GroupCounts) -> dict[str, Any]:
    """Return the p%-rule of one attribute with its interval, and the group that has it against everybody else."""
    row: dict[str, Any] = {"attribute": counts.name, "p_rule": None, "low": None, "high": None, "group": None}
    row |= {"people": 0, "cv_score": None}
    if counts.n_present < 2:
        return row
    row["cv_score"] = float(counts.difference())
    ratio = float(counts.ratio())
    if not np.isfinite(ratio):  # nobody gets the positive decision: 0/0
        return row
    rate, rest = counts.rate, counts.rate_of_rest
    distance = np.abs(np.minimum(rate, rest) / np.maximum(rate, rest) - ratio)
    # Of two groups that are each other's rest, the one with the lower rate is named.
    k = min(np.flatnonzero(distance <= np.nanmin(distance)).tolist(), key=lambda g: rate[g])
    here = int(counts.positives[k]), int(counts.people[k])
    others = int(counts.positives.sum()) - here[0], int(counts.people.sum()) - here[1]
    low, high = ratio_interval(*(here + others if rate[k] <= rest[k] else others + here))
    row |= {"group": str(counts.categories[k]), "people": here[1]}
    return row | {"p_rule": 100.0 * ratio, "low": 100.0 * low, "high": min(100.0 * high, 100.0)}
