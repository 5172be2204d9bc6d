"""The whole trade-off between accuracy and fairness, every point of it a fitted classifier.

The frontier is the path of ``min L s.t. |cov_k| <= a |cov*_k|`` from the unconstrained classifier (``a = 1``) to zero
covariance (``a = 0``). Neighbouring points are so alike that a line through the last two, corrected by the Newton
step that the new bounds ask for, is nearly the next: a frontier costs little more than a few fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from fairmargin.base import FairClassifier
from fairmargin.constraints import CovarianceBound
from fairmargin.decisions import RULES, Population, highest_difference, least_ratio
from fairmargin.formulations import Outcome, Task
from fairmargin.formulations.covariance import Path
from fairmargin.formulations.loss import least_factor
from fairmargin.formulations.outcome import loss_increase, warn_unless_solved
from fairmargin.formulations.ties import settle_ties
from fairmargin.notions import Condition, get_notion
from fairmargin.problem import Certificate, Problem, Solution
from fairmargin.sensitive import Sensitive, encode_sensitive
from fairmargin.strata import encode_strata, within_strata
from fairmargin.validation import ONE_AT_A_TIME, check_count, validate_weights

__all__ = ["FairnessFrontier", "FrontierDisplay"]

Array = NDArray[np.float64]

_PLAIN = str | int | float | None  # parameters that points may share
_Point = tuple[float, Problem, Solution]  # a factor, the problem there, and its solution


class FairnessFrontier(MetaEstimatorMixin, BaseEstimator):
    """The exact accuracy/fairness frontier of an estimator of this package.

    Parameters
    ----------
    estimator : estimator of this package
        Of its ``constraint`` only the ``notion`` of fairness is kept: the frontier has all bounds.
    n_points : int, default=21
        Number of points, the unconstrained classifier first and zero covariance last.
    which : {"covariance", "loss"}, default="covariance"
        Whether points are evenly spaced in the covariance factor ``a`` or in the loss.
    method : {"one_vs_rest", "between_groups"}, default="one_vs_rest"
    min_people : int, default=1
        How the p%-rule and the CV score of the table compare groups, as in :func:`fairmargin.p_rule`.
    progress : bool or callable, default=False
        True shows a progress bar (needs rich); a callable is called with (points done, points in all).

    Attributes
    ----------
    estimators_ : list of fitted estimators, one a point
    table_ : pandas.DataFrame, one row a point
        ``factor`` (the paper's *a*), ``objective``, ``loss_increase`` (over the unconstrained objective),
        ``relative_loss`` (0 for the unconstrained classifier and 1 for zero covariance, as in the paper),
        ``covariance[attribute=category]``, ``multiplier[...]`` (its size is the shadow price: what one unit less of
        covariance would add to the objective) and, for the training data and each set given to ``fit``,
        ``train_accuracy``, ``train_p_rule`` (nan where nobody is accepted), ``train_cv_score``,
        ``train_rate[attribute=category]``.

    Examples
    --------
    >>> from fairmargin import FairLogisticRegression, FairnessFrontier
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(random_state=0)
    >>> frontier = FairnessFrontier(FairLogisticRegression(), n_points=5).fit(X, y, sensitive_features=z)
    >>> frontier.table_["factor"].tolist()
    [1.0, 0.75, 0.5, 0.25, 0.0]
    """

    __metadata_request__fit = {"sensitive_features": True, "strata": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        *,
        n_points: int = 21,
        which: str = "covariance",
        method: str = "one_vs_rest",
        min_people: int = 1,
        progress: bool | Callable[[int, int], Any] = False,
    ) -> None:
        self.estimator = estimator
        self.n_points = n_points
        self.which = which
        self.method = method
        self.min_people = min_people
        self.progress = progress

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        sensitive_features: Any = None,
        strata: Any = None,
        eval_set: Any = None,
    ) -> FairnessFrontier:
        """Trace the frontier.

        Parameters
        ----------
        X, y, sample_weight, sensitive_features, strata
            As in the estimator's ``fit``.
        eval_set : tuple (X, y, sensitive_features) or mapping from name to such tuples, optional
            Further data to measure every point on; a tuple alone is called "test". Two more entries may follow,
            ``sample_weight`` (or None) and, if the frontier has them, ``strata``.
        """
        if isinstance(self.n_points, bool) or not isinstance(self.n_points, int | np.integer) or self.n_points < 2:
            raise ValueError(f"n_points must be a whole number of at least 2, got {self.n_points!r}.")
        if self.which not in ("covariance", "loss"):
            raise ValueError(f"which must be 'covariance' or 'loss', got {self.which!r}.")
        if self.method not in RULES:
            raise ValueError(f"method must be one of {', '.join(map(repr, RULES))}, got {self.method!r}.")
        check_count(self.min_people, "min_people")
        if not isinstance(self.estimator, FairClassifier):
            raise ValueError(f"estimator must be an estimator of this package, got {self.estimator!r}.")
        sets = _read_sets(eval_set)
        notion = getattr(self.estimator.constraint, "notion", CovarianceBound.notion)
        zero = CovarianceBound(notion=notion)
        with ONE_AT_A_TIME:
            prototype = clone(self.estimator).set_params(constraint=zero)
        task = prototype._prepare(X, y, sample_weight, sensitive_features, strata)
        task = prototype._refine(task, zero)
        if self.which == "loss":
            task = replace(task, tol=min(task.tol, 1e-9))  # as LossBound, whose points these are
        estimators: list[Any] = []
        rows = []
        worst: Certificate | None = None  # of the points and of the unconstrained classifier they refer to
        with ONE_AT_A_TIME:
            for name, data in sets.items():
                _check_set(name, data, task)
        free = task.solve(task.problem.unconstrained())
        for factor, problem, solution in self._report(self._points(task, free)):
            outcome = settle_ties(Outcome(solution, problem, free), task.tol)
            with ONE_AT_A_TIME:
                point = _fitted(prototype, task, factor, outcome)
            estimators.append(point)
            rows.append(self._training_row(task, factor, outcome.solution))
            if worst is None or _is_worse(point.certificate_, worst):
                worst = point.certificate_
        if worst is not None:
            warn_unless_solved(worst, task.tol)
        with ONE_AT_A_TIME:
            table = _with_losses(pd.DataFrame(rows), free, task.problem)
            self.classes_, self.estimators_ = task.data.classes, estimators
            self._asked = _Asked(zero.notion, task.data.strata is not None)
            parts = [table, *(self.evaluate(*data, name=name) for name, data in sets.items())]
            self.table_ = pd.concat(parts, axis=1)
        return self

    def _points(self, task: Task, free: Solution) -> Iterable[_Point]:
        path = Path(task, free, task.problem.rows @ free.theta)
        steps = np.linspace(1.0, 0.0, self.n_points)
        if self.which == "covariance":
            for factor, solution in path.trace(steps.tolist()):
                yield factor, path.problem(factor), solution
            return
        most = path.at(0.0).objective
        for step in steps:
            budget = free.objective + (1.0 - float(step)) * (most - free.objective)
            factor, solution = (0.0, path.at(0.0)) if step == 0.0 else least_factor(path, budget)
            yield factor, path.problem(factor), solution

    def _report(self, points: Iterable[_Point]) -> Iterable[_Point]:
        """Pass the points on and show how far we are."""
        if self.progress is True:
            try:
                from rich.progress import track
            except ImportError:
                raise ImportError('progress=True needs rich: pip install "fairmargin[cli]".') from None
            yield from track(points, total=self.n_points, description="frontier", transient=True)
            return
        for done, point in enumerate(points, start=1):
            yield point
            if callable(self.progress):
                self.progress(done, self.n_points)

    def evaluate(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        sample_weight: Any = None,
        strata: Any = None,
        *,
        name: str = "test",
    ) -> pd.DataFrame:
        """Return accuracy, p%-rule, CV score and rates of every point on any data, by the notion of the frontier."""
        check_is_fitted(self)
        y = np.asarray(y)
        sensitive = encode_sensitive(sensitive_features, len(y), groups=False)
        weight = validate_weights(sample_weight, y[:, None])
        _check_labels(y, self.classes_, name)
        conditions = self._asked.conditions(y == self.classes_[1], sensitive, strata, name)
        people = _population(y == self.classes_[1], weight, sensitive, self.min_people, conditions)
        return pd.DataFrame(
            [_measures(e.decision_function(X) >= 0, people, name, self.method) for e in self.estimators_]
        )

    def _training_row(self, task: Task, factor: float, solution: Solution) -> dict[str, float]:
        names = task.columns.names
        row: dict[str, float] = {"factor": float(factor), "objective": solution.objective}
        row |= {f"covariance[{n}]": v for n, v in zip(names, task.problem.rows @ solution.theta, strict=True)}
        row |= {f"multiplier[{n}]": v for n, v in zip(names, solution.multipliers, strict=True)}
        weight, conditions = task.data.people_weight, task.columns.conditions
        people = _population(task.data.y > 0, weight, task.sensitive, self.min_people, conditions)
        return row | _measures(solution.scores >= 0, people, "train", self.method)

    def select_index(
        self,
        *,
        p_rule: float | None = None,
        max_loss_increase: float | None = None,
        covariance: float | None = None,
        on: str = "train",
    ) -> int:
        """Return the index of the point that :meth:`select` returns."""
        check_is_fitted(self)
        asked = {"p_rule": p_rule, "max_loss_increase": max_loss_increase, "covariance": covariance}
        if sum(v is not None for v in asked.values()) != 1:
            raise ValueError("Give exactly one of p_rule, max_loss_increase and covariance.")
        if p_rule is not None:
            if 0 < p_rule <= 1:
                raise ValueError(f"p_rule is in percent; did you mean {100 * p_rule:g}?")
            column = self._column(f"{on}_p_rule")
            highest = np.nanmax(column) if np.any(np.isfinite(column)) else 0.0
            return self._first(column >= p_rule, f"reaches a {p_rule:g}%-rule; the highest is {highest:.1f}%")
        if max_loss_increase is not None:
            if not max_loss_increase >= 0:
                raise ValueError(f"max_loss_increase must be zero or positive, got {max_loss_increase!r}.")
            within = self.table_["loss_increase"].to_numpy() <= max_loss_increase + 1e-12
            return int(np.flatnonzero(within)[-1])
        assert covariance is not None
        size = self.table_.filter(like="covariance[").abs().max(axis=1).to_numpy()
        return self._first(size <= covariance + 1e-12, f"has all covariances within {covariance!r}")

    def select(
        self,
        *,
        p_rule: float | None = None,
        max_loss_increase: float | None = None,
        covariance: float | None = None,
        on: str = "train",
    ) -> Any:
        """Return the fitted classifier that answers one question.

        ``p_rule=80``: the point of least loss that reaches an 80%-rule, on the data called ``on``.
        ``max_loss_increase=0.02``: the fairest point within 2% of the best objective.
        ``covariance=0.01``: the point of least loss with all covariances within 0.01.
        """
        index = self.select_index(p_rule=p_rule, max_loss_increase=max_loss_increase, covariance=covariance, on=on)
        return self.estimators_[index]

    def _column(self, name: str) -> Array:
        if name not in self.table_:
            known = sorted(c[: -len("_p_rule")] for c in map(str, self.table_) if c.endswith("_p_rule"))
            raise ValueError(f"The frontier has no {name!r}; it was measured on: {', '.join(known) or 'nothing'}.")
        return self.table_[name].to_numpy()

    def _first(self, meets: NDArray[np.bool_], what: str) -> int:
        found = np.flatnonzero(meets)
        if len(found) == 0:
            raise ValueError(f"No point of the frontier {what}; PRuleBound and LossBound search further.")
        return int(found[0])

    def plot(
        self, *, x: str = "p_rule", y: str = "accuracy", on: str | None = None, ax: Any = None
    ) -> FrontierDisplay:
        """Draw the frontier; see :class:`FrontierDisplay`."""
        return FrontierDisplay.from_frontier(self, x=x, y=y, on=on, ax=ax)


def _fitted(prototype: Any, task: Task, factor: float, outcome: Outcome) -> Any:
    """Return a point as a fitted estimator."""
    point = copy(prototype)  # not yet fitted, but for what it knows of X; clone would take longer than a solution
    for name, value in vars(prototype).items():
        if not name.endswith("_") and not isinstance(value, _PLAIN):
            setattr(point, name, clone(value, safe=False))
    notion = prototype.constraint.notion
    point.constraint = CovarianceBound(round(float(factor), 12), relative=True, notion=notion)
    point._store(task, outcome, warn=False)  # the table shows bought covariance for all points at once
    return point


def _is_worse(proof: Certificate, other: Certificate) -> bool:
    return (proof.status != "solved", proof.gap) > (other.status != "solved", other.gap)


def _measures(accepted: NDArray[np.bool_], people: Population, name: str, method: str) -> dict[str, float]:
    """Return accuracy, p%-rule, CV score and positive rates of decisions, by column of the table."""
    row = {f"{name}_accuracy": people.accuracy(accepted)}
    counts = people.counts(accepted)
    if counts:
        # The p%-rule is nan where nobody is accepted; it and the CV score where there is nothing to compare.
        several = all(c.n_present > 1 for c in counts) and any(c.judged(method).any() for c in counts)
        row[f"{name}_p_rule"] = float(least_ratio(counts, method)) if several else np.nan
        row[f"{name}_cv_score"] = float(highest_difference(counts, method)) if several else np.nan
    for c in counts:
        among = f" | {c.among}" if c.among else ""
        rates = zip(c.categories, c.rate, strict=True)
        row |= {f"{name}_rate[{c.name}={g}{among}]": float(rate) for g, rate in rates}
    return row


def _population(
    label: NDArray[np.bool_],
    weight: Array,
    sensitive: Sensitive,
    min_people: int,
    conditions: tuple[Condition, ...],
) -> Population:
    groups = tuple(a for a in sensitive.attributes if not a.is_numeric)
    return Population(label, weight, groups, min_people, conditions=conditions)


@dataclass(frozen=True)
class _Asked:
    """How the points of a frontier are measured: by which notion, and whether within strata."""

    notion: Any
    in_strata: bool

    def conditions(
        self, label: NDArray[np.bool_], sensitive: Sensitive, strata: Any, name: str
    ) -> tuple[Condition, ...]:
        """Return the conditions under which groups are compared on data with these labels."""
        if (strata is not None) != self.in_strata:
            missing = "lack" if self.in_strata else "have"
            raise ValueError(
                f"The data called {name!r} {missing} strata, unlike those that the frontier is fitted on; give them "
                "as (X, y, sensitive_features, sample_weight, strata)."
            )
        notion = get_notion(self.notion)
        found = notion.conditions(np.where(label, 1.0, -1.0))
        if strata is None:
            return found
        return within_strata(found, encode_strata(strata, len(label)), sensitive, notion.name)


def _with_losses(table: pd.DataFrame, free: Solution, problem: Problem) -> pd.DataFrame:
    increase = table["objective"].map(lambda value: loss_increase(value, free.objective, problem))
    most = float(increase.iloc[-1])
    table.insert(2, "loss_increase", increase)
    table.insert(3, "relative_loss", increase / most if most > 0 else 0.0 * increase)
    return table


def _read_sets(eval_set: Any) -> dict[str, tuple[Any, ...]]:
    if eval_set is None:
        return {}
    sets = dict(eval_set) if isinstance(eval_set, Mapping) else {"test": eval_set}
    for name, data in sets.items():
        if not isinstance(data, tuple | list) or len(data) not in (3, 4, 5):
            raise ValueError(
                f"eval_set {name!r} must be a tuple (X, y, sensitive_features[, sample_weight[, strata]])."
            )
        if name == "train":
            raise ValueError("eval_set cannot be called 'train', which is the data that the frontier is fitted on.")
    return {str(name): tuple(data) for name, data in sets.items()}


def _check_set(name: str, data: tuple[Any, ...], task: Task) -> None:
    """Look at further data before anything is solved: lengths, labels, weights."""
    y = np.asarray(data[1])
    _check_labels(y, task.data.classes, name)
    encode_sensitive(data[2], len(y), groups=False)
    if len(data) > 3:
        validate_weights(data[3], y[:, None])


def _check_labels(y: NDArray[Any], classes: NDArray[Any], name: str) -> None:
    unknown = sorted(set(np.unique(y).tolist()) - set(classes.tolist()), key=str)
    if unknown:
        raise ValueError(
            f"The data called {name!r} have the label {unknown[0]!r}; the labels known are {classes.tolist()}."
        )


class FrontierDisplay:
    """A drawing of a frontier, in scikit-learn's Display style.

    Parameters
    ----------
    table : pandas.DataFrame
        ``table_`` of a frontier.
    x, y : str
        What is drawn: "p_rule", "accuracy", "cv_score", or a column of the table.
    on : list of str
        The data sets to draw.

    Attributes
    ----------
    ax_ , figure_ : matplotlib axes and figure
    lines_ : list of matplotlib lines
    """

    def __init__(self, table: pd.DataFrame, *, x: str = "p_rule", y: str = "accuracy", on: list[str]) -> None:
        self.table, self.x, self.y, self.on = table, x, y, on

    @classmethod
    def from_frontier(
        cls,
        frontier: FairnessFrontier,
        *,
        x: str = "p_rule",
        y: str = "accuracy",
        on: str | None = None,
        ax: Any = None,
    ) -> FrontierDisplay:
        """Draw a fitted frontier, on all data sets it was measured on or on the one called ``on``."""
        check_is_fitted(frontier)
        ending = "_accuracy"
        sets = [c[: -len(ending)] for c in map(str, frontier.table_) if c.endswith(ending)] if on is None else [on]
        return cls(frontier.table_, x=x, y=y, on=sets).plot(ax=ax)

    def plot(self, ax: Any = None, **line_options: Any) -> FrontierDisplay:
        """Draw on ``ax``, or on new axes."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError('Drawing needs matplotlib: pip install "fairmargin[plot]".') from None
        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        self.lines_ = []
        for name, style in zip(self.on, ["-o", "--s", ":^", "-.d"] * 8, strict=False):
            options = {"markersize": 3.5, "label": name} | line_options
            self.lines_ += ax.plot(self._values(self.x, name), self._values(self.y, name), style, **options)
        ax.set_xlabel(_axis_name(self.x))
        ax.set_ylabel(_axis_name(self.y))
        ax.grid(alpha=0.3)
        if len(self.on) > 1:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _values(self, what: str, name: str) -> Array:
        for column in (f"{name}_{what}", what):
            if column in self.table:
                return self.table[column].to_numpy()
        raise ValueError(f"The frontier's table has no {what!r}; its columns are {', '.join(map(str, self.table))}.")


def _axis_name(what: str) -> str:
    names = {"p_rule": "p%-rule (percent)", "accuracy": "accuracy", "cv_score": "CV score (difference of rates)"}
    return names.get(what, what.replace("_", " "))
