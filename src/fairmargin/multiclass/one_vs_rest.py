"""Several classes by one fair classifier per class against all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fairmargin.base import FairClassifier
from fairmargin.inputs import check_container, check_same_order
from fairmargin.linear import FairLinearSVC
from fairmargin.misspelled import names_arguments
from fairmargin.multiclass.labels import decide, read_labels
from fairmargin.problem import Certificate
from fairmargin.validation import ONE_AT_A_TIME, validate_features

__all__ = ["FairOneVsRestClassifier"]

Array = NDArray[np.float64]


class FairOneVsRestClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """One fair binary classifier per class, which decides it against all others; the highest score decides.

    This is how support vector machines, kernels and trees take several classes. Each classifier is fitted under its
    own constraint and has its own certificate; the decision among the classes compares their scores.

    Parameters
    ----------
    estimator : fair classifier, default=FairLinearSVC()
        Of this package, for two classes.
    constraints : mapping from class to constraint, optional
        Constraints of single classes, in place of the estimator's own; None in the mapping leaves a class without.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        In sorted order. Of equal scores the earlier class is decided.
    estimators_ : list of fitted classifiers, one per class; of two classes one, for the second
    certificates_ : dict of Certificate by class
    covariance_ : pandas.DataFrame
        Decision boundary covariance by attribute and category (rows) and class (columns); None without sensitive
        features.
    n_features_in_ : int

    See Also
    --------
    FairMultinomialLogisticRegression : One convex problem for all classes.

    Examples
    --------
    >>> import numpy as np
    >>> from fairmargin import CovarianceBound, FairLinearSVC, FairOneVsRestClassifier
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["f", "m"], 200)
    >>> X = rng.normal(size=(200, 3)) + (sex == "m")[:, None]
    >>> job = np.array(["clerk", "manager", "sales"])[np.argmax(X + rng.normal(size=(200, 3)), axis=1)]
    >>> bounds = {"manager": CovarianceBound(0.0), "clerk": None, "sales": None}
    >>> clf = FairOneVsRestClassifier(FairLinearSVC(), constraints=bounds).fit(X, job, sensitive_features=sex)
    >>> bool(abs(clf.covariance_["manager"]).max() < 1e-9)
    True
    """

    # Sensitive features are what fit is about: route them here unless set otherwise.
    __metadata_request__fit = {"sensitive_features": True, "strata": True}  # noqa: RUF012

    def __init__(self, estimator: Any = None, *, constraints: Any = None) -> None:
        self.estimator = estimator
        self.constraints = constraints

    @names_arguments
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None, strata: Any = None
    ) -> Any:
        """Learn one classifier per class.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)
        y : array of shape (n,)
            Labels of two or more classes.
        sample_weight : array of shape (n,), optional
        sensitive_features : array, series or frame of shape (n,) or (n, k)
            Sensitive attributes: used here and never in deciding.
        strata : array, series or frame of shape (n,) or (n, k), optional
            Groups are compared among the people of each stratum only.
        """
        base = FairLinearSVC() if self.estimator is None else self.estimator
        if not isinstance(base, FairClassifier):
            raise ValueError(
                f"estimator must be a fair classifier of this package for two classes, got {base!r}; for any other "
                "one scikit-learn has OneVsRestClassifier."
            )
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        check_container(y, "y")
        check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight, strata=strata)
        self.__dict__.pop("estimators_", None)
        validate_features(self, X, reset=True)
        with ONE_AT_A_TIME:
            labels = column_or_1d(y, warn=True)
        self.classes_, codes = read_labels(labels)
        constraints = self._constraints(base)
        estimators = []
        for q in range(len(self.classes_)) if len(self.classes_) > 2 else (1,):
            binary = clone(base).set_params(constraint=constraints[q], pos_label=None)
            given = {"sample_weight": sample_weight, "strata": strata}
            extra = {name: values for name, values in given.items() if values is not None}
            target = (codes == q).astype(int)
            estimators.append(binary.fit(X, target, sensitive_features=sensitive_features, **extra))
        self.estimators_ = estimators
        return self

    def _constraints(self, base: Any) -> list[Any]:
        given = {} if self.constraints is None else self.constraints
        labels = self.classes_.tolist()
        if not isinstance(given, Mapping):
            raise ValueError(f"constraints must be None or a mapping from class to constraint, got {given!r}.")
        for label in given:
            if label not in labels:
                known = ", ".join(map(repr, labels))
                raise ValueError(f"constraints names the class {label!r}, which does not occur; they are {known}.")
        return [given.get(label, base.constraint) for label in labels]

    @property
    def certificates_(self) -> dict[Any, Certificate]:
        """The proof of each classifier, by class."""
        check_is_fitted(self)
        return {label: e.certificate_ for label, e in zip(self._labels(), self.estimators_, strict=True)}

    @property
    def covariance_(self) -> pd.DataFrame | None:
        """Decision boundary covariances: classes are the columns."""
        check_is_fitted(self)
        if self.estimators_[0].covariance_ is None:
            return None
        return pd.DataFrame({label: e.covariance_ for label, e in zip(self._labels(), self.estimators_, strict=True)})

    def _labels(self) -> list[Any]:
        labels = self.classes_.tolist()
        return labels if len(labels) > 2 else labels[1:]

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes, (n, n_classes); of two, that of the second, (n,)."""
        check_is_fitted(self)
        scores = [e.decision_function(X) for e in self.estimators_]
        return scores[0] if len(scores) == 1 else np.column_stack(scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the highest score; of two classes the second where its score is at least 0."""
        scores = self.decision_function(X)
        return self.classes_[decide(scores) if scores.ndim == 2 else (scores >= 0).astype(int)]

    def _has_probabilities(self) -> bool:
        base = FairLinearSVC() if self.estimator is None else self.estimator
        return hasattr(base, "predict_proba")

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Return the classifiers' probabilities, scaled to sum up to 1, (n, n_classes)."""
        check_is_fitted(self)
        each = np.column_stack([e.predict_proba(X)[:, 1] for e in self.estimators_])
        if each.shape[1] == 1:
            return np.column_stack([1.0 - each, each])
        total = each.sum(axis=1, keepdims=True)
        return np.divide(each, total, out=np.full_like(each, 1.0 / each.shape[1]), where=total > 0)

    def __sklearn_is_fitted__(self) -> bool:
        """A fit that failed leaves the estimator unfitted."""
        return hasattr(self, "estimators_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
