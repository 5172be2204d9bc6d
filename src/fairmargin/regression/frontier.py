"""The whole trade-off of a regression: least loss for each share of the unconstrained covariance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fairmargin.constraints import CovarianceBound
from fairmargin.formulations import Outcome, warn_unless_solved
from fairmargin.formulations.covariance import Path
from fairmargin.formulations.outcome import loss_increase
from fairmargin.frontier import Asked, read_sets
from fairmargin.inputs import check_same_order
from fairmargin.misspelled import names_arguments
from fairmargin.notions import Compared
from fairmargin.plain_state import PlainState
from fairmargin.regression.losses import HuberLoss, PinballLoss, ResidualLoss, SquaredError
from fairmargin.regression.regressor import FairRegressor
from fairmargin.sensitive import encode_sensitive
from fairmargin.validation import ONE_AT_A_TIME, check_count, validate_weights

if TYPE_CHECKING:
    from fairmargin.displays import FrontierDisplay

__all__ = ["RegressionFrontier"]

Array = NDArray[np.float64]


class RegressionFrontier(PlainState, MetaEstimatorMixin, BaseEstimator):
    """The frontier of loss against covariance of a :class:`FairRegressor`, every point of it a fitted regression.

    The points are ``min L s.t. |cov_k| <= a |cov*_k|`` for factors ``a`` evenly spaced from 1 to 0, each started
    from its neighbours and with its own certificate.

    Parameters
    ----------
    estimator : FairRegressor, or a Pipeline whose last step is one
        Its ``constraint`` is ignored: the frontier sets the bounds itself.
    n_points : int, default=21

    Attributes
    ----------
    estimators_ : list of fitted estimators, one per point
    table_ : pandas.DataFrame, one row per point
        ``factor``, ``objective``, ``loss_increase`` (over the unconstrained objective),
        ``covariance[attribute=category]``, ``multiplier[...]`` (its size is the shadow price) and, for the training
        data and each set given to ``fit``, ``train_loss`` (mean), ``train_r2``, ``train_mae``, ``train_covariance``
        (the largest) and ``train_mean_difference`` (the largest difference of mean predictions between two groups of
        an attribute); these two within strata, where ``fit`` has them.

    See Also
    --------
    FairRegressor : The regressor of each point.
    FairnessFrontier : The trade-off of classifiers.

    Examples
    --------
    >>> import numpy as np
    >>> from fairmargin import FairRegressor, RegressionFrontier
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["f", "m"], 500)
    >>> X = rng.normal(size=(500, 3)) + (sex == "m")[:, None]
    >>> wage = 20 + X @ [1.0, 2.0, 0.5] + rng.normal(size=500)
    >>> frontier = RegressionFrontier(FairRegressor(), n_points=3).fit(X, wage, sensitive_features=sex)
    >>> frontier.table_["factor"].tolist()
    [1.0, 0.5, 0.0]
    >>> bool(frontier.table_["train_mean_difference"].iloc[-1] < 1e-9)
    True
    """

    __metadata_request__fit = {"sensitive_features": True, "strata": True}  # noqa: RUF012

    def __init__(self, estimator: Any, *, n_points: int = 21) -> None:
        self.estimator = estimator
        self.n_points = n_points

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
    ) -> RegressionFrontier:
        """Trace the frontier.

        Parameters
        ----------
        X, y, sample_weight, sensitive_features, strata
            As in the estimator's ``fit``. The steps of a pipeline before the last are fitted once.
        eval_set : tuple (X, y, sensitive_features) or mapping from name to such tuples, optional
            Further data to measure every point on; a tuple alone is called "test". It may also hold ``sample_weight``
            (or None) and, if the frontier has them, ``strata``.
        """
        check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight, strata=strata)
        sets = read_sets(eval_set)
        asked = Asked("selection_rate", strata is not None)
        for name, data in sets.items():
            asked.check(data[4] if len(data) > 4 else None, name)
        head, last = self._split(X, y)
        prototype = clone(last).set_params(constraint=CovarianceBound(relative=True))
        task = prototype._prepare(_transformed(head, X), y, sample_weight, sensitive_features, strata)
        free = task.solve(task.problem.unconstrained())
        path = Path(task, free, task.problem.rows @ free.theta)
        estimators, rows, worst = [], [], None
        for factor, solution in path.trace(np.linspace(1.0, 0.0, self.n_points).tolist()):
            bound = CovarianceBound(round(factor, 12), relative=True)
            point = clone(prototype).set_params(constraint=bound)
            for name in ("n_features_in_", "feature_names_in_"):
                if hasattr(prototype, name):
                    setattr(point, name, getattr(prototype, name))
            with ONE_AT_A_TIME:
                point._store(task, Outcome(solution, path.problem(factor), free))
            proof = point.certificate_
            if worst is None or (proof.status != "solved", proof.gap) > (worst.status != "solved", worst.gap):
                worst = proof
            facts = {"factor": factor, "objective": proof.objective}
            increase = loss_increase(solution.objective, free.objective, task.problem)
            rows.append({**facts, "loss_increase": increase, **_by_column(point, task.columns.names)})
            estimators.append(Pipeline([*head, (self.estimator.steps[-1][0], point)]) if head else point)
        assert worst is not None
        warn_unless_solved(worst, task.tol)
        self.estimators_, self._asked = estimators, asked
        sets = {"train": (X, y, sensitive_features, sample_weight, strata), **sets}
        parts = [pd.DataFrame(rows), *(self.evaluate(*data, name=name) for name, data in sets.items())]
        self.table_ = pd.concat(parts, axis=1)
        return self

    def _split(self, X: Any, y: Any) -> tuple[list[tuple[str, Any]], FairRegressor]:
        """Return the fitted steps of a pipeline before the last, and the last."""
        if check_count(self.n_points, "n_points") < 2:
            raise ValueError(f"n_points must be at least 2, got {self.n_points!r}.")
        is_pipeline = isinstance(self.estimator, Pipeline)
        last = self.estimator[-1] if is_pipeline else self.estimator
        if not isinstance(last, FairRegressor):
            raise ValueError(f"estimator must be a FairRegressor, or a pipeline to one, got {last!r}.")
        if not is_pipeline or len(self.estimator) == 1:
            return [], last
        with ONE_AT_A_TIME:
            return clone(self.estimator[:-1]).fit(X, y).steps, last

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
        """Return loss, R2, mean absolute error, covariance and difference of means of every point on any data.

        A frontier within strata needs them here, too: covariance and difference of means are the largest within one.
        """
        check_is_fitted(self)
        check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight, strata=strata)
        actual = np.asarray(y, dtype=float)
        sensitive = encode_sensitive(sensitive_features, len(actual), groups=False)
        weight = validate_weights(sample_weight, actual[:, None])
        conditions = self._asked.conditions(np.ones(len(actual), dtype=bool), sensitive, strata, name)
        compared = Compared(sensitive, tuple(c for c in conditions if weight[c.counts].any()), weight)
        return pd.DataFrame([_measures(e, X, actual, compared, name) for e in self.estimators_])

    def select(
        self,
        *,
        max_loss_increase: float | None = None,
        covariance: float | None = None,
        mean_difference: float | None = None,
        on: str = "train",
    ) -> Any:
        """Return the fitted regression that answers one question.

        ``max_loss_increase=0.02``: the point of least covariance within 2% of the best objective. ``covariance=0.1``
        or ``mean_difference=0.5``: the point of least loss whose largest covariance (difference of means), on the
        data called ``on``, is at most that.
        """
        check_is_fitted(self)
        asked = {"covariance": covariance, "mean_difference": mean_difference, "max_loss_increase": max_loss_increase}
        given = [(k, v) for k, v in asked.items() if v is not None]
        if len(given) != 1:
            raise ValueError("Give exactly one of max_loss_increase, covariance and mean_difference.")
        (what, limit) = given[0]
        if what == "max_loss_increase":
            if not limit >= 0:
                raise ValueError(f"max_loss_increase must be zero or positive, got {limit!r}.")
            within = np.flatnonzero(self.table_["loss_increase"].to_numpy() <= limit + 1e-12)
            return self.estimators_[int(within[-1])]
        if f"{on}_{what}" not in self.table_:
            raise ValueError(f"The frontier was not measured on {on!r}, or has no {what!r} there.")
        reached = self.table_[f"{on}_{what}"].to_numpy()
        found = np.flatnonzero(reached <= limit + 1e-12 * (1.0 + np.abs(reached).max()))
        if not len(found):
            raise ValueError(
                f"No point of the frontier has a {what} within {limit!r}; the least is {reached.min():.3g}."
            )
        return self.estimators_[int(found[0])]

    def plot(self, *, x: str = "covariance", y: str = "r2", on: str | None = None, ax: Any = None) -> FrontierDisplay:
        """Draw the frontier with matplotlib; see :class:`fairmargin.FrontierDisplay`."""
        from fairmargin.displays import FrontierDisplay

        return FrontierDisplay.from_frontier(self, x=x, y=y, on=on, ax=ax)


def _transformed(head: list[tuple[str, Any]], X: Any) -> Any:
    return Pipeline(head).transform(X) if head else X


def _by_column(point: FairRegressor, names: list[str]) -> dict[str, float]:
    """Return covariances and multipliers by column of the table."""
    found: dict[str, float] = {}
    for word, series in (("covariance", point.covariance_), ("multiplier", point.multipliers_)):
        assert series is not None
        found |= {f"{word}[{name}]": float(value) for name, value in zip(names, series, strict=True)}
    return found


def _loss_of(model: FairRegressor, target: Array) -> ResidualLoss:
    if model.loss == "huber":
        return HuberLoss(target, model.delta)
    return PinballLoss(target, model.quantile) if model.loss == "quantile" else SquaredError(target)


def _measures(estimator: Any, X: Any, actual: Array, compared: Compared, name: str) -> dict[str, float]:
    predicted, weight = estimator.predict(X), compared.weight
    model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    covariance = compared.centred.T @ (weight * predicted) / weight.sum()
    found = {
        f"{name}_loss": float(np.average(_loss_of(model, actual).value(predicted), weights=weight)),
        f"{name}_r2": float(r2_score(actual, predicted, sample_weight=weight)),
        f"{name}_mae": float(mean_absolute_error(actual, predicted, sample_weight=weight)),
        f"{name}_covariance": float(np.abs(covariance).max()),
    }
    spans = [
        _span(a.group_weights(weight * counts * predicted), a.group_weights(weight * counts))
        for a in compared.sensitive.attributes
        if not a.is_numeric
        for counts in (c.counts for c in compared.conditions)
    ]
    if spans:
        found[f"{name}_mean_difference"] = max(spans)
    return found


def _span(sums: Array, sizes: Array) -> float:
    """Return the largest difference of group means."""
    means = sums[sizes > 0] / sizes[sizes > 0]
    return float(np.ptp(means))
