"""The two long jobs on a study: train one classifier, or trace the whole trade-off.

What the command line does between reading a file and writing a report, for use from Python as well::

    study = prepare(read_table("people.csv"), target="repaid", positive="yes", sensitive=["sex", "origin"])
    model, summary = train(study, make_estimator("logistic", parse_constraint("p-rule=80")))
    model, summary = propose(study, make_estimator("logistic"), parse_selection("p-rule=85"))
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from fairmargin.caller import warn
from fairmargin.constraints import (
    Constraint,
    CovarianceBound,
    IndividualLossBound,
    LossBound,
    PerformanceBound,
    PRuleBound,
)
from fairmargin.exceptions import DataError, DisparateTreatmentError
from fairmargin.formatting import interval, number_beside, ratio_beside, shorten
from fairmargin.frontier import FairnessFrontier
from fairmargin.metrics import p_rule
from fairmargin.pipelines import fit_to_groups, last_step, with_constraint
from fairmargin.report.asked import Asked, asked_by
from fairmargin.report.candidates import Candidate, Selection
from fairmargin.report.evaluation import evaluate
from fairmargin.report.summary import frontier_summary, training_summary
from fairmargin.several import rule_to_test
from fairmargin.tables.model import TabularModel
from fairmargin.tables.study import Study

__all__ = [
    "ask_questions",
    "collected_warnings",
    "frontier_candidates",
    "propose",
    "refit",
    "report_search",
    "report_training",
    "trace",
    "train",
]

_LEVEL_STEP = 1e-9  # percent; levels of a frontier are rounded to as much, and an answer must reach its own
_MANY = 200_000  # people above which products are large enough for several BLAS threads to pay


def train(
    study: Study,
    estimator: Any,
    settings: dict[str, Any] | None = None,
    *,
    gains: Mapping[str, float] | None = None,
) -> tuple[TabularModel, dict[str, Any]]:
    """Train a classifier on a study.

    Parameters
    ----------
    study : Study
    estimator : unfitted classifier of this package, or a pipeline to one
        It is fitted in place. A rule with a confidence is tested on the people held out.
    settings : dict, optional
        Further settings to record in the summary.
    gains : mapping, optional
        What decisions are worth, by "tp", "fp", "fn" and "tn"; then the mean gain is measured.

    Returns
    -------
    model : TabularModel
    summary : dict
        See :func:`fairmargin.report.training_summary`.
    """
    safety_set = (study.test.X, study.test.sensitive, None, study.test.y)
    tested = {"safety_set": safety_set} if _tests_people(estimator, study) else {}
    with collected_warnings() as said, _few_threads(study), _named_columns(study):
        fit_to_groups(estimator, study.train.X, study.train.y, sensitive_features=study.train.sensitive, **tested)
        free = None if last_step(estimator).constraint is None else with_constraint(estimator, None)
        if free is not None:
            free.fit(study.train.X, study.train.y)
    if tested:
        tested_one = last_step(estimator)
        tested_one.guarantee_ = replace(tested_one.guarantee_, seed=study.settings["seed"])
    return report_training(study, estimator, free, said, settings, gains)


def report_training(
    study: Study,
    estimator: Any,
    free: Any,
    said: Sequence[str],
    settings: dict[str, Any] | None = None,
    gains: Mapping[str, float] | None = None,
) -> tuple[TabularModel, dict[str, Any]]:
    """Return the model and the summary of a classifier that was trained on a study, wherever that was done.

    Parameters
    ----------
    study : Study
    estimator, free : fitted classifiers
        The second without constraint, or None.
    said : list of str
        Warnings of the training.
    settings, gains
        As in :func:`train`.
    """
    summary = training_summary(
        estimator,
        study,
        title=f"{study.target} = {study.labels[1]}: one classifier",
        settings={**_settings(estimator), **(settings or {})},
        notes=_ties(estimator),
        warnings=said,
        unconstrained=free,
        gains=gains,
        asked=_asked(estimator),
    )
    summary["warnings"] += _shortfalls(study, estimator, summary)
    return _tabular(study, estimator, summary), summary


def propose(
    study: Study,
    estimator: Any,
    selection: Selection | None = None,
    *,
    n_points: int = 21,
    individual_loss: float = 2.0,
    settings: dict[str, Any] | None = None,
    progress: Callable[..., None] = lambda step, done=0, total=None: None,
) -> tuple[TabularModel, dict[str, Any]]:
    """Search for a less discriminatory alternative on a study, and propose one of the candidates.

    Candidates are the points of two frontiers (the most accurate classifiers found at levels of the p%-rule, and the
    exact frontier of least loss for every covariance) and the answers to a few questions of their own.

    Parameters
    ----------
    study : Study
    estimator : unfitted classifier of this package, or a pipeline to one
        Its constraint is ignored.
    selection : Selection, optional
        Which candidate is proposed; by default the most accurate one that reaches an 80%-rule.
    n_points : int
        Of each frontier.
    individual_loss : float
        For the question whether nobody need lose: by how much anybody's loss may grow.
    settings : dict, optional
        Further settings to record in the summary.
    progress : callable
        Called with the name of each step before it begins and, on a frontier, points done and points in all.

    Returns
    -------
    model : TabularModel
        The candidate proposed.
    summary : dict
        See :func:`fairmargin.report.frontier_summary`.
    """
    selection = selection or Selection()
    estimator = with_constraint(estimator, None)
    traced = with_constraint(estimator, CovarianceBound(notion=selection.notion))

    def fit(classifier: Any) -> None:
        fit_to_groups(classifier, study.train.X, study.train.y, sensitive_features=study.train.sensitive)

    with collected_warnings() as said, _few_threads(study), _named_columns(study):
        asked = PRuleBound(80, method=study.method, min_people=study.min_people, notion=selection.notion)
        answers = ask_questions(estimator, selection, asked, individual_loss, fit, progress)
        exact = _frontier(study, traced, progress, "tracing the exact frontier", n_points=n_points)
        rivals = [c.classifier for c in answers if c.classifier is not None] + exact.estimators_
        # A level at the p%-rule of every answer: no mark in the chart lies above the curve between two levels.
        levels = sorted({80.0, selection.asked, *_rules_of(study, answers, selection.notion)} - {0.0})
        options: dict[str, Any] = {"n_points": n_points, "which": "p_rule", "levels": levels}
        rules = _frontier(study, traced, progress, "tracing the p%-rule", rivals, **options)
    progress("summing up")
    candidates = [*frontier_candidates(rules, "rule"), *frontier_candidates(exact, "covariance"), *answers]
    recorded = {"points": n_points, "individual_loss": individual_loss, **(settings or {})}
    with _few_threads(study):
        return report_search(study, estimator, selection, candidates, exact, rules, said, recorded)


def _rules_of(study: Study, answers: Sequence[Candidate], notion: str) -> set[float]:
    """Return the p%-rules that answers reach on the people trained on, where they can be levels of a frontier."""
    options: dict[str, Any] = {"method": study.method, "min_people": study.min_people, "notion": notion}
    options |= {"sensitive_features": study.train.sensitive, "zero_division": 0.0}
    fitted = [answer.classifier for answer in answers if answer.classifier is not None]
    accepted = [(classifier.decision_function(study.train.X) >= 0).astype(int) for classifier in fitted]
    rules = [p_rule(study.train.y, decisions, **options) for decisions in accepted]
    return {rule - _LEVEL_STEP for rule in rules if rule > 2.0}  # 1% and less are taken for shares


def report_search(
    study: Study,
    estimator: Any,
    selection: Selection,
    candidates: Sequence[Candidate],
    exact: FairnessFrontier,
    rules: FairnessFrontier | None,
    said: Sequence[str],
    settings: Mapping[str, Any],
    trained: int | None = None,
) -> tuple[TabularModel, dict[str, Any]]:
    """Return the candidate proposed and the summary of a search, wherever its candidates were trained.

    Parameters
    ----------
    study : Study
        The people that the report is made of.
    estimator : unfitted classifier
    selection : Selection
    candidates : sequence of Candidate
    exact, rules : FairnessFrontier
        Of least loss, whose first point is the unconstrained classifier, and of the p%-rule, where there is one.
    said : sequence of str
        Warnings of the training.
    settings : mapping
        To record beside those of the estimator.
    trained : int, optional
        People trained on; by default those of ``study``.
    """
    recorded = {**_settings(estimator), "select": f"{selection.kind}={selection.value:g}", "gains": selection.gains}
    recorded |= {"notion": selection.notion}
    summary = frontier_summary(
        study,
        candidates,
        exact.estimators_[0],
        selection=selection,
        title=f"{study.target} = {study.labels[1]}: accuracy and fairness",
        settings={**recorded, **settings},
        warnings=said,
        looked_at=0 if rules is None else rules.n_looked_at_,
        trained=trained,
    )
    chosen = next(c.classifier for c in candidates if c.key == summary["proposal"]["key"])
    return _tabular(study, chosen, summary), summary


def trace(study: Study, estimator: Any, selection: Selection | None = None, **options: Any) -> dict[str, Any]:
    """Return the summary of :func:`propose`, without the model."""
    return propose(study, estimator, selection, **options)[1]


def refit(model: TabularModel, everybody: Study) -> TabularModel:
    """Train the classifier of a model again, with the same constraint, on a study in which nobody is held out.

    What was measured belongs to the model trained before; ``facts`` says so.
    """
    if len(everybody.test):
        raise DataError("Prepare the study with test_share=0 to train on everybody.", field="test_share")
    again = clone(model.estimator)
    with collected_warnings() as said, _few_threads(everybody), _named_columns(everybody):
        fit_to_groups(again, everybody.train.X, everybody.train.y, sensitive_features=everybody.train.sensitive)
    note = (
        f"Trained again on all {everybody.people:,} people. Measures are those of the model that was trained without "
        "the people held out."
    )
    facts = {**model.facts, "notes": [*model.facts.get("notes", []), note], "refit_warnings": said}
    return replace(model, estimator=again, encoder=everybody.encoder, facts=facts)


def _tabular(study: Study, classifier: Any, summary: Mapping[str, Any]) -> TabularModel:
    """Return a classifier of a study as a model, with what the summary knows of it."""
    kept = ("settings", "data", "train", "test", "guarantee", "warnings", "notes", "versions")
    facts = {key: summary[key] for key in kept if key in summary}
    if summary.get("candidates"):
        proposed = next(a for a in summary["answers"] if a["key"] == "proposed")["details"]
        facts |= {"train": proposed["train"], "test": proposed["test"] if summary["held_out"] else None}
    return TabularModel(classifier, study.encoder, study.target, study.labels, study.sensitive, facts)


def _frontier(
    study: Study,
    estimator: Any,
    progress: Callable[..., None],
    step: str,
    rivals: Sequence[Any] = (),
    **options: Any,
) -> FairnessFrontier:
    tracing = partial(progress, step)
    tracing()
    held_out = (study.test.X, study.test.y, study.test.sensitive) if len(study.test) else None
    frontier = FairnessFrontier(
        estimator, method=study.method, min_people=study.min_people, progress=tracing, **options
    )
    data: dict[str, Any] = {"sensitive_features": study.train.sensitive, "eval_set": held_out}
    return frontier.fit(study.train.X, study.train.y, alternatives=rivals, **data)


def frontier_candidates(frontier: FairnessFrontier, origin: str) -> list[Candidate]:
    """Return the points of a frontier as candidates."""
    found = []
    for k, (_, row) in enumerate(frontier.table_.iterrows()):
        facts = {name: float(row[name]) for name in ("level", "factor", "loss_increase") if name in row}
        label = f"{facts['level']:.1f}%-rule" if origin == "rule" else f"{100 * facts['factor']:.0f}% of covariance"
        found.append(Candidate(f"{origin}-{k}", origin, label, frontier.estimators_[k], "", facts, row))
    return found


def _tests_people(estimator: Any, study: Study) -> bool:
    """Whether the rule is to be tested on the people held out, whom nothing else has seen."""
    rule = rule_to_test(last_step(estimator).constraint)
    if rule is None or rule.guarantee != "exact":
        return False
    if not len(study.test):
        raise DataError("A rule is tested on people held out, and nobody is; hold some out.", field="test_share")
    if study.settings["stratify"]:
        raise DataError("A rule is tested on people drawn at random; prepare the study with stratify=False.")
    return True


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings raised inside, each once, as sentences for the reader."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        try:
            yield found
        finally:
            texts = [" ".join(str(w.message).split()) for w in record]
            found.extend(dict.fromkeys(texts))


@contextmanager
def _named_candidate(question: str) -> Iterator[None]:
    """Say in every warning raised inside which candidate of a search it is about."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        yield
    for found in record:
        warn(f"Candidate {question!r}: {found.message}", found.category)


def _few_threads(study: Study) -> AbstractContextManager[Any]:
    """Keep BLAS to one thread where products are small: more threads wait for each other longer than they work."""
    return threadpool_limits(1, user_api="blas") if study.people < _MANY else nullcontext()


@contextmanager
def _named_columns(study: Study) -> Iterator[None]:
    """Name the column of the table, not of the matrix, that gives a sensitive attribute away."""
    try:
        yield
    except DisparateTreatmentError as error:
        feature = study.encoder.feature_names[error.column]
        column = study.encoder.column_of(error.column)
        raise DataError(
            f"The feature {shorten(feature)!r} tells the same as the sensitive attribute {error.attribute}: deciding "
            f"by it is disparate treatment. Leave the column {shorten(column)!r} out.",
            field="exclude",
            suggestion=column,
        ) from None


def _settings(estimator: Any) -> dict[str, Any]:
    last = last_step(estimator)
    parameters = last.get_params(deep=False)
    steps = [] if last is estimator else [str(step) for step in estimator[:-1].named_steps.values()]
    return {
        "estimator": " > ".join([*steps, type(last).__name__]),
        **{k: v if v is None else str(v) for k, v in parameters.items()},
    }


def _ties(estimator: Any) -> list[str]:
    """Return a note on people whose decision would have depended on rounding."""
    ties = getattr(last_step(estimator), "n_ties_", 0)
    return [f"{ties:,} people had a score of zero up to rounding and were decided together."] if ties else []


def _asked(estimator: Any) -> Asked:
    """Return what a constraint asks for, which the verdict is about."""
    last = last_step(estimator)
    tested = getattr(last, "guarantee_", None)
    on_held_out = tested is not None and tested.kind != "cross-fitted"
    return asked_by(last.constraint, tested if on_held_out else None)


def _shortfalls(study: Study, estimator: Any, summary: dict[str, Any]) -> list[str]:
    """Return notes where held-out people fare worse than requested, or than under a constant decision."""
    test, asked = summary["test"], _asked(estimator)
    if test is None:
        return []
    measured, notes = {asked.notion.name: test}, []
    how: dict[str, Any] = {"method": study.method, "min_people": study.min_people}
    for rule in asked.rules:
        if rule.notion.name not in measured:
            accepted = np.asarray(estimator.decision_function(study.test.X) >= 0)
            measured[rule.notion.name] = evaluate(accepted, study.test, notion=rule.notion, **how)
        notes += _shortfall(rule, measured[rule.notion.name])
    if test["accuracy"] < test["constant_accuracy"]:
        notes.append(
            f"On held-out people the classifier is right in {test['accuracy']:.1%} of cases; deciding the same for "
            f"everybody would be right in {test['constant_accuracy']:.1%}."
        )
    return notes


def _shortfall(rule: Asked, test: Mapping[str, Any]) -> list[str]:
    """Return a note if held-out people fare worse than a rule requests."""
    of = f" of the {rule.notion.rate}" if rule.notion.needs_labels else ""
    asked = rule.value if rule.kind == "p-rule" and rule.requested else None
    if asked is not None and test["p_rule"] is not None and test["p_rule"] < asked:
        return [
            f"The {asked:g}%-rule{of} holds on the people trained on; on those held out the p%-rule is "
            f"{ratio_beside(test['p_rule'], asked)} "
            f"(95% interval {interval(test['p_rule_low'], test['p_rule_high'], beside=(asked,))})."
        ]
    if rule.kind == "difference" and (test["cv_score"] or 0.0) > rule.value:
        return [
            f"{'Rates' if of else 'Selection rates'} differ by at most {100 * rule.value:g} points among the people "
            f"trained on; among those held out by {number_beside(100 * test['cv_score'], 100 * rule.value)}."
        ]
    return []


def ask_questions(
    estimator: Any,
    selection: Selection,
    rule: PRuleBound,
    individual_loss: float,
    fit: Callable[[Any], Any],
    progress: Callable[..., None],
) -> list[Candidate]:
    """Return the answers to the questions that people ask; ``fit`` trains one classifier, in memory or in passes.

    Of ``rule`` it counts how groups are compared, and by which notion. The other parameters are those of
    :func:`propose`.
    """
    grown = f"and nobody's loss is more than {1 + individual_loss:g} times what it was"
    found = "the most accurate classifier found"
    questions: list[tuple[str, str, str, Constraint]] = []
    for level in sorted({80.0, selection.asked}):
        questions.append((f"p{level:g}", f"{level:g}%-rule on the training data", found, replace(rule, p=level)))
    if selection.kind in ("accuracy", "auc", "profit"):
        bound = PerformanceBound(selection.value, selection.kind, gains=selection.gains, notion=selection.notion)
        within = f"least covariance, {selection.kind} at most {100 * selection.value:.3g}% worse"
        questions.append(("within", within, "the least covariance found there", bound))
    promise = IndividualLossBound(individual_loss, "accepted", notion=selection.notion)
    budget = LossBound(0.02, notion=selection.notion)
    questions += [
        ("loss2", "within 2% of the best loss", "the least covariance there", budget),
        ("nobody", "nobody trained on loses acceptance", grown, promise),
    ]
    answers = []
    for key, question, remark, constraint in questions:
        progress(question)
        classifier = with_constraint(estimator, constraint)
        try:
            with _named_candidate(question):
                fit(classifier)
        except ValueError as error:  # no such classifier exists, or the estimator does not support the question
            answers.append(Candidate(key, "answer", question, None, " ".join(str(error).split())))
        else:
            answers.append(Candidate(key, "answer", question, classifier, remark))
    return answers
