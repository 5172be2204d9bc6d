"""The two long jobs on a study: train one classifier, or trace the whole trade-off.

What the command line does between reading a file and writing a report, for use from Python as well::

    study = prepare(read_table("people.csv"), target="repaid", positive="yes", sensitive=["sex"])
    model, summary = train(study, make_estimator("logistic", parse_constraint("p-rule=80")))
    summary = trace(study, make_estimator("logistic"))
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from sklearn.base import clone
from threadpoolctl import threadpool_limits

from fairmargin.constraints import Constraint, IndividualLossBound, LossBound, PRuleBound
from fairmargin.exceptions import DataError, DisparateTreatmentError
from fairmargin.formatting import interval, ratio_beside, shorten
from fairmargin.frontier import FairnessFrontier
from fairmargin.notions import get_notion
from fairmargin.report.summary import Answer, frontier_summary, training_summary
from fairmargin.tables.model import TabularModel
from fairmargin.tables.study import Study

__all__ = ["trace", "train"]

_MANY = 200_000  # people above which products are large enough for several BLAS threads to pay


def train(
    study: Study, estimator: Any, settings: dict[str, Any] | None = None
) -> tuple[TabularModel, dict[str, Any]]:
    """Train a classifier on a study.

    Parameters
    ----------
    study : Study
    estimator : unfitted classifier of this package
        It is fitted in place. A rule with a confidence is tested on the people held out.
    settings : dict, optional
        Further settings to record in the summary.

    Returns
    -------
    model : TabularModel
    summary : dict
        See :func:`fairmargin.report.training_summary`.
    """
    tested = {"safety_set": (study.test.X, study.test.sensitive)} if _tests_people(estimator, study) else {}
    with _collected_warnings() as said, _few_threads(study), _named_columns(study):
        estimator.fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive, **tested)
        free = None if estimator.constraint is None else clone(estimator).set_params(constraint=None)
        if free is not None:
            free.fit(study.train.X, study.train.y)
    if tested:
        estimator.guarantee_ = replace(estimator.guarantee_, seed=study.settings["seed"])
    title = f"{study.target} = {study.labels[1]}: one classifier"
    summary = training_summary(
        estimator,
        study,
        title=title,
        settings={**_settings(estimator), **(settings or {})},
        notes=_ties(estimator),
        warnings=said,
        unconstrained=free,
    )
    summary["warnings"] += _shortfalls(estimator, summary)
    kept = ("settings", "data", "train", "test", "guarantee", "warnings", "notes", "versions")
    facts = {key: summary[key] for key in kept}
    return TabularModel(estimator, study.encoder, study.target, study.labels, study.sensitive, facts), summary


def trace(
    study: Study,
    estimator: Any,
    *,
    n_points: int = 21,
    individual_loss: float = 2.0,
    settings: dict[str, Any] | None = None,
    progress: Callable[..., None] = lambda step, done=0, total=None: None,
) -> dict[str, Any]:
    """Trace the trade-off between accuracy and fairness on a study; return its summary.

    Parameters
    ----------
    study : Study
    estimator : unfitted classifier of this package
        Its constraint is ignored.
    n_points : int
    individual_loss : float
        For the question whether nobody need lose: by how much anybody's loss may grow.
    settings : dict, optional
        Further settings to record in the summary.
    progress : callable
        Called with the name of each step before it begins and, on the frontier, points done and points in all.
    """
    with _collected_warnings() as said, _few_threads(study), _named_columns(study):
        tracing = partial(progress, "tracing the frontier")
        tracing()
        held_out = (study.test.X, study.test.y, study.test.sensitive) if len(study.test) else None
        frontier = FairnessFrontier(
            estimator, n_points=n_points, method=study.method, min_people=study.min_people, progress=tracing
        )
        frontier.fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive, eval_set=held_out)
        answers = _answers(study, estimator, individual_loss, progress)
    progress("summing up")
    recorded = {**_settings(estimator), "points": n_points, "individual_loss": individual_loss, **(settings or {})}
    title = f"{study.target} = {study.labels[1]}: accuracy and fairness"
    with _few_threads(study):
        return frontier_summary(study, frontier, answers, title=title, settings=recorded, warnings=said)


def _tests_people(estimator: Any, study: Study) -> bool:
    """Whether the rule is to be tested on the people held out, whom nothing else has seen."""
    constraint = estimator.constraint
    if not isinstance(constraint, PRuleBound) or constraint.confidence is None or constraint.guarantee != "exact":
        return False
    if not len(study.test):
        raise DataError("A rule is tested on people held out, and nobody is; hold some out.", field="test_share")
    if study.settings["stratify"]:
        raise DataError("A rule is tested on people drawn at random; prepare the study with stratify=False.")
    return True


@contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings raised inside, each once, as sentences for the reader."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        try:
            yield found
        finally:
            texts = [" ".join(str(w.message).split()) for w in record]
            found.extend(dict.fromkeys(texts))


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
    parameters = estimator.get_params(deep=False)
    return {"estimator": type(estimator).__name__, **{k: v if v is None else str(v) for k, v in parameters.items()}}


def _ties(estimator: Any) -> list[str]:
    """Return a note on people whose decision would have depended on rounding."""
    ties = getattr(estimator, "n_ties_", 0)
    return [f"{ties:,} people had a score of zero up to rounding and were decided together."] if ties else []


def _shortfalls(estimator: Any, summary: dict[str, Any]) -> list[str]:
    """Return notes where held-out people fare worse than requested, or than under a constant decision."""
    test = summary["test"]
    notes: list[str] = []
    if test is None:
        return notes
    constraint = estimator.constraint
    of_selection = isinstance(constraint, PRuleBound) and get_notion(constraint.notion).name == "selection_rate"
    asked = constraint.p if of_selection else None
    if asked is not None and test["p_rule"] is not None and test["p_rule"] < asked:
        notes.append(
            f"The {asked:g}%-rule holds on the people trained on; on those held out the p%-rule is "
            f"{ratio_beside(test['p_rule'], asked)} "
            f"(95% interval {interval(test['p_rule_low'], test['p_rule_high'])})."
        )
    if test["accuracy"] < test["constant_accuracy"]:
        notes.append(
            f"On held-out people the classifier is right in {test['accuracy']:.1%} of cases; deciding the same for "
            f"everybody would be right in {test['constant_accuracy']:.1%}."
        )
    return notes


def _answers(study: Study, estimator: Any, individual_loss: float, progress: Callable[..., None]) -> list[Answer]:
    """Return the answers to the three questions that people ask."""
    grown = f"and nobody's loss is more than {1 + individual_loss:g} times what it was"
    rule = PRuleBound(80, method=study.method, min_people=study.min_people)
    questions: list[tuple[str, str, str, Constraint]] = [
        ("p80", "80%-rule on the training data", "the most accurate classifier found", rule),
        ("loss2", "within 2% of the best loss", "the least covariance there", LossBound(0.02)),
        ("nobody", "nobody trained on loses acceptance", grown, IndividualLossBound(individual_loss, "accepted")),
    ]
    answers = []
    for key, question, remark, constraint in questions:
        progress(question)
        classifier = clone(estimator).set_params(constraint=constraint)
        try:
            classifier.fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive)
        except ValueError as error:  # no such classifier exists, or the estimator does not support the question
            answers.append(Answer(key, question, " ".join(str(error).split()), None))
        else:
            answers.append(Answer(key, question, remark, classifier))
    return answers
