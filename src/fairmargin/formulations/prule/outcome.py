"""What is kept of a classifier found for a p%-rule."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.formulations.outcome import Outcome
from fairmargin.formulations.prule.judge import Judge
from fairmargin.formulations.prule.search import Found
from fairmargin.formulations.task import Task
from fairmargin.problem import Certificate, Solution

__all__ = ["PRuleOutcome", "make_outcome"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PRuleOutcome(Outcome):
    """The classifier found for a p%-rule.

    Attributes
    ----------
    p_rule : float
        The p, in percent, that the decisions on the training data reach; 100 if nobody is accepted.
    cv_score : float
        The largest difference of rates.
    path : {"unconstrained", "covariance", "decisions", "rates", "ccp"}
        The family on which the classifier was found.
    path_point : None, float or pandas.Series
        Where on the family it was found: the factor of the covariance path, the prices of the decision path by
        attribute and category, or the sharpness of the smoothed rates.
    path_certificate : Certificate
        Certificate of the family's convex problem at that point, before the intercept was moved.
    intercept_shift : float
        What was added to the intercept after that problem was solved.
    """

    p_rule: float
    cv_score: float
    path: str
    path_point: Any
    path_certificate: Certificate
    intercept_shift: float
    judge: Judge = field(metadata={"fitted": False})

    def warn(self, scores: Array) -> None:
        """Warn of decisions that are no better than constant ones, or that rest on small groups."""
        self.judge.warn(scores)

    def fitted_attributes(self) -> dict[str, Any]:
        """Return the fitted attributes, with the rule that the final decisions reach."""
        p_rule, cv_score = self.judge.measures(self.solution.scores)
        return super().fitted_attributes() | {"p_rule_": p_rule, "cv_score_": cv_score}

    def broken(self, scores: Array) -> Array:
        """Return by how much the decisions miss the rule's level; not positive where they keep it."""
        return np.array([self.judge.rule.level - self.judge.reached(scores)])


def make_outcome(task: Task, judge: Judge, best: Found, free: Solution) -> PRuleOutcome:
    """Return the outcome of a classifier found on the data of a task; ``free`` is the unconstrained solution."""
    theta, found = best.theta, best.candidate
    scores = task.problem.design.matvec(theta)  # what the decisions will be made of
    multipliers = found.solution.multipliers
    if found.path in ("decisions", "rates", "ccp"):  # bounds on other covariances, or none
        multipliers = np.full_like(multipliers, np.nan)
    proof = found.solution.certificate
    p_rule, cv_score = judge.measures(scores)
    certificate = _certificate(task, free, theta, scores, proof)
    return PRuleOutcome(
        replace(found.solution, theta=theta, scores=scores, multipliers=multipliers, certificate=certificate),
        task.problem.unconstrained(),
        free,
        p_rule=p_rule,
        cv_score=cv_score,
        path=found.path,
        path_point=task.columns.series(found.point, "price") if np.ndim(found.point) else found.point,
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
