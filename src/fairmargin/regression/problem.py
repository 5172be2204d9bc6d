"""The regression problem: that of :mod:`fairmargin.problem` with ``y = 1`` and a loss that knows its targets.

    minimise over theta   sum_i c_i rho(t_i - (Xa theta)_i) + 1/2 sum_j rho_j theta_j^2
    subject to            lower <= A theta <= upper

The dual variables have either sign, so that the row that is scaled down for an unpenalised intercept is the one with
the largest or the least ``alpha``. Two things differ. First, a loss of zero is an exact fit and not a sign of
separable data. Second, targets may be fitted so closely that the objective is smaller than the rounding errors of the
dual terms, which are as large as the objective at ``theta = 0``: gaps are relative to the objective or, if that is
larger, to :data:`LEAST_SHARE` of the one at zero.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from fairmargin.problem import Problem
from fairmargin.regression.losses import PinballLoss, ResidualLoss
from fairmargin.tolerances import TINY

__all__ = ["LEAST_SHARE", "QuantileProblem", "RegressionProblem", "as_regression"]

Array = NDArray[np.float64]

LEAST_SHARE = 1e-6  # with a tolerance of 1e-9 this leaves 1e-15 of the terms of a gap: a few roundings


@dataclass(frozen=True)
class RegressionProblem(Problem):
    """Frozen data of one regression; see the module for what differs from classification."""

    def gap_unit(self, value: float) -> float:
        """Return what gaps are relative to."""
        return max(abs(value), LEAST_SHARE * abs(self.at_zero), TINY)

    def is_vanishing(self, value: float) -> bool:
        """Return False: an exact fit is an optimum."""
        return False


@dataclass(frozen=True)
class QuantileProblem(RegressionProblem):
    """A regression with the pinball loss, for which :mod:`fairmargin.regression.quantile` has the solver."""

    @property
    def pinball(self) -> PinballLoss:
        """The loss."""
        assert isinstance(self.loss, PinballLoss)
        return self.loss

    def clip_dual(self, alpha: Array) -> Array:
        """Return dual variables moved into ``c [q - 1, q]``."""
        q = self.pinball.quantile
        return np.clip(alpha, (q - 1.0) * self.weight, q * self.weight)


def as_regression(problem: Problem, loss: ResidualLoss) -> RegressionProblem:
    """Return a problem with ``y = 1`` as a regression with this loss."""
    kind = RegressionProblem if loss.smooth else QuantileProblem
    parts = {f.name: getattr(problem, f.name) for f in fields(Problem)}
    return kind(**{**parts, "loss": loss})
