"""Discriminatory rules by hand, planted ones that must be found, and their place in the audit."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from fairmargin.audit import audit
from fairmargin.discrimination_rules import extended_lift, extended_lift_bound, find_discrimination_rules


def test_lifts_by_hand():
    assert extended_lift(0.75, 0.5) == 1.5
    assert extended_lift(0.5, 0.0) == 0.0
    # D covers 9 of 10 of A in the context and 9 of 12 with D are A; 10 of 12 are refused, of the context 1/3.
    assert extended_lift_bound(10 / 12, 1 / 3, 0.9, 0.75) == pytest.approx(0.9 / 0.75 * (0.75 + 10 / 12 - 1) * 3)
    assert extended_lift_bound(0.1, 0.5, 0.9, 0.5) == 0.0
    assert extended_lift_bound(0.5, 0.5, 0.5, 0.0) == 0.0


def test_the_bound_is_a_bound():
    rng = np.random.default_rng(0)
    for _ in range(300):
        counts = rng.integers(1, 50, size=(2, 2, 2))  # by D, A and refusal, within a context
        D_A, D, A = counts[1, 1], counts[1], counts[:, 1]
        bound = extended_lift_bound(
            D[:, 1].sum() / D.sum(), counts[..., 1].sum() / counts.sum(), D_A.sum() / A.sum(), D_A.sum() / D.sum()
        )
        lift = extended_lift(A[:, 1].sum() / A.sum(), counts[..., 1].sum() / counts.sum())
        assert bound <= lift + 1e-12


def planted(n=8000):
    """Women are refused in the north, as clerks, and nowhere else; the zip code all but tells their sex there."""
    rng = np.random.default_rng(0)
    sex, job = rng.choice(["f", "m"], n), rng.choice(["clerk", "cook", "nurse"], n)
    region, age = rng.choice(["north", "south"], n), rng.normal(40, 10, n)
    zip_code = np.where(rng.random(n) < 0.95, np.where(sex == "f", "z1", "z2"), rng.choice(["z1", "z2"], n))
    hit = (sex == "f") & (job == "clerk") & (region == "north")
    refused = rng.random(n) < np.where(hit, 0.95, 0.3)
    frame = pd.DataFrame({"job": job, "region": region, "age": age, "zip": zip_code})
    return frame, pd.Series(sex, name="sex"), ~refused


def test_the_planted_combination_is_found_first():
    frame, sex, positive = planted()
    rules = find_discrimination_rules(frame, sex, positive)
    first = rules[0]
    assert (first.kind, first.attribute, first.group) == ("direct", "sex", "f")
    assert set(first.context) == {"job = clerk", "region = north"}
    inside = (frame["job"] == "clerk") & (frame["region"] == "north")
    member = inside & (sex == "f")
    assert first.people == member.sum()
    assert first.confidence == pytest.approx((~positive)[member].mean())
    assert first.context_confidence == pytest.approx((~positive)[inside].mean())
    assert first.lift == pytest.approx(first.confidence / first.context_confidence)
    # Each part alone is weaker; men are not on the list.
    assert {rule.group for rule in rules} == {"f"}


def test_indirect_rules_name_the_proxy():
    frame, sex, positive = planted()
    clerks = (frame["job"] == "clerk").to_numpy() & (frame["region"] == "north").to_numpy()
    frame, sex, positive = frame[clerks], sex[clerks], positive[clerks]
    rules = [r for r in find_discrimination_rules(frame, sex, positive) if r.kind == "indirect"]
    assert rules
    assert all(r.proxy == ("zip = z1",) and r.group == "f" for r in rules)
    for rule in rules:
        name, value = rule.context[0].split(" = ")
        inside = (frame[name].astype(str) == value) if name != "age" else None
        if inside is not None:
            both = inside & (frame["zip"] == "z1")
            assert rule.people == both.sum()
            women = inside & (sex == "f")
            lift = (~positive)[women].mean() / (~positive)[inside].mean()
            assert 1.25 <= rule.lift <= lift + 1e-12


def test_chance_finds_nothing():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({name: rng.choice(list("abcd"), 3000) for name in ("p", "q", "r", "s")})
    rules = find_discrimination_rules(frame, rng.choice(["f", "m"], 3000), rng.random(3000) < 0.5)
    assert rules == []


@pytest.mark.parametrize(("n", "share"), [(6000, 0.3), (12000, 0.01)])  # of many refusals, and of few per context
def test_chance_lists_a_rule_in_one_table_of_a_hundred(n, share):
    draws, listed = 60, 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"job": rng.integers(20, size=n).astype(str)})
        people = pd.DataFrame({"race": rng.choice(list("abcde"), n), "sex": rng.choice(["f", "m"], n)})
        listed += bool(find_discrimination_rules(frame, people, rng.random(n) >= share))
    # More than this many of 60 happen with a probability of one in a million, if each has one in a hundred.
    assert listed <= binom.isf(1e-6, draws, 0.01)


def test_values_that_are_missing_numeric_or_many():
    frame, sex, positive = planted(3000)
    frame["many"] = np.arange(3000).astype(str)
    frame["count"] = np.arange(3000) % 3
    frame.loc[:100, "age"] = np.nan
    frame["flag"] = frame["age"] > 40
    rules = find_discrimination_rules(frame, sex, positive, most=3)
    assert len([r for r in rules if r.kind == "direct"]) <= 3


def test_the_audit_shows_them():
    frame, sex, positive = planted()
    result = audit(positive, pos_label=True, sensitive_features=sex, features=frame)
    assert result.rules[0].group == "f"
    plain = result.to_dict()["rules"][0]
    assert plain["context"] == ("job = clerk", "region = north")
    assert audit(positive, pos_label=True, sensitive_features=sex).rules == ()
