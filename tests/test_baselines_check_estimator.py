"""scikit-learn's own checks of estimators, for every compared method.

The checks know nothing of sensitive features. Each method is therefore wrapped in a class that makes them up from the
order of the rows, so that every label has people of both groups.
"""

import inspect

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import _num_samples

from fairmargin.baselines import METHODS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.unchecked_fits,  # the checks hand over data on which nothing can be learnt
]


def made_up(X, y):
    """Return two groups that alternate within each label."""
    z, labels = np.arange(_num_samples(X)) % 2, np.asarray(y).astype(str).ravel()
    for label in np.unique(labels) if len(labels) == len(z) else ():
        rows = np.flatnonzero(labels == label)
        z[rows] = np.arange(len(rows)) % 2
    return z


def with_z(method, aware):
    """Return a class that calls ``method`` with groups made up; ``aware`` methods get them to decide, too."""

    def fit(self, X, y):
        return method.fit(self, X, y, sensitive_features=made_up(X, y))

    members = {"fit": fit}
    if aware:
        # The same group for everybody: a subset must be decided as within the whole.
        for name in ("predict", "predict_proba", "decision_function"):
            members[name] = _decide(getattr(method, name))
        members["score"] = lambda self, X, y: float(np.mean(self.predict(X) == y))
    name = f"{method.__name__}WithZ"
    members |= {"__init__": method.__init__, "__module__": __name__, "__qualname__": name}
    globals()[name] = type(name, (method,), members)  # where pickle looks for it
    return globals()[name]


def _decide(inner):
    def decide(self, X, sensitive_features=None):
        return inner(self, X, sensitive_features=np.zeros(_num_samples(X), dtype=int))

    return decide


SMALL = {
    "DatasetConstraints": {"max_iter": 3},
    "FairRepresentations": {"n_prototypes": 3, "parity": 0.01, "random_state": 0},
    "SituationTestingCorrection": {"k": 1},
}
CLASSES = {method.estimator.__name__: method.estimator for method in METHODS}


def parameters_of(kind):
    """Return parameters that are quick, with a classifier for methods that cannot do without."""
    wrapped = inspect.signature(kind).parameters.get("estimator")
    base = {"estimator": LogisticRegression()} if wrapped is not None and wrapped.default is wrapped.empty else {}
    return base | SMALL.get(kind.__name__, {})


ALIKE = "everybody is decided as the first group here, though both were trained on"
NONE_NEEDED = "n_iter_ counts steps from a start that may need none"
EXPECTED = {
    "check_classifiers_classes": ALIKE,
    "check_classifiers_train": ALIKE,
    "check_supervised_y_2d": ALIKE,
    "check_non_transformer_estimators_n_iter": NONE_NEEDED,
}


@pytest.mark.parametrize("name", CLASSES)
def test_check_estimator(name):
    method = CLASSES[name]
    aware = method.capabilities.needs_z_at_prediction
    model = with_z(method, aware)(**parameters_of(method))
    results = check_estimator(model, on_fail=None, expected_failed_checks=EXPECTED if aware else {})
    failed = [f"{r['check_name']}: {r['exception']!r}" for r in results if r["status"] == "failed"]
    assert failed == []
