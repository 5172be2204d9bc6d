"""Constraints on predictions other than bounds on covariances: group means, and calibration by group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from fairmargin.constraints import Constraint
from fairmargin.sensitive import Attribute, Sensitive

__all__ = ["CalibrationBound", "GroupMeansBound"]


@dataclass(frozen=True, repr=False)
class _GroupBound(Constraint):
    """A bound per attribute on something measured by group."""

    @property
    def asked(self) -> Any:
        """The number or mapping given."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        given = self.asked
        if isinstance(given, Mapping) and not given:
            raise ValueError(f"{type(self).__name__} has an empty mapping; name at least one attribute.")
        for bound in given.values() if isinstance(given, Mapping) else [given]:
            if isinstance(bound, bool) or not isinstance(bound, Real) or not float(bound) >= 0:
                raise ValueError(f"{type(self).__name__} takes numbers of at least 0, got {bound!r}.")

    def bounds(self, sensitive: Sensitive) -> list[tuple[Attribute, float]]:
        """Return the bounded attributes and their bounds."""
        given = self.asked
        by_name = {a.name: a for a in sensitive.attributes}
        if not isinstance(given, Mapping):
            given = dict.fromkeys(by_name, given)
        unknown = [name for name in given if name not in by_name]
        if unknown:
            raise ValueError(
                f"The bound names the attribute {unknown[0]!r}, which is not among the sensitive features; the known "
                f"ones are {', '.join(map(repr, by_name))}."
            )
        for name in given:
            if by_name[name].is_numeric:
                raise ValueError(
                    f"The sensitive attribute {name!r} is numeric and has no groups; cut it into groups "
                    "(e.g. with pandas.cut), or use CovarianceBound."
                )
        return [(by_name[name], float(bound)) for name, bound in given.items() if np.isfinite(bound)]


@dataclass(frozen=True, repr=False)
class GroupMeansBound(_GroupBound):
    """Bound the difference of mean predictions between any two groups of an attribute.

    ``|mean of f over group g - mean of f over group h| <= difference``, in the units of ``y`` and with the sample
    weights; within each stratum where there are strata. For a binary attribute the difference is the covariance
    divided by ``share (1 - share)``.

    Parameters
    ----------
    difference : float or mapping from attribute to float, default=0.0
        Attributes that a mapping does not name are not bounded.

    See Also
    --------
    CalibrationBound : Bounds mean residuals of groups.
    FairRegressor : The regressor that takes it.

    Examples
    --------
    >>> GroupMeansBound({"sex": 500.0})
    GroupMeansBound(difference={'sex': 500.0})
    """

    difference: float | Mapping[str, float] = 0.0

    @property
    def asked(self) -> Any:
        """The bound."""
        return self.difference


@dataclass(frozen=True, repr=False)
class CalibrationBound(_GroupBound):
    """Bound the mean residual of every group: no group is over- or underestimated on average by more than ``c``.

    ``|mean of y - f over group g| <= c``, in the units of ``y`` and with the sample weights; of each group within
    each stratum where there are strata. It can be combined with any loss; note that with the quantile loss
    predictions are quantiles and not means.

    Parameters
    ----------
    c : float or mapping from attribute to float, default=0.0
        Attributes that a mapping does not name are not bounded.

    See Also
    --------
    GroupMeansBound : Bounds differences of mean predictions.
    FairRegressor : The regressor that takes it.

    Examples
    --------
    >>> CalibrationBound()
    CalibrationBound(c=0.0)
    """

    c: float | Mapping[str, float] = 0.0

    @property
    def asked(self) -> Any:
        """The bound."""
        return self.c
