"""What CONTRIBUTING says is true: its examples work as they stand there, and its layout names what there is."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fairmargin

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGE = Path(fairmargin.__file__).parent
EXAMPLES = dict(re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
LAYOUT = TEXT[TEXT.index("## The layout") : TEXT.index("## Words")]
LOANS = "age,purpose,sex,paid\n30,car,f,yes\n41,home,m,yes\n25,car,m,no\n37,,f,no\n52,home,f,no\n"

# In a process of its own, on a copy of the package: an example must not be known to other tests.
SCRIPT = """
import numpy as np
from sklearn.linear_model import LogisticRegression
from fairmargin import CovarianceBound, FairLogisticRegression, FairMarginClassifier, FairnessFrontier
from fairmargin.baselines.group_thresholds import GroupThresholds
from fairmargin.constraints.mean_score import MeanScoreBound
from fairmargin.datasets.loans import load_loans
from fairmargin.design import make_design
from fairmargin.io import trusted_types
from fairmargin.low_rank import LowRank
from fairmargin.metrics import positive_rates
from fairmargin.tables.plain_data import from_plain, to_plain

rng = np.random.default_rng(0)
X, z = rng.normal(size=(600, 4)), rng.choice(["a", "b", "c"], 600)
X[:, 0] += z == "a"
y = np.where(X[:, 0] + X[:, 1] + rng.normal(size=600) > 0, 1, -1)


def among_refusals(f):
    no, first = y < 0, (z == "a")[y < 0].astype(float)
    return np.mean((first - first.mean()) * f[no])


fair = FairMarginClassifier("exponential", constraint=CovarianceBound(0.0, notion="true_negative_rate"))
fair.fit(X, y, sensitive_features=z == "a")
assert fair.certificate_.status == "solved" and abs(among_refusals(fair.decision_function(X))) < 1e-9
rates = positive_rates(y, fair.predict(X), sensitive_features=z, notion="true_negative_rate")["rate"]
assert np.isclose(rates["sensitive", "b"], np.mean(fair.predict(X)[(y < 0) & (z == "b")] < 0))
FairnessFrontier(fair, n_points=2).fit(X, y, sensitive_features=z == "a")

bound = MeanScoreBound(0.05)
near = FairLogisticRegression(constraint=bound).fit(X, y, sensitive_features=z)
f = near.decision_function(X)
off = np.array([f[z == group].mean() - f.mean() for group in "abc"])
assert near.certificate_.status == "solved" and np.isclose(np.abs(off).max(), 0.05)
np.testing.assert_allclose(near.mean_distance_, off, atol=1e-9)
assert from_plain(to_plain(bound)) == bound
assert "fairmargin.constraints.mean_score.MeanScoreBound" in trusted_types()

U, V = rng.normal(size=(50, 2)), rng.normal(size=(5, 2))
for intercept in (True, False):
    low, full = make_design(LowRank(U, V), intercept), make_design(U @ V.T, intercept)
    theta, r, weight = rng.normal(size=low.shape[1]), rng.normal(size=50), rng.random(50)
    rows = np.array([3, 7, 40])
    assert low.shape == full.shape
    for design in (low, low.take(rows)):
        n = design.shape[0]
        Xa = full.rows(slice(None) if n == 50 else rows)
        np.testing.assert_allclose(design.matvec(theta), Xa @ theta)
        np.testing.assert_allclose(design.rmatvec(r[:n]), Xa.T @ r[:n])
        np.testing.assert_allclose(design.sandwich(weight[:n]), Xa.T @ (weight[:n, None] * Xa), atol=1e-12)
        np.testing.assert_allclose(design.rows(np.arange(n)), Xa)

loans = load_loans()
assert loans.data.shape == (4, 2) and loans.target.tolist() == [1, 1, 0, 0]
assert list(load_loans(encoded=True).data) == ["age", "purpose=home"]

cut = GroupThresholds(LogisticRegression()).fit(X, y, sensitive_features=z)
accepted = cut.predict(X, sensitive_features=z) > 0
assert np.ptp([accepted[z == group].mean() for group in "abc"]) < 0.02
"""


def test_the_examples_work_in_the_files_that_they_are_said_to_be(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "fairmargin", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in EXAMPLES.items():
        assert not (PACKAGE / name).exists(), f"{name} is no example of something new"
        (tmp_path / "fairmargin" / name).write_text(text, encoding="utf-8")
    (tmp_path / "loans.csv").write_text(LOANS, newline="\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "FAIRMARGIN_DATA": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_layout_names_every_module_at_the_top():
    top = [path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")]
    folders = [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    named = set(re.findall(r"`([\w/.]+)`", LAYOUT))
    assert [name for name in top if name not in named and name.removesuffix(".py") not in named] == []
    assert [name for name in folders if f"{name}/" not in named] == []


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?:\w+/)*\w+\.py)`", TEXT))))
def test_files_that_are_named_are_there(name):
    if name in EXAMPLES:
        return
    root = PACKAGE.parents[1]
    found = [*PACKAGE.rglob(name), *(root / "docs").glob(name), *root.glob(name), *(root / "tests").glob(name)]
    assert found, f"CONTRIBUTING names {name}, which is not there"
