"""A price on the covariance: against an independent solver, and as the other description of a bound."""

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cvxpy_reference import solve_reference
from fairmargin import (
    CovarianceBound,
    CovariancePenalty,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairMultinomialLogisticRegression,
    FairSVC,
    FairTreeClassifier,
    LossBound,
    Membership,
)
from fairmargin.formulations import run
from fairmargin.tables.plain_data import from_plain, to_plain
from fairmargin.tables.specifications import parse_constraint
from recompute import CONDITIONS
from test_solvers import check_optimal

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning"),
    pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning"),
]

LOSSES = {
    "logistic": lambda m: cp.logistic(-m),
    "hinge": lambda m: cp.pos(1 - m),
    "squared_hinge": lambda m: cp.square(cp.pos(1 - m)),
}
TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def make_people(seed, n=None, categories=None):
    """Return features, labels and a frame of sensitive attributes, one with several categories."""
    rng = np.random.default_rng(seed)
    n, d = n or int(rng.integers(80, 160)), int(rng.integers(3, 7))
    race = rng.integers(0, categories or rng.integers(2, 5), size=n)
    X = rng.normal(size=(n, d))
    X[:, 0] += 0.6 * race
    sex = (X[:, 1] + rng.normal(size=n) > 0).astype(int)
    y = np.where(X[:, 0] + X[:, 1] + 2 * rng.normal(size=n) > 0.5, 1.0, -1.0)
    return X, y, pd.DataFrame({"race": race.astype(str), "sex": np.array(["f", "m"])[sex]})


def covariance_rows(y, people, notion):
    """Return the rows ``A`` and intercept entries of every covariance, from the definition."""
    columns = []
    for name in people:
        values = sorted(people[name].unique())
        columns += [(people[name] == v).to_numpy(float) for v in (values if len(values) > 2 else values[1:])]
    Z = np.column_stack(columns)
    parts = []
    for _, who, sign in CONDITIONS[notion](y):
        counted = who > 0
        part = np.where(counted[:, None], Z - Z[counted].mean(axis=0), 0.0) * sign[:, None]
        parts.append(part / counted.sum())
    return np.hstack(parts)


@pytest.mark.slow
@settings(max_examples=40, phases=[Phase.generate])
@given(
    seed=st.integers(0, 10**6),
    log_price=st.floats(-2.5, 0.5),
    C=st.sampled_from([0.1, 1.0, 10.0]),
    loss=st.sampled_from(sorted(LOSSES)),
    notion=st.sampled_from(["selection_rate", "true_positive_rate", "equalized_odds", "error_rate"]),
)
@pytest.mark.filterwarnings("ignore:The solver stopped")  # a hinge loss at w = 0 has many multipliers
def test_agrees_with_an_independent_solver(seed, log_price, C, loss, notion):
    X, y, people = make_people(seed)
    price = len(y) * C * 10.0**log_price
    A = covariance_rows(y, people, notion)
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    scores = X @ w + b
    value = C * cp.sum(LOSSES[loss](cp.multiply(y, scores))) + 0.5 * cp.sum_squares(w)
    reference = cp.Problem(cp.Minimize(value + price * cp.sum(cp.abs(A.T @ X @ w + A.sum(axis=0) * b))))
    solve_reference(reference, **TIGHT)
    asked = CovariancePenalty(price, notion=notion)
    clf = FairMarginClassifier(loss, C=C, constraint=asked).fit(X, y, sensitive_features=people)
    mine = clf.certificate_.objective + price * clf.covariance_.abs().sum()
    assert mine == pytest.approx(reference.value, rel=1e-7)
    assert clf.certificate_.status == "solved" or loss == "hinge"


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("price", [1.0, 10.0, 1e3])
def test_the_conditions_of_optimality_hold_for_the_bound(loss, price):
    X, y, people = make_people(8, 200, categories=4)
    estimator = FairMarginClassifier(loss, constraint=CovariancePenalty(price))
    outcome = run(estimator._prepare(X, y, None, people), estimator.constraint)
    check_optimal(outcome.problem, outcome.solution)
    assert np.all(np.abs(outcome.solution.multipliers) <= price)


@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_the_multiplier_of_a_bound_is_its_price(estimator, share):
    X, y, people = make_people(0, 200)
    bounded = estimator(constraint=CovarianceBound(share, relative=True)).fit(X, y, sensitive_features=people)
    by_label = bounded.multipliers_.abs()
    prices = {name: by_label[name].to_dict() for name in people}
    priced = estimator(constraint=CovariancePenalty(prices)).fit(X, y, sensitive_features=people)
    # Multipliers are known to the root of the gap, and so is the classifier of a price.
    assert priced.certificate_.objective <= bounded.certificate_.objective * (1 + 1e-7)
    np.testing.assert_allclose(priced.covariance_, bounded.covariance_, atol=2e-4)


@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
@pytest.mark.parametrize("price", [1.0, 20.0, 1e4])
def test_the_bound_of_a_price_gives_its_classifier(estimator, price):
    X, y, people = make_people(1, 200)
    priced = estimator(constraint=CovariancePenalty(price)).fit(X, y, sensitive_features=people)
    bounds = {name: priced.bound_[name].to_dict() for name in people}
    bounded = estimator(constraint=CovarianceBound(bounds)).fit(X, y, sensitive_features=people)
    assert bounded.certificate_.objective == pytest.approx(priced.certificate_.objective, rel=1e-8)
    np.testing.assert_allclose(bounded.coef_, priced.coef_, atol=1e-4)


def test_higher_prices_leave_less_covariance_and_no_price_none_of_the_effect():
    X, y, people = make_people(2, 300)
    sums = []
    for price in (0.0, 1.0, 10.0, 100.0, 1e5):
        clf = FairLogisticRegression(constraint=CovariancePenalty(price)).fit(X, y, sensitive_features=people)
        sums.append(clf.covariance_.abs().sum())
    assert sums == sorted(sums, reverse=True)
    assert sums[-1] < 1e-12
    free = FairLogisticRegression(constraint=None).fit(X, y)
    none = FairLogisticRegression(constraint=CovariancePenalty(0.0)).fit(X, y, sensitive_features=people)
    np.testing.assert_allclose(none.coef_, free.coef_, rtol=1e-9)
    assert np.all(np.isinf(none.bound_))


@pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning")
@pytest.mark.parametrize("seed", [16, 21, 31, 52, 90, 106, 138, 143])
def test_prices_that_leave_one_score_for_everybody(seed):
    """Many are at the corner of the hinge loss then, and only some of their dual variables prove the optimum."""
    rng = np.random.default_rng(seed)
    people = {"a": rng.choice(list("pqr"), 60), "b": rng.choice(list("uv"), 60)}
    X = rng.exponential(size=(60, 3))
    y = np.where(X[:, 0] + rng.logistic(size=60) > 0.5, 1, -1)
    price = CovariancePenalty(float(10.0 ** rng.uniform(2, 4)))
    clf = FairLinearSVC(C=10.0, constraint=price).fit(X, y, sensitive_features=people)
    assert clf.certificate_.status == "solved"
    constant = 10.0 * 2.0 * min(np.sum(y > 0), np.sum(y < 0))
    paid = price.price * clf.covariance_.abs().sum()
    assert clf.certificate_.objective + paid <= constant * (1 + 1e-9)
    assert np.all(clf.multipliers_.abs() <= price.price * (1 + 1e-9))


def test_prices_beside_bounds_that_block_a_way_down():
    """Where bounds hold, what is let go together may come back, and one of them alone leads on."""
    rng = np.random.default_rng(139)
    table = rng.dirichlet(np.full(3, 0.4), 110)
    people = {"a": Membership(table, name="a"), "b": rng.choice(list("uvw"), 110, p=[0.5, 0.3, 0.2])}
    X = rng.exponential(size=(110, 4))
    X[:, 0] += table[:, 0] + 0.7 * (people["b"] == "w")
    y = np.where(X[:, 0] - X[:, 1] + rng.logistic(size=110) > 0.5, 1, -1)
    price = CovariancePenalty(float(10.0 ** rng.uniform(0, 2)), notion="false_negative_rate")
    bound = CovarianceBound(0.003, notion="equalized_odds")
    clf = FairLogisticRegression(C=0.2, constraint=[price, bound]).fit(X, y, sensitive_features=people)
    assert clf.certificate_.status == "solved"
    assert all(record.violation <= 1e-9 for record in clf.constraints_)


def test_prices_by_attribute_charge_only_what_they_name():
    X, y, people = make_people(3, 300, categories=3)
    clf = FairLogisticRegression(constraint=CovariancePenalty({"sex": 1e5})).fit(X, y, sensitive_features=people)
    assert clf.covariance_["sex"].abs().max() < 1e-12 < clf.covariance_["race"].abs().max()
    assert (clf.multipliers_["race"] == 0).all()


@pytest.mark.parametrize("estimator", [FairSVC(loss="logistic"), FairTreeClassifier()], ids=["kernel", "trees"])
def test_kernels_and_trees_take_a_price(estimator):
    X, y, people = make_people(4, 250)
    estimator.set_params(constraint=CovariancePenalty(20.0)).fit(X, y, sensitive_features=people)
    free = estimator.unconstrained_covariance_.abs().sum()
    assert estimator.covariance_.abs().sum() < free
    assert estimator.certificate_.status == "solved"


def test_without_a_penalty_on_the_coefficients():
    X, y, people = make_people(5, 300)
    clf = FairLogisticRegression(C=np.inf, constraint=CovariancePenalty(10.0)).fit(X, y, sensitive_features=people)
    assert clf.certificate_.gap <= 1e-9


@pytest.mark.parametrize(
    ("price", "message"),
    [
        (-1.0, "zero or positive"),
        (np.inf, r"CovarianceBound\(0.0\)"),
        (np.nan, "zero or positive"),
        ("1", "must be a number"),
        (True, "must be a number"),
        ({}, "empty mapping"),
        ({"sex": {"f": -1}}, "of 'sex' of 'f'"),
    ],
)
def test_bad_prices(price, message):
    with pytest.raises(ValueError, match=message):
        CovariancePenalty(price)


def test_unknown_attributes_and_categories():
    X, y, people = make_people(6)
    for price, message in (({"age": 1.0}, "price names the attribute 'age'"), ({"sex": {"x": 1.0}}, "category 'x'")):
        with pytest.raises(ValueError, match=message):
            FairLogisticRegression(constraint=CovariancePenalty(price)).fit(X, y, sensitive_features=people)


def test_several_classes_have_no_prices():
    X, _, people = make_people(7)
    job = np.arange(len(X)) % 3
    with pytest.raises(ValueError, match="CovariancePenalty is only defined for two classes"):
        FairMultinomialLogisticRegression(constraint=CovariancePenalty(1.0)).fit(X, job, sensitive_features=people)


def test_prices_as_text_and_in_files():
    assert parse_constraint("penalty=100") == CovariancePenalty(100.0)
    by_name = parse_constraint("penalty=sex:100,race:5")
    assert by_name == CovariancePenalty({"sex": 100.0, "race": 5.0})
    assert from_plain(to_plain(by_name)) == by_name
    with pytest.raises(ValueError, match="not understood"):
        parse_constraint("penalty=much")


@pytest.mark.parametrize("seed", [15, 87, 155, 160])
def test_solved_is_about_the_loss_without_what_is_paid(seed):
    """The gap of loss and price together was within tolerance, that of the loss alone was not."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(40, 3)).astype(float)
    z = (X[:, 0] + rng.normal(size=40) > 1.5).astype(int)
    y = (X[:, 0] + X[:, 1] + rng.normal(size=40) > 3).astype(int)
    weight, price = 10.0 ** rng.uniform(-4, 4, 40), 10.0 ** rng.integers(-1, 5)
    model = FairLogisticRegression(C=np.inf, constraint=CovariancePenalty(float(price)), tol=1e-6)
    proof = model.fit(X, y, sample_weight=weight, sensitive_features=z).certificate_
    assert proof.status == "solved"
    assert proof.gap <= 1e-6


@pytest.mark.parametrize("constraint", [CovariancePenalty(1e5), LossBound(0.3, norm="sum")], ids=["price", "sum"])
def test_more_covariances_change_sign_than_a_search_has_rounds(constraint):
    """An assertion of the search itself once failed there."""
    r = np.random.default_rng(0)
    group = r.integers(0, 120, 1500)
    X = r.normal(size=(1500, 120)) + r.normal(size=(120, 120))[group]
    y = (X[:, 0] + r.normal(size=1500) > 0).astype(int)
    model = FairLogisticRegression(constraint=constraint)
    model.fit(X, y, sensitive_features=np.array([f"g{k}" for k in group]))
    assert model.certificate_.status == "solved"
