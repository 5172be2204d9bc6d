"""What a report says, as one plain dict: texts, finite numbers, lists and dicts, nothing else.

Every renderer (HTML, Markdown, JSON, terminal) reads the same dict, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairmargin.audit import Audit
from fairmargin.decisions import RULES
from fairmargin.formatting import people, percent, ratio_beside, with_article
from fairmargin.guarantee.record import Guarantee
from fairmargin.notions import get_notion
from fairmargin.pipelines import last_step
from fairmargin.report.asked import Asked
from fairmargin.report.candidates import Candidate, Selection, record_of
from fairmargin.report.comparison import (
    Comparison,
    certified,
    labelled,
    necessity_of,
    top_coefficients,
)
from fairmargin.report.evaluation import evaluate
from fairmargin.report.plain import plain, versions
from fairmargin.report.proposal import audit_part, describe_proposal
from fairmargin.report.sections import asked_for
from fairmargin.report.verdict import covers, judge, small_sides
from fairmargin.tables.study import Study

__all__ = ["audit_summary", "frontier_summary", "training_summary"]

SCHEMA = "fairmargin-summary"
SCHEMA_VERSION = 4  # 3: warnings, rule; 4: proposal, curves, candidates, record; the audit is of the proposed model
SCREEN = (
    "This is a screen. It points out differences that need an explanation; it does not say whether a difference is "
    "justified or lawful."
)


def _head(
    kind: str, title: str, settings: Mapping[str, Any], notes: Sequence[str], warnings: Sequence[str]
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "title": title,
        "disclaimer": SCREEN,
        "settings": plain(settings),
        "warnings": list(warnings),
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
    warnings: Sequence[str] = (),
    unlimited_by: str | None = None,
) -> dict[str, Any]:
    """Summarise an audit.

    ``what`` says whose decisions were audited, ``unlimited_by`` which rules are followed if they set no threshold:
    then there is no verdict.
    """
    audited = plain(result.to_dict())
    said = [*warnings, *_decided_alike(result.decides_alike, "These decisions"), *_small(audited)]
    summary = _head("audit", title, settings, [*notes, *result.notes], said)
    verdict = judge(
        audited, asked=result.threshold, held_out=None, subject="These decisions", unlimited_by=unlimited_by
    )
    return {**summary, "what": what, "data": plain(fingerprint), "verdict": plain(verdict), "audit": audited}


def _decided_alike(decision: str | None, who: str) -> list[str]:
    """Say that everybody gets the same decision, which keeps every rule."""
    if decision is None:
        return []
    verb = {"accepts": "accept", "refuses": "refuse"}[decision]
    verb = verb if who.endswith("s") else decision
    return [f"{who} {verb} everybody: every rule holds, and that says nothing about fairness."]


def _small(audited: Mapping[str, Any], guarantee: Guarantee | None = None) -> list[str]:
    """Name the groups about which nothing is concluded, or nothing but what a guarantee says."""
    small = small_sides(audited)
    if not small:
        return []
    listed = ", ".join(small[:8]) + (f" and {len(small) - 8} more" if len(small) > 8 else "")
    least = people(audited["min_people"])
    if guarantee is not None and covers(guarantee, audited):
        return [
            f"With fewer than {least} on a side of the comparison rates are not judged: {listed}. The guarantee "
            "covers these groups all the same."
        ]
    return [f"With fewer than {least} on a side of the comparison nothing is concluded: {listed}."]


def training_summary(
    classifier: Any,
    study: Study,
    *,
    title: str,
    settings: Mapping[str, Any],
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    unconstrained: Any = None,
    asked: Asked | None = None,
    gains: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Summarise one fitted classifier: its decisions on training and held-out people, and its certificate.

    ``unconstrained`` is the classifier without a constraint on the same people, for comparison; by default there is
    none beside it. ``asked`` is the rule that the verdict is about (by default the usual 80%-rule, which nobody asked
    for), and ``gains`` what decisions are worth.
    """
    free = classifier if unconstrained is None else unconstrained
    asked = replace(asked or Asked(requested=False), subject="This model")
    comparison = Comparison(study, free, gains, asked.notion)
    held_out = comparison.held_out
    before = comparison.details(free, {})
    details = before if free is classifier else comparison.details(classifier, {})
    proposal = describe_proposal(
        comparison,
        classifier,
        details,
        before,
        asked=asked,
        what=f"trained with the constraint {asked_for(settings)}",
        tried=_trained_and_tested(classifier),
    )
    trained = {**details["train"], **_trained(comparison, classifier)}
    said = [*study.warnings, *warnings]
    said += _decided_alike(trained["decides_alike"], "On the people trained on the classifier")
    said += _decided_alike(details["test"]["decides_alike"], "On held-out people the classifier") if held_out else []
    said += _small(proposal["audit"], asked.guarantee)
    summary = _head("train", title, {**study.settings, **settings}, [*study.notes, *notes], said)
    return {
        **summary,
        "data": _data(study),
        "train": plain(trained),
        "test": details["test"] if held_out else None,
        "unconstrained": None if unconstrained is None else before["test"],
        **certified(classifier),
        "guarantee": _guarantee(classifier),
        "necessity": necessity_of(classifier),
        "unconstrained_covariance": labelled(last_step(classifier).unconstrained_covariance_),
        "coefficients": top_coefficients(classifier, None, study.encoder.feature_names),
        "held_out": held_out,
        "audit": proposal.pop("audit"),
        "proposal": proposal,
        "candidates": [],
    }


def _trained_and_tested(classifier: Any) -> str:
    """Say how many classifiers led to one."""
    guarantee = getattr(last_step(classifier), "guarantee_", None)
    further = "The command frontier searches for alternatives and records them."
    if guarantee is None or guarantee.candidates == 1:
        return f"One model was {'trained' if guarantee is None else 'trained and tested'}. {further}"
    return (
        f"{guarantee.candidates:,} classifiers were trained and tested one after the other, those with the widest "
        f"margin above the rule first. This is the last one that passed. {further}"
    )


def _trained(comparison: Comparison, classifier: Any) -> dict[str, Any]:
    """Return the decisions on the people trained on in full."""
    scores = comparison.score(classifier)["train"]
    study = comparison.study
    how: dict[str, Any] = {"method": study.method, "min_people": study.min_people, "notion": comparison.notion}
    return evaluate(scores >= 0, study.train, **how)


def _data(study: Study) -> dict[str, Any]:
    positives = int(study.train.y.sum() + study.test.y.sum())
    short, compared = RULES[study.method]
    return {
        **study.fingerprint,
        "rule": short,
        "compared": compared,
        "min_people": study.min_people,
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


CURVES = {
    "rule": {
        "title": "most accurate for each p%-rule",
        "slider": "Slide from the most accurate to the highest p%-rule",
        "ends": ["the most accurate found", "{:.4g}%-rule on the people trained on"],
    },
    "covariance": {
        "title": "exact: least loss for each covariance",
        "slider": "Slide from least loss to least covariance",
        "ends": ["no limit on unfairness", "no covariance left"],
    },
}


def frontier_summary(
    study: Study,
    candidates: Sequence[Candidate],
    free: Any,
    *,
    selection: Selection,
    title: str,
    settings: Mapping[str, Any],
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    looked_at: int = 0,
    trained: int | None = None,
) -> dict[str, Any]:
    """Summarise a search: both frontiers, further answers, and the candidate that is proposed.

    Parameters
    ----------
    study : Study
    candidates : list of Candidate
        Points of frontiers, fitted on the training part, and answers to questions. ``proposal.key`` of the summary
        names the one proposed.
    free : fitted classifier
        Without a constraint.
    selection : Selection
        Which candidate is proposed.
    title, settings, notes, warnings
        For the reader.
    looked_at : int
        Classifiers that the search looked at roughly, on the way to those on record.
    trained : int, optional
        People trained on; by default those of ``study``.
    """
    notion = get_notion(selection.notion)
    comparison = Comparison(study, free, selection.gains, notion)
    held_out = comparison.held_out
    before = comparison.details(free, {})
    fitted = [c for c in candidates if c.classifier is not None]
    rows = [comparison.details(c.classifier, c.facts or {}, c.row) for c in fitted]
    chosen = selection.choose(rows, before, trained or len(study.train))
    names = [{"key": c.key, "origin": c.origin, "label": c.label} for c in fitted]
    record = record_of(names, rows, chosen, selection, before)
    proposal = describe_proposal(
        comparison,
        fitted[chosen].classifier,
        rows[chosen],
        before,
        asked=Asked(value=selection.asked, notion=notion, requested=selection.kind == "p-rule"),
        what=selection.describe(rows[chosen]),
        tried=_tried(record, rows, selection, before, looked_at),
    )
    details = {c.key: row for c, row in zip(fitted, rows, strict=True)}
    answers = [_proposed(selection, rows[chosen]), *_answers(candidates, selection, details)]
    curves = _curves(fitted, details)
    labels = _audit_labels(study, proposal["audit"])
    said = [*study.warnings, *warnings, *_of_points(curves, answers), *_small(proposal["audit"])]
    said += _not_reached(selection, rows[chosen], before)
    summary = _head("frontier", title, {**study.settings, **settings}, [*study.notes, *notes], said)
    return {
        **summary,
        "data": _data(study),
        "held_out": held_out,
        "unconstrained": before,
        "audit": proposal.pop("audit"),
        "labels_audit": labels,
        "proposal": {**proposal, "key": fitted[chosen].key, "label": fitted[chosen].label},
        "candidates": record,
        "curves": curves,
        "curve_leads": _leads(curves[0]["points"], answers),
        "answers": answers,
    }


def _audit_labels(study: Study, proposed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the audit of the labels trained on, with the reference groups of the audit of the proposed model."""
    features = study.train.frame[[column.name for column in study.encoder.columns]]
    known = {name: set(column.astype(str)) for name, column in study.train.sensitive.items()}
    references = {a["name"]: a["reference"] for a in proposed["attributes"]}
    references = {name: group for name, group in references.items() if group in known.get(name, ())}
    labels = audit_part(study, study.train.y, study.train, features=features, reference=references)
    found: dict[str, Any] = plain(labels.to_dict())
    return found


def _answers(
    candidates: Sequence[Candidate], selection: Selection, details: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the answers to further questions: all but the one that is proposed."""
    return [_answer(c, details) for c in candidates if c.origin == "answer" and c.key != f"p{selection.value:g}"]


def _curves(fitted: Sequence[Candidate], details: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return both frontiers."""
    return [_curve(key, words, [details[c.key] for c in fitted if c.origin == key]) for key, words in CURVES.items()]


def _curve(key: str, words: Mapping[str, Any], points: list[dict[str, Any]]) -> dict[str, Any]:
    first, last = words["ends"]
    level = points[-1]["level"] if points else None
    if "{" in last:
        last = "the highest p%-rule found" if level is None else with_article(last.format(level))
    return {"key": key, **words, "ends": [first, last], "points": points}


def _leads(points: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no answer lies above the line through the points of a curve, on the people trained on."""
    drawn = sorted((p["train"]["p_rule"], p["train"]["accuracy"]) for p in points if p["train"]["p_rule"] is not None)
    if not drawn:
        return False
    found = [a["details"]["train"] for a in answers if a["details"] is not None]
    inside = [row for row in found if row["p_rule"] is not None and drawn[0][0] <= row["p_rule"] <= drawn[-1][0]]
    rules, accuracies = np.array(drawn).T
    highest = np.interp(np.array([row["p_rule"] for row in inside], dtype=float), rules, accuracies)
    reached = np.array([row["accuracy"] for row in inside], dtype=float)
    return bool(np.all(reached <= highest + 1e-9))  # up to rounding


def _proposed(selection: Selection, details: Mapping[str, Any]) -> dict[str, Any]:
    within = f"{selection.kind} at most {percent(selection.value, 2)} worse"
    question = f"proposed: {selection.value:g}%-rule" if selection.kind == "p-rule" else f"proposed: {within}"
    return {
        "key": "proposed",
        "question": question,
        "answer": selection.describe(details),
        "statement": None,
        "details": details,
    }


def _answer(candidate: Candidate, details: Mapping[str, Any]) -> dict[str, Any]:
    proved = necessity_of(candidate.classifier)
    found = {"key": candidate.key, "question": candidate.label, "answer": candidate.remark}
    return found | {"statement": proved and proved["statement"], "details": details.get(candidate.key)}


def _tried(
    record: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    selection: Selection,
    free: Mapping[str, Any],
    looked_at: int,
) -> str:
    meet = sum(selection.allows(row, free) for row in rows)
    text = f"{len(record)} candidates are on record: the one proposed and, with the reason, those that are not."
    if looked_at:
        text += f" On the way to them, {looked_at:,} further classifiers were solved roughly and discarded."
    text += f" {meet} of the {len(record)} meet what was asked for on the people trained on."
    proposed = next(row for row in record if row["chosen"])
    fairer = [row for row in record if (row["p_rule"] or 0.0) > (proposed["p_rule"] or 0.0)]
    accurate = [row for row in fairer if row["accuracy"] >= proposed["accuracy"]]
    if accurate:
        best = max(accurate, key=lambda r: (r["p_rule"], r["accuracy"]))
        text += (
            f" On the people it is measured on, {len(accurate)} of them {'has' if len(accurate) == 1 else 'have'} a "
            f"higher p%-rule and no lower accuracy (the highest: {ratio_beside(best['p_rule'], selection.asked)} at "
            f"{percent(best['accuracy'])}). The choice was made on the people trained on, where that could not be "
            "seen. To choose among them now, test them on new people."
        )
    else:
        text += " On the people it is measured on, none has both a higher p%-rule and an accuracy as high."
    return text


def _not_reached(selection: Selection, row: Mapping[str, Any], free: Mapping[str, Any]) -> list[str]:
    if selection.allows(row, free):
        return []
    return ["No candidate meets what was asked for without deciding the same for everybody; the fairest is proposed."]


def _of_points(curves: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which classifiers decide the same for everybody."""
    said = []
    points = next(curve["points"] for curve in curves if curve["key"] == "covariance")
    accepting = sum(p["test"]["decides_alike"] == "accepts" for p in points)
    if accepting:
        said.append(
            f"At {accepting} of {len(points)} points of the exact frontier everybody gets the positive decision: "
            "every rule holds there, and that says nothing about fairness."
        )
    refusing = sum(p["test"]["decides_alike"] == "refuses" for p in points)
    if refusing:
        said.append(
            f"At {refusing} of {len(points)} points of the exact frontier nobody gets the positive decision: the "
            "p%-rule is not defined (0/0); the favourable outcome may be too rare to be predicted for anybody."
        )
    for answer in answers:
        if answer["details"] is not None:
            alike = answer["details"]["test"]["decides_alike"]
            said += _decided_alike(alike, f"The answer to “{answer['question']}”")
    return said


def _guarantee(classifier: Any) -> dict[str, Any] | None:
    """Return what was tested on people not used in training, with its statement; None where nothing was."""
    tested = getattr(last_step(classifier), "guarantee_", None)
    return None if tested is None else {**plain(tested), "statement": tested.statement}
