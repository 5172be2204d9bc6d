"""Whether a constraint on the covariance changed the decisions, too.

A covariance can fall without any decision changing: through a handful of people with extreme scores (a rare category
with a very large coefficient), or through people far from the boundary, where the loss is flat. Two numbers show it:
how concentrated the change of the covariance is, and by how much the disparity of the decisions fell with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.caller import warn
from fairmargin.exceptions import CovarianceWarning, TrivialClassifierWarning

__all__ = [
    "CovarianceWarning",
    "Deviations",
    "Movement",
    "find_bought",
    "measure_movement",
    "warn_if_bought",
    "warn_if_constant",
    "warn_if_flat",
    "warn_if_useless",
]

Array = NDArray[np.float64]

_TOP = 0.01  # share of people whose part in the change is measured
_CUT = 0.5  # a covariance counts as cut when less than half of it is left
_FOLLOWED = 0.3  # and the decisions as following when at least this share of their disparity went too

_FLAT = 0.01  # share of the spread of unconstrained predictions below which predictions tell nobody apart
_WORSE = 0.01  # share by which the loss of a useless regressor exceeds that of a constant one
_MATTERS = 0.1  # correlation with the decisions from which on a disparity is more than chance


@dataclass(frozen=True)
class Movement:
    """How a constraint changed scores and decisions, one number per sensitive column.

    Attributes
    ----------
    concentration : (K,)
        Share of the total (absolute) change of covariance that the 1% of people with the largest changes
        carry; about 0.05 when everybody's score moves, near 1 when a few scores run away.
    covariance_cut : (K,)
        ``1 - |cov| / |cov*|``: by which share the unconstrained covariance fell.
    decision_cut : (K,)
        The same for the covariance with the decisions ``f(x) >= 0`` in place of the scores.
    disparity_left : (K,)
        Absolute correlation of the column with the decisions under the constraint.
    decisions_changed : float
        Share of people whose decision differs from the unconstrained classifier's.
    """

    concentration: Array
    covariance_cut: Array
    decision_cut: Array
    disparity_left: Array
    decisions_changed: float


@dataclass(frozen=True)
class Deviations:
    """Sensitive columns less their means, and what covariances with them are sums of.

    Parameters
    ----------
    centred : (N, K)
    people_weight : (N,)
    """

    centred: Array
    people_weight: Array

    @cached_property
    def share(self) -> Array:
        """The weights of the people, which add up to 1, (N,)."""
        return self.people_weight / self.people_weight.sum()

    @cached_property
    def weighted(self) -> Array:
        """The deviations times the people's shares, (K, N)."""
        return np.ascontiguousarray(self.centred.T) * self.share

    @cached_property
    def sizes(self) -> Array:
        """Their absolute values, (K, N)."""
        return np.abs(self.weighted)

    @cached_property
    def variance(self) -> Array:
        """Variances of the columns, (K,)."""
        return np.einsum("ki,ik->k", self.weighted, self.centred)

    def covariance(self, values: NDArray[Any]) -> Array:
        """Return the covariances of the columns with values (N,), (K,)."""
        return self.weighted @ values


def measure_movement(
    columns: Deviations,
    before: Array,
    after: Array,
    decided: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
) -> Movement:
    """Compare scores ``before`` (unconstrained) and ``after``, shape (N,).

    ``decided`` are the positive decisions before and after, where they are not those of scores from 0 on.
    """
    moved = after - before
    moved = columns.sizes * np.abs(moved, out=moved)
    top = max(1, int(np.ceil(_TOP * len(before))))
    total = moved.sum(axis=1)
    moved.partition(len(before) - top, axis=1)
    largest = moved[:, len(before) - top :].sum(axis=1)
    concentration = np.divide(largest, total, out=np.zeros_like(total), where=total > 0)
    accepted, accept = (before >= 0, after >= 0) if decided is None else decided
    covariance = columns.covariance(accept - 0.5)  # of decisions; the middle matters where wrong ones are counted
    return Movement(
        concentration,
        _cut(columns.covariance(before), columns.covariance(after)),
        _cut(columns.covariance(accepted - 0.5), covariance),
        _correlation(columns.variance, float(columns.share @ accept), covariance),
        float(columns.share @ (accept != accepted)),
    )


def _correlation(variance: Array, rate: float, covariance: Array) -> Array:
    spread = np.sqrt(variance * max(rate * (1.0 - rate), 0.0))
    return np.divide(np.abs(covariance), spread, out=np.zeros_like(covariance), where=spread > 0)


def _cut(before: Array, after: Array) -> Array:
    return 1.0 - np.divide(np.abs(after), np.abs(before), out=np.ones_like(before), where=before != 0)


def warn_if_constant(before: Array, after: Array) -> None:
    """Warn if the scores ``after`` decide the same for everybody and those ``before``, unconstrained, do not."""
    accepted = after >= 0
    if accepted.all() == accepted.any() and (before >= 0).all() != (before >= 0).any():
        warn(
            f"Under the constraint the classifier {'accepts' if accepted[0] else 'refuses'} everybody, which the "
            "unconstrained one does not. Allow a larger bound, merge small groups, or add features.",
            TrivialClassifierWarning,
        )


def warn_if_flat(before: Array, after: Array) -> None:
    """Warn if predictions ``after`` hardly differ between people and those ``before``, unconstrained, do."""
    spread = float(np.std(before))
    if spread > 0.0 and float(np.std(after)) < _FLAT * spread:
        warn(
            "Under the constraint the regressor predicts nearly the same for everybody, which the unconstrained one "
            "does not. Allow a larger bound, merge small groups, or add features.",
            TrivialClassifierWarning,
        )


def warn_if_useless(loss: float, of_constant: float, constant: float) -> None:
    """Warn if the loss on the people trained on is clearly above that of one prediction, ``constant``."""
    if loss > (1.0 + _WORSE) * of_constant:
        times = f" (losses add up to {loss / of_constant:.3g} times as much)" if of_constant > 0 else ""
        warn(
            f"Under the constraint the regressor does worse on the people trained on than predicting {constant:.3g} "
            f"for everybody{times}: the features hardly tell apart the groups whose mean residuals are bounded. "
            "Allow a larger bound, bound fewer groups, or add features.",
            TrivialClassifierWarning,
        )


def find_bought(movement: Movement) -> NDArray[np.bool_]:
    """Return the columns whose covariance fell while a considerable disparity of the decisions remained."""
    bought = (movement.covariance_cut >= _CUT) & (movement.decision_cut < _FOLLOWED * movement.covariance_cut)
    return bought & (movement.disparity_left >= _MATTERS)


def warn_if_bought(movement: Movement, labels: list[tuple[Any, ...]], *, has_rule: bool = False) -> None:
    """Warn of every column whose covariance fell while a considerable disparity of the decisions remained.

    ``has_rule`` says that a p%-rule was asked for already, which is not advised then.
    """
    advice = "Lower C, or merge rare categories."
    if not has_rule:
        advice = "Lower C, merge rare categories, or ask for the decisions themselves with PRuleBound."
    for k in np.flatnonzero(find_bought(movement)):
        name, *category = labels[k]
        where = ", ".join([repr(category[0]), *map(str, category[1:])])
        warn(
            f"The covariance with {name!r} ({where}) was cut by {movement.covariance_cut[k]:.0%}, but the "
            f"disparity of the decisions only by {max(movement.decision_cut[k], 0.0):.0%}: 1% of the people "
            f"carry {movement.concentration[k]:.0%} of the change. {advice}",
            CovarianceWarning,
        )
