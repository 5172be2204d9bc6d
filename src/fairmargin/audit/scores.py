"""Scores by group: who is above the median, means in standard deviations, how well scores rank, and every cut.

A decision is one cut on a score. These numbers say how groups lie on the score itself, whatever the cut. Where groups
are known as probabilities only, a person counts in each by the probability of it, and numbers of people are expected
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fairmargin.audit.comparison import CountedSides
from fairmargin.sensitive import Attribute

__all__ = [
    "QUANTILES",
    "QuantileCut",
    "ScoredGroup",
    "by_quantile",
    "check_scores",
    "score_groups",
    "weighted_quantile",
]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
QUANTILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class ScoredGroup:
    """The scores of one group.

    Attributes
    ----------
    attribute, group : str
    people : int
    mean : float
        Mean score.
    smd : float or None
        Standardised mean difference: mean less that of the people compared with, over the standard deviation of
        everybody's scores; None for the reference group and where all scores are equal.
    auc : float or None
        Area under the ROC curve among the people of the group with a label; None without both labels.
    """

    attribute: str
    group: str
    people: int
    mean: float
    smd: float | None = None
    auc: float | None = None


@dataclass(frozen=True)
class QuantileCut:
    """What accepting everybody above a quantile of the scores would do to one group.

    Attributes
    ----------
    attribute, group : str
    quantile, cut : float
        The quantile, and the score there.
    people, accepted : int
        People of the group, and those of them with a score above the cut.
    ratio : float or None
        Their rate in percent of that of the people compared with (adverse impact ratio); None if it is 0/0 or
        infinite, and for the reference group.
    smd : float or None
        Standardised mean difference of the scores among those above the cut.
    """

    attribute: str
    group: str
    quantile: float
    cut: float
    people: int
    accepted: int
    ratio: float | None = None
    smd: float | None = None


def check_scores(scores: Any, n: int) -> Array:
    """Return scores as numbers; raise unless they are ``n`` finite ones."""
    values = np.asarray(scores, dtype=float).ravel()
    if len(values) != n:
        raise ValueError(f"There are {len(values):,} scores for {n:,} decisions.")
    if not np.all(np.isfinite(values)):
        raise ValueError("scores has nan or infinite values.")
    return values


def weighted_quantile(values: Array, share: float, weight: Array | None = None) -> float:
    """Return the value with ``share`` of the weight below it, half-way between two where it falls between them.

    Without weights the quantile of 0.5 is the median.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    below = np.cumsum(np.ones(len(values)) if weight is None else weight[order])
    target = share * below[-1]
    slack = 1e-12 * below[-1]  # rounding of the sums
    first = int(np.searchsorted(below, target - slack))
    last = int(np.searchsorted(below, target + slack, side="right"))
    return float(0.5 * (ordered[min(first, len(values) - 1)] + ordered[min(last, len(values) - 1)]))


def score_groups(
    attributes: Sequence[tuple[Attribute, int | None]],
    scores: Array,
    weight: Array | None = None,
    label: Mask | None = None,
    known: Mask | None = None,
) -> list[ScoredGroup]:
    """Return means, standardised differences and, with labels, the AUC of every group that has people.

    Parameters
    ----------
    attributes : list of (Attribute, int or None)
        Each with the index of its reference group, None where groups are compared with everybody else.
    scores : array of shape (n,)
    weight : array of shape (n,), optional
    label, known : bool arrays of shape (n,), optional
        Favourable labels, and whose label is known.
    """
    counted = np.ones(len(scores)) if weight is None else weight
    spread = _deviation(scores, counted)
    rows = []
    for attribute, base in attributes:
        for index, category in enumerate(attribute.categories):
            inside, others = _sides(attribute, index, base)
            if not inside.any():
                continue
            mean = _mean(scores, counted * inside)
            smd = None if others is None else _smd(scores, counted * inside, counted * others, spread)
            auc = None if label is None or known is None else _auc(scores, counted * inside * known, label)
            rows.append(ScoredGroup(attribute.name, str(category), round(float(inside.sum())), mean, smd, auc))
    return rows


def by_quantile(
    attributes: Sequence[tuple[Attribute, int | None]],
    scores: Array,
    weight: Array | None = None,
    quantiles: Sequence[float] = QUANTILES,
) -> list[QuantileCut]:
    """Return, for every quantile and group, what accepting the scores above it would do; parameters as above."""
    counted = np.ones(len(scores)) if weight is None else weight
    spread = _deviation(scores, counted)
    rows = []
    for attribute, base in attributes:
        for share in quantiles:
            cut = weighted_quantile(scores, share, weight)
            above = scores > cut
            sides = CountedSides.of(attribute, above, weight)
            for index, category in enumerate(attribute.categories):
                side = sides.group(index)
                if side is None:
                    continue
                inside, others = _sides(attribute, index, base)
                row = QuantileCut(attribute.name, str(category), share, cut, side.people, side.positives)
                other = None if others is None else sides.rest(index) if base is None else sides.group(base)
                if other is not None and others is not None:
                    ratio = 100.0 * side.rate / other.rate if other.rate > 0 else None
                    smd = _smd(scores, counted * inside * above, counted * others * above, spread)
                    row = replace(row, ratio=ratio, smd=smd)
                rows.append(row)
    return rows


def _sides(attribute: Attribute, index: int, base: int | None) -> tuple[Array, Array | None]:
    """Return who is in a group, as shares of each person, and whom it is compared with; None for the reference."""
    members = attribute.members()
    inside = members[:, index]
    if index == base:
        return inside, None
    return inside, 1.0 - inside if base is None else members[:, base]


def _mean(scores: Array, weight: Array) -> float:
    chosen = weight > 0.0
    return float(np.average(scores[chosen], weights=weight[chosen]))


def _deviation(scores: Array, weight: Array) -> float:
    size = float(np.abs(scores).max(initial=0.0)) or 1.0  # squares of huge scores are beyond the range of numbers
    scaled = scores / size
    mean = np.average(scaled, weights=weight)
    return size * float(np.sqrt(np.average((scaled - mean) ** 2, weights=weight)))


def _smd(scores: Array, inside: Array, others: Array, spread: float) -> float | None:
    if not inside.any() or not others.any() or spread == 0.0:
        return None
    return (_mean(scores, inside) - _mean(scores, others)) / spread


def _auc(scores: Array, weight: Array, label: Mask) -> float | None:
    among = weight > 0.0
    if len(np.unique(label[among])) < 2:
        return None
    return float(roc_auc_score(label[among], scores[among], sample_weight=weight[among]))
