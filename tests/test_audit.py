"""The audit against scipy and statsmodels called directly, and against numbers worked out by hand."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, fisher_exact
from scipy.stats.contingency import association
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint, proportions_ztest

from fairmargin import cv_score, decision_boundary_covariance, p_rule
from fairmargin.audit import FINDINGS, TOO_FEW, UNDEFINED, audit, find_proxies, ratio_interval


def people(**groups):
    """Return decisions and groups from ``name=(positives, people)``."""
    decisions = np.concatenate([np.r_[np.ones(k), np.zeros(n - k)] for k, n in groups.values()]).astype(int)
    return decisions, pd.Series(np.repeat(list(groups), [n for _, n in groups.values()]), name="group")


ADULT = {"Female": (1669, 1669 + 13026), "Male": (9539, 9539 + 20988)}


def test_adult_by_hand():
    # The paper's data table: males 20,988 / 9,539, females 13,026 / 1,669 by <=50K / >50K.
    decisions, sex = people(**ADULT)
    result = audit(decisions, sensitive_features=sex)
    female, male = result.attributes[0].groups
    assert (result.people, result.positives) == (45222, 11208)
    assert (female.people, male.people) == (14695, 30527)
    assert female.rate == pytest.approx(0.113576, abs=5e-7)  # 1669 / 14695
    assert male.rate == pytest.approx(0.312477, abs=5e-7)  # 9539 / 30527
    assert female.ratio == pytest.approx(36.347, abs=5e-4)  # 0.1135760 / 0.3124775
    assert female.difference == pytest.approx(-0.198901, abs=1e-6)
    # Pooled rate 11208 / 45222 = 0.247844; its variance times (1/14695 + 1/30527) has the root 0.00433501.
    assert female.z == pytest.approx(-0.198901 / 0.00433501, rel=1e-5)
    # 14695 * 9539 / 30527 = 4591.86 would be at the men's rate; 1669 are.
    assert female.shortfall == pytest.approx(2922.86, abs=0.005)
    # One more: 1670 / 14695 * 30527 / 9539.
    assert female.ratio_one_more == pytest.approx(36.3687, abs=5e-5)
    assert female.ratio_one_fewer == pytest.approx(36.3252, abs=5e-5)
    assert not female.one_decision_matters
    # The logarithm of the ratio has the standard error sqrt(1/1669 - 1/14695 + 1/9539 - 1/30527) = 0.024558; with so
    # many people the interval differs from that of the normal distribution by less than a tenth of its half-width.
    spread = 1.959964 * 0.024558
    assert math.log(female.ratio_low / female.ratio) == pytest.approx(-spread, abs=0.1 * spread)
    assert math.log(female.ratio_high / female.ratio) == pytest.approx(spread, abs=0.1 * spread)
    assert female.p_value < 1e-300
    assert female.finding == "below the threshold; the rates differ beyond chance"
    assert male.finding == "reference"
    assert result.lowest == female
    assert result.attributes[0].p_rule == pytest.approx(female.ratio)
    assert result.attributes[0].cv_score == pytest.approx(0.198901, abs=1e-6)


@pytest.mark.data
def test_adult_from_the_files():
    from fairmargin.datasets import load_adult

    adult = load_adult()
    result = audit(adult.target, sensitive_features=adult.sensitive_features, intersections=True)
    by_hand = audit(people(**ADULT)[0], sensitive_features=people(**ADULT)[1].rename("sex"))
    own, expected = result.attributes[0].groups, by_hand.attributes[0].groups
    for got, wanted in zip(own, expected, strict=True):
        assert (got.group, got.people, got.positives, got.ratio) == (
            wanted.group,
            wanted.people,
            wanted.positives,
            wanted.ratio,
        )
        assert (got.z, got.p_value, got.shortfall) == (wanted.z, wanted.p_value, wanted.shortfall)
    assert result.attributes[1].p_rule == pytest.approx(
        p_rule(None, adult.target, sensitive_features=adult.sensitive_features[["race"]])
    )
    assert result.attributes[2].intersection
    assert sum(g.people for g in result.attributes[2].groups) == 45222


counts = st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def near(values):
    return pytest.approx(tuple(map(float, values)), rel=1e-12, abs=1e-12)


@settings(max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(first=counts, second=counts, third=counts)
def test_equal_to_direct_calls(first, second, third):
    decisions, groups = people(a=first, b=second, c=third)
    result = audit(decisions, sensitive_features=groups, reference={"group": "a"}, min_people=1)
    rows = {g.group: g for g in result.groups}
    (k_ref, n_ref), p_values = first, []
    for name, (k, n) in {"b": second, "c": third}.items():
        row = rows[name]
        p_values.append(fisher_exact([[k, n - k], [k_ref, n_ref - k_ref]]).pvalue)
        assert row.p_value == p_values[-1]
        assert (row.rate_low, row.rate_high) == near(proportion_confint(k, n, method="wilson"))
        low, high = confint_proportions_2indep(k, n, k_ref, n_ref, compare="diff", method="newcomb")
        assert (row.difference_low, row.difference_high) == near((low, high))
        if 0 < k + k_ref < n + n_ref:
            assert row.z == proportions_ztest([k, k_ref], [n, n_ref])[0]
        else:
            assert row.z is None
        if k_ref > 0:
            assert row.ratio_low <= row.ratio <= row.ratio_high
            assert (row.ratio_low, row.ratio_high) == near(100 * v for v in by_formula(k, n, k_ref, n_ref))
        assert row.finding in FINDINGS
    adjusted = multipletests(p_values, method="holm")[1]
    assert [rows["b"].p_adjusted, rows["c"].p_adjusted] == adjusted.tolist()
    json.dumps(result.to_dict(), allow_nan=False)


def by_formula(k, n, k_ref, n_ref):
    """Donner and Zou's limits of a ratio from statsmodels' limits of Clopper and Pearson."""
    (l1, u1), (l2, u2) = (proportion_confint(*pair, method="beta") for pair in ((k, n), (k_ref, n_ref)))
    p, q = k / n, k_ref / n_ref
    roots = np.roots([u2 * (2 * q - u2), -2 * p * q, l1 * (2 * p - l1)]) if k else [0.0]
    low = min(r for r in np.real(roots) if r >= 0)
    high = max(np.real(np.roots([l2 * (2 * q - l2), -2 * p * q, u1 * (2 * p - u1)])))
    return min(low, p / q), max(high, p / q)


@pytest.mark.parametrize("n", [10, 30, 200])
@pytest.mark.parametrize(
    "rates", [(0.005, 0.995), (0.02, 0.9), (0.5, 0.5), (0.98, 0.995), (0.995, 0.005), (0.99, 0.6)]
)
def test_the_interval_of_a_ratio_covers_it(n, rates):
    # Exactly, not by simulation: the probability of every pair of counts whose interval holds the true ratio.
    for n_ref in (10, 60):
        counts = [(n, rates[0]), (n_ref, rates[1])]
        likely = [np.flatnonzero(binom.pmf(np.arange(m + 1), m, p) > 1e-6) for m, p in counts]
        covered = sum(
            binom.pmf(k, n, rates[0]) * binom.pmf(k_ref, n_ref, rates[1])
            for k in likely[0]
            for k_ref in likely[1]
            if holds(ratio_interval(int(k), n, int(k_ref), n_ref), rates[0] / rates[1])
        )
        assert covered >= 0.94


def holds(interval, value):
    return interval[0] <= value * (1 + 1e-9) and value <= interval[1] * (1 + 1e-9)


@pytest.mark.parametrize("n", [(1000, 10000), (10000, 10000)])
def test_the_interval_covers_in_large_groups(n):
    rng = np.random.default_rng(0)
    for p, q in ((0.005, 0.995), (0.3, 0.4), (0.995, 0.99)):
        draws = rng.binomial(n, (p, q), size=(400, 2))
        covered = np.mean([holds(ratio_interval(int(k), n[0], int(m), n[1]), p / q) for k, m in draws])
        assert covered >= 0.94 - 3 * math.sqrt(0.95 * 0.05 / 400)  # three standard errors of 400 draws


def test_ratio_interval_at_the_edges():
    assert ratio_interval(0, 40, 20, 40)[0] == 0.0
    low, high = ratio_interval(40, 40, 40, 40)  # all of both: no certainty from forty people
    assert low < 0.95 < 1.0 < 1.05 < high
    low, high = ratio_interval(400000, 400000, 400000, 400000)
    assert low == pytest.approx(1.0, abs=1e-4)


def test_the_reference_is_the_highest_rate_of_large_enough_groups():
    decisions, groups = people(big=(300, 500), tiny=(3, 3), other=(200, 500))
    result = audit(decisions, sensitive_features=groups, method="between_groups")
    assert result.attributes[0].reference == "big"
    rows = {g.group: g for g in result.groups}
    assert rows["tiny"].finding == TOO_FEW
    assert rows["other"].finding == "below the threshold; the rates differ beyond chance"
    assert result.lowest.group == "other"
    named = audit(decisions, sensitive_features=groups, reference={"group": "other"})
    assert named.attributes[0].reference == "other"
    with pytest.raises(ValueError, match="'bigg' is no group of 'group'; did you mean 'big'"):
        audit(decisions, sensitive_features=groups, reference={"group": "bigg"})


def test_groups_alike_are_compared_all_the_same():
    result = audit(*people(a=(20, 50), b=(20, 50))[:1], sensitive_features=people(a=(20, 50), b=(20, 50))[1])
    other = next(g for g in result.groups if g.finding != "reference")
    assert other.ratio == 100.0
    assert other.p_value == 1.0
    assert other.finding == "no difference found"


@pytest.mark.parametrize(
    ("groups", "finding"),
    [
        ({"a": (50, 100), "b": (30, 100)}, "below the threshold; the rates differ beyond chance"),
        ({"a": (20, 40), "b": (14, 40)}, "below the threshold; the rates may differ by chance"),
        ({"a": (5000, 10000), "b": (4500, 10000)}, "above the threshold; the rates differ beyond chance"),
        ({"a": (50, 100), "b": (48, 100)}, "no difference found"),
        ({"a": (10, 20), "b": (1, 20)}, TOO_FEW),
        ({"a": (0, 100), "b": (0, 100)}, UNDEFINED),
    ],
)
def test_findings(groups, finding):
    decisions, names = people(**groups)
    result = audit(decisions, sensitive_features=names)
    assert [g.finding for g in result.groups if g.finding != "reference"] == [finding]
    text = json.dumps(result.to_dict(), allow_nan=False)
    assert "complian" not in text


def test_one_decision_that_matters_is_marked():
    decisions, groups = people(a=(50, 100), b=(39, 100))  # 78%; with one more 80%
    (row,) = [g for g in audit(decisions, sensitive_features=groups).groups if g.ratio is not None]
    assert row.one_decision_matters
    assert row.ratio_one_more == pytest.approx(80.0)


def test_intersections():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], 600), "old": rng.choice([False, True], 600)})
    decisions = rng.integers(0, 2, 600)
    result = audit(decisions, sensitive_features=frame, intersections=True)
    cross = result.attributes[-1]
    assert cross.name == "sex × old"
    assert [g.group for g in cross.groups] == ["f × False", "f × True", "m × False", "m × True"]
    for g in cross.groups:
        sex, old = g.group.split(" × ")
        inside = (frame["sex"] == sex) & (frame["old"].astype(str) == old)
        assert (g.people, g.positives) == (inside.sum(), decisions[inside].sum())
    with pytest.raises(ValueError, match="at least two sensitive attributes"):
        audit(decisions, sensitive_features=frame[["sex"]], intersections=True)


def test_measures_are_those_of_the_package():
    rng = np.random.default_rng(1)
    groups = pd.Series(rng.choice(["x", "y", "z"], 500), name="g")
    decisions, scores = rng.integers(0, 2, 500), rng.normal(size=500)
    row = audit(decisions, sensitive_features=groups, scores=scores).attributes[0]
    assert row.p_rule == pytest.approx(p_rule(None, decisions, sensitive_features=groups))
    assert row.cv_score == pytest.approx(cv_score(None, decisions, sensitive_features=groups))
    between = p_rule(None, decisions, sensitive_features=groups, method="between_groups")
    assert row.p_rule_between_groups == pytest.approx(between)
    covariance = decision_boundary_covariance(None, scores, sensitive_features=groups)
    assert [v for _, v in row.covariance] == pytest.approx(covariance.tolist())


def test_very_many_groups_are_put_together_and_counted():
    rng = np.random.default_rng(2)
    groups = np.r_[rng.choice(["a", "b"], 500), [f"rare {k}" for k in range(400)]]
    result = audit(rng.integers(0, 2, 900), sensitive_features=groups, max_groups=10)
    last = result.attributes[0].groups[-1]
    assert len(result.groups) == 10
    assert last.group == "other (393 groups)"
    assert last.merged == 393
    assert sum(g.people for g in result.groups) == 900


def test_one_group_or_numbers_are_refused():
    with pytest.raises(ValueError, match="only one group"):
        audit([0, 1], sensitive_features=["a", "a"])
    with pytest.raises(ValueError, match="numeric and has no groups"):
        audit([0, 1, 1], sensitive_features=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="no decisions"):
        audit([], sensitive_features=[])


def test_proxies_are_found_and_measured():
    rng = np.random.default_rng(3)
    n = 2000
    sex = rng.choice(["f", "m"], n)
    frame = pd.DataFrame(
        {
            "title": np.where(sex == "f", "Ms", "Mr"),
            "height": np.where(sex == "f", 165, 178) + rng.normal(0, 7, n),
            "noise": rng.normal(size=n),
            "id": [f"{k}" for k in range(n)],
            "gaps": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.normal(size=n)),
        }
    )
    found = find_proxies(frame, pd.Series(sex, name="sex"))
    assert [p.feature for p in found] == ["title", "height"]
    assert found[0].association == pytest.approx(1.0)
    assert found[0].guessed == 1.0
    assert found[0].baseline == pytest.approx(max(np.mean(sex == "f"), np.mean(sex == "m")))
    tenths = pd.qcut(frame["height"], 10, labels=False)
    table = pd.crosstab(tenths, sex).to_numpy()
    assert found[1].association == pytest.approx(association(table, method="cramer"))
    assert found[1].guessed == pytest.approx(table.max(axis=1).sum() / n)
