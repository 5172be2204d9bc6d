"""The check of every fit (conftest.py) finds what it is there to find, and is not noticed otherwise."""

import dataclasses
import inspect
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairnessFrontier,
    FairSVC,
    LossBound,
    PRuleBound,
)
from fairmargin.datasets import make_linear_synthetic
from recompute import Recomputed, faults

DATA = make_linear_synthetic(200, random_state=0)


def broken(model, **changes):
    """Return a fitted model whose certificate says something else."""
    model.certificate_ = dataclasses.replace(model.certificate_, **changes)
    return faults(model, DATA[0], DATA[1], None, DATA[2])


def fitted(estimator=FairLogisticRegression, constraint=None, **parameters):
    X, y, z = DATA
    return estimator(constraint=constraint or CovarianceBound(0.0), **parameters).fit(X, y, sensitive_features=z)


@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC, FairSVC])
def test_a_right_certificate_has_no_faults(estimator):
    assert broken(fitted(estimator)) == []


@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC, FairSVC])
def test_wrong_certificates_are_found(estimator):
    model = fitted(estimator)
    objective, bound = model.certificate_.objective, model.certificate_.dual_bound
    assert "certified" in broken(model, objective=1.001 * objective)[0]
    assert "gap" in broken(model, objective=objective, dual_bound=0.9 * bound)[0]
    assert "below its own dual bound" in broken(model, dual_bound=1.1 * bound)[0]


def test_moved_coefficients_are_found():
    model = fitted()
    model.coef_ = model.coef_ + np.array([[0.01, 0.0]])
    found = " ".join(broken(model))
    assert "objective" in found
    assert "covariances" in found
    assert "missed" in found


def test_broken_rules_and_budgets_are_found():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small groups
        model = fitted(constraint=PRuleBound(60))
    model.constraint = PRuleBound(99.9)
    assert "%-rule" in broken(model)[0]
    model = fitted(constraint=LossBound(0.05))
    model.constraint = LossBound(0.01)
    assert "loss increase" in broken(model)[0]


def test_weights_and_classes_are_in_the_recomputed_objective():
    X, y, z = DATA
    weight = np.random.default_rng(0).exponential(size=len(y))
    for class_weight in ("balanced", {-1: 2.0, 1: 0.5}, None):
        model = FairLogisticRegression(C=3.0, class_weight=class_weight).fit(X, y, weight, sensitive_features=z)
        assert Recomputed(model, X, y, weight, z).objective == pytest.approx(model.certificate_.objective, rel=1e-12)


def test_fits_are_counted_frontiers_too(fit_check):
    before = fit_check.checked
    fitted()
    assert fit_check.checked == before + 1
    FairnessFrontier(FairLogisticRegression(), n_points=5).fit(*DATA[:2], sensitive_features=DATA[2])
    assert fit_check.checked == before + 6


def test_a_silent_failure_fails_the_test(fit_check):
    model = fitted()
    model.certificate_ = dataclasses.replace(model.certificate_, status="inaccurate")
    with pytest.raises(pytest.fail.Exception, match="without a warning"):
        fit_check._check([model], [], *DATA[:2], None, DATA[2])
    fit_check._check([model], ["ConvergenceWarning"], *DATA[:2], None, DATA[2])
    model.certificate_ = dataclasses.replace(model.certificate_, status="solved", dual_bound=0.0)
    with pytest.raises(pytest.fail.Exception, match="is called solved, but: gap"):
        fit_check._check([model], [], *DATA[:2], None, DATA[2])


def test_tests_see_estimators_as_they_are():
    assert list(inspect.signature(FairLogisticRegression.fit).parameters) == [
        "self", "X", "y", "sample_weight", "sensitive_features", "strata", "safety_set",
    ]  # fmt: skip
    model = pickle.loads(pickle.dumps(fitted()))
    assert not [name for name in vars(model) if "check" in name]
    clone(model).fit(*DATA[:2], sensitive_features=DATA[2])


def test_warnings_point_to_the_line_that_they_pointed_to():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("here", UserWarning, stacklevel=1)
        FairLogisticRegression(max_iter=1).fit(*DATA[:2], sensitive_features=DATA[2])
    assert caught[0].filename == __file__
    assert any(issubclass(w.category, ConvergenceWarning) for w in caught)
