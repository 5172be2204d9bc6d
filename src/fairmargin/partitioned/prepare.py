"""From the sums of a scan to an encoding, classes, groups and covariance rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.exceptions import DataError
from fairmargin.formatting import people, shorten
from fairmargin.notions import Compared
from fairmargin.partitioned.arrow import as_numbers
from fairmargin.partitioned.compensated import Crosstab
from fairmargin.partitioned.layout import Layout
from fairmargin.partitioned.scan import CLASS, ScanSums
from fairmargin.sensitive import MISSING_GROUP, Attribute, Sensitive, encode_sensitive
from fairmargin.tables.column_kinds import OTHER, CategoryColumn, NumberColumn
from fairmargin.tables.column_learning import LARGEST, choose_levels
from fairmargin.tables.encoding import TableEncoder
from fairmargin.tolerances import EPS

__all__ = ["Census", "FeatureSums", "expand", "fit_encoder", "sample_medians", "take_census"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Census:
    """Who is in the data: classes, groups and their weights.

    A cell is a label and one group per attribute. Everything that notions of fairness say about people they say about
    cells, so that the sensitive columns of all people are those of the cells, weighted.

    Attributes
    ----------
    classes : (2,)
        In sorted order.
    n_rows : int
    cells : sequence of tuples
    count, weight : (number of cells,)
    groups : tuple of (column, values)
        Attributes of groups, with the values that occur.
    of_values : Sensitive or None
        The attributes with one row per value in ``groups``.
    sensitive : Sensitive or None
        The attributes with one row per cell; a number has its mean there.
    """

    classes: NDArray[Any]
    n_rows: int
    cells: Sequence[tuple[Any, ...]]
    count: Array
    weight: Array
    groups: tuple[tuple[str, tuple[Any, ...]], ...]
    of_values: Sensitive | None
    sensitive: Sensitive | None

    def class_weights(self) -> Array:
        """Return the weight of both classes, (2,)."""
        of_class = [np.array([cell[CLASS] == label for cell in self.cells]) for label in self.classes.tolist()]
        return np.array([self.weight[which].sum() for which in of_class])

    def signs(self, positive: Any) -> Array:
        """Return the label of every cell, +1 for the positive class."""
        return np.array([1.0 if cell[CLASS] == positive else -1.0 for cell in self.cells])

    def people(self, column: str) -> dict[Any, int]:
        """Return the number of people in each group of an attribute."""
        at = 1 + [name for name, _ in self.groups].index(column)
        found = dict.fromkeys(dict(self.groups)[column], 0)
        for cell, number in zip(self.cells, self.count, strict=True):
            found[cell[at]] += int(number)
        return found


def take_census(sums: ScanSums, layout: Layout) -> Census:
    """Return who is in the data; raise unless there are two classes and, in every attribute, two groups."""
    count, weight = sums.people.total.rounded
    kept = np.flatnonzero(weight > 0)
    if not len(kept):
        raise DataError("Every weight is zero: there is nobody to learn from.", field="weight")
    cells: list[Any] = [sums.people.columns[k] for k in kept]
    labels = list(dict.fromkeys(cell[CLASS] for cell in cells))
    if len(labels) != 2:
        listed = ", ".join(repr(shorten(label, 20)) for label in labels[:6])
        held = f"holds only {listed}" if len(labels) == 1 else f"has {len(labels):,} values in all data ({listed})"
        raise DataError(
            f"The target column {layout.target!r} {held}; exactly two are needed.",
            field="target",
        )
    groups = tuple(
        (name, tuple(dict.fromkeys(cell[at] for cell in cells))) for at, name in enumerate(layout.groups, 1)
    )
    of_values = _attributes(layout, dict(groups)) if layout.sensitive else None
    of_cells = None
    if of_values is not None:
        of_cells = _of_cells(of_values, layout, sums, cells, weight[kept])
    classes = np.array(sorted(labels))
    return Census(classes, sums.n_rows, cells, count[kept], weight[kept], groups, of_values, of_cells)


def _attributes(layout: Layout, groups: dict[str, tuple[Any, ...]]) -> Sensitive:
    attributes: list[Attribute] = []
    for name in layout.sensitive:
        if name in groups:
            values = [MISSING_GROUP if value is None else value for value in groups[name]]
            # Categories: what the layout takes for groups may be numbers, which would be measured by their values.
            column = pd.Series(values, dtype="category" if len(values) > 2 and MISSING_GROUP not in values else None)
            attributes += encode_sensitive({name: column}).attributes
        else:
            attributes.append(Attribute(name, values=np.empty(0)))
    return Sensitive(tuple(attributes))


def _of_cells(of_values: Sensitive, layout: Layout, sums: ScanSums, cells: list[Any], weight: Array) -> Sensitive:
    found = []
    for attribute in of_values.attributes:
        if attribute.name in layout.measures:
            total = sums.measures[attribute.name].at([("", "")], cells)[0]
            found.append(replace(attribute, values=sums.reference[attribute.name] + total / weight))
            continue
        at = 1 + layout.groups.index(attribute.name)
        place = {value: k for k, value in enumerate(dict.fromkeys(cell[at] for cell in cells))}
        found.append(expand(attribute, np.array([place[cell[at]] for cell in cells], dtype=np.intp)))
    return Sensitive(tuple(found))


def expand(attribute: Attribute, rows: NDArray[Any]) -> Attribute:
    """Return an attribute of values as that of rows with these values; all categories stay."""
    if attribute.codes is None:
        assert attribute.values is not None
        return replace(attribute, values=attribute.values[rows])
    return replace(attribute, codes=attribute.codes[rows])


def fit_encoder(
    sums: ScanSums,
    layout: Layout,
    medians: dict[str, float],
    *,
    min_frequency: float = 0.005,
    max_levels: int = 50,
) -> TableEncoder:
    """Return the encoding that :meth:`fairmargin.tables.TableEncoder.fit` would learn from all rows.

    ``sums`` have the ``medians`` in the place of missing numbers.
    """
    least = min_frequency if min_frequency >= 1 else max(2.0, min_frequency * sums.n_rows)
    columns: list[NumberColumn | CategoryColumn] = []
    notes = list(layout.notes)
    for name in layout.features:
        column: NumberColumn | CategoryColumn | None
        if name in layout.categories:
            table = sums.counts[name]
            counts = {str(w): int(n) for w, n in zip(table.rows, table.total.rounded[:, 0], strict=True) if n}
            column, said = choose_levels(name, counts, least, max_levels)
        else:
            column, said = _fit_number(sums, layout, name, medians.get(name))
        notes += said
        columns += [] if column is None else [column]
    if not columns:
        raise DataError("No feature is left to learn from: all columns are constant or left out.")
    return TableEncoder(tuple(columns), tuple(notes))


def sample_medians(sums: ScanSums, layout: Layout) -> dict[str, float]:
    """Return the median of every column of numbers of which the sample has a value."""
    found = {}
    for name in layout.numbers:
        values = as_numbers(sums.sample.table[name])
        known = values[~np.isnan(values)]
        if len(known):
            found[name] = float(np.median(known))
    return found


def _fit_number(
    sums: ScanSums, layout: Layout, name: str, median: float | None
) -> tuple[NumberColumn | None, list[str]]:
    j, missing = layout.numbers.index(name), sums.n_missing(name)
    label, reference = shorten(name), sums.reference[name]
    if missing == sums.n_rows:
        return None, [f"{label!r} has no values and was left out."]
    low, high = sums.extremes[:, j]
    if max(abs(low + reference), abs(high + reference)) > LARGEST:
        return None, [f"{label!r} holds numbers beyond {LARGEST:g} and was left out."]
    drawn = len(sums.sample.hashes)
    whose = "" if drawn == sums.n_rows else f" of a sample of {drawn:,} rows"
    if median is None:
        return None, [f"{label!r} is missing for {people(missing)}, among them all{whose}, and was left out."]
    first, second = sums.moments.rounded[:, j] / sums.n_rows
    spread = float(np.sqrt(max(second - first**2, 0.0)))
    if not high > low or not spread > 0:
        return None, [f"{label!r} is the same for everybody and was left out."]
    notes = [f"{label!r} is missing for {people(missing)}: the median {median:g}{whose} is used."] if missing else []
    return NumberColumn(name, median, float(reference + first), spread, missing), notes


class FeatureSums:
    """Sums of the encoded features by cell, and what covariances take of them.

    Parameters
    ----------
    sums : ScanSums
    census : Census
    encoder : TableEncoder
    """

    def __init__(self, sums: ScanSums, census: Census, encoder: TableEncoder) -> None:
        self.sums, self.census, self.encoder = sums, census, encoder
        self.by_cell = np.vstack([self._column(column) for column in encoder.columns])  # (d, number of cells)

    def _column(self, column: NumberColumn | CategoryColumn) -> Array:
        cells = self.census.cells
        if isinstance(column, NumberColumn):
            shift = column.mean - self.sums.reference[column.name]
            return (self.sums.numbers.at([column.name], cells) - shift * self.census.weight) / column.scale
        table = self.sums.levels[column.name]
        return np.vstack([table.at(words, cells).sum(axis=0) for words in _members(column, table.rows)])

    def scale(self) -> Array:
        """Return the root mean square of every feature, (d,)."""
        sizes = []
        for column in self.encoder.columns:
            if isinstance(column, NumberColumn):
                sizes.append(self._size(column))
                continue
            table = self.sums.counts[column.name]
            counts = [table.at(words, ("count",)).sum() for words in _members(column, table.rows)]
            sizes += [float(np.sqrt(n / self.sums.n_rows)) or 1.0 for n in counts]
        return np.array(sizes)

    def _size(self, column: NumberColumn) -> float:
        """Return the root mean square of an encoded number; 1 for one that is standardised or zero."""
        first, second = self.sums.moments.rounded[:, self.sums.numbers.rows.index(column.name)] / self.sums.n_rows
        shift = column.mean - self.sums.reference[column.name]
        return float(np.sqrt(max(second - 2.0 * shift * first + shift**2, 0.0))) / column.scale or 1.0

    def covariance_rows(self, compared: Compared, scale: Array, fit_intercept: bool) -> Array:
        """Return ``A`` (J K, p): covariances of the features with the sensitive columns under each condition.

        Sums that are zero up to rounding are zero: as a constraint they would be a real one on nothing.
        """
        weight = self.census.weight
        share = weight / weight.sum()
        means = self.by_cell / weight
        weighted = compared.centred * share[:, None]  # (number of cells, J K)
        rows = weighted.T @ means.T
        size = np.abs(weighted).sum(axis=0)
        K = len(compared.sensitive.labels)
        for name, within in self._within_cells().items():
            k = [label[0] for label in compared.sensitive.labels].index(name)
            for j, condition in enumerate(compared.conditions):
                counted = np.where(condition.counts, condition.sign, 0.0)
                rows[j * K + k] += within @ counted / weight[condition.counts].sum()
        rounding = 4.0 * np.sqrt(self.sums.n_rows) * EPS
        rows[np.abs(rows) <= rounding * size[:, None] * scale[: rows.shape[1]]] = 0.0
        if not fit_intercept:
            return rows
        total = weighted.sum(axis=0)
        return np.column_stack([rows, np.where(np.abs(total) <= rounding * size, 0.0, total)])

    def _within_cells(self) -> dict[str, Array]:
        """Return ``sum s (z - zbar_cell) x`` by feature and cell, (d, number of cells), of each sensitive number."""
        found = {}
        for name, table in self.sums.measures.items():
            total = table.at([("", "")], self.census.cells)[0]
            products = np.vstack([self._products(column, table, total) for column in self.encoder.columns])
            found[name] = products - self.by_cell * (total / self.census.weight)
        return found

    def _products(self, column: NumberColumn | CategoryColumn, table: Crosstab, total: Array) -> Array:
        cells = self.census.cells
        if isinstance(column, NumberColumn):
            shift = column.mean - self.sums.reference[column.name]
            return (table.at([(column.name, "")], cells) - shift * total) / column.scale
        known = [key[1] for key in table.rows if isinstance(key, tuple) and key[0] == column.name]
        members = _members(column, known)
        return np.vstack([table.at([(column.name, w) for w in words], cells).sum(axis=0) for words in members])


def _members(column: CategoryColumn, words: Sequence[Any]) -> list[list[Any]]:
    """Return the words that each level of a column stands for."""
    known = {column.reference, *column.levels}
    rare = [word for word in words if word not in known]
    return [rare + [w for w in words if w == OTHER] if level == OTHER else [level] for level in column.levels]
