"""Against an independent solver: cvxpy with Clarabel, on random problems with everything that goes wrong."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cvxpy_reference import leave_out
from fairmargin import CovarianceBound, FairMarginClassifier, decision_boundary_covariance
from fairmargin.coded_matrix import CodedMatrix
from fairmargin.exceptions import CovarianceWarning
from fairmargin.losses import get_loss
from fairmargin.solvers import matrix_free
from recompute import CONDITIONS

LOSSES = ("logistic", "hinge", "squared_hinge", "smoothed_hinge")
CVXPY_LOSS = {
    "logistic": lambda m: cp.logistic(-m),
    "hinge": lambda m: cp.pos(1 - m),
    "squared_hinge": lambda m: cp.square(cp.pos(1 - m)),
    # huber(u, M) is u^2 up to M and 2 M u - M^2 beyond: the rounded hinge of width M = 1/2.
    "smoothed_hinge": lambda m: cp.huber(cp.pos(1 - m), 0.5),
}
TIGHT = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12, "max_iter": 300}

pytestmark = pytest.mark.filterwarnings(
    "ignore::fairmargin.CovarianceWarning", "ignore::fairmargin.TrivialClassifierWarning"
)


def as_codes(X):
    """Return the matrix that ``draw_problem`` makes of one number and columns of four categories, as codes."""
    d = X.shape[1]
    codes = [X[:, j : j + 4].argmax(axis=1).astype(np.int32) for j in range(1, d, 4)]
    return CodedMatrix(X[:, :1].copy(), np.zeros(1, dtype=np.intp), codes, [4] * len(codes), list(range(1, d, 4)))


GIVEN = {"sparse": sp.csr_matrix, "categories": as_codes}


def draw_problem(seed, n, d, k, kind):
    """Return features, labels, sensitive columns and weights with the awkward parts that ``kind`` names."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Z = rng.normal(size=(n, k)) + 0.5 * X[:, :1]
    binary = rng.random(k) < 0.6
    Z[:, binary] = Z[:, binary] > np.median(Z[:, binary], axis=0)
    y = np.where(X @ rng.normal(size=d) + Z[:, 0] + rng.normal(size=n) > 0, 1, -1)
    y[:2] = -1, 1
    weight = np.ones(n)
    if "weights" in kind:
        weight = rng.exponential(size=n) + 0.01
    if "duplicates" in kind:
        X[n // 2 :] = X[: n - n // 2]
    if "collinear" in kind:
        X = np.column_stack([X, X[:, 0], X @ rng.normal(size=d)])
    if "constant" in kind:
        X = np.column_stack([X, np.full(n, 3.0), np.zeros(n)])
    if "categories" in kind:
        levels = rng.integers(0, 4, size=(n, d))
        X = np.column_stack([X[:, :1], *((levels[:, j, None] == np.arange(4)).astype(float) for j in range(d))])
    if "sparse" in kind:
        X = np.where(rng.random(X.shape) < 0.1, X, 0.0)
    if "scaled" in kind:
        X = X * 10.0 ** rng.integers(-3, 4, size=X.shape[1])
    return X, y, {f"z{j}": column for j, column in enumerate(Z.T)}, weight


def covariance_rows(X, y, Z, weight, notion):
    """Return the covariances under a notion as rows over the coefficients, and their entries for the intercept."""
    z = np.column_stack(list(Z.values()))
    rows, offsets = [], []
    for _, counts, sign in CONDITIONS[notion](y.astype(float)):
        s = weight * counts
        off = (z - np.average(z, axis=0, weights=s)) * (sign * s / s.sum())[:, None]
        rows.append(off.T @ X)
        offsets.append(off.sum(axis=0) if notion == "error_rate" else np.zeros(z.shape[1]))
    return np.vstack(rows), np.concatenate(offsets)


def solve_with_clarabel(X, y, rows, bound, weight, loss, C, offsets=0.0):
    """Return coefficients and intercept of the reference, and whether it claims to be optimal."""
    size = np.maximum(np.sqrt((X**2).mean(axis=0)), 1e-300)  # a change of units, for the sake of Clarabel's scaling
    v, b = cp.Variable(X.shape[1]), cp.Variable()
    w = cp.multiply(1 / size, v)
    losses = CVXPY_LOSS[loss](cp.multiply(y, (X / size) @ v + b))
    value = (rows / size) @ v + offsets * b
    constraints = [value <= bound, value >= -bound] if bound else [value == 0]
    unit = max(1.0, C * weight.sum())
    problem = cp.Problem(cp.Minimize((C / unit) * (weight @ losses) + cp.sum_squares(w) / (2 * unit)), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=cp.CLARABEL, **TIGHT)
        except cp.error.SolverError as error:
            leave_out(str(error))
    if v.value is None:
        leave_out(f"Clarabel ended {problem.status!r}")
    return v.value / size, float(b.value), problem.status == cp.OPTIMAL


def objective(X, y, weight, loss, C, w, b):
    return C * weight @ get_loss(loss).value(y * (X @ w + b)) + 0.5 * w @ w


def check_against_clarabel(seed, n, d, k, kind, loss, C, c, notion="selection_rate"):
    X, y, Z, weight = draw_problem(seed, n, d, k, kind)
    given = GIVEN.get(next(iter(kind & set(GIVEN)), "dense"), np.asarray)(X)
    for column in Z.values():
        assume(all(np.ptp(column[who > 0]) > 0 for _, who, _ in CONDITIONS[notion](y.astype(float))))
    model = FairMarginClassifier(loss, C=C, constraint=CovarianceBound(c, notion=notion))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CovarianceWarning)
        model.fit(given, y, weight, sensitive_features=Z)
    w, b, proof = model.coef_[0], model.intercept_[0], model.certificate_
    ours = objective(X, y, weight, loss, C, w, b)
    assert proof.status == "solved"
    assert proof.objective == pytest.approx(ours, rel=1e-12)
    assert proof.gap <= 1e-9
    asked = {"sensitive_features": Z, "sample_weight": weight, "notion": notion}
    covariance = decision_boundary_covariance(y, X @ w + b, **asked)
    assert np.all(np.abs(covariance) <= c + 1e-8)
    assert proof.violation <= 1e-8

    rows, offsets = covariance_rows(X, y, Z, weight, notion)
    w_ref, b_ref, optimal = solve_with_clarabel(X, y, rows, c, weight, loss, C, offsets)
    reference = objective(X, y, weight, loss, C, w_ref, b_ref)
    missed = max(0.0, np.max(np.abs(rows @ w_ref + offsets * b_ref)) - c)
    # Whoever misses a bound a little is a little too low, by the price of the bound.
    price = float(model.multipliers_.abs().sum())
    assert ours <= reference * (1 + 1e-7) + price * missed
    if optimal and missed <= 1e-9:
        # Where Clarabel stops early the dual bound, which knows nothing of it, proves that ours is the lower one.
        assert ours >= reference * (1 - 1e-7) or proof.dual_bound >= ours * (1 - 1e-9)
    assert proof.dual_bound <= reference * (1 + 1e-9) + price * missed


KINDS = ("weights", "duplicates", "collinear", "constant", "scaled")


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=90, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(12, 80),
    d=st.integers(1, 8),
    k=st.integers(1, 8),
    kind=st.sets(st.sampled_from(KINDS)),
    C=st.sampled_from([1e-4, 1e-2, 1.0, 30.0, 1e3]),
    c=st.sampled_from([0.0, 0.0, 1e-3, 0.02, 0.3]),
)
def test_objective_and_feasibility_agree_with_clarabel(loss, seed, n, d, k, kind, C, c):
    check_against_clarabel(seed, n, d, k, kind, loss, C, c)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(30, 100),
    d=st.integers(110, 200),
    k=st.integers(1, 4),
    kind=st.sets(st.sampled_from(("weights", "duplicates", "collinear"))),
    C=st.sampled_from([1e-2, 1.0, 30.0]),
    c=st.sampled_from([0.0, 1e-3, 0.02]),
)
def test_wide_and_sparse_problems_agree_with_clarabel(loss, seed, n, d, k, kind, C, c):
    """More columns than rows: with Hessians for the hinge loss and, as on larger data, by products for the others."""
    with pytest.MonkeyPatch.context() as patch:
        if loss != "hinge":
            patch.setattr(matrix_free, "is_affordable", lambda problem: False)
        check_against_clarabel(seed, n, d, k, {*kind, "sparse"}, loss, C, c)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(20, 100),
    d=st.integers(1, 12),
    k=st.integers(1, 4),
    kind=st.sets(st.sampled_from(("weights", "duplicates"))),
    C=st.sampled_from([1e-2, 1.0, 30.0]),
    c=st.sampled_from([0.0, 1e-3, 0.02]),
    products=st.booleans(),
)
def test_categorical_problems_agree_with_clarabel(loss, seed, n, d, k, kind, C, c, products):
    """Codes in place of indicators, with Hessians or by products."""
    with pytest.MonkeyPatch.context() as patch:
        if products and loss != "hinge":
            patch.setattr(matrix_free, "is_affordable", lambda problem: False)
        check_against_clarabel(seed, n, d, k, {*kind, "categories"}, loss, C, c)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(20, 80),
    d=st.integers(2, 8),
    k=st.integers(1, 3),
    kind=st.sets(st.sampled_from(KINDS)),
    C=st.sampled_from([1e-2, 1.0, 30.0]),
    c=st.sampled_from([0.0, 1e-3, 0.02]),
    notion=st.sampled_from([name for name in CONDITIONS if name != "selection_rate"]),
)
def test_problems_under_every_notion_agree_with_clarabel(loss, seed, n, d, k, kind, C, c, notion):
    check_against_clarabel(seed, n, d, k, kind, loss, C, c, notion)
