"""What all tests share: one BLAS thread, and tests that need data files or a browser.

Such tests are skipped, with the reason, where the files or the browser are not there. Where
``FAIRMARGIN_REQUIRE_DATA=1`` is set they fail instead: nothing may be left out in silence.
"""

import os

# Before numpy is imported: on a busy machine the threads of BLAS wait for each other longer than they work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import shutil

import hypothesis
import pytest

hypothesis.settings.register_profile("fairmargin", deadline=None)
hypothesis.settings.load_profile("fairmargin")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_runtest_setup(item):
    for marker, missing in (("data", missing_data), ("browser", missing_browser)):
        if item.get_closest_marker(marker) and (reason := missing()):
            if os.environ.get("FAIRMARGIN_REQUIRE_DATA") == "1":
                pytest.fail(f"{reason} (FAIRMARGIN_REQUIRE_DATA=1 does not allow to skip)", pytrace=False)
            pytest.skip(reason)


def missing_data():
    """Say which data files are not on this computer; tests do not download them."""
    from fairmargin.datasets import _files

    names = [name for name in _files.FILES if not _files.is_available(name)]
    return f"no {', '.join(names)} in $FAIRMARGIN_DATA or the cache" if names else ""


def missing_browser():
    """Say which part of the browser is not on the path."""
    if not any(shutil.which(name) for name in BROWSERS):
        return "no chromium on the path"
    return "" if shutil.which("chromedriver") else "no chromedriver on the path"
