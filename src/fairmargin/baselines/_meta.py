"""A classifier that prepares the training data and then leaves everything to another classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

__all__ = ["PreparedClassifier"]


def _has(method: str) -> Callable[[Any], bool]:
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), method)


class PreparedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Base of the pre-processing methods: ``fit`` sets ``estimator_``, which decides without z."""

    estimator: Any
    estimator_: Any

    def predict(self, X: Any) -> Any:
        """Predict the class of each row of ``X`` (n, d); the sensitive attribute is not needed."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Predict the probability (n, 2) of each class."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the score (n,) of each row; positive for ``classes_[1]``."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

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
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags
