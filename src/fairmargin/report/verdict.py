"""The verdict on decisions, in words: whether they keep a p%-rule, for whom not, and how sure that is.

Decided here once, for every form of a report. A rule holds if it holds for every group, so that "all groups keep it"
is shown at 97.5% confidence as soon as the lower limit of every group's 95% interval keeps it, whatever their number
(an intersection-union test). "Some group breaks it" is another matter: with more groups, one of them is below by
chance more often, and the limits are corrected for their number (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fairmargin.audit.findings import REFERENCE, REST, TOO_FEW
from fairmargin.formatting import NONE, distance, interval, number_beside, people, percent, ratio_beside, shorten
from fairmargin.guarantee.record import Guarantee
from fairmargin.rate_statistics import ratio_interval
from fairmargin.tolerances import NEARLY_ALL

__all__ = [
    "FAILS",
    "FAILS_MAYBE",
    "NO_VERDICT",
    "PASSES",
    "PASSES_MAYBE",
    "SELECTED",
    "corrected_for",
    "covers",
    "describe",
    "direction",
    "is_judged",
    "judge",
    "list_groups",
    "name_group",
    "nearly_alike",
    "no_verdict",
    "not_judged",
    "rate_in_words",
    "sides_of",
    "small_sides",
    "tested_verdict",
    "unless_selected",
    "words",
]

PASSES = "passes"
PASSES_MAYBE = "passes, not beyond doubt"
FAILS_MAYBE = "fails, may be chance"
FAILS = "fails"
NO_VERDICT = "no verdict"

SELECTED = "These people chose the model by a test, so intervals are those of a selected classifier."

_CONFIDENCE = 0.95
_LISTED = 6  # groups named in a sentence
_SHORT = 40  # characters of a name in a sentence
_ACCEPTED = "accepted"


def judge(
    audit: Mapping[str, Any],
    *,
    asked: float,
    held_out: bool | None,
    subject: str = "The proposed model",
    requested: bool = True,
    unlimited_by: str | None = None,
    selected: bool = False,
) -> dict[str, Any]:
    """Return the verdict on audited decisions.

    Parameters
    ----------
    audit : dict
        Plain data of an audit; the rule is about the rates that it compares. Of a notion with several conditions the
        worst decides, and what may be sure to fail is corrected for the comparisons of all of them.
    asked : float
        The p%-rule to keep, in percent.
    held_out : bool or None
        Whether the people were held out (True) or trained on (False); None where nothing was trained.
    subject : str
        Whose decisions these are.
    requested : bool
        Whether the model was trained for this rule.
    unlimited_by : str, optional
        What is followed and sets no threshold: ratios are reported, and no verdict is given.
    selected : bool
        Whether these people chose the model by a test of another rule: then nothing is sure to hold.

    Returns
    -------
    dict
        ``status``, one of five; ``headline``, one sentence; ``passes``, ``sure`` and ``for_whom``, sentences;
        ``below``, the groups below; ``kind``, ``asked``, ``p_rule``, ``low``, ``high``, ``margin`` (in points).
    """
    groups = [(a, g) for a in audit["attributes"] for g in a["groups"] if is_judged(g)]
    found: dict[str, Any] = {"kind": "p-rule", "asked": asked, "requested": requested, "p_rule": None}
    found |= {"low": None, "high": None, "margin": None, "below": [], "not_judged": not_judged(audit)}
    of, counted = rate_in_words(audit), audit["counted"]
    rule = f"{asked:g}%-rule{of}"
    nothing = no_verdict(audit, subject)
    if nothing is not None:
        return found | nothing
    judged = [_limits(audit, a, g, len(groups)) for a, g in groups]
    lowest = min(judged, key=lambda g: g["rule"])
    below = sorted((g for g in judged if g["rule"] < asked), key=lambda g: g["rule"])
    found |= {"p_rule": lowest["rule"], "low": lowest["low"], "high": lowest["high"], "below": below}
    found |= {"margin": lowest["rule"] - asked}
    if unlimited_by is not None:
        return found | {"margin": None, "below": []} | _without_threshold(unlimited_by, lowest, audit)
    status = unless_selected(_status(judged, asked, may_be_sure=held_out is not False), selected)
    nothing = None if held_out is None else nearly_alike(status, audit, subject)
    if nothing is not None:
        return found | {"margin": None} | nothing
    keeps, misses = ("keep", "miss") if subject.endswith("s") else ("keeps", "misses")
    headlines = {
        PASSES: f"Yes. {subject} {keeps} the {rule}.",
        PASSES_MAYBE: f"Yes on these people, but not beyond doubt. {subject} {keeps} the {rule} here.",
        FAILS_MAYBE: f"Not on these people. {subject} {misses} the {rule} here, but the ratio in the population may "
        f"still be {asked:g}% or more.",
        FAILS: f"No. {subject} {misses} the {rule}.",
    }
    limit = f"No rule was asked for; {asked:g}% is the usual threshold."
    limit = (
        f"The threshold is {asked:g}%." if held_out is None else f"{asked:g}% is asked for." if requested else limit
    )
    return found | words(
        status,
        headlines[status],
        _passes(lowest, asked, of, counted, limit),
        _sure(status, judged, asked, held_out, audit["compared_people"], selected),
        _for_whom(below, asked, audit),
    )


def tested_verdict(
    found: Mapping[str, Any], audit: Mapping[str, Any], guarantee: Guarantee, subject: str, *, alone: bool
) -> dict[str, Any]:
    """Return the verdict on a model that the people held out selected by a test: what is sure is the test's claim.

    Their rates are those of a selected classifier, so that intervals around them claim too much. Groups of too few
    people for a judgement of their rates are part of the test. ``alone`` says whether there were no other
    constraints, which hold in training only.
    """
    if found["status"] == NO_VERDICT:
        return dict(found)
    sure, rule = f"{100 * guarantee.confidence:.4g}% confidence", f"{guarantee.p:g}%-rule{rate_in_words(audit)}"
    said = (
        f"{guarantee.candidates:,} classifiers were tested on {guarantee.people:,} held-out people, one after the "
        "other, and this one was chosen by that test. So their rates, and the intervals around them, are those of a "
        f"selected classifier. The {sure} covers the {rule} only, not the ratio measured."
    )
    if guarantee.candidates == 1:
        said = (
            f"One classifier was tested on {guarantee.people:,} held-out people, who were not trained on. The {sure} "
            f"covers the {rule} only, not the ratio measured."
        )
    if not alone:
        said += " It covers no other constraint: those hold among the people trained on only."
    changed: dict[str, Any] = {"sure": said, "confidence": guarantee.confidence}
    if found["not_judged"] and covers(guarantee, audit):
        left = found["not_judged"].replace("Not judged", "Rates not judged", 1)
        left += " The test needs no least number of people: its guarantee covers them."
        changed |= {"not_judged": left, "for_whom": found["for_whom"].replace(found["not_judged"], left)}
    if found["status"] in (PASSES, PASSES_MAYBE):
        changed |= {"status": PASSES, "headline": f"Yes, with {sure}. {subject} keeps the {rule}."}
    return {**found, **changed}


def covers(guarantee: Guarantee, audit: Mapping[str, Any]) -> bool:
    """Whether every group of an audit was tested."""
    tested = {(g.attribute, g.group) for g in guarantee.groups}
    tested |= {(f"{g.attribute} ({g.among})", g.group) for g in guarantee.groups if g.among}
    return all((a["name"], g["group"]) in tested for a in audit["attributes"] for g in a["groups"])


def no_verdict(audit: Mapping[str, Any], subject: str) -> dict[str, str] | None:
    """Return the verdict where decisions do not differ, or no group has enough people; None where there is more."""
    left = not_judged(audit)
    if audit["decides_alike"] is not None:
        verb = {"accepts": "accept", "refuses": "refuse"}[audit["decides_alike"]]
        verb = verb if subject.endswith("s") else audit["decides_alike"]
        headline = f"No verdict. {subject} {verb} everybody."
        passes = "Deciding the same for everybody keeps every rule. That says nothing about fairness."
        return words(NO_VERDICT, headline, passes, "There is nothing to be sure of.", left)
    groups = [g for a in audit["attributes"] for g in a["groups"]]
    for alike in (0.0, 1.0):
        if all(g["rate"] == alike for g in groups):
            headline = f"No verdict. The {audit['rate']} is {percent(alike)} in every group."
            passes = "That keeps every rule, and says nothing about fairness."
            return words(NO_VERDICT, headline, passes, "There is nothing to be sure of.", left)
    if not any(map(is_judged, groups)):
        headline = "No verdict. No group has enough people to compare."
        passes = f"A comparison needs {people(audit['min_people'])} on each side."
        return words(NO_VERDICT, headline, passes, "More people are needed.", left)
    return None


def nearly_alike(status: str, audit: Mapping[str, Any], subject: str) -> dict[str, str] | None:
    """Return the verdict on a model that keeps a rule by deciding alike for nearly everybody; None for others."""
    share = audit["positives"] / audit["people"]
    alike = max(share, 1.0 - share)
    if alike <= NEARLY_ALL or status not in (PASSES, PASSES_MAYBE):
        return None
    decides = "accepts" if share > 0.5 else "refuses"
    shown = min(round(100 * alike, 1), 99.9)  # 100% would be everybody
    headline = f"No verdict. {subject} {decides} nearly everybody ({shown:.1f}%)."
    passes = "Deciding the same for nearly everybody keeps rules without effort. That says nothing about fairness."
    return words(NO_VERDICT, headline, passes, "There is nothing to be sure of.", not_judged(audit))


def rate_in_words(audit: Mapping[str, Any]) -> str:
    """Return what a rule on the rates of an audit is about, to follow its name; nothing for selection rates."""
    return "" if audit["notion"] == "selection_rate" else f" of the {audit['rate']}"


def _without_threshold(source: str, lowest: Mapping[str, Any], audit: Mapping[str, Any]) -> dict[str, str]:
    """Return the verdict where ratios are to be reported and no threshold is set."""
    headline = f"No verdict. {source} sets no threshold."
    rule, furthest = percent(lowest["rule"] / 100.0), describe(lowest, audit["counted"])
    passes = f"The p%-rule{rate_in_words(audit)} is {rule}. Furthest apart: {furthest}."
    return words(NO_VERDICT, headline, passes, _span(lowest, None, audit["compared_people"]), not_judged(audit))


def name_group(row: Mapping[str, Any]) -> str:
    """Return attribute and group in a form that fits into a sentence."""
    return f"{shorten(row['attribute'], _SHORT)} = {shorten(row['group'], _SHORT)}"


def is_judged(group: Mapping[str, Any]) -> bool:
    """Whether a group of an audit is compared with others, with enough people on both sides."""
    return group["rule"] is not None and group["finding"] not in (REFERENCE, TOO_FEW)


def words(status: str, headline: str, passes: str, sure: str, for_whom: str) -> dict[str, str]:
    """Return the parts of a verdict, by the keys under which renderers look for them."""
    return {"status": status, "headline": headline, "passes": passes, "sure": sure, "for_whom": for_whom}


def _limits(
    audit: Mapping[str, Any], attribute: Mapping[str, Any], group: Mapping[str, Any], count: int
) -> dict[str, Any]:
    """Return a group with the interval of its rule, and its upper limit corrected for the number of groups."""
    bounds = [_or(group["ratio_low"], 0.0), _or(group["ratio_high"], math.inf)]
    confidence, sides = corrected_for(count), sides_of(group)
    corrected = [100.0 * limit for limit in ratio_interval(*sides, confidence)] if count > 1 else bounds
    of_two = audit["method"] == "one_vs_rest" and len(attribute["groups"]) == 2  # each is the other's rest
    against_rest = attribute["reference"] == REST or of_two
    turned = against_rest and _inverse(bounds[1]) < bounds[0]  # it is the others who may be far below
    kept = ("attribute", "group", "people", "rate", "rate_of_others", "ratio", "rule", "finding", "difference")
    return {
        **{key: group[key] for key in kept},
        "low": min(bounds[0], _inverse(bounds[1])) if against_rest else bounds[0],
        "high": _upper(bounds, against_rest),
        "corrected": _upper(corrected, against_rest),
        "corrected_limits": [_inverse(corrected[1]), _inverse(corrected[0])] if turned else corrected,
        "ratio_limits": [_inverse(bounds[1]), _inverse(bounds[0])] if turned else bounds,
        "turned": turned,
        "reference": attribute["reference"],
    }


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _inverse(percentage: float) -> float:
    return math.inf if percentage == 0 else 1e4 / percentage


def _upper(bounds: Sequence[float], both_ways: bool) -> float:
    """Return the largest rule within the limits of a ratio: 100 where they include equal rates."""
    low, high = bounds
    if low <= 100.0 <= high:
        return 100.0
    return min(high, 100.0) if high < 100.0 or not both_ways else _inverse(low)


def corrected_for(count: int) -> float:
    """Return the confidence of each of so many intervals that all of them hold at once with 95% (Bonferroni)."""
    return 1.0 - (1.0 - _CONFIDENCE) / count


def sides_of(group: Mapping[str, Any]) -> tuple[float, float, float, float]:
    """Return the counts that a group and those it is compared with are worth: accepted and all of each side."""
    n, n_others = group["effective_people"], group["effective_others"]
    return group["rate"] * n, n, group["rate_of_others"] * n_others, n_others


def _status(judged: Sequence[Mapping[str, Any]], asked: float, *, may_be_sure: bool) -> str:
    if all(g["rule"] >= asked for g in judged):
        return PASSES if may_be_sure and all(g["low"] >= asked for g in judged) else PASSES_MAYBE
    return FAILS if may_be_sure and any(g["corrected"] < asked for g in judged) else FAILS_MAYBE


def _passes(lowest: Mapping[str, Any], asked: float, of: str, counted: str, limit: str) -> str:
    margin = abs(lowest["rule"] - asked)
    worst = "Worst off" if counted == _ACCEPTED else "Furthest apart"
    side = "above" if lowest["rule"] >= asked else "below"
    return (
        f"The p%-rule{of} is {ratio_beside(lowest['rule'], asked)}. {limit} That is {distance(margin)} points "
        f"{side}. {worst}: {describe(lowest, counted)}."
    )


def describe(row: Mapping[str, Any], counted: str = _ACCEPTED) -> str:
    """Return a group and the direction of its disparity, in words."""
    name, count = name_group(row), people(row["people"])
    if row["rate_of_others"] is None:
        return f"{name} ({count})"
    rate, others = percent(row["rate"]), percent(row["rate_of_others"])
    against = "everybody else" if row["reference"] == REST else shorten(row["reference"], _SHORT)
    if row["difference"] > 0:  # then it is the others who are worse off
        whose = f"everybody except {name}"
        if row["reference"] != REST:
            whose = name_group({**row, "group": row["reference"]})
        return f"{whose}: {others} {counted}, against {rate} of the {count} with {name}"
    return f"{name} ({count}), {counted} {direction(row['difference'])} {against}: {rate} against {others}"


def direction(difference: float | None) -> str:
    """Return the direction of a difference of rates in words."""
    if difference is None:
        return NONE
    if difference == 0:
        return "as often as"
    return "less often than" if difference < 0 else "more often than"


def unless_selected(status: str, selected: bool) -> str:
    """Return a status, less sure where the people chose the model: their intervals then claim too much."""
    return PASSES_MAYBE if selected and status == PASSES else status


def _sure(
    status: str,
    judged: Sequence[Mapping[str, Any]],
    asked: float,
    held_out: bool | None,
    count: int,
    selected: bool,
) -> str:
    # The group that decides: the interval shown is the one that the words after it are about.
    by = {PASSES: "low", PASSES_MAYBE: "low", FAILS_MAYBE: "rule", FAILS: "corrected"}[status]
    shown = min(judged, key=lambda g: (g[by], g["rule"]))
    span = _span(shown, held_out, count, asked)
    if status == FAILS_MAYBE and len(judged) > 1:
        limits = _limits_text(shown["corrected_limits"], asked)
        span += f" Corrected for {len(judged)} comparisons at once it is {limits}."
    if held_out is False:
        return f"{span} Nobody was held out. On the people a model was trained on, a rule says little about others."
    if selected and status == PASSES_MAYBE:
        return f"{span} {SELECTED}"
    others = sum(g["low"] < asked and g is not shown for g in judged)
    too = {0: "", 1: ", and so does that of one more group"}.get(others, f", and so do those of {others} more groups")
    said = {
        PASSES: f"The intervals of all groups judged lie above {asked:g}%. Chance is an unlikely reason.",
        PASSES_MAYBE: f"It reaches below {asked:g}%{too}. These people are too few to be sure.",
        FAILS_MAYBE: f"That reaches {asked:g}%: the data do not settle it.",
        FAILS: f"It lies below {asked:g}%, even corrected for the number of groups. Chance is an unlikely reason.",
    }
    return f"{span} {said[status]}"


def _span(shown: Mapping[str, Any], held_out: bool | None, count: int, *beside: float) -> str:
    """Return on whom a ratio was measured and its interval, in digits that tell it from what it stands beside."""
    where = {True: "held-out people, who were not trained on", False: "people trained on", None: "people"}[held_out]
    limits = _limits_text(shown["ratio_limits"], *beside)
    whose = name_group(shown)
    if shown["turned"] and shown["reference"] == REST:
        whose = f"everybody except {whose}"
    elif shown["turned"]:  # of two groups, the other one
        whose = name_group({**shown, "group": shown["reference"]})
    return f"Measured on {count:,} {where}. The 95% interval of the ratio of {whose} is {limits}."


def _limits_text(limits: Sequence[float], *beside: float) -> str:
    low, high = limits
    return interval(low, high if math.isfinite(high) else None, beside=beside)


def _for_whom(below: Sequence[Mapping[str, Any]], asked: float, audit: Mapping[str, Any]) -> str:
    missed = [f"{describe(g, audit['counted'])}, p%-rule {ratio_beside(g['rule'], asked)}" for g in below]
    return list_groups(missed, f"below {asked:g}%", audit)


def list_groups(missed: Sequence[str], how: str, audit: Mapping[str, Any]) -> str:
    """Return which groups miss a rule, given in words, or that none does, and which are not judged."""
    text = f"No group of at least {people(audit['min_people'])} is {how}."
    if missed:
        more = f" And {len(missed) - _LISTED} more." if len(missed) > _LISTED else ""
        text = f"{how[0].upper()}{how[1:]}: {'; '.join(missed[:_LISTED])}.{more}"
    left = not_judged(audit)
    return f"{text} {left}" if left else text


def not_judged(audit: Mapping[str, Any]) -> str:
    """Name the groups of too few people."""
    small = small_sides(audit)
    if not small:
        return ""
    more = f" and {len(small) - _LISTED} more" if len(small) > _LISTED else ""
    return f"Not judged, too few people: {', '.join(small[:_LISTED])}{more}."


def small_sides(audit: Mapping[str, Any]) -> list[str]:
    """Name those who are too few to be compared: groups, or the people that large groups are compared with."""
    found: dict[str, None] = {}
    for attribute in audit["attributes"]:
        for group in attribute["groups"]:
            if group["finding"] == TOO_FEW:
                found[_small_side(audit, attribute, group)] = None
    return list(found)


def _small_side(audit: Mapping[str, Any], attribute: Mapping[str, Any], group: Mapping[str, Any]) -> str:
    if group["effective_people"] < audit["min_people"]:
        return f"{name_group(group)} ({_size(group['people'], group['effective_people'], audit)})"
    groups, reference = attribute["groups"], attribute["reference"]
    if reference == REST:
        count = sum(g["people"] for g in groups) - group["people"]
        return f"everybody except {name_group(group)} ({_size(count, group['effective_others'], audit)})"
    count = sum(g["people"] for g in groups if g["group"] == reference)
    return f"{name_group({**group, 'group': reference})} ({_size(count, group['effective_others'], audit)})"


def _size(count: int, effective: float | None, audit: Mapping[str, Any]) -> str:
    """Name a number of people and, where enough people are too few because of their weights, their effective size."""
    if effective is None or count < audit["min_people"]:
        return f"{count:,}"
    return f"{count:,}, effective size {number_beside(effective, audit['min_people'])}"
