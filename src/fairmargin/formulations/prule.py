"""A p%-rule of the decisions: a search along two families of classifiers, judged on the training data.

Zero covariance is not a 100%-rule, and decisions cannot be constrained in a convex problem. What can be done exactly
is to walk along one-parameter families of convex problems and look at the decisions of each point:

- the *covariance path* ``min L s.t. cov = t cov*``, from the unconstrained classifier (``t = 1``) through zero
  covariance to the other sign;
- the *decision path*: with ``a_ik = z_ik / p_k - (1 - z_ik) / (1 - p_k)`` the gap between the positive rates of
  group k and of the rest is the mean of ``a_ik`` over the accepted, and ``c_i = y_i - 2 sum_k lambda_k a_ik`` are
  costs that charge for it: ``min sum_i |c_i| loss(sign(c_i) f(x_i)) + penalty``, a weighted classification problem.

On either, the intercept is moved to the most accurate place that keeps the rule; every place is looked at. The search
is done roughly (in single precision, with a rounded hinge loss), and its best points are then solved to the end.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import PRuleBound
from fairmargin.exceptions import InfeasibleError, SmallGroupWarning
from fairmargin.formulations.covariance import Path
from fairmargin.formulations.outcome import Outcome
from fairmargin.formulations.task import Task, solve_task
from fairmargin.problem import Certificate, Problem, Solution
from fairmargin.sensitive import Attribute
from fairmargin.solvers import Start

__all__ = ["InfeasibleError", "SmallGroupWarning"]

Array = NDArray[np.float64]

_FARTHEST = -1.0  # how far beyond zero the covariance path is followed
_COARSE = 0.2
_REFINEMENTS = 2
_VECTOR_STEPS = 30
_ROUGH = 1e-2
_WITHIN = (0.01, 0.05)  # of the best accuracy: cuts that are looked at first
_FINALISTS = 12
_AS_GOOD = 0.001  # accuracy that rough and exact solutions may differ by
_FAR_WORSE = 0.01
_RIVAL = 0.0005  # a family this far behind in accuracy on a coarse grid is not looked at closer


Pose = Callable[[Problem], Problem]  # from the data and penalty to the problem of one point of a family


@dataclass(frozen=True)
class _Candidate:
    """A classifier that keeps the rule: where it was found and how far its intercept was moved."""

    accuracy: float
    shift: float
    path: str
    point: Any
    solution: Solution
    pose: Pose

    @property
    def theta(self) -> Array:
        """The coefficients with the intercept where it was moved to."""
        theta = self.solution.theta.copy()
        if self.shift:
            theta[-1] -= self.shift
        return theta

    def again(self, task: Task) -> Solution:
        """Solve the candidate's problem once more, to the tolerance of ``task``."""
        problem, known = self.pose(task.problem), self.solution
        multipliers = known.multipliers if problem.n_rows else None
        alpha = np.clip(known.alpha.astype(float), 0.0, problem.weight)
        exact = task.solve(problem, Start(known.theta, multipliers, known.hessian, alpha))
        return exact if problem.n_rows else replace(exact, multipliers=known.multipliers)


@solve_task.register
def _(constraint: PRuleBound, task: Task) -> Outcome:
    judge = _Judge(task, float(constraint.p), constraint.method)
    free = task.solve(task.problem.unconstrained())
    # Scores are computed anew wherever a rule is judged in the end: rounding must not tip a score over zero.
    scores = task.problem.design.matvec(free.theta)
    free = replace(free, multipliers=np.zeros(task.problem.n_rows), scores=scores)
    if judge.keeps(free.scores):
        kept = _Candidate(0.0, 0.0, "unconstrained", None, free, Problem.unconstrained)
        return _outcome(task, judge, kept, free)
    # On the way a rough solution will do; the one that is taken is solved to the task's own tolerance.
    rough, start = task.roughly(_ROUGH, free)
    found = _search(rough, judge, start, constraint.path)
    if not found:
        raise InfeasibleError(
            f"No classifier on the {constraint.path!r} path reaches a {constraint.p:g}%-rule on the training data "
            f"(the unconstrained one reaches {judge.reached(free.scores):.1f}%) without deciding the same for "
            "everybody. Ask for a lower p, another path, or merge small groups."
        )
    best = _sharpest(task, judge, found)
    if best is None:  # what was found was too rough
        best = _sharpest(task, judge, _search(task, judge, free, constraint.path))
    if best is None:
        raise InfeasibleError(
            f"Classifiers that reach a {constraint.p:g}%-rule were found only roughly: none keeps it when solved to "
            f"tol={task.tol:.0e}. Ask for a slightly higher or lower p, or merge small groups."
        )
    return _outcome(task, judge, best, free)


def _sharpest(task: Task, judge: _Judge, found: list[_Candidate]) -> _Candidate | None:
    """Solve the most accurate candidates to the task's tolerance until no other promises more than the best of these.

    Solved exactly a candidate may keep the rule at a worse cut only, or at none. With the hinge loss, whose scores
    crowd at the margins, this can happen to all: then its corner is left rounded.
    """
    if not found:
        return None
    found = sorted(found, key=lambda c: -c.accuracy)[:_FINALISTS]
    best = _first_as_good(task, judge, found)
    if not task.problem.loss.smooth and (best is None or best.accuracy < found[0].accuracy - _FAR_WORSE):
        rounded = _first_as_good(task.smoothed(), judge, found)
        best = max((c for c in (best, rounded) if c is not None), key=lambda c: c.accuracy, default=None)
    return best


def _first_as_good(task: Task, judge: _Judge, found: list[_Candidate]) -> _Candidate | None:
    """Return the most accurate of the candidates solved until none is left that promises more."""
    best: _Candidate | None = None
    for candidate in found:
        if best is not None and best.accuracy >= candidate.accuracy - _AS_GOOD:
            break
        solution = candidate.again(task)
        solution = replace(solution, scores=task.problem.design.matvec(solution.theta))
        cut = judge.best_cut(solution.scores)
        if cut is None or (best is not None and cut[0] <= best.accuracy):
            continue
        exact = replace(candidate, accuracy=cut[0], shift=cut[1], solution=solution)
        if judge.keeps(task.problem.design.matvec(exact.theta)):
            best = exact
    return best


def _outcome(task: Task, judge: _Judge, best: _Candidate, free: Solution) -> Outcome:
    theta = best.theta
    scores = task.problem.design.matvec(theta)  # what the decisions will be made of
    judge.warn_of_small_groups(scores)
    facts = {
        "p_rule_": judge.reached(scores),
        "path_": best.path,
        "path_point_": best.point,
        "path_certificate_": best.solution.certificate,
        "intercept_shift_": -best.shift,
    }
    multipliers = best.solution.multipliers
    if best.path == "decisions":
        multipliers = np.full_like(multipliers, np.nan)
    certificate = _certificate(task, best, free, theta, scores)
    solution = replace(best.solution, theta=theta, scores=scores, multipliers=multipliers, certificate=certificate)
    return Outcome(solution, task.problem.unconstrained(), free)


def _certificate(task: Task, best: _Candidate, free: Solution, theta: Array, scores: Array) -> Certificate:
    """Return what is proved of the returned classifier: no classifier, fair or not, beats the free one's bound.

    The gap is the price of the rule at most, not a distance from the best fair classifier, which is not known.
    """
    value = task.problem.objective(theta, scores)
    bound = free.certificate.dual_bound
    gap = task.problem.relative_gap(value, bound)
    status = best.solution.certificate.status
    return Certificate(value, bound, gap, 0.0, best.solution.certificate.n_iter, status)


class _Judge:
    """Rates, rule and accuracy of decisions on the training data.

    Sums are of the people's own weights and formed as in :mod:`fairmargin.metrics`, so that what holds here to the
    last digit holds there: whole weights make exact sums.
    """

    def __init__(self, task: Task, percent: float, method: str) -> None:
        data = task.data
        self.percent = percent
        self.p = percent / 100.0
        self.method = method
        self.y = data.y
        self.weight = data.people_weight
        self.may_shift = task.problem.design.fit_intercept
        self.attributes = [_grouped(a) for a in task.sensitive.attributes]
        self.totals = [
            np.bincount(a.codes, weights=self.weight, minlength=len(a.categories)) for a in self.attributes
        ]
        self.refused = float(self.weight[self.y < 0].sum())
        columns = [a.codes == k for a in self.attributes for k in range(1, len(a.categories))]
        self.table = np.array([np.ones(len(self.y)), *columns]) * self.weight
        self.gain = self.y * self.weight
        self.everybody = float(self.weight.sum())

    def accepted(self, scores: Array) -> list[Array]:
        """Return the weight of the accepted in every group, by attribute."""
        accepted = self.weight * (scores >= 0)
        return [np.bincount(a.codes, accepted, len(a.categories)).astype(float) for a in self.attributes]

    def reached(self, scores: Array) -> float:
        """Return the p, in percent, that the decisions ``scores >= 0`` reach; 0 if nobody is accepted."""
        return float(self._rule([weight[:, None] for weight in self.accepted(scores)])[0])

    def keeps(self, scores: Array) -> bool:
        """Whether the decisions reach the rule."""
        return self.reached(scores) >= self.percent

    def _rule(self, accepted: list[Array]) -> Array:
        """Return p in percent for each column of accepted weights by group, (groups, M) for each attribute."""
        least = np.full(accepted[0].shape[1], np.inf)
        for weight, total in zip(accepted, self.totals, strict=True):
            rate = weight / total[:, None]
            if self.method == "between_groups" or len(total) == 2:  # of two, the other is the rest
                low, high = rate.min(axis=0), rate.max(axis=0)
            else:
                rest = (weight.sum(axis=0) - weight) / (total.sum() - total)[:, None]
                low, high = np.minimum(rate, rest), np.maximum(rate, rest)
            ratio = np.divide(low, high, out=np.zeros_like(low), where=high > 0)
            least = np.minimum(least, ratio if ratio.ndim == 1 else ratio.min(axis=0))
        return 100.0 * least

    def best_cut(self, scores: Array) -> tuple[float, float] | None:
        """Return (accuracy, cut) of the most accurate decisions ``scores >= cut`` that keep the rule.

        Every cut between two different scores is looked at, which leaves out deciding the same for everybody.
        """
        if not self.may_shift:
            return (self._accuracy(scores), 0.0) if self.keeps(scores) else None
        order = np.argsort(scores)[::-1]
        ranked = scores.take(order)
        digit = max(1e-11, 8.0 * float(np.finfo(scores.dtype).eps))
        apart = np.flatnonzero(ranked[:-1] - ranked[1:] > digit * (1.0 + np.abs(ranked[:-1])))
        if len(apart) == 0:
            return None
        gain = np.cumsum(self.gain.take(order))
        best = self._best_end(order, gain, apart)
        if best is None:
            return None
        cut = 0.5 * (float(ranked[best]) + float(ranked[best + 1]))
        accuracy = (float(gain[best]) + self.refused) / self.everybody
        return accuracy, cut

    def _best_end(self, order: NDArray[np.intp], gain: Array, ends: NDArray[np.intp]) -> int | None:
        """Return where to cut the ranking ``order``, which may be after one of ``ends``; None if nowhere.

        ``gain`` sums up ``weight * y``, which is the accuracy but for a constant. Whether the rule holds is looked
        up for the most accurate ends first: the first that keep it have the best one among them.
        """
        gains = gain.take(ends)
        for within in (*_WITHIN, np.inf):
            near = ends[gains >= gains.max() - within * self.everybody]
            keeps = self._rule(self._accepted_up_to(order, near)) >= self.percent
            if np.any(keeps):
                return int(near[np.argmax(np.where(keeps, gain.take(near), -np.inf))])
        return None

    def _accepted_up_to(self, order: NDArray[np.intp], ends: NDArray[np.intp]) -> list[Array]:
        """Return the weight by group, (groups, M) for each attribute, of the people up to each of M ends."""
        first, last = ends[0] + 1, ends[-1] + 1
        sure, rest, places = order[:first], order[first:last], ends - ends[0]

        def up_to_each(row: Array) -> Array:
            sums = np.empty(last - first + 1)
            sums[0] = row.take(sure).sum()
            np.cumsum(row.take(rest), out=sums[1:])
            sums[1:] += sums[0]
            return sums.take(places)

        total, *columns = (up_to_each(row) for row in self.table)
        k, groups = 0, []
        for others in (len(a.categories) - 1 for a in self.attributes):
            part = np.array(columns[k : k + others])  # the first group has what the others leave
            groups.append(np.vstack([total - part.sum(axis=0), part]))
            k += others
        return groups

    def _accuracy(self, scores: Array) -> float:
        return float(np.average((scores >= 0) == (self.y > 0), weights=self.weight))

    def warn_of_small_groups(self, scores: Array) -> None:
        """Warn where chance alone moves a group's rate by more than the rule allows (95% interval)."""
        tolerance = -np.log(max(self.p, 1e-300))
        small = []
        rates_of = [w / t for w, t in zip(self.accepted(scores), self.totals, strict=True)]
        for attribute, rates in zip(self.attributes, rates_of, strict=True):
            people = np.bincount(attribute.codes, minlength=len(attribute.categories))
            for category, n, rate in zip(attribute.categories, people, rates, strict=True):
                if rate <= 0 or 1.96 * np.sqrt((1.0 - rate) / (n * rate)) > tolerance:
                    small.append(f"{attribute.name}={category!r} ({n} people)")
        if small:
            warnings.warn(
                f"The {self.percent:g}%-rule holds on the training data, but some groups are too small for their "
                f"rate to be known that well: {', '.join(small)}. On other people it may not hold.",
                SmallGroupWarning,
                stacklevel=2,
            )


def _grouped(attribute: Attribute) -> Any:
    if attribute.codes is None:
        raise ValueError(
            f"The sensitive attribute {attribute.name!r} is numeric and has no groups, which a p%-rule needs; bin it "
            "(e.g. with pandas.cut)."
        )
    return attribute


class _Walk:
    """Candidates along a family of solutions with one parameter, each point judged once."""

    def __init__(self, judge: _Judge, family: Any) -> None:
        self.judge, self.family = judge, family
        self.seen: dict[float, _Candidate | None] = {}
        self.step = 0.0

    def look(self, t: float) -> _Candidate | None:
        """Return the candidate at ``t``, None if no cut keeps the rule there."""
        if t not in self.seen:
            pose, solution = self.family.at(t)
            cut = self.judge.best_cut(solution.scores)
            self.seen[t] = None
            if cut is not None:
                point = self.family.describe(t)
                self.seen[t] = _Candidate(*cut, self.family.name, point, solution, pose)
        return self.seen[t]

    def along(self, grid: Array) -> _Walk:
        """Look at a grid."""
        self.step = float(np.abs(grid[1] - grid[0]))
        for t in grid:
            self.look(float(t))
        return self

    def closer(self) -> None:
        """Look closer and closer around the best point."""
        for _ in range(_REFINEMENTS):
            best = self.best()
            if best is None:
                break
            self.step /= 3.0
            for offset in (-1, 1, -2, 2):
                self.look(best + offset * self.step)

    def best(self) -> float | None:
        """Return where the most accurate candidate is."""
        kept = {t: c.accuracy for t, c in self.seen.items() if c is not None}
        return max(kept, key=lambda t: kept[t]) if kept else None

    def kept(self) -> list[_Candidate]:
        """Return what keeps the rule."""
        return [c for c in self.seen.values() if c is not None]


def _search(task: Task, judge: _Judge, free: Solution, path: str) -> list[_Candidate]:
    """Return candidates of the families asked for, looking closer where the most accurate one may be."""
    walks = [_walk_covariance(task, judge, free)] if path in ("auto", "covariance") else []
    family = _DecisionFamily(task, judge, free) if path in ("auto", "decisions") else None
    if family is not None:
        walks += _walk_decisions(family, judge)
    most = max((c.accuracy for walk in walks for c in walk.kept()), default=0.0)
    for walk in walks:
        if any(c.accuracy >= most - _RIVAL for c in walk.kept()):
            walk.closer()
    found = [c for walk in walks for c in walk.kept()]
    several = family is not None and len(family.share) > 1
    return found + _polish(family, judge, found) if family is not None and several else found


def _walk_covariance(task: Task, judge: _Judge, free: Solution) -> _Walk:
    family = _CovarianceFamily(task, free)
    # The rule is reached on one side of zero covariance: look there first, and on the other if that was wrong.
    _, zero = family.at(0.0)
    near, far = np.arange(0.0, 0.9, _COARSE), np.arange(0.0, _FARTHEST - 1e-9, -_COARSE)
    first, second = (near, far) if judge.keeps(zero.scores) else (far, near)
    walk = _Walk(judge, family).along(first)
    return walk if walk.kept() else walk.along(second)


def _walk_decisions(family: _DecisionFamily, judge: _Judge) -> list[_Walk]:
    ways = ("ascent", "sticky", "bold") if len(family.share) > 1 else ("ascent",)
    rays = [_Ray(family, family.find_direction(way)) for way in ways]
    return [_Walk(judge, ray).along(np.linspace(1.15, 0.55, 5)) for ray in rays]


def _polish(family: _DecisionFamily, judge: _Judge, found: list[_Candidate]) -> list[_Candidate]:
    """Try other prices for one column at a time around the best candidate of the decision path."""
    best = max((c for c in found if c.path == family.name), key=lambda c: c.accuracy, default=None)
    if best is None:
        return []
    for factor in (0.7, 1.3, 0.9, 1.1):
        for k in range(len(family.share)):
            prices = best.point.to_numpy().copy()
            prices[k] *= factor
            candidate = _Walk(judge, _Ray(family, prices)).look(1.0)
            if candidate is not None and candidate.accuracy > best.accuracy:
                best = candidate
    return [best]


class _CovarianceFamily:
    """The covariance path, by its factor ``t``."""

    name = "covariance"

    def __init__(self, task: Task, free: Solution) -> None:
        self.path = Path(task, free, task.problem.rows @ free.theta, signed=True)

    def at(self, t: float) -> tuple[Pose, Solution]:
        """Return the problem at ``t`` and its solution."""
        return (lambda base: self.path.pose(base, t)), self.path.at(t)

    def describe(self, t: float) -> float:
        """Return the factor."""
        return t


class _DecisionFamily:
    """The cost-sensitive problems of the decision path, for a vector ``u`` of prices, one a column.

    ``a_ik = (z_ik - p_k) / (p_k (1 - p_k))``; in terms of ``u_k = lambda_k / (p_k (1 - p_k))`` the costs are
    ``c_i = y_i - 2 sum_k u_k (z_ik - p_k)``, of one scale for large and small groups.
    """

    name = "decisions"

    def __init__(self, task: Task, judge: _Judge, free: Solution) -> None:
        self.task, self.judge = task, judge
        self.Z = task.sensitive.columns()
        self.weight = judge.weight / judge.everybody
        self.share = self.weight @ self.Z
        self.free = free
        self._prices = np.zeros((1, len(self.share)))
        self._solved = [(free.theta, free.hessian)]

    def priced(self, prices: Array) -> tuple[Pose, Solution]:
        """Return the problem for these prices and its solution."""
        cost = self.judge.y - 2.0 * (self.Z @ prices - self.share @ prices)

        def pose(base: Problem) -> Problem:
            kind = base.weight.dtype
            size = np.maximum(np.abs(cost), 1e-12).astype(kind, copy=False)
            y = np.copysign(1.0, cost).astype(kind, copy=False)
            return replace(base.unconstrained(), y=y, weight=base.weight * size)

        solution = self.task.solve(pose(self.task.problem), self._start(prices))
        self._prices = np.vstack([self._prices, prices])
        self._solved.append((solution.theta, solution.hessian))
        return pose, replace(solution, multipliers=np.zeros(self.task.problem.n_rows))

    def _start(self, prices: Array) -> Start:
        """Continue the line through the solutions of the nearest two prices; with several, begin at the nearest."""
        nearest = np.argsort(np.abs(self._prices - prices).max(axis=1), kind="stable")[:2]
        theta, hessian = self._solved[nearest[0]]
        if len(nearest) == 2 and len(prices) == 1:
            here, there = self._prices[nearest, 0]
            if here != there:
                share = float(np.clip((prices[0] - here) / (there - here), -2.0, 2.0))
                theta = theta + share * (self._solved[nearest[1]][0] - theta)
        return Start(theta, hessian=hessian)

    def find_direction(self, way: str) -> Array:
        """Return prices at which the rule is (about) reached at the solution's own intercept.

        The gap between a group and the rest falls in the group's price. As in a dual ascent, a price grows while
        its gap exceeds the rule's room and falls back to zero while it does not, by damped secant steps. A "sticky"
        price does not fall back, and a "bold" one takes steps that grow as its group is rarer: less principled,
        and at times better where the gaps of rare groups jump.
        """
        prices = np.zeros(len(self.share))
        slope, longest = np.full(len(prices), 0.4), np.full(len(prices), 0.2)
        if way == "bold":
            slope, longest = self.share * (1.0 - self.share), 0.15 / (self.share * (1.0 - self.share))
        steepest = slope.copy()
        gap, room = self._gaps(self.free.scores)
        best, least = prices, np.inf
        for _ in range(_VECTOR_STEPS):
            wanted = np.clip(gap, -room, room)
            if way == "ascent":
                wanted = np.where(prices > 0, room, np.where(prices < 0, -room, wanted))
            moved = prices + np.clip((gap - wanted) / slope, -longest, longest)
            moved = np.where(prices * moved < 0, 0.0, moved)  # a price stops at zero before it changes sides
            change = moved - prices
            prices = moved
            before, (gap, room) = gap, self._gaps(self.priced(prices)[1].scores)
            seen = np.divide(before - gap, change, out=slope.copy(), where=np.abs(change) > 1e-6)
            slope = np.clip(0.6 * slope + 0.4 * seen, 0.1 * steepest, 10.0 * steepest)
            excess = float(np.max(np.abs(gap) - room))
            if excess < least:
                best, least = prices, excess
            if excess <= 0 and np.all(np.abs(change) <= 0.01):
                break
        return best

    def _gaps(self, scores: Array) -> tuple[Array, Array]:
        """Return the gap in rates of each column's group to the rest, and how much of it the rule allows."""
        accepted = self.weight * (scores >= 0)
        inside = accepted @ self.Z
        rate, rest = inside / self.share, (accepted.sum() - inside) / (1.0 - self.share)
        # Twice as strict where groups are compared with each other: each may be off to one side.
        p = np.sqrt(self.judge.p) if self.judge.method == "between_groups" else self.judge.p
        return rate - rest, (1.0 - min(p + 0.002, 1.0)) * np.maximum(rate, rest)


@dataclass(frozen=True)
class _Ray:
    """The decision path along one direction of the prices, by its length."""

    family: _DecisionFamily
    direction: Array
    name = _DecisionFamily.name

    def at(self, t: float) -> tuple[Pose, Solution]:
        """Return the problem for the prices ``t direction`` and its solution."""
        return self.family.priced(t * self.direction)

    def describe(self, t: float) -> Any:
        """Return the prices ``t direction`` by attribute and category."""
        return self.family.task.sensitive.series(t * self.direction, "price")
