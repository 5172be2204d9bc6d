"""``fairmargin audit``: error rates, weights, strata, scores and an earlier audit, from files."""

import json
from pathlib import Path

import numpy as np
import pytest

from fairmargin.audit import audit
from fairmargin.cli import run
from fairmargin.datasets.demo import make_credit_demo

ASK = ["-t", "repaid", "-p", "yes", "-s", "sex"]


@pytest.fixture
def people(tmp_path, monkeypatch):
    """A working folder with made-up people: decisions, a score, a weight and a branch."""
    monkeypatch.chdir(tmp_path)
    frame = make_credit_demo(700)
    rng = np.random.default_rng(0)
    frame["points"] = frame["income"].fillna(0.0) + rng.normal(size=700)
    frame["approved"] = np.where(frame["points"] > frame["points"].median(), "approve", "deny")
    frame["weight"] = rng.choice([1.0, 2.0], 700)
    frame["branch"] = rng.choice(["east", "west"], 700)
    frame.to_csv("people.csv", index=False)
    return frame


def read(name="a.json"):
    return json.loads(Path(name).read_text())


def test_error_rates_of_a_column(people, capsys):
    arguments = ["--decision", "approved", "--decision-positive", "approve", "--markdown", "a.md", "--html", "a.html"]
    assert run(["audit", "people.csv", *ASK, *arguments, "--json", "a.json", "--verbose"]) == 0
    out = capsys.readouterr().out
    assert "Error rates by group" in out
    summary = read()
    direct = audit(
        people["approved"] == "approve",
        pos_label=True,
        sensitive_features=people["sex"],
        y_true=people["repaid"] == "yes",
    )
    rates = [r["rate"] for r in summary["audit"]["error_rates"]]
    assert rates == [r.rate for r in direct.error_rates]
    assert summary["settings"]["positive"] == "approve"
    assert "Error rates are those against repaid = yes." in summary["notes"]
    assert "true positive rate" in Path("a.md").read_text()
    assert "true positive rate" in Path("a.html").read_text()


def test_weights_strata_and_scores(people):
    arguments = ["--decision", "approved", "--decision-positive", "approve", "--quiet", "--json", "a.json"]
    assert run(["audit", "people.csv", "-s", "sex", *arguments, "--weights", "weight", "--score", "points"]) == 0
    weighted = read()["audit"]
    assert weighted["weighted"]
    expected = np.average(people["approved"] == "approve", weights=people["weight"] * (people["sex"] == "man"))
    assert weighted["attributes"][0]["groups"][0]["rate"] == pytest.approx(expected)
    assert len(weighted["scored"]) == len(weighted["scoring"][0]["groups"]) == 2
    assert run(["audit", "people.csv", "-s", "sex", *arguments, "--strata", "branch"]) == 0
    (stratum,) = read()["audit"]["strata"]
    assert (stratum["by"], stratum["common"]["strata"]) == (["branch"], 2)


def test_scores_alone_are_audited_at_their_median(people):
    assert run(["audit", "people.csv", "-s", "sex", "--score", "points", "-q", "--json", "a.json"]) == 0
    summary = read()
    assert summary["what"] == "scores above the median of points"
    above = people["points"] > people["points"].median()
    assert [g["positives"] for g in summary["audit"]["attributes"][0]["groups"]] == [
        int((above & (people["sex"] == sex)).sum()) for sex in ("man", "woman")
    ]


def test_an_earlier_audit_gates(people, capsys):
    decided = ["-s", "sex", "--decision", "approved", "--decision-positive", "approve", "-q"]
    assert run(["audit", "people.csv", *decided, "--json", "before.json"]) == 0
    assert run(["audit", "people.csv", *decided, "--baseline", "before.json", "--json", "a.json"]) == 0
    assert read()["drift"]["worse"] == []
    worse = people.copy()
    worse.loc[worse["sex"] == "woman", "approved"] = np.where(
        np.arange((worse["sex"] == "woman").sum()) % 9, "deny", "approve"
    )
    worse.to_csv("now.csv", index=False)
    capsys.readouterr()
    assert run(["audit", "now.csv", *decided, "--baseline", "before.json", "--json", "a.json"]) == 1
    assert "the disparity has grown, beyond chance: sex = woman" in capsys.readouterr().err
    assert {g["group"] for g in read()["drift"]["worse"]} == {"man", "woman"}
    assert run(["audit", "now.csv", *decided[:-1], "--baseline", "before.json"]) == 1
    assert "Since the earlier audit" in capsys.readouterr().out


MISTAKES = {
    "no score column 'nothing'": ["--score", "nothing"],
    "holds no numbers, which weights must be (option --weights).": ["--score", "points", "--weights", "branch"],
    "no column of strata 'jobs'": ["--score", "points", "--strata", "jobs"],
    "does not occur in 'approved', whose values are 'approve' and 'deny' (option --decision-positive).": [
        "--decision",
        "approved",
        "--decision-positive",
        "north",
    ],
    "it has 'approve' and 'deny' (option --decision-positive).": ["--decision", "approved"],
    "exactly two are needed (option --decision).": ["--decision", "purpose"],
    "Give --score or --model": ["--score", "points", "--model", "people.csv"],
    "There is no file 'none.json' to compare with (option --baseline).": [
        "--score",
        "points",
        "--baseline",
        "none.json",
    ],
    "people.csv is no JSON file": ["--score", "points", "--baseline", "people.csv"],
    "bad.json is no audit": ["--score", "points", "--baseline", "bad.json"],
    "has no group in common": ["--score", "points", "--baseline", "other.json"],
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_in_one_line(people, capsys, message):
    Path("bad.json").write_text('{"kind": "train"}')
    other = audit([0, 1] * 40, sensitive_features=["x", "x", "y", "y"] * 20)
    Path("other.json").write_text(json.dumps({"kind": "audit", "audit": other.to_dict()}))
    arguments = MISTAKES[message]
    assert run(["audit", "people.csv", "-s", "sex", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_labels_that_cannot_be_read_are_said(people):
    arguments = ["--decision", "approved", "-p", "approve", "-q", "--json", "a.json"]
    assert run(["audit", "people.csv", "-s", "sex", "-t", "repaid", *arguments]) == 0
    assert any(
        note.startswith("Error rates were left out: The favourable value 'approve'") for note in read()["notes"]
    )
    assert read()["audit"]["error_rates"] == []


def test_hostile_names_are_text(people):
    people.rename(columns={"branch": "<script>alert(1)</script>|`x`"}).to_csv("people.csv", index=False)
    arguments = [
        "--decision",
        "approved",
        "--decision-positive",
        "approve",
        "-q",
        "--html",
        "a.html",
        "--markdown",
        "a.md",
    ]
    assert run(["audit", "people.csv", *ASK, *arguments, "--strata", "<script>alert(1)</script>|`x`"]) == 0
    for name in ("a.html", "a.md"):
        assert "<script>alert" not in Path(name).read_text()


def test_what_a_short_audit_leaves_out_is_there(tmp_path, monkeypatch, capsys):
    """In passes, the line after "proxies were left out" promised proxies."""
    monkeypatch.chdir(tmp_path)
    people = make_credit_demo(600)
    people["kin"] = people["sex"].replace({"man": "father", "woman": "mother"})
    people.to_parquet("people.parquet")
    asked = ["audit", "people.parquet", "-t", "repaid", "-p", "yes", "-s", "sex"]
    for engine, said in (([], "Odds and proxies"), (["--engine", "local"], "Odds")):
        assert run([*asked, *engine]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert f" {said}: with --html FILE, or with --verbose." in out
