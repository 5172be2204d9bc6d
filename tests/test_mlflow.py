"""Models in MLflow's skops format on a local folder, and the example that logs all that belongs to one."""

import os
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairmargin import (
    CertifiedClassifier,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairSVC,
    FairTreeClassifier,
    IndividualLossBound,
    LossBound,
    PRuleBound,
)
from fairmargin.datasets import make_linear_synthetic
from fairmargin.io import trusted_types

pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow, about its own future

MODELS = {
    "logistic": FairLogisticRegression(),
    "linear svc": FairLinearSVC(),
    "margin": FairMarginClassifier("modified_huber"),
    "loss": FairLogisticRegression(constraint=LossBound(0.05)),
    "individual": FairLogisticRegression(constraint=IndividualLossBound(0.5)),
    "rule": FairLogisticRegression(constraint=PRuleBound(80)),
    "confidence": FairLogisticRegression(constraint=PRuleBound(40, confidence=0.9)),
    "kernel": FairSVC(),
    "trees": FairTreeClassifier(C=1.0),
    "certified": CertifiedClassifier(FairLogisticRegression(constraint=PRuleBound(40, confidence=0.9))),
    "pipeline": make_pipeline(StandardScaler(), FairLogisticRegression()),
}


@pytest.fixture
def mlflow(monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow
        import mlflow.sklearn
    before = mlflow.get_tracking_uri()
    yield mlflow
    mlflow.set_tracking_uri(before)


@pytest.mark.parametrize("name", MODELS)
def test_skops_flavour(name, mlflow, tmp_path):
    X, y, z = make_linear_synthetic(300, random_state=0)
    model, last = MODELS[name], "fairlogisticregression__" if name == "pipeline" else ""
    model.fit(X, y, **{f"{last}sensitive_features": z})
    mlflow.sklearn.save_model(
        model,
        str(tmp_path / "model"),
        serialization_format="skops",
        skops_trusted_types=trusted_types(),
        pip_requirements=["fairmargin"],
    )
    again = mlflow.sklearn.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.slow
def test_the_example_logs_all_artifacts(mlflow, tmp_path, monkeypatch, capsys):
    example = Path(__file__).parents[1] / "examples" / "track_with_mlflow.py"
    monkeypatch.setattr(sys, "argv", [str(example), str(tmp_path)])
    found = runpy.run_path(str(example))
    artifacts = {a.path for a in found["mlflow"].artifacts.list_artifacts(run_id=found["run"].info.run_id)}
    assert {"audit.json", "certificate.json", "model_card.md", "report.html"} <= artifacts
    metrics = found["mlflow"].get_run(found["run"].info.run_id).data.metrics
    assert metrics["gap"] <= 1e-9
    assert 0.5 < metrics["accuracy"] <= 1.0
    assert os.listdir(tmp_path)
    assert "report.html" in capsys.readouterr().out
