"""The script that checks the built site finds what is broken, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "check_site.py"
GOOD = '<a href="other.html#here">x</a> <a href="https://a.org/">y</a> <img src="p.png"> <a href="#top" id="top">'


def check(folder):
    return subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, check=False)


@pytest.fixture
def site(tmp_path):
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "other.html").write_text('<h1 id="here">Here</h1><a href="index.html?x=1">back</a>')
    (tmp_path / "p.png").write_bytes(b"")
    return tmp_path


def test_a_good_site_passes(site):
    found = check(site)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ('<a href="gone.html">x</a>', "gone.html leads nowhere"),
        ('<a href="other.html#gone">x</a>', "other.html#gone leads nowhere"),
        ('<a href="#gone">x</a>', "#gone leads nowhere"),
        ('<img src="gone.png">', "gone.png leads nowhere"),
        ('<script src="https://example.org/x.js"></script>', "from the network"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "from the network"),
    ],
)
def test_what_is_broken_is_named(site, page, said):
    (site / "index.html").write_text(page)
    found = check(site)
    assert found.returncode == 1
    assert said in found.stdout


def test_an_empty_folder_is_no_site(tmp_path):
    assert check(tmp_path).returncode == 1
