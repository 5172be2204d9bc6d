"""Fitted estimators saved by skops, which loads only types that its caller trusts, and by MLflow with it."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import skops.io
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from xgboost import XGBClassifier

from fairmargin import (
    CategoryEncoder,
    CertifiedClassifier,
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairMultinomialLogisticRegression,
    FairnessFrontier,
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
from fairmargin.io import trusted_types
from fairmargin.notions import EqualizedOdds

LOSSES = ["logistic", "hinge", "squared_hinge", "smoothed_hinge", "modified_huber"]
ESTIMATORS = {
    "logistic": FairLogisticRegression(),
    "linear svc": FairLinearSVC(),
    "unconstrained": FairLogisticRegression(constraint=None),
    "svc": FairSVC(loss="logistic"),
    "trees": FairTreeClassifier(C=1.0),
    "several classes": FairMultinomialLogisticRegression(),
    "one against the rest": FairOneVsRestClassifier(FairLogisticRegression()),
    "regressor": FairRegressor(),
    "certified": CertifiedClassifier(FairLogisticRegression(constraint=PRuleBound(40, confidence=0.9))),
    "pipeline": make_pipeline(StandardScaler(), FairLogisticRegression()),
    **{loss: FairMarginClassifier(loss=loss) for loss in LOSSES},
}
CONSTRAINTS = {
    "covariance": CovarianceBound({"sex": {"f": 0.01}}),
    "relative": CovarianceBound(0.5, relative=True),
    "loss": LossBound(0.05),
    "individual": IndividualLossBound(0.5, keep_positive={"sex": "m"}),
    "promise": IndividualLossBound(keep_positive="accepted"),
    "rule": PRuleBound(80),
    "rule on decisions": PRuleBound(80, path="decisions"),
    "confidence": PRuleBound(40, confidence=0.9),
    "opportunity": CovarianceBound(0.0, notion="true_positive_rate"),
    "odds": CovarianceBound(0.0, notion=EqualizedOdds()),
    "errors": LossBound(0.05, notion="error_rate"),
}


@pytest.fixture(scope="module")
def people():
    X, y, z = make_linear_synthetic(300, random_state=0)
    return X, y, pd.DataFrame({"sex": np.where(z == 1, "m", "f")})


def fit(model, X, y, sex):
    last = model.steps[-1][0] + "__" if hasattr(model, "steps") else ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small data: groups are small, covariances cheap
        return model.fit(X, y, **{f"{last}sensitive_features": sex})


def assert_same(one, other):
    """Assert that two fitted attributes are equal, pandas objects with their labels."""
    assert type(one) is type(other)
    if isinstance(one, pd.Series):
        pd.testing.assert_series_equal(one, other, check_index_type=False)
    elif isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_index_type=False)
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)


def assert_travels(model, X):
    """Assert that a fitted estimator decides as before after skops and after pickle, and kept its attributes."""
    saved = skops.io.dumps(model)
    for again in (skops.io.loads(saved, trusted=trusted_types()), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        if hasattr(model, "decision_function"):
            np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        assert vars(again).keys() == vars(model).keys()
        for name, value in vars(model).items():
            assert_same(getattr(again, name), value)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_travel(name, people):
    X, y, sex = people
    assert_travels(fit(ESTIMATORS[name], X, y, sex), X)


@pytest.mark.parametrize("constraint", [CovarianceBound(), PRuleBound(50)])
def test_several_classes_travel(constraint, people):
    X, y, sex = people
    three = np.where(X[:, 0] > 2.0, "third", np.where(y > 0, "first", "second"))
    assert_travels(fit(FairMultinomialLogisticRegression(constraint=constraint), X, three, sex), X)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_travel(name, people):
    X, y, sex = people
    model = fit(FairLogisticRegression(constraint=CONSTRAINTS[name]), X, y, sex)
    assert_travels(model, X)
    again = skops.io.loads(skops.io.dumps(model), trusted=trusted_types())
    assert repr(again.constraint) == repr(model.constraint)
    assert again.certificate_ == model.certificate_


def test_records_of_a_list_of_constraints_travel(people):
    """They hold Series, at which skops ended in an error of pandas."""
    X, y, sex = people
    asked = [CovarianceBound(0.5, relative=True), LossBound(0.9), PRuleBound(30)]
    model = fit(FairLogisticRegression(constraint=asked), X, y, sex)
    assert_travels(model, X)
    again = skops.io.loads(skops.io.dumps(model), trusted=trusted_types())
    for one, other in zip(again.constraints_, model.constraints_, strict=True):
        assert (one.constraint, one.violation, one.figures) == (other.constraint, other.violation, other.figures)
        pd.testing.assert_series_equal(one.covariance, other.covariance)


ENSEMBLES = {
    "forest": RandomForestClassifier(8, max_leaf_nodes=8, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=8, random_state=0),
    "lightgbm": LGBMClassifier(n_estimators=8, verbose=-1, n_jobs=1),
    "xgboost": XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1),
    "catboost": CatBoostClassifier(iterations=8, depth=3, verbose=0, thread_count=1, allow_writing_files=False),
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_ensembles_travel(name, people):
    X, y, sex = people
    assert_travels(fit(FairTreeClassifier(ENSEMBLES[name], C=1.0), X, y, sex), X)


def test_pipelines_with_imputers_travel(people):
    X, y, sex = people
    frame = pd.DataFrame({"age": X[:, 0], "job": np.where(X[:, 1] > 0, "clerk", "smith"), "rank": "low"})
    frame.loc[::7, "age"] = np.nan
    frame.loc[1::7, "job"] = None
    frame.loc[2::7, "rank"] = "high"
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["job"]),
        (OrdinalEncoder(), ["rank"]),
    )
    assert_travels(fit(make_pipeline(columns, FairLogisticRegression()), frame, y, sex), frame)


def test_transformers_travel(people):
    X, y, _ = people
    frame = pd.DataFrame({"age": X[:, 0], "job": np.where(X[:, 1] > 0, "clerk", "smith")})
    for model, rows in ((KernelFeatures(tol=0.1), X), (LeafFeatures(), X), (CategoryEncoder(), frame)):
        fitted = model.fit(rows, y)
        again = skops.io.loads(skops.io.dumps(fitted), trusted=trusted_types())
        before, after = (np.asarray(_dense(m.transform(rows))) for m in (fitted, again))
        np.testing.assert_array_equal(before, after)


def test_what_the_json_file_refuses_travels_by_skops(people, tmp_path):
    """The errors of ``io.save`` send people to skops: a column transformer and trees do travel by it."""
    from fairmargin import io

    X, y, sex = people
    frame = pd.DataFrame({"age": X[:, 0], "job": np.where(X[:, 1] > 0, "clerk", "smith")})
    columns = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["job"]))
    model = make_pipeline(columns, FairLogisticRegression())
    model.fit(frame, y, fairlogisticregression__sensitive_features=sex)
    with pytest.raises(io.ModelFileError, match=r"ColumnTransformer .* skops.io.load\(path, trusted="):
        io.save(model, tmp_path / "model.json")
    skops.io.dump(model, tmp_path / "model.skops")
    again = skops.io.load(tmp_path / "model.skops", trusted=trusted_types())
    np.testing.assert_array_equal(again.decision_function(frame), model.decision_function(frame))


def _dense(matrix):
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def test_frontiers_travel_with_their_table(people):
    X, y, sex = people
    frontier = fit(FairnessFrontier(FairLogisticRegression(), n_points=3), X, y, sex)
    again = skops.io.loads(skops.io.dumps(frontier), trusted=trusted_types())
    pd.testing.assert_frame_equal(again.table_, frontier.table_)
    for one, other in zip(frontier.estimators_, again.estimators_, strict=True):
        pd.testing.assert_series_equal(one.covariance_, other.covariance_)


def test_several_attributes_keep_their_labels(people):
    X, y, sex = people
    several = sex.assign(age=np.linspace(20, 60, len(sex)), race=np.resize([1, 2, 3], len(sex)).astype(str))
    model = fit(FairLogisticRegression(constraint=CovarianceBound({"sex": 0.0})), X, y, several)
    again = skops.io.loads(skops.io.dumps(model), trusted=trusted_types())
    assert again.covariance_.index.tolist() == model.covariance_.index.tolist()
    pd.testing.assert_series_equal(again.multipliers_, model.multipliers_)


def test_skops_refuses_what_is_not_trusted(people):
    X, y, sex = people
    saved = skops.io.dumps(fit(FairLogisticRegression(), X, y, sex))
    assert set(skops.io.get_untrusted_types(data=saved)) <= set(trusted_types())
    with pytest.raises(TypeError, match="FairLogisticRegression"):
        skops.io.loads(saved, trusted=[])
