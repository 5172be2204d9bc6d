"""A bound on what may be lost in accuracy, AUC or profit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from fairmargin.constraints.base import Constraint, check_gamma
from fairmargin.notions import Notion, get_notion

__all__ = ["PerformanceBound", "check_gains"]


@dataclass(frozen=True, repr=False)
class PerformanceBound(Constraint):
    """The least covariance found within a bound on accuracy, AUC or profit.

    As :class:`fairmargin.LossBound`, but what may be lost is counted in a measure of the decisions or scores on the
    training data: at most the share ``gamma`` of the unconstrained classifier's. Such a measure is not convex, and it
    does not fall steadily with the covariance, so that classifiers of least loss are searched, from the unconstrained
    one to zero covariance; the one returned is certified for its covariance, not as the best within the bound.

    Parameters
    ----------
    gamma : float
        How much of the measure may be lost, e.g. 0.01 for 1% of it.
    measure : {"accuracy", "auc", "profit"}, default="accuracy"
        ``"profit"`` is the mean gain per person.
    gains : mapping, optional
        With ``measure="profit"``: what a decision is worth, by ``"tp"``, ``"fp"``, ``"fn"`` and ``"tn"`` (true and
        false positives, false and true negatives); what is not named is worth 0.
    notion : str or Notion, default="selection_rate"
        Which people count when groups are compared; see :mod:`fairmargin.notions`.

    See Also
    --------
    LossBound : The same with the training loss: convex, with a proof.

    Examples
    --------
    >>> PerformanceBound(0.01)
    PerformanceBound(gamma=0.01)
    >>> PerformanceBound(0.02, "profit", gains={"tp": 1, "fp": -5})
    PerformanceBound(gamma=0.02, measure='profit', gains={'tp': 1, 'fp': -5})
    """

    gamma: float
    measure: str = "accuracy"
    gains: Mapping[str, float] | None = field(default=None, kw_only=True)
    notion: str | Notion = field(default="selection_rate", kw_only=True)

    def __post_init__(self) -> None:
        get_notion(self.notion)
        check_gamma(self.gamma)
        if self.measure not in ("accuracy", "auc", "profit"):
            raise ValueError(f"measure must be 'accuracy', 'auc' or 'profit', got {self.measure!r}.")
        if (self.gains is not None) != (self.measure == "profit"):
            raise ValueError("gains say what decisions are worth: measure='profit' needs them, others take none.")
        check_gains(self.gains)


def check_gains(gains: Any) -> None:
    """Raise unless ``gains`` is None or says what some kinds of decisions are worth."""
    if gains is None:
        return
    if not isinstance(gains, Mapping) or not gains or set(gains) - {"tp", "fp", "fn", "tn"}:
        raise ValueError(f"gains must be a mapping from 'tp', 'fp', 'fn' or 'tn' to numbers, got {gains!r}.")
    for kind, value in gains.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)):
            raise ValueError(f"The gain of {kind!r} must be a finite number, got {value!r}.")
