"""Comparing groups within strata: a difference that the strata explain is not one within them.

Within each stratum (a job, a branch, a year) every group is compared with the same people as in the audit, and the
tables of all strata are pooled by Mantel and Haenszel (:func:`fairmargin.odds_statistics.mantel_haenszel`).

Where groups are known as probabilities ``p`` only, expected counts stand for counts. In a stratum of N people let
``r`` be the mean of the decisions ``d``, and ``q`` that of ``p``. The sum of ``p (d - r)`` has two variances:
``r (1 - r) sum (p - q)^2`` by the draw of decisions, and ``r (1 - r) sum p (1 - p)`` by not knowing the group.
Together they are ``r (1 - r) N q (1 - q)``, which is what the pooled test takes from the expected counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.decisions import count_groups
from fairmargin.intersections import cross
from fairmargin.odds_statistics import CommonOdds, mantel_haenszel
from fairmargin.rate_statistics import adjusted
from fairmargin.sensitive import Attribute, encode_groups

__all__ = ["StratifiedGroup", "stratify"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StratifiedGroup:
    """One group compared within strata.

    Attributes
    ----------
    attribute, group, reference : str
        The group, and whom it is compared with.
    by : tuple of str
        The columns that make the strata.
    common : CommonOdds
        What the strata say together.
    p_adjusted : float or None
        The p-value corrected for all groups that are judged.
    too_few : bool
        Whether there are too few people on a side to conclude anything.
    """

    attribute: str
    group: str
    reference: str
    by: tuple[str, ...]
    common: CommonOdds
    p_adjusted: float | None = None
    too_few: bool = False


def stratify(
    attributes: Sequence[tuple[Attribute, int | None, str]],
    positive: NDArray[np.bool_],
    strata: Any,
    *,
    counts: NDArray[np.int64] | None = None,
    confidence: float = 0.95,
    min_people: int = 30,
    correction: str = "holm",
) -> list[StratifiedGroup]:
    """Return every group but the reference groups, compared within strata.

    Parameters
    ----------
    attributes : list of (Attribute, int or None, str)
        Each with the index of its reference group (None for everybody else) and the name of the people compared with.
    positive : bool array of shape (n,)
    strata : array, series or frame of shape (n,) or (n, k)
        Values that make strata; several columns make one per combination.
    counts : array of shape (n,), optional
        How many people each row stands for.
    confidence, min_people, correction
        As in :func:`fairmargin.audit.audit`.
    """
    columns = encode_groups(strata, len(positive), "strata", many=True)
    names = tuple(column.name for column in columns)
    stratum = cross(columns)
    rows = []
    for attribute, base, reference in attributes:
        people, positives = _cells(stratum, attribute, positive, counts)
        for category, tables in _compared_groups(attribute, base, people, positives):
            sizes = [sum(t[side] for t in tables) for side in (1, 3)]
            common = mantel_haenszel(tables, confidence)
            few = min(sizes) < min_people
            rows.append(StratifiedGroup(attribute.name, category, reference, names, common, too_few=few))
    judged = [row.common.p_value for row in rows if row.common.p_value is not None and not row.too_few]
    corrected = iter(adjusted(judged, correction))
    return [
        row if row.common.p_value is None or row.too_few else replace(row, p_adjusted=next(corrected)) for row in rows
    ]


def _compared_groups(
    attribute: Attribute, base: int | None, people: Array, positives: Array
) -> Iterator[tuple[str, list[tuple[float, float, float, float]]]]:
    """Yield every group but the reference group ``base`` (None: everybody else), with its tables by stratum."""
    for index, category in enumerate(attribute.categories):
        if index != base:
            others = np.arange(len(attribute.categories)) != index if base is None else np.array([base])
            tables = _tables(positives[:, index], people[:, index], positives[:, others], people[:, others])
            yield str(category), tables


def _cells(
    stratum: Attribute, attribute: Attribute, positive: NDArray[np.bool_], number: NDArray[np.int64] | None
) -> tuple[Array, Array]:
    """Return (expected) people and positive decisions by stratum and group."""
    each = np.ones(len(positive)) if number is None else number.astype(float)
    if attribute.probabilities is not None:
        shares = each[:, None] * attribute.probabilities
        return _sums(stratum, shares), _sums(stratum, shares * positive[:, None])
    assert stratum.codes is not None
    assert attribute.codes is not None
    shape = len(stratum.categories), len(attribute.categories)
    cells = Attribute("cells", tuple(range(shape[0] * shape[1])), stratum.codes * shape[1] + attribute.codes)
    counts = count_groups(cells, positive, each)
    return counts.weight.reshape(shape), counts.positives.reshape(shape)


def _sums(stratum: Attribute, columns: Array) -> Array:
    """Return the sum of each column over each stratum."""
    return np.array([stratum.group_weights(column) for column in columns.T]).T


def _tables(
    positives: Array, people: Array, positives_of_others: Array, others: Array
) -> list[tuple[float, float, float, float]]:
    sums = positives, people, positives_of_others.sum(axis=1), others.sum(axis=1)
    return [(float(a), float(n), float(c), float(m)) for a, n, c, m in zip(*sums, strict=True)]
