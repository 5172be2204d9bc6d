"""
Track a fair model, its proof and its report with MLflow
========================================================

One MLflow run holds everything that a reviewer of a model asks for: the settings, accuracy and p%-rule on people held
out, the certificate, an audit of the decisions, a report to open in a browser, a model card, and the model itself in
the skops format, which is safe to load.

Run ``python examples/track_with_mlflow.py FOLDER``; it needs ``pip install mlflow-skinny skops`` and writes to a
local folder, without a server.
"""

import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

# MLflow prefers a database; a folder is enough for a team that shares one.
os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

import mlflow
import mlflow.sklearn
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from fairmargin import CategoryEncoder, FairLogisticRegression, PRuleBound, model_card, p_rule
from fairmargin.audit import audit
from fairmargin.datasets import make_credit_demo
from fairmargin.io import trusted_types
from fairmargin.report import to_html, to_json
from fairmargin.tables import prepare, table_of_frame
from fairmargin.tables.jobs import trace

# %%
# Data that are made up: applications for credit, whether they were repaid, and the sex of the applicants.
# Sensitive columns are no features.
table = make_credit_demo(2000)
table["income"] = table["income"].fillna(table["income"].median())
train, test = train_test_split(table, test_size=0.3, random_state=0)
columns = [name for name in table.columns if name not in ("repaid", "sex", "origin")]

# %%
# A pipeline that ends in a classifier under an 80%-rule.
rule = PRuleBound(80)
model = make_pipeline(CategoryEncoder(), FairLogisticRegression(constraint=rule, pos_label="yes"))
model.fit(train[columns], train["repaid"], fairlogisticregression__sensitive_features=train["sex"])
decisions = model.predict(test[columns])

# %%
# The report compares all trade-offs between accuracy and fairness, not only the one that was chosen.
study = prepare(table_of_frame(table, "made-up credit data"), target="repaid", positive="yes", sensitive=["sex"])
report = trace(study, FairLogisticRegression(), n_points=11)

# %%
# One run with all of it. The list of trusted types lets MLflow load the model without executing what a file says.
folder = Path(sys.argv[1]) if len(sys.argv) > 1 and "sphinx" not in sys.argv[0] else Path(tempfile.mkdtemp())
mlflow.set_tracking_uri((folder.resolve() / "runs").as_uri())
mlflow.set_experiment("credit")
with mlflow.start_run(run_name="credit, 80%-rule") as run:
    mlflow.log_params({"constraint": repr(rule), "C": model[-1].C})
    mlflow.log_metrics(
        {
            "accuracy": float(np.mean(decisions == test["repaid"])),
            "p_rule": p_rule(test["repaid"], decisions, sensitive_features=test["sex"], pos_label="yes"),
            "gap": model[-1].path_certificate_.gap,
        }
    )
    audited = audit(decisions, sensitive_features=test["sex"], pos_label="yes")
    # Of a rule on decisions: the proof that the classifier is the optimum of its point on the search path.
    mlflow.log_text(to_json(asdict(model[-1].path_certificate_)), "certificate.json")
    mlflow.log_text(to_json(audited.to_dict()), "audit.json")
    mlflow.log_text(to_html(report), "report.html")
    mlflow.log_text(
        model_card(
            model,
            test[columns],
            test["repaid"],
            sensitive_features=test["sex"],
            title="Credit decisions under an 80%-rule",
            intended_use="An example on made-up data; no decisions about people.",
        ),
        "model_card.md",
    )
    logged = mlflow.sklearn.log_model(
        model,
        name="model",
        serialization_format="skops",
        skops_trusted_types=trusted_types(),
        pip_requirements=["fairmargin"],
    )

# %%
# The model comes back as it was.
again = mlflow.sklearn.load_model(logged.model_uri)
assert np.array_equal(again.predict(test[columns]), decisions)
for name in ("accuracy", "p_rule", "gap"):
    print(f"{name:>10} {mlflow.get_run(run.info.run_id).data.metrics[name]:.4g}")
for artifact in mlflow.artifacts.list_artifacts(run_id=run.info.run_id):
    print(f"{artifact.path:>20} {artifact.file_size or 0:>9,} bytes")
