"""Exact counts of decisions by group, from people counted by label, group and bin of the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.decisions import GroupCounts, rates_by_group
from fairmargin.notions import Condition, get_notion
from fairmargin.partitioned.prepare import Census

__all__ = ["Counted", "accepted_weight", "at_cut", "count_decisions", "training_rates"]

Array = NDArray[np.float64]
Counted = Sequence[tuple[NDArray[np.int64], Array]]
"""For each attribute: people and weight by class, group and bin of the score, (2, number of groups, b + 1)."""


def accepted_weight(weight: Array) -> Array:
    """Return the weight at or above every edge, (..., b), from that in the bins, (..., b + 1)."""
    return np.cumsum(weight[..., ::-1], axis=-1)[..., ::-1][..., 1:].astype(float)


def count_decisions(
    census: Census,
    found: Counted,
    conditions: Sequence[Condition],
    min_people: int,
) -> list[GroupCounts]:
    """Return the counts of every attribute of groups under each condition, for all cuts at once.

    Parameters
    ----------
    census : Census
    found : Counted
        As :meth:`fairmargin.partitioned.passes.Passes.rates` returns them for one point.
    conditions : sequence of Condition
        Of two people, one of each class: negative first.
    min_people : int
    """
    assert census.of_values is not None
    by_name = {a.name: a for a in census.of_values.attributes}
    counts: list[GroupCounts] = []
    for (people, weight), (name, _) in zip(found, census.groups, strict=False):  # without groups: one of everybody
        if by_name[name].codes is not None:
            counts += [_compare(people, weight, by_name[name], condition, min_people) for condition in conditions]
    return counts


def training_rates(census: Census, found: Counted) -> pd.Series | None:
    """Return the positive rates of all groups, from people counted at one cut; None where nothing has groups."""
    everybody = get_notion("selection_rate").conditions(np.array([-1.0, 1.0]))
    counts = count_decisions(census, found, everybody, 1)
    return rates_by_group([at_cut(c) for c in counts])


def at_cut(counts: GroupCounts) -> GroupCounts:
    """Return what was counted at the first cut."""
    return replace(counts, positives=counts.positives[:, 0])


def _compare(
    people: NDArray[np.int64], weight: Array, attribute: Any, condition: Condition, min_people: int
) -> GroupCounts:
    order = np.argsort(attribute.codes)
    counted = np.flatnonzero(condition.counts)
    above = accepted_weight(weight)
    events = np.where((condition.sign > 0)[:, None, None], above, weight.sum(axis=2, keepdims=True) - above)
    return GroupCounts(
        attribute.name,
        tuple(attribute.categories),
        people[counted].sum(axis=(0, 2))[order],
        weight[counted].sum(axis=(0, 2))[order],
        events[counted].sum(axis=0)[order],
        min_people,
        condition.name,
    )
