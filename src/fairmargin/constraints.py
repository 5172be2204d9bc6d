"""What can be asked of a classifier: immutable descriptions, free of data.

An estimator takes one as ``constraint=``. What each means is worked out in :mod:`fairmargin.formulations`
once there are data; here are only the words and the checks that need none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.named_people import as_mask, in_groups
from fairmargin.notions import Notion, get_notion
from fairmargin.sensitive import Sensitive

__all__ = [
    "Constraint",
    "CovarianceBound",
    "IndividualLossBound",
    "LossBound",
    "PRuleBound",
    "by_column",
    "check_confidence",
    "check_gamma",
    "check_percent",
]

Array = NDArray[np.float64]

_PATHS = ("auto", "covariance", "decisions", "rates", "ccp")
_HIGHEST_CONFIDENCE = 0.998  # the exact test spends 0.001 of its level on an interval: here, half of it


class Constraint:
    """Base of everything that can be asked.

    Attributes
    ----------
    notion : str or Notion
        Which people count when groups are compared (:mod:`fairmargin.notions`).
    """

    notion: str | Notion = "selection_rate"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, as scikit-learn's ``clone`` and searches ask for them."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Any:
        """Return a constraint with some parameters changed; this one stays as it is.

        ``estimator.set_params(constraint__c=0.1)`` puts the changed constraint into the estimator, so that
        ``constraint__c`` can be searched over.
        """
        known = self.get_params()
        unknown = sorted(set(params) - set(known))
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no parameter {unknown[0]!r}; it has {', '.join(map(repr, known))}."
            )
        return type(self)(**{**known, **params})

    def __repr__(self) -> str:
        declared = getattr(type(self), "__dataclass_fields__", {})
        optional = {name: f.default for name, f in declared.items() if f.kw_only}
        given = {name: value for name, value in vars(self).items() if name not in optional or value != optional[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


@dataclass(frozen=True, repr=False)
class CovarianceBound(Constraint):
    """Bound the decision boundary covariance: ``|cov(z_k, f(x))| <= c_k`` for every sensitive column k.

    Parameters
    ----------
    c : float or mapping, default=0.0
        One bound for all; or a mapping from attribute to a bound, or from attribute to a mapping from
        category to a bound. Attributes and categories that a mapping does not name are not bounded.
    relative : bool, default=False
        Whether ``c`` is a share of the unconstrained classifier's covariance: ``|cov_k| <= c |cov*_k|``
        (the factor *a* of the paper).
    notion : str or Notion, default="selection_rate"
        Which people count when groups are compared; see :mod:`fairmargin.notions`.

    See Also
    --------
    CovariancePenalty : A price on the covariance instead of a limit.
    PRuleBound : A rule on decisions instead of scores.

    Examples
    --------
    >>> CovarianceBound(0.1)
    CovarianceBound(c=0.1, relative=False)
    >>> CovarianceBound({"sex": 0.0, "race": {"Black": 0.0, "Other": 0.05}})
    CovarianceBound(c={'sex': 0.0, 'race': {'Black': 0.0, 'Other': 0.05}}, relative=False)
    """

    c: float | Mapping[str, Any] = 0.0
    relative: bool = False
    notion: str | Notion = field(default="selection_rate", kw_only=True)

    def __post_init__(self) -> None:
        get_notion(self.notion)
        if not isinstance(self.relative, bool | np.bool_):
            raise ValueError(f"relative must be True or False, got {self.relative!r}.")
        for where, bound in _leaves(self.c):
            _check_bound(bound, where)

    def thresholds(self, sensitive: Sensitive) -> Array:
        """Return ``c_k`` of each sensitive column, infinite where nothing is asked."""
        columns = by_column(self.c, sensitive, "bound")
        return np.array([min(map(float, columns[label]), default=np.inf) for label in sensitive.labels])


def by_column(asked: Any, sensitive: Sensitive, what: str) -> dict[tuple[str, Any], list[Any]]:
    """Return what is asked of each sensitive column, by its label; ``what`` names it in messages.

    ``asked`` is one number for all columns, a mapping from attribute to a number, or from attribute to a mapping from
    category to a number; both values of a binary attribute speak of its one column.
    """
    if not isinstance(asked, Mapping):
        return {label: [asked] for label in sensitive.labels}
    by_name = {a.name: a for a in sensitive.attributes}
    found: dict[tuple[str, Any], list[Any]] = {label: [] for label in sensitive.labels}
    for name, of_name in asked.items():
        if name not in by_name:
            known = ", ".join(repr(n) for n in by_name)
            raise ValueError(
                f"The {what} names the attribute {name!r}, which is not among the sensitive features; "
                f"the known ones are {known}."
            )
        attribute = by_name[name]
        if isinstance(of_name, Mapping):
            pairs = [(_column_category(attribute, category), value) for category, value in of_name.items()]
        else:
            pairs = [(category, of_name) for category in attribute.column_categories]
        for category, value in pairs:
            found[name, category].append(value)
    return found


def _leaves(c: Any, where: str = "") -> list[tuple[str, Any]]:
    if not isinstance(c, Mapping):
        return [(where, c)]
    if not c:
        raise ValueError(f"The covariance bound{where} is an empty mapping; name at least one attribute.")
    return [leaf for key, value in c.items() for leaf in _leaves(value, f"{where} of {key!r}")]


def _check_bound(bound: Any, where: str) -> None:
    if isinstance(bound, bool) or not isinstance(bound, Real):
        raise ValueError(f"The covariance bound{where} must be a number, got {bound!r}.")
    if not float(bound) >= 0:  # nan too
        raise ValueError(f"The covariance bound{where} must be zero or positive, got {bound!r}.")


def _column_category(attribute: Any, category: Any) -> Any:
    """Return the category whose column carries a bound on ``category``.

    The two values of a binary attribute share one column: their covariances differ in sign only.
    """
    if attribute.is_numeric:
        raise ValueError(
            f"The sensitive attribute {attribute.name!r} is numeric and has no categories; give it one bound."
        )
    if category not in attribute.categories:
        known = ", ".join(repr(c) for c in attribute.categories)
        raise ValueError(
            f"The bound names the category {category!r} of {attribute.name!r}, which does not occur; "
            f"the known ones are {known}."
        )
    return attribute.categories[1] if len(attribute.categories) == 2 else category


@dataclass(frozen=True, repr=False)
class LossBound(Constraint):
    """Minimise the covariance subject to a bound on the loss ("business necessity").

    Minimises the decision boundary covariance subject to ``L(theta) <= (1 + gamma) L*``, where ``L`` is the
    training objective and ``L*`` its unconstrained minimum. If the bound allows zero covariance, the classifier with
    the least loss among those that attain it is returned.

    Parameters
    ----------
    gamma : float
        How far the objective may exceed its minimum, e.g. 0.05 for 5%.
    norm : {"max", "sum"}, default="max"
        How the covariances of several sensitive columns are combined.
    weights : mapping from attribute to float, optional
        Importance of each attribute. Covariances are divided by those of the unconstrained classifier and multiplied
        by these weights (1 by default; 0 leaves an attribute out).
    notion : str or Notion, default="selection_rate"
        Which people count when groups are compared; see :mod:`fairmargin.notions`.

    See Also
    --------
    PerformanceBound : The same with accuracy, AUC or profit.
    IndividualLossBound : A bound on the loss of each person.

    Examples
    --------
    >>> LossBound(0.05)
    LossBound(gamma=0.05, norm='max', weights=None)
    """

    gamma: float
    norm: str = "max"
    weights: Mapping[str, float] | None = None
    notion: str | Notion = field(default="selection_rate", kw_only=True)

    def __post_init__(self) -> None:
        get_notion(self.notion)
        check_gamma(self.gamma)
        if self.norm not in ("max", "sum"):
            raise ValueError(f"norm must be 'max' or 'sum', got {self.norm!r}.")
        if self.weights is not None and not isinstance(self.weights, Mapping):
            raise ValueError(f"weights must be None or a mapping from attribute to weight, got {self.weights!r}.")
        for name, weight in (self.weights or {}).items():
            if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 <= float(weight) < np.inf:
                raise ValueError(f"The weight of {name!r} must be zero or positive, got {weight!r}.")

    def column_weights(self, sensitive: Sensitive) -> Array:
        """Return the weight of each sensitive column."""
        given = dict(self.weights or {})
        names = [a.name for a in sensitive.attributes]
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(
                f"weights names the attribute {unknown[0]!r}, which is not among the sensitive features; "
                f"the known ones are {', '.join(map(repr, names))}."
            )
        weights = np.array([float(given.get(name, 1.0)) for name, _ in sensitive.labels])
        if not np.any(weights > 0):
            raise ValueError("Every attribute has weight 0: there is no covariance to minimise.")
        return weights


@dataclass(frozen=True, eq=False, repr=False)
class IndividualLossBound(Constraint):
    """Minimise the covariance while keeping promises to individuals ("nobody approved today may be refused").

    Minimises the decision boundary covariance (of several columns the largest, each relative to the unconstrained
    classifier's) subject to ``loss_i <= (1 + gamma_i) loss_i*`` for every person, where ``loss_i*`` is the person's
    loss under the unconstrained classifier, and to ``f(x_i) >= 0`` for those who must keep their positive decision.
    The penalty ``1/2 ||w||^2`` is bounded in the same way; otherwise, a few people with extreme scores could reduce
    the covariance without any change of other decisions. Among the classifiers that attain the least covariance, the
    one with the least loss is returned.

    Parameters
    ----------
    gamma : float or array of shape (n,)
        How much each person's loss may grow; ``inf`` for no bound. The penalty may grow by the largest finite value;
        if there is none, it is not bounded.
    keep_positive : None, "accepted", mapping, bool mask or indices, default=None
        Who may not be refused: nobody; everybody whom the unconstrained classifier accepts; of those, the ones
        in a group (``{"sex": "Male"}`` or ``{"race": ["Black", "Other"]}``); or the people given, all of whom the
        unconstrained classifier must accept. To accept is to decide for ``classes_[1]``, the estimator's
        ``pos_label``.
    notion : str or Notion, default="selection_rate"
        Which people count when groups are compared; see :mod:`fairmargin.notions`.

    See Also
    --------
    LossBound : A bound on the total loss instead of each person's.

    Examples
    --------
    >>> IndividualLossBound(keep_positive="accepted")
    IndividualLossBound(gamma=inf, keep_positive='accepted')
    """

    gamma: Any = np.inf
    keep_positive: Any = None
    notion: str | Notion = field(default="selection_rate", kw_only=True)

    def __post_init__(self) -> None:
        get_notion(self.notion)
        for gamma in np.atleast_1d(np.asarray(self.gamma, dtype=object)).ravel():
            check_gamma(gamma, allow_inf=True)
        if isinstance(self.keep_positive, str) and self.keep_positive != "accepted":
            raise ValueError(
                "keep_positive must be None, 'accepted', a mapping from attribute to category, a mask or indices, "
                f"got {self.keep_positive!r}."
            )

    def gammas(self, n_given: int) -> Array:
        """Return ``gamma_i`` of each of the people given to ``fit``."""
        gamma = np.asarray(self.gamma, dtype=float)
        if gamma.ndim == 0:
            return np.full(n_given, float(gamma))
        if gamma.shape != (n_given,):
            raise ValueError(f"gamma has shape {gamma.shape}, but there are {n_given} people in X.")
        return gamma

    def kept(self, sensitive: Sensitive, accepted: NDArray[np.bool_], rows: NDArray[np.intp], n_given: int) -> Any:
        """Return the mask (of the people trained on) of those who must keep their positive decision.

        ``accepted`` is the unconstrained classifier's decision on them, ``rows`` their place among those given.
        """
        asked = self.keep_positive
        if asked is None:
            return np.zeros(len(rows), dtype=bool)
        if isinstance(asked, str):
            return accepted.copy()
        if isinstance(asked, Mapping):
            return accepted & in_groups(sensitive, asked, "keep_positive")
        mask = as_mask(asked, n_given, "keep_positive")[rows]
        refused = int(np.sum(mask & ~accepted))
        if refused:
            raise ValueError(
                f"keep_positive names {refused} people whom the unconstrained classifier refuses today; they have "
                "no positive decision to keep. Name only people it accepts."
            )
        return mask


@dataclass(frozen=True, repr=False)
class PRuleBound(Constraint):
    """The most accurate classifier found whose decisions on the training data reach a p%-rule.

    By default the rule is about selection rates. Under another ``notion`` it is about the rates of that notion, and
    under several conditions (equalised odds, strata) about each of them: the least ratio of the lower rate to the
    higher one must be at least ``p``. Where errors are counted (``"false_negative_rate"``, ``"error_rate"``), it is
    the ratio of these error rates. Where both rates are zero, they count as equal: a ratio of 100%. ``difference``
    bounds the difference of rates instead of their ratio.

    A rule that is met on the people trained on is often broken in the population, in about half of the draws or
    more. With ``confidence``, part of the people are set aside and the rule is tested on them: with probability at
    least ``confidence`` over their draw, either ``fit`` raises ``NotCertifiedError`` or every group's rule is at
    least ``p`` in the population they come from. ``guarantee_`` says what was tested. The people set aside must be
    untouched: fit a pipeline through :class:`fairmargin.CertifiedClassifier`. Fitting again with another
    ``random_state`` until it succeeds voids the promise.

    The rule is about the positive decision, ``classes_[1]``, the estimator's ``pos_label``. Where the
    unconstrained classifier reaches the rule, it is returned, with its intercept at the most accurate place that
    keeps the rule (unless there are class weights). Deciding the same for everybody satisfies every rule:
    such a classifier is returned, with a ``TrivialClassifierWarning``, only where no more accurate one was found.

    Parameters
    ----------
    p : float, optional
        In percent: 80 for the 80%-rule. Give either ``p`` or ``difference``.
    path : {"auto", "covariance", "decisions", "rates", "ccp"}, default="auto"
        Which family of classifiers to search, besides the unconstrained classifier. ``"covariance"``: the classifiers
        of least loss for each covariance, from the unconstrained one's through zero to the other sign.
        ``"decisions"``: cost-sensitive classifiers that pay for the gaps between the groups' rates. ``"rates"``: the
        classifiers of least loss whose smoothed rates are equal, by sequential convex programming. ``"auto"`` returns
        the more accurate, on the training data, of ``"covariance"`` and ``"decisions"``; where errors are counted, or
        rates compared among some of the people or under several conditions, of ``"covariance"`` and ``"rates"``. With
        ``confidence`` it is ``"covariance"`` and ``"decisions"`` under every notion.
        ``"ccp"``, of notions that depend on labels: covariances of errors by the convex-concave procedure (Zafar et
        al., WWW 2017).
        On each, the intercept is moved to the most accurate place that keeps the rule.
    method : {"one_vs_rest", "between_groups"}, default="one_vs_rest"
        As in :func:`fairmargin.p_rule`.
    difference : float, optional
        The largest difference of rates that is allowed, above 0 and below 1, instead of ``p``: 0.05 for five points.
    notion : str or Notion, default="selection_rate"
        Which people count when groups are compared, and which of their decisions; see :mod:`fairmargin.notions`.
    min_people : int, default=1
        Comparisons with fewer people on a side neither keep nor break the rule in the search. The test that
        ``confidence`` asks for covers every group nonetheless.
    confidence : float, optional
        Probability with which the rule must hold for people not seen yet; None (default) for the people trained on.
        For ratios only.
    safety_size : float or int, default=0.5
        Share or number of the people who are set aside for the test, unless ``fit`` is given a ``safety_set``.
    random_state : int, default=0
        Draws these people.
    guarantee : {"exact", "asymptotic"}, default="exact"
        ``"exact"`` tests on the people set aside, for any number of them. ``"asymptotic"`` lets everybody train and
        tests by cross-fitting in five folds: it succeeds with fewer people, but it tests other classifiers than the
        one returned, so that its confidence is approximate.
    min_gain : float, default=0.25
        Share of the accuracy that the unconstrained classifier gains over the better constant decision, on the
        people trained on, that a classifier must keep to be tested: deciding nearly the same for everybody keeps
        every rule.
    smooth_below : int, optional
        Size under which a group's rate is not taken as it is in training: the group is filled up to this size with
        people who are accepted at the rate of everybody else (its rate is shrunk towards the others'), so that a
        search does not chase the noise of a few people. The rule then holds for the smoothed rates; ``p_rule_`` is
        that of the decisions themselves. It has no part in a test of ``confidence``.

    See Also
    --------
    CovarianceBound : A bound on scores: convex, with a proof of optimality.
    CertifiedClassifier : A rule with a confidence for a whole pipeline.
    p_rule : Measures the rule.

    Examples
    --------
    >>> PRuleBound(80)
    PRuleBound(p=80, path='auto', method='one_vs_rest')
    >>> PRuleBound(80, confidence=0.95)
    PRuleBound(p=80, path='auto', method='one_vs_rest', confidence=0.95)
    >>> PRuleBound(80, notion="true_positive_rate")
    PRuleBound(p=80, path='auto', method='one_vs_rest', notion='true_positive_rate')
    >>> PRuleBound(difference=0.05, notion="equalized_odds")
    PRuleBound(p=None, path='auto', method='one_vs_rest', difference=0.05, notion='equalized_odds')
    """

    p: float | None = None
    path: str = "auto"
    method: str = "one_vs_rest"
    difference: float | None = field(default=None, kw_only=True)
    notion: str | Notion = field(default="selection_rate", kw_only=True)
    min_people: int = field(default=1, kw_only=True)
    confidence: float | None = field(default=None, kw_only=True)
    safety_size: float = field(default=0.5, kw_only=True)
    random_state: int = field(default=0, kw_only=True)
    guarantee: str = field(default="exact", kw_only=True)
    min_gain: float = field(default=0.25, kw_only=True)
    smooth_below: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._check_rule()
        self._check_guarantee()

    def _check_guarantee(self) -> None:
        if self.confidence is not None:
            check_confidence(self.confidence)
            if self.difference is not None:
                raise ValueError("confidence is for ratios of rates: give p instead of difference.")
        if self.guarantee not in ("exact", "asymptotic"):
            raise ValueError(f"guarantee must be 'exact' or 'asymptotic', got {self.guarantee!r}.")
        size = self.safety_size
        if not _is_count(size, 1) and not (isinstance(size, Real) and 0.0 < float(size) < 1.0):
            raise ValueError(f"safety_size must be a share between 0 and 1 or a number of people, got {size!r}.")
        if not _is_count(self.random_state, 0):
            raise ValueError(f"random_state must be a whole number from 0 on, got {self.random_state!r}.")
        below = self.smooth_below
        if below is not None and not _is_count(below, 1):
            raise ValueError(f"smooth_below must be None or a number of people from 1 on, got {below!r}.")
        if not isinstance(self.min_gain, Real) or not 0.0 <= float(self.min_gain) <= 1.0:
            raise ValueError(f"min_gain must be a share from 0 to 1, got {self.min_gain!r}.")

    def _check_rule(self) -> None:
        get_notion(self.notion)
        if self.p is not None and self.difference is not None:
            raise ValueError(f"Give either p (a ratio of rates) or difference, not both; got {self!r}.")
        if self.difference is not None:
            _check_difference(self.difference)
        elif self.p is None:
            raise ValueError("PRuleBound needs p, a percentage from 0 to 100, or difference, e.g. difference=0.05.")
        else:
            check_percent(self.p)
        if self.path not in _PATHS:
            raise ValueError(f"path must be one of {', '.join(map(repr, _PATHS))}, got {self.path!r}.")
        if self.path == "ccp" and not get_notion(self.notion).needs_labels:
            raise ValueError("path='ccp' bounds covariances of errors: name a notion that compares error rates.")
        if self.method not in ("one_vs_rest", "between_groups"):
            raise ValueError(f"method must be 'one_vs_rest' or 'between_groups', got {self.method!r}.")
        if not _is_count(self.min_people, 1):
            raise ValueError(f"min_people must be a positive whole number, got {self.min_people!r}.")


def check_percent(p: Any) -> float:
    """Return ``p`` as a float; raise unless it is a percentage, or if it looks like a share, such as 0.8."""
    if isinstance(p, bool) or not isinstance(p, Real) or not 0 <= float(p) <= 100:
        raise ValueError(f"p must be a percentage from 0 to 100, got {p!r}.")
    if 0 < float(p) <= 1:
        raise ValueError(f"p is in percent and {p!r} is nearly nothing; did you mean {100 * float(p):g}?")
    return float(p)


def _check_difference(difference: Any) -> None:
    if isinstance(difference, bool) or not isinstance(difference, Real) or not 0 < float(difference) < 1:
        raise ValueError(f"difference must be above 0 and below 1, e.g. 0.05, got {difference!r}.")


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def check_confidence(confidence: Any) -> float:
    """Return a confidence as a float; raise unless it is one that the exact test can reach."""
    if isinstance(confidence, bool) or not isinstance(confidence, Real):
        raise ValueError(f"confidence must be a number, e.g. 0.95, got {confidence!r}.")
    number = float(confidence)
    if not 0.5 <= number <= _HIGHEST_CONFIDENCE:
        hint = f"; did you mean {number / 100:g}?" if 50 <= number < 100 else "."
        raise ValueError(f"confidence must be from 0.5 to {_HIGHEST_CONFIDENCE:g}, got {confidence!r}{hint}")
    return number


def check_gamma(gamma: Any, allow_inf: bool = False) -> None:
    """Raise unless ``gamma`` is a number from 0 on."""
    if isinstance(gamma, bool) or not isinstance(gamma, Real):
        raise ValueError(f"gamma must be a number, got {gamma!r}.")
    if not float(gamma) >= 0 or (np.isinf(float(gamma)) and not allow_inf):
        raise ValueError(f"gamma must be zero or positive{'' if allow_inf else ' and finite'}, got {gamma!r}.")
