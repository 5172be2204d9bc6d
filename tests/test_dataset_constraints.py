"""Goh et al.: ramps and majorants by hand, the convex rounds against cvxpy, and the rule on decisions."""

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from fairmargin import p_rule
from fairmargin.baselines import DatasetConstraints
from fairmargin.baselines.dataset_constraints import _Constraints, _Round, _solve, ramp
from fairmargin.datasets import make_linear_synthetic
from fairmargin.sensitive import encode_sensitive

pytestmark = pytest.mark.numerical


def constraints(z, share):
    return _Constraints.p_rule(list(encode_sensitive(z).attributes), share)


def test_ramp_and_rule_by_hand():
    assert ramp(np.array([-9, -0.5, -0.25, 0, 0.5, 9])).tolist() == [0, 0, 0.25, 0.5, 1, 1]
    # Positive rates by the ramp: 1/2 and 1/4 in group a, 1 and 1/2 in group b; means 3/8 and 3/4.
    scores, z = np.array([0.0, -0.25, 0.7, 0.0]), list("aabb")
    values = constraints(z, 0.8).values(ramp(scores), ramp(-scores))
    # 0.8 s_p(a) + s_n(b) and 0.8 s_p(b) + s_n(a): the second is above 1, as a has half of the rate of b.
    assert sorted(values) == pytest.approx([0.8 * 3 / 8 + 1 / 4, 0.8 * 3 / 4 + 5 / 8])
    assert (constraints(z, 0.5).values(ramp(scores), ramp(-scores)) <= 1 + 1e-12).all()
    assert len(constraints(list("aabbcc"), 0.8).positive) == 6  # each of three groups and the others, both ways


def rounds(n=40, seed=0, share=0.8):
    rng = np.random.default_rng(seed)
    X, label, z = rng.normal(size=(n, 2)), rng.integers(2, size=n), np.repeat(["a", "b"], n // 2)
    X[:, 0] += label + (z == "b")
    everywhere = np.ones(n, dtype=bool)
    return _Round(X, label, constraints(z, share), 1.0, everywhere, everywhere)


def true_values(problem, w, b):
    scores = problem.X @ w + b
    signed = np.where(problem.label == 1, 1.0, -1.0)
    objective = ramp(-signed * scores).mean() + 0.5 * w @ w / len(scores)
    return objective, problem.constraints.values(ramp(scores), ramp(-scores)) - 1.0


def test_majorants_are_above_and_touch():
    problem, rng = rounds(), np.random.default_rng(1)
    w0, b0 = rng.normal(size=2), 0.3
    majorant = problem.at(problem.X @ w0 + b0)
    touching = majorant.evaluate(w0, b0)
    objective, violations = true_values(problem, w0, b0)
    assert touching.objective == pytest.approx(objective)
    assert touching.violations == pytest.approx(violations)
    for _ in range(50):
        w, b = rng.normal(scale=2, size=2), rng.normal()
        above = majorant.evaluate(w, b)
        objective, violations = true_values(problem, w, b)
        assert above.objective >= objective - 1e-12
        assert (above.violations >= violations - 1e-12).all()


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_round_agrees_with_an_independent_solver(seed, share):
    problem = rounds(seed=seed, share=share)
    start = problem.evaluate(np.zeros(2), 0.0)
    found, multipliers = _solve(problem, start, np.zeros(len(problem.constraints.positive)))
    w, b = cp.Variable(2), cp.Variable()
    scores = problem.X @ w + b
    up, down = cp.pos(0.5 + scores), cp.pos(0.5 - scores)
    signs = problem.label == 1
    errors = (signs.astype(float) @ down + (~signs).astype(float) @ up) / len(signs)
    rules = problem.constraints.positive @ up + problem.constraints.negative @ down <= 1
    reference = cp.Problem(cp.Minimize(errors + 0.5 * cp.sum_squares(w) / len(signs)), [rules])
    reference.solve(solver=cp.CLARABEL)
    assert found.violations.max() <= 1e-9
    assert reference.value - 1e-7 <= found.objective <= reference.value * (1 + 2e-3)
    assert (multipliers >= 0).all()


def test_rounds_never_get_worse_and_stay_feasible():
    X, y, z = make_linear_synthetic(400, random_state=0)
    model = DatasetConstraints(90, tune_intercept=False, tol=1e-6).fit(X, y, sensitive_features=z)
    assert model.n_iter_ >= 2
    assert (np.diff(model.objectives_) < 0).all()
    scores = model.decision_function(X)
    assert constraints(z, 0.9).values(ramp(scores), ramp(-scores)).max() <= 1 + 1e-9
    assert len(set(model.predict(X))) == 2


def test_the_rule_holds_for_decisions_after_tuning():
    X, y, z = make_linear_synthetic(800, random_state=1)
    before = None
    for p in (0, 60, 90):
        model = DatasetConstraints(p).fit(X, y, sensitive_features=z)
        reached = p_rule(y, model.predict(X), sensitive_features=z)
        assert model.p_rule_ == pytest.approx(reached)
        assert reached >= p
        accuracy = model.score(X, y)
        assert before is None or accuracy <= before + 0.01
        before = accuracy


def test_several_values_and_attributes():
    X, y, z = make_linear_synthetic(600, random_state=2)
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"sex": z.astype(str), "race": rng.choice(list("xyz"), 600)})
    model = DatasetConstraints(80).fit(X, y, sensitive_features=people)
    assert p_rule(y, model.predict(X), sensitive_features=people) >= 80


def test_too_few_rounds_are_said():
    X, y, z = make_linear_synthetic(300, random_state=3)
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 rounds"):
        DatasetConstraints(80, max_iter=1).fit(X, y, sensitive_features=z)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"p": 101}, "p is in percent"),
        ({"p": "80"}, "p must be a number"),
        ({"C": 0.0}, "C must be positive"),
        ({"tune_intercept": None}, "tune_intercept must be True or False"),
        ({"max_iter": 0}, "max_iter must be a positive"),
    ],
)
def test_parameters_are_checked(parameters, message):
    X, y, z = make_linear_synthetic(60, random_state=0)
    with pytest.raises(ValueError, match=message):
        DatasetConstraints(**parameters).fit(X, y, sensitive_features=z)
