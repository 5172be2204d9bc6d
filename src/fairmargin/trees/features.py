"""Trees as features: the leaves of an ensemble as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from fairmargin.inputs import check_container
from fairmargin.trees.adapters import fit_ensemble, is_frozen, unfreeze
from fairmargin.trees.forest import Forest
from fairmargin.trees.patterns import indicators
from fairmargin.validation import ONE_AT_A_TIME, check_flag

__all__ = ["LeafFeatures", "default_ensemble", "tag_inputs", "validate_rows"]


class LeafFeatures(TransformerMixin, BaseEstimator):
    """Indicators of the leaves of a tree ensemble, as a sparse matrix.

    Each tree puts a row into one of its leaves. The features are one indicator per leaf of every tree, so that a row
    has as many ones as there are trees, and a linear classifier on them is a tree ensemble whose leaf values are its
    coefficients. :class:`FairTreeClassifier` learns those under fairness constraints; use this transformer to build
    your own pipelines. It is not told the sensitive attributes, so that only :class:`FairTreeClassifier` notices one
    among the columns of ``X`` (the step after it sees leaves): leave these columns out.

    Parameters
    ----------
    estimator : classifier, default=None
        The ensemble: of scikit-learn (histogram gradient boosting, random forest, extra trees, gradient boosting, or
        a single tree), LightGBM, XGBoost or CatBoost, or a pipeline that ends in one. None stands for
        ``HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15)``.
    prefit : bool, default=False
        Whether ``estimator`` is fitted already. Otherwise ``fit`` fits a copy of it, which needs ``y``. In
        cross-validation and searches, give ``sklearn.frozen.FrozenEstimator(estimator)`` instead, which stands for a
        fitted one whatever ``prefit`` is: the copies that are made there keep its trees.

    Attributes
    ----------
    estimator_ : classifier
        The fitted ensemble.
    n_leaves_ : int
        Number of features.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X had string column names

    See Also
    --------
    FairTreeClassifier : Learns fair values of these leaves.

    Examples
    --------
    >>> from fairmargin import LeafFeatures
    >>> from fairmargin.datasets import make_nonlinear_synthetic
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y, _ = make_nonlinear_synthetic(500, random_state=0)
    >>> features = LeafFeatures(RandomForestClassifier(10, max_leaf_nodes=8, random_state=0)).fit_transform(X, y)
    >>> features.shape, features.nnz
    ((500, 80), 5000)
    """

    def __init__(self, estimator: Any = None, *, prefit: bool = False) -> None:
        self.estimator = estimator
        self.prefit = prefit

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LeafFeatures:
        """Fit the ensemble, unless it is fitted already.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)
            As the ensemble takes it, missing values and categories included.
        y : array of shape (n,)
            Labels. Not needed if ``prefit``.
        sample_weight : array of shape (n,), optional
        """
        prefit = check_flag(self.prefit, "prefit") or is_frozen(self.estimator)
        if y is None and not prefit:
            raise ValueError(
                "LeafFeatures requires y to be passed, but the target y is None: trees are grown to predict it."
            )
        X = validate_rows(self, X, reset=True)
        ensemble = default_ensemble() if self.estimator is None else unfreeze(self.estimator)
        fitted = ensemble if prefit else fit_ensemble(ensemble, X, y, sample_weight)
        self._forest = Forest([fitted])
        self.estimator_ = fitted
        self.n_leaves_ = self._forest.n_leaves
        return self

    def transform(self, X: Any) -> Any:
        """Return the indicators of the leaves of rows, a CSR matrix of shape ``(n, n_leaves_)``."""
        check_is_fitted(self)
        return indicators(self._forest.columns(validate_rows(self, X)), self.n_leaves_)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names ``tree<t>_leaf<l>``."""
        check_is_fitted(self)
        sizes = self._forest.sizes
        return np.array([f"tree{t}_leaf{k}" for t, size in enumerate(sizes) for k in range(size)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = not (self.prefit or is_frozen(self.estimator))
        tag_inputs(tags, self.estimator)
        return tags


def default_ensemble() -> Any:
    """Return the ensemble that None stands for: few small trees, because leaf values are learned together."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, early_stopping=False, random_state=0)


def validate_rows(estimator: Any, X: Any, *, reset: bool = False) -> Any:
    """Return rows for an ensemble: frames, matrices and arrays as they are, lists as arrays.

    Number and names of the columns are checked (fixed, if ``reset``); the ensemble checks their content.
    """
    check_container(X, "X")
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(
            f"Expected 2D array, got {len(X.shape)}D array instead. Reshape your data: X must have one row per "
            "person and one column per feature."
        )
    with ONE_AT_A_TIME:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X


def tag_inputs(tags: Any, ensemble: Any) -> None:
    """Declare the inputs that the ensemble takes."""
    if isinstance(ensemble, type):
        return
    try:
        theirs = get_tags(default_ensemble() if ensemble is None else ensemble).input_tags
    except (AttributeError, TypeError):  # not an estimator: fit says so
        return
    tags.input_tags.sparse = theirs.sparse
    tags.input_tags.allow_nan = theirs.allow_nan
