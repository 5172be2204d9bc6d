"""A p%-rule for every favourable class: the most accurate classifier found whose decisions reach it.

Two families are searched, as for two classes. *Covariance*: the classifiers of least loss with ``|cov| <= t |cov*|``
for the favourable classes, ``t`` from 1 to 0, then ``cov = t cov*`` on to the other sign. *Decisions*: deciding class
q for a person of group g earns ``1{y = q} + u_qg (1{g} / share_g - 1)``, a price on the gap between the group's rate
and that of everybody. Under a notion about labels, or within strata, that is among the people who count, and zero for
the others; where refusals are counted its sign changes. Gains less the least of a row are label masses of a
multinomial problem, whose optimum decides for the class of the largest expected gain: adding the same to all gains of
a row changes no decision. Prices follow what the rates lack, until the rule is kept; then they are lowered along the
line back as far as the rule allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.caller import warn
from fairmargin.constraints import PRuleBound
from fairmargin.decisions import GroupCounts, count_groups, highest_difference, least_ratio
from fairmargin.exceptions import InfeasibleError, TrivialClassifierWarning
from fairmargin.formatting import with_article
from fairmargin.formulations.prule.rule import EQUAL, Rule, make_rule
from fairmargin.multiclass.labels import decide
from fairmargin.multiclass.newton import MultinomialSolution
from fairmargin.multiclass.problem import MultinomialProblem
from fairmargin.multiclass.task import ClassOutcome, ClassTask, for_two, solve_classes
from fairmargin.notions import Condition
from fairmargin.sensitive import Attribute, label_index
from fairmargin.tolerances import HAIR

__all__ = ["ClassJudge", "solve_class_rule"]

Array = NDArray[np.float64]

_FACTORS = (0.6, 0.3, 0.0, -0.5, -1.0)  # of the covariance path, visited until the rule is kept
_BISECTIONS = 5  # of the last interval of either path: to a thirtieth of it
_ROUNDS = 30  # of prices with ever smaller steps, and then with steps that adapt
_STEP = 0.3  # price that a group's rate of zero, against others', adds in the first round
_FASTER, _SLOWER = 1.2, 0.5  # factors on a step while a rate keeps lacking, and where it has come to exceed others
_SCOUT = 1e-5  # relative gap of classifiers on the way: their decisions are counted, their loss is not used


@dataclass(frozen=True)
class ClassJudge:
    """Judges the decisions of several classes on the training data."""

    task: ClassTask
    constraint: PRuleBound

    def decisions(self, solution: MultinomialSolution) -> NDArray[np.intp]:
        """Return the class decided for each person, (N,)."""
        return decide(solution.point.scores.T)

    @cached_property
    def rule(self) -> Rule:
        """What the rates of every favourable class must reach."""
        return make_rule(self.constraint)

    def reached(self, decided: NDArray[np.intp]) -> Array:
        """Return the level of the rule reached for each favourable class; a class that nobody is given keeps it."""
        return np.array([float(self.rule.reached(self.counts(q, decided))) for q in self.favourable])

    def measures(self, decided: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return the p, in percent, and the largest difference of rates, of each favourable class."""
        counts, method = [self.counts(q, decided) for q in self.favourable], self.constraint.method
        ratios = np.array([float(least_ratio(c, method)) for c in counts])
        return np.where(np.isnan(ratios), EQUAL, ratios), np.array(
            [float(highest_difference(c, method)) for c in counts]
        )

    @property
    def favourable(self) -> tuple[int, ...]:
        """The classes that the rule is about."""
        return self.task.data.favourable

    def compared(self, q: int) -> list[tuple[Condition, Attribute]]:
        """What is counted for a class: every attribute with groups, under every condition."""
        groups = [a for a in self.task.sensitive.attributes if not a.is_numeric]
        return [(c, a) for c in self.task.compared[q].conditions for a in groups]

    def counts(self, q: int, decided: NDArray[np.intp]) -> list[GroupCounts]:
        """Return how often the groups are given a class."""
        weight, least = self.task.data.people_weight, self.constraint.min_people
        return [count_groups(a, decided == q, weight, least, c) for c, a in self.compared(q)]

    def keeps(self, decided: NDArray[np.intp]) -> bool:
        """Whether every favourable class reaches the rule."""
        return bool(np.all(self.reached(decided) >= self.rule.level - HAIR))

    def accuracy(self, decided: NDArray[np.intp]) -> float:
        """Return the share of correct decisions, weighted as the loss is."""
        weight = self.task.data.loss_weight
        return float(weight @ (decided == self.task.data.codes)) / float(weight.sum())

    def lacks(self, decided: NDArray[np.intp]) -> Array:
        """Return by which share each group's rate of each favourable class is below that of the rest, (F, G)."""
        rows = []
        for q in self.favourable:
            counts = self.counts(q, decided)
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
        _raise_infeasible(task, judge, tried)
    best = max(found, key=lambda c: judge.accuracy(c.decided))
    _warn_if_trivial(judge, best)
    ratios, differences = judge.measures(best.decided)
    labels = [task.data.classes[q] for q in judge.favourable]
    more = {
        "p_rule_": pd.Series(ratios, index=labels, name="p_rule"),
        "cv_score_": pd.Series(differences, index=labels, name="cv_score"),
        "path_": best.path,
        "path_point_": best.place,
    }
    return ClassOutcome(best.solution, best.problem, free, more)


def _check_rule(constraint: PRuleBound, task: ClassTask) -> None:
    asked = {
        "confidence": constraint.confidence is not None,
        "smooth_below": constraint.smooth_below is not None,
        f"path={constraint.path!r}": constraint.path in ("rates", "ccp"),
    }
    if any(asked.values()):
        names = " and ".join(name for name, given in asked.items() if given)
        raise ValueError(
            f"{names} of PRuleBound is only defined for two classes{for_two(task.data.classes)}; to ask it of one "
            "class against the others, use FairOneVsRestClassifier with such a constraint."
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
    weights = [_price_weights(judge, q) for q in judge.favourable]
    shares = np.array([_shares(judge, q) for q in judge.favourable])
    start = [task.exact_free]
    scale = task.weight_of_loss * task.data.loss_weight

    def make(prices: Array) -> _Candidate:
        gains = np.zeros((task.n_classes, len(task.data.codes)))
        gains[task.data.codes, np.arange(len(task.data.codes))] = 1.0
        for q, price, weight in zip(judge.favourable, prices, weights, strict=True):
            gains[q] += price @ weight
        free = task.problem.unconstrained()
        problem = replace(free, objective=replace(free.objective, masses=scale * (gains - gains.min(axis=0))))
        solution = task.solve(problem, start[0], tol=_SCOUT)
        start[0] = solution
        candidate = _Candidate(
            solution, problem, "decisions", _labelled(task, judge, prices), judge.decisions(solution)
        )
        tried.append(candidate)
        return candidate

    prices, before = np.zeros(shares.shape), np.zeros(shares.shape)
    decided = tried[0].decided
    for k in range(2 * _ROUNDS):
        lacks = judge.lacks(decided)
        if k <= _ROUNDS:
            step = np.full(shares.shape, _STEP / np.sqrt(1.0 + k % _ROUNDS))
        else:
            step = step * np.where(lacks * before < 0, _SLOWER, np.where(lacks * before > 0, _FASTER, 1.0))
        prices, before = prices + step * lacks * shares, lacks
        candidate = make(prices)
        decided = candidate.decided
        if judge.keeps(decided):
            return _finished(task, judge, _search_back(partial(_scaled, make, prices), judge, 0.0, (1.0, candidate)))
    return None


def _scaled(make: Callable[[Array], _Candidate], prices: Array, t: float) -> _Candidate:
    return make(t * prices)


def _labelled(task: ClassTask, judge: ClassJudge, prices: Array) -> pd.DataFrame:
    """Return prices as a frame with a row per group (and condition) and a column per favourable class."""
    compared = judge.compared(judge.favourable[0])
    several = len(task.columns.conditions) > 1
    labels = [(a.name, g, c.name) if several else (a.name, g) for c, a in compared for g in a.categories]
    return pd.DataFrame(prices.T, index=label_index(labels), columns=[task.data.classes[q] for q in judge.favourable])


def _shares(judge: ClassJudge, q: int) -> Array:
    """Return the share of each group among those who count for a class, for every condition and attribute, (G,)."""
    weights = [counts.weight for counts in judge.counts(q, np.full(len(judge.task.data.codes), q))]
    return np.concatenate([w / w.sum() for w in weights])


def _price_weights(judge: ClassJudge, q: int) -> Array:
    """Return ``1{i in g} / share_g - 1`` of those who count, signed, for every group and condition, (G, N).

    Zero for a group in which nobody counts, as in a stratum without it: it has no rate, and no price.
    """
    members = np.vstack([a.members().T for _, a in judge.compared(q)])
    counted = [np.tile(np.where(c.counts, c.sign, 0.0), (len(a.categories), 1)) for c, a in judge.compared(q)]
    share = _shares(judge, q)[:, None]
    return (members / np.where(share > 0, share, np.inf) - 1.0) * np.vstack(counted) * (share > 0)


def _raise_infeasible(task: ClassTask, judge: ClassJudge, tried: list[_Candidate]) -> None:
    best = max((judge.reached(c.decided) for c in tried), key=lambda r: float(r.min()))
    q = judge.favourable[int(np.argmin(best))]
    label = task.data.classes.tolist()[q]
    raise InfeasibleError(
        f"No classifier found reaches {with_article(judge.rule.text)} for every favourable class on the training "
        f"data; the best has {judge.rule.told(float(best.min()))} for class {label!r}. Ask for {judge.rule.weaker}, "
        "name fewer classes in favourable, or merge small groups."
    )


def _warn_if_trivial(judge: ClassJudge, best: _Candidate) -> None:
    if len(np.unique(best.decided)) == 1:
        label = judge.task.data.classes.tolist()[int(best.decided[0])]
        warn(
            f"The only classifier found that keeps the rule decides {label!r} for everybody. Ask for "
            f"{judge.rule.weaker}, name fewer classes in favourable, or merge small groups.",
            TrivialClassifierWarning,
        )
