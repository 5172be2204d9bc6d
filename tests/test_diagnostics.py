"""The trap: a covariance that a handful of people buy, without a decision changed. It must be seen and said."""

import warnings

import numpy as np
import pytest

from fairmargin import (
    CovarianceBound,
    CovarianceWarning,
    FairLinearSVC,
    FairLogisticRegression,
    LossBound,
    PRuleBound,
    TrivialClassifierWarning,
    p_rule,
)
from fairmargin.datasets import make_linear_synthetic
from fairmargin.diagnostics import Deviations, Movement, measure_movement, warn_if_bought
from fairmargin.several import has_rule


def trap(n=3000, rare=12, seed=0):
    """A rare category of one label and one group: its coefficient is free to run away."""
    rng = np.random.default_rng(seed)
    z = rng.random(n) < 0.5
    x = rng.normal(size=n) + 2.0 * z
    y = (x + rng.normal(size=n) > 1.0).astype(int)
    category = np.zeros(n)
    people = np.flatnonzero(~z)[:rare]
    category[people], y[people] = 1.0, 1
    return np.column_stack([x, rng.normal(size=n), category]), y, np.where(z, "b", "a")


@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
def test_falling_into_the_trap_is_said(estimator):
    X, y, z = trap()
    model = estimator(C=1e6)
    with pytest.warns(
        CovarianceWarning, match=r"covariance with 'sensitive' \('b'\) was cut by 100%, but the disparity"
    ):
        model.fit(X, y, sensitive_features=z)
    free = estimator(C=1e6, constraint=None).fit(X, y)
    assert abs(model.covariance_.iloc[0]) <= 1e-8
    before = p_rule(y, free.predict(X), sensitive_features=z)
    after = p_rule(y, model.predict(X), sensitive_features=z)
    assert after < before + 15  # the covariance is gone, the unfairness is not
    assert after < 60
    seen = model.diagnostics_
    assert seen.concentration[0] > 0.5
    assert seen.covariance_cut[0] == pytest.approx(1.0)
    assert seen.decision_cut[0] < 0.3
    assert seen.decisions_changed < 0.1


@pytest.mark.parametrize("ruled", [False, True])
def test_a_rule_is_advised_only_to_those_without_one(ruled):
    found = Movement(*(np.array([v]) for v in (0.9, 1.0, 0.0, 0.5)), 0.01)
    with pytest.warns(CovarianceWarning, match="Lower C") as said:
        warn_if_bought(found, [("sex", "b")], has_rule=ruled)
    assert ("PRuleBound" in str(said[0].message)) != ruled


def test_which_constraints_have_a_rule():
    assert all(
        map(has_rule, (PRuleBound(80), PRuleBound(80, notion="error_rate"), [CovarianceBound(), PRuleBound(80)]))
    )
    assert not any(map(has_rule, (None, CovarianceBound, [CovarianceBound(0.1), LossBound(0.1)])))


@pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning")  # the hinge loss accepts everybody
@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
def test_the_default_penalty_keeps_out_of_the_trap(estimator):
    X, y, z = trap()
    model = estimator().fit(X, y, sensitive_features=z)  # other warnings are errors here
    assert p_rule(y, model.predict(X), sensitive_features=z) > 90
    assert model.diagnostics_.concentration[0] < 0.3


@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
@pytest.mark.parametrize("c", [0.0, 0.1, 1e3])
def test_ordinary_data_raise_no_alarm(estimator, c):
    X, y, z = make_linear_synthetic(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = estimator(constraint=CovarianceBound(c)).fit(X, y, sensitive_features=z)
    assert model.diagnostics_.concentration[0] < 0.2


def test_an_attribute_unrelated_to_the_decisions_raises_no_alarm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 10))
    y = X[:, 0] + rng.normal(size=600) > 0
    race = np.array(["a", "b", "c"])[rng.integers(0, 3, size=600)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = FairLogisticRegression().fit(X, y, sensitive_features=race).diagnostics_
    assert seen.covariance_cut == pytest.approx(np.ones(3))
    assert seen.decision_cut.min() < 0.3  # a cut that did not reach the decisions, as in the trap,
    assert seen.disparity_left.max() < 0.1  # but of what was chance from the start


def test_everybody_accepted_is_no_disparity():
    weight = np.full(3, 1 / 3) * 1.0000001
    columns = Deviations(np.array([[-1.0], [0.0], [1.0]]), weight)
    movement = measure_movement(columns, np.ones(3), np.array([2.0, 2.0, 2.0]))
    assert movement.disparity_left.tolist() == [0.0]


def test_movement_by_hand():
    centred = np.array([[0.5], [0.5], [-0.5], [-0.5]])
    before, after = np.array([2.0, 1.0, -1.0, -2.0]), np.array([2.0, -1.0, 1.0, -2.0])
    movement = measure_movement(Deviations(centred, np.ones(4)), before, after)
    assert movement.decisions_changed == pytest.approx(0.5)
    assert movement.covariance_cut == pytest.approx([1 - 0.25 / 0.75])
    assert movement.decision_cut == pytest.approx([1.0])
    assert movement.concentration == pytest.approx([0.5])  # the one person that is 1% carries half of the change
    still = measure_movement(Deviations(centred, np.ones(4)), before, before)
    assert still.concentration.tolist() == [0.0]
    assert still.covariance_cut.tolist() == [0.0]
    assert still.disparity_left == pytest.approx([1.0])


def test_without_sensitive_features_there_is_nothing_to_tell():
    X, y, _ = trap()
    model = FairLogisticRegression(constraint=None).fit(X, y)
    assert model.diagnostics_ is None
    assert model.covariance_ is None
    assert model.multipliers_ is None


def test_a_constraint_that_leaves_nothing_to_decide_by_is_not_silent():
    """More groups than features: zero covariance with all of them leaves the intercept only."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] + 0.5 + rng.normal(size=400) > 0).astype(int)
    z = np.digitize(X @ [1.0, 0.3] + X[:, 1] ** 2 + 0.3 * rng.normal(size=400), [0.0, 0.7, 1.5, 3.0]).astype(str)
    with pytest.warns(TrivialClassifierWarning, match="accepts everybody, which the unconstrained one does not"):
        model = FairLogisticRegression(constraint=CovarianceBound(0.0)).fit(X, y, sensitive_features=z)
    assert model.predict(X).all()
