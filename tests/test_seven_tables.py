"""Seven kinds of tables that people bring, end to end: from a file to a report that answers questions."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import fisher_exact
from sklearn.metrics import accuracy_score, roc_auc_score

from fairmargin import io
from fairmargin.cli import run
from seven_tables import ASK, TABLES, make_table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [maker.__name__ for maker in TABLES])
def test_from_a_file_to_a_report(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = make_table(name)
    table.to_csv("t.csv", index=False, sep=";" if name == "student_performance" else ",")
    outputs = ["-o", "r.html", "-o", "m.json", "--json", "r.json", "--held-out", "held.csv", "--points", "3", "-q"]
    assert run(["frontier", "t.csv", *ASK[name], "--select", "p-rule=80", *outputs]) == 0
    assert capsys.readouterr().err == ""
    summary = json.loads(Path("r.json").read_text())
    assert [line["question"] for line in summary["proposal"]["lines"]] == [
        "Does it pass?",
        "For whom not?",
        "How sure?",
        "What does it cost?",
        "Who gains, who loses?",
        "What was tried?",
    ]
    assert all(line["answer"] for line in summary["proposal"]["lines"])
    page = Path("r.html").read_text()
    assert summary["proposal"]["verdict"]["headline"] in page
    assert "nan%" not in page
    _same_as_the_saved_model(summary)


def _same_as_the_saved_model(summary):
    """What the report says is what the model file does to the people held out."""
    from fairmargin.tables import read_table

    model, held = io.load("m.json"), read_table("held.csv").frame
    decided = model.decide(held)["decision"].astype(str).to_numpy()
    label = held[summary["data"]["target"]].astype(str).to_numpy()
    proposed = summary["answers"][0]["details"]["test"]
    assert proposed["accuracy"] == pytest.approx(accuracy_score(label, decided))
    positive = label == summary["data"]["positive"]
    assert proposed["auc"] == pytest.approx(roc_auc_score(positive, model.scores(held)))
    accepted = decided == summary["data"]["positive"]
    assert proposed["rate"] == pytest.approx(np.mean(accepted))
    for attribute in summary["audit"]["attributes"]:
        column = held[attribute["name"]].astype(str).to_numpy()
        for group in attribute["groups"]:
            if group["group"] not in column or group["p_value"] is None:
                continue
            inside = column == group["group"]
            others = ~inside if attribute["reference"] == "everybody else" else column == attribute["reference"]
            counts = [[np.sum(accepted & side), np.sum(~accepted & side)] for side in (inside, others)]
            assert group["p_value"] == pytest.approx(fisher_exact(counts).pvalue, rel=1e-6)


def test_codes_and_identifiers_are_pointed_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_table("card_clients").to_csv("t.csv", index=False)
    assert run(["train", "t.csv", "-t", "default", "-p", "0", "-s", "SEX", "--json", "t.json", "-q"]) == 0
    warnings = " ".join(json.loads(Path("t.json").read_text())["warnings"])
    assert "'EDUCATION'" in warnings
    assert "'ID'" in warnings
