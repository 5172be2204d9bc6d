"""Linear functionals of the predictions: the common form of covariances, group means and mean residuals.

Each is ``(1/S) sum_i s_i u_ik f(x_i)`` with one column ``u_k`` per functional: ``z - zbar`` for a covariance, a
group's indicator over its share for the mean of that group, and the difference of two of these for a difference of
means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.constraints import CovarianceBound
from fairmargin.notions import Compared
from fairmargin.regression.bounds import CalibrationBound, GroupMeansBound
from fairmargin.sensitive import Attribute

__all__ = ["Cell", "Functionals", "bounded_by", "find_cells", "stack"]

Array = NDArray[np.float64]

_MOST_GROUPS = 32  # whose means are compared in pairs: 496 rows
_LEVELS = ["quantity", "attribute", "category"]


@dataclass(frozen=True)
class Functionals:
    """K bounded functionals: ``|(1/S) sum_i s_i u_ik f(x_i) - middle_k| <= bound_k``.

    Attributes
    ----------
    labels : list of (quantity, attribute, category)
    columns : (N, K)
        ``u``.
    middle, bound : (K,)
        In the units of the target.
    relative : (K,) of bool
        Whether the bound is a share of the unconstrained value.
    """

    labels: list[tuple[str, str, Any]]
    columns: Array
    middle: Array
    bound: Array
    relative: NDArray[np.bool_]

    def series(self, values: Array, name: str) -> pd.Series:
        """Return one number per functional, indexed by quantity, attribute and category."""
        return pd.Series(
            np.asarray(values, dtype=float), index=pd.MultiIndex.from_tuples(self.labels, names=_LEVELS), name=name
        )


@dataclass(frozen=True)
class Cell:
    """The people of one group, within one stratum where there are strata: their share of everybody and their mean.

    ``column`` (N,) is such that ``(1/S) sum_i s_i column_i f_i`` is the mean of ``f`` over the cell.
    """

    attribute: str
    category: Any
    among: str
    column: Array

    def mean(self, values: Array, weight: Array) -> float:
        """Return the mean of values (N,) over the cell."""
        return float(self.column @ (weight * values)) / float(weight.sum())


def find_cells(compared: Compared, attribute: Attribute) -> Iterator[list[Cell]]:
    """Yield the cells of an attribute with anybody in them, stratum by stratum."""
    for condition in compared.conditions:
        weight = np.where(condition.counts, compared.weight, 0.0)
        sizes = attribute.group_weights(weight)
        members = _members(attribute) * condition.counts[:, None]
        share = sizes / compared.weight.sum()
        yield [
            Cell(attribute.name, category, condition.name, members[:, k] / share[k])
            for k, category in enumerate(attribute.categories)
            if share[k] > 0
        ]


def _members(attribute: Attribute) -> Array:
    """Return who is in which group, (N, G); as probabilities if groups are only known as such."""
    if attribute.probabilities is not None:
        return attribute.probabilities
    assert attribute.codes is not None
    return (attribute.codes[:, None] == np.arange(len(attribute.categories))).astype(float)


@singledispatch
def bounded_by(constraint: Any, compared: Compared, target: Array) -> Functionals:
    """Return the functionals that a constraint bounds; ``target`` (N,) is in the units of the bounds."""
    raise ValueError(
        "constraint must be None, CovarianceBound, GroupMeansBound, CalibrationBound, a list of these, or LossBound, "
        f"got {constraint!r}."
    )


@bounded_by.register
def covariances_bounded(constraint: CovarianceBound, compared: Compared, target: Array) -> Functionals:
    """Return the covariances of predictions with the sensitive columns."""
    bound = compared.repeated(constraint.thresholds(compared.sensitive))
    labels = [("covariance", name, _among(category, *more)) for name, category, *more in compared.labels]
    K = len(labels)
    return Functionals(labels, compared.centred, np.zeros(K), bound, np.full(K, bool(constraint.relative)))


@bounded_by.register
def group_means_bounded(constraint: GroupMeansBound, compared: Compared, target: Array) -> Functionals:
    """Return the differences of mean predictions between groups."""
    found: list[tuple[Cell, Cell, float]] = []
    for attribute, bound in constraint.bounds(compared.sensitive):
        if len(attribute.categories) > _MOST_GROUPS:
            raise ValueError(
                f"The sensitive attribute {attribute.name!r} has {len(attribute.categories)} groups; GroupMeansBound "
                f"compares at most {_MOST_GROUPS} in pairs. Merge groups, or use CovarianceBound."
            )
        for cells in find_cells(compared, attribute):
            found += [(h, g, bound) for g, h in combinations(cells, 2)]
    labels = [
        ("difference of means", h.attribute, _among(f"{h.category} - {g.category}", h.among)) for h, g, _ in found
    ]
    columns = [h.column - g.column for h, g, _ in found]
    return _absolute(labels, columns, [0.0] * len(found), [bound for *_, bound in found], len(target))


@bounded_by.register
def residuals_bounded(constraint: CalibrationBound, compared: Compared, target: Array) -> Functionals:
    """Return the mean residuals of groups."""
    found = [
        (cell, bound)
        for attribute, bound in constraint.bounds(compared.sensitive)
        for cells in find_cells(compared, attribute)
        for cell in cells
    ]
    labels = [("mean residual", cell.attribute, _among(cell.category, cell.among)) for cell, _ in found]
    middle = [cell.mean(target, compared.weight) for cell, _ in found]
    return _absolute(labels, [cell.column for cell, _ in found], middle, [bound for _, bound in found], len(target))


def _absolute(
    labels: list[Any], columns: list[Array], middle: list[float], bound: list[float], n: int
) -> Functionals:
    K = len(labels)
    u = np.column_stack(columns) if K else np.empty((n, 0))
    return Functionals(labels, u, np.array(middle), np.array(bound), np.zeros(K, dtype=bool))


def _among(category: Any, *among: str) -> Any:
    """Return a category, with its stratum where there is one."""
    where = [text for text in among if text]
    return f"{category} | {', '.join(where)}" if where else category


def stack(parts: list[Functionals]) -> Functionals:
    """Return the functionals of several constraints together."""
    if len(parts) == 1:
        return parts[0]
    return Functionals(
        [label for part in parts for label in part.labels],
        np.hstack([part.columns for part in parts]),
        np.concatenate([part.middle for part in parts]),
        np.concatenate([part.bound for part in parts]),
        np.concatenate([part.relative for part in parts]),
    )
