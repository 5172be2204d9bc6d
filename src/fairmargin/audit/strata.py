"""Comparing groups within strata: a difference that the strata explain is not one within them.

Within each stratum (a job, a branch, a year) every group is compared with the same people as in the audit, and the
tables of all strata are pooled by Mantel and Haenszel (:func:`fairmargin.odds_statistics.mantel_haenszel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.decisions import count_groups
from fairmargin.intersections import cross
from fairmargin.odds_statistics import CommonOdds, TwoByTwo, mantel_haenszel
from fairmargin.rate_statistics import adjusted
from fairmargin.sensitive import Attribute, encode_sensitive

__all__ = ["StratifiedGroup", "stratify"]


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
    columns = encode_sensitive(strata, len(positive), groups=False).attributes
    for column in columns:
        if column.is_numeric:
            raise ValueError(f"The strata {column.name!r} are numbers of many values; cut them into classes first.")
    names = tuple(column.name for column in columns)
    stratum = cross(columns)
    rows = []
    for attribute, base, reference in attributes:
        people, positives = _cells(stratum, attribute, positive, counts)
        for index, category in enumerate(attribute.categories):
            if index == base:
                continue
            others = np.arange(len(attribute.categories)) != index if base is None else np.array([base])
            tables = _tables(positives[:, index], people[:, index], positives[:, others], people[:, others])
            sizes = [sum(t[side] for t in tables) for side in (1, 3)]
            common = mantel_haenszel(tables, confidence)
            few = min(sizes) < min_people
            rows.append(StratifiedGroup(attribute.name, str(category), reference, names, common, too_few=few))
    judged = [row.common.p_value for row in rows if row.common.p_value is not None and not row.too_few]
    corrected = iter(adjusted(judged, correction))
    return [
        row if row.common.p_value is None or row.too_few else replace(row, p_adjusted=next(corrected)) for row in rows
    ]


def _cells(
    stratum: Attribute, attribute: Attribute, positive: NDArray[np.bool_], number: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return people and positive decisions by stratum and group."""
    assert stratum.codes is not None
    assert attribute.codes is not None
    shape = len(stratum.categories), len(attribute.categories)
    cells = Attribute("cells", tuple(range(shape[0] * shape[1])), stratum.codes * shape[1] + attribute.codes)
    counts = count_groups(cells, positive, None if number is None else number.astype(float))
    return counts.weight.astype(np.int64).reshape(shape), counts.positives.astype(np.int64).reshape(shape)


def _tables(positives: Any, people: Any, positives_of_others: Any, others: Any) -> list[TwoByTwo]:
    sums = positives, people, positives_of_others.sum(axis=1), others.sum(axis=1)
    return [(int(a), int(n), int(c), int(m)) for a, n, c, m in zip(*sums, strict=True)]
