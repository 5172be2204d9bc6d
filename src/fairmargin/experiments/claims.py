"""Claims: what the paper says, what was measured, and whether that agrees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["HOLDS", "IN_PART", "NOT", "Claim", "at_level", "claims_frame", "falls", "listed", "rises", "verdict"]

HOLDS, IN_PART, NOT = "holds", "holds in part", "does not hold"


@dataclass(frozen=True)
class Claim:
    """One claim of the paper. ``number`` follows its order there; ``why`` explains why it does not hold."""

    number: int
    where: str
    says: str
    measured: str
    verdict: str
    why: str = ""


def verdict(parts: Iterable[Any]) -> str:
    """Return whether all, some or none of the parts of a claim hold."""
    parts = [bool(part) for part in parts]
    return HOLDS if all(parts) else IN_PART if any(parts) else NOT


def claims_frame(claims: Sequence[Claim]) -> pd.DataFrame:
    """Return claims as a table, in the order of the paper."""
    columns = ["number", "where", "says", "measured", "verdict", "why"]
    ordered = sorted(claims, key=lambda claim: claim.number)
    return pd.DataFrame([[getattr(claim, c) for c in columns] for claim in ordered], columns=columns)


def at_level(curve: pd.DataFrame, level: float, *, x: str, y: str) -> float:
    """Return y where a curve first reaches ``x = level``, by linear interpolation; nan where it does not."""
    reached = np.flatnonzero(curve[x].to_numpy() >= level)
    if len(reached) == 0:
        return float("nan")
    i = int(reached[0])
    if i == 0:
        return float(curve[y].iloc[0])
    (x0, x1), (y0, y1) = curve[x].iloc[[i - 1, i]], curve[y].iloc[[i - 1, i]]
    return float(y0 + (y1 - y0) * (level - x0) / (x1 - x0))


def rises(values: Any, slack: float = 0.0) -> bool:
    """Whether numbers never fall below the highest so far, by more than ``slack``, and end above their first."""
    array = np.asarray(values, dtype=float)
    return bool(np.all(array >= np.maximum.accumulate(array) - slack) and array[-1] > array[0])


def falls(values: Any, slack: float = 0.0) -> bool:
    """Whether numbers never rise above the lowest so far, by more than ``slack``, and end below their first."""
    return rises(-np.asarray(values, dtype=float), slack)


def listed(items: Iterable[str]) -> str:
    """Join with semicolons."""
    return "; ".join(items)
