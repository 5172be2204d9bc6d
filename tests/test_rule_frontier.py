"""The frontier of accuracy against the p%-rule: every level is kept, no known classifier beats it, one search."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairnessFrontier,
    FairSVC,
    LossBound,
    PRuleBound,
    TrivialClassifierWarning,
    p_rule,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning"),
    pytest.mark.filterwarnings("ignore::fairmargin.SmallGroupWarning"),
    pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning"),
]

ROUNDING = 1e-12  # of a sum of a thousand shares of one


def make_people(seed, n=1500, groups=2):
    """Return people whose features tell their group, and whose group tells their label."""
    rng = np.random.default_rng(seed)
    z = rng.integers(groups, size=n)
    X = rng.normal(size=(n, 4)) + 0.6 * z[:, None] * np.array([1.0, 0.5, 0.0, 0.0])
    y = (X[:, 0] + X[:, 2] + 0.5 * z + rng.normal(size=n) > 0.6).astype(int)
    return X, y, pd.Series(np.array(list("abcde"))[z], name="group")


def rule_frontier(estimator, data, **options):
    X, y, z = data
    return FairnessFrontier(estimator, which="p_rule", **{"n_points": 8} | options).fit(X, y, sensitive_features=z)


def check_same_optimum(first, second, X):
    """The penalty makes the objective strongly convex, so that gaps bound how far apart two functions can be."""
    proofs = first.certificate_, second.certificate_
    gaps = [proof.objective - proof.dual_bound + ROUNDING * proof.objective for proof in proofs]
    assert abs(proofs[0].objective - proofs[1].objective) <= max(gaps)
    lengths = np.ones(len(X)) if isinstance(first, FairSVC) else np.linalg.norm(X, axis=1)  # k(x, x) = 1 for rbf
    scores = [model.decision_function(X) - model.intercept_ for model in (first, second)]
    assert np.all(np.abs(scores[0] - scores[1]) <= lengths * np.sqrt(2.0 * np.array(gaps)).sum())


ESTIMATORS = [FairLogisticRegression(), FairLinearSVC(), FairLinearSVC(loss="squared_hinge"), FairSVC(C=0.5)]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: f"{type(e).__name__}-{e._loss().name}")
def test_every_level_is_kept_and_accuracy_falls(estimator):
    X, y, z = data = make_people(0, 400)
    frontier = rule_frontier(estimator, data, levels=[80])
    table = frontier.table_
    assert table["level"].iloc[-1] > 90.0
    assert 80.0 in table["level"].to_list()
    for level, point in zip(table["level"], frontier.estimators_, strict=True):
        decided = point.predict(X)
        assert point.constraint.p == level
        assert len(np.unique(decided)) == 2  # the frontier ends before everybody gets the same decision
        assert p_rule(y, decided, sensitive_features=z) >= level
    assert np.all(np.diff(table["train_accuracy"]) <= ROUNDING)
    free = clone(estimator).set_params(constraint=None).fit(X, y)
    check_same_optimum(frontier.unconstrained_, free, X)


@pytest.mark.parametrize("method", ["one_vs_rest", "between_groups"])
@pytest.mark.parametrize(("seed", "groups"), [(1, 2), (2, 4)])
def test_no_level_is_behind_a_search_of_its_own(seed, groups, method):
    X, y, z = data = make_people(seed, groups=groups)
    frontier = rule_frontier(FairLogisticRegression(), data, method=method)
    for level, accuracy in frontier.table_[["level", "train_accuracy"]].to_numpy()[::2]:
        alone = FairLogisticRegression(constraint=PRuleBound(level, method=method)).fit(X, y, sensitive_features=z)
        # The search tells accuracies apart down to about their standard error.
        assert accuracy >= alone.score(X, y) - 0.5 / np.sqrt(len(y))


def test_several_attributes_and_small_groups():
    X, y, z = make_people(3)
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"group": z, "other": np.where(X[:, 1] + rng.normal(size=len(y)) > 0, "u", "v")})
    people.loc[:2, "other"] = "rare"
    frontier = rule_frontier(FairLogisticRegression(), (X, y, people), min_people=30)
    for level, point in zip(frontier.table_["level"], frontier.estimators_, strict=True):
        decided = point.predict(X)
        assert not decided.any() or p_rule(y, decided, sensitive_features=people, min_people=30) >= level
    assert np.all(np.diff(frontier.table_["train_accuracy"]) <= ROUNDING)


def test_pipelines_are_fitted_once_and_whole_at_every_point():
    X, y, z = make_people(4)
    X = 50.0 * X + 7.0
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression())
    X_test, y_test, z_test = make_people(5)
    test = (50.0 * X_test + 7.0, y_test, z_test)
    frontier = FairnessFrontier(pipe, which="p_rule", n_points=5).fit(X, y, sensitive_features=z, eval_set=test)
    by_hand = rule_frontier(FairLogisticRegression(), (StandardScaler().fit_transform(X), y, z), n_points=5)
    pd.testing.assert_frame_equal(frontier.table_[by_hand.table_.columns], by_hand.table_)
    point = frontier.select(p_rule=80)
    assert list(point.named_steps) == list(pipe.named_steps)
    assert p_rule(y, point.predict(X), sensitive_features=z) >= 80
    measured = np.mean(frontier.estimators_[-2].predict(test[0]) == y_test)
    assert frontier.table_["test_accuracy"].iloc[-2] == pytest.approx(measured)
    covariance = FairnessFrontier(pipe, n_points=3).fit(X, y, sensitive_features=z)
    assert covariance.estimators_[-1][-1].covariance_.abs().max() < 1e-9


def test_no_alternative_beats_the_curve():
    X, y, z = data = make_people(6, 600)
    # The frontier's own classifiers see one of the features, the alternatives all of them.
    poor = make_pipeline(FunctionTransformer(lambda X: X[:, :1]), FairLogisticRegression())
    alternatives = [
        FairLogisticRegression(constraint=constraint).fit(X, y, sensitive_features=z)
        for constraint in (CovarianceBound(0.0), LossBound(0.02), PRuleBound(80))
    ]
    frontier = FairnessFrontier(poor, which="p_rule").fit(X, y, sensitive_features=z, alternatives=alternatives)
    chosen = 0
    for model in alternatives:
        reached = p_rule(y, model.predict(X), sensitive_features=z)
        served = frontier.table_[frontier.table_["level"] <= reached]
        assert np.all(served["train_accuracy"] >= model.score(X, y) - ROUNDING)
        chosen += any(point is model for point in frontier.estimators_)
    assert chosen
    without = rule_frontier(poor, data, n_points=21)
    assert np.all(frontier.table_["train_accuracy"] >= without.table_["train_accuracy"] - ROUNDING)


def test_without_an_intercept_unreachable_levels_are_left_out():
    X, y, z = data = make_people(7)
    frontier = rule_frontier(FairLogisticRegression(fit_intercept=False), data)
    assert frontier.table_["level"].iloc[-1] < 100
    for level, point in zip(frontier.table_["level"], frontier.estimators_, strict=True):
        assert p_rule(y, point.predict(X), sensitive_features=z) >= level


def test_weights_are_copies():
    X, y, z = make_people(8, 300)
    weight = np.random.default_rng(0).integers(1, 4, size=len(y))
    weighted = FairnessFrontier(FairLogisticRegression(), which="p_rule", n_points=4)
    weighted.fit(X, y, weight, sensitive_features=z)
    rows = np.repeat(np.arange(len(y)), weight)
    copied = rule_frontier(FairLogisticRegression(), (X[rows], y[rows], z.iloc[rows]), n_points=4)
    np.testing.assert_allclose(weighted.table_["level"], copied.table_["level"], rtol=1e-9)
    # The search tells accuracies apart down to about their standard error.
    np.testing.assert_allclose(
        weighted.table_["train_accuracy"], copied.table_["train_accuracy"], atol=0.5 / np.sqrt(len(y))
    )


@pytest.mark.filterwarnings("default::fairmargin.TrivialClassifierWarning")
def test_constant_decisions_are_never_silent():
    with pytest.warns(TrivialClassifierWarning, match=r"at 100% of the p%-rule. The frontier ends at [\d.]+%"):
        frontier = rule_frontier(FairLogisticRegression(), make_people(0, 1000), n_points=3)
    assert len(frontier.table_) == len(frontier.estimators_) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": [80], "which": "covariance"}, "levels are for which='p_rule'"),
        ({"levels": [0.8]}, "did you mean 80"),
        ({"levels": [101]}, "percentage"),
        ({"which": "accuracy"}, "which must be"),
    ],
)
def test_bad_parameters(options, message):
    X, y, z = make_people(0, 60)
    with pytest.raises(ValueError, match=message):
        FairnessFrontier(FairLogisticRegression(), **{"which": "p_rule"} | options).fit(X, y, sensitive_features=z)


def test_a_numeric_attribute_has_no_rates():
    X, y, _ = make_people(0, 60)
    with pytest.raises(ValueError, match="numeric and has no groups"):
        rule_frontier(FairLogisticRegression(), (X, y, X[:, 0] + np.random.default_rng(0).normal(size=len(y))))
