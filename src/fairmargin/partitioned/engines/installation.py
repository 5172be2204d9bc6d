"""Whether workers can run this package."""

from __future__ import annotations

from collections.abc import Iterable

import fairmargin
from fairmargin.exceptions import EngineError

__all__ = ["VERSION_ON_WORKER", "check_versions", "missing_package"]

# Evaluated by workers that may not have this package: a function of ours could not even be sent to them.
VERSION_ON_WORKER = "__import__('fairmargin').__version__"


def missing_package(extra: str, where: str) -> EngineError:
    """Return the error for workers that cannot import the package."""
    return EngineError(
        f"{where} cannot import fairmargin: install it on every worker, with "
        f'pip install "fairmargin[{extra}]=={fairmargin.__version__}".'
    )


def check_versions(versions: Iterable[tuple[str, str]], extra: str) -> None:
    """Raise if a worker has another version of the package: results could differ between workers."""
    for worker, version in versions:
        if version != fairmargin.__version__:
            raise EngineError(
                f"{worker} has fairmargin {version}, this process {fairmargin.__version__}: install the same version "
                f'on every worker, with pip install "fairmargin[{extra}]=={fairmargin.__version__}".'
            )
