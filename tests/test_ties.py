"""Nobody's decision hangs on the last digit: ties at the boundary are settled, the same on every machine.

A table of whole-number codes has many equal rows, and a linear SVM on it puts whole groups of equal people exactly on
the boundary. Each case is fitted in a process per BLAS kernel and number of threads, on shuffled rows, and read from
a saved model; all of them must accept the same people.
"""

import functools
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import fairmargin
from fairmargin import (
    CovarianceBound,
    CovariancePenalty,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    IndividualLossBound,
    LossBound,
    PerformanceBound,
    PRuleBound,
    datasets,
    io,
    p_rule,
)
from recompute import EPS, faults

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning"),
    pytest.mark.filterwarnings("ignore::fairmargin.SmallGroupWarning"),
]
LOSSES = ("logistic", "hinge", "squared_hinge", "smoothed_hinge")
CONSTRAINTS = {
    "none": None,
    "zero": CovarianceBound(0.0),
    "half": CovarianceBound(0.5, relative=True),
    "loss 2%": LossBound(0.02),
    "loss 0.5%": LossBound(0.005),
    "loss sum": LossBound(0.005, norm="sum"),
    "p-rule": PRuleBound(80),
    "individual": IndividualLossBound(0.5),
    "keep": IndividualLossBound(keep_positive="accepted"),
}
FEW = {"individual": 1500, "keep": 1500}  # promises are made one by one
TABLES = {"adult": "load_adult", "bank": "load_bank", "compas": "load_compas"}
# Kernels that every x86-64 processor of the last ten years can run; the last one where it has AVX-512.
KERNELS = [("Prescott", 1), ("Prescott", 2), ("Haswell", 1), ("Haswell", 2), ("Zen", 1), ("SkylakeX", 1)]


def codes(n=6000, seed=0):
    """Return one-hot codes, labels and sex of n people, of whom under 900 are different."""
    r = np.random.default_rng(seed)
    sex = r.integers(0, 2, n)
    age = r.integers(0, 6, n)
    school = np.clip(r.integers(0, 4, n) + (sex & (r.random(n) < 0.3)), 0, 4)
    job, married, size = r.integers(0, 5, n), (r.random(n) < 0.4 + 0.2 * sex).astype(int), r.integers(1, 4, n)
    X = np.column_stack([np.eye(6)[age], np.eye(5)[school], np.eye(5)[job], married, size]).astype(float)
    score = 0.5 * (school - 2) + 0.4 * (job - 2) + 0.6 * married + 0.3 * (age - 3) + 0.5 * sex
    return X, (score + r.logistic(size=n) > 0.6).astype(int), sex


@functools.cache
def table(source, name):
    """Return the people that a case is about: made-up codes or real ones."""
    if source == "codes":
        return codes(FEW.get(name, 6000))
    data = getattr(datasets, TABLES[source])(encoded=True)
    rows = np.sort(np.random.default_rng(0).permutation(len(data.target))[: FEW.get(name)])
    sensitive = data.sensitive_features.iloc[:, 0].astype(str).to_numpy()
    return np.asarray(data.data, dtype=float)[rows], np.asarray(data.target)[rows], sensitive[rows]


def fit(loss, name, order=None, source="codes"):
    X, y, z = table(source, name)
    order = np.arange(len(y)) if order is None else order
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FairMarginClassifier(loss, constraint=CONSTRAINTS[name])
        return model.fit(X[order], y[order], sensitive_features=z[order])


def accepted(model, name, source="codes"):
    X, _, _ = table(source, name)
    return np.packbits(model.predict(X) == 1).tobytes().hex()


def all_decisions(source="codes"):
    """Return the decisions of every case, as a process of its own prints them."""
    cases = [(loss, name) for loss in LOSSES for name in CONSTRAINTS]
    return {f"{loss} {name}": accepted(fit(loss, name, None, source), name, source) for loss, name in cases}


@functools.cache
def decisions_under(kernel, threads, source="codes"):
    if kernel == "SkylakeX" and "avx512f" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX-512")
    paths = [str(Path(fairmargin.__file__).parents[1]), str(Path(__file__).parent)]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "OPENBLAS_CORETYPE": kernel,
        "OPENBLAS_NUM_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
    }
    code = f"import json, test_ties; print(json.dumps(test_ties.all_decisions({source!r})))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@functools.cache
def fitted(loss, name, source="codes"):
    return fit(loss, name, None, source)


def changed(here, there):
    """Return how many people two sets of decisions decide differently, by case, where there are any."""
    assert here.keys() == there.keys()
    counts = {case: different(here[case], there[case]) for case in here}
    return {case: n for case, n in counts.items() if n}


@functools.cache
def decisions_here(source="codes"):
    cases = [(loss, name) for loss in LOSSES for name in CONSTRAINTS]
    return {f"{loss} {name}": accepted(fitted(loss, name, source), name, source) for loss, name in cases}


def different(first, second):
    a, b = (np.unpackbits(np.frombuffer(bytes.fromhex(s), np.uint8)) for s in (first, second))
    return int(np.sum(a != b))


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "threads"), KERNELS)
def test_every_blas_kernel_decides_the_same(kernel, threads):
    """Of 12,000 people 4,372 were accepted under one kernel and 3,987 under another."""
    assert changed(decisions_here(), decisions_under(kernel, threads)) == {}


@pytest.mark.heavy
@pytest.mark.data
@pytest.mark.parametrize("source", TABLES)
@pytest.mark.parametrize(("kernel", "threads"), [("Prescott", 1), ("Haswell", 2), ("SkylakeX", 1)])
def test_every_blas_kernel_decides_the_same_on_real_data(source, kernel, threads):
    assert changed(decisions_here(source), decisions_under(kernel, threads, source)) == {}


@pytest.mark.heavy
@pytest.mark.data
@pytest.mark.parametrize("source", TABLES)
def test_shuffled_rows_decide_the_same_on_real_data(source):
    moved = {}
    for loss in LOSSES:
        for name in CONSTRAINTS:
            order = np.random.default_rng(1).permutation(len(table(source, name)[1]))
            moved[f"{loss} {name}"] = accepted(fit(loss, name, order, source), name, source)
    assert changed(decisions_here(source), moved) == {}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_no_score_is_zero_but_for_rounding(loss, name):
    X, y, z = table("codes", name)
    model = fitted(loss, name)
    scores = model.decision_function(X)
    # Between machines scores differ by the rounding of some 20 terms and by the solver's last steps.
    size = np.abs(X) @ np.abs(model.coef_[0]) + abs(model.intercept_[0])
    near = np.abs(scores) <= 1e4 * EPS * size
    assert int(near.sum()) == 0
    if model.certificate_.status == "solved":
        assert faults(model, X, y, sensitive_features=z) == []


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_shuffled_rows_decide_the_same(loss, name):
    order = np.random.default_rng(1).permutation(len(table("codes", name)[1]))
    assert different(accepted(fit(loss, name, order), name), accepted(fitted(loss, name), name)) == 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_saved_model_decides_the_same(loss, name, tmp_path):
    io.save(fitted(loss, name), tmp_path / "model.json")
    loaded = io.load(tmp_path / "model.json")
    assert different(accepted(loaded, name), accepted(fitted(loss, name), name)) == 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_person_is_decided_the_same_alone_and_in_company(loss, name):
    """A matrix product may sum in another order for one row than for many; equal people are decided equally."""
    X, _, _ = table("codes", name)
    model = fitted(loss, name)
    together = model.predict(X)
    rows, first, inverse = np.unique(X, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(together, together[first][inverse.ravel()])
    alone = np.concatenate([model.predict(row[None, :]) for row in rows])
    np.testing.assert_array_equal(alone, together[first])
    np.testing.assert_array_equal(model.predict(np.asfortranarray(X)), together)
    np.testing.assert_array_equal(model.predict(X[::-1])[::-1], together)


@pytest.mark.parametrize("name", ["none", "zero", "p-rule", "keep"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smoothed_hinge"])
def test_ties_of_few_people_with_weights(loss, name):
    """Where many losses have a corner at the optimum, a wide margin would cost more than the certificate allows."""
    for seed in range(5):
        r = np.random.default_rng([77, seed])
        X, z = r.integers(0, 4, (60, 4)).astype(float), r.integers(0, 2, 60)
        y = (X @ r.normal(size=4) + 0.4 * z + r.logistic(size=60) > X.mean()).astype(int)
        y[:4], z[:4] = (0, 1, 0, 1), (0, 0, 1, 1)
        weight, order = r.integers(1, 4, 60).astype(float), r.permutation(60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = [
                FairMarginClassifier(loss, constraint=CONSTRAINTS[name]).fit(
                    X[rows], y[rows], sample_weight=weight[rows], sensitive_features=z[rows]
                )
                for rows in (np.arange(60), order)
            ]
        first, second = models
        np.testing.assert_array_equal(first.predict(X), second.predict(X), err_msg=f"seed {seed}")
        size = np.abs(X) @ np.abs(first.coef_[0]) + abs(first.intercept_[0])
        assert not np.any(np.abs(first.decision_function(X)) <= 1e4 * EPS * size), f"seed {seed}"
        assert first.n_ties_ == second.n_ties_


@pytest.mark.parametrize("n", [300, 600, 1200])
@pytest.mark.parametrize("constraint", [None, CovarianceBound(0.0), CovarianceBound(0.5, relative=True)])
def test_ties_without_an_intercept(constraint, n):
    """The coefficients move instead, in a direction that no covariance sees; people without features stay at zero."""
    X, y, z = codes(n)
    X[:5] = 0.0
    order = np.random.default_rng(n).permutation(n)
    first, second = (
        FairMarginClassifier("hinge", constraint=constraint, fit_intercept=False).fit(
            X[rows], y[rows], sensitive_features=z[rows]
        )
        for rows in (np.arange(n), order)
    )
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    assert first.n_ties_ == second.n_ties_ >= 5
    scores = first.decision_function(X)
    assert np.all(scores[:5] == 0.0)
    assert not np.any(np.abs(scores[5:]) <= 1e4 * EPS * (X[5:] @ np.abs(first.coef_[0])))
    assert first.certificate_.status == "solved"


@pytest.mark.parametrize("loss", LOSSES)
def test_settled_ties_keep_every_promise_and_rule(loss):
    X, y, z = codes()
    assert p_rule(y, fitted(loss, "p-rule").predict(X), sensitive_features=z) >= 80
    X, y, z = table("codes", "keep")
    free = FairMarginClassifier(loss, constraint=None).fit(X, y)
    assert np.all(fitted(loss, "keep").predict(X)[free.predict(X) == 1] == 1)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [1e-4, 1.0, np.inf])
@pytest.mark.parametrize(
    "constraint",
    [CovarianceBound(0.0), CovarianceBound(0.0, notion="error_rate"), CovariancePenalty(1e9)],
    ids=["zero", "errors", "price"],
)
def test_constraints_that_leave_zero_scores_decide_the_same(loss, intercept, C, constraint):
    """Five groups and two features leave only constant classifiers; their scores once were 1e-30, of either sign."""
    r = np.random.default_rng(3)
    X, y, z = r.normal(size=(80, 2)), np.arange(80) % 2, np.array(list("abcde"))[r.integers(0, 5, 80)]
    decisions = []
    for order in (np.arange(80), r.permutation(80), np.arange(80)[::-1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = FairMarginClassifier(loss, C=C, constraint=constraint, fit_intercept=intercept)
            model.fit(X[order], y[order], sensitive_features=z[order])
        assert model.certificate_.status == "solved"
        if np.abs(model.decision_function(X)).max() < 1e-6:  # a smoothed hinge leaves the intercept undetermined
            assert model.n_ties_ == 80
            assert model.predict(X).all()  # a score of zero accepts
        decisions.append(model.predict(X))
    np.testing.assert_array_equal(decisions[1], decisions[0])
    np.testing.assert_array_equal(decisions[2], decisions[0])


@pytest.mark.parametrize("C", [1e3, 1e5, 1e7])
@pytest.mark.parametrize("seed", range(6))
def test_a_large_weight_of_the_losses_does_not_hide_ties(C, seed):
    """The rounding of multipliers of size C was that of the scores: 75 of 200 people were decided by it."""
    r = np.random.default_rng(seed)
    sizes = r.integers([50, 10, 40, 40, 10, 50], [60, 20, 50, 50, 20, 60])  # by code and class
    X = np.repeat([0.0, 0.0, 1.0, 1.0, 2.0, 2.0], sizes)[:, None]
    y = np.repeat([0, 1, 0, 1, 0, 1], sizes)
    model = FairMarginClassifier("hinge", C=C, constraint=None).fit(X, y)
    np.testing.assert_allclose([model.coef_[0, 0], model.intercept_[0]], [1.0, -1.0], atol=1e-6)
    assert model.n_ties_ == np.sum(X == 1.0)
    assert model.predict(X[X[:, 0] == 1.0]).all()


@pytest.mark.parametrize("seed", [2, 8, 21, 48, 51, 58])
def test_ties_without_an_intercept_that_cannot_be_raised_alike(seed):
    """More different rows than columns: once left at scores of 1e-16, of either sign."""
    r = np.random.default_rng(seed)
    X = r.integers(0, 3, (40, 4)).astype(float)
    y = (X @ np.array([1.0, 0.5, -0.5, -1.0]) + r.logistic(size=40) > 0).astype(int)
    order = r.permutation(40)
    first, second = (
        FairMarginClassifier("hinge", C=100.0, constraint=None, fit_intercept=False).fit(X[rows], y[rows])
        for rows in (np.arange(40), order)
    )
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    size = X @ np.abs(first.coef_[0])
    near = (np.abs(first.decision_function(X)) <= 1e4 * EPS * size) & (size > 0)
    assert not np.any(near)
    assert first.certificate_.status == "solved"


@pytest.mark.parametrize("seed", [1, 6, 20, 23, 31, 36])
def test_a_bound_on_accuracy_counts_ties_as_they_are_decided(seed):
    """It counted them by their rounding: 13 of 300 people were tied, and the bound was broken on some processors."""
    r = np.random.default_rng(seed)
    z = r.choice(list("abc"), 300)
    X = r.integers(0, 4, size=(300, 3)) + 0.5 * (z == "a")[:, None]
    y = (X.sum(axis=1) + 3 * r.normal(size=300) > 6).astype(int)
    free = FairMarginClassifier("hinge", constraint=None).fit(X, y)
    model = FairMarginClassifier("hinge", constraint=PerformanceBound(0.02)).fit(X, y, sensitive_features=z)
    assert model.unconstrained_performance_ == pytest.approx(free.score(X, y))
    assert model.performance_ == pytest.approx(model.score(X, y))
    assert model.performance_ >= 0.98 * free.score(X, y) - 1e-9


@pytest.mark.parametrize(
    "constraint", [None, CovarianceBound(10.0), CovarianceBound(0.01)], ids=["none", "loose", "tight"]
)
@pytest.mark.parametrize(("low", "high"), [(0, 5), (-2, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_ties_without_an_intercept_do_not_depend_on_the_order_of_rows(seed, low, high, constraint):
    """Bounds that do not bind, and people with opposite features, once left them to rounding."""
    r = np.random.default_rng(seed)
    X = r.integers(low, high, (120, 2)) * 0.1
    y = (X[:, 0] - X[:, 1] + 0.1 * r.normal(size=120) > 0).astype(int)
    z, order = np.array(list("abc"))[r.integers(0, 3, 120)], r.permutation(120)
    decisions = []
    for rows in (np.arange(120), order):
        model = FairLinearSVC(C=10.0, fit_intercept=False, constraint=constraint)
        model.fit(X[rows], y[rows], sensitive_features=z[rows])
        assert model.n_ties_ > 0
        decisions.append(model.predict(X))
    np.testing.assert_array_equal(*decisions)


def test_features_of_zeros_without_an_intercept_and_without_a_penalty():
    model = FairLogisticRegression(C=np.inf, fit_intercept=False)
    model.fit(np.zeros((100, 2)), np.arange(100) % 2, sensitive_features=np.arange(100) % 3 > 0)
    np.testing.assert_array_equal(model.coef_, [[0.0, 0.0]])
    assert model.certificate_.status == "solved"
