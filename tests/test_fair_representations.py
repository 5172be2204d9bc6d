"""Learning fair representations: the objective by hand, its gradient, and the traps of other implementations."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.exceptions import ConvergenceWarning

from fairmargin.baselines import FairRepresentations
from fairmargin.baselines.fair_representations import _Objective
from fairmargin.datasets import make_linear_synthetic
from fairmargin.exceptions import TrivialClassifierWarning

pytestmark = pytest.mark.numerical


def test_objective_by_hand():
    # Prototypes at 0 and 1 with outputs 0 and 1, people at 0 and 1. A feature weight of ln 3 makes memberships
    # 3/4 and 1/4: xhat and yhat are 1/4 and 3/4, and the groups, one person each, are 1/2 apart in both prototypes.
    objective = _Objective(np.array([[0.0], [1.0]]), np.array([0, 1]), np.array([0, 1]), 2, (2.0, 3.0, 5.0), False)
    value, _ = objective(np.array([0.0, 1.0, 0.0, 1.0, np.log(3)]))
    assert value == pytest.approx(2 / 16 - 3 * np.log(0.75) + 5 * 1)
    # Without a feature weight everybody is half of each prototype. |0| is smoothed to 1e-6.
    value, _ = objective(np.array([0.0, 1.0, 0.0, 1.0, 0.0]))
    assert value == pytest.approx(2 / 4 + 3 * np.log(2), abs=1e-4)
    # With weights by group, ln 3 for the first and 0 for the second: memberships (3/4, 1/4) and (1/2, 1/2).
    aware = _Objective(objective.X, objective.label, objective.group, 2, (2.0, 3.0, 5.0), True)
    value, _ = aware(np.array([0.0, 1.0, 0.0, 1.0, np.log(3), 0.0]))
    assert value == pytest.approx(2 * (1 / 16 + 1 / 4) / 2 - 3 * (np.log(0.75) + np.log(0.5)) / 2 + 5 * 0.5)


@pytest.mark.parametrize("group_weights", [False, True])
@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.3, 0.7, 2.0)])
def test_gradient_matches_finite_differences(weights, group_weights):
    rng = np.random.default_rng(0)
    X, y, s = rng.normal(size=(40, 3)), rng.integers(2, size=40), rng.integers(2, size=40)
    objective = _Objective(X, y, s, 4, weights, group_weights)
    v, w, a = rng.normal(size=12), rng.uniform(0.2, 0.8, 4), rng.uniform(0.2, 1, 6 if group_weights else 3)
    theta = np.concatenate([v, w, a])
    numeric = approx_fprime(theta, lambda t: objective(t)[0], 1e-7)
    gradient = objective(theta)[1]
    assert gradient == pytest.approx(numeric, abs=5e-6)
    assert np.linalg.norm(gradient) > 1e-3


@pytest.fixture(scope="module")
def people():
    return make_linear_synthetic(1000, random_state=0)


def gap(predicted, z):
    return abs(np.mean(predicted[z == 1] == 1) - np.mean(predicted[z == 0] == 1))


def test_parity_has_a_price(people):
    X, y, z = people
    plain = FairRepresentations(parity=0.0, max_iter=2000, random_state=0).fit(X, y, sensitive_features=z)
    fair = FairRepresentations(parity=1.0, max_iter=2000, random_state=0).fit(X, y, sensitive_features=z)
    # Decisions cross 1/2 in both: neither has collapsed.
    assert len(set(plain.predict(X))) == len(set(fair.predict(X))) == 2
    assert plain.score(X, y) > 0.8
    assert gap(fair.predict(X), z) < 0.5 * gap(plain.predict(X), z)

    def apart(model):
        M = model.represent(X)
        return np.abs(M[z == 1].mean(axis=0) - M[z == 0].mean(axis=0)).sum()

    assert apart(fair) < 0.2 * apart(plain)


def test_what_is_found_is_a_stationary_point(people):
    X, y, z = people
    # Without the parity term, whose kink leaves no gradient to vanish.
    model = FairRepresentations(3, parity=0.0, n_init=1, random_state=0, tol=1e-14, max_iter=5000)
    model.fit(X, y, sensitive_features=z)
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    objective = _Objective(standard, (y == 1).astype(int), z.astype(int), 3, (0.01, 1.0, 0.0), False)
    v = (model.prototypes_ - X.mean(axis=0)) / X.std(axis=0)
    theta = np.concatenate([v.ravel(), model.outputs_, model.feature_weights_.ravel()])
    value, gradient = objective(theta)
    assert value == pytest.approx(model.objective_, rel=1e-9)
    low, high = np.array([(-np.inf if l is None else l, np.inf if h is None else h) for l, h in objective.bounds]).T
    # Where a bound is reached, the objective falls beyond it.
    projected = np.clip(theta - gradient, low, high) - theta
    start = objective(objective.start(np.random.RandomState(0)))[1]
    assert np.abs(projected).max() < 0.01 * np.abs(start).max()


@pytest.mark.parametrize("labels", [(0, 1), (1, 2), ("no", "yes")])
def test_labels_of_any_kind(people, labels):
    X, y, z = people
    named = np.where(y == 1, labels[1], labels[0])
    model = FairRepresentations(4, parity=0.1, random_state=0, pos_label=labels[1]).fit(
        X, named, sensitive_features=z
    )
    assert set(model.predict(X)) == set(labels)
    assert model.score(X, named) > 0.7


def test_group_weights_need_z_to_decide(people):
    X, y, z = people
    model = FairRepresentations(4, parity=0.1, group_weights=True, random_state=0).fit(X, y, sensitive_features=z)
    assert model.feature_weights_.shape == (2, 2)
    with pytest.raises(ValueError, match="FairRepresentations, to decide, needs sensitive_features"):
        model.predict(X)
    assert not np.array_equal(model.predict(X, sensitive_features=z), model.predict(X, sensitive_features=1 - z))
    shared = FairRepresentations(4, parity=0.1, random_state=0).fit(X, y, sensitive_features=z)
    assert np.array_equal(shared.predict(X), shared.predict(X, sensitive_features=1 - z))


def test_a_representation_is_a_share_of_prototypes(people):
    X, y, z = people
    model = FairRepresentations(3, parity=0.1, random_state=0).fit(X, y, sensitive_features=z)
    M = model.represent(X)
    assert M.shape == (1000, 3)
    assert M.sum(axis=1) == pytest.approx(np.ones(1000))
    assert model.reconstruct(X) == pytest.approx(M @ model.prototypes_)
    assert model.predict_proba(X)[:, 1] == pytest.approx(M @ model.outputs_)


def test_collapse_and_too_few_iterations_are_said(people):
    X, y, z = people
    few = np.random.default_rng(0).random(1000) < 0.2  # nothing tells of them, so that yhat stays near 0.2
    with pytest.warns(TrivialClassifierWarning, match="decides the same for everybody"):
        FairRepresentations(2, parity=10.0, max_iter=2000, random_state=0).fit(X, few, sensitive_features=z)
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        FairRepresentations(2, parity=0.1, max_iter=1, random_state=0).fit(X, y, sensitive_features=z)


def test_the_scale_of_features_does_not_matter(people):
    X, y, z = people
    plain = FairRepresentations(3, parity=0.1, random_state=0).fit(X, y, sensitive_features=z)
    scaled = FairRepresentations(3, parity=0.1, random_state=0).fit(X * [1024, 0.125], y, sensitive_features=z)
    assert scaled.predict_proba(X * [1024, 0.125]) == pytest.approx(plain.predict_proba(X), abs=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_prototypes": 0}, "n_prototypes must be a positive"),
        ({"parity": -1}, "parity must be at least 0"),
        ({"reconstruction": np.nan}, "reconstruction must be finite"),
        ({"group_weights": "yes"}, "group_weights must be True or False"),
        ({"n_init": 0}, "n_init must be a positive"),
        ({"tol": 0.0}, "tol must be positive"),
    ],
)
def test_parameters_are_checked(people, parameters, message):
    X, y, z = people
    with pytest.raises(ValueError, match=message):
        FairRepresentations(**parameters).fit(X, y, sensitive_features=z)
