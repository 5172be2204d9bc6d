"""The verdict on a bound on covariances: kept in training, which its certificate proves, and for other people?

On people held out no covariance is just zero: of a bound of zero the question is whether a covariance is beyond it by
more than chance explains. Its interval is normal, from the variance of ``(z - zbar) (f - fbar)`` among the people who
count. The 80%-rule, which such a bound does not ask for, is reported beside it: no covariance is not equal rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from fairmargin.constraints import CovarianceBound
from fairmargin.formatting import ratio_beside
from fairmargin.notions import get_notion
from fairmargin.notions.compared import Compared, compare
from fairmargin.report.verdict import (
    FAILS,
    FAILS_MAYBE,
    NO_VERDICT,
    PASSES,
    PASSES_MAYBE,
    SELECTED,
    name_group,
    nearly_alike,
    unless_selected,
    words,
)
from fairmargin.sensitive import encode_sensitive
from fairmargin.tables.study import Part

__all__ = ["judge_covariances"]

Array = NDArray[np.float64]

_CONFIDENCE = 0.95
_LISTED = 6  # groups named in a sentence
_ROUNDING = 1e-9  # covariances of solved problems with a bound of zero are smaller


def judge_covariances(
    bound: CovarianceBound,
    *,
    train: tuple[Part, Array, Array],
    test: tuple[Part, Array] | None,
    screen: Mapping[str, Any],
    min_people: int,
    fitted: Any = None,
    subject: str = "The proposed model",
    alone: bool = True,
    selected: bool = False,
    audit: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the verdict on a bound on covariances.

    Parameters
    ----------
    bound : CovarianceBound
    train : Part, scores, and scores without a limit of the people trained on
    test : Part and scores of the people held out, or None
    screen : dict
        The verdict on the 80%-rule of the same decisions.
    min_people : int
        Groups of fewer people decide nothing.
    fitted : estimator, optional
        Whose covariances in training are known; ``train`` may then be a sample of the people trained on.
    subject : str
        What the model is called at the beginning of a sentence.
    alone : bool
        Whether nothing else is judged; then the 80%-rule is reported beside it.
    selected : bool
        Whether the people held out chose the model by a test of a rule: then nothing is sure to hold.
    audit : dict, optional
        Of the same decisions; one that decides alike for nearly everybody gets no verdict.

    Returns
    -------
    dict
        As that of :func:`fairmargin.report.verdict.judge`, with ``kind`` "covariance" and ``covariances``, a row each
        with value, interval and limit; ``screen`` is the verdict on the 80%-rule.
    """
    part, scores, free = train
    compared = _compared(bound, part)
    limits = compared.repeated(bound.thresholds(compared.sensitive))
    if bound.relative:
        reference = _known(fitted, "unconstrained_covariance_", compared, free)
        limits = np.where(np.isfinite(limits), limits * np.abs(reference), np.inf)
    asked = dict(zip(compared.labels, limits.tolist(), strict=True))
    rows = _rows(compared, scores, asked, min_people)
    trained = np.abs(_known(fitted, "covariance_", compared, scores))[np.isfinite(limits)]
    largest = float(np.max(trained, initial=0.0))
    is_kept = bool(np.all(trained <= limits[np.isfinite(limits)] + _ROUNDING * (1.0 + np.max(np.abs(scores)))))
    measured = rows if test is None else _rows(_compared(bound, test[0]), test[1], asked, min_people)
    measured = [r for r in measured if np.isfinite(r["limit"])]
    found: dict[str, Any] = {"kind": "covariance", "asked": None, "requested": True, "covariances": measured}
    found |= {key: screen[key] for key in ("p_rule", "low", "high", "margin", "below", "not_judged")}
    found |= {"screen": {key: screen[key] for key in ("status", "asked", "p_rule")}}
    if screen["status"] == NO_VERDICT or not measured:
        return found | {key: screen[key] for key in ("status", "headline", "passes", "sure", "for_whom")}
    held_out, count = test is not None, len((test or train)[0])
    status = unless_selected(_status(measured, is_kept, held_out=held_out), selected)
    nothing = None if audit is None else nearly_alike(status, audit, subject)
    if nothing is not None:
        return found | {"margin": None} | nothing
    said = words(
        status,
        _headline(status, _asked(bound), held_out, subject),
        f"{_asked(bound).capitalize()} is asked for. In training the largest covariance is {_size(largest)}. "
        f"{_furthest(measured, count, held_out)}",
        _sure(status, held_out, selected),
        _beyond(measured, held_out),
    )
    return found | (_with_screen(said, screen) if alone else said)


def _with_screen(said: Mapping[str, str], screen: Mapping[str, Any]) -> dict[str, str]:
    """Return the sentences of a verdict with those on the 80%-rule beside them."""
    rule = f"Beside it, the {screen['asked']:g}%-rule:"
    return {
        **said,
        "headline": f"{said['headline']} {_beside(screen)}",
        "passes": f"{said['passes']} {rule} {screen['passes'].replace('No rule was asked for; ', '')}",
        "sure": f"{said['sure']} {rule} {screen['sure']}",
        "for_whom": f"{said['for_whom']} {screen['for_whom']}",
    }


def _compared(bound: CovarianceBound, part: Part) -> Compared:
    sensitive = encode_sensitive(part.sensitive, len(part), groups=False)
    return compare(sensitive, get_notion(bound.notion), np.where(part.y == 1, 1.0, -1.0), np.ones(len(part)))


def _covariances(compared: Compared, scores: Array) -> tuple[Array, Array]:
    """Return the covariances and their standard errors, by condition and column."""
    columns = compared.sensitive.columns()
    values, errors = [], []
    for condition in compared.conditions:
        z, f = columns[condition.counts], (condition.sign * scores)[condition.counts]
        size = np.max(np.abs(f), initial=0.0) or 1.0  # the squares of huge scores are beyond numbers
        products = (z - z.mean(axis=0)) * (f / size - (f / size).mean())[:, None]
        values.append(size * products.mean(axis=0))
        errors.append(size * products.std(axis=0) / np.sqrt(max(len(f) - 1, 1)))
    return np.concatenate(values), np.concatenate(errors)


def _known(fitted: Any, name: str, compared: Compared, scores: Array) -> Array:
    """Return covariances as a fit knows them of everybody trained on, or else those of the scores at hand."""
    found = getattr(fitted, name, None)
    if found is None or list(found.index) != list(compared.index):
        return _covariances(compared, scores)[0]
    return found.to_numpy()


def _rows(
    compared: Compared, scores: Array, asked: Mapping[tuple[Any, ...], float], min_people: int
) -> list[dict[str, Any]]:
    """Return value, intervals and limit of every column with enough people on both sides."""
    members = compared.members.sum(axis=0)
    counted = np.repeat([c.counts.sum() for c in compared.conditions], len(compared.sensitive.labels))
    enough = (members >= min_people) & (counted - members >= min_people)
    bounded = np.array([np.isfinite(asked.get(label, np.inf)) for label in compared.labels])
    count = max(int(np.sum(enough & bounded)), 1)
    one, all_ = (float(norm.ppf(1.0 - 0.5 * (1.0 - _CONFIDENCE) / m)) for m in (1, count))
    rows = []
    for label, value, error, shown in zip(compared.labels, *_covariances(compared, scores), enough, strict=True):
        if not shown or label not in asked:
            continue
        limit = asked[label]
        rows.append(
            {
                "attribute": str(label[0]),
                "group": ", ".join(map(str, label[1:])),
                "value": float(value),
                "low": float(value - one * error),
                "high": float(value + one * error),
                "corrected": [float(value - all_ * error), float(value + all_ * error)],
                "comparisons": count,
                "limit": limit,
                "within": bool(abs(value) + one * error <= limit),
                "beyond": bool(abs(value) - all_ * error > limit),
            }
        )
    return rows


def _status(rows: Sequence[Mapping[str, Any]], is_kept: bool, *, held_out: bool) -> str:
    """Return the status; of a limit of zero, which no estimate keeps, only what is beyond chance counts."""
    if not held_out:
        return PASSES_MAYBE if is_kept else FAILS_MAYBE
    if any(r["beyond"] for r in rows):
        return FAILS
    if not is_kept or any(abs(r["value"]) > r["limit"] > 0 for r in rows):
        return FAILS_MAYBE
    return PASSES if all(r["within"] for r in rows) else PASSES_MAYBE


def _asked(bound: CovarianceBound) -> str:
    if isinstance(bound.c, Mapping):
        share, unit = (100, "% of that without a limit") if bound.relative else (1, "")
        limits = " and ".join(f"{share * c:g}{unit} for {name}" for name, c in bound.c.items())
        return f"a covariance of at most {limits}"
    return (
        f"a covariance of at most {100 * bound.c:g}% of that without a limit"
        if bound.relative
        else (f"a covariance of at most {bound.c:g}" if bound.c else "no covariance")
    )


def _headline(status: str, asked: str, held_out: bool, subject: str) -> str:
    if not held_out:
        said = {PASSES_MAYBE: "Yes on the people trained on", FAILS_MAYBE: "No, not even on the people trained on"}
        return f"{said[status]}: {asked}."
    return {
        PASSES: f"Yes. {subject} has {asked} on held-out people, too.",
        PASSES_MAYBE: f"Yes, as far as these people tell. {subject} has {asked} in training; what is left "
        "on held-out people may be chance.",
        FAILS_MAYBE: f"Not on these people. {subject} was trained for {asked}; what is left here may be chance.",
        FAILS: f"No. {subject} was trained for {asked}, but it does not hold on held-out people.",
    }[status]


def _size(covariance: float) -> str:
    return "zero up to rounding" if covariance < _ROUNDING else f"{covariance:.2g}"


def _beside(screen: Mapping[str, Any]) -> str:
    rule, shown = f"{screen['asked']:g}%-rule", ratio_beside(screen["p_rule"], screen["asked"])
    return {
        PASSES: f"It keeps the {rule} as well.",
        PASSES_MAYBE: f"It keeps the {rule} here as well, but not beyond doubt.",
        FAILS_MAYBE: f"It misses the {rule} here ({shown}), which may be chance.",
        FAILS: f"It misses the {rule} ({shown}), which was not asked for.",
    }[screen["status"]]


def _interval(row: Mapping[str, Any]) -> str:
    return f"{row['value']:+.3g} (95% interval {row['low']:+.3g} to {row['high']:+.3g}; limit {row['limit']:.3g})"


def _furthest(rows: Sequence[Mapping[str, Any]], count: int, held_out: bool) -> str:
    if not held_out:
        return "Nobody was held out."
    worst = max(rows, key=lambda r: abs(r["value"]) - r["limit"])
    said = f"On {count:,} held-out people the furthest from its limit is {name_group(worst)}: {_interval(worst)}."
    if worst["comparisons"] == 1 or not _settles_only_alone(worst):
        return said
    low, high = worst["corrected"]
    return f"{said} Corrected for {worst['comparisons']} comparisons at once it is {low:+.3g} to {high:+.3g}."


def _settles_only_alone(row: Mapping[str, Any]) -> bool:
    """Whether an interval lies beyond its limit, and no longer does so once it is corrected."""
    return not row["beyond"] and (row["low"] > row["limit"] or row["high"] < -row["limit"])


def _sure(status: str, held_out: bool, selected: bool) -> str:
    if not held_out:
        return "On the people a model was trained on, a covariance says little about others."
    if selected and status == PASSES_MAYBE:
        return f"No covariance is beyond its limit by more than chance explains. {SELECTED}"
    return {
        PASSES: "All intervals of covariances lie within their limits. Chance is an unlikely reason.",
        PASSES_MAYBE: "No covariance is beyond its limit by more than chance explains, nor are all of them within it "
        "beyond doubt.",
        FAILS_MAYBE: "A covariance is beyond its limit, by no more than chance explains. The data do not settle it.",
        FAILS: "A covariance is beyond its limit, even corrected for the number of groups. Chance is an unlikely "
        "reason.",
    }[status]


def _beyond(rows: Sequence[Mapping[str, Any]], held_out: bool) -> str:
    beyond = [r for r in rows if r["beyond"]] if held_out else []
    if not beyond:
        return "No covariance is beyond its limit by more than chance explains."
    listed = "; ".join(f"{name_group(r)} {_interval(r)}" for r in beyond[:_LISTED])
    more = f" And {len(beyond) - _LISTED} more." if len(beyond) > _LISTED else ""
    return f"Beyond the limit: {listed}.{more}"
