"""A p%-rule of the decisions: a search along families of convex problems, judged on the training data.

Zero covariance is not a 100%-rule, and a rule on decisions is not a convex constraint. What can be solved exactly are
one-parameter families of convex problems (:mod:`.families`). The search (:mod:`.search`) looks at the decisions of
their solutions, at every place of the intercept (:mod:`.judge`), and returns the most accurate classifier that keeps
the rule.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import PRuleBound
from fairmargin.exceptions import InfeasibleError
from fairmargin.formatting import with_article
from fairmargin.formulations.prule.families import unconstrained_candidate
from fairmargin.formulations.prule.judge import Cut, Judge, make_judge
from fairmargin.formulations.prule.outcome import PRuleOutcome, make_outcome
from fairmargin.formulations.prule.search import Found, find_classifier, settled
from fairmargin.formulations.prule.sequence import SafetySequence
from fairmargin.formulations.task import Task, solve_task
from fairmargin.problem import Solution
from fairmargin.tolerances import HAIR

__all__ = ["PRuleOutcome", "SafetySequence", "solve_p_rule"]

Array = NDArray[np.float64]


@solve_task.register
def solve_p_rule(constraint: PRuleBound, task: Task) -> PRuleOutcome:
    """Return the most accurate classifier found whose decisions on the training data reach the rule.

    Where the unconstrained classifier reaches it, that one is returned, with the intercept at the most accurate place
    that keeps the rule. Deciding the same for everybody satisfies every rule but those on error rates: it is the
    answer only where nothing else that keeps the rule is more accurate.
    """
    judge = make_judge(constraint, task)
    start = settled(task)
    free, scores = start.solution, start.solution.scores
    enough = _unconstrained_cut(task, judge, free)
    if enough is not None:
        made = make_outcome(task, judge, Found(unconstrained_candidate(free), enough), free)
        return made if enough.threshold else replace(made, n_ties=start.n_ties)
    best = find_classifier(task, judge, free, constraint.path)
    constant = judge.constant_cut(free)
    if constant is not None and (best is None or best.accuracy < constant.accuracy):
        best = Found(unconstrained_candidate(free), constant)
    if best is None:
        raise _infeasible(constraint, judge, scores)
    return make_outcome(task, judge, best, free)


def _infeasible(constraint: PRuleBound, judge: Judge, scores: Array) -> InfeasibleError:
    rule = judge.rule
    why = "nor does deciding the same for everybody. "
    if not judge.may_cut:
        why = "and without an intercept there are no other cuts to try. Set fit_intercept=True, or "
    ask = "Ask" if judge.may_cut else "ask"
    return InfeasibleError(
        f"No classifier on the {constraint.path!r} path reaches {with_article(rule.text)} on the training data (the "
        f"unconstrained one reaches {rule.told(judge.reached(scores))}), {why}{ask} for {rule.weaker}, "
        "or merge small groups."
    )


def _unconstrained_cut(task: Task, judge: Judge, free: Solution) -> Cut | None:
    """Return the cut of the unconstrained classifier if that keeps the rule and is of use, None if a search is due.

    Its intercept is moved to the most accurate place that keeps the rule, but not where class weights say that
    accuracy is not what is wanted.
    """
    scores = free.scores
    unmoved = Cut(judge.people.accuracy(scores >= 0), 0.0)
    if judge.rule.asks_nothing:
        return unmoved
    if not judge.keeps(scores) or judge.is_constant(scores):
        return None
    if not np.array_equal(task.data.loss_weight, task.data.people_weight):
        return unmoved
    best = judge.best_cut(free)
    if best is None or not judge.is_useful(best.accuracy):  # the unmoved one keeps the rule, perhaps by rounding
        return None
    return best if best.accuracy > unmoved.accuracy + HAIR else unmoved
