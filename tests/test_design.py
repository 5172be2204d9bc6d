"""Designs: dense and sparse present the same augmented matrix through the same operations."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin import FairLogisticRegression
from fairmargin.design import make_design
from fairmargin.row_space import reduce_wide

KINDS = {
    "dense": lambda X: X,
    "columns first": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "sparse": sp.csr_matrix,
    "sparse array": sp.csr_array,
}
kinds = pytest.mark.parametrize("kind", KINDS)
few = settings(max_examples=40)
problems = given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 200),
    d=st.integers(1, 12),
    intercept=st.booleans(),
    far=st.booleans(),
)


def make(kind, seed, n, d, intercept, far):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.5, rng.normal(size=(n, d)), 0.0)
    if far:
        X[:, 0] += 2000.0  # a year: its mean dwarfs its spread
    design = make_design(KINDS[kind](X), intercept)
    augmented = np.hstack([X - design.mu, np.ones((n, 1))]) if intercept else X
    return design, augmented, rng


@kinds
@few
@problems
def test_the_operations_are_those_of_the_augmented_matrix(kind, seed, n, d, intercept, far):
    design, Xa, rng = make(kind, seed, n, d, intercept, far)
    theta, r, R, weight = rng.normal(size=Xa.shape[1]), rng.normal(size=n), rng.normal(size=(n, 3)), rng.random(n)
    size = 1 + np.abs(Xa).max()
    assert design.shape == Xa.shape
    np.testing.assert_allclose(design.matvec(theta), Xa @ theta, atol=1e-12 * size * d)
    np.testing.assert_allclose(design.rmatvec(r), Xa.T @ r, atol=1e-12 * size * n)
    np.testing.assert_allclose(design.rmatvec(R), Xa.T @ R, atol=1e-12 * size * n)
    gram = Xa.T @ (weight[:, None] * Xa)
    np.testing.assert_allclose(design.sandwich(weight), gram, atol=1e-12 * size**2 * n)
    np.testing.assert_allclose(design.squares(weight), gram.diagonal(), atol=1e-12 * size**2 * n)
    if hasattr(design, "outer"):
        columns = rng.random(Xa.shape[1])
        np.testing.assert_allclose(design.outer(columns), Xa * columns @ Xa.T, atol=1e-12 * size**2 * d)


@kinds
@few
@problems
def test_rows_can_be_taken(kind, seed, n, d, intercept, far):
    design, Xa, rng = make(kind, seed, n, d, intercept, far)
    rows = rng.permutation(n)[: rng.integers(1, n + 1)]
    weight = rng.random(n)
    part = Xa[rows]
    gram = part.T @ (weight[rows, None] * part)
    size = 1 + np.abs(Xa).max()
    np.testing.assert_allclose(design.sandwich(weight, rows), gram, atol=1e-12 * size**2 * n)
    theta = rng.normal(size=Xa.shape[1])
    np.testing.assert_allclose(design.take(rows).matvec(theta), part @ theta, atol=1e-12 * size * d)


@kinds
@few
@problems
def test_what_is_shifted_can_be_undone(kind, seed, n, d, intercept, far):
    design, Xa, rng = make(kind, seed, n, d, intercept, far)
    theta = rng.normal(size=Xa.shape[1])
    w, b = design.to_original(theta)
    X = Xa[:, : len(w)] + design.mu
    np.testing.assert_allclose(X @ w + b, Xa @ theta, atol=1e-9)
    np.testing.assert_allclose(design.from_original(w, b), theta, atol=1e-10)


def test_single_precision_is_summed_in_double():
    X = np.random.default_rng(0).normal(size=(5000, 6)).astype(np.float32)
    design, exact = make_design(X), make_design(X.astype(float))
    weight, theta = np.linspace(0, 1, 5000), np.ones(7)
    np.testing.assert_allclose(design.sandwich(weight), exact.sandwich(weight), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(design.matvec(theta), exact.matvec(theta), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(design.rmatvec(weight), exact.rmatvec(weight), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rank", [1, 4, 9])
def test_wide_matrices_are_rewritten_exactly(sparse, rank):
    rng = np.random.default_rng(rank)
    X = rng.normal(size=(9, rank)) @ rng.normal(size=(rank, 40))
    wide = reduce_wide(sp.csr_matrix(X) if sparse else X)
    assert wide.features.shape[0] == 9
    assert wide.features.shape[1] <= 9
    beta = rng.normal(size=wide.features.shape[1])
    np.testing.assert_allclose(X @ wide.expand(beta), wide.features @ beta, atol=1e-10)
    np.testing.assert_allclose(wide.features @ wide.features.T, X @ X.T, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["C", "F"])
def test_training_takes_less_memory_than_another_copy_and_a_half(order):
    rng = np.random.default_rng(0)
    X = np.asarray(rng.normal(size=(200_000, 50)), order=order)
    z = X[:, 0] + rng.normal(size=len(X)) > 0
    y = X[:, 0] + X[:, 1] + rng.normal(size=len(X)) > 0
    tracemalloc.start()
    FairLogisticRegression().fit(X, y, sensitive_features=z)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * X.nbytes
