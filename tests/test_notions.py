"""Notions of fairness: the covariance among the people who count is what a constraint bounds."""

import numpy as np
import pytest

from fairmargin import CovarianceBound, FairMarginClassifier, FairnessFrontier, LossBound
from fairmargin.datasets import make_linear_synthetic
from fairmargin.notions import TruePositiveRate, get_notion

pytestmark = pytest.mark.numerical

COUNTS = {"selection_rate": lambda y: np.isfinite(y), "true_positive_rate": lambda y: y > 0}
LOSSES = ("logistic", "hinge", "modified_huber")
every_notion = pytest.mark.parametrize("notion", COUNTS)
every_loss = pytest.mark.parametrize("loss", LOSSES)


@pytest.fixture(scope="module")
def data():
    return make_linear_synthetic(1000, random_state=0)


def fit(data, constraint, loss="logistic", weight=None):
    X, y, z = data
    return FairMarginClassifier(loss, constraint=constraint).fit(X, y, weight, sensitive_features=z)


def covariance_among(model, data, chosen, weight=None):
    """Return the covariance of z and the scores among ``chosen``, and its size without cancellation."""
    X, y, z = data
    s = np.ones(len(y)) if weight is None else weight
    z, s, f = z[chosen], s[chosen], model.decision_function(X)[chosen]
    off = z - np.average(z, weights=s)
    return np.average(off * f, weights=s), np.average(np.abs(off * f), weights=s)


def true_positive_rates(model, data):
    X, y, z = data
    return np.array([np.mean(model.predict(X)[(y > 0) & (z == group)] > 0) for group in (0, 1)])


@every_notion
@every_loss
@pytest.mark.parametrize("weighted", [False, True])
def test_the_covariance_among_the_people_who_count_is_zero(data, notion, loss, weighted):
    weight = np.random.default_rng(1).exponential(size=len(data[1])) if weighted else None
    model = fit(data, CovarianceBound(0.0, notion=notion), loss, weight)
    value, size = covariance_among(model, data, COUNTS[notion](data[1]), weight)
    assert abs(value) <= 1e-8 * size
    assert size > 0.01


@every_notion
@every_loss
def test_under_a_loose_bound_the_classifier_is_the_unconstrained_one(data, notion, loss):
    loose = fit(data, CovarianceBound(1e6, notion=notion), loss)
    free = fit(data, None, loss)
    # A gap of tol leaves the coefficients uncertain by its square root; 1/2 ||w||^2 makes that sqrt(2 tol objective).
    reach = 2 * np.sqrt(2 * free.tol * free.certificate_.objective)
    np.testing.assert_allclose(loose.coef_, free.coef_, rtol=0, atol=reach)


@every_loss
def test_zero_covariance_among_the_positive_brings_their_rates_together(data, loss):
    free = fit(data, CovarianceBound(np.inf), loss)
    fair = fit(data, CovarianceBound(0.0, notion="true_positive_rate"), loss)
    before, after = (abs(np.diff(true_positive_rates(model, data))[0]) for model in (free, fair))
    assert before > 0.1
    assert after < before / 2


@every_loss
def test_a_loss_bound_spends_its_budget_on_the_people_who_count(data, loss):
    positive = data[1] > 0
    free = fit(data, CovarianceBound(np.inf), loss)
    fair = fit(data, LossBound(0.05, notion="true_positive_rate"), loss)
    same_budget = fit(data, LossBound(0.05), loss)
    left, elsewhere, all_of_it = (
        abs(covariance_among(model, data, positive)[0]) for model in (fair, same_budget, free)
    )
    assert left < all_of_it
    assert left <= elsewhere * (1 + 1e-6)


def test_groups_without_a_positive_label_cannot_be_compared(data):
    X, y, z = data
    with pytest.raises(ValueError, match="among the people with a positive label, of whom at most one group has any"):
        fit((X, y, np.where(y > 0, 1, z)), CovarianceBound(0.0, notion="true_positive_rate"))


def test_notions_are_known_by_name():
    assert get_notion("true_positive_rate") == TruePositiveRate()
    assert repr(TruePositiveRate()) == "TruePositiveRate()"
    with pytest.raises(ValueError, match=r"notion must be one of .*'true_positive_rate'"):
        CovarianceBound(0.0, notion="equal_opportunity")


@every_notion
def test_a_bound_is_about_the_covariance_among_the_people_who_count(data, notion):
    model = fit(data, CovarianceBound(0.01, notion=notion))
    value, _ = covariance_among(model, data, COUNTS[notion](data[1]))
    assert abs(value) == pytest.approx(0.01, rel=1e-6)


@every_notion
def test_a_frontier_keeps_the_notion(data, notion):
    X, y, z = data
    estimator = FairMarginClassifier(constraint=CovarianceBound(notion=notion))
    frontier = FairnessFrontier(estimator, n_points=3).fit(X, y, sensitive_features=z)
    value, size = covariance_among(frontier.estimators_[-1], data, COUNTS[notion](y))
    assert abs(value) <= 1e-8 * size
    assert frontier.estimators_[1].constraint.notion == notion
