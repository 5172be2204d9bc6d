"""Counting by group: the same numbers however the decisions are given."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmargin.decisions import count_groups, highest_difference, least_ratio
from fairmargin.descending import descending
from fairmargin.notions import FalseNegativeRate
from fairmargin.ranking import Population
from fairmargin.sensitive import Attribute


def draw(seed, n=40, groups=3, whole=True):
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 5, n).astype(float) if whole else rng.random(n) + 0.1
    codes = np.r_[np.arange(groups), rng.integers(0, groups, n - groups)]
    other = np.r_[0, 1, rng.integers(0, 2, n - 2)]
    attributes = (Attribute("a", tuple(range(groups)), codes), Attribute("b", ("no", "yes"), other))
    scores = rng.normal(size=n).round(1)  # with ties
    return Population(rng.random(n) < 0.4, weight, attributes), scores


def by_hand(codes, accepted, weight, method):
    """The p of the p%-rule in plain loops."""
    rates = {g: np.average(accepted[codes == g], weights=weight[codes == g]) for g in np.unique(codes)}
    if method == "between_groups":
        return min(rates.values()) / max(rates.values())
    rest = {g: np.average(accepted[codes != g], weights=weight[codes != g]) for g in rates}
    return min(min(rates[g], rest[g]) / max(rates[g], rest[g]) for g in rates)


@given(st.integers(0, 10_000), st.integers(2, 5), st.sampled_from(["one_vs_rest", "between_groups"]))
def test_every_cut_is_counted_as_its_decisions_are(seed, groups, method):
    people, scores = draw(seed, groups=groups)
    ranking = people.rank(scores)
    cuts = np.arange(len(ranking.accepted))
    along = ranking.counts(cuts)
    reached, apart = least_ratio(along, method), highest_difference(along, method)
    for cut in cuts:
        accepted = scores >= ranking.thresholds(np.array([cut]))[0]
        assert accepted.sum() == ranking.accepted[cut]
        counts = people.counts(accepted)
        for alone, together in zip(counts, along, strict=True):
            np.testing.assert_array_equal(alone.positives, together.positives[:, cut])  # whole weights: exact
        assert least_ratio(counts, method) == reached[cut]
        assert highest_difference(counts, method) == apart[cut]
        assert ranking.accuracy[cut] == pytest.approx(people.accuracy(accepted), abs=1e-14)
        expected = min(by_hand(a.codes, accepted, people.weight, method) for a in people.attributes)
        assert reached[cut] == pytest.approx(100 * expected)


def test_some_cuts_are_counted_as_among_all():
    people, scores = draw(3, n=200)
    ranking = people.rank(scores)
    cuts = np.arange(len(ranking.accepted))
    for some in (cuts[5:9], cuts[::7], cuts[-1:]):
        for part, whole in zip(ranking.counts(some), ranking.counts(cuts), strict=True):
            np.testing.assert_array_equal(part.positives, whole.positives[:, some])


def test_scores_that_differ_by_rounding_are_not_separated():
    people, scores = draw(4, n=60)
    shaken = scores * (1 + 1e-9 * np.random.default_rng(0).normal(size=60))
    np.testing.assert_array_equal(people.rank(shaken).accepted, people.rank(scores).accepted)
    np.testing.assert_array_equal(people.rank(1e-6 * shaken).accepted, people.rank(scores).accepted)  # any unit


def test_the_better_constant_is_a_matter_of_labels():
    people, _ = draw(5)
    everybody = np.ones(40, dtype=bool)
    assert people.constant_accuracy == max(people.accuracy(everybody), people.accuracy(~everybody))


def test_rates_that_are_not_defined():
    attribute = Attribute("a", ("x", "y", "empty"), np.array([0, 0, 1, 1]))
    counts = count_groups(attribute, np.array([True, False, True, True]))
    assert np.isnan(counts.rate[2])
    assert counts.n_present == 2
    assert counts.ratio() == 0.5
    assert counts.difference() == 0.5
    assert np.isnan(count_groups(attribute, np.zeros(4)).ratio())
    assert count_groups(attribute, np.array([0, 0, 1, 1])).ratio() == 0.0
    with pytest.raises(ValueError, match="fewer than two groups with people"):
        count_groups(attribute, np.ones(4), np.array([1.0, 1.0, 0.0, 0.0])).ratio()


def test_many_groups_cost_no_square_of_their_number():
    """A table of groups times groups would need 20 GB here."""
    codes = np.arange(50_000)
    counts = count_groups(Attribute("id", tuple(codes), codes), codes % 2)
    assert counts.ratio() == 0.0
    np.testing.assert_allclose(counts.rate_of_rest, (25_000 - codes % 2) / 49_999)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@given(st.lists(st.floats(allow_nan=False, width=32), max_size=60))
def test_descending_is_a_sort(kind, values):
    scores = np.array(values + values[::2] + [0.0, -0.0], dtype=kind)
    order = descending(scores)
    np.testing.assert_array_equal(np.sort(order), np.arange(len(scores)))
    np.testing.assert_array_equal(scores[order], -np.sort(-scores))


def test_a_ranking_of_a_copy_is_counted_alike():
    population, scores = draw(3)
    ranking = population.rank(scores)
    again = copy.deepcopy(population).rank(scores)
    cuts = np.arange(0, len(ranking.accepted), 3)
    for one, other in zip(ranking.counts(cuts), again.counts(cuts), strict=True):
        np.testing.assert_array_equal(one.positives, other.positives)


def test_nan_is_ranked_last_whatever_its_sign():
    scores = np.array([1.0, np.nan, -1.0, 0.0], dtype=np.float32)
    for ranked in (scores, np.copysign(scores, -1.0, where=np.isnan(scores), out=scores.copy())):
        assert np.isnan(ranked[descending(ranked)[-1]])


def test_sums_of_weights_that_should_be_zero_are_zero():
    """Refusals of positive labels above all of them: 0, not 1e-17 in one group and 3e-17 in another."""
    r = np.random.default_rng(0)
    n = 40
    label, weight = np.arange(n) < 20, r.exponential(size=n)
    attributes = (Attribute("z", ("a", "b", "c"), r.integers(0, 3, n)),)
    people = Population(
        label, weight, attributes, conditions=FalseNegativeRate().conditions(np.where(label, 1.0, -1.0))
    )
    ranking = people.rank(np.arange(n, 0.0, -1.0))
    all_positive = ranking.accepted >= 20
    (counts,) = ranking.counts(np.flatnonzero(all_positive))
    assert np.all(counts.positives == 0.0)
    (counts,) = ranking.counts(np.flatnonzero(~all_positive))
    assert np.all(counts.positives.sum(axis=0) > 0.0)


def test_accuracies_do_not_hang_on_the_order_of_people():
    """Of two equally accurate classifiers, the last digits of the sum chose."""
    people, _ = draw(0, n=200, whole=False)
    scores = np.repeat([1.0, 2.0, 3.0, 4.0], 50)
    found = set()
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(200)
        mixed = Population(people.label[order], people.weight[order], people.attributes)
        accepted = scores[order] >= 3.0
        found |= {mixed.accuracy(accepted), float(mixed.rank(scores[order]).accuracy[1])}
    assert len(found) == 1
