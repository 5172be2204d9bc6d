"""A bound on accuracy, AUC or profit is kept by the decisions and scores of the fitted classifier, or a fit warns."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fairmargin import (
    CovarianceBound,
    CovariancePenalty,
    FairLinearSVC,
    FairLogisticRegression,
    IndividualLossBound,
    LossBound,
    PerformanceBound,
)
from fairmargin.ranking import rank_together

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning"),
    pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning"),
]
PROFIT = {"tp": 1.0, "fp": -1.5}


def alike(seed, n=150, d=3, cut=3, unit=1.0):
    """Return people of whom many have the same features, so that many scores are equal."""
    r = np.random.default_rng(seed)
    X = r.integers(0, 3, (n, d)).astype(float)
    z = np.where(X[:, 0] + r.normal(size=n) > 1, "a", "b")
    y = (X.sum(axis=1) + r.normal(size=n) > cut).astype(int)
    return unit * X, y, z


def one_feature(seed, n=200):
    """Return people whose only feature tells the group, and whose labels it says the opposite of in some draws."""
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, 1))
    z = np.where(X[:, 0] + r.normal(size=n) > 0, "a", "b")
    return X, (X[:, 0] + r.normal(size=n) + 0.5 * r.normal() > 0).astype(int), z


def auc(y, scores):
    """Return the share of pairs in the right order; scores that differ by rounding only count half."""
    above = scores[y > 0][:, None] - scores[y == 0]
    size = np.maximum(np.abs(scores[y > 0])[:, None], np.abs(scores[y == 0])).max()
    return float(np.mean((above > 1e-7 * size) + 0.5 * (np.abs(above) <= 1e-7 * size)))


def worth(bound, model, X, y):
    """Return the measure of a bound, from decisions and scores."""
    accepted = model.predict(X) == 1
    if bound.measure == "auc":
        return auc(y, model.decision_function(X))
    if bound.measure == "profit":
        return float(np.mean(accepted * np.where(y > 0, PROFIT["tp"], PROFIT["fp"])))
    return float(np.mean(accepted == (y > 0)))


def reported(model, bound):
    """Return the measure that a fitted classifier reports, and that of the unconstrained one."""
    if isinstance(model.constraint, list):
        (record,) = (r for r in model.constraints_ if r.constraint is bound)
        return record.figures["performance"], record.figures["unconstrained_performance"]
    return model.performance_, model.unconstrained_performance_


def assert_kept(model, bound, X, y):
    reached, best = reported(model, bound)
    assert model.certificate_.status == "solved"
    assert worth(bound, model, X, y) == pytest.approx(reached, abs=1e-12)
    assert reached >= best - bound.gamma * abs(best) - 1e-9


@pytest.mark.parametrize("seed", [17, 20, 21, 22])
@pytest.mark.parametrize("bound", [PerformanceBound(0.05), PerformanceBound(0.05, "profit", gains=PROFIT)])
def test_scores_of_zero_up_to_rounding_are_worth_what_the_decisions_are(bound, seed):
    X, y, z = one_feature(seed)
    model = FairLogisticRegression(fit_intercept=False, constraint=bound).fit(X, y, sensitive_features=z)
    assert_kept(model, bound, X, y)


@pytest.mark.parametrize(("gamma", "seed"), [(0.0, 9), (0.0, 13), (0.0, 17), (0.01, 7)])
@pytest.mark.parametrize(
    "beside",
    [None, CovarianceBound(5.0), CovariancePenalty(1.0), LossBound(0.2), LossBound(0.2, "sum")],
    ids=lambda c: "alone" if c is None else type(c).__name__,
)
def test_the_classifier_returned_is_the_one_that_was_worth_enough(beside, gamma, seed):
    X, y, z = alike(seed)
    bound = PerformanceBound(gamma, "auc")
    asked = bound if beside is None else [bound, beside]
    model = FairLinearSVC(C=0.01, constraint=asked).fit(X, y, sensitive_features=z)
    assert_kept(model, bound, X, y)
    for record in [] if beside is None else model.constraints_:
        assert record.violation <= 1e-9


@pytest.mark.parametrize("seed", [2, 12, 17, 18])
def test_people_on_the_boundary_count_in_what_is_reported(seed):
    X, y, z = alike(seed, n=60, d=2, cut=2)
    bound = PerformanceBound(0.0)
    others = [CovarianceBound(0.1, relative=True, notion="error_rate"), CovariancePenalty(100.0)]
    model = FairLogisticRegression(constraint=[bound, *others]).fit(X, y, sensitive_features=z)
    assert_kept(model, bound, X, y)


def test_a_floor_that_decisions_miss_in_the_end_is_not_solved():
    """Promises leave no room to move people off the boundary, and rounding refuses some of them."""
    r = np.random.default_rng(1858)
    n, d = int(r.choice([60, 150])), int(r.integers(1, 4))
    X = r.integers(0, 3, (n, d)).astype(float)
    X = X * 0.1 if r.random() < 0.3 else X
    z = np.where(X[:, 0] / X.max() * 2 + r.normal(size=n) > 1, "a", "b")
    y = (X.sum(1) / X.max() * 2 + r.normal(size=n) > d).astype(int)
    bound = PerformanceBound(0.01, "profit", gains=PROFIT)
    model = FairLinearSVC(C=10, constraint=[IndividualLossBound(1.0), bound])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, sensitive_features=z)
    reached, best = reported(model, bound)
    assert worth(bound, model, X, y) == pytest.approx(reached, abs=1e-12)
    if reached < best - bound.gamma * abs(best) - 1e-9:
        assert model.certificate_.status != "solved"
        assert any(issubclass(w.category, ConvergenceWarning) for w in caught)


@pytest.mark.parametrize("seed", [4, 6, 7, 14])
def test_the_auc_does_not_depend_on_the_order_of_rows(seed):
    r = np.random.default_rng(seed)
    X = 0.1 * np.column_stack([r.integers(0, 3, 60), r.integers(0, 3, 60)])
    z = np.array(["a", "b"])[r.integers(0, 2, 60)]
    y = (X.sum(axis=1) + 0.2 * r.normal(size=60) > 0.2).astype(int)
    bound = PerformanceBound(0.0, "auc")
    one, other = (
        FairLinearSVC(C=10, constraint=bound).fit(X[rows], y[rows], sensitive_features=z[rows])
        for rows in (np.arange(60), r.permutation(60))
    )
    assert one.unconstrained_performance_ == pytest.approx(other.unconstrained_performance_, abs=1e-12)
    assert one.performance_ == pytest.approx(other.performance_, abs=1e-12)
    assert one.factor_ == pytest.approx(other.factor_, abs=1e-6)


def test_scores_that_rounding_tells_apart_share_a_rank():
    scores = np.array([0.3, 0.1 + 0.2, -0.5, 0.3 + 1e-4, 2.0])
    assert rank_together(scores).tolist() == [1, 1, 0, 2, 3]
    assert rank_together(1e6 + np.arange(3) * 1e-3).tolist() == [0, 0, 0]


def test_the_floor_without_an_intercept_is_that_of_the_classifier_as_it_decides():
    """Ties that cannot all be accepted once counted as accepted, so that no classifier kept the floor."""
    rng = np.random.default_rng(0)
    X, z = rng.integers(-1, 2, size=(200, 3)).astype(float), rng.choice(["a", "b"], 200)
    y = (X[:, 0] + (z == "a") * 0.5 + rng.normal(size=200) > 0).astype(int)
    free = FairLinearSVC(constraint=None, fit_intercept=False).fit(X, y)
    model = FairLinearSVC(constraint=PerformanceBound(0.02), fit_intercept=False).fit(X, y, sensitive_features=z)
    assert model.unconstrained_performance_ == pytest.approx(free.score(X, y), abs=1e-12)
    assert model.certificate_.status == "solved"
    assert model.performance_ == pytest.approx(model.score(X, y), abs=1e-12)
