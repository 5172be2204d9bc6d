"""What can be asked of a classifier: immutable descriptions, free of data.

An estimator takes one as ``constraint=``. What each means is worked out in :mod:`fairmargin.formulations`
once there are data; here are only the words and the checks that need none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.sensitive import Sensitive

__all__ = ["Constraint", "CovarianceBound"]

Array = NDArray[np.float64]


class Constraint:
    """Base of everything that can be asked."""


@dataclass(frozen=True)
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

    Examples
    --------
    >>> CovarianceBound(0.1)
    CovarianceBound(c=0.1, relative=False)
    >>> CovarianceBound({"sex": 0.0, "race": {"Black": 0.0, "Other": 0.05}})
    CovarianceBound(c={'sex': 0.0, 'race': {'Black': 0.0, 'Other': 0.05}}, relative=False)
    """

    c: float | Mapping[str, Any] = 0.0
    relative: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.relative, bool | np.bool_):
            raise ValueError(f"relative must be True or False, got {self.relative!r}.")
        for where, bound in _leaves(self.c):
            _check_bound(bound, where)

    def thresholds(self, sensitive: Sensitive) -> Array:
        """Return ``c_k`` of each sensitive column, infinite where nothing is asked."""
        if not isinstance(self.c, Mapping):
            return np.full(len(sensitive.labels), float(self.c))
        by_name = {a.name: a for a in sensitive.attributes}
        bounds = dict.fromkeys(sensitive.labels, np.inf)
        for name, asked in self.c.items():
            if name not in by_name:
                known = ", ".join(repr(n) for n in by_name)
                raise ValueError(
                    f"The bound names the attribute {name!r}, which is not among the sensitive features; "
                    f"the known ones are {known}."
                )
            attribute = by_name[name]
            if not isinstance(asked, Mapping):
                asked = dict.fromkeys(attribute.column_categories, asked)
            for category, bound in asked.items():
                label = (name, _column_category(attribute, category))
                bounds[label] = min(bounds[label], float(bound))
        return np.array([bounds[label] for label in sensitive.labels])


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


def _column_category(attribute: Any, category: Any) -> Any:
    """Return the category whose column carries a bound on ``category``.

    The two values of a binary attribute share one column: their covariances differ in sign only.
    """
    if attribute.is_numeric:
        raise ValueError(
            f"The sensitive attribute {attribute.name!r} is numeric and has no categories; give it one bound."
        )
    if category not in attribute.categories:
        known = ", ".join(repr(c) for c in attribute.categories)
        raise ValueError(
            f"The bound names the category {category!r} of {attribute.name!r}, which does not occur; "
            f"the known ones are {known}."
        )
    return attribute.categories[1] if len(attribute.categories) == 2 else category
