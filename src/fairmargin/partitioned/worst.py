"""The promises to people that a point keeps worst, found where the rows are.

Promises follow from the unconstrained classifier: workers recompute everybody's from its coefficients, and return the
few with the least room. Two people with the same features and the same kind of promise have the same promise, so that
promises are told apart by their content; it does not matter who reports one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.formulations.promises import BINDING, Held, least_margins, share_of_free
from fairmargin.losses import Loss
from fairmargin.partitioned.contract import Partition
from fairmargin.partitioned.passes import design_of, scores_of
from fairmargin.partitioned.reading import Reading
from fairmargin.problem import ROUNDING_ROOM

__all__ = ["JoinWorst", "Terms", "Worst", "WorstTask", "content_keys"]

Array = NDArray[np.float64]

_REPEATED = 4  # candidates per promise wanted: some people are alike
_LISTED = 10_000  # binding promises whose rows are listed


@dataclass(frozen=True)
class Terms:
    """What is promised, and to whom: small, since it travels with every task.

    Attributes
    ----------
    free : (p,)
        The unconstrained classifier.
    loss : Loss
    gamma : float
        By how much a loss may grow; infinite for no bound.
    keeps : tuple of (number of values,) of bool, one per attribute of groups, or None
        Groups whose people keep a positive decision: those in a chosen group of every attribute. None: nobody does.
    hair : float
        The score that is asked of people who keep a positive decision, which they may have had by less.
    """

    free: Array
    loss: Loss
    gamma: float
    keeps: tuple[NDArray[np.bool_], ...] | None
    hair: float

    def chosen(self, codes: list[NDArray[np.int32]]) -> NDArray[np.bool_] | np.bool_:
        """Return who is in the groups that keep a positive decision, from their codes by attribute."""
        if self.keeps is None:
            return np.False_
        found: NDArray[np.bool_] | np.bool_ = np.True_
        for which, code in zip(self.keeps, codes, strict=True):
            found = found & which.take(code)
        return found


@dataclass
class Worst:
    """Promises with the least room at a point, of one partition or of several.

    Attributes
    ----------
    held : Held
        In the order of ``slack`` (m,), by how much each is kept.
    n_rows : int
    binding : ndarray of int
        Rows, counted through all partitions, of people whose promise binds; not more than a few thousand are listed.
    room : (2,)
        The least room of promises to score low, and of those to score high; infinite without any.
    share : float
        How far to go towards the unconstrained classifier for all broken promises to be kept.
    largest : float
        Largest ``|f(x_i)|``.
    """

    held: Held
    slack: Array
    n_rows: int
    binding: NDArray[np.intp]
    room: Array
    share: float
    largest: float

    @property
    def is_broken(self) -> bool:
        """Whether a promise is broken by more than the rounding of a score."""
        return bool(self.slack.min(initial=0.0) < -ROUNDING_ROOM * (1.0 + self.largest))

    def cut(self, count: int) -> Worst:
        """Return it with the ``count`` promises of least room, each once."""
        order = np.argsort(self.slack, kind="stable")
        _, first = np.unique(self.held.key[order], return_index=True)
        order = order[np.sort(first)[:count]]
        held = Held(self.held.key[order], self.held.rows[order], self.held.tau[order])
        return replace(self, held=held, slack=self.slack[order], binding=self.binding[:_LISTED])


@dataclass(frozen=True)
class WorstTask:
    """What a worker does with a partition."""

    reading: Reading
    terms: Terms
    theta: Array
    count: int
    fit_intercept: bool

    def __call__(self, partition: Partition) -> Worst:
        """Return the promises to people of a partition that have the least room."""
        table, place = self.reading.load(partition, with_groups=bool(self.terms.keeps))
        rows = self.reading.encode(table, place)
        scores, free = (scores_of(rows.X, theta, self.fit_intercept) for theta in (self.theta, self.terms.free))
        codes = self.reading.group_codes(table) if self.terms.keeps else []
        counts = rows.loss_weight > 0
        keeps = np.flatnonzero(counts & (free >= 0) & self.terms.chosen(codes))
        bounded = np.flatnonzero(counts) if np.isfinite(self.terms.gamma) else np.empty(0, dtype=np.intp)
        margins = rows.y[bounded] * free[bounded]
        people = np.concatenate([bounded, keeps])
        sign = np.concatenate([rows.y[bounded], np.ones(len(keeps))])
        least = least_margins(self.terms.loss, margins, self.terms.gamma) if len(bounded) else margins
        tau = np.concatenate([least, np.minimum(self.terms.hair, free[keeps])])
        slack = sign * scores[people] - tau
        few = _REPEATED * self.count
        chosen = np.argpartition(slack, few)[:few] if len(slack) > few else np.arange(len(slack))
        matrix = sign[chosen, None] * design_of(rows.X, self.fit_intercept).rows(people[chosen])
        held = Held(content_keys(matrix, chosen >= len(bounded)), matrix, tau[chosen])
        broken = slack < -ROUNDING_ROOM
        share = share_of_free(slack[broken], sign[broken] * free[people[broken]] - tau[broken])
        binding = np.unique(people[slack <= BINDING])
        room = np.array([slack[sign == side].min(initial=np.inf) for side in (-1.0, 1.0)])
        largest = float(np.abs(scores).max(initial=0.0))
        return Worst(held, slack[chosen], len(scores), binding, room, share, largest).cut(self.count)


@dataclass(frozen=True)
class JoinWorst:
    """Merges what partitions report."""

    count: int

    def __call__(self, first: Worst, second: Worst) -> Worst:
        """Return the promises with the least room of both."""
        held = Held(
            np.concatenate([first.held.key, second.held.key]),
            np.vstack([first.held.rows, second.held.rows]),
            np.concatenate([first.held.tau, second.held.tau]),
        )
        return Worst(
            held,
            np.concatenate([first.slack, second.slack]),
            first.n_rows + second.n_rows,
            np.concatenate([first.binding, first.n_rows + second.binding]),
            np.minimum(first.room, second.room),
            max(first.share, second.share),
            max(first.largest, second.largest),
        ).cut(self.count)


def content_keys(rows: Array, keeps: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return a key of each promise from what it says: its row of A, and whether it keeps a decision."""
    found = [
        hashlib.blake2b(row.tobytes(), digest_size=8, salt=b"keeps" if kind else b"").digest()
        for row, kind in zip(np.ascontiguousarray(rows), keeps.tolist(), strict=True)
    ]
    return np.frombuffer(b"".join(found), dtype=np.int64)
