"""A frontier on partitioned data: the points of memory, in passes that they share."""

import numpy as np
import pytest
from sklearn.base import clone

import recompute
from fairmargin import CovarianceBound, FairLinearSVC, FairLogisticRegression, FairnessFrontier, FairSVC
from fairmargin.exceptions import TrivialClassifierWarning
from fairmargin.io import load, save
from fairmargin.partitioned import trace
from fairmargin.partitioned.engines.local import LocalEngine
from fairmargin.partitioned.sources import parquet as parquet_source
from partitioned_data import people, roles, write

pytestmark = pytest.mark.numerical


@pytest.fixture(autouse=True)
def _small_partitions(monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 1)


@pytest.fixture(scope="module")
def frame():
    return people(20_000, seed=9)


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    return write(frame, tmp_path_factory.mktemp("people"))


def traced(estimator, folder, sensitive, weight=None, n_jobs=1, **more):
    return trace(
        estimator,
        folder,
        **roles(sensitive, weight),
        sample_size=5000,
        engine=LocalEngine(n_jobs),
        **more,
    )


@pytest.mark.parametrize(
    ("estimator", "sensitive", "weight", "n_points"),
    [
        (FairLogisticRegression(), ["sex"], None, 21),
        (FairLogisticRegression(0.1, class_weight="balanced"), ["origin", "age"], "weight", 7),
        (FairLogisticRegression(constraint=CovarianceBound(notion="equalized_odds")), ["sex"], None, 5),
        (FairLinearSVC(0.01), ["sex"], None, 4),
    ],
)
def test_the_points_of_memory(estimator, sensitive, weight, n_points, frame, folder):
    found = traced(estimator, folder, sensitive, weight, n_points=n_points)
    X, weights = found.models[0].encoder.transform(frame), None if weight is None else frame[weight]
    twin = FairnessFrontier(clone(estimator), n_points=n_points)
    twin.fit(X, frame["y"], sample_weight=weights, sensitive_features=frame[sensitive])
    assert list(found.table.columns) == list(twin.table_.columns)
    np.testing.assert_allclose(found.table["objective"], twin.table_["objective"], rtol=2 * estimator.tol)
    for model in found.models:
        assert model.estimator.certificate_.status == "solved"
        assert recompute.faults(model.estimator, X, frame["y"], weights, frame[sensitive]) == []
        for (name, group), rate in model.estimator.training_rates_.items():
            chosen = (frame[name].astype(str) == group).to_numpy()
            kept = None if weights is None else weights[chosen]
            assert rate == pytest.approx(np.average(model.estimator.predict(X[chosen]), weights=kept), rel=1e-12)
    # What is measured, exactly as the classifiers decide on all people in memory.
    again = found.frontier.evaluate(X, frame["y"], frame[sensitive], weights, name="train")
    shared = found.table[again.columns]
    np.testing.assert_allclose(shared, again, rtol=1e-12)


def test_all_points_share_a_few_passes(folder):
    found = traced(FairLogisticRegression(), folder, ["sex"])
    passes = found.models[0].facts["passes"]
    assert passes["rates"] == passes["scan"] == 1
    assert passes["evaluate"] < 20  # fewer than one per point; alone each would take two at least


def test_a_point_is_a_model(frame, folder, tmp_path):
    found = traced(FairLogisticRegression(), folder, ["sex"], n_points=5)
    wanted = float(found.table["train_p_rule"].iloc[2])
    model = found.select(p_rule=wanted)
    assert model is found.models[2]
    assert found.select(max_loss_increase=0.0) is found.models[0]
    save(model, tmp_path / "model.json")
    decided = load(tmp_path / "model.json").decide(frame.head(200))
    assert decided.equals(model.decide(frame.head(200)))


def test_the_number_of_workers_changes_no_bit(folder):
    found = [traced(FairLogisticRegression(), folder, ["origin"], n_jobs=n, n_points=4).table for n in (1, 2)]
    assert found[0].equals(found[1])


def test_levels_left_out_and_the_unconstrained_classifier(frame, folder):
    with pytest.warns(TrivialClassifierWarning, match=r"at 100% of the p%-rule\. The frontier") as said:
        found = traced(FairLogisticRegression(), folder, ["sex"], which="p_rule", n_points=5)
    assert len(found.table) == 4
    assert str(said[0].message).endswith(f" ends at {found.table['level'].iloc[-1]:.4g}%.")
    free = found.frontier.unconstrained_
    decided = free.predict(found.models[0].encoder.transform(frame))
    for (_, group), rate in free.training_rates_.items():
        assert rate == pytest.approx(decided[frame["sex"] == group].mean(), rel=1e-12)


def test_what_cannot_be_traced(folder):
    with pytest.raises(TypeError, match="FairSVC needs all rows in memory"):
        trace(FairSVC(), folder, target="y", sensitive=["sex"])
    with pytest.raises(ValueError, match="needs sensitive columns"):
        trace(FairLogisticRegression(), folder, target="y", engine=LocalEngine(1))
    with pytest.raises(ValueError, match="n_points must be a whole number of at least 2"):
        traced(FairLogisticRegression(), folder, ["sex"], n_points=1)
