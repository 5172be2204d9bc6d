"""Several classes: the multinomial problem, one-vs-rest, rules per class and their metrics."""

import warnings

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from cvxpy_reference import solve_reference
from fairmargin import (
    CategoryEncoder,
    CovarianceBound,
    CovarianceWarning,
    FairLinearSVC,
    FairLogisticRegression,
    FairMultinomialLogisticRegression,
    FairOneVsRestClassifier,
    FairSVC,
    GroupMeansBound,
    InfeasibleError,
    LossBound,
    PRuleBound,
    TrivialClassifierWarning,
    class_p_rules,
    class_rates,
    p_rule,
)
from fairmargin.audit import audit
from fairmargin.datasets import load_adult
from fairmargin.design import make_design
from fairmargin.exceptions import DisparateTreatmentError
from fairmargin.multiclass import audit_classes
from fairmargin.multiclass.objective import MultinomialObjective, class_basis
from fairmargin.multiclass.problem import MultinomialProblem, class_rows

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore::fairmargin.exceptions.CovarianceWarning"),  # decisions compare scores
]

JOBS = {  # Adult's occupations in five groups
    "Exec-managerial": "manager",
    "Prof-specialty": "professional",
    "Tech-support": "professional",
    "Adm-clerical": "clerical",
    "Sales": "clerical",
    "Craft-repair": "manual",
    "Machine-op-inspct": "manual",
    "Transport-moving": "manual",
    "Handlers-cleaners": "manual",
    "Farming-fishing": "manual",
    "Armed-Forces": "service",
    "Protective-serv": "service",
    "Other-service": "service",
    "Priv-house-serv": "service",
}


def make_people(n=300, d=4, Q=3, seed=0, groups=2):
    """Return features, labels and groups; the groups differ in features, so that the classes' rates differ."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, groups, n)
    X = rng.normal(size=(n, d)) + 0.7 * z[:, None] * rng.normal(size=d)
    scores = X @ rng.normal(size=(d, Q)) + rng.gumbel(size=(n, Q))
    y = scores.argmax(axis=1)
    y[:Q] = np.arange(Q)  # every class occurs
    return X, y, np.array(list("abcdefgh"))[z]


def occupations(rows=slice(None)):
    raw, adult = load_adult(), load_adult(encoded=True)
    columns = [c for c in adult.data.columns if not c.startswith(("occupation", "relationship"))]
    X = adult.data[columns].to_numpy()
    y = raw.data["occupation"].astype(str).map(JOBS).to_numpy()
    return X[rows], y[rows], raw.sensitive_features["sex"].to_numpy()[rows]


def reference(X, y, Z, c, C=1.0, weight=None, fit_intercept=True):
    """Return the optimum of cvxpy for bounds ``c`` (Q, K) on the covariances of all classes."""
    n, d = X.shape
    Q = len(np.unique(y))
    weight = np.ones(n) if weight is None else weight
    W, b = cp.Variable((d, Q)), cp.Variable((1, Q))
    F = X @ W + (np.ones((n, 1)) @ b if fit_intercept else 0)
    Y = np.eye(Q)[y]
    loss = C * cp.sum(cp.multiply(weight, cp.log_sum_exp(F, axis=1) - cp.sum(cp.multiply(F, Y), axis=1)))
    share = weight / weight.sum()
    A = ((Z - share @ Z) * share[:, None]).T @ X
    others = (np.eye(Q) * Q - 1) / (Q - 1)
    covariance = (A @ W @ others).T
    finite = np.isfinite(c)
    kept = [cp.abs(covariance[q, k]) <= c[q, k] for q, k in zip(*np.nonzero(finite), strict=True)]
    problem = cp.Problem(cp.Minimize(loss + cp.sum_squares(W) / (1 if Q == 2 else 2)), kept)
    solve_reference(problem, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value


def indicator(z):
    groups = np.unique(z)
    return (z[:, None] == (groups[1:] if len(groups) == 2 else groups)).astype(float)


# The problem


def test_basis_and_rows():
    U = class_basis(5)
    np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-15)
    np.testing.assert_allclose(U.sum(axis=0), 0, atol=1e-15)
    rng = np.random.default_rng(0)
    A, phi = rng.normal(size=(2, 3)), rng.normal(size=(4, 3))
    Theta = U @ phi
    expected = [A @ (Theta[q] - np.delete(Theta, q, axis=0).mean(axis=0)) for q in range(5)]
    np.testing.assert_allclose(class_rows([A] * 5) @ phi.ravel(), np.concatenate(expected), atol=1e-14)


@pytest.mark.parametrize("soft", [False, True])
def test_derivatives_match_finite_differences(soft):
    X, y, _ = make_people(60, 3, 4)
    masses = np.zeros((4, 60))
    masses[y, np.arange(60)] = np.random.default_rng(1).uniform(0.5, 2, 60)
    if soft:
        masses = masses + np.random.default_rng(2).uniform(0, 1, masses.shape)
    empty = np.empty(0)
    objective = MultinomialObjective(make_design(X), masses, np.array([1.0, 1, 1, 0]))
    problem = MultinomialProblem(objective, np.empty((0, 12)), empty, empty)
    phi = np.random.default_rng(3).normal(size=12)

    def at(phi):
        return objective.add_gradient(objective.evaluate(phi, objective.class_scores(phi)))

    h = 1e-6
    steps = np.eye(12) * h
    slopes = [(at(phi + s).value - at(phi - s).value) / (2 * h) for s in steps]
    np.testing.assert_allclose(at(phi).gradient, slopes, rtol=1e-6, atol=1e-6)
    curves = [(at(phi + s).gradient - at(phi - s).gradient) / (2 * h) for s in steps]
    np.testing.assert_allclose(objective.hessian(at(phi)), curves, rtol=1e-6, atol=1e-6)
    # The dual bound is a bound at any point and for any multipliers.
    assert at(phi).value > problem.dual_bound(at(phi), empty)
    best = problem.dual_bound(at(np.zeros(12)), empty)
    assert at(np.random.default_rng(4).normal(size=12)).value > best


def test_unconstrained_is_scikit_learns():
    X, y, _ = make_people(400, 5, 4)
    weight = np.random.default_rng(0).uniform(0.1, 2, 400)
    for options in ({}, {"class_weight": "balanced"}, {"fit_intercept": False}, {"C": 0.01}, {"C": np.inf}):
        ours = FairMultinomialLogisticRegression(constraint=None, **options).fit(X, y, weight)
        if options.get("class_weight") == "balanced":  # theirs counts people, ours their weight
            factors = weight.sum() / (4 * np.bincount(y, weights=weight))
            options = {"class_weight": dict(enumerate(factors))}
        theirs = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=200, **options).fit(X, y, weight)
        np.testing.assert_allclose(ours.coef_, theirs.coef_ - theirs.coef_.mean(axis=0), atol=1e-8)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
        np.testing.assert_allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), atol=1e-7)
        assert np.array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("c", [0.0, 0.1])
def test_two_classes_are_binary_logistic_regression(c):
    X, y, z = make_people(300, 4, 2)
    several = FairMultinomialLogisticRegression(constraint=CovarianceBound(c)).fit(X, y, sensitive_features=z)
    binary = FairLogisticRegression(constraint=CovarianceBound(c)).fit(X, y, sensitive_features=z)
    np.testing.assert_allclose(several.coef_, binary.coef_, atol=1e-7)
    np.testing.assert_allclose(several.intercept_, binary.intercept_, atol=1e-7)
    np.testing.assert_allclose(several.certificate_.objective, binary.certificate_.objective, rtol=1e-9)
    np.testing.assert_allclose(several.covariance_[1], binary.covariance_, atol=1e-9)
    assert several.decision_function(X).shape == (300,)


def random_case(seed):
    rng = np.random.default_rng(seed)
    Q, d, groups = int(rng.integers(2, 5)), int(rng.integers(1, 5)), int(rng.integers(2, 4))
    X, y, z = make_people(int(rng.integers(25, 60)), d, Q, seed, groups)
    weight = rng.uniform(0.2, 3.0, len(y)) if rng.random() < 0.5 else None
    C = float(10 ** rng.uniform(-2, 1))
    intercept = bool(rng.random() < 0.8)
    bounds = {}
    for q in range(Q):
        if rng.random() < 0.8:
            bounds[q] = CovarianceBound(float(rng.choice([0.0, 0.01, 0.05, 0.2])))
    bounds = bounds or {0: CovarianceBound(0.0)}
    return X, y, z, weight, C, intercept, bounds


def check_case(seed):
    X, y, z, weight, C, intercept, bounds = random_case(seed)
    Z, Q = indicator(z), len(np.unique(y))
    c = np.full((Q, Z.shape[1]), np.inf)
    for q, bound in bounds.items():
        c[q] = bound.c
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small samples: bought covariances, constant decisions
        model = FairMultinomialLogisticRegression(C, constraint=bounds, fit_intercept=intercept)
        model.fit(X, y, weight, sensitive_features=z)
    proof = model.certificate_
    assert proof.status == "solved"
    assert proof.violation <= 1e-8
    best = reference(X, y, Z, c, C, weight, intercept)
    assert abs(proof.objective - best) <= 1e-7 * max(1.0, abs(best))
    assert proof.dual_bound <= best + 1e-7 * max(1.0, abs(best))


@pytest.mark.parametrize("seed", range(25))
def test_random_problems_against_cvxpy(seed):
    check_case(seed)


@pytest.mark.heavy
@pytest.mark.parametrize("chunk", range(8))
def test_many_random_problems_against_cvxpy(chunk):
    for seed in range(1000 + 50 * chunk, 1050 + 50 * chunk):
        check_case(seed)


def test_bounds_by_attribute_and_relative_bounds():
    X, y, z = make_people(400, 5, 3, groups=3)
    people = pd.DataFrame({"group": z, "age": np.random.default_rng(0).normal(40, 10, 400) + 5 * X[:, 0]})
    model = FairMultinomialLogisticRegression(constraint=CovarianceBound({"age": 0.5}))
    model.fit(X, y, sensitive_features=people)
    age = ("age", "(numeric)")
    assert abs(model.covariance_.loc[age]).max() <= 0.5 + 1e-9
    assert abs(model.unconstrained_covariance_.loc[age]).max() > 0.6
    half = FairMultinomialLogisticRegression(constraint=CovarianceBound(0.5, relative=True))
    half.fit(X, y, sensitive_features=people)
    assert (abs(half.covariance_) <= 0.5 * abs(half.unconstrained_covariance_) + 1e-9).all(axis=None)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_that_leave_intercepts_alone(seed):
    """More constraints than coefficients: what is left of these is rounding, and no violation."""
    rng = np.random.default_rng(seed)
    groups = {"a": rng.choice(list("pqr"), 60), "b": rng.choice(list("uv"), 60)}
    X, y = rng.exponential(size=(60, 2)) * [5.0, 0.5], rng.integers(0, 4, 60)
    clf = FairMultinomialLogisticRegression(constraint=CovarianceBound(0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrivialClassifierWarning)
        clf.fit(X, y, sensitive_features=groups)
    assert clf.certificate_.status == "solved"
    np.testing.assert_allclose(clf.coef_, 0.0, atol=1e-12)
    np.testing.assert_allclose(clf.predict_proba(X[:1])[0], np.bincount(y) / 60)


def test_multipliers_are_shadow_prices():
    X, y, z = make_people(400, 5, 3)

    def objective(c):
        bound = {0: CovarianceBound(c)}
        return FairMultinomialLogisticRegression(constraint=bound, tol=1e-12).fit(X, y, sensitive_features=z)

    here, h = objective(0.05), 1e-4
    slope = (objective(0.05 - h).certificate_.objective - objective(0.05 + h).certificate_.objective) / (2 * h)
    price = here.multipliers_[0].abs().sum()
    assert price > 0
    np.testing.assert_allclose(price, slope, rtol=1e-4)


def test_loose_bound_is_unconstrained_and_tighter_costs_more():
    X, y, z = make_people(500, 4, 4)
    free = FairMultinomialLogisticRegression(constraint=None).fit(X, y)
    objectives = []
    for c in (10.0, 0.2, 0.1, 0.05, 0.0):
        model = FairMultinomialLogisticRegression(constraint=CovarianceBound(c)).fit(X, y, sensitive_features=z)
        objectives.append(model.certificate_.objective)
        if c == 10.0:
            np.testing.assert_allclose(model.coef_, free.coef_, atol=1e-8)
            assert not model.multipliers_.to_numpy().any()
    assert np.all(np.diff(objectives) > -1e-8 * objectives[0])
    assert objectives[-1] > objectives[0]


def test_duplicated_rows_are_weights():
    X, y, z = make_people(150, 3, 3)
    count = np.random.default_rng(0).integers(0, 4, 150)
    count[:3] = 1
    twice = np.repeat(np.arange(150), count)
    a = FairMultinomialLogisticRegression().fit(X[twice], y[twice], sensitive_features=z[twice])
    b = FairMultinomialLogisticRegression().fit(X, y, count.astype(float), sensitive_features=z)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-8)
    np.testing.assert_allclose(a.covariance_, b.covariance_, atol=1e-10)


def test_equal_opportunity_by_class():
    X, y, z = make_people(500, 4, 3)
    model = FairMultinomialLogisticRegression(constraint=CovarianceBound(0.0, notion="true_positive_rate"))
    model.fit(X, y, sensitive_features=z)
    scores = model.decision_function(X)
    for q in range(3):
        boundary = scores[:, q] - np.delete(scores, q, axis=1).mean(axis=1)
        among = y == q
        value = np.cov((z[among] == "b").astype(float), boundary[among], bias=True)[0, 1]
        assert abs(value) < 1e-9


@pytest.mark.parametrize("kind", ["sparse", "codes", "wide", "single", "few rows of many"])
def test_other_matrices(kind):
    X, y, z = make_people(300, 6, 3)
    if kind == "sparse":
        X = np.where(np.abs(X) > 0.8, X, 0)
        other, dense = sp.csr_matrix(X), X
    elif kind == "codes":
        frame = pd.DataFrame(X[:, :2], columns=["u", "v"])
        frame["w"] = pd.Categorical(np.where(X[:, 2] > 0, "high", np.where(X[:, 2] < -0.5, "low", "mid")))
        other = CategoryEncoder().fit_transform(frame)
        dense = other.toarray()
    elif kind == "single":
        dense = X.astype(np.float32).astype(float)
        other = X.astype(np.float32)
    else:
        rng = np.random.default_rng(0)
        X = np.hstack([X, rng.normal(size=(300, 400))]) if kind == "wide" else np.hstack([X[:40]] * 10)
        y, z = (y, z) if kind == "wide" else (np.arange(40) % 3, z[:40])
        other, dense = X, sp.csr_matrix(X)
    a = FairMultinomialLogisticRegression().fit(other, y, sensitive_features=z)
    b = FairMultinomialLogisticRegression().fit(dense, y, sensitive_features=z)
    np.testing.assert_allclose(a.certificate_.objective, b.certificate_.objective, rtol=1e-9)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)


def test_many_rows_start_from_subsamples():
    X, y, z = make_people(30_000, 5, 3)
    model = FairMultinomialLogisticRegression().fit(X, y, sensitive_features=z)
    few = FairMultinomialLogisticRegression(C=0.1).fit(
        np.tile(X[:3000], (10, 1)), np.tile(y[:3000], 10), sensitive_features=np.tile(z[:3000], 10)
    )
    once = FairMultinomialLogisticRegression(C=1.0).fit(X[:3000], y[:3000], sensitive_features=z[:3000])
    assert model.certificate_.gap < 1e-9
    np.testing.assert_allclose(few.coef_, once.coef_, atol=1e-7)


def test_columns_of_very_different_sizes():
    X, y, z = make_people(300, 4, 3)
    scaled = X * [1e-4, 1.0, 1e4, 1.0] + [0, 0, 0, 1e5]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = FairMultinomialLogisticRegression(C=10.0).fit(scaled, y, sensitive_features=z)
    assert model.certificate_.status == "solved"


def test_separable_data_without_penalty():
    X = np.repeat(np.eye(3), 10, axis=0)
    y = np.repeat(np.arange(3), 10)
    with pytest.warns(ConvergenceWarning, match="separable"):
        model = FairMultinomialLogisticRegression(np.inf, constraint=None).fit(X, y)
    assert model.certificate_.status == "separable"


@pytest.mark.slow
@pytest.mark.data
def test_occupations_of_adult():
    X, y, sex = occupations(slice(0, None, 8))
    free = FairMultinomialLogisticRegression(constraint=None).fit(X, y)
    fair = FairMultinomialLogisticRegression().fit(X, y, sensitive_features=sex)
    assert fair.certificate_.gap < 1e-9
    assert abs(fair.covariance_).to_numpy().max() < 1e-10
    before = class_p_rules(y, free.predict(X), sensitive_features=sex)
    after = class_p_rules(y, fair.predict(X), sensitive_features=sex)
    assert after["manager"] > before["manager"] + 20
    assert fair.score(X, y) > free.score(X, y) - 0.03
    rule = FairMultinomialLogisticRegression(constraint=PRuleBound(80), favourable=["manager", "professional"])
    rule.fit(X, y, sensitive_features=sex)
    reached = class_p_rules(y, rule.predict(X), sensitive_features=sex, favourable=["manager", "professional"])
    np.testing.assert_allclose(reached, rule.p_rule_)
    assert reached.min() >= 80
    assert rule.score(X, y) > free.score(X, y) - 0.02


@pytest.mark.data
@pytest.mark.heavy
def test_occupations_of_adult_against_cvxpy():
    X, y, sex = occupations(slice(0, None, 60))
    codes = np.unique(y, return_inverse=True)[1]
    fair = FairMultinomialLogisticRegression(constraint=CovarianceBound(0.01)).fit(X, y, sensitive_features=sex)
    best = reference(X, codes, indicator(sex), np.full((5, 1), 0.01))
    np.testing.assert_allclose(fair.certificate_.objective, best, rtol=1e-7)


# Rules per class


@pytest.mark.parametrize("path", ["auto", "covariance", "decisions"])
def test_rule_for_every_class(path):
    X, y, z = make_people(600, 5, 3, seed=4)
    free = FairMultinomialLogisticRegression(constraint=None).fit(X, y)
    assert class_p_rules(y, free.predict(X), sensitive_features=z).min() < 70
    model = FairMultinomialLogisticRegression(constraint=PRuleBound(70, path=path)).fit(X, y, sensitive_features=z)
    reached = class_p_rules(y, model.predict(X), sensitive_features=z)
    np.testing.assert_allclose(reached, model.p_rule_)
    assert reached.min() >= 70
    assert model.path_ in ("covariance", "decisions")
    assert model.certificate_.gap < 1e-9
    assert model.score(X, y) > np.bincount(y).max() / len(y) + 0.05
    model.set_params(constraint=CovarianceBound(0.0)).fit(X, y, sensitive_features=z)
    assert not hasattr(model, "p_rule_")


def test_rule_that_holds_already_changes_nothing():
    X, y, z = make_people(300, 4, 3)
    z = np.array(["a", "b"])[np.arange(300) % 2]
    free = FairMultinomialLogisticRegression(constraint=None).fit(X, y)
    model = FairMultinomialLogisticRegression(constraint=PRuleBound(50)).fit(X, y, sensitive_features=z)
    assert model.path_ == "unconstrained"
    np.testing.assert_allclose(model.coef_, free.coef_, atol=1e-8)


def test_rule_out_of_reach():
    X, y, z = make_people(200, 1, 3, seed=2)
    X = (z == "b")[:, None] * 5.0 + 0.3 * X
    y = np.where(z == "b", 0, 1 + np.arange(200) % 2)
    with pytest.warns(TrivialClassifierWarning, match="for everybody"):
        FairMultinomialLogisticRegression(constraint=PRuleBound(100)).fit(X, y, sensitive_features=z)


def test_rule_out_of_reach_of_a_path():
    X, y, z = make_people(600, 5, 3, seed=4)
    model = FairMultinomialLogisticRegression(constraint=PRuleBound(99.9, path="covariance"))
    with pytest.raises(InfeasibleError, match=r"99.9%-rule for every favourable class.*lower p"):
        model.fit(X, y, sensitive_features=z)


# Metrics


def test_metrics_by_class_are_those_of_two():
    _, y, z = make_people(200, 3, 4)
    decided = np.array(list("pqrs"))[y]
    rules = class_p_rules(None, decided, sensitive_features=z)
    rates = class_rates(None, decided, sensitive_features=z)
    for label in "pqrs":
        two = p_rule(None, (decided == label).astype(int), sensitive_features=z)
        assert rules[label] == two
        for group in "ab":
            np.testing.assert_allclose(
                rates.loc[(label, "sensitive", group), "rate"], np.mean(decided[z == group] == label)
            )
    together = class_p_rules(None, decided, sensitive_features=z, favourable=["p", "q"], combined=True)
    assert together["p or q"] == p_rule(None, np.isin(decided, ["p", "q"]).astype(int), sensitive_features=z)
    assert list(class_p_rules(None, decided, sensitive_features=z, favourable="r").index) == ["r"]
    never = class_p_rules(["p", "q", "t"], ["p", "q", "p"], sensitive_features=[0, 0, 1])
    assert np.isnan(never["t"])


def test_audit_by_class_is_that_of_two():
    _, y, z = make_people(300, 3, 3)
    found = audit_classes(y, sensitive_features=z, favourable=[1, 2], min_people=10)
    assert list(found) == [1, 2]
    assert found[2].to_dict() == audit((y == 2).astype(int), sensitive_features=z, min_people=10).to_dict()
    together = audit_classes(y, sensitive_features=z, favourable=[1, 2], combined=True)["1 or 2"]
    assert together.positives == np.sum(y > 0)


def test_covariance_without_decisions_warns_once():
    X, y, z = make_people(200, 3, 3)
    keep = ~((y == 2) & (z == "a"))
    with pytest.warns(CovarianceWarning, match="PRuleBound") as heard:
        FairMultinomialLogisticRegression().fit(X[keep], y[keep], sensitive_features=z[keep])
    assert len(heard) == 1


# One against the rest


@pytest.mark.parametrize(
    "estimator", [FairLinearSVC(), FairLinearSVC(loss="squared_hinge"), FairSVC(), FairLogisticRegression()]
)
def test_one_vs_rest(estimator):
    X, y, z = make_people(150, 3, 3)
    labels = np.array(["low", "mid", "top"])[y]
    estimator.set_params(constraint=CovarianceBound(0.1))
    bounds = {"top": CovarianceBound(0.05), "low": None}
    model = FairOneVsRestClassifier(estimator, constraints=bounds).fit(X, labels, sensitive_features=z)
    assert list(model.certificates_) == ["low", "mid", "top"]
    assert abs(model.covariance_["mid"]).max() < 0.1 + 1e-8
    assert abs(model.covariance_["top"]).max() < 0.05 + 1e-8
    alone = clone(estimator).set_params(constraint=CovarianceBound(0.05))
    alone.fit(X, (labels == "top").astype(int), sensitive_features=z)
    np.testing.assert_allclose(model.decision_function(X)[:, 2], alone.decision_function(X), atol=1e-10)
    assert model.score(X, labels) > 0.5
    assert hasattr(model, "predict_proba") == hasattr(estimator, "predict_proba")
    if hasattr(estimator, "predict_proba"):
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_one_vs_rest_of_two_classes_is_the_classifier():
    X, y, z = make_people(100, 3, 2)
    model = FairOneVsRestClassifier(FairLinearSVC(constraint=CovarianceBound(0.1))).fit(X, y, sensitive_features=z)
    alone = FairLinearSVC(constraint=CovarianceBound(0.1)).fit(X, y, sensitive_features=z)
    np.testing.assert_array_equal(model.decision_function(X), alone.decision_function(X))
    assert np.array_equal(model.predict(X), alone.predict(X))


# Conventions and bad input


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        FairMultinomialLogisticRegression(constraint=None),
        FairOneVsRestClassifier(FairLinearSVC(constraint=None)),
    ],
    ids=lambda e: type(e).__name__,
)
def test_check_estimator(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(estimator)


X3, Y3, Z3 = make_people(60, 3, 3)
BAD = {
    "no sensitive features": ({}, {"sensitive_features": None}, "needs sensitive_features"),
    "loss bound": ({"constraint": LossBound(0.1)}, {}, "LossBound is only defined for two classes"),
    "odds": ({"constraint": {0: CovarianceBound(0.0, notion="equalized_odds")}}, {}, "same number of rates"),
    "rule within strata": ({"constraint": PRuleBound(80)}, {"strata": Z3}, "tell the sensitive attribute"),
    "a constraint for regressions": (
        {"constraint": GroupMeansBound(1.0)},
        {},
        "constraint must be None, CovarianceB",
    ),
    "errors": ({"constraint": {0: CovarianceBound(0.0, notion="error_rate")}}, {}, "only defined for two classes"),
    "confidence": ({"constraint": PRuleBound(80, confidence=0.9)}, {}, "only defined for two classes"),
    "no constraint at all": ({"constraint": 0.1}, {}, "constraint must be None, CovarianceBound"),
    "unknown class": ({"constraint": {"boss": CovarianceBound()}}, {}, "names the class 'boss'"),
    "a number for a class": ({"constraint": {0: 0.1}}, {}, "must be a CovarianceBound"),
    "empty mapping": ({"constraint": {}}, {}, "empty mapping"),
    "a class without defaults": ({"constraint": PRuleBound}, {}, "has no defaults"),
    "unknown favourable": ({"favourable": "boss"}, {}, "favourable names 'boss'"),
    "empty favourable": ({"favourable": []}, {}, "favourable is empty"),
    "negative C": ({"C": -1.0}, {}, "C must be positive"),
    "one class": ({}, {"y": np.zeros(60, int)}, "only one class"),
    "real targets": ({}, {"y": np.linspace(0, 1, 60)}, "Unknown label type"),
    "class weight": ({"class_weight": 3}, {}, "class_weight must be None"),
    "class weight of zero": ({"class_weight": {0: 0.0}}, {}, "positive for every class"),
    "nan": ({}, {"X": np.full((60, 3), np.nan)}, "NaN"),
    "a class without weight": ({}, {"sample_weight": (Y3 != 2) * 1.0}, "Nobody with a positive weight has class 2"),
    "one group": ({}, {"sensitive_features": ["a"] * 60}, "only one group"),
    "numeric groups and a rule": (
        {"constraint": PRuleBound(80)},
        {"sensitive_features": np.linspace(0, 1, 60)},
        "PRuleBound compares groups",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    parameters, arguments, message = BAD[case]
    given = {"X": X3, "y": Y3, "sensitive_features": Z3} | arguments
    model = FairMultinomialLogisticRegression(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(given.pop("X"), given.pop("y"), **given)
    assert not hasattr(model, "certificate_")


def test_sensitive_column_among_the_features():
    X = np.column_stack([X3, Z3 == "b"])
    with pytest.raises(DisparateTreatmentError):
        FairMultinomialLogisticRegression().fit(X, Y3, sensitive_features=Z3)


def test_class_absent_in_a_group():
    X, y, z = make_people(200, 3, 3)
    keep = ~((y == 2) & (z == "a"))
    model = FairMultinomialLogisticRegression().fit(X[keep], y[keep], sensitive_features=z[keep])
    assert model.certificate_.status == "solved"
    odds = FairMultinomialLogisticRegression(constraint=CovarianceBound(0.0, notion="true_positive_rate"))
    with pytest.raises(ValueError, match=r"Of the class 2, the positive label, .* nobody is in sensitive='a'"):
        odds.fit(X[keep], y[keep], sensitive_features=z[keep])


def test_binary_classifiers_name_the_others():
    with pytest.raises(ValueError, match="FairMultinomialLogisticRegression"):
        FairLogisticRegression().fit(X3, Y3, sensitive_features=Z3)


def test_one_vs_rest_bad_input():
    with pytest.raises(ValueError, match="fair classifier of this package"):
        FairOneVsRestClassifier(LogisticRegression()).fit(X3, Y3, sensitive_features=Z3)
    with pytest.raises(ValueError, match="names the class 7"):
        FairOneVsRestClassifier(constraints={7: None}).fit(X3, Y3, sensitive_features=Z3)
    with pytest.raises(ValueError, match="mapping from class"):
        FairOneVsRestClassifier(constraints=CovarianceBound()).fit(X3, Y3, sensitive_features=Z3)


def test_metrics_bad_input():
    with pytest.raises(ValueError, match="is empty"):
        class_p_rules(None, [], sensitive_features=[])
    with pytest.raises(ValueError, match="favourable names 'x'"):
        class_p_rules(None, ["a", "b"], sensitive_features=[0, 1], favourable="x")
    with pytest.raises(ValueError, match="one decision that everybody is given"):
        class_rates(None, ["a", "b"], sensitive_features=[0, 1], combined=True)


def test_parameters_of_the_constraint_can_be_set():
    bound = CovarianceBound(0.2)
    model = FairMultinomialLogisticRegression(constraint=bound).set_params(constraint__c=0.5, C=2.0)
    assert (model.constraint, model.C, bound) == (CovarianceBound(0.5), 2.0, CovarianceBound(0.2))
    with pytest.raises(ValueError, match="needs a constraint to change"):
        FairMultinomialLogisticRegression(constraint={"a": bound}).set_params(constraint__c=0.5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        FairMultinomialLogisticRegression(),
        FairMultinomialLogisticRegression(C=np.inf),
        FairOneVsRestClassifier(FairLogisticRegression()),
        FairOneVsRestClassifier(FairLinearSVC(C=1e-3)),
    ],
    ids=repr,
)
def test_classes_of_equal_scores_are_decided_by_their_order(model, n_classes):
    """Two features and five groups leave only constant classifiers, whose classes once were told apart by 1e-15."""
    for seed in range(4):
        r = np.random.default_rng(seed)
        X, y, z = r.normal(size=(60, 2)), np.arange(60) % n_classes, r.choice(list("abcde"), 60)
        decided = []
        for order in (np.arange(60), r.permutation(60), r.permutation(60)):
            decided.append(clone(model).fit(X[order], y[order], sensitive_features=z[order]).predict(X))
        for other in decided:  # the first of several, the second of two
            np.testing.assert_array_equal(other, int(n_classes == 2))
