"""One suite of optimality conditions that every solver and loss passes, and the small problem inside them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.design import make_design
from fairmargin.losses import LOSSES, get_loss
from fairmargin.problem import Problem
from fairmargin.solvers import Accuracy, Start, solve, solve_with_reference
from fairmargin.solvers.hinge import solve_hinge_program, solve_interior_point, solve_multipliers
from fairmargin.solvers.ladder import Rung
from fairmargin.solvers.nearest_point import nearest_point
from fairmargin.solvers.newton import solve_newton
from fairmargin.solvers.proximal import solve_proximal
from fairmargin.solvers.quadratic_step import Factor, solve_active_rows, solve_box_dual

TOL = 1e-9
SMOOTH = [name for name in LOSSES.names if get_loss(name).smooth]


def random_problem(loss, seed=0, n=150, d=5, k=2, C=1.0, c=0.02, kind=(), sparse=False, intercept=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Z = X[:, :1] + rng.normal(size=(n, k))
    y = np.where(X.sum(axis=1) + 2 * rng.normal(size=n) > 0, 1.0, -1.0)
    weight = rng.exponential(size=n) + 0.01 if "weights" in kind else np.ones(n)
    if "deficient" in kind:
        X = np.column_stack([X, X[:, 0] - X[:, -1], np.ones(n), np.zeros(n)])
    if "scaled" in kind:
        X = X * 10.0 ** np.linspace(-3, 3, X.shape[1])
    if "dependent" in kind:
        Z = np.column_stack([Z, Z.sum(axis=1), Z[:, 0], np.ones(n)])
    design = make_design(sp.csr_matrix(X) if sparse else X, intercept)
    share = weight / weight.sum()
    rows = design.rmatvec((Z - share @ Z) * share[:, None]).T
    rows[np.abs(rows) < 1e-15] = 0.0
    ridge = np.full(design.shape[1], 0.0 if np.isinf(C) else 1.0)
    if intercept:
        rows[:, -1] = 0.0
        ridge[-1] = 0.0
    bound = np.broadcast_to(np.asarray(c, dtype=float), len(rows)).copy()
    weight = weight * (1.0 if np.isinf(C) else C)
    return Problem(design, y, weight, get_loss(loss), ridge, rows, -bound, bound)


def check_optimal(problem, solution, tol=TOL):
    """Feasibility, complementarity, stationarity and the gap, each from its definition."""
    theta, nu, alpha = solution.theta, solution.multipliers, solution.alpha
    proof = solution.certificate
    scores = problem.design.matvec(theta)
    margins = problem.y * scores
    value = problem.weight @ problem.loss.value(margins) + 0.5 * problem.ridge @ theta**2
    unit = value + 1e-12 * problem.weight.sum()
    assert proof.status == "solved"
    assert proof.objective == pytest.approx(value, rel=1e-10, abs=1e-12)
    # Scores are those of theta to the last bit: fitted classifiers do not compute them again.
    assert np.array_equal(solution.scores, scores)

    covariance = problem.rows @ theta
    assert np.all(covariance <= problem.upper + 1e-8)
    assert np.all(covariance >= problem.lower - 1e-8)
    assert proof.violation <= 1e-8
    assert proof.gap <= tol
    if value <= 1e-12 * tol * problem.weight.sum():
        return  # no loss is below 0, which proves this optimal without any multipliers

    above, below = np.maximum(nu, 0.0), np.maximum(-nu, 0.0)
    slack = (
        above[nu > 0] @ (problem.upper - covariance)[nu > 0] + below[nu < 0] @ (covariance - problem.lower)[nu < 0]
    )
    assert abs(slack) <= 10 * tol * unit

    a = alpha / problem.weight
    assert np.all(a >= -1e-12)
    if problem.loss.name == "hinge":
        assert np.all(a <= 1 + 1e-12)
        # Who is short of the margin pushes with all weight, who is beyond it not at all.
        assert problem.weight @ (np.maximum(1 - margins, 0) - a * (1 - margins)) <= 10 * tol * unit
    else:
        # A loss of curvature at most Q has a Fenchel gap of at least (a + l'(m))^2 / (2 Q) at a pair (m, a).
        curvature = problem.loss.second_derivative(np.linspace(-8.0, 8.0, 4001)).max()
        off = a + problem.loss.derivative(margins)
        assert problem.weight @ off**2 / (2.0 * curvature) <= 10 * tol * unit

    residual = problem.ridge * theta - problem.design.rmatvec(alpha * problem.y) + problem.rows.T @ nu
    # A residual costs its square where there is a penalty (or, for the intercept, the classes to balance it).
    squared = problem.ridge > 0
    squared[-1] |= problem.design.fit_intercept
    reach = np.where(squared, np.sqrt(2 * tol * unit), 10 * tol * unit * problem.design.scale + 1e-7)
    assert np.all(np.abs(residual) <= 3 * reach)

    # Weak duality at a point that misses its bounds by a rounding: each miss is worth its multiplier.
    missed = np.maximum(np.maximum(covariance - problem.upper, problem.lower - covariance), 0.0)
    assert proof.dual_bound <= value * (1 + 1e-12) + np.abs(nu) @ missed
    assert value - proof.dual_bound <= tol * unit * (1 + 1e-6)


SOLVERS = {
    **{f"newton, {name}": (name, solve_newton) for name in SMOOTH},
    "multipliers, hinge": ("hinge", solve_multipliers),
    "interior point, hinge": ("hinge", solve_interior_point),
}
CASES = {
    "range": {},
    "equality": {"c": 0.0},
    "mixed": {"k": 3, "c": [0.0, 0.05, np.inf]},
    "free": {"c": np.inf},
    "weights": {"kind": ("weights",)},
    "sparse": {"sparse": True, "kind": ("weights",)},
    "no intercept": {"intercept": False},
    "rank deficient": {"kind": ("deficient",)},
    "rank deficient, equality": {"kind": ("deficient",), "c": 0.0},
    "badly scaled": {"kind": ("scaled",)},
    "dependent rows": {"kind": ("dependent",)},
    "dependent rows, equality": {"kind": ("dependent",), "c": 0.0},
    "more rows than columns": {"k": 8, "d": 3},
    "more columns than people": {"n": 20, "d": 40},
    "tiny C": {"C": 1e-8},
    "large C": {"C": 1e4},
    "one feature": {"d": 1, "k": 1, "c": 0.0},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", SOLVERS)
def test_optimality(name, case):
    loss, solver = SOLVERS[name]
    problem = random_problem(loss, **CASES[case])
    check_optimal(problem, solver(problem))


@pytest.mark.parametrize("loss", LOSSES.names)
@pytest.mark.parametrize(
    "case", ["range", "equality", "weights", "sparse", "no intercept", "rank deficient", "mixed"]
)
def test_optimality_without_a_penalty(loss, case):
    problem = random_problem(loss, C=np.inf, n=400, **CASES[case])
    check_optimal(problem, solve(problem))


@pytest.mark.parametrize("c", [0.0, 0.02, np.inf])
def test_the_ways_without_a_penalty_agree(c):
    hinge = random_problem("hinge", C=np.inf, c=c)
    check_optimal(hinge, solve_hinge_program(hinge))
    smooth = random_problem("squared_hinge", C=np.inf, c=c)
    slow, fast = solve_proximal(smooth), solve_newton(smooth)
    check_optimal(smooth, slow)
    assert slow.objective == pytest.approx(fast.objective, rel=1e-8)


@settings(max_examples=150)
@given(
    name=st.sampled_from(list(SOLVERS)),
    seed=st.integers(0, 10**6),
    n=st.integers(10, 120),
    d=st.integers(1, 10),
    k=st.integers(1, 6),
    C=st.sampled_from([1e-4, 1e-2, 1.0, 100.0]),
    c=st.sampled_from([0.0, 1e-3, 0.05, np.inf]),
    kind=st.sets(st.sampled_from(["weights", "deficient", "dependent"])),
    sparse=st.booleans(),
    intercept=st.booleans(),
)
def test_optimality_of_random_problems(name, seed, n, d, k, C, c, kind, sparse, intercept):
    loss, solver = SOLVERS[name]
    problem = random_problem(loss, seed, n, d, k, C, c, kind, sparse, intercept)
    if not name.startswith("newton") and solver(problem).certificate.status != "solved":
        solver = solve  # either way to solve the hinge may fail alone and say so; what users call must be there
    check_optimal(problem, solver(problem))


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), C=st.sampled_from([1e-2, 1.0, 100.0]), c=st.sampled_from([0.0, 0.05]))
def test_the_dual_bound_is_below_every_feasible_point(seed, C, c):
    """Rigorous: whatever the dual variables, no feasible point is lower."""
    rng = np.random.default_rng(seed)
    problem = random_problem("logistic", seed, C=C, c=c)
    best = solve_newton(problem, accuracy=Accuracy(1e-12)).objective
    theta = rng.normal(size=problem.design.shape[1])
    scores = problem.design.matvec(theta)
    sums = problem.dual_sums(scores, problem.dual_variables(scores))
    assert problem.dual_bound(theta, rng.normal(size=problem.n_rows), sums) <= best * (1 + 1e-9)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "smoothed_hinge", "hinge"])
def test_the_pair_of_fits_is_the_two_fits(loss):
    problem = random_problem(loss, n=9000, c=np.inf)
    bounds = np.full(2, 0.01)
    free, bound = solve_with_reference(problem, lambda p, _: p.with_bounds(-bounds, bounds))
    check_optimal(problem.unconstrained(), free)
    check_optimal(problem.with_bounds(-bounds, bounds), bound)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_everything_of_one_label_but_one_person(loss):
    problem = random_problem(loss, n=3000)
    y = -np.ones(3000)
    y[1234] = 1.0
    problem = replace(problem, y=y)
    check_optimal(problem, solve(problem))


def test_rounds_that_fail_in_single_precision_are_done_in_double(monkeypatch):
    problem = random_problem("hinge")
    monkeypatch.setattr(Problem, "single", lambda self: replace(self, weight=np.full_like(self.weight, np.nan)))
    p = len(problem.ridge)
    check_optimal(problem, solve_multipliers(problem, start=Start(np.zeros(p), hessian=np.eye(p))))


def test_a_point_that_is_right_still_gets_its_multipliers():
    """Four bounds fix four coefficients: the last step is nothing but rounding, and all is in the multipliers."""
    problem = random_problem("smoothed_hinge", 106, n=10, d=4, k=4, C=100.0, c=0.05, intercept=False)
    check_optimal(problem, solve_newton(problem))


def test_the_intercept_goes_far_where_bounds_fix_the_rest():
    """Bounds hold the one coefficient, nobody is near the margin: steps are far too short unless prolonged."""
    problem = random_problem("hinge", 889, n=40, d=1, k=4, C=1e3, c=1e-5)
    solution = solve_multipliers(problem)
    check_optimal(problem, solution)
    assert solution.certificate.n_iter < 100


@pytest.mark.parametrize("seed", [2, 4, 11, 22, 55, 59])
def test_the_interior_point_method_keeps_its_digits_to_the_end(seed):
    """Bounds that the intercept enters leave few people between the corners: the last systems are nearly singular."""
    rng = np.random.default_rng(seed)
    n = 80
    z = rng.choice(3, n)
    X = rng.standard_t(3, (n, 6)) * 10.0 ** rng.uniform(-2, 2, 6)
    y = np.where(X[:, 0] / X[:, 0].std() + (z == 0) + rng.logistic(size=n) > 0, 1.0, -1.0)
    design = make_design(X, True)
    Z = (z[:, None] == np.arange(3)).astype(float)
    rows = design.rmatvec(-y[:, None] * (Z - Z.mean(axis=0)) / n).T
    bound = np.full(3, 0.003)
    ridge = np.append(np.ones(6), 0.0)
    problem = Problem(design, y, np.full(n, 100.0), get_loss("hinge"), ridge, rows, -bound, bound)
    solution = solve_interior_point(problem, accuracy=Accuracy(TOL))
    assert solution.certificate.status == "solved"
    assert solution.certificate.n_iter < 30


def test_solvers_say_what_they_need():
    with pytest.raises(ValueError, match="Newton's method needs a smooth loss; the hinge loss is not"):
        solve_newton(random_problem("hinge"))
    with pytest.raises(ValueError, match="for the hinge loss, not the logistic loss"):
        solve_interior_point(random_problem("logistic"))


@settings(max_examples=200)
@given(seed=st.integers(0, 10**6), K=st.integers(1, 12), rank=st.integers(1, 14), dependent=st.booleans())
def test_the_small_dual_problem(seed, K, rank, dependent):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(K, rank))
    if dependent:
        F = F - F.mean(axis=0)
    F = F * 10.0 ** rng.integers(-4, 5, size=(K, 1))
    q = F @ rng.normal(size=rank)
    size = np.abs(F).sum(axis=1) + 1e-300
    bound = size * rng.choice([0.0, 1e-3, 0.5, np.inf], size=K)
    M = F @ F.T
    nu = solve_box_dual(M, q, -bound, bound)
    v = q - M @ nu
    assert np.all(np.abs(v) <= bound + 1e-9 * size)
    pushed = nu != 0
    assert np.all(np.isfinite(bound[pushed]))
    np.testing.assert_allclose(
        (v * np.sign(nu))[pushed] / size[pushed],
        np.where(bound == 0, v * np.sign(nu), bound)[pushed] / size[pushed],
        atol=1e-7,
    )


@given(seed=st.integers(0, 10**6), K=st.integers(2, 60), n=st.integers(1, 20), is_vertex=st.booleans())
def test_the_nearest_point_of_a_polyhedron(seed, K, n, is_vertex):
    rng = np.random.default_rng(seed)
    W, inside = rng.normal(size=(n, K)) * 10.0 ** rng.integers(-3, 4, size=K), 3 * rng.normal(size=n)
    size = np.linalg.norm(W, axis=0)
    room = np.zeros(K) if is_vertex else size * rng.exponential(size=K)
    lower, upper = W.T @ inside - room, np.where(rng.random(K) < 0.5, W.T @ inside + size, np.inf)
    x, nu = nearest_point(W, lower, upper)
    value = W.T @ x
    scale = size * (1.0 + np.linalg.norm(inside))
    assert np.all(value >= lower - 1e-11 * scale)
    assert np.all(value <= upper + 1e-11 * scale)
    np.testing.assert_allclose(x, -W @ nu, atol=1e-11 * (1.0 + np.linalg.norm(inside)) * K)
    np.testing.assert_allclose(value[nu < 0] / scale[nu < 0], lower[nu < 0] / scale[nu < 0], atol=1e-10)
    np.testing.assert_allclose(value[nu > 0] / scale[nu > 0], upper[nu > 0] / scale[nu > 0], atol=1e-10)


def test_bounds_that_contradict_each_other_have_no_nearest_point():
    assert nearest_point(np.ones((1, 2)), np.array([1.0, -np.inf]), np.array([np.inf, -1.0])) is None


def test_dependent_rows_share_their_multiplier():
    M = np.ones((3, 3))
    nu = solve_box_dual(M, np.full(3, 2.0), np.full(3, -0.5), np.full(3, 0.5))
    np.testing.assert_allclose(nu, 0.5, atol=0.01)


def test_the_factor_takes_singular_and_badly_scaled_matrices():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 4)) * [1e-6, 1.0, 1e3, 1e6]
    H = A.T @ A
    right = H @ np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(H @ Factor(H).solve(right), right, rtol=1e-9)
    singular = np.outer([1.0, 1.0], [1.0, 1.0])
    np.testing.assert_allclose(singular @ Factor(singular).solve(np.array([2.0, 2.0])), [2.0, 2.0], rtol=1e-6)


def test_rows_that_depend_to_the_last_digit_have_multipliers():
    M, q = np.ones((2, 2)), np.array([2.0, 2.0])
    nu = solve_active_rows(M, q, np.ones(2), np.array([True, True]))
    np.testing.assert_allclose(q - M @ nu, 1.0)


@pytest.mark.parametrize(("there", "here", "expected"), [(1.0, 1.5, 2.5), (1.5, 1.0, 1.5), (2.5, 1.0, 2.0)])
def test_a_hessian_is_corrected_by_what_the_other_problem_showed(there, here, expected):
    """The correction is left out where it would take more than half of the curvature."""
    problem = random_problem("logistic")
    solution = solve(problem)

    def with_curvature(size):
        return replace(solution, hessian=size * np.eye(len(solution.theta)))

    rung = Rung(with_curvature(there), with_curvature(2.0))
    start = rung.start_within(problem, with_curvature(here))
    assert start.hessian == pytest.approx(with_curvature(expected).hessian)
