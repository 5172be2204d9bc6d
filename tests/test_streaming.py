"""The command line on Parquet read in passes: the same model and the same report as for a table in memory."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from cluster_fixtures import free_port
from fairmargin import io, p_rule
from fairmargin.audit import audit
from fairmargin.cli import partitioned, run
from fairmargin.partitioned.engines.local import LocalEngine
from fairmargin.partitioned.sources import parquet as parquet_source
from fairmargin.partitioned.sources.parquet import ParquetSource
from fairmargin.streaming.cells import PEOPLE, count_cells
from fairmargin.streaming.regrouping import HELD_OUT, RegroupedSource, Split
from fairmargin.tables.groups import group_columns
from partitioned_data import people, write

ASK = ["-t", "repaid", "-p", "yes", "-x", "weight"]


@pytest.fixture(autouse=True)
def _small_partitions(monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 1)


@pytest.fixture(scope="module")
def everybody():
    frame = people(6000)
    frame["repaid"] = frame.pop("y").map({0: "no", 1: "yes"})
    frame["sex"] = frame["sex"].mask(frame["x2"] > 2.5)  # missing for some
    frame["age"] = frame["age"].round()
    return frame


@pytest.fixture(scope="module")
def home(everybody, tmp_path_factory):
    folder = tmp_path_factory.mktemp("streaming")
    write(everybody, folder / "data", files=3, row_group=700)
    everybody.to_parquet(folder / "all.parquet")
    return folder


@pytest.fixture
def folder(home, monkeypatch):
    monkeypatch.chdir(home)
    return home


def summary(command, name, *data):
    assert run([*command, *data, "--json", f"{name}.json", "-q"]) == 0
    with open(f"{name}.json") as file:
        return json.load(file)


def test_training_is_that_of_memory(folder):
    ask = [*ASK, "-s", "sex,origin", "-x", "age", "--constraint", "covariance=0.01", "--test-share", "0"]
    here = summary(["train", *ask, "-o", "here.json"], "a", "all.parquet")
    there = summary(["train", *ask, "-o", "there.json"], "b", "data/*.parquet", "--engine", "local[2]")
    for name in ("train", "unconstrained"):
        for measure in ("people", "accuracy", "p_rule", "positives", "groups", "attributes"):
            assert here[name][measure] == there[name][measure]
    assert here["audit"]["attributes"][0]["groups"] == there["audit"]["attributes"][0]["groups"]
    assert here["data"].keys() == there["data"].keys()
    assert there["certificate"]["objective"] == pytest.approx(here["certificate"]["objective"], rel=1e-9)
    assert set(here) == set(there)
    assert [c["feature"] for c in here["coefficients"]] == [c["feature"] for c in there["coefficients"]]
    assert [(r["group"], r["feature"]) for r in here["reasons"]][:4] == [
        (r["group"], r["feature"]) for r in there["reasons"]
    ][:4]
    model, twin = io.load("there.json"), io.load("here.json")
    assert model.labels == twin.labels == ("no", "yes")
    assert model.encoder.feature_names == twin.encoder.feature_names
    np.testing.assert_allclose(model.estimator.coef_, twin.estimator.coef_, atol=1e-4)
    assert model.facts["data"]["rows"] == 6000


def test_reports_of_a_sample(folder, monkeypatch):
    from fairmargin.streaming import jobs

    ask = ["train", *ASK, "-s", "sex", "-x", "age", "-o", "m.json"]
    whole = summary(ask, "whole", "data")
    monkeypatch.setattr(jobs.sampled_study, "__defaults__", (500,))
    some = summary(ask, "some", "data")
    assert (some["train"]["people"], some["test"]["people"]) == (500, 500)
    assert some["data"] == whole["data"]
    assert some["certificate"] == whole["certificate"]
    assert some["test"]["accuracy"] == pytest.approx(whole["test"]["accuracy"], abs=4 * 0.5 / np.sqrt(500))
    assert "drawn at random; training and certificate are those of everybody" in some["notes"][-1]


def test_people_held_out_and_bands(folder, everybody):
    ask = ["train", *ASK, "-s", "sex,age", "--bin", "age=30,50", "--intersections", "--constraint", "p-rule=80"]
    found = summary([*ask, "-o", "m.json"], "c", "data")
    data = found["data"]
    assert data["people"] == data["train_people"] + data["test_people"] == 6000
    assert 0.27 < data["test_people"] / 6000 < 0.33
    assert found["train"]["p_rule"] >= 80
    counted = {(g["attribute"], g["group"]): g["people"] for g in found["train"]["groups"]}
    counted_out = {(g["attribute"], g["group"]): g["people"] for g in found["test"]["groups"]}
    bands = pd.cut(everybody["age"], [-np.inf, 30, 50, np.inf], right=False).value_counts(sort=False).tolist()
    names = ["under 30", "30 to under 50", "50 and over"]
    assert [counted["age", name] + counted_out["age", name] for name in names] == bands
    assert counted["sex × age", "(missing) × under 30"] > 0
    # The same people are held out by any engine, and none of them is trained on.
    again = summary([*ask, "-o", "m2.json"], "d", "data", "--engine", "local[1]")
    assert again["test"] == found["test"]
    assert found["test"]["people"] == data["test_people"]
    np.testing.assert_array_equal(io.load("m.json").estimator.coef_, io.load("m2.json").estimator.coef_)


def test_a_file_of_people_held_out(folder):
    ask = ["train", *ASK, "-s", "sex", "-x", "age,origin", "-o", "m.json", "--test", "all.parquet"]
    found = summary(ask, "e", "data")
    assert (found["data"]["train_people"], found["data"]["test_people"]) == (6000, 6000)
    assert found["test"]["accuracy"] == found["train"]["accuracy"]


@pytest.mark.slow
def test_a_frontier_is_that_of_memory(folder):
    ask = ["frontier", *ASK, "-s", "sex", "-x", "age,origin", "--points", "4", "--test-share", "0", "--select"]
    here = summary([*ask, "p-rule=95", "-o", "here.html"], "a", "all.parquet")
    there = summary([*ask, "p-rule=95", "-o", "there.html", "-o", "m.json"], "b", "data", "--engine", "local[2]")
    assert set(here) == set(there)
    assert here["data"].keys() == there["data"].keys()
    assert [c["key"] for c in here["curves"]] == [c["key"] for c in there["curves"]]
    exact, twin = (next(c["points"] for c in s["curves"] if c["key"] == "covariance") for s in (here, there))
    for point, other in zip(exact, twin, strict=True):
        assert other["loss_increase"] == pytest.approx(point["loss_increase"], abs=1e-9)
        assert other["certificate"]["status"] == "solved"
        for measure in ("accuracy", "p_rule", "cv_score"):
            assert other["test"][measure] == pytest.approx(point["test"][measure], rel=1e-12)
    levels = next(c["points"] for c in there["curves"] if c["key"] == "rule")
    assert all(p["train"]["p_rule"] >= p["level"] for p in levels)
    accuracies = [p["train"]["accuracy"] for p in levels]
    assert accuracies == sorted(accuracies, reverse=True)
    best = [max(p["train"]["accuracy"] for p in c["points"]) for c in here["curves"][:1]]
    assert accuracies[0] == pytest.approx(best[0], abs=0.005)
    assert [a["key"] for a in there["answers"]] == [a["key"] for a in here["answers"]]
    assert all(a["details"] for a in there["answers"])
    # The model proposed keeps the rule among everybody trained on.
    frame = pd.read_parquet("all.parquet")
    accepted = io.load("m.json").decide(frame)["decision"] == "yes"
    groups = frame["sex"].astype(object).fillna("missing").to_numpy()
    assert p_rule(accepted, accepted, sensitive_features=groups) >= 95 > there["unconstrained"]["train"]["p_rule"]


@pytest.mark.slow
def test_a_frontier_of_another_notion(folder):
    ask = ["frontier", *ASK, "-s", "sex", "-x", "age,origin", "--points", "3", "--test-share", "0"]
    ask += ["--notion", "true_positive_rate", "--select", "p-rule=95"]
    here = summary([*ask, "-o", "here.html"], "a", "all.parquet")
    there = summary([*ask, "-o", "m.json"], "b", "data", "--engine", "local[2]")
    exact, twin = (next(c["points"] for c in s["curves"] if c["key"] == "covariance") for s in (here, there))
    for point, other in zip(exact, twin, strict=True):
        assert other["loss_increase"] == pytest.approx(point["loss_increase"], abs=1e-9)
        assert other["test"]["p_rule"] == pytest.approx(point["test"]["p_rule"], rel=1e-12)
    # The model proposed keeps the rule of true positive rates among everybody trained on, which no other one has to.
    frame = pd.read_parquet("all.parquet")
    accepted = io.load("m.json").decide(frame)["decision"]
    groups = frame["sex"].astype(object).fillna("missing").to_numpy()
    measure = {"sensitive_features": groups, "pos_label": "yes", "notion": "true_positive_rate"}
    free = there["unconstrained"]["train"]["p_rule"]
    assert p_rule(frame["repaid"], accepted, **measure) >= 95 > free


@pytest.mark.slow
def test_a_frontier_of_people_held_out(folder):
    ask = ["frontier", "data", *ASK, "-s", "sex", "-x", "age,origin", "--points", "3", "--select", "accuracy=1%"]
    found = summary([*ask, "--refit", "-o", "f.html", "-o", "refitted.json"], "f")
    assert found["data"]["test_people"] + found["data"]["train_people"] == 6000
    assert found["proposal"]["key"] in {c["key"] for c in found["candidates"]}
    within = next(a for a in found["answers"] if a["key"] == "within")
    assert within["answer"] == "Needs all rows in memory, and these data are read in passes: give a sample of them."
    assert within["details"] is None
    assert "Trained again on all 6,000 people" in io.load("refitted.json").facts["notes"][-1]


def test_decisions_are_those_of_memory(folder):
    assert run(["train", "data", *ASK, "-s", "sex", "-o", "m.json", "-q"]) == 0
    for end in ("csv", "parquet"):
        options = ["--keep", "origin", "--keep", "year", "--reasons", "2", "-q"]
        assert run(["predict", "m.json", "data", *options, "-o", f"there.{end}"]) == 0
        assert run(["predict", "m.json", "all.parquet", *options, "-o", f"here.{end}"]) == 0
    assert (folder / "here.csv").read_bytes() == (folder / "there.csv").read_bytes()
    here, there = (pd.read_parquet(f"{name}.parquet") for name in ("here", "there"))
    pd.testing.assert_frame_equal(here, there, check_dtype=False)
    assert parquet.ParquetFile("there.parquet").num_row_groups == 9
    assert not list(folder.glob(".fairmargin-*"))


@pytest.mark.parametrize("name", ["decision", "reason_1", "contribution_2"])
def test_columns_to_keep_must_not_be_those_written(name, folder, everybody, capsys):
    assert run(["train", "data", *ASK, "-s", "sex", "-o", "m.json", "-q"]) == 0
    people = everybody.head(300).assign(**{name: 1})
    write(people, folder / "new", files=2)
    people.to_parquet("new.parquet")
    capsys.readouterr()
    for data in ("new", "new.parquet"):
        ask = ["predict", "m.json", data, "--reasons", "2", "--keep", name, "-o", "d.csv", "-q"]
        assert f"The output has a column {name!r} already" in errors(ask, capsys)
    assert not (folder / "d.csv").exists()


def test_decisions_on_new_people_say_what_differs(folder, everybody, capsys):
    assert run(["train", "data", *ASK, "-s", "sex", "-o", "m.json", "-q"]) == 0
    odd = everybody.head(900).drop(columns="sex").assign(x0=lambda f: f["x0"].where(f.index > 9))
    write(odd, folder / "odd", files=2, row_group=200)
    assert run(["predict", "m.json", "odd", "-o", "odd.csv"]) == 0
    there = capsys.readouterr().err
    odd.to_parquet("odd.parquet")
    assert run(["predict", "m.json", "odd.parquet", "-o", "odd.csv"]) == 0
    assert there == capsys.readouterr().err
    assert "'x0' is missing for 10 people: the median is used." in there


def test_decisions_without_columns_name_all_of_them(folder, everybody, capsys):
    assert run(["train", "data", *ASK, "-s", "sex", "-o", "m.json", "-q"]) == 0
    capsys.readouterr()
    for gone, said in (
        (["x1"], "row group 0: There is no feature 'x1'; the columns are x0, x2"),
        (["x1", "x2"], "row group 0: The columns 'x1', 'x2' are missing."),
    ):
        name = f"odd-{''.join(gone)}.parquet"
        everybody.head(50).drop(columns=gone).to_parquet(name, index=False)
        text = errors(["predict", "m.json", name, "-o", "nothing.csv", "--engine", "local"], capsys)
        assert f"{name}, {said}" in text
        assert "The model was trained with" in text
        assert not (folder / "nothing.csv").exists()


def test_a_failed_pass_leaves_no_output(folder, everybody, monkeypatch, capsys):
    assert run(["train", "data", *ASK, "-s", "sex", "-o", "m.json", "-q"]) == 0
    data = write(everybody, folder / "changing", files=3, row_group=700)
    check, calls = parquet_source.Stamp.check, []

    def changes(stamp):
        calls.append(stamp)
        if len(calls) == 6:
            os.utime(data / "part-2.parquet", ns=(1, 1))
        check(stamp)

    monkeypatch.setattr(parquet_source.Stamp, "check", changes)
    assert run(["predict", "m.json", "changing", "--engine", "local[1]", "-o", "never.csv"]) == 2
    assert "part-2.parquet changed between passes" in capsys.readouterr().err
    assert not (folder / "never.csv").exists()
    assert not list(folder.glob(".fairmargin-*"))


@pytest.mark.parametrize(
    "asked",
    [
        ["-t", "repaid", "-p", "yes", "-s", "sex,origin,age", "--intersections"],
        ["-t", "repaid", "-p", "yes", "-s", "sex,town", "--model", "m.json", "--strata", "job"],
        ["-s", "age,town", "--bin", "age=25,60", "--decision", "repaid", "-p", "yes", "--rule", "highest"],
        ["-s", "origin,town", "--decision", "repaid", "-p", "yes", "--merge-small", "--min-people", "300"],
        ["-t", "repaid", "-p", "yes", "-s", "sex", "--model", "m.json", "--notion", "equalized_odds"],
    ],
)
def test_audit_by_counts_is_that_of_rows(folder, asked):
    if "--model" in asked:
        assert run(["train", "data", *ASK, "-s", "sex", "-x", "age,town", "-o", "m.json", "-q"]) == 0
    here, there = summary(["audit", *asked], "f", "all.parquet"), summary(["audit", *asked], "g", "data")
    assert there["notes"].pop().startswith("Proxies, discriminatory rules and comparisons of scores were left out")
    assert there["notes"] == here["notes"]
    for left_out in ("proxies", "rules", "scored", "scoring"):
        assert here["audit"].pop(left_out) is not None
        assert there["audit"].pop(left_out) == []
    for attribute in (*here["audit"]["attributes"], *there["audit"]["attributes"]):
        attribute.pop("covariance")
    assert there["audit"] == here["audit"]
    assert there["warnings"] == here["warnings"]
    assert there["data"]["rows"] == 6000


def test_audit_counts_stand_for_people():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"d": rng.integers(0, 2, 900), "y": rng.integers(0, 2, 900), "g": rng.choice(list("abc"), 900)}
    )
    cells = rows.value_counts().reset_index()
    whole = audit(rows["d"], sensitive_features=rows["g"], y_true=rows["y"], strata=rows["y"])
    counted = audit(
        cells["d"], sensitive_features=cells["g"], y_true=cells["y"], strata=cells["y"], counts=cells["count"]
    )
    assert counted == whole
    for wrong, message in ((np.zeros(12), "whole numbers"), (cells["count"] - cells["count"], "at least 1")):
        with pytest.raises(ValueError, match=message):
            audit(cells["d"], sensitive_features=cells["g"], counts=wrong[: len(cells)])
    with pytest.raises(ValueError, match="counts stand for many people each"):
        audit(cells["d"], sensitive_features=cells["g"], counts=cells["count"], scores=cells["d"])


def test_cells_and_groups_are_those_of_rows(folder, everybody):
    source = ParquetSource("data")
    cells = count_cells(source, LocalEngine(2), ["sex", "age", "town"], {})
    expected = everybody.value_counts(["sex", "age", "town"], dropna=False)
    assert cells[PEOPLE].sum() == 6000
    assert len(cells) == len(expected)
    for bins in ({}, {"age": [30, 50.5]}):
        cells = count_cells(source, LocalEngine(2), ["sex", "age", "town"], bins)
        counts = cells[PEOPLE].to_numpy()
        groups, notes = group_columns(
            cells, ["sex", "age", "town"], bins, "group", 200, intersections=True, counts=counts
        )
        whole, said = group_columns(everybody, ["sex", "age", "town"], bins, "group", 200, intersections=True)
        assert notes == said
        for name in whole:
            assert pd.Series(counts).groupby(groups[name].astype(str)).sum().to_dict() == (
                whole[name].astype(str).value_counts().to_dict()
            )


def test_a_split_is_fair_to_every_row(folder):
    source = ParquetSource("data")
    sides = [RegroupedSource(source, split=Split(0.25, 3, side)).partitions for side in (False, True, None)]
    kept, held_out, all_rows = ([p.load(["x0", HELD_OUT]) for p in side] for side in sides)
    for a, b, both in zip(kept, held_out, all_rows, strict=True):
        assert a.num_rows + b.num_rows == both.num_rows
        assert not any(a[HELD_OUT].to_pylist())
        assert sorted(a["x0"].to_pylist() + b["x0"].to_pylist()) == sorted(both["x0"].to_pylist())
    share = sum(t.num_rows for t in held_out) / 6000
    assert abs(share - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 6000)


def errors(command, capsys):
    assert run(command) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    return text


def test_bad_data(folder, everybody, capsys, tmp_path, monkeypatch):
    ask = [*ASK, "-s", "sex", "-q"]
    parquet.write_table(pa.table({"repaid": ["no"]}), tmp_path / "a.parquet")
    text = errors(["train", str(tmp_path / "a.parquet"), "data", *ask], capsys)
    assert "part-0.parquet has a column 'age' that a.parquet does not have" in text
    broken = everybody.copy()
    broken.loc[[2900, 2903], "x1"] = np.inf
    write(broken, tmp_path / "broken", files=2, row_group=700)
    text = errors(["train", str(tmp_path / "broken"), *ask], capsys)
    assert "'x1' has 2 infinite values in part-0.parquet, row group 4" in text
    with monkeypatch.context() as patch:  # small row groups are read together
        patch.setattr("fairmargin.partitioned.sources.parquet.FEW_ROWS", 2**17)
        text = errors(["train", str(tmp_path / "broken"), *ask], capsys)
    assert "'x1' has 2 infinite values in part-0.parquet, row group 4;" in text
    write(everybody.sort_values(["repaid", "sex"]), tmp_path / "sorted", files=4, row_group=500)
    assert run(["train", str(tmp_path / "sorted"), *ask, "-o", str(tmp_path / "m.json")]) == 0
    write(everybody.assign(repaid="yes"), tmp_path / "one", files=2)
    assert "'repaid' holds only 'yes'; exactly two values" in errors(["train", str(tmp_path / "one"), *ask], capsys)
    write(everybody.assign(sex="man"), tmp_path / "one", files=2)
    assert "'sex' has only one group ('man')" in errors(["train", str(tmp_path / "one"), *ask], capsys)
    assert "did you mean 'sex'?" in errors(["train", "data", *ASK, "-s", "sx"], capsys)


def test_unknown_labels_are_left_out(folder, everybody, tmp_path):
    write(everybody.assign(repaid=everybody["repaid"].mask(everybody.index < 100)), tmp_path / "d", files=2)
    found = summary(["train", *ASK, "-s", "sex", "-o", str(tmp_path / "m.json")], "h", str(tmp_path / "d"))
    assert found["data"]["people"] == 5900
    assert "100 people without a value of 'repaid' were left out." in found["notes"]


def test_what_needs_memory_says_so(folder, capsys):
    for options, message in (
        (["--repeats", "3"], "--repeats needs all rows in memory"),
        (["--held-out", "h.csv"], "--held-out needs all rows in memory"),
        (["--no-scale"], "leave out --no-scale"),
        (["-e", "svm"], "The estimator 'svm' needs all rows in memory: choose logistic, linear-svm or squared-hinge"),
        (["--constraint", "p-rule=80", "--confidence", "0.9"], "A confidence needs all rows in memory"),
        (
            ["--constraint", "p-rule=80", "--constraint", "accuracy=1%"],
            "The constraint 'accuracy=1%' needs all rows in memory: leave it out",
        ),
        (
            ["--constraint", "auc=1%", "--constraint", "p-rule=80", "--constraint", "accuracy=1%"],
            "The constraints 'auc=1%' and 'accuracy=1%' need all rows in memory: leave them out",
        ),
        (["--constraint", "accuracy=1%"], "The constraint 'accuracy=1%' needs all rows in memory"),
    ):
        assert message in errors(["train", "data", *ASK, "-s", "sex", *options], capsys)
    assert "'svm' needs all rows" in errors(["frontier", "data", *ASK, "-s", "sex", "-e", "svm"], capsys)
    assert "--weights needs all rows in memory" in errors(
        ["audit", "data", "-t", "repaid", "-p", "yes", "-s", "sex", "--weights", "weight"], capsys
    )
    assert "name some, without --demo" in errors(["train", "--demo", "--engine", "local"], capsys)
    assert "not a Parquet file" in errors(["train", *ASK, "-s", "sex", "--engine", "local", __file__], capsys)
    assert "Unknown engine 'ray'" in errors(["train", "data", *ASK, "-s", "sex", "--engine", "ray"], capsys)
    assert "also the input" in errors(
        ["predict", "m.json", "data", "-o", os.path.join("data", "part-1.parquet")], capsys
    )


def test_engines_that_cannot_be_reached(folder, capsys, monkeypatch):
    from fairmargin.partitioned.engines import dask as dask_engine

    monkeypatch.setattr(dask_engine, "_CONNECTING", 0.5)
    port = free_port()
    for command in ("train", "audit"):
        text = errors([command, "data", *ASK[:4], "-s", "sex", "--engine", f"dask://127.0.0.1:{port}"], capsys)
        assert f"No Dask scheduler answers at dask://127.0.0.1:{port}" in text
    if shutil.which("java"):
        text = errors(["train", "data", *ASK, "-s", "sex", "--engine", f"spark://127.0.0.1:{port}"], capsys)
        assert f"No Spark master answers at spark://127.0.0.1:{port}" in text


def test_large_files_are_streamed(folder, monkeypatch):
    options = {"data": ["all.parquet"], "engine": None, "max_size": 4.0}
    assert not partitioned.is_partitioned(options)
    monkeypatch.setattr(partitioned, "_memory", lambda: 2 * 8 * 12 * 5000.0)
    assert not partitioned.is_partitioned(options)  # nor would its only row group fit
    parquet.write_table(parquet.read_table("all.parquet"), "grouped.parquet", row_group_size=500)
    assert partitioned.is_partitioned(options | {"data": ["grouped.parquet"]})


def test_progress_by_pass_and_part():
    seen = []
    report = partitioned._report(lambda *told: seen.append(told))
    for name, done in (("scan", 1), ("scan", 2), ("evaluate", 1), ("evaluate", 2), ("evaluate", 1)):
        report(name, done, 2)
    assert [told[0].split(":")[0] for told in seen] == [
        "pass 1, learning the encoding",
        "pass 1, learning the encoding",
        "pass 2, Newton step",
        "pass 2, Newton step",
        "pass 3, Newton step",
    ]
    assert seen[-1] == ("pass 3, Newton step: 1 of 2 parts", 1, 2)


def compare_frontiers(everybody, engine):
    """Trace the trade-off on a cluster and on this computer; every digit of the candidates must agree."""
    write(everybody.head(3000), Path("pair"), files=2)  # two partitions: the passes are many
    ask = ["frontier", "pair", *ASK, "-s", "sex", "-x", "age,origin", "--points", "3", "--select", "p-rule=80"]
    there = summary([*ask, "--engine", engine, "-o", "f.html", "-o", "there.json"], "there-summary")
    here = summary([*ask, "--engine", "local[1]", "-o", "f.html", "-o", "here.json"], "here-summary")
    for name in ("curves", "answers", "candidates", "proposal", "unconstrained"):
        assert there[name] == here[name]
    np.testing.assert_array_equal(io.load("here.json").estimator.coef_, io.load("there.json").estimator.coef_)


def test_on_a_dask_cluster(folder, everybody, dask_client):
    address = "dask://" + dask_client.scheduler.address.removeprefix("tcp://")
    ask = ["train", "data", *ASK, "-s", "sex,age", "--bin", "age=40", "-q"]
    assert run([*ask, "--engine", address, "-o", "there.json"]) == 0
    assert run([*ask, "-o", "here.json"]) == 0
    np.testing.assert_array_equal(io.load("here.json").estimator.coef_, io.load("there.json").estimator.coef_)
    assert run(["predict", "here.json", "data", "--engine", address, "-o", "there.csv", "-q"]) == 0
    assert run(["predict", "here.json", "data", "-o", "here.csv", "-q"]) == 0
    assert (folder / "here.csv").read_bytes() == (folder / "there.csv").read_bytes()
    audited = ["audit", "-t", "repaid", "-p", "yes", "-s", "sex"]
    assert summary(audited, "i", "data", "--engine", address)["audit"] == summary(audited, "j", "data")["audit"]
    compare_frontiers(everybody, address)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_on_a_spark_cluster(folder, everybody, spark_cluster, spark_session):
    assert spark_session.sparkContext.master == spark_cluster.master  # the session of this process is used
    ask = ["train", "data", *ASK, "-s", "sex,age", "--bin", "age=40", "-q"]
    assert run([*ask, "--engine", spark_cluster.master, "-o", "there.json"]) == 0
    assert run([*ask, "-o", "here.json"]) == 0
    np.testing.assert_array_equal(io.load("here.json").estimator.coef_, io.load("there.json").estimator.coef_)
    assert run(["predict", "here.json", "data", "--engine", spark_cluster.master, "-o", "there.csv", "-q"]) == 0
    assert run(["predict", "here.json", "data", "-o", "here.csv", "-q"]) == 0
    assert (folder / "here.csv").read_bytes() == (folder / "there.csv").read_bytes()
    compare_frontiers(everybody, spark_cluster.master)


SLOW = """
import sys, time
from fairmargin.partitioned import reading
features = reading.Reading.features
def slow(*given):
    print("working", flush=True)
    time.sleep(0.2)
    return features(*given)
reading.Reading.features = slow
from fairmargin.cli import run
status = run(sys.argv[1:])
import threading
left = [t.name for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]
print("left", left, flush=True)
sys.exit(status)
"""


def interrupt(command, folder):
    """Run a command, press Ctrl-C in the middle of a pass; return its exit status and output."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *command], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for line in process.stdout:
        if line.startswith("working"):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_interrupt(folder, dask_client):
    address = "dask://" + dask_client.scheduler.address.removeprefix("tcp://")
    many = folder / "many"
    shutil.copytree(folder / "data", many, dirs_exist_ok=True)
    ask = ["train", "many", *ASK, "-s", "sex", "-o", "interrupted.json"]
    status, out, err = interrupt(ask, folder)
    assert (status, err) == (130, "fairmargin: stopped\n")
    assert "left []" in out
    assert not (folder / "interrupted.json").exists()
    # The same of a Dask cluster, whose workers are left with nothing to do.
    command = [sys.executable, "-m", "fairmargin", *ask, "--engine", address]
    process = subprocess.Popen(command, cwd=folder, text=True, stderr=subprocess.PIPE)
    end = time.monotonic() + 300
    while not any(dask_client.processing().values()) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    end = time.monotonic() + 300
    while any(dask_client.processing().values()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(dask_client.processing().values())
