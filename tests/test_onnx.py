"""Models as ONNX graphs: labels equal and probabilities within 1e-6 of the model's, in onnxruntime.

Every tolerance but that of the probabilities is rounding: scores of trees are rounded once to single precision,
``2**-24`` relatively; others are sums of products in double precision.
"""

import warnings

import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pytest
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from fairmargin import (
    CategoryEncoder,
    CertifiedClassifier,
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairMultinomialLogisticRegression,
    FairOneVsRestClassifier,
    FairRegressor,
    FairSVC,
    FairTreeClassifier,
    IndividualLossBound,
    KernelFeatures,
    LeafFeatures,
    LossBound,
    PRuleBound,
)
from fairmargin.datasets import make_linear_synthetic
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.onnx import to_inputs, to_onnx
from fairmargin.tables import TabularModel, prepare, table_of_frame

pytestmark = [pytest.mark.numerical, pytest.mark.filterwarnings("ignore")]  # small data warn, and so do converters

PROBABILITY = 1e-6  # what is promised
LOSSES = ["logistic", "hinge", "squared_hinge", "smoothed_hinge", "modified_huber"]
CONSTRAINTS = {
    "none": None,
    "covariance": CovarianceBound(0.05),
    "loss": LossBound(0.05),
    "individual": IndividualLossBound(0.5),
    "rule": PRuleBound(80),
    "confidence": PRuleBound(40, confidence=0.9),
}


@pytest.fixture(scope="module")
def people():
    X, y, z = make_linear_synthetic(300, random_state=0)
    return X, y, np.where(z == 1, "m", "f")


@pytest.fixture(scope="module")
def frame(people):
    X, _, _ = people
    job = np.array(["clerk", "smith", "baker"], dtype=object)[np.digitize(X[:, 1], [0.0, 2.0])]
    table = pd.DataFrame({"age": X[:, 0], "job": job, "member": X[:, 1] > 1.0, "years": np.arange(len(X)) % 7})
    table.loc[::11, "job"] = None
    return table


def fit(model, X, y, z):
    last = model.steps[-1][0] + "__" if hasattr(model, "steps") else ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, **{f"{last}sensitive_features": z})


def run(model, X, rows=None):
    graph = to_onnx(model, X)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, to_inputs(graph, X if rows is None else rows)), strict=True))


def assert_same(model, X, rows=None, relative=1e-9):
    """Assert that the graph of a model made with ``X`` decides about rows as the model does."""
    found = run(model, X, rows)
    rows = X if rows is None else rows
    np.testing.assert_array_equal(found["label"], model.predict(rows))
    scores = model.decision_function(rows)
    np.testing.assert_allclose(found["scores"], scores, rtol=0, atol=relative * (1.0 + np.abs(scores).max()))
    assert ("probabilities" in found) == hasattr(model, "predict_proba")
    if "probabilities" in found:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(rows), rtol=0, atol=PROBABILITY)


@pytest.mark.parametrize("loss", LOSSES)
def test_linear_with_every_loss(loss, people):
    X, y, z = people
    assert_same(fit(FairMarginClassifier(loss), X, y, z), X)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_linear_under_every_constraint(name, people):
    X, y, z = people
    model = fit(FairLogisticRegression(constraint=CONSTRAINTS[name]), X, y, z)
    assert_same(model, X)
    assert_same(model, X, np.random.default_rng(0).normal(size=(50, 2)))  # people never seen


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        FairMultinomialLogisticRegression(),
        FairOneVsRestClassifier(),
        FairOneVsRestClassifier(FairLogisticRegression()),
        FairOneVsRestClassifier(FairSVC(max_rank=20)),
        make_pipeline(StandardScaler(), FairMultinomialLogisticRegression(constraint=None)),
    ],
    ids=["multinomial", "one vs rest", "with probabilities", "kernels", "pipeline"],
)
def test_several_classes(model, n_classes, people):
    X, y, z = people
    words = np.array(["low", "middle", "high"])[(y > 0).astype(int) + (n_classes > 2) * (X[:, 0] > 2.0)]
    model = fit(clone(model), X, words, z)
    assert_same(model, X, relative=1e-6)
    far = 1e4 * np.random.default_rng(0).normal(size=(50, 2))  # probabilities of 0 and 1
    assert_same(model, X, far, relative=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_of_equal_scores(n_classes):
    r = np.random.default_rng(0)  # two features and five groups leave only constant classifiers
    X, y, z = r.normal(size=(60, 2)), np.arange(60) % n_classes, r.choice(list("abcde"), 60)
    assert_same(fit(FairMultinomialLogisticRegression(), X, y, z), X, relative=1e-6)


@pytest.mark.parametrize("loss", ["squared_error", "huber", "quantile"])
def test_regressors(loss, people, frame):
    X, _, z = people
    model = FairRegressor(loss=loss).fit(X, 3.0 * X[:, 0] + 1e3, sensitive_features=z)
    np.testing.assert_allclose(run(model, X)["prediction"], model.predict(X), rtol=1e-12)
    steps = fit(make_pipeline(CategoryEncoder(), FairRegressor(loss=loss)), frame, X[:, 1], z)
    np.testing.assert_allclose(run(steps, frame)["prediction"], steps.predict(frame), atol=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid", "precomputed"])
def test_kernels(kernel, loss, people):
    X, y, z = people
    rows = X @ X.T + 1.0 if kernel == "precomputed" else X
    model = fit(FairSVC(kernel=kernel, loss=loss, indefinite="clip", C=0.1), rows, y, z)
    assert_same(model, rows, relative=1e-6)


def test_gaussian_kernel_far_from_its_centre(people):
    """A wide kernel on rows far apart: inner products would cancel."""
    X, y, z = people
    rows = X + 1e7 * (np.arange(len(X)) % 2)[:, None]
    model = fit(FairSVC(gamma=0.5, loss="logistic"), rows, y, z)
    assert_same(model, rows, relative=1e-6)


ENSEMBLES = {
    "histogram": None,
    "forest": RandomForestClassifier(8, max_leaf_nodes=8, random_state=0),
    "extra trees": ExtraTreesClassifier(8, max_depth=3, random_state=0),
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
    "lightgbm": LGBMClassifier(n_estimators=8, verbose=-1, n_jobs=1),
    "xgboost": XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1),
    "catboost": CatBoostClassifier(iterations=8, depth=3, verbose=0, thread_count=1, allow_writing_files=False),
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ENSEMBLES)
def test_trees(name, missing, people):
    X, y, z = people
    X = np.where(np.arange(X.size).reshape(X.shape) % 13 == 0, np.nan, X) if missing else X
    model = fit(FairTreeClassifier(ENSEMBLES[name], C=1.0), X, y, z)
    assert_same(model, X, relative=2.0**-23)


def test_trees_without_missing_values_in_training_still_take_them(people):
    X, y, z = people
    gaps = np.where(np.arange(X.size).reshape(X.shape) % 5 == 0, np.nan, X)
    for name in ("histogram", "lightgbm", "xgboost"):
        assert_same(fit(FairTreeClassifier(ENSEMBLES[name], C=1.0), X, y, z), X, gaps, relative=2.0**-23)


def test_trees_of_several_rounds_and_pipelines(people):
    X, y, z = people
    rule = PRuleBound(80)
    assert_same(fit(FairTreeClassifier(C=1.0, rounds=2, constraint=rule), X, y, z), X, relative=2.0**-23)
    boosted = GradientBoostingClassifier(n_estimators=8, random_state=0)
    steps = FairTreeClassifier(make_pipeline(StandardScaler(), boosted), C=1.0, rounds=2, constraint=rule)
    assert_same(fit(steps, X, y, z), X, relative=2.0**-23)


def test_splits_on_categories_are_refused(people):
    X, y, z = people
    frame = pd.DataFrame({"a": X[:, 0], "job": pd.Categorical(np.where(X[:, 1] > 0, "clerk", "smith"))})
    model = fit(FairTreeClassifier(LGBMClassifier(n_estimators=5, verbose=-1), C=1.0), frame, y, z)
    with pytest.raises(ValueError, match="splits on categories"):
        to_onnx(model, frame)


def test_kernels_that_are_functions_are_refused(people):
    X, y, z = people
    model = fit(FairSVC(kernel=lambda A, B: A @ B.T + 1.0), X, y, z)
    with pytest.raises(ValueError, match="Python function"):
        to_onnx(model, X)


def test_pipelines_and_wrappers(people):
    X, y, z = people
    for steps in (StandardScaler(), KernelFeatures(tol=0.1), LeafFeatures(ENSEMBLES["forest"])):
        assert_same(fit(make_pipeline(steps, FairLogisticRegression()), X, y, z), X)
    certified = make_pipeline(StandardScaler(), FairLogisticRegression(constraint=PRuleBound(40, confidence=0.9)))
    assert_same(fit(CertifiedClassifier(certified), X, y, z), X)
    search = GridSearchCV(FairLogisticRegression(), {"constraint__c": [0.0, 0.1]}, cv=2)
    assert_same(search.fit(X, y, sensitive_features=z), X)


def test_frames_of_categories(people, frame):
    _, y, z = people
    model = fit(make_pipeline(CategoryEncoder(), FairLogisticRegression()), frame, y, z)
    assert_same(model, frame)
    new = pd.DataFrame({"age": [0.3], "job": ["pilot"], "member": [True], "years": [2]})
    assert_same(model, frame, new)
    np.testing.assert_array_equal(run(model, frame, pl.from_pandas(frame))["label"], model.predict(frame))
    strict = fit(make_pipeline(CategoryEncoder(unknown="error"), FairLogisticRegression()), frame, y, z)
    with pytest.raises(Exception, match="out of"):
        run(strict, frame, new)


def test_numeric_frames_and_column_transformers(people, frame):
    X, y, z = people
    numbers = pd.DataFrame(X, columns=["a", "b"])
    assert_same(fit(make_pipeline(StandardScaler(), FairLogisticRegression()), numbers, y, z), numbers)
    known = frame.assign(job=frame["job"].fillna("none"))[["age", "job"]]
    columns = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["job"]))
    assert_same(fit(make_pipeline(columns, FairLinearSVC()), known, y, z), known)


@pytest.mark.parametrize(
    "imputer",
    [
        SimpleImputer(),
        SimpleImputer(strategy="median", add_indicator=True),
        SimpleImputer(strategy="constant", fill_value=-3.0, missing_values=0.5),
    ],
)
def test_imputers_of_numbers(imputer, people):
    X, y, z = people
    numbers = np.column_stack([X, np.full(len(X), np.nan)])  # the last column is dropped: it has no value at all
    numbers[::7, 0] = np.nan
    if imputer.missing_values == 0.5:
        numbers = np.where(np.isnan(numbers), 0.5, numbers)
    model = fit(make_pipeline(imputer, StandardScaler(), FairLogisticRegression()), numbers, y, z)
    assert_same(model, numbers)
    trees = FairTreeClassifier(make_pipeline(imputer, ENSEMBLES["forest"]), C=1.0)
    assert_same(fit(trees, numbers, y, z), numbers, relative=2.0**-23)


@pytest.mark.parametrize("strategy", ["most_frequent", "constant"])
def test_imputers_of_columns(strategy, people, frame):
    _, y, z = people
    fill = "none" if strategy == "constant" else None
    words = make_pipeline(SimpleImputer(strategy=strategy, fill_value=fill), OneHotEncoder(handle_unknown="ignore"))
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "years"]), (words, ["job"])
    )
    rows = frame.assign(age=frame["age"].where(np.arange(len(frame)) % 5 > 0))
    model = fit(make_pipeline(columns, FairLogisticRegression()), rows, y, z)
    assert_same(model, rows)
    assert_same(model, rows, rows.assign(job=[None, "pilot"] * (len(rows) // 2)))


@pytest.mark.parametrize("encoder", [OneHotEncoder(), OrdinalEncoder(encoded_missing_value=-1)])
def test_encoders_with_a_category_for_missing_values_are_refused(encoder, people, frame):
    """Their stock graphs load, and decide differently about people without a value."""
    _, y, z = people
    columns = make_column_transformer((StandardScaler(), ["age"]), (encoder, ["job"]))
    model = fit(make_pipeline(columns, FairLogisticRegression()), frame, y, z)
    with pytest.raises(ValueError, match="category for missing values"):
        to_onnx(model, frame)


def test_graphs_that_do_not_load_are_refused(people):
    X, y, z = people
    model = fit(make_pipeline(PolynomialFeatures(2), FairLogisticRegression()), X, y, z)
    with pytest.raises(ValueError, match="onnxruntime cannot load the graph"):
        to_onnx(model, X)


@pytest.mark.parametrize("encoder", [OneHotEncoder(), OrdinalEncoder()])
def test_graphs_that_decide_differently_are_refused(encoder, people):
    # An empty text is a category of its own in scikit-learn, and stands for a missing value in a graph.
    _, y, _ = people
    X = pd.DataFrame({"job": np.resize(np.array(["a", "a", "b", ""], dtype=object), len(y))})
    model = make_pipeline(SimpleImputer(strategy="most_frequent"), encoder, FairLogisticRegression(constraint=None))
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"other scores than the model for \d+ of \d+ rows.*empty text"):
        to_onnx(model, X)
    assert to_onnx(model, X[:0]).graph.input[0].name == "job"  # without rows there is nothing to compare


def test_graphs_that_do_not_run_are_refused(people):
    _, y, _ = people
    X = pd.DataFrame({"b": np.arange(len(y)) % 3 == 0, "x": np.arange(len(y), dtype=float)})
    imputer = make_column_transformer((SimpleImputer(strategy="most_frequent"), ["b", "x"]))
    model = make_pipeline(imputer, FairLogisticRegression(constraint=None)).fit(X, y)
    with pytest.raises(ValueError, match="cannot run the graph of this model on X"):
        to_onnx(model, X)


@pytest.mark.parametrize("labels", [(0, 1), ("no", "yes"), (False, True), (-1.0, 1.0)])
def test_labels_keep_their_type(labels, people):
    X, y, z = people
    model = fit(FairLogisticRegression(pos_label=labels[1]), X, np.array(labels)[(y > 0).astype(int)], z)
    assert_same(model, X)


def test_tables():
    table = make_credit_demo(600)
    study = prepare(table_of_frame(table, "demo"), target="repaid", positive="yes", sensitive=["sex"])
    part = study.train
    clf = fit(FairLogisticRegression(), part.X, part.y, part.sensitive)
    model = TabularModel(clf, study.encoder, study.target, study.labels, study.sensitive)
    rows = table.copy()
    numbers = [column.name for column in study.encoder.columns if column.kind == "number"]
    texts = [column.name for column in study.encoder.columns if column.kind == "category"]
    rows[numbers] = rows[numbers].astype(float)
    rows.loc[::5, numbers] = np.nan
    rows.loc[1::5, texts] = None
    rows.loc[2::5, texts] = "never seen"
    rows.loc[3::5, numbers] = np.inf
    found, expected = run(model, table, rows), model.decide(rows)
    np.testing.assert_array_equal(found["label"], expected["decision"])
    np.testing.assert_allclose(found["scores"], expected["score"], atol=1e-12)
    np.testing.assert_allclose(found["probabilities"][:, 1], expected["probability"], atol=PROBABILITY)
    with pytest.raises(ValueError, match="takes a frame"):
        to_onnx(model, part.X)
    with pytest.raises(ValueError, match="which X lacks"):
        to_inputs(to_onnx(model, table), table[numbers[:1]])
