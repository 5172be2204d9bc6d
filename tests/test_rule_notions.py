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
    PRuleBound,
    cv_score,
    p_rule,
)
from fairmargin.decisions import count_groups
from fairmargin.formulations.prule.families import DecisionFamily
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
@pytest.mark.parametrize("path", ["auto", "covariance", "decisions"])
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
        for path in ("auto", "covariance", "decisions")
    }
    assert found["auto"] == max(found.values())


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
