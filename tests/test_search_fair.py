"""SearchFair: by hand on counts, the search, and what it is for: decisions where a covariance says nothing."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fairmargin import CovarianceBound, CovarianceWarning, FairLogisticRegression, cv_score
from fairmargin.baselines import SearchFair
from fairmargin.baselines._two_sided import minimise_two_sided
from fairmargin.datasets import make_linear_synthetic

pytestmark = pytest.mark.numerical


def test_two_sided_weights_by_hand():
    # Without features only the intercept is left, and sigmoid(b) is the share of the weight that speaks for yes.
    X = np.zeros((2, 1))
    w, b = minimise_two_sided(X, np.array([3.0, 2.0]), np.array([0.0, 1.0]), loss="logistic", C=1.0)
    assert w == pytest.approx([0.0])
    assert b == pytest.approx(np.log(5), rel=1e-5)


def test_weights_on_one_side_only():
    X = np.zeros((2, 1))
    assert minimise_two_sided(X, np.ones(2), np.zeros(2), loss="hinge", C=1.0) == (0.0, 1.0)
    assert minimise_two_sided(X, np.zeros(2), np.ones(2), loss="hinge", C=1.0) == (0.0, -1.0)


def test_the_search_by_hand():
    # One feature, which tells the group. With next to no ridge, group a (1 of 4 positive) is accepted as soon as
    # 1 + 9 lambda >= 3 and group b (4 of 5) refused as soon as 4 < 1 + 9 lambda: all are accepted in between.
    z = np.repeat(["a", "b"], [4, 5])
    y = np.array([1, 0, 0, 0, 1, 1, 1, 1, 0])
    X = (z == "b").astype(float)[:, None]
    model = SearchFair(C=1e6).fit(X, y, sensitive_features=z)
    # 0 and 1/8 leave a difference of 1; 1/4 is within.
    assert (model.penalty_, model.difference_, model.n_iter_) == (0.25, 0.0, 3)
    assert model.predict(X).tolist() == [1] * 9
    share = (1 + 9 / 4) / (4 + 9 / 4), 4 / (5 + 9 / 4)
    assert model.predict_proba([[0.0], [1.0]])[:, 1] == pytest.approx(share, rel=1e-3)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("difference", [0.0, 0.2])
def test_the_difference_is_reached(loss, difference, swapped):
    X, y, z = make_linear_synthetic(2000, random_state=0)
    z = 1 - z if swapped else z
    model = SearchFair(difference, loss=loss, tol=5e-3).fit(X, y, sensitive_features=z)
    assert model.difference_ == pytest.approx(difference, abs=5e-3)
    assert cv_score(y, model.predict(X), sensitive_features=z) == pytest.approx(abs(model.difference_))
    assert model.n_iter_ <= 40


def test_true_positive_rates():
    X, y, z = make_linear_synthetic(2000, random_state=0)
    model = SearchFair(notion="true_positive_rate", tol=5e-3).fit(X, y, sensitive_features=z)
    positive = y == 1
    assert cv_score(y[positive], model.predict(X)[positive], sensitive_features=z[positive], pos_label=1) < 6e-3


def test_nothing_to_do_leaves_the_unconstrained_classifier():
    X, y, z = make_linear_synthetic(500, random_state=0)
    model = SearchFair(1.0).fit(X, y, sensitive_features=z)
    plain = FairLogisticRegression(constraint=None).fit(X, y)
    assert (model.penalty_, model.n_iter_) == (0.0, 1)
    assert model.coef_ == pytest.approx(plain.coef_, rel=1e-2)


def test_fair_where_zero_covariance_is_not():
    # A tenth of the deprived have huge values, which make the groups' means equal: the covariance is already nearly
    # zero, and the decisions are as unfair as before.
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1], 1000)
    x = rng.normal(size=2000) + np.where(z == 1, 1.0, -1.0)
    x[:100] = 19.0
    X = np.column_stack([x, rng.normal(size=2000)])
    y = (X.sum(axis=1) + rng.normal(size=2000) > 0).astype(int)
    with pytest.warns(CovarianceWarning):
        covariance = FairLogisticRegression(constraint=CovarianceBound(0.0)).fit(X, y, sensitive_features=z)
    assert cv_score(y, covariance.predict(X), sensitive_features=z) > 0.3
    searched = SearchFair().fit(X, y, sensitive_features=z)
    assert cv_score(y, searched.predict(X), sensitive_features=z) < 2e-3


def test_a_difference_that_is_not_reached_is_said():
    X, y, z = make_linear_synthetic(500, random_state=0)
    with pytest.warns(ConvergenceWarning, match="did not reach a difference of 0: .* is left after 2 classifiers"):
        SearchFair(max_iter=2).fit(X, y, sensitive_features=z)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"difference": -0.1}, "difference must be between 0 and 1"),
        ({"difference": "0"}, "difference must be a number"),
        ({"C": 0.0}, "C must be positive"),
        ({"tol": 0.0}, "tol must be positive"),
        ({"notion": "calibration"}, "calibration"),
        ({"loss": "ramp"}, "ramp"),
    ],
)
def test_parameters_are_checked(parameters, message):
    X, y, z = make_linear_synthetic(60, random_state=0)
    with pytest.raises(ValueError, match=message):
        SearchFair(**parameters).fit(X, y, sensitive_features=z)
    assert not hasattr(SearchFair(loss="hinge"), "predict_proba")
