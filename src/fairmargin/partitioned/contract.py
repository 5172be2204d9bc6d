"""What sources, engines and numerical passes agree on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Engine", "Partition", "Progress", "Source"]

R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Called on the driver as ``progress(done, total)``, in partitions, after every merge."""


class Partition(Protocol):
    """Says where some of the rows are, and holds none of them: small and picklable."""

    @property
    def place(self) -> str:
        """Where the rows are, for messages: ``"part-3.parquet, row group 731"``."""
        ...

    @property
    def rows(self) -> int | None:
        """Number of rows, if it is known without reading them."""
        ...

    def load(self, columns: Sequence[str]) -> pyarrow.Table:
        """Read exactly these columns, in this order.

        Text comes as dictionary arrays; partitions, and chunks of one partition, may have different dictionaries.

        Raises
        ------
        fairmargin.exceptions.DataFileError
            If a file changed since the source was opened.
        """
        ...


class Source(Protocol):
    """A table in partitions."""

    @property
    def partitions(self) -> Sequence[Partition]:
        """The partitions, in the order in which results are merged."""
        ...

    @property
    def schema(self) -> pyarrow.Schema:
        """Names and types of the columns that can be loaded."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies the content, from the footers of Parquet files; empty where there is none."""
        ...


class Engine(Protocol):
    """Runs a function on every partition, on threads of this computer or on the workers of a cluster."""

    def reduce(
        self,
        function: Callable[[Partition], R],
        partitions: Sequence[Partition],
        merge: Callable[[R, R], R],
        *,
        progress: Progress | None = None,
    ) -> R:
        """Return ``merge(... merge(merge(r0, r1), r2) ..., rn)`` with ``ri = function(partitions[i])``.

        Results are merged in partition order whatever the number of workers, and whichever of them were lost and
        replaced, so that sums of floating-point numbers are identical to the last bit. They are merged as soon as
        their turn comes: the driver holds as many as the workers have in hand, not as many as there are partitions.

        Parameters
        ----------
        function : callable
            Small and picklable; what it captures travels with every task. Runs with one BLAS thread.
        partitions : sequence of Partition
            At least one.
        merge : callable
            Called on the driver; may change and return its first argument.
        progress : callable, optional
            Called on the driver as ``progress(done, total)``.

        Raises
        ------
        fairmargin.exceptions.EngineError
            If the workers cannot be reached, cannot run the function or ran out of memory. An error that `function`
            raises is raised as it is, the one of the first partition if there are several.
        """
        ...

    def close(self) -> None:
        """Release what the engine started itself; clients and sessions that were handed over stay open."""
        ...
