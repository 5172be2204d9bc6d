"""Smoothed rates against an independent solver: every step is a convex problem, posed anew by numpy for Clarabel."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import expit

from fairmargin import FairLogisticRegression, PRuleBound
from fairmargin.formulations.prule.rates import SmoothedRates
from fairmargin.formulations.prule.rates import share_left as share_of_step
from recompute import CONDITIONS

pytestmark = pytest.mark.numerical

ALLOWED = 0.02
TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def draw(seed):
    """Return features, labels in {-1, +1} and groups of which every one has both labels."""
    rng = np.random.default_rng(seed)
    n, d, groups = int(rng.integers(60, 160)), int(rng.integers(1, 6)), int(rng.integers(2, 5))
    z = np.arange(n) % groups
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3, size=d)
    y = np.where(X[:, 0] / X[:, 0].std() + 0.8 * z + rng.normal(size=n) > 1.0, 1, -1)
    y[: 2 * groups] = np.repeat([1, -1], groups)
    return X, y, z


def linear_gaps(X, y, z, scores, sharpness, notion):
    """Return gaps of smoothed rates at the scores, and their derivatives by the score of each person."""
    smooth = expit(sharpness * scores)
    groups = np.unique(z)
    gaps, slopes = [], []
    for _, counts, sign in CONDITIONS[notion](y.astype(float)):
        events = np.where(sign > 0, smooth, 1.0 - smooth)
        for group in groups if len(groups) > 2 else groups[1:]:
            inside, rest = counts * (z == group), counts * (z != group)
            share = inside / inside.sum() - rest / rest.sum()
            gaps.append(share @ events)
            slopes.append(share * sign * sharpness * smooth * (1.0 - smooth))
    return np.array(gaps), np.array(slopes)


def share_left(gap, rows, offset, X):
    """Return the share of gaps that a step leaves; more of them than coefficients may not all be closed as far."""
    if len(gap) <= X.shape[1] + 1:
        return 0.6
    v, b, share = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
    change = (rows / np.sqrt((X**2).mean(axis=0))) @ v + offset * b
    allowed = [share * abs(g) if abs(g) > 0.5 * ALLOWED else 0.5 * ALLOWED for g in gap]
    within = [cp.abs(gap[k] + change[k]) <= allowed[k] for k in range(len(gap))]
    cp.Problem(cp.Minimize(share), [*within, share >= 0.6]).solve(solver=cp.CLARABEL)
    return 0.6 if share.value <= 0.6 + 1e-7 else 0.5 * (1.0 + float(share.value))


def least_objective(X, y, rows, offset, centre, reach):
    """Return the reference's objective under ``|rows @ w + offset b - centre| <= reach``, by how much it misses that,
    and whether it claims to be optimal; None where it fails."""
    size = np.sqrt((X**2).mean(axis=0))
    v, b = cp.Variable(X.shape[1]), cp.Variable()
    loss = cp.sum(cp.logistic(-cp.multiply(y, (X / size) @ v + b)))
    value = (rows / size) @ v + offset * b - centre
    problem = cp.Problem(
        cp.Minimize(loss / len(y) + cp.sum_squares(v / size) / (2 * len(y))), [value <= reach, value >= -reach]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a solution may be inaccurate
        try:
            problem.solve(solver=cp.CLARABEL, **TIGHT)
        except cp.error.SolverError:
            return None
    if v.value is None:
        return None
    w, intercept = v.value / size, float(b.value)
    missed = np.abs(rows @ w + offset * intercept - centre) - reach
    return objective(X, y, w, intercept), max(0.0, float(missed.max())), problem.status == cp.OPTIMAL


def objective(X, y, w, b):
    return float(np.logaddexp(0.0, -y * (X @ w + b)).sum() + 0.5 * w @ w)


@pytest.mark.slow
@pytest.mark.parametrize("notion", CONDITIONS)
def test_steps_of_smoothed_rates_agree_with_clarabel(notion):
    compared = 0
    for seed in range(10):
        X, y, z = draw(seed)
        rule = PRuleBound(difference=ALLOWED, notion=notion, path="rates")
        task = FairLogisticRegression(constraint=rule)._prepare(X, y, None, z.astype(str))
        around = task.solve(task.problem.unconstrained())
        for candidate in SmoothedRates(task, around).steps(lambda rate, rest: np.full(len(rate), ALLOWED)):
            w0, b0 = task.problem.design.to_original(around.theta)
            scores = X @ w0 + b0
            gap, slope = linear_gaps(X, y, z, scores, candidate.point, notion)
            left = share_left(gap, slope @ X, slope.sum(axis=1), X)
            posed = candidate.pose(task.problem)
            reach = 0.5 * (posed.upper - posed.lower)
            np.testing.assert_allclose(reach, np.maximum(left * np.abs(gap), 0.5 * ALLOWED), atol=1e-5)
            rows, offset, centre = slope @ X, slope.sum(axis=1), slope @ scores - gap
            around = candidate.solution
            w, b = task.problem.design.to_original(around.theta)
            if around.certificate.status != "solved":  # smoothed rates that are flat at far scores
                break
            assert np.all(np.abs(rows @ w + offset * b - centre) <= reach + 1e-8)
            ours, price = objective(X, y, w, b), float(np.abs(around.multipliers).sum())
            found = least_objective(X, y, rows, offset, centre, reach)
            if found is None:
                continue
            reference, missed, optimal = found
            assert ours <= reference * (1 + 1e-7) + price * missed
            if optimal and missed <= 1e-9:
                assert ours >= reference * (1 - 1e-7)
                compared += 1
    assert compared >= 40


def test_steps_under_more_gaps_than_coefficients_are_solved():
    """Gaps of many groups cannot all be closed as far at once, which must not end in a problem without a solution."""
    rng = np.random.default_rng(4)
    z = rng.integers(8, size=1500)
    X = rng.normal(size=(1500, 2)) + 0.3 * rng.normal(size=(8, 2))[z]
    y = (X.sum(axis=1) + (0.5 + 0.2 * z) * rng.normal(size=1500) > 0.5).astype(int)
    rule = PRuleBound(difference=ALLOWED, notion="equalized_odds")
    task = FairLogisticRegression(constraint=rule)._prepare(X, y, None, z.astype(str))
    around = task.solve(task.problem.unconstrained())
    steps = list(SmoothedRates(task, around).steps(lambda rate, rest: np.full(len(rate), ALLOWED)))
    assert {step.solution.certificate.status for step in steps} == {"solved"}


@pytest.mark.parametrize("unit", [1e-10, 1e-5, 1e5])
def test_the_share_that_a_step_leaves_has_no_units(unit):
    rng = np.random.default_rng(2)
    rows, aim = rng.normal(size=(5, 3)), np.full(5, 0.1)
    gap = rows @ rng.normal(size=3) + rng.normal(size=5)
    share = share_of_step(rows, gap, aim)
    assert 0.6 < share < 1.0
    assert share_of_step(unit * rows, gap, aim) == pytest.approx(share, rel=1e-7)
    assert share_of_step(rows * [unit, 1.0, 1.0], gap, aim) == pytest.approx(share, rel=1e-7)
    assert share_of_step(rows, unit * gap, unit * aim) == pytest.approx(share, rel=1e-7)


def test_weights_are_repeated_people():
    X, y, z = draw(3)
    times = np.random.default_rng(3).integers(1, 4, len(y))
    rule = PRuleBound(difference=ALLOWED, notion="true_positive_rate")
    found = []
    for chosen, weight in ((np.arange(len(y)), times.astype(float)), (np.repeat(np.arange(len(y)), times), None)):
        task = FairLogisticRegression(constraint=rule)._prepare(X[chosen], y[chosen], weight, z[chosen].astype(str))
        around = task.solve(task.problem.unconstrained())
        found.append(list(SmoothedRates(task, around).steps(lambda rate, rest: np.full(len(rate), ALLOWED)))[:3])
    for weighted, repeated in zip(*found, strict=True):
        assert weighted.point == pytest.approx(repeated.point, rel=1e-6)  # scores are known to about sqrt(tol)
        assert weighted.solution.objective == pytest.approx(repeated.solution.objective, rel=1e-6)
