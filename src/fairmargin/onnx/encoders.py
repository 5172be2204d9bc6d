"""Encoders of frames as ONNX operators: one input per column, texts for categories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.categories import CategoryEncoder
from fairmargin.onnx.graph import Graph
from fairmargin.onnx.inputs import MISSING_TEXT
from fairmargin.tables.column_kinds import OTHER, CategoryColumn, NumberColumn
from fairmargin.tables.columns import MISSING_GROUP, value_as_text
from fairmargin.tables.encoding import TableEncoder

__all__ = ["category_features", "table_features"]

Array = NDArray[np.float64]


def category_features(graph: Graph, encoder: CategoryEncoder, columns: Mapping[str, str]) -> str:
    """Return the columns of ``encoder.transform`` of inputs by name."""
    parts = []
    for name in encoder.feature_names_in_:
        levels = encoder.categories_.get(name)
        if levels is None:
            parts.append(graph.doubles(columns[name]))
            continue
        place = _places(name, [MISSING_TEXT if level is None else value_as_text(level) for level in levels])
        # A place beyond the last row is an error of the runtime, as it is one of the encoder.
        unseen = len(levels) + (1 if encoder.unknown == "error" else 0)
        parts.append(_looked_up(graph, columns[name], place, unseen, _indicators(len(levels))))
    return graph.node("Concat", parts, axis=1)


def table_features(graph: Graph, encoder: TableEncoder, columns: Mapping[str, str]) -> str:
    """Return the columns of ``encoder.transform`` of inputs by name."""
    parts = [_table_column(graph, column, columns[column.name]) for column in encoder.columns]
    return graph.node("Concat", parts, axis=1)


def _table_column(graph: Graph, column: NumberColumn | CategoryColumn, name: str) -> str:
    if isinstance(column, NumberColumn):
        return _standardised(graph, column, graph.doubles(name))
    reference = len(column.levels)
    place = {level: k for k, level in enumerate(column.levels)} | {column.reference: reference}
    unseen = place.get(OTHER, reference)
    place[MISSING_TEXT] = place.get(MISSING_GROUP, unseen)
    return _looked_up(graph, name, place, unseen, _indicators(len(column.levels)))


def _standardised(graph: Graph, column: NumberColumn, values: str) -> str:
    """Return ``(x - mean) / scale`` with the median in place of missing and infinite numbers."""
    absent = graph.node("Or", [graph.node("IsNaN", [values]), _is_infinite(graph, values)])
    filled = graph.node("Where", [absent, graph.constant(column.median), values])
    centred = graph.node("Sub", [filled, graph.constant(column.mean)])
    return graph.node("Div", [centred, graph.constant(column.scale)])


def _is_infinite(graph: Graph, values: str) -> str:
    return graph.node("Equal", [graph.node("Abs", [values]), graph.constant(np.inf)])


def _places(name: str, texts: list[str]) -> dict[str, int]:
    place = {text: k for k, text in enumerate(texts)}
    if len(place) < len(texts):
        raise ValueError(
            f"Two categories of the column {name!r} are the same text, or one is empty beside a missing value; ONNX "
            "tells categories apart by their text."
        )
    return place


def _indicators(n: int) -> Array:
    """Return the indicators of n levels, one per row, and none in the last row."""
    return np.vstack([np.eye(n), np.zeros(n)])


def _looked_up(graph: Graph, name: str, place: Mapping[str, int], unseen: int, rows: Array) -> str:
    """Return the row of each text's place, the row ``unseen`` for texts without one."""
    codes: Any = graph.node(
        "LabelEncoder",
        [graph.vector(name)],
        domain="ai.onnx.ml",
        op_version=2,
        keys_strings=list(place),
        values_int64s=list(place.values()),
        default_int64=unseen,
    )
    return graph.node("Gather", [graph.constant(rows), codes], axis=0)
