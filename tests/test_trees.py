"""Fair tree ensembles: leaves of every library, leaf values learned with a proof, and what is refused."""

import pickle
from copy import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from fairmargin import (
    CovarianceBound,
    FairLogisticRegression,
    FairnessFrontier,
    FairTreeClassifier,
    IndividualLossBound,
    LeafFeatures,
    LossBound,
    PRuleBound,
    p_rule,
)
from fairmargin.exceptions import DisparateTreatmentError
from fairmargin.trees.patterns import find_patterns

pytestmark = [
    pytest.mark.numerical,
    # What these data show is no concern here: leaves of few people are bought, small groups are small.
    pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning"),
    pytest.mark.filterwarnings("ignore::fairmargin.SmallGroupWarning"),
]


def make_people(n=600, seed=0):
    """Return people with a label that no linear classifier finds, and a group that depends on a feature."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    z = np.where(X[:, 0] + rng.normal(size=n) > 0, "m", "f")
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n) > 0).astype(int)
    return X, y, z


def lightgbm(**more):
    module = pytest.importorskip("lightgbm")
    return module.LGBMClassifier(n_estimators=8, num_leaves=6, n_jobs=1, verbose=-1, random_state=0, **more)


def xgboost(**more):
    module = pytest.importorskip("xgboost")
    return module.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1, random_state=0, **more)


def catboost(**more):
    module = pytest.importorskip("catboost")
    settings = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}
    return module.CatBoostClassifier(iterations=8, depth=3, **settings, **more)


def histogram(**more):
    return HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=6, random_state=0, **more)


def forest(**more):
    return RandomForestClassifier(8, max_leaf_nodes=6, random_state=0, **more)


ENSEMBLES = {
    "histogram": histogram,
    "forest": forest,
    "extra trees": lambda: ExtraTreesClassifier(8, max_leaf_nodes=6, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=8, max_depth=3, random_state=0),
    "tree": lambda: DecisionTreeClassifier(max_leaf_nodes=6, random_state=0),
    "lightgbm": lightgbm,
    "xgboost": xgboost,
    "catboost": catboost,
    "pipeline": lambda: make_pipeline(OneHotEncoder(max_categories=9, handle_unknown="ignore"), forest()),
}
every_ensemble = pytest.mark.parametrize("name", ENSEMBLES)
EXPORTED = {  # raw scores of the ensembles that take leaf values
    "histogram": lambda model, X: model.decision_function(X),
    "lightgbm": lambda model, X: model.predict(X, raw_score=True),
    "catboost": lambda model, X: model.predict(X, prediction_type="RawFormulaVal"),
}


# --- leaves


def own_values(name, model):
    """Return the leaf values that an ensemble gave itself, tree after tree, and the score of no tree at all."""
    if name == "histogram":
        trees = [tree for (tree,) in model._predictors]
        values = [tree.nodes["value"][tree.nodes["is_leaf"] == 1] for tree in trees]
        return np.concatenate(values), model._baseline_prediction.item()
    if name == "lightgbm":
        trees = model.booster_.dump_model()["tree_info"]
        counts = [tree["num_leaves"] for tree in trees]
        return np.array([model.booster_.get_leaf_output(t, k) for t, c in enumerate(counts) for k in range(c)]), 0.0
    if name == "catboost":
        return model.get_leaf_values(), model.get_scale_and_bias()[1]
    if name == "xgboost":
        nodes = model.get_booster().trees_to_dataframe()
        return nodes["Gain"][nodes["Feature"] == "Leaf"].to_numpy(), None  # its base score depends on the version
    trees = np.ravel(getattr(model, "estimators_", model))
    leaves = [(tree.tree_.value[tree.tree_.children_left < 0], len(trees)) for tree in trees]
    if name == "boosting":
        return np.concatenate([v[:, 0, 0] * model.learning_rate for v, _ in leaves]), None
    return np.concatenate([v[:, 0, 1] / v[:, 0].sum(axis=1) / count for v, count in leaves]), 0.0


def own_scores(name, model, X):
    if name in EXPORTED:
        return EXPORTED[name](model, X)
    if name == "xgboost":
        return model.predict(X, output_margin=True)
    return model.decision_function(X) if name == "boosting" else model.predict_proba(X)[:, 1]


@pytest.mark.parametrize("name", [name for name in ENSEMBLES if name != "pipeline"])
def test_with_the_ensembles_own_leaf_values_leaves_give_its_own_scores(name):
    X, y, _ = make_people()
    model = ENSEMBLES[name]().fit(X, y)
    fresh = make_people(seed=1)[0]
    features = LeafFeatures(model, prefit=True).fit(X).transform(fresh)
    values, base = own_values(name, model)
    assert features.shape == (len(fresh), len(values))
    scores, own = features @ values, own_scores(name, model, fresh)
    base = np.median(own - scores) if base is None else base
    # XGBoost adds up its values in single precision.
    np.testing.assert_allclose(scores + base, own, rtol=0, atol=1e-5 if name == "xgboost" else 1e-12)
    assert np.ptp(own) > 0.1


@every_ensemble
def test_every_row_is_in_one_leaf_of_every_tree(name):
    X, y, _ = make_people()
    features = LeafFeatures(ENSEMBLES[name]())
    F = features.fit_transform(X, y)
    trees = np.array([text.split("_")[0] for text in features.get_feature_names_out()])
    assert F.shape[1] == features.n_leaves_ == len(trees)
    for tree in np.unique(trees):
        np.testing.assert_array_equal(F[:, trees == tree].sum(axis=1), 1.0)


@pytest.mark.parametrize("name", ["histogram", "forest", "lightgbm", "xgboost", "catboost"])
def test_leaves_of_an_ensemble_for_three_classes(name):
    X, _, _ = make_people()
    features = LeafFeatures(ENSEMBLES[name]())
    F = features.fit_transform(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    trees = len({text.split("_")[0] for text in features.get_feature_names_out()})
    np.testing.assert_array_equal(F.sum(axis=1), trees)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")  # its successor is too new to rely on
@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost", "histogram"])
def test_trees_after_the_best_iteration_take_no_part(name):
    X, y, _ = make_people(300)
    y = np.where(np.random.default_rng(0).random(300) < 0.4, 1 - y, y)
    other = make_people(300, seed=1)[:2]
    if name == "histogram":
        more = {"early_stopping": True, "n_iter_no_change": 2, "max_iter": 100}
        model = HistGradientBoostingClassifier(random_state=0, **more).fit(X, y)
    elif name == "lightgbm":
        module = pytest.importorskip("lightgbm")
        model = lightgbm().set_params(n_estimators=100)
        model.fit(X, y, eval_set=[other], callbacks=[module.early_stopping(2, verbose=False)])
        assert model.best_iteration_ < 100
    elif name == "xgboost":
        model = (
            xgboost(early_stopping_rounds=2).set_params(n_estimators=100).fit(X, y, eval_set=[other], verbose=False)
        )
    else:
        model = catboost(early_stopping_rounds=2).set_params(iterations=100).fit(X, y, eval_set=other)
    F = LeafFeatures(model, prefit=True).fit(X).transform(X)
    values, _ = own_values(name, model)
    scores, own = F @ values[: F.shape[1]], own_scores(name, model, X)
    np.testing.assert_allclose(scores - scores[0], own - own[0], rtol=0, atol=1e-5 if name == "xgboost" else 1e-12)


def test_a_frozen_ensemble_keeps_its_trees_in_copies_and_searches():
    X, y, z = make_people()
    X_new, y_new, z_new = make_people(seed=1)
    trees = forest().fit(X, y)
    expected = FairTreeClassifier(trees, C=0.2, prefit=True).fit(X_new, y_new, sensitive_features=z_new)
    frozen = FrozenEstimator(trees)
    model = clone(FairTreeClassifier(frozen, C=0.2)).fit(X_new, y_new, sensitive_features=z_new)
    assert model.estimators_ == [trees]
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    for more in ({}, {"prefit": True}):
        features = clone(LeafFeatures(frozen, **more)).fit(X_new)
        np.testing.assert_array_equal(
            features.transform(X).toarray(), LeafFeatures(trees, prefit=True).fit(X).transform(X).toarray()
        )
    search = GridSearchCV(FairTreeClassifier(frozen, constraint=None), {"C": [0.1, 1.0]}, cv=2, error_score="raise")
    assert search.fit(X_new, y_new).best_estimator_.estimators_ == [trees]
    pipeline = make_pipeline(StandardScaler().fit(X), trees)
    assert LeafFeatures(FrozenEstimator(pipeline)).fit(X).estimator_ is pipeline
    with pytest.raises(NotFittedError, match=r"put the fitted one in a sklearn\.frozen\.FrozenEstimator"):
        clone(LeafFeatures(trees, prefit=True)).fit(X)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        FairTreeClassifier(FrozenEstimator(forest())).fit(X, y, sensitive_features=z)


def test_leaf_features_in_a_pipeline():
    X, y, z = make_people()
    pipeline = make_pipeline(LeafFeatures(histogram()), FairLogisticRegression(C=0.1))
    pipeline.fit(X, y, fairlogisticregression__sensitive_features=z)
    assert pipeline[-1].coef_.shape[1] == pipeline[0].n_leaves_
    assert abs(pipeline[-1].covariance_).max() < 1e-12


# --- leaf values


@every_ensemble
def test_the_classifier_is_the_linear_one_on_its_leaves(name):
    X, y, z = make_people()
    fresh = make_people(seed=1)[0]
    model = FairTreeClassifier(ENSEMBLES[name](), C=0.2, tol=1e-10).fit(X, y, sensitive_features=z)
    features = LeafFeatures(model.estimators_[0], prefit=True).fit(X)
    linear = FairLogisticRegression(C=0.2, tol=1e-10).fit(features.transform(X), y, sensitive_features=z)
    # Within the gap, by strong convexity: ||w - w*||^2 <= 2 gap objective, for both of them.
    room = 2 * np.sqrt(2 * 1e-10 * linear.certificate_.objective)
    assert np.linalg.norm(model.coef_ - linear.coef_) <= room
    scores = features.transform(fresh) @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(fresh), scores, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(model.predict(fresh), (scores >= 0).astype(int))
    assert model.certificate_.status == "solved"
    assert abs(model.covariance_).max() < 1e-10


CONSTRAINTS = [
    None,
    CovarianceBound(0.05),
    CovarianceBound(0.0, notion="true_positive_rate"),
    PRuleBound(85),
    LossBound(0.05),
]
CASES = [(c, loss) for c in CONSTRAINTS for loss in ("logistic", "hinge")] + [(IndividualLossBound(0.5), "logistic")]


@pytest.mark.parametrize(("constraint", "loss"), CASES)
def test_every_constraint_and_loss(constraint, loss):
    X, y, z = make_people(200)
    people = pd.DataFrame({"sex": z, "age": X[:, 3] ** 2}) if not isinstance(constraint, PRuleBound) else z
    model = FairTreeClassifier(forest(), C=0.1, loss=loss, constraint=constraint)
    model.fit(X, y, sensitive_features=people)  # the suite recomputes its certificate
    assert model.certificate_.status == "solved"
    if isinstance(constraint, PRuleBound):
        assert p_rule(y, model.predict(X), sensitive_features=z) >= 85


def test_weights_are_copies_for_leaf_values():
    X, y, z = make_people(300)
    weight = np.random.default_rng(0).integers(0, 3, size=300)
    copies = np.repeat(np.arange(300), weight)
    trees = forest().fit(X, y)
    model = FairTreeClassifier(trees, C=0.1, prefit=True, tol=1e-10)
    one = copy(model).fit(X, y, weight, sensitive_features=z)
    other = copy(model).fit(X[copies], y[copies], sensitive_features=z[copies])
    room = 2 * np.sqrt(2 * 1e-10 * one.certificate_.objective)
    assert np.linalg.norm(one.coef_ - other.coef_) <= room


def test_weights_reach_the_trees():
    X, y, z = make_people()
    weight = np.where(X[:, 3] > 0, 1.0, 1e-6)
    for ensemble in (forest(), make_pipeline(OneHotEncoder(max_categories=9, handle_unknown="ignore"), forest())):
        model = FairTreeClassifier(ensemble, C=0.1).fit(X, y, weight, sensitive_features=z)
        name = f"{ensemble.steps[-1][0]}__sample_weight" if hasattr(ensemble, "steps") else "sample_weight"
        expected = clone(ensemble).fit(X, y, **{name: weight})
        np.testing.assert_array_equal(model.estimators_[0].predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("name", EXPORTED)
def test_leaf_values_go_back_into_the_ensemble(name):
    X, y, z = make_people()
    fresh = make_people(seed=1)[0]
    model = FairTreeClassifier(ENSEMBLES[name](), constraint=PRuleBound(80)).fit(X, y, sensitive_features=z)
    (exported,) = model.export()
    np.testing.assert_allclose(EXPORTED[name](exported, fresh), model.decision_function(fresh), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(exported.predict(fresh), model.predict(fresh))
    np.testing.assert_allclose(model.predict_proba(fresh)[:, 1], exported.predict_proba(fresh)[:, 1], atol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(fresh), model.decision_function(fresh))  # it kept its own


def test_an_ensemble_that_cannot_hold_the_values_says_so():
    X, y, z = make_people()
    model = FairTreeClassifier(forest()).fit(X, y, sensitive_features=z)
    with pytest.raises(ValueError, match="RandomForestClassifier cannot hold"):
        model.export()


def test_linear_trees_cannot_hold_the_values():
    X, y, z = make_people()
    model = FairTreeClassifier(lightgbm(linear_tree=True)).fit(X, y, sensitive_features=z)
    with pytest.raises(ValueError, match="linear trees have a linear function"):
        model.export()


@every_ensemble
def test_models_travel(name):
    X, y, z = make_people(300)
    model = FairTreeClassifier(ENSEMBLES[name]()).fit(X, y, sensitive_features=z)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.certificate_ == model.certificate_


def test_grid_search_and_frontier():
    X, y, z = make_people(300)
    search = GridSearchCV(FairTreeClassifier(forest()), {"C": [0.01, 0.1], "estimator__max_leaf_nodes": [3, 6]}, cv=2)
    search.fit(X, y, sensitive_features=z)
    assert search.best_estimator_.certificate_.status == "solved"
    frontier = FairnessFrontier(FairTreeClassifier(forest()), n_points=4).fit(X, y, sensitive_features=z)
    covariances = [abs(point.covariance_).max() for point in frontier.estimators_]
    assert covariances == sorted(covariances) or covariances == sorted(covariances, reverse=True)
    fresh = make_people(seed=1)[0]
    assert all(point.predict(fresh).shape == (600,) for point in frontier.estimators_)


@pytest.mark.parametrize("estimator", [histogram(min_samples_leaf=2), forest()], ids=["histogram", "forest"])
@pytest.mark.parametrize("kind", [FairTreeClassifier, LeafFeatures])
def test_scikit_learns_own_checks(kind, estimator):
    model = kind(estimator, constraint=None) if kind is FairTreeClassifier else kind(estimator)
    failing = {
        f"check_sample_weight_equivalence_on_{what}_data": "trees are grown on samples or bins, not on weights"
        for what in ("dense", "sparse")
    }
    check_estimator(model, expected_failed_checks=failing, on_skip=None)


# --- rounds


@pytest.mark.parametrize("name", ["histogram", "lightgbm"])
def test_further_rounds_add_trees_grown_for_the_rule(name):
    X, y, z = make_people()
    model = FairTreeClassifier(ENSEMBLES[name](), constraint=PRuleBound(90), rounds=3)
    model.fit(X, y, sensitive_features=z)
    assert 2 <= len(model.estimators_) <= 3
    sizes = [LeafFeatures(e, prefit=True).fit(X).n_leaves_ for e in model.estimators_]
    assert model.coef_.shape == (1, sum(sizes))
    assert p_rule(y, model.predict(X), sensitive_features=z) >= 90
    fresh = make_people(seed=1)[0]
    np.testing.assert_allclose(
        sum(EXPORTED[name](e, fresh) for e in model.export()), model.decision_function(fresh), rtol=0, atol=1e-12
    )


def test_a_rule_that_costs_nothing_needs_no_further_trees():
    X, y, z = make_people()
    model = FairTreeClassifier(forest(), constraint=PRuleBound(1.5), rounds=3).fit(X, y, sensitive_features=z)
    assert len(model.estimators_) == 1
    assert model.path_ == "unconstrained"


def test_rounds_need_a_rule():
    X, y, z = make_people(100)
    with pytest.raises(ValueError, match="rounds=2 grows trees on the prices that a PRuleBound sets"):
        FairTreeClassifier(forest(), rounds=2).fit(X, y, sensitive_features=z)
    with pytest.raises(ValueError, match="rounds must be a positive whole number"):
        FairTreeClassifier(forest(), rounds=0).fit(X, y, sensitive_features=z)


# --- frames, categories and missing values


def make_frame(n=600, seed=0):
    X, y, z = make_people(n, seed)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["town"] = pd.Categorical.from_codes(np.digitize(X[:, 1], [-1, 0, 1]), ["north", "south", "east", "west"])
    return frame, y, z


CATEGORICAL = {
    "histogram": lambda: histogram(categorical_features="from_dtype"),
    "lightgbm": lightgbm,
    "xgboost": lambda: xgboost(enable_categorical=True, tree_method="hist"),
    "catboost": lambda: catboost(cat_features=["town"]),
    "pipeline": lambda: make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["town"]), remainder="passthrough"), forest()
    ),
}


@pytest.mark.parametrize("name", CATEGORICAL)
def test_frames_with_categories(name):
    frame, y, z = make_frame()
    model = FairTreeClassifier(CATEGORICAL[name]()).fit(frame, y, sensitive_features=pd.Series(z, name="sex"))
    np.testing.assert_array_equal(model.feature_names_in_, frame.columns)
    assert model.certificate_.status == "solved"
    assert model.score(frame, y) > 0.7
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "other"}))


@pytest.mark.parametrize("name", CATEGORICAL)
def test_categories_unseen_in_training_are_decided_like_missing_ones(name):
    frame, y, z = make_frame()
    model = FairTreeClassifier(CATEGORICAL[name]()).fit(frame, y, sensitive_features=z)
    other = make_frame(seed=1)[0]
    other["town"] = pd.Categorical(["elsewhere"] * len(other))
    scores = model.decision_function(other)
    assert np.all(np.isfinite(scores))
    if name in ("histogram", "lightgbm"):
        other["town"] = pd.Categorical([None] * len(other), categories=frame["town"].cat.categories)
        np.testing.assert_array_equal(model.decision_function(other), scores)


@pytest.mark.parametrize("name", ["histogram", "forest", "lightgbm", "xgboost", "catboost"])
def test_missing_values_where_the_ensemble_takes_them(name):
    X, y, z = make_people()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = FairTreeClassifier(ENSEMBLES[name]()).fit(X, y, sensitive_features=z)
    assert model.certificate_.status == "solved"
    features = LeafFeatures(model.estimators_[0], prefit=True).fit(X)
    scores = features.transform(X) @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=0, atol=1e-13)


def test_missing_values_where_the_ensemble_does_not():
    X, y, z = make_people()
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        FairTreeClassifier(GradientBoostingClassifier(n_estimators=3)).fit(X, y, sensitive_features=z)
    model = FairTreeClassifier(GradientBoostingClassifier(n_estimators=3)).fit(X[1:], y[1:], sensitive_features=z[1:])
    with pytest.raises(ValueError, match="NaN"):
        model.predict(X)


@pytest.mark.parametrize("make", [sp.csr_matrix, pd.DataFrame, np.ndarray.tolist], ids=["sparse", "frame", "list"])
def test_containers(make):
    X, y, z = make_people(300)
    expected = FairTreeClassifier(forest()).fit(X.astype(np.float32), y, sensitive_features=z)
    X = make(X.astype(np.float32))
    model = FairTreeClassifier(forest()).fit(X, y.tolist(), sensitive_features=z)
    np.testing.assert_allclose(
        model.decision_function(X), expected.decision_function(np.float32(make_people(300)[0]))
    )


def test_polars_frames():
    X, y, z = make_people(300)
    frame = pl.DataFrame(X, schema=list("abcd"))
    weight = np.r_[np.zeros(50), np.ones(250)]
    model = FairTreeClassifier(histogram()).fit(frame, y, weight, sensitive_features=z)
    expected = FairTreeClassifier(histogram()).fit(X[50:], y[50:], sensitive_features=z[50:])
    np.testing.assert_allclose(model.decision_function(frame), expected.decision_function(X), atol=1e-6)
    assert list(model.feature_names_in_) == list("abcd")


# --- bad input


@every_ensemble
def test_an_unfitted_ensemble_has_no_leaves(name):
    X, y, z = make_people(100)
    with pytest.raises(NotFittedError, match="is not fitted yet and has no leaves"):
        LeafFeatures(ENSEMBLES[name](), prefit=True).fit(X, y)
    with pytest.raises(NotFittedError, match="is not fitted yet and has no leaves"):
        FairTreeClassifier(ENSEMBLES[name](), prefit=True).fit(X, y, sensitive_features=z)


@pytest.mark.parametrize("kind", [LeafFeatures, FairTreeClassifier])
def test_ensembles_that_are_none(kind):
    X, y, z = make_people(100)
    more = {"sensitive_features": z} if kind is FairTreeClassifier else {}
    with pytest.raises(ValueError, match="must be a classifier, got RandomForestRegressor"):
        kind(RandomForestRegressor(3)).fit(X, y, **more)
    with pytest.raises(ValueError, match="must be a classifier, got RandomForestRegressor"):
        kind(RandomForestRegressor(3).fit(X, y), prefit=True).fit(X, y, **more)
    with pytest.raises(ValueError, match="LogisticRegression has no leaves that can be read"):
        kind(LogisticRegression()).fit(X, y, **more)
    with pytest.raises(ValueError, match="LogisticRegression has no leaves that can be read"):
        kind(make_pipeline(OneHotEncoder(), LogisticRegression())).fit(X, y, **more)
    with pytest.raises(ValueError, match=r"must be an ensemble of trees with .*, got 'forest'"):
        kind("forest").fit(X, y, **more)
    with pytest.raises(ValueError, match=r"must be an ensemble of trees with .*, got <class"):
        kind(RandomForestClassifier).fit(X, y, **more)


def test_a_fitted_ensemble_for_other_classes():
    X, y, z = make_people(100)
    trees = forest().fit(X, np.arange(100) % 3)
    with pytest.raises(ValueError, match="is for 3 classes"):
        FairTreeClassifier(trees, prefit=True).fit(X, y, sensitive_features=z)


def test_sensitive_attributes_are_not_features():
    frame, y, z = make_frame(300)
    with pytest.raises(ValueError, match="'sex' is also a column of X"):
        FairTreeClassifier(histogram(categorical_features="from_dtype")).fit(
            frame.assign(sex=pd.Categorical(z)), y, sensitive_features=pd.Series(z, name="sex")
        )
    recoded = [pd.Categorical(z), np.where(z == "m", 7.0, 3.0), np.where(z == "m", 1.0, np.nan), z]
    for column in recoded:
        with pytest.raises(DisparateTreatmentError, match="'gender'"):
            FairTreeClassifier(histogram()).fit(frame.assign(gender=column), y, sensitive_features=z)
    towns = frame["town"].astype(str).to_numpy()  # more than two groups
    with pytest.raises(DisparateTreatmentError, match="'town'"):
        FairTreeClassifier(histogram()).fit(frame, y, sensitive_features=towns)
    with pytest.raises(DisparateTreatmentError, match="number 4"):
        FairTreeClassifier(forest()).fit(np.column_stack([frame[list("abcd")], z == "m"]), y, sensitive_features=z)


def test_categories_that_tell_a_sensitive_attribute_are_refused():
    frame, y, z = make_frame(300)
    model = FairTreeClassifier(histogram(categorical_features="from_dtype"))
    third = np.arange(300) % 3
    titles = np.where(z == "m", "Mr", np.where(third == 0, "Mrs", "Miss"))
    for column in (titles, np.char.add(z.astype(str), third.astype(str))):
        with pytest.raises(DisparateTreatmentError, match=r"categories of 'title' in X tell the sensitive .*'sex'"):
            model.fit(frame.assign(title=pd.Categorical(column)), y, sensitive_features=pd.DataFrame({"sex": z}))
    titles[0] = "Dr"
    titles[int(np.flatnonzero(z != z[0])[0])] = "Dr"
    model.fit(frame.assign(title=pd.Categorical(titles)), y, sensitive_features=z)


def test_an_ensemble_trained_on_a_sensitive_attribute_is_refused():
    X, y, z = make_people(300)
    trees = forest().fit(pd.DataFrame(X, columns=["a", "b", "sex", "d"]), y)
    with pytest.raises(DisparateTreatmentError, match="was trained on the sensitive attribute 'sex'"):
        FairTreeClassifier(trees, prefit=True).fit(X, y, sensitive_features=pd.Series(z, name="sex"))


def test_other_parameters():
    X, y, z = make_people(100)
    with pytest.raises(ValueError, match="C must be finite"):
        FairTreeClassifier(forest(), C=np.inf).fit(X, y, sensitive_features=z)
    with pytest.raises(ValueError, match="prefit must be True or False"):
        FairTreeClassifier(forest(), prefit="no").fit(X, y, sensitive_features=z)
    with pytest.raises(ValueError, match="needs sensitive_features"):
        FairTreeClassifier(forest()).fit(X, y)
    model = FairTreeClassifier(forest()).fit(X, y, sensitive_features=z)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :3])
    with pytest.raises(ValueError, match="2D"):
        model.predict(X[0])
    with pytest.raises(NotFittedError):
        FairTreeClassifier(forest()).predict(X)


# --- the penalty chosen


def test_the_penalty_is_chosen_on_people_held_out():
    X, y, _ = make_people(800)
    model = FairTreeClassifier(histogram(), constraint=None).fit(X, y)
    noisy = np.where(np.random.default_rng(0).random(800) < 0.4, 1 - y, y)
    careful = FairTreeClassifier(histogram(), constraint=None).fit(X, noisy)
    assert careful.C_ < model.C_  # noise asks for a stronger penalty
    fixed = FairTreeClassifier(model.estimators_[0], C=model.C_, prefit=True, constraint=None).fit(X, y)
    np.testing.assert_array_equal(fixed.coef_, model.coef_)
    whole = FairTreeClassifier(histogram(), C=model.C_, constraint=None).fit(X, y)  # trees grown on everybody
    assert not np.array_equal(whole.decision_function(X), model.decision_function(X))
    fresh, truth, _ = make_people(2000, seed=1)
    losses = {}
    for C in (careful.C_, 3.0):
        other = FairTreeClassifier(histogram(), C=C, constraint=None).fit(X, noisy)
        losses[C] = -np.log(other.predict_proba(fresh)[np.arange(2000), truth]).mean()
    assert losses[careful.C_] <= losses[3.0]


def test_the_penalty_chosen_is_shared_among_rounds():
    X, y, z = make_people(800)
    trees = [FairTreeClassifier(histogram(), constraint=PRuleBound(95), rounds=k) for k in (1, 2)]
    first, second = (model.fit(X, y, sensitive_features=z) for model in trees)
    assert len(second.estimators_) == 2
    assert second.C_ == first.C_ / 2
    np.testing.assert_array_equal(second.estimators_[0].predict(X), first.estimators_[0].predict(X))
    given = FairTreeClassifier(histogram(), C=0.05, constraint=PRuleBound(95), rounds=2)
    assert given.fit(X, y, sensitive_features=z).C_ == 0.05


def test_with_few_people_there_is_a_penalty_to_begin_with():
    X, y, _ = make_people(60)
    assert FairTreeClassifier(forest(), constraint=None).fit(X, y).C_ == 0.1


@pytest.mark.parametrize("C", ["high", np.inf, 0.0, None])
def test_penalties_that_are_none(C):
    X, y, z = make_people(100)
    with pytest.raises(ValueError, match="C must be"):
        FairTreeClassifier(forest(), C=C).fit(X, y, sensitive_features=z)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 300),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    alike=st.booleans(),
    intercept=st.booleans(),
)
def test_patterns_stand_for_the_indicators_of_leaves(seed, n, sizes, alike, intercept):
    rng = np.random.default_rng(seed)
    place = rng.random((n, 1 if alike else len(sizes)))  # alike: trees that divide a single feature
    columns = (place * sizes).astype(np.int32) + np.cumsum([0, *sizes[:-1]], dtype=np.int32)
    X = np.zeros((n, sum(sizes)))
    np.put_along_axis(X, columns, 1.0, axis=1)
    found = find_patterns(columns, np.array(sizes))
    assert found.rows.nnz + found.members.nnz <= columns.size + sum(sizes)
    np.testing.assert_array_equal(found.tocsr().toarray(), X)
    design = found.as_design(intercept)
    Xa = np.hstack([X, np.ones((n, int(intercept)))])
    theta, R, weight = rng.normal(size=Xa.shape[1]), rng.normal(size=(n, 3)), rng.random(n)
    some = rng.permutation(n)[: rng.integers(1, n + 1)]
    for operation, expected in (
        (design.matvec(theta), Xa @ theta),
        (design.take(some).matvec(theta), Xa[some] @ theta),
        (design.rmatvec(R[:, 0]), Xa.T @ R[:, 0]),
        (design.rmatvec(R), Xa.T @ R),
        (design.sandwich(weight), Xa.T @ (weight[:, None] * Xa)),
        (design.sandwich(weight, some), Xa[some].T @ (weight[some, None] * Xa[some])),
        (design.squares(weight), weight @ Xa**2),
        (design.outer(np.abs(theta)), Xa * np.abs(theta) @ Xa.T),
        (design.rows(some), Xa[some]),
    ):
        np.testing.assert_allclose(operation, expected, atol=1e-12 * n)
