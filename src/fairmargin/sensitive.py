"""Sensitive attributes: from what the user passes to named, numeric columns.

A binary attribute gives one column (1 for the later of its two values, in sorted order or in that of a pandas
Categorical), an attribute of more values one indicator column for each, and a numeric attribute is kept as it is.
Every column keeps its attribute and category, by which all results are labelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.caller import warn
from fairmargin.inputs import check_container
from fairmargin.membership import Membership

__all__ = [
    "FEW_NUMBERS",
    "MAX_GROUPS",
    "MISSING_GROUP",
    "NUMERIC",
    "Attribute",
    "Sensitive",
    "centre",
    "encode_groups",
    "encode_sensitive",
    "label_index",
    "read_columns",
    "warn_of_codes",
]

Array = NDArray[np.float64]

MISSING_GROUP = "(missing)"  # the group of the people whose attribute is not known
NUMERIC = "(numeric)"  # stands for the category of a numeric attribute
FEW_NUMBERS = 10  # different whole numbers up to which they look like codes of groups
_FEW_NAMES = 5  # different texts up to which a list of the wrong length looks like names of columns
MAX_GROUPS = 256  # in training: more than there are countries; every group adds a dense column of N numbers


@dataclass(frozen=True)
class Attribute:
    """One sensitive attribute.

    ``codes`` (N,) indexes ``categories``; a numeric attribute has ``values`` (N,) and no categories; one that is
    known as :class:`fairmargin.Membership` only has ``probabilities`` (N, number of categories) instead of codes.
    """

    name: str
    categories: tuple[Any, ...] = ()
    codes: NDArray[np.intp] | None = None
    values: Array | None = None
    probabilities: Array | None = None

    @property
    def is_numeric(self) -> bool:
        """Whether the attribute is kept as numbers."""
        return self.codes is None and self.probabilities is None

    @property
    def column_categories(self) -> tuple[Any, ...]:
        """The categories that have a column: one of two, or all of more."""
        if self.is_numeric:
            return (NUMERIC,)
        return self.categories[1:] if len(self.categories) == 2 else self.categories

    def take(self, rows: NDArray[Any]) -> Attribute:
        """Return the attribute of some of the people, without the categories that do not occur among them."""
        if self.probabilities is not None:
            table = self.probabilities[rows]
            found = np.flatnonzero(table.sum(axis=0) > 0)
            return Attribute(self.name, tuple(self.categories[k] for k in found), probabilities=table[:, found])
        if self.codes is None:
            assert self.values is not None
            return Attribute(self.name, values=self.values[rows])
        present, codes = np.unique(self.codes[rows], return_inverse=True)
        return Attribute(self.name, tuple(self.categories[k] for k in present), codes.astype(np.intp))

    def columns(self) -> Array:
        """Return the attribute's columns, (N, 1) or (N, number of categories)."""
        if self.probabilities is not None:
            return self.probabilities[:, 1:] if len(self.categories) == 2 else self.probabilities
        if self.codes is None:
            assert self.values is not None
            return self.values[:, None]
        if len(self.categories) == 2:
            return (self.codes == 1).astype(float)[:, None]
        return (self.codes[:, None] == np.arange(len(self.categories))).astype(float)

    def members(self) -> Array:
        """Return who is in which group, as shares of each person, (N, G)."""
        if self.probabilities is not None:
            return self.probabilities
        return (np.asarray(self.codes)[:, None] == np.arange(len(self.categories))).astype(float)

    def group_sizes(self, counts: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """Return the number of people in each group who count, by default of all; expected ones of probabilities."""
        table = self.probabilities
        if table is not None:
            return self.group_weights(np.ones(len(table)) if counts is None else counts.astype(float))
        codes = np.asarray(self.codes)
        if counts is None:
            return np.bincount(codes, minlength=len(self.categories))
        if len(self.categories) > codes.itemsize:  # masks would take more memory than the codes
            return np.bincount(codes[counts], minlength=len(self.categories))
        return np.array([np.count_nonzero(counts & mask) for mask in self._masks], dtype=np.intp)

    @cached_property
    def _masks(self) -> list[NDArray[np.bool_]]:
        """Who is in which group."""
        codes = np.asarray(self.codes)
        return [codes == g for g in range(len(self.categories))]

    def group_weights(self, weight: Array) -> Array:
        """Return the sum of weights (N,) over each group, (G,); a person of several groups counts by probability."""
        if self.probabilities is not None:
            return np.asarray(weight @ self.probabilities)
        assert self.codes is not None
        return np.bincount(self.codes, weights=weight, minlength=len(self.categories)).astype(float, copy=False)


@dataclass(frozen=True)
class Sensitive:
    """All sensitive attributes of N people."""

    attributes: tuple[Attribute, ...]

    @property
    def labels(self) -> list[tuple[str, Any]]:
        """(attribute, category) of each column."""
        return [(a.name, category) for a in self.attributes for category in a.column_categories]

    @cached_property
    def index(self) -> pd.MultiIndex:
        """The labels as a pandas index."""
        return label_index(self.labels)

    def columns(self) -> Array:
        """Return all columns, shape (N, K)."""
        return np.hstack([a.columns() for a in self.attributes])

    def centred(self, weight: Array | None = None) -> Array:
        """Return the columns less their (weighted) means: ``z - zbar``."""
        return centre(self.columns(), weight)

    def series(self, values: Array, name: str) -> pd.Series:
        """Return one number per column, indexed by attribute and category."""
        return pd.Series(np.asarray(values, dtype=float), index=self.index, name=name)

    def take(self, rows: NDArray[Any]) -> Sensitive:
        """Return the attributes of some of the people, without the categories that do not occur among them."""
        return Sensitive(tuple(a.take(rows) for a in self.attributes))


def label_index(labels: Sequence[tuple[Any, ...]]) -> pd.MultiIndex:
    """Return labels (attribute, category, and the condition ``among`` where there are several) as a pandas index."""
    kinds = tuple(type(value) for label in labels for value in label)
    return _make_index(tuple(labels), kinds).copy()


@lru_cache(maxsize=32)  # fits on the same people have the same labels, and making their index takes a millisecond
def _make_index(labels: tuple[tuple[Any, ...], ...], kinds: tuple[type, ...]) -> pd.MultiIndex:
    """Return the index; ``kinds`` tells apart labels that are equal, as 1 and True are."""
    return pd.MultiIndex.from_tuples(labels, names=["attribute", "category", "among"][: len(labels[0])])


def centre(columns: Array, weight: Array | None) -> Array:
    """Return columns (N, K) less their (weighted) means.

    Twice: the mean of values far from zero (years, timestamps) is rounded, and so are the differences from it.
    """
    for _ in range(2):
        columns = columns - np.average(columns, axis=0, weights=weight)
    return columns


def read_columns(
    sensitive_features: Any, make_series: Callable[[Any], pd.Series] = pd.Series
) -> list[tuple[str, Any]]:
    """Return ``(name, values)`` of each column of an array, frame, series, mapping or list."""
    if isinstance(sensitive_features, Membership):
        return [(sensitive_features.name, sensitive_features)]
    if isinstance(sensitive_features, Mapping):
        return [(str(name), _read_values(name, values, make_series)) for name, values in sensitive_features.items()]
    if isinstance(sensitive_features, pd.DataFrame):  # by position: names may be numbers
        return [(str(name), sensitive_features.iloc[:, k]) for k, name in enumerate(sensitive_features.columns)]
    native = nw.from_native(sensitive_features, pass_through=True, allow_series=True)
    if isinstance(native, nw.LazyFrame):
        native = native.collect()
    if isinstance(native, nw.DataFrame):
        return [(str(name), _as_pandas(native[name])) for name in native.columns]
    if isinstance(native, nw.Series):
        return [(str(native.name) if native.name not in (None, "") else "sensitive", _as_pandas(native))]
    return _read_array(sensitive_features, make_series)


def _read_values(name: Any, values: Any, make_series: Callable[[Any], pd.Series]) -> Any:
    if isinstance(values, Membership):
        return values
    check_container(values, f"The sensitive attribute {name!r}")
    return make_series(values)


def _read_array(sensitive_features: Any, make_series: Callable[[Any], pd.Series]) -> list[tuple[str, Any]]:
    check_container(sensitive_features, "sensitive_features")
    # Rows of mixed types must not become text: an age in a list of lists stays a number.
    nested = isinstance(sensitive_features, list | tuple) and any(
        isinstance(r, list | tuple) for r in sensitive_features
    )
    values = np.asarray(sensitive_features, dtype=object if nested else None)
    if values.ndim > 2:
        raise ValueError(f"sensitive_features must have one or two dimensions, got {values.ndim}.")
    if values.ndim == 1:
        return [("sensitive", make_series(values))]
    if values.shape[1] == 1:
        return [("sensitive", make_series(values[:, 0]))]
    return [(f"sensitive_{k}", make_series(values[:, k])) for k in range(values.shape[1])]


def _keep_objects(values: Any) -> pd.Series:
    """Return a series, of objects where pandas would copy text: that takes longer than to find its categories."""
    is_array = isinstance(values, np.ndarray) and values.dtype.kind in "OU"
    return pd.Series(values, dtype=object if is_array else None)


def _as_pandas(column: nw.Series[Any]) -> pd.Series:
    """Return a pandas series without a detour over Arrow, which need not be installed."""
    native = column.to_native()
    return native if isinstance(native, pd.Series) else pd.Series(column.to_numpy())


def encode_sensitive(sensitive_features: Any, n_people: int | None = None, *, groups: bool = True) -> Sensitive:
    """Read and check sensitive attributes.

    Parameters
    ----------
    sensitive_features : array, list, mapping, or pandas / polars series or frame
    n_people : int, optional
        The number of rows required.
    groups : bool
        Whether each attribute must have at least two values (training) or may have one (reporting).
    """
    columns = read_columns(sensitive_features, _keep_objects)
    if not columns:
        raise ValueError("sensitive_features has no column; give at least one sensitive attribute.")
    names = [name for name, _ in columns]
    if len(set(names)) < len(names):
        raise ValueError(f"sensitive_features has columns of the same name: {names}.")
    attributes = []
    for name, column in columns:
        if n_people is not None and len(column) != n_people:
            raise ValueError(
                f"sensitive_features has {len(column)} rows, but there are {n_people} people in X"
                f"{_hint_at_names(sensitive_features)}."
            )
        attributes.append(_encode_attribute(name, column, groups))
    return Sensitive(tuple(attributes))


def _hint_at_names(given: Any) -> str:
    """Return what to do if a few different texts were given, which look like names of columns."""
    few = isinstance(given, list | tuple) and len(given) <= _FEW_NAMES and all(isinstance(g, str) for g in given)
    return "; give the values of the columns, not their names" if few and len(set(given)) == len(given) else ""


def encode_groups(given: Any, n_people: int, what: str, *, many: bool = False) -> list[Attribute]:
    """Read columns of groups, numbers too, called ``what`` in messages.

    There may be 256 groups; ``many`` allows more unless they are numbers, which look like measurements.
    """
    found = []
    for name, column in read_columns(given):
        if isinstance(column, Membership):
            raise ValueError(f"{what} must hold one group for each person, not probabilities.")
        if len(column) != n_people:
            raise ValueError(f"{what} has {len(column)} rows, but there are {n_people} people in X.")
        name = what if name == "sensitive" else name
        if np.count_nonzero(column.array.isna()):
            raise ValueError(f"{what} has missing values (nan) in {name!r}; make 'unknown' a value of its own.")
        categories, codes = _factorise(column)
        if len(categories) > MAX_GROUPS and (not many or _is_number(column)):
            raise ValueError(
                f"{what} has {len(categories)} different values in {name!r}, more than {MAX_GROUPS}; merge some, or "
                "cut numbers into groups (e.g. with pandas.cut)."
            )
        found.append(Attribute(name, categories, codes))
    return found


def _encode_membership(name: str, table: Membership, groups: bool) -> Attribute:
    if groups and not np.any(np.ptp(table.probabilities, axis=0)):
        raise ValueError(
            f"The membership probabilities of {name!r} are the same for everybody: there is nothing to be fair "
            "between."
        )
    nobody = [g for g, share in zip(table.groups, table.probabilities.max(axis=0), strict=True) if share <= 0]
    if groups and nobody:
        listed = ", ".join(map(repr, nobody))
        raise ValueError(
            f"Nobody has any probability of belonging to the group {listed} of {name!r}; leave out that column of "
            "the membership."
        )
    return Attribute(name, table.groups, probabilities=table.probabilities)


def _encode_attribute(name: str, column: pd.Series | Membership, groups: bool) -> Attribute:
    if isinstance(column, Membership):
        return _encode_membership(name, column, groups)
    column = _plain_values(name, column)
    numeric = _encode_numbers(name, column) if _is_number(column) else None
    return _encode_categories(name, column, groups) if numeric is None else numeric


def _plain_values(name: str, column: pd.Series) -> pd.Series:
    """Return a column of the type that its values have; raise where some are missing or complex."""
    is_text = column.dtype == object and pd.api.types.infer_dtype(column, skipna=False) == "string"
    missing = 0 if is_text else np.count_nonzero(column.array.isna())
    if missing:
        raise ValueError(
            f"The sensitive attribute {name!r} is missing (nan) for {missing} people; "
            "fill it in, or make 'unknown' a value of its own."
        )
    if column.dtype == object and not is_text:
        column = column.infer_objects()
    if pd.api.types.is_complex_dtype(column):
        raise ValueError(f"The sensitive attribute {name!r} holds complex numbers; give groups or real numbers.")
    return column


def _encode_numbers(name: str, column: pd.Series) -> Attribute | None:
    """Return a numeric attribute; None for at most two different numbers, which are groups."""
    values = column.to_numpy(dtype=float)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"The sensitive attribute {name!r} has infinite values.")
    distinct = np.unique(values)
    if len(distinct) <= 2:
        return None
    if pd.api.types.is_integer_dtype(column):
        warn_of_codes(name, len(distinct))
    return Attribute(name, values=values)


def _encode_categories(name: str, column: pd.Series, groups: bool) -> Attribute:
    """Return an attribute with groups; ``groups`` says whether there must be at least two, and not too many."""
    try:
        categories, codes = _factorise(column)
    except TypeError:  # unhashable values
        raise ValueError(f"The sensitive attribute {name!r} must hold one plain value for each person.") from None
    if len(categories) > MAX_GROUPS and groups:
        raise ValueError(
            f"The sensitive attribute {name!r} has {len(categories)} groups; training takes at most {MAX_GROUPS}. "
            "Merge groups, or give it as a number."
        )
    if len(categories) < 2 and groups:
        raise ValueError(
            f"The sensitive attribute {name!r} has only one group ({categories[0]!r}): "
            "there is nothing to be fair between."
        )
    return Attribute(name, categories, codes)


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def warn_of_codes(name: str, distinct: int) -> None:
    """Warn of a handful of whole numbers, which may be codes of categories: their covariance would mean little."""
    if distinct <= FEW_NUMBERS:
        warn(
            f"The sensitive attribute {name!r} holds {distinct} different whole numbers and is treated as a "
            "number; if they are codes of groups, convert the column to strings or to a categorical.",
            UserWarning,
        )


def _factorise(column: pd.Series) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """Return the sorted categories that occur and each person's code."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        known, codes = column.array.categories.tolist(), np.asarray(column.array.codes, dtype=np.intp)
        occurs = np.bincount(codes, minlength=len(known)) > 0
        if np.all(occurs):
            return tuple(known), codes
        return tuple(c for c, used in zip(known, occurs, strict=True) if used), (np.cumsum(occurs) - 1)[codes]
    codes, categories = pd.factorize(column, sort=False)
    found = [str(c) if isinstance(c, str) else c for c in pd.Index(categories).tolist()]  # numpy has text of its own
    order = sorted(range(len(found)), key=lambda k: _sort_key(found[k]))
    rank = np.empty(len(found), dtype=np.intp)
    rank[order] = np.arange(len(found))
    return tuple(found[k] for k in order), np.asarray(rank[codes], dtype=np.intp)


def _sort_key(value: Any) -> tuple[int, Any]:
    """Sort numbers by size and everything else as text, so that mixed columns have an order too."""
    if isinstance(value, int | float | np.number):
        return 0, float(value)
    return 1, str(value)
