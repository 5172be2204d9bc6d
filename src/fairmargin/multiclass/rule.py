"""A p%-rule for every favourable class: the most accurate classifier found whose decisions reach it.

Two families are searched, as for two classes. *Covariance*: the classifiers of least loss with ``|cov| <= t |cov*|``
for the favourable classes, ``t`` from 1 to 0, then ``cov = t cov*`` on to the other sign. *Decisions*: deciding class
q for a person of group g earns ``1{y = q} + u_qg (1{g} / share_g - 1)``, a price on the gap between the group's rate
and that of everybody. Gains less the least of a row are label masses of a multinomial problem, whose optimum decides
for the class of the largest expected gain: adding the same to all gains of a row changes no decision. Prices follow
what the rates lack, until the rule is kept; then they are lowered along the line back as far as the rule allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.caller import warn
from fairmargin.constraints import PRuleBound
from fairmargin.decisions import count_groups, least_ratio
from fairmargin.exceptions import InfeasibleError, TrivialClassifierWarning
from fairmargin.multiclass.newton import MultinomialSolution
from fairmargin.multiclass.problem import MultinomialProblem
from fairmargin.multiclass.task import ClassOutcome, ClassTask, solve_classes
from fairmargin.notions import get_notion
from fairmargin.sensitive import Attribute
from fairmargin.tolerances import HAIR

__all__ = ["ClassJudge", "solve_class_rule"]

Array = NDArray[np.float64]

_FACTORS = (0.6, 0.3, 0.0, -0.5, -1.0)  # of the covariance path, visited until the rule is kept
_BISECTIONS = 5  # of the last interval of either path: to a thirtieth of it
_ROUNDS = 30  # of prices
_STEP = 0.3  # price that a group's rate of zero, against others', adds in the first round
_SCOUT = 1e-5  # relative gap of classifiers on the way: their decisions are counted, their loss is not used


@dataclass(frozen=True)
class ClassJudge:
    """Judges the decisions of several classes on the training data."""

    task: ClassTask
    constraint: PRuleBound

    def decisions(self, solution: MultinomialSolution) -> NDArray[np.intp]:
        """Return the class decided for each person, (N,)."""
        return np.argmax(solution.point.scores, axis=0)

    def reached(self, decided: NDArray[np.intp]) -> Array:
        """Return the p reached for each favourable class, in percent; 100 for a class that nobody is given."""
        rules = [float(least_ratio(self._counts(decided == q), self.constraint.method)) for q in self.favourable]
        return np.where(np.isnan(rules), 100.0, rules)

    @property
    def favourable(self) -> tuple[int, ...]:
        """The classes that the rule is about."""
        return self.task.data.favourable

    def _counts(self, accepted: NDArray[np.bool_]) -> list[Any]:
        data = self.task.data
        least = self.constraint.min_people
        return [count_groups(a, accepted, data.people_weight, least) for a in _with_groups(self.task)]

    def keeps(self, decided: NDArray[np.intp]) -> bool:
        """Whether every favourable class reaches the rule."""
        return bool(np.all(self.reached(decided) >= float(self.constraint.p or 0) - HAIR))

    def accuracy(self, decided: NDArray[np.intp]) -> float:
        """Return the share of correct decisions, weighted as the loss is."""
        weight = self.task.data.loss_weight
        return float(weight @ (decided == self.task.data.codes)) / float(weight.sum())

    def lacks(self, decided: NDArray[np.intp]) -> Array:
        """Return by which share each group's rate of each favourable class is below that of the rest, (F, G)."""
        rows = []
        for q in self.favourable:
            counts = self._counts(decided == q)
            rate = np.concatenate([c.rate for c in counts])
            rest = np.concatenate([c.rate_of_rest for c in counts])
            rows.append((rest - rate) / np.maximum(np.maximum(rate, rest), HAIR))
        return np.nan_to_num(np.array(rows))


@dataclass(frozen=True, eq=False)
class _Candidate:
    solution: MultinomialSolution
    problem: MultinomialProblem
    path: str
    place: Any
    decided: NDArray[np.intp]


@solve_classes.register
def solve_class_rule(constraint: PRuleBound, task: ClassTask) -> ClassOutcome:
    """Return the most accurate classifier found whose decisions keep the rule for every favourable class."""
    _check_rule(constraint, task)
    judge = ClassJudge(task, constraint)
    free = task.exact_free
    first = _Candidate(free, task.problem.unconstrained(), "unconstrained", None, judge.decisions(free))
    found = [first] if judge.keeps(first.decided) else []
    tried = [first]
    families = {"covariance": _along_covariance, "decisions": _along_prices}
    for name, family in families.items():
        if first not in found and constraint.path in ("auto", name):
            best = family(task, judge, tried)
            found += [] if best is None else [best]
    if not found:
        _raise_infeasible(constraint, task, judge, tried)
    best = max(found, key=lambda c: judge.accuracy(c.decided))
    _warn_if_trivial(judge, best)
    reached = judge.reached(best.decided)
    labels = [task.data.classes[q] for q in judge.favourable]
    more = {
        "p_rule_": pd.Series(reached, index=labels, name="p_rule"),
        "path_": best.path,
        "path_point_": best.place,
    }
    return ClassOutcome(best.solution, best.problem, free, more)


def _check_rule(constraint: PRuleBound, task: ClassTask) -> None:
    asked = {
        "confidence": constraint.confidence is not None,
        "smooth_below": constraint.smooth_below is not None,
        f"path={constraint.path!r}": constraint.path in ("rates", "ccp"),
        "difference": constraint.difference is not None,
        "notion": get_notion(constraint.notion).name != "selection_rate",
    }
    if any(asked.values()):
        names = " and ".join(name for name, given in asked.items() if given)
        raise ValueError(
            f"{names} of PRuleBound is only defined for two classes; to ask it of one class against the others, use "
            "FairOneVsRestClassifier with such a constraint."
        )
    if all(a.is_numeric for a in task.sensitive.attributes):
        names = ", ".join(repr(a.name) for a in task.sensitive.attributes)
        raise ValueError(
            f"PRuleBound compares groups, and the sensitive attributes ({names}) are numeric; bin them (e.g. with "
            "pandas.cut)."
        )


def _search_back(
    make: Callable[[float], _Candidate], judge: ClassJudge, broken: float, kept: tuple[float, _Candidate]
) -> _Candidate:
    """Return the candidate that keeps the rule nearest to ``broken``, by bisection."""
    place, best = kept
    for _ in range(_BISECTIONS):
        middle = 0.5 * (broken + place)
        candidate = make(middle)
        if judge.keeps(candidate.decided):
            place, best = middle, candidate
        else:
            broken = middle
    return best


def _finished(task: ClassTask, judge: ClassJudge, candidate: _Candidate) -> _Candidate | None:
    """Return the candidate solved to the task's accuracy; None if its decisions then break the rule."""
    solution = task.solve(candidate.problem, candidate.solution)
    decided = judge.decisions(solution)
    return replace(candidate, solution=solution, decided=decided) if judge.keeps(decided) else None


def _along_covariance(task: ClassTask, judge: ClassJudge, tried: list[_Candidate]) -> _Candidate | None:
    reach = (task.problem.rows @ task.exact_free.phi).reshape(task.n_classes, -1)
    bounded = np.isin(np.arange(task.n_classes), judge.favourable)[:, None]
    start = [task.exact_free]

    def make(t: float) -> _Candidate:
        aim = np.where(bounded, t * reach, 0.0)
        low, high = (aim, aim) if t < 0 else (-np.abs(aim), np.abs(aim))
        lower, upper = np.where(bounded, low, -np.inf).ravel(), np.where(bounded, high, np.inf).ravel()
        problem = task.problem.with_bounds(lower, upper)
        solution = task.solve(problem, start[0], tol=_SCOUT)
        start[0] = solution
        candidate = _Candidate(solution, problem, "covariance", t, judge.decisions(solution))
        tried.append(candidate)
        return candidate

    broken = 1.0
    for t in _FACTORS:
        candidate = make(t)
        if judge.keeps(candidate.decided):
            return _finished(task, judge, _search_back(make, judge, broken, (t, candidate)))
        broken = t
    return None


def _along_prices(task: ClassTask, judge: ClassJudge, tried: list[_Candidate]) -> _Candidate | None:
    weights = _price_weights(task)
    start = [task.exact_free]
    scale = task.weight_of_loss * task.data.loss_weight

    def make(prices: Array) -> _Candidate:
        gains = np.zeros((task.n_classes, len(task.data.codes)))
        gains[task.data.codes, np.arange(len(task.data.codes))] = 1.0
        gains[list(judge.favourable)] += prices @ weights
        problem = replace(task.problem.unconstrained(), masses=scale * (gains - gains.min(axis=0)))
        solution = task.solve(problem, start[0], tol=_SCOUT)
        start[0] = solution
        candidate = _Candidate(
            solution, problem, "decisions", _labelled(task, judge, prices), judge.decisions(solution)
        )
        tried.append(candidate)
        return candidate

    prices = np.zeros((len(judge.favourable), len(weights)))
    decided = tried[0].decided
    for k in range(_ROUNDS):
        prices = prices + _STEP / np.sqrt(1.0 + k) * judge.lacks(decided) * _shares(task)
        candidate = make(prices)
        decided = candidate.decided
        if judge.keeps(decided):
            return _finished(task, judge, _search_back(partial(_scaled, make, prices), judge, 0.0, (1.0, candidate)))
    return None


def _scaled(make: Callable[[Array], _Candidate], prices: Array, t: float) -> _Candidate:
    return make(t * prices)


def _labelled(task: ClassTask, judge: ClassJudge, prices: Array) -> pd.DataFrame:
    """Return prices as a frame with a row per group and a column per favourable class."""
    labels = [(a.name, category) for a in _with_groups(task) for category in a.categories]
    index = pd.MultiIndex.from_tuples(labels, names=["attribute", "category"])
    return pd.DataFrame(prices.T, index=index, columns=[task.data.classes[q] for q in judge.favourable])


def _shares(task: ClassTask) -> Array:
    """Return the share of each group of each attribute with groups, (G,)."""
    weight = task.data.people_weight
    counts = [count_groups(a, np.ones(len(weight)), weight) for a in _with_groups(task)]
    return np.concatenate([c.weight for c in counts]) / weight.sum()


def _with_groups(task: ClassTask) -> list[Attribute]:
    return [a for a in task.sensitive.attributes if not a.is_numeric]


def _price_weights(task: ClassTask) -> Array:
    """Return ``1{i in g} / share_g - 1`` for every group of every attribute, (G, N)."""
    member = np.vstack([a.members().T for a in _with_groups(task)])
    return member / _shares(task)[:, None] - 1.0


def _raise_infeasible(constraint: PRuleBound, task: ClassTask, judge: ClassJudge, tried: list[_Candidate]) -> None:
    best = max((judge.reached(c.decided) for c in tried), key=lambda r: float(r.min()))
    q = judge.favourable[int(np.argmin(best))]
    label = task.data.classes.tolist()[q]
    raise InfeasibleError(
        f"No classifier found reaches a {constraint.p:g}%-rule for every favourable class on the training data; the "
        f"best has {best.min():.1f}% for class {label!r}. Ask for a lower p, name fewer classes in favourable, or "
        "merge small groups."
    )


def _warn_if_trivial(judge: ClassJudge, best: _Candidate) -> None:
    if len(np.unique(best.decided)) == 1:
        label = judge.task.data.classes.tolist()[int(best.decided[0])]
        warn(
            f"The only classifier found that keeps the rule decides {label!r} for everybody. Ask for a lower p, name "
            "fewer classes in favourable, or merge small groups.",
            TrivialClassifierWarning,
        )
