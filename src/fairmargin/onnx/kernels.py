"""Kernels between rows and support vectors as ONNX operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fairmargin.kernel.matrix import Kernel
from fairmargin.onnx.graph import Graph

__all__ = ["kernel_matrix"]

# Error tolerated in gamma times a squared distance, far below what a probability shows; beyond it distances are
# computed from differences instead of inner products.
_EXPONENT_ERROR = 1e-10


def kernel_matrix(graph: Graph, X: str, kernel: Kernel | None, vectors: Any, support: NDArray[np.intp]) -> str:
    """Return the kernel between rows and support vectors, (n, m).

    Without a kernel, ``X`` is the caller's own kernel matrix and ``support`` its columns.
    """
    if kernel is None:
        return graph.node("Gather", [X, graph.constant(np.asarray(support, dtype=np.int64))], axis=1)
    if callable(kernel.function):
        raise ValueError("A kernel that is a Python function has no form in ONNX; use one that has a name.")
    rows = np.asarray(vectors.toarray() if sp.issparse(vectors) else vectors, dtype=np.float64)
    if kernel.function == "rbf":
        return _gaussian(graph, X, rows, kernel.gamma)
    product = graph.node("MatMul", [X, graph.constant(rows.T)])
    if kernel.function == "linear":
        return product
    shifted = graph.node("Mul", [product, graph.constant(float(kernel.gamma))])
    shifted = graph.node("Add", [shifted, graph.constant(float(kernel.coef0))])
    if kernel.function == "sigmoid":
        return graph.node("Tanh", [shifted])
    return graph.node("Pow", [shifted, graph.constant(float(kernel.degree))])


def _gaussian(graph: Graph, X: str, rows: NDArray[np.float64], gamma: float) -> str:
    """Return ``exp(-gamma |x - v|^2)``; ``|x|^2 - 2 x.v + |v|^2`` unless that cancels."""
    centre = rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
    rows = rows - centre
    X = graph.node("Sub", [X, graph.constant(centre)])
    norms = np.sum(rows**2, axis=1)
    if gamma * norms.max(initial=0.0) * np.finfo(float).eps > _EXPONENT_ERROR:
        apart = graph.node("Sub", [graph.node("Unsqueeze", [X, graph.constant(np.array([1]))]), graph.constant(rows)])
        distance = graph.node(
            "ReduceSum", [graph.node("Mul", [apart, apart]), graph.constant(np.array([2]))], keepdims=0
        )
    else:
        squares = graph.node("ReduceSum", [graph.node("Mul", [X, X]), graph.constant(np.array([1]))], keepdims=1)
        cross = graph.node("MatMul", [X, graph.constant(-2.0 * rows.T)])
        distance = graph.node("Add", [graph.node("Add", [cross, squares]), graph.constant(norms)])
        distance = graph.node("Max", [distance, graph.constant(0.0)])
    return graph.node("Exp", [graph.node("Mul", [distance, graph.constant(-float(gamma))])])
