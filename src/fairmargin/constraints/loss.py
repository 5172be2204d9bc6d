"""A bound on the loss, under which the covariance is minimised: business necessity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints.base import Constraint, check_gamma
from fairmargin.notions import Notion, get_notion
from fairmargin.sensitive import Sensitive

__all__ = ["LossBound"]

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class LossBound(Constraint):
    """Minimise the covariance subject to a bound on the loss ("business necessity").

    Minimises the decision boundary covariance subject to ``L(theta) <= (1 + gamma) L*``, where ``L`` is the
    training objective and ``L*`` its unconstrained minimum. If the bound allows zero covariance, the classifier with
    the least loss among those that attain it is returned.

    Parameters
    ----------
    gamma : float
        How far the objective may exceed its minimum, e.g. 0.05 for 5%.
    norm : {"max", "sum"}, default="max"
        How the covariances of several sensitive columns are combined.
    weights : mapping from attribute to float, optional
        Importance of each attribute. Covariances are divided by those of the unconstrained classifier and multiplied
        by these weights (1 by default; 0 leaves an attribute out).
    notion : str or Notion, default="selection_rate"
        Which people count when groups are compared; see :mod:`fairmargin.notions`.

    See Also
    --------
    PerformanceBound : The same with accuracy, AUC or profit.
    IndividualLossBound : A bound on the loss of each person.

    Examples
    --------
    >>> LossBound(0.05)
    LossBound(gamma=0.05)
    """

    gamma: float
    norm: str = "max"
    weights: Mapping[str, float] | None = None
    notion: str | Notion = field(default="selection_rate", kw_only=True)

    def __post_init__(self) -> None:
        get_notion(self.notion)
        check_gamma(self.gamma)
        if self.norm not in ("max", "sum"):
            raise ValueError(f"norm must be 'max' or 'sum', got {self.norm!r}.")
        if self.weights is not None and not isinstance(self.weights, Mapping):
            raise ValueError(f"weights must be None or a mapping from attribute to weight, got {self.weights!r}.")
        for name, weight in (self.weights or {}).items():
            if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 <= float(weight) < np.inf:
                raise ValueError(f"The weight of {name!r} must be zero or positive, got {weight!r}.")

    def column_weights(self, sensitive: Sensitive) -> Array:
        """Return the weight of each sensitive column."""
        given = dict(self.weights or {})
        names = [a.name for a in sensitive.attributes]
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(
                f"weights names the attribute {unknown[0]!r}, which is not among the sensitive features; "
                f"the known ones are {', '.join(map(repr, names))}."
            )
        weights = np.array([float(given.get(name, 1.0)) for name, _ in sensitive.labels])
        if not np.any(weights > 0):
            raise ValueError("Every attribute has weight 0: there is no covariance to minimise.")
        return weights
