"""One BLAS thread while partitions are worked on."""

from __future__ import annotations

import functools
import sys
import threading
from types import TracebackType
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


@functools.lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """Return the BLAS libraries of this process, looked for again once more modules are imported.

    Looking for them takes milliseconds, too long for every task.
    """
    return ThreadpoolController()


class _OneBlasThread:
    """Context manager that several threads may be in at once.

    BLAS has one number of threads per process. Whoever enters first sets it to one, whoever leaves last restores it:
    entered thread by thread, one would restore what another still needs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limits = _libraries(len(sys.modules)).limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._limits is not None:
                self._limits.restore_original_limits()
                self._limits = None


one_blas_thread = _OneBlasThread()
