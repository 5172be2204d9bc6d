"""Dask data frames as a table in partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from fairmargin.exceptions import DataError
from fairmargin.partitioned.contract import Partition
from fairmargin.partitioned.engines.fold import Nothing, run
from fairmargin.partitioned.sources.arrow_types import coded_schema
from fairmargin.partitioned.sources.loaded import LoadedPartition

if TYPE_CHECKING:
    import pyarrow

__all__ = ["DaskPartition", "DaskSource", "declared_schema"]

R = TypeVar("R")


@dataclass(frozen=True)
class DaskPartition:
    """One partition of each frame, to be computed."""

    place: str
    parts: tuple[Any, ...]

    @property
    def rows(self) -> None:
        """Unknown before the frames are computed."""
        return None

    def load(self, columns: Sequence[str]) -> pyarrow.Table:
        """Compute and return the columns; see ``Partition.load``."""
        import dask

        return _beside(self.place, dask.compute(*self.parts)).load(columns)

    def task(self, function: Callable[[Partition], R]) -> Any:
        """Return the delayed call of a function on this partition, which a cluster computes beside the data."""
        import dask

        return dask.delayed(_on_parts, pure=False)(function, self.place, list(self.parts))


def _on_parts(function: Callable[[Partition], R], place: str, parts: Sequence[Any]) -> R | Nothing:
    return run(function, _beside(place, parts))


def _beside(place: str, parts: Sequence[Any]) -> LoadedPartition:
    """Return the columns of all parts side by side."""
    import pyarrow

    lengths = [len(part) for part in parts]
    if len(set(lengths)) > 1:
        raise DataError(f"The frames have {_listed(lengths)} rows in {place}; they must be partitioned alike.")
    table = None
    for part in parts:
        frame = part.to_frame() if part.ndim == 1 else part
        new = pyarrow.Table.from_pandas(frame, preserve_index=False)
        for field, column in zip(new.schema, new.columns, strict=True):
            table = pyarrow.table({field.name: column}) if table is None else table.append_column(field, column)
    return LoadedPartition(place, table)


def _listed(numbers: Sequence[int]) -> str:
    return f"{', '.join(f'{n:,}' for n in numbers[:-1])} and {numbers[-1]:,}"


class DaskSource:
    """Columns of one or several Dask frames and series that are partitioned alike.

    Parameters
    ----------
    *frames : dask.dataframe.DataFrame or Series
        For instance ``ddf[features], ddf["y"], ddf[["sex"]]``. They need as many partitions each, and as many rows in
        each of them; the index does not count. Their columns need different names.

    Attributes
    ----------
    partitions : list of DaskPartition
    schema : pyarrow.Schema
    fingerprint : str
        Empty: frames have none.
    """

    fingerprint = ""

    def __init__(self, *frames: Any) -> None:
        _check_alike(frames)
        self.schema = declared_schema(frames)
        self.partitions = _partitions(frames)


def _check_alike(frames: Sequence[Any]) -> None:
    counts = [frame.npartitions for frame in frames]
    if len(set(counts)) > 1:
        raise DataError(f"The Dask frames have {_listed(counts)} partitions; they must be partitioned alike.")
    known = [frame.divisions for frame in frames if frame.known_divisions]
    if len(set(known)) > 1:
        raise DataError("The Dask frames have different divisions; they must be partitioned alike.")
    names = [str(name) for frame in frames for name in _names(frame)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"Column {twice[0]!r} is in more than one of the frames, or twice in one; rename one of them."
        )


def _names(frame: Any) -> list[Any]:
    if frame.ndim == 1:
        if frame.name is None:
            raise DataError("A Dask series without a name cannot be used; give it one with .rename.")
        return [frame.name]
    return list(frame.columns)


def declared_schema(frames: Sequence[Any]) -> pyarrow.Schema:
    """Return the types that the frames declare; the data of a partition may still be of other types."""
    import pyarrow
    from dask.dataframe.utils import meta_nonempty

    fields = []
    for frame in frames:
        example = meta_nonempty(frame._meta)
        meta = example.to_frame() if frame.ndim == 1 else example
        # Objects that a frame does not say more about are taken for text; a partition that holds others raises.
        meta = meta.astype({name: "str" for name in meta.columns if meta[name].dtype == object})
        fields += list(pyarrow.Schema.from_pandas(meta, preserve_index=False))
    return coded_schema(pyarrow.schema(fields))


def _partitions(frames: Sequence[Any]) -> list[DaskPartition]:
    """Return the partitions, each with no more of the graph than it needs."""
    from dask.delayed import Delayed
    from dask.optimization import cull

    # One by one: dask.optimize of several frames mixed up their tasks (Dask 2026.8).
    frames = [frame.optimize() for frame in frames]
    graph: dict[Any, Any] = {}
    for frame in frames:
        graph.update(frame.__dask_graph__())
    partitions = []
    keys = [frame.__dask_keys__() for frame in frames]
    for k, of_frames in enumerate(zip(*keys, strict=True)):
        needed, _ = cull(graph, list(of_frames))
        parts = tuple(Delayed(key, needed) for key in of_frames)
        partitions.append(DaskPartition(f"partition {k}", parts))
    return partitions
