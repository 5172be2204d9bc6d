"""What an experiment is: units of work, and what is made of their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fairmargin.experiments._work import Store, Unit
from fairmargin.experiments.claims import Claim

__all__ = ["Experiment", "Output", "Plan", "Results", "collect"]


@dataclass(frozen=True)
class Plan:
    """How much to do: the paper's five splits, or fewer splits and points for a quick look."""

    quick: bool = False

    @property
    def splits(self) -> range:
        """Numbers of the random splits, or of the draws of synthetic data."""
        return range(2 if self.quick else 5)

    def pick(self, quick: Any, full: Any) -> Any:
        """Return one of two."""
        return quick if self.quick else full


class Results:
    """The rows of an experiment's finished units, a table for each kind of unit, with its parameters as columns."""

    def __init__(self, tables: Mapping[str, pd.DataFrame]) -> None:
        self._tables = dict(tables)

    def __getitem__(self, kind: str) -> pd.DataFrame:
        return self._tables[kind]

    def mean(self, kind: str, by: Sequence[str]) -> pd.DataFrame:
        """Return the average over splits, in the order in which the rows were made."""
        table = self._tables[kind].drop(columns=["split"])
        return table.groupby(list(by), sort=False, as_index=False).mean(numeric_only=True)


@dataclass(frozen=True)
class Output:
    """What an experiment shows, by name: figures, numbers for files, tables for the document; and its claims."""

    figures: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    claims: Sequence[Claim] = ()


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper. ``note`` says how it was made, ``title`` what it shows."""

    name: str
    title: str
    note: str
    units: Callable[[Plan], list[Unit]]
    make: Callable[[Results], Output]


def collect(units: Sequence[Unit], store: Store) -> Results:
    """Read the rows of finished units."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for unit in units:
        found = store.read(unit)
        if found is None:
            raise ValueError(f"{unit.title} is not finished.")
        words = {k: v for k, v in unit.parameters.items() if not isinstance(v, list | tuple)}
        rows.setdefault(unit.kind, []).extend({**words, **row} for row in found)
    return Results({kind: pd.DataFrame(found) for kind, found in rows.items()})
