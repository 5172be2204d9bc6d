"""Sums over partitions: exact, compensated, and the same for any number of workers."""

import math
import threading
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from fairmargin import FairLogisticRegression
from fairmargin.partitioned.compensated import Crosstab, Total
from fairmargin.partitioned.engines.local import LocalEngine
from fairmargin.partitioned.lockstep import current_meeting, run_in_lockstep
from fairmargin.partitioned.passes import Request
from fairmargin.partitioned.sources import parquet as parquet_source
from fairmargin.partitioned.sources.parquet import ParquetSource
from fairmargin.partitioned.study import prepare
from partitioned_data import people, write


@pytest.fixture
def frame():
    return people(6000, seed=3)


@pytest.fixture
def posed(frame, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 1)
    study = scanned(write(frame, tmp_path / "people", 2, 700))
    return study, study.task(FairLogisticRegression())


def scanned(folder, n_jobs=1, sample_size=500):
    return prepare(
        ParquetSource(folder),
        LocalEngine(n_jobs),
        target="y",
        sensitive=["sex", "origin"],
        exclude=["age", "weight"],
        sample_size=sample_size,
    )


def test_totals_lose_no_digits():
    rng = np.random.default_rng(0)
    terms = rng.normal(size=2000) * 10.0 ** rng.integers(-8, 8, 2000)
    total = Total.of(0.0)
    for term in terms:
        total = total + Total.of(term)
    assert float(total.rounded) == pytest.approx(math.fsum(terms), rel=4 * np.finfo(float).eps)


def test_crosstabs_meet_new_keys():
    first = Crosstab.of(["a", "b"], ["x"], [[1.0], [2.0]])
    second = Crosstab.of(["c", "b"], ["y", "x"], [[3.0, 4.0], [5.0, 6.0]])
    both = first + second
    assert (both.rows, both.columns) == (("a", "b", "c"), ("x", "y"))
    np.testing.assert_array_equal(both.total.rounded, [[1, 0], [8, 5], [4, 3]])
    np.testing.assert_array_equal(both.at(["c", "a"], ["y"]), [[3], [0]])


def test_the_sample_depends_on_no_worker(frame, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 1)
    folder = write(frame, tmp_path / "people", 2, 500)
    samples = [scanned(folder, n).sums.sample.table.to_pandas() for n in (1, 2)]
    assert len(samples[0]) == 500
    assert samples[0].equals(samples[1])
    # Drawn evenly: every row group of 500 rows among 6000 gives about 42 of 500, with a deviation of about 6.
    rows = frame.reset_index().merge(samples[0][["x0"]], on="x0")["index"]
    assert np.all(np.abs(np.histogram(rows, 12)[0] - 500 / 12) < 5 * 6.2)


def test_counts_by_cell(posed, frame):
    census = posed[0].census
    assert census.count.sum() == len(frame)
    assert census.people("sex") == frame["sex"].value_counts().to_dict()
    np.testing.assert_array_equal(census.class_weights(), frame["y"].value_counts().sort_index())


def test_evaluate_by_class(posed, frame):
    study, task = posed
    X, signed = study.encoder.transform(frame), np.where(frame["y"] == 1, 1.0, -1.0)
    thetas = np.random.default_rng(1).normal(size=(3, X.shape[1] + 1))
    loss = task.task.problem.loss
    found = task.passes.evaluate([Request(theta, loss) for theta in thetas])
    alone = task.passes.evaluate([Request(thetas[1], loss)])[0]
    np.testing.assert_allclose(alone.pull, found[1].pull, rtol=1e-13)
    for theta, sums in zip(thetas, found, strict=True):
        margins = signed * (X @ theta[:-1] + theta[-1])
        alpha = 1 / (1 + np.exp(margins))
        value = np.logaddexp(0, -margins)
        for k, label in enumerate((-1, 1)):
            rows = signed == label
            np.testing.assert_allclose(sums.loss[k], value[rows].sum(), rtol=1e-12)
            np.testing.assert_allclose(sums.dual[k], (value + alpha * margins)[rows].sum(), rtol=1e-11)
            expected = np.append(X[rows].T @ (alpha * label)[rows], label * alpha[rows].sum())
            np.testing.assert_allclose(sums.pull[k], expected, rtol=1e-10, atol=1e-9)
        assert sums.n_curved == len(frame)
        assert sums.hessian is None


def test_curvatures_at_many_points_take_little_memory(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"b{j}": rng.choice(["u", "v"], 2000) for j in range(48)})
    frame = frame.assign(sex=rng.choice(["man", "woman"], 2000), y=rng.integers(0, 2, 2000))
    source, engine = ParquetSource(write(frame, tmp_path / "binary", 1)), LocalEngine(1)
    study = prepare(source, engine, target="y", sensitive=["sex"], sample_size=500)
    task = study.task(FairLogisticRegression())
    loss = task.task.problem.loss
    requests = [Request(rng.normal(size=49), loss, hessian=True) for _ in range(10)]
    task.passes.evaluate(requests[:1])
    tracemalloc.start()
    found = task.passes.evaluate(requests)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15e6  # tables of every two of the six groups at every point: 79 MB
    Xa = np.column_stack([study.encoder.transform(frame), np.ones(len(frame))])
    for request, sums in zip(requests, found, strict=True):
        up = 1.0 / (1.0 + np.exp(-Xa @ request.theta))
        np.testing.assert_allclose(sums.hessian, (Xa.T * (up * (1.0 - up))) @ Xa, rtol=1e-9, atol=1e-9)


def test_rates_are_exact_counts(posed, frame):
    study, task = posed
    theta = np.random.default_rng(2).normal(size=len(study.encoder.feature_names) + 1)
    edges = np.array([-1.0, 0.0, 2.5])
    (found,) = task.passes.rates([theta], [edges])
    scores = study.encoder.transform(frame) @ theta[:-1] + theta[-1]
    bins = np.searchsorted(edges, scores, side="right")
    for (name, values), (counts, weights) in zip(study.census.groups, found, strict=True):
        np.testing.assert_array_equal(counts, weights)
        for label in (0, 1):
            for g, value in enumerate(values):
                of_cell = bins[(frame["y"] == label) & (frame[name] == value)]
                np.testing.assert_array_equal(counts[label, g], np.bincount(of_cell, minlength=4))


def test_near_rows_and_the_rest(posed, frame):
    study, task = posed
    X, signed = study.encoder.transform(frame), np.where(frame["y"] == 1, 1.0, -1.0)
    theta = 0.3 * np.random.default_rng(4).normal(size=X.shape[1] + 1)
    margins = signed * (X @ theta[:-1] + theta[-1])
    found = task.passes.near(theta, 0.25)
    assert len(found.rows.y) == np.count_nonzero(np.abs(1 - margins) <= 0.25)
    inside = margins < 0.75
    np.testing.assert_allclose(found.offset, inside.sum())
    np.testing.assert_allclose(found.tilt[:-1], -(X[inside].T @ signed[inside]), rtol=1e-10, atol=1e-8)
    assert found.loss == pytest.approx(np.maximum(0, 1 - margins).sum(), rel=1e-12)


def test_lockstep_shares_passes():
    passes = []

    def evaluate(requests):
        passes.append(list(requests))
        return [10 * request for request in requests]

    def solver(name, steps):
        def run():
            total = 0
            for step in range(steps):
                total += sum(current_meeting().ask([name + step, name + step + 100]))
            return total

        return run

    found = run_in_lockstep([solver(0, 2), solver(1000, 3)], evaluate)
    assert found == [10 * (0 + 100 + 1 + 101), 10 * (1000 + 1100 + 1001 + 1101 + 1002 + 1102)]
    assert passes == [[0, 100, 1000, 1100], [1, 101, 1001, 1101], [1002, 1102]]
    assert threading.active_count() == 1 or not any("lockstep" in t.name for t in threading.enumerate())


def test_lockstep_raises_the_error_of_a_pass_and_of_a_solver():
    def fails(requests):
        raise RuntimeError("the pass broke")

    with pytest.raises(RuntimeError, match="the pass broke"):
        run_in_lockstep([lambda: current_meeting().ask([1])] * 2, fails)

    def breaks():
        raise ValueError("the solver broke")

    with pytest.raises(ValueError, match="the solver broke"):
        run_in_lockstep([breaks, lambda: current_meeting().ask([1])], lambda requests: requests)
