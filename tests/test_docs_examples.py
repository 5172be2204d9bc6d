"""The examples in the pages of the documentation run, and give what they say."""

import doctest
import warnings
from pathlib import Path

import pytest

PAGES = (
    "coming_from/fairlearn",
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


@pytest.mark.parametrize("page", PAGES)
def test_examples(page):
    path = Path(__file__).parent.parent / "docs" / f"{page}.md"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = doctest.testfile(str(path), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 0
    assert found.failed == 0
