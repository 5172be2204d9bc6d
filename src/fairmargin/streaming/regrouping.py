"""A source seen through a question: sensitive columns as named groups, unknown labels left out, people held out.

Partitions stay small and picklable: they carry what to do, and do it where they are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairmargin.exceptions import DataError
from fairmargin.partitioned.arrow import as_known_numbers
from fairmargin.partitioned.contract import Partition, Source
from fairmargin.partitioned.scan import hash_rows
from fairmargin.streaming.cells import cell_codes

__all__ = ["HELD_OUT", "Grouping", "RegroupedPartition", "RegroupedSource", "Split"]

HELD_OUT = "(held out)"  # a column of truth values beside those of the files
_WORDS = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Grouping:
    """A column of named groups, made of one column or of several.

    Attributes
    ----------
    name : str
    columns : tuple of str
    words : mapping from values of the columns to the name of the group
        Values as :func:`fairmargin.streaming.cells.count_cells` counts them.
    limits : mapping from column to numbers
        Where columns of numbers are cut.
    """

    name: str
    columns: tuple[str, ...]
    words: Mapping[tuple[Any, ...], str]
    limits: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def of(self, table: pa.Table, place: str) -> pa.DictionaryArray:
        """Return the groups of the rows of a table."""
        codes = [cell_codes(table[name], name, place, self.limits.get(name)) for name in self.columns]
        joint = np.zeros(table.num_rows, dtype=np.int64)
        for code, values in codes:
            joint = joint * len(values) + code
        present, back = np.unique(joint, return_inverse=True)
        where = zip(*np.unravel_index(present, [len(values) for _, values in codes]), strict=True)
        keys = [tuple(values[k] for (_, values), k in zip(codes, at, strict=True)) for at in where]
        words = [self.words.get(key) for key in keys]
        names = list(dict.fromkeys(word for word in words if word is not None))
        position = {word: k for k, word in enumerate(names)}
        of_keys = pa.array([None if word is None else position[word] for word in words], pa.int32())
        return pa.DictionaryArray.from_arrays(of_keys.take(pa.array(back)), pa.array(names, pa.string()))


@dataclass(frozen=True)
class Split:
    """Who is held out: each row with the same probability, by a hash of where it is, whatever the engine.

    Attributes
    ----------
    share : float
        Probability of being held out.
    seed : int
    held_out : bool or None
        Which people are read: those held out, the others, or with None everybody.
    """

    share: float
    seed: int
    held_out: bool | None = None

    def mask(self, place: str, n: int) -> NDArray[np.bool_]:
        """Return who of the n rows at a place is held out."""
        return hash_rows(f"held out, {place}", self.seed, n) < np.uint64(self.share * 2.0**64)


@dataclass(frozen=True)
class RegroupedPartition:
    """A partition with groups for sensitive columns and, of a split, one of its sides."""

    inner: Partition
    groupings: tuple[Grouping, ...] = ()
    known: tuple[str, ...] = ()
    split: Split | None = None
    finite: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where the rows are."""
        return self.inner.place

    @property
    def rows(self) -> int | None:
        """About how many rows there are: nobody knows how many are held out before they are read."""
        n = self.inner.rows
        if n is None or self.split is None or self.split.held_out is None:
            return n
        share = self.split.share if self.split.held_out else 1.0 - self.split.share
        return min(n, int(share * n) + 1)

    @property
    def row_groups(self) -> list[RegroupedPartition]:
        """Each of several row groups that are read together, to say in which of them something is wrong."""
        return [replace(self, inner=part) for part in getattr(self.inner, "row_groups", ())]

    def load(self, columns: Sequence[str]) -> pa.Table:
        """Read the columns; see ``Partition.load``."""
        made = {grouping.name: grouping for grouping in self.groupings}
        wanted = [made[name].columns if name in made else (name,) for name in columns if name != HELD_OUT]
        needed = [name for names in wanted for name in names] + list(self.known)
        table = self.inner.load(list(dict.fromkeys(needed)))
        for name in self.finite:
            if name in columns:  # of everybody: an error after the training would come late for those held out
                as_known_numbers(table[name], name, self.place)
        n, found = table.num_rows, {}
        held_out = np.zeros(n, dtype=bool) if self.split is None else self.split.mask(self.place, n)
        for name in columns:
            if name == HELD_OUT:
                found[name] = pa.chunked_array([pa.array(held_out)])
            elif name in made:
                found[name] = pa.chunked_array([made[name].of(table, self.place)])
            else:
                found[name] = table[name]
        kept = self._kept(table, held_out)
        result = pa.table(found)
        return result if kept is None else result.filter(pa.array(kept))

    def _kept(self, table: pa.Table, held_out: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        kept = None
        if self.split is not None and self.split.held_out is not None:
            kept = held_out == self.split.held_out
        for name in self.known:
            column = table[name]
            missing = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type)).to_numpy()
            if missing.any():
                kept = ~missing if kept is None else kept & ~missing
        return kept


class RegroupedSource:
    """A source of which groups, labels and a split are known; see :class:`RegroupedPartition`.

    Parameters
    ----------
    source : Source
    groupings : sequence of Grouping
    known : sequence of str
        Columns without which a row is left out: the target and, if so asked, sensitive ones.
    split : Split, optional
    finite : columns of numbers that must not be infinite for anybody, on whatever side of the split
    """

    def __init__(
        self,
        source: Source,
        groupings: Sequence[Grouping] = (),
        known: Sequence[str] = (),
        split: Split | None = None,
        finite: Sequence[str] = (),
    ) -> None:
        self.fingerprint = source.fingerprint
        shared = (tuple(groupings), tuple(known), split, tuple(finite))
        self.partitions = [RegroupedPartition(partition, *shared) for partition in source.partitions]
        made = {grouping.name for grouping in groupings}
        kept = [field for field in source.schema if field.name not in made]
        if HELD_OUT in source.schema.names:
            raise DataError(f"The data have a column {HELD_OUT!r}, a name that is needed here; rename it.")
        self.schema = pa.schema([*kept, *(pa.field(name, _WORDS) for name in made), pa.field(HELD_OUT, pa.bool_())])
