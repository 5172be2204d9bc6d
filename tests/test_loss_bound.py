"""Business necessity: the least covariance within a bound on the loss, against an independent solver."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cvxpy_reference import solve_reference
from fairmargin import CovarianceBound, FairLinearSVC, FairLogisticRegression, FairMarginClassifier, LossBound
from fairmargin.datasets import make_linear_synthetic

# Clarabel says so when it stops a little short of the tolerances asked for here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning"),
    pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning"),
    pytest.mark.filterwarnings("ignore:Solution may be inaccurate"),
]

LOSSES = {
    "logistic": lambda m: cp.logistic(-m),
    "hinge": lambda m: cp.pos(1 - m),
    "squared_hinge": lambda m: cp.square(cp.pos(1 - m)),
}
TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def make_problem(seed, n_columns=1):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(60, 160)), int(rng.integers(2, 7))
    X = rng.normal(size=(n, d))
    Z = (0.7 * X[:, :1] + rng.normal(size=(n, n_columns)) > 0).astype(float)
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, Z


def reference(X, y, Z, C, gamma, loss, norm):
    """Solve the same two problems with cvxpy and Clarabel; return the least norm and the references."""
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    objective = C * cp.sum(LOSSES[loss](cp.multiply(y, X @ w + b))) + 0.5 * cp.sum_squares(w)
    free = cp.Problem(cp.Minimize(objective))
    solve_reference(free, **TIGHT)
    A = (Z - Z.mean(axis=0)).T @ X / len(y)
    reach = np.abs(A @ w.value)
    relative = cp.multiply(1 / reach, cp.abs(A @ w))
    size = cp.max(relative) if norm == "max" else cp.sum(relative)
    bound = cp.Problem(cp.Minimize(size), [objective <= (1 + gamma) * free.value])
    solve_reference(bound, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return bound.value, reach


@pytest.mark.slow
@settings(max_examples=25, phases=[Phase.generate])
@given(
    seed=st.integers(0, 10**6),
    n_columns=st.integers(1, 3),
    log_gamma=st.floats(-3.0, -0.3),
    C=st.sampled_from([0.1, 1.0, 10.0]),
    loss=st.sampled_from(sorted(LOSSES)),
    norm=st.sampled_from(["max", "sum"]),
)
def test_agrees_with_an_independent_solver(seed, n_columns, log_gamma, C, loss, norm):
    X, y, Z = make_problem(seed, n_columns)
    gamma = 10.0**log_gamma
    value, reach = reference(X, y, Z, C, gamma, loss, norm)
    clf = FairMarginClassifier(loss, C=C, constraint=LossBound(gamma, norm=norm)).fit(X, y, sensitive_features=Z)
    relative = np.abs(clf.covariance_.to_numpy()) / reach
    mine = relative.max() if norm == "max" else relative.sum()
    assert mine == pytest.approx(value, abs=2e-6)
    assert clf.loss_increase_ <= gamma + 1e-9


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult", "bank"])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_agrees_on_samples_of_real_data(name, loss):
    X, y, z = real_sample(name, 1500)
    value, reach = reference(X, y, z[:, None], 1.0, 0.03, loss, "max")
    clf = FairMarginClassifier(loss, constraint=LossBound(0.03)).fit(X, y, sensitive_features=z)
    assert np.abs(clf.covariance_.iloc[0]) / reach[0] == pytest.approx(value, abs=1e-6)
    assert clf.loss_increase_ <= 0.03 + 1e-9


def real_sample(name, n):
    from fairmargin import datasets

    data = {"adult": datasets.load_adult, "bank": datasets.load_bank}[name](encoded=True)
    column = {"adult": "sex", "bank": "age_group"}[name]
    rows = np.random.default_rng(0).permutation(len(data.target))[:n]
    X = np.asarray(data.data, dtype=float)[rows]
    y = np.where(np.asarray(data.target)[rows] == 1, 1.0, -1.0)
    z = data.sensitive_features[column].to_numpy()[rows]
    return X[:, X.std(axis=0) > 0], y, (z == z[0]).astype(float)


@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
def test_gamma_zero_is_the_unconstrained_classifier(estimator):
    X, y, Z = make_problem(0)
    free = estimator(constraint=None).fit(X, y)
    bound = estimator(constraint=LossBound(0.0)).fit(X, y, sensitive_features=Z)
    np.testing.assert_allclose(bound.coef_, free.coef_, rtol=1e-6)


@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
def test_an_affordable_zero_is_attained_at_least_loss(estimator):
    X, y, Z = make_problem(1)
    rich = estimator(constraint=LossBound(10.0)).fit(X, y, sensitive_features=Z)
    zero = estimator(constraint=CovarianceBound(0.0)).fit(X, y, sensitive_features=Z)
    assert rich.factor_ == 0.0
    assert rich.certificate_.objective == pytest.approx(zero.certificate_.objective, rel=1e-8)


def test_more_budget_never_buys_less_fairness():
    X, y, Z = make_problem(2, 2)
    gammas = [0.0, 0.001, 0.01, 0.03, 0.1, 1.0]
    factors = [
        FairLogisticRegression(constraint=LossBound(g)).fit(X, y, sensitive_features=Z).factor_ for g in gammas
    ]
    assert all(a >= b - 1e-9 for a, b in itertools.pairwise(factors))


def test_weights_choose_among_attributes():
    X, y, Z = make_problem(3, 2)
    people = {"a": Z[:, 0], "b": Z[:, 1]}
    only_a = FairLogisticRegression(constraint=LossBound(0.02, weights={"b": 0.0})).fit(
        X, y, sensitive_features=people
    )
    alone = FairLogisticRegression(constraint=LossBound(0.02)).fit(X, y, sensitive_features={"a": Z[:, 0]})
    assert only_a.covariance_["a"].iloc[0] == pytest.approx(alone.covariance_["a"].iloc[0], abs=1e-7)


def test_multipliers_are_the_prices_of_the_regularised_form():
    """min L + sum_k nu_k cov_k, without any constraint, has the same solution: the paper's remark."""
    X, y, Z = make_problem(4, 3)
    clf = FairLogisticRegression(constraint=CovarianceBound(0.3, relative=True)).fit(X, y, sensitive_features=Z)
    A = (Z - Z.mean(axis=0)).T @ X / len(y)
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    priced = cp.sum(cp.logistic(-cp.multiply(y, X @ w + b))) + 0.5 * cp.sum_squares(w)
    solve_reference(cp.Problem(cp.Minimize(priced + clf.multipliers_.to_numpy() @ (A @ w))), **TIGHT)
    np.testing.assert_allclose(clf.coef_[0], w.value, atol=1e-5)


def test_multipliers_are_shadow_prices():
    X, y, Z = make_problem(5)
    c, step = 0.1, 1e-4
    at = [
        FairLogisticRegression(constraint=CovarianceBound(t)).fit(X, y, sensitive_features=Z)
        for t in (c - step, c, c + step)
    ]
    slope = (at[0].certificate_.objective - at[2].certificate_.objective) / (2 * step)
    assert abs(at[1].multipliers_.iloc[0]) == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("gamma", [-0.1, float("nan"), float("inf"), "much", True, None])
def test_bad_gamma_is_refused(gamma):
    with pytest.raises(ValueError, match="gamma must be"):
        LossBound(gamma)


def test_bad_norms_and_weights_are_refused():
    with pytest.raises(ValueError, match="norm must be 'max' or 'sum'"):
        LossBound(0.1, norm="l2")
    with pytest.raises(ValueError, match="weight of 'sex' must be"):
        LossBound(0.1, weights={"sex": -1})
    X, y, Z = make_problem(0)
    with pytest.raises(ValueError, match="'age', which is not among"):
        FairLogisticRegression(constraint=LossBound(0.1, weights={"age": 1})).fit(X, y, sensitive_features=Z)
    with pytest.raises(ValueError, match="Every attribute has weight 0"):
        FairLogisticRegression(constraint=LossBound(0.1, weights={"sensitive": 0})).fit(X, y, sensitive_features=Z)


@pytest.mark.parametrize("C", [1e-15, 1e-9])
def test_a_tiny_loss_is_not_a_loss_of_zero(C):
    X, y, z = make_linear_synthetic(200, random_state=0)
    model = FairLogisticRegression(C=C, constraint=LossBound(0.05)).fit(X, y, sensitive_features=z)
    assert model.loss_increase_ <= 0.05 + 1e-8


@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
def test_what_a_bound_on_the_loss_makes_necessary(estimator):
    """The proved covariance is that of the classifier returned, and aiming lower costs more than the bound allows."""
    X, y, z = make_linear_synthetic(600, random_state=0)
    clf = estimator(constraint=LossBound(0.05)).fit(X, y, sensitive_features=z)
    proved = clf.necessity_
    (_, _, unit), *others = proved.columns
    assert not others
    assert unit == pytest.approx(abs(clf.unconstrained_covariance_.iloc[0]))
    least = proved.least * unit
    assert abs(clf.covariance_.iloc[0]) * (1 - 1e-4) <= least <= abs(clf.covariance_.iloc[0]) * (1 + 1e-9)
    assert "Proved: no classifier of this kind within 5% of the best training loss has a covariance below" in (
        proved.statement
    )
    # Fits that aim below it cost more than 5%: the statement could not be stronger.
    free = estimator(constraint=None).fit(X, y)
    for share in (0.99, 0.9, 0.5):
        below = estimator(constraint=CovarianceBound(share * least)).fit(X, y, sensitive_features=z)
        assert below.certificate_.dual_bound > 1.05 * free.certificate_.objective


@pytest.mark.parametrize("norm", ["max", "sum"])
def test_necessity_of_several_columns(norm):
    X, y, z = make_linear_synthetic(600, random_state=0)
    other = (X[:, 1] + np.random.default_rng(0).normal(size=len(y)) > 0).astype(int)
    both = {"first": z, "second": other}
    clf = FairLogisticRegression(constraint=LossBound(0.03, norm)).fit(X, y, sensitive_features=both)
    proved = clf.necessity_
    assert len(proved.columns) == 2
    assert 0.9 * proved.attained <= proved.least <= proved.attained
    free = FairLogisticRegression(constraint=None).fit(X, y)
    rng = np.random.default_rng(1)
    signed = 2 * y - 1
    best = 1.03 * free.certificate_.objective
    for _ in range(300):  # random classifiers near both, many of them within the bound
        share, noise = rng.random(), 0.05 * rng.normal(size=2)
        w = share * clf.coef_[0] + (1 - share) * free.coef_[0] + noise
        b = share * clf.intercept_[0] + (1 - share) * free.intercept_[0]
        f = X @ w + b
        if np.logaddexp(0, -signed * f).sum() + 0.5 * w @ w <= best:
            cov = [
                abs(np.mean((c - np.mean(c)) * f)) / u
                for c, (_, _, u) in zip((z, other), proved.columns, strict=True)
            ]
            assert (sum(cov) if norm == "sum" else max(cov)) >= proved.least * (1 - 1e-9)


def test_what_is_affordable_is_not_refuted():
    X, y, z = make_linear_synthetic(600, random_state=0)
    clf = FairLogisticRegression(constraint=LossBound(5.0)).fit(X, y, sensitive_features=z)
    assert clf.necessity_.least == 0.0
    assert clf.necessity_.statement.startswith("Not refuted")


@pytest.mark.numerical
def test_a_sum_spends_its_budget_where_weights_differ_by_sixteen_orders():
    """The search took a price at which the solver had failed for one beyond the budget, and stopped at half of it."""
    rng = np.random.default_rng(1084)
    X = np.hstack([np.eye(3)[rng.integers(0, 3, 120)] for _ in range(3)])
    people = {
        "a": (X[:, 0] + rng.normal(size=120) > 0.5).astype(int),
        "b": (X[:, 4] + 0.5 * rng.normal(size=120) > 0.5).astype(int),
        "c": X[:, 7] + rng.normal(size=120),
    }
    y = (X @ rng.normal(size=9) + rng.logistic(size=120) > 0).astype(int)
    bound = LossBound(0.02, "sum", weights={"a": 7.0, "b": 650.0, "c": 34.0})
    model = FairLogisticRegression(C=10.0, class_weight="balanced", constraint=bound)
    model.fit(X, y, sample_weight=10.0 ** rng.uniform(-8, 8, 120), sensitive_features=people)
    assert model.certificate_.status == "solved"
    assert np.abs(model.covariance_).max() > 1e-6
    assert model.loss_increase_ == pytest.approx(0.02, abs=1e-6)
