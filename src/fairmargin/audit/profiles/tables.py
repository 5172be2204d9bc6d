"""The tables that profiles ask for, each from the same screened people to rows of text and of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin import formatting
from fairmargin.audit.comparison import CountedSides, Side
from fairmargin.audit.groups import named_reference
from fairmargin.audit.scores import by_quantile, score_groups
from fairmargin.intersections import cross
from fairmargin.membership import probabilities_refused
from fairmargin.rate_statistics import compare_rates, rate_interval, ratio_interval
from fairmargin.sensitive import MISSING_GROUP, Attribute, encode_sensitive

__all__ = ["TABLES", "Screened"]

Mask = NDArray[np.bool_]
Table = dict[str, Any]

_SIGNIFICANT = 0.05  # the level at which differences are usually called statistically significant


@dataclass(frozen=True)
class Screened:
    """People with decisions, perhaps scores, and the attributes by which they are listed.

    ``least_share`` and ``threshold`` are those of the profile.
    """

    positive: Mask
    attributes: tuple[Attribute, ...]
    scores: NDArray[np.float64] | None
    reference: Mapping[str, Any]
    least_share: float = 0.0
    threshold: float | None = None

    @classmethod
    def of(
        cls,
        positive: Mask,
        sensitive_features: Any,
        scores: Any,
        reference: Mapping[str, Any],
        least_share: float = 0.0,
        threshold: float | None = None,
    ) -> Screened:
        """Read the attributes; one without a group for each person raises."""
        attributes = encode_sensitive(sensitive_features, len(positive), groups=False).attributes
        for attribute in attributes:
            if attribute.is_numeric:
                raise ValueError(f"The sensitive attribute {attribute.name!r} is numeric; cut it into groups first.")
            if attribute.codes is None:
                raise probabilities_refused(attribute.name, "a profile")
        return cls(positive, attributes, scores, reference, least_share, threshold)

    def known(self, attribute: Attribute) -> NDArray[np.intp]:
        """Return the people whose group is known."""
        assert attribute.codes is not None
        missing = [k for k, c in enumerate(attribute.categories) if str(c) == MISSING_GROUP]
        return np.flatnonzero(~np.isin(attribute.codes, missing))

    def combined(self) -> tuple[Attribute, NDArray[np.intp]]:
        """Return the combinations of all attributes among the people who are known in all, and who these are."""
        rows = np.arange(len(self.positive))
        for attribute in self.attributes:
            rows = np.intersect1d(rows, self.known(attribute))
        return cross([a.take(rows) for a in self.attributes]), rows


@dataclass(frozen=True)
class _Listed:
    """One group of a list, as a side of comparisons, and whether ratios are computed for it."""

    group: str
    side: Side
    compared: bool


def _listed(screened: Screened, attribute: Attribute, outcome: Mask) -> list[_Listed]:
    """Return the groups of an attribute; those of too small a share of everybody are not compared."""
    counted = CountedSides.of(attribute, outcome)
    found = []
    for index, category in enumerate(attribute.categories):
        side = counted.group(index)
        assert side is not None
        share = side.people / len(screened.positive)
        found.append(_Listed(str(category), side, share >= screened.least_share))
    return found


def _table(
    title: str,
    text: str,
    columns: Mapping[str, Callable[[Mapping[str, Any]], str]],
    data: Sequence[Mapping[str, Any]],
    left: Sequence[int] = (),
) -> Table:
    rows = [[show(row) for show in columns.values()] for row in data]
    return {
        "title": title,
        "text": text,
        "columns": list(columns),
        "rows": rows,
        "left": list(left),
        "data": list(data),
    }


def impact_ratios(screened: Screened) -> list[Table]:
    """Return selection rates and impact ratios by attribute and by their combinations."""
    return _ratios(screened, screened.positive, "selection rate", "selected")


def scoring_rates(screened: Screened) -> list[Table]:
    """Return rates of scores above the median and impact ratios; nothing without scores."""
    if screened.scores is None:
        return []
    return _ratios(screened, screened.scores > np.median(screened.scores), "scoring rate", "above the median score")


def _ratios(screened: Screened, outcome: Mask, rate: str, counted: str) -> list[Table]:
    lists = [(a, screened.known(a)) for a in screened.attributes]
    made = [_ratio_table(screened, a.take(rows), outcome[rows], rate, counted) for a, rows in lists]
    if len(lists) > 1:
        attribute, rows = screened.combined()
        made.append(_ratio_table(screened, attribute, outcome[rows], rate, counted))
    return made


def _ratio_table(screened: Screened, attribute: Attribute, outcome: Mask, rate: str, counted: str) -> Table:
    listed = _listed(screened, attribute, outcome)
    highest = max((g.side.rate for g in listed if g.compared), default=0.0)
    least = f"under {formatting.percent(screened.least_share, 0)} of the data, left out of impact ratios"
    data = [
        {
            "group": g.group,
            "people": g.side.people,
            "positives": g.side.positives,
            "rate": g.side.rate,
            "ratio": g.side.rate / highest if g.compared and highest > 0 else None,
            "remark": "" if g.compared else least,
        }
        for g in listed
    ]
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "category": lambda r: r["group"],
        "people": lambda r: f"{r['people']:,}",
        counted: lambda r: f"{r['positives']:,}",
        rate: lambda r: formatting.percent(r["rate"]),
        "impact ratio": lambda r: formatting.NONE if r["ratio"] is None else f"{r['ratio']:.2f}",
        "remark": lambda r: r["remark"],
    }
    unknown = len(screened.positive) - len(outcome)
    text = f"{formatting.people(unknown)} of unknown category {'is' if unknown == 1 else 'are'} not in this table."
    return _table(f"Impact ratios by {attribute.name} ({rate})", text, columns, data, left=(5,))


def _compared(screened: Screened, attribute: Attribute, outcome: Mask) -> list[dict[str, Any]]:
    """Return every group beside the reference: the group named, or that of the highest rate."""
    listed = _listed(screened, attribute, outcome)
    named = named_reference(screened.reference, attribute)
    base = next((g for g in listed if g.group == named), None) or max(listed, key=lambda g: g.side.rate)
    data = []
    for g in listed:
        row: dict[str, Any] = {"group": g.group, "people": g.side.people, "positives": g.side.positives}
        row |= {"rate": g.side.rate, "reference": base.group, "ratio": None, "ratio_low": None, "ratio_high": None}
        row |= {"z": None, "p_value": None, "difference": None}
        if g is not base:
            sides = (g.side.k, g.side.n, base.side.k, base.side.n)
            found = compare_rates(*sides)
            row |= {key: found[key] for key in ("z", "p_value", "difference")}
            if base.side.rate > 0:
                low, high = ratio_interval(*sides)
                row |= {"ratio": g.side.rate / base.side.rate, "ratio_low": low, "ratio_high": high}
                row["flipped"] = _flipped(g.side, base.side)
        data.append(row)
    return data


def _flipped(side: Side, base: Side) -> float | None:
    """Return the ratio if one more of a group were selected instead of one of the reference group."""
    if base.positives <= 1:
        return None
    return (min(side.positives + 1, side.people) / side.people) / ((base.positives - 1) / base.people)


def four_fifths(screened: Screened) -> list[Table]:
    """Return ratios to the highest rate with practical and statistical significance, by attribute."""
    threshold = (screened.threshold or 80.0) / 100.0
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "group": lambda r: r["group"],
        "people": lambda r: f"{r['people']:,}",
        "selected": lambda r: f"{r['positives']:,}",
        "rate": lambda r: formatting.percent(r["rate"]),
        "ratio": lambda r: _share(r["ratio"]),
        "if two change places": lambda r: _share(r.get("flipped")),
        "standard deviations": lambda r: formatting.NONE if r["z"] is None else f"{abs(r['z']):.1f}",
        "p": lambda r: formatting.probability(r["p_value"]),
        "ratio and significance": lambda r: r["finding"],
    }
    made = []
    for attribute, outcome, unknown in _by_attribute(screened):
        data = _compared(screened, attribute, outcome)
        for row in data:
            row["finding"] = _significance(row, threshold)
        text = f"Compared with {data[0]['reference']}. {_unknown(unknown)}"
        made.append(_table(f"Four-fifths rule by {attribute.name}", text, columns, data, left=(8,)))
    return made


def _significance(row: Mapping[str, Any], threshold: float) -> str:
    if row["ratio"] is None:
        return "compared with" if row["group"] == row["reference"] else formatting.NONE
    significant = row["p_value"] < _SIGNIFICANT
    if row["ratio"] >= threshold:
        return "at least four fifths, " + ("difference beyond chance" if significant else "may be chance")
    flipped = row.get("flipped")
    hangs = flipped is None or flipped >= threshold
    words = "under four fifths, " + ("beyond chance" if significant else "may be chance")
    return words + (", hangs on two people" if hangs else "")


def adverse_impact(screened: Screened) -> list[Table]:
    """Return adverse impact ratios with intervals and, with scores, standardised mean differences, by attribute."""
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "group": lambda r: r["group"],
        "people": lambda r: f"{r['people']:,}",
        "approved": lambda r: f"{r['positives']:,}",
        "rate": lambda r: formatting.percent(r["rate"]),
        "AIR": lambda r: _share(r["ratio"]),
        "95% interval": lambda r: (
            formatting.NONE if r["ratio"] is None else f"{r['ratio_low']:.2f}–{r['ratio_high']:.2f}"
        ),
        "p": lambda r: formatting.probability(r["p_value"]),
        "SMD of scores": lambda r: formatting.NONE if r["smd"] is None else f"{r['smd']:+.2f}",
    }
    made = []
    for attribute, outcome, unknown in _by_attribute(screened):
        data = _compared(screened, attribute, outcome)
        differences = _differences(screened, attribute, data)
        for row in data:
            row["smd"] = differences.get(row["group"])
        text = f"Control group: {data[0]['reference']}. {_unknown(unknown)}"
        made.append(_table(f"Adverse impact ratio by {attribute.name}", text, columns, data))
    return made


def _differences(screened: Screened, attribute: Attribute, data: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if screened.scores is None:
        return {}
    base, scores = _base_and_scores(screened, attribute, data)
    return {g.group: g.smd for g in score_groups([(attribute, base)], scores)}


def _base_and_scores(screened: Screened, attribute: Attribute, data: Sequence[Mapping[str, Any]]) -> tuple[int, Any]:
    assert screened.scores is not None
    original = next(a for a in screened.attributes if a.name == attribute.name)
    base = [str(c) for c in attribute.categories].index(data[0]["reference"])
    return base, screened.scores[screened.known(original)]


def quantiles(screened: Screened) -> list[Table]:
    """Return AIR and SMD at every decile of the scores; nothing without scores."""
    if screened.scores is None:
        return []
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "group": lambda r: r["group"],
        "approved above": lambda r: f"{100 * r['quantile']:.0f}% of scores",
        "score there": lambda r: f"{r['cut']:.4g}",
        "people above": lambda r: f"{r['accepted']:,} of {r['people']:,}",
        "AIR": lambda r: _share(None if r["ratio"] is None else r["ratio"] / 100.0),
        "SMD above": lambda r: formatting.NONE if r["smd"] is None else f"{r['smd']:+.2f}",
    }
    made = []
    for attribute, outcome, unknown in _by_attribute(screened):
        reference = _compared(screened, attribute, outcome)
        base, scores = _base_and_scores(screened, attribute, reference)
        cuts = by_quantile([(attribute, base)], scores)
        data = [vars(c) for c in cuts if c.group != reference[0]["reference"]]
        text = f"Control group: {reference[0]['reference']}. {_unknown(unknown)}"
        made.append(_table(f"Deciles of the scores by {attribute.name}", text, columns, data))
    return made


def rates(screened: Screened) -> list[Table]:
    """Return the rate of each group beside that of everybody else, with intervals and no threshold."""
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "group": lambda r: r["group"],
        "people": lambda r: f"{r['people']:,}",
        "rate": lambda r: formatting.percent(r["rate"]),
        "95% interval": lambda r: formatting.interval(100 * r["rate_low"], 100 * r["rate_high"]),
        "of everybody else": lambda r: formatting.percent(r["rate_of_rest"]),
        "difference": lambda r: formatting.points(r["difference"]),
        "95% of it": lambda r: (
            f"{formatting.points(r['difference_low'])} to {formatting.points(r['difference_high'])}"
        ),
    }
    made = []
    for attribute, outcome, unknown in _by_attribute(screened):
        counted = CountedSides.of(attribute, outcome)
        data = [_beside_rest(counted, k, str(c)) for k, c in enumerate(attribute.categories)]
        made.append(_table(f"Rates by {attribute.name}", _unknown(unknown), columns, data))
    return made


def _beside_rest(counted: CountedSides, index: int, name: str) -> dict[str, Any]:
    side, rest = counted.group(index), counted.rest(index)
    assert side is not None
    assert rest is not None
    low, high = rate_interval(side.k, side.n)
    row: dict[str, Any] = {"group": name, "people": side.people, "positives": side.positives, "rate": side.rate}
    row |= {"rate_low": low, "rate_high": high, "rate_of_rest": rest.rate}
    found = compare_rates(side.k, side.n, rest.k, rest.n)
    return row | {key: found[key] for key in ("difference", "difference_low", "difference_high")}


def _by_attribute(screened: Screened) -> list[tuple[Attribute, Mask, int]]:
    """Return each attribute with at least two known groups, the outcome of the people known, and how many are not."""
    found = []
    for attribute in screened.attributes:
        rows = screened.known(attribute)
        known = attribute.take(rows)
        if len(known.categories) > 1:
            found.append((known, screened.positive[rows], len(screened.positive) - len(rows)))
    return found


def _share(value: float | None) -> str:
    return formatting.NONE if value is None else f"{value:.2f}"


def _span(low: float | None, high: float | None, form: str, between: str) -> str:
    return formatting.NONE if low is None or high is None else form.format(low) + between + form.format(high)


def _unknown(count: int) -> str:
    return f"{formatting.people(count)} of unknown group {'is' if count == 1 else 'are'} not counted."


TABLES: dict[str, Callable[[Screened], list[Table]]] = {
    "adverse_impact": adverse_impact,
    "four_fifths": four_fifths,
    "impact_ratios": impact_ratios,
    "quantiles": quantiles,
    "rates": rates,
    "scoring_rates": scoring_rates,
}
