"""Dataset constraints: positive rates bounded through the ramp loss, by majorisation and minimisation.

Goh, G., Cotter, A., Gupta, M. and Friedlander, M. (2016), Satisfying real-world goals with dataset constraints.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from fairmargin.baselines._bases import LinearClassifier
from fairmargin.baselines._capabilities import Capabilities
from fairmargin.baselines._groups import Groups, cell_totals, encode_favourable
from fairmargin.baselines._two_sided import minimise_two_sided
from fairmargin.caller import warn
from fairmargin.decisions import least_ratio
from fairmargin.inputs import check_same_order
from fairmargin.ranking import Population
from fairmargin.sensitive import Attribute, read_columns
from fairmargin.validation import check_count, check_flag, check_number

__all__ = ["DatasetConstraints"]

_GAP = 1e-3  # relative gap of a round's convex problem: the next round replaces it anyway
_SOLVES = 30  # support vector machines per round


@dataclass(frozen=True)
class _Constraints:
    """Constraints ``p_j . r(f) + n_j . r(-f) <= 1`` on the ramp r, with weights p, n (J, N) of at least 0."""

    positive: np.ndarray
    negative: np.ndarray

    @classmethod
    def p_rule(cls, attributes: list[Attribute], share: float) -> _Constraints:
        """Ask that neither a group nor everybody else has less than ``share`` of the other's positive rate.

        ``s_p(g) >= share * s_p(h)`` is ``share * s_p(h) + s_n(g) <= 1``, as ``s_n = 1 - s_p``.
        """
        positive, negative = [], []
        for attribute in attributes:
            for column in attribute.columns().T:
                inside, outside = column / column.sum(), (1.0 - column) / (1.0 - column).sum()
                for low, high in ((inside, outside), (outside, inside)):
                    positive.append(share * high)
                    negative.append(low)
        return cls(np.array(positive), np.array(negative))

    def values(self, up: np.ndarray, down: np.ndarray) -> np.ndarray:
        """Return the left-hand sides (J,), given r(f) or its majorant (N,), and the same of -f."""
        return self.positive @ up + self.negative @ down


def ramp(t: np.ndarray) -> np.ndarray:
    """Return ``min(max(1/2 + t, 0), 1)``."""
    return np.clip(0.5 + t, 0.0, 1.0)


@dataclass(frozen=True)
class _Round:
    """The convex problem at the last scores f': r(t) becomes ``max(0, 1/2 + t)`` where ``t' <= 1/2``, else 1."""

    X: np.ndarray
    label: np.ndarray
    constraints: _Constraints
    C: float
    up_is_hinge: np.ndarray
    down_is_hinge: np.ndarray

    def at(self, scores: np.ndarray) -> _Round:
        return replace(self, up_is_hinge=scores <= 0.5, down_is_hinge=-scores <= 0.5)

    def minimise(self, multipliers: np.ndarray) -> tuple[np.ndarray, float]:
        """Return ``w`` and ``b`` of least Lagrangian.

        With g = 2 f, ``max(0, 1/2 + f)`` is half a hinge loss of -g: a support vector machine in which people may
        count for both labels.
        """
        n = len(self.label)
        # What is charged for r(f) speaks for the negative label, and what is charged for r(-f) for the positive one.
        for_down = (self.label == 0) + n * (multipliers @ self.constraints.positive)
        for_up = (self.label == 1) + n * (multipliers @ self.constraints.negative)
        w, b = minimise_two_sided(
            self.X, for_up * self.down_is_hinge, for_down * self.up_is_hinge, loss="hinge", C=2.0 * self.C, tol=1e-5
        )
        return 0.5 * w, 0.5 * b

    def evaluate(self, w: np.ndarray, b: float) -> _Point:
        """Return the objective per person and the violations with the majorants in place of the ramps."""
        scores = self.X @ w + b
        up = np.where(self.up_is_hinge, np.maximum(0.0, 0.5 + scores), 1.0)
        down = np.where(self.down_is_hinge, np.maximum(0.0, 0.5 - scores), 1.0)
        errors = np.where(self.label == 1, down, up).mean()
        return _Point(w, b, errors + 0.5 * w @ w / (self.C * len(scores)), self.constraints.values(up, down) - 1.0)


@dataclass(frozen=True)
class _Point:
    """A function with its objective and its violations (J,)."""

    w: np.ndarray
    b: float
    objective: float
    violations: np.ndarray


def _solve(problem: _Round, feasible: _Point, multipliers: np.ndarray) -> tuple[_Point, np.ndarray]:
    """Return a feasible point nearly of least objective, and the multipliers, by cutting planes on the dual.

    Every function tried bounds the dual from above, ``z(v) <= objective + v . violations``. The linear program that
    maximises this model has as its own dual the mixture of least objective that is feasible; by convexity, so is the
    mixed function. ``feasible`` is the first one tried.
    """
    tried, lower, best = [feasible], -np.inf, multipliers
    v = multipliers
    for _ in range(_SOLVES):
        point = problem.evaluate(*problem.minimise(v))
        bound = point.objective + float(v @ point.violations)
        if bound > lower:
            lower, best = bound, v
        tried.append(point)
        shares, model = _mixture(tried)
        upper = float(shares @ [t.objective for t in tried])
        if upper - lower <= _GAP * upper:
            break
        # Half way to the model's maximum: far from what was tried the model says little.
        v = 0.5 * (best + model)
    mixed_w = shares @ np.array([t.w for t in tried])
    return problem.evaluate(mixed_w, float(shares @ [t.b for t in tried])), best


def _mixture(tried: list[_Point]) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of the feasible mixture of least objective, and the multipliers of its constraints."""
    found = linprog(
        [t.objective for t in tried],
        A_ub=np.array([t.violations for t in tried]).T,
        b_ub=np.maximum(tried[0].violations, 0.0),  # the first is feasible up to rounding
        A_eq=np.ones((1, len(tried))),
        b_eq=[1.0],
        method="highs",
    )
    return found.x, -found.ineqlin.marginals


class DatasetConstraints(LinearClassifier):
    """Linear classifier of least ramp loss whose positive rates, measured by the ramp, satisfy a p%-rule.

    With ``f(x) = w.x + b``, the ramp ``r(t) = min(max(1/2 + t, 0), 1)`` and the rates ``s_p(D) = mean_D r(f)``,
    ``s_n(D) = mean_D r(-f)``, minimise ::

        C sum_i r(-y_i f(x_i)) + 1/2 ||w||^2    s.t.  p/100 s_p(h) + s_n(g) <= 1

    for every group g and everybody else h, and the other way round. The problem is not convex. Majorisation and
    minimisation starts at f = 0, which is feasible; each round replaces r(t) by ``max(0, 1/2 + t)`` where
    ``t' <= 1/2`` at the last scores and by 1 elsewhere. That convex problem is solved through its dual, one
    support vector machine of this package per cutting plane. The objective never rises, and every round
    stays feasible.

    A ramp is not a count: the p%-rule of the decisions can be below p. By default the intercept is moved at the end
    to the most accurate place at which the rule holds for the decisions on the training data, if there is one.

    Parameters
    ----------
    p : float in [0, 100]
        The p%-rule to satisfy, in percent; 0 is no constraint.
    C : float, positive
        Weight of the errors against the ridge penalty.
    tune_intercept : bool
        Whether to move the intercept at the end.
    max_iter : int
        Most rounds.
    tol : float
        Change of the objective per person at which to stop.
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.

    Attributes
    ----------
    classes_ : ndarray (2,)
        The labels; ``classes_[1]`` is the favourable class.
    coef_ : ndarray (1, d)
    intercept_ : ndarray (1,)
    objectives_ : ndarray ``(n_iter_ + 1,)``
        The objective per person at the start and after each round.
    p_rule_ : float
        The p%-rule of the decisions on the training data, in percent; nan if nobody is accepted.
    n_iter_ : int

    See Also
    --------
    fairmargin.PRuleBound : The same rule by a search over convex problems.

    Examples
    --------
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import DatasetConstraints
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = DatasetConstraints(p=80).fit(X, y, sensitive_features=z)
    >>> bool(p_rule(y, clf.predict(X), sensitive_features=z) > 70)
    True
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        avoids_disparate_treatment=True,
        avoids_disparate_impact=True,
        business_necessity=False,
        polyvalent=True,
        multiple=True,
        classifiers="Ramp loss",
        needs_z_at_prediction=False,
    )

    def __init__(
        self,
        p: float = 80.0,
        *,
        C: float = 1.0,
        tune_intercept: bool = True,
        max_iter: int = 20,
        tol: float = 1e-4,
        pos_label: Any = None,
    ) -> None:
        self.p = p
        self.C = C
        self.tune_intercept = tune_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> DatasetConstraints:
        """Fit on ``X`` (n, d), ``y`` (n,) and z (n,) or (n, k)."""
        share = check_number(self.p, "p") / 100.0
        if not 0 <= share <= 1:
            raise ValueError(f"p is in percent, from 0 to 100, got {self.p!r}.")
        check_same_order(X=X, y=y, sensitive_features=sensitive_features)
        label, classes = encode_favourable(y, X, self.pos_label)
        attributes = _attributes(sensitive_features, X, label, classes, type(self).__name__)
        X = validate_data(self, X, dtype=np.float64)
        constraints = _Constraints.p_rule(attributes, share)
        w, b = self._majorise(X, label, constraints)
        people = Population(label == 1, np.ones(len(label)), tuple(attributes))
        if check_flag(self.tune_intercept, "tune_intercept"):
            b += _best_shift(people, X @ w + b, share)
        self.coef_, self.intercept_, self.classes_ = w[None, :], np.array([b]), classes
        self.p_rule_ = float(least_ratio(people.counts(X @ w + b >= 0)))
        return self

    def _majorise(self, X: np.ndarray, label: np.ndarray, constraints: _Constraints) -> tuple[np.ndarray, float]:
        """Alternate between the majorant at the last scores and its minimum."""
        C, tol = check_number(self.C, "C", positive=True), check_number(self.tol, "tol", positive=True)
        n = len(label)
        signed = np.where(label == 1, 1.0, -1.0)
        everywhere = np.ones(n, dtype=bool)
        problem = _Round(X, label, constraints, C, everywhere, everywhere)
        multipliers = np.zeros(len(constraints.positive))
        w, b, objectives = np.zeros(X.shape[1]), 0.0, [0.5]
        for _ in range(check_count(self.max_iter, "max_iter")):
            majorant = problem.at(X @ w + b)
            point, multipliers = _solve(majorant, majorant.evaluate(w, b), multipliers)
            errors = ramp(-signed * (X @ point.w + point.b)).mean()
            objective = float(errors + 0.5 * point.w @ point.w / (C * n))
            if objective > objectives[-1] - tol:
                break
            w, b = point.w, point.b
            objectives.append(objective)
        else:
            warn(
                f"DatasetConstraints did not converge in {self.max_iter} rounds.",
                ConvergenceWarning,
            )
        self.objectives_, self.n_iter_ = np.array(objectives), len(objectives) - 1
        return w, b


def _attributes(
    sensitive_features: Any, X: Any, label: np.ndarray, classes: np.ndarray, method: str
) -> list[Attribute]:
    """Return each attribute with its groups; every group needs both labels."""
    if sensitive_features is None:
        raise ValueError(f"{method} needs sensitive_features: the value of each attribute for each row of X.")
    attributes = []
    for name, column in read_columns(sensitive_features):
        groups, codes = Groups.learn(column, X, method=method)
        cell_totals(codes, label, groups, classes)
        attributes.append(Attribute(str(name), tuple(groups.values.tolist()), codes.astype(np.intp)))
    return attributes


def _best_shift(people: Population, scores: np.ndarray, share: float) -> float:
    """Return how far to move the intercept to the most accurate cut that keeps the rule; 0 where none does."""
    ranking = people.rank(scores)
    if not len(ranking.accepted):
        return 0.0
    ratios = least_ratio(ranking.counts(np.arange(len(ranking.accepted))))
    accuracy = np.where(ratios >= 100.0 * share, ranking.accuracy, -1.0)
    best = int(np.argmax(accuracy))
    return -ranking.threshold(best) if accuracy[best] >= 0 else 0.0
