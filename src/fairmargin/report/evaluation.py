"""Decisions on a part of a study: rates by group, p%-rule and accuracy, with their intervals."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.audit import ratio_interval, statsmodels_module
from fairmargin.metrics import positive_rates
from fairmargin.tables.study import Part

__all__ = ["evaluate", "measured_by_frontier"]


def measured_by_frontier(row: pd.Series, name: str) -> dict[str, float | None]:
    """Return accuracy, p%-rule and CV score on the data called ``name`` from a row of a frontier's table."""
    measured = {key: row.get(f"{name}_{key}") for key in ("accuracy", "p_rule", "cv_score")}
    return {key: None if value is None or np.isnan(value) else float(value) for key, value in measured.items()}


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
    rates = positive_rates(None, accepted.astype(int), sensitive_features=part.sensitive, pos_label=1)
    rates = rates[rates["people"] > 0]
    attributes = [_attribute(str(name), rows.droplevel(0)) for name, rows in rates.groupby(level=0, sort=False)]
    defined = [a for a in attributes if a["p_rule"] is not None]
    worst = min(defined, key=lambda a: a["p_rule"], default=None)
    if measured is None:
        measured = {
            "accuracy": float(np.mean(accepted == (part.y == 1))),
            "p_rule": None if worst is None else worst["p_rule"],
            "cv_score": max((a["cv_score"] for a in attributes if a["cv_score"] is not None), default=None),
        }
    if measured["p_rule"] is None:
        worst = None
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
        "p_rule_low": None if worst is None else worst["low"],
        "p_rule_high": None if worst is None else worst["high"],
        "worst": None if worst is None else {key: worst[key] for key in ("attribute", "group", "people")},
        "cv_score": measured["cv_score"],
        "attributes": attributes,
        "groups": [_group(row) for row in rates.reset_index().to_dict("records")],
    }


def _proportion_interval(k: int, n: int) -> tuple[float, float]:
    low, high = statsmodels_module("proportion").proportion_confint(k, n, method="wilson")
    return float(low), float(high)


def _group(row: Mapping[Hashable, Any]) -> dict[str, Any]:
    k, n = int(row["positives"]), int(row["people"])
    low, high = _proportion_interval(k, n)
    names = {"attribute": str(row["attribute"]), "group": str(row["category"])}
    return {**names, "people": n, "positives": k, "rate": float(row["rate"]), "low": low, "high": high}


def _attribute(name: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the p%-rule of one attribute: each group against everybody else, the least one, with its interval."""
    gaps = (rows["rate"] - rows["rate_of_rest"]).abs()
    result: dict[str, Any] = {"attribute": name, "p_rule": None, "low": None, "high": None, "group": None}
    result |= {"people": 0, "cv_score": None if gaps.isna().all() else float(gaps.max())}
    rate, rest = rows["rate"].to_numpy(), rows["rate_of_rest"].to_numpy()
    larger = np.maximum(rate, rest)
    if not np.any(larger > 0):  # nobody is accepted, or there is one group only: 0/0
        return result
    shares = np.divide(np.minimum(rate, rest), larger, out=np.full(len(rows), np.inf), where=larger > 0)
    least = float(shares.min())
    # Of two groups that are each other's rest, the one with the lower rate is named.
    k = min(np.flatnonzero(shares == least).tolist(), key=lambda g: rate[g])
    people, positives = rows["people"].to_numpy(), rows["positives"].to_numpy()
    here = int(positives[k]), int(people[k])
    others = int(positives.sum()) - here[0], int(people.sum()) - here[1]
    low, high = ratio_interval(*(here + others if rate[k] <= rest[k] else others + here))
    result |= {"group": str(rows.index[k]), "people": here[1]}
    return result | {"p_rule": 100.0 * least, "low": 100.0 * low, "high": min(100.0 * high, 100.0)}
