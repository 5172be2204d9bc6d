"""Learning fair representations: prototypes that tell the label, the features, and nothing about z.

Zemel, R., Wu, Y., Swersky, K., Pitassi, T. and Dwork, C. (2013), Learning fair representations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from sklearn.cluster import kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from fairmargin.baselines._bases import AwareClassifier
from fairmargin.baselines._capabilities import Capabilities
from fairmargin.baselines._groups import BinaryGroups
from fairmargin.caller import warn
from fairmargin.exceptions import TrivialClassifierWarning
from fairmargin.validation import check_count, check_flag, check_number

__all__ = ["FairRepresentations"]

_SMOOTH = 1e-12  # |t| is sqrt(t^2 + this), so that the parity term has a gradient at zero
_CLIP = 1e-12  # probabilities are kept this far from 0 and 1
_TRIAL_ROWS = 2000  # restarts are compared on this many rows; only the best is trained on all


@dataclass(frozen=True)
class _Objective:
    """The objective of the representation and its gradient.

    With K prototypes v_k, outputs w_k and feature weights a (one row for everybody, or one per group)::

        D_nk = sum_j a_j (x_nj - v_kj)^2,   M = softmax_k(-D),   xhat = M v,   yhat = M w,
        A_x mean ||x - xhat||^2 + A_y mean CE(y, yhat) + A_z sum_k |mean_{s=1} M_k - mean_{s=0} M_k|.

    Parameters are ``[v.ravel(), w, a.ravel()]``, K d + K + d (or 2 d) in all.
    """

    X: np.ndarray
    label: np.ndarray
    group: np.ndarray
    n_prototypes: int
    weights: tuple[float, float, float]
    group_weights: bool

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return v (K, d), w (K,) and a (1 or 2, d)."""
        d, k = self.X.shape[1], self.n_prototypes
        return theta[: k * d].reshape(k, d), theta[k * d : k * d + k], theta[k * d + k :].reshape(-1, d)

    @property
    def bounds(self) -> list[tuple[float | None, float | None]]:
        d, k = self.X.shape[1], self.n_prototypes
        n_weights = (2 if self.group_weights else 1) * d
        return [(None, None)] * (k * d) + [(0.0, 1.0)] * k + [(0.0, None)] * n_weights

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient at ``theta``."""
        v, w, a = self.split(theta)
        A_x, A_y, A_z = self.weights
        n = len(self.label)
        by_group = self.group if self.group_weights else None
        M = memberships(self.X, v, a, by_group)
        # Neither xhat nor its distance from x is formed: all of both that is needed are products with v.
        inner, gram = v @ self.X.T, v @ v.T
        off = gram @ M - inner
        chance = np.clip(w @ M, _CLIP, 1.0 - _CLIP)
        side = np.where(self.group == 1, 1.0 / self.group.sum(), -1.0 / (n - self.group.sum()))
        gap = M @ side
        distance = np.sqrt(gap**2 + _SMOOTH)
        entropy = -np.log(np.where(self.label == 1, chance, 1.0 - chance)).mean()
        squares = self.square + np.vdot(M, off - inner)
        value = A_x * squares / n + A_y * entropy + A_z * distance.sum()

        pull_x = 2.0 * A_x / n
        pull_y = (A_y / n) * (chance - self.label) / (chance * (1.0 - chance))
        G = pull_x * off
        G += w[:, None] * pull_y
        G += (A_z * gap / distance)[:, None] * side
        # Derivatives by the distances sum to zero over the prototypes: only products of x and v are left.
        B = M * (np.einsum("kn,kn->n", M, G) - G)
        gradient_v = pull_x * ((M @ M.T) @ v - M @ self.X)
        gradient_a = np.empty_like(a)
        for row, weight in enumerate(a):
            part = B if by_group is None else B * (by_group == row)
            cross, total = part @ self.X, part.sum(axis=1)[:, None]
            gradient_v -= 2.0 * weight * (cross - total * v)
            gradient_a[row] = (v * (total * v - 2.0 * cross)).sum(axis=0)
        return float(value), np.concatenate([gradient_v.ravel(), M @ pull_y, gradient_a.ravel()])

    @cached_property
    def square(self) -> float:
        """``sum_n ||x_n||^2``."""
        return float(np.vdot(self.X, self.X))

    def start(self, rng: np.random.RandomState) -> np.ndarray:
        """Return parameters with the prototypes spread by k-means++ and the outputs that fit them."""
        v = kmeans_plusplus(self.X, self.n_prototypes, random_state=rng)[0]
        d = self.X.shape[1]
        # Standardised features are about 2 d apart in squares: such weights make memberships soft.
        a = np.full((2 if self.group_weights else 1, d), 1.0 / d)
        M = memberships(self.X, v, a, self.group if self.group_weights else None)
        w = (M @ self.label) / np.maximum(M.sum(axis=1), _CLIP)
        return np.concatenate([v.ravel(), w, a.ravel()])


def memberships(X: np.ndarray, v: np.ndarray, a: np.ndarray, group: np.ndarray | None) -> np.ndarray:
    """Return M (K, n), the probability of each prototype; rows of ``a`` are chosen by ``group`` if it is given."""
    # The squares of x are the same for every prototype, and leave the softmax as it is.
    nearness = [2.0 * ((weight * v) @ X.T) - (weight * v**2).sum(axis=1)[:, None] for weight in a]
    M = nearness[0] if group is None else np.where(group == 0, nearness[0], nearness[1])
    M -= M.max(axis=0)
    np.exp(M, out=M)
    M /= M.sum(axis=0)
    return M


class FairRepresentations(AwareClassifier):
    """Map people to prototypes so that the prototypes tell the label but not the group, and decide by them.

    With K prototypes v_k, outputs w_k in [0, 1], feature weights a_j >= 0, standardised features x and means over
    people, minimise ::

        A_x mean ||x - xhat||^2 + A_y mean CE(y, yhat) + A_z sum_k |mean_{s=1} M_k - mean_{s=0} M_k|
        M = softmax_k(-sum_j a_j (x_j - v_kj)^2),   xhat = M v,   yhat = M w,

    by L-BFGS with the exact gradient. Restarts begin at k-means++ prototypes; they are compared on 2,000 people, and
    the best is trained further on all. The decision is ``yhat >= 1/2``. The problem is not convex, and all prototypes
    in one place is a minimum of the parity term: a classifier that decides the same for everybody is warned of.
    Weights ``A`` of other implementations, which sum where this one averages, do not carry over.

    With ``group_weights`` each group has feature weights of its own, as in the paper, and **the sensitive attribute
    is needed to decide**; without, the weights are shared and it is not.

    Parameters
    ----------
    n_prototypes : int
        K.
    reconstruction, prediction, parity : float, at least 0
        A_x, A_y and A_z.
    group_weights : bool
        Whether each group has feature weights of its own.
    n_init : int
        Number of restarts.
    max_iter : int
        Most iterations of L-BFGS, for each restart and for the training.
    tol : float
        Relative change of the objective at which to stop.
    random_state : int, RandomState or None
        Of the restarts.
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.

    Attributes
    ----------
    classes_ : ndarray (2,)
        The labels; ``classes_[1]`` is the favourable class.
    sensitive_values_ : ndarray (2,)
    prototypes_ : ndarray (K, d)
        In the units of the features.
    outputs_ : ndarray (K,)
    feature_weights_ : ndarray (1, d) or (2, d)
        Of the standardised features.
    objective_ : float
    n_iter_ : int

    See Also
    --------
    RepairedClassifier : Repairs each feature by itself.

    Examples
    --------
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import FairRepresentations
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = FairRepresentations(random_state=0).fit(X, y, sensitive_features=z)
    >>> bool(p_rule(y, clf.predict(X), sensitive_features=z) > 45)
    True
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        avoids_disparate_treatment=True,
        avoids_disparate_impact=True,
        business_necessity=False,
        polyvalent=False,
        multiple=False,
        classifiers="Log loss",
        needs_z_at_prediction=False,
    )
    capabilities_with_group_weights: ClassVar[Capabilities] = replace(
        capabilities, avoids_disparate_treatment=False, needs_z_at_prediction=True
    )

    def __init__(
        self,
        n_prototypes: int = 10,
        *,
        reconstruction: float = 0.01,
        prediction: float = 1.0,
        parity: float = 1.0,
        group_weights: bool = False,
        n_init: int = 5,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.reconstruction = reconstruction
        self.prediction = prediction
        self.parity = parity
        self.group_weights = group_weights
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> FairRepresentations:
        """Fit on ``X`` (n, d), ``y`` (n,) and z (n,)."""
        people = self._read_people(X, y, sensitive_features, kind=BinaryGroups)
        X = validate_data(self, X, dtype=np.float64)
        self._mean, spread = X.mean(axis=0), X.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        objective = self._objective((X - self._mean) / self._spread, people.label, people.group)
        solution = self._minimise(objective)
        v, self.outputs_, self.feature_weights_ = (part.copy() for part in objective.split(solution.x))
        self._prototypes = v
        self.prototypes_ = v * self._spread + self._mean
        self.objective_, self.n_iter_ = float(solution.fun), int(solution.nit)
        self._know(people)
        self._warn_if_constant(X, people.group)
        return self

    def _objective(self, X: np.ndarray, label: np.ndarray, group: np.ndarray) -> _Objective:
        names = ("reconstruction", "prediction", "parity")
        values = [check_number(getattr(self, name), name) for name in names]
        for name, value in zip(names, values, strict=True):
            if value < 0:
                raise ValueError(f"{name} must be at least 0, got {value!r}.")
        k = min(check_count(self.n_prototypes, "n_prototypes"), len(label))
        shared = not check_flag(self.group_weights, "group_weights")
        return _Objective(X, label, group, k, (values[0], values[1], values[2]), not shared)

    def _minimise(self, objective: _Objective) -> OptimizeResult:
        """Compare the restarts on some of the people, and train the best on all."""
        rng = check_random_state(self.random_state)
        trial = _subsample(objective, rng)
        starts = [trial.start(rng) for _ in range(check_count(self.n_init, "n_init"))]
        max_iter = check_count(self.max_iter, "max_iter")
        best = min((self._search(trial, theta, max_iter) for theta in starts), key=lambda solution: solution.fun)
        solution = self._search(objective, best.x, max_iter)
        if solution.status == 1:
            warn(
                f"FairRepresentations did not converge in {solution.nit} iterations; increase max_iter.",
                ConvergenceWarning,
            )
        return solution

    def _search(self, objective: _Objective, theta: np.ndarray, max_iter: int) -> OptimizeResult:
        options = {"maxiter": max_iter, "maxfun": 10 * max_iter, "ftol": check_number(self.tol, "tol", positive=True)}
        return minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=objective.bounds, options=options)

    def _warn_if_constant(self, X: np.ndarray, group: np.ndarray) -> None:
        accepted = self.outputs_ @ self._memberships(X, group) >= 0.5
        if accepted.all() or not accepted.any():
            warn(
                "FairRepresentations decides the same for everybody: lower parity or raise prediction.",
                TrivialClassifierWarning,
            )

    def _memberships(self, X: np.ndarray, group: np.ndarray | None) -> np.ndarray:
        chosen = group if len(self.feature_weights_) == 2 else None
        return memberships((X - self._mean) / self._spread, self._prototypes, self.feature_weights_, chosen)

    def represent(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return the representation (n, K): each person's probability of each prototype."""
        check_is_fitted(self)
        aware = len(self.feature_weights_) == 2
        group = self._encode_groups(sensitive_features, X) if aware else None
        return self._memberships(validate_data(self, X, dtype=np.float64, reset=False), group).T

    def reconstruct(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return ``xhat`` (n, d), the features as the prototypes tell them."""
        return self.represent(X, sensitive_features=sensitive_features) @ self.prototypes_

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return the probability (n, 2) of each class, ``1 - yhat`` and ``yhat``."""
        chance = self.represent(X, sensitive_features=sensitive_features) @ self.outputs_
        return np.column_stack([1.0 - chance, chance])

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return ``yhat - 1/2`` (n,)."""
        return self.predict_proba(X, sensitive_features=sensitive_features)[:, 1] - 0.5


def _subsample(objective: _Objective, rng: np.random.RandomState) -> _Objective:
    """Return the objective of at most 2,000 of the people, or itself; every group keeps somebody."""
    n = len(objective.label)
    if n <= _TRIAL_ROWS:
        return objective
    rows = rng.permutation(n)[:_TRIAL_ROWS]
    if len(np.unique(objective.group[rows])) < 2 or len(np.unique(objective.label[rows])) < 2:
        return objective
    return replace(objective, X=objective.X[rows], label=objective.label[rows], group=objective.group[rows])
