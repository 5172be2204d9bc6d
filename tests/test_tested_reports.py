"""Reports on models that people held out have selected by a test: what is said of them, and what is not."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmargin.cli import run

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


def test_an_untested_model_says_that_one_was_trained(folder, capsys):
    assert run(["train", "loans.csv", *ASK, "-o", "m.json"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "One model was trained." in shown
    assert "selected classifier" not in shown
    assert "with a confidence" not in shown
