"""A p%-rule of the decisions on partitioned data, at one level or at many.

Where on its families the best classifiers lie (:mod:`fairmargin.formulations.prule`) is searched on the sample. The
convex problems of these points are then solved and certified on all rows, in passes that they share, and intercepts
are moved to the most accurate place that keeps the rule among *everybody*: people are counted by label, group and bin
of the score, first between the quantiles of the sample's scores and then within the bin of the best cut. Counts of
people are whole numbers, so that the rule holds exactly.

The costs of the decision path depend on label and group only: a table of prices travels with the tasks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from fairmargin.constraints import PRuleBound
from fairmargin.decisions import GroupCounts, highest_difference, least_ratio
from fairmargin.exceptions import InfeasibleError
from fairmargin.formatting import with_article
from fairmargin.formulations import Outcome
from fairmargin.formulations.covariance import Path
from fairmargin.formulations.prule.judge import warn_of_small_groups
from fairmargin.formulations.prule.rule import make_rule
from fairmargin.notions import get_notion
from fairmargin.partitioned.counts import Counted, accepted_weight, at_cut, count_decisions, training_rates
from fairmargin.partitioned.passes import Request, scores_of
from fairmargin.partitioned.problem import PartitionedProblem
from fairmargin.partitioned.solver import solve_together
from fairmargin.partitioned.study import PartitionedStudy, PartitionedTask
from fairmargin.problem import Certificate, Solution

__all__ = [
    "Cuts",
    "FamilyPoint",
    "Judged",
    "PartitionedPRuleOutcome",
    "check_groups",
    "check_path",
    "fit_twins",
    "followed_paths",
    "sample_data",
    "solve_levels",
    "solve_p_rule",
]

Array = NDArray[np.float64]

FamilyPoint = tuple[str, Any]  # a family by name, and the place on it: None, a factor, or prices

_EDGES = 2000  # cuts that one pass counts, of all classifiers together: about a megabyte for each partition
_FEWEST = 100  # of them for each classifier
# Of the largest score: far above the rounding of a score, and so little that hardly anybody of a billion people with
# different scores is that near to a cut.
_ROUNDING = 1e-11


@dataclass(frozen=True, kw_only=True)
class PartitionedPRuleOutcome(Outcome):
    """The classifier found for a p%-rule; the attributes are those of a fit in memory.

    ``reached`` is the level of the rule on all rows, and ``counted`` the people by class, group and decision.
    """

    p_rule: float
    cv_score: float
    training_rates: pd.Series | None
    path: str
    path_point: Any
    path_certificate: Certificate
    intercept_shift: float
    reached: float = field(metadata={"fitted": False})
    counted: Counted = field(metadata={"fitted": False})

    @property
    def is_constant(self) -> bool:
        """Whether everybody on all rows gets the same decision."""
        weight = self.counted[0][1].sum(axis=(0, 1))  # (2,): refused or accepted
        return bool((weight == 0).any())


def solve_p_rule(
    study: PartitionedStudy, estimator: Any, posed: PartitionedTask, constraint: PRuleBound
) -> PartitionedPRuleOutcome:
    """Return the most accurate classifier, on all rows, of the points that the sample chose on each path."""
    check_groups(posed, constraint)
    X, labels, more = sample_data(study, posed)
    label = posed.task.data.classes.tolist()[1]
    rules = [replace(constraint, path=path) for path in followed_paths(constraint)]
    twins = [clone(estimator).set_params(pos_label=label, constraint=asked) for asked in rules]
    points = [(twin.path_, twin.path_point_) for twin in fit_twins(twins, X, labels, more)]
    free = posed.task.solve(posed.task.problem.unconstrained())
    rule = make_rule(constraint)
    (found,), _ = solve_levels(study, posed, constraint, free, points, [rule.level])
    if found.reached < rule.level:
        raise InfeasibleError(
            f"No cut of the classifier found on the {found.path!r} path reaches {with_article(rule.text)} on all "
            f"rows (it reaches {rule.told(found.reached)}). Take a larger sample, ask for {rule.weaker}, or merge "
            "small groups."
        )
    counted = [at_cut(counts) for counts in Cuts(study, posed, constraint).by_group(found.counted)]
    if any(np.any(counts.positives > 0) for counts in counted):
        warn_of_small_groups(rule, counted)
    return found


def check_groups(posed: PartitionedTask, constraint: PRuleBound) -> None:
    """Raise for numbers, which have no groups to compare, or for a path that needs all rows."""
    numeric = [a.name for a in posed.task.sensitive.attributes if a.codes is None]
    if numeric:
        raise ValueError(
            f"A p%-rule compares groups, but the sensitive attribute {numeric[0]!r} is a number; cut it into groups."
        )
    check_path(constraint)


def check_path(constraint: PRuleBound) -> None:
    """Raise for a path that needs all rows."""
    if constraint.path in ("ccp", "rates"):
        raise ValueError(f"path={constraint.path!r} needs all people in memory; choose another path.")


def followed_paths(constraint: PRuleBound) -> tuple[str, ...]:
    """Return the paths to search on the sample: those whose points can be solved on all rows.

    In memory ``path="auto"`` stands for another family under notions that are not about selection rates.
    """
    if constraint.path != "auto" or get_notion(constraint.notion).name == "selection_rate":
        return (constraint.path,)
    return ("decisions", "covariance")


def fit_twins(twins: Sequence[Any], X: Any, labels: Any, more: dict[str, Any]) -> list[Any]:
    """Fit twins, one per path, to the sample; return those that reach their rule there, and raise if none does."""
    fitted: list[Any] = []
    failed: InfeasibleError | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what holds of all rows is said later
        for twin in twins:
            try:
                fitted.append(twin.fit(X, labels, **more))
            except InfeasibleError as error:
                failed = failed or error
    if failed is not None and not fitted:
        raise failed
    return fitted


def sample_data(study: PartitionedStudy, posed: PartitionedTask) -> tuple[Any, Any, dict[str, Any]]:
    """Return features, labels, and weights (up to all rows) and groups of the sample, for a fit in memory."""
    sample, sensitive = posed.sample, posed.sample_sensitive
    assert sensitive is not None
    kept = np.flatnonzero(sample.people_weight > 0)
    weight = sample.people_weight[kept] * (study.census.weight.sum() / sample.people_weight.sum())
    columns = {a.name: np.array(a.categories, dtype=object)[a.codes][kept] for a in sensitive.attributes}
    labels = posed.task.data.classes[(sample.y[kept] > 0).astype(int)]
    return sample.X[kept], labels, {"sample_weight": weight, "sensitive_features": columns}


def solve_levels(
    study: PartitionedStudy,
    posed: PartitionedTask,
    constraint: PRuleBound,
    free: Solution,
    points: Sequence[FamilyPoint],
    levels: Sequence[float],
    cuts: Cuts | None = None,
) -> tuple[list[PartitionedPRuleOutcome], Counted]:
    """Return, for every level, the most accurate classifier that the points' cuts offer, on all rows.

    The second value counts the decisions of the unconstrained classifier.

    ``cuts`` judge them, by default those of the constraint alone.
    A classifier may miss its level (see ``reached``) where no cut keeps the rule. All points are solved in the same
    passes; two more find the cuts, one counts the decisions made there, and one evaluates the objectives.
    """
    problem = posed.task.problem
    assert isinstance(problem, PartitionedProblem)
    jobs: list[Callable[[], Solution]] = [partial(_solve_at, study, posed, free, *point) for point in points]
    # Each solution of a region with promises begins with those that the one before has met: one after the other.
    has_promises = posed.task.region is not None and posed.task.region.promises is not None
    solutions = [job() for job in jobs] if has_promises else solve_together(problem, jobs)
    cuts = cuts or Cuts(study, posed, constraint)
    chosen = cuts.best(solutions, levels)
    thetas = [solutions[k].theta + np.append(np.zeros(len(free.theta) - 1), shift) for k, shift in chosen]
    *counted, of_free = posed.passes.rates([*thetas, free.theta], [np.zeros(1)] * (len(thetas) + 1))
    sums = posed.passes.evaluate([Request(theta, problem.loss) for theta in thetas])
    values = [float(s.loss.sum()) + problem.penalty(theta) for s, theta in zip(sums, thetas, strict=True)]
    found = []
    for (k, shift), theta, people, value in zip(chosen, thetas, counted, values, strict=True):
        p_rule, score = cuts.measures(people)
        found.append(
            PartitionedPRuleOutcome(
                _with_proof(problem, solutions[k], theta, value, free, points[k][0]),
                problem.unconstrained(),
                free,
                p_rule=p_rule,
                cv_score=score,
                training_rates=training_rates(study.census, people),
                path=points[k][0],
                path_point=points[k][1],
                path_certificate=solutions[k].certificate,
                intercept_shift=shift,
                reached=float(cuts.judge(people, np.zeros(1)).reached[0]),
                counted=people,
            )
        )
    return found, of_free


def _solve_at(study: PartitionedStudy, posed: PartitionedTask, free: Solution, path: str, point: Any) -> Solution:
    """Return the solution, on all rows, of a point of a family."""
    task = posed.task
    if path == "unconstrained":
        return free
    if path == "covariance":
        problem: Any = Path(task, free, task.problem.rows @ free.theta, signed=True).problem(float(point))
    else:
        problem = study.priced(posed, point.to_numpy()).unconstrained()
    return task.solve(problem)


def _with_proof(
    problem: PartitionedProblem, solution: Solution, theta: Array, value: float, free: Solution, path: str
) -> Solution:
    """Return the solution at its cut, with what is proved: no classifier, fair or not, is below ``free``'s bound."""
    proof, bound = solution.certificate, free.certificate.dual_bound
    proof = Certificate(value, bound, problem.relative_gap(value, bound), 0.0, proof.n_iter, proof.status)
    multipliers = np.full(problem.n_rows, np.nan if path == "decisions" else 0.0)
    if path == "covariance":
        multipliers = solution.multipliers
    return replace(solution, theta=theta, multipliers=multipliers, certificate=proof)


@dataclass(frozen=True)
class Judged:
    """The cuts of one ranking: the level of the rule, the accuracy and the share of the accepted at every edge."""

    edges: Array
    reached: Array
    accuracy: Array
    accepted: Array

    def best(self, level: float) -> tuple[float, float] | None:
        """Return accuracy and place of the most accurate cut that keeps the rule and is not constant."""
        kept = np.flatnonzero((self.reached >= level) & (self.accepted > 0) & (self.accepted < 1))
        if not len(kept):
            return None
        most = float(self.accuracy[kept].max())
        best = kept[self.accuracy[kept] >= most - 1e-12]
        return most, float(self.edges[best[np.argmin(np.abs(self.edges[best]))]])

    def between(self, least: float, most: float) -> Judged:
        """Return the same without the cuts outside of an interval."""
        kept = (self.edges >= least) & (self.edges <= most)
        return Judged(self.edges[kept], self.reached[kept], self.accuracy[kept], self.accepted[kept])

    def around(self, cut: float, number: int) -> Array:
        """Return cuts between the neighbours of one of the edges, and itself."""
        at = int(np.searchsorted(self.edges, cut))
        low, high = self.edges[max(at - 1, 0)], self.edges[min(at + 1, len(self.edges) - 1)]
        return np.unique(np.append(np.linspace(low, high, number), cut))


class Cuts:
    """Exact counts at many cuts of rankings, and the best of them."""

    def __init__(self, study: PartitionedStudy, posed: PartitionedTask, constraint: PRuleBound) -> None:
        self.study, self.posed, self.constraint = study, posed, constraint
        self.rule = make_rule(constraint)
        self.conditions = get_notion(constraint.notion).conditions(np.array([-1.0, 1.0]))

    def best(self, solutions: Sequence[Solution], levels: Sequence[float]) -> list[tuple[int, float]]:
        """Return, for each level, which solution decides most accurately, and what to add to its intercept.

        Two passes; the first solution, unmoved, for a level that no cut reaches.
        """
        number = max(_EDGES // len(solutions), _FEWEST)
        within = self.allowed(solutions)
        cuts = [self._edges(s, number, *ends) for s, ends in zip(solutions, within, strict=True)]
        rough = self._count([s.theta for s in solutions], cuts)
        rough = [judged.between(*ends) for judged, ends in zip(rough, within, strict=True)]
        asked = [(at, *found) for at, level in enumerate(levels) if (found := _most_accurate(rough, level))]
        chosen = [(0, 0.0)] * len(levels)
        if asked:
            number = max(_EDGES // len(asked), _FEWEST)
            around = [(rough[k].around(cut, number), cuts[k][1]) for _, k, cut in asked]
            finer = self._count([solutions[k].theta for _, k, _ in asked], around)
            for (at, k, cut), judged in zip(asked, finer, strict=True):
                best = judged.best(levels[at])
                chosen[at] = k, 0.0 - (cut if best is None else best[1])
        return chosen

    def allowed(self, solutions: Sequence[Solution]) -> list[tuple[float, float]]:
        """Return between which cuts of each classifier to look: all of them, where nothing else is asked."""
        return [(-np.inf, np.inf)] * len(solutions)

    def _edges(self, solution: Solution, number: int, least: float, most: float) -> tuple[Array, float]:
        """Return cuts between the sample's scores and two ends, and how near to a cut rounding would decide.

        The only cut is that at zero, however near people are, where the intercept must stay.
        """
        is_solved = solution.certificate.status in ("solved", "separable")
        if not is_solved or not self.posed.passes.fit_intercept:
            return np.zeros(1), 0.0
        scores = np.sort(scores_of(self.posed.sample.X, solution.theta, True))
        width = _ROUNDING * float(np.abs(scores).max())
        middles = (0.5 * (scores[1:] + scores[:-1]))[np.diff(scores) > 2 * width]
        middles = middles[(middles > least) & (middles < most)]
        spread = middles[np.unique(np.linspace(0, max(len(middles) - 1, 0), number).astype(np.intp))[: len(middles)]]
        ends = [end for end in (least, most) if np.isfinite(end)]
        return np.unique(np.concatenate([spread, ends, [0.0]])), width

    def _count(self, thetas: Sequence[Array], edges: Sequence[tuple[Array, float]]) -> list[Judged]:
        """Judge the cuts of several rankings, by one pass; a cut with people nearer than rounding is left out."""
        apart = [(cuts[np.append(True, np.diff(cuts) > 2 * width)], width) for cuts, width in edges]
        both_sides = [np.column_stack([cuts - width, cuts + width]).ravel() for cuts, width in apart]
        found = self.posed.passes.rates(thetas, both_sides)
        judged = []
        for people, (cuts, _), sides in zip(found, apart, both_sides, strict=True):
            clear = people[0][0].sum(axis=(0, 1))[1::2] == 0
            found_at = self.judge(people, sides)
            measures = (found_at.reached, found_at.accuracy, found_at.accepted)
            judged.append(Judged(cuts[clear], *(measured[::2][clear] for measured in measures)))
        return judged

    def judge(self, found: Counted, edges: Array) -> Judged:
        """Return what people counted between cuts say of these cuts."""
        reached = self.rule.reached(self._smoothed(self.by_group(found)))
        weight = found[0][1].sum(axis=1)
        above = accepted_weight(weight)
        factors = np.array(self.posed.passes.reading.factors)
        correct = factors[1] * above[1] + factors[0] * (weight[0].sum() - above[0])
        total = float(factors @ weight.sum(axis=1))
        return Judged(edges, np.atleast_1d(reached), correct / total, above.sum(axis=0) / weight.sum())

    def measures(self, found: Counted) -> tuple[float, float]:
        """Return the p, in percent (100 where nobody is counted), and the largest difference, at one cut."""
        counts, method = self.by_group(found), self.constraint.method
        ratio = float(least_ratio(counts, method)[0])
        return 100.0 if np.isnan(ratio) else ratio, float(highest_difference(counts, method)[0])

    def by_group(self, found: Counted) -> list[GroupCounts]:
        """Return people and decisions by group, one column per cut."""
        return count_decisions(self.study.census, found, self.conditions, self.constraint.min_people)

    def _smoothed(self, counts: list[GroupCounts]) -> list[GroupCounts]:
        size = float(self.constraint.smooth_below or 0)
        return [c.smoothed(size) for c in counts] if size else counts


def _most_accurate(judged: Sequence[Judged], level: float) -> tuple[int, float] | None:
    """Return the ranking and its cut that decide most accurately among those that keep the rule."""
    found = [(best[0], -k, best[1]) for k, ranking in enumerate(judged) if (best := ranking.best(level)) is not None]
    if not found:
        return None
    _, k, cut = max(found)
    return -k, cut
