"""An audit against an earlier one."""

import json

import numpy as np
import pytest
from scipy.stats import fisher_exact

from fairmargin.audit import audit, audit_drift
from fairmargin.odds_statistics import equal_odds_p_value


def make(**groups):
    """Return the plain data of an audit from ``name=(positives, people)``."""
    decisions = np.concatenate([np.r_[np.ones(k), np.zeros(n - k)] for k, n in groups.values()])
    return audit(decisions, sensitive_features=np.repeat(list(groups), [n for _, n in groups.values()])).to_dict()


def test_the_same_audit_has_not_drifted():
    plain = make(a=(40, 100), b=(70, 100), c=(30, 50))
    drift = audit_drift(plain, json.loads(json.dumps(plain)))
    assert [g.finding for g in drift.groups] == ["no drift found"] * 3
    assert drift.worse == drift.only_before == drift.only_now == ()


def test_a_wider_disparity_is_drift():
    before, now = make(a=(60, 100), b=(70, 100)), make(a=(30, 100), b=(70, 100))
    drift = audit_drift({"audit": before}, now)
    row = drift.groups[0]
    # Two rates are tested, and one disparity: that of a against b is that of b against a.
    assert row.p_rate == pytest.approx(2 * fisher_exact([[60, 40], [30, 70]]).pvalue, rel=1e-12)
    expected = equal_odds_p_value((60, 100, 70, 100), (30, 100, 70, 100))
    assert row.p_disparity == expected
    assert (row.rate_before, row.rate) == (0.6, 0.3)
    assert (row.ratio_before, row.ratio) == pytest.approx((100 * 6 / 7, 100 * 3 / 7))
    assert row.worse
    assert audit_drift(now, before).groups[0].finding == "the disparity has shrunk, beyond chance"
    json.dumps(drift.to_dict(), allow_nan=False)


def test_everybody_moving_alike_is_no_drift_of_disparity():
    # Odds are doubled for both.
    drift = audit_drift(make(a=(200, 600), b=(300, 600)), make(a=(300, 600), b=(400, 600)))
    assert drift.worse == ()
    assert drift.groups[0].finding == "the rate has changed beyond chance, the disparity may not have"


def test_groups_that_come_and_go_and_small_ones():
    drift = audit_drift(make(a=(40, 100), b=(70, 100), c=(3, 5)), make(a=(40, 100), c=(1, 5), d=(70, 100)))
    assert [text[-3:] for text in (*drift.only_before, *drift.only_now)] == ["= b", "= d"]
    assert {g.group: g.finding for g in drift.groups}["c"] == "too few people to say"


def test_drift_is_seldom_found_where_there_is_none():
    rng, rejected, draws = np.random.default_rng(2), 0, 100
    for _ in range(draws):
        pair = [
            make(**{g: (rng.binomial(80, p), 80) for g, p in {"a": 0.3, "b": 0.5, "c": 0.6}.items()}) for _ in "ab"
        ]
        rejected += any(g.finding.endswith("beyond chance") for g in audit_drift(*pair).groups)
    # Of three corrected exact tests together at most 5%, but for chance (three standard errors).
    assert rejected / draws <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / draws)


def test_weighted_audits_are_compared_on_effective_counts():
    rng = np.random.default_rng(3)
    sex, weight = np.repeat(["a", "b"], 200), rng.exponential(size=400)
    plain = audit(rng.integers(0, 2, 400), sensitive_features=sex, sample_weight=weight).to_dict()
    drift = audit_drift(plain, plain)
    assert drift.groups[0].rate == pytest.approx(plain["attributes"][0]["groups"][0]["rate"])
    assert drift.worse == ()


NOTIONS = ("selection_rate", "true_positive_rate")
DAMAGED = [{}, [], {"audit": 3}, {"attributes": [{"name": "x"}]}, {"attributes": [{"name": "x", "groups": [{}]}]}]


@pytest.mark.parametrize("wrong", DAMAGED)
def test_what_is_no_audit(wrong):
    with pytest.raises(ValueError, match=r"This (is no audit|audit is damaged)"):
        audit_drift(wrong, make(a=(40, 100), b=(70, 100)))


def test_audits_of_different_notions():
    rng = np.random.default_rng(4)
    decided, labels, sex = rng.integers(0, 2, 200), rng.integers(0, 2, 200), np.repeat(["a", "b"], 100)
    both = [audit(decided, sensitive_features=sex, y_true=labels, notion=n).to_dict() for n in NOTIONS]
    with pytest.raises(ValueError, match=r"'selection_rate' and the later one 'true_positive_rate'.*the same notion"):
        audit_drift(*both)
    assert audit_drift(both[1], both[1]).worse == ()
