"""Pipelines as JSON files: the same decisions after a round trip, and damage named in one line."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from fairmargin import CategoryEncoder, FairLogisticRegression, FairSVC, io
from fairmargin.datasets import make_linear_synthetic

X, y, z = make_linear_synthetic(300, random_state=0)
FRAME = pd.DataFrame({"a": np.where(X[:, 0] > 0, "high", "low"), "b": np.where(X[:, 1] > 1, "x", "y")})
GAPS = np.where(np.arange(X.size).reshape(X.shape) % 17 == 0, np.nan, X)
PIPELINES = {
    "scaler": ([StandardScaler()], X),
    "scalers": ([MinMaxScaler(), MaxAbsScaler(), RobustScaler(), Normalizer()], X),
    "imputer": ([SimpleImputer(strategy="median"), StandardScaler(with_mean=False)], GAPS),
    "one hot": ([OneHotEncoder(handle_unknown="ignore")], FRAME),
    "ordinal": ([OrdinalEncoder(), "passthrough"], FRAME),
    "categories": ([CategoryEncoder()], FRAME.assign(n=X[:, 0], b=FRAME["b"].where(X[:, 0] > 0))),
}


def fitted(steps, rows, last=None):
    pipe = make_pipeline(*steps, last or FairLogisticRegression())
    return pipe.fit(rows, y, **{f"{pipe.steps[-1][0]}__sensitive_features": z})


@pytest.mark.parametrize("name", PIPELINES)
def test_round_trips(name, tmp_path):
    steps, rows = PIPELINES[name]
    pipe = fitted(steps, rows)
    io.save(pipe, tmp_path / "model.json")
    again = io.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.decision_function(rows), pipe.decision_function(rows))
    np.testing.assert_array_equal(again.predict(rows), pipe.predict(rows))
    assert [name for name, _ in again.steps] == [name for name, _ in pipe.steps]


def test_kernel_classifiers_in_pipelines(tmp_path):
    pipe = fitted([StandardScaler()], X, FairSVC())
    io.save(pipe, tmp_path / "model.json")
    again = io.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.decision_function(X), pipe.decision_function(X))


def test_steps_that_cannot_be_saved_are_named(tmp_path):
    with pytest.raises(io.ModelFileError, match="a PCA cannot be saved"):
        io.save(fitted([PCA(2)], X), tmp_path / "model.json")
    assert not (tmp_path / "model.json").exists()


def saved(tmp_path):
    path = tmp_path / "model.json"
    io.save(fitted([StandardScaler()], X), path)
    return path, json.loads(path.read_text())


def first_step(plain):
    return plain["estimator"]["steps"][0][1]


DAMAGE = {
    "does not know, 'FunctionTransformer'": lambda plain: first_step(plain).update({"class": "FunctionTransformer"}),
    "fitted attribute 'transform'": lambda plain: first_step(plain)["fitted"]["values"].update(transform=1),
    "fitted attribute '__class__'": lambda plain: first_step(plain)["fitted"]["values"].update(__class__=1),
    "has the shape": lambda plain: first_step(plain)["fitted"]["values"]["mean_"]["$array"].append(1.0),
    "scikit-learn 0.1": lambda plain: plain["estimator"].update({"scikit-learn": "0.1.0"}),
    "it lacks 'steps'": lambda plain: plain["estimator"].pop("steps"),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_damage_is_named(message, tmp_path):
    path, plain = saved(tmp_path)
    DAMAGE[message](plain)
    path.write_text(json.dumps(plain))
    with pytest.raises(io.ModelFileError, match=message) as error:
        io.load(path)
    assert "\n" not in str(error.value)
