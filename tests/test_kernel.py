"""Fair kernel machines against libsvm, against a conic solver on the full kernel matrix, and at their limits."""

import json
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairnessFrontier,
    FairSVC,
    IndividualLossBound,
    KernelFeatures,
    LossBound,
    PRuleBound,
    p_rule,
)
from fairmargin.datasets import load_adult, make_nonlinear_synthetic
from fairmargin.exceptions import ApproximationWarning, CovarianceWarning, IndefiniteKernelError
from fairmargin.formulations import run
from fairmargin.kernel.certificate import Evaluation, certify
from fairmargin.kernel.cholesky import factorise, positive_part
from fairmargin.kernel.matrix import Gram, Kernel, PrecomputedGram, make_kernel

TIGHT = {"approximation_tol": 1e-8, "tol": 1e-9}
quiet = pytest.mark.filterwarnings("ignore::fairmargin.diagnostics.CovarianceWarning")


def people(n=300, seed=0):
    X, y, z = make_nonlinear_synthetic(n, random_state=seed)
    return X / 5, y, z


def wild_people(n=300, seed=0, d=8):
    """People whose kernel matrix has no small rank."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(n) > 0, 1, -1)
    z = (X[:, 1] + X[:, 0] + rng.standard_normal(n) > 0).astype(int)
    return X, y, z


def objective(clf, X, y, C=1.0, loss=lambda m: np.maximum(0, 1 - m)):
    """The training objective from nothing but the expansion over people."""
    f = clf.decision_function(X)
    norm = clf.dual_coef_[0] @ (f[clf.support_] - clf.intercept_[0])
    return 0.5 * norm + C * np.sum(loss(y * f))


# --- factorisation and kernel functions


@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [("rbf", {}), ("poly", {"coef0": 1.0}), ("poly", {"degree": 2}), ("linear", {}), ("sigmoid", {"coef0": 0.5})],
)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, lambda X: X.astype(np.float32)])
def test_kernel_functions_are_scikit_learns(kernel, parameters, kind):
    X, _, _ = wild_people(60)
    svc = SVC(kernel=kernel, **parameters).fit(X, np.arange(60) % 2)
    ours = make_kernel(kernel, "scale", parameters.get("degree", 3), parameters.get("coef0", 0.0), X, np.ones(60))
    assert ours.gamma == pytest.approx(svc._gamma)
    K = ours.matrix(kind(X), kind(X[:20]))
    from sklearn.metrics.pairwise import pairwise_kernels

    known = {"gamma": svc._gamma, "degree": svc.degree, "coef0": svc.coef0}
    expected = pairwise_kernels(X, X[:20], metric=kernel, filter_params=True, **known)
    np.testing.assert_allclose(K, expected, atol=1e-6 if kind(X).dtype == np.float32 else 1e-13)
    np.testing.assert_allclose(ours.diagonal(kind(X)), np.diag(ours.matrix(kind(X), kind(X))), rtol=1e-6, atol=1e-6)
    coef = np.arange(20.0)
    np.testing.assert_allclose(ours.apply(kind(X), kind(X[:20]), coef), K @ coef, rtol=1e-10, atol=1e-8)


def test_rbf_kernel_keeps_its_digits_far_from_the_origin():
    X, _, _ = wild_people(50)
    near, far = (Kernel("rbf", 0.1).matrix(X + shift, X + shift) for shift in (0.0, 1e6))
    np.testing.assert_allclose(far, near, atol=1e-8)


@pytest.mark.parametrize("tol", [0.1, 1e-3, 1e-8])
def test_factorisation_stops_at_the_error_it_reports(tol):
    X, _, _ = wild_people(400)
    gram = Gram(Kernel("rbf", 0.05), X)
    found = factorise(gram, tol, 400, np.random.RandomState(0))
    K = rbf_kernel(X, gamma=0.05)
    left = K - found.features @ found.features.T
    assert found.error == pytest.approx(np.trace(left) / 400, abs=1e-11)
    assert found.error <= tol
    assert np.linalg.eigvalsh(left).min() > -1e-10
    np.testing.assert_allclose(K[:, found.landmarks] @ found.basis, found.features, atol=1e-6)
    one_less = found.features[:, :-1]
    assert 1 - np.sum(one_less**2) / 400 > tol  # not a column too many


def test_factorisation_is_near_the_best_of_its_rank():
    X, _, _ = wild_people(600)
    K = rbf_kernel(X, gamma=0.1)
    found = factorise(Gram(Kernel("rbf", 0.1), X), 0.0, 100, np.random.RandomState(0))
    best = 1 - np.sort(np.linalg.eigvalsh(K))[-100:].sum() / 600
    assert found.error < 2.5 * best  # the best has no landmarks but all eigenvectors


def test_factorisation_ends_at_the_rank_of_the_kernel():
    X, _, _ = wild_people(200, d=5)
    found = factorise(Gram(Kernel("linear"), np.vstack([X, X])), 0.0, 400, np.random.RandomState(0))
    assert found.features.shape == (400, 5)
    assert len(set(found.landmarks % 200)) == 5  # copies of a landmark bring nothing


def test_factorisation_repeats_for_a_random_state():
    X, _, _ = wild_people(300)
    first, second, other = (KernelFeatures(random_state=s, tol=0.1).fit(X).landmark_indices_ for s in (3, 3, 4))
    np.testing.assert_array_equal(first, second)
    assert set(first) != set(other)


def test_no_kernel_matrix_is_ever_formed():
    """Evaluations of the kernel, all together, are a multiple of people times rank."""
    X, _, _ = wild_people(3000)
    largest, total = 0, 0

    def counted(A, B):
        nonlocal largest, total
        largest, total = max(largest, len(A) * len(B)), total + len(A) * len(B)
        return rbf_kernel(A, B, gamma=0.05)

    gram = Gram(Kernel(counted), X)
    found = factorise(gram, 0.0, 128, np.random.RandomState(0))
    assert found.features.shape == (3000, 128)
    assert largest <= 3000 * 64
    assert total <= 3000 * (128 + 4 * 64)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_a_kept_kernel_matrix_has_the_products_of_the_others(kind):
    X, _, _ = wild_people(700)
    kernel = Kernel("rbf", 0.1)
    K, some = rbf_kernel(X, gamma=0.1), np.arange(0, 700, 3)
    for gram in (Gram(kernel, kind(X)), Gram(kernel, kind(X), keep=True), PrecomputedGram(K)):
        for columns in (np.arange(700), some, some[:0]):
            coefs = [np.sin(columns), np.column_stack([columns, np.cos(columns)])]
            for values, coef in zip(gram.apply_each(columns, coefs), coefs, strict=True):
                np.testing.assert_allclose(values, K[:, columns] @ coef, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("n", "times"), [(3000, 1), (6000, 3)])
def test_a_kept_kernel_matrix_is_computed_once_where_half_of_it_takes_128_mb(n, times):
    total = 0

    def counted(A, B):
        nonlocal total
        total += len(A) * len(B)
        return np.zeros((len(A), len(B)))

    gram = Gram(Kernel(counted), np.arange(float(n))[:, None], keep=True)
    for _ in range(3):
        gram.apply(np.arange(n), np.ones(n))
    assert total <= times * (n * (n + 256) / 2 + 256 * n)


def test_a_kernel_between_no_rows_is_an_empty_matrix():
    """A function of the user's, which may not take no rows, was called."""
    X, _, _ = wild_people(5)
    assert Kernel(rbf_kernel).matrix(X, X[:0]).shape == (5, 0)


# --- KernelFeatures


def test_features_reproduce_the_kernel_on_new_people():
    X, _, _ = people(800)
    features = KernelFeatures(gamma=1.0, tol=1e-6).fit(X[:600])
    inner = features.transform(X[600:]) @ features.transform(X[:600]).T
    np.testing.assert_allclose(inner, rbf_kernel(X[600:], X[:600], gamma=1.0), atol=2e-2)
    np.testing.assert_allclose(features.fit_transform(X[:600]), features.transform(X[:600]), atol=1e-8)
    assert features.get_feature_names_out()[0] == "kernelfeatures0"


def test_features_beat_nystroem_of_the_same_rank():
    from sklearn.kernel_approximation import Nystroem

    X = load_skewed(1500)
    K = rbf_kernel(X, gamma=0.1)
    features = KernelFeatures(gamma=0.1, tol=0.02).fit(X)
    theirs = Nystroem(gamma=0.1, n_components=features.rank_, random_state=0).fit_transform(X)
    assert 1 - np.sum(theirs**2) / np.trace(K) > 1.3 * features.approximation_error_


def load_skewed(n):
    """Most people alike, a few far apart: uniform sampling misses the few."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 3)) * np.where(rng.random(n) < 0.1, 5.0, 0.3)[:, None]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_features_are_a_scikit_learn_transformer():
    check_estimator(KernelFeatures())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_classifier_is_a_scikit_learn_classifier():
    check_estimator(FairSVC(constraint=None))


# --- against libsvm


def versus_libsvm(X, y, C=1.0, sample_weight=None, **kernel):
    """Relative excess of our objective over libsvm's, at the default and at tight tolerances."""
    svc = SVC(C=C, tol=1e-7, cache_size=1000, **kernel).fit(X, y, sample_weight=sample_weight)
    f = svc.decision_function(X)
    weight = 1.0 if sample_weight is None else sample_weight
    best = 0.5 * svc.dual_coef_[0] @ (f[svc.support_] - svc.intercept_[0])
    best += C * np.sum(weight * np.maximum(0, 1 - y * f))
    excess = []
    for settings in ({}, TIGHT):
        clf = FairSVC(C, constraint=None, **kernel, **settings).fit(X, y, sample_weight=sample_weight)
        ours = objective(clf, X, y, C, lambda m: weight * np.maximum(0, 1 - m))
        assert clf.certificate_.objective == pytest.approx(ours, rel=1e-7)
        assert clf.certificate_.dual_bound <= best * (1 + 1e-9)
        excess.append(ours / best - 1)  # may be negative: libsvm stops early, too
    assert clf.certificate_.gap < 1e-7
    assert np.mean(clf.predict(X) == svc.predict(X)) > 0.995
    return excess


@pytest.mark.parametrize("kernel", [{"kernel": "rbf"}, {"kernel": "poly", "coef0": 1.0}, {"kernel": "linear"}])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_unconstrained_is_libsvms(kernel, C):
    X, y, _ = wild_people(500)
    default, tight = versus_libsvm(X, y, C, **kernel)
    assert default < 1e-3
    assert tight < 1e-6


def test_unconstrained_with_weights_is_libsvms():
    X, y, _ = wild_people(300)
    weight = np.random.default_rng(0).exponential(size=300)
    default, tight = versus_libsvm(X, y, sample_weight=weight, gamma=0.2)
    assert default < 1e-3
    assert tight < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rbf", "poly", "precomputed"])
def test_4000_people_are_libsvms(name):
    X, y, _ = make_nonlinear_synthetic(4000, random_state=0)
    X = X / 5
    K = rbf_kernel(X, gamma=2.0) if name == "precomputed" else X
    default, tight = versus_libsvm(K, y, kernel=name, **({"coef0": 1.0} if name == "poly" else {}))
    assert default < 1e-3
    assert tight < 1e-6


@pytest.mark.heavy
@pytest.mark.data
@pytest.mark.parametrize("name", ["rbf", "poly", "precomputed"])
def test_4000_people_of_adult_are_libsvms(name):
    """No small rank here: a tenth of the trace is left after a tenth of the people."""
    X, y, _ = adult(4000)
    K = rbf_kernel(X, gamma=0.1) if name == "precomputed" else X
    default, tight = versus_libsvm(K, y, kernel=name)
    assert default < 1e-3
    assert tight < 1e-6


def adult(n):
    table = load_adult(encoded=True)
    some = np.random.default_rng(0).permutation(len(table.target))[:n]
    X, y = table.data.to_numpy()[some], 2 * table.target.to_numpy()[some] - 1
    return X, y, table.sensitive_features["sex"].to_numpy()[some]


def test_linear_kernel_is_the_linear_classifier():
    X, y, z = wild_people(300)
    kernel = FairSVC(kernel="linear", **TIGHT).fit(X, y, sensitive_features=z)
    linear = FairLinearSVC().fit(X, y, sensitive_features=z)
    assert kernel.certificate_.objective == pytest.approx(linear.certificate_.objective, rel=1e-7)
    np.testing.assert_allclose(kernel.decision_function(X), linear.decision_function(X), atol=1e-3)


# --- under constraints, against a conic solver


def conic(K, y, z, c, C=1.0, loss="hinge"):
    """Solve the constrained primal with the full kernel matrix: value and scores."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-12 * values[-1]
    F = vectors[:, keep] * np.sqrt(values[keep])
    w, b = cp.Variable(F.shape[1]), cp.Variable()
    margins = cp.multiply(y, F @ w + b)
    losses = {
        "hinge": lambda: cp.sum(cp.pos(1 - margins)),
        "squared_hinge": lambda: cp.sum_squares(cp.pos(1 - margins)),
        "logistic": lambda: cp.sum(cp.logistic(-margins)),
    }
    Z = (z - z.mean(axis=0)).reshape(len(y), -1)
    bounds = [cp.abs(Z.T @ (F @ w) / len(y)) <= c]
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * losses[loss]()), bounds)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, F @ w.value + b.value


@quiet
@pytest.mark.parametrize("n", [200, 400])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("c", [0.0, 0.02])
def test_constrained_is_the_exact_problem(n, loss, c):
    X, y, z = wild_people(n)
    K = rbf_kernel(X, gamma=0.1)
    value, scores = conic(K, y, z, c, loss=loss)
    clf = FairSVC(gamma=0.1, loss=loss, constraint=CovarianceBound(c), approximation_tol=1e-7, tol=1e-8)
    clf.fit(X, y, sensitive_features=z)
    assert clf.certificate_.objective == pytest.approx(value, rel=1e-5)
    assert clf.certificate_.gap < 1e-6
    np.testing.assert_allclose(clf.decision_function(X), scores, atol=2e-3)
    assert abs(np.cov(z, clf.decision_function(X), bias=True)[0, 1]) <= c + 1e-9
    assert abs(clf.multipliers_).max() > 0


@quiet
def test_several_attributes_precomputed():
    X, y, z = wild_people(250)
    other = (X[:, 2] + np.random.default_rng(1).standard_normal(250) > 0).astype(int)
    K = polynomial_kernel(X, degree=2, coef0=1)
    value, _ = conic(K, y, np.column_stack([z, other]), 0.01, C=0.5)
    clf = FairSVC(0.5, kernel="precomputed", constraint=CovarianceBound(0.01), **TIGHT)
    clf.fit(K, y, sensitive_features=pd.DataFrame({"a": z, "b": other}))
    assert clf.certificate_.objective == pytest.approx(value, rel=1e-5)
    assert abs(clf.covariance_).max() <= 0.01 + 1e-9


@quiet
def test_relative_bound_and_free_covariance():
    X, y, z = wild_people(300)
    free = FairSVC(constraint=None, **TIGHT).fit(X, y, sensitive_features=z)
    half = FairSVC(constraint=CovarianceBound(0.5, relative=True), **TIGHT).fit(X, y, sensitive_features=z)
    assert half.unconstrained_covariance_.iloc[0] == pytest.approx(free.covariance_.iloc[0], rel=1e-3)
    assert half.covariance_.iloc[0] == pytest.approx(0.5 * free.covariance_.iloc[0], rel=1e-3)


@quiet
def test_without_refinement_the_certificate_is_of_the_landmarks():
    X, y, z = wild_people(400)
    exact = FairSVC(**TIGHT).fit(X, y, sensitive_features=z)
    with pytest.warns(ApproximationWarning):
        few = FairSVC(max_rank=40).fit(X, y, sensitive_features=z)
    assert not few.refined_
    assert few.rank_ == len(few.support_) == 40
    assert few.certificate_.objective > exact.certificate_.objective
    # It is a function of the same space: norm, losses and covariance are what they are said to be.
    assert few.certificate_.objective == pytest.approx(objective(few, X, y), rel=1e-9)
    assert abs(np.cov(z, few.decision_function(X), bias=True)[0, 1]) < 1e-12


def paper_dual(K, y, z, C, sign):
    """The dual of the paper's appendix with c = 0: the covariance of ``sum_i alpha_i y_i k(x_i, .)`` is bound."""
    n = len(y)
    Q = np.outer(y, y) * (K + np.eye(n) / C)
    alpha = cp.Variable(n, nonneg=True)
    u = (z - z.mean()) @ K / n
    rules = [y @ alpha == 0, (u * y) @ alpha == 0]
    quadratic = 0.5 * cp.quad_form(alpha, cp.psd_wrap(Q))
    problem = cp.Problem(cp.Minimize(sign * cp.sum(alpha) + quadratic), rules)
    problem.solve(solver=cp.CLARABEL)
    return -problem.value, alpha.value


@quiet
def test_the_papers_dual_is_another_and_worse_problem():
    """The objective is that of the squared hinge loss, whose dual has ``delta_ij / C`` in it."""
    X, y, z = wild_people(200)
    K, C = rbf_kernel(X, gamma=0.1), 2.0
    _, alpha = paper_dual(K, y, z, C, sign=1.0)
    assert np.max(alpha) < 1e-6  # as printed, zero is optimal
    bound, alpha = paper_dual(K, y, z, C, sign=-1.0)
    g = K @ (alpha * y)
    assert abs(np.cov(z, g, bias=True)[0, 1]) < 1e-8  # it is fair

    def value(b):
        return 0.5 * (alpha * y) @ g + 0.5 * C * np.sum(np.maximum(0, 1 - y * (g + b)) ** 2)

    theirs = minimize_scalar(value).fun
    clf = FairSVC(C / 2, gamma=0.1, loss="squared_hinge", **TIGHT).fit(X, y, sensitive_features=z)
    ours = clf.certificate_.objective
    exact, _ = conic(K, y, z, 0.0, C / 2, "squared_hinge")
    assert ours == pytest.approx(exact, rel=1e-6)
    assert theirs > 1.01 * ours
    assert bound < 0.99 * ours  # and its value is no longer that of the primal


@quiet
def test_least_covariance_within_a_loss_on_kernels():
    X, y, z = wild_people(300)
    clf = FairSVC(loss="logistic", constraint=LossBound(0.02)).fit(X, y, sensitive_features=z)
    free = FairSVC(loss="logistic", constraint=None).fit(X, y, sensitive_features=z)
    assert clf.certificate_.objective <= 1.02 * free.certificate_.objective * (1 + 1e-3)
    assert abs(clf.covariance_.iloc[0]) < abs(free.covariance_.iloc[0])
    assert not clf.refined_


@quiet
def test_least_covariance_within_a_loss_is_nearly_that_of_the_full_kernel():
    """The span was refined for zero covariance only, and this objective was 2.6e-3 away."""
    X, y, z = wild_people(600)
    near, exact = (
        FairSVC(constraint=LossBound(0.05), approximation_tol=tol).fit(X, y, sensitive_features=z)
        for tol in (1e-3, 1e-7)
    )
    assert near.certificate_.objective == pytest.approx(exact.certificate_.objective, rel=1e-3)


@quiet
@pytest.mark.data
def test_a_relative_bound_is_solved_on_adult():
    """The span was good enough for the rounded hinge loss but not for the hinge loss, with other multipliers."""
    X, y, z = adult(4000)
    clf = FairSVC(constraint=CovarianceBound(0.3, relative=True)).fit(X, y, sensitive_features=z)
    assert clf.refined_
    assert clf.certificate_.status == "solved"


@quiet
def test_p_rule_on_kernels():
    X, y, z = wild_people(800)
    clf = FairSVC(loss="logistic", constraint=PRuleBound(80)).fit(X, y, sensitive_features=z)
    assert p_rule(y, clf.predict(X), sensitive_features=z) >= 80


@quiet
def test_promises_to_single_people_on_kernels():
    X, y, z = wild_people(150)
    free = FairSVC(loss="logistic", constraint=None, **TIGHT).fit(X, y, sensitive_features=z)
    clf = FairSVC(loss="logistic", constraint=IndividualLossBound(1.0), **TIGHT).fit(X, y, sensitive_features=z)
    before, after = (np.logaddexp(0, -y * c.decision_function(X)) for c in (free, clf))
    assert np.all(after <= 2.0 * before * (1 + 1e-3))
    assert abs(clf.covariance_.iloc[0]) < abs(free.covariance_.iloc[0])


@quiet
def test_frontier_of_kernels():
    X, y, z = wild_people(300)
    frontier = FairnessFrontier(FairSVC(), n_points=5).fit(X, y, sensitive_features=z)
    objectives = [clf.certificate_.objective for clf in frontier.estimators_]
    assert objectives == sorted(objectives)
    halfway = frontier.estimators_[2]
    exact, _ = conic(rbf_kernel(X, gamma=halfway._kernel.gamma), y, z, abs(halfway.covariance_.iloc[0]))
    assert halfway.certificate_.objective == pytest.approx(exact, rel=5e-3)
    assert halfway.certificate_.dual_bound <= exact


@quiet
@pytest.mark.filterwarnings("ignore:The classifier is not proved", "ignore:The solver stopped")  # of points between
def test_both_ends_of_a_frontier_are_optimal_for_the_full_kernel():
    """The unconstrained end had a gap of 9e-3: the span was refined for the other one only."""
    X, y, z = wild_people(600)
    ends = FairnessFrontier(FairSVC(), n_points=3).fit(X, y, sensitive_features=z).estimators_[::2]
    assert [clf.certificate_.status for clf in ends] == ["solved", "solved"]


# --- what is returned is what is certified


def recomputed(clf, X, y, z, loss=lambda m: np.maximum(0, 1 - m)):
    """Relative gap and covariance from nothing but fitted attributes."""
    value = objective(clf, X, y, clf.C, loss)
    return abs(value - clf.certificate_.dual_bound) / value, np.cov(z, clf.decision_function(X), bias=True)[0, 1]


@quiet
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e3, 7.5e4, 1e6])
@pytest.mark.parametrize("gamma", [1e-3, 3.6e-3, 0.1, 1e3])
def test_solved_means_optimal_for_the_full_kernel(C, gamma):
    """A rough round of refinement was taken for converged at large C: solved, with gaps of 20 and more."""
    X, y, z = wild_people(25, d=5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        clf = FairSVC(C, gamma=gamma, loss="squared_hinge", constraint=CovarianceBound(0.3, relative=True))
        clf.fit(X, y, sensitive_features=z)
    assert clf.certificate_.status == "solved"
    assert not [w for w in said if w.category is ApproximationWarning]
    gap, covariance = recomputed(clf, X, y, z, lambda m: np.maximum(0, 1 - m) ** 2)
    assert gap <= clf.approximation_tol + clf.tol
    assert clf.certificate_.gap == pytest.approx(gap, abs=1e-9)
    assert clf.covariance_.iloc[0] == pytest.approx(covariance, abs=1e-9)
    assert abs(covariance) <= 0.3 * abs(clf.unconstrained_covariance_.iloc[0]) + 1e-9


@quiet
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_what_cannot_be_proved_is_not_called_solved(loss):
    """Kernel entries from 1e-3 to 1e8 and hardly any penalty: the norm is not known to eight digits."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 1))
    y = np.where(X[:, 0] + rng.standard_normal(60) > 0, 1, -1)
    z = (X[:, 0] + 2 * rng.standard_normal(60) > 0).astype(int)
    clf = FairSVC(1e6, kernel="poly", gamma=1.0, coef0=5.0, degree=8, loss=loss, **TIGHT)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        clf.fit(X, y, sensitive_features=z)
    assert clf.certificate_.gap > 1e-7
    assert clf.certificate_.status == "inaccurate"
    assert any(issubclass(w.category, (ApproximationWarning, ConvergenceWarning)) for w in said)


@quiet
def test_an_objective_below_its_bound_is_a_gap():
    X, y, z = wild_people(60)
    clf = FairSVC(**TIGHT)
    task = clf._prepare(X, y, None, z)
    task = clf._refine(task, CovarianceBound())
    outcome = run(task, CovarianceBound())
    solution = outcome.solution
    proof = solution.certificate
    high = replace(solution, certificate=replace(proof, dual_bound=1.01 * proof.objective))
    seen = Evaluation.of(task, high, task.coefficients(high)[0])
    certificate = certify(task, replace(outcome, solution=high), seen, solution.scores, 1e-6)
    assert certificate.gap > 0.009
    assert certificate.status == "inaccurate"


@pytest.mark.parametrize("kernel", [{}, {"kernel": "precomputed"}, {"kernel": "poly", "degree": 3, "coef0": 1.0}])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_no_penalty_and_a_kernel_that_fits_everything(kernel, loss):
    X, y, z = wild_people(200)
    X = X if kernel.get("kernel") != "precomputed" else rbf_kernel(X, gamma=0.1)
    if kernel.get("kernel") == "poly":
        X, y, z = X[:40], y[:40], z[:40]
    with pytest.raises(ValueError, match=rf"C=inf drops the penalty.*full rank on {len(y)} rows\. Set a finite C"):
        FairSVC(np.inf, loss=loss, **kernel).fit(X, y, sensitive_features=z)


def test_no_penalty_and_too_many_dimensions():
    X, y, z = wild_people(700, d=12)
    with pytest.raises(ValueError, match="a rank of at least 400 on 700 rows"):
        FairSVC(np.inf, kernel="poly", coef0=1.0).fit(X, y, sensitive_features=z)


@quiet
def test_no_penalty_and_a_kernel_of_small_rank():
    """There no direction is left out, and the result is that of the linear classifier."""
    X, y, z = wild_people(300, d=4)
    kernel = FairSVC(np.inf, kernel="linear", loss="logistic").fit(X, y, sensitive_features=z)
    linear = FairLogisticRegression(np.inf).fit(X, y, sensitive_features=z)
    assert kernel.certificate_.status == "solved"
    assert kernel.certificate_.objective == pytest.approx(linear.certificate_.objective, rel=1e-6)
    np.testing.assert_allclose(kernel.decision_function(X), linear.decision_function(X), atol=1e-3)
    with pytest.warns(ApproximationWarning, match="rank limit of 10"):
        chosen = FairSVC(np.inf, max_rank=10, loss="logistic").fit(X, y, sensitive_features=z)
    assert chosen.rank_ == 10
    assert chosen.certificate_.status == "solved"


@quiet
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("settings", [{}, {"refine": False, "approximation_tol": 0.3}, {"gamma": 300.0}])
def test_predictions_are_the_scores_that_were_trained(kind, settings):
    """Also for a kernel so narrow, on rows so far apart, that only copies of a row have anything in common."""
    X, y, z = wild_people(150)
    X = kind(np.vstack([50 * X, 50 * X[:30]]) if "gamma" in settings else np.vstack([X, X[:30]]))
    y, z = np.append(y, y[:30]), np.append(z, z[:30])
    clf = FairSVC(**settings)
    constraint = CovarianceBound()
    task = clf._refine(clf._prepare(X, y, None, z), constraint)
    outcome = run(task, constraint)
    clf._store(task, outcome)
    scores = clf.decision_function(X)
    np.testing.assert_allclose(scores, outcome.solution.scores, atol=1e-9)
    mixed = np.random.default_rng(0).permutation(180)
    np.testing.assert_allclose(clf.decision_function(X[mixed]), scores[mixed], atol=1e-12)
    np.testing.assert_allclose([clf.decision_function(X[[i]])[0] for i in range(9)], scores[:9], atol=1e-12)


def coded_people(n=300, seed=5):
    """A table of whole-number codes with many equal rows."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 2, n), rng.integers(0, 3, (n, 3))]).astype(float)
    z = (rng.random(n) < 0.3 + 0.4 * X[:, 0]).astype(int)
    y = np.where(X[:, 1] + X[:, 0] - 1.5 + rng.standard_normal(n) > 0, 1, -1)
    return X, y, z


def decisions():
    """Decisions of many classifiers on two tables, by name."""
    made = {}
    for table, (X, y, z) in {"codes": coded_people(), "wild": wild_people(200, d=5)}.items():
        for settings in ({}, {"gamma": 5.0}, {"refine": False, "approximation_tol": 0.3}):
            for loss in ("hinge", "logistic", "squared_hinge"):
                for constraint in (None, CovarianceBound(0.0), LossBound(0.05)):
                    clf = FairSVC(loss=loss, constraint=constraint, **settings)
                    clf.fit(X, y, sensitive_features=z)
                    made[f"{table} {settings} {loss} {constraint}"] = (clf.decision_function(X) >= 0).tolist()
    return made


@pytest.mark.heavy
def test_decisions_are_the_same_under_every_blas_kernel():
    program = "import json, test_kernel; print(json.dumps(test_kernel.decisions()))"
    command = [sys.executable, "-W", "ignore", "-c", program]
    made = []
    for core in ("Prescott", "Haswell"):
        environment = os.environ | {"OPENBLAS_CORETYPE": core}
        here = Path(__file__).parent
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        made.append(json.loads(done.stdout))
    assert made[0].keys() == made[1].keys()
    assert [name for name in made[0] if made[0][name] != made[1][name]] == []


@quiet
@pytest.mark.parametrize("make", [coded_people, wild_people])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("settings", [{}, {"gamma": 5.0}, {"refine": False, "approximation_tol": 0.3}])
def test_the_order_of_the_rows_does_not_matter(make, loss, settings):
    X, y, z = make(200)
    mixed = np.random.default_rng(1).permutation(200)
    one = FairSVC(loss=loss, **settings).fit(X, y, sensitive_features=z)
    other = FairSVC(loss=loss, **settings).fit(X[mixed], y[mixed], sensitive_features=z[mixed])
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    assert one.rank_ == other.rank_
    assert one.certificate_.objective == pytest.approx(other.certificate_.objective, rel=1e-5)


def test_rbf_kernel_of_equal_rows_is_one():
    """Rows far from their centre: squared norms of 1e6 cancel to a distance of zero, but for rounding."""
    X = 1e3 * np.random.default_rng(0).standard_normal((40, 3))
    X = np.vstack([X, X, X + 1e-3])
    exact = np.exp(-5e3 * ((X[:, None] - X) ** 2).sum(axis=-1))
    for kind in (np.asarray, sp.csr_matrix):
        np.testing.assert_allclose(Kernel("rbf", 5e3).matrix(kind(X), kind(X)), exact, atol=1e-9)


def test_preparing_does_not_refine():
    X, y, z = wild_people(300)
    clf = FairSVC()
    prepared = clf._prepare(X, y, None, z)
    refined = clf._refine(prepared, CovarianceBound())
    assert not prepared.feature_map.refined
    assert refined.feature_map.refined
    assert prepared.problem.design.shape[1] < refined.problem.design.shape[1]
    assert prepared.data.X is refined.data.X
    w = np.arange(refined.feature_map.features.shape[1], dtype=float)
    K = rbf_kernel(X, gamma=refined.feature_map.gram.kernel.gamma)
    values = K @ refined.feature_map.expand(w)
    np.testing.assert_allclose(values, refined.feature_map.features @ w, rtol=1e-7, atol=1e-6)


# --- limits and the interface


@quiet
def test_weights_are_copies():
    X, y, z = wild_people(120)
    count = np.random.default_rng(0).integers(0, 3, 120)
    weighted = FairSVC(**TIGHT).fit(X, y, sample_weight=count, sensitive_features=z)
    again = np.repeat(np.arange(120), count)
    copied = FairSVC(**TIGHT).fit(X[again], y[again], sensitive_features=z[again])
    assert weighted.certificate_.objective == pytest.approx(copied.certificate_.objective, rel=1e-7)
    np.testing.assert_allclose(weighted.decision_function(X), copied.decision_function(X), atol=1e-3)
    K = rbf_kernel(X, gamma=weighted._kernel.gamma)
    precomputed = FairSVC(kernel="precomputed", **TIGHT).fit(K, y, sample_weight=count, sensitive_features=z)
    np.testing.assert_allclose(precomputed.decision_function(K), weighted.decision_function(X), atol=1e-3)
    assert np.all(count[precomputed.support_] > 0)


@quiet
def test_same_result_whatever_holds_the_data():
    X, y, z = wild_people(200)
    reference = FairSVC(gamma=0.1, **TIGHT).fit(X, y, sensitive_features=z)
    sparse = FairSVC(gamma=0.1, **TIGHT).fit(sp.csr_matrix(X), y, sensitive_features=z)
    function = FairSVC(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.1), **TIGHT).fit(X, y, sensitive_features=z)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    named = FairSVC(gamma=0.1, pos_label="yes", **TIGHT)
    named.fit(frame, np.where(y > 0, "yes", "no"), sensitive_features=z)
    expected = reference.decision_function(X)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_matrix(X)), expected, atol=1e-3)
    np.testing.assert_allclose(function.decision_function(X), expected, atol=1e-3)
    np.testing.assert_allclose(named.decision_function(frame), expected, atol=1e-3)
    assert set(named.predict(frame)) == {"no", "yes"}


@quiet
def test_repeats_exactly():
    X, y, z = wild_people(300)
    first, second = (FairSVC().fit(X, y, sensitive_features=z) for _ in range(2))
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)
    np.testing.assert_array_equal(first.support_, second.support_)


@quiet
def test_probabilities_of_the_logistic_loss():
    X, y, z = wild_people(200)
    clf = FairSVC(loss="logistic").fit(X, y, sensitive_features=z)
    p = clf.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(p[:, 1] >= 0.5, clf.decision_function(X) >= 0)
    assert not hasattr(FairSVC(), "predict_proba")


def test_pipelines_searches_and_folds():
    X, y, _ = people(200)
    pipeline = make_pipeline(StandardScaler(), FairSVC(constraint=None))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.7
    search = GridSearchCV(FairSVC(constraint=None), {"gamma": [0.1, 1.0], "C": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.7
    K = rbf_kernel(X)
    precomputed = cross_val_score(FairSVC(kernel="precomputed", constraint=None), K, y, cv=3)
    np.testing.assert_allclose(
        precomputed, cross_val_score(FairSVC(gamma=0.5, constraint=None), X, y, cv=3), atol=0.1
    )
    assert clone(FairSVC(C=3.0, max_rank=7)).max_rank == 7


def test_fair_features_in_a_pipeline():
    X, y, z = people(300)
    F = KernelFeatures(gamma=1.0, tol=1e-8).fit_transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CovarianceWarning)
        linear = FairLinearSVC().fit(F, y, sensitive_features=z)
        kernel = FairSVC(gamma=1.0, **TIGHT).fit(X, y, sensitive_features=z)
    assert kernel.certificate_.objective == pytest.approx(linear.certificate_.objective, rel=1e-5)


@quiet
@pytest.mark.parametrize("phi", [np.pi / 4, np.pi / 8])
def test_the_appendix_claim(phi):
    """With zero covariance the boundary is another, not a shift of the old one, and the p%-rule rises."""
    X, y, z = make_nonlinear_synthetic(2000, phi=phi, random_state=0)
    free = FairSVC(constraint=None).fit(X, y)
    fair = FairSVC().fit(X, y, sensitive_features=z)
    before, after = (p_rule(y, clf.predict(X), sensitive_features=z) for clf in (free, fair))
    assert after > before + (3 if phi == np.pi / 4 else 30)
    same = np.corrcoef(free.decision_function(X), fair.decision_function(X))[0, 1]
    assert same < 0.98


# --- bad input


@pytest.mark.parametrize("make", [lambda **p: FairSVC(constraint=None, **p), KernelFeatures])
class TestBadInput:
    def test_precomputed_not_square(self, make):
        with pytest.raises(ValueError, match=r"must be square.*got 20 rows and 15 columns"):
            make(kernel="precomputed").fit(np.ones((20, 15)), np.arange(20) % 2)

    def test_precomputed_not_symmetric(self, make):
        K = np.eye(300)
        K[270, 3] = 0.5
        with pytest.raises(ValueError, match=r"not symmetric: entry \(270, 3\) is 0.5 and entry \(3, 270\) is 0"):
            make(kernel="precomputed").fit(K, np.arange(300) % 2)

    @pytest.mark.parametrize("indefinite", ["error", "clip"])
    def test_kernel_out_of_range(self, make, indefinite):
        X, y, _ = people(50)
        with pytest.raises(ValueError, match="entries that are too large"):
            make(kernel="poly", gamma=1.0, indefinite=indefinite).fit(1e60 * X, y)

    def test_wrong_number_of_columns(self, make):
        X, y, _ = people(50)
        for kernel, data in (("rbf", X), ("precomputed", rbf_kernel(X))):
            fitted = make(kernel=kernel).fit(data, y)
            with pytest.raises(ValueError, match=r"X has \d+ features, but \w+ is expecting \d+ features"):
                getattr(fitted, "predict" if hasattr(fitted, "predict") else "transform")(data[:, :-1])

    @pytest.mark.parametrize("indefinite", ["sigmoid", "precomputed", "diagonal", "function"])
    def test_indefinite_kernel(self, make, indefinite):
        X, y, _ = wild_people(100)
        K = np.tanh(X @ X.T)
        kernels = {
            "sigmoid": ({"kernel": "sigmoid", "gamma": 1.0}, X),
            "precomputed": ({"kernel": "precomputed"}, K),
            "diagonal": ({"kernel": "precomputed"}, K - 2 * np.eye(100)),
            "function": ({"kernel": lambda A, B: -np.linalg.norm(A[:, None] - B, axis=2)}, X),
        }
        parameters, data = kernels[indefinite]
        with pytest.raises(IndefiniteKernelError, match="indefinite"):
            make(**parameters).fit(data, y)

    def test_rank_limit_warns_with_the_error(self, make):
        X, y, _ = wild_people(300)
        with pytest.warns(ApproximationWarning, match=r"limit of 20 leaves 0\.\d+ of the kernel's trace out") as said:
            fitted = make(max_rank=20).fit(X, y)
        assert f"{fitted.approximation_error_:.2g}" in str(said[0].message)
        assert fitted.rank_ == 20

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"kernel": "laplace"}, "kernel must be one of"),
            ({"gamma": "big"}, "gamma must be"),
            ({"gamma": -1.0}, "gamma must be positive"),
            ({"gamma": np.nan}, "gamma must be finite"),
            ({"degree": 0, "kernel": "poly"}, "degree must be positive"),
            ({"coef0": "1"}, "coef0 must be a number"),
            ({"max_rank": 0}, "max_rank must be positive"),
            ({"max_rank": 2.5}, "max_rank must be a whole number"),
            ({"indefinite": "ignore"}, "indefinite must be 'error' or 'clip'"),
            ({"kernel": lambda A, B: np.ones(3)}, "must return a matrix of shape"),
            ({"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, "not finite"),
        ],
    )
    def test_bad_parameters(self, make, parameters, message):
        X, y, _ = people(50)
        with pytest.raises(ValueError, match=message):
            make(**parameters).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"approximation_tol": -1.0}, "approximation_tol must be at least 0"),
        ({"approximation_tol": 1.0}, "approximation_tol must be at least 0 and less than 1"),
        ({"refine": "yes"}, "refine must be"),
        ({"refine": True, "C": np.inf}, "refine=True needs a finite C"),
        ({"refine": True, "indefinite": "clip"}, "refine=True needs"),
    ],
)
def test_bad_parameters_of_the_classifier(parameters, message):
    X, y, _ = people(50)
    with pytest.raises(ValueError, match=message):
        FairSVC(constraint=None, **parameters).fit(X, y)


@quiet
def test_indefinite_kernel_clipped():
    X, y, z = wild_people(150)
    K = np.tanh(X @ X.T)
    values, vectors = np.linalg.eigh(K)
    assert values[0] < -1
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    clf = FairSVC(kernel="precomputed", indefinite="clip", approximation_tol=0.0, max_rank=150, tol=1e-8)
    clf.fit(K, y, sensitive_features=z)
    value, _ = conic(positive, y, z, 0.0)
    assert clf.certificate_.objective == pytest.approx(value, rel=1e-5)
    assert abs(np.cov(z, clf.decision_function(K), bias=True)[0, 1]) < 1e-8
    with pytest.raises(IndefiniteKernelError, match="no positive part"):
        positive_part(PrecomputedGram(-np.eye(9)), 0.0, 9, np.random.RandomState(0))


def test_sensitive_feature_in_the_data_is_refused():
    X, y, z = people(100)
    with pytest.raises(ValueError, match="disparate treatment"):
        FairSVC().fit(np.column_stack([X, z]), y, sensitive_features=z)
    with pytest.raises(ValueError, match="needs sensitive_features"):
        FairSVC().fit(X, y)


def test_not_fitted():
    with pytest.raises(NotFittedError):
        FairSVC().predict(np.ones((2, 2)))
