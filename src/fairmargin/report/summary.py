"""What a report says, as one plain dict: texts, finite numbers, lists and dicts, nothing else.

Every renderer (HTML, Markdown, JSON, terminal) reads the same dict, so that they cannot disagree.
"""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.audit import Audit, audit, ratio_interval, statsmodels_module
from fairmargin.tabular import Part, Study, TabularModel

__all__ = ["audit_summary", "evaluate", "frontier_summary", "plain", "to_json", "training_summary", "versions"]

Array = NDArray[np.float64]
SCHEMA = "fairmargin-summary"
SCHEMA_VERSION = 1
SCREEN = (
    "This is a screen. It points out differences that need an explanation; it does not say whether a difference is "
    "justified or lawful."
)
_COEFFICIENTS = 10
_TRAIN = ("accuracy", "p_rule", "cv_score")


def to_json(summary: Mapping[str, Any]) -> str:
    """Return a summary as JSON text."""
    return json.dumps(plain(summary), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def plain(value: Any) -> Any:
    """Return ``value`` as plain data: numpy and pandas scalars as numbers, nan and infinity as None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Sequence):
        return [plain(v) for v in value]
    return str(value)


def versions() -> dict[str, str]:
    """Return what the numbers were made with."""
    import scipy
    import sklearn

    import fairmargin

    return {
        "fairmargin": fairmargin.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "pandas": pd.__version__,
        "platform": f"{platform.system()} {platform.machine()} ({sys.byteorder}-endian)",
    }


def _head(kind: str, title: str, settings: Mapping[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "title": title,
        "disclaimer": SCREEN,
        "settings": plain(settings),
        "notes": list(notes),
        "versions": versions(),
    }


def audit_summary(
    result: Audit,
    *,
    title: str,
    what: str,
    fingerprint: Mapping[str, Any],
    settings: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Summarise an audit; ``what`` says whose decisions were audited."""
    summary = _head("audit", title, settings, [*notes, *result.notes])
    return {**summary, "what": what, "data": plain(fingerprint), "audit": plain(result.to_dict())}


def training_summary(
    model: TabularModel, study: Study, *, title: str, settings: Mapping[str, Any], notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Summarise one trained model: what it does on training and held-out people, and its certificate."""
    summary = _head("train", title, {**study.settings, **settings}, [*study.notes, *notes])
    clf = model.estimator
    part, held_out = _evaluated(study)
    decided = (clf.decision_function(part.X) >= 0).astype(int)
    return {
        **summary,
        "data": _data(study),
        "train": plain(evaluate(clf.decision_function(study.train.X), study.train)),
        "test": plain(evaluate(clf.decision_function(part.X), part)) if held_out else None,
        "certificate": plain(clf.certificate_),
        "path_certificate": plain(getattr(clf, "path_certificate_", None)),
        "covariance": _labelled(clf.covariance_),
        "unconstrained_covariance": _labelled(clf.unconstrained_covariance_),
        "shadow_prices": _labelled(clf.multipliers_),
        "coefficients": _coefficients(clf, None, study.encoder.feature_names),
        "held_out": held_out,
        "audit": plain(audit(decided, sensitive_features=part.sensitive).to_dict()),
    }


def _evaluated(study: Study) -> tuple[Part, bool]:
    """Return the people to judge by: those held out, or those of training where nobody was."""
    return (study.test, True) if len(study.test) else (study.train, False)


def _data(study: Study) -> dict[str, Any]:
    positives = int(study.train.y.sum() + study.test.y.sum())
    return {
        **study.fingerprint,
        "people": study.people,
        "train_people": len(study.train),
        "test_people": len(study.test),
        "target": study.target,
        "negative": study.labels[0],
        "positive": study.labels[1],
        "positives": positives,
        "positive_rate": positives / study.people,
        "sensitive": list(study.sensitive),
        "features": study.encoder.to_dict()["columns"],
        "n_features": len(study.encoder.feature_names),
    }


def evaluate(scores: Array, part: Part) -> dict[str, Any]:
    """Return accuracy, p%-rule (both with 95% intervals), CV score and rates by group of the decisions."""
    proportion_confint = statsmodels_module("proportion").proportion_confint
    accepted = scores >= 0
    right = int(np.sum(accepted == (part.y == 1)))
    low, high = proportion_confint(right, len(part), method="wilson")
    groups, attributes = [], []
    for name in part.sensitive.columns:
        rows = _group_counts(accepted, part.sensitive[name])
        attributes.append(_attribute_rule(name, rows))
        for group, k, n in rows:
            rate_low, rate_high = proportion_confint(k, n, method="wilson")
            row = {"attribute": name, "group": group, "people": n, "positives": k, "rate": k / n}
            groups.append({**row, "low": rate_low, "high": rate_high})
    defined = [a for a in attributes if a["p_rule"] is not None]
    worst = min(defined, key=lambda a: a["p_rule"], default=None)
    return {
        "people": len(part),
        "accuracy": right / len(part),
        "accuracy_low": low,
        "accuracy_high": high,
        "positives": int(accepted.sum()),
        "rate": float(accepted.mean()),
        "p_rule": None if worst is None else worst["p_rule"],
        "p_rule_low": None if worst is None else worst["low"],
        "p_rule_high": None if worst is None else worst["high"],
        "worst": None if worst is None else {key: worst[key] for key in ("attribute", "group", "people")},
        "cv_score": max((a["cv_score"] for a in attributes), default=None),
        "attributes": attributes,
        "groups": groups,
    }


def _group_counts(accepted: NDArray[np.bool_], column: pd.Series) -> list[tuple[str, int, int]]:
    codes, groups = pd.factorize(column, sort=True)
    people = np.bincount(codes, minlength=len(groups))
    positives = np.bincount(codes, weights=accepted, minlength=len(groups))
    return [(str(g), int(k), int(n)) for g, k, n in zip(groups, positives, people, strict=True)]


def _attribute_rule(name: str, rows: list[tuple[str, int, int]]) -> dict[str, Any]:
    """Return the p%-rule of one attribute (each group against everybody else), the least, with its interval."""
    total_k, total_n = sum(k for _, k, _ in rows), sum(n for _, _, n in rows)
    row: dict[str, Any] = {"attribute": name, "p_rule": None, "low": None, "high": None, "group": None, "people": 0}
    least, gap = math.inf, 0.0
    chosen: tuple[int, int, int, int] | None = None
    for group, k, n in rows:
        k_rest, n_rest = total_k - k, total_n - n
        if n_rest == 0:
            continue
        gap = max(gap, abs(k / n - k_rest / n_rest))
        pair = (k, n, k_rest, n_rest) if k * n_rest <= k_rest * n else (k_rest, n_rest, k, n)
        if pair[2] == 0:
            continue  # nobody is positive: 0/0
        ratio = pair[0] * pair[3] / (pair[1] * pair[2])
        # Of two groups that are each other's rest, the one with the lower rate is named.
        if ratio < least or (ratio == least and pair[:2] == (k, n)):
            least, chosen = ratio, pair
            row |= {"group": group, "people": n}
    row["cv_score"] = gap
    if chosen is not None:
        low, high = ratio_interval(*chosen)
        row |= {"p_rule": 100.0 * least, "low": 100.0 * low, "high": min(100.0 * high, 100.0)}
    return row


def _labelled(series: pd.Series | None) -> list[dict[str, Any]]:
    if series is None:
        return []
    keys = series.index.tolist()
    return [
        {"attribute": str(a), "group": str(g), "value": plain(float(v))}
        for (a, g), v in zip(keys, series.tolist(), strict=True)
    ]


def _coefficients(clf: Any, before: Any, names: list[str]) -> list[dict[str, Any]]:
    """Return the largest coefficients, or the largest changes from those of ``before``; none for kernels."""
    if "coef_" not in vars(clf) or np.size(clf.coef_) != len(names):
        return []
    after = np.ravel(clf.coef_)
    start = np.zeros_like(after) if before is None else np.ravel(before.coef_)
    top = np.argsort(-np.abs(after - start), kind="stable")[:_COEFFICIENTS]
    return [
        {
            "feature": names[j],
            "before": float(start[j]),
            "after": float(after[j]),
            "change": float(after[j] - start[j]),
        }
        for j in top
    ]


def frontier_summary(
    study: Study,
    points: Sequence[tuple[dict[str, Any], Any]],
    answers: Sequence[tuple[dict[str, Any], Any]],
    *,
    title: str,
    settings: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Summarise a frontier.

    Parameters
    ----------
    study : Study
    points : list of (facts, fitted classifier)
        From the unconstrained classifier, which comes first, to the fairest; ``facts`` are ``factor``,
        ``relative_loss`` and the like.
    answers : list of (facts, fitted classifier or None)
        Questions put in words, and the classifier that answers each; ``facts`` are ``key``, ``question``,
        ``answer``; and ``point``, the place among ``points`` if it is one of them.
    title, settings, notes
        For the reader.
    """
    summary = _head("frontier", title, {**study.settings, **settings}, [*study.notes, *notes])
    free = points[0][1]
    part, held_out = _evaluated(study)
    decided = (free.decision_function(part.X) >= 0).astype(int)
    start = {"train": free.decision_function(study.train.X), "test": free.decision_function(part.X)}
    features = study.train.frame[[column.name for column in study.encoder.columns]]
    result = audit(
        decided,
        sensitive_features=part.sensitive,
        scores=start["test"],
    )
    labels = audit(study.train.y, sensitive_features=study.train.sensitive, features=features)
    shown = [plain(_point(study, part, free, start, facts, clf)) for facts, clf in points]
    undefined = sum(p["test"]["p_rule"] is None for p in shown)
    if undefined:
        summary["notes"].append(
            f"At {undefined} of {len(shown)} points nobody gets the positive decision: the p%-rule is not defined "
            "(0/0); the favourable outcome may be too rare to be predicted for anybody."
        )
    return {
        **summary,
        "data": _data(study),
        "held_out": held_out,
        "labels_audit": plain(labels.to_dict()),
        "audit": plain(result.to_dict()),
        "points": shown,
        "answers": [
            plain({**facts, "details": None if clf is None else _point(study, part, free, start, facts, clf)})
            for facts, clf in answers
        ],
    }


def _point(
    study: Study, part: Part, free: Any, start: Mapping[str, Array], facts: Mapping[str, Any], clf: Any
) -> dict[str, Any]:
    scores = clf.decision_function(part.X)
    test = evaluate(scores, part)
    gained, lost = (scores >= 0) & (start["test"] < 0), (scores < 0) & (start["test"] >= 0)
    for row in test["groups"]:
        inside = (part.sensitive[row["attribute"]] == row["group"]).to_numpy()
        row |= {"gained": int(np.sum(gained & inside)), "lost": int(np.sum(lost & inside))}
    train_scores = clf.decision_function(study.train.X)
    train = {key: value for key, value in evaluate(train_scores, study.train).items() if key in _TRAIN}
    train |= {
        "gained": int(np.sum((train_scores >= 0) & (start["train"] < 0))),
        "lost": int(np.sum((train_scores < 0) & (start["train"] >= 0))),
    }
    return {
        **{k: v for k, v in facts.items() if k not in ("key", "question", "answer", "point")},
        "test": test,
        "train": train,
        "gained": int(gained.sum()),
        "lost": int(lost.sum()),
        "coefficients": _coefficients(clf, free, study.encoder.feature_names),
        "certificate": plain(clf.certificate_),
        "path_certificate": plain(getattr(clf, "path_certificate_", None)),
        "covariance": _labelled(clf.covariance_),
        "shadow_prices": _labelled(clf.multipliers_),
    }
