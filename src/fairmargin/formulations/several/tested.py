"""Classifiers to be tested on other people, among those that keep the other constraints of a list."""

from __future__ import annotations

from dataclasses import replace

from fairmargin.constraints import PRuleBound
from fairmargin.formulations.individual import reference_solution
from fairmargin.formulations.outcome import Outcome
from fairmargin.formulations.prule.outcome import make_outcome
from fairmargin.formulations.prule.search import Found
from fairmargin.formulations.prule.sequence import Allowed, SafetySequence
from fairmargin.formulations.several import keep_rules, with_base
from fairmargin.formulations.several.demands import Demands
from fairmargin.formulations.several.rules import make_joint
from fairmargin.formulations.task import Task
from fairmargin.several import Several

__all__ = ["ListSequence"]


class ListSequence(SafetySequence):
    """The classifiers that keep all constraints of a list on the people who train, by the margin of one rule.

    Parameters
    ----------
    task : Task
        On the people who train, with the rows of all notions.
    asked : Several
    rule : PRuleBound
        The one that is tested.
    n_test : float
        Number of people who will be tested, in all.
    """

    def __init__(self, task: Task, asked: Several, rule: PRuleBound, n_test: float) -> None:
        free = reference_solution(task)
        self.demands, base = with_base(Demands(asked, task, free, asked.notions))
        within, judge, start = make_joint(self.demands, base)
        tested = replace(judge.parts[self.demands.rules.index(rule)], smooth_below=0.0)
        accuracy = judge.people.accuracy(free.scores >= 0)
        super().__init__(within, rule, n_test, Allowed(judge, start, tested, accuracy))

    def _made(self, found: Found) -> Outcome:
        return keep_rules(self.demands, make_outcome(self.task, self.judge, found, self.free))
