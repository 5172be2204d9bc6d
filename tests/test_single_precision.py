"""First steps in single precision make a fit faster and never change what it returns."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fairmargin import CovarianceBound, FairLogisticRegression, FairMarginClassifier
from fairmargin.design import make_design
from fairmargin.losses import LOSSES, get_loss
from fairmargin.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning")

N = 20_000  # enough for a start on a sample


def people(seed=0, d=6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d))
    X[:, 0] = X[:, 0] > 0.5
    z = X @ rng.standard_normal(d) + rng.standard_normal(N) > 0
    y = X @ rng.standard_normal(d) + z + rng.logistic(size=N) > 0
    return X, y.astype(int), np.where(z, "b", "a")


def years(X):
    return np.column_stack([X, 2000.0 + np.rint(5.0 * X[:, 1]), 1e5 + X[:, 2]])


def badly_scaled(X):
    return X * np.array([1.0, 1e-5, 1e4, 1e-3, 1e3, 1.0])


def dependent(X):
    return np.column_stack([X, X[:, 0], 1.0 - X[:, 0], X[:, 1] + X[:, 2]])


def nearly_dependent(X):
    return np.column_stack([X, X[:, 1] + 1e-6 * X[:, 2] * X[:, 3]])


@pytest.mark.parametrize("C", [1e-4, 1.0, 1e5])
@pytest.mark.parametrize("change", [np.asarray, years, badly_scaled, dependent, nearly_dependent])
@pytest.mark.parametrize("constraint", [None, CovarianceBound(0.0), CovarianceBound(0.5, relative=True)])
def test_the_optimum_is_that_of_double_precision(C, change, constraint, monkeypatch):
    X, y, z = people()
    X = change(X)
    model = FairLogisticRegression(C=C, constraint=constraint)
    proof = model.fit(X, y, sensitive_features=z).certificate_
    assert proof.status == "solved"
    assert proof.gap <= 1e-9
    assert proof.violation <= 1e-8
    assert model.coef_.dtype == np.float64
    monkeypatch.setattr(Problem, "single", lambda self: None)
    exact = model.fit(X, y, sensitive_features=z).certificate_
    # A relative bound is as exact as the covariance of the unconstrained classifier.
    assert proof.objective == pytest.approx(exact.objective, rel=1e-6 if constraint and constraint.relative else 2e-9)


def test_columns_beyond_float32_are_left_to_double_precision():
    X, y, _ = people()
    X = X * np.array([1.0, 1e-60, 1e60, 1.0, 1.0, 1.0])
    assert make_design(X).single() is None
    with pytest.warns(ConvergenceWarning, match="scale the features"):
        FairLogisticRegression(constraint=None).fit(X, y)


def test_a_lone_entry_beyond_float32_too():
    X, *_ = people()
    X[5, 2] = 1e60
    assert make_design(X).single() is None


@pytest.mark.parametrize("loss", [name for name in LOSSES.names if get_loss(name).single])
def test_every_loss_that_says_so_is_right_in_single_precision(loss, monkeypatch):
    X, y, z = people()
    model = FairMarginClassifier(loss=loss)
    proof = model.fit(X, y, sensitive_features=z).certificate_
    assert proof.gap <= 1e-9
    monkeypatch.setattr(Problem, "single", lambda self: None)
    assert proof.objective == pytest.approx(model.fit(X, y, sensitive_features=z).certificate_.objective, rel=2e-9)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("change", [np.asarray, years])
def test_products_in_single_precision_are_those_of_double_but_for_its_rounding(change, order):
    X, *_ = people()
    design = make_design(np.asarray(change(X), order=order))
    twin = design.single()
    theta = np.linspace(-1.0, 1.0, design.shape[1])
    weights = np.abs(np.sin(np.arange(N)))
    assert twin.matvec(theta).dtype == np.float32
    np.testing.assert_allclose(twin.matvec(theta), design.matvec(theta), atol=1e-4)
    np.testing.assert_allclose(twin.rmatvec(weights.astype(np.float32)), design.rmatvec(weights), atol=0.5, rtol=1e-5)
    gram = design.sandwich(weights)
    size = np.sqrt(np.outer(gram.diagonal(), gram.diagonal()))
    for rough in (design.sandwich(weights, single=True), twin.sandwich(weights.astype(np.float32), single=True)):
        assert np.abs((rough - gram) / size).max() < 1e-5


def test_a_fit_leaves_the_data_as_they_were():
    X, y, z = people()
    before = X.copy()
    FairLogisticRegression().fit(X, y, sensitive_features=z)
    np.testing.assert_array_equal(X, before)


def far_out(value, count, n=30_000, seed=1):
    """People of whom a few have one entry that is out of all proportion."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 7))
    z = (X[:, 0] + rng.standard_normal(n) > 0).astype(int)
    y = (X.sum(axis=1) + 0.7 * z + rng.logistic(size=n) > 0).astype(int)
    for _ in range(count):
        X[rng.integers(n), rng.integers(7)] = value
    return X, y, z


@pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning")
@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge"])
@pytest.mark.parametrize("value", [1e6, 1e8, 1e9])
def test_a_few_people_far_out_whom_a_sample_misses_do_not_lead_astray(value, loss):
    X, y, z = far_out(value, 3)
    model = FairMarginClassifier(loss).fit(X, y, sensitive_features=z)
    assert model.certificate_.status == "solved"
    assert model.certificate_.objective < np.log(2.0) * len(y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("loss", "value"), [("hinge", 1e37), ("hinge", 1e39), ("squared_hinge", 1e45)])
def test_what_is_beyond_numbers_is_not_called_solved(loss, value):
    X, y, _ = far_out(value, 1, n=20_000)
    proof = FairMarginClassifier(loss, constraint=None).fit(X, y).certificate_
    assert proof.status != "solved" or (np.isfinite(proof.objective) and proof.gap <= 1e-9)


def test_a_certificate_of_nothing_has_an_infinite_gap():
    X, y, z = people()
    problem = FairLogisticRegression()._prepare(X, y, None, z).problem.with_bounds(np.zeros(1), np.zeros(1))
    assert problem.relative_gap(np.nan, 0.0) == np.inf
    assert problem.relative_gap(np.inf, np.inf) == np.inf
    assert problem.violation(np.full(problem.design.shape[1], np.nan)) == np.inf
