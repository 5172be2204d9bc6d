"""Imputed columns as ONNX operators, for numbers in double precision and for text.

The stock graphs do not run: onnxruntime has the operator ``Imputer`` for single precision only, and skl2onnx converts
no imputer of missing texts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer

from fairmargin.onnx.graph import Graph
from fairmargin.onnx.inputs import MISSING_TEXT

__all__ = ["count_imputed", "imputed", "is_missing"]


def count_imputed(imputer: SimpleImputer) -> int:
    """Return the number of columns of ``imputer.transform``."""
    return len(_kept(imputer)) + len(_indicated(imputer))


def imputed(graph: Graph, imputer: SimpleImputer, X: str, *, text: bool) -> str:
    """Return the columns of ``imputer.transform`` of a matrix of doubles, or of texts."""
    kept, indicated = _kept(imputer), _indicated(imputer)
    missing = _missing_texts(graph, X, imputer) if text else _missing_numbers(graph, X, imputer)
    fill = np.asarray(imputer.statistics_, dtype=object)[kept].astype(str if text else np.float64)
    filled = graph.node("Where", [_columns(graph, missing, kept), graph.constant(fill), _columns(graph, X, kept)])
    if not len(indicated):
        return filled
    if text:
        raise ValueError("SimpleImputer(add_indicator=True) of text mixes texts and numbers, which ONNX cannot.")
    return graph.node("Concat", [filled, graph.doubles(_columns(graph, missing, indicated))], axis=1)


def _kept(imputer: SimpleImputer) -> NDArray[np.int64]:
    """Return the columns that are not dropped for having no value at all."""
    return np.flatnonzero([not is_missing(value) for value in imputer.statistics_])


def _indicated(imputer: SimpleImputer) -> NDArray[np.int64]:
    """Return the columns with an indicator of missing values."""
    indicator = imputer.indicator_
    return np.array([], dtype=np.int64) if indicator is None else np.asarray(indicator.features_, dtype=np.int64)


def _missing_numbers(graph: Graph, X: str, imputer: SimpleImputer) -> str:
    if is_missing(imputer.missing_values):
        return graph.node("IsNaN", [X])
    return graph.node("Equal", [X, graph.constant(float(imputer.missing_values))])


def _missing_texts(graph: Graph, X: str, imputer: SimpleImputer) -> str:
    sought = MISSING_TEXT if is_missing(imputer.missing_values) else str(imputer.missing_values)
    # LabelEncoder, because the operator Equal compares texts only since opset 19.
    place = graph.node(
        "LabelEncoder",
        [X],
        domain="ai.onnx.ml",
        op_version=2,
        keys_strings=[sought],
        values_int64s=[1],
        default_int64=0,
    )
    return graph.node("Equal", [place, graph.constant(np.int64(1))])


def _columns(graph: Graph, X: str, indices: NDArray[np.int64]) -> str:
    return graph.node("Gather", [X, graph.constant(indices)], axis=1)


def is_missing(value: Any) -> bool:
    """Whether a value is None, nan or pandas.NA."""
    return bool(pd.isna(value))
