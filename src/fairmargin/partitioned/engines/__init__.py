"""Where partitions are worked on: threads of this computer, Dask workers, Spark executors."""

from __future__ import annotations

import re
import sys
from typing import Any

from fairmargin.exceptions import EngineError
from fairmargin.partitioned.contract import Engine
from fairmargin.partitioned.engines.local import LocalEngine

__all__ = ["LocalEngine", "current_client", "engine_for"]

_PORTS = {"dask": 8786, "spark": 7077}  # of a scheduler or master that was started without naming one


def engine_for(engine: Any = None) -> Engine:
    """Return an engine of what a user may give for one.

    Parameters
    ----------
    engine : str, client, session or engine, optional
        - None or ``"local"``: threads of this computer, one per processor; ``"local[3]"``: three of them;
        - ``"dask://host:port"``, or a `distributed.Client`: workers of a Dask cluster;
        - ``"spark://host:port"``, or a `pyspark.sql.SparkSession`: executors of a Spark cluster;
        - an engine is returned as it is.

    Raises
    ------
    EngineError
        If the text is none of these, or the cluster cannot be used.
    """
    if engine is None:
        return LocalEngine()
    if isinstance(engine, str):
        return _of_text(engine.strip())
    library = _library(engine)
    if library == "distributed":
        from fairmargin.partitioned.engines.dask import DaskEngine

        return DaskEngine(engine)
    if library == "pyspark":
        from fairmargin.partitioned.engines.spark import SparkEngine

        return SparkEngine(engine)
    if callable(getattr(engine, "reduce", None)):
        return engine
    raise EngineError(f"engine must be text, a Dask client or a Spark session, got {type(engine).__name__}.")


def current_client() -> Any:
    """Return the Dask client of this process, None if there is none."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def _library(engine: Any) -> str | None:
    """Return the library that a client or session comes from, without importing one."""
    of_clients = {"Client": "distributed", "SparkSession": "pyspark"}
    for cls in type(engine).__mro__:
        library = of_clients.get(cls.__name__)
        if library is not None and cls.__module__.split(".")[0] == library:
            return library
    return None


def _of_text(text: str) -> Engine:
    threads = re.fullmatch(r"local(?:\[(\d+|\*)\])?", text)
    if threads and threads[1] != "0":
        return LocalEngine(int(threads[1]) if threads[1] not in (None, "*") else None)
    cluster = re.fullmatch(r"(dask|spark)://([^\s/:]+)(?::(\d+))?/?", text)
    if cluster is None:
        raise EngineError(
            f"Unknown engine {text!r}: use local, local[3] for three threads, dask://host:port (8786 by default) or "
            "spark://host:port (7077)."
        )
    address = f"{cluster[2]}:{cluster[3] or _PORTS[cluster[1]]}"
    if cluster[1] == "dask":
        from fairmargin.partitioned.engines import dask

        return dask.DaskEngine(dask.connect(address), owned=True)
    from fairmargin.partitioned.engines import spark

    return spark.connect(address)
