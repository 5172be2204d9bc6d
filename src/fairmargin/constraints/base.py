"""What all constraints share: their parameters, and how they speak of sensitive columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from numbers import Real
from typing import Any

import numpy as np

from fairmargin.notions import Notion
from fairmargin.sensitive import Sensitive

__all__ = ["Constraint", "by_column", "check_gamma", "with_defaults"]


class Constraint:
    """Base of everything that can be asked.

    Attributes
    ----------
    notion : str or Notion
        Which people count when groups are compared (:mod:`fairmargin.notions`).
    """

    notion: str | Notion = "selection_rate"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, as scikit-learn's ``clone`` and searches ask for them."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Any:
        """Return a constraint with some parameters changed; this one stays as it is.

        ``estimator.set_params(constraint__c=0.1)`` puts the changed constraint into the estimator, so that
        ``constraint__c`` can be searched over.
        """
        known = self.get_params()
        unknown = sorted(set(params) - set(known))
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no parameter {unknown[0]!r}; it has {', '.join(map(repr, known))}."
            )
        return type(self)(**{**known, **params})

    def __repr__(self) -> str:
        declared = getattr(type(self), "__dataclass_fields__", {})
        defaults: dict[str, Any] = dict.fromkeys(vars(self)) | {name: f.default for name, f in declared.items()}
        defaults |= dict.fromkeys([*declared][:1])  # the first parameter says what is asked for, also at its default
        given = {name: value for name, value in vars(self).items() if not np.array_equal(value, defaults[name])}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def with_defaults(asked: Any) -> Any:
    """Return a constraint with its defaults for a class of constraints, and anything else as it is."""
    if not (isinstance(asked, type) and issubclass(asked, Constraint)):
        return asked
    try:
        return asked()
    except (TypeError, ValueError):
        raise ValueError(f"{asked.__name__} has no defaults; give an instance: {asked.__name__}(...).") from None


def by_column(asked: Any, sensitive: Sensitive, what: str) -> dict[tuple[str, Any], list[Any]]:
    """Return what is asked of each sensitive column, by its label; ``what`` names it in messages.

    ``asked`` is one number for all columns, a mapping from attribute to a number, or from attribute to a mapping from
    category to a number; both values of a binary attribute speak of its one column.
    """
    if not isinstance(asked, Mapping):
        return {label: [asked] for label in sensitive.labels}
    by_name = {a.name: a for a in sensitive.attributes}
    found: dict[tuple[str, Any], list[Any]] = {label: [] for label in sensitive.labels}
    for name, of_name in asked.items():
        if name not in by_name:
            known = ", ".join(repr(n) for n in by_name)
            raise ValueError(
                f"The {what} names the attribute {name!r}, which is not among the sensitive features; "
                f"the known ones are {known}."
            )
        attribute = by_name[name]
        if isinstance(of_name, Mapping):
            pairs = [(_column_category(attribute, category), value) for category, value in of_name.items()]
        else:
            pairs = [(category, of_name) for category in attribute.column_categories]
        for category, value in pairs:
            found[name, category].append(value)
    return found


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


def check_gamma(gamma: Any, allow_inf: bool = False) -> None:
    """Raise unless ``gamma`` is a number from 0 on."""
    if isinstance(gamma, bool) or not isinstance(gamma, Real):
        raise ValueError(f"gamma must be a number, got {gamma!r}.")
    if not float(gamma) >= 0 or (np.isinf(float(gamma)) and not allow_inf):
        raise ValueError(f"gamma must be zero or positive{'' if allow_inf else ' and finite'}, got {gamma!r}.")
