"""The two long jobs of an analyst: train one classifier on a table, or trace the whole trade-off.

What the command line does between reading a file and writing a report, for use from Python as well::

    study = prepare(read_table("people.csv"), target="repaid", positive="yes", sensitive=["sex"])
    model, summary = train(study, make_estimator("logistic", parse_constraint("p-rule=80")))
    summary = trace(study, make_estimator("logistic"))
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.class_weight import compute_sample_weight
from threadpoolctl import threadpool_limits

from fairmargin.constraints import Constraint, CovarianceBound, IndividualLossBound, LossBound, PRuleBound
from fairmargin.report.summary import frontier_summary, training_summary
from fairmargin.tabular import DataError, Study, TabularModel

__all__ = ["ESTIMATORS", "make_estimator", "parse_constraint", "trace", "train"]

_MANY = 200_000
ESTIMATORS = ("logistic", "linear-svm", "squared-hinge", "svm")
_ASK = "none, covariance=0 (or 20%, or sex:0,race:0.1), p-rule=80, loss=0.05, individual=0.5, nobody-loses"


def make_estimator(
    name: str = "logistic",
    constraint: Any = None,
    *,
    C: float = 1.0,
    kernel: str = "rbf",
    gamma: float | str = "scale",
    class_weight: str | None = None,
) -> Any:
    """Return an unfitted classifier by its name on the command line, one of ``ESTIMATORS``."""
    from fairmargin.linear import FairLinearSVC, FairLogisticRegression

    if not C > 0:
        raise DataError(f"C must be positive, got {C}.")
    shared: dict[str, Any] = {"C": C, "constraint": constraint, "class_weight": class_weight}
    if name == "logistic":
        return FairLogisticRegression(**shared)
    if name == "linear-svm":
        return FairLinearSVC(**shared)
    if name == "squared-hinge":
        return FairLinearSVC(loss="squared_hinge", **shared)
    if name == "svm":
        from fairmargin.kernel import FairSVC

        return FairSVC(kernel=kernel, gamma=gamma, **shared)
    raise DataError(f"There is no estimator {name!r}; there are {', '.join(ESTIMATORS)}.")


def parse_constraint(text: str) -> Constraint | None:
    """Return the constraint that a text on the command line asks for.

    ``none``; ``covariance=0.1``, ``covariance=20%`` (of the unconstrained classifier's),
    ``covariance=sex:0,race:0.1``; ``p-rule=80``; ``loss=0.05`` (within 5% of the best loss); ``individual=0.5``
    (nobody's loss grows by more than half); ``nobody-loses`` or ``nobody-loses=0.5`` (and whoever is accepted stays
    accepted).

    Examples
    --------
    >>> parse_constraint("covariance=20%")
    CovarianceBound(c=0.2, relative=True)
    """
    kind, _, value = text.strip().partition("=")
    try:
        if kind == "none" and not value:
            return None
        if kind == "covariance":
            return _covariance(value or "0")
        if kind == "p-rule":
            return PRuleBound(float(value.removesuffix("%") or 80))
        if kind == "loss":
            return LossBound(_share(value))
        if kind == "individual":
            return IndividualLossBound(_share(value))
        if kind == "nobody-loses":
            return IndividualLossBound(_share(value) if value else np.inf, keep_positive="accepted")
    except ValueError as error:
        raise DataError(f"The constraint {text!r} is not understood: {error}") from None
    raise DataError(f"There is no constraint {text!r}; ask for one of {_ASK}.")


def _covariance(value: str) -> CovarianceBound:
    if ":" in value:
        pairs = [part.rsplit(":", 1) for part in value.split(",")]
        return CovarianceBound({name.strip(): float(bound) for name, bound in pairs})
    if value.endswith("%"):
        return CovarianceBound(_share(value), relative=True)
    return CovarianceBound(float(value))


def _share(value: str) -> float:
    return float(value.removesuffix("%")) / 100.0 if value.endswith("%") else float(value)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings of what is run inside, each once, as sentences for the reader."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        try:
            yield found
        finally:
            texts = [" ".join(str(w.message).split()) for w in record]
            found.extend(dict.fromkeys(texts))


def _few_threads(study: Study) -> AbstractContextManager[Any]:
    """Keep BLAS to one thread where products are small: more of them wait for each other longer than they work."""
    return threadpool_limits(1, user_api="blas") if study.people < _MANY else nullcontext()


def _shortfalls(study: Study, estimator: Any, summary: dict[str, Any]) -> list[str]:
    """Say where held-out people fare worse than what was asked for, or than with no classifier at all."""
    test = summary["test"]
    notes: list[str] = []
    if test is None:
        return notes
    asked = estimator.constraint.p if isinstance(estimator.constraint, PRuleBound) else None
    if asked is not None and test["p_rule"] is not None and test["p_rule"] < asked:
        notes.append(
            f"The {asked:g}%-rule holds on the people trained on; on those held out the p%-rule is "
            f"{test['p_rule']:.1f}%."
        )
    share = float(np.mean(study.test.y == 1))
    if test["accuracy"] < max(share, 1.0 - share):
        notes.append(
            f"On held-out people the classifier is right in {test['accuracy']:.1%} of cases; deciding the same for "
            f"everybody would be right in {max(share, 1.0 - share):.1%}."
        )
    return notes


@contextmanager
def _named_columns(study: Study) -> Iterator[None]:
    """Say of a column that tells a sensitive attribute what it is called, and how to leave it out."""
    try:
        yield
    except ValueError as error:
        found = re.match(r"Column number (\d+) of X (tells the same as the sensitive attribute .*?):", str(error))
        if found is None:
            raise
        name = study.encoder.feature_names[int(found[1])]
        column = name.split("=")[0]
        raise ValueError(
            f"The column {name!r} {found[2]}: deciding by it is disparate treatment. Leave it out with "
            f"--exclude {column!r}."
        ) from None


def train(
    study: Study, estimator: Any, settings: dict[str, Any] | None = None
) -> tuple[TabularModel, dict[str, Any]]:
    """Train a classifier on a study; return the model and its summary."""
    with collected_warnings() as said, _few_threads(study), _named_columns(study):
        estimator.fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive)
    model = TabularModel(estimator, study.encoder, study.target, study.labels, study.sensitive)
    title = f"{study.target} = {study.labels[1]}: one classifier"
    summary = training_summary(
        model, study, title=title, settings={**_settings(estimator), **(settings or {})}, notes=said
    )
    summary["notes"] += _shortfalls(study, estimator, summary)
    facts = {key: summary[key] for key in ("settings", "data", "train", "test", "notes", "versions")}
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
    estimator : classifier, its constraint is not looked at
    n_points : int
    individual_loss : float
        For the question of whether nobody need lose: by how much anybody's loss may grow.
    settings : dict, optional
        What else to write down for reproduction.
    progress : callable
        Told the name of each step before it begins and, on the frontier, points done and points in all.
    """
    from fairmargin.frontier import FairnessFrontier

    with collected_warnings() as said, _few_threads(study), _named_columns(study):
        tracing = partial(progress, "tracing the frontier")
        tracing()
        held_out = (study.test.X, study.test.y, study.test.sensitive) if len(study.test) else None
        frontier = FairnessFrontier(estimator, n_points=n_points, progress=tracing)
        frontier.fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive, eval_set=held_out)
        points = _points(frontier)
        answers = _answers(study, estimator, points[0][1], individual_loss, progress)
    with _few_threads(study):
        progress("summing up")
        return frontier_summary(
            study,
            points,
            answers,
            title=f"{study.target} = {study.labels[1]}: accuracy and fairness",
            settings={
                **_settings(estimator),
                "points": n_points,
                "individual_loss": individual_loss,
                **(settings or {}),
            },
            notes=said,
        )


def _settings(estimator: Any) -> dict[str, Any]:
    parameters = estimator.get_params(deep=False)
    return {"estimator": type(estimator).__name__, **{k: v if v is None else str(v) for k, v in parameters.items()}}


def _points(frontier: Any) -> list[tuple[dict[str, Any], Any]]:
    """Return facts and classifier of every point, the unconstrained one first."""
    rows = frontier.table_[["factor", "loss_increase"]].to_numpy()
    return [
        ({"factor": float(factor), "relative_loss": float(increase), "proven": True}, clf)
        for (factor, increase), clf in zip(rows, frontier.estimators_, strict=True)
    ]


def _answers(
    study: Study, estimator: Any, best: Any, individual_loss: float, progress: Callable[..., None]
) -> list[tuple[dict[str, Any], Any]]:
    """Put the three questions that people ask, and find who answers each; None where nobody does."""
    grown = f"and nobody's loss is more than {1 + individual_loss:g} times what it was"
    questions: list[tuple[str, str, str, Constraint]] = [
        ("p80", "80%-rule on the training data", "the most accurate classifier found", PRuleBound(80)),
        ("loss2", "within 2% of the best loss", "the least covariance there", LossBound(0.02)),
        ("nobody", "nobody trained on loses acceptance", grown, IndividualLossBound(individual_loss, "accepted")),
    ]
    return [_answer(study, estimator, best, *question, progress) for question in questions]


def _answer(
    study: Study,
    estimator: Any,
    best: Any,
    key: str,
    question: str,
    remark: str,
    constraint: Constraint,
    progress: Callable[..., None],
) -> tuple[dict[str, Any], Any]:
    progress(question)
    facts: dict[str, Any] = {"key": key, "question": question, "answer": remark, "factor": None}
    clf = clone(estimator).set_params(constraint=constraint)
    try:
        clf.fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive)
    except ValueError as error:  # nothing of the kind exists, or the estimator cannot be asked for it
        return {**facts, "answer": " ".join(str(error).split())}, None
    facts["relative_loss"] = _objective(clf, study) / _objective(best, study) - 1.0
    # A p%-rule is searched for: each problem on the way is solved to its optimum, their choice is not proven.
    facts["proven"] = not isinstance(constraint, PRuleBound)
    return facts, clf


def _objective(clf: Any, study: Study) -> float:
    """Return ``C sum_i s_i loss(m_i) + 1/2 |w|^2`` of a classifier, whatever it was that its training minimised."""
    margins = np.where(study.train.y == 1, 1.0, -1.0) * clf.decision_function(study.train.X)
    weight = compute_sample_weight(clf.class_weight, study.train.y)
    losses = float(weight @ clf._loss().value(margins))
    if np.isinf(clf.C):
        return losses
    if hasattr(clf, "dual_coef_"):  # |f|^2 = beta' K beta
        inner = clf.decision_function(clf.support_vectors_) - clf.intercept_[0]
        return clf.C * losses + 0.5 * float(np.ravel(clf.dual_coef_) @ inner)
    return clf.C * losses + 0.5 * float(np.sum(clf.coef_**2))
