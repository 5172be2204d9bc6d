"""Several constraints at once: convex ones as one problem, rules on decisions by a search among what satisfies it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

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
from fairmargin.exceptions import InfeasibleError
from fairmargin.formulations.covariance import solve_bounds
from fairmargin.formulations.individual import reference_solution, relative_increase
from fairmargin.formulations.outcome import Outcome, as_sure_as
from fairmargin.formulations.promises import PromisesInMemory
from fairmargin.formulations.prule import PRuleOutcome
from fairmargin.formulations.prule.judge import make_judge
from fairmargin.formulations.several.convex import afforded_bounds, check_feasible, solve_convex
from fairmargin.formulations.several.demands import Demands
from fairmargin.formulations.several.record import ConstraintRecord
from fairmargin.formulations.several.rules import solve_rules
from fairmargin.formulations.task import Task, solve_task
from fairmargin.problem import Problem, Solution, largest
from fairmargin.several import Several

__all__ = [
    "ConstraintRecord",
    "SeveralOutcome",
    "keep_rules",
    "least_loss",
    "solve_demands",
    "solve_several",
    "with_base",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SeveralOutcome(Outcome):
    """What several constraints add to an outcome.

    Attributes
    ----------
    demands : Demands
        What is asked for, on the data.
    factor : float or None
        Where a covariance is minimised: the share of the unconstrained classifier's that is left.
    loss_increase : float
        ``L / L* - 1``; nan where ``L*`` is zero.
    """

    demands: Demands = field(metadata={"fitted": False})
    factor: float | None = None
    loss_increase: float = 0.0
    promises: PromisesInMemory | None = field(default=None, metadata={"fitted": False})
    rules: PRuleOutcome | None = field(default=None, metadata={"fitted": False})
    measured: ClassVar[tuple[str, ...]] = ("constraints",)

    @property
    def constraints(self) -> tuple[ConstraintRecord, ...]:
        """How each constraint is kept."""
        return tuple(_record(c, self.demands, self) for c in self.demands.asked.constraints)

    def broken(self, scores: Array) -> Array:
        """Return by how much each promise, floor and rule is broken by scores; not positive where it is kept."""
        promised = np.empty(0) if self.promises is None else -self.promises.slack(scores)
        missed = [floor.missed(scores) for floor in self.demands.floors]
        rules = np.empty(0) if self.rules is None else self.rules.broken(scores)
        return np.concatenate([promised, missed, rules])

    def check(self, scores: Array) -> None:
        """Raise where somebody is refused whose positive decision must be kept."""
        if self.promises is not None:
            self.promises.check_decisions(scores)

    def warn(self, scores: Array) -> None:
        """Warn as the search of the rules does, where there are any."""
        super().warn(scores) if self.rules is None else self.rules.warn(scores)

    def fitted_attributes(self) -> dict[str, Any]:
        """Return the fitted attributes, with those of the first rule where there are rules."""
        own = super().fitted_attributes()
        if self.rules is None:
            return own
        found = replace(self.rules, solution=self.solution)
        return own | found.fitted_attributes()


@solve_task.register
def solve_several(constraint: Several, task: Task) -> Outcome:
    """Return the classifier that all constraints leave, at the least of what the list says is minimised."""
    if len(constraint.of(CovarianceBound)) == len(constraint.constraints):
        return _solve_bounds(constraint, task)
    return solve_demands(Demands(constraint, task, reference_solution(task), constraint.notions))


def solve_demands(demands: Demands) -> SeveralOutcome:
    """Return the classifier that keeps all demands, not all of them bounds on covariances."""
    demands, base = with_base(demands)
    if demands.rules:
        return _solve_rules(demands, base)
    problem, solution, factor = solve_convex(demands, base)
    return _outcome(demands, problem, as_sure_as(solution, demands.free), factor)


def with_base(demands: Demands) -> tuple[Demands, Solution]:
    """Return demands, with bounds in the place of prices beside rules, and the least loss that they leave."""
    try:
        base = check_feasible(demands)
    except InfeasibleError as error:
        raise InfeasibleError(f"{error} {_conflict(demands)}") from None
    if demands.rules and np.any(demands.prices > 0):
        demands = replace(demands, afforded=afforded_bounds(demands, base))
        base = check_feasible(demands)
    return demands, base


def least_loss(constraint: Several, task: Task, free: Solution) -> Outcome:
    """Return the least loss that all constraints, none of them a rule or a price, leave: they only bound."""
    demands = Demands(constraint, task, free, constraint.notions)
    base = check_feasible(demands)
    bounds = demands.bounds
    return _outcome(demands, task.problem.with_bounds(-bounds, bounds), as_sure_as(base, free), None)


def _solve_bounds(constraint: Several, task: Task) -> SeveralOutcome:
    """Return the least loss under bounds on covariances alone, which contradict nothing: zero keeps them all."""

    def bind(problem: Problem, free: Solution) -> Problem:
        bounds = Demands(constraint, replace(task, problem=problem), free, constraint.notions).bounds
        return problem.with_bounds(-bounds, bounds)

    found = solve_bounds(task, bind, any(c.relative for c in constraint.of(CovarianceBound)))
    assert found.unconstrained is not None
    demands = Demands(constraint, task, found.unconstrained, constraint.notions)
    return _outcome(demands, found.problem, found.solution, None)


def _solve_rules(demands: Demands, base: Solution) -> SeveralOutcome:
    """Return the most accurate classifier found that keeps the rules and everything else."""
    try:
        found = _search(demands, base)
    except InfeasibleError as error:
        if demands.searched is not None:  # says itself what to do
            raise
        raise InfeasibleError(f"{error} {_conflict(demands)}") from None
    return keep_rules(demands, found)


def keep_rules(demands: Demands, found: PRuleOutcome) -> SeveralOutcome:
    """Return what is kept of a classifier found for the rules.

    As without other constraints, its certificate is against all classifiers.
    """
    bounds, problem = demands.bounds, demands.task.problem
    proof, bound = found.solution.certificate, demands.free.certificate.dual_bound
    proof = replace(proof, dual_bound=bound, gap=problem.relative_gap(proof.objective, bound))
    multipliers = np.full(problem.n_rows, np.nan)
    if found.path not in (
        "decisions",
        "rates",
        "ccp",
    ):  # those of the covariance path belong to no bound that was asked for
        multipliers = np.zeros(problem.n_rows)
    solution = replace(found.solution, multipliers=multipliers, certificate=proof)
    outcome = _outcome(demands, problem.with_bounds(-bounds, bounds), solution, None)
    return replace(outcome, rules=found)


def _search(demands: Demands, base: Solution) -> Any:
    return solve_rules(demands, base) if demands.searched is None else demands.searched.search(demands, base)


def _measure(rule: PRuleBound, demands: Demands, solution: Solution) -> tuple[float, float, float]:
    """Return what the decisions miss a rule by, their p in percent, and their largest difference."""
    if demands.searched is not None:
        return demands.searched.measure(rule, solution)
    judge = make_judge(rule, demands.part([rule]))
    return max(judge.rule.level - judge.reached(solution.scores), 0.0), *judge.measures(solution.scores)


def _outcome(demands: Demands, problem: Problem, solution: Solution, factor: float | None) -> SeveralOutcome:
    free = demands.free
    return SeveralOutcome(
        solution,
        problem,
        free,
        demands=demands,
        factor=factor,
        loss_increase=relative_increase(solution, free),
        promises=demands.promises,
    )


def _conflict(demands: Demands) -> str:
    """Say which constraints contradict each other: those without which the rest can be satisfied.

    Where one of them is kept by a search, that none was found proves no contradiction.
    """
    constraints = demands.asked.constraints
    culprits = [c for k, c in enumerate(constraints) if _is_feasible(demands.without(k))]
    searched = any(isinstance(c, PRuleBound | PerformanceBound) for c in culprits or constraints)
    if len(culprits) > 1:
        named = " and ".join(map(repr, culprits))
        both, one = ("both", "either") if len(culprits) == 2 else ("all of", "any one of them")
        said = f"No classifier was found that keeps {both} {named}" if searched else f"{named} contradict each other"
        others = f": without {one}, all others can be satisfied" if len(constraints) > len(culprits) else ""
        return f"{said}{others}. Ask for less."
    if culprits:
        return f"Without {culprits[0]!r} all others can be satisfied. Ask for less."
    if searched:
        return "No classifier was found that keeps all but one of them either. Ask for less."
    return "Several of them contradict each other: leaving out a single one is not enough. Ask for less."


def _is_feasible(demands: Demands | None) -> bool:
    if demands is None:
        return True
    try:
        base = check_feasible(demands)
        if demands.rules:
            _search(demands, base)
    except InfeasibleError:
        return False
    return True


def _record(constraint: Constraint, demands: Demands, outcome: SeveralOutcome) -> ConstraintRecord:
    """Return how one constraint is kept."""
    chosen, labels = demands.columns(constraint), demands.task.columns
    covariance = labels.series(demands.task.problem.rows @ outcome.solution.theta, "covariance")[chosen]
    multipliers = np.zeros(len(chosen))
    known = outcome.solution.multipliers[: len(chosen)]
    multipliers[: len(known)] = known
    bounds = outcome.problem.upper[: len(chosen)]
    shown: dict[str, Any] = {}
    figures: dict[str, float] = {}
    violation = 0.0
    if isinstance(constraint, CovarianceBound):
        bounds = demands.thresholds(constraint)
        violation = largest(np.abs(covariance.to_numpy()) - bounds[chosen])
        multipliers = np.where(bounds <= demands.bounds, multipliers, 0.0)
    elif isinstance(constraint, LossBound):
        violation = max(outcome.loss_increase - constraint.gamma, 0.0)
        figures["loss_increase"] = outcome.loss_increase
    elif isinstance(constraint, PRuleBound):
        violation, figures["p_rule"], figures["cv_score"] = _measure(constraint, demands, outcome.solution)
    elif isinstance(constraint, PerformanceBound):
        (floor,) = (f for f in demands.floors if f.constraint is constraint)
        figures["performance"] = floor.reached(outcome.solution.scores)
        figures["unconstrained_performance"] = floor.best
        violation = max(floor.least - figures["performance"], 0.0)
    elif isinstance(constraint, IndividualLossBound):
        violation, figures["binding"] = demands.promised(constraint)[0].kept(outcome.solution)
    if isinstance(constraint, CovarianceBound | CovariancePenalty) or demands.decides(constraint):
        shown["bound"] = labels.series(bounds, "bound")[chosen]
        shown["multipliers"] = labels.series(multipliers, "multiplier")[chosen]
    return ConstraintRecord(constraint, violation, covariance, figures=figures, **shown)
