"""A p%-rule as the target: reached on the training decisions, or said that it is not."""

import os
import platform
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from fairmargin import (
    CategoryEncoder,
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairSVC,
    InfeasibleError,
    LossBound,
    PRuleBound,
    SmallGroupWarning,
    TrivialClassifierWarning,
    p_rule,
)
from fairmargin.datasets import make_linear_synthetic, make_nonlinear_synthetic
from fairmargin.formulations.prule import search
from fairmargin.formulations.prule.families import CovarianceFamily, DecisionFamily, Prices
from fairmargin.tolerances import NEAR
from test_loss_bound import real_sample

quiet = pytest.mark.filterwarnings("ignore::fairmargin.SmallGroupWarning", "ignore::fairmargin.CovarianceWarning")


def people(n=1500, groups=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    z = np.digitize(X[:, 0] + rng.normal(size=n), np.linspace(-1, 1, groups - 1) if groups > 2 else [0.0])
    y = (X[:, 0] + X[:, 1] + rng.normal(size=n) > 0.5).astype(int)
    return X, y, z.astype(str)


@quiet
@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
@pytest.mark.parametrize("path", ["auto", "covariance", "decisions"])
@pytest.mark.parametrize("p", [60, 80, 95])
def test_the_rule_is_reached_on_the_training_decisions(estimator, path, p):
    X, y, z = people()
    clf = estimator(constraint=PRuleBound(p, path=path)).fit(X, y, sensitive_features=z)
    reached = p_rule(y, clf.predict(X), sensitive_features=z)
    assert reached >= p
    assert clf.p_rule_ == pytest.approx(reached)
    assert path in ("auto", clf.path_)
    assert clf.path_point_ is not None


@quiet
@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
@pytest.mark.parametrize("path", ["covariance", "decisions"])
@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_too_few_iterations_are_never_called_solved(estimator, path, max_iter):
    X, y, z = people(400)
    clf = estimator(constraint=PRuleBound(90, path=path), max_iter=max_iter)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y, sensitive_features=z)
    assert p_rule(y, clf.predict(X), sensitive_features=z) >= 90
    proof = clf.path_certificate_
    assert clf.certificate_.status == proof.status
    assert (proof.status == "solved") == (proof.gap <= clf.tol)
    if proof.status != "solved":
        assert proof.status == "iteration limit"
        assert any(issubclass(w.category, ConvergenceWarning) for w in caught)
    if max_iter == 1:
        assert proof.status == "iteration limit"


@quiet
@pytest.mark.parametrize(("family", "low", "high"), [(CovarianceFamily, -1.0, 1.0), (Prices, 0.0, 2.5)])
def test_the_search_stays_within_its_family(monkeypatch, family, low, high):
    """Beyond the last point of the grid it went on in steps of one size, to negative prices and past factor 1."""
    points, at = [], family.at
    monkeypatch.setattr(family, "at", lambda self, t: points.append(t) or at(self, t))
    X, y, z = people(seed=2)
    free = FairLogisticRegression(constraint=None).fit(X, y, sensitive_features=z)
    path = "covariance" if family is CovarianceFamily else "decisions"
    rule = PRuleBound(p_rule(y, free.predict(X), sensitive_features=z) + 1.0, path=path)  # the best is near no rule
    FairLogisticRegression(constraint=rule).fit(X, y, sensitive_features=z)
    assert len(points) > 5
    assert low < min(points) <= max(points) < high


@quiet
def test_auto_takes_the_more_accurate_path():
    X, y, z = people(seed=1)
    scores = {
        path: FairLogisticRegression(constraint=PRuleBound(90, path=path)).fit(X, y, sensitive_features=z).score(X, y)
        for path in ("auto", "covariance", "decisions")
    }
    assert scores["auto"] == max(scores.values())


@quiet
def test_of_many_people_covariances_are_searched_only_where_prices_lead_to_nothing(monkeypatch):
    X, y, z = people()
    monkeypatch.setattr(search, "_QUICK", 0.0)
    monkeypatch.setattr(search, "_look_along_line", None)  # cannot be called
    auto = FairLogisticRegression(constraint=PRuleBound(80)).fit(X, y, sensitive_features=z)
    alone = FairLogisticRegression(constraint=PRuleBound(80, path="decisions")).fit(X, y, sensitive_features=z)
    np.testing.assert_array_equal(auto.coef_, alone.coef_)
    assert auto.path_ == "decisions"


@quiet
def test_finalists_in_several_prices_are_solved_closely(monkeypatch):
    X, y, z = people(groups=4)
    monkeypatch.setattr(search, "_QUICK", 0.0)
    seen = []
    priced = DecisionFamily.priced
    monkeypatch.setattr(DecisionFamily, "priced", lambda self, u: seen.append(self.task.tol) or priced(self, u))
    clf = FairLogisticRegression(constraint=PRuleBound(90)).fit(X, y, sensitive_features=z)
    assert clf.p_rule_ >= 90
    assert seen[0] == NEAR
    assert seen[-1] == search._CLOSE


@quiet
@pytest.mark.parametrize("method", ["one_vs_rest", "between_groups"])
def test_many_groups_and_several_attributes(method):
    X, y, z = people(4000, groups=4)
    other = np.where(X[:, 1] + np.random.default_rng(1).normal(size=len(y)) > 0, "a", "b")
    both = {"first": z, "second": other}
    clf = FairLogisticRegression(constraint=PRuleBound(75, method=method)).fit(X, y, sensitive_features=both)
    assert p_rule(y, clf.predict(X), sensitive_features=both, method=method) >= 75


@quiet
def test_weights_count_as_people():
    X, y, z = people(800)
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    weighted = FairLogisticRegression(constraint=PRuleBound(80)).fit(X, y, sample_weight=weight, sensitive_features=z)
    repeated = FairLogisticRegression(constraint=PRuleBound(80)).fit(X[rows], y[rows], sensitive_features=z[rows])
    assert p_rule(y, weighted.predict(X), sensitive_features=z, sample_weight=weight) >= 80
    assert weighted.p_rule_ == pytest.approx(repeated.p_rule_, abs=1.0)


@quiet
def test_a_rule_that_holds_already_changes_nothing():
    X, y, z = people(seed=2)
    free = FairLogisticRegression(constraint=None).fit(X, y)
    clf = FairLogisticRegression(constraint=PRuleBound(5)).fit(X, y, sensitive_features=z)
    assert clf.path_ == "unconstrained"
    np.testing.assert_allclose(clf.coef_, free.coef_, rtol=1e-8)


@quiet
@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
def test_where_the_rule_does_not_bind_the_cut_is_moved_all_the_same(estimator):
    """Three in four are positive: the unconstrained intercept is not the most accurate one."""
    X, _, z = people(1200, seed=3)
    y = (X[:, 1] + 0.4 * np.abs(X[:, 2]) ** 3 + np.random.default_rng(0).normal(size=len(X)) > -0.3).astype(int)
    free = estimator(constraint=None).fit(X, y)
    clf = estimator(constraint=PRuleBound(20)).fit(X, y, sensitive_features=z)
    assert clf.path_ == "unconstrained"
    np.testing.assert_allclose(clf.coef_, free.coef_, rtol=1e-8)
    assert clf.score(X, y) > free.score(X, y)
    assert p_rule(y, clf.predict(X), sensitive_features=z) >= 20
    # Class weights say that accuracy is not what is wanted: then the unconstrained classifier stays as it is.
    weighted = estimator(constraint=PRuleBound(20), class_weight="balanced").fit(X, y, sensitive_features=z)
    assert weighted.intercept_shift_ == 0


@quiet
def test_a_hinge_loss_that_accepts_nearly_everybody_is_searched_on():
    """The support vector machine accepts everybody where few are negative; the rounded corners still rank people."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    z = np.where(rng.random(4000) < 0.5, "a", "b")
    y = (X[:, 0] + 1.5 * rng.normal(size=4000) > -3.2).astype(int)
    free = FairLinearSVC(constraint=None).fit(X, y)
    assert free.predict(X).mean() > 0.999
    constant = max(y.mean(), 1 - y.mean())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = FairLinearSVC(constraint=PRuleBound(80)).fit(X, y, sensitive_features=z)
    nearly = max(clf.predict(X).mean(), 1 - clf.predict(X).mean()) > 0.995
    assert any(issubclass(w.category, TrivialClassifierWarning) for w in caught) == (
        nearly or clf.score(X, y) <= constant
    )
    assert clf.score(X, y) >= constant


@quiet
def test_zero_covariance_is_not_a_hundred_percent_rule():
    X, y, z = make_linear_synthetic(phi=np.pi / 4, random_state=0)
    X = X**3  # skewed: means and medians differ
    zero = FairLogisticRegression(constraint=CovarianceBound(0.0)).fit(X, y, sensitive_features=z)
    asked = FairLogisticRegression(constraint=PRuleBound(99)).fit(X, y, sensitive_features=z)
    assert p_rule(y, zero.predict(X), sensitive_features=z) < 99
    assert p_rule(y, asked.predict(X), sensitive_features=z) >= 99


def divided():
    """One feature that tells the group apart: no threshold but the trivial ones treats both alike."""
    z = np.repeat([0, 1], 50)
    X = np.where(z == 1, 1.0, -1.0)[:, None] + np.linspace(0, 0.1, 100)[:, None]
    y = np.r_[np.zeros(48), np.ones(2), np.ones(50)].astype(int)
    return X, y, np.where(z == 1, "a", "b")


@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
def test_deciding_the_same_for_everybody_is_the_last_resort_and_never_silent(estimator):
    X, y, z = divided()
    clf = estimator(constraint=PRuleBound(99))
    with pytest.warns(TrivialClassifierWarning, match="found for the 99%-rule accepts everybody"):
        clf.fit(X, y, sensitive_features=z)
    assert clf.predict(X).all()
    assert clf.predict([[-1.5], [1.5]]).all()  # others, too
    assert clf.p_rule_ == 100.0
    with pytest.warns(TrivialClassifierWarning, match="found for the 99%-rule refuses everybody"):
        estimator(constraint=PRuleBound(99)).fit(X, 1 - y, sensitive_features=z)


def test_what_cannot_be_reached_is_an_error():
    X, y, z = divided()
    clf = FairLogisticRegression(constraint=PRuleBound(99), fit_intercept=False)
    with pytest.raises(InfeasibleError, match="No classifier on the 'auto' path reaches a 99%-rule"):
        clf.fit(X, y, sensitive_features=z)
    assert not hasattr(clf, "coef_")


def test_no_better_than_a_constant_is_not_silent():
    """The rule holds without any constraint, by a classifier that is worse than refusing everybody."""
    X = np.r_[np.zeros(80), np.ones(20), 9.0][:, None]
    y = np.r_[np.zeros(80), [0, 1] * 10, 0].astype(int)
    z = np.array(list("ab") * 50 + ["a"])
    clf = FairLogisticRegression(constraint=PRuleBound(20), class_weight={0: 1, 1: 4}, C=100.0)
    with pytest.warns(TrivialClassifierWarning, match="no better than deciding the same for everybody"):
        clf.fit(X, y, sensitive_features=z)
    assert clf.path_ == "unconstrained"
    assert clf.intercept_shift_ == 0


@pytest.mark.parametrize("asked", [PRuleBound(50), PRuleBound(difference=0.4)])
def test_small_groups_that_are_all_accepted_are_warned_of(asked):
    """The rate of one person is 0 or 1, and its standard error as estimated zero."""
    X, y, z = people(1500)
    z = np.where(np.arange(len(z)) == np.argmax(X[:, 0] + X[:, 1]), "single", z)
    with pytest.warns(SmallGroupWarning, match=r"'single' \(1 person\)"):
        FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=z)


def test_small_groups_are_warned_of():
    X, y, z = people(1500)
    z = np.where(np.arange(len(z)) < 30, "rare", z)
    with pytest.warns(SmallGroupWarning, match="rare"):
        FairLogisticRegression(constraint=PRuleBound(80)).fit(X, y, sensitive_features=z)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SmallGroupWarning)
        warnings.filterwarnings("ignore", message="The covariance with")
        X, y, z = people(6000)
        FairLogisticRegression(constraint=PRuleBound(60)).fit(X, y, sensitive_features=z)


@pytest.mark.slow
@quiet
@pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning")
@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
def test_the_rates_of_small_groups_are_smoothed_if_asked(estimator):
    """Forty people whose noise would cost everybody else: smoothed, the rule costs less and holds for the others."""
    rng = np.random.default_rng(0)
    X, y, z = people(3000, seed=5)
    z = np.where(np.arange(3000) < 40, "rare", z)
    y[:40] = rng.random(40) < 0.1
    X[:40, 1] -= 2.0
    plain = estimator(constraint=PRuleBound(85)).fit(X, y, sensitive_features=z)
    smooth = estimator(constraint=PRuleBound(85, smooth_below=1000)).fit(X, y, sensitive_features=z)
    assert smooth.score(X, y) > plain.score(X, y)
    assert smooth.p_rule_ == pytest.approx(p_rule(y, smooth.predict(X), sensitive_features=z))
    assert plain.p_rule_ >= 85 > smooth.p_rule_
    accepted = smooth.predict(X) == 1
    rates = [accepted[z == g].mean() for g in ("0", "1")]
    assert min(rates) / max(rates) >= 0.80
    with pytest.raises(ValueError, match="smooth_below must be"):
        PRuleBound(80, smooth_below=0.5)


def small_problem(seed):
    """Some 20 to 60 people with two or three features, at times with ties and outliers, in two or three groups."""
    rng = np.random.default_rng(seed)
    n, d, groups = int(rng.integers(20, 61)), int(rng.integers(2, 4)), 2 if rng.random() < 0.7 else 3
    X = rng.normal(size=(n, d)) ** rng.choice([1, 1, 1, 3])
    X = X.round() if rng.random() < 0.3 else X
    near = rng.normal() * X[:, 0] + rng.choice([0.5, 1, 2]) * rng.normal(size=n)
    z = np.digitize(near, np.quantile(near, [0.5] if groups == 2 else [0.4, 0.75]))
    noise = rng.choice([0.3, 1, 2]) * rng.normal(size=n)
    y = X @ rng.normal(size=d) + rng.choice([0, 0.5, 2]) * (z == 1) + 0.7 * rng.normal() + noise > 0
    if y.all() or not y.any():
        y[0] = not y[0]
    parameters = {"C": float(rng.choice([0.01, 1, 100]))}
    return X, y.astype(int), z.astype(str), float(rng.choice([70, 80, 90, 95, 100])), parameters


def directions(d):
    """Unit vectors: a fine grid of the circle, or of the sphere."""
    if d == 2:
        angle = np.linspace(0, 2 * np.pi, 720, endpoint=False)
        return np.column_stack([np.cos(angle), np.sin(angle)])
    place = np.arange(4000) + 0.5
    height, turn = 1 - place / 2000, np.pi * (1 + np.sqrt(5)) * place
    across = np.sqrt(1 - height**2)
    return np.column_stack([across * np.cos(turn), across * np.sin(turn), height])


def best_linear_rule(X, y, z, p):
    """The accuracy of the best of all cuts along all directions that keep the rule, constant decisions included."""
    scores = directions(X.shape[1]) @ X.T
    order = np.argsort(-scores, axis=1)
    ranked = np.take_along_axis(scores, order, axis=1)
    accuracy = (np.cumsum((2 * y - 1)[order], axis=1) + np.sum(y == 0)) / len(y)
    least = np.full(scores.shape, np.inf)
    accepted = np.arange(1, len(y) + 1)
    for group in np.unique(z):
        inside = np.cumsum((z == group)[order], axis=1)
        rate, rest = inside / np.sum(z == group), (accepted - inside) / np.sum(z != group)
        least = np.minimum(least, np.minimum(rate, rest) / np.maximum(rate, rest))
    valid = (100 * least >= p)[:, :-1] & (ranked[:, :-1] - ranked[:, 1:] > 1e-6)
    return max(np.mean(y), np.mean(1 - y), np.max(accuracy[:, :-1][valid], initial=0.0))


def shortfalls(seeds):
    """Check what must always hold; return by how much each fit under a binding rule misses the best linear rule."""
    short = []
    for seed in seeds:
        X, y, z, p, parameters = small_problem(seed)
        constant = max(np.mean(y), np.mean(1 - y))
        best = best_linear_rule(X, y, z, p)
        for estimator in (FairLogisticRegression, FairLinearSVC):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                clf = estimator(**parameters, constraint=PRuleBound(p)).fit(X, y, sensitive_features=z)
                accuracy, reached = clf.score(X, y), p_rule(y, clf.predict(X), sensitive_features=z)
            assert reached >= p
            assert clf.p_rule_ == reached
            told = any(issubclass(w.category, TrivialClassifierWarning) for w in caught)
            assert told == (accuracy <= constant + 1e-9)
            if (clf.path_, clf.intercept_shift_) != ("unconstrained", 0.0):
                assert accuracy >= constant - 1e-9
                short.append(best - accuracy)
    return np.array(short)


@pytest.mark.slow
def test_small_problems_against_all_linear_rules():
    short = shortfalls(range(20))
    assert len(short) >= 20
    assert np.mean(short) <= 0.02
    assert np.mean(short > 0.1 + 1e-9) <= 0.05


@pytest.mark.heavy
@pytest.mark.slow
def test_many_small_problems_against_all_linear_rules():
    """Measured on 400 others like these: 1.0 point short on average, over 5 points in 6%, over 10 in 1%."""
    short = shortfalls(range(1000, 1300))
    assert np.mean(short) <= 0.015
    assert np.mean(short > 0.05 + 1e-9) <= 0.09
    assert np.mean(short > 0.1 + 1e-9) <= 0.02


@quiet
@pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning")
@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
@pytest.mark.parametrize("groups", [2, 3])
def test_searching_both_paths_is_never_worse_than_one(estimator, groups):
    for seed in range(4):
        X, y, z = people(200, groups, seed)
        accuracy = {
            path: estimator(constraint=PRuleBound(92, path=path)).fit(X, y, sensitive_features=z).score(X, y)
            for path in ("auto", "covariance", "decisions")
        }
        assert accuracy["auto"] == max(accuracy.values())


DECIDE = """
import hashlib, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from fairmargin import FairLinearSVC, FairLogisticRegression, PRuleBound
from test_p_rule_bound import people
for estimator in (FairLogisticRegression, FairLinearSVC):
    for seed, (n, groups) in enumerate([(300, 2), (300, 3), (3000, 2), (3000, 3)]):
        X, y, z = people(n, groups, seed)
        for decimals in (0, 12):  # whole numbers: many people with the same score
            X = X.round(decimals)
            clf = estimator(constraint=PRuleBound(85)).fit(X, y, sensitive_features=z)
            decided = clf.predict(X)
            print(clf.path_, decided.sum(), hashlib.sha256(decided.tobytes()).hexdigest())
"""


@pytest.mark.heavy
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the kernels are those of x86 processors")
def test_decisions_do_not_depend_on_the_processor():
    """Other BLAS kernels round differently; whom they accept must be the same."""
    told = []
    for kernel in ("Prescott", "Haswell"):
        here = os.path.dirname(__file__)
        path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = os.environ | {"OPENBLAS_CORETYPE": kernel, "PYTHONPATH": path}
        ran = subprocess.run(
            [sys.executable, "-c", DECIDE], env=environment, capture_output=True, text=True, check=True
        )
        told.append(ran.stdout.splitlines())
    assert len(told[0]) == 16
    assert told[0] == told[1]


@pytest.mark.parametrize("p", [-1, 101, float("nan"), "80", None, True])
def test_bad_percentages_are_refused(p):
    with pytest.raises(ValueError, match="percentage from 0 to 100"):
        PRuleBound(p)


def test_shares_are_refused():
    with pytest.raises(ValueError, match="did you mean 80"):
        PRuleBound(0.8)
    with pytest.raises(ValueError, match="path must be"):
        PRuleBound(80, path="short")
    with pytest.raises(ValueError, match="method must be"):
        PRuleBound(80, method="ratio")
    X, y, _ = people(200)
    with pytest.raises(ValueError, match="numeric and has no groups"):
        FairLogisticRegression(constraint=PRuleBound(80)).fit(X, y, sensitive_features=X[:, 0] + X[:, 1])


@quiet
@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(("name", "p", "least"), [("adult", 80, 0.832), ("adult", 95, 0.826), ("bank", 95, 0.905)])
def test_real_data_at_full_size(name, p, least):
    X, y, z = real_sample(name, 31_655)
    clf = FairLogisticRegression(constraint=PRuleBound(p)).fit(X, y, sensitive_features=z)
    assert p_rule(y, clf.predict(X), sensitive_features=z) >= p
    assert clf.score(X, y) >= least


@quiet
@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(("p", "least"), [(90, 0.79), (95, 0.785)])
def test_the_hinge_loss_with_six_groups_on_adult(p, least):
    """Scores of the hinge loss crowd at the margins: it was worse than refusing everybody (0.752)."""
    from fairmargin import datasets

    adult = datasets.load_adult(encoded=True)
    X, y, z = np.asarray(adult.data, dtype=float), np.asarray(adult.target), adult.sensitive_features
    X = X[:, X.std(axis=0) > 0]
    clf = FairLinearSVC(constraint=PRuleBound(p)).fit(X, y, sensitive_features=z[["sex", "race"]])
    assert p_rule(y, clf.predict(X), sensitive_features=z[["sex", "race"]]) >= p
    assert clf.score(X, y) >= least


@pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning")  # of plain accuracy
def test_class_weights_count_where_a_search_is_needed():
    """Cuts and candidates were judged by plain accuracy, which refuses nearly everybody where positives are rare."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 4000)
    X = rng.normal(size=(4000, 4)) + 0.4 * z[:, None]
    y = (X[:, 0] + X[:, 1] + rng.normal(size=4000) > 3.4).astype(int)
    assert y.mean() < 0.1
    recall = {}
    for constraint in (None, PRuleBound(80)):
        model = FairLogisticRegression(constraint=constraint, class_weight="balanced")
        decisions = model.fit(X, y, sensitive_features=z).predict(X)
        recall[constraint] = decisions[y == 1].mean()
    assert model.p_rule_ >= 80
    assert recall[PRuleBound(80)] > 0.7 * recall[None]


def test_a_kernel_proves_nothing_of_functions_outside_its_span():
    X, y, z = make_nonlinear_synthetic(300, random_state=0)
    model = FairSVC(loss="logistic", constraint=LossBound(0.02)).fit(X, y, sensitive_features=z)
    assert model.necessity_ is None


@quiet
@pytest.mark.data
def test_prices_of_many_groups_close_gaps_that_jump_across_the_rule():
    """On all of Adult, by sex and race, the search once gave up at 80%: 76.7% accuracy, less than at 81%."""
    from fairmargin import datasets

    adult = datasets.load_adult()
    X = StandardScaler().fit_transform(np.asarray(CategoryEncoder().fit_transform(adult.data), dtype=float))
    found = {}
    for p in (80, 81):
        clf = FairLogisticRegression(constraint=PRuleBound(p))
        found[p] = clf.fit(X, adult.target, sensitive_features=adult.sensitive_features).score(X, adult.target)
    # Small groups make single people matter: both are searched, and may be off by a standard error of an accuracy.
    assert found[80] >= found[81] - 1.0 / np.sqrt(len(X))
