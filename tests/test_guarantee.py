"""The exact test of a ratio of rates, and the certificate of any classifier on people it has not seen."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm
from sklearn.linear_model import LogisticRegression

from fairmargin import FairLogisticRegression, NotCertifiedError, certify
from fairmargin.datasets import make_linear_synthetic
from fairmargin.exceptions import FavourableClassWarning
from fairmargin.guarantee.ratio_test import (
    GAMMA,
    effective_counts,
    p_value,
    people_needed,
    rejects,
    rejects_weighted,
    score,
)

TABLES = [(7, 9, 0.8), (12, 6, 0.8), (5, 20, 0.9), (15, 15, 0.5), (10, 10, 1.0), (1, 8, 0.8)]


def rejected(n1, n0, rho, level):
    """Which of all outcomes the exact test rejects, by ``x1`` and ``x0``."""
    return np.array([[rejects(x1, n1, x0, n0, rho, level) for x0 in range(n0 + 1)] for x1 in range(n1 + 1)])


def probability(region, n1, n0, pi1, pi0):
    """Probability of a region (n1 + 1, n0 + 1) at every pair of rates."""
    one = binom.pmf(np.arange(n1 + 1)[:, None], n1, pi1)
    two = binom.pmf(np.arange(n0 + 1)[:, None], n0, pi0)
    return np.einsum("ik,ij,jk->k", one, region.astype(float), two)


@pytest.mark.parametrize(("n1", "n0", "rho"), TABLES)
@pytest.mark.parametrize("level", [0.05, 0.2])
def test_the_size_is_never_above_the_level(n1, n0, rho, level):
    """Over a fine grid of the hypothesis: its boundary, and pairs of rates within."""
    region = rejected(n1, n0, rho, level)
    pi0 = np.linspace(0.0, 1.0, 4001)
    for share in (1.0, 0.98, 0.9, 0.5):
        assert probability(region, n1, n0, share * rho * pi0, pi0).max() <= level + 1e-12


def test_the_asymptotic_test_is_not_safe_where_the_exact_one_is():
    n1, n0, rho, level = 10, 60, 0.8, 0.05
    x1, x0 = np.meshgrid(np.arange(n1 + 1), np.arange(n0 + 1), indexing="ij")
    koopman = norm.sf(score(x1, n1, x0, n0, rho)) <= level
    pi0 = np.linspace(0.0, 1.0, 2001)
    assert probability(koopman, n1, n0, rho * pi0, pi0).max() > 1.1 * level
    exact = rejected(n1, n0, rho, level)
    assert probability(exact, n1, n0, rho * pi0, pi0).max() <= level
    assert not np.any(exact & ~koopman)  # what is safe rejects no more


def test_more_power_than_clopper_pearson():
    """Bounds of both rates at half of the level each, which is what Clopper and Pearson's intervals give."""
    n1, n0, rho, level = 40, 40, 0.8, 0.05
    low = np.nan_to_num([0.0, *(binom_quantile(x, n1 - x + 1, level / 2) for x in range(1, n1 + 1))])
    high = np.array([binom_quantile(x + 1, n0 - x, 1 - level / 2) if x < n0 else 1.0 for x in range(n0 + 1)])
    separate = low[:, None] > rho * high[None, :]
    exact = rejected(n1, n0, rho, level)
    koopman = (
        norm.sf(
            score(
                *np.meshgrid(np.arange(n1 + 1), np.arange(n0 + 1), indexing="ij")[:1],
                n1,
                np.arange(n0 + 1)[None, :],
                n0,
                rho,
            )
        )
        <= level
    )
    pi = np.array([0.7, 0.8, 0.9])
    power = [probability(region, n1, n0, pi, pi) for region in (separate, exact, koopman)]
    assert np.all(power[1] > power[0] + 0.05)
    assert np.all(power[1] <= power[2] + 1e-12)
    assert np.all(power[1] > power[2] - 0.1)


def binom_quantile(a, b, q):
    from scipy.stats import beta

    return beta.ppf(q, a, b)


@pytest.mark.parametrize(("n1", "n0", "rho"), [*TABLES, (30, 50, 0.8), (50, 30, 0.95)])
def test_the_statistic_orders_outcomes(n1, n0, rho):
    """Growing in ``x1`` and falling in ``x0`` where it is positive: what the bound over cells rests on."""
    x1, x0 = np.meshgrid(np.arange(n1 + 1), np.arange(n0 + 1), indexing="ij")
    t = score(x1, n1, x0, n0, rho)
    room = 1e-9
    assert np.all((np.diff(t, axis=0) >= -room) | (t[1:] <= 0) | (t[:-1] <= 0))
    assert np.all((np.diff(t, axis=1) <= room) | (t[:, 1:] <= 0) | (t[:, :-1] <= 0))


@pytest.mark.parametrize(
    "counts", [(6, 9, 8, 20, 0.8), (9, 9, 11, 12, 0.8), (4, 30, 1, 30, 0.9), (40, 90, 70, 200, 0.8)]
)
def test_p_values_against_brute_force(counts):
    """The supremum over the interval of the rate, by enumerating every outcome at every rate of a fine grid."""
    x1, n1, x0, n0, rho = counts
    a, b = np.meshgrid(np.arange(n1 + 1), np.arange(n0 + 1), indexing="ij")
    region = score(a, n1, b, n0, rho) >= score(x1, n1, x0, n0, rho) * (1 - 1e-9)
    low = binom_quantile(x0, n0 - x0 + 1, GAMMA / 2) if x0 else 0.0
    high = binom_quantile(x0 + 1, n0 - x0, 1 - GAMMA / 2) if x0 < n0 else 1.0
    grid = np.linspace(low, high, 5001)
    supremum = GAMMA + probability(region, n1, n0, rho * grid, grid).max()
    found = p_value(*counts)
    assert supremum <= found + 1e-9
    assert found <= supremum + 6e-4
    assert rejects(*counts, supremum + 1e-3)
    assert not rejects(*counts, supremum - 1e-6)


def test_decisions_at_a_level_are_those_of_the_p_value():
    rng = np.random.default_rng(0)
    for _ in range(25):
        n1, n0 = rng.integers(20, 150, 2)
        x1, x0 = rng.binomial(n1, 0.5), rng.binomial(n0, 0.5)
        p = p_value(x1, n1, x0, n0, 0.8)
        if abs(p - 0.05) > 1e-3:
            assert rejects(x1, n1, x0, n0, 0.8, 0.05) == (p <= 0.05)


def test_what_says_nothing_is_not_rejected():
    assert not rejects(0, 100, 0, 100, 0.8, 0.05)
    assert not rejects(100, 100, 100, 100, 1.0, 0.05)
    assert not rejects(10, 10, 0, 0, 0.8, 0.05)
    assert p_value(0, 50, 10, 50, 0.8) == 1.0
    assert not rejects_weighted((1.0, 1.0), (500.0, 1000.0), 0.8, 0.05)
    with pytest.raises(ValueError, match="rho must be"):
        p_value(1, 2, 1, 2, 1.5)


def test_people_needed_is_the_formula():
    z, half = norm.ppf(0.95), norm.ppf(0.9)
    variance = 0.8 / (0.2 * 0.3 * 0.7)
    expected = 2 * variance * (z + np.sqrt(2) * half) ** 2 / np.log(0.8) ** 2
    assert people_needed(0.2, 0.3, 0.8, 0.95, split=True) == int(np.ceil(expected))
    assert people_needed(0.2, 0.3, 0.8, 0.95, split=False, ratio=0.79) is None


class Rule:
    """A classifier that accepts people by a column of ``X``."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        return np.asarray(X)[:, 0].astype(int)


def population(n, rates, shares, seed=0):
    """Decisions with known rates by group; the labels agree with them nine times in ten."""
    rng = np.random.default_rng(seed)
    z = rng.choice(len(rates), size=n, p=shares)
    accepted = rng.random(n) < np.asarray(rates)[z]
    y = np.where(rng.random(n) < 0.9, accepted, ~accepted)
    return accepted[:, None].astype(float), y.astype(int), np.array(list("abcdef"))[z]


def test_coverage_of_made_data_with_known_rates():
    """A classifier at the very edge of the rule: certified in at most 5% of draws, up to chance (p = 1e-4)."""
    draws = 200
    for rates, shares, n in [((0.4, 0.5), (0.3, 0.7), 400), ((0.08, 0.1), (0.5, 0.5), 300)]:
        broken = 0
        for seed in range(draws):
            X, _, z = population(n, np.array(rates) - [1e-6, 0], shares, seed)
            try:
                certify(Rule(), X, sensitive_features=z, p=80)
                broken += 1
            except NotCertifiedError:
                pass
        assert broken <= binom.isf(1e-4, draws, 0.05)
    # Not that it never certifies anything: at equal rates and many people it does.
    X, y, z = population(20_000, (0.5, 0.5), (0.5, 0.5))
    assert certify(Rule(), X, y, sensitive_features=z, p=90).p == 90


def test_a_certificate_says_who_was_tested():
    X, _, z = population(9000, (0.4, 0.4, 0.4), (0.3, 0.3, 0.4))
    found = certify(Rule(), X, sensitive_features=pd.Series(z, name="origin"), p=80, confidence=0.9)
    assert (found.p, found.confidence, found.kind, found.people, found.candidates) == (80, 0.9, "exact", 9000, 1)
    assert [(g.attribute, g.group, g.people) for g in found.groups] == [
        ("origin", group, int(np.sum(z == group))) for group in "abc"
    ]
    assert sum(g.accepted for g in found.groups) == int(X.sum())
    assert (
        "Tested on 9,000 people not used in training: with 90% confidence people of each origin (a, b, c) are "
        in (found.statement)
    )
    assert "Not covered: other populations, later years, groups not listed." in found.statement
    assert str(found) == found.statement


def test_what_is_not_supported_raises_and_says_how_many_people_are_needed():
    X, _, z = population(300, (0.4, 0.4), (0.2, 0.8))
    with pytest.raises(
        NotCertifiedError, match=r"300 people tested do not support the 80%-rule .* [\d,]+ people would succeed"
    ):
        certify(Rule(), X, sensitive_features=z)
    X, _, z = population(5000, (0.2, 0.4), (0.2, 0.8))
    with pytest.raises(NotCertifiedError, match="too far apart for more people to help") as caught:
        certify(Rule(), X, sensitive_features=z)
    assert caught.value.people_needed is None
    assert caught.value.failed == ("sensitive='a' against sensitive='b'",)


def test_a_small_group_gets_no_estimate_below_the_people_at_hand():
    X, _, z = population(5000, (0.5, 0.5), (0.5, 0.5))
    z[:8] = "r"
    X[:8] = np.array([1, 1, 1, 1, 1, 1, 1, 0])[:, None]  # more often than the others, by chance
    with pytest.raises(NotCertifiedError, match=r"sensitive='r' has 8 people.* merge small groups") as caught:
        certify(Rule(), X, sensitive_features=z)
    assert caught.value.people_needed is None or caught.value.people_needed > len(z)


def test_small_groups_are_named_never_dropped():
    X, _, z = population(5000, (0.5, 0.5), (0.5, 0.5))
    z[:5] = "r"
    with pytest.raises(NotCertifiedError, match=r"sensitive='r' has 5 people"):
        certify(Rule(), X, sensitive_features=z)


def test_constant_and_useless_decisions_are_not_certified():
    X, y, z = population(2000, (0.5, 0.5), (0.5, 0.5))
    with pytest.raises(NotCertifiedError, match="accepts everybody"):
        certify(Rule(), np.ones_like(X), sensitive_features=z)
    with pytest.raises(NotCertifiedError, match="nothing worth certifying"):
        certify(Rule(), X, 1 - y, sensitive_features=z)


def test_true_positive_rates_count_among_the_positive():
    X, y, z = population(8000, (0.5, 0.5), (0.5, 0.5))
    found = certify(Rule(), X, y, sensitive_features=z, notion="true_positive_rate")
    assert found.people == int(y.sum())
    with pytest.raises(ValueError, match="give the labels y, too"):
        certify(Rule(), X, sensitive_features=z, notion="true_positive_rate")
    refused = X.copy()
    refused[(y == 1) & (z == "a")] *= np.random.default_rng(0).random((np.sum((y == 1) & (z == "a")), 1)) < 0.5
    with pytest.raises(NotCertifiedError):
        certify(Rule(), refused, y, sensitive_features=z, notion="true_positive_rate")


def test_weights_make_the_test_asymptotic_unless_they_are_equal():
    X, y, z = population(6000, (0.5, 0.5), (0.5, 0.5))
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    assert certify(Rule(), X, sensitive_features=z, sample_weight=weight).kind == "asymptotic"
    assert "exact only for many" in certify(Rule(), X, sensitive_features=z, sample_weight=weight).statement
    assert certify(Rule(), X, sensitive_features=z, sample_weight=np.full(len(y), 3.0)).kind == "exact"
    few = np.where(np.arange(len(y)) < 100, 1.0, 1e-6)  # almost all weight on a hundred people
    with pytest.raises(NotCertifiedError):
        certify(Rule(), X, sensitive_features=z, sample_weight=few)


def test_models_of_others_and_between_groups():
    X, y, z = make_linear_synthetic(6000, random_state=0)
    group = np.random.default_rng(1).choice(list("abc"), len(y))
    train, new = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
    model = LogisticRegression().fit(X[train], y[train])
    for method in ("one_vs_rest", "between_groups"):
        assert certify(model, X[new], y[new], sensitive_features=group[new], method=method).method == method
    with pytest.raises(NotCertifiedError):
        certify(model, X[new], y[new], sensitive_features=z[new])
    fair = FairLogisticRegression().fit(X[train], y[train], sensitive_features=z[train])
    assert certify(fair, X[new], sensitive_features=z[new], p=70).p == 70


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"p": 0.8}, "did you mean 80"),
        ({"p": 120}, "p must be a percentage"),
        ({"confidence": 95}, "did you mean 0.95"),
        ({"confidence": 1.0}, "confidence must be from 0.5"),
        ({"confidence": "high"}, "confidence must be a number"),
        ({"method": "pairwise"}, "method must be"),
        ({"sensitive_features": np.linspace(0, 1, 50)}, "numeric and has no groups"),
        ({"sensitive_features": ["a"] * 50}, "only one group"),
        ({"sensitive_features": list("ab") * 10}, "20 rows, but there are 50 people"),
        ({"y": [0, 1]}, "y has 2 entries"),
    ],
)
def test_bad_input_is_one_sentence(wrong, match):
    X, _, z = population(50, (0.5, 0.5), (0.5, 0.5))
    given = {"sensitive_features": z, **wrong}
    with pytest.raises(ValueError, match=match):
        certify(Rule(), X, given.pop("y", None), **given)


def test_text_labels_are_not_certified_silently():
    X, y, z = population(4000, (0.5, 0.5), (0.5, 0.5))
    model = LogisticRegression().fit(X, np.where(y == 1, "accept", "refuse"))
    with pytest.warns(FavourableClassWarning, match="'refuse' is taken as the favourable class") as caught:
        found = certify(model, X, sensitive_features=z)
    assert caught[0].filename == __file__
    assert found.positive == "refuse"
    found = certify(model, X, sensitive_features=z, pos_label="accept")
    assert sum(g.accepted for g in found.groups) == int(X.sum())
    assert "accepting being the decision 'accept'" in found.statement
    assert certify(Rule(), X, sensitive_features=z).positive is None
    with pytest.raises(ValueError, match="pos_label='yes' is not among the labels"):
        certify(model, X, sensitive_features=z, pos_label="yes")


def test_weights_do_not_certify_a_group_of_one():
    X, _, z = population(2000, (0.5, 0.5), (1.0, 0.0))
    weight = np.ones(2000)
    weight[0] = 1.0001
    z[-1], X[-1] = "b", 1.0
    with pytest.raises(NotCertifiedError, match=r"sensitive='b' has 1 person"):
        certify(Rule(), X, sensitive_features=z, sample_weight=weight)


def test_effective_counts():
    weight, accepted = np.array([1.0, 2.0, 3.0, 1.0]), np.array([1.0, 0.0, 1.0, 1.0])
    rate = np.average(accepted, weights=weight)
    found = effective_counts(rate, weight.sum(), (weight**2).sum(), (weight**2 * accepted).sum())
    linearised = (weight**2 * (accepted - rate) ** 2).sum() / weight.sum() ** 2
    people = min(weight.sum() ** 2 / (weight**2).sum(), rate * (1 - rate) / linearised)
    np.testing.assert_allclose(found, (rate * people, people))
    np.testing.assert_allclose(effective_counts(0.25, 8.0, 8.0, 2.0), (2.0, 8.0))  # equal weights: people


def test_weighted_tests_keep_their_level():
    """At the very edge of the rule, with weights that are higher for the accepted: at most 5% up to chance."""
    draws, broken = 150, 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        z = rng.choice(["a", "b"], 1500, p=[0.3, 0.7])
        accepted = rng.random(1500) < np.where(z == "a", 0.25, 1.0 / 3.0)  # 0.4 and 0.5 by weight, as 2 r / (1 + r)
        weight = np.where(accepted, 2.0, 1.0) * rng.uniform(0.5, 1.5, 1500)
        try:
            certify(Rule(), accepted[:, None].astype(float), sensitive_features=z, sample_weight=weight)
            broken += 1
        except NotCertifiedError:
            pass
    assert broken <= binom.isf(1e-4, draws, 0.05)


def test_records_count_people_and_have_weighted_rates_beside():
    X, _, z = population(6000, (0.5, 0.5), (0.5, 0.5))
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 6000) * np.where(X[:, 0] == 1, 2.0, 1.0)
    for group in certify(Rule(), X, sensitive_features=z, sample_weight=weight).groups:
        inside = z == group.group
        assert group.accepted == int(X[inside].sum())
        np.testing.assert_allclose(group.rate, np.average(X[inside, 0], weights=weight[inside]))
    assert {g.rate for g in certify(Rule(), X, sensitive_features=z).groups} == {None}
