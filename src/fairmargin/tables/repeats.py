"""The same training on several random splits: how much of a result hangs on who was held out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from fairmargin.constraints import PRuleBound
from fairmargin.exceptions import DataError
from fairmargin.formulations.prule.rule import rates_in_words
from fairmargin.notions import Notion, get_notion
from fairmargin.pipelines import fit_to_groups, last_step
from fairmargin.report.evaluation import evaluate
from fairmargin.several import judged_constraints, main_constraint, notion_of, rule_to_test
from fairmargin.tables.study import Study

__all__ = ["repeat_splits"]

_MEASURES = ("accuracy", "rate", "p_rule", "cv_score")


def repeat_splits(make_study: Callable[[int], Study], estimator: Any, seeds: Sequence[int]) -> dict[str, Any]:
    """Train on the split of every seed, and measure the people held out.

    Parameters
    ----------
    make_study : callable
        From a seed to a study.
    estimator : classifier of this package, or a pipeline to one
        With any constraint, or several. It is cloned for every split.
    seeds : list of int

    Returns
    -------
    dict
        ``splits``, one row per seed with accuracy, acceptance rate, p%-rule and CV score on the people held out;
        ``totals``, their mean, standard deviation, least and greatest; ``text``, what was done in words;
        and ``warnings``, those that the fits gave.
    """
    if rule_to_test(last_step(estimator).constraint) is not None:
        raise DataError("A rule with a confidence is tested once: repeating the split voids what it claims.")
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        measured = [_measured(make_study(seed), clone(estimator)) for seed in seeds]
    said = list(dict.fromkeys(" ".join(str(w.message).split()) for w in record))
    rows = [{"split": seed, **row} for seed, (row, _) in zip(seeds, measured, strict=True)]
    text = f"The same training on {len(rows)} random splits, measured on the people held out each time."
    text += _kept_in_words(_rules(estimator), [held for _, held in measured])
    return {"text": text, "splits": rows, "totals": _totals(rows), "warnings": said}


def _rules(estimator: Any) -> list[PRuleBound]:
    judged = judged_constraints(last_step(estimator).constraint)
    return [rule for rule in judged if isinstance(rule, PRuleBound)]


def _kept_in_words(rules: Sequence[PRuleBound], held: Sequence[Sequence[bool]]) -> str:
    """Say in how many splits the rules held, all of them together and, if there are several, one by one."""
    if not rules:
        return ""
    together, names = sum(map(all, held)), [_name(rule) for rule in rules]
    if len(rules) == 1:
        return f" The {names[0]} asked for held on the people held out in {together} of {len(held)}."
    each = ", ".join(f"the {name} in {sum(h)}" for name, h in zip(names, zip(*held, strict=True), strict=True))
    return f" All rules asked for held on the people held out in {together} of {len(held)}: {each}."


def _name(rule: PRuleBound) -> str:
    asked = f"{rule.p:g}%-rule" if rule.difference is None else f"largest difference of {rule.difference:g}"
    rates = rates_in_words(get_notion(rule.notion))
    return f"{asked} of {rates}" if rates else asked


def _holds(rule: PRuleBound, row: Mapping[str, Any]) -> bool:
    """Whether a rule holds for what was measured; rates that cannot be compared break it."""
    if rule.difference is not None:
        return row["cv_score"] is not None and row["cv_score"] <= rule.difference
    return row["p_rule"] is not None and row["p_rule"] >= rule.p


def _measured(study: Study, estimator: Any) -> tuple[dict[str, Any], list[bool]]:
    """Return what is measured on the people held out, and whether each rule held."""
    if not len(study.test):
        raise DataError("Splits are repeated with people held out, and nobody is.", field="test_share")
    fit_to_groups(estimator, study.train.X, study.train.y, sensitive_features=study.train.sensitive)
    accepted = np.asarray(estimator.decision_function(study.test.X) >= 0)

    def by(notion: Notion) -> dict[str, Any]:
        return evaluate(accepted, study.test, method=study.method, min_people=study.min_people, notion=notion)

    found = by(notion_of(main_constraint(last_step(estimator).constraint)))
    held = [_holds(rule, by(get_notion(rule.notion))) for rule in _rules(estimator)]
    return {name: found[name] for name in _MEASURES}, held


def _totals(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    functions: dict[str, Callable[[Any], Any]] = {"mean": np.mean, "lowest": np.min, "highest": np.max}
    if len(rows) > 1:
        functions["standard deviation"] = lambda values: np.std(values, ddof=1)
    totals = []
    for name, function in functions.items():
        known = {m: [row[m] for row in rows if row[m] is not None] for m in _MEASURES}
        totals.append({"split": name, **{m: float(function(v)) if v else None for m, v in known.items()}})
    return totals
