"""Partitions whose rows are at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairmargin.partitioned.sources.arrow_types import as_coded

__all__ = ["LoadedPartition"]


@dataclass(frozen=True)
class LoadedPartition:
    """Rows that a worker was handed by the engine; it never leaves that worker.

    Parameters
    ----------
    place : str
    table : pyarrow.Table
    """

    place: str
    table: Any

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    def load(self, columns: Sequence[str]) -> Any:
        """Return the columns; see ``Partition.load``."""
        return as_coded(self.table.select(list(columns)))
