"""Odds ratios against scipy and statsmodels; the exactness of tests and intervals by enumeration."""

import numpy as np
import pytest
from scipy.stats import binom, contingency
from statsmodels.stats.contingency_tables import StratifiedTable, Table2x2

from fairmargin.odds_statistics import (
    equal_odds_p_value,
    mantel_haenszel,
    odds_ratio,
    odds_ratio_interval,
)

pytestmark = pytest.mark.numerical

TABLES = [(5, 25, 10, 40), (0, 20, 10, 40), (20, 20, 10, 40), (1, 30, 3, 12), (160, 400, 250, 900), (7, 9, 0, 11)]


def as_table(k, n, k_ref, n_ref):
    return np.array([[k, n - k], [k_ref, n_ref - k_ref]])


@pytest.mark.parametrize("table", TABLES)
def test_one_odds_ratio(table):
    expected = contingency.odds_ratio(as_table(*table), kind="conditional").confidence_interval(0.95)
    assert odds_ratio_interval(*table) == pytest.approx((expected.low, expected.high), rel=1e-8)
    if as_table(*table).min() > 0:
        assert odds_ratio(*table) == pytest.approx(Table2x2(as_table(*table)).oddsratio, rel=1e-12)


def test_an_odds_ratio_at_the_edges():
    assert odds_ratio(0, 5, 0, 5) is None
    assert odds_ratio(3, 5, 0, 5) == np.inf
    assert odds_ratio(0, 5, 3, 5) == 0.0
    assert odds_ratio_interval(0, 5, 0, 5) is None
    assert odds_ratio_interval(0, 5, 3, 5)[0] == 0.0
    assert odds_ratio_interval(3, 5, 0, 5)[1] == np.inf
    low, high = odds_ratio_interval(16690, 146950, 95390, 305270)  # large tables do not overflow
    assert 0.27 < low < 0.2819 < high < 0.29


@pytest.mark.parametrize(("p", "q"), [(0.05, 0.05), (0.3, 0.5), (0.9, 0.4)])
def test_the_interval_covers_the_odds_ratio(p, q):
    n, m, true = 15, 20, (p / (1 - p)) / (q / (1 - q))
    covered = 0.0
    for k in range(n + 1):
        for j in range(m + 1):
            limits = odds_ratio_interval(k, n, j, m)
            if limits is None or (limits[0] <= true * (1 + 1e-9) and true <= limits[1] * (1 + 1e-9)):
                covered += binom.pmf(k, n, p) * binom.pmf(j, m, q)
    assert covered >= 0.95


STRATA = [[(5, 25, 10, 40), (8, 20, 18, 30), (2, 15, 9, 30)], [(1, 4, 3, 5), (0, 6, 4, 9), (9, 9, 7, 12)]]


@pytest.mark.parametrize("tables", STRATA)
def test_strata_as_statsmodels_pools_them(tables):
    pooled = mantel_haenszel(tables)
    peer = StratifiedTable([as_table(*t).astype(float) for t in tables])
    assert pooled.odds_ratio == pytest.approx(peer.oddsratio_pooled, rel=1e-12)
    low, high = peer.oddsratio_pooled_confint()
    assert (pooled.odds_ratio_low, pooled.odds_ratio_high) == pytest.approx((low, high), rel=1e-10)
    assert pooled.ratio == pytest.approx(100 * peer.riskratio_pooled, rel=1e-12)
    assert pooled.p_value == pytest.approx(peer.test_null_odds(correction=False).pvalue, rel=1e-10)
    assert pooled.p_equal == pytest.approx(peer.test_equal_odds(adjust=True).pvalue, rel=1e-8)
    assert pooled.ratio_low < pooled.ratio < pooled.ratio_high


def test_strata_that_say_nothing_are_left_out():
    tables = [*STRATA[0], (0, 0, 3, 8), (5, 5, 7, 7), (0, 4, 0, 9)]
    pooled, without = mantel_haenszel(tables), mantel_haenszel(STRATA[0])
    assert (pooled.strata, pooled.informative) == (5, 3)
    assert (pooled.odds_ratio, pooled.p_value) == (without.odds_ratio, without.p_value)
    nothing = mantel_haenszel([(0, 4, 0, 9), (0, 0, 3, 8)])
    assert (nothing.strata, nothing.informative, nothing.p_value) == (1, 0, None)
    assert mantel_haenszel([]).strata == 0
    one_sided = mantel_haenszel([(0, 4, 3, 9)])
    assert one_sided.odds_ratio is None
    assert one_sided.p_value > 0.05


def test_the_common_ratio_covers_the_true_one():
    rng = np.random.default_rng(1)
    rates, sizes, true, covered = np.array([0.2, 0.4, 0.6]), np.array([[40, 60], [80, 50], [30, 90]]), 0.8, 0
    for _ in range(400):
        k, j = rng.binomial(sizes[:, 0], true * rates), rng.binomial(sizes[:, 1], rates)
        tables = [(int(a), int(n), int(c), int(m)) for a, c, (n, m) in zip(k, j, sizes, strict=True)]
        pooled = mantel_haenszel(tables)
        covered += pooled.ratio_low <= 100 * true <= pooled.ratio_high
    assert covered / 400 >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 400)  # three standard errors of 400 draws


@pytest.mark.parametrize(("p", "q"), [(0.1, 0.3), (0.5, 0.5), (0.9, 0.95)])
def test_equal_odds_are_rejected_no_more_often_than_allowed(p, q):
    # Exactly, over all outcomes of two small audits with the same rates, hence the same odds ratio.
    n, m = 5, 6
    rejected = np.zeros(3)
    levels = np.array([0.01, 0.05, 0.2])
    first, second = (binom.pmf(np.arange(s + 1), s, r) for s, r in ((n, p), (m, q)))
    for a in range(n + 1):
        for b in range(n + 1):
            for c in range(m + 1):
                for d in range(m + 1):
                    p_value = equal_odds_p_value((a, n, c, m), (b, n, d, m))
                    chance = first[a] * first[b] * second[c] * second[d]
                    rejected += chance * ((1.0 if p_value is None else p_value) <= levels)
    assert np.all(rejected <= levels)


def test_equal_odds_by_hand():
    # Two tables of 1 + 1 people with one acceptance each, once inside and once outside: four equally likely
    # combinations given the totals, of which k + k' = 1 leaves two.
    assert equal_odds_p_value((1, 1, 0, 1), (0, 1, 1, 1)) == pytest.approx(1.0)
    assert equal_odds_p_value((0, 1, 0, 1), (0, 1, 1, 1)) is None
    assert equal_odds_p_value((30, 100, 60, 100), (60, 100, 60, 100)) < 0.01
    assert equal_odds_p_value((3000, 10000, 6000, 10000), (3000, 10000, 6000, 10000)) == pytest.approx(1.0)
