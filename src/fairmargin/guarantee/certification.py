"""Certifying any fitted classifier on people it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from fairmargin.constraints.prule import check_confidence, check_percent
from fairmargin.decisions import Comparison
from fairmargin.exceptions import NotCertifiedError
from fairmargin.formatting import people
from fairmargin.guarantee.record import GroupRecord, Guarantee, name_positive
from fairmargin.guarantee.verdict import CountedDecisions, Needed, Question
from fairmargin.inputs import check_container, check_same_order
from fairmargin.notions import Condition, Notion, get_notion
from fairmargin.sensitive import MISSING_GROUP, encode_sensitive
from fairmargin.validation import favourable_class, validate_weights

__all__ = ["certify", "check_rule", "refuse"]

Mask = NDArray[np.bool_]

_SMALL = 0.05  # share of the people tested under which a group is called small


def certify(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any,
    p: float = 80.0,
    confidence: float = 0.95,
    method: str = "one_vs_rest",
    notion: Any = "selection_rate",
    sample_weight: Any = None,
    pos_label: Any = None,
) -> Guarantee:
    """Test a p%-rule of a fitted classifier on people it has not seen; return the guarantee or raise.

    With probability at least ``confidence`` over the draw of these people, either ``NotCertifiedError`` is raised or
    the rule of every listed group is at least ``p`` in the population they were drawn from. The people must be
    independent draws, and nothing that led to the classifier (training, scaling, search, the choice among several
    classifiers) may have seen them; testing several classifiers on the same people, or trying again with others,
    voids the promise. Equal weights are tested exactly (:mod:`fairmargin.guarantee.ratio_test`); weights that differ
    by the same test on effective counts, whose guarantee has ``kind="asymptotic"``.

    Parameters
    ----------
    model : object with ``predict``
        Any fitted classifier, of this package or not.
    X : array or frame of shape (n, n_features)
        Features of people not used in training.
    y : array of shape (n,), optional
        Their labels. Needed for notions other than selection rates; where they are given, the classifier must be more
        accurate on these people than the better constant decision.
    sensitive_features : array, series or frame of shape (n,) or (n, k)
        Attributes with groups.
    p : float, default=80
        In percent.
    confidence : float, default=0.95
    method : {"one_vs_rest", "between_groups"}
        As in :func:`fairmargin.p_rule`.
    notion : str or Notion, default="selection_rate"
        Which people count: e.g. ``"true_positive_rate"`` compares acceptance among those with a positive label.
    sample_weight : array of shape (n,), optional
    pos_label : label, optional
        The positive decision; by default the model's own ``pos_label``, its ``classes_[1]``, or 1. Labels other than
        0 and 1, -1 and 1, or False and True give a ``FavourableClassWarning`` unless it is named.

    Returns
    -------
    Guarantee
        What was tested, on whom, and in words (``statement``).

    See Also
    --------
    CertifiedClassifier : Sets people aside, fits and certifies in one call.
    PRuleBound : With ``confidence``, trains a classifier that passes.

    Raises
    ------
    NotCertifiedError
        Where these people do not support the rule; it says which groups fall short and about how many people would
        be needed.

    Examples
    --------
    >>> import numpy as np
    >>> from fairmargin import FairLogisticRegression
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(8000, random_state=0)
    >>> new = np.arange(len(y)) % 2 == 1
    >>> clf = FairLogisticRegression().fit(X[~new], y[~new], sensitive_features=z[~new])
    >>> certify(clf, X[new], y[new], sensitive_features=z[new], p=80).people
    4000
    """
    question = Question(check_percent(p), check_confidence(confidence), method)
    people = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
    return check_rule(model, X, y, question=question, notion=notion, pos_label=pos_label, **people)


def check_rule(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    question: Question,
    notion: Any,
    sample_weight: Any,
    pos_label: Any,
    remedy: str = "",
) -> Guarantee:
    """Test a rule as :func:`certify` does; ``remedy`` says what helps if it is not supported, where that is known."""
    check_container(X, "X")
    check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
    decided = column_or_1d(model.predict(X))
    positive = _positive_label(model, pos_label)
    accepted = decided == positive
    sensitive = encode_sensitive(sensitive_features, len(accepted))
    weight = None if sample_weight is None else validate_weights(sample_weight, accepted[:, None])
    labels = None if y is None else _labels(y, accepted, positive)
    conditions = _conditions(get_notion(notion), labels, len(accepted))
    if labels is not None:
        _check_gain(accepted, labels, weight)
    tested = CountedDecisions.of(sensitive.attributes, accepted, weight, conditions)
    if not tested.supports(question):
        raise refuse(tested, question, at_hand=tested.given, split=False, remedy=remedy)
    return Guarantee(
        question.p,
        question.confidence,
        tested.kind,
        question.method,
        get_notion(notion).name,
        tested.people,
        tested.groups,
        positive=name_positive(positive),
    )


def refuse(
    tested: CountedDecisions, question: Question, *, at_hand: int, split: bool, remedy: str = ""
) -> NotCertifiedError:
    """Return the error for decisions that do not support the rule: which groups fall short and what would help.

    ``at_hand`` is the number of people given: for the test, and where they are split, for training, too. A ``remedy``
    that is known takes the place of an estimate of how many people it would take.
    """
    rule = f"{question.p:g}%-rule at {100 * question.confidence:.4g}% confidence"
    if tested.empty:
        return NotCertifiedError(
            f"The {rule} cannot be shown: there is nobody to test in {', '.join(tested.empty)}. Give more people, or "
            "leave these groups out.",
            failed=tested.empty,
        )
    if tested.constant:
        return NotCertifiedError(
            f"The {rule} cannot be shown: the classifier {tested.constant} everybody, "
            "which keeps every rule. Give another classifier."
        )
    failures = tested.failures(question)
    among = [tested.counts[k].among for k, _ in failures]
    sides = zip(failures, (f" ({a})" if a else "" for a in among), strict=True)
    failed = tuple(f"{c.group} against {_other(c)}{where}" for (_, c), where in sides)
    short = _failed_groups(tested, failures)
    small = [f"{g.attribute}={g.group!r} has {people(g.people)}" for g in short]
    needed = None if remedy else tested.needed(question, failures, split=split)
    remedy = remedy or _more_people(needed, at_hand, split)
    needed = None if needed is not None and needed.people <= at_hand else needed
    remedy += _without_small(tested, [g for g in short if g.people < _SMALL * tested.people])
    return NotCertifiedError(
        f"The {tested.people:,} people tested do not support the {rule}. It could not be shown for "
        f"{'; '.join(failed)}: {', '.join(small)}. {remedy}",
        failed=failed,
        people_needed=None if needed is None else needed.people,
    )


def _more_people(needed: Needed | None, at_hand: int, split: bool) -> str:
    """Return whether more people would help, and about how many."""
    if needed is None:
        return "Their rates are too far apart for more people to help: ask for a lower p."
    if needed.people <= at_hand:
        return "How many people it would take is too uncertain to say: more people of these groups are needed."
    if split:
        return (
            f"A rough estimate: {needed.people:,} people, for training and test together, would succeed four times "
            f"in five if {_assumed(needed)}, and the true rates are equal."
        )
    return (
        f"A rough estimate: {needed.people:,} people would succeed four times in five if {_assumed(needed)}, and "
        "the ratio, too."
    )


def _other(side: Comparison) -> str:
    """Return whom a group is compared with, in words."""
    return "everybody else" if side.other == f"everybody but {side.group}" else side.other


def _assumed(needed: Needed) -> str:
    """Return what an estimate takes from the people tested."""
    return f"{needed.share:.1%} of them are {needed.group} and the overall rate is {needed.rate:.0%}, as here"


def _without_small(tested: CountedDecisions, small: Sequence[GroupRecord]) -> str:
    """Return how to ask without groups that are too small: two others must be left to compare."""
    named = {g.attribute for g in small if g.group != MISSING_GROUP}
    of_named = [counts.categories for counts in tested.counts if counts.name in named]
    known = [sum(str(c) != MISSING_GROUP for c in categories) for categories in of_named]
    if known and min(known) > 2:
        return " Or merge small groups with others, or leave them out: the rule then says nothing about them."
    if any(g.group == MISSING_GROUP for g in small):
        return " Or leave people without a value out: the rule then says nothing about them."
    return ""


def _failed_groups(tested: CountedDecisions, failures: Sequence[Any]) -> list[Any]:
    """Return the smaller side of every failed comparison, each group once."""
    names = set()
    for k, side in failures:
        counts = tested.counts[k]
        inside = side.inside if side.inside.sum() <= side.outside.sum() else side.outside
        names |= {(counts.name, str(counts.categories[i]), counts.among) for i in np.flatnonzero(inside)}
    return [g for g in tested.groups if (g.attribute, g.group, g.among) in names]


def _positive_label(model: Any, given: Any) -> Any:
    """Return the positive decision: as given here, else the model's own, else the later label, with a warning."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return 1 if given is None else given
    known = np.asarray(classes)
    named = _named_positive(model) if given is None else given
    if named is None and len(known) != 2:
        raise ValueError(f"The classifier has {len(known)} classes; name the positive decision with pos_label.")
    return favourable_class(known, named)


def _named_positive(model: Any) -> Any:
    """Return the ``pos_label`` of a fitted model, or of the one in a pipeline or a search; None if it has none."""
    while model is not None:
        named = getattr(model, "pos_label", None)
        if named is not None:
            return named
        steps = getattr(model, "steps", None)
        model = steps[-1][1] if steps else getattr(model, "best_estimator_", getattr(model, "estimator_", None))
    return None


def _labels(y: Any, accepted: Mask, positive: Any) -> Mask:
    check_container(y, "y")
    labels = column_or_1d(y)
    if len(labels) != len(accepted):
        raise ValueError(f"y has {len(labels)} entries, but there are {len(accepted)} people in X.")
    return np.asarray(labels == positive)


def _conditions(notion: Notion, labels: Mask | None, n: int) -> tuple[Condition, ...]:
    """Return under which conditions groups are compared; raise where that takes labels and there are none."""
    if labels is None and notion.needs_labels:
        raise ValueError(f"The notion {notion.name!r} compares {notion.people}: give the labels y, too.")
    return notion.conditions(np.ones(n) if labels is None else np.where(labels, 1.0, -1.0))


def _check_gain(accepted: Mask, labels: Mask, weight: Any) -> None:
    """Raise if the decisions are no more accurate than the better constant one: such a rule is kept trivially."""
    accuracy = float(np.average(accepted == labels, weights=weight))
    positive = float(np.average(labels, weights=weight))
    constant = max(positive, 1.0 - positive)
    if accuracy <= constant:
        raise NotCertifiedError(
            f"The classifier is right for {accuracy:.1%} of these people, no more than deciding the same for "
            f"everybody ({constant:.1%}), which keeps every rule: there is nothing worth certifying."
        )
