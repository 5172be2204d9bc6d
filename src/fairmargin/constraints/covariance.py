"""Bounds on the decision boundary covariance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints.base import Constraint, by_column
from fairmargin.notions import Notion, get_notion
from fairmargin.sensitive import Sensitive

__all__ = ["CovarianceBound"]

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class CovarianceBound(Constraint):
    """Bound the decision boundary covariance: ``|cov(z_k, f(x))| <= c_k`` for every sensitive column k.

    Parameters
    ----------
    c : float or mapping, default=0.0
        One bound for all; or a mapping from attribute to a bound, or from attribute to a mapping from
        category to a bound. Attributes and categories that a mapping does not name are not bounded.
    relative : bool, default=False
        Whether ``c`` is a share of the unconstrained classifier's covariance: ``|cov_k| <= c |cov*_k|``
        (the factor *a* of the paper).
    notion : str or Notion, default="selection_rate"
        Which people count when groups are compared; see :mod:`fairmargin.notions`.

    See Also
    --------
    CovariancePenalty : A price on the covariance instead of a limit.
    PRuleBound : A rule on decisions instead of scores.

    Examples
    --------
    >>> CovarianceBound(0.1)
    CovarianceBound(c=0.1)
    >>> CovarianceBound({"sex": 0.0, "race": {"Black": 0.0, "Other": 0.05}})
    CovarianceBound(c={'sex': 0.0, 'race': {'Black': 0.0, 'Other': 0.05}})
    """

    c: float | Mapping[str, Any] = 0.0
    relative: bool = False
    notion: str | Notion = field(default="selection_rate", kw_only=True)

    def __post_init__(self) -> None:
        get_notion(self.notion)
        if not isinstance(self.relative, bool | np.bool_):
            raise ValueError(f"relative must be True or False, got {self.relative!r}.")
        for where, bound in _leaves(self.c):
            _check_bound(bound, where)

    def thresholds(self, sensitive: Sensitive) -> Array:
        """Return ``c_k`` of each sensitive column, infinite where nothing is asked."""
        columns = by_column(self.c, sensitive, "bound")
        return np.array([min(map(float, columns[label]), default=np.inf) for label in sensitive.labels])


def _leaves(c: Any, where: str = "") -> list[tuple[str, Any]]:
    if not isinstance(c, Mapping):
        return [(where, c)]
    if not c:
        raise ValueError(f"The covariance bound{where} is an empty mapping; name at least one attribute.")
    return [leaf for key, value in c.items() for leaf in _leaves(value, f"{where} of {key!r}")]


def _check_bound(bound: Any, where: str) -> None:
    if isinstance(bound, bool) or not isinstance(bound, Real):
        raise ValueError(f"The covariance bound{where} must be a number, got {bound!r}.")
    if not float(bound) >= 0:  # nan too
        raise ValueError(f"The covariance bound{where} must be zero or positive, got {bound!r}.")
