"""What goes into a graph: the declared inputs of a model, and rows in their form."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmargin.tables.columns import value_as_text

__all__ = ["MISSING_TEXT", "NAME", "as_frame", "is_text", "to_inputs"]

NAME = "X"  # of the input of a model that takes a matrix
MISSING_TEXT = ""  # how a missing value of a categorical column is written
# As in onnx.TensorProto, which is not imported, so that rows can be prepared without the onnx package.
_DOUBLE, _STRING = 11, 8


def to_inputs(onnx_model: Any, X: Any) -> dict[str, NDArray[Any]]:
    """Return rows as an ONNX runtime takes them, by input.

    Parameters
    ----------
    onnx_model : onnx.ModelProto
        What :func:`to_onnx` returned.
    X : array or frame of shape (n, n_features)
        Rows as the model took them. A frame for a model that was converted with one.

    Returns
    -------
    dict from input to array
        A matrix of float64; or, of a frame, a column (n, 1) per input, of float64 or text. Missing texts are empty.
    """
    declared = {entry.name: entry.type.tensor_type.elem_type for entry in onnx_model.graph.input}
    if list(declared.items()) == [(NAME, _DOUBLE)]:
        return {NAME: np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)}
    frame = as_frame(X)
    lacking = [name for name in declared if frame is None or name not in frame.columns]
    if frame is None or lacking:
        raise ValueError(f"The model takes a frame with a column {(lacking or list(declared))[0]!r}, which X lacks.")
    return {name: _column(frame[name], kind == _STRING) for name, kind in declared.items()}


def as_frame(X: Any) -> Any:
    """Return a narwhals frame, or None for what is not a frame."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def is_text(column: Any) -> bool:
    """Whether a narwhals column holds categories rather than numbers."""
    return column.dtype in (nw.String, nw.Categorical, nw.Enum, nw.Boolean, nw.Object)


def _column(column: Any, text: bool) -> NDArray[Any]:
    if not text:
        return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)[:, None]
    words = [MISSING_TEXT if _is_missing(value) else value_as_text(value) for value in column.to_list()]
    return np.array(words, dtype=object)[:, None]


def _is_missing(value: Any) -> bool:
    return value is None or value != value  # nan and NaT differ from themselves
