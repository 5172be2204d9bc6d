"""Verdicts on what was asked for: ratios, differences, covariances, or nothing; and numbers next to a limit."""

import contextlib
import copy
import io
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from statsmodels.stats.proportion import confint_proportions_2indep

import fairmargin
from fairmargin import CovarianceBound, PRuleBound, cv_score, decision_boundary_covariance
from fairmargin.audit import audit
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.formatting import distance, interval, ratio_beside, with_article
from fairmargin.notions import Notion
from fairmargin.report import to_html, to_markdown
from fairmargin.report.asked import asked_by
from fairmargin.report.combined_verdict import combine
from fairmargin.report.covariance_verdict import judge_covariances
from fairmargin.report.difference_verdict import judge_differences
from fairmargin.report.plain import plain
from fairmargin.report.terminal import show
from fairmargin.report.verdict import FAILS, FAILS_MAYBE, NO_VERDICT, PASSES, PASSES_MAYBE, judge
from fairmargin.several import judged_constraints, main_constraint
from fairmargin.tables import prepare, table_of_frame
from fairmargin.tables.jobs import train
from fairmargin.tables.specifications import make_estimator, parse_constraints

QUESTION = {"target": "repaid", "positive": "yes", "sensitive": ["sex", "origin"]}


@pytest.fixture(scope="module")
def study():
    return prepare(table_of_frame(make_credit_demo(1500), "demo"), **QUESTION)


def trained(study, *asked, **options):
    options |= {"method": study.method, "min_people": study.min_people}
    model = make_estimator("logistic", parse_constraints(asked, **options))
    return model, train(study, model, {"constraint": " and ".join(asked)})[1]


def decided(rates, people, **options):
    """Return the audit, as plain data, of groups with these rates."""
    decisions = np.concatenate([np.arange(n) < round(rate * n) for rate, n in zip(rates, people, strict=True)])
    groups = np.repeat([f"g{k}" for k in range(len(rates))], people)
    return plain(audit(decisions.astype(int), sensitive_features=groups, **options).to_dict())


@pytest.mark.parametrize(
    ("rates", "people", "status"),
    [
        ((0.50, 0.49), (9000, 9000), PASSES),
        ((0.50, 0.46), (300, 300), PASSES_MAYBE),
        ((0.50, 0.43), (100, 100), FAILS_MAYBE),
        ((0.50, 0.20), (2000, 2000), FAILS),
        ((0.50, 0.50, 0.20), (2000, 2000, 2000), FAILS),
        ((1.0, 1.0), (100, 100), NO_VERDICT),
        ((0.5, 0.2), (100, 5), NO_VERDICT),
    ],
)
def test_verdicts_on_differences(rates, people, status):
    found = judge_differences(decided(rates, people), limit=0.05, held_out=True)
    assert found["status"] == status
    starts = {PASSES: "Yes. ", PASSES_MAYBE: "Yes on", FAILS_MAYBE: "Not on", FAILS: "No. ", NO_VERDICT: "No verdict"}
    assert found["headline"].startswith(starts[status])
    assert bool(found["below"]) == (status in (FAILS, FAILS_MAYBE))
    if status != NO_VERDICT:
        assert "5 points" in found["headline"]
        assert found["low"] <= found["difference"] <= found["high"]
        assert found["margin"] == pytest.approx(100 * (0.05 - found["difference"]))


def test_limits_of_differences_are_those_of_statsmodels():
    found = judge_differences(decided((0.5, 0.3), (200, 300)), limit=0.05, held_out=True)
    low, high = confint_proportions_2indep(90, 300, 100, 200, compare="diff", method="newcomb")
    assert f"is {100 * low:+.1f} to {100 * high:+.1f} points" in found["sure"]
    three = judge_differences(decided((0.5, 0.5, 0.3), (200, 200, 300)), limit=0.05, held_out=True)
    worst = three["below"][0]
    limits = confint_proportions_2indep(90, 300, 200, 400, compare="diff", method="newcomb", alpha=0.05 / 3)
    assert worst["corrected"] == pytest.approx(-limits[1])


@pytest.mark.slow
def test_sure_verdicts_on_differences_are_seldom_wrong():
    rng = np.random.default_rng(0)
    groups, said = np.repeat(["a", "b", "c", "d"], 500), []
    for _ in range(150):
        decisions = rng.uniform(size=2000) < np.repeat([0.4, 0.5, 0.5, 0.5], 500)  # just 10 points apart
        found = plain(audit(decisions.astype(int), sensitive_features=groups).to_dict())
        said.append(judge_differences(found, limit=0.1, held_out=True)["status"])
    assert np.mean(np.array(said) == PASSES) <= 0.05
    assert np.mean(np.array(said) == FAILS) <= 0.05


@pytest.mark.parametrize("notion", ["selection_rate", "true_positive_rate", "equalized_odds"])
def test_the_verdict_is_about_the_difference_asked_for(study, notion):
    model, summary = trained(study, "difference=0.1", notion=notion)
    found, test = summary["proposal"]["verdict"], study.test
    accepted = (model.decision_function(test.X) >= 0).astype(int)
    about = {"sensitive_features": test.sensitive, "method": study.method, "min_people": study.min_people}
    assert (found["kind"], found["asked"]) == ("difference", 0.1)
    assert found["difference"] == pytest.approx(cv_score(test.y, accepted, notion=notion, **about))
    assert found["status"].startswith("passes" if found["difference"] <= 0.1 else "fails")
    assert "80%" not in found["headline"] + found["passes"] + found["for_whom"] + found["sure"]


@pytest.mark.parametrize("judged", ["ratio", "difference"])
def test_failing_is_corrected_for_all_conditions(judged):
    """Of so many comparisons among two sets of people, one is below by chance more often than among one."""
    rng = np.random.default_rng(0)
    labels, groups = np.tile([1, 0], 840), np.repeat(["a", "b"], 840)
    decisions = rng.random(1680) < np.where(groups == "a", 0.5, 0.36)

    def worst(notion):
        found = audit(decisions.astype(int), sensitive_features=groups, y_true=labels, notion=notion)
        options = {"held_out": True}
        if judged == "ratio":
            below = judge(plain(found.to_dict()), asked=90.0, **options)["below"]
        else:
            below = judge_differences(plain(found.to_dict()), limit=0.01, **options)["below"]
        one = next(row for row in below if "y=-1" not in row["attribute"])
        return one["corrected"] if judged == "ratio" else -one["corrected"]

    assert worst("true_positive_rate") < worst("equalized_odds")


def test_the_verdict_is_about_the_covariance_asked_for(study):
    model, summary = trained(study, "covariance=0.05")
    found, test = summary["proposal"]["verdict"], study.test
    scores = model.decision_function(test.X)
    expected = decision_boundary_covariance(None, scores, sensitive_features=test.sensitive)
    assert {(r["attribute"], r["group"]): r["value"] for r in found["covariances"]} == pytest.approx(
        expected.to_dict()
    )
    assert all(r["limit"] == 0.05 for r in found["covariances"])
    assert "a covariance of at most 0.05" in found["headline"]
    assert "80%-rule" in found["headline"]  # beside it
    assert "asked for; 80%" not in found["passes"]
    assert found["screen"]["p_rule"] == found["p_rule"]


@pytest.mark.parametrize(("rates", "words"), [((0.998, 0.996), "accepts"), ((0.002, 0.002), "refuses")])
def test_deciding_alike_for_nearly_everybody_is_no_success(rates, words):
    """A model that refused eight of two thousand people got a plain yes."""
    audited = decided(rates, (1000, 1000))
    share = "99.7%" if words == "accepts" else "99.8%"
    headline = f"No verdict. This model {words} nearly everybody ({share})."
    options = {"held_out": True, "subject": "This model"}
    for found in (judge(audited, asked=80.0, **options), judge_differences(audited, limit=0.1, **options)):
        assert (found["status"], found["headline"]) == (NO_VERDICT, headline)
    assert judge(audited, asked=80.0, held_out=None, subject="These decisions")["status"] != NO_VERDICT
    assert judge(decided((1.0, 0.5), (3000, 8)), asked=80.0, held_out=True)["status"] == NO_VERDICT  # too few
    refused = judge(decided((1.0, 0.6), (9960, 40)), asked=80.0, held_out=True)
    assert refused["status"] == FAILS  # one group is refused more often, whatever the others get


@pytest.mark.parametrize("shift", [0.18, 0.3])
def test_a_covariance_beyond_its_limit_by_its_own_interval_alone_shows_the_corrected_one(study, shift):
    """An interval above the limit stood beside "none is beyond its limit by more than chance explains"."""
    rng, groups = np.random.default_rng(0), np.repeat(list("abcde"), 200)
    noise = rng.normal(size=(5, 200))
    noise = (noise - noise.mean(axis=1, keepdims=True)) / noise.std(axis=1, keepdims=True)
    scores = noise.ravel() + shift * (groups == "a")
    frame = pd.DataFrame({"g": groups})
    people = type(study.test)(np.zeros((1000, 1)), rng.integers(0, 2, 1000), frame, frame)
    screen = judge(decided((0.5, 0.5), (100, 100)), asked=80.0, held_out=True, requested=False)
    found = judge_covariances(
        CovarianceBound(0.0),
        train=(people, noise.ravel(), scores),
        test=(people, scores),
        screen=screen,
        min_people=30,
    )
    row = max(found["covariances"], key=lambda r: r["value"])
    assert row["low"] > 0.0
    low, high = row["corrected"]
    assert (high - low) / (row["high"] - row["low"]) == pytest.approx(norm.ppf(0.995) / norm.ppf(0.975))
    assert (low > 0.0) == row["beyond"] == (shift == 0.3)
    said = f"Corrected for 5 comparisons at once it is {low:+.3g} to {high:+.3g}."
    assert (said in found["passes"]) == (shift == 0.18)


@pytest.mark.parametrize("asked", [["none"], ["loss=0.02"], ["nobody-loses"]])
@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.CovarianceWarning")
def test_without_a_rule_the_usual_one_is_named_as_such(study, asked):
    _, summary = trained(study, *asked)
    found = summary["proposal"]["verdict"]
    assert not found["requested"]
    assert "No rule was asked for; 80% is the usual threshold." in found["passes"]


def test_of_several_constraints_the_rule_is_judged(study):
    _, summary = trained(study, "loss=0.3", "covariance=0.2")
    assert summary["proposal"]["verdict"]["kind"] == "covariance"
    _, summary = trained(study, "covariance=0.2", "difference=0.2")
    assert summary["proposal"]["verdict"]["kind"] == "difference"
    assert summary["proposal"]["verdict"]["asked"] == 0.2


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_rules_the_strictest_is_judged(order):
    rules = [PRuleBound(80), PRuleBound(90), PRuleBound(95, notion="true_positive_rate")]
    assert judged_constraints(rules[:2][::order]) == [PRuleBound(90)]
    assert judged_constraints(rules[::order]) == rules[1:]
    assert main_constraint(rules[::order]) == PRuleBound(90)
    differences = [PRuleBound(difference=0.1), PRuleBound(difference=0.05)]
    assert main_constraint(differences[::order]) == PRuleBound(difference=0.05)
    tested = PRuleBound(80, confidence=0.9)
    assert judged_constraints([tested, PRuleBound(90)][::order]) == [tested, PRuleBound(90)]
    assert judged_constraints([tested, PRuleBound(70)][::order]) == [tested]


def told(summary):
    """Return what every form of a report says, but for the constraints in the order in which they were given."""
    case = summary["proposal"]
    keys = ("verdict", "lines", "cost", "groups")
    return {key: case[key] for key in keys} | {key: summary[key] for key in ("audit", "warnings", "test")}


RANK = (FAILS, FAILS_MAYBE, NO_VERDICT, PASSES_MAYBE, PASSES)


@pytest.mark.parametrize(
    "asked",
    [
        ("p-rule=50", "difference=0.02"),
        ("p-rule=99", "difference=0.4"),
        ("difference=0.3", "covariance=0.001", "p-rule=60"),
        ("covariance=0.05", "covariance=80%"),
    ],
)
@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.SmallGroupWarning")
def test_every_rule_of_a_list_is_judged_in_any_order(study, asked):
    model, summary = trained(study, *asked)
    assert told(trained(study, *asked[::-1])[1]) == told(summary)
    found = summary["proposal"]["verdict"]
    by_rule = {rule["name"]: rule for rule in found["rules"]}
    assert len(by_rule) == len(asked)
    assert found["status"] == min((rule["status"] for rule in by_rule.values()), key=RANK.index)
    accepted, groups = (model.decision_function(study.test.X) >= 0).astype(int), study.test.sensitive
    for rule in by_rule.values():
        if rule["kind"] == "difference":
            assert rule["difference"] == pytest.approx(cv_score(None, accepted, sensitive_features=groups))
            assert rule["status"].startswith("passes" if rule["difference"] <= rule["asked"] else "fails")
        elif rule["kind"] == "p-rule":
            assert rule["status"].startswith("passes" if rule["p_rule"] >= rule["asked"] else "fails")
    leading = next(rule for rule in by_rule.values() if rule["status"] == found["status"])
    assert found["headline"].startswith(leading["headline"])
    for text in (found["headline"], printed(summary), to_markdown(summary), to_html(summary)):
        words = " ".join(text.split())
        assert all(f"The {name} " in words for name, rule in by_rule.items() if rule is not leading)
    for key in ("passes", "sure", "for_whom"):
        assert all(rule[key].removesuffix(rule["not_judged"]).rstrip() in found[key] for rule in by_rule.values())
    assert all(name[1:] in found["passes"] for name in by_rule)


@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.SmallGroupWarning")
def test_rules_by_different_notions_are_each_judged_by_their_own(study):
    """Also the warning that a rule does not hold for the people held out."""
    rules = [PRuleBound(difference=0.001, notion="true_positive_rate"), PRuleBound(difference=0.9)]
    about = {"sensitive_features": study.test.sensitive}
    for order in (1, -1):
        model = make_estimator("logistic", rules[::order])
        summary = train(study, model)[1]
        accepted = (model.decision_function(study.test.X) >= 0).astype(int)
        found = {rule["name"]: rule["difference"] for rule in summary["proposal"]["verdict"]["rules"]}
        opportunity = cv_score(study.test.y, accepted, notion="true_positive_rate", **about)
        assert found == {
            "limit of 90 points on differences of selection rates": pytest.approx(cv_score(None, accepted, **about)),
            "limit of 0.1 points on differences of true positive rates": pytest.approx(opportunity),
        }
        assert any(said.startswith("Rates differ by at most 0.1 points") for said in summary["warnings"])
        assert not any(said.startswith("Selection rates differ") for said in summary["warnings"])


@pytest.mark.parametrize("order", [1, -1])
def test_what_everybody_alike_keeps_is_said_once(order):
    found = judge(decided((1.0, 1.0), (100, 100)), asked=80.0, held_out=True)
    other = judge_differences(decided((1.0, 1.0), (100, 100)), limit=0.1, held_out=True)
    both = combine([("80%-rule", found), ("limit of 10 points", other)][::order])
    assert {key: both[key] for key in ("status", "headline", "passes", "sure", "for_whom")} == {
        key: found[key] for key in ("status", "headline", "passes", "sure", "for_whom")
    }


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.SmallGroupWarning")
def test_beside_a_tested_rule_the_others_are_judged_and_not_covered(order):
    """Nothing but the tested rule is beyond doubt on people who chose the model."""
    together = prepare(table_of_frame(make_credit_demo(3000), "demo"), stratify=False, **QUESTION)
    tested, other = PRuleBound(50, confidence=0.9), PRuleBound(difference=0.5)
    alone = train(together, make_estimator("logistic", tested))[1]
    assert "other constraint" not in alone["proposal"]["verdict"]["sure"]
    model = make_estimator("logistic", [tested, other][::order])
    summary = train(together, model)[1]
    found = summary["proposal"]["verdict"]
    assert model.guarantee_.candidates > 1
    assert found["status"] == PASSES_MAYBE
    assert "within 50 points here" in found["headline"]
    assert "The 50%-rule holds with 90% confidence." in found["headline"]
    said = "It covers no other constraint: those hold among the people trained on only."
    for text in (found["sure"], printed(summary), to_markdown(summary), to_html(summary)):
        assert said in " ".join(text.split())


@pytest.mark.slow
def test_limits_of_covariances_cover(study):
    """The interval of a covariance holds the covariance of everybody in 95% of the samples, and is that of scipy."""
    rng, z_of, hits, beyond = np.random.default_rng(1), np.array(["man", "woman"]), [], []
    bound, part = CovarianceBound(0.1), study.test
    screen = judge(decided((0.5, 0.5), (100, 100)), asked=80.0, held_out=True, requested=False)
    for _ in range(400):
        z = rng.integers(0, 2, 300)
        scores = 0.4 * z + rng.standard_t(5, 300) * (1 + z)  # a covariance of 0.4 var(z) = 0.1
        frame = part.sensitive.iloc[:1].reset_index(drop=True)
        frame = frame.loc[np.zeros(300, int)].reset_index(drop=True)[["sex"]].assign(sex=z_of[z])
        people = type(part)(np.zeros((300, 1)), rng.integers(0, 2, 300), frame, frame)
        found = judge_covariances(
            bound, train=(people, scores, scores), test=(people, scores), screen=screen, min_people=30
        )
        row = found["covariances"][0]
        hits.append(row["low"] <= 0.1 <= row["high"])
        beyond.append(found["status"] == FAILS)
    products = (z - z.mean()) * (scores - scores.mean())
    reach = norm.ppf(0.975) * products.std(ddof=1) / np.sqrt(300)
    assert row["high"] - row["value"] == pytest.approx(reach)
    assert np.mean(hits) >= 0.92
    assert np.mean(beyond) <= 0.05


def test_findings_are_about_the_rule_asked_for(study):
    _, summary = trained(study, "p-rule=95")
    assert summary["audit"]["threshold"] == 95.0
    below = {g["group"] for a in summary["audit"]["attributes"] for g in a["groups"] if "below" in g["finding"]}
    assert below == {g["group"] for g in summary["proposal"]["verdict"]["below"]}


def test_numbers_beside_a_limit():
    assert ratio_beside(79.96, 80.0) == "79.96%"
    assert ratio_beside(80.0, 80.0) == "80.0%"
    assert ratio_beside(80.04, 80.0, 90.0) == "80.04%"
    assert ratio_beside(89.98, 80.0, 90.0) == "89.98%"
    assert ratio_beside(79.94, 80.0) == "79.9%"
    assert interval(79.96, 91.23, beside=(80.0,)) == "79.96–91.23%"
    assert interval(79.96, None, beside=(80.0,)) == "79.96% and more"
    assert distance(0.02) == "0.02"
    assert distance(0.0) == "0.0"
    assert distance(3.21) == "3.2"


def printed(summary, **options):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        show(summary, **options)
    return out.getvalue()


def test_numbers_are_read_aloud():
    assert [with_article(f"{p:g}%-rule").split()[0] for p in (8, 11, 18.5, 80, 89.5)] == ["an"] * 5
    others = ("1%", "90%-rule", "100%-rule", "110", "difference")
    assert [with_article(text).split()[0] for text in others] == ["a"] * 5


def test_a_ratio_just_below_the_limit_never_reads_as_the_limit(study):
    _, summary = trained(study, "p-rule=80")
    near = copy.deepcopy(summary)
    for name in ("train", "test", "unconstrained"):
        near[name] |= {"p_rule": 79.98, "p_rule_low": 79.97, "p_rule_high": 80.02}
    for row in near["proposal"]["groups"]:
        row["ratio"] = 79.98
    for attribute in (*near["audit"]["attributes"], *near["audit"]["scoring"]):
        attribute |= {"p_rule": 79.98, "p_rule_between_groups": 79.96}
        for group in attribute["groups"]:
            group |= {"ratio": 79.98, "ratio_low": 79.99, "ratio_one_more": 80.01, "ratio_flipped": 79.999}
    for text in (printed(near), printed(near, verbose=True), to_markdown(near), to_html(near)):
        assert "79.98%" in text
        assert not re.search(r"\b80\.0(%|–)", text)


@pytest.mark.parametrize("method", ["one_vs_rest", "between_groups"])
def test_an_interval_of_differences_that_settles_nothing_is_the_corrected_one(method):
    found = judge_differences(decided((0.50, 0.60, 0.50), (400,) * 3, method=method), limit=0.03, held_out=True)
    assert found["status"] == FAILS_MAYBE
    said = re.search(r"Corrected for (\d) comparisons at once it is ([-+\d.]+) to ([-+\d.]+) points", found["sure"])
    count, low, high = int(said[1]), float(said[2]), float(said[3])
    one, two = {"one_vs_rest": ((240, 400), (400, 800)), "between_groups": ((200, 400), (240, 400))}[method]
    limits = confint_proportions_2indep(*one, *two, compare="diff", method="newcomb", alpha=0.05 / count)
    assert (low, high) == pytest.approx([100 * limit for limit in limits], abs=0.051)
    assert min(abs(low), abs(high)) <= 3.0  # the words after it say that it reaches the limit
    assert found["low"] > 0.03 or method == "between_groups"  # that of one group alone would say otherwise


def test_weighted_rates_have_corrected_intervals_too():
    """Everybody with the same weight but one: nearly the interval without weights, on both kinds of rule."""
    weight = np.ones(1200)
    weight[0] = 1.0001
    options = {"rates": (0.50, 0.40, 0.50), "people": (400,) * 3}
    plain_found, weighted = decided(**options), decided(**options, sample_weight=weight)
    for judged in (
        lambda found: judge(found, asked=90.0, held_out=True),
        lambda found: judge_differences(found, limit=0.05, held_out=True),
    ):
        one, other = judged(plain_found), judged(weighted)
        assert one["status"] == other["status"] == FAILS_MAYBE
        expected = one["below"][0]["corrected_limits"]
        assert other["below"][0]["corrected_limits"] == pytest.approx(expected, rel=1e-2)


def test_the_side_of_too_few_people_is_named():
    rest = decided((0.5, 0.4, 0.4), (200, 6, 7))
    said = "Not judged, too few people: everybody except group = g0 (13), group = g1 (6), group = g2 (7)."
    rest["attributes"][0]["name"] = "group"
    for group in rest["attributes"][0]["groups"]:
        group["attribute"] = "group"
    assert judge(rest, asked=80.0, held_out=None)["not_judged"] == said


@pytest.mark.parametrize("side", ["g = a", "everybody except g = a"])
def test_many_people_of_small_effective_size_are_named_with_it(side):
    """One person outweighs everybody else on the side: 600 people were listed as too few."""
    group = np.repeat(["a", "b", "c"], [600, 300, 300])
    weight = np.ones(1200)
    weight[0 if side == "g = a" else 700] = 1000.0
    accepted = np.random.default_rng(0).integers(0, 2, 1200)
    found = plain(audit(accepted, sensitive_features={"g": group}, sample_weight=weight).to_dict())
    said = judge(found, asked=80.0, held_out=None)["not_judged"]
    assert re.search(rf"[:,] {side} \(600, effective size [12]\.\d\)", said)


def test_two_groups_have_the_same_reference_for_every_rate():
    rng = np.random.default_rng(2)
    y, z = rng.integers(0, 2, 800), np.repeat(["a", "b"], 400)
    accepted = rng.uniform(size=800) < np.where(y == 1, np.where(z == "a", 0.8, 0.5), np.where(z == "a", 0.1, 0.4))
    found = audit(accepted.astype(int), y_true=y, sensitive_features={"z": z}, notion="equalized_odds")
    assert [a.reference for a in found.attributes] == ["a", "a"]
    assert found.attributes[1].groups[1].ratio > 100  # although b has the higher false positive rate
    by_rate = audit(
        accepted.astype(int), y_true=y, sensitive_features={"z": z}, notion="equalized_odds", method="between_groups"
    )
    assert [a.reference for a in by_rate.attributes] == ["a", "b"]  # there it is the highest rate by definition


def test_covariances_of_an_audit_are_those_of_the_people_who_count():
    rng = np.random.default_rng(3)
    y, z, scores = rng.integers(0, 2, 300), rng.choice(["a", "b", "c"], 300), rng.normal(size=300)
    options = {"y_true": y, "sensitive_features": {"z": z}, "scores": scores, "notion": "equalized_odds"}
    found = audit((scores > 0).astype(int), **options)
    for attribute, label in zip(found.attributes, (1, 0), strict=True):
        for group, value in attribute.covariance:
            inside = (z == group)[y == label]
            assert value == pytest.approx(np.mean((inside - inside.mean()) * scores[y == label]))


def test_bounds_that_nobody_can_be_judged_by_get_no_verdict():
    """A list of two such bounds once ended in a message of Python's own."""
    few = prepare(table_of_frame(make_credit_demo(1500), "demo"), min_people=1000, **QUESTION)
    verdict = trained(few, "covariance=0.5", "covariance=90%")[1]["proposal"]["verdict"]
    assert verdict["headline"] == "No verdict. No group has enough people to compare."


def test_bounds_by_attribute_are_named_and_groups_left_out_are_named_once():
    asked = asked_by([CovarianceBound({"sex": 0.1}), CovarianceBound({"origin": 0.2}, relative=True)])
    names = sorted(one.name for one in asked.rules)
    assert names == ["bound of 0.1 for sex on covariances", "bound of 20% for origin on covariances"]
    plain_one = dict.fromkeys(("passes", "sure", "for_whom"), "")
    plain_one |= {"status": PASSES, "headline": "Yes.", "not_judged": "Not judged: a."}
    tested = plain_one | {"headline": "Yes, sure.", "not_judged": "Rates not judged: a. They are covered."}
    assert combine([("rule", tested), ("bound", plain_one)])["not_judged"] == "Rates not judged: a. They are covered."


def test_notions_with_arrays_of_objects_and_odd_names_of_modules():
    """Pointers were once compared, and a name with a dot was looked for as a module."""

    class Mine(Notion):
        name = "mine"

        def __init__(self, groups):
            self.groups = groups

    made = [Mine(np.array([f"eng{k}" for k in range(2)], dtype=object)) for _ in range(2)]
    assert made[0] == made[1]
    assert not hasattr(fairmargin, "a.b")
