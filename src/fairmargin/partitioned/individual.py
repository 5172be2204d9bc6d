"""Promises to single people on partitioned data.

The two stages and their row generation are those of :mod:`fairmargin.formulations.individual`. Broken promises are
looked for in the sample first, and only where it has none in a pass over everybody: a classifier is returned after a
pass that found nobody's promise broken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import IndividualLossBound
from fairmargin.formulations.individual import (
    Bound,
    IndividualOutcome,
    keep_promises,
    penalty_radius,
    relative_increase,
)
from fairmargin.formulations.outcome import Outcome, as_sure_as
from fairmargin.formulations.promises import Held, PromisesInMemory, allowed_thresholds
from fairmargin.formulations.region import Region
from fairmargin.formulations.task import Task
from fairmargin.partitioned.passes import Passes
from fairmargin.partitioned.problem import PartitionedProblem
from fairmargin.partitioned.study import PartitionedStudy, PartitionedTask
from fairmargin.partitioned.ties import settle
from fairmargin.partitioned.worst import JoinWorst, Terms, Worst, WorstTask, content_keys
from fairmargin.problem import ROUNDING_ROOM, Problem, Solution, largest
from fairmargin.several import Several
from fairmargin.solvers import Accuracy, Start
from fairmargin.solvers.oracle import make_oracle
from fairmargin.tolerances import HAIR, ROUGH

__all__ = ["PartitionedPromises", "check_promises", "off_the_boundary", "promise", "solve_individual"]

Array = NDArray[np.float64]

_SCOUTED = 100_000  # rows of the sample on which both stages are solved first, to know which promises may bind


def solve_individual(
    study: PartitionedStudy, posed: PartitionedTask, constraint: IndividualLossBound
) -> IndividualOutcome:
    """Return the least covariance that keeps the promises to everybody, with the least objective among those."""
    promises, radius = promise(study, posed, constraint)
    task, free = posed.task, promises.free
    problem = task.problem
    bound = Bound(problem, replace(free, multipliers=np.zeros(problem.n_rows)), 1.0)
    if float(constraint.gamma) > 0:
        promises.scout(posed, lambda small, held: keep_promises(small, held.free, held, radius).solution)
        bound = keep_promises(task, free, promises, radius)
    found = IndividualOutcome(as_sure_as(bound.solution, free), bound.problem, free, factor=bound.factor)
    found = off_the_boundary(posed, found, promises)
    return replace(
        found,
        binding=promises.seen(found.solution.theta, 1).binding,
        loss_increase=relative_increase(found.solution, free),
    )


def promise(
    study: PartitionedStudy, posed: PartitionedTask, constraint: IndividualLossBound
) -> tuple[PartitionedPromises, float]:
    """Return what is promised to whom by the unconstrained classifier, and the largest ``||w||``."""
    keeps = _groups_that_keep(study, constraint)
    problem = posed.task.problem
    assert isinstance(problem, PartitionedProblem)
    gamma = float(constraint.gamma)
    without = problem.unconstrained()
    free = settle(posed, Outcome(posed.task.solve(without), without)).solution
    hair = HAIR * (1.0 + float(np.abs(problem.sample.design.matvec(free.theta)).max()))
    promises = PartitionedPromises(study, posed, free, Terms(free.theta, problem.loss, gamma, keeps, hair))
    return promises, penalty_radius(problem, free, gamma)


def off_the_boundary(posed: PartitionedTask, outcome: Any, promises: PartitionedPromises) -> Any:
    """Return the outcome with its ties settled, unless that breaks a promise: of the sample, or to anybody."""
    settled: Any = settle(posed, replace(outcome, promises=promises.sample))
    if promises.seen(settled.solution.theta, 1).is_broken:
        return replace(outcome, n_ties=settled.n_ties)
    return replace(settled, promises=None)


def check_promises(constraint: Any) -> None:
    """Raise for promises that passes cannot look up: to people by their places, or by more than one constraint."""
    each = constraint.constraints if isinstance(constraint, Several) else [constraint]
    asked = [one for one in each if isinstance(one, IndividualLossBound)]
    if len(asked) > 1:
        raise ValueError(
            f"A list of constraints on partitioned data takes one IndividualLossBound, got {asked!r}; ask for all of "
            "it at once: IndividualLossBound(gamma, keep_positive=...)."
        )
    for one in asked:
        if np.ndim(one.gamma) > 0 or not (one.keep_positive is None or isinstance(one.keep_positive, str | Mapping)):
            raise ValueError(
                "An IndividualLossBound on partitioned data takes one gamma for everybody and keep_positive=None, "
                "'accepted' or a mapping from attribute to category; arrays over people need all rows in memory."
            )


def _groups_that_keep(
    study: PartitionedStudy, constraint: IndividualLossBound
) -> tuple[NDArray[np.bool_], ...] | None:
    """Return which values of every attribute of groups keep a positive decision; None if nobody does."""
    asked = constraint.keep_positive
    if asked is None:
        return None
    census = study.census
    assert census.sensitive is not None
    places = np.arange(len(census.cells))
    everybody = np.ones(len(places), dtype=bool)
    constraint.kept(census.sensitive, everybody, places, len(places))  # raises where there is no such group
    found = []
    for at, (name, values) in enumerate(census.groups, start=1):
        wanted = set(values)
        if isinstance(asked, Mapping) and name in asked:
            alone = replace(constraint, keep_positive={name: asked[name]})
            inside = alone.kept(census.sensitive, everybody, places, len(places))
            wanted = {cell[at] for cell, is_inside in zip(census.cells, inside, strict=True) if is_inside}
        found.append(np.array([value in wanted for value in values]))
    return tuple(found)


class PartitionedPromises:
    """Promises to everybody in partitioned data; see :class:`fairmargin.formulations.promises.Promises`.

    Parameters
    ----------
    study : PartitionedStudy
    posed : PartitionedTask
    free : Solution
        Without constraints.
    terms : Terms
        What is promised, and to whom.
    """

    def __init__(self, study: PartitionedStudy, posed: PartitionedTask, free: Solution, terms: Terms) -> None:
        self.passes: Passes = posed.passes
        self.free, self.terms = free, terms
        problem = posed.task.problem
        assert isinstance(problem, PartitionedProblem)
        codes = self.passes.reading.group_codes(study.sums.sample.table) if terms.keeps else []
        in_groups = np.broadcast_to(terms.chosen(codes), len(posed.sample.y))[posed.sample.loss_weight > 0]
        self.sample = self._in_memory(problem.on_sample(), in_groups)
        whole = len(self.sample.problem.y)
        self._few = np.arange(0, whole, max(1, -(-whole // _SCOUTED)))
        self._of_few = self._in_memory(self.sample.problem.take(self._few), in_groups[self._few])
        self._scouted: Held | None = None
        self._seen: tuple[bytes, int, Worst] | None = None
        self._cuts: dict[bytes, tuple[float, float]] = {}

    def _in_memory(self, problem: Problem, in_groups: NDArray[np.bool_]) -> PromisesInMemory:
        terms, scores = self.terms, problem.design.matvec(self.terms.free)
        free = replace(self.free, scores=scores, hessian=None)
        gamma = np.full(len(scores), terms.gamma)
        return PromisesInMemory.make(problem, free, gamma, in_groups & (scores >= 0), terms.hair)

    def scout(self, posed: PartitionedTask, find: Callable[[Task, PromisesInMemory], Solution]) -> None:
        """Solve the task on a part of the sample by ``find``, and remember the promises that are tight there."""
        task = replace(posed.task, problem=self._of_few.problem, tol=max(posed.task.tol, ROUGH))
        self._scouted = self._tight_on_few(find(task, self._of_few).theta)

    def foresee(self, region: Region, problem: Problem) -> Held:
        """Return the promises that are tight where the same problem is solved on a part of the sample."""
        assert isinstance(problem, PartitionedProblem)
        few = problem.on_sample().take(self._few)
        theta = self.terms.free
        if abs(few.y.sum()) < len(few.y):  # of one class alone the solution says nothing
            within = Region(region.rows, region.lower, region.upper, self._of_few, region.radius)
            found = within.solve(few, None, Accuracy(ROUGH))
            theta = found.theta if np.all(np.isfinite(found.theta)) else theta
        return self._tight_on_few(theta)

    def _tight_on_few(self, theta: Array) -> Held:
        held = self._of_few.look(theta).tightest(2 * len(theta))
        return _told_apart(held, self._of_few)

    def look(self, theta: Array, scores: Array | None = None) -> _View:
        """Return all promises as seen from a point."""
        return _View(self, theta)

    def first(self, count: int) -> Held:
        """Return those that are tight on the sample: at its own solution, and at the unconstrained classifier."""
        held = _told_apart(self.sample.first(count), self.sample)
        return held if self._scouted is None else self._scouted.joined(held)

    def start(self, free: Solution) -> Start | None:
        """Start at the solution on the sample."""
        return None

    def evaluate(self, problem: Problem, theta: Array, tol: float) -> Solution:
        """Return a point with its certificate, without multipliers: one pass."""
        point = make_oracle(problem).at(theta)
        assert point.dual is not None
        nothing = np.zeros(problem.n_rows)
        proof = problem.certify_value(theta, nothing, point.objective, point.dual, tol=tol)
        return Solution(theta, nothing, np.empty(0), np.empty(0), proof)

    def kept(self, solution: Solution) -> tuple[float, int]:
        """Return by how much the worst promise is broken, at least 0, and how many bind: no more than are listed."""
        worst = self.seen(solution.theta, 1)
        return largest(-worst.slack), len(worst.binding)

    def seen(self, theta: Array, count: int) -> Worst:
        """Return the promises with the least room at a point: one pass, unless it is the last point."""
        key = theta.tobytes()
        if self._seen is None or self._seen[0] != key or self._seen[1] < count:
            task = WorstTask(self.passes.reading, self.terms, theta, count, self.passes.fit_intercept)
            self._seen = key, count, self.passes.run("worst", task, JoinWorst(count))
            self._cuts[key] = allowed_thresholds(self._seen[2].room, self._seen[2].largest)
        return self._seen[2]

    def cuts(self, theta: Array) -> tuple[float, float]:
        """Return the least and the largest threshold, taken off every score, that keeps all promises.

        One pass, unless the point was looked at before.
        """
        if theta.tobytes() not in self._cuts:
            self.seen(theta, 1)
        return self._cuts[theta.tobytes()]


class _View:
    """The promises as seen from a point."""

    def __init__(self, promises: PartitionedPromises, theta: Array) -> None:
        self.promises, self.theta = promises, theta
        self.in_sample = promises.sample.look(theta)

    def tightest(self, count: int) -> Held:
        """Return the promises with the least room, of the sample and of everybody."""
        held = _told_apart(self.in_sample.tightest(count), self.promises.sample)
        everybody = self.promises.seen(self.theta, count).held
        held = everybody.joined(held)
        return held if self.promises._scouted is None else held.joined(self.promises._scouted)

    def broken(self, known: Held, count: int) -> Held:
        """Return the worst broken promises that are not known: of the sample, or of everybody if it has none."""
        nothing = Held(np.empty(0, dtype=np.int64), np.empty((0, known.rows.shape[1])), np.empty(0))
        found = self.in_sample.broken(nothing, count + len(known))
        found = _unknown(_told_apart(found, self.promises.sample), known, count)
        if len(found):
            return found
        worst = self.promises.seen(self.theta, count + len(known))
        return _unknown(_part(worst.held, worst.slack < -ROUNDING_ROOM), known, count)

    def share_of_free(self) -> float:
        """Return how far to go towards the unconstrained classifier for everybody's promise to be kept."""
        worst = self.promises.seen(self.theta, 1)
        return worst.share if worst.is_broken else 0.0


def _told_apart(held: Held, promises: PromisesInMemory) -> Held:
    """Return promises of the sample with keys by their content, each once."""
    keys = content_keys(held.rows, held.key >= promises.n_bounded)
    first = np.sort(np.unique(keys, return_index=True)[1])
    return Held(keys[first], held.rows[first], held.tau[first])


def _part(held: Held, which: NDArray[np.bool_]) -> Held:
    return Held(held.key[which], held.rows[which], held.tau[which])


def _unknown(held: Held, known: Held, count: int) -> Held:
    new = np.flatnonzero(~np.isin(held.key, known.key))[:count]
    return Held(held.key[new], held.rows[new], held.tau[new])
