"""Spark data frames as a table in partitions."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from fairmargin.exceptions import DataError
from fairmargin.partitioned.contract import Partition, Source
from fairmargin.partitioned.sources.arrow_types import coded_schema
from fairmargin.partitioned.sources.loaded import LoadedPartition
from fairmargin.partitioned.sources.parquet import ParquetSource
from fairmargin.partitioned.sources.parquet_files import Located, folder_keys

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

__all__ = ["SparkFrame", "SparkFrameSource", "quoted", "spark_source"]

Outcome = Callable[[Partition], tuple[bool, Any]]


def spark_source(frame: DataFrame) -> Source:
    """Return a frame as a table in partitions.

    A frame that is nothing but columns of Parquet files becomes a `ParquetSource`: executors read row groups
    themselves, however Spark would split the files, and no columns move between Java and Python. Any other frame
    becomes a `SparkFrameSource`.
    """
    files = _plain_files(frame)
    if files:
        try:
            source = ParquetSource.of_files(files)
        except DataError:  # files that only Spark can read, or reads in a way of its own
            return SparkFrameSource(frame)
        if _agrees(source.schema, _arrow_schema(frame)):
            return source
    return SparkFrameSource(frame)


def _plain_files(frame: DataFrame) -> list[Located]:
    """Return the files of a frame that is a selection of columns of Parquet files, otherwise none."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    if _class(plan) == "Project":
        expressions = plan.projectList()
        if any(_class(expressions.apply(k)) != "AttributeReference" for k in range(expressions.size())):
            return []
        plan = plan.child()
    if _class(plan) != "LogicalRelation" or _class(plan.relation()) != "HadoopFsRelation":
        return []
    if _class(plan.relation().fileFormat()) != "ParquetFileFormat":
        return []
    keys = set(plan.relation().partitionSchema().fieldNames())
    return [_file(address, keys) for address in sorted(frame.inputFiles())]


def _class(of_java: Any) -> str:
    return str(of_java.getClass().getSimpleName())


def _file(address: str, keys: set[str]) -> Located:
    path = unquote(urlsplit(address).path)
    found = tuple((name, value) for name, value in folder_keys(path) if name in keys)
    return Located(path if address.startswith("file:") else address, found)


def _arrow_schema(frame: DataFrame) -> pyarrow.Schema:
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_type

    return pyarrow.schema([(field.name, to_arrow_type(field.dataType)) for field in frame.schema.fields])


def _agrees(files: pyarrow.Schema, frame: pyarrow.Schema) -> bool:
    """Whether the files hold what the frame shows: readers may be asked for other types and spellings."""
    from pyarrow import types

    def kind(of: pyarrow.DataType) -> str:
        return "integer" if types.is_integer(of) else str(of)

    shown = coded_schema(frame)
    return all(
        field.name in files.names and kind(files.field(field.name).type) == kind(field.type) for field in shown
    )


class SparkFrameSource:
    """Any Spark frame: its rows are handed to Python through Arrow, partition by partition.

    Attributes
    ----------
    partitions : list of SparkFramePartition
    schema : pyarrow.Schema
    fingerprint : str
        Empty: frames have none.
    """

    fingerprint = ""

    def __init__(self, frame: DataFrame) -> None:
        holder = SparkFrame(frame)
        self.schema = coded_schema(_arrow_schema(frame))
        self.partitions = [SparkFramePartition(k, holder) for k in range(frame.rdd.getNumPartitions())]


@dataclass(frozen=True)
class SparkFrame:
    """A frame of a session, which cannot leave the driver."""

    frame: Any

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("A Spark frame can be read by a SparkEngine on its own session only.")


@dataclass(frozen=True)
class SparkFramePartition:
    """One partition of a Spark frame."""

    number: int
    holder: SparkFrame

    @property
    def place(self) -> str:
        """Number of the partition."""
        return f"partition {self.number}"

    @property
    def rows(self) -> None:
        """Unknown before the frame is computed."""
        return None

    def load(self, columns: Sequence[str]) -> pyarrow.Table:
        """Compute and return the columns on the driver; see ``Partition.load``."""
        from pyspark.sql import functions

        frame = self.holder.frame
        mine = frame.where(functions.spark_partition_id() == self.number).select([quoted(name) for name in columns])
        return LoadedPartition(self.place, mine.toArrow()).load(columns)

    def outcomes(self, outcome: Outcome) -> tuple[Any, Callable[[Iterable[Any]], list[Any]]]:
        """Return an RDD with one outcome per partition of the frame, and how to unpack it."""
        frame = self.holder.frame
        task = _OnBatches(outcome, pickle.dumps(_arrow_schema(frame)))
        numbered = frame.toDF(*[f"c{k}" for k in range(len(frame.columns))])  # mapInArrow fails on names with dots
        return numbered.mapInArrow(task, "outcome binary").rdd, unpacked


class _OnBatches:
    """A task: calls the function on the batches of one partition."""

    def __init__(self, outcome: Outcome, schema: bytes) -> None:
        self._outcome = outcome
        self._schema = schema

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        place = f"partition {context.partitionId() if context is not None else 0}"
        held, schema = list(batches), pickle.loads(self._schema)
        table = pyarrow.Table.from_batches(held, held[0].schema if held else schema).rename_columns(schema.names)
        yield pyarrow.record_batch({"outcome": [pickle.dumps(self._outcome(LoadedPartition(place, table)))]})


def quoted(name: str) -> str:
    """Return a column's name as Spark reads it; without quotes, a dot would be taken for a field."""
    return "`" + name.replace("`", "``") + "`"


def unpacked(rows: Iterable[Any]) -> list[Any]:
    """Return the outcomes in the rows of a job's result."""
    return [pickle.loads(row.outcome) for row in rows]
