"""What several constraints ask for, on data: bounds on covariances, prices, promises, a budget of loss, rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, Protocol

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
from fairmargin.formulations.individual import make_promises
from fairmargin.formulations.loss import units
from fairmargin.formulations.outcome import loss_increase
from fairmargin.formulations.performance import Floor
from fairmargin.formulations.promises import Promises, PromisesInMemory
from fairmargin.formulations.region import Region
from fairmargin.formulations.task import Task
from fairmargin.notions import Compared, get_notion
from fairmargin.problem import Solution
from fairmargin.several import Several, SeveralNotions

__all__ = ["Demands", "RuleSearch"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class RuleSearch(Protocol):
    """Finds classifiers that keep rules on decisions, and judges them."""

    def search(self, demands: Demands, base: Solution) -> Any:
        """Return the outcome of the most accurate classifier found; raise ``InfeasibleError`` if there is none."""

    def measure(self, rule: PRuleBound, solution: Solution) -> tuple[float, float, float]:
        """Return what the decisions miss a rule by, their p in percent, and their largest difference."""


@dataclass(frozen=True)
class Demands:
    """Several constraints on the data of one task, whose rows are those of all notions.

    Parameters
    ----------
    asked : Several
    task : Task
    free : Solution
        The unconstrained classifier, to which shares of losses and covariances refer.
    notions : SeveralNotions
        Of the rows of the task.
    afforded : (K,), optional
        Bounds on covariances that prices correspond to, where something else than loss and price is minimised.
    promise : callable
        ``promise(constraint, task, free)`` returns what is promised to whom, wherever the rows are, and the largest
        ``||w||``.
    searched : RuleSearch, optional
        Finds classifiers that keep rules where the rows are not in memory.
    """

    asked: Several
    task: Task
    free: Solution
    notions: SeveralNotions
    afforded: Array | None = None
    promise: Callable[[IndividualLossBound, Task, Solution], tuple[Any, float]] = make_promises
    searched: RuleSearch | None = None
    _promised: dict[int, tuple[Promises, float]] = field(default_factory=dict, compare=False)

    def without(self, k: int) -> Demands | None:
        """Return the demands without one of the constraints; None if there is no other."""
        rest = tuple(c for j, c in enumerate(self.asked.constraints) if j != k)
        afforded = None if isinstance(self.asked.constraints[k], CovariancePenalty) else self.afforded
        if not rest:
            return None
        return Demands(Several(rest), self.task, self.free, self.notions, afforded, self.promise, self.searched)

    def columns(self, constraint: Constraint) -> Mask:
        """Return which rows of the task belong to the notion of a constraint, (K,)."""
        columns = self.task.columns
        if len(self.notions.notions) == 1:
            return np.ones(len(columns.labels), dtype=bool)
        belong = self.notions.belong(get_notion(constraint.notion), columns.conditions)
        return np.repeat(belong, len(columns.sensitive.labels))

    def part(self, constraints: Sequence[Constraint]) -> Task:
        """Return the task with the rows of the notions of some constraints only."""
        chosen = np.any([self.columns(c) for c in constraints], axis=0)
        problem, columns = self.task.problem, self.task.columns
        rows = problem.with_rows(problem.rows[chosen], problem.lower[chosen], problem.upper[chosen])
        kept = chosen[:: len(columns.sensitive.labels)]
        conditions = tuple(c for c, keep in zip(columns.conditions, kept, strict=True) if keep)
        return replace(self.task, problem=rows, compared=Compared(columns.sensitive, conditions, columns.weight))

    def thresholds(self, constraint: CovarianceBound) -> Array:
        """Return the bounds of one constraint on every row of the task, infinite where there is none."""
        asked = self.task.columns.repeated(constraint.thresholds(self.task.sensitive))
        asked = np.where(self.columns(constraint), asked, np.inf)
        if not constraint.relative:
            return asked
        reach = np.abs(self.task.problem.rows @ self.free.theta)
        return np.where(np.isfinite(asked), np.where(np.isfinite(asked), asked, 0.0) * reach, np.inf)

    @cached_property
    def bounds(self) -> Array:
        """The tightest bound on every covariance, (K,)."""
        none = np.full(self.task.problem.n_rows, np.inf) if self.afforded is None else self.afforded
        return np.minimum.reduce([none, *(self.thresholds(c) for c in self.asked.of(CovarianceBound))])

    @cached_property
    def prices(self) -> Array:
        """The price of every covariance, (K,)."""
        price = np.zeros(self.task.problem.n_rows)
        for c in self.asked.of(CovariancePenalty):
            price += np.where(self.columns(c), self.task.columns.repeated(c.prices(self.task.sensitive)), 0.0)
        return price

    def promised(self, constraint: IndividualLossBound) -> tuple[Any, float]:
        """Return what one constraint promises, and the largest norm that it allows."""
        if id(constraint) not in self._promised:
            self._promised[id(constraint)] = self.promise(constraint, self.task, self.free)
        return self._promised[id(constraint)]

    @cached_property
    def promises(self) -> Any:
        """All promises, None without any."""
        each = [self.promised(c)[0] for c in self.asked.of(IndividualLossBound)]
        return reduce(PromisesInMemory.and_these, each) if each else None

    @property
    def radius(self) -> float:
        """The largest norm of the coefficients."""
        return min((self.promised(c)[1] for c in self.asked.of(IndividualLossBound)), default=np.inf)

    @cached_property
    def budget(self) -> float:
        """The largest objective; raises where a share of the least one means nothing."""
        best = self.free.objective
        if self.asked.of(LossBound):
            loss_increase(best, best, self.task.problem)
        return min(((1.0 + c.gamma) * best for c in self.asked.of(LossBound)), default=np.inf)

    @cached_property
    def floors(self) -> list[Floor]:
        """The least values of measures of the decisions or scores."""
        return [Floor.of(c, self.task, self.free) for c in self.asked.of(PerformanceBound)]

    def performs(self, scores: Array) -> bool:
        """Whether scores are worth enough by every measure."""
        return all(floor.keeps(scores) for floor in self.floors)

    @property
    def rules(self) -> list[PRuleBound]:
        """The rules on decisions."""
        return self.asked.of(PRuleBound)

    @cached_property
    def least(self) -> tuple[Constraint, Array, float] | None:
        """The constraint whose covariance is minimised, the units of that, and the largest weight of an attribute."""
        for c in self.asked.constraints:
            if isinstance(c, LossBound | IndividualLossBound | PerformanceBound):
                weights = np.ones(self.task.problem.n_rows)
                if isinstance(c, LossBound):
                    weights = self.task.columns.repeated(c.column_weights(self.task.sensitive))
                return c, *units(self.task.problem, self.free, np.where(self.columns(c), weights, 0.0))
        return None

    def decides(self, constraint: Constraint) -> bool:
        """Whether a constraint has a say in what is minimised."""
        if isinstance(constraint, CovariancePenalty):
            return True
        return not np.any(self.prices > 0) and self.least is not None and self.least[0] is constraint

    @cached_property
    def region(self) -> Region:
        """The classifiers within all bounds that keep all promises; budgets and rules are not part of it."""
        bounded = np.isfinite(self.bounds)
        bound = self.bounds[bounded]
        return Region(self.task.problem.rows[bounded], -bound, bound, self.promises, self.radius)
