"""Classifiers of one study beside the unconstrained one: decisions, scores, coefficients and proofs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.decisions import mean_gain
from fairmargin.notions import Notion
from fairmargin.pipelines import last_step
from fairmargin.report.evaluation import conditions_of, evaluate, measured_by_frontier
from fairmargin.report.plain import plain
from fairmargin.report.proof import describe_proof
from fairmargin.report.scoring import measure_scores
from fairmargin.tables.study import Part, Study

__all__ = ["Comparison", "certified", "evaluated_part", "labelled", "necessity_of", "top_coefficients"]

_COEFFICIENTS = 10  # shown: those that the constraint moved most
_TRAINED = ("people", "accuracy", "p_rule", "cv_score", "decides_alike", "attributes", "rate")


def evaluated_part(study: Study) -> tuple[Part, bool]:
    """Return the people to judge by: those held out, or those of training where nobody was."""
    return (study.test, True) if len(study.test) else (study.train, False)


class Comparison:
    """Classifiers of one study beside the unconstrained one.

    Parameters
    ----------
    study : Study
    free : fitted classifier
        Without a constraint.
    gains : mapping from "tp", "fp", "fn" and "tn" to numbers, optional
        What a decision of each kind is worth; then the mean gain per person is measured, too.
    notion : Notion, optional
        Whose rates are compared; by default selection rates.
    """

    def __init__(
        self, study: Study, free: Any, gains: Mapping[str, float] | None = None, notion: Notion | None = None
    ) -> None:
        self.study, self.free, self.gains, self.notion = study, free, gains, notion
        self.part, self.held_out = evaluated_part(study)
        self.scores = self.score(free)

    def score(self, classifier: Any) -> dict[str, NDArray[np.float64]]:
        """Return the scores of a classifier on the people trained on and on those it is measured on."""
        train = np.asarray(classifier.decision_function(self.study.train.X))
        test = np.asarray(classifier.decision_function(self.part.X)) if self.held_out else train
        return {"train": train, "test": test}

    @property
    def _names(self) -> tuple[str, ...]:
        """The data that a frontier has measured its points on, those to judge by last."""
        return ("train", "test") if self.held_out else ("train",)

    def details(self, classifier: Any, facts: Mapping[str, Any], row: pd.Series | None = None) -> dict[str, Any]:
        """Return what is known of a classifier, with what a frontier has measured in a row of its table."""
        part, study = self.part, self.study
        scores = self.scores if classifier is self.free else self.score(classifier)
        accepted, before = scores["test"] >= 0, self.scores["test"] >= 0
        known: dict[str, Any] = {}
        if row is not None:
            known = {name: measured_by_frontier(row, name) for name in self._names if f"{name}_accuracy" in row}
        test = self._evaluate(scores["test"], part, known.get(self._names[-1]))
        gained, lost = accepted & ~before, ~accepted & before
        counting = {condition.name: condition.counts for condition in conditions_of(part, self.notion)}
        for group in test["groups"]:
            named = (part.sensitive[group["column"]].astype(str) == group["group"]).to_numpy()
            inside = named & counting[group["among"]]
            group |= {"gained": int(np.sum(gained & inside)), "lost": int(np.sum(lost & inside))}
        train = self._evaluate(scores["train"], study.train, known.get("train"))
        trained, trained_before = scores["train"] >= 0, self.scores["train"] >= 0
        increase = classifier_objective(classifier) / classifier_objective(self.free) - 1.0
        details = {
            "factor": None,
            "level": None,
            "loss_increase": increase,
            **facts,
            "test": test,
            "train": {
                **{key: train[key] for key in (*_TRAINED, "auc", "gain")},
                "gained": int(np.sum(trained & ~trained_before)),
                "lost": int(np.sum(~trained & trained_before)),
            },
            "gained": int(gained.sum()),
            "lost": int(lost.sum()),
            "coefficients": top_coefficients(classifier, self.free, study.encoder.feature_names),
            **certified(classifier),
        }
        return plain(details)

    def _evaluate(
        self, scores: NDArray[np.float64], part: Part, measured: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        study = self.study
        rule: dict[str, Any] = {"method": study.method, "min_people": study.min_people}
        found = evaluate(scores >= 0, part, measured, notion=self.notion, **rule)
        gain = None if self.gains is None else mean_gain(scores >= 0, part.y == 1, self.gains)
        return {**found, **measure_scores(scores, part, **rule), "gain": gain}


def classifier_objective(classifier: Any) -> float:
    """Return the training objective of a fitted classifier."""
    return float(last_step(classifier).certificate_.objective)


def certified(classifier: Any) -> dict[str, Any]:
    """Return certificate, what it proves, covariances and shadow prices of a fitted classifier."""
    classifier = last_step(classifier)
    return {
        "proof": describe_proof(classifier),
        "certificate": plain(classifier.certificate_),
        "path_certificate": plain(getattr(classifier, "path_certificate_", None)),
        "covariance": labelled(classifier.covariance_),
        "shadow_prices": labelled(classifier.multipliers_),
    }


def necessity_of(classifier: Any) -> dict[str, Any] | None:
    """Return what a bound on the loss makes necessary, with its statement; None where nothing was asked."""
    proved = getattr(last_step(classifier), "necessity_", None)
    return None if proved is None else {**plain(proved), "statement": proved.statement}


def labelled(series: pd.Series | None) -> list[dict[str, Any]]:
    """Return a value per attribute and group (and condition, where there are several) as rows."""
    if series is None:
        return []
    keys = series.index.tolist()
    return [
        {"attribute": str(a), "group": ", ".join(map(str, g)), "value": plain(float(v))}
        for (a, *g), v in zip(keys, series.tolist(), strict=True)
    ]


def top_coefficients(clf: Any, before: Any, names: list[str]) -> list[dict[str, Any]]:
    """Return the largest coefficients, or the largest changes from those of ``before``; none for kernels."""
    clf, before = last_step(clf), last_step(before)
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
