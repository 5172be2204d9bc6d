"""SearchFair: search the weight of a convex penalty until the decisions themselves are fair.

Lohaus, M., Perrot, M. and von Luxburg, U. (2020), Too relaxed to be fair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from fairmargin.baselines._bases import LinearClassifier, probabilities
from fairmargin.baselines._capabilities import Capabilities
from fairmargin.baselines._groups import BinaryGroups, LabelledGroups
from fairmargin.baselines._two_sided import minimise_two_sided
from fairmargin.caller import warn
from fairmargin.decisions import count_groups
from fairmargin.notions import get_notion
from fairmargin.sensitive import Attribute
from fairmargin.validation import check_count, check_number

__all__ = ["SearchFair"]

_FIRST = 0.125  # first positive weight of the penalty, against 1 for the loss
_FINEST = 1e-9  # relative width of the interval of weights at which there is nothing left to halve
_LARGEST = 1e4  # weight of the penalty beyond which only the penalty is minimised


@dataclass(frozen=True)
class _Point:
    """A classifier of the family: the weight of the penalty, the function, and the difference of the rates."""

    penalty: float
    w: np.ndarray
    b: float
    difference: float


class SearchFair(LinearClassifier):
    """Linear classifier with a convex penalty on unfairness, whose weight is searched until the decisions are fair.

    A covariance, or any convex stand-in for the difference of positive rates, can be small while the decisions are
    unfair. This method keeps the stand-in but judges the decisions: with f the group of the higher positive rate
    under the unconstrained classifier and b the other, minimise ::

        C { sum_i l(y_i f(x_i)) + lambda N [mean_{i in f} l(-f(x_i)) + mean_{i in b} l(f(x_i))] } + 1/2 ||w||^2

    for the lambda at which the difference of positive rates in the training data, f less b, is ``difference``. It
    falls continuously in lambda up to single people, and is found by bisection. `fairmargin.PRuleBound` asks for a
    p%-rule on decisions in the same spirit.

    Parameters
    ----------
    difference : float in [0, 1]
        The difference of rates to reach; 0 is equality.
    C : float, positive
        Weight of the loss against the ridge penalty.
    loss : str
        Any loss of this package by name: "logistic", "hinge", "squared_hinge", ...
    notion : str
        Whose rates are compared: "selection_rate" (everybody) or "true_positive_rate" (people with a positive
        label).
    tol : float
        How near the difference must come.
    max_iter : int
        Most classifiers to train.
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.

    Attributes
    ----------
    classes_ : ndarray (2,)
        The labels; ``classes_[1]`` is the favourable class.
    coef_ : ndarray (1, d)
    intercept_ : ndarray (1,)
    penalty_ : float
        The lambda found.
    difference_ : float
        The difference of rates in the training data, favoured less deprived.
    n_iter_ : int
        Number of classifiers trained.

    See Also
    --------
    fairmargin.PRuleBound : A rule with ``difference=0.05``, for every estimator.

    Examples
    --------
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import SearchFair
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = SearchFair(difference=0.05).fit(X, y, sensitive_features=z)
    >>> bool(p_rule(y, clf.predict(X), sensitive_features=z) > 75)
    True
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        avoids_disparate_treatment=True,
        avoids_disparate_impact=True,
        business_necessity=False,
        polyvalent=False,
        multiple=False,
        classifiers="Any convex margin-based",
        needs_z_at_prediction=False,
    )

    def __init__(
        self,
        difference: float = 0.0,
        *,
        C: float = 1.0,
        loss: str = "logistic",
        notion: str = "selection_rate",
        tol: float = 1e-3,
        max_iter: int = 40,
        pos_label: Any = None,
    ) -> None:
        self.difference = difference
        self.C = C
        self.loss = loss
        self.notion = notion
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> SearchFair:
        """Fit on ``X`` (n, d), ``y`` (n,) and z (n,)."""
        target, tol = self._check_parameters()
        people = self._read_people(X, y, sensitive_features, kind=BinaryGroups)
        family = self._family(validate_data(self, X, dtype=np.float64), people)
        found, self.n_iter_ = _search(family, target, tol, check_count(self.max_iter, "max_iter"))
        self.coef_, self.intercept_ = found.w[None, :], np.array([found.b])
        self.penalty_, self.difference_ = found.penalty, found.difference
        self.classes_ = people.classes
        if abs(found.difference - target) > tol and found.difference > target:
            warn(
                f"SearchFair did not reach a difference of {target:g}: {found.difference:.3g} is left after "
                f"{self.n_iter_} classifiers.",
                ConvergenceWarning,
            )
        return self

    def _check_parameters(self) -> tuple[float, float]:
        target = check_number(self.difference, "difference")
        if not 0 <= target <= 1:
            raise ValueError(f"difference must be between 0 and 1, got {self.difference!r}.")
        check_number(self.C, "C", positive=True)
        return target, check_number(self.tol, "tol", positive=True)

    def _family(self, X: np.ndarray, people: LabelledGroups) -> Callable[[float], _Point]:
        """Return the function that trains the classifier of a penalty; the favoured group is that of penalty 0."""
        label, group, groups = people.label, people.group, people.groups
        counted = get_notion(self.notion).counts(np.where(label == 1, 1.0, -1.0))
        attribute = Attribute(groups.name, tuple(groups.values), group.astype(np.intp)).take(np.flatnonzero(counted))

        def train(up: np.ndarray, down: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
            w, b = minimise_two_sided(X, up, down, loss=self.loss, C=self.C)
            return w, b, count_groups(attribute, (X @ w + b >= 0)[counted]).rate

        up, down = (label == 1).astype(float), (label == 0).astype(float)
        w, b, rates = train(up, down)
        favoured = int(np.argmax(rates))
        shares = [counted * (group == g) * len(label) / np.count_nonzero(counted * (group == g)) for g in (0, 1)]

        def point(penalty: float) -> _Point:
            if penalty == 0:
                return _Point(0.0, w, b, float(rates[favoured] - rates[1 - favoured]))
            other = train(up + penalty * shares[1 - favoured], down + penalty * shares[favoured])
            return _Point(penalty, other[0], other[1], float(other[2][favoured] - other[2][1 - favoured]))

        return point

    @available_if(lambda self: self.loss == "logistic")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability (n, 2) of each class (logistic loss only)."""
        return probabilities(self.decision_function(X))


def _search(family: Callable[[float], _Point], target: float, tol: float, max_iter: int) -> tuple[_Point, int]:
    """Return the classifier whose difference is nearest to the target, and how many were trained.

    The penalty is doubled until the difference is below the target, then the interval is halved.
    """
    points = [family(0.0)]
    if points[0].difference <= target + tol:
        return points[0], 1
    low, high = 0.0, np.inf
    while len(points) < max_iter and abs(points[-1].difference - target) > tol:
        penalty = max(2.0 * low, _FIRST) if np.isinf(high) else 0.5 * (low + high)
        if penalty > _LARGEST or penalty - low <= _FINEST * penalty:
            break
        points.append(family(penalty))
        if points[-1].difference > target:
            low = penalty
        else:
            high = penalty
    return min(points, key=lambda point: abs(point.difference - target)), len(points)
