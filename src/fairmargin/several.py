"""Several constraints at once: what a list of them means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import (
    Constraint,
    CovarianceBound,
    CovariancePenalty,
    IndividualLossBound,
    LossBound,
    PerformanceBound,
    PRuleBound,
)
from fairmargin.constraints.base import with_defaults
from fairmargin.notions import Condition, Notion, get_notion

__all__ = [
    "FOR_TWO",
    "Several",
    "SeveralNotions",
    "as_constraint",
    "has_rule",
    "judged_constraints",
    "main_constraint",
    "notion_of",
    "rule_to_test",
]

# What classifiers of two classes take, alone or in a list.
FOR_TWO = (CovarianceBound, CovariancePenalty, LossBound, IndividualLossBound, PerformanceBound, PRuleBound)


@dataclass(frozen=True, repr=False)
class Several(Constraint):
    """All of several constraints: what estimators make of ``constraint=[CovarianceBound(0.0), LossBound(0.05)]``.

    Every constraint holds. What is minimised among the classifiers that satisfy all of them:

    - with a ``PRuleBound``, errors: the most accurate classifier found is returned, and all others only bound; a
      ``CovariancePenalty`` stands for the bounds on covariances that its price corresponds to;
    - with a ``CovariancePenalty``, the loss and the price of the covariances; a ``LossBound`` or a
      ``PerformanceBound`` that does not afford the price takes the largest share of it that it affords;
    - with a ``LossBound``, an ``IndividualLossBound`` or a ``PerformanceBound``, the covariance of the first of these
      in the list, under its notion, and then the loss; the others only bound;
    - else the loss.

    "Unconstrained" keeps its meaning in all of them: the classifier without any constraint.

    A rule with a ``confidence`` is tested on people set aside; the other constraints hold for those trained on.

    Parameters
    ----------
    constraints : sequence of Constraint
        At least two, none of them twice; rules all on the same path.
    """

    constraints: Sequence[Constraint]

    def __post_init__(self) -> None:
        for one in self.constraints:
            if not isinstance(one, FOR_TWO):
                known = ", ".join(kind.__name__ for kind in FOR_TWO)
                raise ValueError(f"{type(one).__name__} cannot be in a classifier's list; lists take {known}.")
        for k, one in enumerate(self.constraints):
            if any(_alike(one, other) for other in self.constraints[:k]):
                raise ValueError(f"The constraint {one!r} is given twice; once is enough.")
        if sum(rule.confidence is not None for rule in self.of(PRuleBound)) > 1:
            raise ValueError(
                "Only one rule in a list can be tested on people set aside (confidence=...): ask for the others "
                "without, and test the fitted classifier with certify()."
            )
        paths = list(dict.fromkeys(rule.path for rule in self.of(PRuleBound)))
        if len(paths) > 1:
            raise ValueError(
                "Rules in one list are searched for together, on one path; give all of them the same path=, got "
                f"{paths[0]!r} and {paths[1]!r}."
            )

    def of(self, kind: type) -> list[Any]:
        """Return the constraints of a kind, in their order."""
        return [c for c in self.constraints if isinstance(c, kind)]

    @property
    def notions(self) -> SeveralNotions:
        """The distinct notions of fairness of all constraints."""
        return SeveralNotions([get_notion(c.notion) for c in self.constraints])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constraints' parameters by place and name: ``"0__c"``."""
        return {f"{k}__{name}": v for k, c in enumerate(self.constraints) for name, v in c.get_params().items()}

    def set_params(self, **params: Any) -> Any:
        """Return a list of constraints with some parameters changed (``constraint__0__c=0.1`` of an estimator)."""
        known = self.get_params()
        changed = list(self.constraints)
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"There is no constraint parameter {name!r}; there are {', '.join(map(repr, known))}."
                )
            place, _, inner = name.partition("__")
            changed[int(place)] = changed[int(place)].set_params(**{inner: value})
        return changed

    def __repr__(self) -> str:
        return repr(list(self.constraints))


class SeveralNotions(Notion):
    """The conditions of several notions, one notion after the other.

    Parameters
    ----------
    notions : iterable of Notion
        Those of equal names are taken once.
    """

    rate = "several rates"

    def __init__(self, notions: Iterable[Notion]) -> None:
        by_name: dict[str, Notion] = {}
        for notion in notions:
            if by_name.setdefault(notion.name, notion) != notion:
                raise ValueError(
                    f"Two different notions of the list have the name {notion.name!r}; give each a name of its own."
                )
        self.notions = tuple(by_name.values())
        self.name = " and ".join(notion.name for notion in self.notions)
        self.people = " and ".join(dict.fromkeys(notion.people for notion in self.notions))
        self.needs_labels = any(notion.needs_labels for notion in self.notions)

    def conditions(self, y: NDArray[np.float64]) -> tuple[Condition, ...]:
        """Return the conditions of all notions, named by their notion."""
        return tuple(
            Condition(", ".join(filter(None, [notion.name, c.name])), c.people, c.counts, c.sign)
            for notion in self.notions
            for c in notion.conditions(y)
        )

    def belong(self, notion: Notion, conditions: Sequence[Condition]) -> NDArray[np.bool_]:
        """Return which of the conditions made of these notions (and strata) belong to one of them."""
        return np.array([c.name == notion.name or c.name.startswith(f"{notion.name}, ") for c in conditions])


def as_constraint(asked: Any) -> Any:
    """Return what ``constraint=`` asks for as one constraint: a class stands for its defaults, a list for all."""
    if isinstance(asked, list | tuple):
        if not asked:
            raise ValueError("constraint is an empty list; for no constraint set constraint=None.")
        each = [as_constraint(one) for one in asked]
        wrong = [one for one in each if not isinstance(one, Constraint) or isinstance(one, Several)]
        if wrong:
            raise ValueError(f"A list of constraints must hold constraints only, got {wrong[0]!r} in it.")
        return each[0] if len(each) == 1 else Several(tuple(each))
    return with_defaults(asked)


def main_constraint(asked: Any) -> Constraint | None:
    """Return the constraint that the tables beside a verdict are about: the first one judged, or else the first."""
    judged = judged_constraints(asked)
    if judged:
        return judged[0]
    constraint = as_constraint(asked)
    return constraint.constraints[0] if isinstance(constraint, Several) else constraint


def judged_constraints(asked: Any) -> list[PRuleBound | CovarianceBound]:
    """Return the constraints that a verdict is about, in an order that is not that of the list.

    These are the rules on decisions, first the one that is tested, and then the bounds on covariances. Of rules that
    differ in their level only it is the strictest, which implies the others.
    """
    constraint = as_constraint(asked)
    parts = constraint.constraints if isinstance(constraint, Several) else (constraint,)
    strictest: dict[tuple[bool, str], PRuleBound] = {}
    for rule in (part for part in parts if isinstance(part, PRuleBound)):
        kind = rule.p is None, get_notion(rule.notion).name
        strictest[kind] = max(strictest.get(kind, rule), rule, key=_strictness)
    tested = rule_to_test(constraint)
    rules = [rule for rule in strictest.values() if rule is not tested]
    bounds = [part for part in parts if isinstance(part, CovarianceBound)]
    return [*([tested] if tested else []), *sorted(rules, key=_place), *sorted(bounds, key=_place)]


def _strictness(rule: PRuleBound) -> tuple[float, bool]:
    """Return how strict a rule is among those of its kind; of two alike, the tested one comes before the other."""
    level = float(rule.p or 0.0) if rule.difference is None else -rule.difference
    return level, rule.confidence is not None


def _place(judged: PRuleBound | CovarianceBound) -> tuple[bool, bool, str, str]:
    """Return the place of a constraint among those judged: ratios before differences, selection rates first."""
    notion = get_notion(judged.notion).name
    return getattr(judged, "p", 0.0) is None, notion != "selection_rate", notion, repr(judged)


def has_rule(asked: Any) -> bool:
    """Whether what ``constraint=`` asks for has a rule on the decisions themselves."""
    constraint = as_constraint(asked)
    parts = constraint.constraints if isinstance(constraint, Several) else (constraint,)
    return any(isinstance(part, PRuleBound) for part in parts)


def rule_to_test(asked: Any) -> PRuleBound | None:
    """Return the rule that is tested on people set aside, of a constraint or a list; None without one."""
    constraint = as_constraint(asked)
    parts = constraint.constraints if isinstance(constraint, Several) else (constraint,)
    return next((p for p in parts if isinstance(p, PRuleBound) and p.confidence is not None), None)


def notion_of(constraint: Constraint | None) -> Notion:
    """Return the notion of fairness of a constraint, or of all constraints of a list at once."""
    if isinstance(constraint, Several):
        notions = constraint.notions
        return notions if len(notions.notions) > 1 else notions.notions[0]
    return get_notion(getattr(constraint, "notion", "selection_rate"))


def _alike(one: Constraint, other: Constraint) -> bool:
    """Whether two constraints ask for the same."""
    if type(one) is not type(other):
        return False
    return all(
        np.array_equal(
            np.asarray(getattr(one, f.name), dtype=object), np.asarray(getattr(other, f.name), dtype=object)
        )
        for f in fields(one)  # type: ignore[arg-type]
    )
