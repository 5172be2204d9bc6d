"""Scores, labels and probabilities of classifiers as ONNX operators, for two classes and for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairmargin.onnx.graph import Graph
from fairmargin.tolerances import HAIR, ROUNDING

__all__ = ["as_columns", "choose_label", "probabilities", "scaled_to_one"]


def as_columns(graph: Graph, vectors: Sequence[str]) -> str:
    """Return vectors (n,) as the columns of a matrix."""
    last = graph.constant(np.array([1]))
    return graph.node("Concat", [graph.node("Unsqueeze", [vector, last]) for vector in vectors], axis=1)


def choose_label(graph: Graph, scores: str, classes: Any, least: float = 0.0) -> str:
    """Return the class of each row: of two by a score (n,) from ``least`` on, of more by the highest (n, Q).

    Of scores that are equal up to rounding the earliest, as :func:`fairmargin.multiclass.labels.decide` does.
    """
    if len(classes) == 2:
        place = graph.integers(graph.node("GreaterOrEqual", [scores, graph.constant(least)]))
    else:
        share = graph.node("Mul", [_largest(graph, graph.node("Abs", [scores])), graph.constant(HAIR)])
        room = graph.node("Add", [share, graph.constant(ROUNDING)])
        bound = graph.node("Sub", [_largest(graph, scores), room])
        near = graph.integers(graph.node("GreaterOrEqual", [scores, bound]))
        place = graph.node("ArgMax", [near], axis=1, keepdims=0)
    return graph.node("Gather", [graph.constant(classes), place], axis=0)


def _largest(graph: Graph, scores: str) -> str:
    """Return the largest of each row, (n, 1)."""
    return graph.node("GatherElements", [scores, graph.node("ArgMax", [scores], axis=1, keepdims=1)], axis=1)


def probabilities(graph: Graph, scores: str, n_classes: int) -> str:
    """Return the probabilities of a logistic or multinomial loss, (n, Q)."""
    if n_classes > 2:
        return graph.node("Softmax", [scores], axis=1)
    positive = graph.node("Sigmoid", [scores])
    return as_columns(graph, [graph.node("Sub", [graph.constant(1.0), positive]), positive])


def scaled_to_one(graph: Graph, scores: str, n_classes: int) -> str:
    """Return the probabilities of one classifier per class, scaled to sum up to 1; all alike where all are 0."""
    each = graph.node("Sigmoid", [scores])
    total = graph.node("ReduceSum", [each, graph.constant(np.array([1]))], keepdims=1)
    some = graph.node("Greater", [total, graph.constant(0.0)])
    share = graph.node("Div", [each, graph.node("Where", [some, total, graph.constant(1.0)])])
    return graph.node("Where", [some, share, graph.constant(1.0 / n_classes)])
