"""The encoder of frames with categorical columns, whose output is codes and not indicators."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fairmargin.coded_matrix import CodedMatrix

__all__ = ["CategoryEncoder", "categorical_columns"]

Array = NDArray[np.float64]
Codes = NDArray[np.int32]

_CATEGORICAL = (nw.String, nw.Categorical, nw.Enum)
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")  # kinds of objects, in the words of pandas


class CategoryEncoder(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Makes a matrix of a frame whose categorical columns stay codes instead of becoming indicators in memory.

    Columns of text, categories (even of numbers) and booleans are categorical; the others are numbers and left as
    they are, objects that are numbers included. The k categories of a column stand for k indicators, all of which
    are kept: the penalty makes their coefficients unique. The result is always a :class:`CodedMatrix`: there is no
    ``set_output``, and scikit-learn's ``transform_output`` does not make a frame of it.

    Parameters
    ----------
    unknown : {"ignore", "error"}, default="ignore"
        What to do with categories that ``fit`` never saw: give them no indicator, so that they add nothing to a
        score, or raise an error.

    Attributes
    ----------
    categories_ : dict
        The categories of each categorical column, in order; a missing value is a category of its own, None.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    fairmargin.tables.prepare : Reads and encodes a whole table.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [20.0, 30.0, 40.0], "job": ["clerk", "smith", "clerk"]})
    >>> encoder = CategoryEncoder().fit(frame)
    >>> list(encoder.get_feature_names_out())
    ['age', 'job=clerk', 'job=smith']
    >>> encoder.transform(frame).toarray().tolist()
    [[20.0, 1.0, 0.0], [30.0, 0.0, 1.0], [40.0, 1.0, 0.0]]
    """

    def __init__(self, *, unknown: str = "ignore") -> None:
        self.unknown = unknown

    def fit(self, X: Any, y: Any = None) -> CategoryEncoder:
        """Learn the categories of a frame."""
        if self.unknown not in ("ignore", "error"):
            raise ValueError(f"unknown must be 'ignore' or 'error', got {self.unknown!r}.")
        frame = _as_frame(X)
        self.feature_names_in_ = np.array(frame.columns, dtype=object)
        self.n_features_in_ = len(frame.columns)
        self.categories_: dict[str, list[Any]] = {}
        for name in frame.columns:
            if _is_categorical(frame[name]):
                values = _factorise(frame[name])[0]
                self.categories_[name] = sorted(values, key=lambda value: (value is None, str(value)))
        return self

    def transform(self, X: Any) -> CodedMatrix:
        """Return the coded matrix of a frame with the same columns."""
        check_is_fitted(self)
        frame = _as_frame(X)
        lacking = [name for name in self.feature_names_in_ if name not in frame.columns]
        if lacking:
            raise ValueError(f"The frame has no column {lacking[0]!r}, which the encoder was fitted with.")
        numbers, codes = [], []
        for name in self.feature_names_in_:
            if name in self.categories_:
                codes.append(self._codes(frame[name], name))
            else:
                numbers.append(_as_numbers(frame[name], name))
        stacked = np.column_stack(numbers) if numbers else np.empty((len(frame), 0))
        sizes, starts, places = self._layout()
        names = tuple(self.get_feature_names_out())
        return CodedMatrix(stacked, places, tuple(codes), sizes, starts, names, tuple(self.feature_names_in_))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the matrix's columns: those of numbers, and ``column=category``."""
        check_is_fitted(self)
        names: list[str] = []
        for name in self.feature_names_in_:
            levels = self.categories_.get(name)
            names += [name] if levels is None else [f"{name}={level}" for level in levels]
        return np.array(names, dtype=object)

    def _layout(self) -> tuple[tuple[int, ...], tuple[int, ...], NDArray[np.intp]]:
        """Return how many indicators each categorical column has, where they start, and where numbers are."""
        sizes, starts, places, at = [], [], [], 0
        for name in self.feature_names_in_:
            if name in self.categories_:
                sizes.append(len(self.categories_[name]))
                starts.append(at)
                at += sizes[-1]
            else:
                places.append(at)
                at += 1
        return tuple(sizes), tuple(starts), np.array(places, dtype=np.intp)

    def _codes(self, column: Any, name: str) -> Codes:
        """Return the place of each value among the categories, and their number for values that are not."""
        levels = self.categories_[name]
        position = {level: k for k, level in enumerate(levels)}
        found, inverse = _factorise(column)
        places = np.array([position.get(value, len(levels)) for value in found], dtype=np.int32)
        if self.unknown == "error" and len(places) and places.max() == len(levels):
            new = found[int(np.argmax(places))]
            raise ValueError(
                f"The column {name!r} has the category {new!r}, which training never saw; set unknown='ignore' to "
                "give it no part in the score."
            )
        return places[inverse]


def _as_frame(X: Any) -> Any:
    try:
        return nw.from_native(X, eager_only=True)
    except TypeError:
        raise TypeError(
            f"CategoryEncoder needs a frame (pandas, polars, pyarrow), got {type(X).__name__}; a step of "
            "scikit-learn before it returns one after set_output(transform='pandas')."
        ) from None


def categorical_columns(X: Any) -> list[str]:
    """Return the names of a frame's columns of text or categories, even of numbers; none for other matrices."""
    if isinstance(X, np.ndarray):
        return []
    if isinstance(X, pd.DataFrame):  # whose names may be numbers, or twice the same
        columns = [(name, column) for name, column in X.items() if column.dtype.kind not in "biuf"]
        return [str(name) for name, column in columns if _has_text(column)]
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return [] if frame is X else [name for name, kind in frame.schema.items() if kind in _CATEGORICAL]


def _has_text(column: Any) -> bool:
    kind = infer_dtype(column)
    if kind.startswith("mixed"):  # text among numbers, or just numbers of several types
        return any(isinstance(value, str) for value in column)
    return kind in ("string", "categorical")


def _is_categorical(column: Any) -> bool:
    if column.dtype == nw.Object:  # imputers leave columns of numbers as objects
        return infer_dtype(column.to_list(), skipna=True) not in _NUMBERS
    return column.dtype == nw.Boolean or column.dtype in _CATEGORICAL


def _as_numbers(column: Any, name: str) -> Array:
    try:
        numbers = column.cast(nw.Float64).to_numpy()
    except Exception:
        raise ValueError(
            f"The column {name!r} of type {column.dtype} holds neither numbers nor categories."
        ) from None
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"The column {name!r} contains NaN or infinity; impute or remove these rows.")
    return np.asarray(numbers, dtype=np.float64)


def _factorise(column: Any) -> tuple[list[Any], NDArray[np.intp]]:
    """Return the different values of a column, None for missing ones, and which of them each row has."""
    native = column.to_native()
    series = native if isinstance(native, pd.Series) else pd.Series(column.to_list(), dtype=object)
    codes, values = pd.factorize(series)
    if not np.any(codes < 0):
        return list(values), codes
    return [*values, None], np.where(codes < 0, len(values), codes)
