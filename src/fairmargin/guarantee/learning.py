"""Learn, then test: a classifier whose p%-rule holds for people not seen yet.

The people are divided: some train a sequence of classifiers
(:class:`fairmargin.formulations.prule.sequence.SafetySequence`), the others test them in that order, up to the first
failure. The classifier before it is the answer. As each is tested only if all before it passed, a mistake is made
only where the first one that breaks the rule passes, which has probability ``1 - confidence`` at most, however many
there are (fixed-sequence testing). The statement is about the whole procedure, including that nothing is returned:
it is not conditional on a classifier being returned.

*Cross-fitting* (``guarantee="asymptotic"``) lets everybody train. Each of five folds is decided by classifiers that
the other four trained, margin by margin; the pooled decisions are tested in the same order, and the answer is trained
on everybody with the last margin that passed. It tests other classifiers than the one returned, so that its
confidence is an approximation for many people, and the guarantee says so (``kind="cross-fitted"``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import column_or_1d

from fairmargin.constraints import Constraint, PRuleBound
from fairmargin.exceptions import NotCertifiedError
from fairmargin.formulations import Outcome, Task
from fairmargin.formulations.prule import SafetySequence
from fairmargin.formulations.several.tested import ListSequence
from fairmargin.guarantee.certification import refuse
from fairmargin.guarantee.record import Guarantee, name_positive
from fairmargin.guarantee.verdict import CountedDecisions, Question, check_groups_known
from fairmargin.inputs import check_same_order
from fairmargin.notions import Condition, get_notion
from fairmargin.sensitive import Attribute, Sensitive, encode_sensitive
from fairmargin.several import Several, rule_to_test
from fairmargin.strata import encode_strata, within_strata
from fairmargin.validation import ONE_AT_A_TIME, TrainingData, validate_features, validate_weights

if TYPE_CHECKING:
    from fairmargin.base import FairClassifier

__all__ = ["Certified", "learn_then_test", "refuse_if_seen", "split_people"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
T = TypeVar("T")

_FOLDS = 5  # of cross-fitting: each classifier trains on 80% of the people
_SEES_EVERYBODY = {"Pipeline", "BaseSearchCV"}


@dataclass(frozen=True)
class Certified:
    """A tested classifier: the task and the outcome to keep, and what was tested.

    ``trained`` indexes the rows given to ``fit`` that the classifier was trained on; None for all of them.
    """

    task: Task
    outcome: Outcome
    guarantee: Guarantee
    trained: Rows | None


@dataclass(frozen=True)
class _SafetyPeople:
    """People set aside: features as they predict, attributes with all groups of training, weights that differ."""

    X: Any
    attributes: tuple[Attribute, ...]
    weight: Array | None
    conditions: tuple[Condition, ...]

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def count(self, accepted: Mask) -> CountedDecisions:
        return CountedDecisions.of(self.attributes, accepted, self.weight, self.conditions)


def learn_then_test(
    estimator: FairClassifier, asked: Constraint, data: TrainingData, safety_set: Any = None
) -> Certified:
    """Return the most accurate classifier found whose rule passes the test; raise NotCertifiedError if none does.

    Parameters
    ----------
    estimator : FairClassifier
        Unfitted; it is not changed.
    asked : PRuleBound or Several
        With a confidence, or a list with such a rule: the others hold for the people trained on.
    data : TrainingData
        Everybody given to ``fit``.
    safety_set : (X, sensitive_features[, sample_weight[, y[, strata]]]), optional
        People to test on, if not part of ``data``.
    """
    constraint = rule_to_test(asked)
    assert constraint is not None
    assert constraint.confidence is not None
    assert constraint.p is not None
    assert data.sensitive is not None
    check_groups_known(data.sensitive.attributes)
    question = Question(float(constraint.p), float(constraint.confidence), constraint.method)
    if constraint.guarantee == "asymptotic":
        if safety_set is not None:
            raise ValueError("guarantee='asymptotic' tests on the people trained on; it takes no safety_set.")
        return _cross_fit(estimator, asked, constraint, question, data)
    if safety_set is not None:
        people = _read_safety_set(estimator, constraint, data, safety_set)
        train, rows = data, np.arange(len(data.y))
    else:
        refuse_if_seen()
        rows, aside = split_people(constraint, len(data.y))
        train, people = data.take(rows, estimator.class_weight), _set_aside(constraint, data, aside)
    task, sequence = _sequence(estimator, asked, constraint, train, len(people))
    seed = None if safety_set is not None else int(constraint.random_state)
    decided = ((outcome, _decide(estimator, task, outcome, people.X)) for outcome in sequence)
    passed = _test_in_order(decided, people, question, len(rows) + len(people))
    if passed is None:
        raise _nothing_to_test(sequence, constraint)
    outcome, counted, tested = passed
    record = _record(question, constraint, counted, tested, seed, data.classes[1])
    return Certified(task, outcome, record, data.kept[rows] if safety_set is None else None)


def _sequence(
    estimator: FairClassifier, asked: Constraint, rule: PRuleBound, data: TrainingData, n_test: int
) -> tuple[Task, SafetySequence]:
    """Return the task of the people who train, and the classifiers to test."""
    task = estimator._refine(estimator._task(data), asked)
    if isinstance(asked, Several):
        return task, ListSequence(task, asked, rule, n_test)
    return task, SafetySequence(task, rule, n_test)


def _test_in_order(
    decided: Iterable[tuple[T, Mask]], people: _SafetyPeople, question: Question, at_hand: int
) -> tuple[T, CountedDecisions, int] | None:
    """Return the last candidate before the first that fails, its counts, and how many were tested.

    ``decided`` are candidates with their decisions on the people. None without any; raises where the first one fails.
    ``at_hand`` is the number of people, for training and test together.
    """
    best = None
    tested = 0
    for candidate, accepted in decided:
        tested += 1
        counted = people.count(accepted)
        if not counted.supports(question):
            if best is None:
                raise refuse(counted, question, at_hand=at_hand, split=True)
            break
        best = candidate, counted
    return None if best is None else (*best, tested)


def _record(
    question: Question,
    constraint: PRuleBound,
    counted: CountedDecisions,
    tested: int,
    seed: int | None,
    positive: Any,
    kind: str | None = None,
) -> Guarantee:
    return Guarantee(
        question.p,
        question.confidence,
        counted.kind if kind is None else kind,
        question.method,
        get_notion(constraint.notion).name,
        counted.people,
        counted.groups,
        tested,
        seed,
        name_positive(positive),
    )


def _decide(estimator: FairClassifier, task: Task, outcome: Outcome, X: Any) -> Mask:
    """Return the decisions that the estimator would make with an outcome, by the code that predicts."""
    trial = copy(estimator)
    if not hasattr(X, "columns"):  # checked and converted already: nothing to warn of
        trial.__dict__.pop("feature_names_in_", None)
    with ONE_AT_A_TIME:
        _, trial.certificate_ = trial._store_function(task, outcome)
    return trial.decision_function(X) >= 0


def split_people(constraint: PRuleBound, n: int) -> tuple[Rows, Rows]:
    """Draw who trains and who is set aside: everybody alike, so that counts by group stay binomial."""
    size = constraint.safety_size
    aside = int(size) if size >= 1 else round(float(size) * n)
    if not 0 < aside < n:
        raise ValueError(f"safety_size={size!r} leaves nobody to train on or nobody to test on, of {n} people.")
    order = np.random.default_rng(int(constraint.random_state)).permutation(n)
    return np.sort(order[aside:]), np.sort(order[:aside])


def _set_aside(constraint: PRuleBound, data: TrainingData, rows: Rows) -> _SafetyPeople:
    assert data.sensitive is not None
    attributes = tuple(_with_all_groups(a, rows) for a in data.sensitive.attributes)
    strata = None if data.strata is None else _with_all_groups(data.strata, rows)
    conditions = _conditions(constraint, data.y[rows], attributes, strata)
    return _SafetyPeople(_safe_indexing(data.X, rows), attributes, data.people_weight[rows], conditions)


def _conditions(
    constraint: PRuleBound, y: Array, attributes: tuple[Attribute, ...], strata: Attribute | None
) -> tuple[Condition, ...]:
    """Return the conditions under which people set aside are compared, within every stratum of training."""
    notion = get_notion(constraint.notion)
    found = notion.conditions(y)
    return found if strata is None else within_strata(found, strata, Sensitive(attributes), notion.name)


def _with_all_groups(attribute: Attribute, rows: Rows) -> Attribute:
    """Return the attribute of some people; groups without any of them are kept, and cannot pass a test."""
    codes = attribute.codes
    return replace(attribute, codes=None if codes is None else codes[rows])


def _read_safety_set(
    estimator: FairClassifier, constraint: PRuleBound, data: TrainingData, given: Any
) -> _SafetyPeople:
    if not isinstance(given, list | tuple) or len(given) not in (2, 3, 4, 5):
        raise ValueError(
            "safety_set must be a pair (X, sensitive_features), or these and sample_weight, y and strata, of people "
            "not used in training."
        )
    check_same_order(**{f"safety_set[{k}]": values for k, values in enumerate(given)})
    given = (*given, *[None] * (5 - len(given)))
    X = validate_features(estimator, given[0])
    with ONE_AT_A_TIME:
        found = encode_sensitive(given[1], X.shape[0])
    assert data.sensitive is not None
    known = {a.name: a for a in data.sensitive.attributes}
    by_name = {a.name: a for a in found.attributes}
    if set(known) != set(by_name):
        raise ValueError(
            f"safety_set has the sensitive attributes {sorted(by_name)}, but training has {sorted(known)}; they must "
            "agree."
        )
    attributes = tuple(_joined(known[name], by_name[name]) for name in known)
    y = _safety_labels(constraint, data, given[3], X.shape[0])
    strata = _safety_strata(data, given[4], X.shape[0])
    if given[2] is None:
        return _SafetyPeople(X, attributes, None, _conditions(constraint, y, attributes, strata))
    weight = validate_weights(given[2], X)
    rows = np.flatnonzero(weight > 0)
    attributes = tuple(_with_all_groups(a, rows) for a in attributes)
    strata = None if strata is None else _with_all_groups(strata, rows)
    conditions = _conditions(constraint, y[rows], attributes, strata)
    return _SafetyPeople(_safe_indexing(X, rows), attributes, weight[rows], conditions)


def _safety_labels(constraint: PRuleBound, data: TrainingData, given: Any, n: int) -> Array:
    """Return the labels of a safety set in {-1, +1}; of a notion that needs none, any will do."""
    notion = get_notion(constraint.notion)
    if given is None and notion.needs_labels:
        raise ValueError(
            f"The notion {notion.name!r} compares {notion.people}: give the labels of the safety set, too, as "
            "(X, sensitive_features, sample_weight, y), with None for sample_weight if there is none."
        )
    if given is None:
        return np.ones(n)
    labels = column_or_1d(given)
    if len(labels) != n:
        raise ValueError(f"y of safety_set has {len(labels)} entries, but there are {n} people in it.")
    unknown = sorted(set(np.unique(labels).tolist()) - set(data.classes.tolist()), key=str)
    if unknown:
        raise ValueError(f"safety_set has the label {unknown[0]!r}; the labels known are {data.classes.tolist()}.")
    return np.where(labels == data.classes[1], 1.0, -1.0)


def _safety_strata(data: TrainingData, given: Any, n: int) -> Attribute | None:
    """Return the strata of a safety set, with all those of training."""
    if (given is None) != (data.strata is None):
        missing = "lacks" if given is None else "has"
        raise ValueError(
            f"safety_set {missing} strata, unlike the people trained on; they are its fifth entry, after y."
        )
    if data.strata is None:
        return None
    with ONE_AT_A_TIME:
        return _joined(data.strata, encode_strata(given, n))


def _joined(trained: Attribute, safety: Attribute) -> Attribute:
    """Return the attribute of the safety people, with the groups of training that do not occur among them, too."""
    if safety.codes is None:
        return safety  # raises where it is counted
    missing = tuple(c for c in trained.categories if c not in safety.categories)
    return Attribute(safety.name, (*safety.categories, *missing), safety.codes)


def _nothing_to_test(sequence: SafetySequence, constraint: PRuleBound) -> NotCertifiedError:
    beside = "the other constraints, " if isinstance(sequence, ListSequence) else ""
    return NotCertifiedError(
        f"No classifier keeps {beside}the {constraint.p:g}%-rule on the people trained on and "
        f"{constraint.min_gain:.0%} of what the unconstrained classifier gains over a constant decision (an accuracy "
        f"of {sequence.floor:.3f}): "
        "there is nothing to test. Ask for a lower p or a smaller min_gain, or merge small groups."
    )


def refuse_if_seen() -> None:
    """Raise where a pipeline or a search that has seen everybody, also those to be set aside, calls ``fit``."""
    frame = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if any(map(_sees_everybody, type(caller).__mro__)):
            raise ValueError(
                f"A {type(caller).__name__} has seen the people who would be set aside, so that a test on them "
                "proves nothing. Wrap it: CertifiedClassifier(pipeline) sets people aside first. Or give fit a "
                "safety_set."
            )
        frame = frame.f_back  # type: ignore[assignment]


def _sees_everybody(kind: type) -> bool:
    return kind.__name__ in _SEES_EVERYBODY and kind.__module__.startswith(("sklearn.", "imblearn."))


# --- cross-fitting


def _cross_fit(
    estimator: FairClassifier, asked: Constraint, constraint: PRuleBound, question: Question, data: TrainingData
) -> Certified:
    n = len(data.y)
    everybody = _set_aside(constraint, data, np.arange(n))
    folds = list(_folds(estimator, asked, constraint, data))
    whole_task, whole = _sequence(estimator, asked, constraint, data, n)
    highest = min([whole.highest, *(sequence.highest for _, _, sequence in folds)])
    tried = ((margin, _out_of_fold(estimator, data, folds, margin)) for margin in whole.margins(highest))
    decided = ((margin, a) for margin, a in tried if a is not None and whole.at(margin) is not None)
    passed = _test_in_order(decided, everybody, question, n)
    if passed is None:
        raise _nothing_to_test(whole, constraint)
    margin, counted, tested = passed
    found = whole.at(margin)
    assert found is not None
    seed = int(constraint.random_state)
    record = _record(question, constraint, counted, tested, seed, data.classes[1], "cross-fitted")
    return Certified(whole_task, whole.outcome(found), record, None)


def _folds(
    estimator: FairClassifier, asked: Constraint, constraint: PRuleBound, data: TrainingData
) -> Iterator[tuple[Rows, Task, SafetySequence]]:
    """Yield who is in each fold, and the classifiers that the others train."""
    n = len(data.y)
    fold = np.random.default_rng(int(constraint.random_state)).permutation(n) % _FOLDS
    for k in range(_FOLDS):
        inside, outside = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        train = data.take(outside, estimator.class_weight)
        yield inside, *_sequence(estimator, asked, constraint, train, n)


def _out_of_fold(
    estimator: FairClassifier, data: TrainingData, folds: list[tuple[Rows, Task, SafetySequence]], margin: float
) -> Mask | None:
    accepted = np.zeros(len(data.y), dtype=bool)
    for rows, task, sequence in folds:
        found = sequence.at(margin)
        if found is None:
            return None
        accepted[rows] = _decide(estimator, task, sequence.outcome(found), _safe_indexing(data.X, rows))
    return accepted
