"""Weights, error rates, scores, strata and exchanged decisions, against scikit-learn, scipy and numbers by hand."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact
from sklearn.metrics import accuracy_score, precision_score, recall_score, roc_auc_score
from statsmodels.stats.contingency_tables import StratifiedTable
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from fairmargin.audit import audit
from fairmargin.audit.scores import by_quantile, weighted_quantile
from fairmargin.sensitive import Attribute


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    n = 1200
    frame = pd.DataFrame({"sex": rng.choice(["man", "woman"], n), "job": rng.choice(["a", "b", "c"], n)})
    frame["origin"] = rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2])
    signal = rng.normal(size=n) + 0.6 * (frame["sex"] == "man") + 0.5 * (frame["job"] == "a")
    frame["score"] = signal
    frame["decision"] = (signal > 0.4).astype(int)
    frame["label"] = (signal + rng.normal(size=n) > 0.4).astype(int)
    frame["weight"] = rng.choice([0.0, 0.5, 1.0, 3.0], n)
    return frame


def test_error_rates_are_those_of_scikit_learn(table):
    result = audit(table["decision"], sensitive_features=table[["sex", "origin"]], y_true=table["label"])
    rows = {(r.attribute, r.group, r.measure): r for r in result.error_rates}
    assert len(rows) == 4 * (2 + 3)
    for attribute in ("sex", "origin"):
        for group, part in table.groupby(attribute):
            y, d = part["label"], part["decision"]
            expected = {
                "true positive rate": (recall_score(y, d), (y == 1).sum()),
                "false positive rate": (1 - recall_score(y, d, pos_label=0), (y == 0).sum()),
                "precision": (precision_score(y, d), (d == 1).sum()),
                "accuracy": (accuracy_score(y, d), len(y)),
            }
            for measure, (rate, people) in expected.items():
                row = rows[attribute, group, measure]
                assert (row.rate, row.people) == (pytest.approx(rate, rel=1e-12), people)
                low, high = proportion_confint(round(rate * people), people, method="wilson")
                assert (row.rate_low, row.rate_high) == pytest.approx((low, high), rel=1e-9)


def test_error_rates_are_tested_like_rates(table):
    result = audit(table["decision"], sensitive_features=table["sex"], y_true=table["label"], min_people=10)
    rows = [r for r in result.error_rates if r.p_value is not None]
    assert {r.measure for r in rows} == {"true positive rate", "false positive rate", "precision", "accuracy"}
    row = next(r for r in rows if r.measure == "true positive rate")
    own = table[(table["label"] == 1) & (table["sex"] == row.group)]["decision"]
    others = table[(table["label"] == 1) & (table["sex"] != row.group)]["decision"]
    cells = [[own.sum(), (1 - own).sum()], [others.sum(), (1 - others).sum()]]
    assert row.p_value == pytest.approx(fisher_exact(cells).pvalue, rel=1e-12)
    limits = confint_proportions_2indep(
        own.sum(), len(own), others.sum(), len(others), compare="diff", method="newcomb"
    )
    assert (row.difference_low, row.difference_high) == pytest.approx(limits, rel=1e-9)
    assert [r.p_adjusted for r in rows] == pytest.approx(multipletests([r.p_value for r in rows], method="holm")[1])


def test_unknown_labels_do_not_count(table):
    labels = table["label"].astype(object).where(np.arange(len(table)) % 3 != 0, None)
    known = table[labels.notna()]
    some = audit(table["decision"], sensitive_features=table["sex"], y_true=labels)
    only = audit(known["decision"], sensitive_features=known["sex"], y_true=known["label"])
    for got, wanted in zip(some.error_rates, only.error_rates, strict=True):
        assert (got.people, got.rate) == (wanted.people, wanted.rate)
    assert some.people == len(table)
    with pytest.raises(ValueError, match="No label"):
        audit([1, 0], sensitive_features=["a", "b"], y_true=[None, None])
    with pytest.raises(ValueError, match="3 labels in y_true for 2 decisions"):
        audit([1, 0], sensitive_features=["a", "b"], y_true=[1, 0, 1])


def test_groups_without_a_label_have_no_rate():
    result = audit([1, 0, 1, 0], sensitive_features=list("aabb"), y_true=[1, 1, 0, 0], min_people=1)
    rows = {(r.group, r.measure): r for r in result.error_rates}
    assert rows["b", "true positive rate"].rate is None
    assert rows["b", "true positive rate"].too_few
    json.dumps(result.to_dict(), allow_nan=False)


def test_equal_weights_change_nothing(table):
    plain = audit(table["decision"], sensitive_features=table[["sex", "origin"]], y_true=table["label"])
    scaled = audit(
        table["decision"],
        sensitive_features=table[["sex", "origin"]],
        y_true=table["label"],
        sample_weight=np.full(len(table), 2.5),
    )
    assert plain == scaled
    assert not scaled.weighted


def test_weights_by_hand(table):
    result = audit(
        table["decision"], sensitive_features=table["sex"], y_true=table["label"], sample_weight=table["weight"]
    )
    kept = table[table["weight"] > 0]
    assert result.weighted
    assert result.people == len(kept)
    assert result.notes == (f"{len(table) - len(kept)} people of weight zero were left out.",)
    for row in result.groups:
        part = kept[kept["sex"] == row.group]
        assert row.people == len(part)
        assert row.rate == pytest.approx(np.average(part["decision"], weights=part["weight"]), rel=1e-12)
        assert row.weight == pytest.approx(part["weight"].sum())
        effective = part["weight"].sum() ** 2 / (part["weight"] ** 2).sum()
        assert 0.9 * effective < row.effective_people <= effective * (1 + 1e-9)
        assert row.rate_low < row.rate < row.rate_high
    woman, man = (next(g for g in result.groups if g.group == name) for name in ("woman", "man"))
    assert woman.ratio == pytest.approx(100 * woman.rate / man.rate)
    assert woman.shortfall == pytest.approx(woman.weight * (man.rate - woman.rate))
    errors = {(r.group, r.measure): r for r in result.error_rates}
    part = kept[kept["sex"] == "woman"]
    expected = recall_score(part["label"], part["decision"], sample_weight=part["weight"])
    assert errors["woman", "true positive rate"].rate == pytest.approx(expected, rel=1e-12)


def test_weighted_tests_have_their_size():
    # Rates are equal and weights independent of decisions: rejections at 5% are at most that, but for chance.
    rng = np.random.default_rng(11)
    group = np.repeat(["a", "b"], 150)
    rejected = covered = 0
    for _ in range(200):
        decisions = (rng.random(300) < 0.4).astype(int)
        result = audit(decisions, sensitive_features=group, sample_weight=rng.exponential(size=300) + 0.05)
        row = next(g for g in result.groups if g.p_value is not None)
        rejected += row.p_value < 0.05
        covered += row.ratio_low <= 100.0 <= row.ratio_high
    error = 3 * np.sqrt(0.05 * 0.95 / 200)  # three standard errors of 200 draws
    assert rejected / 200 <= 0.05 + error
    assert covered / 200 >= 0.95 - error


def test_scores_above_the_median(table):
    result = audit(table["decision"], sensitive_features=table["sex"], scores=table["score"], y_true=table["label"])
    above = table["score"] > table["score"].median()
    spread = table["score"].std(ddof=0)
    means = table.groupby("sex")["score"].mean()
    for row in result.scoring[0].groups:
        inside = table["sex"] == row.group
        assert (row.people, row.positives) == (inside.sum(), (above & inside).sum())
    by_group = {g.group: g for g in result.scored}
    assert by_group["woman"].smd == pytest.approx((means["woman"] - means["man"]) / spread)
    assert by_group["man"].smd is None
    for group, part in table.groupby("sex"):
        assert by_group[group].auc == pytest.approx(roc_auc_score(part["label"], part["score"]), rel=1e-12)


def test_quantiles_with_weights_are_those_of_repeated_people():
    rng = np.random.default_rng(0)
    values, times = rng.normal(size=30), rng.integers(1, 5, 30)
    for share in (0.1, 0.5, 0.73):
        expected = np.quantile(np.repeat(values, times), share, method="averaged_inverted_cdf")
        assert weighted_quantile(values, share, times.astype(float)) == pytest.approx(expected)
    assert weighted_quantile(values, 0.5) == np.median(values)


def test_every_quantile_is_a_cut():
    scores = np.arange(20.0)
    sex = Attribute("sex", ("a", "b"), np.array([0, 1] * 10, dtype=np.intp))
    rows = by_quantile([(sex, 1)], scores, quantiles=(0.5, 0.9))
    half = next(r for r in rows if r.group == "a" and r.quantile == 0.5)
    # 10, 12, ..., 18 of the even numbers are above the median of 9.5, and 11, ..., 19 of the odd ones.
    assert (half.cut, half.people, half.accepted, half.ratio) == (9.5, 10, 5, pytest.approx(100.0))
    assert half.smd == pytest.approx(-1.0 / scores.std())
    assert next(r for r in rows if r.group == "b").ratio is None


def test_strata_against_statsmodels(table):
    result = audit(table["decision"], sensitive_features=table["sex"], strata=table["job"])
    (row,) = result.strata
    assert (row.reference, row.by, row.common.strata) == ("man", ("job",), 3)
    cells = []
    for _, part in table.groupby("job"):
        counts = pd.crosstab(part["sex"], part["decision"])
        cells.append(counts.loc[["woman", "man"], [1, 0]].to_numpy(dtype=float))
    peer = StratifiedTable(cells)
    assert row.common.odds_ratio == pytest.approx(peer.oddsratio_pooled)
    assert row.common.p_value == pytest.approx(peer.test_null_odds().pvalue, rel=1e-9)
    assert row.p_adjusted == row.common.p_value


def test_a_difference_that_the_strata_explain():
    # Berkeley's paradox in small: within each job both sexes are accepted alike, but women ask for the harder one.
    frame = pd.DataFrame(
        [("easy", "man", 80, 100), ("easy", "woman", 16, 20), ("hard", "man", 4, 20), ("hard", "woman", 20, 100)],
        columns=["job", "sex", "k", "n"],
    )
    people = frame.loc[frame.index.repeat(frame["n"])]
    decisions = np.concatenate(
        [np.r_[np.ones(k), np.zeros(n - k)] for k, n in zip(frame["k"], frame["n"], strict=True)]
    )
    result = audit(
        decisions, sensitive_features=people[["sex"]].reset_index(drop=True), strata=people["job"].tolist()
    )
    assert result.lowest.finding == "below the threshold; the rates differ beyond chance"
    assert result.strata[0].common.odds_ratio == pytest.approx(1.0)
    assert result.strata[0].common.ratio == pytest.approx(100.0)
    assert result.strata[0].common.p_value == pytest.approx(1.0)


def test_strata_that_tell_the_group(table):
    people = table[["sex"]].assign(branch=np.arange(len(table)) % 3)
    result = audit(table["decision"], sensitive_features=people.astype(str), strata=table["sex"].map(str.upper))
    assert [note for note in result.notes if "tell" in note] == [
        "The strata 'sex' tell the sensitive attribute 'sex': every stratum has one group only, so that nothing is "
        "compared within them."
    ]


def test_strata_that_cannot_be_used(table):
    with pytest.raises(ValueError, match="without weights"):
        audit(table["decision"], sensitive_features=table["sex"], strata=table["job"], sample_weight=table["weight"])
    with pytest.raises(ValueError, match="cut numbers into groups"):
        audit(table["decision"], sensitive_features=table["sex"], strata=table["score"])


def test_numbers_are_strata_of_their_own_as_in_training(table):
    codes = pd.factorize(table["job"])[0]
    (coded,) = audit(table["decision"], sensitive_features=table["sex"], strata=codes).strata
    (named,) = audit(table["decision"], sensitive_features=table["sex"], strata=table["job"]).strata
    assert coded.by == ("strata",)
    assert coded.common.ratio == pytest.approx(named.common.ratio)  # strata are summed in another order
    assert coded.common.strata == named.common.strata == 3


def test_two_people_change_places():
    decisions = [1] * 8 + [0] * 2 + [1] * 10 + [0] * 2
    result = audit(decisions, sensitive_features=["a"] * 10 + ["b"] * 12, min_people=1)
    row = next(g for g in result.groups if g.ratio is not None)
    # 8 of 10 against 10 of 12; after an exchange 9 of 10 against 9 of 12.
    assert row.ratio == pytest.approx(96.0)
    assert row.ratio_flipped == pytest.approx(120.0)
    assert row.flip_reverses
    assert not row.flip_matters
    close = audit([1] * 7 + [0] * 3 + [1] * 9 + [0], sensitive_features=["a"] * 10 + ["b"] * 10, min_people=1).lowest
    assert (close.ratio, close.ratio_flipped) == pytest.approx((100 * 7 / 9, 100.0))
    assert close.flip_matters
    assert close.odds_ratio == pytest.approx((7 / 3) / 9)


def test_weights_that_cannot_be_used():
    with pytest.raises(ValueError, match="non-zero"):
        audit([1, 0], sensitive_features=["a", "b"], sample_weight=[0, 0])
    with pytest.raises(ValueError, match="egative"):
        audit([1, 0], sensitive_features=["a", "b"], sample_weight=[1, -1])
    with pytest.raises(ValueError, match="sample_weight"):
        audit([1, 0], sensitive_features=["a", "b"], sample_weight=[1, 1, 1])
    with pytest.raises(ValueError, match="2 scores for 3 decisions"):
        audit([1, 0, 1], sensitive_features=["a", "b", "a"], scores=[1.0, 2.0])


def test_people_with_equal_weights_count_as_many_as_they_are():
    people = np.repeat(["a", "b"], [30, 60])
    decisions = np.r_[np.arange(30) % 3 == 0, np.arange(60) % 2 == 0].astype(int)
    for weight in 0.013 + 0.1 * np.arange(1, 40):
        found = audit(
            decisions,
            sensitive_features={"g": people},
            sample_weight=np.where(people == "a", weight, 1.0),
            min_people=30,
        )
        assert [group.effective_people for group in found.attributes[0].groups] == [30, 60]
