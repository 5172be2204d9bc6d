"""The case for a proposed model: verdict, cost, who gains and who loses, and the evidence for each.

Everything is measured on the people held out (or, where nobody is, on those trained on), beside the labels and the
unconstrained classifier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairmargin.audit import Audit, audit
from fairmargin.audit.findings import REST
from fairmargin.formatting import percent, points, ratio_beside, signed_percent
from fairmargin.pipelines import last_step
from fairmargin.rate_statistics import paired_difference
from fairmargin.report.asked import Asked
from fairmargin.report.combined_verdict import combine
from fairmargin.report.comparison import Comparison
from fairmargin.report.covariance_verdict import judge_covariances
from fairmargin.report.plain import plain
from fairmargin.report.scoring import calibration, distributions
from fairmargin.report.verdict import NO_VERDICT, direction, name_group
from fairmargin.tables.study import Part, Study

__all__ = ["audit_part", "describe_proposal"]

_LISTED = 6  # groups named in a sentence


def audit_part(study: Study, decisions: Any, part: Part, **options: Any) -> Audit:
    """Audit decisions by the rule of a study."""
    options |= {"method": study.method, "min_people": study.min_people}
    return audit(decisions, sensitive_features=part.sensitive, **options)


def describe_proposal(
    comparison: Comparison,
    classifier: Any,
    details: Mapping[str, Any],
    before: Mapping[str, Any],
    *,
    asked: Asked,
    what: str,
    tried: str,
) -> dict[str, Any]:
    """Return the case for one classifier.

    Parameters
    ----------
    comparison : Comparison
        Of the study, with the unconstrained classifier.
    classifier : fitted classifier
    details, before : dict
        What the comparison knows of it and of the unconstrained classifier.
    asked : Asked
        The rule that it is held against.
    what, tried : str
        What is proposed, and what else was looked at, in words.
    """
    part, study = comparison.part, comparison.study
    scored = comparison.score(classifier)
    scores, free = scored["test"], comparison.scores["test"]
    options: dict[str, Any] = {"threshold": asked.threshold, "y_true": part.y, "notion": asked.notion}
    audited = audit_part(study, (scores >= 0).astype(int), part, scores=scores, **options)
    references = _references(audited, part)
    unconstrained = audit_part(study, (free >= 0).astype(int), part, reference=references, **options)
    # Labels have selection rates; they have no errors.
    options = {"threshold": asked.threshold, "reference": references}
    labels = None if asked.notion.needs_labels else audit_part(study, part.y, part, **options)
    verdict = _verdict(asked, plain(audited.to_dict()), comparison, scored, last_step(classifier))
    cost = _cost(scores >= 0, free >= 0, part, details, before) | {"p_rule_before": _lowest(unconstrained)}
    groups = _rates(labels, unconstrained, audited, details)
    return plain(
        {
            "what": what,
            "verdict": verdict,
            "lines": _lines(verdict, cost, details, before, groups, tried, asked),
            "cost": cost,
            "groups": groups,
            "audit": audited.to_dict(),
            "unconstrained_audit": unconstrained.to_dict(),
            "labels_p_rule": None if labels is None else _lowest(labels),
            "calibration": calibration(scores, part, probabilities=hasattr(classifier, "predict_proba")),
            "distributions": distributions(scores, part),
        }
    )


def _verdict(
    asked: Asked, audited: Mapping[str, Any], comparison: Comparison, scored: Mapping[str, Any], fitted: Any
) -> dict[str, Any]:
    """Return the verdict on all that was asked for; ``audited`` is by the notion of the first rule."""
    audits, part = {asked.notion.name: audited}, comparison.part
    accepted, found = (scored["test"] >= 0).astype(int), []
    for rule in asked.rules:
        name = rule.notion.name
        if name not in audits:
            of_notion = audit_part(comparison.study, accepted, part, y_true=part.y, notion=rule.notion)
            audits[name] = plain(of_notion.to_dict())
        verdict = _verdict_on(rule, audits[name], comparison, scored, fitted, alone=not asked.beside)
        found.append((rule.name, verdict))
    limiting = [one for one in found if one[1].get("covariances") != [] or one[1]["status"] == NO_VERDICT]
    return combine(limiting or found[:1])  # a bound that limits nobody is not judged beside others


def _verdict_on(
    asked: Asked,
    audited: Mapping[str, Any],
    comparison: Comparison,
    scored: Mapping[str, Any],
    fitted: Any,
    *,
    alone: bool,
) -> dict[str, Any]:
    """Return the verdict on one rule, or on one bound on covariances."""
    part, study, held_out = comparison.part, comparison.study, comparison.held_out
    screen = asked.judge(audited, held_out)
    if asked.bound is None or audited["decides_alike"] is not None:
        return screen
    train = study.train, scored["train"], comparison.scores["train"]
    test = (part, scored["test"]) if held_out else None
    options: dict[str, Any] = {"screen": screen, "min_people": study.min_people, "fitted": fitted}
    options |= {"subject": asked.subject, "selected": asked.selected, "alone": alone, "audit": audited}
    return judge_covariances(asked.bound, train=train, test=test, **options)


def _references(found: Audit, part: Part) -> dict[str, str]:
    """Return the reference group of each attribute, so that other tables compare with the same group.

    Under several conditions an attribute has several, and every table names its own.
    """
    return {a.name: a.reference for a in found.attributes if a.reference != REST and a.name in part.sensitive}


def _lowest(found: Audit) -> float | None:
    """Return the lowest p%-rule of any attribute, whichever group is the reference."""
    return min((a.p_rule for a in found.attributes if a.p_rule is not None), default=None)


def _cost(
    accepted: Any, before: Any, part: Part, details: Mapping[str, Any], free: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the proposed model costs against the unconstrained one on the same people."""
    label = part.y == 1
    right, was_right = accepted == label, before == label
    only, only_before = int(np.sum(right & ~was_right)), int(np.sum(~right & was_right))
    test, was = details["test"], free["test"]
    found = {"accuracy": test["accuracy"], "accuracy_before": was["accuracy"]}
    found |= {"right_now": only, "right_before": only_before}
    found |= {"auc": test["auc"], "auc_before": was["auc"], "gain": test["gain"], "gain_before": was["gain"]}
    found |= {"loss_increase": details["loss_increase"], "constant_accuracy": test["constant_accuracy"]}
    return found | paired_difference(only, only_before, len(label))


def _rates(labels: Audit | None, free: Audit, proposed: Audit, details: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rates of every group among the labels (if any), without a limit, and under the proposed model."""
    changed = {(g["attribute"], g["group"]): g for g in details["test"]["groups"]}
    earlier = [{(g.attribute, g.group): g for g in found.groups} if found else {} for found in (labels, free)]
    references = {a.name: a.reference for a in proposed.attributes}
    rows = []
    for group in proposed.groups:
        key = (group.attribute, group.group)
        of_labels, of_free = (found.get(key) for found in earlier)
        reference = references[group.attribute]
        against = "everybody else" if reference == REST else reference
        words = "the reference" if group.difference is None else f"{direction(group.difference)} {against}"
        rows.append(
            {
                "attribute": group.attribute,
                "group": group.group,
                "people": group.people,
                "label_rate": None if of_labels is None else of_labels.rate,
                "rate_before": None if of_free is None else of_free.rate,
                "rate": group.rate,
                "low": group.rate_low,
                "high": group.rate_high,
                "difference": group.difference,
                "difference_before": None if of_free is None else of_free.difference,
                "direction": words,
                "ratio": group.ratio,
                "finding": group.finding,
                "gained": changed[key]["gained"] if key in changed else 0,
                "lost": changed[key]["lost"] if key in changed else 0,
            }
        )
    return rows


def _lines(
    verdict: Mapping[str, Any],
    cost: Mapping[str, Any],
    details: Mapping[str, Any],
    before: Mapping[str, Any],
    groups: Sequence[Mapping[str, Any]],
    tried: str,
    asked: Asked,
) -> list[dict[str, str]]:
    """Return the questions that a reviewer asks, and their answers."""
    return [
        {"question": "Does it pass?", "answer": verdict["passes"]},
        {"question": "For whom not?", "answer": verdict["for_whom"]},
        {"question": "How sure?", "answer": verdict["sure"]},
        {
            "question": "What does it cost?",
            "answer": f"{_cost_in_words(cost)} {_without_limit(asked, verdict, cost)}".rstrip(),
        },
        {"question": "Who gains, who loses?", "answer": _changes(details, before, groups, asked)},
        {"question": "What was tried?", "answer": tried},
    ]


def _cost_in_words(cost: Mapping[str, Any]) -> str:
    low, high = points(cost["difference_low"]), points(cost["difference_high"])
    now, before = round(100 * cost["accuracy"], 1), round(100 * cost["accuracy_before"], 1)
    said = [
        f"Accuracy is {now:.1f}% instead of {before:.1f}% without a limit on unfairness: "
        f"{points((now - before) / 100)} points (95% interval {low} to {high}).",
    ]
    if cost["auc"] is not None and cost["auc_before"] is not None:
        said.append(f"AUC is {cost['auc']:.3f} instead of {cost['auc_before']:.3f}.")
    if cost["gain"] is not None:
        said.append(f"The mean gain per person is {cost['gain']:.4g} instead of {cost['gain_before']:.4g}.")
    said.append(f"Training loss changes by {signed_percent(cost['loss_increase'])}.")
    said.append(f"Deciding the same for everybody would be right in {percent(cost['constant_accuracy'])}.")
    if cost["accuracy"] <= cost["constant_accuracy"]:
        said.append("The model is no better than that.")
    return " ".join(said)


def _without_limit(asked: Asked, verdict: Mapping[str, Any], cost: Mapping[str, Any]) -> str:
    """Say what rule the model without a limit keeps, and whether the limit was worth its cost on these people."""
    rule = cost["p_rule_before"]
    if rule is None:
        return ""
    of = f" of the {asked.notion.rate}" if asked.notion.needs_labels else ""
    said = f"Without a limit the p%-rule{of} is {ratio_beside(rule, asked.threshold)}"
    if asked.kind == "p-rule" and asked.requested and rule >= asked.threshold:
        said += f": on these people {f'the {asked.name}' if asked.beside else 'it'} holds without one"
        # Both may be the same model, measured twice.
        gains = bool(asked.beside) or rule < (verdict["p_rule"] or 0.0)  # several limits may each have one
        if not gains and round(cost["accuracy_before"] - cost["accuracy"], 12) > 0:
            said += ", with higher accuracy. The limit brought no gain here"
    return f"{said}."


def _changes(
    details: Mapping[str, Any], before: Mapping[str, Any], groups: Sequence[Mapping[str, Any]], asked: Asked
) -> str:
    gained, lost = details["gained"], details["lost"]
    rate, was = details["test"]["rate"], before["test"]["rate"]
    said = (
        f"{gained:,} of {details['test']['people']:,} people {_verb('gain', gained)} the favourable decision and "
        f"{lost:,} {_verb('lose', lost)} it, against the model without a limit. {percent(rate)} are accepted instead "
        f"of {percent(was)}."
    )
    moved = sorted((g for g in groups if g["gained"] or g["lost"]), key=lambda g: -(g["gained"] + g["lost"]))
    listed = "; ".join(f"{name_group(g)}: {g['gained']:,} gained, {g['lost']:,} lost" for g in moved[:_LISTED])
    rest = len(moved) - _LISTED
    more = f"; {rest} more {'groups are' if rest > 1 else 'group is'} in the table" if rest > 0 else ""
    among = f"Among {asked.notion.people}: " if asked.notion.needs_labels else ""
    return f"{said} {among}{listed}{more}." if listed else said


def _verb(verb: str, count: int) -> str:
    return f"{verb}s" if count == 1 else verb
