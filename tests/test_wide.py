"""Wide and sparse data: steps by products alone, chosen by cost, in little memory and with the same certificate."""

import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairnessFrontier,
    FairSVC,
    LossBound,
    PRuleBound,
)
from fairmargin.design import make_design
from fairmargin.losses import get_loss
from fairmargin.problem import Problem
from fairmargin.solvers import matrix_free, newton, solve
from fairmargin.solvers.curvature import Curvature
from fairmargin.solvers.evaluation import add_gradient, evaluate
from fairmargin.solvers.matrix_free import MatrixFree, choose_model
from fairmargin.solvers.projected_cg import QuadraticModel, minimise_model
from fairmargin.solvers.quadratic_step import Factor, constrained_step
from test_solvers import check_optimal, random_problem

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning", "ignore::fairmargin.TrivialClassifierWarning"),
]
SMOOTH = ("logistic", "squared_hinge", "smoothed_hinge", "modified_huber")


def text(n=1500, d=4000, per_row=20, seed=0):
    """Return a made bag of words (terms by Zipf's law, tf-idf like weights), labels and a sensitive attribute."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, d + 1)
    terms = np.searchsorted(np.cumsum(share / share.sum()), rng.random((n, per_row))).clip(0, d - 1)
    X = sp.csr_matrix((np.ones(terms.size), terms.ravel(), np.arange(n + 1) * per_row), shape=(n, d))
    X.sum_duplicates()
    X.data = 1.0 + np.log(X.data)
    signal, other = X @ rng.normal(size=d), X @ rng.normal(size=d)
    y = (signal + rng.logistic(size=n) > 0).astype(int)
    z = (signal + other + rng.normal(size=n) > 0).astype(int)
    return X, y, z


@pytest.fixture
def products_only(monkeypatch):
    """No Hessian is formed, however small the problem."""
    monkeypatch.setattr(matrix_free, "is_affordable", lambda problem: False)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("kind", [(), ("weights", "scaled"), ("deficient", "dependent")])
@pytest.mark.parametrize("c", [0.0, 0.02, np.inf])
@pytest.mark.parametrize("intercept", [True, False])
def test_products_alone_lead_to_the_optimum(products_only, loss, kind, c, intercept):
    problem = random_problem(loss, c=c, kind=kind, intercept=intercept)
    assert isinstance(choose_model(problem), MatrixFree)
    check_optimal(problem, solve(problem))


def test_products_alone_solve_the_hinge_loss(products_only):
    for c in (0.0, 0.02, np.inf):
        problem = random_problem("hinge", c=c)
        check_optimal(problem, solve(problem))


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_curved_rows_precondition_steps_that_take_many_products(monkeypatch, loss):
    """Where a factor costs nothing, every step takes it after one product, and as many as there are rows of A."""
    monkeypatch.setattr(matrix_free, "_FACTOR_COST", 0.0)
    X, y, z = text(n=200, d=400)
    problem = bare_problem(X)
    rows = problem.design.rmatvec((z - z.mean()) / len(z))[None, :]
    rows[0, -1] = 0.0
    problem = replace(problem, y=np.where(y > 0, 1.0, -1.0), loss=get_loss(loss), rows=rows)
    problem = problem.with_bounds(np.zeros(1), np.zeros(1))
    problem.design.passes.matvec = 0
    solution = solve(problem)
    check_optimal(problem, solution)
    if loss == "logistic":
        assert problem.design.passes.matvec <= 8 * solution.certificate.n_iter + 4


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(2, 12),
    k=st.integers(0, 5),
    c=st.sampled_from([0.0, 1e-3, 0.1]),
    dependent=st.booleans(),
)
def test_projected_conjugate_gradients_take_the_step_of_a_factored_hessian(seed, d, k, c, dependent):
    """Solved to rounding, the two ways to minimise a model agree on its least value and keep the same bounds."""
    rng = np.random.default_rng(seed)
    problem = random_problem("logistic", seed=seed, n=60, d=d, k=max(k, 1), kind=("dependent",) if dependent else ())
    if k == 0:
        problem = problem.unconstrained()
    problem = problem.with_bounds(np.full(problem.n_rows, -c), np.full(problem.n_rows, c))
    p = problem.design.shape[1]
    root = rng.normal(size=(p, p))
    hessian = root @ root.T + np.eye(p)
    theta, gradient = rng.normal(size=p), rng.normal(size=p)
    step, _ = constrained_step(problem, theta, gradient, Factor(hessian))
    model = QuadraticModel(theta, gradient, lambda v: hessian @ v, lambda r: r / hessian.diagonal())
    small = 1e-13 * np.abs(hessian).max() * (1.0 + np.abs(step).max())
    nothing = np.zeros(problem.n_rows)
    found, nu = minimise_model(problem, model, nothing, lambda r: np.abs(r).max() <= small, 50 * p)

    def value(v):
        return gradient @ v + 0.5 * v @ hessian @ v

    assert value(found) == pytest.approx(value(step), rel=1e-8, abs=1e-8)
    size = np.abs(problem.rows) @ (np.abs(theta) + np.abs(found))
    assert np.all(np.abs(problem.rows @ (theta + found)) <= c + 1e-14 * p * size)
    # The residual of the step is what the multipliers carry.
    residual = gradient + hessian @ found + problem.rows.T @ nu
    assert np.abs(residual).max() <= 1e-6 * (1.0 + np.abs(gradient).max())


def test_the_cheaper_model_is_chosen():
    rng = np.random.default_rng(0)
    tall, wide = rng.normal(size=(5000, 20)), text()[0]
    for X, kind in ((tall, Curvature), (wide, MatrixFree)):
        assert isinstance(choose_model(bare_problem(X)), kind)


def bare_problem(X, C=1.0):
    rng = np.random.default_rng(1)
    design = make_design(X)
    n, p = design.shape
    ridge = np.append(np.ones(p - 1), 0.0)
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    return Problem(design, y, np.full(n, C), get_loss("logistic"), ridge, np.empty((0, p)), np.empty(0), np.empty(0))


def test_an_intercept_that_alone_is_off_is_moved():
    X, _, _ = text(n=300, d=40)
    problem = bare_problem(X)
    optimum = solve(problem).theta
    theta = optimum + 0.05 * (np.arange(len(optimum)) == len(optimum) - 1)
    point = add_gradient(problem, evaluate(problem, theta, problem.design.matvec(theta)), True)
    excess = problem.objective(theta, point.scores) - problem.objective(optimum, problem.design.matvec(optimum))
    step, _ = MatrixFree(problem).step(point, np.zeros(0), excess, np.inf, 0.5 * excess)
    left = problem.objective(theta + step, problem.design.matvec(theta + step)) - problem.objective(
        optimum, problem.design.matvec(optimum)
    )
    assert left < 0.5 * excess


def test_hessians_take_over_where_products_are_too_many():
    """Columns that nearly depend on each other: hundreds of products a step, and few columns."""
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.normal(size=(1000, 150)), axis=1)
    problem = bare_problem(X, C=1e4)
    models = []

    def only_products(problem, hessian=None):
        models.append(MatrixFree(problem))
        return models[-1]

    solution = newton.solve_newton(problem, make_model=only_products)
    assert solution.certificate.status == "solved"
    assert models[0].hessian is not None


@pytest.mark.parametrize(
    "estimator",
    [
        FairLogisticRegression(),
        FairLogisticRegression(constraint=CovarianceBound(0.3, relative=True)),
        FairLogisticRegression(constraint=LossBound(0.02)),
        FairLogisticRegression(constraint=PRuleBound(80)),
        FairMarginClassifier("squared_hinge"),
        FairLinearSVC(),
    ],
    ids=str,
)
def test_every_formulation_is_solved_on_text(estimator):
    X, y, z = text(800, 1500)
    model = estimator.fit(X, y, sensitive_features=z)
    assert model.certificate_.status == "solved"


@pytest.mark.parametrize("n", [200, 600])  # in the coordinates of the row space, and as it is
def test_more_columns_than_rows_do_not_make_the_answer_another_one(n):
    """The wide sparse problem, and the dense one in the coordinates of its row space."""
    X, y, z = text(n, 900)
    for c in (0.0, 0.01):
        sparse = FairLogisticRegression(constraint=CovarianceBound(c)).fit(X, y, sensitive_features=z)
        dense = FairLogisticRegression(constraint=CovarianceBound(c)).fit(X.toarray(), y, sensitive_features=z)
        # Strong convexity: |w - w'|^2 / 2 is at most the sum of the two gaps.
        apart = np.sqrt(2.0 * 2e-9 * sparse.certificate_.objective)
        assert np.linalg.norm(sparse.coef_ - dense.coef_) <= apart


def test_a_frontier_on_text_is_solved_throughout():
    X, y, z = text(800, 1500)
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=6).fit(X, y, sensitive_features=z)
    assert {model.certificate_.status for model in frontier.estimators_} == {"solved"}


@pytest.mark.slow
def test_wide_data_are_never_made_dense():
    """Within three times the memory of X; a dense copy would take 40 times as much."""
    X, y, z = text(20_000, 20_000, per_row=150)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    FairLogisticRegression().fit(X[:2000], y[:2000], sensitive_features=z[:2000])  # what is imported on first use
    tracemalloc.start()
    FairLogisticRegression().fit(X, y, sensitive_features=z)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 3 * size


@pytest.mark.parametrize("how", ["explicit zeros", "int64 indices", "unsorted", "duplicates", "coo", "float32"])
def test_a_matrix_means_the_same_however_it_is_stored(how):
    X, y, z = text(300, 700)
    if how == "float32":
        X.data = X.data.astype(np.float32).astype(np.float64)
    expected = FairLogisticRegression().fit(X, y, sensitive_features=z)
    same = stored(X, how)
    before = same.copy()
    found = FairLogisticRegression().fit(same, y, sensitive_features=z)
    apart = np.sqrt(2.0 * 2e-9 * expected.certificate_.objective)
    assert np.linalg.norm(found.coef_ - expected.coef_) <= apart
    assert abs(before - same).sum() == 0


@pytest.mark.parametrize("how", ["explicit zeros", "int64 indices", "unsorted", "duplicates"])
def test_decisions_are_the_same_however_people_are_stored(how):
    X, y, z = text(300, 700)
    for model in (FairLogisticRegression(), FairSVC()):
        model.fit(X, y, sensitive_features=z)
        expected = model.decision_function(X)
        room = 1e-13 * abs(expected).max() * X.shape[1]  # as many roundings, in another order
        assert abs(model.decision_function(stored(X, how)) - expected).max() <= room


@pytest.mark.parametrize("index", [-1, 700])
def test_indices_beyond_the_columns_are_refused(index):
    X, y, z = text(300, 700)
    damaged = X.copy()
    damaged.indices = np.append(index, X.indices[1:]).astype(X.indices.dtype)
    model = FairLogisticRegression().fit(X, y, sensitive_features=z)
    with pytest.raises(ValueError, match="damaged sparse matrix"):
        FairLogisticRegression().fit(damaged, y, sensitive_features=z)
    with pytest.raises(ValueError, match="damaged sparse matrix"):
        model.predict(damaged)


def stored(X, how):
    X = X.copy()
    if how == "explicit zeros":
        extra = sp.coo_matrix((np.zeros(50), (np.arange(50), np.arange(50) + 600)), shape=X.shape)
        coo = X.tocoo()
        rows, columns = np.concatenate([coo.row, extra.row]), np.concatenate([coo.col, extra.col])
        return sp.csr_matrix((np.concatenate([coo.data, extra.data]), (rows, columns)), shape=X.shape)
    if how == "int64 indices":
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    if how in ("unsorted", "duplicates"):
        data, indices, indptr = X.data, X.indices, X.indptr
        if how == "duplicates":  # every entry in two halves
            data, indices, indptr = np.repeat(data / 2, 2), np.repeat(indices, 2), 2 * indptr
        backwards = np.concatenate([np.arange(b - 1, a - 1, -1) for a, b in pairwise(indptr)])
        return sp.csr_matrix((data[backwards], indices[backwards], indptr), shape=X.shape)
    if how == "coo":
        return X.tocoo()
    if how == "float32":
        return X.astype(np.float32)
    return X


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_entries_that_are_no_numbers_are_refused(value):
    X, y, z = text(300, 700)
    X.data[17] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        FairLogisticRegression().fit(X, y, sensitive_features=z)


def test_no_penalty_on_wide_data_is_decided_or_refused():
    X, y, z = text(60, 200)
    with pytest.warns(Warning, match="separable"):
        model = FairLogisticRegression(C=np.inf, constraint=None).fit(X, y, sensitive_features=z)
    assert model.certificate_.status == "separable"
    wide = sp.csr_matrix((np.ones(20_000), (np.arange(20_000), np.arange(20_000))), shape=(20_000, 40_000))
    labels = np.arange(20_000) % 2
    with pytest.raises(ValueError, match="C to a finite value"):
        FairLogisticRegression(C=np.inf).fit(
            wide, labels, sensitive_features=labels[::-1] * (np.arange(20_000) % 3 > 0)
        )


@pytest.mark.numerical
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_few_sparse_rows_with_columns_of_very_different_sizes(loss):
    """Products of rows with each other lose what small columns tell beside a huge one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 40))
    X[:, 7] *= 1e6
    y, z = (X[:, 0] + X[:, 1] > 0).astype(int), rng.integers(0, 2, 30)
    models = [FairMarginClassifier(loss).fit(A, y, sensitive_features=z) for A in (X, sp.csr_matrix(X))]
    dense, sparse = (model.certificate_ for model in models)
    assert sparse.status == dense.status == "solved"
    assert sparse.objective == pytest.approx(dense.objective, rel=1e-6)


@pytest.mark.parametrize("C", [0.01, 0.03])
def test_few_curved_rows_beside_an_intercept(C):
    """An intercept that the preconditioner was off by made every other step a short one, to the iteration limit."""
    rng = np.random.default_rng(0)
    X = sp.random(1500, 2500, 0.004, format="csr", random_state=0)
    y = (X @ rng.normal(size=2500) + 0.1 * rng.normal(size=1500) > 0).astype(int)
    model = FairLinearSVC(C=C).fit(X, y, sensitive_features=rng.integers(0, 2, 1500))
    assert model.certificate_.status == "solved"


def test_a_step_leaves_nothing_of_the_intercepts_gradient():
    """What is left of it would count in the gap that a rough solve estimates, and cost a step again and again."""
    X, y, _ = text(400, 600)
    design = make_design(X)
    p = design.shape[1]
    signs, ridge = np.where(y == 1, 1.0, -1.0), np.append(np.ones(p - 1), 0.0)
    problem = Problem(design, signs, np.ones(400), get_loss("logistic"), ridge, np.empty((0, p)), *np.empty((2, 0)))
    theta = np.append(np.zeros(p - 1), 1.0)  # only the intercept is far off
    point = add_gradient(problem, evaluate(problem, theta, design.matvec(theta)), with_dual=False)
    loose = 1e3  # a goal for the gap that any step reaches
    step, _ = MatrixFree(problem).step(point, np.empty(0), point.objective, np.inf, loose)
    left = point.gradient + design.rmatvec(point.curvature * design.matvec(step)) + ridge * step
    assert abs(point.gradient[-1]) > 1.0
    assert abs(left[-1]) < 1e-9
