"""Linear fair classifiers: the score is ``f(x) = w.x + b``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fairmargin.base import FairClassifier, document
from fairmargin.constraints import CovarianceBound
from fairmargin.design import DenseDesign
from fairmargin.formulations import Outcome, Task, certify_function
from fairmargin.inputs import is_dask_frame
from fairmargin.losses import Loss, get_loss
from fairmargin.problem import Certificate
from fairmargin.validation import validate_features

__all__ = ["FairLinearSVC", "FairLogisticRegression", "FairMarginClassifier"]

Array = NDArray[np.float64]


class _FairLinear(FairClassifier):
    """What the linear classifiers share: coefficients and the score."""

    takes_codes = True  # categorical columns need not be written out

    def _store_function(self, task: Task, outcome: Outcome) -> tuple[Array, Certificate]:
        w, b = task.coefficients(outcome.solution)
        self.coef_ = w[None, :]
        self.intercept_ = np.array([b])
        scores = outcome.solution.scores if _are_predictions(task, outcome) else self._scores(task.data.X)
        return scores, certify_function(task, outcome, float(w @ w), scores)

    def _scores(self, X: Any) -> Array:
        return np.asarray(X @ self.coef_[0] + self.intercept_[0], dtype=float)

    def _fit_dask(self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any) -> Any:
        from fairmargin.partitioned.dask_frames import fit_frames

        return fit_frames(self, X, y, sample_weight, sensitive_features)

    def decision_function(self, X: Any) -> Array:
        """Return the scores ``f(x) = w.x + b``, shape (n,); of a Dask frame, a Dask series."""
        check_is_fitted(self)
        if is_dask_frame(X):
            return self._on_partitions("decision_function", X)
        return self._scores(validate_features(self, X))


def _are_predictions(task: Task, outcome: Outcome) -> bool:
    """Whether the scores of a solution are, to the last bit, those that its coefficients give for the same matrix."""
    design, status = task.problem.design, outcome.solution.certificate.status
    is_same = isinstance(design, DenseDesign) and design.X is task.data.X and design.X.dtype == np.float64
    return outcome.is_as_solved and status == "solved" and is_same


@document
class FairLogisticRegression(_FairLinear):
    """Logistic regression under fairness constraints.

    Minimises ``C sum_i s_i log(1 + exp(-y_i f(x_i))) + 1/2 ||w||^2`` subject to ``constraint``.
    Under convex constraints ``certificate_`` proves the result optimal, within ``tol``. ``PRuleBound`` is a search,
    and the certificate bounds the loss against the best classifier without a constraint.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Weights ``w`` of the score ``f(x) = w.x + b``.
    intercept_ : ndarray of shape (1,)
        Intercept ``b`` of the score.
    {attributes}

    See Also
    --------
    FairLinearSVC : The same with the hinge loss.
    FairTreeClassifier : The same on the leaves of a tree ensemble.
    FairnessFrontier : The whole trade-off.

    Examples
    --------
    >>> from fairmargin import CovarianceBound, FairLogisticRegression
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(random_state=0)
    >>> clf = FairLogisticRegression(constraint=CovarianceBound(0.0)).fit(X, y, sensitive_features=z)
    >>> bool(abs(clf.covariance_).max() < 1e-12)
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        constraint: Any = CovarianceBound,
        fit_intercept: bool = True,
        class_weight: Any = None,
        pos_label: Any = None,
        tol: float = 1e-9,
        max_iter: int = 200,
    ) -> None:
        self.C = C
        self.constraint = constraint
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.tol = tol
        self.max_iter = max_iter

    def _loss(self) -> Loss:
        return get_loss("logistic")


@document
class FairLinearSVC(_FairLinear):
    """Linear support vector machine under fairness constraints.

    Minimises ``C sum_i s_i max(0, 1 - y_i f(x_i)) + 1/2 ||w||^2`` subject to ``constraint``. The hinge
    loss is not smoothed and the intercept is not penalised, as in ``sklearn.svm.SVC(kernel="linear")``.

    Parameters
    ----------
    {parameters}
    loss : {"hinge", "squared_hinge"}, default="hinge"

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Weights ``w`` of the score ``f(x) = w.x + b``.
    intercept_ : ndarray of shape (1,)
        Intercept ``b`` of the score.
    {attributes}

    See Also
    --------
    FairLogisticRegression : The same with the logistic loss, and with probabilities.
    FairSVC : The same with kernels.

    Examples
    --------
    >>> from fairmargin import CovarianceBound, FairLinearSVC
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(1000, random_state=0)
    >>> clf = FairLinearSVC(constraint=CovarianceBound(0.1)).fit(X, y, sensitive_features=z)
    >>> clf.certificate_.status
    'solved'
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "hinge",
        constraint: Any = CovarianceBound,
        fit_intercept: bool = True,
        class_weight: Any = None,
        pos_label: Any = None,
        tol: float = 1e-9,
        max_iter: int = 200,
    ) -> None:
        self.C = C
        self.loss = loss
        self.constraint = constraint
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.tol = tol
        self.max_iter = max_iter

    def _loss(self) -> Loss:
        if self.loss not in ("hinge", "squared_hinge"):
            raise ValueError(f"loss must be 'hinge' or 'squared_hinge', got {self.loss!r}.")
        return get_loss(self.loss)


@document
class FairMarginClassifier(_FairLinear):
    """Linear classifier with any convex margin loss, under fairness constraints.

    Minimises ``C sum_i s_i loss(y_i f(x_i)) + 1/2 ||w||^2`` subject to ``constraint``.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"squared_hinge"``, ``"smoothed_hinge"`` or an instance of a subclass of
        :class:`fairmargin.losses.Loss`.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Weights ``w`` of the score ``f(x) = w.x + b``.
    intercept_ : ndarray of shape (1,)
        Intercept ``b`` of the score.
    {attributes}

    See Also
    --------
    FairLogisticRegression : With the logistic loss and probabilities.
    FairLinearSVC : With the hinge loss.

    Examples
    --------
    >>> from fairmargin import FairMarginClassifier, LossBound
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(1000, random_state=0)
    >>> clf = FairMarginClassifier(loss="smoothed_hinge", constraint=LossBound(0.05)).fit(X, y, sensitive_features=z)
    >>> bool(clf.loss_increase_ <= 0.05 + 1e-6)
    True
    """

    def __init__(
        self,
        loss: str | Loss = "logistic",
        C: float = 1.0,
        *,
        constraint: Any = CovarianceBound,
        fit_intercept: bool = True,
        class_weight: Any = None,
        pos_label: Any = None,
        tol: float = 1e-9,
        max_iter: int = 200,
    ) -> None:
        self.loss = loss
        self.C = C
        self.constraint = constraint
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.tol = tol
        self.max_iter = max_iter

    def _loss(self) -> Loss:
        return get_loss(self.loss)
