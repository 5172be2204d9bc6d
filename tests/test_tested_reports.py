"""Reports on models that people held out have selected by a test: what is said of them, and what is not."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmargin.cli import run
from fairmargin.tables.groups import group_columns

ASK = ["-t", "loan", "-p", "approved", "-s", "sex", "--constraint", "p-rule=80"]


def make_loans(n=1500, missing=0.0):
    """Loans by income, which women have less of, and an attribute that is missing for some."""
    rng = np.random.default_rng(0)
    women = rng.random(n) < 0.45
    income = rng.normal(size=n) - 0.5 * women
    loan = np.where(income + rng.normal(size=n) > -0.2, "approved", "refused")
    sex = np.where(women, "female", "male").astype(object)
    sex[rng.random(n) < missing] = None
    job = np.where(rng.random(n) < 0.5, "clerk", "nurse")
    return pd.DataFrame({"income": income.round(3), "job": job, "sex": sex, "loan": loan})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_loans().to_csv("loans.csv", index=False)
    make_loans(missing=0.02).to_csv("gaps.csv", index=False)
    return tmp_path


def test_a_tested_model_says_how_many_were_tested_and_what_is_covered(folder, capsys):
    outputs = ["--json", "a.json", "--html", "a.html", "--markdown", "a.md", "-o", "m.json"]
    assert run(["train", "loans.csv", *ASK, "--confidence", "0.95", "--test-share", "0.5", *outputs]) == 0
    summary = json.loads(Path("a.json").read_text())
    candidates = summary["guarantee"]["candidates"]
    assert candidates > 1
    for shown in (" ".join(capsys.readouterr().out.split()), Path("a.html").read_text(), Path("a.md").read_text()):
        assert f"{candidates} classifiers were trained and tested one after the other" in shown
        assert "are those of a selected classifier" in shown
        assert "One model was trained" not in shown
        assert "Chance is an unlikely reason" not in shown
        assert "he proposed model" not in shown  # there is only one
        assert "with a confidence of 95%" in shown
    assert summary["proposal"]["verdict"]["headline"] == "Yes, with 95% confidence. This model keeps the 80%-rule."
    assert summary["settings"]["confidence"] == 0.95


def test_the_headline_of_a_tested_rule_names_its_notion(folder):
    role = ["-t", "loan", "-p", "approved", "-s", "sex", "--notion", "true_positive_rate"]
    tested = ["--constraint", "p-rule=60", "--confidence", "0.9", "--test-share", "0.5"]
    assert run(["train", "loans.csv", *role, *tested, "--json", "a.json", "-o", "m.json"]) == 0
    verdict = json.loads(Path("a.json").read_text())["proposal"]["verdict"]
    said = "Yes, with 90% confidence. This model keeps the 60%-rule of the true positive rate."
    assert verdict["headline"] == said
    assert "covers the 60%-rule of the true positive rate only" in verdict["sure"]


@pytest.mark.parametrize("confidence", [["--confidence", "0.9"], []])
def test_small_groups_are_part_of_the_test_of_a_guarantee(folder, capsys, confidence):
    """The report said that nothing is concluded of groups that its guarantee names."""
    people = make_loans(3000)
    people["job"] = np.where(np.arange(3000) % 5 == 0, "cook", people["job"])
    people.to_csv("jobs.csv", index=False)
    role = ["-t", "loan", "-p", "approved", "-s", "job", "--constraint", "p-rule=60", "--min-people", "400"]
    outputs = ["--json", "a.json", "--html", "a.html", "--markdown", "a.md", "-o", "m.json"]
    assert run(["train", "jobs.csv", *role, *confidence, "--test-share", "0.5", *outputs]) == 0
    summary = json.loads(Path("a.json").read_text())
    verdict = summary["proposal"]["verdict"]
    left = f"ot judged, too few people: job = cook ({_people(summary, 'cook')})."
    assert left in verdict["not_judged"]
    assert verdict["for_whom"].endswith(verdict["not_judged"])
    covered = "The test needs no least number of people: its guarantee covers them."
    assert verdict["not_judged"].endswith(covered) == bool(confidence)
    for shown in (capsys.readouterr().out, Path("a.html").read_text(), Path("a.md").read_text()):
        shown = " ".join(shown.split())
        assert ("The guarantee covers these groups all the same" in shown) == bool(confidence)
        assert ("comparison nothing is concluded" in shown) != bool(confidence)


def _people(summary, group):
    return next(g["people"] for g in summary["audit"]["attributes"][0]["groups"] if g["group"] == group)


def test_the_verdict_is_about_the_rule_that_was_tested(folder):
    """It was about the first rule of the list alone, on people who had selected the model, and did not say so."""
    rules = ["--constraint", "difference=0.2", "--constraint", "p-rule=60"]
    outputs = ["--json", "a.json", "-o", "m.json"]
    role = ["-t", "loan", "-p", "approved", "-s", "sex"]
    assert run(["train", "loans.csv", *role, *rules, "--confidence", "0.9", "--test-share", "0.5", *outputs]) == 0
    verdict = json.loads(Path("a.json").read_text())["proposal"]["verdict"]
    tested, other = verdict["rules"]
    assert tested["headline"] == "Yes, with 90% confidence. This model keeps the 60%-rule."
    assert other["kind"] == "difference"
    assert verdict["headline"] == f"{other['headline']} The 60%-rule holds with 90% confidence."


def test_an_untested_model_says_that_one_was_trained(folder, capsys):
    assert run(["train", "loans.csv", *ASK, "-o", "m.json"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "One model was trained." in shown
    assert "selected classifier" not in shown
    assert "with a confidence" not in shown


def test_a_small_group_of_people_without_a_value_can_be_left_out(folder, capsys):
    """The error names what helps, and it helps."""
    asked = [*ASK, "--confidence", "0.95", "--test-share", "0.5", "-o", "m.json", "--json", "a.json"]
    assert run(["train", "gaps.csv", *asked]) == 2
    said = capsys.readouterr().err
    assert "sex='(missing)' against everybody else" in said
    assert "(--missing-sensitive drop)" in said
    assert "--merge-small" not in said  # of two groups, one would be left
    assert "% of them are sex='(missing)' and the overall rate is " in said
    assert run(["train", "gaps.csv", *asked, "--missing-sensitive", "drop"]) == 0
    summary = json.loads(Path("a.json").read_text())
    missing = int(pd.read_csv("gaps.csv")["sex"].isna().sum())
    assert f"'sex' is missing for {missing} people, who were left out." in summary["notes"]
    assert summary["data"]["people"] == 1500 - missing
    assert [g["group"] for g in summary["guarantee"]["groups"]] == ["female", "male"]


def test_people_without_a_value_are_left_out_of_audits_in_memory_and_in_passes(folder):
    gaps = pd.read_csv("gaps.csv")
    gaps.to_parquet("gaps.parquet")
    ask = ["-t", "loan", "-p", "approved", "-s", "sex", "--missing-sensitive", "drop", "-q", "--json", "a.json"]
    found = []
    for engine in ([], ["--engine", "local"]):
        assert run(["audit", "gaps.parquet", *ask, *engine]) == 0
        found.append(json.loads(Path("a.json").read_text()))
    known = gaps[gaps["sex"].notna()]
    for summary in found:
        assert summary["audit"]["people"] == len(known)
        groups = {g["group"]: g["people"] for a in summary["audit"]["attributes"] for g in a["groups"]}
        assert groups == known["sex"].value_counts().to_dict()
        assert any("who were left out" in note for note in summary["notes"])


def test_people_without_a_value_are_left_out_of_training_in_passes(folder):
    gaps = pd.read_csv("gaps.csv")
    gaps.to_parquet("gaps.parquet")
    ask = ["-t", "loan", "-p", "approved", "-s", "sex", "--missing-sensitive", "drop", "-q", "--json", "a.json"]
    assert run(["train", "gaps.parquet", *ask, "--engine", "local", "-o", "m.json"]) == 0
    data = json.loads(Path("a.json").read_text())["data"]
    assert data["train_people"] + data["test_people"] == data["people"] == gaps["sex"].notna().sum()


def test_a_single_small_group_is_put_together_with_the_next():
    def merged(sizes, least):
        frame = pd.DataFrame({"g": [word for word, n in sizes.items() for _ in range(n)]})
        groups, notes = group_columns(frame, ["g"], None, "group", merge_under=least)
        return groups["g"].value_counts().to_dict(), notes

    assert merged({"a": 50, "b": 30, "c": 5}, 10)[0] == {"a": 50, "other (2 groups)": 35}
    assert merged({"a": 50, "b": 30, "c": 5, None: 3}, 10)[0] == {"a": 50, "other (2 groups)": 35, "(missing)": 3}
    assert merged({"a": 50, "b": 30, "c": 5}, 90)[0] == {"a": 50, "other (2 groups)": 35}  # two are left
    found, notes = merged({"a": 50, "b": 5}, 10)
    assert found == {"a": 50, "b": 5}
    assert "nothing was put together" in notes[0]


def test_a_column_that_is_missing_and_categories_that_are_missing_are_named(folder, capsys):
    assert run(["train", "loans.csv", "-t", "loan", "-p", "approved", "-s", "sex", "-q", "-o", "m.json"]) == 0
    people = make_loans(40)
    people.drop(columns="job").to_csv("less.csv", index=False)
    people.assign(job=people["job"].where(people.index > 8)).to_csv("gaps.csv", index=False)
    assert run(["predict", "m.json", "less.csv"]) == 2
    said = capsys.readouterr().err
    assert "There is no feature 'job'" in said
    assert "The model was trained with it: add the column, or train again without it (--exclude)." in said
    assert run(["predict", "m.json", "gaps.csv", "-o", "d.csv"]) == 0
    assert "'job' is missing for 9 people" in capsys.readouterr().err
