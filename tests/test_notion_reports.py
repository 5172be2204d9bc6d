"""Audits, searches and reports by other rates than selection rates: the command line's ``--notion``."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, recall_score

from fairmargin import Membership, cv_score, p_rule
from fairmargin.audit import audit
from fairmargin.cli import run
from fairmargin.cli.inputs import read_model
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.report.plain import plain
from fairmargin.report.verdict import NO_VERDICT, judge

ASK = ["-t", "repaid", "-p", "yes", "-s", "sex,origin"]
DECIDED = ["--decision", "approved", "--decision-positive", "approve"]
NOTIONS = ["true_positive_rate", "false_positive_rate", "false_negative_rate", "error_rate", "equalized_odds"]


@pytest.fixture
def people(tmp_path, monkeypatch):
    """A working folder with made-up people and decisions on them."""
    monkeypatch.chdir(tmp_path)
    frame = make_credit_demo(900)
    points = frame["income"].fillna(0.0) + 300 * np.random.default_rng(0).normal(size=900)
    frame["approved"] = np.where(points > points.median(), "approve", "deny")
    frame.to_csv("people.csv", index=False)
    return frame


def outcomes(frame):
    return (frame["repaid"] == "yes").astype(int), (frame["approved"] == "approve").astype(int)


def test_rates_by_group_are_those_of_scikit_learn(people):
    label, decision = outcomes(people)
    by_notion = {
        "true_positive_rate": lambda y, d: recall_score(y, d),
        "false_positive_rate": lambda y, d: 1.0 - recall_score(y, d, pos_label=0),
        "false_negative_rate": lambda y, d: 1.0 - recall_score(y, d),
        "error_rate": lambda y, d: 1.0 - accuracy_score(y, d),
    }
    for notion, rate in by_notion.items():
        found = audit(decision, sensitive_features=people[["sex"]], y_true=label, notion=notion)
        for group in found.groups:
            inside = people["sex"] == group.group
            assert group.rate == pytest.approx(rate(label[inside], decision[inside]))
        assert found.notion == notion


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("method", ["one_vs_rest", "between_groups"])
def test_the_lowest_rule_is_the_metric(people, notion, method):
    label, decision = outcomes(people)
    about = {"sensitive_features": people[["sex", "origin"]], "method": method, "min_people": 30, "notion": notion}
    found = audit(decision, y_true=label, **about)
    assert found.lowest.rule == pytest.approx(p_rule(label, decision, **about))
    assert max(a.cv_score for a in found.attributes) == pytest.approx(cv_score(label, decision, **about))
    conditions = 2 if notion == "equalized_odds" else 1
    assert len(found.attributes) == 2 * conditions


def test_counts_stand_for_rows_and_certain_memberships_for_groups(people):
    label, decision = outcomes(people)
    cells = people.assign(label=label, decision=decision).groupby(["sex", "label", "decision"]).size().reset_index()
    rows = audit(decision, sensitive_features=people[["sex"]], y_true=label, notion="equalized_odds")
    counted = audit(
        cells["decision"],
        sensitive_features=cells[["sex"]],
        y_true=cells["label"],
        notion="equalized_odds",
        counts=cells[0].to_numpy(),
    )
    assert [g.ratio for g in counted.groups] == [g.ratio for g in rows.groups]
    assert counted.compared_people == rows.compared_people == len(people)
    groups = sorted(people["sex"].unique())
    sure = Membership(np.column_stack([people["sex"] == g for g in groups]).astype(float), groups=groups, name="sex")
    unsure = audit(decision, sensitive_features=sure, y_true=label, notion="equalized_odds")
    assert [g.rate for g in unsure.groups] == pytest.approx([g.rate for g in rows.groups])


def test_strata_are_pooled_by_the_rate_that_is_compared(people):
    label, decision = outcomes(people)
    about = {"sensitive_features": people[["sex"]], "strata": people["housing"]}
    among = (label == 1).to_numpy()
    alone = audit(decision[among], **{key: value[among] for key, value in about.items()})
    found = audit(decision, y_true=label, notion="true_positive_rate", **about)
    assert found.strata[0].common.odds_ratio == pytest.approx(alone.strata[0].common.odds_ratio)
    with pytest.raises(ValueError, match="notion of one rate"):
        audit(decision, y_true=label, notion="equalized_odds", **about)


def test_cells_without_people_are_named():
    group = np.repeat(["a", "b", "c"], 40)
    label = np.where(group == "c", 0, np.tile([0, 1], 60))
    decision = np.tile([0, 1, 1], 40)
    found = audit(decision, sensitive_features={"g": group}, y_true=label, notion="true_positive_rate", min_people=5)
    assert {g.group for g in found.groups} == {"a", "b"}
    assert "Nobody of g = c is among the people with a positive label." in found.notes
    with pytest.raises(ValueError, match=r"'b', 'c' of 'g' is among the people with a positive label"):
        audit(decision, sensitive_features={"g": group}, y_true=label * (group == "a"), notion="true_positive_rate")
    few = {"sensitive_features": {"g": group}, "notion": "true_positive_rate"}
    for metric in (p_rule, cv_score):
        with pytest.warns(UndefinedMetricWarning, match=r"where nobody counts, in g='c' among the people with a pos"):
            metric(label, decision, **few)
    with pytest.raises(ValueError, match="fewer than two groups with people to compare: nobody of 'b', 'c' counts"):
        p_rule(label * (group == "a"), decision, **few)
    with pytest.raises(ValueError, match="give the labels y_true"):
        audit(decision, sensitive_features={"g": group}, notion="error_rate")


def test_a_rate_of_zero_for_everybody_is_no_verdict():
    group, label = np.repeat(["a", "b"], 80), np.tile([0, 1], 80)
    decision = label * np.tile([1, 1, 0, 1], 40)  # nobody with a negative label is accepted
    found = audit(decision, sensitive_features=group, y_true=label, notion="false_positive_rate")
    said = judge(plain(found.to_dict()), asked=80.0, held_out=True)
    assert said["status"] == NO_VERDICT
    assert "false positive rate is 0.0% in every group" in said["headline"]


@pytest.mark.parametrize("notion", ["error_rate", "false_positive_rate", "true_positive_rate"])
def test_decisions_without_an_error_pass(notion, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"sex": np.repeat(["f", "m"], 80), "y": np.tile([0, 1], 80)})
    frame.assign(decided=frame["y"]).to_csv("right.csv", index=False)
    ask = ["audit", "right.csv", "-t", "y", "--decision", "decided", "-s", "sex", "--notion", notion]
    assert run([*ask, "--fail-under", "80", "--quiet"]) == 0
    assert ("is 0 in every group" in capsys.readouterr().err) == (notion != "true_positive_rate")
    assert run([*ask, "--fail-under", "80", "--quiet", "--min-people", "100"]) == 1  # too few people to say


def test_the_command_audits_by_a_notion(people, capsys):
    files = ["--json", "a.json", "--markdown", "a.md", "--html", "a.html"]
    ask = ["audit", "people.csv", *ASK, *DECIDED, "--notion", "true_positive_rate"]
    assert run([*ask, *files, "--fail-under", "99"]) == 1
    said = capsys.readouterr()
    assert "rates compared: true positive rate, among the people with a positive label" in said.out
    assert "the p%-rule of the true positive rate of " in said.err
    summary = json.loads(Path("a.json").read_text())
    label, decision = outcomes(people)
    about = {"sensitive_features": people[["sex", "origin"]], "min_people": 30, "notion": "true_positive_rate"}
    expected = p_rule(label, decision, **about)
    assert summary["verdict"]["p_rule"] == pytest.approx(expected)
    assert summary["settings"]["notion"] == summary["audit"]["notion"] == "true_positive_rate"
    assert f"80%-rule of the {summary['audit']['rate']}" in summary["verdict"]["headline"]
    for name in ("a.md", "a.html"):
        assert "true positive rate among the people with a positive label" in Path(name).read_text()
    assert run([*ask, "--fail-under", f"{expected - 0.1:.6f}", "--quiet"]) == 0
    assert run([*ask, "--fail-under", f"{expected + 0.1:.6f}", "--quiet"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*ASK, "--notion", "error_rate"], "give --decision COL or --model FILE, too"),
        (["-s", "sex", *DECIDED, "--notion", "error_rate"], "give --target COL, too"),
        ([*ASK, *DECIDED, "--notion", "equal_opportunity"], "did you mean 'true_positive_rate'?"),
        ([*ASK, *DECIDED, "--notion", "error_rate", "--profile", "neutral"], "leave out --notion or --profile"),
        ([*ASK, *DECIDED, "--notion", "error_rate", "--baseline", "earlier.json"], "compares 'selection_rate'"),
        (
            ["-t", "income", "-s", "sex", *DECIDED, "--notion", "error_rate"],
            "needs labels. Error rates were left out",
        ),
        ([*ASK, "--decision", "repaid", "--notion", "error_rate"], "'repaid' holds the decisions: name the column"),
        (
            ["--score", "income", "-t", "income", "-s", "sex", "--notion", "true_positive_rate"],
            "'income' holds the score: name the column of the labels",
        ),
    ],
)
def test_what_an_audit_by_a_notion_needs(people, capsys, arguments, said):
    assert run(["audit", "people.csv", *ASK, *DECIDED, "--quiet", "--json", "earlier.json"]) == 0
    assert run(["audit", "people.csv", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("notion", ["true_positive_rate", "equalized_odds"])
def test_the_command_proposes_by_a_notion(people, capsys, notion):
    files = ["-o", "r.html", "-o", "m.json", "--json", "r.json", "--markdown", "r.md", "--held-out", "rest.csv"]
    ask = ["frontier", "people.csv", *ASK, "-x", "approved", "--select", "p-rule=70", "--points", "3"]
    assert run([*ask, "--notion", notion, *files]) == 0
    assert "rates compared: true" in capsys.readouterr().out
    summary = json.loads(Path("r.json").read_text())
    rest = pd.read_csv("rest.csv")
    decided = read_model(Path("m.json")).decide(rest)["decision"] == "yes"
    about = {"sensitive_features": rest[["sex", "origin"]], "min_people": 30, "notion": notion}
    reached = p_rule((rest["repaid"] == "yes").astype(int), decided.astype(int), **about)
    assert summary["proposal"]["verdict"]["p_rule"] == pytest.approx(reached)
    chosen = next(row for row in summary["candidates"] if row["chosen"])
    assert chosen["p_rule"] == pytest.approx(reached)
    assert chosen["train_p_rule"] >= 70
    assert summary["settings"]["notion"] == notion
    rate = summary["audit"]["rate"]
    assert rate in Path("r.html").read_text()
    assert rate in Path("r.md").read_text()
