"""The frontier: exact, monotone, the same as cold starts, and a fitted classifier at every point."""

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import SVC

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairnessFrontier,
    FairSVC,
    LossBound,
    cv_score,
    p_rule,
)
from test_loss_bound import make_problem, real_sample

ESTIMATORS = [
    FairLogisticRegression(),
    FairLinearSVC(),
    FairLinearSVC(loss="squared_hinge"),
    FairMarginClassifier("smoothed_hinge", C=0.3),
    FairSVC(C=0.5),
]
pytestmark = pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning")


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: f"{type(e).__name__}-{e._loss().name}")
def test_every_point_is_what_a_cold_start_gives(estimator):
    X, y, Z = make_problem(0, 2)
    frontier = FairnessFrontier(estimator, n_points=6).fit(X, y, sensitive_features=Z)
    for factor, point in zip(frontier.table_["factor"], frontier.estimators_, strict=True):
        cold = type(estimator)(**{**estimator.get_params(), "constraint": CovarianceBound(factor, relative=True)})
        cold.fit(X, y, sensitive_features=Z)
        # Neither objective is further from the optimum than its own dual bound says, and their bounds are shares of
        # unconstrained covariances that differ, too: a multiplier is what a unit of its bound is worth.
        excess = [
            max(p.objective - p.dual_bound, 1e-8 * p.objective) for p in (point.certificate_, cold.certificate_)
        ]
        moved = factor * np.abs(point.unconstrained_covariance_ - cold.unconstrained_covariance_)
        worth = float(np.sum(np.maximum(np.abs(point.multipliers_), np.abs(cold.multipliers_)) * moved))
        assert point.certificate_.objective == pytest.approx(cold.certificate_.objective, abs=max(excess) + worth)
        # By strong convexity w is within sqrt(2 excess) of the optimum, and f(x) within |x| times that.
        size = 1.0 if isinstance(estimator, FairSVC) else np.sqrt(1.0 + np.sum(X**2, axis=1).max())
        close = size * sum(np.sqrt(2.0 * (e + worth)) for e in excess)
        np.testing.assert_allclose(point.decision_function(X), cold.decision_function(X), atol=close)


@pytest.mark.parametrize("estimator", [FairLogisticRegression(), FairLinearSVC()])
@pytest.mark.parametrize("which", ["covariance", "loss"])
def test_objective_and_covariance_are_monotone(estimator, which):
    X, y, Z = make_problem(1)
    table = FairnessFrontier(estimator, n_points=15, which=which).fit(X, y, sensitive_features=Z).table_
    covariance = table.filter(like="covariance[").abs().max(axis=1)
    assert np.all(np.diff(table["objective"]) >= -1e-7)
    assert np.all(np.diff(covariance) <= 1e-7)
    assert table["relative_loss"].iloc[0] == pytest.approx(0.0)
    assert table["relative_loss"].iloc[-1] == pytest.approx(1.0)
    assert covariance.iloc[-1] == pytest.approx(0.0, abs=1e-9)


def test_points_spaced_in_loss_are_loss_bounds():
    X, y, Z = make_problem(2)
    table = (
        FairnessFrontier(FairLogisticRegression(), n_points=5, which="loss").fit(X, y, sensitive_features=Z).table_
    )
    np.testing.assert_allclose(table["relative_loss"], np.linspace(0, 1, 5), atol=1e-6)
    gamma = table["loss_increase"].iloc[2]
    bound = FairLogisticRegression(constraint=LossBound(gamma)).fit(X, y, sensitive_features=Z)
    assert bound.factor_ == pytest.approx(table["factor"].iloc[2], abs=1e-5)


def test_the_table_agrees_with_the_metrics():
    X, y, Z = make_problem(3)
    people = pd.DataFrame({"sex": np.where(Z[:, 0] > 0, "m", "f")})
    half = len(y) // 2
    test = X[half:], y[half:], people.iloc[half:]
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=4)
    frontier.fit(X[:half], y[:half], sensitive_features=people.iloc[:half], eval_set=test)
    for row, clf in zip(frontier.table_.itertuples(index=False), frontier.estimators_, strict=True):
        values = dict(zip(frontier.table_, row, strict=True))
        decisions = clf.predict(test[0])
        assert values["test_accuracy"] == pytest.approx(clf.score(test[0], test[1]))
        assert values["test_p_rule"] == pytest.approx(p_rule(test[1], decisions, sensitive_features=test[2]))
        assert values["test_cv_score"] == pytest.approx(cv_score(test[1], decisions, sensitive_features=test[2]))
        assert values["train_accuracy"] == pytest.approx(clf.score(X[:half], y[:half]))
        assert values["covariance[sex=m]"] == pytest.approx(clf.covariance_.iloc[0])
        assert values["multiplier[sex=m]"] == pytest.approx(clf.multipliers_.iloc[0])


def test_select_answers_questions():
    X, y, Z = make_problem(4)
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=21).fit(X, y, sensitive_features=Z)
    table = frontier.table_
    reach = table["train_p_rule"].max()
    index = frontier.select_index(p_rule=reach - 1)
    assert table["train_p_rule"].iloc[index] >= reach - 1
    assert np.all(table["train_p_rule"].iloc[:index] < reach - 1)
    index = frontier.select_index(max_loss_increase=0.02)
    assert table["loss_increase"].iloc[index] <= 0.02 < table["loss_increase"].iloc[index + 1]
    clf = frontier.select(covariance=0.1)
    assert np.abs(clf.covariance_).max() <= 0.1 + 1e-9
    assert clf.predict(X).shape == y.shape


def test_questions_without_an_answer_are_errors():
    X, y, Z = make_problem(5)
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=3).fit(X, y, sensitive_features=Z)
    with pytest.raises(ValueError, match="No point of the frontier reaches a 100%-rule; the highest is"):
        frontier.select(p_rule=100)
    with pytest.raises(ValueError, match="did you mean 80"):
        frontier.select(p_rule=0.8)
    with pytest.raises(ValueError, match="exactly one"):
        frontier.select(p_rule=80, covariance=0.1)
    with pytest.raises(ValueError, match="it was measured on: train"):
        frontier.select(p_rule=80, on="test")
    with pytest.raises(ValueError, match="n_points must be"):
        FairnessFrontier(FairLogisticRegression(), n_points=1).fit(X, y, sensitive_features=Z)
    with pytest.raises(ValueError, match="which must be"):
        FairnessFrontier(FairLogisticRegression(), which="time").fit(X, y, sensitive_features=Z)
    with pytest.raises(ValueError, match="must be a tuple"):
        FairnessFrontier(FairLogisticRegression()).fit(X, y, sensitive_features=Z, eval_set=(X, y))
    with pytest.raises(ValueError, match="needs sensitive_features"):
        FairnessFrontier(FairLogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="a classifier of two classes of this package"):
        FairnessFrontier(SVC()).fit(X, y, sensitive_features=Z)


def test_it_can_be_drawn():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, y, Z = make_problem(6)
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=5)
    frontier.fit(X, y, sensitive_features=Z, eval_set=(X, y, Z))
    display = frontier.plot()
    assert len(display.lines_) == 2
    assert display.ax_.get_xlabel() == "p%-rule (percent)"
    _, ax = plt.subplots()
    assert frontier.plot(x="factor", y="objective", on="train", ax=ax).ax_ is ax
    with pytest.raises(ValueError, match="has no 'speed'"):
        frontier.plot(x="speed")
    plt.close("all")


def test_fitting_in_threads_leaves_the_warning_filters_alone():
    X, y, Z = make_problem(8)
    before, interval = list(warnings.filters), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(6) as pool:
            fits = [
                pool.submit(
                    lambda: FairnessFrontier(FairLogisticRegression(), n_points=40).fit(X, y, sensitive_features=Z)
                )
                for _ in range(12)
            ]
            tables = [f.result().table_ for f in fits]
    finally:
        sys.setswitchinterval(interval)
        after = list(warnings.filters)
        warnings.filters[:] = before
    assert after == before
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])


def test_progress_is_told():
    X, y, Z = make_problem(7)
    told = []
    FairnessFrontier(FairLogisticRegression(), n_points=4, progress=lambda *now: told.append(now)).fit(
        X, y, sensitive_features=Z
    )
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.data
@pytest.mark.slow
def test_a_hundred_points_of_adult():
    X, y, z = real_sample("adult", 31_655)
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=101).fit(X, y, sensitive_features=z)
    assert np.all(np.diff(frontier.table_["objective"]) >= -1e-5)
    assert max(e.certificate_.gap for e in frontier.estimators_) <= 1e-8
    # Continuation, not a hundred fits: two or three steps a point.
    assert np.mean([e.n_iter_ for e in frontier.estimators_]) <= 4


def test_a_frontier_that_fails_keeps_what_it_had():
    X, y, Z = make_problem(8)
    frontier = FairnessFrontier(FairLinearSVC(), n_points=5).fit(X, y, sensitive_features=Z)
    frontier.set_params(n_points=3, estimator=FairLinearSVC(C=np.inf))
    line = np.r_[np.linspace(-3, -1, 20), np.linspace(1, 3, 20)]
    with pytest.raises(ValueError, match="separated without any loss"):
        frontier.fit(line[:, None], (line > 0).astype(int), sensitive_features=np.arange(40) % 2)
    assert len(frontier.estimators_) == len(frontier.table_) == 5
