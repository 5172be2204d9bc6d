"""A p%-rule of the decisions: a search along families of convex problems, judged on the training data.

Zero covariance is not a 100%-rule, and a rule on decisions is not a convex constraint. What can be solved exactly are
one-parameter families of convex problems (:mod:`.families`). The search (:mod:`.search`) looks at the decisions of
their solutions, at every place of the intercept (:mod:`.judge`), and returns the most accurate classifier that keeps
the rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import PRuleBound
from fairmargin.exceptions import InfeasibleError
from fairmargin.formulations.outcome import Outcome
from fairmargin.formulations.prule.families import unconstrained_candidate
from fairmargin.formulations.prule.judge import Cut, Judge, make_judge
from fairmargin.formulations.prule.search import Found, find_classifier
from fairmargin.formulations.task import Task, solve_task
from fairmargin.problem import Certificate, Solution

__all__ = ["PRuleOutcome", "solve_p_rule"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PRuleOutcome(Outcome):
    """The classifier found for a p%-rule.

    Attributes
    ----------
    p_rule : float
        The p, in percent, that the decisions on the training data reach; 100 if nobody is accepted.
    path : {"unconstrained", "covariance", "decisions"}
        The family on which the classifier was found.
    path_point : None, float or pandas.Series
        Where on the family it was found: the factor of the covariance path, or the prices of the decision path by
        attribute and category.
    path_certificate : Certificate
        Certificate of the family's convex problem at that point, before the intercept was moved.
    intercept_shift : float
        What was added to the intercept after that problem was solved.
    """

    p_rule: float
    path: str
    path_point: Any
    path_certificate: Certificate
    intercept_shift: float
    judge: Judge = field(metadata={"fitted": False})

    warns_of_constants: ClassVar[bool] = True

    def fitted_attributes(self) -> dict[str, Any]:
        """Return the fitted attributes, with the rule that the final decisions reach."""
        return super().fitted_attributes() | {"p_rule_": self.judge.reached(self.solution.scores)}

    def broken(self, scores: Array) -> Array:
        """Return by how many percentage points the decisions miss the rule; not positive where they keep it."""
        return np.array([self.judge.percent - self.judge.reached(scores)])


@solve_task.register
def solve_p_rule(constraint: PRuleBound, task: Task) -> PRuleOutcome:
    """Return the most accurate classifier found whose decisions on the training data reach the rule.

    Where the unconstrained classifier reaches it, that one is returned. Deciding the same for everybody satisfies
    every rule: it is the answer only where nothing else that keeps the rule is more accurate, and the judge warns.
    """
    judge = make_judge(constraint, task)
    free = task.solve(task.problem.unconstrained())
    # Scores are computed anew wherever a rule is judged in the end: rounding must not tip a score over zero.
    scores = task.problem.design.matvec(free.theta)
    free = replace(free, multipliers=np.zeros(task.problem.n_rows), scores=scores)
    if judge.percent == 0 or (judge.keeps(scores) and not judge.is_constant(scores)):
        unmoved = Cut(judge.people.accuracy(scores >= 0), 0.0)
        return _outcome(task, judge, Found(unconstrained_candidate(free), unmoved), free)
    best = find_classifier(task, judge, free, constraint.path)
    constant = judge.constant_cut(scores)
    if constant is not None and (best is None or best.accuracy < constant.accuracy):
        best = Found(unconstrained_candidate(free), constant)
    if best is None:
        raise InfeasibleError(
            f"No classifier on the {constraint.path!r} path reaches a {constraint.p:g}%-rule on the training data "
            f"(the unconstrained one reaches {judge.reached(scores):.1f}%), and without an intercept there are no "
            "other cuts to try. Set fit_intercept=True, ask for a lower p, or merge small groups."
        )
    return _outcome(task, judge, best, free)


def _outcome(task: Task, judge: Judge, best: Found, free: Solution) -> PRuleOutcome:
    theta, found = best.theta, best.candidate
    scores = task.problem.design.matvec(theta)  # what the decisions will be made of
    judge.warn(scores)
    multipliers = found.solution.multipliers
    if found.path == "decisions":
        multipliers = np.full_like(multipliers, np.nan)
    proof = found.solution.certificate
    certificate = _certificate(task, free, theta, scores, proof)
    return PRuleOutcome(
        replace(found.solution, theta=theta, scores=scores, multipliers=multipliers, certificate=certificate),
        task.problem.unconstrained(),
        free,
        p_rule=judge.reached(scores),
        path=found.path,
        path_point=found.point,
        path_certificate=proof,
        intercept_shift=-best.cut.threshold,
        judge=judge,
    )


def _certificate(task: Task, free: Solution, theta: Any, scores: Any, proof: Certificate) -> Certificate:
    """Return what is proved of the returned classifier: no classifier, fair or not, is below the free one's bound.

    The gap is an upper bound on the price of the rule, not the distance from the best fair classifier.
    """
    value, bound = task.problem.objective(theta, scores), free.certificate.dual_bound
    gap = task.problem.relative_gap(value, bound)
    return Certificate(value, bound, gap, 0.0, proof.n_iter, proof.status)
