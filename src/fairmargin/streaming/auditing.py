"""What an audit needs of a source, from one pass: a small table in which each row stands for many people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.exceptions import DataError
from fairmargin.partitioned.contract import Engine, Partition, Progress, Source
from fairmargin.streaming.cells import PEOPLE, Cells, add_cells, cell_codes, cells_frame, count_cells, count_codes
from fairmargin.tables.model import TabularModel
from fairmargin.tables.reader import Table

__all__ = ["MODEL_DECISION", "CountedTable", "counted_table"]

MODEL_DECISION = "(decision of the model)"  # the column of a counted table that says whom a model accepts


@dataclass(frozen=True)
class CountedTable(Table):
    """A table of counts: combinations of values in ``frame``, and how many people have each in ``counts``."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    columns: int = 0

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What identifies the data: their name, checksum, rows and columns."""
        rows = int(self.counts.sum())
        return {"source": self.source, "sha256": self.sha256, "rows": rows, "columns": self.columns}


def counted_table(
    source: Source,
    engine: Engine,
    name: str,
    columns: Sequence[str],
    *,
    bins: Mapping[str, Sequence[float]] | None = None,
    model: TabularModel | None = None,
    progress: Progress | None = None,
) -> CountedTable:
    """Count people by the values of some columns and, with a model, by its decision: one pass.

    Parameters
    ----------
    source, engine : where the rows are, and what works on them
    name : str
        Of the data, for the report.
    columns : names of columns
    bins : mapping from column to limits, optional
        Columns of numbers that are counted by band.
    model : TabularModel, optional
    progress : callable, optional
    """
    if model is None:
        cells = count_cells(source, engine, columns, bins, progress)
    else:
        cut = {name: tuple(sorted({float(v) for v in values})) for name, values in (bins or {}).items()}
        task = _CountModel(replace(model, facts={}), tuple(columns), cut)
        counted = engine.reduce(task, source.partitions, add_cells, progress=progress)
        cells = cells_frame([*columns, MODEL_DECISION], counted)
    counts = cells.pop(PEOPLE).to_numpy()
    return CountedTable(cells, name, source.fingerprint, (), counts, len(source.schema.names))


@dataclass(frozen=True)
class _CountModel:
    """What a worker does with a partition: score, decide, count."""

    model: TabularModel
    columns: tuple[str, ...]
    limits: Mapping[str, tuple[float, ...]]

    def __call__(self, partition: Partition) -> Cells:
        features = [column.name for column in self.model.encoder.columns]
        place = partition.place
        table = partition.load(list(dict.fromkeys([*features, *self.columns])))
        frame: pd.DataFrame = table.select(features).to_pandas()
        try:
            accepted = self.model.scores(frame) >= 0
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
        columns = [cell_codes(table[name], name, place, self.limits.get(name)) for name in self.columns]
        return count_codes([*columns, (accepted.astype(np.int64), [False, True])])
