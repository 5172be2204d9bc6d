"""A gate of seconds: passes over the data and iterations may not grow, nor the time beside scikit-learn.

The counts do not depend on the machine. Where a change makes them smaller, lower the numbers here; where it makes
them larger, it has to say what is gained for it.
"""

import dataclasses
import time
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairnessFrontier,
    LossBound,
)
from fairmargin.formulations import run
from test_wide import text

pytestmark = pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning")


def people(n=20_000, d=20, k=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.linspace(0.3, 2.0, d)
    w = rng.standard_normal(d)
    y = X @ w + 2.0 * rng.logistic(size=n) > 0
    z = X @ (w[:, None] + rng.standard_normal((d, k))) + rng.standard_normal((n, k)) > 0
    return X, y.astype(int), z.astype(int)


def counts(estimator, X, y, z):
    """Return passes over all rows by operation, and iterations, of one fit."""
    task = estimator._prepare(X, y, None, z)
    outcome = run(task, estimator._constraint())
    assert outcome.solution.certificate.status == "solved"
    passes = dataclasses.asdict(task.problem.design.passes)
    return {**passes, "iterations": outcome.solution.certificate.n_iter}


# Estimator, sensitive columns, and the most that is allowed: what was counted under any of OpenBLAS's kernels, and
# one pass or iteration more, since a step near the tolerance can go either way. Passes in single precision are
# halves, those over the rows near the margin (most iterations of the hinge loss) count for their share. Every fit
# ends with passes of its own for what is returned: one step of refinement, and the scores anew.
RECORDED = {
    "logistic, unconstrained": (
        FairLogisticRegression(constraint=None),
        1,
        {"matvec": 6, "rmatvec": 5.5, "sandwich": 0.5, "iterations": 5},
    ),
    "logistic, c = 0": (
        FairLogisticRegression(),
        1,
        {"matvec": 10.5, "rmatvec": 9.5, "sandwich": 0.5, "iterations": 6},
    ),
    "logistic, half of c*": (
        FairLogisticRegression(constraint=CovarianceBound(0.5, relative=True)),
        1,
        {"matvec": 11.5, "rmatvec": 9.5, "sandwich": 0.5, "iterations": 5},
    ),
    "logistic, five attributes": (
        FairLogisticRegression(),
        5,
        {"matvec": 10, "rmatvec": 9, "sandwich": 0.5, "iterations": 6},
    ),
    "logistic, 5% more loss": (
        FairLogisticRegression(constraint=LossBound(0.05)),
        1,
        {"matvec": 34, "rmatvec": 31, "sandwich": 1.0, "iterations": 1},
    ),
    "squared hinge, c = 0": (
        FairMarginClassifier(loss="squared_hinge"),
        1,
        {"matvec": 12, "rmatvec": 11, "sandwich": 0.5, "iterations": 8},
    ),
    "hinge, unconstrained": (
        FairLinearSVC(constraint=None),
        1,
        {"matvec": 10.5, "rmatvec": 12, "sandwich": 0.2, "iterations": 41},
    ),
    "hinge, c = 0": (
        FairLinearSVC(),
        1,
        {"matvec": 19, "rmatvec": 21, "sandwich": 0.4, "iterations": 42},
    ),
    "hinge, five attributes": (
        FairLinearSVC(),
        5,
        {"matvec": 20.5, "rmatvec": 22.5, "sandwich": 0.4, "iterations": 46},
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_passes_and_iterations_do_not_grow(name):
    estimator, k, most = RECORDED[name]
    found = counts(estimator, *people(k=k))
    grown = {key: (value, most.get(key, 0)) for key, value in found.items() if value > most.get(key, 0) + 1e-9}
    assert not grown, f"found more than recorded (found, recorded): {grown}"


def test_text_is_gone_through_a_few_times_without_a_hessian():
    """A bag of words of 4,000 columns: 58 and 75 were counted in two solves, and a few more are allowed."""
    found = counts(FairLogisticRegression(), *text(8000, 4000))
    assert found["sandwich"] == 0
    assert found["matvec"] <= 64
    assert found["rmatvec"] <= 81


def test_many_people_are_gone_through_a_few_times_without_a_hessian_of_all():
    """Samples hand on a Hessian that is nearly everybody's."""
    found = counts(FairLogisticRegression(), *people(300_000, 10))
    assert found["sandwich"] <= 0.5
    assert found["matvec"] <= 8.5  # three of them in double precision: single precision leads to the answer
    assert found["rmatvec"] <= 7.5


def test_a_frontier_goes_through_the_data_a_few_times_a_point():
    X, y, z = people()
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=21).fit(X, y, sensitive_features=z)
    iterations = [model.n_iter_ for model in frontier.estimators_]
    assert np.mean(iterations) <= 3.5
    assert max(iterations) <= 6


def test_a_fair_fit_is_not_far_from_newton_cholesky():
    """Generous: a fair fit proved optimal may take at most 4 times scikit-learn's unconstrained one."""
    X, y, z = people(40_000, 40)
    fair, free = FairLogisticRegression(), LogisticRegression(solver="newton-cholesky")
    ratios = []
    for _ in range(9):
        ours = seconds(lambda: fair.fit(X, y, sensitive_features=z))
        theirs = seconds(lambda: free.fit(X, y))
        ratios.append(ours / theirs)
    assert np.median(ratios) <= 4.0, f"ratios: {np.round(sorted(ratios), 2)}"


def seconds(work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()  # of this process only: others on the machine do not count
        work()
        return time.process_time() - start
