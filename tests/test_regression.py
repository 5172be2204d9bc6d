"""Fair regression: limits that scikit-learn knows, properties, constraints, errors."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from fairmargin import (
    CalibrationBound,
    CovarianceBound,
    FairRegressor,
    GroupMeansBound,
    InfeasibleError,
    LossBound,
    Membership,
    PRuleBound,
    RegressionFrontier,
)
from fairmargin.exceptions import DisparateTreatmentError, TrivialClassifierWarning
from fairmargin.regression.losses import HuberLoss, PinballEnvelope, SquaredError

pytestmark = pytest.mark.numerical
LOSSES = ["squared_error", "huber", "quantile"]


def people(seed=0, n=400, d=4):
    rng = np.random.default_rng(seed)
    Z = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "race": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])})
    X = rng.normal(size=(n, d)) + 0.6 * (Z["sex"] == "m").to_numpy()[:, None]
    X[:, 0] += 0.8 * (Z["race"] == "c")
    y = 5.0 + X @ np.linspace(1.0, -0.5, d) + rng.standard_t(4, size=n)
    return X, y, Z


def difference(model, X, groups, weight=None):
    f, weight = model.predict(X), np.ones(len(X)) if weight is None else weight
    means = [np.average(f[groups == g], weights=weight[groups == g]) for g in np.unique(groups)]
    return np.ptp(means)


# --- Limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.01, 1.0, 50.0])
def test_without_constraint_it_is_ridge(C):
    X, y, _ = people()
    model = FairRegressor(C, constraint=None).fit(X, y)
    ridge = Ridge(alpha=1 / C).fit(X, y)
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-10)
    assert model.score(X, y) == pytest.approx(ridge.score(X, y), abs=1e-12)


def test_without_penalty_it_is_least_squares():
    X, y, _ = people(1)
    weight = np.random.default_rng(0).uniform(0.1, 3, len(y))
    model = FairRegressor(np.inf, constraint=None).fit(X, y, weight)
    plain = LinearRegression().fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-9)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.85])
def test_quantiles_are_those_of_scikit_learn(q):
    X, y, _ = people(2, 200)
    model = FairRegressor(np.inf, loss="quantile", quantile=q, constraint=None).fit(X, y)
    peer = QuantileRegressor(quantile=q, alpha=0, solver="highs").fit(X, y)
    r = y - peer.predict(X)
    best = np.maximum(q * r, (q - 1) * r).sum()
    assert model.certificate_.objective == pytest.approx(best, rel=1e-9)
    below = np.mean(y < model.predict(X) - 1e-9), np.mean(y <= model.predict(X) + 1e-9)
    assert below[0] <= q <= below[1]


def test_huber_is_between_the_median_and_least_squares():
    X, y, _ = people(3)
    wide = FairRegressor(loss="huber", delta=1e4, constraint=None).fit(X, y)
    np.testing.assert_allclose(wide.coef_, FairRegressor(constraint=None).fit(X, y).coef_, atol=1e-8)
    y[0] = 100.0
    model = FairRegressor(loss="huber", delta=1.0, constraint=None, tol=1e-12).fit(X, y)
    slope = np.clip(y - model.predict(X), -1, 1)
    np.testing.assert_allclose(slope @ X, model.coef_, atol=1e-6)
    assert abs(slope.sum()) < 1e-6


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loose_bound_changes_nothing(loss):
    X, y, Z = people(4)
    free = FairRegressor(loss=loss, constraint=None).fit(X, y)
    for constraint in (CovarianceBound(100.0), GroupMeansBound(100.0), CalibrationBound(100.0)):
        model = FairRegressor(loss=loss, constraint=constraint).fit(X, y, sensitive_features=Z)
        np.testing.assert_allclose(model.coef_, free.coef_, atol=1e-7)
        assert not np.any(model.multipliers_)


def test_pinball_envelope_is_a_moreau_envelope():
    rng = np.random.default_rng(0)
    q, h, t, a, f = 0.3, 0.2, rng.normal(size=20), rng.uniform(-0.7, 0.3, 20), rng.normal(size=20)
    loss, r = PinballEnvelope(t, q, h, a), t - f
    v = np.linspace(-8, 8, 400_001)[:, None]
    least = (np.maximum(q * v, (q - 1) * v) + a * (r - v) + (r - v) ** 2 / (2 * h)).min(axis=0) + h * a**2 / 2
    np.testing.assert_allclose(loss.value(f), least, atol=1e-7)


@pytest.mark.parametrize(
    "make", [SquaredError, lambda t: HuberLoss(t, 0.7), lambda t: PinballEnvelope(t, 0.3, 0.5, 0 * t)]
)
def test_derivatives_match_finite_differences(make):
    rng = np.random.default_rng(0)
    loss, f, step = make(rng.normal(size=50)), rng.normal(size=50), 1e-6
    np.testing.assert_allclose(
        (loss.value(f + step) - loss.value(f - step)) / (2 * step), loss.derivative(f), atol=1e-6
    )
    change = (loss.derivative(f + step) - loss.derivative(f - step)) / (2 * step)
    np.testing.assert_allclose(change, loss.second_derivative(f), atol=1e-5)
    np.testing.assert_allclose(loss.of(slice(3, 9)).value(f[3:9]), loss.value(f)[3:9])


# --- Constraints -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_zero_covariance(loss):
    X, y, Z = people(5)
    model = FairRegressor(loss=loss).fit(X, y, sensitive_features=Z)
    f = model.predict(X)
    for name in Z:
        for group in Z[name].unique():
            assert abs(np.cov((Z[name] == group).astype(float), f)[0, 1]) < 1e-9
    assert np.abs(model.unconstrained_covariance_).max() > 0.05


@pytest.mark.parametrize("loss", LOSSES)
def test_group_means_within_their_bound(loss):
    X, y, Z = people(6)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    model = FairRegressor(loss=loss, constraint=GroupMeansBound({"race": 0.1})).fit(
        X, y, weight, sensitive_features=Z
    )
    assert difference(model, X, Z["race"], weight) == pytest.approx(0.1, abs=1e-7)
    assert difference(FairRegressor(loss=loss, constraint=None).fit(X, y, weight), X, Z["race"], weight) > 0.3
    stated = model.group_means_["race"]
    assert np.ptp(stated) == pytest.approx(difference(model, X, Z["race"], weight), abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_calibration_by_group(loss):
    X, y, Z = people(7)
    model = FairRegressor(loss=loss, constraint=CalibrationBound({"race": 0.0})).fit(X, y, sensitive_features=Z)
    residual = pd.Series(y - model.predict(X)).groupby(Z["race"]).mean()
    assert residual.abs().max() < 1e-9
    np.testing.assert_allclose(model.group_residuals_["race"], residual, atol=1e-12)
    free = FairRegressor(loss=loss, constraint=None).fit(X, y)
    assert pd.Series(y - free.predict(X)).groupby(Z["race"]).mean().abs().max() > 0.01


@pytest.mark.filterwarnings("ignore:Under the constraint the regressor does worse")
def test_several_constraints_at_once():
    X, y, Z = people(8)
    both = [GroupMeansBound({"sex": 0.5}), CalibrationBound({"race": 0.0}), CovarianceBound({"race": 0.2})]
    model = FairRegressor(constraint=both).fit(X, y, sensitive_features=Z)
    assert difference(model, X, Z["sex"]) <= 0.5 + 1e-9
    assert model.group_residuals_["race"].abs().max() < 1e-9
    assert model.covariance_["race"].abs().max() <= 0.2 + 1e-9
    assert set(model.multipliers_.index.get_level_values("quantity")) == {
        "difference of means",
        "mean residual",
        "covariance",
    }


def test_groups_are_compared_within_strata():
    X, y, Z = people(9, d=8)
    Z = Z[["sex"]]
    job = np.where(X[:, 1] + np.random.default_rng(0).normal(size=len(y)) > 0.5, "clerk", "chef")
    for constraint in (CovarianceBound(0.0), GroupMeansBound(0.0)):
        model = FairRegressor(constraint=constraint).fit(X, y, sensitive_features=Z, strata=job)
        for part in ("clerk", "chef"):
            assert difference(model, X[job == part], Z["sex"][job == part]) < 1e-9
        assert difference(model, X, Z["sex"]) > 1e-3


def test_relative_bounds_and_categories():
    X, y, Z = people(10)
    model = FairRegressor(constraint=CovarianceBound(0.3, relative=True)).fit(X, y, sensitive_features=Z)
    share = (model.covariance_ / model.unconstrained_covariance_).abs()
    assert share.max() <= 0.3 + 1e-8
    one = FairRegressor(constraint=CovarianceBound({"race": {"c": 0.0}})).fit(X, y, sensitive_features=Z)
    assert abs(one.covariance_["race", "c"]) < 1e-10 < abs(one.covariance_["race", "a"])


@pytest.mark.parametrize("loss", LOSSES)
def test_multipliers_are_shadow_prices(loss):
    X, y, Z = people(11)
    step, at = 1e-3, 0.2

    def fitted(c):
        return FairRegressor(loss=loss, constraint=GroupMeansBound({"sex": c})).fit(
            100 * X, 50 * y, sensitive_features=Z
        )

    model = fitted(50 * at)
    price = (fitted(50 * (at - step)).certificate_.objective - model.certificate_.objective) / (50 * step)
    assert abs(model.multipliers_.iloc[0]) == pytest.approx(price, rel=0.02)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_least_covariance_within_a_bound_on_the_loss(loss):
    X, y, Z = people(12, 250)
    free = FairRegressor(loss=loss, constraint=None).fit(X, y)
    model = FairRegressor(loss=loss, constraint=LossBound(0.02)).fit(X, y, sensitive_features=Z[["sex"]])
    assert model.certificate_.objective <= 1.02 * free.certificate_.objective * (1 + 1e-8)
    assert 0 < model.factor_ < 1
    fairer = CovarianceBound(0.98 * model.factor_, relative=True)
    beyond = FairRegressor(loss=loss, constraint=fairer).fit(X, y, sensitive_features=Z[["sex"]])
    assert beyond.certificate_.objective > 1.02 * free.certificate_.objective
    assert "no regression of this kind within 2%" in model.necessity_.statement
    assert model.necessity_.columns[0][2] == pytest.approx(abs(model.unconstrained_covariance_.iloc[0]), rel=1e-6)


@pytest.mark.filterwarnings("ignore:Under the constraint the regressor does worse")
def test_membership_known_as_probabilities():
    X, y, Z = people(13)
    sure = pd.get_dummies(Z["race"]).to_numpy(dtype=float)
    groups = Membership(sure, groups=["a", "b", "c"], name="race")
    for constraint in (GroupMeansBound(0.05), CalibrationBound(0.01), CovarianceBound(0.02)):
        one = FairRegressor(constraint=constraint).fit(X, y, sensitive_features=groups)
        two = FairRegressor(constraint=constraint).fit(X, y, sensitive_features=Z[["race"]])
        np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-9)


# --- Data of all kinds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_copies(loss):
    X, y, Z = people(14, 120)
    times = np.random.default_rng(0).integers(0, 4, len(y))
    again = np.repeat(np.arange(len(y)), times)
    for constraint in (GroupMeansBound(0.1), CalibrationBound(0.05)):
        model = FairRegressor(loss=loss, constraint=constraint)
        one = clone(model).fit(X, y, times, sensitive_features=Z)
        two = clone(model).fit(X[again], y[again], sensitive_features=Z.iloc[again])
        assert one.certificate_.objective == pytest.approx(two.certificate_.objective, rel=2e-9)
        np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_sparse_and_wide_data(loss):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 150)) < 0.1, rng.normal(size=(60, 150)), 0.0)
    y, z = 3 + X[:, 0] + rng.normal(size=60), rng.choice(["a", "b"], 60)
    one = FairRegressor(loss=loss).fit(X, y, sensitive_features=z)
    two = FairRegressor(loss=loss).fit(sp.csr_matrix(X), y, sensitive_features=z)
    assert one.certificate_.objective == pytest.approx(two.certificate_.objective, rel=1e-8)
    np.testing.assert_allclose(two.predict(sp.csr_matrix(X)), one.predict(X), atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("unit", "level"), [(1e6, 3e7), (1e-5, 0.0)])
def test_units_of_the_target_do_not_matter(loss, unit, level):
    X, y, Z = people(15, 200)
    # The penalty knows units: without it the functions are the same.
    one = FairRegressor(np.inf, loss=loss, delta=1.0, constraint=GroupMeansBound(0.1)).fit(X, y, sensitive_features=Z)
    two = FairRegressor(np.inf, loss=loss, delta=unit, constraint=GroupMeansBound(0.1 * unit)).fit(
        X, level + unit * y, sensitive_features=Z
    )
    np.testing.assert_allclose((two.predict(X) - level) / unit, one.predict(X), atol=1e-5)


def test_an_exact_fit_is_solved():
    X, _, Z = people(16)
    y = X @ [1.0, 2.0, 3.0, 4.0] + 1
    for loss in LOSSES:
        model = FairRegressor(np.inf, loss=loss, constraint=None).fit(X, y)
        np.testing.assert_allclose(model.coef_, [1, 2, 3, 4], atol=1e-5)
        assert model.certificate_.status == "solved"
    constant = FairRegressor().fit(X, np.full(len(X), 7.0), sensitive_features=Z)
    np.testing.assert_allclose(constant.predict(X), 7.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_without_intercept(loss):
    X, y, Z = people(17)
    model = FairRegressor(loss=loss, fit_intercept=False, constraint=GroupMeansBound(0.1)).fit(
        X, y, sensitive_features=Z
    )
    assert model.intercept_ == 0.0
    assert difference(model, X, Z["sex"]) <= 0.1 + 1e-9


def test_sensitive_attributes_never_predict_and_fits_travel():
    X, y, Z = people(18)
    model = FairRegressor(constraint=[GroupMeansBound(0.1)]).fit(X, y, sensitive_features=Z)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    pd.testing.assert_series_equal(again.multipliers_, model.multipliers_)
    with pytest.raises(TypeError):
        model.predict(X, sensitive_features=Z)
    with pytest.raises(DisparateTreatmentError):
        FairRegressor().fit(np.column_stack([X, Z["sex"] == "m"]), y, sensitive_features=Z)


def test_parameters_of_the_constraint_can_be_set():
    X, y, Z = people(19)
    model = FairRegressor().set_params(constraint__c=0.05, C=2.0)
    assert model.constraint == CovarianceBound(0.05)
    assert model.fit(X, y, sensitive_features=Z).covariance_.abs().max() <= 0.05 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_scikit_learns_own_checks(loss):
    check_estimator(FairRegressor(loss=loss, constraint=None), on_skip=None)


# --- The frontier ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_frontier(loss):
    X, y, Z = people(20, 300)
    X_new, y_new, Z_new = people(21, 300)
    frontier = RegressionFrontier(make_pipeline(StandardScaler(), FairRegressor(loss=loss)), n_points=6)
    frontier.fit(X, y, sensitive_features=Z, eval_set=(X_new, y_new, Z_new))
    table = frontier.table_
    assert table["factor"].tolist() == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.0])
    assert np.all(np.diff(table["objective"]) >= -1e-8 * table["objective"].max())
    assert np.all(np.diff(table["train_covariance"]) < 0)
    assert table["train_mean_difference"].iloc[-1] < 1e-8
    last = frontier.estimators_[-1]
    assert table["test_r2"].iloc[-1] == pytest.approx(last.score(X_new, y_new))
    assert table["test_mae"].iloc[-1] == pytest.approx(np.abs(y_new - last.predict(X_new)).mean())
    alone = FairRegressor(loss=loss, constraint=CovarianceBound(0.4, relative=True))
    alone.fit(StandardScaler().fit_transform(X), y, sensitive_features=Z)
    assert table["objective"].iloc[3] == pytest.approx(alone.certificate_.objective, rel=1e-7)
    assert frontier.select(max_loss_increase=1e9) is last
    assert frontier.select(max_loss_increase=0.0) is frontier.estimators_[0]
    limit = table["train_mean_difference"].iloc[2]
    assert frontier.select(mean_difference=limit) is frontier.estimators_[2]
    with pytest.raises(ValueError, match="exactly one"):
        frontier.select()
    with pytest.raises(ValueError, match=r"max_loss_increase must be zero or positive, got -0\.1"):
        frontier.select(max_loss_increase=-0.1)
    with pytest.raises(ValueError, match="not measured on 'later'"):
        frontier.select(covariance=0.1, on="later")


def test_a_frontier_within_strata_is_measured_within_them():
    X, y, Z = people(9, d=8)
    sex, rng = Z["sex"], np.random.default_rng(0)
    job = np.where(X[:, 1] + rng.normal(size=len(y)) > 0.5, "clerk", "chef")
    weight = rng.integers(1, 4, len(y)).astype(float)
    half = np.arange(len(y)) < 200
    asked = {"sensitive_features": sex, "strata": job}
    part = (X[half], y[half], sex[half], weight[half], job[half])
    frontier = RegressionFrontier(FairRegressor(), n_points=3).fit(X, y, weight, **asked, eval_set=part)
    table = frontier.table_
    largest = table.filter(like="covariance[").abs().max(axis=1)
    np.testing.assert_allclose(table["train_covariance"], largest, rtol=1e-9, atol=1e-12)
    for name, rows in (("train", np.ones(len(y), dtype=bool)), ("test", half)):
        within = [rows & (job == value) for value in ("chef", "clerk")]
        for k, model in enumerate(frontier.estimators_):
            spans = [difference(model, X[r], sex[r], weight[r]) for r in within]
            assert table[f"{name}_mean_difference"][k] == pytest.approx(max(spans), abs=1e-9)
            sizes = [np.cov(model.predict(X[r]), sex[r] == "m", aweights=weight[r], ddof=0)[0, 1] for r in within]
            assert table[f"{name}_covariance"][k] == pytest.approx(np.abs(sizes).max(), abs=1e-9)
    assert frontier.select(covariance=float(largest[1])) is frontier.estimators_[1]
    with pytest.raises(ValueError, match="'test' lack strata"):
        RegressionFrontier(FairRegressor(), n_points=3).fit(X, y, **asked, eval_set=part[:3])
    with pytest.raises(ValueError, match="'later' lack strata"):
        frontier.evaluate(*part[:3], name="later")


# --- Errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (FairRegressor(loss="hinge"), "loss must be one of 'squared_error', 'huber', 'quantile'"),
        (FairRegressor(loss="quantile", quantile=1.0), "quantile must be between 0 and 1"),
        (FairRegressor(loss="huber", delta=0.0), "delta must be positive"),
        (FairRegressor(C=-1.0), "C must be positive"),
        (FairRegressor(constraint=CovarianceBound(notion="true_positive_rate")), "about labels of two classes"),
        (FairRegressor(constraint=GroupMeansBound({"age": 1.0})), "'age' is numeric and has no groups"),
        (FairRegressor(constraint=CalibrationBound({"job": 1.0})), "names the attribute 'job'"),
        (FairRegressor(constraint=[LossBound(0.1), CovarianceBound(0.1)]), "LossBound minimises covariances"),
        (FairRegressor(constraint=[]), "empty list"),
        (FairRegressor(constraint=PRuleBound(80)), "constraint must be None, CovarianceBound, GroupMeansBound"),
        (FairRegressor(constraint=LossBound), "LossBound has no defaults"),
    ],
    ids=str,
)
def test_errors(model, message):
    X, y, Z = people(22, 60)
    Z["age"] = np.random.default_rng(0).normal(40, 10, len(y))
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sensitive_features=Z)


def test_errors_of_bounds_and_data():
    X, y, Z = people(23, 60)
    for make in (GroupMeansBound, CalibrationBound):
        for wrong in (-1.0, "x", True, {}, {"sex": np.nan}):
            with pytest.raises(ValueError, match=make.__name__):
                make(wrong)
    with pytest.raises(ValueError, match="needs sensitive_features"):
        FairRegressor().fit(X, y)
    with pytest.raises(ValueError, match="y must hold numbers"):
        FairRegressor(constraint=None).fit(X, np.array(["a", "b"] * 30, dtype=object))
    with pytest.raises(ValueError, match="give sensitive_features, too"):
        FairRegressor(constraint=None).fit(X, y, strata=Z["race"])
    many = np.array([f"g{k:02}" for k in range(40)])[np.arange(400) % 40]
    X, y, _ = people(24)
    with pytest.raises(ValueError, match="compares at most 32 in pairs"):
        FairRegressor(constraint=GroupMeansBound(0.1)).fit(X, y, sensitive_features=many)
    with pytest.raises(ValueError, match="must be a FairRegressor"):
        RegressionFrontier(Ridge()).fit(X, y, sensitive_features=many)


def test_bounds_that_contradict_each_other_are_named():
    X, y, Z = people(25)
    y = y + 3.0 * (Z["sex"] == "m")
    both = [GroupMeansBound({"sex": 0.0}), CalibrationBound({"sex": 0.1})]
    with pytest.raises(InfeasibleError, match=r"keeps all bounds: .* of 'sex' \("):
        FairRegressor(constraint=both).fit(X, y, sensitive_features=Z)
    same = np.ones((len(y), 1))  # no feature tells the groups apart
    with pytest.raises(InfeasibleError, match="mean residual"):
        FairRegressor(constraint=CalibrationBound(0.1)).fit(same, y, sensitive_features=Z)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_regression_worse_than_one_prediction_for_everybody_is_warned_of(loss):
    rng = np.random.default_rng(0)
    z = rng.choice(["a", "b"], 500)
    X, y = rng.normal(size=(500, 3)), (z == "a") * 2.0 + rng.normal(size=500)
    with pytest.warns(TrivialClassifierWarning, match=r"than predicting 0\.8\d* for everybody \(losses add up to"):
        model = FairRegressor(loss=loss, constraint=CalibrationBound(0.0)).fit(X, y, sensitive_features=z)
    assert model.score(X, y) < -1.0
    X[:, 0] += 5.0 * (z == "a")  # now a feature tells the groups apart
    assert FairRegressor(loss=loss, constraint=CalibrationBound(0.0)).fit(X, y, sensitive_features=z).score(X, y) > 0


@pytest.mark.parametrize("constraint", [CovarianceBound(0.0), GroupMeansBound(0.0), CalibrationBound(0.0)], ids=repr)
def test_predictions_that_tell_nobody_apart_are_warned_of(constraint):
    rng = np.random.default_rng(0)
    z = np.arange(400) % 2
    x = np.where(z == 1, 1.0, -1.0) + np.where(np.arange(400) % 4 < 2, 0.5, -0.5)
    y = 2.0 * x + rng.normal(size=400)
    if isinstance(constraint, CalibrationBound):  # the groups' means are alike, the feature is not
        y = x + rng.normal(size=400)
        y -= np.where(z == 1, y[z == 1].mean(), y[z == 0].mean())
    with pytest.warns(TrivialClassifierWarning, match="predicts nearly the same for everybody"):
        FairRegressor(constraint=constraint).fit(x[:, None], y, sensitive_features=z)
    FairRegressor(constraint=constraint.set_params(c=9.0) if hasattr(constraint, "c") else GroupMeansBound(9.0)).fit(
        x[:, None], y, sensitive_features=z
    )
