"""Pipelines and searches whose people set aside are seen by nothing but the test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from fairmargin.constraints import PRuleBound
from fairmargin.guarantee.certification import certify
from fairmargin.guarantee.learning import refuse_if_seen, split_people
from fairmargin.sensitive import read_columns

__all__ = ["CertifiedClassifier"]


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
    aim higher than ``p`` in training.

    Parameters
    ----------
    estimator : classifier, Pipeline or search
        ``fit`` gets ``sensitive_features`` if a classifier of this package is the last step of a pipeline or alone;
        of other estimators, through ``fit_params``.
    p, confidence, safety_size, random_state
        As in :class:`fairmargin.PRuleBound`. A last step with ``PRuleBound(confidence=...)`` has its own.
    method, notion
        As in :func:`fairmargin.certify`; again, such a last step has its own.
    pos_label : label, optional
        The positive decision, as in :func:`fairmargin.certify`; passed on to a classifier that takes it.

    Attributes
    ----------
    estimator_ : fitted estimator
    guarantee_ : Guarantee
    trained_rows_ : ndarray of int
        The people given to ``fit`` who trained ``estimator_``; the others tested it.
    classes_ : ndarray of shape (2,)

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

    def fit(self, X: Any, y: Any, *, sensitive_features: Any, **fit_params: Any) -> Any:
        """Fit on some of the people and test on the others; raise NotCertifiedError where the test fails.

        Parameters
        ----------
        X, y
            As the estimator takes them.
        sensitive_features : array, series or frame of shape (n,) or (n, k)
        **fit_params
            Passed on to estimators that are not of this package; they must not be one per person.
        """
        refuse_if_seen()
        asked = self._asked()
        trained, aside = split_people(asked, _num_samples(X))
        people = dict(read_columns(sensitive_features))
        inside = {name: values.iloc[trained] for name, values in people.items()}
        outside = {name: values.iloc[aside] for name, values in people.items()}
        parts = _safe_indexing(X, trained), _safe_indexing(y, trained), _safe_indexing(X, aside)
        estimator = clone(self.estimator)
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        _tell_positive(last, self.pos_label)
        if _tests_itself(last):
            _fit_steps(estimator, last, *parts, inside, outside)
            self.guarantee_ = last.guarantee_
        else:
            if not isinstance(estimator, Pipeline) and hasattr(last, "constraint"):
                fit_params = {"sensitive_features": inside, **fit_params}
            estimator.fit(parts[0], parts[1], **fit_params)
            self.guarantee_ = certify(
                estimator,
                parts[2],
                _safe_indexing(y, aside),
                sensitive_features=outside,
                p=self.p,
                confidence=self.confidence,
                method=self.method,
                notion=self.notion,
                pos_label=self.pos_label,
            )
        self.guarantee_ = replace(self.guarantee_, seed=int(asked.random_state))
        self.estimator_ = estimator
        self.trained_rows_ = trained
        self.classes_ = estimator.classes_
        return self

    def _asked(self) -> PRuleBound:
        """Return whom to set aside: as the last step's constraint says, or this object's parameters."""
        last = self.estimator[-1] if isinstance(self.estimator, Pipeline) else self.estimator
        if _tests_itself(last):
            return last.constraint
        return PRuleBound(
            self.p, confidence=self.confidence, safety_size=self.safety_size, random_state=self.random_state
        )

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


def _tests_itself(estimator: Any) -> bool:
    asked = getattr(estimator, "constraint", None)
    return isinstance(asked, PRuleBound) and asked.guarantee == "exact" and asked.confidence is not None


def _tell_positive(estimator: Any, pos_label: Any) -> None:
    """Name the positive decision to a classifier that takes it; raise where it was told another."""
    if pos_label is None or "pos_label" not in estimator.get_params(deep=False):
        return
    if estimator.pos_label is not None and estimator.pos_label != pos_label:
        raise ValueError(
            f"pos_label={pos_label!r} contradicts pos_label={estimator.pos_label!r} of the estimator; name one."
        )
    estimator.set_params(pos_label=pos_label)


def _fit_steps(estimator: Any, last: Any, X: Any, y: Any, X_aside: Any, inside: Any, outside: Any) -> None:
    """Fit the steps before the last on the people who train, and the last one with the others as its safety set."""
    if estimator is not last:
        head = estimator[:-1]
        X, X_aside = head.fit_transform(X, y), head.transform(X_aside)
    last.fit(X, y, sensitive_features=inside, safety_set=(X_aside, outside))
