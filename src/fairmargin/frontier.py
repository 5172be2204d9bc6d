"""The whole trade-off between accuracy and fairness, every point of it a fitted classifier.

There are two frontiers. In covariance it is exact: least loss for each covariance. In the p%-rule itself it has the
most accurate classifier found at each level, all from one search. :mod:`fairmargin.frontier_points` makes the points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fairmargin.base import FairClassifier
from fairmargin.constraints import PRuleBound
from fairmargin.decisions import RULES, GroupCounts, highest_difference, least_ratio
from fairmargin.formatting import ratio_beside, with_article
from fairmargin.formulations import Task
from fairmargin.formulations.outcome import loss_increase, warn_unless_solved
from fairmargin.frontier_points import (
    CovariancePoints,
    LevelPoints,
    Point,
    SeveralPoints,
    TrainingTuple,
    number_of_use,
)
from fairmargin.inputs import check_same_order
from fairmargin.misspelled import names_arguments
from fairmargin.notions import Condition, get_notion
from fairmargin.plain_state import PlainState
from fairmargin.problem import Certificate, Problem
from fairmargin.ranking import Population
from fairmargin.sensitive import Sensitive, encode_sensitive
from fairmargin.strata import encode_strata, within_strata
from fairmargin.validation import ONE_AT_A_TIME, check_count, validate_weights

if TYPE_CHECKING:
    from fairmargin.displays import FrontierDisplay

__all__ = ["Asked", "FairnessFrontier", "describe_decisions", "frontier_table", "read_sets"]

Array = NDArray[np.float64]


class FairnessFrontier(PlainState, MetaEstimatorMixin, BaseEstimator):
    """The accuracy/fairness frontier of an estimator of this package, or of a pipeline that ends in one.

    Parameters
    ----------
    estimator : estimator of this package, or a Pipeline whose last step is one
        The frontier sets the bounds itself: of the estimator's ``constraint`` it keeps only the ``notion`` of
        fairness (and, with ``which="p_rule"``, the ``path`` and ``smooth_below`` of a ``PRuleBound``). If
        ``constraint`` is a list, the first ``CovarianceBound`` (or ``PRuleBound``) is traced, and all others hold at
        every point; a ``LossBound`` then only bounds the loss. Points for which the others leave no classifier are
        left out.
    n_points : int, default=21
        Number of points, the unconstrained classifier first and zero covariance, or a 100%-rule, last.
    which : {"covariance", "loss", "p_rule"}, default="covariance"
        ``"covariance"`` and ``"loss"``: the exact frontier of least loss under bounds on covariances, its points
        evenly spaced in the covariance factor ``a`` or in the loss. ``"p_rule"``: the most accurate classifier found
        at each level of the p%-rule, from that of the unconstrained classifier to 100%, searched along both paths of
        :class:`fairmargin.PRuleBound`, with every threshold of every candidate. On the training data accuracy never
        rises with the level. The frontier ends before the levels at which no better classifier was found than
        deciding the same for everybody; a warning names these levels. A ``confidence`` is left out: nobody is tested.
    levels : list of float, optional
        With ``which="p_rule"``: further levels, in percent, at which to place points. Levels that the unconstrained
        classifier exceeds are dropped.
    method : {"one_vs_rest", "between_groups"}, default="one_vs_rest"
    min_people : int, default=1
        How the p%-rule and the CV score compare groups, as in :func:`fairmargin.p_rule`.
    progress : bool or callable, default=False
        True shows a progress bar (needs rich); a callable is called with (points done, points in all).

    Attributes
    ----------
    estimators_ : list of fitted estimators, one per point
    classes_ : ndarray of shape (2,)
        Those of the estimators; the second is the positive decision.
    unconstrained_ : fitted estimator
        The classifier without a constraint. With ``which="p_rule"`` the first point may be more accurate, because its
        intercept is moved to the most accurate place.
    n_looked_at_ : int
        With ``which="p_rule"``: number of further classifiers that the search solved to low accuracy; otherwise 0.
    table_ : pandas.DataFrame, one row per point
        ``factor`` (the paper's *a*) or ``level`` (percent), ``objective``, ``loss_increase`` (over the unconstrained
        objective), ``relative_loss`` (0 for the unconstrained classifier and 1 for zero covariance, as in the paper;
        not with ``which="p_rule"``), ``covariance[attribute=category]``, ``multiplier[...]`` (its size is the shadow
        price: how much the objective would grow per unit by which the bound is lowered) and, for the training data
        and each set given to ``fit``, ``train_accuracy``, ``train_p_rule`` (nan where nobody is accepted),
        ``train_cv_score``, ``train_rate[attribute=category]``.

    See Also
    --------
    FrontierDisplay : Draws a frontier.
    RegressionFrontier : The trade-off of regressors.

    Examples
    --------
    >>> from fairmargin import FairLogisticRegression, FairnessFrontier
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(random_state=1)
    >>> frontier = FairnessFrontier(FairLogisticRegression(), n_points=5).fit(X, y, sensitive_features=z)
    >>> frontier.table_["factor"].tolist()
    [1.0, 0.75, 0.5, 0.25, 0.0]
    >>> rules = FairnessFrontier(FairLogisticRegression(), n_points=5, which="p_rule", levels=[80])
    >>> rules = rules.fit(X, y, sensitive_features=z)
    >>> bool(rules.select(p_rule=80).p_rule_ >= 80)
    True
    """

    __metadata_request__fit = {"sensitive_features": True, "strata": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        *,
        n_points: int = 21,
        which: str = "covariance",
        levels: Sequence[float] | None = None,
        method: str = "one_vs_rest",
        min_people: int = 1,
        progress: bool | Callable[[int, int], Any] = False,
    ) -> None:
        self.estimator = estimator
        self.n_points = n_points
        self.which = which
        self.levels = levels
        self.method = method
        self.min_people = min_people
        self.progress = progress

    @names_arguments
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        sensitive_features: Any = None,
        strata: Any = None,
        eval_set: Any = None,
        alternatives: Sequence[Any] = (),
    ) -> FairnessFrontier:
        """Trace the frontier.

        Parameters
        ----------
        X, y, sample_weight, sensitive_features, strata
            As in the estimator's ``fit``. The steps of a pipeline before the last are fitted to ``X`` and ``y`` once.
        eval_set : tuple (X, y, sensitive_features) or mapping from name to such tuples, optional
            Further data to measure every point on; a tuple alone is called "test". Two more entries may follow,
            ``sample_weight`` (or None) and, if the frontier has them, ``strata``.
        alternatives : list of fitted classifiers of this package, optional
            With ``which="p_rule"``: each replaces every point whose level it reaches with higher accuracy.
        """
        self._check_parameters()
        check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight, strata=strata)
        sets = read_sets(eval_set)
        with ONE_AT_A_TIME:
            head, last = _fit_head(self.estimator, X, y)
        X_seen = Pipeline(head).transform(X) if head else X
        source = self._source(last, (X_seen, y, sample_weight, sensitive_features, strata))
        task = source.task
        with ONE_AT_A_TIME:
            for name, data in sets.items():
                _check_set(name, data, task)
            rivals = [(model, np.asarray(model.decision_function(X) >= 0)) for model in alternatives]
        weight, conditions = task.data.people_weight, source.conditions
        people = _population(task.data.y > 0, weight, task.sensitive, self.min_people, conditions)
        estimators: list[Any] = []
        rows: list[dict[str, float]] = []
        levels: list[tuple[float, bool]] = []
        worst: Certificate | None = None  # of the points and of the unconstrained classifier they refer to
        for point in self._report(source.points()):
            point = source.better(point, rivals)
            estimators.append(point.estimator if point.is_whole else _whole(self.estimator, head, point.estimator))
            rows.append(point.facts | _measures(point.accepted, people, "train", self.method))
            if "level" in point.facts:
                levels.append((point.facts["level"], point.is_constant))
            if worst is None or _is_worse(point.certificate, worst):
                worst = point.certificate
        if worst is not None:
            warn_unless_solved(worst, task.tol)
        source.warn()
        if levels:
            of_use = number_of_use(levels)
            estimators, rows = estimators[:of_use], rows[:of_use]
        with ONE_AT_A_TIME:
            free = source.free.objective
            table = frontier_table(rows, free, task.problem, in_loss=self.which != "p_rule")
            self.classes_, self.estimators_ = task.data.classes, estimators
            self._asked = Asked(source.notion, task.data.strata is not None)
            self.unconstrained_ = _whole(self.estimator, head, source.unconstrained())
            self.n_looked_at_ = source.n_looked_at
            parts = [table, *(self.evaluate(*data, name=name) for name, data in sets.items())]
            self.table_ = pd.concat(parts, axis=1)
        return self

    def _html_repr(self) -> str:
        """Return what a notebook shows: the parameters and, once fitted, the points."""
        diagram = str(super()._html_repr())
        if not hasattr(self, "table_"):
            return diagram
        from fairmargin.notebook import frontier_html

        return diagram + frontier_html(self)

    def _check_parameters(self) -> None:
        if isinstance(self.n_points, bool) or not isinstance(self.n_points, int | np.integer) or self.n_points < 2:
            raise ValueError(f"n_points must be a whole number of at least 2, got {self.n_points!r}.")
        if self.which not in ("covariance", "loss", "p_rule"):
            raise ValueError(f"which must be 'covariance', 'loss' or 'p_rule', got {self.which!r}.")
        if self.levels is not None:
            if self.which != "p_rule":
                raise ValueError(f"levels are for which='p_rule', and which is {self.which!r}.")
            for level in self.levels:
                PRuleBound(level)  # raises unless it is a percentage
        if self.method not in RULES:
            raise ValueError(f"method must be one of {', '.join(map(repr, RULES))}, got {self.method!r}.")
        check_count(self.min_people, "min_people")
        last = self.estimator[-1] if isinstance(self.estimator, Pipeline) else self.estimator
        if not isinstance(last, FairClassifier):
            instead = "; for regressors there is RegressionFrontier" if isinstance(last, RegressorMixin) else ""
            raise ValueError(
                "estimator must be a classifier of two classes of this package, or a pipeline that ends in one, got "
                f"{last!r}{instead}."
            )

    def _source(self, last: FairClassifier, data: TrainingTuple) -> CovariancePoints | LevelPoints | SeveralPoints:
        """Return what makes the points."""
        if isinstance(last.constraint, list | tuple) and len(last.constraint) > 1:
            return SeveralPoints(self, last, data)
        if self.which == "p_rule":
            return LevelPoints(last, data, self.n_points, self.levels or (), self.method, self.min_people)
        return CovariancePoints(last, data, self.n_points, evenly=self.which)

    def _report(self, points: Iterable[Point]) -> Iterable[Point]:
        """Pass the points on and report progress."""
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
        check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight, strata=strata)
        y = np.asarray(y)
        sensitive = encode_sensitive(sensitive_features, len(y), groups=False)
        weight = validate_weights(sample_weight, y[:, None])
        _check_labels(y, self.classes_, name)
        conditions = self._asked.conditions(y == self.classes_[1], sensitive, strata, name)
        people = _population(y == self.classes_[1], weight, sensitive, self.min_people, conditions)
        return pd.DataFrame(
            [_measures(e.decision_function(X) >= 0, people, name, self.method) for e in self.estimators_]
        )

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
            rule = with_article(f"{p_rule:g}%-rule")
            return self._first(column >= p_rule, f"reaches {rule}; the highest is {ratio_beside(highest, p_rule)}")
        if max_loss_increase is not None:
            if not max_loss_increase >= 0:
                raise ValueError(f"max_loss_increase must be zero or positive, got {max_loss_increase!r}.")
            within = np.flatnonzero(self.table_["loss_increase"].to_numpy() <= max_loss_increase + 1e-12)
            if not len(within):  # of a frontier of accuracies, which may cost loss at every point
                raise ValueError(f"No point of the frontier is within {max_loss_increase:g} of the best loss.")
            return int(within[-1])
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

        ``p_rule=80``: the first point that reaches an 80%-rule on the data called ``on``: of least loss, or on a
        frontier of the p%-rule the most accurate.
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
        """Draw the frontier; see :class:`fairmargin.FrontierDisplay`."""
        from fairmargin.displays import FrontierDisplay

        return FrontierDisplay.from_frontier(self, x=x, y=y, on=on, ax=ax)


def _fit_head(estimator: Any, X: Any, y: Any) -> tuple[list[tuple[str, Any]], FairClassifier]:
    """Return the steps of a pipeline before the last, fitted, and the last; no steps if it is no pipeline."""
    if not isinstance(estimator, Pipeline):
        return [], estimator
    return (clone(estimator[:-1]).fit(X, y).steps if len(estimator) > 1 else []), estimator[-1]


def _whole(estimator: Any, head: list[tuple[str, Any]], point: Any) -> Any:
    """Return a point of a pipeline's last step behind the fitted steps before it."""
    return Pipeline([*head, (estimator.steps[-1][0], point)]) if isinstance(estimator, Pipeline) else point


def _is_worse(proof: Certificate, other: Certificate) -> bool:
    return (proof.status != "solved", proof.gap) > (other.status != "solved", other.gap)


def frontier_table(
    rows: list[dict[str, float]], free: float, problem: Problem, *, in_loss: bool = True
) -> pd.DataFrame:
    """Return the table of points, with losses relative to the unconstrained objective ``free``."""
    table = pd.DataFrame(rows)
    table.insert(2, "loss_increase", [loss_increase(v, free, problem) for v in table["objective"]])
    if in_loss:
        most = float(table["loss_increase"].iloc[-1])
        table.insert(3, "relative_loss", table["loss_increase"] / (most if most > 0 else np.inf))
    return table


def describe_decisions(accuracy: float, counts: Sequence[GroupCounts], name: str, method: str) -> dict[str, float]:
    """Return accuracy, p%-rule, CV score and positive rates of decisions, by column of the table."""
    row = {f"{name}_accuracy": accuracy}
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


def _measures(accepted: NDArray[np.bool_], people: Population, name: str, method: str) -> dict[str, float]:
    return describe_decisions(people.accuracy(accepted), people.counts(accepted), name, method)


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
class Asked:
    """How the points of a frontier are measured: by which notion, and whether within strata."""

    notion: Any
    in_strata: bool

    def conditions(
        self, label: NDArray[np.bool_], sensitive: Sensitive, strata: Any, name: str
    ) -> tuple[Condition, ...]:
        """Return the conditions under which groups are compared on data with these labels."""
        self.check(strata, name)
        notion = get_notion(self.notion)
        found = notion.conditions(np.where(label, 1.0, -1.0))
        if strata is None:
            return found
        return within_strata(found, encode_strata(strata, len(label)), sensitive, notion.name)

    def check(self, strata: Any, name: str) -> None:
        """Raise unless data have strata if and only if the frontier has them."""
        if (strata is not None) != self.in_strata:
            missing = "lack" if self.in_strata else "have"
            raise ValueError(
                f"The data called {name!r} {missing} strata, unlike those that the frontier is fitted on; give them "
                "as (X, y, sensitive_features, sample_weight, strata)."
            )


def read_sets(eval_set: Any) -> dict[str, tuple[Any, ...]]:
    """Return the further data given to ``fit`` by name; raise for data that are no such tuple."""
    if eval_set is None:
        return {}
    sets = dict(eval_set) if isinstance(eval_set, Mapping) else {"test": eval_set}
    for name, data in sets.items():
        if not isinstance(data, tuple | list) or len(data) not in (3, 4, 5):
            raise ValueError(
                f"eval_set {name!r} must be a tuple (X, y, sensitive_features[, sample_weight[, strata]])."
            )
        where = f"eval_set[{name!r}]" if isinstance(eval_set, Mapping) else "eval_set"
        check_same_order(**{f"{where}[{k}]": values for k, values in enumerate(data)})
        if name == "train":
            raise ValueError("eval_set cannot be called 'train', which is the data that the frontier is fitted on.")
    return {str(name): tuple(data) for name, data in sets.items()}


def _check_set(name: str, data: tuple[Any, ...], task: Task) -> None:
    """Check further data before anything is solved: lengths, labels, weights."""
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
