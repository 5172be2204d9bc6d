"""Rules on decisions under every notion of fairness: ratios and differences, within strata, on every path."""

import numpy as np
import pandas as pd
import pytest

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairnessFrontier,
    InfeasibleError,
    NotCertifiedError,
    PRuleBound,
    certify,
    cv_score,
    p_rule,
)
from fairmargin.decisions import count_groups
from fairmargin.exceptions import DataError
from fairmargin.formulations.prule.families import DecisionFamily
from fairmargin.formulations.prule.mistreatment import ErrorCovarianceFamily
from fairmargin.formulations.prule.rates import SmoothedRates
from fairmargin.guarantee.record import GroupRecord, Guarantee
from fairmargin.guarantee.verdict import CountedDecisions, Question
from fairmargin.notions import get_notion
from fairmargin.sensitive import Attribute
from fairmargin.tables.plain_data import from_plain, to_plain
from fairmargin.tables.specifications import parse_constraint
from recompute import CONDITIONS

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore::fairmargin.SmallGroupWarning", "ignore::fairmargin.CovarianceWarning"),
]

every_notion = pytest.mark.parametrize("notion", CONDITIONS)


def people(n=3000, groups=2, seed=0):
    """Labels that depend on the group, features that tell of it, and errors that differ between groups."""
    rng = np.random.default_rng(seed)
    z = rng.integers(groups, size=n)
    X = rng.normal(size=(n, 5))
    X[:, 0] += z / (groups - 1)
    y = (X[:, 0] + X[:, 1] + (0.5 + z / (groups - 1)) * rng.normal(size=n) > 0.5).astype(int)
    return X, y, z.astype(str)


def fit(data, constraint, estimator=FairLogisticRegression, **more):
    X, y, z = data
    return estimator(constraint=constraint).fit(X, y, sensitive_features=z, **more)


@every_notion
@pytest.mark.parametrize("path", ["auto", "covariance", "decisions", "rates"])
def test_ratio_and_difference_are_reached_on_the_training_decisions(notion, path):
    data = X, y, z = people()
    free = fit(data, None)
    gap = cv_score(y, free.predict(X), sensitive_features=z, notion=notion)
    assert gap > 0.02
    ratio = fit(data, PRuleBound(90, path=path, notion=notion))
    reached = p_rule(y, ratio.predict(X), sensitive_features=z, notion=notion)
    assert reached >= 90
    assert ratio.p_rule_ == pytest.approx(reached)
    close = fit(data, PRuleBound(difference=0.015, path=path, notion=notion))
    difference = cv_score(y, close.predict(X), sensitive_features=z, notion=notion)
    assert difference <= 0.015
    assert close.cv_score_ == pytest.approx(difference)
    for model in (ratio, close):  # of use: better than deciding the same for everybody
        assert model.score(X, y) > max(y.mean(), 1 - y.mean()) + 0.02
        assert model.path_certificate_.status == "solved"


@every_notion
def test_auto_is_never_behind_a_path(notion):
    data = X, y, _ = people(1500, seed=3)
    found = {
        path: fit(data, PRuleBound(difference=0.02, path=path, notion=notion)).score(X, y)
        for path in ("auto", "covariance", "decisions" if notion == "selection_rate" else "rates")
    }
    assert found["auto"] == max(found.values())


@pytest.mark.filterwarnings("ignore:Deciding the same for everybody")
def test_smoothed_rates_approach_each_other_under_several_conditions():
    data = X, y, z = people(seed=5)
    rule = PRuleBound(difference=0.01, notion="equalized_odds", path="rates")
    task = FairLogisticRegression(constraint=rule)._prepare(X, y, None, z)
    free = task.solve(task.problem.unconstrained())
    family = SmoothedRates(task, free)
    gaps = []
    for candidate in family.steps(lambda rate, rest: np.full(len(rate), 0.01)):
        assert candidate.solution.certificate.status == "solved"
        smooth = 1.0 / (1.0 + np.exp(-candidate.point * candidate.solution.scores))
        gaps.append([smooth[(y == v) & (z == "1")].mean() - smooth[(y == v) & (z == "0")].mean() for v in (1, 0)])
    largest = np.abs(gaps).max(axis=1)
    assert largest[0] > 0.1
    assert largest.min() < 0.02  # 0.005 is aimed at, by tangents
    model = fit(data, rule)
    assert model.path_ == "rates"
    assert model.multipliers_.isna().all()
    assert cv_score(y, model.predict(X), sensitive_features=z, notion="equalized_odds") <= 0.01
    frontier = FairnessFrontier(FairLogisticRegression(constraint=rule), n_points=3, which="p_rule")
    table = frontier.fit(X, y, sensitive_features=z).table_
    assert np.all(table["train_p_rule"] >= table["level"] - 1e-9)


@pytest.mark.parametrize("notion", ["true_positive_rate", "equalized_odds"])
def test_the_hinge_loss_and_several_groups(notion):
    data = X, y, z = people(1500, groups=3, seed=1)
    model = fit(data, PRuleBound(difference=0.05, notion=notion), FairLinearSVC)
    assert cv_score(y, model.predict(X), sensitive_features=z, notion=notion) <= 0.05
    assert model.score(X, y) > max(y.mean(), 1 - y.mean()) + 0.02
    between = fit(data, PRuleBound(difference=0.05, notion=notion, method="between_groups"))
    reached = cv_score(y, between.predict(X), sensitive_features=z, notion=notion, method="between_groups")
    assert reached <= 0.05


@pytest.mark.parametrize("notion", ["selection_rate", "true_positive_rate"])
def test_within_strata_every_stratum_keeps_the_rule(notion):
    data = X, y, z = people(seed=2)
    job = np.where(np.random.default_rng(4).random(len(y)) < 0.4 + 0.3 * (z == "1"), "nurse", "clerk")
    model = fit(data, PRuleBound(85, notion=notion), strata=job)
    decided = model.predict(X)
    for value in ("nurse", "clerk"):
        inside = job == value
        assert p_rule(y[inside], decided[inside], sensitive_features=z[inside], notion=notion) >= 85
    assert model.p_rule_ == pytest.approx(p_rule(y, decided, sensitive_features=z, notion=notion, strata=job))
    assert len(model.covariance_) == 2


@every_notion
def test_the_rates_of_the_decision_path_are_those_that_are_counted(notion):
    data = _, _, z = people(800, groups=3)
    task = FairLogisticRegression(constraint=PRuleBound(80, notion=notion))._prepare(data[0], data[1], None, z)
    free = task.solve(task.problem.unconstrained())
    rate, rest = DecisionFamily(task, free).rates(free.scores)
    counts = [
        count_groups(a, free.scores >= 0, None, 1, c)
        for c in task.columns.conditions
        for a in task.sensitive.attributes
    ]
    np.testing.assert_allclose(rate, np.concatenate([c.rate for c in counts]))
    np.testing.assert_allclose(rest, np.concatenate([c.rate_of_rest for c in counts]))


@every_notion
def test_a_price_lowers_the_gap_it_is_for(notion):
    X, y, z = people(4000, seed=5)
    task = FairLogisticRegression(constraint=PRuleBound(80, notion=notion))._prepare(X, y, None, z)
    family = DecisionFamily(task, task.solve(task.problem.unconstrained()))
    for k in range(family.n_prices):
        prices = np.zeros(family.n_prices)
        gaps = []
        for u in (-0.4, 0.4):
            prices[k] = u
            rate, rest = family.rates(family.priced(prices.copy()).solution.scores)
            gaps.append((rate - rest)[k])
        assert gaps[0] > gaps[1]


@pytest.mark.parametrize("asked", [PRuleBound(85, notion="true_positive_rate"), CovarianceBound(notion="error_rate")])
def test_a_frontier_of_the_rule_keeps_the_notion(asked):
    X, y, z = people(1200, seed=6)
    frontier = FairnessFrontier(FairLogisticRegression(constraint=asked), n_points=4, which="p_rule")
    frontier.fit(X, y, sensitive_features=z)
    for level, model in zip(frontier.table_["level"], frontier.estimators_, strict=True):
        assert p_rule(y, model.predict(X), sensitive_features=z, notion=asked.notion) >= level - 1e-9
        assert model.constraint.notion == asked.notion
    assert np.all(np.diff(frontier.table_["train_accuracy"]) <= 1e-12)


def test_where_nobody_is_counted_rates_are_equal():
    """Labels that the features tell exactly: nobody is decided wrongly, and error rates of 0 are alike."""
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(400, 2)), rng.integers(2, size=400)
    X[:, 0] += np.sign(X[:, 0])
    y = (X[:, 0] > 0).astype(int)
    model = FairLogisticRegression(C=100.0, constraint=PRuleBound(95, notion="error_rate"))
    model.fit(X, y, sensitive_features=z)
    assert model.score(X, y) == 1.0
    assert model.p_rule_ == 100.0
    assert model.cv_score_ == 0.0


# --- covariances of errors


@pytest.mark.parametrize("notion", ["false_positive_rate", "false_negative_rate", "equalized_odds"])
def test_the_convex_concave_procedure_ends_at_covariances_of_errors_it_was_asked_for(notion):
    """At a classifier that reproduces itself, the linear constraint is the covariance of errors itself."""
    X, y, z = people(4000, seed=5)
    task = FairLogisticRegression(constraint=PRuleBound(80, notion=notion))._prepare(X, y, None, z)
    free = task.solve(task.problem.unconstrained())
    family = ErrorCovarianceFamily(task, free)
    signed = np.where(y == 1, 1.0, -1.0)

    def of_errors(scores):
        found = []
        for _, who, _ in CONDITIONS[notion](signed):
            off = (z == "1") - np.average(z == "1", weights=who)
            found.append(np.average(off * np.minimum(0.0, signed * scores), weights=who))
        return np.array(found)

    np.testing.assert_allclose(np.abs(family.reach), np.abs(of_errors(free.scores)), rtol=1e-9)
    candidate = family.at(0.25)
    assert candidate.solution.certificate.status == "solved"
    asked = 0.25 * of_errors(free.scores)
    np.testing.assert_allclose(of_errors(candidate.solution.scores), asked, atol=0.1 * np.abs(asked).max())


def test_the_rule_is_kept_by_covariances_of_errors():
    data = X, y, z = people()
    model = fit(data, PRuleBound(difference=0.02, notion="false_negative_rate", path="ccp"))
    assert cv_score(y, model.predict(X), sensitive_features=z, notion="false_negative_rate") <= 0.02
    assert model.path_ == "ccp"
    assert model.score(X, y) > max(y.mean(), 1 - y.mean()) + 0.02
    frontier = FairnessFrontier(
        FairLogisticRegression(constraint=PRuleBound(80, notion="false_negative_rate", path="ccp")),
        n_points=3,
        which="p_rule",
    )
    levels = frontier.fit(X, y, sensitive_features=z).table_["level"]
    assert {m.path_ for m in frontier.estimators_} <= {"ccp", "unconstrained"}
    assert np.all(frontier.table_["train_p_rule"].fillna(100) >= levels - 1e-9)
    with pytest.raises(ValueError, match="name a notion that compares error rates"):
        PRuleBound(80, path="ccp")


# --- for people not seen yet


def test_a_rule_of_another_notion_is_tested_among_the_people_who_count():
    X, y, z = people(6000, seed=8)
    rule = PRuleBound(70, notion="true_positive_rate", confidence=0.9)
    model = fit((X, y, z), rule)
    aside = np.setdiff1d(np.arange(len(y)), model.trained_rows_)
    record = model.guarantee_
    assert record.notion == "true_positive_rate"
    assert record.people == int(y[aside].sum())
    for group in record.groups:
        who = aside[(y[aside] == 1) & (z[aside] == group.group)]
        assert (group.people, group.accepted) == (len(who), int(model.predict(X[who]).sum()))
    assert "and a positive label are accepted at least 70% as often" in record.statement
    first, second = np.arange(3000), np.arange(3000, 6000)
    train = X[first], y[first], z[first]
    given = fit(train, rule, safety_set=(X[second], z[second], None, y[second]))
    assert given.guarantee_.people == int(y[second].sum())
    with pytest.raises(ValueError, match="give the labels of the safety set, too"):
        fit(train, rule, safety_set=(X[second], z[second]))
    with pytest.raises(ValueError, match="has the label 7"):
        fit(train, rule, safety_set=(X[second], z[second], None, np.full(3000, 7)))
    with pytest.raises(ValueError, match="has strata, unlike"):
        fit(train, rule, safety_set=(X[second], z[second], None, y[second], z[second]))


def test_both_conditions_of_equalised_odds_are_tested():
    X, y, z = people(6000, seed=9)
    model = fit((X, y, z), PRuleBound(50, notion="equalized_odds", confidence=0.9))
    assert [(g.group, g.among) for g in model.guarantee_.groups] == [
        ("0", "y=+1"),
        ("1", "y=+1"),
        ("0", "y=-1"),
        ("1", "y=-1"),
    ]
    assert model.guarantee_.people == 3000
    assert "each among y=+1, y=-1" in model.guarantee_.statement


def test_strata_are_tested_one_by_one():
    X, y, z = people(6000, seed=10)
    job = np.where(np.random.default_rng(4).random(len(y)) < 0.5, "nurse", "clerk")
    model = fit((X, y, z), PRuleBound(60, confidence=0.9), strata=job)
    assert {g.among for g in model.guarantee_.groups} == {"strata='clerk'", "strata='nurse'"}


class Decided:
    """Decisions that are the first feature."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        return X[:, 0].astype(int)


def test_certificates_of_error_rates_count_errors():
    """Nobody of one group is refused wrongly, a tenth of the other: acceptances are alike, refusals are not."""
    z = np.repeat(["a", "b"], 1000)
    y = np.tile([1, 1, 1, 1, 0], 400)
    decided = np.where((z == "b") & (np.arange(2000) % 10 == 0), 0, y)
    about = {"sensitive_features": z, "p": 80}
    assert certify(Decided(), decided[:, None], y, notion="true_positive_rate", **about).people == 1600
    with pytest.raises(NotCertifiedError):
        certify(Decided(), decided[:, None], y, notion="false_negative_rate", **about)
    with pytest.raises(NotCertifiedError):
        certify(Decided(), decided[:, None], y, notion="error_rate", **about)


def test_the_level_holds_for_true_positive_rates():
    """True positive rates of 0.6 and 0.8 times that, just below the rule: passing is the mistake."""
    rng = np.random.default_rng(0)
    question, draws, mistakes = Question(80.0, 0.9), 150, 0
    for _ in range(draws):
        y, z = np.where(rng.random(600) < 0.5, 1.0, -1.0), rng.integers(2, size=600)
        accepted = rng.random(600) < np.where(y > 0, np.where(z == 1, 0.4799, 0.6), 0.2)
        attribute = Attribute("z", (0, 1), z)
        conditions = get_notion("true_positive_rate").conditions(y)
        mistakes += CountedDecisions.of((attribute,), accepted, None, conditions).supports(question)
    assert mistakes / draws <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / draws)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"p": 80, "difference": 0.05}, "either p .* or difference, not both"),
        ({}, "needs p"),
        ({"difference": 0.0}, "above 0 and below 1"),
        ({"difference": 1.0}, "above 0 and below 1"),
        ({"difference": -0.1}, "above 0 and below 1"),
        ({"difference": float("nan")}, "above 0 and below 1"),
        ({"difference": "0.05"}, "above 0 and below 1"),
        ({"difference": True}, "above 0 and below 1"),
        ({"p": 80, "notion": "equal_opportunity"}, "notion must be one of"),
        ({"difference": 0.05, "confidence": 0.95}, "confidence is for ratios"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        PRuleBound(**parameters)


def test_cells_without_people_are_named():
    X, y, z = people(600)
    with pytest.raises(ValueError, match="nobody is in sensitive='0' among the people with a positive label"):
        fit((X, y, np.where(y == 1, "1", z)), PRuleBound(80, notion="equalized_odds"))
    with pytest.raises(ValueError, match="at most one group has anybody in: job='driver'"):
        fit(
            (X, y, z),
            PRuleBound(80),
            strata=pd.Series(np.where((z == "1") & (X[:, 1] > 1), "driver", "nurse"), name="job"),
        )
    with pytest.raises(ValueError, match="tell the sensitive attribute"):
        fit((X, y, z), PRuleBound(80), strata=np.where(z == "1", "b", "a"))
    with pytest.raises(ValueError, match="numeric and has no groups"):
        fit((X, y, X[:, 0] ** 2), PRuleBound(80, notion="true_positive_rate"))


def test_warnings_name_the_rule():
    X, y, z = people(400)
    with pytest.warns(UserWarning, match=r"The 95%-rule of true positive rates holds .* sensitive='0'"):
        fit((X, y, z), PRuleBound(95, notion="true_positive_rate"))
    with pytest.warns(UserWarning, match="The difference of at most 0.01 between selection rates holds"):
        fit((X, y, z), PRuleBound(difference=0.01))


def test_a_constant_decision_does_not_keep_a_rule_on_error_rates():
    """Base rates differ and features say nothing: error rates cannot be alike, however everybody is decided."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=1000)
    y = (rng.random(1000) < 0.2 + 0.3 * z).astype(int)
    with pytest.raises(InfeasibleError, match="nor does deciding the same for everybody"):
        fit((rng.integers(2, size=(1000, 1)), y, z), PRuleBound(difference=0.001, notion="error_rate"))


def test_rules_of_other_notions_as_text():
    asked = parse_constraint("difference=0.05", notion="equalized_odds", min_people=30)
    assert asked == PRuleBound(difference=0.05, notion="equalized_odds", min_people=30)
    assert parse_constraint("covariance=0", notion="error_rate").notion == "error_rate"
    tested = parse_constraint("p-rule=80", confidence=0.95, notion="true_positive_rate")
    assert (tested.confidence, tested.notion) == (0.95, "true_positive_rate")
    with pytest.raises(DataError, match="notion must be one of"):
        parse_constraint("p-rule=80", notion="equality")
    with pytest.raises(DataError, match="above 0 and below 1"):
        parse_constraint("difference=5")
    with pytest.raises(DataError, match="A confidence is for p%-rules"):
        parse_constraint("difference=0.05", confidence=0.95)


def test_the_model_file_keeps_the_rule():
    asked = PRuleBound(difference=0.05, notion="equalized_odds")
    assert from_plain(to_plain(asked)) == asked
    groups = (GroupRecord("sex", "a", 10, 5, None, "y=+1"), GroupRecord("sex", "b", 20, 9, None, "y=+1"))
    record = Guarantee(80.0, 0.9, "exact", "one_vs_rest", "equalized_odds", 30, groups)
    assert from_plain(to_plain(record)) == record
