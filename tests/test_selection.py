"""Choosing and ranking people under bounds on groups: against enumeration of everything that is possible."""

from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest

from fairmargin import InfeasibleError, fair_ranking, fair_top_k, p_rule
from fairmargin.membership import Membership


def draw(seed, n=9, attributes=1, levels=2):
    rng = np.random.default_rng(seed)
    people = pd.DataFrame({f"a{j}": rng.choice(list("xyz")[:levels], n) for j in range(attributes)})
    return rng.integers(0, 12, n).astype(float), people


def best_by_enumeration(scores, k, keeps):
    totals = [scores[list(s)].sum() for s in combinations(range(len(scores)), k) if keeps(list(s))]
    return max(totals, default=None)


def rate_ratio(people, chosen, name, method):
    """Return the p%-rule of a selection, in numpy."""
    groups, ratios = people[name].to_numpy(), []
    accepted = np.isin(np.arange(len(groups)), chosen)
    rates = {g: accepted[groups == g].mean() for g in np.unique(groups)}
    for g in rates if len(rates) > 1 else ():
        others = list(rates.values()) if method == "between_groups" else [accepted[groups != g].mean()]
        ratios += [min(a, rates[g]) / max(a, rates[g]) if max(a, rates[g]) > 0 else 1.0 for a in others]
    return 100 * min(ratios, default=1.0)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("attributes", [1, 2, 3])
def test_shares_against_enumeration(seed, attributes):
    scores, people = draw(seed, attributes=attributes, levels=2 + seed % 2)
    rng = np.random.default_rng(1000 + seed)
    k = int(rng.integers(1, 8))
    least = {name: {"x": float(rng.choice([0.0, 0.3, 0.5]))} for name in people if "x" in set(people[name])}
    most = {name: {"y": float(rng.choice([0.3, 0.6, 1.0]))} for name in people if "y" in set(people[name])}

    def keeps(chosen):
        inside = people.iloc[chosen]
        low = all((inside[n] == g).sum() >= s * k - 1e-9 for n, groups in least.items() for g, s in groups.items())
        return low and all((inside[n] == g).sum() <= s * k + 1e-9 for n, gs in most.items() for g, s in gs.items())

    best = best_by_enumeration(scores, k, keeps)
    if best is None:
        with pytest.raises(InfeasibleError):
            fair_top_k(scores, k, sensitive_features=people, at_least=least, at_most=most)
        return
    found = fair_top_k(scores, k, sensitive_features=people, at_least=least, at_most=most)
    assert len(set(found.chosen.tolist())) == k
    assert keeps(found.chosen)
    assert found.total == scores[found.chosen].sum() == best
    assert found.price == np.sort(scores)[::-1][:k].sum() - best
    assert len(found.promoted) == len(found.displaced)


@pytest.mark.parametrize("method", ["one_vs_rest", "between_groups"])
@pytest.mark.parametrize("attributes", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_rules_on_rates_against_enumeration(seed, attributes, method):
    scores, people = draw(seed, attributes=attributes, levels=3)
    k, p = 3 + seed % 4, (40, 80)[seed % 2]

    def keeps(chosen):
        return all(rate_ratio(people, chosen, name, method) >= p - 1e-9 for name in people)

    best = best_by_enumeration(scores, k, keeps)
    if best is None:
        with pytest.raises(InfeasibleError):
            fair_top_k(scores, k, sensitive_features=people, p_rule=p, method=method)
        return
    found = fair_top_k(scores, k, sensitive_features=people, p_rule=p, method=method)
    assert keeps(found.chosen)
    assert found.total == best
    decisions = np.isin(np.arange(len(scores)), found.chosen).astype(int)
    if min(people.nunique()) > 1:
        assert p_rule(None, decisions, sensitive_features=people, method=method) >= p - 1e-9


def test_one_attribute_depends_on_the_order_of_scores_only():
    scores, people = draw(3, n=200, levels=3)
    scores = scores + np.arange(200) / 1e3
    for asked in ({"at_least": {"a0": {"x": 0.5}}}, {"p_rule": 95.0}):
        one = fair_top_k(scores, 40, sensitive_features=people, **asked)
        two = fair_top_k(np.exp(scores), 40, sensitive_features=people, **asked)
        np.testing.assert_array_equal(one.chosen, two.chosen)


def test_greedy_and_integer_program_agree():
    scores, people = draw(4, n=300, attributes=2, levels=3)
    scores = scores + np.random.default_rng(0).random(300)
    one = fair_top_k(scores, 60, sensitive_features=people, at_least={"a0": {"x": 0.6}})
    loose = {"a0": {"x": 0.6}, "a1": {"x": 0.01}}  # a second attribute asks for what is there anyway
    two = fair_top_k(scores, 60, sensitive_features=people, at_least=loose)
    np.testing.assert_array_equal(one.chosen, two.chosen)


def test_ties_go_to_those_who_come_first():
    scores, people = np.ones(8), list("mfmfmfmf")
    found = fair_top_k(scores, 4, sensitive_features=people, at_least={"sensitive": {"f": 0.5}})
    assert found.chosen.tolist() == [0, 1, 2, 3]
    assert found.price == 0.0


def test_the_table_says_who_was_chosen():
    people = pd.DataFrame({"sex": list("mmmmff")})
    found = fair_top_k([6, 5, 4, 3, 2, 1], 4, sensitive_features=people, at_least={"sex": {"f": 0.5}})
    assert found.table.loc[("sex", "f")].to_dict() == {
        "people": 2,
        "chosen": 2,
        "share": 0.5,
        "rate": 1.0,
        "least": 2,
        "most": 2,
        "unconstrained": 0,
    }
    assert found.promoted.tolist() == [4, 5]
    assert found.displaced.tolist() == [2, 3]
    assert (found.total, found.unconstrained_total, found.price) == (14.0, 18.0, 4.0)


def test_many_people():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"a": rng.choice(list("xyz"), 4_000), "b": rng.choice(list("uv"), 4_000)})
    scores = rng.normal(size=4_000) + (people["a"] == "x")
    found = fair_top_k(scores, 200, sensitive_features=people, p_rule=90)
    assert min(rate_ratio(people, found.chosen, name, "one_vs_rest") for name in people) >= 90
    alone = fair_top_k(scores, 200, sensitive_features=people[["a"]], p_rule=90)
    assert found.total <= alone.total <= found.unconstrained_total


# --- Rankings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("levels", [2, 3])
def test_every_prefix_of_a_ranking_is_the_best_possible(seed, levels):
    scores, people = draw(seed, n=6, levels=levels)
    groups = people["a0"].to_numpy()
    rng = np.random.default_rng(seed)
    shares = {g: float(rng.choice([0.0, 0.2, 0.34, 0.5])) for g in np.unique(groups)}
    if sum(shares.values()) > 1:
        shares = dict.fromkeys(shares, 1 / len(shares))
    length = int(rng.integers(2, 7))

    def keeps(order):
        return all(
            (groups[list(order[:j])] == g).sum() >= min(np.floor(s * j + 1e-9), (groups == g).sum())
            for j in range(1, length + 1)
            for g, s in shares.items()
        )

    allowed = [np.cumsum(scores[list(order)]) for order in permutations(range(6), length) if keeps(order)]
    ranking = fair_ranking(scores, sensitive_features=people, at_least={"a0": shares}, length=length)
    assert keeps(ranking.order)
    np.testing.assert_allclose(np.cumsum(scores[ranking.order]), np.max(allowed, axis=0))
    np.testing.assert_allclose(ranking.prices, np.cumsum(np.sort(scores)[::-1][:length]) - np.max(allowed, axis=0))


def test_a_ranking_without_demands_sorts():
    scores, people = draw(5, n=50)
    ranking = fair_ranking(scores, sensitive_features=people, at_least={"a0": {"x": 0.0}})
    np.testing.assert_array_equal(ranking.order, np.argsort(-scores, kind="stable"))
    assert not np.any(ranking.prices)


# --- Errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"at_least": {"sex": {"f": 0.9}}, "at_most": {"sex": {"f": 0.5}}},
            "at least 4 must have sex='f', and at most 2",
        ),
        ({"at_least": {"sex": {"f": 0.6, "m": 0.6}}}, "lower bounds on the groups of 'sex' add up to 6 people"),
        ({"at_most": {"sex": {"f": 0.3, "m": 0.3}}}, "upper bounds on the groups of 'sex' add up to 2 people"),
        ({"k": 5, "at_least": {"sex": {"f": 0.8}}}, "at least 4 must have sex='f', and at most 3 can"),
    ],
)
def test_impossible_requests_are_named(asked, message):
    people = pd.DataFrame({"sex": list("fffmmmm")})
    with pytest.raises(InfeasibleError, match=message):
        fair_top_k(np.arange(7), asked.pop("k", 4), sensitive_features=people, **asked)


def test_requests_that_are_impossible_together():
    people = pd.DataFrame({"sex": list("ffmm"), "race": list("aabb")})
    asked = {"sex": {"f": 1.0}, "race": {"b": 0.5}}
    with pytest.raises(InfeasibleError, match="keep all bounds on 'sex', 'race' together"):
        fair_top_k([1, 2, 3, 4], 2, sensitive_features=people, at_least=asked)
    with pytest.raises(InfeasibleError, match="between all pairs of groups"):
        fair_top_k([1, 2, 3, 4], 1, sensitive_features=people[["sex"]], p_rule=80, method="between_groups")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 8}, "there are 7"),
        ({"scores": [1, 2, np.nan, 4, 5, 6, 7]}, "nan or infinite"),
        ({"scores": np.ones((7, 2))}, "one number per person"),
        ({"at_least": {"job": {"x": 0.5}}}, "names the attribute 'job'"),
        ({"at_most": {"sex": {"q": 0.5}}}, "names the group 'q'"),
        ({"at_least": {"sex": {"f": 40}}}, "share between 0 and 1"),
        ({"at_least": {"sex": 0.4}}, "must map attributes to mappings"),
        ({"p_rule": 0.8}, "did you mean 80"),
        ({"p_rule": 120}, "between 0 and 100"),
        ({"method": "all"}, "method must be one of"),
        ({"sensitive_features": np.linspace(0, 1, 7)}, "is numeric"),
        ({"sensitive_features": Membership(np.full((7, 2), 0.5), groups=["a", "b"])}, "known as probabilities"),
    ],
    ids=str,
)
def test_errors(changes, message):
    given = {
        "scores": np.arange(7.0),
        "k": 3,
        "sensitive_features": pd.DataFrame({"sex": list("fffmmmm")}),
        **changes,
    }
    with pytest.raises(ValueError, match=message):
        fair_top_k(given.pop("scores"), given.pop("k"), **given)


def test_errors_of_rankings():
    people = pd.DataFrame({"sex": list("ffmm"), "race": list("abab")})
    with pytest.raises(InfeasibleError, match=r"add up to 1\.2"):
        fair_ranking(np.arange(4), sensitive_features=people, at_least={"sex": {"f": 0.6, "m": 0.6}})
    with pytest.raises(ValueError, match="exactly one"):
        fair_ranking(np.arange(4), sensitive_features=people, at_least={"sex": {"f": 0.5}, "race": {"a": 0.5}})
    with pytest.raises(ValueError, match="length=5"):
        fair_ranking(np.arange(4), sensitive_features=people, at_least={"sex": {"f": 0.5}}, length=5)
