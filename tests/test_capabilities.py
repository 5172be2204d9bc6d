"""What the compared methods declare is true: every column of the table, for every method, is exercised."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from fairmargin import cv_score
from fairmargin.baselines import METHODS, Capabilities, capabilities
from fairmargin.baselines.registry import TABLE_COLUMNS
from fairmargin.exceptions import TrivialClassifierWarning

ALL = pytest.mark.parametrize("method", METHODS, ids=[m.key for m in METHODS])


@pytest.fixture(scope="module")
def people():
    """400 people; sex, of two values, goes with the label and with a feature; race, of three values, does not."""
    rng = np.random.default_rng(0)
    sex, race = rng.choice(["f", "m"], 400), rng.choice(["x", "y", "z"], 400)
    X = rng.normal(size=(400, 3))
    X[:, 2] += 2 * (sex == "m")
    y = (X[:, :2].sum(axis=1) + 2 * (sex == "m") + rng.logistic(size=400) > 1).astype(int)
    return X, y, pd.DataFrame({"sex": sex, "race": race})


def made(method, base=None, setting="last"):
    """Return an unfitted classifier of a method, small, at its fairest setting."""
    model = method.make(LogisticRegression() if base is None else base)
    if method.dial and setting == "last":
        model.set_params(**{method.dial: method.settings[-1]})
    small = {"n_prototypes": 4, "n_init": 1, "k": 8, "n_anchors": 150}
    return model.set_params(**{name: value for name, value in small.items() if name in model.get_params()})


def fit(model, X, y, z):
    with warnings.catch_warnings():
        for category in (ConvergenceWarning, TrivialClassifierWarning):
            warnings.simplefilter("ignore", category)
        return model.fit(X, y, sensitive_features=z)


def decided(method, model, X, z):
    return model.predict(X, **({"sensitive_features": z} if method.capabilities.needs_z_at_prediction else {}))


def test_the_table_has_every_method_and_column():
    table = capabilities()
    assert list(table.index) == [m.title for m in METHODS]
    assert table.index.is_unique
    assert set(TABLE_COLUMNS) < set(table.columns)
    assert len({m.key for m in METHODS}) == len(METHODS)
    for method in METHODS:
        for title, name in TABLE_COLUMNS.items():
            assert table.loc[method.title, title] == getattr(method.capabilities, name)


def test_extensions_name_columns():
    with pytest.raises(ValueError, match="extensions must name columns"):
        Capabilities(True, True, False, True, True, "Any", False, extensions=("many values",))


@ALL
def test_one_attribute_of_two_values_is_taken_and_decided_on(method, people):
    X, y, z = people
    model = fit(made(method), X, y, z["sex"])
    predicted = decided(method, model, X, z["sex"])
    assert set(predicted) <= {0, 1}
    assert np.mean(predicted == y) > 0.5


@ALL
def test_polyvalent_attributes(method, people):
    X, y, z = people
    if method.capabilities.polyvalent:
        model = fit(made(method), X, y, z["race"])
        assert len(decided(method, model, X, z["race"])) == 400
        return
    with pytest.raises(ValueError, match="exactly two values, but 'race' has 3: 'x', 'y', 'z'"):
        made(method).fit(X, y, sensitive_features=z["race"])


@ALL
def test_several_attributes(method, people):
    X, y, z = people
    if method.capabilities.multiple:
        model = fit(made(method), X, y, z)
        assert len(decided(method, model, X, z)) == 400
        return
    with pytest.raises(ValueError, match=r"one sensitive attribute, but sensitive_features has shape \(400, 2\)"):
        made(method).fit(X, y, sensitive_features=z)


@ALL
def test_whether_z_is_needed_to_decide(method, people):
    X, y, z = people
    model = fit(made(method, setting="default"), X, y, z["sex"])
    if method.capabilities.needs_z_at_prediction:
        with pytest.raises(ValueError, match="to decide, needs sensitive_features"):
            model.predict(X)
    else:
        assert len(model.predict(X)) == 400


@ALL
def test_disparate_treatment(method, people):
    """People who differ in z only are decided alike by the methods that avoid it, and not all by the others."""
    X, y, z = people
    assert method.capabilities.avoids_disparate_treatment != method.capabilities.needs_z_at_prediction
    model = fit(made(method), X, y, z["sex"])
    if method.capabilities.avoids_disparate_treatment:
        assert "sensitive_features" not in inspect.signature(model.predict).parameters or np.array_equal(
            model.predict(X, sensitive_features=np.full(400, "f")),
            model.predict(X, sensitive_features=np.full(400, "m")),
        )
        return
    grid = np.random.default_rng(1).normal(scale=2, size=(3000, 3))
    assert not np.array_equal(
        model.predict(grid, sensitive_features=np.full(3000, "f")),
        model.predict(grid, sensitive_features=np.full(3000, "m")),
    )


@ALL
def test_disparate_impact(method, people):
    """The methods that are made to avoid it narrow the difference of an unconstrained classifier of their kind."""
    X, y, z = people
    if not method.capabilities.avoids_disparate_impact:
        assert method.key in ("situation-testing", "awareness")  # one only promotes, the other bounds individuals
        return
    plain = GaussianNB() if method.key.endswith("-nb") else LogisticRegression()
    before = cv_score(y, plain.fit(X, y).predict(X), sensitive_features=z["sex"])
    model = fit(made(method), X, y, z["sex"])
    assert cv_score(y, decided(method, model, X, z["sex"]), sensitive_features=z["sex"]) < before


@ALL
def test_business_necessity_is_declared_by_none(method):
    """None takes a bound on the loss of accuracy: no parameter asks for one."""
    assert not method.capabilities.business_necessity
    names = set(inspect.signature(method.estimator).parameters)
    assert not names & {"max_loss", "loss_bound", "gamma", "accuracy"}


@ALL
def test_range_of_classifiers(method, people):
    X, y, z = people
    wraps = "estimator" in inspect.signature(method.estimator).parameters
    assert wraps == method.capabilities.classifiers.startswith(("Any", "Randomised")) or method.key == "search-fair"
    if wraps:
        for base in (DecisionTreeClassifier(max_depth=3), GaussianNB()):
            model = fit(made(method, base), X, y, z["sex"])
            assert type(model.estimator_) is type(base)
            assert len(decided(method, model, X, z["sex"])) == 400


@ALL
def test_an_empty_cell_is_named(method, people):
    """All others compare labels between groups, and need people of every group with every label."""
    X, y, z = people
    unlucky = np.where(z["sex"] == "f", 0, y)
    if method.key in ("awareness", "disparate-impact-remover"):
        assert len(decided(method, fit(made(method), X, unlucky, z["sex"]), X, z["sex"])) == 400
        return
    with pytest.raises(ValueError, match="none has 'sex' = 'f' and label 1"):
        made(method).fit(X, unlucky, sensitive_features=z["sex"])


@ALL
def test_a_missing_attribute_is_said(method, people):
    X, y, z = people
    if method.key == "awareness":  # z is not used: the metric is
        assert len(made(method).fit(X, y).predict(X)) == 400
        return
    with pytest.raises(ValueError, match="needs sensitive_features"):
        made(method).fit(X, y)
    with pytest.raises(ValueError, match="missing values"):
        made(method).fit(X, y, sensitive_features=z["sex"].where(z.index > 5))


@ALL
def test_the_dial_is_a_parameter(method, people):
    if method.dial is None:
        assert method.settings == ()
        return
    assert method.dial in made(method).get_params()
    assert len(method.settings) > 2
