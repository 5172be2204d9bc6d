"""Comparing every method: what is measured, which methods fit the data, going on after a stop, the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from typer.testing import CliRunner

from fairmargin import p_rule
from fairmargin.baselines import METHODS
from fairmargin.cli import app
from fairmargin.exceptions import DataError, FavourableClassWarning
from fairmargin.experiments import compare
from fairmargin.experiments.cli import register
from fairmargin.experiments.method_runs import every_method

QUICK = ["none", "covariance", "reweighing", "two-nb"]


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 300
    sex, job = rng.choice(["f", "m"], n), rng.choice(["clerk", "cook"], n)
    frame = pd.DataFrame({"debt": rng.normal(size=n) + (sex == "m"), "job": job})
    repaid = frame["debt"] + (job == "cook") + rng.logistic(size=n) > 0.8
    return frame, repaid.to_numpy().astype(int), pd.Series(sex, name="sex")


@pytest.fixture(scope="module")
def found(people, tmp_path_factory):
    frame, y, sex = people
    out = tmp_path_factory.mktemp("comparison")
    return compare(frame, y, sensitive_features=sex, methods=QUICK, n_splits=2, out=out, jobs=1), out


def test_rows_and_table(found):
    result, _ = found
    assert len(result.rows) == 2 * (1 + 5 + 4 + 1)
    assert len(result.table) == 11
    assert (result.table["splits"] == 2).all()
    assert (result.rows["error"] == "").all()
    assert result.skipped == {}
    mean = result.rows.query("method == 'none'")[["accuracy", "p_rule"]].mean()
    assert result.table.loc[0, ["accuracy", "p_rule"]].tolist() == pytest.approx(mean.tolist())


def test_what_is_measured_by_hand(people, found):
    frame, y, sex = people
    rows = train_test_split(np.arange(300), test_size=0.3, random_state=1)
    X = pd.get_dummies(frame, drop_first=True, dtype=float)
    train = X.iloc[rows[0]]
    X["debt"] = (X["debt"] - train["debt"].mean()) / train["debt"].std(ddof=0)
    model = LogisticRegression(solver="newton-cholesky").fit(X.iloc[rows[0]].to_numpy(), y[rows[0]])
    decided = model.predict(X.iloc[rows[1]].to_numpy())
    row = found[0].rows.query("method == 'none' and split == 1").iloc[0]
    label, z = y[rows[1]], sex.iloc[rows[1]].to_numpy()
    assert row["accuracy"] == pytest.approx(np.mean(decided == label))
    assert row["p_rule"] == pytest.approx(p_rule(label, decided, sensitive_features=z, pos_label=1))
    assert row["fpr"] == pytest.approx(np.mean(decided[label == 0] == 1))
    assert row["fnr"] == pytest.approx(np.mean(decided[label == 1] == 0))
    assert row["rate sex=f"] == pytest.approx(np.mean(decided[z == "f"] == 1))
    gap = [np.mean(decided[(label == 1) & (z == g)] == 0) for g in "fm"]
    assert row["fnr_difference"] == pytest.approx(abs(gap[0] - gap[1]))
    assert 0.5 < row["auc"] < 1


def test_files_and_picture(found):
    result, out = found
    for name in ("rows.csv", "table.csv", "table.md", "comparison.png", "comparison.svg"):
        assert (out / name).stat().st_size > 100
    assert (out / "comparison.png").read_bytes().startswith(b"\x89PNG")
    axis = result.plot().axes[0]
    drawn = {line.get_label(): len(line.get_xdata()) for line in axis.get_lines()}
    assert drawn["Covariance bound"] == 5  # a curve
    assert drawn["Two naive Bayes"] == 1  # a point
    assert "| No constraint |" in result.to_markdown()


def test_finished_work_is_not_repeated(people, found):
    frame, y, sex = people
    result, out = found
    seen = []
    again = compare(
        frame,
        y,
        sensitive_features=sex,
        methods=[*QUICK, "massaging"],
        n_splits=2,
        out=out,
        jobs=1,
        done=lambda k, n, title: seen.append((k, n)),
    )
    assert seen[0] == (22, 30)  # only the new method's eight units are left
    both = again.rows[again.rows["method"] != "massaging"].reset_index(drop=True)
    pd.testing.assert_frame_equal(both, result.rows)
    # Other people are another question.
    seen.clear()
    compare(
        frame.assign(debt=frame["debt"] * 2),
        y,
        sensitive_features=sex,
        methods=["none"],
        n_splits=1,
        out=out,
        jobs=1,
        done=lambda k, n, title: seen.append((k, n)),
    )
    assert seen[0] == (0, 1)


def test_methods_that_do_not_take_the_attributes_are_left_out(people, tmp_path):
    frame, y, sex = people
    race = np.resize(["x", "y", "z"], 300)
    keys = ["none", "prejudice-remover", "massaging"]
    result = compare(frame, y, sensitive_features=race, methods=keys, n_splits=1, out=tmp_path, jobs=1)
    assert result.skipped == {"Prejudice remover": "takes an attribute of two values"}
    both = pd.DataFrame({"sex": sex, "race": race})
    result = compare(frame, y, sensitive_features=both, methods=keys, n_splits=1, out=tmp_path, jobs=1)
    assert result.skipped == {"Prejudice remover": "takes one sensitive attribute"}
    with pytest.raises(DataError, match="None of the methods"):
        compare(frame, y, sensitive_features=race, methods=["two-nb"], n_splits=1, out=tmp_path, jobs=1)


def test_a_method_that_fails_is_said_and_the_others_go_on(people, tmp_path):
    frame, _, sex = people
    y = ((sex == "m") & (frame["debt"] > 0.5)).astype(int)  # no woman is positive
    result = compare(
        frame, y, sensitive_features=sex, methods=["none", "massaging"], n_splits=1, out=tmp_path, jobs=1
    )
    failed = result.table[result.table["method"] == "Massaging"]
    assert failed["error"].str.contains("none has 'sex' = 'f' and label 1").all()
    assert (failed["splits"] == 0).all()
    assert result.table.loc[0, "splits"] == 1
    assert "–" in result.to_markdown()


def test_every_method_of_the_package_is_compared():
    keys = [method.key for method in every_method()]
    assert keys[:3] == ["none", "covariance", "p-rule"]
    assert set(keys[3:]) == {method.key for method in METHODS}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": ["magic"]}, "There is no method 'magic'; there are none, covariance"),
        ({"n_splits": 0}, "at least one split"),
        ({"test_share": 1.0}, "test share between 0 and 1"),
        ({"y": np.arange(300)}, "y must have two classes, got 300"),
        ({"sensitive_features": np.arange(300.0)}, "is a number; cut it into groups"),
        ({"matrix": np.zeros((3, 2))}, "as many rows"),
    ],
)
def test_bad_input_is_said(people, tmp_path, arguments, message):
    frame, y, sex = people
    given = {"y": y, "sensitive_features": sex, "n_splits": 1, "jobs": 1, "out": tmp_path, "methods": ["none"]}
    given |= arguments
    with pytest.raises(DataError, match=message):
        compare(frame, given.pop("y"), **given)


@pytest.fixture(scope="module")
def application():
    if not any(command.callback.__name__ == "compare" for command in app.registered_commands):
        register(app)
    return app


def test_the_command(application, people, tmp_path):
    frame, y, sex = people
    frame.assign(sex=sex, repaid=np.where(y == 1, "yes", "no")).to_csv(tmp_path / "people.csv", index=False)
    asked = [str(tmp_path / "people.csv"), "-t", "repaid", "-p", "yes", "-s", "sex", "--splits", "1", "--jobs", "1"]
    asked += ["--method", "none", "--method", "reweighing", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(application, ["compare", *asked])
    assert result.exit_code == 0, result.output
    assert "| Reweighing | strength = 1 |" in result.output
    assert "picture:" in result.output
    assert len(list((tmp_path / "out" / "units" / "measure_method").glob("*.json"))) == 5
    unit = next((tmp_path / "out" / "units" / "measure_method").glob("*.json"))
    assert json.loads(unit.read_text())["rows"][0]["error"] == ""


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--dataset", "iris"], "no data set 'iris'; there are adult, bank, compas"),
        (["--dataset", "adult", "--demo"], "not several of them"),
        (["--demo", "--method", "magic"], "no method 'magic'"),
        ([], "Name a data file"),
    ],
)
def test_the_command_says_what_is_wrong(application, asked, message):
    result = CliRunner().invoke(application, ["compare", *asked])
    assert result.exit_code != 0
    assert message in str(result.exception)


def test_missing_values_are_imputed_for_methods_that_see_the_columns(people, tmp_path):
    frame, y, sex = people
    holes = frame.copy()
    holes.loc[::7, "debt"] = np.nan
    holes.loc[::5, "job"] = None
    keys = [m.key for m in every_method() if m.takes_categories]
    assert len(keys) >= 4
    found = compare(holes, y, sensitive_features=sex, methods=keys, n_splits=1, out=tmp_path, jobs=1)
    assert set(found.rows["method"]) == set(keys)
    assert (found.rows["error"] == "").all()
    assert found.rows["accuracy"].between(0.4, 1.0).all()


def test_the_favourable_class_is_named_or_said(people, found, tmp_path):
    frame, y, sex = people
    words = np.where(y == 1, "good", "poor")
    asked = {"sensitive_features": sex, "methods": QUICK, "n_splits": 2, "jobs": 1}
    named = compare(frame, words, pos_label="good", out=tmp_path / "named", **asked)
    columns = ["accuracy", "auc", "p_rule", "fpr", "rate sex=f"]
    pd.testing.assert_frame_equal(named.table[columns], found[0].table[columns])
    asked["methods"] = ["none"]
    with pytest.warns(FavourableClassWarning, match="'poor' is taken as the favourable class") as heard:
        compare(frame, words, out=tmp_path / "other", **asked)
    assert heard[0].filename == __file__
    with pytest.raises(ValueError, match="pos_label='fine' is not among the labels"):
        compare(frame, words, pos_label="fine", out=tmp_path / "other", **asked)


@pytest.mark.parametrize(
    ("labels", "groups"),
    [("Int64", "string"), ("boolean", "Int64"), ("category", "boolean")],
)
def test_nullable_columns(people, tmp_path, labels, groups):
    frame, y, sex = people
    holes = np.arange(len(frame)) % 9 == 0
    X = pd.DataFrame(
        {
            "debt": frame["debt"].astype("Float64").mask(holes),
            "age": pd.array(np.arange(len(frame)) % 40, dtype="Int64"),
            "job": frame["job"].astype("string").mask(holes),
            "owns": pd.array(np.arange(len(frame)) % 3 == 0, dtype="boolean"),
            "rents": pd.Series(np.arange(len(frame)) % 4 == 0, dtype="boolean").mask(holes),
            "town": pd.Categorical(np.where(holes, None, np.resize(["a", "b"], len(frame)))),
        }
    )
    coded = (sex == "f").astype(int) if groups == "Int64" else (sex == "f") if groups == "boolean" else sex
    keys = ["none", "p-rule", "reweighing", "two-nb", "situation-testing"]
    asked = {"methods": keys, "n_splits": 1, "out": tmp_path, "jobs": 1}
    result = compare(X, pd.Series(y).astype(labels), sensitive_features=coded.astype(groups), **asked)
    assert (result.rows["error"] == "").all()
    assert result.rows["accuracy"].between(0.4, 1.0).all()


def test_missing_labels_are_said(people, tmp_path):
    frame, y, sex = people
    labels = pd.Series(y, dtype="Int64").mask(np.arange(300) < 3)
    with pytest.raises(DataError, match="y has 3 missing values"):
        compare(frame, labels, sensitive_features=sex, methods=["none"], n_splits=1, out=tmp_path, jobs=1)
