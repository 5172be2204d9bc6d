"""Kernels as features: the factorisation as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fairmargin.kernel.parameters import KernelParameters, tag_inputs, warn_of_rank
from fairmargin.validation import validate_features

__all__ = ["KernelFeatures"]

Array = NDArray[np.float64]


class KernelFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features whose inner products approximate a kernel, by partial Cholesky factorisation.

    ``transform(X) @ transform(Y).T`` is ``k(X, Y)`` up to a relative error of the trace over the training rows of at
    most ``tol``. It replaces ``sklearn.kernel_approximation.Nystroem``. The differences: you set the error instead of
    the number of features, landmarks are chosen where they help most instead of uniformly, and the error reached is
    reported.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable, default="rbf"
        A callable takes two matrices and returns the matrix of the kernel between their rows.
    gamma : "scale", "auto" or float, default="scale"
    degree : float, default=3
    coef0 : float, default=0.0
        Parameters of the kernels, as in ``sklearn.svm.SVC``.
    tol : float, default=1e-2
        Relative error of the trace at which to stop.
    max_rank : int or None, default=1000
        Number of features at which to stop with a warning; None for no limit.
    indefinite : {"error", "clip"}, default="error"
        How to treat a kernel that is not an inner product: raise an error, or use its positive part.
    random_state : int, RandomState or None, default=0
        Landmarks are drawn at random; an int makes the draw repeatable.

    Attributes
    ----------
    landmarks_ : ndarray of shape ``(m, n_features_in_)``
        Training rows against which the kernel is evaluated.
    landmark_indices_ : ndarray of shape (m,)
        The indices of these rows.
    basis_ : ndarray of shape ``(m, rank_)``
        ``transform(X)`` is ``k(X, landmarks_) @ basis_``.
    rank_ : int
        Number of features.
    approximation_error_ : float
        Share of the trace that is left out.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X had string column names

    See Also
    --------
    FairSVC : A classifier on these features, with a certificate.
    sklearn.kernel_approximation.Nystroem : Landmarks chosen at random.

    Examples
    --------
    >>> from fairmargin import KernelFeatures
    >>> from fairmargin.datasets import make_nonlinear_synthetic
    >>> X, _, _ = make_nonlinear_synthetic(500, random_state=0)
    >>> features = KernelFeatures(tol=0.01).fit(X)
    >>> bool(features.approximation_error_ <= 0.01 and features.rank_ < 50)
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        tol: float = 1e-2,
        max_rank: int | None = 1000,
        indefinite: str = "error",
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_rank = max_rank
        self.indefinite = indefinite
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> KernelFeatures:
        """Choose landmarks among the rows of ``X``."""
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Choose landmarks and return the features of ``X``."""
        return self._fit(X)

    def _fit(self, X: Any) -> Array:
        parameters = KernelParameters.of(self, self.tol, "tol")
        X = validate_features(self, X, reset=True)
        n = X.shape[0]
        gram = parameters.gram(X, np.arange(n), n, np.ones(n))
        found = parameters.factorise(gram, parameters.tol, parameters.max_rank or n)
        warn_of_rank(found, parameters.tol, "raise max_rank or tol")
        self.landmark_indices_ = found.landmarks
        self.landmarks_ = X[found.landmarks]
        self.basis_ = found.basis
        self.rank_ = found.features.shape[1]
        self.approximation_error_ = found.error
        self._kernel = gram.kernel
        return found.features

    def transform(self, X: Any) -> Array:
        """Return the features of the rows of ``X``, shape ``(n, rank_)``.

        For a precomputed kernel, ``X`` has one column per training row.
        """
        check_is_fitted(self)
        X = validate_features(self, X)
        if self._kernel is None:
            return np.asarray(X[:, self.landmark_indices_] @ self.basis_, dtype=np.float64)
        return self._kernel.apply(X, self.landmarks_, self.basis_)

    @property
    def _n_features_out(self) -> int:
        return self.rank_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tag_inputs(tags, self.kernel)
        return tags
