"""Tests of the ratio of two positive rates: is one at least ``rho`` times the other?

Group 1 has ``x1`` positive decisions among ``n1`` people, group 0 has ``x0`` among ``n0``: independent binomial
counts with rates ``pi1`` and ``pi0``. The hypothesis to refute is ``pi1 <= rho pi0``, ``0 < rho <= 1``.

**The exact test.** People are ordered by the score statistic (Koopman; Miettinen and Nurminen)

    ``T = (p1 - rho p0) / sqrt(rho pi (1 - rho pi) / n1 + rho^2 pi (1 - pi) / n0)``,

with ``p = x / n`` and ``pi`` the estimate of ``pi0`` under ``pi1 = rho pi0``. Its p-value is the largest probability
of an outcome at least as extreme, over all rates of the hypothesis that are compatible with group 0 (Berger and
Boos): ``gamma + max_q P(T >= t | pi0 = q, pi1 = rho q)``, ``q`` in the ``1 - gamma`` interval of Clopper and Pearson.

**Why the boundary and the ends of cells suffice.** The outcomes with ``T >= t > 0`` are ``x1 >= c(x0)`` with ``c``
non-decreasing. For let ``a`` be the multiplier for which ``p0 = pi - a (1 - pi) / n0`` and
``p1 = rho pi + a (1 - rho pi) / n1`` (the score equation of ``pi``); then ``T^2 = a^2 (A - B pi) / (rho pi)`` with
``A = 1/n1 + rho/n0`` and ``B = rho (1/n1 + 1/n0)``.

- *T falls with x0.* For given ``p1``, ``a = n1 (p1 - rho pi) / (1 - rho pi)`` falls with ``pi``, and so does
  ``(A - B pi) / pi``; and ``pi`` grows with ``x0``.
- *T grows with x1.* For given ``p0``, ``a = n0 (pi - p0) / (1 - pi)``, and the derivative of ``log T^2`` by ``pi``,
  ``2 / (pi - p0) + 2 / (1 - pi) - A / (pi (A - B pi))``, is at least
  ``(2 / (1 - pi) - A / (A - B pi)) / pi``, which is not negative as ``B <= A`` for ``rho <= 1``.

Hence ``P(x1 >= c(x0))`` grows with ``pi1``, so that its maximum over the hypothesis is on ``pi1 = rho pi0``; and for
``pi0`` in a cell ``[q, q']`` it is at most ``sum_x Bin(x; n0, q) P(Bin(n1, rho q') >= c(x))``, as the second factor
falls with ``x``. The maximum is thus bounded from above, not estimated: the size of the test is never above its
level. (Should rounding ever disturb the order, ``c`` is lowered until it is non-decreasing, which is on the safe
side.)

**Weights.** Weighted rates are not binomial. They are tested by the same test on effective counts
(:func:`effective_counts`), which approximates for many people, takes its variance from the rates of the hypothesis
and not from those observed, and asks as much of small groups as of people without weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaln
from scipy.stats import norm

from fairmargin.rate_statistics import proportion_limits

__all__ = [
    "GAMMA",
    "effective_counts",
    "p_value",
    "people_needed",
    "rejects",
    "rejects_weighted",
    "score",
]

Array = NDArray[np.float64]

GAMMA = 1e-3  # probability that the interval of pi0 misses it, added to the p-value: 2% of a level of 5%
_FIRST_CELLS = 8  # of that interval; those that matter are divided further
_RESOLUTION = 5e-4  # of p-values, on the safe side: a hundredth of a level of 5%
_TAIL = 1e-10  # probability of counts of group 0 that are not looked at, but added
_MASSES_PER_TAIL = 20  # probabilities of one count that take as long as one incomplete beta function
_TIE = 1e-9  # statistics this close count as equal: outcomes are added, never lost, to rounding


def score(x1: Any, n1: int, x0: Any, n0: int, rho: float) -> Any:
    """Return the score statistic ``T`` of counts, elementwise; 0 where nobody (or, with ``rho = 1``, everybody) is
    accepted."""
    x1, x0 = np.asarray(x1, dtype=float), np.asarray(x0, dtype=float)
    total = x1 + x0
    middle = n1 * rho + x1 + n0 + x0 * rho
    root = np.sqrt(np.maximum(middle**2 - 4.0 * (n1 + n0) * rho * total, 0.0))
    pi = np.minimum(2.0 * total / (middle + root), 1.0)
    variance = rho * pi * ((1.0 - rho * pi) / n1 + rho * (1.0 - pi) / n0)
    difference = x1 / n1 - rho * x0 / n0
    return np.divide(difference, np.sqrt(variance), out=np.zeros_like(total), where=variance > 0)


def p_value(x1: int, n1: int, x0: int, n0: int, rho: float) -> float:
    """Return the exact p-value of ``pi1 <= rho pi0``; small values say that group 1 has at least the share ``rho``.

    It is above the supremum that defines it by at most ``5e-4``.
    """
    region = _Region.of(x1, n1, x0, n0, rho)
    return 1.0 if region is None else min(1.0, GAMMA + _largest(region))


def rejects(x1: int, n1: int, x0: int, n0: int, rho: float, level: float) -> bool:
    """Whether the exact test refutes ``pi1 <= rho pi0`` at a level: as ``p_value(...) <= level``, but faster."""
    region = _Region.of(x1, n1, x0, n0, rho)
    return region is not None and _largest(region, level - GAMMA) <= level - GAMMA


def _largest(region: _Region, enough: float = 0.0) -> float:
    """Return an upper bound on the largest probability of a region, by branch and bound over cells of ``pi0``.

    Cells are halved until their bounds are within the resolution of a probability that is attained, or below
    ``enough``; a probability attained above a positive ``enough`` ends the search.
    """
    edges = region.edges(_FIRST_CELLS)
    low, high = edges[:-1], edges[1:]
    attained, settled = 0.0, 0.0
    while len(low):
        middle = 0.5 * (low + high)
        attained = max(attained, float(region.bound(middle, middle).max()))
        if 0.0 < enough < attained:
            return attained
        bound = region.bound(low, high)
        is_open = bound > max(attained + _RESOLUTION, enough)
        settled = max(settled, float(bound[~is_open].max(initial=0.0)))
        low, middle, high = low[is_open], middle[is_open], high[is_open]
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return settled


class _Region:
    """The outcomes at least as extreme as the one observed: ``x1 >= c(x0)``."""

    def __init__(self, t: float, n1: int, x0: int, n0: int, rho: float) -> None:
        self.n1, self.n0, self.rho = n1, n0, rho
        self.low, self.high = proportion_limits(x0, n0, 1.0 - GAMMA)
        first, last = _span(n0, self.low)[0], _span(n0, self.high)[1]
        self.x0 = np.arange(first, last + 1)
        least = self._critical(t * (1.0 - _TIE))
        self.least = np.minimum.accumulate(least[::-1])[::-1]
        self.masses = _Masses(n0, self.x0)
        self.tails = _Tails(n1, self.least)

    @classmethod
    def of(cls, x1: int, n1: int, x0: int, n0: int, rho: float) -> _Region | None:
        """Return the region of an outcome; None where the outcome says nothing against the hypothesis."""
        if not 0.0 < rho <= 1.0:
            raise ValueError(f"rho must be above 0 and at most 1, got {rho!r}.")
        if min(n1, n0) < 1:
            return None
        t = float(score(x1, n1, x0, n0, rho))
        return cls(t, n1, x0, n0, rho) if t > 0 else None

    def _critical(self, t: float) -> NDArray[np.int64]:
        """Return ``c(x0)``, the least ``x1`` with ``T >= t``, by bisection; ``n1 + 1`` where there is none."""
        below = np.full(len(self.x0), -1)
        at = np.full(len(self.x0), self.n1 + 1)
        while np.any(at - below > 1):
            middle = (below + at) // 2
            reached = score(middle, self.n1, self.x0, self.n0, self.rho) >= t
            wide = at - below > 1
            at, below = np.where(wide & reached, middle, at), np.where(wide & ~reached, middle, below)
        return at

    def edges(self, cells: int) -> Array:
        """Return the ends of cells of the interval of ``pi0``, as wide as standard errors are."""
        angle = np.linspace(math.asin(math.sqrt(self.low)), math.asin(math.sqrt(self.high)), cells + 1)
        edges = np.sin(angle) ** 2
        edges[0], edges[-1] = self.low, self.high
        return edges

    def bound(self, low: Array, high: Array) -> Array:
        """Return an upper bound on the probability of the region for ``pi0`` in each cell ``[low, high]``."""
        mass, beyond = self.masses.at(low), self.tails.at(self.rho * high)
        below = 1.0 - _at_least(self.x0[0], self.n0, low)  # smaller counts of group 0: as if all were extreme
        above = _at_least(self.x0[-1] + 1, self.n0, low)
        return (mass * beyond).sum(axis=1) + below + above * beyond[:, -1]


class _Masses:
    """``P(Bin(n, p) = k)`` for counts ``k`` of shape (m,) and several ``p`` of shape (c,), as (c, m)."""

    def __init__(self, n: int, k: NDArray[np.int64]) -> None:
        self.k, self.others = k, n - k
        self.choices = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    def at(self, p: Array) -> Array:
        inside = np.clip(p, np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)[:, None]  # no 0 * log 0
        return np.exp(self.choices + self.k * np.log(inside) + self.others * np.log1p(-inside))


class _Tails:
    """``P(Bin(n, p) >= k)`` for ascending ``k`` of shape (m,) and several ``p`` of shape (c,), as (c, m).

    Where the counts lie close together, probabilities of single counts are added up from the last one.
    """

    def __init__(self, n: int, k: NDArray[np.int64]) -> None:
        self.n, self.k = n, k
        first, last = max(int(k[0]), 0), max(int(k[-1]), 0)
        self.place = np.maximum(k, 0) - first
        dense = last - first <= _MASSES_PER_TAIL * len(k)
        self.between = _Masses(n, np.arange(first, last)) if dense else None

    def at(self, p: Array) -> Array:
        if self.between is None:
            return _at_least(self.k, self.n, p[:, None])
        last = _at_least(self.k[-1:], self.n, p[:, None])
        ladder = np.concatenate([last, self.between.at(p)[:, ::-1]], axis=1).cumsum(axis=1)
        return np.asarray(ladder[:, ::-1][:, self.place])


def _at_least(k: Any, n: int, p: Any) -> Array:
    """Return ``P(Bin(n, p) >= k)``."""
    inside = betainc(np.clip(k, 1, n), n - np.clip(k, 1, n) + 1, p)
    return np.where(np.asarray(k) <= 0, 1.0, np.where(np.asarray(k) > n, 0.0, inside))


def _span(n: int, p: float) -> tuple[int, int]:
    """Return counts beyond which Bin(n, p) has less than ``_TAIL`` on either side (Bernstein's inequality)."""
    size = -math.log(_TAIL)
    reach = size / 3.0 + math.sqrt(size**2 / 9.0 + 2.0 * size * n * p * (1.0 - p))
    return max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach))


def effective_counts(rate: float, total: float, squares: float, accepted_squares: float) -> tuple[float, float]:
    """Return how many people, and how many of them accepted, a weighted rate is worth.

    ``(sum w)^2 / sum w^2`` people with equal weights would give the rate the variance that it has if weights have
    nothing to do with decisions. Where they have, so that the linearised variance
    ``v = sum_i w_i^2 (d_i - r)^2 / W^2`` is above ``r (1 - r) / n`` of these, the smaller number
    ``r (1 - r) / v`` counts.

    Parameters
    ----------
    rate : float
        Weighted rate ``r``.
    total, squares, accepted_squares : float
        Sums of the weights ``w``, of their squares, and of the squares of the people accepted.
    """
    people = total**2 / squares
    spread = ((1.0 - 2.0 * rate) * accepted_squares + rate**2 * squares) / total**2
    binomial = rate * (1.0 - rate)
    if spread * people > binomial > 0.0:
        people = binomial / spread
    people = round(people, 9)  # equal weights are worth whole people, but for rounding
    return rate * people, people


def rejects_weighted(one: tuple[float, float], two: tuple[float, float], rho: float, level: float) -> bool:
    """Whether the exact test refutes ``pi1 <= rho pi0`` on effective counts ``(x, n)`` of the two sides.

    Counts are rounded to the side that refutes less: fewer people, fewer accepted of group 1, more of group 0.
    """
    n1, n0 = math.floor(one[1]), math.floor(two[1])
    if min(n1, n0) < 1:
        return False
    x1, x0 = math.floor(one[0] * n1 / one[1]), math.ceil(two[0] * n0 / two[1])
    return rejects(x1, n1, x0, n0, rho, level)


def people_needed(
    rate: float, share: float, rho: float, confidence: float, *, split: bool, ratio: float = 1.0, power: float = 0.8
) -> int | None:
    """Return about how many people a test that succeeds with probability ``power`` needs.

    With ``sigma^2 = (1 - pi) / (pi q (1 - q))``, the variance of the logarithm of the ratio of rates per person, a
    test of a known classifier needs ``sigma^2 (z_{1 - delta} + z_{power})^2 / ln(ratio / rho)^2``. Where half of the
    people train the classifier (``split``), its own ratio is as uncertain as the test, both directions count, and
    there are two halves: ``2 sigma^2 (z_{1 - delta} + sqrt(2) z_{1 - beta / 2})^2 / ln(rho)^2``.

    Parameters
    ----------
    rate : float
        Positive rate ``pi`` of everybody.
    share : float
        Share ``q`` of the people who are in the smaller group of the comparison.
    ratio : float
        Ratio of rates that the classifier is taken to have.
    """
    room = math.log(ratio / rho) if ratio > 0 else -math.inf
    if not 0.0 < rate < 1.0 or not 0.0 < share < 1.0 or room <= 0.0:
        return None
    variance = (1.0 - rate) / (rate * share * (1.0 - share))
    quantile = float(norm.ppf(confidence))
    if split:
        quantile += math.sqrt(2.0) * float(norm.ppf(1.0 - (1.0 - power) / 2.0))
    else:
        quantile += float(norm.ppf(power))
    return math.ceil((2.0 if split else 1.0) * variance * quantile**2 / room**2)
