"""The fair kernel machine as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fairmargin.base import FairClassifier, document
from fairmargin.caller import warn
from fairmargin.constraints import Constraint, CovarianceBound, CovariancePenalty
from fairmargin.exceptions import ApproximationWarning
from fairmargin.formulations import Outcome, Task
from fairmargin.kernel.certificate import Evaluation, certify
from fairmargin.kernel.cholesky import PartialCholesky
from fairmargin.kernel.matrix import Gram, Kernel, PrecomputedGram
from fairmargin.kernel.parameters import KernelParameters, tag_inputs, warn_of_rank
from fairmargin.kernel.refinement import refine
from fairmargin.kernel.span import Span
from fairmargin.losses import Loss, get_loss
from fairmargin.problem import Certificate
from fairmargin.several import Several
from fairmargin.validation import TrainingData, validate_features

__all__ = ["FairSVC"]

Array = NDArray[np.float64]

_REFINED = 5000  # rows up to which a fit is refined by default
_REFINED_RANK = 64  # landmarks to begin with where refinement does the rest
_RANK = 400  # and where it does not


@document
class FairSVC(FairClassifier):
    """Support vector machine with a kernel, or another kernel machine, under fairness constraints.

    Minimises ``C sum_i s_i loss(y_i (f(x_i) + b)) + 1/2 ||f||^2`` over functions ``f`` of the kernel's space
    subject to what ``constraint`` asks. Without constraint it is the classifier of ``sklearn.svm.SVC``.

    Up to 5,000 rows (``refine="auto"``) the result is within ``approximation_tol`` of the optimum with the full
    kernel, which ``certificate_`` proves, and a decision evaluates the kernel against every row with a coefficient,
    as in an SVC. For more rows, or if ``max_rank`` is given, only functions of the landmarks are considered. Training
    and prediction are then much faster, and ``certificate_`` proves optimality among these functions. Memory is
    proportional to rows times rank.

    ``certificate_`` is computed from the function that predicts: the losses from its scores on the training rows, the
    penalty as ``1/2 dual_coef_ K dual_coef_'``. If ``refined_``, the status is ``"solved"`` when the relative gap is
    at most ``max(approximation_tol, tol) + tol``. Otherwise it is ``"solved"`` when the solver reached its tolerance
    and predictions equal its scores up to rounding. Any other status comes with a warning.

    ``C=inf`` drops the penalty, and then no part of the kernel may be neglected. It is accepted if the rank of the
    kernel matrix is below 400 and below the number of rows, or if ``max_rank`` is given. Other kernels, such as rbf,
    fit any labels of distinct rows without a penalty, so that there is no best classifier; they raise a
    ``ValueError``.

    Parameters
    ----------
    {parameters}
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable, default="rbf"
        A callable takes two matrices and returns the matrix of the kernel between their rows.
    degree : float, default=3
    gamma : "scale", "auto" or float, default="scale"
        "scale" is 1 over the number of features times the variance of X, weighted by ``sample_weight``.
    coef0 : float, default=0.0
        Parameters of the kernels, as in ``sklearn.svm.SVC``.
    loss : str or Loss, default="hinge"
        Any loss of the package; ``"logistic"`` gives ``predict_proba``.
    approximation_tol : float, default=1e-3
        Accuracy of the approximation of the kernel: relative error of the trace at which to stop adding
        landmarks, and relative duality gap to the optimum with the full kernel at which to stop refining.
    max_rank : int or None, default=None
        Largest number of landmarks. None takes up to 64 where the fit is refined, and up to 400 otherwise.
    refine : bool or "auto", default="auto"
        Whether to continue from the landmarks to the optimum with the full kernel. This takes about N^2 / 2
        kernel evaluations, which are kept in memory up to 5,792 rows (128 MB); for more rows it takes a few times
        N^2, and no memory for them. "auto" refines if ``max_rank`` is None and there are at most 5,000 rows.
    indefinite : {"error", "clip"}, default="error"
        How to treat a kernel that is not an inner product: raise an error, or use its positive part.
    random_state : int, RandomState or None, default=0
        Landmarks are drawn at random; an int makes the draw repeatable, whatever the order of the rows (for a
        precomputed kernel matrix, in the given order).

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Indices of the training rows against which decisions evaluate the kernel: the landmarks and, if refined, all
        rows with a coefficient.
    support_vectors_ : (n_support, n_features)
        These rows of X; empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (1, n_support)
        The score is ``k(x, support_vectors_) @ dual_coef_[0] + intercept_[0]``.
    intercept_ : ndarray of shape (1,)
    rank_ : int
        Number of features on which the problem was solved.
    landmarks_ : ndarray of shape (m,)
        Indices of the landmarks.
    approximation_error_ : float
        Share of the trace of the kernel matrix that the landmarks leave out.
    refined_ : bool
        Whether ``certificate_`` is about the full kernel. Constraints other than bounds on covariances are solved on
        a span that was refined without a constraint and for zero covariance; ``certificate_`` then proves optimality
        on that span.
    {attributes}

    See Also
    --------
    FairLinearSVC : The linear classifier, much faster on many rows.
    KernelFeatures : The approximation of the kernel as a transformer.

    Examples
    --------
    >>> from fairmargin import CovarianceBound, FairSVC
    >>> from fairmargin.datasets import make_nonlinear_synthetic
    >>> X, y, z = make_nonlinear_synthetic(500, random_state=0)
    >>> clf = FairSVC(loss="logistic", constraint=CovarianceBound(0.0)).fit(X, y, sensitive_features=z)
    >>> bool(abs(clf.covariance_).max() < 1e-9 and clf.certificate_.gap < 2e-3)
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        loss: str | Loss = "hinge",
        constraint: Any = CovarianceBound,
        fit_intercept: bool = True,
        class_weight: Any = None,
        pos_label: Any = None,
        approximation_tol: float = 1e-3,
        max_rank: int | None = None,
        refine: bool | str = "auto",
        indefinite: str = "error",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.loss = loss
        self.constraint = constraint
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.approximation_tol = approximation_tol
        self.max_rank = max_rank
        self.refine = refine
        self.indefinite = indefinite
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _loss(self) -> Loss:
        return get_loss(self.loss)

    def _feature_map(self, data: TrainingData) -> Span:
        """Return the span of the landmarks."""
        parameters = KernelParameters.of(self, self.approximation_tol, "approximation_tol")
        gram = parameters.gram(data.X, data.kept, data.n_given, data.people_weight)
        refines = self._refines(parameters, len(gram))
        gram = replace(gram, keep=refines) if isinstance(gram, Gram) else gram
        limit = min(parameters.max_rank or (_REFINED_RANK if refines else _RANK), len(gram))
        if parameters.max_rank is None and np.isinf(self.C):
            return Span.of_landmarks(gram, self._whole_kernel(parameters, gram, limit))
        found = parameters.factorise(gram, parameters.tol, limit)
        if not refines:
            remedy = "raise max_rank, or set refine=True for the optimum with the full kernel"
            warn_of_rank(found, parameters.tol, remedy)
        return Span.of_landmarks(gram, found)

    def _refines(self, parameters: KernelParameters, n: int) -> bool:
        if not (isinstance(self.refine, bool | np.bool_) or self.refine == "auto"):
            raise ValueError(f"refine must be True, False or 'auto', got {self.refine!r}.")
        possible = not parameters.clip and bool(np.isfinite(self.C))
        if self.refine == "auto":
            return possible and parameters.max_rank is None and n <= _REFINED
        if self.refine and not possible:
            raise ValueError(
                "refine=True needs a finite C and a kernel that is an inner product (indefinite='error')."
            )
        return bool(self.refine)

    def _whole_kernel(
        self, parameters: KernelParameters, gram: Gram | PrecomputedGram, limit: int
    ) -> PartialCholesky:
        """Return features that represent the kernel exactly, for a problem without a penalty.

        Dropping a direction is cheap only where using it is penalised. A kernel matrix of full rank fits any labels,
        so that no classifier is best.
        """
        strict = gram.kernel is not None and gram.kernel.is_strictly_positive
        found = None if strict else parameters.factorise(gram, 0.0, limit)
        if found is None or found.features.shape[1] >= limit:
            rank = "full rank" if found is None or limit == len(gram) else f"a rank of at least {limit}"
            raise ValueError(
                "C=inf drops the penalty, and without it no part of the kernel can be neglected and a kernel of full "
                f"rank fits any labels; this kernel has {rank} on {len(gram)} rows. Set a finite C, or max_rank to "
                "choose among the functions of that many landmarks."
            )
        return found

    def _refine(self, task: Task, constraint: Constraint | None, path: bool = False) -> Task:
        """Add directions to the span until the optimum over it is near the optimum with the full kernel.

        For a path, that holds at both of its ends, without the constraint and under it. Constraints other than
        bounds or prices on covariances have no multipliers that could guide the refinement. Their span is refined
        without a constraint and for zero covariance, since their classifiers lie between these two.
        """
        span = task.feature_map
        assert isinstance(span, Span)
        parameters = KernelParameters.of(self, self.approximation_tol, "approximation_tol")
        if not self._refines(parameters, len(span.gram)):
            return task
        if _guides(constraint):
            return refine(task, constraint, parameters.tol, both=path)
        task = refine(task, CovarianceBound(0.0), parameters.tol, both=True)
        assert isinstance(task.feature_map, Span)
        # Judged on the span alone, and so solved to the accuracy asked for, not as far as the span was refined.
        return replace(task, feature_map=replace(task.feature_map, refined=False), tol=self.tol)

    def _store_function(self, task: Task, outcome: Outcome) -> tuple[Array, Certificate]:
        span, kept = task.feature_map, task.data.kept
        assert isinstance(span, Span)
        beta, b = task.coefficients(outcome.solution)
        used = np.flatnonzero(beta)
        self.support_ = kept[used]
        self.dual_coef_ = beta[used][None, :]
        self.intercept_ = np.array([b])
        self.rank_ = span.features.shape[1]
        self.landmarks_ = kept[span.found.landmarks]
        self.approximation_error_ = span.found.error
        self.refined_ = span.refined
        self._kernel: Kernel | None = span.gram.kernel
        self.support_vectors_ = span.gram.vectors(used)
        seen = Evaluation.of(task, outcome.solution, beta)
        scores = seen.function.values + b
        asked = max(self.approximation_tol, self.tol) + self.tol if span.refined else self.tol
        proof = certify(task, outcome, seen, scores, asked)
        if proof.status != outcome.solution.certificate.status:
            self._warn_of_gap(proof, asked)
        return scores, proof

    def _proof_to_warn_of(self, outcome: Outcome) -> Certificate:
        return outcome.solution.certificate  # what the kernel's approximation adds has a warning of its own

    def _warn_of_gap(self, proof: Certificate, asked: float) -> None:
        what = "the full kernel" if self.refined_ else "the landmarks"
        warn(
            f"The classifier is not proved optimal for {what}: its objective has a relative duality gap of "
            f"{proof.gap:.1e}, where {asked:.1e} was asked, and constraints are met up to {proof.violation:.1e}. The "
            "kernel matrix is too close to singular for this penalty; lower C, or scale the features.",
            ApproximationWarning,
        )

    def decision_function(self, X: Any) -> Array:
        """Return the scores ``f(x) = k(x, support_vectors_) @ dual_coef_[0] + intercept_[0]``, shape (n,).

        For a precomputed kernel, ``X`` has one column per training row.
        """
        check_is_fitted(self)
        X = validate_features(self, X)
        if self._kernel is None:
            return np.asarray(X[:, self.support_] @ self.dual_coef_[0], dtype=np.float64) + self.intercept_[0]
        return self._kernel.apply(X, self.support_vectors_, self.dual_coef_[0]) + self.intercept_[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tag_inputs(tags, self.kernel)
        return tags


def _guides(constraint: Constraint | None) -> bool:
    """Whether the solutions under a constraint have multipliers that can guide the refinement."""
    parts = constraint.constraints if isinstance(constraint, Several) else [constraint]
    return all(one is None or isinstance(one, CovarianceBound | CovariancePenalty) for one in parts)
