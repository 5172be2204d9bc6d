"""Metrics: the paper's definitions, by hand, with weights, several attributes and where rates are not defined."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import UndefinedMetricWarning

from fairmargin import class_p_rules, cv_score, decision_boundary_covariance, p_rule, positive_rates
from fairmargin.audit import audit
from fairmargin.exceptions import FavourableClassWarning

Z = list("aaaabbbbbb")
D = [1, 0, 0, 1, 1, 1, 1, 0, 1, 1]  # rates 1/2 and 5/6

people = st.integers(4, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from([0, 1]), min_size=n, max_size=n).filter(any),
        st.lists(st.sampled_from("abc"), min_size=n, max_size=n).filter(lambda z: len(set(z)) > 1),
        st.lists(st.integers(1, 5), min_size=n, max_size=n),
    )
)


def test_by_hand():
    assert p_rule(None, D, sensitive_features=Z) == pytest.approx(60.0)
    assert cv_score(None, D, sensitive_features=Z) == pytest.approx(5 / 6 - 1 / 2)
    table = positive_rates(None, D, sensitive_features=Z)
    assert table.index.tolist() == [("sensitive", "a"), ("sensitive", "b")]
    assert table["people"].tolist() == [4, 6]
    assert table["rate"].tolist() == pytest.approx([1 / 2, 5 / 6])
    assert table["rate_of_rest"].tolist() == pytest.approx([5 / 6, 1 / 2])
    assert table["ratio"].tolist() == pytest.approx([60.0, 100 * 5 / 3])


def test_each_value_against_the_rest_and_lowest_against_highest():
    z, d = list("aabbcc"), [1, 1, 1, 0, 1, 0]
    assert p_rule(None, d, sensitive_features=z) == pytest.approx(50.0)  # a against b and c: (2/4) / 1
    assert p_rule(None, d, sensitive_features=z, method="between_groups") == pytest.approx(50.0)
    z, d = list("aabbcc"), [1, 1, 1, 0, 1, 1]
    assert p_rule(None, d, sensitive_features=z) == pytest.approx(50.0)
    z, d = list("aabbbbcccc"), [1, 1, 1, 0, 0, 0, 1, 1, 0, 0]
    assert p_rule(None, d, sensitive_features=z) == pytest.approx(100 * 0.375)  # a: (3/8) / 1
    assert p_rule(None, d, sensitive_features=z, method="between_groups") == pytest.approx(25.0)
    assert cv_score(None, d, sensitive_features=z) == pytest.approx(1 - 0.375)
    assert cv_score(None, d, sensitive_features=z, method="between_groups") == pytest.approx(0.75)


def test_several_attributes_take_the_worst():
    table = pd.DataFrame({"same": list("xyxyxyxyxy"), "z": Z})
    alone = p_rule(None, D, sensitive_features=Z)
    assert p_rule(None, D, sensitive_features=table) == min(alone, p_rule(None, D, sensitive_features=table["same"]))
    assert set(positive_rates(None, D, sensitive_features=table).index.get_level_values(0)) == {"same", "z"}
    as_polars = pl.DataFrame({name: table[name].tolist() for name in table})
    assert p_rule(None, D, sensitive_features=as_polars) == p_rule(None, D, sensitive_features=table)


@given(people)
def test_weights_are_repetitions(case):
    d, z, weight = case
    rows = np.repeat(np.arange(len(d)), weight)
    for metric in (p_rule, cv_score):
        for method in ("one_vs_rest", "between_groups"):
            weighted = metric(None, d, sensitive_features=z, sample_weight=weight, method=method)
            repeated = metric(None, np.array(d)[rows], sensitive_features=np.array(z)[rows], method=method)
            assert weighted == pytest.approx(repeated, rel=1e-12, abs=1e-12)


@given(people)
def test_bounds_and_symmetry(case):
    d, z, _ = case
    p, cv = p_rule(None, d, sensitive_features=z), cv_score(None, d, sensitive_features=z)
    assert 0 <= p <= 100
    assert 0 <= cv <= 1
    assert (p == pytest.approx(100)) == (cv == pytest.approx(0, abs=1e-12))
    renamed = ["xyz"["cab".index(v)] for v in z]
    assert p_rule(None, d, sensitive_features=renamed) == pytest.approx(p)


def test_only_y_pred_counts_and_y_true_names_the_positive():
    assert p_rule(D[::-1], D, sensitive_features=Z) == p_rule(None, D, sensitive_features=Z)
    words = np.where(D, "yes", "no")
    assert p_rule(None, words, sensitive_features=Z, pos_label="yes") == pytest.approx(60.0)
    assert p_rule(None, words, sensitive_features=Z, pos_label="no") == pytest.approx(100 / 3)
    assert p_rule(["no", "yes"] * 5, ["yes"] * 10, sensitive_features=Z, pos_label="yes") == 100.0
    assert p_rule(None, np.where(D, 1, -1), sensitive_features=Z) == pytest.approx(60.0)
    assert p_rule(None, np.array(D, dtype=bool), sensitive_features=Z) == pytest.approx(60.0)


def test_words_without_pos_label_give_a_warning():
    words = np.where(D, "yes", "no")
    said = "'yes' is taken as the favourable class"
    for metric in (p_rule, cv_score, positive_rates):
        with pytest.warns(FavourableClassWarning, match=said) as heard:
            metric(None, words, sensitive_features=Z)
        assert heard[0].filename == __file__
    with pytest.warns(FavourableClassWarning, match=said) as heard:
        decision_boundary_covariance(words, D, sensitive_features=Z, notion="true_positive_rate")
    assert heard[0].filename == __file__
    with pytest.warns(FavourableClassWarning, match="2 is taken as the favourable class and 1 as the other"):
        p_rule(None, np.where(D, 2, 1), sensitive_features=Z)


def test_a_group_without_positives_has_ratio_zero():
    assert p_rule(None, [0, 0, 1, 1], sensitive_features=list("aabb")) == 0.0
    assert cv_score(None, [0, 0, 1, 1], sensitive_features=list("aabb")) == 1.0


def test_nobody_positive_is_said_and_chosen():
    with pytest.warns(UndefinedMetricWarning, match="Nobody gets the positive decision.*0/0.*100 is returned"):
        assert p_rule(None, [0, 0, 0, 0], sensitive_features=list("aabb")) == 100.0
    assert p_rule(None, [0, 0, 0, 0], sensitive_features=list("aabb"), zero_division=0.0) == 0.0
    assert cv_score(None, [0, 0, 0, 0], sensitive_features=list("aabb")) == 0.0
    assert positive_rates(None, [0, 0, 0, 0], sensitive_features=list("aabb"))["ratio"].isna().all()


def test_empty_groups_are_left_out():
    weight = [1, 1, 1, 1, 0, 0]
    d, z = [1, 0, 1, 1, 0, 0], list("aabbcc")
    assert p_rule(None, d, sensitive_features=z, sample_weight=weight) == pytest.approx(50.0)
    assert cv_score(None, d, sensitive_features=z, sample_weight=weight) == pytest.approx(0.5)
    table = positive_rates(None, d, sensitive_features=z, sample_weight=weight)
    assert np.isnan(table.loc[("sensitive", "c"), "rate"])
    assert table["weight"].tolist() == [2, 2, 0]


def test_covariance_by_hand_and_with_weights():
    scores, z = np.array([1.0, -2.0, 0.5, 3.0]), ["f", "f", "m", "m"]
    [value] = decision_boundary_covariance(None, scores, sensitive_features=z)
    assert value == pytest.approx(np.mean((np.array([0, 0, 1, 1]) - 0.5) * scores))
    weight = np.array([1, 2, 3, 1])
    rows = np.repeat(np.arange(4), weight)
    weighted = decision_boundary_covariance(None, scores, sensitive_features=z, sample_weight=weight)
    repeated = decision_boundary_covariance(None, scores[rows], sensitive_features=np.array(z)[rows])
    np.testing.assert_allclose(weighted, repeated)
    assert weighted.index.tolist() == [("sensitive", "m")]


@given(st.integers(0, 10**6), st.floats(-100, 100))
def test_covariance_ignores_a_constant(seed, shift):
    rng = np.random.default_rng(seed)
    z, scores = rng.normal(size=(30, 2)), rng.normal(size=30)
    plain = decision_boundary_covariance(None, scores, sensitive_features=z)
    moved = decision_boundary_covariance(None, scores + shift, sensitive_features=z)
    np.testing.assert_allclose(moved, plain, atol=1e-12)


def test_covariance_refuses_scores_that_are_none():
    with pytest.raises(ValueError, match="nan or infinite"):
        decision_boundary_covariance(None, [1.0, np.nan], sensitive_features=["a", "b"])
    with pytest.raises(ValueError, match="zero"):
        decision_boundary_covariance(None, [1.0, 2.0], sensitive_features=["a", "b"], sample_weight=[0, 0])


MISSING = [[1, 0, None, 1, 0, 1], [None] * 6, [1, 0, np.nan, 1, 0, 1], pd.Series([1, 0, pd.NA, 1, 0, 1])]


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("metric", [p_rule, cv_score, positive_rates, class_p_rules])
def test_missing_labels_and_decisions_are_named(metric, missing):
    known, z = [1, 0, 1, 1, 0, 1], list("aabbbb")
    with pytest.raises(ValueError, match=r"^y_true contains NaN: \d of 6 values are missing; leave"):
        metric(missing, known, sensitive_features=z)
    with pytest.raises(ValueError, match=r"^y_pred contains NaN"):
        metric(known, missing, sensitive_features=z)
    with pytest.raises(ValueError, match=r"^y_true contains NaN"):
        decision_boundary_covariance(missing, known, sensitive_features=z, notion="true_positive_rate")
    with pytest.raises(ValueError, match=r"^decisions contains NaN"):
        audit(missing, sensitive_features=z)


@pytest.mark.parametrize("pos_label", [None, 1])
def test_probabilities_are_no_decisions(pos_label):
    """Compared with a label they would all be negative, and nobody would be accepted."""
    scores = np.linspace(0.0, 1.0, 40)
    with pytest.raises(ValueError, match=r"y_pred has numbers such as 0\.0256, which are no labels"):
        p_rule(None, scores, sensitive_features=["a", "b"] * 20, pos_label=pos_label)
    with pytest.raises(ValueError, match="decisions has numbers"):
        audit(scores, sensitive_features=["a", "b"] * 20)


def test_many_labels_are_not_all_listed():
    with pytest.raises(ValueError, match=r"labels 0, 1, 10, 11, 12 and 35 more is positive"):
        p_rule(None, np.arange(40), sensitive_features=["a", "b"] * 20)


def test_many_groups_without_people_are_not_all_listed():
    rng = np.random.default_rng(0)
    z, d, strata = rng.choice(list("abcdefgh"), 3000), rng.integers(0, 2, 3000), rng.integers(0, 250, 3000)
    with pytest.warns(UndefinedMetricWarning, match=r"in sensitive='.'.*; .* and \d+ more: left out") as given:
        cv_score(None, d, sensitive_features=z, strata=strata)
    assert str(given[0].message).count("sensitive=") == 5
    with pytest.raises(ValueError, match=r"at most one group has anybody in: .*; .* and 33 more\. Merge") as error:
        p_rule(None, [1, 0] * 20, sensitive_features=["a", "b"] * 20, strata=[*range(39), 38])
    assert str(error.value).count(";") == 4
