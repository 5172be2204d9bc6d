"""How each of several constraints is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairmargin.plain_state import PlainState

__all__ = ["ConstraintRecord"]


@dataclass(frozen=True)
class ConstraintRecord(PlainState):
    """How one of several constraints is kept by the fitted classifier, on the people trained on.

    Attributes
    ----------
    constraint : Constraint
    violation : float
        By how much it is missed, 0 where it is kept: in units of covariance for ``CovarianceBound``, of the score for
        ``IndividualLossBound``, of the share ``L / L* - 1`` for ``LossBound``, of the measure for
        ``PerformanceBound``, in percentage points (or a difference of rates) for ``PRuleBound``.
    covariance : pandas.Series
        Under the constraint's notion.
    bound : pandas.Series or None
        The bounds on these covariances that the constraint states or, where it is the one that decides what is
        minimised, that were found; None where it has none.
    multipliers : pandas.Series or None
        The shadow prices of these bounds, with the covariance's sign; nan where a rule was met through prices on
        decisions.
    figures : dict
        What else there is to tell: ``loss_increase`` of ``LossBound``, ``binding`` (how many promises are kept
        with no room to spare) of ``IndividualLossBound``, ``p_rule`` and ``cv_score`` of ``PRuleBound``,
        ``performance`` and ``unconstrained_performance`` of ``PerformanceBound``.
    """

    constraint: Any
    violation: float
    covariance: Any
    bound: Any = None
    multipliers: Any = None
    figures: dict[str, float] = field(default_factory=dict)
