"""Rules on the decisions themselves: ratios and differences of the rates of groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from fairmargin.constraints.base import Constraint
from fairmargin.notions import Notion, get_notion

__all__ = ["PRuleBound", "check_confidence", "check_percent"]

_PATHS = ("auto", "covariance", "decisions", "rates", "ccp")
_HIGHEST_CONFIDENCE = 0.998  # the exact test spends 0.001 of its level on an interval: here, half of it


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
        rates compared among some of the people or under several conditions, of ``"covariance"`` and ``"rates"``. Of
        many people it searches ``"decisions"`` alone where that leads to a classifier of use. With
        ``confidence`` it is ``"covariance"`` and ``"decisions"`` under every notion. For selection rates of several
        attributes at once ``"rates"``, which takes about as long, is now and then more accurate: try it.
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
    PRuleBound(p=80)
    >>> PRuleBound(80, confidence=0.95)
    PRuleBound(p=80, confidence=0.95)
    >>> PRuleBound(80, notion="true_positive_rate")
    PRuleBound(p=80, notion='true_positive_rate')
    >>> PRuleBound(difference=0.05, notion="equalized_odds")
    PRuleBound(difference=0.05, notion='equalized_odds')
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
