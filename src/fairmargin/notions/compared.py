"""Sensitive columns under a notion of fairness: what the rows of a covariance constraint are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.notions.base import Condition, Notion
from fairmargin.sensitive import Attribute, Sensitive, centre, label_index
from fairmargin.strata import within_strata

__all__ = ["Compared", "compare"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Compared:
    """K sensitive columns under each of J conditions: J K columns, condition after condition.

    Parameters
    ----------
    sensitive : Sensitive
    conditions : tuple of Condition
    weight : (N,)
        Weights of the people.
    """

    sensitive: Sensitive
    conditions: tuple[Condition, ...]
    weight: Array

    @cached_property
    def members(self) -> Array:
        """``1{i in S_j} z_ik``, shape (N, J K)."""
        columns = self.sensitive.columns()
        return np.hstack([np.where(c.counts[:, None], columns, 0.0) for c in self.conditions])

    @cached_property
    def deviations(self) -> Array:
        """``sign_ij 1{i in S_j} (z_ik - zbar_k^S_j)``, shape (N, J K): what a price on a rate is charged for."""
        columns = self.sensitive.columns()
        return np.hstack([self._deviation(columns, c) for c in self.conditions])

    def _deviation(self, columns: Array, condition: Condition) -> Array:
        if np.all(condition.counts):
            columns = np.ascontiguousarray(columns)  # so that rounding does not depend on who made them
            return centre(columns, self.weight) * condition.sign[:, None]
        chosen = np.flatnonzero(condition.counts)
        found = np.zeros_like(columns)
        found[chosen] = centre(columns[chosen], self.weight[chosen]) * condition.sign[chosen, None]
        return found

    @cached_property
    def centred(self) -> Array:
        """:attr:`deviations` times ``W / W_S``, with W the weight of all and W_S that of those who count.

        The factor makes the covariance over everybody the covariance among the people who count.
        """
        share = [self.weight[c.counts].sum() / self.weight.sum() for c in self.conditions]
        return self.deviations / np.repeat(share, len(self.sensitive.labels))

    @property
    def labels(self) -> list[tuple[Any, ...]]:
        """(attribute, category) of each column and, if there are several, its condition."""
        if len(self.conditions) == 1:
            return list(self.sensitive.labels)
        return [(*label, c.name) for c in self.conditions for label in self.sensitive.labels]

    @property
    def names(self) -> list[str]:
        """The same as text: ``"sex=Female"``, ``"sex=Female | y=+1"``."""
        return [f"{name}={category}" + "".join(f" | {c}" for c in more) for name, category, *more in self.labels]

    @cached_property
    def index(self) -> pd.MultiIndex:
        """The labels as a pandas index; its third level, ``among``, is there for several conditions only."""
        return label_index(self.labels)

    def series(self, values: Array, name: str) -> pd.Series:
        """Return one number per column, indexed by attribute, category and, if there are several, condition."""
        return pd.Series(np.asarray(values, dtype=float), index=self.index, name=name)

    def repeated(self, values: Array) -> Array:
        """Return one number per sensitive column, (K,), for every condition: (J K,)."""
        return np.tile(values, len(self.conditions))


def compare(
    sensitive: Sensitive, notion: Notion, y: Array, weight: Array, strata: Attribute | None = None
) -> Compared:
    """Return sensitive columns under a notion, within strata if there are any; raise where a cell is empty.

    Parameters
    ----------
    sensitive : Sensitive
    notion : Notion
    y : (N,)
        Labels in {-1, +1}.
    weight : (N,)
    strata : Attribute, optional
        With groups, within each of which rates are compared.
    """
    conditions = notion.conditions(y)
    check_cells(sensitive, conditions, notion)
    if strata is not None:
        conditions = within_strata(conditions, strata, sensitive, notion.name)
    return Compared(sensitive, conditions, weight)


def check_cells(sensitive: Sensitive, conditions: Sequence[Condition], notion: Notion) -> None:
    """Raise where a group has nobody who counts, and name the cells."""
    empty = [
        f"{a.name}={category!r} among {c.people}"
        for a in sensitive.attributes
        for c in conditions
        for category in empty_groups(a, c)
    ]
    if empty:
        raise ValueError(
            f"The notion {notion.name!r} compares groups among {notion.people}, but nobody is in {'; '.join(empty)}. "
            "Merge groups, or compare selection rates."
        )


def empty_groups(attribute: Attribute, condition: Condition) -> list[Any]:
    """Return the groups of an attribute without anybody who counts; of a numeric one, a word if it is constant."""
    if attribute.is_numeric:
        values = attribute.columns()[condition.counts]
        return [] if len(values) and np.any(np.ptp(values, axis=0)) else ["more than one value"]
    sizes = attribute.group_sizes(condition.counts)
    return [c for c, size in zip(attribute.categories, sizes, strict=True) if size <= 0]
