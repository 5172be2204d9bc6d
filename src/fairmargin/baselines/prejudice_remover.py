"""The prejudice remover: logistic regression with a penalty on what the decisions tell about z.

Kamishima, T., Akaho, S. and Sakuma, J. (2011), Fairness-aware learning through regularization approach.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import OptimizeResult, minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from fairmargin.baselines._bases import AwareClassifier
from fairmargin.baselines._capabilities import Capabilities
from fairmargin.baselines._groups import BinaryGroups
from fairmargin.caller import warn
from fairmargin.inputs import check_same_order

__all__ = ["PrejudiceRemover"]

_SMALLEST = 1e-300  # mean probability, so that its logarithm is finite


@dataclass(frozen=True)
class _Group:
    """The people of one group: features (n, d), labels (n,) in {0, 1} and weights (n,)."""

    X: Any
    label: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class _Objective:
    """The prejudice remover's objective, per unit of weight, for both groups' coefficients.

    With ``f_i = w_s . x_i + b_s`` for a person of group s, ``sigma_i`` its sigmoid, ``q_s`` the mean of sigma
    in group s (of total weight ``W_s``), r its mean over all (of total weight W), minimise ::

        1/W { sum_i weight_i log(1 + exp(-+f_i))
              + eta sum_s W_s [q_s log(q_s / r) + (1 - q_s) log((1 - q_s) / (1 - r))]
              + 1/(2C) sum_s ||w_s||^2 }.

    The second line is W times the mutual information of decision and group, as estimated by the model. In its
    gradient, the terms by way of r sum to zero, which leaves ::

        d/df_i = weight_i {sigma_i - y_i + eta sigma_i (1 - sigma_i) (logit q_s - logit r)}.

    Parameters are ``[w_0, b_0, w_1, b_1]``, 2(d + 1) in all. The intercepts are free of penalty.
    """

    groups: tuple[_Group, _Group]
    eta: float
    C: float

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient (2(d + 1),) at ``theta``."""
        blocks = theta.reshape(2, -1)
        scores = [g.X @ block[:-1] + block[-1] for g, block in zip(self.groups, blocks, strict=True)]
        sizes = np.array([g.weight.sum() for g in self.groups])
        mean = _mean_sigmoids(self.groups, scores)
        overall = sizes @ mean / sizes.sum()
        information = sizes @ (mean * np.log(mean / overall)).sum(axis=1)
        value = self.eta * information + 0.5 / self.C * (blocks[:, :-1] ** 2).sum()
        gradient = np.zeros_like(blocks)
        for s, (g, f) in enumerate(zip(self.groups, scores, strict=True)):
            value += g.weight @ np.logaddexp(0, np.where(g.label == 1, -f, f))
            pull = self.eta * (_logit(mean[s]) - _logit(overall))
            slope = g.weight * (expit(f) - g.label + pull * expit(f) * expit(-f))
            gradient[s, :-1] = g.X.T @ slope + blocks[s, :-1] / self.C
            gradient[s, -1] = slope.sum()
        return float(value) / sizes.sum(), gradient.ravel() / sizes.sum()

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        """Hessian of the objective without its eta-term: a block per group, (2, d + 1, d + 1)."""
        pairs = zip(self.groups, theta.reshape(2, -1), strict=True)
        total = sum(g.weight.sum() for g in self.groups)
        return np.stack([self._curvature_of(g, block) for g, block in pairs]) / total

    def _curvature_of(self, g: _Group, block: np.ndarray) -> np.ndarray:
        f = g.X @ block[:-1] + block[-1]
        D = g.weight * expit(f) * expit(-f)
        DX = D[:, None] * g.X
        ridge = np.eye(g.X.shape[1]) / self.C
        return np.block([[g.X.T @ DX + ridge, DX.sum(axis=0)[:, None]], [DX.sum(axis=0), D.sum()]])


def _mean_sigmoids(groups: tuple[_Group, _Group], scores: list[np.ndarray]) -> np.ndarray:
    """Rows ``(q_s, 1 - q_s)`` (2, 2); both are summed, as one minus a number near one would lose digits."""
    means = [
        [np.average(expit(f), weights=g.weight), np.average(expit(-f), weights=g.weight)]
        for g, f in zip(groups, scores, strict=True)
    ]
    return np.maximum(means, _SMALLEST)


@dataclass(frozen=True)
class _Scaling:
    """A change of variables, ``theta_s = L_s^-T phi_s`` with ``L_s L_s'`` near the Hessian of each group.

    In phi the problem is well conditioned whatever the scale of the features, which saves L-BFGS most of its
    iterations.
    """

    factors: np.ndarray

    @classmethod
    def at(cls, objective: _Objective, theta: np.ndarray) -> _Scaling:
        curvature = objective.curvature(theta)
        diagonal = np.einsum("sjj->sj", curvature)
        # Redundant or constant columns leave no curvature where there is no ridge.
        diagonal += 1e-10 * diagonal + (diagonal <= 0)
        return cls(np.linalg.cholesky(curvature))

    def into(self, theta: np.ndarray) -> np.ndarray:
        return np.einsum("sij,si->sj", self.factors, theta.reshape(2, -1)).ravel()

    def out_of(self, phi: np.ndarray) -> np.ndarray:
        return self._solve(phi, trans="T")

    def gradient(self, gradient: np.ndarray) -> np.ndarray:
        return self._solve(gradient, trans="N")

    def _solve(self, vector: np.ndarray, *, trans: str) -> np.ndarray:
        pairs = zip(self.factors, vector.reshape(2, -1), strict=True)
        return np.concatenate([solve_triangular(L, v, lower=True, trans=trans) for L, v in pairs])


def _search(objective: _Objective, theta: np.ndarray, *, max_iter: int, tol: float) -> OptimizeResult:
    """Minimise by L-BFGS from ``theta`` (2(d + 1),)."""
    scaling = _Scaling.at(objective, theta)

    def scaled(phi: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(scaling.out_of(phi))
        return value, scaling.gradient(gradient)

    # No stop on a small change of the value: it says nothing about how far there is to go.
    options = {"maxiter": max_iter, "maxfun": 10 * max_iter, "gtol": tol, "ftol": 0.0}
    solution = minimize(scaled, scaling.into(theta), jac=True, method="L-BFGS-B", options=options)
    solution.x = scaling.out_of(solution.x)
    return solution


def _logit(shares: np.ndarray) -> float:
    return float(np.log(shares[0]) - np.log(shares[1]))


class PrejudiceRemover(AwareClassifier):
    """Logistic regression, one per group, that pays ``eta`` for what its decisions tell about the group.

    Minimises the log-loss plus ``eta`` times N times the mutual information between decision and group, as
    the model estimates it, plus ``1/(2C)`` times the squared norm of the coefficients. With ``eta = 0`` it is
    a separate ``LogisticRegression(C=C)`` for each group, which is also where the search starts; the problem
    is not convex, and what is found is a stationary point.

    **The sensitive attribute is needed to decide**: people who differ in z only can be treated differently.

    Two things differ from the authors' code: the gradient is that of the objective, and the intercepts carry
    no penalty (as everywhere else in this package).

    Parameters
    ----------
    eta : float, at least 0
        Weight of the fairness penalty; useful values go from 0 to about 100.
    C : float, positive
        Inverse of the strength of the ridge penalty (the authors' lambda is 1/C).
    max_iter : int
        Most iterations of L-BFGS, for the start and for the search.
    tol : float
        The search ends when no component of the gradient is larger, per unit of weight and in variables
        that do not depend on the scale of the features.
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.

    Attributes
    ----------
    classes_ : ndarray (2,)
        The labels; ``classes_[1]`` is the favourable class.
    sensitive_values_ : ndarray (2,)
        The values of the sensitive attribute, in the order of the rows of ``coef_``.
    coef_ : ndarray (2, d)
    intercept_ : ndarray (2,)
    objective_ : float
        The objective reached, as a sum over people (not a mean).
    n_iter_ : int

    See Also
    --------
    fairmargin.CovariancePenalty : A price on the covariance, without deciding by the attribute.

    Examples
    --------
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import PrejudiceRemover
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = PrejudiceRemover(eta=10.0).fit(X, y, sensitive_features=z)
    >>> bool(p_rule(y, clf.predict(X, sensitive_features=z), sensitive_features=z) > 75)
    True
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        avoids_disparate_treatment=False,
        avoids_disparate_impact=True,
        business_necessity=False,
        polyvalent=False,
        multiple=False,
        classifiers="Logistic regression",
        needs_z_at_prediction=True,
    )

    def __init__(
        self,
        eta: float = 1.0,
        *,
        C: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-6,
        pos_label: Any = None,
    ) -> None:
        self.eta = eta
        self.C = C
        self.max_iter = max_iter
        self.tol = tol
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> PrejudiceRemover:
        """Fit on ``X`` (n, d), ``y`` (n,) and z (n,), with optional weights (n,)."""
        self._check_parameters()
        check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        people = self._read_people(X, y, sensitive_features, kind=BinaryGroups, weight=weight)
        X = validate_data(self, X, dtype=np.float64)
        weight = np.ones(len(X)) if weight is None else weight
        first, second = (_Group(X[g], people.label[g], weight[g]) for g in (people.group == 0, people.group == 1))
        solution = self._minimise((first, second))
        blocks = solution.x.reshape(2, -1)
        self.coef_, self.intercept_ = blocks[:, :-1].copy(), blocks[:, -1].copy()
        self.objective_ = solution.fun * people.totals.sum()
        self.n_iter_ = solution.nit
        self._know(people)
        return self

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return the log-odds (n,) of ``classes_[1]``, by the coefficients of each person's group."""
        check_is_fitted(self)
        group = self._encode_groups(sensitive_features, X)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores = X @ self.coef_.T + self.intercept_
        return scores[np.arange(len(group)), group]

    def _check_parameters(self) -> None:
        if not isinstance(self.eta, Real) or not 0 <= self.eta < np.inf:
            raise ValueError(f"eta must be a finite number of at least 0, got {self.eta!r}.")
        if not isinstance(self.C, Real) or not self.C > 0:
            raise ValueError(f"C must be a positive number, got {self.C!r}.")

    def _minimise(self, groups: tuple[_Group, _Group]) -> OptimizeResult:
        """Search from the separate logistic regressions of the two groups."""
        theta = np.zeros(2 * (groups[0].X.shape[1] + 1))
        start = _search(_Objective(groups, 0.0, self.C), theta, max_iter=self.max_iter, tol=self.tol)
        objective = _Objective(groups, float(self.eta), self.C)
        solution = _search(objective, start.x, max_iter=self.max_iter, tol=self.tol)
        if not solution.success:
            warn(
                f"The prejudice remover did not converge in {solution.nit} iterations ({solution.message}): "
                f"the gradient has a component of {np.abs(solution.jac).max():.1e}, tol is {self.tol:.1e}.",
                ConvergenceWarning,
            )
        return solution
