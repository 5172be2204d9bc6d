"""Estimators on Dask frames: as on the same rows in memory. Every fit is checked once more by conftest.py."""

import subprocess
import sys

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairSVC,
    LossBound,
    PRuleBound,
)
from fairmargin.partitioned import dask_frames
from fairmargin.partitioned.engines import current_client
from partitioned_data import people

FEATURES = ["x0", "x1", "x2", "x3", "year"]


@pytest.fixture(scope="module")
def frame():
    return people(6000)


@pytest.fixture(scope="module")
def ddf(frame):
    return dd.from_pandas(frame, npartitions=5)


CASES = {
    "c = 0": (FairLogisticRegression(), "sex", None),
    "weights": (FairLogisticRegression(0.1, constraint=CovarianceBound(0.01)), "origin", "weight"),
    "no penalty": (FairLogisticRegression(np.inf), "sex", None),
    "no intercept": (FairLogisticRegression(fit_intercept=False, constraint=CovarianceBound(0.02)), "sex", None),
    "hinge": (FairLinearSVC(0.01), "sex", None),
    "huber": (FairMarginClassifier("modified_huber", class_weight="balanced"), "age", None),
    "loss": (FairLogisticRegression(constraint=LossBound(0.01)), "sex", None),
}


@pytest.mark.numerical
@pytest.mark.parametrize("case", CASES)
def test_as_in_memory(case, frame, ddf):
    estimator, attribute, weight = CASES[case]
    given = {} if weight is None else {"sample_weight": ddf[weight]}
    model = clone(estimator).fit(ddf[FEATURES], ddf["y"], sensitive_features=ddf[[attribute]], **given)
    given = {} if weight is None else {"sample_weight": frame[weight]}
    twin = clone(estimator).fit(frame[FEATURES], frame["y"], sensitive_features=frame[[attribute]], **given)
    assert model.certificate_.objective == pytest.approx(twin.certificate_.objective, rel=3e-9)
    np.testing.assert_allclose(
        model.decision_function(frame[FEATURES]), twin.decision_function(frame[FEATURES]), atol=3e-3
    )
    assert list(model.covariance_.index) == list(twin.covariance_.index)
    assert model.feature_names_in_.tolist() == FEATURES
    assert model.n_features_in_ == len(FEATURES)


def test_rule_on_decisions(frame, ddf):
    model = FairLogisticRegression(constraint=PRuleBound(85)).fit(
        ddf[FEATURES], ddf["y"], sensitive_features=ddf["sex"]
    )
    accepted = pd.Series(model.predict(frame[FEATURES]) == 1)
    rates = accepted.groupby(frame["sex"]).mean()
    assert 100 * rates.min() / rates.max() >= 85
    assert model.p_rule_ == pytest.approx(100 * rates.min() / rates.max())


def test_results_are_lazy(frame, ddf):
    model = FairLogisticRegression().fit(ddf[FEATURES], ddf["y"], sensitive_features=ddf["sex"])
    X = frame[FEATURES]
    for method, expected in (
        ("decision_function", model.decision_function(X)),
        ("predict", model.predict(X)),
        ("predict_proba", model.predict_proba(X)),
        ("predict_log_proba", model.predict_log_proba(X)),
    ):
        result = getattr(model, method)(ddf[FEATURES])
        assert isinstance(result, dd.DataFrame | dd.Series)
        computed = result.compute(scheduler="synchronous")
        np.testing.assert_array_equal(computed, expected)
        assert computed.index.equals(frame.index)
    few = ddf[ddf["x0"] > 3.2]  # some partitions have no rows
    assert len(model.predict(few[FEATURES]).compute(scheduler="synchronous")) == (frame["x0"] > 3.2).sum()


def test_truth_values_and_words(frame, ddf):
    named = {"tall": ddf["x0"] > 0, "x1": ddf["x1"]}
    X = ddf[["x2"]].assign(**named)
    y = ddf["y"].map({0: "no", 1: "yes"}, meta=("y", object))
    model = FairLogisticRegression(pos_label="yes").fit(X, y, sensitive_features=ddf["sex"].rename(None))
    assert model.classes_.tolist() == ["no", "yes"]
    assert list(model.covariance_.index) == [("sensitive", "woman")]
    computed = model.predict(X).compute(scheduler="synchronous")
    assert set(computed) == {"no", "yes"}


def test_on_the_current_client(ddf, dask_client, monkeypatch):
    from distributed import default_client

    assert current_client() is None
    local = FairLogisticRegression().fit(ddf[FEATURES], ddf["y"], sensitive_features=ddf["sex"])
    asked = []
    with dask_client.as_current():
        assert default_client() is dask_client
        engine_for = dask_frames.engine_for
        monkeypatch.setattr(dask_frames, "engine_for", lambda client: asked.append(client) or engine_for(client))
        there = FairLogisticRegression().fit(ddf[FEATURES], ddf["y"], sensitive_features=ddf["sex"])
    assert asked == [dask_client]
    np.testing.assert_array_equal(local.coef_, there.coef_)
    assert dask_client.status == "running"


def test_what_cannot_be(frame, ddf):
    X, y, z = ddf[FEATURES], ddf["y"], ddf[["sex"]]
    with pytest.raises(TypeError, match=r"FairSVC needs all rows in memory: call compute\(\) on the Dask frames"):
        FairSVC().fit(X, y, sensitive_features=z)
    with pytest.raises(ValueError, match="column 'job' of X holds categories, not numbers; encode it"):
        FairLogisticRegression().fit(ddf[["x0", "job"]], y, sensitive_features=z)
    with pytest.raises(TypeError, match="y must be a Dask series, as X is a Dask frame; got a Series"):
        FairLogisticRegression().fit(X, frame["y"], sensitive_features=z)
    with pytest.raises(ValueError, match="'x0' is both in X and in sensitive_features"):
        FairLogisticRegression().fit(X, y, sensitive_features=ddf[["x0"]])
    with pytest.raises(ValueError, match="strata and safety_set need all rows in memory"):
        FairLogisticRegression().fit(X, y, sensitive_features=z, strata=z)
    with pytest.raises(ValueError, match="needs sensitive features in fit"):
        FairLogisticRegression().fit(X, y)
    broken = ddf.assign(x1=ddf["x1"].mask(ddf["x1"] == frame["x1"][3000]))
    with pytest.raises(ValueError, match=r"'x1' has 1 values that are missing, NaN or infinite in partition 2"):
        FairLogisticRegression().fit(broken[FEATURES], y, sensitive_features=z)


def test_dask_is_imported_only_where_it_is_used():
    code = """
import sys, numpy as np, fairmargin
X = np.random.default_rng(0).normal(size=(50, 2))
fairmargin.FairLogisticRegression().fit(X, X[:, 0] > 0, sensitive_features=X[:, 1] > 0).predict(X)
assert not {"dask", "distributed", "pyspark", "pyarrow.parquet"} & set(sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
