"""Estimators: limits that must be scikit-learn's, invariances, and scikit-learn's conventions."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    decision_boundary_covariance,
)
from fairmargin.datasets import make_linear_synthetic
from fairmargin.formulations import warn_unless_solved
from fairmargin.losses import get_loss
from fairmargin.problem import Certificate

LOSSES = ("logistic", "hinge", "squared_hinge", "smoothed_hinge")
every_loss = pytest.mark.parametrize("loss", LOSSES)


def make_people(seed=0, n=200, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    z = X[:, 0] + rng.normal(size=n) > 0
    y = X[:, 0] + X[:, 1] + rng.normal(size=n) > 0
    return X, y.astype(int), np.where(z, "m", "f")


def objective(model, X, y, loss, C=1.0, weight=1.0):
    signed = np.where(y == model.classes_[1], 1.0, -1.0)
    w = model.coef_[0]
    margins = signed * (X @ w + model.intercept_[0])
    return float(C * np.sum(weight * get_loss(loss).value(margins)) + 0.5 * w @ w)


def same_function(a, b, X, rtol=1e-6):
    scores = b.decision_function(X)
    np.testing.assert_allclose(a.decision_function(X), scores, rtol=0, atol=rtol * np.abs(scores).max())


# --- limits ---------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), C=st.sampled_from([1e-3, 0.1, 1.0, 50.0]), intercept=st.booleans())
def test_without_a_constraint_logistic_regression_is_scikit_learns(seed, C, intercept):
    X, y, _ = make_people(seed)
    ours = FairLogisticRegression(C=C, constraint=None, fit_intercept=intercept).fit(X, y)
    theirs = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-14, fit_intercept=intercept).fit(X, y)
    best = objective(theirs, X, y, "logistic", C)
    assert objective(ours, X, y, "logistic", C) == pytest.approx(best, rel=1e-8)
    assert ours.certificate_.objective == pytest.approx(best, rel=1e-8)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), C=st.sampled_from([1e-2, 0.1, 1.0, 10.0]))
def test_without_a_constraint_the_svm_is_scikit_learns(seed, C):
    X, y, _ = make_people(seed, n=120)
    ours = FairLinearSVC(C=C, constraint=None).fit(X, y)
    theirs = SVC(C=C, kernel="linear", tol=1e-11).fit(X, y)
    # libsvm's intercept is an average over support vectors and less exact than its coefficients: take the best one.
    signed = 2 * y - 1
    scores = X @ theirs.coef_[0]
    losses = [np.maximum(0, 1 - signed * (scores + b)).sum() for b in signed - scores]
    best = C * min(losses) + 0.5 * np.sum(theirs.coef_**2)
    # Its stopping rule does not bound the objective: ours must not be higher, and proves itself.
    assert objective(ours, X, y, "hinge", C) <= best * (1 + 1e-8)
    assert objective(ours, X, y, "hinge", C) == pytest.approx(best, rel=1e-6)
    assert ours.certificate_.dual_bound == pytest.approx(objective(ours, X, y, "hinge", C), rel=1e-8)


@every_loss
def test_a_loose_bound_changes_nothing(loss):
    X, y, z = make_people()
    free = FairMarginClassifier(loss, constraint=None, tol=1e-12).fit(X, y)
    loose = FairMarginClassifier(loss, constraint=CovarianceBound(1e6), tol=1e-12).fit(X, y, sensitive_features=z)
    same_function(loose, free, X)
    assert loose.multipliers_.abs().max() == 0
    equal = FairMarginClassifier(loss, constraint=CovarianceBound(1.0, relative=True), tol=1e-12)
    same_function(equal.fit(X, y, sensitive_features=z), free, X)


@every_loss
def test_a_tighter_bound_costs_more_and_is_kept(loss):
    X, y, z = make_people()
    costs, last = [], np.inf
    for c in (1.0, 0.3, 0.1, 0.03, 0.0):
        model = FairMarginClassifier(loss, constraint=CovarianceBound(c)).fit(X, y, sensitive_features=z)
        costs.append(model.certificate_.objective)
        size = abs(model.covariance_.iloc[0])
        assert size <= min(c, last) + 1e-8
        last = size
    assert np.all(np.diff(costs) >= -1e-9 * costs[0])
    assert costs[-1] > costs[0]


@every_loss
def test_a_share_of_the_unconstrained_covariance(loss):
    X, y, z = make_people()
    model = FairMarginClassifier(loss, constraint=CovarianceBound(0.25, relative=True))
    model.fit(X, y, sensitive_features=z)
    assert model.covariance_.iloc[0] == pytest.approx(0.25 * model.unconstrained_covariance_.iloc[0], rel=1e-6)
    free = FairMarginClassifier(loss, constraint=None).fit(X, y, sensitive_features=z)
    pd.testing.assert_series_equal(free.covariance_, model.unconstrained_covariance_, rtol=1e-4)


def test_the_multiplier_is_the_price_of_the_bound():
    X, y, z = make_people()

    def cost(c):
        return FairLogisticRegression(constraint=CovarianceBound(c), tol=1e-13).fit(X, y, sensitive_features=z)

    price = cost(0.1).multipliers_.abs().iloc[0]
    difference = (cost(0.1 - 1e-4).certificate_.objective - cost(0.1 + 1e-4).certificate_.objective) / 2e-4
    assert price == pytest.approx(difference, rel=1e-4)


# --- invariances ----------------------------------------------------------------------------------------


@every_loss
def test_weights_are_duplicated_rows(loss):
    X, y, z = make_people(n=80)
    times = np.random.default_rng(3).integers(0, 4, size=80)
    model = FairMarginClassifier(loss, constraint=CovarianceBound(0.02))
    weighted = clone(model).fit(X, y, times.astype(float), sensitive_features=z)
    rows = np.repeat(np.arange(80), times)
    repeated = clone(model).fit(X[rows], y[rows], sensitive_features=z[rows])
    same_function(weighted, repeated, X, 1e-5)
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, atol=1e-8)
    assert weighted.certificate_.objective == pytest.approx(repeated.certificate_.objective, rel=1e-8)


@every_loss
def test_a_common_weight_is_a_factor_on_C(loss):
    X, y, z = make_people()
    heavy = FairMarginClassifier(loss, C=0.5).fit(X, y, np.full(len(y), 7.0), sensitive_features=z)
    plain = FairMarginClassifier(loss, C=3.5).fit(X, y, sensitive_features=z)
    same_function(heavy, plain, X)
    assert heavy.certificate_.objective == pytest.approx(plain.certificate_.objective, rel=1e-9)


@every_loss
def test_one_huge_weight_decides_alone(loss):
    X, y, z = make_people()
    weight = np.ones(len(y))
    weight[3] = 1e8
    model = FairMarginClassifier(loss).fit(X, y, weight, sensitive_features=z)
    assert model.certificate_.status == "solved"
    assert model.certificate_.violation <= 1e-8
    assert model.predict(X[[3]]) == y[3]


@every_loss
def test_shifted_features_move_the_intercept_only(loss):
    X, y, z = make_people()
    shift = np.array([5.0, -1900.0, 1e4, 0.0])
    model = FairMarginClassifier(loss).fit(X, y, sensitive_features=z)
    moved = FairMarginClassifier(loss).fit(X + shift, y, sensitive_features=z)
    np.testing.assert_allclose(moved.coef_, model.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moved.decision_function(X + shift), model.decision_function(X), atol=1e-4)


@every_loss
def test_without_a_penalty_units_do_not_matter(loss):
    X, y, z = make_people(n=400)
    units = np.array([1e-3, 1.0, 60.0, 1e4])
    model = FairMarginClassifier(loss, C=np.inf).fit(X, y, sensitive_features=z)
    scaled = FairMarginClassifier(loss, C=np.inf).fit(X * units, y, sensitive_features=z)
    assert scaled.certificate_.objective == pytest.approx(model.certificate_.objective, rel=1e-8)


@every_loss
def test_the_order_of_the_rows_does_not_matter(loss):
    """Sorted by label, then by group: the worst order for a start on a sample."""
    X, y, z = make_people(n=9000)
    order = np.lexsort([z, y])
    model = FairMarginClassifier(loss).fit(X, y, sensitive_features=z)
    by_label = FairMarginClassifier(loss).fit(X[order], y[order], sensitive_features=z[order])
    assert by_label.certificate_.objective == pytest.approx(model.certificate_.objective, rel=2e-9)
    same_function(by_label, model, X, 1e-4)


@every_loss
def test_exchanging_the_classes_turns_the_sign(loss):
    X, y, z = make_people()
    model = FairMarginClassifier(loss).fit(X, y, sensitive_features=z)
    turned = FairMarginClassifier(loss).fit(X, 1 - y, sensitive_features=z)
    np.testing.assert_allclose(turned.decision_function(X), -model.decision_function(X), atol=1e-4)


@every_loss
@pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning")  # everybody is decided by the label alone
def test_more_features_than_people(loss):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(30, 200)), np.arange(30) % 2
    y = rng.permutation(np.repeat([0, 1], 15))
    for data in (X, sp.csr_matrix(X)):
        model = FairMarginClassifier(loss).fit(data, y, sensitive_features=z)
        assert model.coef_.shape == (1, 200)
        assert model.certificate_.gap <= 1e-9
        assert objective(model, X, y, loss) == pytest.approx(model.certificate_.objective, rel=1e-9)
        covariance = decision_boundary_covariance(None, model.decision_function(data), sensitive_features=z)
        assert abs(covariance.iloc[0]) <= 1e-8


# --- kinds of input -------------------------------------------------------------------------------------


@every_loss
def test_sparse_and_dense_agree(loss):
    X, y, z = make_people()
    X = np.where(np.abs(X) > 1, X, 0.0)
    dense = FairMarginClassifier(loss).fit(X, y, sensitive_features=z)
    for kind in (sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.coo_matrix):
        sparse = FairMarginClassifier(loss).fit(kind(X), y, sensitive_features=z)
        same_function(sparse, dense, X, 1e-5)
        assert sparse.certificate_.objective == pytest.approx(dense.certificate_.objective, rel=2e-9)


@every_loss
def test_single_precision_keeps_working(loss):
    X, y, z = make_people()
    single = FairMarginClassifier(loss).fit(X.astype(np.float32), y, sensitive_features=z)
    double = FairMarginClassifier(loss).fit(X.astype(np.float32).astype(float), y, sensitive_features=z)
    assert single.certificate_.gap <= 1e-9
    assert single.certificate_.objective == pytest.approx(double.certificate_.objective, rel=2e-9)
    X32 = sp.csr_matrix(X.astype(np.float32))
    assert FairMarginClassifier(loss).fit(X32, y, sensitive_features=z).certificate_.gap <= 1e-9


@pytest.mark.parametrize("labels", [("no", "yes"), (-1, 1), (False, True), (2, 7), (0.0, 1.0)])
@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.FavourableClassWarning")
def test_labels_of_any_kind(labels):
    X, y, z = make_people()
    plain = FairLogisticRegression().fit(X, y, sensitive_features=z)
    named = np.array(labels)[y]
    model = FairLogisticRegression().fit(X, named, sensitive_features=z)
    assert list(model.classes_) == list(labels)
    np.testing.assert_array_equal(model.predict(X), np.array(labels)[plain.predict(X)])
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-12)


def test_class_weights_are_factors_on_the_loss():
    X, y, z = make_people()
    balanced = FairLogisticRegression(class_weight="balanced").fit(X, y, sensitive_features=z)
    factors = len(y) / (2 * np.bincount(y))
    by_hand = FairLogisticRegression(class_weight=dict(enumerate(factors))).fit(X, y, sensitive_features=z)
    same_function(balanced, by_hand, X)
    theirs = LogisticRegression(class_weight="balanced", solver="newton-cholesky", tol=1e-14).fit(X, y)
    ours = FairLogisticRegression(constraint=None, class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    covariance = decision_boundary_covariance(None, balanced.decision_function(X), sensitive_features=z)
    assert abs(covariance.iloc[0]) <= 1e-8  # people count once in the covariance, whatever their class


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_names(frame):
    X, y, z = make_people()
    table = frame({name: X[:, j] for j, name in enumerate(["age", "pay", "debt", "years"])})
    race = np.array(["a", "b", "c"])[np.arange(len(y)) % 3]
    people = frame({"sex": z, "race": race})
    model = FairLogisticRegression().fit(table, y, sensitive_features=people)
    assert list(model.feature_names_in_) == ["age", "pay", "debt", "years"]
    assert list(model.covariance_.index) == [("sex", "m"), ("race", "a"), ("race", "b"), ("race", "c")]
    same_function(model, FairLogisticRegression().fit(table, y, sensitive_features={"sex": z, "race": race}), table)


def test_columns_in_another_order_are_refused():
    X, y, z = make_people()
    table = pd.DataFrame(X, columns=list("abcd"))
    model = FairLogisticRegression().fit(table, y, sensitive_features=z)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[list("dcba")])


def test_bounds_by_attribute_and_category():
    X, y, z = make_people(n=600)
    race = np.array(["a", "b", "c"])[(3 * np.random.default_rng(0).random(600)).astype(int)]
    age = 40 + 10 * X[:, 2] + np.random.default_rng(1).normal(size=600)
    asked = CovarianceBound({"sex": {"f": 0.01}, "race": {"b": 0.0}, "age": 0.5})
    people = pd.DataFrame({"sex": z, "race": race, "age": age})
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=people)
    assert abs(model.covariance_["sex", "m"]) == pytest.approx(0.01, abs=1e-8)
    assert abs(model.covariance_["race", "b"]) <= 1e-8
    assert abs(model.covariance_["race", "a"]) > 1e-6
    assert model.multipliers_["race", "a"] == 0
    assert abs(model.covariance_["age"].iloc[0]) <= 0.5 + 1e-8


def test_large_numbers_as_a_sensitive_attribute():
    X, y, _ = make_people(n=500)
    income = 1e5 * (1 + X[:, 0] + np.random.default_rng(0).normal(size=500)) ** 2
    for loss in LOSSES:
        model = FairMarginClassifier(loss).fit(X, y, sensitive_features=income)
        scores = model.decision_function(X)
        covariance = decision_boundary_covariance(None, scores, sensitive_features=income)
        # Zero up to the rounding of a mean of 500 terms, which are this large.
        size = np.mean(np.abs((income - income.mean()) * scores))
        assert abs(covariance.iloc[0]) <= 500 * np.finfo(float).eps * size
        assert model.certificate_.gap <= 1e-9


def test_many_dependent_columns():
    """All categories of several attributes: rows that sum to zero, more of them than features."""
    X, y, _ = make_people(n=700)
    rng = np.random.default_rng(0)
    people = pd.DataFrame({f"z{k}": rng.integers(0, 5, size=700).astype(str) for k in range(3)})
    people["z0"] = np.where(X[:, 0] > 0, "0", people["z0"])
    for bound in (
        CovarianceBound(0.0),
        CovarianceBound(0.01),
        CovarianceBound({"z0": 0.0, "z1": 0.02, "z2": {"3": 0}}),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = FairLinearSVC(constraint=bound).fit(X, y, sensitive_features=people)
        assert model.certificate_.gap <= 1e-9
        assert model.certificate_.violation <= 1e-8


# --- scikit-learn's conventions -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        FairLogisticRegression(constraint=None),
        FairLinearSVC(constraint=None),
        FairLinearSVC(constraint=None, loss="squared_hinge"),
        FairMarginClassifier(constraint=None),
        FairMarginClassifier("smoothed_hinge", constraint=None),
    ],
    ids=repr,
)
def test_scikit_learns_own_checks(estimator):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*SCIPY_ARRAY_API")
        check_estimator(estimator)


@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC, FairMarginClassifier])
def test_parameters_are_stored_untouched_and_models_travel(estimator):
    X, y, z = make_people()
    bound = CovarianceBound({"sensitive": 0.01})
    model = estimator(C=2.0, constraint=bound)
    assert model.get_params()["constraint"] is bound
    model.fit(X, y, sensitive_features=z)
    assert model.get_params()["constraint"] is bound
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.certificate_ == model.certificate_


def test_only_the_logistic_loss_gives_probabilities():
    X, y, z = make_people()
    model = FairLinearSVC().fit(X, y, sensitive_features=z)
    assert not hasattr(model, "predict_proba")
    assert hasattr(FairMarginClassifier(), "predict_proba")


def test_training_twice_gives_the_same():
    X, y, z = make_people(n=9000)
    a, b = (FairLogisticRegression().fit(X, y, sensitive_features=z) for _ in range(2))
    np.testing.assert_array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("model", [FairLogisticRegression(), FairLinearSVC()], ids=repr)
def test_sensitive_features_are_routed(frame, model):
    X, y, z = make_people(n=300)
    table, people = frame({f"x{j}": column for j, column in enumerate(X.T)}), frame({"sex": z})
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), clone(model)).fit(table, y, sensitive_features=people)
        assert abs(pipe[-1].covariance_["sex", "m"]) <= 1e-8
        search = GridSearchCV(clone(model), {"C": [0.1, 1.0]}, cv=3)
        search.fit(table, y, sensitive_features=people)
        assert search.best_estimator_.certificate_.violation <= 1e-8
        scores = cross_validate(
            make_pipeline(StandardScaler(), clone(model)), table, y, params={"sensitive_features": people}, cv=3
        )
        assert np.all(scores["test_score"] > 0.5)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_without_routing_fit_parameters_reach_the_last_step(frame):
    X, y, z = make_people(n=300)
    table, people = frame({f"x{j}": column for j, column in enumerate(X.T)}), frame({"sex": z})
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression())
    pipe.fit(table, y, fairlogisticregression__sensitive_features=people)
    assert abs(pipe[-1].covariance_["sex", "m"]) <= 1e-8
    search = GridSearchCV(FairLogisticRegression(), {"C": [0.1, 1.0]}, cv=3).fit(table, y, sensitive_features=people)
    assert search.best_estimator_.certificate_.gap <= 1e-9
    scores = cross_validate(FairLogisticRegression(), table, y, params={"sensitive_features": people}, cv=3)
    assert np.all(scores["test_score"] > 0.5)


def test_weights_are_routed_when_asked_for():
    X, y, z = make_people(n=300)
    with sklearn.config_context(enable_metadata_routing=True):
        model = FairLogisticRegression().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=3)
        search.fit(X, y, sensitive_features=z, sample_weight=np.linspace(0.1, 1, 300))
    assert search.best_estimator_.certificate_.gap <= 1e-9


# --- nothing is unconverged in silence -------------------------------------------------------------------


@every_loss
def test_too_few_iterations_are_said(loss):
    X, y, z = make_people(n=400)
    with pytest.warns(ConvergenceWarning, match="relative duality gap of .* above tol"):
        model = FairMarginClassifier(loss, max_iter=1).fit(X, y, sensitive_features=z)
    assert model.certificate_.status != "solved"


def test_a_gap_within_the_tolerance_is_not_said_to_be_above_it():
    proof = Certificate(1.0, 1.0, 1e-10, violation=1e-3, n_iter=7, status="iteration limit")
    with pytest.warns(ConvergenceWarning, match=r"1.0e-10, within tol=1.0e-09, but missed a bound \(by 1.0e-03 at"):
        warn_unless_solved(proof, 1e-9)


def separable():
    X = np.random.default_rng(0).normal(size=(100, 3))
    return X, (X[:, 0] > 0).astype(int)


def test_separable_data_without_a_penalty_have_no_logistic_regression():
    X, y = separable()
    with pytest.warns(ConvergenceWarning, match=r"data are separable.*Set a finite C"):
        model = FairLogisticRegression(C=np.inf, constraint=None).fit(X, y)
    assert model.certificate_.status == "separable"
    assert np.mean(model.predict(X) == y) == 1.0
    assert np.all(np.isfinite(model.coef_))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smoothed_hinge"])
def test_separable_data_without_a_penalty_have_a_perfect_svm(loss):
    X, y = separable()
    model = FairMarginClassifier(loss, C=np.inf, constraint=None).fit(X, y)
    assert model.certificate_.status == "solved"
    assert model.certificate_.gap <= 1e-9
    assert model.certificate_.objective <= 1e-12
    assert np.mean(model.predict(X) == y) == 1.0


def test_parameters_of_the_constraint_are_searched_over():
    X, y, z = make_linear_synthetic(300, random_state=0)
    bound = CovarianceBound(0.1, notion="selection_rate")
    for asked in (bound, CovarianceBound):  # an instance, and the class that stands for its defaults
        search = GridSearchCV(FairLogisticRegression(constraint=asked), {"constraint__c": [0.0, 0.05]}, cv=2)
        search.fit(X, y, sensitive_features=z)
        assert search.best_estimator_.constraint.c == search.best_params_["constraint__c"]
    assert bound.c == 0.1
    assert clone(bound) == bound
    changed = FairLogisticRegression(constraint=bound).set_params(constraint__c=0.2, C=2.0)
    assert (changed.constraint.c, changed.C, bound.c) == (0.2, 2.0, 0.1)
    with pytest.raises(ValueError, match="CovarianceBound has no parameter 'p'"):
        changed.set_params(constraint__p=80)
    with pytest.raises(ValueError, match="needs a constraint to change"):
        FairLogisticRegression(constraint=None).set_params(constraint__c=0.1)
    with pytest.raises(ValueError, match="must be zero or positive"):
        changed.set_params(constraint__c=-1.0)


def test_columns_that_are_nearly_equal_are_solved_without_a_penalty():
    rng = np.random.default_rng(42)
    n, d = int(rng.integers(60, 800)), int(rng.integers(1, 8))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-4, 5, d)
    X = np.hstack([X, X[:, :1] * (1 + 1e-7 * rng.normal(size=(n, 1)))])
    y = (rng.random(n) < rng.uniform(0.02, 0.5) + 0.4 * (X[:, 0] > 0)).astype(int)
    y[:2] = 0, 1
    model = FairLogisticRegression(C=np.inf, constraint=None).fit(X, y, sensitive_features=rng.choice(["a", "b"], n))
    assert model.certificate_.status == "solved"
    # Without the second of the two columns, the loss is 57.78.
    assert model.certificate_.objective < 57.67
