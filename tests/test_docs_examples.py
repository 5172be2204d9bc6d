"""The examples in the pages of the documentation run, and give what they say."""

import doctest
import runpy
import shlex
import warnings
from pathlib import Path

import pytest

from fairmargin.cli import run
from fairmargin.datasets import make_credit_demo

PAGES = (
    "coming_from/fairlearn",
    "coverage",
    pytest.param("covariance_and_rules", marks=pytest.mark.data),
    "guide/certificate",
    "guide/getting_started",
    "guide/groups",
    "large_data",
    "regression",
    "several_classes",
    "tutorials/credit",
    "tutorials/researchers",
)


NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples" / "notebooks").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning")
def test_notebooks_run(notebook, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(notebook))
    said = capsys.readouterr().out
    assert "solved: the rule costs at most" in said
    assert "Tested on 1,941 people" in said
    assert (tmp_path / "model.json").exists()


@pytest.mark.parametrize("page", PAGES)
def test_examples(page):
    path = Path(__file__).parent.parent / "docs" / f"{page}.md"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = doctest.testfile(str(path), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path, monkeypatch, capsys):
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    lines = [line.partition("#")[0] for line in readme.splitlines() if line.startswith("fairmargin ")]
    commands = [shlex.split(line)[1:] for line in lines if "people.csv" in line]
    assert {command[0] for command in commands} == {"audit", "train", "predict", "frontier", "compare"}
    monkeypatch.chdir(tmp_path)
    make_credit_demo().to_csv("people.csv", index=False)
    for command in commands:
        if command[0] not in ("frontier", "compare"):  # which take long, and are run elsewhere
            assert run(command) == 0, capsys.readouterr().err
    assert Path("decisions.csv").exists()
