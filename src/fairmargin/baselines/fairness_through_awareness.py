"""Fairness through awareness: similar people get similar chances, by a linear program.

Dwork, C., Hardt, M., Pitassi, T., Reingold, O. and Zemel, R. (2012), Fairness through awareness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from fairmargin.baselines._bases import ScoredClassifier
from fairmargin.baselines._capabilities import Capabilities
from fairmargin.baselines._groups import Groups, encode_favourable
from fairmargin.caller import warn
from fairmargin.inputs import check_same_order
from fairmargin.validation import check_count, check_number

__all__ = ["FairnessThroughAwareness", "solve_lipschitz_program"]

_DIVERGENCES = ("total_variation", "max")
_VIOLATION = 1e-7  # of a constraint on probabilities: the feasibility tolerance of the linear program's solver
_NEAREST = 5  # neighbours whose constraints are there from the start
_ADDED = 5  # violated constraints per person that are added in a round, the worst first


@dataclass(frozen=True)
class _Rows:
    """Constraints ``a p_i - b p_j <= c`` as columns i, j, a, b, c."""

    i: np.ndarray
    j: np.ndarray
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray

    def matrix(self, n: int) -> tuple[sp.csr_array, np.ndarray]:
        k = np.arange(len(self.i))
        values, rows, columns = (np.concatenate(parts) for parts in ((self.a, -self.b), (k, k), (self.i, self.j)))
        return sp.csr_array((values, (rows, columns)), shape=(len(k), n)), self.c


def _bounds(i: np.ndarray, j: np.ndarray, d: np.ndarray, divergence: str) -> _Rows:
    """Return the constraints that keep ``p_i`` from exceeding ``p_j`` by more than the distance allows."""
    one = np.ones(len(d))
    if divergence == "total_variation":
        return _Rows(i, j, one, one, d)
    # p_i <= e^d p_j and, of the other outcome, 1 - p_j <= e^d (1 - p_i).
    grown = np.exp(d)
    return _Rows(
        np.tile(i, 2),
        np.tile(j, 2),
        np.concatenate([one, grown]),
        np.concatenate([grown, one]),
        np.concatenate([np.zeros(len(d)), grown - 1.0]),
    )


def _highest(p: np.ndarray, d: np.ndarray, divergence: str) -> np.ndarray:
    """Return the highest probability that somebody at distance d from somebody with probability p may have."""
    if divergence == "total_variation":
        return p + d
    return np.minimum(np.exp(d) * p, 1.0 - np.exp(-d) * (1.0 - p))


def _lowest(p: np.ndarray, d: np.ndarray, divergence: str) -> np.ndarray:
    """Return the lowest, likewise; by the symmetry between the two outcomes."""
    return 1.0 - _highest(1.0 - p, d, divergence)


def solve_lipschitz_program(
    gain: Any, distances: Any, *, divergence: str = "total_variation", max_rounds: int = 100
) -> np.ndarray:
    """Return the probabilities of the positive outcome (n,) of highest expected gain among those that are Lipschitz.

    Solves ``max sum_i gain_i p_i`` subject to ``0 <= p <= 1`` and, for all i and j, ``|p_i - p_j| <= d_ij``
    (``divergence="total_variation"``), or ``p_i <= e^{d_ij} p_j`` and ``1 - p_i <= e^{d_ij} (1 - p_j)``
    (``divergence="max"``). Constraints are added as they are found violated: of the n (n - 1) few ever are.

    Parameters
    ----------
    gain : array (n,)
    distances : array (n, n)
        Symmetric, at least 0.
    divergence : {"total_variation", "max"}
    max_rounds : int
        Most linear programs to solve.

    Returns
    -------
    ndarray (n,)
        Probabilities of the positive outcome.

    See Also
    --------
    FairnessThroughAwareness : The classifier that uses it.

    Examples
    --------
    >>> import numpy as np
    >>> from fairmargin.baselines import solve_lipschitz_program
    >>> similar = np.array([[0.0, 0.25], [0.25, 0.0]])
    >>> solve_lipschitz_program([1.0, -2.0], similar)        # at most 0.25 apart
    array([0.25, 0.  ])
    """
    gain, distances = np.asarray(gain, dtype=float), np.asarray(distances, dtype=float)
    n = len(gain)
    if distances.shape != (n, n):
        raise ValueError(f"distances must have shape ({n}, {n}), got {distances.shape}.")
    if not (distances >= 0).all() or not np.allclose(distances, distances.T):
        raise ValueError("distances must be symmetric and at least 0.")
    if divergence not in _DIVERGENCES:
        raise ValueError(f"divergence must be {' or '.join(map(repr, _DIVERGENCES))}, got {divergence!r}.")
    apart = distances + np.diag(np.full(n, np.inf))
    near = np.argsort(apart, axis=1, kind="stable")[:, : min(_NEAREST, n - 1)]
    pairs = {(i, j) for i in range(n) for j in near[i].tolist()} | {
        (j, i) for i in range(n) for j in near[i].tolist()
    }
    p = np.full(n, 0.5)
    for _ in range(check_count(max_rounds, "max_rounds")):
        i, j = np.array(sorted(pairs), dtype=np.intp).reshape(-1, 2).T
        p = _program(gain, _bounds(i, j, distances[i, j], divergence))
        worst = _violated(p, apart, divergence)
        new = set(worst) - pairs
        if not new:
            return p
        pairs |= new
    warn(
        f"Some pairs of people are still treated too differently after {max_rounds} linear programs.",
        ConvergenceWarning,
    )
    return p


def _program(gain: np.ndarray, rows: _Rows) -> np.ndarray:
    """Solve the linear program with the constraints found so far."""
    A, b = rows.matrix(len(gain))
    found = linprog(-gain, A_ub=A, b_ub=b, bounds=(0.0, 1.0), method="highs")
    return np.clip(found.x, 0.0, 1.0)


def _violated(p: np.ndarray, apart: np.ndarray, divergence: str) -> list[tuple[int, int]]:
    """Return pairs (i, j) where ``p_i`` exceeds what j allows, for each i the worst few."""
    excess = p[:, None] - _highest(p[None, :], apart, divergence)
    few = min(_ADDED, len(p) - 1)
    worst = np.argpartition(-excess, few, axis=1)[:, :few] if len(p) > few else np.argsort(-excess, axis=1)
    rows = np.repeat(np.arange(len(p)), worst.shape[1])
    keep = excess[rows, worst.ravel()] > _VIOLATION
    return list(zip(rows[keep].tolist(), worst.ravel()[keep].tolist(), strict=True))


class FairnessThroughAwareness(ScoredClassifier):
    """Give similar people similar chances: the least expected loss among randomised Lipschitz decisions.

    For the *anchors*, at most ``n_anchors`` people of the training data, the probabilities p of the positive decision
    minimise the expected loss ``sum_i p_i (1 - 2 eta_i)``, eta_i being the chance of a positive label, subject to
    ``|p_i - p_j| <= d(x_i, x_j)`` (total variation) or the multiplicative bounds of ``divergence="max"``, for all
    pairs. See :func:`solve_lipschitz_program`.

    The metric d is an *input* of the method: what similar means. The default is a judgement, not a recommendation:
    ``scale`` times the Euclidean distance of the standardised features over the square root of their number, at most
    1. Pass a function to use another; z takes part only if the metric uses it.

    The method does not say how to treat people outside the linear program. Here (McShane and Whitney) they get the
    middle between ``min_i (p_i + d(x, x_i))`` and ``max_i (p_i - d(x, x_i))``, which keeps the Lipschitz property
    for total variation; for ``"max"``, the analogous interval keeps it towards the anchors only.

    The decision is randomised: ``predict_proba`` is the method. ``predict`` cuts at 1/2, which is not Lipschitz.
    Nothing bounds the difference between groups but their distance under d.

    Parameters
    ----------
    estimator : classifier, optional
        Trained on everybody, its ``predict_proba`` is eta; without it eta is the label.
    scale : float, positive
        How fast chances may change with distance; the dial between constant and unconstrained.
    metric : callable, optional
        ``metric(A, B)`` returns distances (len(A), len(B)) between rows of features as they were passed.
    divergence : {"total_variation", "max"}
    n_anchors : int
        Most people in the linear program.
    random_state : int, RandomState or None
        Of the choice of anchors.
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.

    Attributes
    ----------
    classes_ : ndarray (2,)
        The labels; ``classes_[1]`` is the favourable class.
    anchors_ : ndarray of int
        Rows of the training data in the linear program.
    probabilities_ : ndarray
        Of each of these.
    estimator_ : fitted classifier or None

    See Also
    --------
    solve_lipschitz_program : The linear program behind it.

    Examples
    --------
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import FairnessThroughAwareness
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = FairnessThroughAwareness().fit(X, y, sensitive_features=z)
    >>> bool(p_rule(y, clf.predict(X), sensitive_features=z) > 41)
    True
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        avoids_disparate_treatment=True,
        avoids_disparate_impact=False,
        business_necessity=False,
        polyvalent=True,
        multiple=True,
        classifiers="Randomised, any loss",
        needs_z_at_prediction=False,
    )

    def __init__(
        self,
        estimator: Any = None,
        *,
        scale: float = 1.0,
        metric: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
        divergence: str = "total_variation",
        n_anchors: int = 1000,
        random_state: Any = 0,
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.scale = scale
        self.metric = metric
        self.divergence = divergence
        self.n_anchors = n_anchors
        self.random_state = random_state
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> FairnessThroughAwareness:
        """Fit on ``X`` (n, d) and ``y`` (n,); z, of any kind, is checked and not used."""
        check_same_order(X=X, y=y, sensitive_features=sensitive_features)
        label, classes = encode_favourable(y, X, self.pos_label)
        if sensitive_features is not None:
            Groups.learn(sensitive_features, X, method=type(self).__name__)
        self.estimator_ = None if self.estimator is None else clone(self.estimator).fit(X, y)
        chance = label.astype(float) if self.estimator_ is None else self._chance(X, classes[1])
        X = validate_data(self, X, dtype=np.float64)
        self._mean, spread = X.mean(axis=0), X.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        n = min(check_count(self.n_anchors, "n_anchors"), len(X))
        self.anchors_ = np.sort(check_random_state(self.random_state).permutation(len(X))[:n])
        self._anchors = X[self.anchors_]
        self.classes_ = classes
        gain = 2.0 * chance[self.anchors_] - 1.0
        distances = self._distances(self._anchors)
        self.probabilities_ = solve_lipschitz_program(
            gain, 0.5 * (distances + distances.T), divergence=self.divergence
        )
        return self

    def _chance(self, X: Any, favourable: Any) -> np.ndarray:
        """Return the chance (n,) of the favourable label, as the wrapped classifier estimates it."""
        assert self.estimator_ is not None
        column = np.flatnonzero(self.estimator_.classes_ == favourable)[0]
        return np.asarray(self.estimator_.predict_proba(X)[:, column])

    def _distances(self, X: np.ndarray) -> np.ndarray:
        """Return the distances (n, anchors) to the anchors."""
        if self.metric is not None:
            return np.asarray(self.metric(X, self._anchors), dtype=float)
        scale = check_number(self.scale, "scale", positive=True)
        standard = ((part - self._mean) / self._spread for part in (X, self._anchors))
        return np.minimum(scale / np.sqrt(X.shape[1]) * cdist(*standard), 1.0)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability (n, 2) of each decision."""
        check_is_fitted(self)
        distances = self._distances(validate_data(self, X, dtype=np.float64, reset=False))
        upper = _highest(self.probabilities_, distances, self.divergence).min(axis=1)
        lower = _lowest(self.probabilities_, distances, self.divergence).max(axis=1)
        chance = np.clip(0.5 * (lower + upper), 0.0, 1.0)
        return np.column_stack([1.0 - chance, chance])

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the probability of the positive decision less 1/2, (n,)."""
        return self.predict_proba(X)[:, 1] - 0.5
