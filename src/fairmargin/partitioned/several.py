"""Promises to single people beside other constraints, on partitioned data."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import Any

from fairmargin.constraints import IndividualLossBound
from fairmargin.exceptions import InfeasibleError
from fairmargin.formulations import Outcome
from fairmargin.formulations.promises import PromisesInMemory
from fairmargin.formulations.several import solve_demands
from fairmargin.formulations.several.demands import Demands
from fairmargin.formulations.task import Task
from fairmargin.partitioned.individual import off_the_boundary, promise
from fairmargin.partitioned.study import PartitionedStudy, PartitionedTask
from fairmargin.problem import Solution
from fairmargin.several import Several

__all__ = ["demands_with_promises", "solve_beside_promises"]


def solve_beside_promises(study: PartitionedStudy, posed: PartitionedTask, constraint: Several) -> Outcome:
    """Return the classifier that a list with an ``IndividualLossBound`` leaves, as in memory.

    Everything else in such a list follows from sums over the rows.
    """
    told = demands_with_promises(study, posed, constraint)
    with contextlib.suppress(InfeasibleError):  # of a part of the sample: everybody may be another matter
        told.promises.scout(posed, partial(_solve_in_memory, constraint, told.radius))
    found: Any = off_the_boundary(posed, solve_demands(told), told.promises)
    return found


def demands_with_promises(study: PartitionedStudy, posed: PartitionedTask, constraint: Several) -> Demands:
    """Return the demands of a list with an ``IndividualLossBound``."""
    (asked,) = constraint.of(IndividualLossBound)
    promises, radius = promise(study, posed, asked)
    return _demands(constraint, posed.task, promises.free, promises, radius)


def _solve_in_memory(constraint: Several, radius: float, task: Task, promises: PromisesInMemory) -> Solution:
    free = promises.free
    objective = task.problem.objective(free.theta, free.scores)
    free = replace(free, certificate=replace(free.certificate, objective=objective))
    return solve_demands(_demands(constraint, task, free, promises, radius)).solution


def _demands(constraint: Several, task: Task, free: Solution, promises: Any, radius: float) -> Demands:
    """Return the demands of a list whose promises are known."""
    return Demands(constraint, task, free, constraint.notions, promise=lambda *_: (promises, radius))
