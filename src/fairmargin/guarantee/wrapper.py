"""Pipelines and searches whose people set aside are seen by nothing but the test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d, has_fit_parameter

from fairmargin.constraints import PRuleBound
from fairmargin.constraints.prule import check_confidence, check_percent
from fairmargin.guarantee.certification import check_rule
from fairmargin.guarantee.learning import refuse_if_seen, split_people
from fairmargin.guarantee.record import Guarantee
from fairmargin.guarantee.verdict import Question
from fairmargin.inputs import check_same_order
from fairmargin.membership import Membership, probabilities_refused
from fairmargin.misspelled import names_arguments
from fairmargin.notions import get_notion
from fairmargin.sensitive import read_columns
from fairmargin.several import rule_to_test

__all__ = ["CertifiedClassifier"]

_FITTED = {"estimator_", "guarantee_", "trained_rows_", "classes_"}


def _delegates(name: str) -> Any:
    def has(self: CertifiedClassifier) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return has


class CertifiedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Set people aside, fit a pipeline, a search or any classifier on the others, and test a p%-rule on those.

    A pipeline that ends in a classifier of this package with ``PRuleBound(confidence=...)`` is fitted step by step on
    the people who train; its last step tests a sequence of classifiers on the others. Anything else is fitted once
    and certified as it is (:func:`fairmargin.certify`), which succeeds where its rule is kept with room to spare:
    aim higher than ``p`` in training. A ``PRuleBound(p)`` without a confidence has no such room.

    Parameters
    ----------
    estimator : classifier, Pipeline or search
        Its ``fit``, or that of the last step of a pipeline, gets ``sensitive_features`` if it takes them, as all
        classifiers of this package do.
    p, confidence, safety_size, random_state
        As in :class:`fairmargin.PRuleBound`. A last step with ``PRuleBound(confidence=...)`` has its own.
    method, notion
        As in :func:`fairmargin.certify`; again, such a last step has its own.
    pos_label : label, optional
        The positive decision, as in :func:`fairmargin.certify`; passed on to a classifier that takes it. Beware of
        scikit-learn's scorers ``"roc_auc"`` and ``"neg_log_loss"``, as in
        :class:`fairmargin.FairLogisticRegression`.

    Attributes
    ----------
    estimator_ : fitted estimator
    guarantee_ : Guarantee
    trained_rows_ : ndarray of int
        The people given to ``fit`` who trained ``estimator_``; the others tested it.
    classes_ : ndarray of shape (2,)
    n_features_in_, feature_names_in_
        Those of ``estimator_``, where it has them.

    See Also
    --------
    certify : Tests a classifier that is fitted already.
    PRuleBound : Asks for a rule with a confidence.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from fairmargin import CertifiedClassifier, FairLogisticRegression, PRuleBound
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(8000, random_state=0)
    >>> pipe = make_pipeline(StandardScaler(), FairLogisticRegression(constraint=PRuleBound(80, confidence=0.95)))
    >>> clf = CertifiedClassifier(pipe).fit(X, y, sensitive_features=z)
    >>> clf.guarantee_.people
    4000
    """

    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        *,
        p: float = 80.0,
        confidence: float = 0.95,
        safety_size: float = 0.5,
        random_state: int = 0,
        method: str = "one_vs_rest",
        notion: Any = "selection_rate",
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.p = p
        self.confidence = confidence
        self.safety_size = safety_size
        self.random_state = random_state
        self.method = method
        self.notion = notion
        self.pos_label = pos_label

    @names_arguments
    def fit(self, /, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any, **fit_params: Any) -> Any:
        """Fit on some of the people and test on the others; raise NotCertifiedError where the test fails.

        Parameters
        ----------
        X, y
            As the estimator takes them.
        sample_weight : array of shape (n,), optional
            Weights of the people: of those who train, for the estimator; of the others, for the test.
        sensitive_features : array, series or frame of shape (n,) or (n, k)
        **fit_params
            Passed on to an estimator that is certified as it is; they must not be one per person.
        """
        for name in _FITTED & set(vars(self)):
            delattr(self, name)  # a fit that fails leaves the estimator unfitted
        refuse_if_seen()
        check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        asked = self._asked()
        trained, aside = split_people(asked, _num_samples(X))
        inside, outside = (_People.of(rows, X, y, sensitive_features, sample_weight) for rows in (trained, aside))
        estimator = clone(self.estimator)
        step = _last_step(estimator)
        _tell_positive(step.classifier, self.pos_label)
        step.check(sample_weight, fit_params, _num_samples(X))
        if _own_rule(step.classifier) is not None:
            guarantee = _fit_steps(estimator, inside, outside)
        else:
            estimator.fit(inside.X, inside.y, **step.fit_params(inside), **fit_params)
            guarantee = self._certify(estimator, outside)
        self.guarantee_ = replace(guarantee, seed=int(asked.random_state))
        self.estimator_ = estimator
        self.trained_rows_ = trained
        self.classes_ = estimator.classes_
        return self

    def _certify(self, estimator: Any, people: _People) -> Guarantee:
        return check_rule(
            estimator,
            people.X,
            people.y,
            sensitive_features=people.sensitive,
            question=Question(check_percent(self.p), check_confidence(self.confidence), self.method),
            notion=self.notion,
            sample_weight=people.weight,
            pos_label=self.pos_label,
            remedy=self._remedy(),
        )

    def _remedy(self) -> str:
        """Return how to have a rule tested that is only met in training; nothing without such a rule."""
        kind, last = "classifier", self.estimator
        if isinstance(last, Pipeline):
            kind, last = "pipeline", last[-1]
        if not has_fit_parameter(last, "safety_set") or not _untested_rule(last.constraint):
            return ""
        named = get_notion(self.notion).name
        notion = "" if named == "selection_rate" else f", notion={named!r}"
        return (
            f"The {kind}'s rule has no confidence, so that it was only tested afterwards: write "
            f"PRuleBound({self.p:g}, confidence={self.confidence:g}{notion}) in it."
        )

    def _asked(self) -> PRuleBound:
        """Return whom to set aside: as the last step's constraint says, or this object's parameters."""
        last = self.estimator[-1] if isinstance(self.estimator, Pipeline) else self.estimator
        return _own_rule(last) or PRuleBound(
            self.p, confidence=self.confidence, safety_size=self.safety_size, random_state=self.random_state
        )

    @property
    def n_features_in_(self) -> int:
        """Number of features of the fitted estimator."""
        return int(self._fitted().n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features of the fitted estimator."""
        return np.asarray(self._fitted().feature_names_in_)

    def _fitted(self) -> Any:
        if "estimator_" not in vars(self):
            raise AttributeError("This CertifiedClassifier is not fitted yet.")
        return self.estimator_

    def __sklearn_is_fitted__(self) -> bool:
        """A fit that was refused has left no classifier."""
        return "estimator_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags, wrapped = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags = wrapped.input_tags
        tags.target_tags = wrapped.target_tags
        tags.non_deterministic = wrapped.non_deterministic
        tags.classifier_tags.multi_class = False
        return tags

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the decisions of the fitted estimator."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.predict(X))

    @available_if(_delegates("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the scores of the fitted estimator."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.decision_function(X)

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the fitted estimator."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_proba(X)


def _own_rule(estimator: Any) -> PRuleBound | None:
    """Return the rule that a classifier of this package tests itself on people set aside; None if it tests none."""
    if not has_fit_parameter(estimator, "safety_set"):
        return None
    rule = rule_to_test(estimator.constraint)
    return rule if rule is not None and rule.guarantee == "exact" else None


def _untested_rule(constraint: Any) -> bool:
    """Whether a constraint, or one of a list, is a rule on ratios without a confidence."""
    listed = constraint if isinstance(constraint, list | tuple) else [constraint]
    rules = [one for one in listed if isinstance(one, PRuleBound) and one.difference is None]
    return bool(rules) and all(rule.confidence is None for rule in rules)


def _tell_positive(estimator: Any, pos_label: Any) -> None:
    """Name the positive decision to a classifier that takes it; raise where it has another already."""
    if pos_label is None or "pos_label" not in estimator.get_params(deep=False):
        return
    if estimator.pos_label is not None and estimator.pos_label != pos_label:
        raise ValueError(
            f"pos_label={pos_label!r} contradicts pos_label={estimator.pos_label!r} of the estimator; name one."
        )
    estimator.set_params(pos_label=pos_label)


def _fit_steps(estimator: Any, inside: _People, outside: _People) -> Guarantee:
    """Fit the steps before the last on the people who train, and the last one with the others as its safety set."""
    X, X_aside, last = inside.X, outside.X, estimator
    if isinstance(estimator, Pipeline):
        head, last = estimator[:-1], estimator[-1]
        X, X_aside = head.fit_transform(X, inside.y), head.transform(X_aside)
    safety_set = (X_aside, outside.sensitive, outside.weight, outside.y)
    last.fit(X, inside.y, inside.weight, sensitive_features=inside.sensitive, safety_set=safety_set)
    found: Guarantee = last.guarantee_
    return found


@dataclass(frozen=True)
class _People:
    """Some of the people given to ``fit``; sensitive attributes as a frame, which searches can index."""

    X: Any
    y: Any
    sensitive: pd.DataFrame
    weight: NDArray[Any] | None

    @classmethod
    def of(cls, rows: NDArray[np.intp], X: Any, y: Any, sensitive_features: Any, weight: Any) -> _People:
        columns = read_columns(sensitive_features)
        for name, values in columns:
            if isinstance(values, Membership):
                raise probabilities_refused(name, "a guarantee")
        sensitive = pd.DataFrame({name: values.iloc[rows].reset_index(drop=True) for name, values in columns})
        weight = None if weight is None else column_or_1d(weight)[rows]
        return cls(_safe_indexing(X, rows), _safe_indexing(y, rows), sensitive, weight)


@dataclass(frozen=True)
class _LastStep:
    """The classifier that decides, within pipelines and searches, and the prefix of its parameters of ``fit``."""

    classifier: Any
    prefix: str

    def fit_params(self, people: _People) -> dict[str, Any]:
        """Return what to give ``fit`` of the outermost estimator beside features and labels."""
        # Where metadata is routed, pipelines find out themselves which step it is for.
        prefix = "" if get_config()["enable_metadata_routing"] else self.prefix
        found: dict[str, Any] = {}
        if has_fit_parameter(self.classifier, "sensitive_features"):
            found[f"{prefix}sensitive_features"] = people.sensitive
        if people.weight is not None:
            found[f"{prefix}sample_weight"] = people.weight
        return found

    def check(self, weight: Any, fit_params: dict[str, Any], n: int) -> None:
        """Raise for parameters of ``fit`` that cannot be passed on."""
        kind = type(self.classifier).__name__
        if weight is not None and not has_fit_parameter(self.classifier, "sample_weight"):
            raise ValueError(f"sample_weight cannot be passed on: {kind}.fit takes none.")
        for name, value in fit_params.items():
            if _own_rule(self.classifier) is not None:
                raise ValueError(
                    f"fit cannot pass {name!r} on to {kind} with PRuleBound(confidence=...): it takes only "
                    "sample_weight and sensitive_features."
                )
            if hasattr(value, "__len__") and not isinstance(value, str) and len(value) == n:
                raise ValueError(
                    f"fit cannot pass {name!r} on, which has one entry per person: only sample_weight and "
                    "sensitive_features are divided as the people are."
                )


def _last_step(estimator: Any) -> _LastStep:
    if isinstance(estimator, BaseSearchCV):
        return _last_step(estimator.estimator)
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        within = _last_step(last)
        return _LastStep(within.classifier, f"{name}__{within.prefix}")
    return _LastStep(estimator, "")
