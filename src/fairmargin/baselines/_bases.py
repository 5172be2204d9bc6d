"""Bases of the compared methods: by who decides, and whether z is needed for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from fairmargin.baselines._capabilities import Capabilities
from fairmargin.baselines._groups import Groups, LabelledGroups, read_people
from fairmargin.inputs import check_same_order
from fairmargin.validation import check_share

__all__ = [
    "AwareClassifier",
    "ComparedClassifier",
    "LinearClassifier",
    "PreparedClassifier",
    "RankedPeople",
    "RankingClassifier",
    "ScoredClassifier",
    "probabilities",
    "scores_of",
    "wraps_one_with",
]


def scores_of(ranker: Any, X: Any, favourable: Any, *, method: str) -> np.ndarray:
    """Return the score (n,) of each row by a fitted classifier, higher for the favourable class."""
    second = ranker.classes_[1] == favourable
    if hasattr(ranker, "decision_function"):
        scores = np.asarray(ranker.decision_function(X))
        return scores if second else -scores
    if hasattr(ranker, "predict_proba"):
        return np.asarray(ranker.predict_proba(X))[:, int(second)]
    raise ValueError(
        f"{method} needs a score-based classifier, but {type(ranker).__name__} has neither "
        "decision_function nor predict_proba."
    )


def probabilities(log_odds: np.ndarray) -> np.ndarray:
    """Return the probability (n, 2) of each class from the log-odds (n,) of the second."""
    return np.column_stack([expit(-log_odds), expit(log_odds)])


def wraps_one_with(method: str) -> Callable[[Any], bool]:
    """Return a check whether the wrapped classifier of an estimator has a method."""
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), method)


class ComparedClassifier(ClassifierMixin, BaseEstimator):
    """Base of all compared methods that decide between two classes."""

    pos_label: Any
    classes_: Any

    def _read_people(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        *,
        kind: type[Groups] = Groups,
        weight: np.ndarray | None = None,
    ) -> LabelledGroups:
        """Check labels and sensitive features; every combination of group and label must have people."""
        method = type(self).__name__
        return read_people(
            X, y, sensitive_features, pos_label=self.pos_label, method=method, kind=kind, weight=weight
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class PreparedClassifier(MetaEstimatorMixin, ComparedClassifier):
    """Base of the pre-processing methods: ``fit`` sets ``estimator_``, which decides without z."""

    estimator: Any
    estimator_: Any

    def predict(self, X: Any) -> Any:
        """Predict the class of each row of ``X`` (n, d); the sensitive attribute is not needed."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @available_if(wraps_one_with("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Predict the probability (n, 2) of each class."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(wraps_one_with("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the score (n,) of each row; positive for ``classes_[1]``."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def _set_classes(self, classes: np.ndarray) -> None:
        """Keep the classes, given with the favourable one second, in the order of the wrapped classifier."""
        self.classes_, self.favourable_ = np.sort(classes), classes[1]

    @property
    def n_features_in_(self) -> int:
        """Number of features seen by the wrapped classifier."""
        return self._of_estimator("n_features_in_")

    @property
    def feature_names_in_(self) -> Any:
        """Names of the features seen by the wrapped classifier."""
        return self._of_estimator("feature_names_in_")

    def _of_estimator(self, attribute: str) -> Any:
        if not hasattr(self, "estimator_"):
            raise AttributeError(f"{type(self).__name__} has no {attribute}: it is not fitted yet.")
        return getattr(self.estimator_, attribute)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags


@dataclass(frozen=True)
class RankedPeople(LabelledGroups):
    """People as a ranker sees them: with its score (n,), and the share of the way to independence to go."""

    score: np.ndarray
    strength: float


class RankingClassifier(PreparedClassifier):
    """Base of the methods that change the people whom a ranker puts nearest to its decision boundary."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        avoids_disparate_treatment=True,
        avoids_disparate_impact=True,
        business_necessity=False,
        polyvalent=True,
        multiple=True,
        classifiers="Any score-based",
        needs_z_at_prediction=False,
        extensions=("polyvalent", "multiple"),
    )

    def __init__(self, estimator: Any, *, strength: float = 1.0, ranker: Any = None, pos_label: Any = None) -> None:
        self.estimator = estimator
        self.strength = strength
        self.ranker = ranker
        self.pos_label = pos_label

    def _rank(self, X: Any, y: Any, sensitive_features: Any) -> RankedPeople:
        """Check the arguments of ``fit``, train the ranker and return what it makes of the people."""
        strength = check_share(self.strength, "strength")
        people = self._read_people(X, y, sensitive_features)
        self.ranker_ = clone(self.estimator if self.ranker is None else self.ranker).fit(X, y)
        score = scores_of(self.ranker_, X, people.classes[1], method=type(self).__name__)
        return RankedPeople(**vars(people), score=score, strength=strength)


class ScoredClassifier(ComparedClassifier):
    """Base of the classifiers that decide by the sign of ``decision_function(X)``, without z."""

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the score (n,) of each row; at least zero for ``classes_[1]``."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class (n,) of each row of ``X`` (n, d); the sensitive attribute is not needed."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) >= 0).astype(np.intp)]


class LinearClassifier(ScoredClassifier):
    """Base of the linear ones among them: ``fit`` sets ``coef_`` (1, d) and ``intercept_`` (1,)."""

    coef_: np.ndarray
    intercept_: np.ndarray

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores (n,) ``w.x + b``."""
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False) @ self.coef_[0] + self.intercept_[0]


class AwareClassifier(ComparedClassifier):
    """Base of the classifiers that need z to decide; ``decision_function`` are log-odds."""

    _groups: Groups

    def _know(self, people: LabelledGroups) -> None:
        """Keep the classes and the groups of the people trained on."""
        self.classes_, self.sensitive_values_, self._groups = people.classes, people.groups.values, people.groups

    def _encode_groups(self, sensitive_features: Any, X: Any) -> np.ndarray:
        """Return the group (n,) of each row of new data."""
        return self._groups.encode(sensitive_features, X, method=f"{type(self).__name__}, to decide,")

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return the log-odds (n,) of ``classes_[1]``, given the value of the sensitive attribute."""
        raise NotImplementedError

    def predict(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Predict the class (n,) of each row of ``X`` (n, d), given its value of the sensitive attribute."""
        check_is_fitted(self)
        score = self.decision_function(X, sensitive_features=sensitive_features)
        return self.classes_[(score >= 0).astype(np.intp)]

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Predict the probability (n, 2) of each class, given the value of the sensitive attribute."""
        return probabilities(self.decision_function(X, sensitive_features=sensitive_features))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> float:
        """Return the accuracy of the predictions for ``X`` (n, d)."""
        check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        predicted = self.predict(X, sensitive_features=sensitive_features)
        return accuracy_score(y, predicted, sample_weight=sample_weight)
