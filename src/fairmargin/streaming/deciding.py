"""A model applied to a source: decisions are made where the rows are, and written in the order of the partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any

import pandas as pd
import pyarrow as pa

from fairmargin.exceptions import DataError
from fairmargin.partitioned.contract import Engine, Partition, Progress, Source
from fairmargin.tables.model import TabularModel

__all__ = ["Decided", "decide", "table_writer"]


@dataclass
class Decided:
    """Decisions on the people of one partition, or on those of several after they were written.

    Attributes
    ----------
    table : pyarrow.Table or None
        Not yet written.
    people, accepted : int
    different : Counter
        Values by column that differ from the training data.
    """

    table: pa.Table | None
    people: int
    accepted: int
    different: Counter[tuple[str, str]]


def decide(
    source: Source,
    engine: Engine,
    model: TabularModel,
    write: Callable[[pa.Table], None],
    *,
    keep: Sequence[str] = (),
    n_reasons: int = 0,
    progress: Progress | None = None,
) -> Decided:
    """Decide on everybody in one pass; ``write`` is called with the decisions of each partition, in order.

    Parameters
    ----------
    source, engine : where the rows are, and what works on them
    model : TabularModel
    write : callable
    keep : columns to copy
    n_reasons : int
        Columns that moved each decision most.
    progress : callable, optional
    """
    with _naming(source.partitions[0].place):
        model.encoder.check_columns(pd.DataFrame(columns=list(source.schema.names)))
    task = _Decide(replace(model, facts={}), tuple(keep), n_reasons)

    def merge(first: Decided, second: Decided) -> Decided:
        for part in (first, second):
            if part.table is not None:
                write(part.table)
        different = first.different + second.different
        return Decided(None, first.people + second.people, first.accepted + second.accepted, different)

    nothing = Decided(None, 0, 0, Counter())
    return merge(nothing, engine.reduce(task, source.partitions, merge, progress=progress))


@dataclass(frozen=True)
class _Decide:
    """What a worker does with a partition."""

    model: TabularModel
    keep: tuple[str, ...]
    n_reasons: int

    def __call__(self, partition: Partition) -> Decided:
        model = self.model
        needed = [*(column.name for column in model.encoder.columns), *self.keep]
        table = partition.load(list(dict.fromkeys(needed)))
        frame = table.to_pandas()
        with _naming(partition.place):
            result = model.decide(frame)
        accepted = int((result["decision"] == model.labels[1]).sum())
        if self.n_reasons:
            result = result.join(model.reasons(frame, self.n_reasons))
        decided = pa.Table.from_pandas(result, preserve_index=False).replace_schema_metadata(None)
        for name in reversed(self.keep):
            decided = decided.add_column(0, name, _plain(table[name]))
        different = model.encoder.count_different(frame)
        return Decided(decided, table.num_rows, accepted, +different)


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Say in errors where the data are."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{place}: {error}", field=error.field) from None


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


@contextmanager
def table_writer(stream: IO[bytes], *, as_parquet: bool, escape: bool) -> Iterator[Callable[[pa.Table], None]]:
    """Yield a function that appends a table to a stream, as CSV or as row groups of a Parquet file."""
    if not as_parquet:
        yield _CsvWriter(stream, escape)
        return
    from pyarrow import parquet

    opened: list[Any] = []

    def write(table: pa.Table) -> None:
        if not opened:
            opened.append(parquet.ParquetWriter(stream, table.schema))
        opened[0].write_table(table.cast(opened[0].schema))

    try:
        yield write
    finally:
        for writer in opened:
            writer.close()


class _CsvWriter:
    def __init__(self, stream: IO[bytes], escape: bool) -> None:
        self._stream, self._escape, self._begun = stream, escape, False

    def __call__(self, table: pa.Table) -> None:
        from fairmargin.tables.spreadsheet import to_csv

        self._stream.write(to_csv(table.to_pandas(), escape=self._escape, header=not self._begun))
        self._begun = True
