"""From the sums of a scan to an encoding, classes, groups and covariance rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.exceptions import DataError
from fairmargin.formatting import shorten
from fairmargin.notions import Notion
from fairmargin.partitioned.arrow import as_numbers
from fairmargin.partitioned.layout import Layout
from fairmargin.partitioned.scan import CLASS, ScanSums
from fairmargin.sensitive import MISSING_GROUP, Attribute, Sensitive, encode_sensitive
from fairmargin.tables.encoding import LARGEST, OTHER, CategoryColumn, NumberColumn, TableEncoder, choose_levels
from fairmargin.tolerances import EPS

__all__ = ["Census", "fit_encoder", "take_census"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Census:
    """Who is in the data: classes, groups and their weights.

    Attributes
    ----------
    classes : (2,)
        In sorted order.
    n_rows : int
    cells : sequence of tuples
        A label and one group per attribute of groups.
    count, weight : (number of cells,)
    groups : tuple of (column, values)
        Attributes of groups, with the values that occur.
    sensitive : Sensitive or None
        The attributes as constraints know them; an attribute of groups has one row per value in ``groups``.
    """

    classes: NDArray[Any]
    n_rows: int
    cells: Sequence[tuple[Any, ...]]
    count: Array
    weight: Array
    groups: tuple[tuple[str, tuple[Any, ...]], ...]
    sensitive: Sensitive | None

    def class_weights(self) -> Array:
        """Return the weight of both classes, (2,)."""
        of_class = [np.array([cell[CLASS] == label for cell in self.cells]) for label in self.classes.tolist()]
        return np.array([self.weight[which].sum() for which in of_class])

    def people(self, column: str) -> dict[Any, int]:
        """Return the number of people in each group of an attribute."""
        at = 1 + [name for name, _ in self.groups].index(column)
        values = dict(self.groups)[column]
        return {
            v: int(sum(n for cell, n in zip(self.cells, self.count, strict=True) if cell[at] == v)) for v in values
        }


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
        raise DataError(
            f"The target column {layout.target!r} has {len(labels):,} values in all data ({listed}); exactly two are "
            "needed.",
            field="target",
        )
    groups = []
    for at, name in enumerate(layout.groups, 1):
        groups.append((name, tuple(dict.fromkeys(cell[at] for cell in cells))))
    sensitive = _attributes(layout, dict(groups)) if layout.sensitive else None
    return Census(np.array(sorted(labels)), sums.n_rows, cells, count[kept], weight[kept], tuple(groups), sensitive)


def _attributes(layout: Layout, groups: dict[str, tuple[Any, ...]]) -> Sensitive:
    attributes: list[Attribute] = []
    for name in layout.sensitive:
        if name in groups:
            values = [MISSING_GROUP if value is None else value for value in groups[name]]
            attributes += encode_sensitive({name: values}).attributes
        else:
            attributes.append(Attribute(name, values=np.empty(0)))
    return Sensitive(tuple(attributes))


def fit_encoder(
    sums: ScanSums, layout: Layout, *, min_frequency: float = 0.005, max_levels: int = 50
) -> TableEncoder:
    """Return the encoding that :meth:`fairmargin.tables.TableEncoder.fit` would learn from all rows.

    The median, which stands in for numbers missing in later data, is that of the sample.
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
            column, said = _fit_number(sums, layout, name)
        notes += said
        columns += [] if column is None else [column]
    if not columns:
        raise DataError("No feature is left to learn from: all columns are constant or left out.")
    return TableEncoder(tuple(columns), tuple(notes))


def _fit_number(sums: ScanSums, layout: Layout, name: str) -> tuple[NumberColumn | None, list[str]]:
    j = layout.numbers.index(name)
    label, reference = shorten(name), sums.reference[name]
    low, high = sums.extremes[:, j]
    if max(abs(low + reference), abs(high + reference)) > LARGEST:
        return None, [f"{label!r} holds numbers beyond {LARGEST:g} and was left out."]
    first, second = sums.moments.rounded[:, j] / sums.n_rows
    spread = float(np.sqrt(max(second - first**2, 0.0)))
    if not high > low or not spread > 0:
        return None, [f"{label!r} is the same for everybody and was left out."]
    median = float(np.median(as_numbers(sums.sample.table[name])))
    return NumberColumn(name, median, float(reference + first), spread), []


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
                sizes.append(1.0)
                continue
            table = self.sums.counts[column.name]
            counts = [table.at(words, ("count",)).sum() for words in _members(column, table.rows)]
            sizes += [float(np.sqrt(n / self.sums.n_rows)) or 1.0 for n in counts]
        return np.array(sizes)

    def covariance_rows(self, notion: Notion, positive: Any, scale: Array) -> Array:
        """Return ``A`` without the intercept, (K, d): covariances of the features with the sensitive columns.

        Sums that are zero up to rounding are zero: as a constraint they would be a real one on nothing.
        """
        census = self.census
        assert census.sensitive is not None
        counted = np.array([self._counts(notion, cell[CLASS] == positive) for cell in census.cells])
        total = float(census.weight[counted].sum())
        rows, sizes = [], []
        for attribute in census.sensitive.attributes:
            if attribute.name in dict(census.groups):
                row, size = self._of_groups(attribute, counted, total, notion)
            else:
                row, size = self._of_measure(attribute.name, notion, positive, counted, total)
            rows.append(row)
            sizes.append(size)
        A, size = np.vstack(rows), np.concatenate(sizes)
        A[np.abs(A) <= 4.0 * np.sqrt(self.sums.n_rows) * EPS * size[:, None] * scale] = 0.0
        return A

    @staticmethod
    def _counts(notion: Notion, is_positive: bool) -> bool:
        return bool(notion.counts(np.array([1.0 if is_positive else -1.0]))[0])

    def _of_groups(
        self, attribute: Attribute, counted: NDArray[np.bool_], total: float, notion: Notion
    ) -> tuple[Array, Array]:
        names = [name for name, _ in self.census.groups]
        at = names.index(attribute.name)
        values = self.census.groups[at][1]
        place = {value: k for k, value in enumerate(values)}
        group = np.array([place[cell[1 + at]] for cell in self.census.cells])
        weight = np.bincount(group[counted], weights=self.census.weight[counted], minlength=len(values))
        if np.count_nonzero(weight) < 2:
            raise DataError(
                f"The notion {notion.name!r} compares groups of {attribute.name!r} among {notion.people}, of whom at "
                "most one group has any."
            )
        columns = attribute.columns()
        centred = columns - weight @ columns / total
        of_group = np.zeros((len(values), len(self.by_cell)))
        np.add.at(of_group, group[counted], self.by_cell[:, counted].T)
        return centred.T @ of_group / total, weight @ np.abs(centred) / total

    def _of_measure(
        self, name: str, notion: Notion, positive: Any, counted: NDArray[np.bool_], total: float
    ) -> tuple[Array, Array]:
        table = self.sums.measures[name]
        classes = [label for label in table.columns if self._counts(notion, label == positive)]
        first, second = table.at([("", "sum"), ("", "square")], classes).sum(axis=1) / total
        parts = []
        for column in self.encoder.columns:
            if isinstance(column, NumberColumn):
                shift = column.mean - self.sums.reference[column.name]
                product = float(table.at([(column.name, "")], classes).sum())
                parts.append((product - shift * first * total) / column.scale)
                continue
            known = [key[1] for key in table.rows if isinstance(key, tuple) and key[0] == column.name]
            for words in _members(column, known):
                parts.append(float(table.at([(column.name, word) for word in words], classes).sum()))
        plain = self.by_cell[:, counted].sum(axis=1)
        row = (np.array(parts) - first * plain) / total
        return row[None, :], np.array([np.sqrt(max(second - first**2, 0.0))])


def _members(column: CategoryColumn, words: Sequence[Any]) -> list[list[Any]]:
    """Return the words that each level of a column stands for."""
    known = {column.reference, *column.levels}
    rare = [word for word in words if word not in known]
    return [rare + [w for w in words if w == OTHER] if level == OTHER else [level] for level in column.levels]
