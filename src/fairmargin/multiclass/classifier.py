"""Multinomial logistic regression under fairness constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fairmargin.caller import warn
from fairmargin.constrained import TakesConstraint
from fairmargin.constraints import CovarianceBound
from fairmargin.constraints.base import with_defaults
from fairmargin.diagnostics import Deviations, Movement, find_bought, measure_movement
from fairmargin.exceptions import CovarianceWarning, TrivialClassifierWarning
from fairmargin.formulations import warn_unless_solved
from fairmargin.inputs import check_same_order
from fairmargin.misspelled import names_arguments
from fairmargin.multiclass import rule  # noqa: F401, registers what PRuleBound means
from fairmargin.multiclass.labels import class_data, decide, read_labels
from fairmargin.multiclass.task import ClassOutcome, ClassTask, boundary_scores, make_class_task, solve_classes
from fairmargin.plain_state import PlainState
from fairmargin.problem import Certificate, largest
from fairmargin.tolerances import EPS
from fairmargin.validation import (
    ONE_AT_A_TIME,
    check_count,
    check_flag,
    check_number,
    validate_features,
    validate_people,
)

__all__ = ["FairMultinomialLogisticRegression"]

Array = NDArray[np.float64]

_OF_RULES = ("p_rule_", "cv_score_", "path_", "path_point_")  # fitted attributes of PRuleBound


class FairMultinomialLogisticRegression(TakesConstraint, PlainState, ClassifierMixin, BaseEstimator):
    """Multinomial logistic regression under fairness constraints, for two or more classes.

    Minimises ``C sum_i s_i [log sum_q exp(f_q(x_i)) - f_{y_i}(x_i)] + 1/2 sum_q ||w_q||^2`` with one score
    ``f_q(x) = w_q.x + b_q`` per class, subject to what ``constraint`` asks. It is one convex problem, and
    ``certificate_`` holds its duality gap. Without a constraint it is scikit-learn's ``LogisticRegression``. The
    covariance of a class is that of a sensitive column with the score of the class less the mean of the others'
    scores; for two classes that is the decision boundary covariance, and the classifier is that of
    ``FairLogisticRegression``.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss against the penalty, as in scikit-learn. ``inf`` drops the penalty.
    constraint : constraint, mapping or None, default=CovarianceBound
        ``CovarianceBound`` bounds every (class, sensitive column) pair; a mapping from class to ``CovarianceBound``
        bounds the classes it names. ``PRuleBound`` asks that for every favourable class the rates at which groups
        are given it, under its notion, reach a p%-rule or a difference. None for the unconstrained classifier.
    favourable : label or list of labels, optional
        The classes that ``PRuleBound`` is about; all by default.
    fit_intercept : bool, default=True
        Whether to learn intercepts, which are never penalised.
    class_weight : dict, "balanced" or None, default=None
        Factors on the loss by class. They do not enter means and covariances.
    tol : float, default=1e-9
        Relative duality gap at which to stop.
    max_iter : int, default=200
        Iterations after which to stop with a ``ConvergenceWarning``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        In sorted order. Of scores that are equal up to rounding the earlier class is decided.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
    covariance_, unconstrained_covariance_ : pandas.DataFrame
        Covariance by attribute and category (rows) and class (columns), of this classifier and of the one without
        constraint. Where the notion or strata make several conditions the rows name these too; "y=+1" are the people
        of the class, "y=-1" all others. None without sensitive features.
    multipliers_ : pandas.DataFrame
        Lagrange multipliers of the covariances, shaped as these. Their size is what one unit less of a bound would
        add to the objective, where the pair's bound alone decides. Under ``PRuleBound`` they are those of the point's
        problem on its path, zero on the path of decisions.
    certificate_ : Certificate
        Objective, dual bound, relative gap, largest violation, iterations and status, of the fitted function on the
        training data. Under ``PRuleBound`` it proves that the classifier solves its point's problem on the path.
    diagnostics_ : dict of Movement by class, or None
        How scores and decisions moved from the unconstrained classifier.
    p_rule_ : pandas.Series
        With ``PRuleBound``: the p%-rule reached for each favourable class on the training data, in percent,
    cv_score_ : pandas.Series
        the largest difference of the rates that it compares,
    path_ : {"unconstrained", "covariance", "decisions"}
        on which family of classifiers it was found,
    path_point_ : float, pandas.DataFrame or None
        and where: the share of the unconstrained covariance, or the price per group and class.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X had string column names

    See Also
    --------
    FairOneVsRestClassifier : One classifier per class, with any estimator.
    FairLogisticRegression : Two classes, with every constraint.
    class_p_rules : Measures a p%-rule per class.

    Examples
    --------
    >>> import numpy as np
    >>> from fairmargin import CovarianceBound, FairMultinomialLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["f", "m"], 500)
    >>> X = rng.normal(size=(500, 3)) + (sex == "m")[:, None]
    >>> job = np.array(["clerk", "manager", "sales"])[np.argmax(X + rng.normal(size=(500, 3)), axis=1)]
    >>> clf = FairMultinomialLogisticRegression(constraint=CovarianceBound(0.0)).fit(X, job, sensitive_features=sex)
    >>> bool(abs(clf.covariance_).to_numpy().max() < 1e-12), clf.certificate_.status
    (True, 'solved')
    """

    takes_codes = True  # categorical columns need not be written out

    # Sensitive features are what fit is about: route them here unless set otherwise.
    __metadata_request__fit = {"sensitive_features": True, "strata": True}  # noqa: RUF012

    def __init__(
        self,
        C: float = 1.0,
        *,
        constraint: Any = CovarianceBound,
        favourable: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-9,
        max_iter: int = 200,
    ) -> None:
        self.C = C
        self.constraint = constraint
        self.favourable = favourable
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter

    @names_arguments
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None, strata: Any = None
    ) -> Any:
        """Learn the classifier.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)
            Non-sensitive features.
        y : array of shape (n,)
            Labels of two or more classes.
        sample_weight : array of shape (n,), optional
            Weights of the people, in the loss and in means and covariances.
        sensitive_features : array, series or frame of shape (n,) or (n, k)
            Sensitive attributes: used here and never in deciding.
        strata : array, series or frame of shape (n,) or (n, k), optional
            Groups are compared among the people of each stratum only; constraints hold within each.
        """
        if hasattr(self, "certificate_"):
            del self.certificate_  # a fit that fails leaves the estimator unfitted
        check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight, strata=strata)
        constraint = self._constraint()
        people = validate_people(
            self,
            X,
            y,
            sensitive_features,
            sample_weight,
            needs_sensitive=constraint is not None,
            read=read_labels,
        )
        task = self._task(class_data(people, self.class_weight, self.favourable, strata), constraint)
        outcome = solve_classes(constraint, task)
        with ONE_AT_A_TIME:
            self._store(task, outcome)
        warn_unless_solved(self.certificate_, task.tol)
        return self

    def _constraint(self) -> Any:
        return with_defaults(self.constraint)

    def _task(self, data: Any, constraint: Any) -> ClassTask:
        """Check parameters and write down the problem."""
        C = check_number(self.C, "C", positive=True, allow_inf=True)
        tol = check_number(self.tol, "tol", positive=True)
        max_iter = check_count(self.max_iter, "max_iter")
        fit_intercept = check_flag(self.fit_intercept, "fit_intercept")
        return make_class_task(data, C, fit_intercept, tol, max_iter, _notions(constraint, data.classes))

    def _store(self, task: ClassTask, outcome: ClassOutcome) -> None:
        for name in _OF_RULES:
            if hasattr(self, name):
                delattr(self, name)
        solution = outcome.solution
        W, b = task.coefficients(solution.phi)
        self.classes_ = task.data.classes
        self.n_iter_ = solution.certificate.n_iter
        if len(W) == 2:
            W, b = W[1:] - W[:1], b[1:] - b[:1]
        self.coef_, self.intercept_ = W, b
        scores = self._class_scores(task.data.X)
        self.certificate_ = _certify(task, outcome, scores)
        for name, value in outcome.more.items():
            setattr(self, name, value)
        self.covariance_ = self.unconstrained_covariance_ = self.multipliers_ = self.diagnostics_ = None
        if task.data.sensitive is None:
            return
        shape = (task.n_classes, task.n_columns)
        multipliers = solution.multipliers if len(solution.multipliers) else np.zeros(shape)
        self.covariance_ = _table(task, task.covariance(scores))
        self.multipliers_ = _table(task, multipliers.reshape(shape))
        self.unconstrained_covariance_ = _table(task, (task.problem.rows @ outcome.free.phi).reshape(shape))
        self.diagnostics_ = _movements(task, outcome.free.point.scores, scores)

    def _class_scores(self, X: Any) -> Array:
        """Return one score per class, (Q, n), of mean zero over the classes."""
        # One vector at a time: a matrix with categorical columns knows products with vectors only.
        scores = np.array(
            [np.asarray(X @ w + b, dtype=float) for w, b in zip(self.coef_, self.intercept_, strict=True)]
        )
        return np.vstack([-0.5 * scores, 0.5 * scores]) if len(self.classes_) == 2 else scores

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes, (n, n_classes); of two, that of the second less the first's, (n,)."""
        check_is_fitted(self)
        scores = self._class_scores(validate_features(self, X))
        return scores[1] - scores[0] if len(scores) == 2 else np.ascontiguousarray(scores.T)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the highest score; of two classes the second where its score is at least 0."""
        codes = decide(self.decision_function(X))  # first: it raises where the classifier is not fitted
        return self.classes_[codes]

    def predict_proba(self, X: Any) -> Array:
        """Return ``P(class | x)``, shape (n, n_classes)."""
        check_is_fitted(self)
        return softmax(self._class_scores(validate_features(self, X)), axis=0).T

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of ``predict_proba``."""
        check_is_fitted(self)
        return log_softmax(self._class_scores(validate_features(self, X)), axis=0).T

    def __sklearn_is_fitted__(self) -> bool:
        """A fit that failed validation leaves the estimator unfitted."""
        return hasattr(self, "certificate_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _notions(constraint: Any, classes: NDArray[Any]) -> list[Any]:
    """Return the notion of fairness of each class; raise for a mapping that is not from class to bound."""
    if not isinstance(constraint, Mapping):
        return [getattr(constraint, "notion", "selection_rate")] * len(classes)
    labels = classes.tolist()
    for label, bound in constraint.items():
        if label not in labels:
            known = ", ".join(map(repr, labels))
            raise ValueError(f"constraint names the class {label!r}, which does not occur; the classes are {known}.")
        if not isinstance(bound, CovarianceBound):
            raise ValueError(f"The bound of class {label!r} must be a CovarianceBound, got {bound!r}.")
    if not constraint:
        raise ValueError("constraint is an empty mapping; name at least one class, or set None.")
    return [constraint[label].notion if label in constraint else "selection_rate" for label in labels]


def _table(task: ClassTask, values: Array) -> pd.DataFrame:
    """Return one number per class and sensitive column as a frame: classes are its columns."""
    return pd.DataFrame(values.T, index=task.columns.index, columns=pd.Index(task.data.classes, name="class"))


def _certify(task: ClassTask, outcome: ClassOutcome, scores: Array) -> Certificate:
    """Return the certificate of the fitted function, from the scores (Q, N) that it gives the people trained on."""
    problem, solution = outcome.problem, outcome.solution
    proof = solution.certificate
    point = problem.objective.evaluate(solution.phi, scores)
    unit = problem.gap_unit(proof.objective)
    gap = abs(point.value - proof.dual_bound) / unit
    missed, room = np.empty(0), np.empty(0)
    if problem.n_rows:
        value = task.covariance(scores).ravel()
        missed = np.maximum(value - problem.upper, problem.lower - value)
        room = problem.room(solution.phi) + _summation_room(task, scores)
    is_same = abs(point.value - proof.objective) <= task.tol * unit
    is_kept = bool(np.all(missed <= room))
    status = proof.status if proof.status != "solved" or (is_same and is_kept) else "inaccurate"
    return replace(proof, objective=point.value, gap=gap, violation=largest(missed), status=status)


def _summation_room(task: ClassTask, scores: Array) -> Array:
    """Return what rounding may do to the covariances of scores, (Q K,)."""
    share = task.data.people_weight / task.data.people_weight.sum()
    size = np.abs(boundary_scores(scores)) + np.abs(scores).max(axis=0)
    sums = [np.abs(z).T @ (share * s) for z, s in zip(task.centred, size, strict=True)]
    return np.sqrt(scores.shape[1]) * 4.0 * EPS * np.concatenate(sums)


def _warn_if_bought(task: ClassTask, moves: dict[Any, Movement]) -> None:
    """Warn, once, of covariances that fell while a considerable disparity of the decisions remained."""
    bought = [
        (move.disparity_left[k], label, k) for label, move in moves.items() for k in np.flatnonzero(find_bought(move))
    ]
    if not bought:
        return
    _, label, k = max(bought, key=lambda found: found[0])
    name, category, *_ = task.columns.labels[k]
    warn(
        f"The covariance of class {label!r} with {name!r} ({category!r}) was cut by "
        f"{moves[label].covariance_cut[k]:.0%}, but the disparity of the decisions only by "
        f"{max(moves[label].decision_cut[k], 0.0):.0%} (pairs of class and group of which this holds: "
        f"{len(bought)}). Ask for the decisions themselves with PRuleBound, or lower C.",
        CovarianceWarning,
    )


def _movements(task: ClassTask, before: Array, after: Array) -> dict[Any, Movement]:
    """Return how scores and decisions moved, by class, and warn of covariances that were bought."""
    then, now = decide(before.T), decide(after.T)
    moves, old, new = {}, boundary_scores(before), boundary_scores(after)
    for q, label in enumerate(task.data.classes.tolist()):
        decided = (then == q, now == q)
        moves[label] = measure_movement(Deviations(task.centred[q], task.data.people_weight), old[q], new[q], decided)
    _warn_if_bought(task, moves)
    if np.ptp(now) == 0 < np.ptp(then):
        warn(
            f"Under the constraint the classifier decides {task.data.classes.tolist()[int(now[0])]!r} for everybody, "
            "which the unconstrained one does not. Allow a larger bound, merge small groups, or add features.",
            TrivialClassifierWarning,
        )
    return moves
