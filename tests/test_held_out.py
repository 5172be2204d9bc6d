"""People held out: in a file of their own, written to a file, drawn repeatedly, and compared in combinations."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairmargin import IndividualLossBound, PRuleBound, cv_score, io
from fairmargin.cli import run
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.exceptions import DataError, SmallGroupWarning
from fairmargin.tables import prepare, table_of_frame
from fairmargin.tables.jobs import train
from fairmargin.tables.repeats import repeat_splits
from fairmargin.tables.specifications import make_estimator, parse_constraint

ASK = ["-t", "repaid", "-p", "yes", "-s", "sex", "-s", "origin"]
QUESTION = {"target": "repaid", "positive": "yes", "sensitive": ["sex", "origin"]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people = make_credit_demo(900)
    people[:600].to_csv("train.csv", index=False)
    people[600:].to_csv("test.csv", index=False)
    return people


def test_a_separate_file_is_held_out(folder, capsys):
    assert run(["train", "train.csv", *ASK, "--test", "test.csv", "--json", "a.json", "-q"]) == 0
    summary = json.loads(Path("a.json").read_text())
    assert (summary["data"]["train_people"], summary["data"]["test_people"]) == (600, 300)
    assert summary["data"]["test_source"] == "test.csv"
    model = io.load("model.json")
    decided = model.scores(pd.read_csv("test.csv")) >= 0
    right = np.mean(decided == (folder[600:]["repaid"] == "yes").to_numpy())
    assert summary["test"]["accuracy"] == pytest.approx(right)


def test_both_tables_are_encoded_by_the_first():
    people = make_credit_demo(800)
    whole = prepare(table_of_frame(people[:500], "a"), test_share=0.0, **QUESTION)
    both = prepare(table_of_frame(people[:500], "a"), test=table_of_frame(people[500:], "b"), **QUESTION)
    assert both.encoder.to_dict() == whole.encoder.to_dict()
    np.testing.assert_array_equal(np.asarray(both.train.X), np.asarray(whole.train.X))
    assert len(both.test) == 300
    assert both.settings["test"] == "b"


def test_what_two_tables_must_share():
    people = make_credit_demo(200)
    first = table_of_frame(people[:100], "a")
    with pytest.raises(DataError, match="b lacks 'age', 'housing', which a has"):
        prepare(first, test=table_of_frame(people[100:].drop(columns=["age", "housing"]), "b"), **QUESTION)
    with pytest.raises(DataError, match="'age' holds numbers in a and other values in b"):
        prepare(first, test=table_of_frame(people[100:].assign(age="old"), "b"), **QUESTION)
    with pytest.raises(DataError, match="'housing' holds numbers in b and other values in a"):
        prepare(first, test=table_of_frame(people[100:].assign(housing=1), "b"), **QUESTION)
    empty = prepare(first, test=table_of_frame(people[100:].assign(age=np.nan), "b"), **QUESTION)
    assert len(empty.test) == 100
    with pytest.raises(DataError, match="Nobody with a known target"):
        prepare(first, test=table_of_frame(people[100:].assign(repaid=None), "b"), **QUESTION)


def test_categories_of_parquet_stay_categories():
    people = make_credit_demo(200).assign(late_payments=lambda f: f["late_payments"].astype("category"))
    study = prepare(table_of_frame(people[:100], "a"), test=table_of_frame(people[100:], "b"), **QUESTION)
    kinds = {column["name"]: column["kind"] for column in study.encoder.to_dict()["columns"]}
    assert kinds["late_payments"] != "number"


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_the_rows_held_out_can_be_audited_again(folder, name):
    assert run(["train", "train.csv", *ASK, "--held-out", name, "--json", "a.json", "-q"]) == 0
    summary = json.loads(Path("a.json").read_text())
    assert run(["audit", name, *ASK, "--model", "model.json", "--json", "b.json", "-q"]) == 0
    audited = json.loads(Path("b.json").read_text())
    rates = [[g["rate"] for a in s["audit"]["attributes"] for g in a["groups"]] for s in (summary, audited)]
    assert rates[0] == rates[1]
    accuracies = [
        r for r in audited["audit"]["error_rates"] if r["measure"] == "accuracy" and r["attribute"] == "sex"
    ]
    right = sum(r["rate"] * r["people"] for r in accuracies) / sum(r["people"] for r in accuracies)
    assert right == pytest.approx(summary["test"]["accuracy"])


def test_rows_of_nobody(folder, capsys):
    assert run(["train", "train.csv", *ASK, "--held-out", "rows.csv", "--test-share", "0", "-q"]) == 2
    assert "(option --test-share)" in capsys.readouterr().err
    assert not Path("rows.csv").exists()


def test_repeated_splits():
    table = table_of_frame(make_credit_demo(400), "people")

    def make_study(seed):
        return prepare(table, seed=seed, min_people=1, **QUESTION)

    estimator = make_estimator("logistic", parse_constraint("p-rule=80"))
    found = repeat_splits(make_study, estimator, [3, 4])
    for seed, row in zip((3, 4), found["splits"], strict=True):
        summary = train(make_study(seed), make_estimator("logistic", parse_constraint("p-rule=80")))[1]
        assert row["accuracy"] == summary["test"]["accuracy"]
        assert row["p_rule"] == summary["test"]["p_rule"]
    totals = {row["split"]: row["accuracy"] for row in found["totals"]}
    values = [row["accuracy"] for row in found["splits"]]
    assert totals["mean"] == pytest.approx(np.mean(values))
    assert totals["standard deviation"] == pytest.approx(np.std(values, ddof=1))
    kept = sum(row["p_rule"] >= 80 for row in found["splits"])
    assert f"held on the people held out in {kept} of 2" in found["text"]
    tested = parse_constraint("p-rule=80", confidence=0.9)
    for asked in (tested, [PRuleBound(difference=0.2), tested]):
        with pytest.raises(DataError, match="voids"):
            repeat_splits(make_study, make_estimator("logistic", asked), [1])


def test_repeated_splits_of_lists_pipelines_and_notions():
    table = table_of_frame(make_credit_demo(400), "people")

    def make_study(seed):
        return prepare(table, seed=seed, min_people=1, **QUESTION)

    rule = PRuleBound(difference=0.05, notion="true_positive_rate")
    fair = make_estimator("logistic", [IndividualLossBound(10.0), rule])
    (row,) = repeat_splits(make_study, make_pipeline(StandardScaler(), fair), [3])["splits"]
    found = repeat_splits(make_study, fair, [3])
    study = make_study(3)
    with pytest.warns(SmallGroupWarning):
        fair.fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive)
    measure = {"sensitive_features": study.test.sensitive, "notion": "true_positive_rate"}
    difference = cv_score(study.test.y, fair.predict(study.test.X), **measure)
    assert found["splits"][0]["cv_score"] == pytest.approx(difference)
    assert row["cv_score"] is not None
    kept = int(difference <= 0.05)
    asked = "The largest difference of 0.05 of true positive rates asked for"
    assert f"{asked} held on the people held out in {kept} of 1." in found["text"]


@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.SmallGroupWarning")
def test_repeated_splits_count_where_all_rules_held():
    table, texts = table_of_frame(make_credit_demo(1500), "people"), {}

    def make_study(seed):
        return prepare(table, seed=seed, **QUESTION)

    rules = [PRuleBound(50), PRuleBound(difference=0.06)]
    for order in (1, -1):
        found = repeat_splits(make_study, make_estimator("logistic", rules[::order]), [1, 2, 3, 4])
        texts[order] = found["text"]
    rows = found["splits"]
    ratio, difference = [r["p_rule"] >= 50 for r in rows], [r["cv_score"] <= 0.06 for r in rows]
    assert 0 < sum(difference) < 4  # else the case shows nothing
    both = sum(a and b for a, b in zip(ratio, difference, strict=True))
    assert texts[1] == texts[-1]
    assert texts[1].endswith(
        f"All rules asked for held on the people held out in {both} of 4: the 50%-rule in {sum(ratio)}, the largest "
        f"difference of 0.06 in {sum(difference)}."
    )


def test_repeated_splits_on_the_command_line(folder, capsys):
    assert run(["train", "train.csv", *ASK, "--repeats", "2"]) == 0
    assert "Other splits" in capsys.readouterr().out
    assert run(["train", "train.csv", *ASK, "--repeats", "2", "--test", "test.csv", "-q"]) == 2
    assert "--repeats or --test" in capsys.readouterr().err


def test_combinations_in_training(folder, capsys):
    ask = ["--intersections", "--min-people", "10", "--constraint", "p-rule=80", "--json", "a.json", "-q"]
    assert run(["train", "train.csv", *ASK, *ask]) == 0
    summary = json.loads(Path("a.json").read_text())
    names = [a["name"] for a in summary["audit"]["attributes"]]
    assert names == ["sex", "origin", "sex × origin"]
    assert {g["group"] for g in summary["audit"]["attributes"][2]["groups"]} == {
        f"{sex} × {origin}" for sex in ("man", "woman") for origin in ("abroad", "local")
    }
    assert summary["train"]["p_rule"] >= 80  # over the combinations, too
    assert {"sex × origin"} <= {a["attribute"] for a in summary["train"]["attributes"]}
    assert run(["train", "train.csv", "-t", "repaid", "-p", "yes", "-s", "sex", "--intersections", "-q"]) == 2
    assert "at least two sensitive columns" in capsys.readouterr().err


def test_a_split_tells_nothing_of_the_callers_random_numbers():
    # A table whose features were drawn from the same seed as the split: were the streams one, the people held out
    # would be those with the lowest numbers.
    n = 4000
    drawn = np.random.default_rng(0).random(n)
    frame = pd.DataFrame({"x": drawn, "sex": np.tile(["a", "b"], n // 2), "y": np.tile([0, 0, 1, 1], n // 4)})
    study = prepare(table_of_frame(frame, "t"), target="y", sensitive=["sex"], seed=0, stratify=False)
    gap = study.test.frame["x"].mean() - study.train.frame["x"].mean()
    assert abs(gap) < 4 * np.sqrt(1 / 12 * (1 / len(study.test) + 1 / len(study.train)))  # four standard errors
