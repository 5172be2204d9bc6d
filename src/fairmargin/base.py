"""What all fair classifiers share: validate -> encode -> problem -> solver -> fitted attributes.

A subclass names the loss and, where the score is not linear in the columns of ``X``, the features in which it is.
``fit`` prepares (checks the input and writes down the problem), refines the features where they depend on what is
asked, solves, and stores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fairmargin.constrained import TakesConstraint
from fairmargin.constraints import Constraint
from fairmargin.diagnostics import measure_movement, warn_if_bought
from fairmargin.formulations import Outcome, Task, make_task, run, warn_unless_solved
from fairmargin.formulations.task import FeatureMap
from fairmargin.guarantee.learning import learn_then_test
from fairmargin.inputs import check_same_order, is_dask_frame
from fairmargin.losses import LogisticLoss, Loss
from fairmargin.misspelled import names_arguments
from fairmargin.plain_state import PlainState
from fairmargin.problem import Certificate
from fairmargin.several import has_rule, notion_of, rule_to_test
from fairmargin.strata import strata_to_fit
from fairmargin.validation import (
    ONE_AT_A_TIME,
    TrainingData,
    check_count,
    check_flag,
    check_number,
    validate_training,
)

__all__ = ["FairClassifier", "document"]

Array = NDArray[np.float64]

_TESTED = ("guarantee_", "trained_rows_")  # fitted attributes of a rule that was tested

_PARAMETERS = """
    C : float, default=1.0
        Weight of the loss against the penalty, as in scikit-learn: the objective is
        ``C sum_i s_i loss(y_i f(x_i)) + 1/2 ||w||^2``. ``inf`` drops the penalty.
    constraint : constraint, list of constraints or None, default=CovarianceBound
        What is asked of the classifier, e.g. ``CovarianceBound(0.1)``; a class stands for its defaults, so the
        default asks for zero covariance. Of a list all must hold (:class:`fairmargin.several.Several` says what is
        minimised). None gives the unconstrained classifier.
    fit_intercept : bool, default=True
        Whether to learn an intercept, which is never penalised.
    class_weight : dict, "balanced" or None, default=None
        Factors on the loss by class. They do not enter means and covariances.
    pos_label : label, optional
        The favourable class, whose decision is the positive one. By default the later of the two in sorted order,
        with a ``FavourableClassWarning`` under a constraint unless the labels are 0 and 1, -1 and 1, or False and
        True.
        scikit-learn's scorers ``"roc_auc"`` and ``"neg_log_loss"`` sort the labels themselves: where
        ``pos_label`` is the first in sorted order they are inverted, silently. With them, code labels as 0 and 1, or
        use ``scoring=lambda model, X, y: roc_auc_score(y == "approved", model.decision_function(X))``.
    tol : float, default=1e-9
        Relative duality gap at which to stop.
    max_iter : int, default=200
        Iterations after which to stop with a ``ConvergenceWarning``.
"""

_ATTRIBUTES = """
    classes_ : ndarray of shape (2,)
        The second class is the positive decision, given where ``f(x) >= 0``: ``pos_label`` or, by default, the later
        in sorted order.
    covariance_, unconstrained_covariance_ : pandas.Series
        Decision boundary covariance by attribute and category (and by condition, where the notion or strata make
        several), of this classifier and of the one without constraint on the same data. None without sensitive
        features.
    multipliers_ : pandas.Series
        Lagrange multipliers of the covariances, with the covariance's sign. Their size is the shadow price: what one
        unit less of a bound would add to the objective. nan where the covariance was not bounded but priced
        through the decisions or the errors (``PRuleBound`` on these paths).
    certificate_ : Certificate
        Objective, dual bound, relative gap, largest violation, iterations and status. Objective and violation are
        those of the fitted function on the training data.
    training_rates_ : pandas.Series or None
        Share of positive decisions among the people trained on, by attribute and category; None without groups, and
        for data read in passes unless one of these counted decisions (see :func:`fairmargin.partitioned.fit`).
    diagnostics_ : Movement or None
        How scores and decisions moved from the unconstrained classifier.
    n_ties_ : int
        Number of training people whose score was zero up to rounding. All of them are accepted, by a margin above
        rounding (refused, where a promise requires it), so that no decision depends on the machine.
    constraints_ : tuple of ConstraintRecord
        With a list of constraints: for each, in their order, its violation, covariances, bounds and multipliers.
    bound_ : pandas.Series
        With ``CovariancePenalty``: the bounds on the covariances under which the same classifier has the least loss.
    factor_ : float or None
        With ``LossBound`` and ``IndividualLossBound``: the share of the unconstrained covariance that is left.
    loss_increase_ : float
        With ``LossBound`` and ``IndividualLossBound``: the relative increase of the objective over the unconstrained
        minimum.
    necessity_ : Necessity or None
        With ``LossBound``: the covariance below which no classifier within the bound on the loss can fall, proved by
        the dual bound (``necessity_.statement`` in words).
    binding_ : ndarray of int
        With ``IndividualLossBound``: the people whose bound holds with equality.
    p_rule_ : float
        With ``PRuleBound``: the p%-rule reached on the training data, in percent, by the constraint's notion.
    cv_score_ : float
        With ``PRuleBound``: the largest difference of the rates that ``p_rule_`` compares, on the training data.
    path_ : {"unconstrained", "covariance", "decisions", "rates", "ccp"}
        With ``PRuleBound``: the family of classifiers in which this one was found.
    path_point_ : float, pandas.Series or None
        With ``PRuleBound``: the parameter of that family, a share of the unconstrained covariance or a price per
        group.
    path_certificate_ : Certificate
        With ``PRuleBound``: the proof that the classifier, before its intercept was moved, is the optimum of the
        problem at ``path_point_``.
    intercept_shift_ : float
        With ``PRuleBound``: how far the intercept was moved to keep the rule.
    guarantee_ : Guarantee
        With ``PRuleBound(confidence=...)``: what was tested, on whom, and in words (``guarantee_.statement``).
    trained_rows_ : ndarray of int
        With ``PRuleBound(confidence=...)``, where ``fit`` set people aside: the rows used in training. The rule was
        tested on the others.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of columns of ``X``.
    feature_names_in_ : ndarray of str, if X had string column names
"""


def document(cls: type) -> type:
    """Fill in the parts that the docstrings of all classes share."""
    assert cls.__doc__ is not None
    text = cls.__doc__.replace("{parameters}", _PARAMETERS.strip())
    cls.__doc__ = text.replace("{attributes}", _ATTRIBUTES.strip())
    return cls


class FairClassifier(TakesConstraint, PlainState, ClassifierMixin, BaseEstimator):
    """Base of the estimators: ``fit`` assembles, the modules it calls compute.

    A subclass defines ``_loss``, ``_store_function`` (which keeps the function that decides) and
    ``decision_function``. It may define ``_feature_map`` and ``_refine``, where the score is not linear in the
    columns of ``X``. Modules that train several classifiers on the same people (frontiers, tests of rules,
    partitioned data) call the steps of ``fit`` one by one: ``_validate`` and ``_task`` (``_prepare`` is both),
    ``_refine``, and ``_store``.
    """

    C: float
    constraint: Any
    fit_intercept: bool
    class_weight: Any
    pos_label: Any
    tol: float
    max_iter: int

    # Sensitive features are what fit is about: metadata routing brings them here unless it is set otherwise.
    __metadata_request__fit = {"sensitive_features": True, "strata": True}  # noqa: RUF012

    def _loss(self) -> Loss:
        """Return the loss."""
        raise NotImplementedError

    def _feature_map(self, data: TrainingData) -> FeatureMap | None:
        """Return the features in which the score is linear; None for the columns of ``X``."""
        return None

    def _refine(self, task: Task, constraint: Constraint | None, path: bool = False) -> Task:
        """Return the task on features that are good enough for the constraint; linear classifiers keep theirs.

        For a ``path`` from there to the unconstrained classifier they must be good enough for that, too.
        """
        return task

    def _store_function(self, task: Task, outcome: Outcome) -> tuple[Array, Certificate]:
        """Keep the function that decides; return its scores on the training data and its certificate.

        Both are computed by the code that predicts.
        """
        raise NotImplementedError

    def _proof_to_warn_of(self, outcome: Outcome) -> Certificate:
        """Return the certificate that ``fit`` warns of unless it is solved."""
        return self.certificate_

    def decision_function(self, X: Any) -> Array:
        """Return the scores ``f(x)``, shape (n,)."""
        raise NotImplementedError

    @names_arguments
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        sensitive_features: Any = None,
        strata: Any = None,
        safety_set: Any = None,
    ) -> Any:
        """Learn the classifier.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)
            Non-sensitive features. A Dask frame (linear classifiers only) is read in passes over its partitions; then
            all other arguments are Dask frames or series, partitioned alike.
        y : array of shape (n,)
            Labels of two classes; ``pos_label``, by default the second in sorted order, is the positive decision.
        sample_weight : array of shape (n,), optional
            Weights of the people, in the loss and in means and covariances.
        sensitive_features : array, series or frame of shape (n,) or (n, k)
            Sensitive attributes: used here and never in deciding.
        strata : array, series or frame of shape (n,) or (n, k), optional
            A legitimate factor: groups are compared among the people of each of its values only (conditional
            parity), under every notion. Several columns are crossed. Never used in deciding.
        safety_set : (X, sensitive_features[, sample_weight[, y[, strata]]]), optional
            For ``PRuleBound(confidence=...)``: the people on whom the rule is tested, whom nothing else may have
            seen. Labels are needed for notions that count people by them, strata if training has them. By default a
            part of the people given is set aside.
        """
        if hasattr(self, "certificate_"):
            del self.certificate_  # a fit that fails leaves the estimator unfitted
        if is_dask_frame(X):
            if strata is not None or safety_set is not None:
                raise ValueError("strata and safety_set need all rows in memory; call compute() on the Dask frames.")
            return self._fit_dask(X, y, sample_weight, sensitive_features)
        constraint = self._constraint()
        data = self._validate(X, y, sample_weight, sensitive_features, strata)
        task, outcome, tested = self._solve(data, constraint, safety_set)
        with ONE_AT_A_TIME:
            self._store(task, outcome)
        for name, value in tested.items():
            setattr(self, name, value)
        proof = self._proof_to_warn_of(outcome)
        if proof.status == "solved" and outcome.unconstrained is not None:  # what losses and covariances refer to
            proof = outcome.unconstrained.certificate
        warn_unless_solved(proof, task.tol)
        return self

    def _fit_dask(self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any) -> Any:
        """Learn the classifier from Dask frames."""
        raise TypeError(
            f"{type(self).__name__} needs all rows in memory: call compute() on the Dask frames, or train "
            "FairLogisticRegression, FairLinearSVC or FairMarginClassifier on them."
        )

    def reason_codes(self, X: Any, *, reference: Any = None, n_reasons: int = 4) -> pd.DataFrame:
        """Return the features that moved each person's score most towards the decision.

        Exact for linear models; parameters as in :func:`fairmargin.reasons.reason_codes`.
        """
        from fairmargin.reasons import reason_codes

        return reason_codes(self, X, reference=reference, n_reasons=n_reasons)

    def _solve(
        self, data: TrainingData, constraint: Constraint | None, safety_set: Any
    ) -> tuple[Task, Outcome, dict[str, Any]]:
        """Return what was solved and, of a rule that was tested on people set aside, the fitted attributes."""
        if constraint is not None and rule_to_test(constraint) is not None:
            found = learn_then_test(self, constraint, data, safety_set)
            tested = dict(zip(_TESTED, (found.guarantee, found.trained), strict=True))
            return found.task, found.outcome, {name: value for name, value in tested.items() if value is not None}
        if safety_set is not None:
            raise ValueError("safety_set is for PRuleBound(confidence=...); this constraint tests nobody.")
        task = self._refine(self._task(data), constraint)
        return task, run(task, constraint), {}

    def _prepare(self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any, strata: Any = None) -> Task:
        """Check parameters and data and write down the problem."""
        return self._task(self._validate(X, y, sample_weight, sensitive_features, strata))

    def _validate(
        self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any, strata: Any = None
    ) -> TrainingData:
        """Check the data."""
        check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight, strata=strata)
        needs = self._constraint() is not None
        data = self._read(X, y, sample_weight, sensitive_features, needs_sensitive=needs)
        return replace(data, strata=strata_to_fit(strata, data))

    def _read(
        self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any, *, needs_sensitive: bool
    ) -> TrainingData:
        """Return the checked training data."""
        return validate_training(
            self,
            X,
            y,
            sensitive_features,
            sample_weight,
            class_weight=self.class_weight,
            needs_sensitive=needs_sensitive,
        )

    def _task(self, data: TrainingData) -> Task:
        """Check parameters and write down the problem of checked data."""
        loss, constraint = self._loss(), self._constraint()
        tol = check_number(self.tol, "tol", positive=True)
        max_iter = check_count(self.max_iter, "max_iter")
        fit_intercept = check_flag(self.fit_intercept, "fit_intercept")
        notion = notion_of(constraint)
        C, features = self._weight_and_features(data)
        return make_task(data, loss, C, fit_intercept, tol, max_iter, features, notion)

    def _weight_and_features(self, data: TrainingData) -> tuple[float, FeatureMap | None]:
        """Return ``C``, and the features that the problem is written in."""
        return self._weight_of_loss(), self._feature_map(data)

    def _weight_of_loss(self) -> float:
        """Return ``C``, checked."""
        return check_number(self.C, "C", positive=True, allow_inf=True)

    def _store(self, task: Task, outcome: Outcome, *, warn: bool = True) -> None:
        """Turn an outcome into fitted attributes, and warn of what they show unless the caller does."""
        solution = outcome.solution
        if hasattr(self, "classes_"):  # attributes of an earlier fit, under another constraint perhaps
            for name in (Outcome.all_fitted_attributes() | set(_TESTED)) & set(vars(self)):
                delattr(self, name)
        self.classes_ = task.data.classes
        scores, certificate = self._store_function(task, outcome)
        outcome.check(scores)  # what fails here leaves the estimator unfitted
        self.certificate_ = certificate
        self.n_iter_ = solution.certificate.n_iter
        self.n_ties_ = outcome.n_ties
        self.covariance_: pd.Series | None = None
        self.unconstrained_covariance_: pd.Series | None = None
        self.multipliers_: pd.Series | None = None
        self.diagnostics_ = None
        self.training_rates_: pd.Series | None = None
        final = replace(outcome, solution=replace(solution, scores=scores))
        for name, value in final.fitted_attributes().items():
            setattr(self, name, value)
        if task.data.sensitive is None:
            return
        columns, rows = task.columns, task.problem.rows
        self.training_rates_ = task.people.rates(scores >= 0)
        self.covariance_ = columns.series(task.covariance(scores), "covariance")
        multipliers = solution.multipliers if len(solution.multipliers) else np.zeros(len(rows))
        self.multipliers_ = columns.series(multipliers[: len(rows)], "multiplier")
        if outcome.unconstrained is not None:
            free = outcome.unconstrained
            self.unconstrained_covariance_ = columns.series(rows @ free.theta, "covariance")
            self.diagnostics_ = measure_movement(task.deviations, free.scores, scores)
            if warn:
                warn_if_bought(self.diagnostics_, columns.labels, has_rule=has_rule(self.constraint))
            if warn:
                outcome.warn(scores)

    def _html_repr(self) -> str:
        """Return what a notebook shows: the parameters and, once fitted, the certificate and the rates."""
        diagram = str(super()._html_repr())
        if not hasattr(self, "certificate_"):
            return diagram
        from fairmargin.notebook import classifier_html

        return diagram + classifier_html(self)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the decisions: ``classes_[1]`` where ``f(x) >= 0``."""
        if is_dask_frame(X):
            return self._on_partitions("predict", X)
        scores = self.decision_function(X)
        return self.classes_[(scores >= 0).astype(int)]

    def _has_probabilities(self) -> bool:
        if type(self._loss()) is not LogisticLoss:
            raise AttributeError(f"The {self._loss().name} loss gives no probabilities; the logistic loss does.")
        return True

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Return ``P(class | x)`` of both classes, shape (n, 2)."""
        if is_dask_frame(X):
            return self._on_partitions("predict_proba", X)
        positive = expit(self.decision_function(X))
        return np.column_stack([1.0 - positive, positive])

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of ``predict_proba``."""
        if is_dask_frame(X):
            return self._on_partitions("predict_log_proba", X)
        scores = self.decision_function(X)
        return np.column_stack([-np.logaddexp(0.0, scores), -np.logaddexp(0.0, -scores)])

    def _on_partitions(self, method: str, X: Any) -> Any:
        """Return what a method gives on a Dask frame: a Dask series or frame, evaluated lazily."""
        from fairmargin.partitioned.dask_frames import on_partitions

        check_is_fitted(self)
        return on_partitions(self, method, X)

    def __sklearn_is_fitted__(self) -> bool:
        """A fit that failed validation leaves the estimator unfitted."""
        return hasattr(self, "certificate_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags
