"""Smoothed rates against an independent solver: every step is a convex problem, posed anew by numpy for Clarabel."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import expit

from fairmargin import FairLogisticRegression, PRuleBound
from fairmargin.formulations.prule.rates import SmoothedRates
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
            reach = np.maximum(0.6 * np.abs(gap), 0.5 * ALLOWED)
            rows, offset, centre = slope @ X, slope.sum(axis=1), slope @ scores - gap
            around = candidate.solution
            w, b = task.problem.design.to_original(around.theta)
            if around.certificate.status != "solved":  # the tangents of many gaps may contradict each other
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
