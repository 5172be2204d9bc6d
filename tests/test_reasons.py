"""Reason codes: contributions that add up, exact for linear models, and tables of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairmargin import CovarianceBound, FairLogisticRegression, FairSVC, FairTreeClassifier, io
from fairmargin.cli import run
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.reasons import contributions, group_reasons, reason_codes
from fairmargin.tables import prepare, table_of_frame
from fairmargin.tables.explain import column_contributions, reference_row
from fairmargin.tables.jobs import train
from fairmargin.tables.specifications import make_estimator

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    z = rng.integers(0, 2, 120)
    y = (X @ [1.0, -2.0, 0.5, 0.0] + 0.5 * z + rng.normal(size=120) > 0).astype(int)
    return X, y, z


def test_linear_contributions_are_exact(data):
    X, y, z = data
    model = FairLogisticRegression(constraint=CovarianceBound(0.05)).fit(X, y, sensitive_features=z)
    reference = X.mean(axis=0)
    moved = contributions(model, X, reference=reference)
    np.testing.assert_allclose(moved.to_numpy(), (X - reference) * np.ravel(model.coef_), rtol=1e-12)
    apart = model.decision_function(X) - model.decision_function(reference[None])
    np.testing.assert_allclose(moved.sum(axis=1), apart, rtol=1e-9, atol=1e-12)
    reasons = model.reason_codes(X, reference=reference, n_reasons=2)
    accepted = model.decision_function(X) >= 0
    for i in range(len(X)):
        row = np.where(accepted[i], moved.iloc[i], -moved.iloc[i])
        best = int(np.argmax(row))
        assert reasons["reason_1"][i] == (f"x{best}" if row[best] > 0 else "")
        if row[best] > 0:
            assert reasons["contribution_1"][i] == moved.iloc[i, best]


MODELS = [
    ("trees", FairTreeClassifier(GradientBoostingClassifier(n_estimators=5), constraint=None, C=1.0)),
    ("kernel", FairSVC(constraint=None)),
    ("pipeline", make_pipeline(StandardScaler(), LogisticRegression())),
]


@pytest.mark.parametrize(("name", "model"), MODELS)
def test_contributions_add_up_for_every_model(data, name, model):
    X, y, _ = data
    model.fit(X, y)
    moved = contributions(model, X[:20], reference=X[0], n_orders=2)
    apart = model.decision_function(X[:20]) - model.decision_function(X[:1])
    np.testing.assert_allclose(moved.sum(axis=1), apart, atol=1e-9)
    np.testing.assert_array_equal(moved.iloc[0], 0.0)  # the reference itself
    if name == "pipeline":  # linear behind a scaler: every order says the same
        scale, linear = model[0].scale_, model[1].coef_[0]
        np.testing.assert_allclose(moved, (X[:20] - X[0]) / scale * linear, atol=1e-9)


def test_an_additive_model_is_explained_exactly():
    # Trees of depth one do not interact: any order gives each feature's own difference.
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] - X[:, 1] > 0).astype(int)
    model = GradientBoostingClassifier(n_estimators=10, max_depth=1, random_state=0).fit(X, y)
    moved = contributions(model, X[:10], reference=X[10], n_orders=1)
    for j in range(3):
        mixed = np.tile(X[10], (10, 1))
        mixed[:, j] = X[:10, j]
        expected = model.decision_function(mixed) - model.decision_function(X[10:11])
        np.testing.assert_allclose(moved.iloc[:, j], expected, atol=1e-9)


def test_references_and_names(data):
    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = LogisticRegression().fit(frame, y)
    moved = contributions(model, frame)
    assert list(moved.columns) == list("abcd")
    np.testing.assert_allclose(moved, (X - np.median(X, axis=0)) * model.coef_[0], rtol=1e-12)
    with pytest.raises(ValueError, match="2 values for 4 features"):
        reason_codes(model, frame, reference=[0.0, 1.0])
    with pytest.raises(ValueError, match="n_reasons"):
        reason_codes(model, frame, n_reasons=0)
    few = reason_codes(model, frame, n_reasons=9)
    assert "reason_4" in few
    assert "reason_5" not in few


def test_differences_of_groups_add_up(data):
    X, y, z = data
    model = LogisticRegression().fit(X, y)
    table = group_reasons(contributions(model, X), pd.DataFrame({"z": z}), n_reasons=4)
    scores = model.decision_function(X)
    for group, rows in table.groupby("group"):
        inside = z.astype(str) == group
        apart = scores[inside].mean() - scores[~inside].mean()
        assert rows["difference"].sum() == pytest.approx(apart)
        assert rows["total"].iloc[0] == pytest.approx(apart)
        assert np.all(np.diff(np.abs(rows["difference"])) <= 0)


@pytest.fixture(scope="module")
def study():
    table = table_of_frame(make_credit_demo(400), "people")
    return prepare(table, target="repaid", positive="yes", sensitive=["sex", "origin"])


@pytest.mark.parametrize("name", ["logistic", "svm"])
def test_columns_of_a_table_add_up(study, name):
    estimator = make_estimator(name, None)
    model, _ = train(study, estimator)
    people = study.test.frame.iloc[:15]
    moved = column_contributions(model.encoder, model.estimator, people, n_orders=1)
    assert list(moved.columns) == [column.name for column in model.encoder.columns]
    apart = model.scores(people) - model.scores(reference_row(model.encoder))
    np.testing.assert_allclose(moved.sum(axis=1), apart, atol=1e-9)


def test_reasons_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_credit_demo(400).to_csv("people.csv", index=False)
    assert run(["train", "people.csv", "-t", "repaid", "-p", "yes", "-s", "sex", "-x", "origin", "-v"]) == 0
    assert "What sets the scores of groups apart" in capsys.readouterr().out
    assert run(["predict", "model.json", "people.csv", "--reasons", "2", "-o", "out.csv", "-q"]) == 0
    written, frame = pd.read_csv("out.csv"), pd.read_csv("people.csv")
    model = io.load("model.json")
    expected = model.reasons(frame, 2)
    assert list(written.columns)[:2] == ["decision", "score"]
    assert written["reason_1"].fillna("").tolist() == expected["reason_1"].tolist()
    np.testing.assert_allclose(written["contribution_1"], expected["contribution_1"], rtol=1e-12)
    refused = written[written["decision"] == "no"]
    assert (refused["contribution_1"].dropna() < 0).all()
