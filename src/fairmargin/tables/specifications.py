"""Estimators and constraints written as text, as on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fairmargin.constraints import (
    Constraint,
    CovarianceBound,
    CovariancePenalty,
    IndividualLossBound,
    LossBound,
    PerformanceBound,
    PRuleBound,
)
from fairmargin.constraints.performance import check_gains
from fairmargin.exceptions import DataError
from fairmargin.formatting import shorten
from fairmargin.notions import get_notion
from fairmargin.report.candidates import Selection
from fairmargin.several import as_constraint

__all__ = [
    "ESTIMATORS",
    "check_notion",
    "make_estimator",
    "parse_constraint",
    "parse_constraints",
    "parse_gains",
    "parse_selection",
]

ESTIMATORS = ("logistic", "linear-svm", "squared-hinge", "svm")
_CONSTRAINTS = (
    "none, covariance=0 (or 20%, or sex:0,race:0.1), penalty=100 (or sex:100,race:50), p-rule=80, difference=0.05, "
    "loss=0.05, accuracy=1%, auc=1%, profit=1%, individual=0.5, nobody-loses"
)
_SELECTIONS = "p-rule=80, loss=2%, accuracy=1%, auc=1% or profit=1%"


def make_estimator(
    name: str = "logistic",
    constraint: Any = None,
    *,
    C: float = 1.0,
    kernel: str = "rbf",
    gamma: float | str = "scale",
    class_weight: str | None = None,
    max_iter: int | None = None,
) -> Any:
    """Return an unfitted classifier by its name, one of ``ESTIMATORS``; parameters as in the classifiers."""
    from fairmargin.linear import FairLinearSVC, FairLogisticRegression

    if not C > 0:
        raise DataError(f"C must be positive, got {C}.", field="C")
    shared: dict[str, Any] = {"C": C, "constraint": constraint, "class_weight": class_weight}
    if max_iter is not None:
        shared["max_iter"] = max_iter
    if name == "logistic":
        return FairLogisticRegression(**shared)
    if name == "linear-svm":
        return FairLinearSVC(**shared)
    if name == "squared-hinge":
        return FairLinearSVC(loss="squared_hinge", **shared)
    if name == "svm":
        from fairmargin.kernel import FairSVC

        return FairSVC(kernel=kernel, gamma=gamma, **shared)
    raise DataError(f"There is no estimator {shorten(name)!r}; there are {', '.join(ESTIMATORS)}.", field="estimator")


def parse_constraint(
    text: str,
    *,
    confidence: float | None = None,
    method: str = "one_vs_rest",
    min_people: int = 1,
    gains: Mapping[str, float] | None = None,
    notion: str = "selection_rate",
) -> Constraint | None:
    """Return the constraint that a text asks for; with ``confidence``, a p%-rule that is tested on other people.

    ``none``; ``covariance=0.1``, ``covariance=20%`` (of the unconstrained classifier's),
    ``covariance=sex:0,race:0.1``; ``penalty=100`` (what one unit of covariance costs), ``penalty=sex:100,race:50``;
    ``p-rule=80``; ``difference=0.05`` (of rates); ``loss=0.05`` (within 5% of the best loss); ``accuracy=1%``,
    ``auc=1%``, ``profit=1%`` (within 1% of the best; the last with ``gains``); ``individual=0.5`` (nobody's loss
    grows by more than half); ``nobody-loses`` or ``nobody-loses=0.5`` (and whoever is accepted stays accepted).
    ``method`` and ``min_people`` are for p%-rules, as in :class:`fairmargin.PRuleBound`; ``notion`` is for all of
    them.

    Examples
    --------
    >>> parse_constraint("covariance=20%")
    CovarianceBound(c=0.2, relative=True)
    """
    if confidence is not None:
        found: Constraint | None = _tested_rule(text, confidence, method, min_people)
    else:
        found = _parse(text, method, min_people, gains)
    if found is None or notion == "selection_rate":
        return found
    try:
        return replace(found, notion=notion)  # type: ignore[type-var]
    except ValueError as error:
        raise DataError(str(error), field="notion") from None


def _parse(text: str, method: str, min_people: int, gains: Mapping[str, float] | None = None) -> Constraint | None:
    kind, value = _split(text)
    if kind == "none" and not value:
        return None
    worth = _needed(gains) if kind == "profit" else None
    rule: dict[str, Any] = {"method": method, "min_people": min_people}
    measured = partial(PerformanceBound, measure=kind, gains=worth)
    makers: dict[str, Callable[[], Constraint]] = {
        "covariance": lambda: _covariance(value or "0"),
        "penalty": lambda: CovariancePenalty(_by_attribute(value) if ":" in value else _number(value)),
        "p-rule": lambda: PRuleBound(_number(value.removesuffix("%") or "80"), **rule),
        "difference": lambda: PRuleBound(difference=_share(value), **rule),
        "loss": lambda: LossBound(_share(value)),
        **dict.fromkeys(("accuracy", "auc", "profit"), lambda: measured(_share(value))),
        "individual": lambda: IndividualLossBound(_share(value)),
        "nobody-loses": lambda: IndividualLossBound(_share(value) if value else np.inf, keep_positive="accepted"),
    }
    if kind not in makers:
        near = difflib.get_close_matches(kind.replace("_", "-"), makers, n=1)
        meant = f"did you mean {near[0]!r}? Otherwise ask for" if near else "ask for"
        raise DataError(
            f"There is no constraint {shorten(text)!r}; {meant} one of {_CONSTRAINTS}.", field="constraint"
        )
    try:
        return makers[kind]()
    except ValueError as error:
        further = {part.partition("=")[0].strip() for part in value.split(",")[1:]} & set(makers)
        hint = " Give each constraint on its own." if further else ""
        raise DataError(
            f"The constraint {shorten(text)!r} is not understood: {error}{hint}", field="constraint"
        ) from None


def parse_constraints(texts: Sequence[str], *, confidence: float | None = None, **rule: Any) -> Any:
    """Return the constraint that a text asks for, or the list of those of several texts; parameters as above.

    Examples
    --------
    >>> [type(one).__name__ for one in parse_constraints(["p-rule=80", "nobody-loses"])]
    ['PRuleBound', 'IndividualLossBound']
    """
    if len(texts) == 1:
        return parse_constraint(texts[0], confidence=confidence, **rule)
    tested = [k for k, text in enumerate(texts) if confidence is not None and _split(text)[0] == "p-rule"]
    if confidence is not None and len(tested) != 1:
        raise DataError(
            f"A confidence is for one p%-rule, which is tested on people held out; these constraints have "
            f"{len(tested) or 'none'}.",
            field="confidence",
        )
    each = [parse_constraint(t, confidence=confidence if k in tested else None, **rule) for k, t in enumerate(texts)]
    if None in each:
        raise DataError("The constraint 'none' cannot be combined with others.", field="constraint")
    try:
        as_constraint(each)
    except ValueError as error:
        raise DataError(str(error), field="constraint") from None
    return each


def parse_selection(
    text: str, gains: Mapping[str, float] | None = None, *, notion: str = "selection_rate"
) -> Selection:
    """Return which candidate of a search a text proposes: ``p-rule=85``, ``loss=2%``, ``accuracy=1%``, ...

    Examples
    --------
    >>> parse_selection("accuracy=1%")
    Selection(kind='accuracy', value=0.01, gains=None, notion='selection_rate')
    """
    kind, value = _split(text)
    worth = _needed(gains) if kind == "profit" else None
    check_notion(notion)
    try:
        if kind == "p-rule":
            percentage = _number(value.removesuffix("%") or "80")
            PRuleBound(percentage)  # raises unless it is a percentage
            return Selection(kind, percentage, notion=notion)
        if kind in ("loss", "accuracy", "auc", "profit"):
            return Selection(kind, _share(value), worth, notion)
    except ValueError as error:
        raise DataError(f"The selection {shorten(text)!r} is not understood: {error}", field="select") from None
    raise DataError(f"There is no selection {shorten(text)!r}; ask for {_SELECTIONS}.", field="select")


def check_notion(name: str) -> None:
    """Raise unless there is a notion of fairness of this name."""
    try:
        get_notion(name)
    except ValueError as error:
        raise DataError(str(error), field="notion") from None


def parse_gains(text: str | None) -> dict[str, float] | None:
    """Return what decisions are worth, from a text such as ``tp=100,fp=-500``."""
    if text is None:
        return None
    try:
        pairs = [part.partition("=") for part in text.split(",")]
        gains = {kind.strip(): _number(value) for kind, _, value in pairs}
        check_gains(gains)
    except ValueError as error:
        raise DataError(f"The gains {shorten(text)!r} are not understood: {error}", field="gains") from None
    return gains


def _needed(gains: Mapping[str, float] | None) -> Mapping[str, float]:
    if gains is None:
        raise DataError("A bound on the profit needs the worth of decisions.", field="gains", suggestion="tp=1,fp=-5")
    return gains


def _tested_rule(text: str, confidence: float, method: str, min_people: int) -> PRuleBound:
    if _split(text)[0] != "p-rule":
        raise DataError(
            f"A confidence is for p%-rules, which are tested on people held out; {shorten(text)!r} is not one.",
            field="constraint",
            suggestion="p-rule=80",
        )
    rule = _parse(text, method, min_people)
    assert isinstance(rule, PRuleBound)
    try:
        return replace(rule, confidence=confidence)
    except ValueError as error:
        raise DataError(str(error), field="confidence") from None


def _split(text: str) -> tuple[str, str]:
    """Return the kind and the value that a text such as ``p-rule = 80`` names."""
    kind, _, value = text.partition("=")
    return kind.strip(), value.strip()


def _covariance(value: str) -> CovarianceBound:
    if ":" in value:
        return CovarianceBound(_by_attribute(value))
    if value.endswith("%"):
        return CovarianceBound(_share(value), relative=True)
    return CovarianceBound(_number(value))


def _by_attribute(value: str) -> dict[str, float]:
    pairs = [part.rpartition(":") for part in value.split(",")]
    return {name.strip(): _number(number) for name, _, number in pairs}


def _share(value: str) -> float:
    return _number(value.removesuffix("%")) / 100.0 if value.endswith("%") else _number(value)


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a number.") from None
