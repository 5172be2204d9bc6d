"""Starts near the answer: along frontiers, at ties, and where a first try on few people goes wrong."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairnessFrontier,
    FairSVC,
    InfeasibleError,
    PRuleBound,
    p_rule,
)
from fairmargin.formulations.covariance import extrapolate
from fairmargin.problem import Problem
from fairmargin.solvers import evaluation
from fairmargin.solvers.hinge import multipliers

pytestmark = pytest.mark.filterwarnings(
    "ignore::fairmargin.CovarianceWarning", "ignore::fairmargin.SmallGroupWarning"
)


def people(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    z = (X[:, 0] + rng.standard_normal(n) > 0).astype(int)
    y = (X.sum(axis=1) + z + rng.logistic(size=n) > 0).astype(int)
    return X, y, z


def tied_people(seed):
    """Whole numbers and rows of zeros: many people sit exactly on the margin."""
    rng = np.random.default_rng(seed)
    n, d, levels = int(rng.integers(40, 200)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    X = rng.integers(0, 1 + levels, (n, d)).astype(float) * (rng.random((n, 1)) < 0.6)
    z = rng.integers(0, 2, n)
    y = (rng.random(n) < 0.2 + 0.3 * z + 0.2 * X[:, 0] / levels).astype(int)
    return X, y, z


@pytest.mark.parametrize("seed", [202, 0, 1, 2, 3, 4])
def test_a_hinge_frontier_ends_where_many_are_on_the_margin(seed):
    X, y, z = tied_people(seed)
    frontier = FairnessFrontier(FairLinearSVC(C=0.1), n_points=11).fit(X, y, sensitive_features=z)
    for model in frontier.estimators_:
        assert model.certificate_.gap <= 1e-9


@pytest.mark.parametrize(
    "estimator", [FairLogisticRegression(), FairLinearSVC(), FairMarginClassifier("smoothed_hinge")]
)
def test_points_of_a_frontier_are_those_of_cold_starts(estimator):
    X, y, z = people(2000, 6, seed=3)
    frontier = FairnessFrontier(estimator, n_points=21).fit(X, y, sensitive_features=z)
    for model in frontier.estimators_[1::4]:
        cold = type(estimator)(**{**estimator.get_params(), "constraint": model.constraint})
        cold.fit(X, y, sensitive_features=z)
        assert model.certificate_.objective == pytest.approx(cold.certificate_.objective, rel=1e-7)
        assert model.certificate_.gap <= 1e-9


def test_a_try_on_too_few_people_is_taken_back(monkeypatch):
    X, y, z = people(4000, 5, seed=5)
    cold = FairLinearSVC(constraint=CovarianceBound(0.25, relative=True)).fit(X, y, sensitive_features=z)
    seen = []
    finish = multipliers._certify

    def watch(*args):
        solution = finish(*args)
        seen.append(solution.certificate.gap)
        return solution

    monkeypatch.setattr(multipliers, "_certify", watch)
    monkeypatch.setattr(multipliers, "reach_of_warm_start", lambda problem, margins: 0.013)
    frontier = FairnessFrontier(FairLinearSVC(), n_points=5).fit(X, y, sensitive_features=z)
    assert max(seen) > 1e-9, "no try went wrong: the test tests nothing"
    assert frontier.estimators_[3].certificate_.objective == pytest.approx(cold.certificate_.objective, rel=1e-7)
    assert all(model.certificate_.gap <= 1e-9 for model in frontier.estimators_)


def test_a_few_who_crossed_join_those_near_the_margin(monkeypatch):
    """A reach so short that somebody crosses: they join, the reach stays, and nothing is begun anew."""
    X, y, z = people(6000, 8, seed=5)
    exact = FairLinearSVC().fit(X, y, sensitive_features=z).certificate_
    asked, near_margin = [], multipliers.find_near

    def listen(margins, reach, least, joined):
        asked.append((reach, len(joined)))
        return near_margin(margins, reach, least, joined)

    monkeypatch.setattr(multipliers, "find_near", listen)
    monkeypatch.setattr(multipliers, "_REACH", 0.01)
    joined = FairLinearSVC().fit(X, y, sensitive_features=z).certificate_
    assert joined.gap <= 1e-9
    assert joined.objective == pytest.approx(exact.objective, rel=2e-9)
    assert any(count for _, count in asked)
    assert {reach for reach, _ in asked} == {0.01}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "smoothed_hinge"])
def test_frontiers_by_loss_have_a_multiplier_at_every_point(seed, loss):
    X, y, z = people(400, 1 + seed % 3, seed)
    estimator = FairMarginClassifier(loss, C=10.0 ** (seed - 4), fit_intercept=seed % 2 == 0)
    table = FairnessFrontier(estimator, n_points=4, which="loss").fit(X, y, sensitive_features=z).table_
    assert table.filter(like="multiplier[").notna().all(axis=None)


def test_points_of_a_frontier_share_nothing_that_changes():
    X, y, z = people(80)
    frontier = FairnessFrontier(FairSVC(kernel=RBF(1.0)), n_points=3).fit(X, y, sensitive_features=z)
    one, other = frontier.estimators_[:2]
    before = other.decision_function(X)
    one.set_params(kernel__length_scale=9.0)
    np.testing.assert_array_equal(other.decision_function(X), before)


@pytest.mark.parametrize(
    "nodes", [[0.9], [0.9, 1.0], [0.9, 0.95, 1.0], [0.5, 0.6, 0.7, 0.8, 0.9, 1.0], [0.2, 0.9, 0.21, 0.4]]
)
def test_extrapolation_is_exact_for_polynomials(nodes):
    degree = min(3, len(nodes) - 1)
    weights = extrapolate(nodes, 0.35, degree)
    for power in range(degree + 1):
        assert weights @ np.array(nodes) ** power == pytest.approx(0.35**power, abs=1e-9)


def mirrored_people():
    """Two features that mirror each other: without an intercept many scores are zero but for rounding."""
    rows, ys, zs = [], [], []
    kinds = [
        ((1, 0), 1, 1, 30),
        ((1, 0), 0, 1, 8),
        ((1, 0), 1, 0, 12),
        ((1, 0), 0, 0, 5),
        ((1, 1), 1, 1, 20),
        ((1, 1), 0, 1, 17),
    ]
    for x, y, z, count in kinds:
        rows += [x, x[::-1]] * count
        ys += [y, 1 - y] * count
        zs += [z, 1 - z] * count
    return np.repeat(rows, 7, axis=0) * 0.3, np.repeat(ys, 7), np.repeat(zs, 7).astype(str)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "hinge"])
@pytest.mark.parametrize("p", [50, 60, 70, 75, 90])
def test_a_rule_holds_or_cannot_be_had_where_scores_are_zero_but_for_rounding(loss, p):
    X, y, z = mirrored_people()
    model = FairMarginClassifier(loss, fit_intercept=False, constraint=PRuleBound(p))
    try:
        model.fit(X, y, sensitive_features=z)
    except InfeasibleError:
        return
    assert p_rule(None, model.predict(X), sensitive_features=z) >= p


@pytest.mark.parametrize("C", [1e-46, 1e-39, 1e-6, 1e6])
def test_weights_beyond_float32(C):
    X, y, z = people(20_000, 2)
    model = FairLogisticRegression(C=C).fit(X, y, sensitive_features=z)
    assert np.all(np.isfinite(model.coef_))
    assert model.certificate_.gap <= 1e-9


@pytest.mark.parametrize(
    ("estimator", "n"), [(FairLogisticRegression(max_iter=1), 20_000), (FairLinearSVC(max_iter=3), 3000)]
)
def test_too_few_iterations_are_said_on_large_data_too(estimator, n):
    X, y, z = people(n, 4)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        estimator.fit(X, y, sensitive_features=z)


def test_single_precision_is_used_where_it_pays(monkeypatch):
    X, y, z = people(20_000, 5)
    made = []
    single = Problem.single
    monkeypatch.setattr(Problem, "single", lambda self: made.append(single(self)) or made[-1])
    FairLogisticRegression().fit(X, y, sensitive_features=z)
    assert any(twin is not None for twin in made)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_losses_worked_out_for_some_people_at_a_time_are_the_same(monkeypatch, loss):
    X, y, z = people(2000, 4)
    together = FairMarginClassifier(loss).fit(X, y, sensitive_features=z)
    monkeypatch.setattr(evaluation, "_BLOCK", 300)
    apart = FairMarginClassifier(loss).fit(X, y, sensitive_features=z)
    assert apart.certificate_.gap <= 1e-9
    np.testing.assert_allclose(apart.coef_, together.coef_, rtol=1e-6)
    assert apart.certificate_.objective == pytest.approx(together.certificate_.objective, rel=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_unconstrained_covariance_is_that_of_the_unconstrained_classifier(seed):
    """It is compared with only, and so found in single precision and without proof where people are many."""
    X, y, z = people(40_000, 12, seed=seed)
    fair = FairLogisticRegression().fit(X, y, sensitive_features=z)
    free = FairLogisticRegression(constraint=None, tol=1e-12).fit(X, y, sensitive_features=z)
    expected = free.covariance_.to_numpy()
    np.testing.assert_allclose(fair.unconstrained_covariance_.to_numpy(), expected, rtol=1e-5)
    assert fair.certificate_.gap <= 1e-9
    assert fair.diagnostics_.decisions_changed == pytest.approx(
        np.mean(fair.predict(X) != free.predict(X)), abs=2.0 / len(X)
    )


@pytest.mark.parametrize(
    ("estimator", "most"), [(FairLogisticRegression(), 1.0), (FairMarginClassifier("squared_hinge"), 3.0)]
)
def test_a_frontier_started_near_each_point_needs_few_steps(estimator, most):
    X, y, z = people(20_000, 10, seed=1)
    frontier = FairnessFrontier(estimator, n_points=51).fit(X, y, sensitive_features=z)
    steps = [model.n_iter_ for model in frontier.estimators_]
    assert np.mean(steps[6:]) <= most
    assert max(model.certificate_.gap for model in frontier.estimators_) <= 1e-9


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "smoothed_hinge"])
@pytest.mark.parametrize("C", [1e-3, 1.0])
def test_the_unconstrained_covariance_of_few_people_too(loss, C):
    X, y, z = people(1000, 5, seed=2)
    fair = FairMarginClassifier(loss, C=C).fit(X, y, sensitive_features=z)
    free = FairMarginClassifier(loss, C=C, constraint=None, tol=1e-13).fit(X, y, sensitive_features=z)
    np.testing.assert_allclose(fair.unconstrained_covariance_, free.covariance_, rtol=1e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "smoothed_hinge"])
@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_separable_people_are_no_excuse_for_a_broken_bound(loss, C, fit_intercept):
    """The unconstrained loss is zero there: the fair problem, which starts from it, must not end where it starts."""
    rng = np.random.default_rng(0)
    x = np.r_[np.linspace(-3, -1, 20), np.linspace(1, 3, 20)]
    X, z = np.c_[x, rng.normal(size=40)], (x + rng.normal(size=40) > 0).astype(int)
    model = FairMarginClassifier(loss, C=C, fit_intercept=fit_intercept)
    model.fit(X, (x > 0).astype(int), sensitive_features=z)
    assert model.certificate_.violation <= 1e-9 * (1.0 + np.abs(model.coef_).max())
    assert model.covariance_.abs().max() <= 1e-9 * (1.0 + np.abs(model.coef_).max())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("estimator", [FairLogisticRegression(), FairLinearSVC()])
def test_certificates_on_frontiers_are_about_the_scores_that_predict(estimator, order):
    """The solver's scores are not computed again, of a matrix in either memory order and with a shifted column."""
    X, y, z = people(500, 4)
    X = np.asarray(X + 1e4 * np.eye(4)[2], order=order)
    frontier = FairnessFrontier(estimator, n_points=5).fit(X, y, sensitive_features=z)
    for point in frontier.estimators_:
        margins = (2 * y - 1) * point.decision_function(X)
        loss = np.logaddexp(0, -margins) if "Logistic" in str(estimator) else np.maximum(1 - margins, 0)
        value = loss.sum() + 0.5 * np.sum(point.coef_**2)
        assert point.certificate_.objective == pytest.approx(value, rel=1e-13)
        accepted = point.decision_function(X) >= 0
        assert point.training_rates_.tolist() == [accepted[z == g].mean() for g in (0, 1)]
