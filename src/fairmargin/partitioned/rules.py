"""Rules on decisions beside other constraints, on partitioned data.

As for a single rule (:mod:`fairmargin.partitioned.prule`), the sample says where on its families the best classifiers
lie. Their problems are solved on all rows within the region of the other constraints, and people are counted at the
cuts that these allow: bounds on covariances that depend on the intercept, and a bound on the loss, which is convex in
the intercept, so that two cuts within it have all others between them; promises to people leave an interval of cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fairmargin.constraints import IndividualLossBound, PRuleBound
from fairmargin.exceptions import InfeasibleError
from fairmargin.formulations.prule.judge import warn_of_small_groups
from fairmargin.formulations.prule.rule import make_rule
from fairmargin.formulations.several import SeveralOutcome, solve_demands
from fairmargin.formulations.several.demands import Demands
from fairmargin.partitioned.counts import Counted, at_cut
from fairmargin.partitioned.passes import Request, scores_of
from fairmargin.partitioned.prule import (
    Cuts,
    FamilyPoint,
    Judged,
    PartitionedPRuleOutcome,
    check_groups,
    fit_twins,
    followed_paths,
    sample_data,
    solve_levels,
)
from fairmargin.partitioned.several import demands_with_promises
from fairmargin.partitioned.study import PartitionedStudy, PartitionedTask
from fairmargin.problem import Solution
from fairmargin.several import Several
from fairmargin.tolerances import HAIR

__all__ = ["solve_beside_rules"]

Array = NDArray[np.float64]

_SHARES = (0.98, 0.95, 0.9)  # of the way from the least loss to a point of the sample, where the loss is bounded
_CUTS = 17  # of each classifier that one pass evaluates, to find those within a bound on the loss
_ROUNDS = 2  # in which both ends of the interval are narrowed down, by a factor of eight each


def solve_beside_rules(
    study: PartitionedStudy, estimator: Any, posed: PartitionedTask, constraint: Several
) -> SeveralOutcome:
    """Return the most accurate classifier found that keeps the rules of a list and everything else in it."""
    for rule in constraint.of(PRuleBound):
        check_groups(posed, rule)
    rules = RulesInPasses(study, estimator, posed)
    if constraint.of(IndividualLossBound):
        told = demands_with_promises(study, posed, constraint)
    else:
        free = posed.task.solve(posed.task.problem.unconstrained())
        told = Demands(constraint, posed.task, free, constraint.notions)
    found = replace(solve_demands(replace(told, searched=rules)), promises=None)
    rules.warn(constraint, found)
    return found


class RulesInPasses:
    """Searches for classifiers that keep rules, and judges their decisions, by passes over all rows."""

    def __init__(self, study: PartitionedStudy, estimator: Any, posed: PartitionedTask) -> None:
        self.study, self.estimator, self.posed = study, estimator, posed

    def search(self, demands: Demands, base: Solution) -> PartitionedPRuleOutcome:
        """Return the most accurate classifier found; ``base`` has the least loss that the other constraints leave."""
        task = replace(demands.part(demands.rules), region=demands.region)
        base = replace(base, multipliers=np.zeros(task.problem.n_rows))
        posed, cuts = replace(self.posed, task=task), _JointCuts(self.study, self.posed, demands)
        points = [("unconstrained", None), *self._points(demands)]
        (found,), _ = solve_levels(self.study, posed, demands.rules[0], base, points, [0.0], cuts)
        if found.reached < 0.0 or not cuts.keeps(found.solution):
            asked = " and ".join(f"a {make_rule(rule).text}" for rule in demands.rules)
            raise InfeasibleError(
                f"No classifier found that satisfies the other constraints reaches {asked} on all rows. Take a "
                "larger sample, or ask for less."
            )
        return found

    def _points(self, demands: Demands) -> list[FamilyPoint]:
        """Return where on each path the sample has its best classifier and, where the loss is bounded, points nearby.

        A bound that is tight for the sample may be broken by a little for everybody.
        """
        X, labels, more = sample_data(self.study, self.posed)
        label = self.posed.task.data.classes.tolist()[1]
        paths = dict.fromkeys(path for rule in demands.rules for path in followed_paths(rule))
        if len(paths) > 1:  # of several notions "auto" stands for a path that passes cannot follow
            paths.pop("auto", None)
        twins = []
        for path in paths:
            asked = [replace(c, path=path) if isinstance(c, PRuleBound) else c for c in demands.asked.constraints]
            twins.append(clone(self.estimator).set_params(pos_label=label, constraint=asked))
        found = [(twin.path_, twin.path_point_) for twin in fit_twins(twins, X, labels, more)]
        shares = (1.0, *_SHARES) if np.isfinite(demands.budget) else (1.0,)
        return [(path, _part_of_the_way(path, point, share)) for path, point in found for share in shares]

    def measure(self, rule: PRuleBound, solution: Solution) -> tuple[float, float, float]:
        """Return what the decisions miss the rule by, their p and their largest difference, by one pass."""
        cuts = Cuts(self.study, self.posed, rule)
        people = self._decisions(solution)
        reached = float(cuts.judge(people, np.zeros(1)).reached[0])
        return max(cuts.rule.level - reached, 0.0), *cuts.measures(people)

    def warn(self, constraint: Several, found: SeveralOutcome) -> None:
        """Warn of groups that are too small for a rule, of each rule by itself."""
        people = self._decisions(found.solution)
        for rule in constraint.of(PRuleBound):
            counted = [at_cut(counts) for counts in Cuts(self.study, self.posed, rule).by_group(people)]
            if any(np.any(counts.positives > 0) for counts in counted):
                warn_of_small_groups(make_rule(rule), counted)

    def _decisions(self, solution: Solution) -> Counted:
        (people,) = self.posed.passes.rates([solution.theta], [np.zeros(1)])
        return people


def _part_of_the_way(path: str, point: Any, share: float) -> Any:
    """Return a point between that of least loss and a point of a family."""
    if path == "unconstrained":
        return None
    return 1.0 + share * (float(point) - 1.0) if path == "covariance" else share * point


class _JointCuts(Cuts):
    """Cuts at which several rules hold and the other constraints too; the level is by how much rules are exceeded."""

    def __init__(self, study: PartitionedStudy, posed: PartitionedTask, demands: Demands) -> None:
        super().__init__(study, posed, demands.rules[0])
        self.demands = demands
        self.parts = [Cuts(study, posed, rule) for rule in demands.rules]

    def judge(self, found: Counted, edges: Array) -> Judged:
        """Return what people counted between cuts say of these cuts, for the rule that is missed by most."""
        judged = [part.judge(found, edges) for part in self.parts]
        short = [one.reached - part.rule.level for one, part in zip(judged, self.parts, strict=True)]
        return replace(judged[0], reached=np.min(short, axis=0))

    def allowed(self, solutions: Sequence[Solution]) -> list[tuple[float, float]]:
        """Return between which cuts of each classifier the other constraints hold."""
        return [
            _common([ends, self._within_bounds(solution), self._within_promises(solution)])
            for solution, ends in zip(solutions, self._within_budget(solutions), strict=True)
        ]

    def keeps(self, solution: Solution) -> bool:
        """Whether a classifier keeps the bounds on loss and covariances, and the promises."""
        least, most = _common([self._within_bounds(solution), self._within_promises(solution)])
        affordable = self.demands.budget * (1.0 + HAIR)
        return least <= 0.0 <= most and solution.certificate.objective <= affordable

    def _within_bounds(self, solution: Solution) -> tuple[float, float]:
        """Return the cuts within the bounds on covariances; the intercept enters those of wrong decisions."""
        problem, bounds = self.demands.task.problem, self.demands.bounds
        room, covariance = bounds + problem.room(solution.theta), problem.rows @ solution.theta
        slope = problem.rows[:, -1] if problem.design.fit_intercept else np.zeros(len(bounds))
        bounded, moves = np.isfinite(bounds), slope != 0.0
        if solution.certificate.status == "infeasible" or np.any(np.abs(covariance) > np.where(moves, np.inf, room)):
            return np.inf, -np.inf
        which = np.flatnonzero(bounded & moves)
        ends = [(covariance[which] + side * room[which]) / slope[which] for side in (-1.0, 1.0)]
        return float(np.max(np.minimum(*ends), initial=-np.inf)), float(np.min(np.maximum(*ends), initial=np.inf))

    def _within_promises(self, solution: Solution) -> tuple[float, float]:
        """Return the cuts that keep all promises, by a pass for a classifier that was not looked at before."""
        if self.demands.promises is None:
            return -np.inf, np.inf
        ends: tuple[float, float] = self.demands.promises.cuts(solution.theta)
        return ends

    def _within_budget(self, solutions: Sequence[Solution]) -> list[tuple[float, float]]:
        """Return cuts within the bound on the loss, and nearly all of them, by three passes."""
        if np.isinf(self.demands.budget):
            return [(-np.inf, np.inf)] * len(solutions)
        scores = [scores_of(self.posed.sample.X, s.theta, self.posed.passes.fit_intercept) for s in solutions]
        grids = [np.unique(np.append(np.linspace(s.min(), s.max(), _CUTS - 1), 0.0)) for s in scores]
        found = [_ends(*at) for at in zip(grids, self._are_affordable(solutions, grids), strict=True)]
        for _ in range(_ROUNDS):
            grids = [
                np.concatenate([np.linspace(*lower, _CUTS // 2), np.linspace(*upper, _CUTS // 2)])
                for lower, upper in found
            ]
            found = [_ends(*at) for at in zip(grids, self._are_affordable(solutions, grids), strict=True)]
        return [(lower[1], upper[0]) for lower, upper in found]

    def _are_affordable(self, solutions: Sequence[Solution], grids: Sequence[Array]) -> list[NDArray[np.bool_]]:
        """Return at which cuts of each classifier the loss is within its bound."""
        problem: Any = self.demands.task.problem
        last = np.eye(len(solutions[0].theta))[-1]
        thetas = [s.theta - cut * last for s, cuts in zip(solutions, grids, strict=True) for cut in cuts]
        sums = self.posed.passes.evaluate([Request(theta, problem.loss) for theta in thetas])
        values = np.array(
            [found.loss.sum() + problem.penalty(theta) for found, theta in zip(sums, thetas, strict=True)]
        )
        kept = values <= self.demands.budget * (1.0 + HAIR)
        return np.split(kept, np.cumsum([len(cuts) for cuts in grids])[:-1])


def _common(intervals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return what is in all of some intervals."""
    return max(least for least, _ in intervals), min(most for _, most in intervals)


def _ends(cuts: Array, kept: NDArray[np.bool_]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return between which cuts the interval of those that are kept begins, and between which it ends."""
    which = np.flatnonzero(kept)
    if not len(which):
        return (np.inf, np.inf), (-np.inf, -np.inf)
    first, last = which[0], which[-1]
    before, after = cuts[max(first - 1, 0)], cuts[min(last + 1, len(cuts) - 1)]
    return (float(before), float(cuts[first])), (float(cuts[last]), float(after))
