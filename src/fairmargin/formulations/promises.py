"""Promises to people as linear constraints, of which only a few at a time are looked at.

A promise to person i is ``sign_i f(x_i) >= tau_i``: a bounded loss (``sign = y``), or a positive decision that is
kept (``sign = 1``). Row generation asks for the tightest promises, or the worst broken ones, at a point; where the
rows are is the business of the class that answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairmargin.exceptions import InfeasibleError
from fairmargin.losses import Loss
from fairmargin.problem import ROUNDING_ROOM, Problem, Solution, largest
from fairmargin.solvers import Start

__all__ = [
    "BINDING",
    "Held",
    "PromiseView",
    "Promises",
    "PromisesInMemory",
    "allowed_thresholds",
    "least_margins",
    "share_of_free",
]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

BINDING = 2e-7  # room below which a promise binds; share by which a second stage may exceed the least covariance


@dataclass(frozen=True)
class Held:
    """Promises that are looked at, as rows of A: ``rows theta >= tau``.

    ``key`` (m,) tells promises apart.
    """

    key: NDArray[np.int64]
    rows: Array
    tau: Array

    def __len__(self) -> int:
        return len(self.tau)

    def joined(self, other: Held) -> Held:
        """Return these promises and the others that are not among them."""
        new = ~np.isin(other.key, self.key)
        return Held(
            np.concatenate([self.key, other.key[new]]),
            np.vstack([self.rows, other.rows[new]]),
            np.concatenate([self.tau, other.tau[new]]),
        )


class PromiseView(Protocol):
    """All promises, seen from one point."""

    def tightest(self, count: int) -> Held:
        """Return the promises with the least room."""
        ...

    def broken(self, known: Held, count: int) -> Held:
        """Return the worst broken promises that are not among the known ones."""
        ...

    def share_of_free(self) -> float:
        """Return how far to go towards the unconstrained classifier, which keeps all promises, to keep them too."""
        ...


class Promises(Protocol):
    """Promises to everybody, wherever the rows are."""

    def look(self, theta: Array, scores: Array | None = None) -> PromiseView:
        """Return the promises as seen from a point (with its scores, where they are known)."""
        ...

    def first(self, count: int) -> Held:
        """Return promises to begin with."""
        ...

    def start(self, free: Solution) -> Start | None:
        """Return where the second stage starts from."""
        ...

    def foresee(self, region: Any, problem: Problem) -> Held:
        """Return promises that may bind in the solution of a problem within a region, where looking is dear."""
        ...

    def evaluate(self, problem: Problem, theta: Array, tol: float) -> Solution:
        """Return a point with its certificate, without multipliers."""
        ...

    def kept(self, solution: Solution) -> tuple[float, int]:
        """Return by how much the worst promise is broken, at least 0, and how many are kept with no room to spare."""
        ...


@dataclass(frozen=True)
class PromisesInMemory:
    """``sign_i f(x_i) >= tau_i`` for everybody with a promise.

    A person with two promises (a bounded loss and a decision to keep) has two entries; the ``n_bounded`` entries of
    bounded losses come first.
    """

    problem: Problem
    free: Solution
    n_bounded: int
    people: Index
    sign: Array
    tau: Array

    @classmethod
    def make(
        cls, problem: Problem, free: Solution, gamma: Array, kept: NDArray[np.bool_], hair: float
    ) -> PromisesInMemory:
        """Return the promises that the unconstrained classifier and the ``gamma`` (N,) of the people make."""
        margins = problem.y * free.scores
        bounded = np.flatnonzero(np.isfinite(gamma))
        keeps = np.flatnonzero(kept)
        return cls(
            problem,
            free,
            len(bounded),
            np.concatenate([bounded, keeps]),
            np.concatenate([problem.y[bounded], np.ones(len(keeps))]),
            np.concatenate(
                [
                    least_margins(problem.loss, margins[bounded], gamma[bounded]),
                    np.minimum(hair, free.scores[keeps]),
                ]
            ),
        )

    def and_these(self, other: PromisesInMemory) -> PromisesInMemory:
        """Return the promises and others of the same people."""
        pairs = zip((self.people, self.sign, self.tau), (other.people, other.sign, other.tau), strict=True)
        n, m = self.n_bounded, other.n_bounded
        joined = [np.concatenate([mine[:n], more[:m], mine[n:], more[m:]]) for mine, more in pairs]
        return PromisesInMemory(self.problem, self.free, n + m, *joined)

    def cuts(self, scores: Array) -> tuple[float, float]:
        """Return the least and the largest threshold, taken off every score, that keeps all promises."""
        slack = self.slack(scores)
        room = [float(np.min(slack[self.sign == side], initial=np.inf)) for side in (-1.0, 1.0)]
        return allowed_thresholds(room, largest(np.abs(scores)))

    def slack(self, scores: Array) -> Array:
        """Return by how much each promise is kept."""
        return self.sign * scores[self.people] - self.tau

    def check_decisions(self, scores: Array) -> None:
        """Raise where a decision that must be kept is not that of the scores."""
        refused = int(np.count_nonzero(scores[self.people[self.n_bounded :]] < 0))
        if refused:
            raise InfeasibleError(
                f"keep_positive cannot be kept: by the rounding of scores {refused} people would be refused whom the "
                "unconstrained classifier accepts. Scale the features, remove columns that nearly depend on others, "
                "or lower C."
            )

    def held(self, chosen: Index) -> Held:
        """Return some of the promises as rows of A."""
        rows = self.sign[chosen, None] * self.problem.design.rows(self.people[chosen])
        return Held(chosen.astype(np.int64), rows, self.tau[chosen])

    def look(self, theta: Array, scores: Array | None = None) -> _ViewInMemory:
        """Return all promises as seen from a point."""
        scores = self.problem.design.matvec(theta) if scores is None else scores
        return _ViewInMemory(self, scores, self.slack(scores))

    def first(self, count: int) -> Held:
        """Return those with the least room at the unconstrained classifier."""
        return self.look(self.free.theta, self.free.scores).tightest(count)

    def start(self, free: Solution) -> Start:
        """Start at the unconstrained classifier."""
        return Start(free.theta, hessian=free.hessian)

    def foresee(self, region: Any, problem: Problem) -> Held:
        """Return none: looking is cheap."""
        return self.held(np.empty(0, dtype=np.intp))

    def evaluate(self, problem: Problem, theta: Array, tol: float) -> Solution:
        """Return a point with its certificate, without multipliers."""
        scores = problem.design.matvec(theta)
        alpha = problem.dual_variables(scores)
        nothing = np.zeros(problem.n_rows)
        proof = problem.certify(theta, nothing, scores, problem.dual_sums(scores, alpha), tol=tol)
        return Solution(theta, nothing, scores, alpha, proof)

    def kept(self, solution: Solution) -> tuple[float, int]:
        """Return by how much the worst promise is broken, at least 0, and how many are kept with no room to spare."""
        slack = self.slack(solution.scores)
        return largest(-slack), int(np.count_nonzero(slack <= BINDING))


@dataclass(frozen=True)
class _ViewInMemory:
    promises: PromisesInMemory
    scores: Array
    slack: Array

    def tightest(self, count: int) -> Held:
        return self.promises.held(_least(self.slack, count))

    def broken(self, known: Held, count: int) -> Held:
        slack = self.slack.copy()
        slack[known.key] = np.inf
        broken = np.flatnonzero(slack < -ROUNDING_ROOM)
        return self.promises.held(broken[_least(slack[broken], count)])

    def share_of_free(self) -> float:
        slack = self.slack
        broken = slack < -ROUNDING_ROOM * (1.0 + float(np.abs(self.scores).max()))
        return share_of_free(slack[broken], self.promises.slack(self.promises.free.scores)[broken])


def share_of_free(slack: Array, at_free: Array) -> float:
    """Return the share of the unconstrained classifier at which promises broken by ``-slack`` are kept again."""
    return float(np.max(slack / (slack - at_free), initial=0.0))


def allowed_thresholds(room: Sequence[float] | Array, size: float) -> tuple[float, float]:
    """Return the least and the largest threshold that keeps promises of scores of at most ``size``.

    ``room`` (2,) is the least room of those to score low and of those to score high. Room up to rounding is none:
    promises of both kinds that bind leave the threshold where it is, rather than nowhere.
    """
    low, high = np.where(np.abs(room) <= ROUNDING_ROOM * (1.0 + size), 0.0, room)
    return -float(low), float(high)


def least_margins(loss: Loss, margins: Array, gamma: Array | float) -> Array:
    """Return the margins at which losses are ``1 + gamma`` times those at ``margins``.

    Rounding in the inverse must not make the unconstrained classifier break a promise of ``gamma = 0``.
    """
    return np.minimum(loss.inverse((1.0 + gamma) * loss.value(margins)), margins)


def _least(slack: Array, count: int) -> Index:
    if len(slack) <= count:
        return np.arange(len(slack))
    return np.argpartition(slack, count)[:count]
