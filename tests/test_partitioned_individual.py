"""Promises to single people on partitioned data: kept for everybody, at the covariance found in memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import recompute
from fairmargin import (
    CovarianceBound,
    CovariancePenalty,
    FairLinearSVC,
    FairLogisticRegression,
    IndividualLossBound,
    InfeasibleError,
    LossBound,
)
from fairmargin.losses import get_loss
from fairmargin.partitioned import fit
from fairmargin.partitioned.engines.local import LocalEngine
from fairmargin.partitioned.sources import parquet as parquet_source
from partitioned_data import people, roles, write

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning"),
]


@pytest.fixture(autouse=True)
def _small_partitions(monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 1)


@pytest.fixture(scope="module")
def frame():
    return people(8000, seed=7)


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    return write(frame, tmp_path_factory.mktemp("people"), 3, 900)


def train(estimator, folder, sensitive, weight=None, n_jobs=1):
    return fit(
        estimator,
        folder,
        **roles(sensitive, weight),
        sample_size=2000,
        engine=LocalEngine(n_jobs),
    )


@pytest.mark.parametrize(
    ("estimator", "sensitive", "weight"),
    [
        (FairLogisticRegression(constraint=IndividualLossBound(0.1)), ["sex"], None),
        (FairLogisticRegression(0.1, constraint=IndividualLossBound(0.2, "accepted")), ["origin", "age"], None),
        (
            FairLogisticRegression(constraint=IndividualLossBound(np.inf, {"sex": "woman"}), class_weight="balanced"),
            ["sex", "origin"],
            "weight",
        ),
        (FairLinearSVC(0.01, constraint=IndividualLossBound(1.0)), ["sex"], None),
        (FairLinearSVC(0.1, constraint=IndividualLossBound(np.inf, "accepted")), ["sex"], None),
    ],
)
def test_every_promise_is_kept_at_the_least_covariance(estimator, sensitive, weight, frame, folder):
    estimator = clone(estimator)
    model = train(estimator, folder, sensitive, weight)
    X, weights = model.encoder.transform(frame), None if weight is None else frame[weight]
    sensitive_frame = frame[sensitive]
    twin = clone(estimator).fit(X, frame["y"], sample_weight=weights, sensitive_features=sensitive_frame)
    assert estimator.certificate_.status == "solved"
    assert estimator.factor_ == pytest.approx(twin.factor_, abs=2e-6)
    assert estimator.certificate_.objective == pytest.approx(twin.certificate_.objective, rel=2e-5)
    assert estimator.loss_increase_ == pytest.approx(twin.loss_increase_, abs=2e-5)
    assert recompute.faults(estimator, X, frame["y"], weights, sensitive_frame) == []
    # Promises once more, from an unconstrained classifier of its own.
    free = clone(estimator).set_params(constraint=None).fit(X, frame["y"], sample_weight=weights)
    counted = np.ones(len(X), bool) if weights is None else weights.to_numpy() > 0
    signed, scores, before = (
        np.where(frame["y"] == 1, 1, -1),
        estimator.decision_function(X),
        free.decision_function(X),
    )
    loss, gamma = (
        get_loss("hinge" if isinstance(estimator, FairLinearSVC) else "logistic"),
        estimator.constraint.gamma,
    )
    if np.isfinite(gamma):
        allowed = (1 + gamma) * loss.value(signed * before)
        assert np.all(loss.value(signed * scores) <= allowed + 1e-3 * (1 + allowed))  # two free classifiers, to 1e-6
    keep = estimator.constraint.keep_positive
    if keep is not None:
        clear = counted & (before > 1e-3) & ((frame["sex"] == "woman") | (keep == "accepted"))
        assert clear.sum() > 100
        assert np.all(scores[clear] >= 0)
    # The people at the limit of their promise, by row through all files.
    assert len(twin.binding_)
    np.testing.assert_array_equal(estimator.binding_, twin.binding_)


LISTS = {
    "a bound on the same covariance": (
        FairLogisticRegression(constraint=[CovarianceBound(0.05), IndividualLossBound(0.3)]),
        ["sex"],
        None,
    ),
    "a bound under another notion, in the ball of the penalty": (
        FairLogisticRegression(
            constraint=[CovarianceBound(0.3, relative=True, notion="true_positive_rate"), IndividualLossBound(0.2)]
        ),
        ["sex"],
        None,
    ),
    "a budget of loss that decides what is minimised": (
        FairLogisticRegression(
            0.1, constraint=[LossBound(0.02), IndividualLossBound(0.5, {"sex": "woman"}), CovarianceBound(0.2)]
        ),
        ["sex", "origin"],
        "weight",
    ),
    "a price": (
        FairLogisticRegression(constraint=[IndividualLossBound(1.0, "accepted"), CovariancePenalty(10.0)]),
        ["origin"],
        None,
    ),
    "hinge": (FairLinearSVC(0.01, constraint=[IndividualLossBound(1.0), CovarianceBound(0.1)]), ["sex"], None),
}


@pytest.mark.parametrize("case", LISTS)
def test_promises_beside_other_constraints(case, frame, folder):
    """As in memory: the same least covariance, the same loss, and every constraint of the list is kept."""
    estimator, sensitive, weight = LISTS[case]
    estimator = clone(estimator)
    model = train(estimator, folder, sensitive, weight)
    X, weights = model.encoder.transform(frame), None if weight is None else frame[weight]
    twin = clone(estimator).fit(X, frame["y"], sample_weight=weights, sensitive_features=frame[sensitive])
    assert estimator.certificate_.status == "solved"
    assert estimator.factor_ == (None if twin.factor_ is None else pytest.approx(twin.factor_, abs=2e-6))
    assert estimator.certificate_.objective == pytest.approx(twin.certificate_.objective, rel=2e-5)
    assert estimator.loss_increase_ == pytest.approx(twin.loss_increase_, abs=2e-5)
    assert recompute.faults(estimator, X, frame["y"], weights, frame[sensitive]) == []
    for found, other in zip(estimator.constraints_, twin.constraints_, strict=True):
        assert found.violation <= 1e-9
        assert found.figures.get("binding") == other.figures.get("binding")


def test_a_list_that_contradicts_itself_says_so(folder):
    estimator = FairLogisticRegression(constraint=[CovarianceBound(0.0), IndividualLossBound(0.01)])
    with pytest.raises(InfeasibleError, match=r"CovarianceBound.* and IndividualLossBound.* contradict each other"):
        train(estimator, folder, ["sex"])


def test_promises_in_a_list_are_asked_for_at_once(folder):
    constraint = [IndividualLossBound(0.1), IndividualLossBound(keep_positive="accepted")]
    with pytest.raises(ValueError, match=r"takes one IndividualLossBound.*IndividualLossBound\(gamma, keep_positive"):
        train(FairLogisticRegression(constraint=constraint), folder, ["sex"])


def test_the_number_of_workers_changes_no_bit(folder):
    found = [
        train(FairLogisticRegression(constraint=IndividualLossBound(0.3)), folder, ["sex"], None, n).estimator
        for n in (1, 2)
    ]
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)
    np.testing.assert_array_equal(found[0].binding_, found[1].binding_)


def test_nobody_may_lose(frame, folder):
    estimator = FairLogisticRegression(constraint=IndividualLossBound(0.0))
    train(estimator, folder, ["sex"])
    assert estimator.factor_ == 1.0
    np.testing.assert_allclose(estimator.covariance_, estimator.unconstrained_covariance_, rtol=1e-12)


@pytest.mark.parametrize("sample_size", [400, 800])
def test_ties_are_settled_where_no_promise_forbids_it(sample_size, tmp_path):
    # Half of those with ("a", "v") and ("b", "u") are positive: the hinge loss scores them 0, with corners elsewhere.
    cells = {("a", "u", 1): (80, 320), ("b", "v", 0): (80, 320), ("a", "v", 1): (200, 0), ("a", "v", 0): (200, 0)}
    cells |= {("b", "u", 1): (100, 100), ("b", "u", 0): (100, 100)}
    people_of = [
        (*cell, sex, n) for cell, both in cells.items() for sex, n in zip(("man", "woman"), both, strict=True)
    ]
    rows = [person for *person, n in people_of for _ in range(n)]
    frame = pd.DataFrame(rows, columns=["job", "town", "y", "sex"]).sample(frac=1.0, random_state=0)
    estimator = FairLinearSVC(constraint=IndividualLossBound(1.0))
    how = {"target": "y", "sensitive": ["sex"], "sample_size": sample_size, "engine": LocalEngine(1)}
    model = fit(estimator, write(frame, tmp_path / "ties", 2, 800), **how)
    X = model.encoder.transform(frame)
    twin = clone(estimator).fit(X, frame["y"], sensitive_features=frame["sex"])
    scores = estimator.decision_function(X)
    assert np.abs(scores).min() > 1e-10  # well above rounding
    np.testing.assert_array_equal(scores > 0, twin.decision_function(X) > 0)
    assert 0 < estimator.n_ties_ < twin.n_ties_ == 800
    assert estimator.certificate_.status == "solved"


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (IndividualLossBound(np.full(8000, 0.1)), "takes one gamma for everybody"),
        (IndividualLossBound(0.1, keep_positive=[1, 2]), "arrays over people need all rows in memory"),
        (IndividualLossBound(0.1, keep_positive={"sx": "woman"}), "the known ones are 'sex'"),
    ],
)
def test_what_needs_memory_says_so(constraint, message, folder):
    with pytest.raises(ValueError, match=message):
        train(FairLogisticRegression(constraint=constraint), folder, ["sex"])
