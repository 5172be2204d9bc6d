"""What estimators with a parameter ``constraint`` share: reading it, and setting its own parameters."""

from __future__ import annotations

from typing import Any

from fairmargin.constraints import Constraint
from fairmargin.several import as_constraint

__all__ = ["TakesConstraint"]

_OF_CONSTRAINT = "constraint__"  # how parameters of the constraint begin in those of the estimator


class TakesConstraint:
    """Mixin of estimators; comes before ``BaseEstimator`` among their bases."""

    constraint: Any

    def _constraint(self) -> Any:
        """Return what ``constraint`` asks for; a class stands for its defaults."""
        return as_constraint(self.constraint)

    def set_params(self, **params: Any) -> Any:
        """Set parameters, also those of the constraint (``constraint__c=0.1``); return the estimator.

        Constraints are immutable: the estimator gets a changed copy of its own.
        """
        nested = {name: value for name, value in params.items() if name.startswith(_OF_CONSTRAINT)}
        above: Any = super()
        above.set_params(**{name: value for name, value in params.items() if name not in nested})
        if nested:
            constraint = self._constraint()
            if not isinstance(constraint, Constraint):
                raise ValueError(f"{next(iter(nested))!r} needs a constraint to change; this one is {constraint!r}.")
            inner = {name.removeprefix(_OF_CONSTRAINT): value for name, value in nested.items()}
            self.constraint = constraint.set_params(**inner)
        return self
