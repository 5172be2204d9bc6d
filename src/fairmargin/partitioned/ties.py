"""Ties in passes: people whose score is zero up to rounding, seen in the sample, are moved off the boundary."""

from __future__ import annotations

from dataclasses import replace

from fairmargin.formulations import Outcome
from fairmargin.formulations.ties import settle_ties
from fairmargin.partitioned.problem import PartitionedProblem
from fairmargin.partitioned.study import PartitionedTask

__all__ = ["settle"]


def settle(posed: PartitionedTask, outcome: Outcome) -> Outcome:
    """Return an outcome whose decisions do not depend on rounding; ``n_ties`` counts people of the sample.

    As :func:`fairmargin.formulations.ties.settle_ties`, which sees the scores of the sample: people with equal
    features tie together. A pass evaluates the objective at the intercept that was moved; without ties there is none.
    """
    problem = posed.task.problem
    assert isinstance(problem, PartitionedProblem)
    scores = problem.sample.design.matvec(outcome.solution.theta)
    of_sample = replace(outcome, solution=replace(outcome.solution, scores=scores))
    settled = settle_ties(of_sample, posed.task.tol, problem.sample.design)
    return replace(settled, solution=replace(settled.solution, scores=outcome.solution.scores))
