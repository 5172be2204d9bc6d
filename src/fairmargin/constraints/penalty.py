"""The price instead of the bound: a penalty on the covariance."""

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

__all__ = ["CovariancePenalty"]

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class CovariancePenalty(Constraint):
    """Charge for covariance instead of bounding it: minimise ``L(theta) + sum_k price_k |cov(z_k, f(x))|``.

    A bound and a price are two descriptions of the same classifiers. The classifier of a price is the one of least
    loss under the bounds ``bound_``, the covariances that it has; and the classifier of ``CovarianceBound(c)`` is
    that of the price ``abs(multipliers_)``, its shadow price.

    Parameters
    ----------
    price : float or mapping
        What one unit of covariance costs, in units of the training objective ``C sum_i s_i loss_i + 1/2 ||w||^2``: as
        that is a sum over people, so are useful prices proportional to their number. One price for all columns; or
        a mapping from attribute to a price, or from attribute to a mapping from category to a price. What a mapping
        does not name is free of charge. From some price on the covariance is zero.
    notion : str or Notion, default="selection_rate"
        Which people count when groups are compared; see :mod:`fairmargin.notions`.

    See Also
    --------
    CovarianceBound : A limit on the covariance instead of a price.

    Examples
    --------
    >>> from fairmargin import CovarianceBound, CovariancePenalty, FairLogisticRegression
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(random_state=0)
    >>> priced = FairLogisticRegression(constraint=CovariancePenalty(100.0)).fit(X, y, sensitive_features=z)
    >>> bound = CovarianceBound(priced.bound_.iloc[0])
    >>> bounded = FairLogisticRegression(constraint=bound).fit(X, y, sensitive_features=z)
    >>> bool(abs(priced.coef_ - bounded.coef_).max() < 1e-5)
    True
    >>> float(bounded.multipliers_.abs().round(2).iloc[0])
    100.0
    """

    price: float | Mapping[str, Any]
    notion: str | Notion = field(default="selection_rate", kw_only=True)

    def __post_init__(self) -> None:
        get_notion(self.notion)
        _check_prices(self.price, "")

    def prices(self, sensitive: Sensitive) -> Array:
        """Return the price of each sensitive column, 0 where none is asked.

        The two values of a binary attribute share one column, whose price is the sum of theirs.
        """
        columns = by_column(self.price, sensitive, "price")
        return np.array([sum(map(float, columns[label])) for label in sensitive.labels])


def _check_prices(price: Any, where: str) -> None:
    if isinstance(price, Mapping):
        if not price:
            raise ValueError(f"The price{where} is an empty mapping; name at least one attribute.")
        for key, value in price.items():
            _check_prices(value, f"{where} of {key!r}")
        return
    if isinstance(price, bool) or not isinstance(price, Real):
        raise ValueError(f"The price{where} must be a number, got {price!r}.")
    if not 0 <= float(price) < np.inf:  # nan too
        raise ValueError(
            f"The price{where} must be zero or positive and finite, got {price!r}; for no covariance at all use "
            "CovarianceBound(0.0)."
        )
