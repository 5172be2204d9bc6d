"""Fair kernel machines: kernels become features, and the linear engine does the rest.

The problem, in the space H of the kernel with ``phi(x) = k(x, .)``, is

    min  1/2 |f|^2 + C sum_i s_i loss(y_i (f(x_i) + b))   subject to what the constraint asks,

and is solved over a span of functions: an orthonormal basis of it makes features ``F`` (N, r), in which ``f`` is
linear and has the norm of its coefficients, so that every loss and constraint works as for linear classifiers.
The span begins with the landmarks of a partial Cholesky factorisation (:mod:`fairmargin.cholesky`).

**Refinement.** Stationarity says what is missing. With multipliers ``alpha`` of the people and ``nu`` of the
covariances, the optimum over the whole of H is

    f = sum_i beta_i phi(x_i),   beta_i = alpha_i y_i - sum_k nu_k s_i (z_ik - zbar_k) / S,

and the optimum over a span is the projection ``P f`` of that. The part outside, ``(I - P) f``, is one more
function for the span, and half its squared norm is exactly what the dual bound over the whole of H is below that
over the span. So each round adds this one direction, solves again from where it was, and knows how far it is from the
optimum with the full kernel. The expansion of ``f`` has everybody in it who has a ``beta_i``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from fairmargin.base import FairClassifier, document
from fairmargin.cholesky import PartialCholesky, check_positive, factorise, positive_part
from fairmargin.constraints import Constraint, CovarianceBound
from fairmargin.exceptions import ApproximationWarning
from fairmargin.formulations import Outcome, Task
from fairmargin.formulations.task import solve_task
from fairmargin.kernel_matrix import Gram, Kernel, PrecomputedGram, make_kernel
from fairmargin.losses import Loss, get_loss
from fairmargin.problem import Certificate, Solution
from fairmargin.validation import TrainingData, check_number

__all__ = ["ApproximationWarning", "FairSVC", "KernelFeatures"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_REFINED = 5000  # people up to whom a fit is refined unless told otherwise
_REFINED_RANK = 256  # landmarks to begin with where refinement does the rest
_RANK = 400  # and where it does not
_ROUNDS = 100  # of refinement, at most
_AIM = 0.7  # share of the tolerance to refine to: the last solution is a little off the one that was measured
_SINGLES = 16  # people who get a function of their own in a round


@dataclass(frozen=True)
class _KernelParameters:
    """What ``KernelFeatures`` and ``FairSVC`` are told about the kernel, checked."""

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    tol: float
    max_rank: int | None
    clip: bool
    random_state: Any

    @classmethod
    def of(cls, estimator: Any, tol: Any, tol_name: str) -> _KernelParameters:
        if estimator.indefinite not in ("error", "clip"):
            raise ValueError(f"indefinite must be 'error' or 'clip', got {estimator.indefinite!r}.")
        max_rank = estimator.max_rank
        if max_rank is not None:
            number = check_number(max_rank, "max_rank", positive=True)
            if number != int(number):
                raise ValueError(f"max_rank must be a whole number, got {max_rank!r}.")
            max_rank = int(number)
        tol = check_number(tol, tol_name)
        if not 0 <= tol < 1:
            raise ValueError(f"{tol_name} must be at least 0 and less than 1, got {tol!r}.")
        return cls(
            estimator.kernel,
            estimator.gamma,
            estimator.degree,
            estimator.coef0,
            tol,
            max_rank,
            estimator.indefinite == "clip",
            estimator.random_state,
        )

    @property
    def precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def gram(self, X: Any, kept: Index, n_given: int, weight: Array) -> Gram | PrecomputedGram:
        """Return the kernel matrix of the people ``kept`` of those given, whose rows ``X`` are."""
        if not self.precomputed:
            return Gram(make_kernel(self.kernel, self.gamma, self.degree, self.coef0, X, weight), X)
        if X.shape[1] != n_given:
            raise ValueError(
                f"A precomputed kernel matrix must be square, one row and one column for each person, got "
                f"{n_given} rows and {X.shape[1]} columns."
            )
        gram = PrecomputedGram(X if len(kept) == n_given else X[:, kept])
        gram.check()
        return gram

    def factorise(self, gram: Gram | PrecomputedGram, max_rank: int) -> PartialCholesky:
        seed = check_random_state(self.random_state)
        if self.clip:
            return positive_part(gram, self.tol, max_rank, seed)
        if isinstance(gram, PrecomputedGram) or not gram.kernel.is_positive:
            check_positive(gram, seed)
        return factorise(gram, self.tol, max_rank, seed)


def _warn_of_rank(found: PartialCholesky, tol: float, remedy: str, stacklevel: int) -> None:
    if found.error > max(tol, 1e-12):
        warnings.warn(
            f"The rank limit of {found.features.shape[1]} leaves {found.error:.2g} of the kernel's trace out, more "
            f"than {tol:.2g}; {remedy}.",
            ApproximationWarning,
            stacklevel=stacklevel,
        )


class KernelFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features whose inner products are a kernel, by partial Cholesky factorisation.

    ``transform(X) @ transform(Y).T`` is ``k(X, Y)`` up to a relative error of the trace over the training people of
    at most ``tol``. Like ``sklearn.kernel_approximation.Nystroem``, but the number of features follows from the
    error, the landmarks are chosen, and the error is known.

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
        What to do about a kernel that is no inner product: refuse it, or go on with its positive part.
    random_state : int, RandomState or None, default=0
        Landmarks are drawn; an int makes the draw repeatable.

    Attributes
    ----------
    landmarks_ : (m, n_features_in_)
        Rows of the training people that the kernel is worked out against.
    landmark_indices_ : ndarray of shape (m,)
        Which people these are.
    basis_ : ndarray of shape (m, rank_)
        ``transform(X)`` is ``k(X, landmarks_) @ basis_``.
    rank_ : int
        Number of features.
    approximation_error_ : float
        Share of the trace that is left out.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X had string column names

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
        """Choose landmarks and return the features of ``X``, which come with them."""
        return self._fit(X)

    def _fit(self, X: Any) -> Array:
        parameters = _KernelParameters.of(self, self.tol, "tol")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        n = X.shape[0]
        gram = parameters.gram(X, np.arange(n), n, np.ones(n))
        found = parameters.factorise(gram, n if parameters.max_rank is None else parameters.max_rank)
        _warn_of_rank(found, parameters.tol, "raise max_rank or tol", stacklevel=4)
        self.landmark_indices_ = found.landmarks
        self.landmarks_ = X[found.landmarks]
        self.basis_ = found.basis
        self.rank_ = found.features.shape[1]
        self.approximation_error_ = found.error
        self._kernel = None if isinstance(gram, PrecomputedGram) else gram.kernel
        return found.features

    def transform(self, X: Any) -> Array:
        """Return the features of the rows of ``X``, shape (n, rank_).

        For a precomputed kernel, ``X`` has a column for each training person.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if self._kernel is None:
            return np.asarray(X[:, self.landmark_indices_] @ self.basis_, dtype=np.float64)
        return self._kernel.apply(X, self.landmarks_, self.basis_)

    @property
    def _n_features_out(self) -> int:
        return self.rank_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        _tag_inputs(tags, self.kernel)
        return tags


def _tag_inputs(tags: Any, kernel: Any) -> None:
    precomputed = isinstance(kernel, str) and kernel == "precomputed"
    tags.input_tags.pairwise = precomputed
    tags.input_tags.sparse = not precomputed


class _Covariances:
    """The functions ``u_k = sum_i s_i (z_ik - zbar_k) / S phi(x_i)``, for which ``cov_k = <u_k, f>``."""

    def __init__(self, gram: Gram | PrecomputedGram) -> None:
        self._gram = gram
        self._values: Array | None = None

    def beta(self, task: Task) -> Array:
        """Return the coefficients, shape (N, K)."""
        weight = task.data.people_weight / task.data.people_weight.sum()
        return weight[:, None] * task.centred

    def values(self, task: Task) -> Array:
        """Return the values at the people, shape (N, K)."""
        if self._values is None:
            self._values = self._gram.apply(np.arange(len(self._gram)), self.beta(task))
        return self._values


class _Function:
    """What the multipliers say ``f`` should be, ``sum_i beta_i phi(x_i)``, and its values at the people.

    They are kept up to date as the multipliers change; only people whose own ones do cost kernel evaluations.
    """

    def __init__(self, gram: Gram | PrecomputedGram, covariances: _Covariances) -> None:
        self._gram, self._covariances = gram, covariances
        self._own, self._own_values = np.zeros(len(gram)), np.zeros(len(gram))
        self.beta, self.values, self.change = self._own, self._own_values, self._own

    def move(self, task: Task, solution: Solution) -> None:
        """Take over the multipliers of a solution."""
        own = solution.alpha * task.problem.y
        change = own - self._own
        moved = np.flatnonzero(np.abs(change) > 1e-10 * np.max(np.abs(own), initial=0.0))
        self._own_values = self._own_values + self._gram.apply(moved, change[moved])
        self._own = self._own.copy()
        self._own[moved] = own[moved]
        self.beta, self.values, self.change = self._own, self._own_values, np.abs(change)
        if np.any(solution.multipliers):
            self.beta = self.beta - self._covariances.beta(task) @ solution.multipliers
            self.values = self.values - self._covariances.values(task) @ solution.multipliers


@dataclass(frozen=True)
class _Block:
    """Functions ``beta`` (N, m) added to a span.

    ``inside`` (r, m) is what was in the span before; ``corner`` (m, m), lower triangular, orthonormalises the rest.
    """

    beta: Any
    inside: Array
    corner: Array


class _Span:
    """Functions over which a problem is solved: landmarks and directions, with an orthonormal basis."""

    def __init__(self, gram: Gram | PrecomputedGram, found: PartialCholesky) -> None:
        self.gram, self.found = gram, found
        self.features = found.features
        self._added: list[_Block] = []

    def missing(self, function: _Function) -> float:
        """Return ``|(I - P) f|^2``: how much of a function is outside of the span."""
        inside = self.features.T @ function.beta
        return max(0.0, float(function.beta @ function.values - inside @ inside))

    def add(self, functions: list[_Function], people: Index) -> bool:
        """Add functions, and ``k(x_i, .)`` of people; return whether there was more new in them than rounding."""
        singles = sp.csr_array(
            (np.ones(len(people)), (people, np.arange(len(people)))), shape=(len(self.gram), len(people))
        )
        beta = sp.hstack([*(sp.csr_array(f.beta[:, None]) for f in functions), singles], format="csr")
        values = np.column_stack([*(f.values for f in functions), self.gram.block(None, people)])
        inside = (beta.T @ self.features).T
        size = np.sqrt(np.maximum((beta.T @ values).diagonal(), np.finfo(float).tiny))
        left = (beta.T @ values - inside.T @ inside) / size / size[:, None]
        factor, order, rank, _ = dpstrf(0.5 * (left + left.T), tol=1e-12, lower=1)
        rank = min(rank, len(self.gram) - self.features.shape[1])
        if rank == 0 or left.diagonal().max() <= 1e-12:
            return False
        chosen = order[:rank] - 1
        corner = np.tril(factor[:rank, :rank]) * size[chosen, None]
        inside = inside[:, chosen]
        new = values[:, chosen] - self.features @ inside
        new = scipy.linalg.solve_triangular(corner, new.T, lower=True, check_finite=False).T
        self.features = np.hstack([self.features, new])
        self._added.append(_Block(beta[:, chosen], inside, corner))
        return True

    def expand(self, w: Array) -> Array:
        """Return ``beta`` (N,) of the function with coefficients ``w`` in the basis."""
        beta, w = np.zeros(len(self.gram)), w.copy()
        for block in reversed(self._added):
            size = len(block.corner)
            last = scipy.linalg.solve_triangular(block.corner, w[-size:], lower=True, trans="T", check_finite=False)
            w = w[:-size] - block.inside @ last
            beta += block.beta @ last
        beta[self.found.landmarks] += self.found.basis @ w
        return beta


class _Refinement:
    """Adds directions to a span until the optimum over it is close to the optimum over the whole space."""

    def __init__(self, span: _Span, make: Callable[[Array], Task], tol: float) -> None:
        self.span, self.make, self.tol = span, make, tol
        covariances = _Covariances(span.gram)
        self.free, self.bound = _Function(span.gram, covariances), _Function(span.gram, covariances)
        self._own = np.zeros(len(span.gram), dtype=bool)
        self._own[span.found.landmarks] = True
        self._begun = False

    def run(self, constraint: Constraint | None) -> Task:
        """Return the task on the refined span, with its solution to start from."""
        task, gap = self.make(self.span.features), 0.1
        for _ in range(_ROUNDS):
            rough = replace(task, tol=max(task.tol, 0.1 * max(gap, self.tol)))
            outcome = solve_task(constraint, rough)
            gap, grown = self._grow(rough, outcome)
            if not grown:
                return replace(task, near=outcome)
            bigger = self.make(self.span.features)
            task = replace(bigger, near=_lift(outcome, task, bigger))
        return task

    def _grow(self, task: Task, outcome: Outcome) -> tuple[float, bool]:
        """Add what is missing for the two solutions; return the larger gap and whether something was added."""
        pairs = [(self.bound, outcome.solution)]
        if outcome.unconstrained is not None and outcome.unconstrained is not outcome.solution:
            pairs.append((self.free, outcome.unconstrained))
        gaps = [self.gap(task, solution, function) for function, solution in pairs]
        short = [function for (function, _), gap in zip(pairs, gaps, strict=True) if gap > _AIM * self.tol]
        if not short:
            return max(gaps), False
        # Coefficients that keep changing are those between their bounds: such people get functions of their own.
        change = np.sum([function.change for function in short], axis=0)
        change[self._own] = 0.0
        restless = np.argsort(-change, kind="stable")[: _SINGLES * int(self._begun)]
        restless = restless[change[restless] > 0]
        self._own[restless], self._begun = True, True
        return max(gaps), self.span.add(short, restless)

    def gap(self, task: Task, solution: Solution, function: _Function) -> float:
        """Return by how much the bound over the span exceeds the one over the whole space, relatively."""
        function.move(task, solution)
        return 0.5 * self.span.missing(function) / solution.objective

    def certify(self, task: Task, solution: Solution) -> Certificate:
        """Return the certificate of a solution among all functions of the kernel's space."""
        proof = solution.certificate
        bound = proof.dual_bound - self.gap(task, solution, self.bound) * proof.objective
        return replace(proof, dual_bound=bound, gap=(proof.objective - bound) / proof.objective)


@dataclass(frozen=True)
class _KernelTask(Task):
    """A task whose features are the functions of a span."""

    span: _Span = None  # type: ignore[assignment]
    refinement: _Refinement | None = None


def _lift(outcome: Outcome, old: Task, new: Task) -> Outcome:
    """Return an outcome in the coordinates of a larger span."""

    def lift(solution: Solution) -> Solution:
        w, b = old.problem.design.to_original(solution.theta)
        design = new.problem.design
        width = design.shape[1] - int(design.fit_intercept)
        theta = design.from_original(np.concatenate([w, np.zeros(width - len(w))]), b)
        return replace(solution, theta=theta, hessian=None)

    free = outcome.unconstrained
    return Outcome(lift(outcome.solution), None if free is None else lift(free))


@document
class FairSVC(FairClassifier):
    """Support vector machine with a kernel, or another kernel machine, under fairness constraints.

    Minimises ``C sum_i s_i loss(y_i (f(x_i) + b)) + 1/2 ||f||^2`` over functions ``f`` of the kernel's space
    subject to what ``constraint`` asks. Without constraint it is the classifier of ``sklearn.svm.SVC``.

    Up to 5,000 people (``refine="auto"``) the result is within ``approximation_tol`` of the optimum with the full
    kernel, which ``certificate_`` proves, and decisions take the kernel with everybody who has a coefficient, as in
    an SVC. For more people, or if ``max_rank`` is given, functions of the landmarks alone are considered, which
    trains and decides much faster, and ``certificate_`` speaks of these. Memory grows with people times rank.

    Parameters
    ----------
    {parameters}
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable, default="rbf"
        A callable takes two matrices and returns the matrix of the kernel between their rows.
    degree : float, default=3
    gamma : "scale", "auto" or float, default="scale"
        "scale" is 1 over the number of features times the variance of X, in which people count by their weights.
    coef0 : float, default=0.0
        Parameters of the kernels, as in ``sklearn.svm.SVC``.
    loss : str or Loss, default="hinge"
        Any loss of the package; ``"logistic"`` gives ``predict_proba``.
    approximation_tol : float, default=1e-3
        How much may be lost by approximating the kernel: relative error of the trace at which to stop taking
        landmarks, and relative duality gap to the optimum with the full kernel at which to stop refining.
    max_rank : int or None, default=None
        Largest number of landmarks. None takes up to 256 where the fit is refined, and up to 400 otherwise.
    refine : bool or "auto", default="auto"
        Whether to go on from the landmarks to the optimum with the full kernel. Costs some N^2 kernel evaluations
        in time, not in memory. "auto" does where ``max_rank`` is None and there are at most 5,000 people.
    indefinite : {"error", "clip"}, default="error"
        What to do about a kernel that is no inner product: refuse it, or go on with its positive part.
    random_state : int, RandomState or None, default=0
        Landmarks are drawn; an int makes the draw repeatable.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        People with whom the kernel is worked out to decide: landmarks and, if refined, all with a coefficient.
    support_vectors_ : (n_support, n_features)
        Their rows of X; empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (1, n_support)
        The score is ``k(x, support_vectors_) @ dual_coef_[0] + intercept_[0]``.
    intercept_ : ndarray of shape (1,)
    rank_ : int
        Number of features that the problem was solved on.
    landmarks_ : ndarray of shape (m,)
        Which people are landmarks.
    approximation_error_ : float
        Share of the trace of the kernel matrix that the landmarks leave out.
    refined_ : bool
        Whether ``certificate_`` speaks of the full kernel. Bounds other than on covariances are met on a span that
        is refined for no constraint and for zero covariance; ``certificate_`` then speaks of the span.
    {attributes}

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
        self.approximation_tol = approximation_tol
        self.max_rank = max_rank
        self.refine = refine
        self.indefinite = indefinite
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _loss(self) -> Loss:
        return get_loss(self.loss)

    def _write_down(self, data: TrainingData, make: Callable[[TrainingData], Task]) -> Task:
        """Choose the span on which the problem is written down."""
        parameters = _KernelParameters.of(self, self.approximation_tol, "approximation_tol")
        gram = parameters.gram(data.X, data.kept, data.n_given, data.people_weight)
        refined = self._refines(parameters, len(gram))
        limit = parameters.max_rank or (_REFINED_RANK if refined else _RANK)
        found = parameters.factorise(gram, min(limit, len(gram)))
        if not refined:
            remedy = "raise max_rank, or set refine=True for the optimum with the full kernel"
            _warn_of_rank(found, parameters.tol, remedy, stacklevel=5)
        span = _Span(gram, found)
        work = _Refinement(span, lambda features: make(replace(data, X=features)), parameters.tol)
        if not refined:
            return _KernelTask(**vars(work.make(span.features)), span=span)
        constraint = self._constraint()
        known = constraint is None or isinstance(constraint, CovarianceBound)
        task = work.run(constraint if known else CovarianceBound(0.0))
        return _KernelTask(**vars(task), span=span, refinement=work if known else None)

    def _refines(self, parameters: _KernelParameters, n: int) -> bool:
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

    def _store_function(self, task: Task, solution: Solution) -> None:
        assert isinstance(task, _KernelTask)
        span, kept = task.span, task.data.kept
        w, b = task.coefficients(solution)
        beta = span.expand(w)
        used = np.flatnonzero(beta)
        self.support_ = kept[used]
        self.dual_coef_ = beta[used][None, :]
        self.intercept_ = np.array([b])
        self.rank_ = len(w)
        self.landmarks_ = kept[span.found.landmarks]
        self.approximation_error_ = span.found.error
        self.refined_ = task.refinement is not None
        if isinstance(span.gram, PrecomputedGram):
            self._kernel: Kernel | None = None
            self.support_vectors_ = np.empty((0, 0))
        else:
            self._kernel = span.gram.kernel
            self.support_vectors_ = span.gram.X[used]
        if task.refinement is not None:
            self.certificate_ = task.refinement.certify(task, solution)
            self._warn_unless_refined()

    def _warn_unless_refined(self) -> None:
        gap, asked = self.certificate_.gap, self.approximation_tol + self.tol
        if gap > 2 * asked:
            warnings.warn(
                f"The kernel's refinement ended at a relative duality gap of {gap:.1e}, above {asked:.1e}; raise "
                "max_rank or approximation_tol.",
                ApproximationWarning,
                stacklevel=5,
            )

    def decision_function(self, X: Any) -> Array:
        """Return the scores ``f(x) = k(x, support_vectors_) @ dual_coef_[0] + intercept_[0]``, shape (n,).

        For a precomputed kernel, ``X`` has a column for each training person.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if self._kernel is None:
            return np.asarray(X[:, self.support_] @ self.dual_coef_[0], dtype=np.float64) + self.intercept_[0]
        return self._kernel.apply(X, self.support_vectors_, self.dual_coef_[0]) + self.intercept_[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        _tag_inputs(tags, self.kernel)
        return tags
