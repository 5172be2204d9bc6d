"""Odds ratios of two groups: exact limits, pooling over strata, and whether two tables have the same one.

A table is ``(k, n, k_ref, n_ref)``: of ``n`` people of a group ``k`` get the positive decision, of the ``n_ref``
others ``k_ref``. Given the totals of both rows and columns, ``k`` follows Fisher's noncentral hypergeometric
distribution, ``P(k) ~ C(n, k) C(n_ref, s - k) psi^k`` with ``s = k + k_ref`` and ``psi`` the odds ratio. What is
exact here is exact given these totals, hence also without them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import chi2, norm

__all__ = ["CommonOdds", "TwoByTwo", "equal_odds_p_value", "mantel_haenszel", "odds_ratio", "odds_ratio_interval"]

Array = NDArray[np.float64]
TwoByTwo = tuple[int, int, int, int]
_Limits = tuple[float, float, float] | tuple[None, None, None]  # a value and its interval

_ROUNDING = 1e-7  # relative: probabilities closer than this are ties, as in scipy's fisher_exact


def odds_ratio(k: float, n: float, k_ref: float, n_ref: float) -> float | None:
    """Return ``(k / (n - k)) / (k_ref / (n_ref - k_ref))``, infinite where only the divisor is 0, None for 0/0."""
    above, below = k * (n_ref - k_ref), (n - k) * k_ref
    if below > 0:
        return above / below
    return math.inf if above > 0 else None


def odds_ratio_interval(
    k: int, n: int, k_ref: int, n_ref: int, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Return the exact conditional limits of the odds ratio; None where everybody is decided alike.

    Each limit is the odds ratio under which a count as far away as ``k`` has the probability
    ``(1 - confidence) / 2``.

    Examples
    --------
    >>> low, high = odds_ratio_interval(5, 25, 10, 40)
    >>> round(low, 3), round(high, 3)
    (0.175, 2.876)
    """
    counts, weights = _conditional(k, n, k_ref, n_ref)
    if len(counts) < 2:
        return None
    tail = 0.5 * (1.0 - confidence)

    def limit(beyond: NDArray[np.bool_]) -> float:
        return math.exp(_root(lambda log_odds: _share(counts, weights, beyond, log_odds) - tail))

    low = 0.0 if k == counts[0] else limit(counts >= k)
    high = math.inf if k == counts[-1] else limit(counts <= k)
    return low, high


def _conditional(k: int, n: int, k_ref: int, n_ref: int) -> tuple[Array, Array]:
    """Return the possible counts given the totals, and the logarithms of their weights for an odds ratio of 1."""
    total = k + k_ref
    counts = np.arange(max(0, total - n_ref), min(n, total) + 1, dtype=float)
    others = total - counts
    weights = -(gammaln(counts + 1) + gammaln(n - counts + 1) + gammaln(others + 1) + gammaln(n_ref - others + 1))
    return counts, weights


def _share(counts: Array, weights: Array, chosen: NDArray[np.bool_], log_odds: float) -> float:
    """Return the probability of the chosen counts under an odds ratio."""
    tilted = weights + log_odds * (counts - counts[0])
    chances = np.exp(tilted - tilted.max())
    return float(chances[chosen].sum() / chances.sum())


def _root(function: Callable[[float], float]) -> float:
    """Return the root of a monotone function of the logarithm of an odds ratio."""
    end = 1.0
    while function(-end) * function(end) > 0.0:
        end *= 2.0
    return float(brentq(function, -end, end, xtol=1e-12))


@dataclass(frozen=True)
class CommonOdds:
    """What strata say together.

    Attributes
    ----------
    strata, informative : int
        Strata with people on both sides, and those of them in which not everybody is decided alike.
    odds_ratio, odds_ratio_low, odds_ratio_high : float or None
        Mantel and Haenszel's common odds ratio; the interval is that of Robins, Breslow and Greenland.
    ratio, ratio_low, ratio_high : float or None
        Common ratio of rates in percent (Mantel and Haenszel); the interval is that of Greenland and Robins.
    p_value : float or None
        Test of Cochran, Mantel and Haenszel without continuity correction: within strata, rates do not differ.
    p_equal : float or None
        Test of Breslow and Day with Tarone's correction: strata have the same odds ratio.
    """

    strata: int
    informative: int
    odds_ratio: float | None = None
    odds_ratio_low: float | None = None
    odds_ratio_high: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p_value: float | None = None
    p_equal: float | None = None


def mantel_haenszel(tables: Sequence[tuple[float, float, float, float]], confidence: float = 0.95) -> CommonOdds:
    """Pool tables of several strata; those with nobody on a side are left out."""
    used = np.array([t for t in tables if min(t[1], t[3]) > 0], dtype=float).reshape(-1, 4)
    a, n, c, m = used.T
    total, positives = n + m, a + c
    informative = (positives > 0) & (positives < total)
    found = CommonOdds(len(used), int(informative.sum()))
    if not informative.any():
        return found
    a, n, c, m, total, positives = (v[informative] for v in (a, n, c, m, total, positives))
    expected = n * positives / total
    variance = n * m * positives * (total - positives) / (total**2 * (total - 1.0))
    statistic = float((a - expected).sum() ** 2 / variance.sum())
    quantile = float(norm.ppf(0.5 + 0.5 * confidence))
    odds, odds_low, odds_high = _common_odds(a, n, c, m, quantile)
    ratio, ratio_low, ratio_high = _common_ratio(a, n, c, m, quantile)
    return replace(
        found,
        odds_ratio=odds,
        odds_ratio_low=odds_low,
        odds_ratio_high=odds_high,
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        p_value=float(chi2.sf(statistic, 1)),
        p_equal=_breslow_day(a, n, c, m, odds),
    )


def _common_odds(a: Array, n: Array, c: Array, m: Array, quantile: float) -> _Limits:
    b, d, total = n - a, m - c, n + m
    R, S = a * d / total, b * c / total
    if R.sum() == 0.0 or S.sum() == 0.0:
        return None, None, None
    P, Q = (a + d) / total, (b + c) / total
    r, s = R.sum(), S.sum()
    variance = (P * R).sum() / (2 * r**2) + (P * S + Q * R).sum() / (2 * r * s) + (Q * S).sum() / (2 * s**2)
    return _around(float(r / s), float(variance), quantile)


def _common_ratio(a: Array, n: Array, c: Array, m: Array, quantile: float) -> _Limits:
    total = n + m
    r, s = float((a * m / total).sum()), float((c * n / total).sum())
    if r == 0.0 or s == 0.0:
        return None, None, None
    spread = float(((n * m * (a + c) - a * c * total) / total**2).sum())
    value, low, high = _around(r / s, spread / (r * s), quantile)
    return 100.0 * value, 100.0 * low, 100.0 * high


def _around(value: float, variance: float, quantile: float) -> tuple[float, float, float]:
    """Return a ratio and its limits from the variance of its logarithm."""
    half = quantile * math.sqrt(variance)
    return value, value * math.exp(-half), value * math.exp(half)


def _breslow_day(a: Array, n: Array, c: Array, m: Array, odds: float | None) -> float | None:
    if len(a) < 2 or odds is None:
        return None
    positives = a + c
    fitted = np.array([_fitted(*row, odds) for row in zip(n, m, positives, strict=True)])
    cells = np.array([fitted, n - fitted, positives - fitted, m - positives + fitted])
    variance = 1.0 / (1.0 / cells).sum(axis=0)
    statistic = float(((a - fitted) ** 2 / variance).sum() - (a - fitted).sum() ** 2 / variance.sum())
    return float(chi2.sf(max(statistic, 0.0), len(a) - 1))


def _fitted(n: float, m: float, positives: float, odds: float) -> float:
    """Return the count that a table with these totals would have under an odds ratio."""
    square, linear, constant = odds - 1.0, -(odds * (n + positives) + m - positives), odds * n * positives
    root = math.sqrt(max(linear**2 - 4.0 * square * constant, 0.0))
    return 2.0 * constant / (root - linear)  # the root between the limits, without cancellation


def equal_odds_p_value(before: TwoByTwo, now: TwoByTwo) -> float | None:
    """Return the p-value of Zelen's exact test that two tables have the same odds ratio; None if it cannot differ.

    Given the totals of both tables and ``k + k'``, the count ``k`` follows a distribution that does not depend on
    the common odds ratio. The p-value is the probability of counts that are no more likely than the one observed,
    so that the test rejects a true hypothesis with at most the probability asked for, for any number of people.
    """
    counts, weights = _conditional(*before)
    later, later_weights = _conditional(*now)
    total = before[0] + now[0]
    low, high = max(counts[0], total - later[-1]), min(counts[-1], total - later[0])
    possible = np.arange(low, high + 1.0)
    if len(possible) < 2:
        return None
    joint = weights[(possible - counts[0]).astype(int)] + later_weights[(total - possible - later[0]).astype(int)]
    chance = np.exp(joint - joint.max())
    chance /= chance.sum()
    observed = chance[int(before[0] - low)]
    return float(min(1.0, chance[chance <= observed * (1.0 + _ROUNDING)].sum()))
