"""The fused passes that a solver makes over partitioned data; each reads every row once and returns small sums.

``evaluate``  loss, pull, dual terms and curvature at one or several points, by class
``rates``     people by group and bin of the score: exact whole numbers
``near``      the rows near the margin, and everybody else as a straight line
``worst``     the promises to people that are kept worst (:mod:`fairmargin.partitioned.worst`)

Sums are merged in partition order and compensated: they do not depend on the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.coded_matrix import CodedDesign, CodedMatrix
from fairmargin.losses import Loss
from fairmargin.partitioned.compensated import Total
from fairmargin.partitioned.contract import Engine, Partition, Progress, Source
from fairmargin.partitioned.joint import Block, Blocks, CurvatureSums, Points, PullSums
from fairmargin.partitioned.lockstep import Meeting, current_meeting
from fairmargin.partitioned.reading import Reading, Rows

__all__ = ["NearRows", "Passes", "Request", "Sums"]

Array = NDArray[np.float64]

_NUMBERS = 1 << 13  # losses that are computed at a time: their temporary arrays, 64 KB each, stay in the cache


@dataclass(frozen=True)
class Request:
    """A point to be evaluated.

    Attributes
    ----------
    theta : (p,)
        Coefficients of the encoded features, and the intercept last where there is one.
    loss : Loss
    hessian : bool
        Whether the curvature is needed too.
    prices : tuple of arrays or None
        What is charged for accepting somebody, as in :class:`fairmargin.partitioned.reading.Reading`. Points at
        different prices share a read, too.
    """

    theta: Array
    loss: Loss
    hessian: bool = False
    prices: tuple[Array, ...] | None = None


@dataclass(frozen=True)
class NearRequest:
    """A point whose rows near the margin are wanted: ``|1 - m_i| <= reach``; ``prices`` as in :class:`Request`."""

    theta: Array
    reach: float
    prices: tuple[Array, ...] | None = None


@dataclass(frozen=True)
class Sums:
    """Sums over all rows at one point, by class where there are two entries (negative class first).

    Attributes
    ----------
    loss : (2,)
        ``sum c_i l(m_i)``.
    dual : (2,)
        ``sum c_i (l(m_i) - l'(m_i) m_i)``, which are the dual terms by Fenchel's equality.
    pull : (2, p)
        ``sum alpha_i y_i x_i`` with ``alpha_i = -c_i l'(m_i)``.
    n_curved : int
        Rows with ``l'' > 0``.
    hessian : (p, p) or None
        ``Xa' diag(c l'') Xa``.
    """

    loss: Array
    dual: Array
    pull: Array
    n_curved: int
    hessian: Array | None


@dataclass
class NearRows:
    """Rows near the margin and the straight lines of all others.

    Attributes
    ----------
    parts : list of Rows
        Those with ``|1 - m_i| <= reach`` at the point asked about, by partition.
    tilt : (p,)
        ``-sum c_i y_i x_i`` over the other rows inside the margin,
    offset : float
        and ``sum c_i`` over the same.
    loss : float
        ``sum c_i max(0, 1 - m_i)`` over all rows.
    """

    parts: list[Rows]
    tilt: Array
    offset: float
    loss: float

    @property
    def rows(self) -> Rows:
        """The rows of all partitions; the parts are let go, so that they are not in memory twice."""
        if len(self.parts) > 1:
            self.parts = [_joined(self.parts)]
        return self.parts[0]


def _joined(parts: Sequence[Rows]) -> Rows:
    X = parts[0].X
    numbers = np.concatenate([part.X.numbers for part in parts])
    codes = [np.concatenate([part.X.codes[j] for part in parts]) for j in range(len(X.codes))]
    stacked = CodedMatrix(numbers, X.places, codes, X.sizes, X.starts)
    names = ("y", "people_weight", "loss_weight")
    y, people, weight = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return Rows(stacked, y, people, weight, parts[0].uniform)


class Passes:
    """Passes over one source by one engine.

    Parameters
    ----------
    source : Source
    engine : Engine
    reading : Reading
    fit_intercept : bool
    progress : callable, optional
        ``progress(name of the pass, partitions done, partitions in all)``.

    Attributes
    ----------
    counts : dict from str to int
        How many passes of each kind were made.
    """

    def __init__(
        self,
        source: Source,
        engine: Engine,
        reading: Reading,
        fit_intercept: bool,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        self.source, self.engine, self.reading = source, engine, reading
        self.fit_intercept, self.progress = fit_intercept, progress
        self.counts: dict[str, int] = {}

    def reading_as(self, reading: Reading) -> Passes:
        """Return passes over the same data that read rows in another way; they are counted together."""
        other = Passes(self.source, self.engine, reading, self.fit_intercept, self.progress)
        other.counts = self.counts
        return other

    def evaluate(self, requests: Sequence[Request]) -> list[Sums]:
        """Return the sums at several points, in one pass; solvers that run in lockstep share it."""
        requests = [replace(request, prices=self.reading.prices) for request in requests]
        meeting: Meeting | None = current_meeting()
        if meeting is not None:
            return meeting.ask(requests)
        return self.evaluate_now(requests)

    def evaluate_now(self, requests: Sequence[Request]) -> list[Sums]:
        """Return the sums at several points, each at its own prices, without waiting for anybody else."""
        task = _Evaluate(replace(self.reading, prices=None), tuple(requests), self.fit_intercept)
        found = self.run("evaluate", task, _add_parts)
        return [part.sums() for part in found]

    def rates(self, thetas: Sequence[Array], edges: Sequence[Array]) -> list[list[tuple[NDArray[np.int64], Array]]]:
        """Return people by class, group and bin of the score, for each point and attribute of groups.

        Parameters
        ----------
        thetas : sequence of (p,)
        edges : sequence of (b,), one per point, increasing
            Bin k holds the scores with k edges at or below them.

        Returns
        -------
        found : for each point, for each attribute, (people, weight)
            Arrays of shape (2, number of groups, b + 1): whole numbers of people with a positive weight, and the sums
            of the weights, which are the same numbers where there is no column of weights. Without attributes, there
            is one group of everybody.
        """
        task = _Rates(self.reading, tuple(thetas), tuple(edges), self.fit_intercept)
        found = self.run("rates", task, _add_counts)
        return [[(people, weight.rounded) for people, weight in point] for point in found]

    def near(self, theta: Array, reach: float) -> NearRows:
        """Return the rows near the margin of a hinge loss, the others' losses as a linear term.

        Solvers that run in lockstep share the pass.
        """
        requests = [NearRequest(theta, reach, self.reading.prices)]
        meeting: Meeting | None = current_meeting()
        return (self.near_now(requests) if meeting is None else meeting.ask(requests))[0]

    def near_now(self, requests: Sequence[NearRequest]) -> list[NearRows]:
        """Return the rows near the margins at several points, without waiting for anybody else."""
        task = _Near(replace(self.reading, prices=None), tuple(requests), self.fit_intercept)
        return [part.rows() for part in self.run("near", task, _join_near)]

    def run(self, name: str, task: Any, merge: Any) -> Any:
        """Make a pass: ``task(partition)`` on the workers, merged in partition order; counted under its name."""
        self.counts[name] = self.counts.get(name, 0) + 1
        report: Progress | None = None
        if self.progress is not None:
            progress = self.progress

            def report(done: int, total: int) -> None:
                progress(name, done, total)

        return self.engine.reduce(task, self.source.partitions, merge, progress=report)


@dataclass
class _Part:
    """Sums of one partition, or of several, at one point: everything by class in one array of totals."""

    by_class: Total  # (2, 2 + p): loss, dual terms, pull
    n_curved: int
    hessian: Total | None

    def sums(self) -> Sums:
        by_class = self.by_class.rounded
        hessian = None if self.hessian is None else self.hessian.rounded
        return Sums(by_class[:, 0], by_class[:, 1], by_class[:, 2:], self.n_curved, hessian)


def _add_parts(first: list[_Part], second: list[_Part]) -> list[_Part]:
    for mine, other in zip(first, second, strict=True):
        mine.by_class = mine.by_class + other.by_class
        mine.n_curved += other.n_curved
        if mine.hessian is not None and other.hessian is not None:
            mine.hessian = mine.hessian + other.hessian
    return first


@dataclass(frozen=True)
class _Evaluate:
    """What a worker does with a partition in ``evaluate``."""

    reading: Reading
    requests: tuple[Request, ...]
    fit_intercept: bool

    def __call__(self, partition: Partition) -> list[_Part]:
        alike: dict[tuple[int, Loss], list[int]] = {}
        for k, request in enumerate(self.requests):
            alike.setdefault((id(request.prices), request.loss), []).append(k)
        table, place = self.reading.load(partition, any(request.prices is not None for request in self.requests))
        reading = self.reading
        curved = any(request.hessian for request in self.requests)
        parts = reading.parts(table, place)
        blocks = Blocks(*parts, table.num_rows, reading.n_features, self.fit_intercept, keep_codes=curved)
        together = []
        for which in alike.values():
            requests = [self.requests[k] for k in which]
            y, _, weight, uniform = replace(reading, prices=requests[0].prices).labelled(table, place)
            together.append(_AtPoints(blocks, requests, y, weight if uniform is None else uniform))
        for block in blocks:
            for points in together:
                points.add(block)
        found: dict[int, _Part] = {}
        for which, points in zip(alike.values(), together, strict=True):
            found |= dict(zip(which, points.parts(), strict=True))
        return [found[k] for k in range(len(self.requests))]


class _AtPoints:
    """Sums of one partition at points with one loss and the same labels and weights, collected block by block."""

    def __init__(self, blocks: Blocks, requests: Sequence[Request], y: Array, weight: Array | float) -> None:
        self.thetas = np.array([request.theta for request in requests])
        self.y, self.weight, self.loss_of = y, weight, requests[0].loss
        n_points = len(requests)
        self.points, self.memory = Points(blocks, self.thetas), blocks.memory()
        self.loss, self.n_curved = np.zeros((2, n_points)), np.zeros(n_points, dtype=np.intp)
        self.pull = [PullSums(blocks, n_points) for _ in range(2)]
        self.curvature = {k: CurvatureSums(blocks) for k, request in enumerate(requests) if request.hessian}
        self.bend = np.empty((len(self.curvature), self.memory.numbers.shape[1]))

    def add(self, block: Block) -> None:
        """Add a block of rows, those of the negative class first."""
        is_up = self.y[block.rows] > 0
        down, up = np.flatnonzero(~is_up), np.flatnonzero(is_up)
        order, cut = np.concatenate([down, up]), len(down)
        block = block.take(order, self.memory)
        weight = None if isinstance(self.weight, float) else self.weight[block.rows][order]
        scores = self.points.scores(block)
        for label, rows in enumerate((slice(0, cut), slice(cut, len(order)))):
            pushed = self._pushed(scores[rows], label, None if weight is None else weight[rows], rows)
            self.pull[label].add(block, rows, pushed)
        for sums, bend in zip(self.curvature.values(), self.bend, strict=True):
            sums.add(block, order, bend[: len(order)])

    def _pushed(self, scores: Array, label: int, weight: Array | None, place: slice) -> Array:
        """Add the losses of rows of one class; leave ``alpha y`` in the place of their scores, (n, T), and return it.

        In pieces whose temporary arrays stay in the cache.
        """
        sign = 1.0 if label else -1.0
        step = max(1, _NUMBERS // scores.shape[1])
        for start in range(0, len(scores), step):
            here = scores[start : start + step]
            here *= sign
            value, slope, curvature = self.loss_of.derivatives(here)
            self.n_curved += len(curvature) if curvature.min() > 0 else np.count_nonzero(curvature, axis=0)
            by_row = np.ones(len(here)) if weight is None else weight[start : start + step]
            self.loss[label] += by_row @ value
            if weight is not None:
                slope, curvature = slope * by_row[:, None], curvature * by_row[:, None]
            np.multiply(slope, -sign, out=here)
            first = place.start + start
            for bend, k in zip(self.bend, self.curvature, strict=True):
                bend[first : first + len(here)] = curvature[:, k]
        return scores

    def parts(self) -> list[_Part]:
        """Return the sums at each point."""
        pull = np.stack([sums.expand() for sums in self.pull], axis=1)  # (T, 2, p)
        unit = self.weight if isinstance(self.weight, float) else 1.0
        found = []
        for k, (theta, of_point) in enumerate(zip(self.thetas, pull, strict=True)):
            loss = self.loss[:, k]
            # sum alpha m = theta' pull, so that the dual terms need no pass over the rows.
            by_class = np.column_stack([loss, loss + of_point @ theta, of_point])
            hessian = Total.of(unit * self.curvature[k].expand()) if k in self.curvature else None
            found.append(_Part(Total.of(unit * by_class), int(self.n_curved[k]), hessian))
        return found


def scores_of(X: CodedMatrix, theta: Array, fit_intercept: bool) -> Array:
    """Return ``Xa theta``."""
    return X @ theta[:-1] + theta[-1] if fit_intercept else X @ theta


def design_of(X: CodedMatrix, fit_intercept: bool, scale: Array | None = None) -> CodedDesign:
    """Return the design of encoded rows, without a shift: numbers are standardised already."""
    d = X.shape[1]
    return CodedDesign(X, np.zeros(d), np.ones(d + fit_intercept) if scale is None else scale, fit_intercept)


@dataclass(frozen=True)
class _Rates:
    """What a worker does with a partition in ``rates``."""

    reading: Reading
    thetas: tuple[Array, ...]
    edges: tuple[Array, ...]
    fit_intercept: bool

    def __call__(self, partition: Partition) -> list[list[tuple[NDArray[np.int64], Total]]]:
        table, place = self.reading.load(partition, with_groups=True)
        rows = self.reading.encode(table, place)
        up = (self.reading.labels(table) > 0).astype(np.int64)
        groups = [(code, len(self.reading.groups[k][1])) for k, code in enumerate(self.reading.group_codes(table))]
        groups = groups or [(np.zeros(len(up), dtype=np.int32), 1)]
        return [self._count(rows, up, groups, *point) for point in zip(self.thetas, self.edges, strict=True)]

    def _count(
        self, rows: Rows, up: Any, groups: Any, theta: Array, edges: Array
    ) -> list[tuple[NDArray[np.int64], Total]]:
        scores = scores_of(rows.X, theta, self.fit_intercept)
        at, n_bins = np.searchsorted(edges, scores, side="right"), len(edges) + 1
        found = []
        for code, size in groups:
            joint, shape = (up * size + code) * n_bins + at, (2, size, n_bins)
            counted = joint if self.reading.weight is None else joint[rows.people_weight > 0]
            people = np.bincount(counted, minlength=2 * size * n_bins).reshape(shape)
            weight: Any = people
            if self.reading.weight is not None:
                weight = np.bincount(joint, weights=rows.people_weight, minlength=people.size).reshape(shape)
            found.append((people, Total.of(weight)))
        return found


def _add_counts(first: Any, second: Any) -> Any:
    return [
        [(people + more, weight + heavier) for (people, weight), (more, heavier) in zip(mine, other, strict=True)]
        for mine, other in zip(first, second, strict=True)
    ]


@dataclass
class _NearPart:
    parts: list[Rows]
    sums: Total  # tilt, offset and loss

    def rows(self) -> NearRows:
        *tilt, offset, loss = self.sums.rounded
        return NearRows(self.parts, np.array(tilt), float(offset), float(loss))


def _join_near(first: list[_NearPart], second: list[_NearPart]) -> list[_NearPart]:
    for mine, other in zip(first, second, strict=True):
        mine.parts += other.parts
        mine.sums = mine.sums + other.sums
    return first


@dataclass(frozen=True)
class _Near:
    """What a worker does with a partition in ``near``."""

    reading: Reading
    requests: tuple[NearRequest, ...]
    fit_intercept: bool

    def __call__(self, partition: Partition) -> list[_NearPart]:
        table, place = self.reading.load(partition, any(request.prices is not None for request in self.requests))
        X = self.reading.features(table, place)
        readings = [replace(self.reading, prices=request.prices) for request in self.requests]
        rows = [reading.encode(table, place, X) for reading in readings]
        return [self._part(*at) for at in zip(rows, self.requests, strict=True)]

    def _part(self, rows: Rows, request: NearRequest) -> _NearPart:
        margins = rows.y * scores_of(rows.X, request.theta, self.fit_intercept)
        near = np.abs(1.0 - margins) <= request.reach
        pushed = np.where((margins < 1.0) & ~near, rows.loss_weight, 0.0)
        tilt = -design_of(rows.X, self.fit_intercept).rmatvec(pushed * rows.y)
        loss = float(rows.loss_weight @ np.maximum(0.0, 1.0 - margins))
        return _NearPart(
            [rows.take(np.flatnonzero(near & (rows.loss_weight > 0)))],
            Total.of(np.append(tilt, [pushed.sum(), loss])),
        )
