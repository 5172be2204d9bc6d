"""Summaries as plain data: texts, finite numbers, lists and dicts, nothing else."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["plain", "to_json", "versions"]


def to_json(summary: Mapping[str, Any]) -> str:
    """Return a summary as JSON text."""
    return json.dumps(plain(summary), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def plain(value: Any) -> Any:
    """Return ``value`` as plain data: numpy and pandas scalars as numbers, nan and infinity as None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Sequence):
        return [plain(v) for v in value]
    return str(value)


def versions() -> dict[str, str]:
    """Return what the numbers were made with."""
    import scipy
    import sklearn

    import fairmargin

    return {
        "fairmargin": fairmargin.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "pandas": pd.__version__,
        "platform": f"{platform.system()} {platform.machine()} ({sys.byteorder}-endian)",
    }
