"""Warnings point at the line of the caller's code, whatever lies between."""

import subprocess
import sys
from pathlib import Path

import fairmargin

# In a process of its own: here, every ``fit`` is wrapped by a check, which would be the caller.
SCRIPT = """
import warnings
import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from fairmargin import CovarianceBound, FairLogisticRegression, FairnessFrontier
from fairmargin import FairSVC, FairTreeClassifier, PRuleBound

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 2))
y = np.where(X[:, 0] + rng.normal(size=120) > 0, "good", "poor")  # which is favourable, the labels do not tell
sex = pd.DataFrame({"sex": np.where(X[:, 1] + rng.normal(size=120) > 0, "m", "f")})
rule = PRuleBound(90)  # warns of small groups, from far below fit
models = [
    FairLogisticRegression(constraint=rule),
    FairLogisticRegression(constraint=CovarianceBound(0.01), max_iter=1),
    FairSVC(constraint=rule),
    FairTreeClassifier(constraint=rule, C=1.0),
    FairnessFrontier(FairLogisticRegression(), n_points=3),
    GridSearchCV(FairLogisticRegression(constraint=rule), {"C": [1.0]}, cv=2),
    make_pipeline(StandardScaler(), FairLogisticRegression(constraint=rule)),
]
for model in models:
    prefix = "fairlogisticregression__" if hasattr(model, "steps") else ""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(X, y, **{prefix + "sensitive_features": sex})
    assert heard, model
    assert {w.filename for w in heard} == {__file__}, [(w.filename, w.lineno, str(w.message)) for w in heard]
    print(len(heard))
"""


def test_warnings_point_at_the_callers_line(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.split()) == 7


def test_one_helper_knows_where_the_caller_is():
    package = Path(fairmargin.__file__).parent
    assert [path.name for path in package.rglob("*.py") if "warnings.warn(" in path.read_text()] == ["caller.py"]
