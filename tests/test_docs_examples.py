"""The examples in the pages of the documentation run, and give what they say."""

import doctest
import runpy
import warnings
from pathlib import Path

import pytest

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
