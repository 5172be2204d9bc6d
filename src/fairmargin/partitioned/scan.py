"""The first pass: everything that must be known before a solver can start, from one read of the data.

Per partition: people by label and group (*cells*), sums of the features by cell, moments of the numbers, counts of
the levels, and a sample of rows. That gives the encoding, the covariance rows and the class weights. Sums of numbers
are taken around a reference value (the mean of the first partition with a value), so that columns far from zero lose
no digits.

The sample is drawn by a hash of where a row is: it does not depend on the number of workers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairmargin.exceptions import DataError
from fairmargin.partitioned.arrow import as_codes, as_finite_numbers, as_known_numbers
from fairmargin.partitioned.compensated import Crosstab, Total
from fairmargin.partitioned.contract import Engine, Partition, Progress, Source
from fairmargin.partitioned.layout import Layout
from fairmargin.sensitive import FEW_NUMBERS, MAX_GROUPS, warn_of_codes
from fairmargin.tables.columns import MISSING_GROUP, value_as_text

__all__ = ["CLASS", "Sample", "ScanSums", "hash_rows", "scan"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

CLASS = 0  # place of the label in the key of a cell; the groups follow
_MOST_LEVELS = 100_000  # different values of a text column: more are names or identifiers, not categories
_SPARE = 1.05  # rows drawn per row of the sample wanted: the binomial number hardly ever falls short
_BINARY = 2  # different values up to which a sensitive number stands for groups, as in memory


@dataclass(frozen=True)
class Sample:
    """Rows drawn so far, with the hash of each; the smallest hashes are kept."""

    tables: tuple[pa.Table, ...]
    hashes: NDArray[np.uint64]

    def joined(self, other: Sample, size: int) -> Sample:
        """Return both samples, cut back to ``size`` rows when there are twice as many."""
        both = Sample((*self.tables, *other.tables), np.concatenate([self.hashes, other.hashes]))
        return both.cut(size) if len(both.hashes) > 2 * size else both

    def cut(self, size: int) -> Sample:
        """Return the rows of the ``size`` smallest hashes, in their order."""
        if len(self.hashes) <= size:
            return self
        limit = np.partition(self.hashes, size - 1)[size - 1]
        kept = np.flatnonzero(self.hashes <= limit)[:size]
        return Sample((self.table.take(pa.array(kept)),), self.hashes[kept])

    @property
    def table(self) -> pa.Table:
        """All rows as one table."""
        return pa.concat_tables(self.tables, promote_options="permissive")


@dataclass
class ScanSums:
    """What a scan collects, of one partition or of several.

    Attributes
    ----------
    n_rows : int
    least_weight : float
        Smallest positive weight.
    people : Crosstab
        Rows "count" and "weight", one column per cell.
    numbers : Crosstab
        Weighted sums of the numbers less their reference, features by cell.
    moments : Total of shape (2, q)
        Sums and sums of squares of the same, unweighted.
    missing : Crosstab
        As ``people``, of the people without a number: rows ("count", feature) and ("weight", feature). All sums are
        those of the numbers that there are, until ``with_medians`` adds the others.
    extremes : (2, q)
        Least and largest number.
    levels, counts : dict from column to Crosstab
        Weight by level and cell; number of people by level.
    measures : dict from sensitive number to Crosstab
        Weighted sums of the number (less its reference), alone and times each feature and level, by cell; under
        (feature, "missing") over the people without that feature.
    sample : Sample
    """

    n_rows: int
    least_weight: float
    people: Crosstab
    numbers: Crosstab
    moments: Total
    missing: Crosstab
    extremes: Array
    levels: dict[str, Crosstab]
    counts: dict[str, Crosstab]
    measures: dict[str, Crosstab]
    sample: Sample
    reference: dict[str, float] = field(default_factory=dict)

    def n_missing(self, name: str) -> int:
        """Return how many people have no number in a column."""
        key = ("count", name)
        return int(self.missing.at([key], self.missing.columns).sum()) if key in self.missing.rows else 0

    def with_medians(self, medians: dict[str, float]) -> ScanSums:
        """Return the sums with these numbers in the place of missing ones."""
        numbers, moments, measures = self.numbers, self.moments, dict(self.measures)
        for name, median in medians.items():
            if not self.n_missing(name):
                continue
            x = median - self.reference[name]
            cells, at = self.missing.columns, self.numbers.rows.index(name)
            count, weight = self.missing.at([("count", name), ("weight", name)], cells)
            numbers = numbers + Crosstab.of([name], cells, x * weight[None, :])
            more = np.zeros(moments.value.shape)
            more[:, at] = x * count.sum(), x**2 * count.sum()
            moments = moments + Total.of(more)
            for measure, table in measures.items():
                pushed = table.at([(name, "missing")], table.columns)
                measures[measure] = table + Crosstab.of([(name, "")], table.columns, x * pushed)
        return replace(self, numbers=numbers, moments=moments, measures=measures)


@dataclass(frozen=True)
class _ScanPartition:
    """What a worker does with one partition."""

    layout: Layout
    reference: dict[str, float]
    seed: int
    size: int
    share: float
    impute: bool

    def __call__(self, partition: Partition) -> ScanSums:
        layout = self.layout
        table = partition.load(layout.columns)
        place = partition.place
        weight = _weights(table, layout, place)
        cell, cells = _cells(table, layout, place)
        n_cells = len(cells)
        every = np.ones(len(cell)) if weight is None else weight
        numbers = np.empty((len(layout.numbers), n_cells))
        moments, extremes = np.empty((2, 2, len(layout.numbers)))
        values: dict[str, Array] = {}
        missing: dict[str, NDArray[np.bool_]] = {}
        read = as_known_numbers if self.impute else as_finite_numbers
        for j, name in enumerate(layout.numbers):
            x = read(table[name], name, place) - self.reference[name]
            extremes[:, j] = np.fmin.reduce(x, initial=np.inf), np.fmax.reduce(x, initial=-np.inf)
            total = x.sum()
            if np.isnan(total):
                missing[name] = np.isnan(x)
                x[missing[name]] = 0.0
                total = x.sum()
            if layout.measures:
                values[name] = x
            numbers[j] = np.bincount(cell, weights=x if weight is None else weight * x, minlength=n_cells)
            with np.errstate(over="ignore"):  # numbers this large are left out
                moments[:, j] = total, x @ x
        levels, counts, codes = self._count_levels(table, cell, cells, weight, place)
        return ScanSums(
            table.num_rows,
            _least_positive(weight, table.num_rows),
            Crosstab.of(("count", "weight"), cells, [_tally(cell, n_cells), _tally(cell, n_cells, weight)]),
            Crosstab.of(layout.numbers, cells, numbers),
            Total.of(moments),
            _count_missing(missing, cell, cells, weight),
            extremes,
            levels,
            counts,
            self._measures(table, place, cell, cells, every, values, missing, codes),
            self._draw(table, place),
        )

    def _count_levels(
        self, table: pa.Table, cell: Codes, cells: Sequence[Hashable], weight: Array | None, place: str
    ) -> tuple[dict[str, Crosstab], dict[str, Crosstab], dict[str, tuple[Codes, list[str]]]]:
        levels, counts, codes = {}, {}, {}
        for name in self.layout.categories:
            code, words = _level_codes(table[name], name, place)
            joint = code * len(cells) + cell
            shape = len(words), len(cells)
            number = _tally(joint, shape[0] * shape[1]).reshape(shape)
            levels[name] = Crosstab.of(
                words, cells, number if weight is None else _tally(joint, number.size, weight).reshape(shape)
            )
            counts[name] = Crosstab.of(words, ("count",), number.sum(axis=1, keepdims=True))
            if self.layout.measures:
                codes[name] = code, words
        return levels, counts, codes

    def _measures(
        self,
        table: pa.Table,
        place: str,
        cell: Codes,
        cells: Sequence[Hashable],
        weight: Array,
        values: dict[str, Array],
        missing: dict[str, NDArray[np.bool_]],
        codes: dict[str, tuple[Codes, list[str]]],
    ) -> dict[str, Crosstab]:
        """Return what the covariances with sensitive numbers need: the number, alone and times every feature."""
        found = {}
        for name in self.layout.measures:
            pushed = weight * (as_finite_numbers(table[name], name, place) - self.reference[name])
            rows: list[Hashable] = [("", "")]
            sums = [_tally(cell, len(cells), pushed)]
            for feature, x in values.items():
                rows.append((feature, ""))
                sums.append(_tally(cell, len(cells), pushed * x))
            for feature, is_missing in missing.items():
                rows.append((feature, "missing"))
                sums.append(_tally(cell, len(cells), pushed * is_missing))
            for feature, (code, words) in codes.items():
                rows += [(feature, word) for word in words]
                joint = _tally(code * len(cells) + cell, len(words) * len(cells), pushed)
                sums += list(joint.reshape(len(words), len(cells)))
            found[name] = Crosstab.of(rows, cells, np.array(sums))
        return found

    def _draw(self, table: pa.Table, place: str) -> Sample:
        hashes = hash_rows(place, self.seed, table.num_rows)
        drawn = np.flatnonzero(hashes <= np.uint64(self.share * (2**64 - 2**12)))
        sample = Sample((table.take(pa.array(drawn)),), hashes[drawn])
        return sample.cut(self.size)


@dataclass(frozen=True)
class _Merge:
    """Adds the sums of a partition to those of the partitions before it."""

    size: int

    def __call__(self, first: ScanSums, second: ScanSums) -> ScanSums:
        first.n_rows += second.n_rows
        first.least_weight = min(first.least_weight, second.least_weight)
        first.people = first.people + second.people
        first.numbers = first.numbers + second.numbers
        first.moments = first.moments + second.moments
        first.missing = first.missing + second.missing
        low, high = zip(first.extremes, second.extremes, strict=True)
        first.extremes = np.stack([np.minimum(*low), np.maximum(*high)])
        for kind in ("levels", "counts", "measures"):
            mine, other = getattr(first, kind), getattr(second, kind)
            for name in mine:
                mine[name] = mine[name] + other[name]
        for name, table in first.counts.items():
            _check_levels(name, len(table.rows), "all data")
        first.sample = first.sample.joined(second.sample, self.size)
        return first


def scan(
    source: Source,
    layout: Layout,
    engine: Engine,
    *,
    sample_size: int,
    seed: int = 0,
    impute: bool = True,
    progress: Progress | None = None,
) -> tuple[ScanSums, Layout]:
    """Read all rows once; unless ``impute``, a missing number is an error.

    Returns the sums and the layout, in which sensitive numbers of two values are groups.
    """
    partitions = source.partitions
    if not partitions:
        raise DataError("The data have no partition: no file, or only empty ones.")
    layout, reference = _look_ahead(partitions, layout, engine)
    known = [partition.rows for partition in partitions]
    rows = sum(n for n in known if n is not None)
    share = 1.0
    if all(n is not None for n in known) and rows > sample_size:
        share = min(1.0, (_SPARE * sample_size + 1000) / rows)
    task = _ScanPartition(layout, reference, seed, sample_size, share, impute)
    sums = engine.reduce(task, partitions, _Merge(sample_size), progress=progress)
    if sums.n_rows == 0:
        raise DataError("The data have no rows.")
    sums.sample = sums.sample.cut(sample_size)
    sums.reference = reference
    return sums, layout


def _look_ahead(partitions: Sequence[Partition], layout: Layout, engine: Engine) -> tuple[Layout, dict[str, float]]:
    """Return the layout with sensitive numbers of two values as groups, and the references of the numbers.

    The first partition gives the references of the features. What it cannot tell is looked for in all partitions:
    the different values of sensitive numbers, and a value of every feature that it has none of.
    """
    reference = _means_of_first(partitions, layout.numbers, engine)
    unknown = tuple(name for name in layout.numbers if name not in reference)
    if unknown or layout.measures:
        found = engine.reduce(_Look(unknown, layout.measures), partitions, _merge_looks)
        two = [name for name in layout.measures if len(found.values[name]) <= _BINARY]
        groups = tuple(name for name in layout.sensitive if name in layout.groups or name in two)
        measures = tuple(name for name in layout.measures if name not in two)
        for name in measures:
            if all(value.is_integer() for value in found.values[name]):
                warn_of_codes(name, len(found.values[name]))
        layout, reference = replace(layout, groups=groups, measures=measures), reference | found.means
    nobody = dict.fromkeys((*layout.numbers, *layout.measures), 0.0)
    return layout, nobody | reference


def _means_of_first(partitions: Sequence[Partition], names: tuple[str, ...], engine: Engine) -> dict[str, float]:
    """Return the means of the numbers in a partition, by the engine: it knows what to say of workers that fail."""
    first = next((found for found in partitions if found.rows != 0), partitions[0])
    try:
        return engine.reduce(_Look(names, ()), [first], _merge_looks).means if names else {}
    except DataError:  # no rows after all; whatever else is wrong, the scan will say
        return {}


@dataclass(frozen=True)
class _Looked:
    """Means of the columns that have a value, and a few different values of sensitive numbers."""

    means: dict[str, float]
    values: dict[str, frozenset[float]]


@dataclass(frozen=True)
class _Look:
    """What a worker looks up in one partition before the scan."""

    numbers: tuple[str, ...]
    measures: tuple[str, ...]

    def __call__(self, partition: Partition) -> _Looked:
        names = [*self.numbers, *self.measures]
        table = partition.load(names)
        columns = {name: as_known_numbers(table[name], name, partition.place) for name in names}
        known = {name: x[~np.isnan(x)] for name, x in columns.items()}
        return _Looked(
            {name: float(x.mean()) for name, x in known.items() if len(x)},
            {name: frozenset(np.unique(known[name])[: FEW_NUMBERS + 1].tolist()) for name in self.measures},
        )


def _merge_looks(first: _Looked, second: _Looked) -> _Looked:
    values = {name: first.values[name] | second.values[name] for name in first.values}
    few = {name: frozenset(sorted(found)[: FEW_NUMBERS + 1]) for name, found in values.items()}
    return _Looked(second.means | first.means, few)


def _count_missing(
    missing: dict[str, NDArray[np.bool_]], cell: Codes, cells: Sequence[Hashable], weight: Array | None
) -> Crosstab:
    """Return how many people in each cell have no number, and their weight, for columns in which some have none."""
    rows: list[Hashable] = []
    sums = []
    for name, which in missing.items():
        rows += [("count", name), ("weight", name)]
        of_people = None if weight is None else weight[which]
        sums += [_tally(cell[which], len(cells)), _tally(cell[which], len(cells), of_people)]
    return Crosstab.of(rows, cells, np.array(sums).reshape(len(rows), len(cells)))


def _weights(table: pa.Table, layout: Layout, place: str) -> Array | None:
    if layout.weight is None:
        return None
    weight = as_finite_numbers(table[layout.weight], layout.weight, place)
    if len(weight) and weight.min() < 0:
        wrong = int(np.count_nonzero(weight < 0))
        raise DataError(
            f"The weight column {layout.weight!r} has {wrong:,} negative values in {place}; remove these rows."
        )
    return weight


def _least_positive(weight: Array | None, n_rows: int) -> float:
    if weight is None:
        return 1.0 if n_rows else np.inf
    return float(np.min(weight, where=weight > 0, initial=np.inf))


def _cells(table: pa.Table, layout: Layout, place: str) -> tuple[Codes, list[tuple[Any, ...]]]:
    """Return which cell, a label and one group per attribute, each row is in, and the cells that occur."""
    columns = [layout.target, *layout.groups]
    codes, values = zip(*(as_codes(table[name]) for name in columns), strict=True)
    missing = int(np.count_nonzero(codes[0] == len(values[0]) - 1))
    if missing:
        raise DataError(
            f"The target column {layout.target!r} is missing for {missing:,} rows in {place}; remove these rows.",
            field="target",
        )
    for name, of_column in zip(layout.groups, values[1:], strict=True):
        if len(of_column) > MAX_GROUPS + 1:
            raise DataError(
                f"The sensitive attribute {name!r} has {len(of_column) - 1:,} groups in {place}; at most "
                f"{MAX_GROUPS} are possible. Merge groups.",
                field="sensitive",
            )
    sizes = [len(of_column) for of_column in values]
    joint = codes[0].astype(np.int64)
    for code, size in zip(codes[1:], sizes[1:], strict=True):
        joint = joint * size + code
    present = np.flatnonzero(np.bincount(joint, minlength=1))
    present = present if len(joint) else present[:0]
    place_of = np.zeros(int(np.prod(sizes)), dtype=np.int64)
    place_of[present] = np.arange(len(present))
    keys = [
        tuple(of_column[k] for of_column, k in zip(values, where, strict=True))
        for where in zip(*np.unravel_index(present, sizes), strict=True)
    ]
    return place_of[joint], keys


def _level_codes(column: pa.ChunkedArray, name: str, place: str) -> tuple[Codes, list[str]]:
    """Return the level of each row as a code, and the levels as text; values of the same text are one level."""
    code, values = as_codes(column)
    _check_levels(name, len(values) - 1, place)
    texts = [MISSING_GROUP if value is None else value_as_text(value) for value in values]
    words = list(dict.fromkeys(texts))
    where = {word: k for k, word in enumerate(words)}
    return np.array([where[text] for text in texts], dtype=np.int64).take(code), words


def _check_levels(name: str, number: int, place: str) -> None:
    if number > _MOST_LEVELS:
        raise DataError(
            f"The column {name!r} has {number:,} different values in {place}: a name or an identifier rather than a "
            "category. Exclude it.",
            field="exclude",
            suggestion=name,
        )


def _tally(code: Codes, size: int, weight: Array | None = None) -> Array:
    return np.bincount(code, weights=weight, minlength=size).astype(np.float64)


def hash_rows(place: str, seed: int, n: int) -> NDArray[np.uint64]:
    """Return a hash of each row from its place and number (splitmix64, Steele, Lea and Flood, 2014)."""
    digest = hashlib.blake2b(f"{seed}:{place}".encode(), digest_size=8).digest()
    with np.errstate(over="ignore"):
        x = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x += np.uint64(int.from_bytes(digest, "little"))
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
