"""The fair linear regressor: validate -> problem -> solver -> fitted attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

import fairmargin.regression.pieces
import fairmargin.regression.quantile  # noqa: F401  (these two register solvers)
from fairmargin.constrained import TakesConstraint
from fairmargin.constraints import CovarianceBound
from fairmargin.constraints.base import with_defaults
from fairmargin.diagnostics import warn_if_flat, warn_if_useless
from fairmargin.formulations import Outcome, certify_function, warn_unless_solved
from fairmargin.inputs import check_same_order
from fairmargin.misspelled import names_arguments
from fairmargin.notions import get_notion
from fairmargin.plain_state import PlainState
from fairmargin.problem import Certificate
from fairmargin.regression.functionals import Cell, find_cells
from fairmargin.regression.losses import HuberLoss, PinballLoss, ResidualLoss, SquaredError
from fairmargin.regression.task import RegressionTask, Units, choose_units, make_regression_task, solve_regression
from fairmargin.strata import strata_to_fit
from fairmargin.validation import (
    ONE_AT_A_TIME,
    TrainingData,
    check_count,
    check_flag,
    check_number,
    validate_features,
    validate_people,
)

__all__ = ["FairRegressor"]

Array = NDArray[np.float64]

_LOSSES = ("squared_error", "huber", "quantile")


class FairRegressor(TakesConstraint, PlainState, RegressorMixin, BaseEstimator):
    """Linear regression under fairness constraints.

    Minimises ``C sum_i s_i loss(y_i - f(x_i)) + 1/2 ||w||^2`` with ``f(x) = w.x + b`` subject to what ``constraint``
    asks of the predictions. Provably optimal: ``certificate_`` holds the duality gap. The sensitive attributes are
    used in ``fit`` and never in ``predict``.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss against the penalty. ``inf`` drops the penalty. With the squared loss ``C`` is ``1 /
        alpha`` of ``sklearn.linear_model.Ridge``.
    loss : {"squared_error", "huber", "quantile"}, default="squared_error"
        ``r^2 / 2``; the same up to ``|r| = delta`` and linear beyond; or the pinball loss, ``q r`` for positive and
        ``(q - 1) r`` for negative residuals, which is solved exactly, without smoothing.
    delta : float, default=1.35
        With ``loss="huber"``: the residual beyond which the loss is linear, in the units of ``y``.
    quantile : float, default=0.5
        With ``loss="quantile"``: ``q``, strictly between 0 and 1.
    constraint : constraint, list of constraints or None, default=CovarianceBound
        ``CovarianceBound`` (on the covariance of the predictions with each sensitive column), ``GroupMeansBound`` (on
        the differences of the groups' mean predictions), ``CalibrationBound`` (on the groups' mean residuals), or
        several of these in a list; or ``LossBound`` (the least covariance within a share of the best objective).
        Bounds are in the units of ``y``. A class stands for its defaults; None gives the unconstrained regression.
    fit_intercept : bool, default=True
        Whether to learn an intercept, which is never penalised.
    tol : float, default=1e-9
        Duality gap at which to stop, relative to the objective or, for a nearly exact fit, to 1e-6 of the objective
        of the best constant.
    max_iter : int, default=200
        Iterations after which to stop with a ``ConvergenceWarning``.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    covariance_, unconstrained_covariance_ : pandas.Series
        Covariance of the predictions with each sensitive column, of this function and of the unconstrained one. None
        without sensitive features.
    group_means_, group_residuals_ : pandas.Series
        Mean prediction and mean of ``y - f(x)`` of every group of every attribute that has groups (and of every
        stratum) on the training data. None without sensitive features.
    multipliers_ : pandas.Series
        Lagrange multipliers of what was bounded, by quantity, attribute and category. Their size is the shadow price:
        how much the objective would grow per unit by which a bound is lowered.
    certificate_ : Certificate
        Objective, dual bound, relative gap, largest violation, iterations and status, of the fitted function on the
        training data.
    factor_, loss_increase_, necessity_
        With ``LossBound``, as in the classifiers: the share of the unconstrained covariance that is left, the
        objective relative to the unconstrained one, less 1, and what is proved about every regression within the
        bound.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X had string column names

    See Also
    --------
    RegressionFrontier : The whole trade-off.
    GroupMeansBound : Bounds differences of mean predictions.
    CalibrationBound : Bounds mean residuals of groups.

    Examples
    --------
    >>> import numpy as np
    >>> from fairmargin import FairRegressor, GroupMeansBound
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["f", "m"], 500)
    >>> X = rng.normal(size=(500, 3)) + (sex == "m")[:, None]
    >>> wage = 20 + X @ [1.0, 2.0, 0.5] + rng.normal(size=500)
    >>> model = FairRegressor(constraint=GroupMeansBound(0.5)).fit(X, wage, sensitive_features=sex)
    >>> means = model.group_means_
    >>> round(float(means["sensitive", "m"] - means["sensitive", "f"]), 6), model.certificate_.status
    (0.5, 'solved')
    """

    takes_codes = True  # categorical columns need not be written out

    # Sensitive features are what fit is about: route them here unless set otherwise.
    __metadata_request__fit = {"sensitive_features": True, "strata": True}  # noqa: RUF012

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "squared_error",
        delta: float = 1.35,
        quantile: float = 0.5,
        constraint: Any = CovarianceBound,
        fit_intercept: bool = True,
        tol: float = 1e-9,
        max_iter: int = 200,
    ) -> None:
        self.C = C
        self.loss = loss
        self.delta = delta
        self.quantile = quantile
        self.constraint = constraint
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    @names_arguments
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None, strata: Any = None
    ) -> FairRegressor:
        """Learn the regression.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)
            Non-sensitive features.
        y : array of shape (n,)
            Targets.
        sample_weight : array of shape (n,), optional
            Weights of the people, in the loss and in means and covariances.
        sensitive_features : array, series or frame of shape (n,) or (n, k)
            Sensitive attributes: used here and never in predicting.
        strata : array, series or frame of shape (n,) or (n, k), optional
            A legitimate factor: groups are compared among the people of each of its values only. Several columns are
            crossed. Never used in predicting.
        """
        if hasattr(self, "certificate_"):
            del self.certificate_  # a fit that fails leaves the estimator unfitted
        task = self._prepare(X, y, sample_weight, sensitive_features, strata)
        posed, outcome = solve_regression(self._constraint(), task)
        with ONE_AT_A_TIME:
            self._store(posed, outcome)
        warn_unless_solved(self.certificate_, task.tol)
        if outcome.unconstrained is not None:
            warn_if_flat(outcome.unconstrained.scores, outcome.solution.scores)
            warn_if_useless(*posed.losses(outcome.solution.scores), posed.units.centre)
        return self

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any, strata: Any = None
    ) -> RegressionTask:
        """Check parameters and data and write down the problem."""
        check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight, strata=strata)
        constraint = self._constraint()
        people = validate_people(
            self,
            X,
            y,
            sensitive_features,
            sample_weight,
            needs_sensitive=constraint is not None,
            read=_read_targets,
        )
        strata = strata_to_fit(strata, people)
        _check_notions(constraint)
        C = check_number(self.C, "C", positive=True, allow_inf=True)
        fit_intercept = check_flag(self.fit_intercept, "fit_intercept")
        target = people.y[people.kept]
        units, make_loss, weight = self._units(target, people.weight, C, fit_intercept)
        scaled = (target - units.centre) / units.scale
        data = TrainingData(
            people.X,
            np.ones(len(scaled)),
            np.empty(0),
            people.weight,
            weight,
            people.sensitive,
            people.kept,
            people.n_given,
            strata,
        )
        tol = check_number(self.tol, "tol", positive=True)
        max_iter = check_count(self.max_iter, "max_iter")
        return make_regression_task(data, make_loss(scaled), units, scaled, C, fit_intercept, tol, max_iter)

    def _units(
        self, y: Array, weight: Array, C: float, fit_intercept: bool
    ) -> tuple[Units, Callable[[Array], ResidualLoss], Array]:
        """Return the units to solve in, how to make the loss of targets in them, and the weights of the losses."""
        if self.loss == "squared_error":
            centre, scale = choose_units(y, weight, fit_intercept, None)
            return Units(centre, scale, scale**2), SquaredError, weight
        if self.loss == "huber":
            delta = check_number(self.delta, "delta", positive=True)
            centre, scale = choose_units(y, weight, fit_intercept, 0.5)
            return Units(centre, scale, scale**2), lambda t: HuberLoss(t, delta / scale), weight
        if self.loss == "quantile":
            q = check_number(self.quantile, "quantile", positive=True)
            if q >= 1:
                raise ValueError(f"quantile must be between 0 and 1, got {self.quantile!r}.")
            centre, scale = choose_units(y, weight, fit_intercept, q)
            if np.isinf(C):
                return Units(centre, scale, scale), lambda t: PinballLoss(t, q), weight
            return Units(centre, scale, scale**2), lambda t: PinballLoss(t, q), weight / scale
        raise ValueError(f"loss must be one of {', '.join(map(repr, _LOSSES))}, got {self.loss!r}.")

    def _constraint(self) -> Any:
        return with_defaults(self.constraint)

    def _store(self, task: RegressionTask, outcome: Outcome) -> None:
        """Turn an outcome into fitted attributes."""
        for name in Outcome.all_fitted_attributes() & set(vars(self)):
            delattr(self, name)  # of an earlier fit under another constraint
        units, solution = task.units, outcome.solution
        w, b = task.coefficients(solution)
        self.coef_ = units.scale * w
        self.intercept_ = float(units.centre + units.scale * b)
        predicted = self._predict(task.data.X)
        self.certificate_ = self._certify(task, outcome, predicted)
        self.n_iter_ = solution.certificate.n_iter
        for name, value in outcome.fitted_attributes().items():
            setattr(self, name, value)
        necessity = getattr(self, "necessity_", None)
        if necessity is not None:
            columns = tuple((name, category, size * units.scale) for name, category, size in necessity.columns)
            self.necessity_ = replace(necessity, columns=columns, kind="regression")
        self._store_groups(task, outcome, predicted)

    def _certify(self, task: RegressionTask, outcome: Outcome, predicted: Array) -> Certificate:
        """Return the certificate of the function that predicts."""
        units = task.units
        norm = float(self.coef_ @ self.coef_) / units.scale**2
        # What predictions far from zero lose to rounding is of the size of the centre.
        rounding = 4.0 * np.finfo(float).eps * abs(units.centre) / units.scale
        scores = (predicted - units.centre) / units.scale
        return units.certificate(certify_function(task, outcome, norm, scores, rounding=rounding))

    def _store_groups(self, task: RegressionTask, outcome: Outcome, predicted: Array) -> None:
        """Keep what is known of groups."""
        self.covariance_ = self.unconstrained_covariance_ = self.multipliers_ = None
        self.group_means_ = self.group_residuals_ = None
        if task.data.sensitive is None:
            return
        units, columns, weight = task.units, task.columns, task.data.people_weight
        share = weight / weight.sum()
        self.covariance_ = columns.series(columns.centred.T @ (share * (predicted - units.centre)), "covariance")
        if outcome.unconstrained is not None:
            free = columns.centred.T @ (share * outcome.unconstrained.scores)
            self.unconstrained_covariance_ = columns.series(units.scale * free, "covariance")
        nu = _multipliers(task, outcome)
        if task.functionals is not None:
            self.multipliers_ = task.functionals.series(units.multipliers(nu), "multiplier")
        else:
            self.multipliers_ = columns.series(units.multipliers(nu), "multiplier")
        assert task.target is not None
        cells = [
            c for a in columns.sensitive.attributes if not a.is_numeric for s in find_cells(columns, a) for c in s
        ]
        self.group_means_ = _by_cell(cells, predicted, weight, "mean prediction")
        actual = units.centre + units.scale * task.target
        self.group_residuals_ = _by_cell(cells, actual - predicted, weight, "mean residual")

    def _predict(self, X: Any) -> Array:
        return np.asarray(X @ self.coef_ + self.intercept_, dtype=float)

    def predict(self, X: Any) -> Array:
        """Return the predictions ``f(x) = w.x + b``, shape (n,)."""
        check_is_fitted(self)
        return self._predict(validate_features(self, X))

    def __sklearn_is_fitted__(self) -> bool:
        """A fit that failed validation leaves the estimator unfitted."""
        return hasattr(self, "certificate_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _multipliers(task: RegressionTask, outcome: Outcome) -> Array:
    """Return one multiplier per row of the task, zero without a constraint."""
    nu, K = outcome.solution.multipliers, task.centred.shape[1]
    return nu[:K] if len(nu) else np.zeros(K)


def _by_cell(cells: list[Cell], values: Array, weight: Array, name: str) -> pd.Series | None:
    """Return means over cells, indexed by attribute, category and, where there are strata, stratum."""
    if not cells:
        return None
    has_strata = any(cell.among for cell in cells)
    labels = [(c.attribute, c.category, c.among) if has_strata else (c.attribute, c.category) for c in cells]
    index = pd.MultiIndex.from_tuples(labels, names=["attribute", "category", "among"][: 2 + has_strata])
    return pd.Series([cell.mean(values, weight) for cell in cells], index=index, name=name)


def _check_notions(constraint: Any) -> None:
    """Raise for notions about labels: a target has none."""
    for one in constraint if isinstance(constraint, list | tuple) else [constraint]:
        notion = get_notion(getattr(one, "notion", "selection_rate"))
        if notion.needs_labels:
            raise ValueError(
                f"The notion {notion.name!r} is about labels of two classes, which a regression does not have; leave "
                "notion as it is, and give strata to compare groups within."
            )


def _read_targets(y: NDArray[Any]) -> Array:
    try:
        return np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        raise ValueError("y must hold numbers, the targets of a regression; it has other values.") from None
