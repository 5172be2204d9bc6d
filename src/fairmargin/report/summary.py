"""What a report says, as one plain dict: texts, finite numbers, lists and dicts, nothing else.

Every renderer (HTML, Markdown, JSON, terminal) reads the same dict, so that they cannot disagree.
"""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.audit import Audit, audit
from fairmargin.decisions import RULES
from fairmargin.formatting import interval, people, ratio_beside
from fairmargin.frontier import FairnessFrontier
from fairmargin.report.evaluation import evaluate, measured_by_frontier
from fairmargin.report.proof import describe_proof
from fairmargin.tables.study import Part, Study

__all__ = ["Answer", "audit_summary", "frontier_summary", "plain", "to_json", "training_summary", "versions"]

SCHEMA = "fairmargin-summary"
SCHEMA_VERSION = 3  # 2: loss_increase, proof; 3: warnings, rule; groups are compared with everybody else
SCREEN = (
    "This is a screen. It points out differences that need an explanation; it does not say whether a difference is "
    "justified or lawful."
)
_COEFFICIENTS = 10
_FOUR_FIFTHS = 80.0  # the rule that the report asks about


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
) -> dict[str, Any]:
    """Summarise an audit; ``what`` says whose decisions were audited."""
    said = [*warnings, *_decided_alike(result.decides_alike, "These decisions"), *_small(result)]
    summary = _head("audit", title, settings, [*notes, *result.notes], said)
    return {**summary, "what": what, "data": plain(fingerprint), "audit": plain(result.to_dict())}


def _decided_alike(decision: str | None, who: str) -> list[str]:
    """Say that everybody gets the same decision, which keeps every rule."""
    if decision is None:
        return []
    verb = {"accepts": "accept", "refuses": "refuse"}[decision]
    verb = verb if who.endswith("s") else decision
    return [f"{who} {verb} everybody: every rule holds, and that says nothing about fairness."]


def _small(result: Audit) -> list[str]:
    """Name the groups about which nothing is concluded."""
    small = [f"{g.attribute} = {g.group} ({people(g.people)})" for g in result.too_small]
    if not small:
        return []
    listed = ", ".join(small[:8]) + (f" and {len(small) - 8} more" if len(small) > 8 else "")
    return [
        f"With fewer than {people(result.min_people)} on a side of the comparison nothing is concluded: {listed}."
    ]


def training_summary(
    classifier: Any,
    study: Study,
    *,
    title: str,
    settings: Mapping[str, Any],
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    unconstrained: Any = None,
) -> dict[str, Any]:
    """Summarise one fitted classifier: its decisions on training and held-out people, and its certificate.

    ``unconstrained`` is the classifier without a constraint on the same people, for comparison.
    """
    part, held_out = _evaluated(study)
    accepted = _accepted(classifier, part)
    trained = _evaluate(_accepted(classifier, study.train) if held_out else accepted, study.train, study)
    audited = _audit(study, accepted.astype(int), part)
    said = [
        *study.warnings,
        *warnings,
        *_decided_alike(trained["decides_alike"], "On the people trained on the classifier"),
    ]
    said += _decided_alike(audited.decides_alike, "On held-out people the classifier") if held_out else []
    said += _small(audited)
    summary = _head("train", title, {**study.settings, **settings}, [*study.notes, *notes], said)
    return {
        **summary,
        "data": _data(study),
        "train": plain(trained),
        "test": plain(_evaluate(accepted, part, study)) if held_out else None,
        "unconstrained": None
        if unconstrained is None
        else plain(_evaluate(_accepted(unconstrained, part), part, study)),
        **_certified(classifier),
        "guarantee": _guarantee(classifier),
        "necessity": _necessity(classifier),
        "unconstrained_covariance": _labelled(classifier.unconstrained_covariance_),
        "coefficients": _coefficients(classifier, None, study.encoder.feature_names),
        "held_out": held_out,
        "audit": plain(audited.to_dict()),
    }


def _evaluate(
    accepted: NDArray[np.bool_], part: Part, study: Study, measured: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return evaluate(accepted, part, measured, method=study.method, min_people=study.min_people)


def _audit(study: Study, decisions: Any, part: Part, **options: Any) -> Audit:
    """Audit decisions by the rule of a study."""
    options |= {"method": study.method, "min_people": study.min_people}
    return audit(decisions, sensitive_features=part.sensitive, **options)


def _accepted(classifier: Any, part: Part) -> NDArray[np.bool_]:
    return np.asarray(classifier.decision_function(part.X) >= 0)


def _certified(classifier: Any) -> dict[str, Any]:
    """Return certificate, what it proves, covariances and shadow prices of a fitted classifier."""
    return {
        "proof": describe_proof(classifier),
        "certificate": plain(classifier.certificate_),
        "path_certificate": plain(getattr(classifier, "path_certificate_", None)),
        "covariance": _labelled(classifier.covariance_),
        "shadow_prices": _labelled(classifier.multipliers_),
    }


def _evaluated(study: Study) -> tuple[Part, bool]:
    """Return the people to judge by: those held out, or those of training where nobody was."""
    return (study.test, True) if len(study.test) else (study.train, False)


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


@dataclass(frozen=True)
class Answer:
    """A question in words and the classifier that answers it.

    ``remark`` describes the classifier or, where ``classifier`` is None, says why there is none.
    """

    key: str
    question: str
    remark: str
    classifier: Any


def frontier_summary(
    study: Study,
    frontier: FairnessFrontier,
    answers: Sequence[Answer],
    *,
    title: str,
    settings: Mapping[str, Any],
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """Summarise a frontier.

    Parameters
    ----------
    study : Study
    frontier : FairnessFrontier
        Fitted on the training part, and evaluated on the held-out part ("test") where there is one.
    answers : list of Answer
        Further classifiers, each the answer to a question.
    title, settings, notes, warnings
        For the reader.
    """
    part, held_out = _evaluated(study)
    free = frontier.estimators_[0]
    features = study.train.frame[[column.name for column in study.encoder.columns]]
    scores = free.decision_function(part.X)
    result = _audit(study, (scores >= 0).astype(int), part, scores=scores)
    labels = _audit(study, study.train.y, study.train, features=features)
    comparison = _Comparison(study, free)
    rows = [row for _, row in frontier.table_.iterrows()]
    shown = [comparison.point(clf, row) for clf, row in zip(frontier.estimators_, rows, strict=True)]
    answered = [comparison.answer(answer) for answer in answers]
    said = [*study.warnings, *warnings, *_of_points(shown, answered), *_small(result)]
    summary = _head("frontier", title, {**study.settings, **settings}, [*study.notes, *notes], said)
    undefined = sum(p["test"]["p_rule"] is None and p["test"]["decides_alike"] == "refuses" for p in shown)
    if undefined:
        summary["warnings"].append(
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
        "answers": answered,
    }


def _of_points(points: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which classifiers accept everybody, and which answer misses its rule on the people it is measured on."""
    said = []
    accepting = sum(p["test"]["decides_alike"] == "accepts" for p in points)
    if accepting:
        said.append(
            f"At {accepting} of {len(points)} points everybody gets the positive decision: every rule holds there, "
            "and that says nothing about fairness."
        )
    for answer in answers:
        test = None if answer["details"] is None else answer["details"]["test"]
        if test is None:
            continue
        said += _decided_alike(test["decides_alike"], f"The answer to “{answer['question']}”")
        if answer["key"] == "p80" and test["p_rule"] is not None and test["p_rule"] < _FOUR_FIFTHS:
            said.append(
                f"The classifier found for the 80%-rule misses it on the people it is measured on: "
                f"{ratio_beside(test['p_rule'], _FOUR_FIFTHS)} "
                f"(95% interval {interval(test['p_rule_low'], test['p_rule_high'])})."
            )
    return said


def _guarantee(classifier: Any) -> dict[str, Any] | None:
    """Return what was tested on people not used in training, with its statement; None where nothing was."""
    tested = getattr(classifier, "guarantee_", None)
    return None if tested is None else {**plain(tested), "statement": tested.statement}


def _necessity(classifier: Any) -> dict[str, Any] | None:
    """Return what a bound on the loss makes necessary, with its statement; None where nothing was asked."""
    proved = getattr(classifier, "necessity_", None)
    return None if proved is None else {**plain(proved), "statement": proved.statement}


class _Comparison:
    """Classifiers of one study beside the unconstrained one."""

    def __init__(self, study: Study, free: Any) -> None:
        self.study, self.free = study, free
        self.part, self.held_out = _evaluated(study)
        self.accepted = {"train": _accepted(free, study.train), "test": _accepted(free, self.part)}

    def answer(self, answer: Answer) -> dict[str, Any]:
        """Return a question and, where there is one, the classifier that answers it."""
        details = None
        if answer.classifier is not None:
            increase = answer.classifier.certificate_.objective / self.free.certificate_.objective - 1.0
            details = self._details(answer.classifier, {"factor": None, "loss_increase": increase})
        proved = _necessity(answer.classifier)
        remark = answer.remark if proved is None else f"{answer.remark}. {proved['statement']}"
        return {"key": answer.key, "question": answer.question, "answer": remark, "details": details}

    def point(self, classifier: Any, row: pd.Series) -> dict[str, Any]:
        """Return a point of the frontier, with what the frontier has measured."""
        facts = {"factor": float(row["factor"]), "loss_increase": float(row["loss_increase"])}
        train = measured_by_frontier(row, "train")
        return self._details(classifier, facts, train, measured_by_frontier(row, "test") if self.held_out else train)

    def _details(
        self,
        classifier: Any,
        facts: Mapping[str, Any],
        measured_train: Mapping[str, Any] | None = None,
        measured_test: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        part, study = self.part, self.study
        accepted, before = _accepted(classifier, part), self.accepted["test"]
        test = _evaluate(accepted, part, study, measured_test)
        gained, lost = accepted & ~before, ~accepted & before
        for row in test["groups"]:
            inside = (part.sensitive[row["attribute"]].astype(str) == row["group"]).to_numpy()
            row |= {"gained": int(np.sum(gained & inside)), "lost": int(np.sum(lost & inside))}
        trained, trained_before = _accepted(classifier, study.train), self.accepted["train"]
        train = measured_train if measured_train is not None else _evaluate(trained, study.train, study)
        details = {
            **facts,
            "test": test,
            "train": {
                **{key: train[key] for key in ("accuracy", "p_rule", "cv_score")},
                "gained": int(np.sum(trained & ~trained_before)),
                "lost": int(np.sum(~trained & trained_before)),
            },
            "gained": int(gained.sum()),
            "lost": int(lost.sum()),
            "coefficients": _coefficients(classifier, self.free, study.encoder.feature_names),
            **_certified(classifier),
        }
        return plain(details)
