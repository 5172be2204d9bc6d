"""Model cards: what a fitted classifier is, how it decides about groups, what is proved, and what is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from fairmargin.base import FairClassifier
from fairmargin.decisions import RULES, GroupCounts, count_groups, least_ratio
from fairmargin.formatting import NONE, escape_markdown, people, percent, ratio_beside
from fairmargin.inputs import check_same_order
from fairmargin.report.plain import versions
from fairmargin.report.proof import describe_proof
from fairmargin.sensitive import Attribute, encode_sensitive
from fairmargin.tables.columns import value_as_text
from fairmargin.tables.model import TabularModel

__all__ = ["model_card"]

Array = NDArray[np.float64]

_TO_FILL_IN = "*Not stated. Say here which decisions the model is for, and who checks them.*"
_LIMITS = (
    "The figures are about the people measured here; others may differ, small groups most of all.",
    "Equal rates between groups do not make a decision right for a person, and say nothing about the labels.",
    "No figure here says that the model is lawful.",
)


def model_card(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    method: str = "one_vs_rest",
    title: str | None = None,
    intended_use: str | None = None,
    limits: Sequence[str] = (),
) -> str:
    """Return a model card of a fitted classifier as Markdown.

    The card has the classifier and its constraint, accuracy and p%-rule, rates and error rates of every group, what
    the certificate proves, the guarantee for people not seen yet where there is one, intended use, limits, and the
    versions of the libraries.

    Parameters
    ----------
    model : fitted classifier or TabularModel
        Of this package, or a pipeline, ``CertifiedClassifier`` or search around one. Of any other classifier the card
        has no proof. A ``TabularModel`` takes a frame for ``X``, and ``y`` with the values of its target.
    X, y : features and labels of the people to measure on
        People whom the model has not seen, wherever possible.
    sensitive_features : array, series or frame of shape (n,) or (n, k)
        Attributes with groups.
    sample_weight : array of shape (n,), optional
    method : {"one_vs_rest", "between_groups"}, default="one_vs_rest"
        How groups are compared, as in :func:`fairmargin.p_rule`.
    title : str, optional
    intended_use : str, optional
        Which decisions the model is for; the card says where this is missing.
    limits : sequence of str
        Known limits, added to those that every model has.

    Returns
    -------
    str

    See Also
    --------
    fairmargin.audit.audit : decisions with intervals and tests.

    Examples
    --------
    >>> from fairmargin import FairLogisticRegression, model_card
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(500, random_state=0)
    >>> clf = FairLogisticRegression().fit(X, y, sensitive_features=z)
    >>> print(model_card(clf, X, y, sensitive_features=z, title="Synthetic people").splitlines()[0])
    # Synthetic people
    """
    decider = _decider(model)
    if len(getattr(decider, "classes_", ())) != 2:
        check_is_fitted(decider)
        raise ValueError(
            f"A model card is about classifiers of two classes, got {type(decider).__name__}; for several see "
            "class_rates and class_p_rules."
        )
    check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
    accepted, deserving, weight = _decisions(model, decider, X, y, sample_weight)
    sensitive = encode_sensitive(sensitive_features, len(accepted))
    name = type(decider).__name__
    parts = [
        f"# {escape_markdown(title or f'Model card: {name}')}",
        _section("Model", _description(model, decider)),
        _section("Intended use", [escape_markdown(intended_use) if intended_use else _TO_FILL_IN]),
        _section("Decisions", _overall(sensitive.attributes, accepted, deserving, weight, method)),
        *(_groups(attribute, accepted, deserving, weight) for attribute in sensitive.attributes),
        _section("What is proved", _proved(model, decider)),
        _section("Limits", [_bullets([*_LIMITS, *limits])]),
        _section("Made with", [", ".join(f"{name} {version}" for name, version in versions().items()) + "."]),
    ]
    return "\n\n".join(parts) + "\n"


def _decider(model: Any) -> Any:
    """Return the classifier within tables' models, pipelines, searches and wrappers."""
    if isinstance(model, TabularModel):
        return _decider(model.estimator)
    inner = getattr(model, "best_estimator_", getattr(model, "estimator_", None))
    if inner is not None:
        return _decider(inner)
    return _decider(model.steps[-1][1]) if isinstance(model, Pipeline) else model


def _decisions(
    model: Any, decider: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Array]:
    """Return who is accepted, whose label is the positive one, and weights."""
    classes = _classes(model, decider)
    labels = column_or_1d(y)
    if isinstance(model, TabularModel):
        labels = np.array([value_as_text(label) for label in labels], dtype=object)
        decisions = classes[(model.scores(X) >= 0).astype(int)]
    else:
        decisions = np.asarray(model.predict(X))
    check_consistent_length(decisions, labels)
    if len(decisions) == 0:
        raise ValueError("There are no people to measure on: X has no rows.")
    unknown = sorted(set(labels.tolist()) - set(classes.tolist()), key=str)
    if unknown:
        raise ValueError(f"y has the label {unknown[0]!r}, which is not a class of the model.")
    weight = np.ones(len(labels)) if sample_weight is None else np.asarray(column_or_1d(sample_weight), dtype=float)
    check_consistent_length(weight, labels)
    return decisions == classes[1], labels == classes[1], weight


def _classes(model: Any, decider: Any) -> NDArray[Any]:
    """Return the negative and the positive label, in the words of the data."""
    return np.array(model.labels, dtype=object) if isinstance(model, TabularModel) else np.asarray(decider.classes_)


def _section(name: str, paragraphs: Iterable[str]) -> str:
    return "\n\n".join([f"## {name}", *paragraphs])


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {escape_markdown(line)}" for line in lines)


def _description(model: Any, decider: Any) -> list[str]:
    rows = [
        ("classifier", f"{type(decider).__module__}.{type(decider).__name__}"),
        ("constraint", _asked(decider)),
        ("positive decision", repr(_classes(model, decider).tolist()[1])),
        ("features", _count_features(model, decider)),
    ]
    if isinstance(model, Pipeline):
        rows.append(("steps", ", ".join(type(step).__name__ for _, step in model.steps)))
    table = _table(("what", "value"), [(key, escape_markdown(value)) for key, value in rows])
    used = "Sensitive attributes were used in training; deciding needs none."
    return [table, used] if isinstance(decider, FairClassifier) else [table]


def _count_features(model: Any, decider: Any) -> str:
    if isinstance(model, TabularModel):
        return f"{len(model.encoder.columns)} columns of the table"
    return str(getattr(model, "n_features_in_", getattr(decider, "n_features_in_", NONE)))


def _asked(decider: Any) -> str:
    """Return the constraint in the form in which it is written."""
    constraint = getattr(decider, "constraint", None)
    return f"{constraint.__name__}()" if isinstance(constraint, type) else repr(constraint)


def _overall(
    attributes: Sequence[Attribute],
    accepted: NDArray[np.bool_],
    deserving: NDArray[np.bool_],
    weight: Array,
    method: str,
) -> list[str]:
    if method not in RULES:
        raise ValueError(f"method must be one of {', '.join(map(repr, RULES))}, got {method!r}.")
    counts = [count_groups(attribute, accepted, weight) for attribute in attributes]
    rule = float(least_ratio(counts, method))
    shares = {"accuracy": accepted == deserving, "positive rate": accepted, "positive rate of the labels": deserving}
    rows = [(name, percent(float(np.average(which, weights=weight)))) for name, which in shares.items()]
    rows.append(("p%-rule", NONE if np.isnan(rule) else ratio_beside(rule, 80.0)))
    return [
        f"Measured on {people(len(accepted))}. The p%-rule: {RULES[method][1]}.",
        _table(("figure", "value"), rows),
    ]


def _groups(attribute: Attribute, accepted: NDArray[np.bool_], deserving: NDArray[np.bool_], weight: Array) -> str:
    """Return rates and error rates of the groups of an attribute."""
    rates: list[GroupCounts] = [
        count_groups(attribute, accepted, weight),
        count_groups(attribute, accepted, weight * deserving),
        count_groups(attribute, accepted, weight * ~deserving),
        count_groups(attribute, accepted != deserving, weight),
    ]
    header = ("group", "people", "positive rate", "true positive rate", "false positive rate", "error rate")
    rows = []
    for k, group in enumerate(attribute.categories):
        shares = [percent(None if np.isnan(counts.rate[k]) else float(counts.rate[k])) for counts in rates]
        rows.append((escape_markdown(group), f"{rates[0].people[k]:,}", *shares))
    return "\n\n".join([f"### By {escape_markdown(attribute.name)}", _table(header, rows)])


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = "|".join(["---", *["---:"] * (len(header) - 1)])
    return "\n".join([f"| {' | '.join(header)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)])


def _proved(model: Any, decider: Any) -> list[str]:
    if not hasattr(decider, "certificate_"):
        return ["Nothing: the classifier carries no certificate."]
    certificate = decider.certificate_
    rows = [
        ("objective", f"{certificate.objective:.6g}"),
        ("dual bound", f"{certificate.dual_bound:.6g}"),
        ("relative gap", f"{certificate.gap:.1e}"),
        ("largest violation of a bound", f"{max(certificate.violation, 0.0):.1e}"),
        ("status", certificate.status),
    ]
    said = [describe_proof(decider)["text"], _table(("certificate", "value"), rows)]
    guarantee = getattr(model, "guarantee_", getattr(decider, "guarantee_", None))
    if guarantee is None:
        return [*said, "No rule was tested on people set aside: nothing is promised about people not seen yet."]
    return [*said, escape_markdown(guarantee.statement)]
