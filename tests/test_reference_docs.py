"""The reference is whole: every public name is listed and documented, and so is every fitted attribute."""

import importlib
import inspect
import re
import warnings
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np
import pytest

import fairmargin
from fairmargin import baselines
from fairmargin.datasets import make_linear_synthetic

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
LISTED = {
    line.strip()
    for page in REFERENCE.glob("*.rst")
    for line in page.read_text(encoding="utf-8").splitlines()
    if line.startswith("   fairmargin.")
}
NAMES = sorted(name for name in fairmargin.__all__ if not name.startswith("__"))


def sections(text):
    """Return the section titles of a numpydoc docstring."""
    return set(re.findall(r"^([A-Z][A-Za-z ]+)\n-{3,}$", text, re.MULTILINE))


def find(path):
    """Return what a dotted path names."""
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_in_the_reference(name):
    assert f"fairmargin.{name}" in LISTED


@pytest.mark.parametrize("path", sorted(LISTED))
def test_what_the_reference_lists_is_there_and_documented(path):
    text = inspect.getdoc(find(path))
    assert text
    assert len(text.splitlines()[0]) > 10


@pytest.mark.parametrize("name", NAMES)
def test_public_names_have_the_sections_that_people_look_for(name):
    thing = getattr(fairmargin, name)
    found = sections(inspect.getdoc(thing))
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return
    needed = {"Examples", "See Also"}
    if not inspect.isclass(thing):
        needed |= {"Parameters", "Returns"}
    elif hasattr(thing, "fit"):
        needed |= {"Parameters", "Attributes"}
    elif "Attributes" not in found:
        needed |= {"Parameters"}
    assert needed <= found, f"{name} lacks {sorted(needed - found)}"
    assert ">>> " in inspect.getdoc(thing)


@pytest.mark.parametrize("name", sorted(baselines.__all__))
def test_compared_methods_have_examples_too(name):
    thing = getattr(baselines, name)
    if not callable(thing) or is_dataclass(thing) or name == "capabilities":
        return  # the table of methods, and records
    needed = {"Parameters", "Examples", "See Also"} | (set() if inspect.isclass(thing) else {"Returns"})
    assert needed <= sections(inspect.getdoc(thing))


@pytest.mark.parametrize("method", baselines.METHODS, ids=lambda method: method.key)
def test_compared_methods_are_in_the_reference_and_the_table(method):
    name = method.estimator.__name__
    assert f"fairmargin.baselines.{name}" in LISTED
    assert f"`{name}`" in baselines.__doc__


def parameters_of(thing):
    signature = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing)
    return [name for name in signature.parameters if name not in ("self", "args", "kwargs")]


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_named_in_the_docstring(name):
    thing = getattr(fairmargin, name)
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return
    text = inspect.getdoc(thing)
    missing = [p for p in parameters_of(thing) if not re.search(rf"\b{re.escape(p)}\b", text)]
    assert not missing, f"{name} does not say what {missing} are"


def fitted():
    """Yield one fitted estimator of every kind, under constraints that fill in every fitted attribute."""
    X, y, z = make_linear_synthetic(400, random_state=0)
    three = np.where(X[:, 0] > 2, 2, y)
    promise = fairmargin.IndividualLossBound(0.5)
    rule = fairmargin.PRuleBound(60)
    sure = fairmargin.PRuleBound(40, confidence=0.8)
    known = {"sensitive_features": z}
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(5, max_depth=2, random_state=0)
    for constraint in (None, fairmargin.CovarianceBound(), fairmargin.LossBound(0.05), promise, rule, sure):
        yield fairmargin.FairLogisticRegression(constraint=constraint).fit(X, y, **known)
    yield fairmargin.FairLinearSVC().fit(X, y, **known)
    yield fairmargin.FairMarginClassifier().fit(X, y, **known)
    yield fairmargin.FairSVC(C=0.1).fit(X, y, **known)
    yield fairmargin.FairTreeClassifier(forest, constraint=rule).fit(X, y, **known)
    yield fairmargin.FairMultinomialLogisticRegression().fit(X, three, **known)
    yield fairmargin.FairMultinomialLogisticRegression(constraint=rule).fit(X, three, **known)
    yield fairmargin.FairOneVsRestClassifier(fairmargin.FairLogisticRegression()).fit(X, three, **known)
    yield fairmargin.FairnessFrontier(fairmargin.FairLogisticRegression(), n_points=3).fit(X, y, **known)
    loss_bound = fairmargin.LossBound(0.05)
    yield fairmargin.FairRegressor(constraint=loss_bound).fit(X, X[:, 0] + y, **known)
    yield fairmargin.RegressionFrontier(fairmargin.FairRegressor(), n_points=2).fit(X, X[:, 0] + y, **known)
    yield fairmargin.CertifiedClassifier(fairmargin.FairLogisticRegression(), p=40).fit(X, y, **known)
    regressor = fairmargin.FairRegressor()
    yield regressor.fit(X, X[:, 0] + y, **known)
    yield fairmargin.RegressionFrontier(regressor, n_points=3).fit(X, X[:, 0] + y, **known)
    yield fairmargin.KernelFeatures().fit(X)
    yield fairmargin.LeafFeatures(forest).fit(X, y)
    import pandas as pd

    yield fairmargin.CategoryEncoder().fit(pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}))


@pytest.mark.slow
def test_every_fitted_attribute_is_documented():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = list(fitted())
    missing = set()
    for model in models:
        text = inspect.getdoc(type(model))
        properties = {
            name for name, _ in inspect.getmembers(type(model), lambda member: isinstance(member, property))
        }
        public = {name for name in {*vars(model), *properties} if name.endswith("_") and not name.startswith("_")}
        missing |= {(type(model).__name__, name) for name in public if not re.search(rf"\b{name}", text)}
    assert not missing
