"""How a worker turns a partition into rows that a solver understands.

A reading is small, picklable and frozen: it travels with every task. Categories become codes; their indicators are
never written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairmargin.coded_matrix import CodedMatrix
from fairmargin.partitioned.arrow import as_codes, as_finite_numbers, as_known_numbers
from fairmargin.partitioned.contract import Partition
from fairmargin.tables.column_kinds import OTHER, CategoryColumn, NumberColumn
from fairmargin.tables.columns import MISSING_GROUP, value_as_text

__all__ = ["CategoryPart", "NumberPart", "Reading", "Rows"]

Array = NDArray[np.float64]
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Rows:
    """Encoded rows of one partition, or of the sample.

    Attributes
    ----------
    X : CodedMatrix of shape (n, d)
    y : (n,) of -1 and +1
    people_weight : (n,)
        Sample weights, which define means and covariances.
    loss_weight : (n,)
        ``c_i``: sample weight times C and the factor of the class.
    uniform : float or None
        The one ``c_i`` of all rows, where there is no other.
    """

    X: CodedMatrix
    y: Array
    people_weight: Array
    loss_weight: Array
    uniform: float | None = None

    def take(self, index: NDArray[np.intp]) -> Rows:
        """Return some of the rows."""
        return Rows(self.X[index], self.y[index], self.people_weight[index], self.loss_weight[index], self.uniform)


@dataclass(frozen=True)
class NumberPart:
    """A column of numbers of one partition: encoded as ``(values - mean) * factor`` in the feature at ``start``."""

    start: int
    values: Array
    mean: float
    factor: float


@dataclass(frozen=True)
class CategoryPart:
    """A categorical column of one partition, with indicators in the features from ``start`` on.

    Attributes
    ----------
    start, size : int
        The first feature, and the number of indicators.
    codes : (n,)
        Which of the values in the partition each row has.
    positions : (number of values,)
        The indicator of each value; ``size`` for the reference, which has none.
    """

    start: int
    size: int
    codes: Codes
    positions: NDArray[np.intp]


@dataclass(frozen=True)
class Reading:
    """Encoding of features, label and weights.

    Attributes
    ----------
    columns : columns of a :class:`fairmargin.tables.TableEncoder`
    target : str
    positive : value of the target that is +1
    weight : str or None
    factors : (2,)
        C times the class weight, negative class first.
    groups : sequence of (column, values)
        Sensitive attributes of groups, with the values that occur; None stands for a missing one.
    prices : tuple of arrays, one per attribute of groups, or None
        What is charged for accepting somebody, (2, groups) by label and group: rows are then labelled by the sign of
        what remains of their label, and weighted by its size.
    """

    columns: tuple[NumberColumn | CategoryColumn, ...]
    target: str
    positive: Any
    weight: str | None
    factors: tuple[float, float]
    groups: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    prices: tuple[Array, ...] | None = None

    @property
    def n_features(self) -> int:
        """Number of encoded features d."""
        return sum(len(column.features) for column in self.columns)

    def load(self, partition: Partition, with_groups: bool = False) -> tuple[pa.Table, str]:
        """Return the columns needed, and where they are from."""
        names = [*(column.name for column in self.columns), self.target]
        names += [] if self.weight is None else [self.weight]
        names += [name for name, _ in self.groups] if with_groups or self.prices is not None else []
        return partition.load(list(dict.fromkeys(names))), partition.place

    def read(self, partition: Partition) -> Rows:
        """Return the rows of a partition."""
        return self.encode(*self.load(partition))

    def encode(self, table: pa.Table, place: str, X: CodedMatrix | None = None) -> Rows:
        """Return the rows of a table; ``X`` are its features, where they are encoded already."""
        return Rows(self.features(table, place) if X is None else X, *self.labelled(table, place))

    def labelled(self, table: pa.Table, place: str) -> tuple[Array, Array, Array, float | None]:
        """Return the labels, weights of people, weights of losses, and the one weight of losses if there is no other.

        With prices, labels and weights are those that remain of a label.
        """
        y = self.labels(table)
        below, above = self.factors
        if self.weight is None and below == above and self.prices is None:
            return y, np.broadcast_to(1.0, len(y)), np.broadcast_to(below, len(y)), below
        weight = np.ones(len(y))
        if self.weight is not None:
            weight = as_finite_numbers(table[self.weight], self.weight, place)
        of_loss = weight * np.where(y > 0, above, below)
        if self.prices is None:
            return y, weight, of_loss, None
        cost, label = y.copy(), (y > 0).astype(np.intp)
        for price, code in zip(self.prices, self.group_codes(table), strict=True):
            cost -= price[label, code]
        return np.copysign(1.0, cost), weight, of_loss * np.maximum(np.abs(cost), np.finfo(float).eps), None

    def labels(self, table: pa.Table) -> Array:
        """Return the labels as -1 and +1."""
        code, values = as_codes(table[self.target])
        signs = np.array([1.0 if value == self.positive else -1.0 for value in values])
        return signs.take(code)

    def parts(self, table: pa.Table, place: str) -> tuple[list[NumberPart], list[CategoryPart]]:
        """Return the columns of the features as they are in the table, and how they are encoded."""
        numbers, categories, start = [], [], 0
        for column in self.columns:
            if isinstance(column, NumberColumn):
                values = as_known_numbers(table[column.name], column.name, place, column.median)
                numbers.append(NumberPart(start, values, column.mean, 1.0 / column.scale))
            else:
                codes, positions = code_levels(table[column.name], column)
                categories.append(CategoryPart(start, len(column.levels), codes, positions))
            start += len(column.features)
        return numbers, categories

    def features(self, table: pa.Table, place: str) -> CodedMatrix:
        """Return the encoded features."""
        numbers, categories = self.parts(table, place)
        stacked = np.empty((len(numbers), table.num_rows)).T  # one column after the other in memory
        for at, part in enumerate(numbers):
            np.subtract(part.values, part.mean, out=stacked[:, at])
            stacked[:, at] *= part.factor
        return CodedMatrix(
            stacked,
            np.array([part.start for part in numbers], dtype=np.intp),
            [part.positions.astype(np.int32).take(part.codes) for part in categories],
            [part.size for part in categories],
            [part.start for part in categories],
        )

    def group_codes(self, table: pa.Table) -> list[NDArray[np.int32]]:
        """Return the code of each row's group, one array per attribute of groups."""
        return [code_values(table[name], values) for name, values in self.groups]


def code_levels(column: pa.ChunkedArray, coding: CategoryColumn) -> tuple[Codes, NDArray[np.intp]]:
    """Return which value each row has, and the level of each value: the number of levels for the reference."""
    size = len(coding.levels)
    position = {coding.reference: size} | {level: k for k, level in enumerate(coding.levels)}
    other = position.get(OTHER, size)
    code, values = as_codes(column)
    words = [MISSING_GROUP if value is None else value_as_text(value) for value in values]
    return code, np.array([position.get(word, other) for word in words], dtype=np.intp)


def code_values(column: pa.ChunkedArray, values: Sequence[Any]) -> Codes:
    """Return which of the values each row has; all of them are known from the scan."""
    position = {value: k for k, value in enumerate(values)}
    code, found = as_codes(column)
    return np.array([position.get(value, 0) for value in found], dtype=np.int32).take(code)
