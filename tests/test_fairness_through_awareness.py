"""Dwork et al.: the linear program by hand and in full, and the extension to new people."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from fairmargin.baselines import FairnessThroughAwareness, solve_lipschitz_program
from fairmargin.datasets import make_linear_synthetic

pytestmark = pytest.mark.numerical


def line(x):
    x = np.asarray(x, dtype=float)
    return np.abs(x[:, None] - x)


def test_the_program_by_hand():
    # Gains 3 and -1 at a distance of 0.4: the first is accepted, the second as rarely as allowed.
    assert solve_lipschitz_program([3, -1], line([0, 0.4])) == pytest.approx([1.0, 0.6])
    # With gains 1 and -2 it is the second that is refused.
    assert solve_lipschitz_program([1, -2], line([0, 0.4])) == pytest.approx([0.4, 0.0])
    # e^d = 2: p1 = 2 p2 with 1 - p2 <= 2 (1 - p1), so p1 = 2/3 and p2 = 1/3 where 1 <= gain ratio <= 2.
    two = np.array([[0, np.log(2)], [np.log(2), 0]])
    assert solve_lipschitz_program([3, -4], two, divergence="max") == pytest.approx([2 / 3, 1 / 3])
    assert solve_lipschitz_program([9, -4], two, divergence="max") == pytest.approx([1.0, 1.0])
    # No distance at all: everybody alike, by the sum of the gains.
    assert solve_lipschitz_program([1, 1, -3], np.zeros((3, 3))) == pytest.approx([0, 0, 0])


@pytest.mark.parametrize("divergence", ["total_variation", "max"])
def test_rows_added_lazily_solve_the_full_program(divergence):
    rng = np.random.default_rng(0)
    n = 40
    gain, distances = rng.normal(size=n), 0.3 * cdist(*[rng.normal(size=(n, 2))] * 2)
    p = solve_lipschitz_program(gain, distances, divergence=divergence)
    A, b = [], []
    for i in range(n):
        for j in range(n):
            if i != j:
                row = np.zeros(n)
                e = np.exp(distances[i, j])
                if divergence == "total_variation":
                    row[i], row[j] = 1, -1
                    A.append(row)
                    b.append(distances[i, j])
                else:
                    row[i], row[j] = 1, -e
                    other = np.zeros(n)
                    other[i], other[j] = e, -1  # 1 - p_j <= e (1 - p_i)
                    A += [row, other]
                    b += [0.0, e - 1]
    full = linprog(-gain, A_ub=np.array(A), b_ub=b, bounds=(0, 1))
    assert gain @ p == pytest.approx(-full.fun, rel=1e-7)
    assert (np.array(A) @ p - b).max() <= 2e-7


def test_decisions_are_lipschitz_for_new_people_too():
    X, y, z = make_linear_synthetic(600, random_state=0)
    model = FairnessThroughAwareness(scale=0.7, n_anchors=150).fit(X[:300], y[:300], sensitive_features=z[:300])
    new = X[300:]
    p = model.predict_proba(new)[:, 1]
    standard = (new - X[:300].mean(axis=0)) / X[:300].std(axis=0)
    allowed = np.minimum(0.7 / np.sqrt(2) * cdist(standard, standard), 1.0)
    assert (np.abs(p[:, None] - p) - allowed).max() <= 1e-6
    # Anchors keep their own probability.
    assert model.predict_proba(X[:300][model.anchors_])[:, 1] == pytest.approx(model.probabilities_, abs=1e-6)
    assert model.score(X[300:], y[300:]) > 0.75


def test_scale_is_the_dial():
    X, y, z = make_linear_synthetic(120, random_state=1)
    still = FairnessThroughAwareness(scale=1e-6).fit(X, y, sensitive_features=z)
    assert np.ptp(still.predict_proba(X)[:, 1]) < 1e-4
    free = FairnessThroughAwareness(scale=1e6).fit(X, y, sensitive_features=z)
    assert free.score(X, y) == 1.0  # distances of 1 bind nobody: every label is met
    assert 0 < FairnessThroughAwareness(scale=0.5).fit(X, y).predict_proba(X)[:, 1].std() < 0.5


def test_another_metric_and_another_estimate_of_the_loss():
    X, y, _ = make_linear_synthetic(100, random_state=2)
    alike = FairnessThroughAwareness(metric=lambda A, B: np.zeros((len(A), len(B)))).fit(X, y)
    assert len(set(alike.predict(X))) == 1
    first = FairnessThroughAwareness(metric=lambda A, B: np.abs(A[:, :1] - B[:, 0])).fit(X, y)
    moved = X + np.array([0.0, 5.0])
    assert np.array_equal(first.predict_proba(X), first.predict_proba(moved))
    smooth = FairnessThroughAwareness(LogisticRegression(), scale=1e6).fit(X, y)
    assert np.array_equal(smooth.predict(X), LogisticRegression().fit(X, y).predict(X))
    one = FairnessThroughAwareness(scale=0.5, divergence="max").fit(X, y)
    assert ((one.predict_proba(X) >= 0) & (one.predict_proba(X) <= 1)).all()


def test_too_few_rounds_are_said():
    # Two clusters, in which everybody's nearest neighbours are: only the second program knows of the other cluster.
    gain, distances = np.repeat([1.0, -1.0], 10), line(np.concatenate([np.arange(10), 200 + np.arange(10)]) / 1000)
    with pytest.warns(ConvergenceWarning, match="after 1 linear programs"):
        solve_lipschitz_program(gain, distances, max_rounds=1)
    p = solve_lipschitz_program(gain, distances)
    assert (np.abs(p[:, None] - p) <= distances + 1e-6).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], np.zeros((3, 3))), r"distances must have shape \(2, 2\)"),
        (([1, 2], np.array([[0, 1], [2, 0]])), "symmetric"),
        (([1, 2], -np.ones((2, 2))), "at least 0"),
    ],
)
def test_distances_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        solve_lipschitz_program(*arguments)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"scale": 0.0}, "scale must be positive"),
        ({"divergence": "kl"}, "divergence must be 'total_variation' or 'max'"),
        ({"n_anchors": 0}, "n_anchors must be a positive"),
    ],
)
def test_parameters_are_checked(parameters, message):
    X, y, z = make_linear_synthetic(60, random_state=0)
    with pytest.raises(ValueError, match=message):
        FairnessThroughAwareness(**parameters).fit(X, y, sensitive_features=z)
