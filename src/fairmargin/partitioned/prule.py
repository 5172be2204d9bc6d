"""A p%-rule of the decisions on partitioned data.

Where on its families the best classifier lies (:mod:`fairmargin.formulations.prule`) is searched on the sample. The
convex problem of that point is then solved and certified on all rows, and its intercept is moved to the most accurate
place that keeps the rule among *everybody*: people are counted by label, group and bin of the score, first between
the quantiles of the sample's scores and then within the bin of the best cut. Counts of people are whole numbers, so
that the rule holds exactly.

The costs of the decision path depend on label and group only: a table of prices travels with the tasks.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from fairmargin.constraints import PRuleBound
from fairmargin.decisions import GroupCounts, highest_difference, least_ratio
from fairmargin.exceptions import InfeasibleError
from fairmargin.formulations import Outcome
from fairmargin.formulations.covariance import Path
from fairmargin.formulations.prule.rule import make_rule
from fairmargin.notions import get_notion
from fairmargin.partitioned.counts import accepted_weight, count_decisions, training_rates
from fairmargin.partitioned.passes import Request, scores_of
from fairmargin.partitioned.study import PartitionedStudy, PartitionedTask
from fairmargin.problem import Certificate, Solution
from fairmargin.solvers import solve

__all__ = ["PartitionedPRuleOutcome", "solve_p_rule"]

Array = NDArray[np.float64]

_EDGES = 2000  # cuts that one pass counts: twice that many people of the sample lie between two of them at 1e6 rows


@dataclass(frozen=True, kw_only=True)
class PartitionedPRuleOutcome(Outcome):
    """The classifier found for a p%-rule; the attributes are those of a fit in memory."""

    p_rule: float
    cv_score: float
    training_rates: pd.Series | None
    path: str
    path_point: Any
    path_certificate: Certificate
    intercept_shift: float


def solve_p_rule(
    study: PartitionedStudy, estimator: Any, posed: PartitionedTask, constraint: PRuleBound
) -> PartitionedPRuleOutcome:
    """Return the classifier of the point that the sample chose, solved on all rows, at its best cut there."""
    task = posed.task
    numeric = [a.name for a in task.sensitive.attributes if a.codes is None]
    if numeric:
        raise ValueError(
            f"A p%-rule compares groups, but the sensitive attribute {numeric[0]!r} is a number; cut it into groups."
        )
    if constraint.path == "ccp":
        raise ValueError("path='ccp' needs all people in memory; choose another path.")
    twin = _search_sample(study, estimator, posed)
    free = task.solve(task.problem.unconstrained())
    solution = _solve_at(study, posed, free, twin.path_, twin.path_point_)
    if solution.certificate.status not in ("solved", "separable") or not task.problem.design.fit_intercept:
        shift = 0.0
    else:
        shift = _Cuts(study, posed, constraint).best_shift(solution.theta)
    theta = solution.theta.copy()
    if shift:
        theta[-1] += shift
    cuts = _Cuts(study, posed, constraint)
    reached, rule = cuts.reached(theta), cuts.rule
    if reached < rule.level:
        raise InfeasibleError(
            f"No cut of the classifier found on the {twin.path_!r} path reaches a {rule.text} on all rows "
            f"(it reaches {rule.told(reached)}). Take a larger sample, ask for {rule.weaker}, or merge small groups."
        )
    p_rule, score, rates = cuts.measures(theta)
    return PartitionedPRuleOutcome(
        _with_proof(posed, solution, theta, free, twin.path_),
        task.problem.unconstrained(),
        free,
        p_rule=p_rule,
        cv_score=score,
        training_rates=rates,
        path=twin.path_,
        path_point=twin.path_point_,
        path_certificate=solution.certificate,
        intercept_shift=shift,
    )


def _search_sample(study: PartitionedStudy, estimator: Any, posed: PartitionedTask) -> Any:
    """Return the estimator fitted to the sample, weighted up to all rows; what it warns of is said of all rows."""
    sample, sensitive = posed.sample, posed.sample_sensitive
    assert sensitive is not None
    kept = np.flatnonzero(sample.people_weight > 0)
    weight = sample.people_weight[kept] * (study.census.weight.sum() / sample.people_weight.sum())
    columns = {a.name: np.array(a.categories, dtype=object)[a.codes][kept] for a in sensitive.attributes}
    labels = posed.task.data.classes[(sample.y[kept] > 0).astype(int)]
    twin = clone(estimator).set_params(pos_label=posed.task.data.classes.tolist()[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return twin.fit(sample.X[kept], labels, sample_weight=weight, sensitive_features=columns)


def _solve_at(study: PartitionedStudy, posed: PartitionedTask, free: Solution, path: str, point: Any) -> Solution:
    """Return the solution, on all rows, of a point of a family."""
    task = posed.task
    if path == "unconstrained":
        return free
    if path == "covariance":
        problem: Any = Path(task, free, task.problem.rows @ free.theta, signed=True).problem(float(point))
    else:
        problem = study.priced(posed, point.to_numpy()).unconstrained()
    return solve(problem, accuracy=task.accuracy)


def _with_proof(posed: PartitionedTask, solution: Solution, theta: Array, free: Solution, path: str) -> Solution:
    """Return the solution at its cut, with what is proved: no classifier, fair or not, is below ``free``'s bound."""
    problem = posed.task.problem
    (sums,) = posed.passes.evaluate([Request(theta, problem.loss)])
    value, bound = float(sums.loss.sum()) + problem.penalty(theta), free.certificate.dual_bound
    proof = solution.certificate
    proof = Certificate(value, bound, problem.relative_gap(value, bound), 0.0, proof.n_iter, proof.status)
    multipliers = np.full(problem.n_rows, np.nan if path == "decisions" else 0.0)
    if path == "covariance":
        multipliers = solution.multipliers
    return replace(solution, theta=theta, multipliers=multipliers, certificate=proof)


class _Cuts:
    """Exact counts at many cuts of a ranking, and the best of them."""

    def __init__(self, study: PartitionedStudy, posed: PartitionedTask, constraint: PRuleBound) -> None:
        self.study, self.posed, self.constraint = study, posed, constraint
        self.rule = make_rule(constraint)
        self.conditions = get_notion(constraint.notion).conditions(np.array([-1.0, 1.0]))

    def reached(self, theta: Array) -> float:
        """Return the level of the rule that the decisions of ``theta`` reach."""
        return float(self._judge(theta, np.zeros(1))[0][0])

    def measures(self, theta: Array) -> tuple[float, float, pd.Series | None]:
        """Return the p, in percent (100 where nobody is counted), the largest difference, and the positive rates."""
        (found,) = self.posed.passes.rates([theta], [np.zeros(1)])
        counts, method = self._by_group(found), self.constraint.method
        ratio = float(least_ratio(counts, method)[0])
        p = 100.0 if np.isnan(ratio) else ratio
        return p, float(highest_difference(counts, method)[0]), training_rates(self.study.census, found)

    def best_shift(self, theta: Array) -> float:
        """Return what to add to the intercept for the most accurate decisions that keep the rule, 0 if none do."""
        scores = np.sort(scores_of(self.posed.sample.X, theta, True))
        middles = np.unique(0.5 * (scores[1:] + scores[:-1]))
        spread = middles[np.unique(np.linspace(0, len(middles) - 1, _EDGES).astype(np.intp))]
        edges = np.unique(np.append(spread, 0.0))
        cut = self._best(theta, edges)
        if cut is None:
            return 0.0
        at = int(np.searchsorted(edges, cut))
        low, high = edges[max(at - 1, 0)], edges[min(at + 1, len(edges) - 1)]
        finer = np.unique(np.append(np.linspace(low, high, _EDGES), cut))
        cut = self._best(theta, finer)
        return 0.0 if cut is None else -float(cut)

    def _best(self, theta: Array, edges: Array) -> float | None:
        reached, accuracy, accepted = self._judge(theta, edges)
        kept = np.flatnonzero((reached >= self.rule.level) & (accepted > 0) & (accepted < 1))
        if not len(kept):
            return None
        best = kept[accuracy[kept] >= accuracy[kept].max() - 1e-12]
        return float(edges[best[np.argmin(np.abs(edges[best]))]])

    def _judge(self, theta: Array, edges: Array) -> tuple[Array, Array, Array]:
        """Return the level of the rule, the accuracy and the share of the accepted at every cut."""
        counts, weight = self._counts(theta, edges)
        reached = self.rule.reached(self._smoothed(counts))
        above = accepted_weight(weight)
        factors = np.array(self.posed.passes.reading.factors)
        correct = factors[1] * above[1] + factors[0] * (weight[0].sum() - above[0])
        total = float(factors @ weight.sum(axis=1))
        return np.atleast_1d(reached), correct / total, above.sum(axis=0) / weight.sum()

    def _counts(self, theta: Array, edges: Array) -> tuple[list[GroupCounts], Array]:
        """Return the counts of every attribute and condition at every cut, and weights by class and bin."""
        (found,) = self.posed.passes.rates([theta], [edges])
        return self._by_group(found), found[0][1].sum(axis=1)

    def _by_group(self, found: Any) -> list[GroupCounts]:
        return count_decisions(self.study.census, found, self.conditions, self.constraint.min_people)

    def _smoothed(self, counts: list[GroupCounts]) -> list[GroupCounts]:
        size = float(self.constraint.smooth_below or 0)
        return [c.smoothed(size) for c in counts] if size else counts
