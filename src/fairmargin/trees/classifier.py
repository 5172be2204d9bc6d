"""The fair tree ensemble as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from fairmargin.base import FairClassifier, document
from fairmargin.constraints import Constraint, CovarianceBound
from fairmargin.disparate_treatment import refuse_recodings
from fairmargin.exceptions import DisparateTreatmentError
from fairmargin.formulations import Outcome, Task, certify_function
from fairmargin.inputs import check_container
from fairmargin.losses import Loss, get_loss
from fairmargin.problem import Certificate
from fairmargin.several import rule_to_test
from fairmargin.trees.adapters import is_frozen, read_leaves, unfreeze
from fairmargin.trees.coding import code_columns, coded_categories
from fairmargin.trees.features import default_ensemble, tag_inputs, validate_rows
from fairmargin.trees.forest import Forest, LeafMap, sum_values
from fairmargin.trees.growth import check_rounds, grow, regrow
from fairmargin.trees.penalty import choose_penalty
from fairmargin.validation import TrainingData, check_flag, check_number, validate_training

__all__ = ["FairTreeClassifier"]

Array = NDArray[np.float64]


@document
class FairTreeClassifier(FairClassifier):
    """A tree ensemble under fairness constraints, with a certificate.

    The trees of an ensemble (of scikit-learn, LightGBM, XGBoost or CatBoost) sort people into leaves, and the values
    of all leaves are then learned together. With ``L(x)`` the leaves in which ``x`` ends, one per tree, the score is
    ``f(x) = b + sum_{l in L(x)} w_l``, linear in the indicators of the leaves, and the leaf values minimise ``C sum_i
    s_i loss(y_i f(x_i)) + 1/2 ||w||^2`` subject to what ``constraint`` asks. Under convex constraints
    ``certificate_`` proves them optimal for these trees; with ``PRuleBound`` it bounds the loss against the best leaf
    values without a constraint. The result is one deterministic ensemble that never sees the sensitive attributes:
    trees are grown from ``X`` alone.

    Parameters
    ----------
    estimator : classifier, default=None
        The ensemble: of scikit-learn (histogram gradient boosting, random forest, extra trees, gradient boosting, or
        a single tree), LightGBM, XGBoost or CatBoost, or a pipeline that ends in one. A copy is fitted, with labels
        0 and 1. None stands for ``HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15)``.
    C : float or "auto", default="auto"
        Weight of the loss against the penalty on leaf values. "auto" grows the trees on three quarters of the people
        (unless ``prefit``), chooses ``C`` by the loss on the others, without a constraint, and then learns the leaf
        values from everybody; where fewer than 20 of a class could be held out it is 0.1, and with a number, too,
        trees are grown on everybody. It must be finite: the indicators of each tree add up to one, so that without a
        penalty leaf values are not determined.
    loss : str or Loss, default="logistic"
        Any loss of the package; ``"logistic"`` gives ``predict_proba``.
    constraint : constraint or None, default=CovarianceBound
        What is asked of the classifier, e.g. ``PRuleBound(80)``; a class stands for its defaults, so the default asks
        for zero covariance. None learns the leaf values without a constraint.
    rounds : int, default=1
        How often trees are grown. The first round grows them on the labels. Under a ``PRuleBound``, every further
        round grows trees that predict which decisions pay under the rule (labels and weights come from the costs of
        the decision path found so far), and leaf values are learned for the trees of all rounds together, with
        ``C="auto"`` divided by their number. Other constraints have no such costs and need ``rounds=1``.
    prefit : bool, default=False
        Whether ``estimator`` is fitted already, with the columns of ``X``, so that only its leaf values are learned.
        In cross-validation and searches, give ``sklearn.frozen.FrozenEstimator(estimator)`` instead, which stands for
        a fitted one whatever ``prefit`` is: the copies that are made there keep its trees. With
        ``PRuleBound(confidence=...)``, ``fit`` then needs a ``safety_set`` of people whom the ensemble has not seen:
        the trees may already have seen everybody in ``X``.
    fit_intercept : bool, default=True
        Whether to learn an intercept, which is never penalised.
    class_weight : dict, "balanced" or None, default=None
        Factors on the loss by class, for the trees too. They do not enter means and covariances.
    pos_label : label, optional
        The favourable class, whose decision is the positive one. By default the later of the two in sorted order,
        with a ``FavourableClassWarning`` under a constraint unless the labels are 0 and 1, -1 and 1, or False and
        True.
        scikit-learn's scorers ``"roc_auc"`` and ``"neg_log_loss"`` sort the labels themselves: where
        ``pos_label`` is the first in sorted order they are inverted, silently. With them, code labels as 0 and 1, or
        use ``scoring=lambda model, X, y: roc_auc_score(y == "approved", model.decision_function(X))``.
    tol : float, default=1e-6
        Relative duality gap at which to stop.
    max_iter : int, default=200
        Iterations after which to stop with a ``ConvergenceWarning``.

    Attributes
    ----------
    estimators_ : list of classifiers
        The fitted ensembles, one per round. Only their trees are used; their own leaf values are ignored (see
        ``export``).
    coef_ : ndarray of shape (1, n_leaves)
        The learned leaf values, ensemble after ensemble and tree after tree, in the order of :class:`LeafFeatures`.
    intercept_ : ndarray of shape (1,)
    C_ : float
        The weight of the loss that was used.
    {attributes}

    See Also
    --------
    LeafFeatures : The leaves of an ensemble as features.
    FairLogisticRegression : The linear classifier.

    Examples
    --------
    >>> from fairmargin import FairTreeClassifier, PRuleBound, p_rule
    >>> from fairmargin.datasets import make_nonlinear_synthetic
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y, z = make_nonlinear_synthetic(500, random_state=0)
    >>> forest = RandomForestClassifier(20, max_leaf_nodes=8, random_state=0)
    >>> clf = FairTreeClassifier(forest, constraint=PRuleBound(80)).fit(X, y, sensitive_features=z)
    >>> bool(p_rule(y, clf.predict(X), sensitive_features=z) >= 80)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        C: float | str = "auto",
        loss: str | Loss = "logistic",
        constraint: Any = CovarianceBound,
        rounds: int = 1,
        prefit: bool = False,
        fit_intercept: bool = True,
        class_weight: Any = None,
        pos_label: Any = None,
        tol: float = 1e-6,
        max_iter: int = 200,
    ) -> None:
        self.estimator = estimator
        self.C: Any = C
        self.loss = loss
        self.constraint = constraint
        self.rounds = rounds
        self.prefit = prefit
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.tol = tol
        self.max_iter = max_iter

    def _loss(self) -> Loss:
        return get_loss(self.loss)

    def _ensemble(self) -> Any:
        return default_ensemble() if self.estimator is None else unfreeze(self.estimator)

    def _is_fitted_ensemble(self) -> bool:
        return check_flag(self.prefit, "prefit") or is_frozen(self.estimator)

    def _read(
        self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any, *, needs_sensitive: bool
    ) -> TrainingData:
        """Check the features as numbers, and keep them as the ensemble takes them."""
        check_rounds(self.rounds, self._constraint())
        check_container(X, "X")
        coded = code_columns(X)
        data = validate_training(
            self,
            coded,
            y,
            sensitive_features,
            sample_weight,
            class_weight=self.class_weight,
            needs_sensitive=needs_sensitive,
        )
        if data.sensitive is not None:
            categories = coded_categories(X, coded)
            refuse_recodings([(name, k, codes[data.kept]) for name, k, codes in categories], data.sensitive)
        rows = X if hasattr(X, "shape") else np.asarray(X)
        if len(data.kept) < data.n_given:
            rows = _safe_indexing(rows, data.kept)
        if self._is_fitted_ensemble():
            _check_fitted_ensemble(self._ensemble(), data)
        return replace(data, X=rows)

    def _solve(
        self, data: TrainingData, constraint: Constraint | None, safety_set: Any
    ) -> tuple[Task, Outcome, dict[str, Any]]:
        """Solve as every classifier does, but never test a rule on people whom fitted trees may have seen."""
        if self._is_fitted_ensemble() and rule_to_test(constraint) is not None and safety_set is None:
            raise ValueError(
                "The fitted ensemble may have seen the people who would test the rule: with one, "
                "PRuleBound(confidence=...) needs guarantee='exact' and fit(..., safety_set=(X, sensitive_features)) "
                "of people whom the ensemble has not seen."
            )
        return super()._solve(data, constraint, safety_set)

    def _weight_and_features(self, data: TrainingData) -> tuple[float, LeafMap]:
        """Return ``C`` and the leaves of the ensemble grown on the labels, or of the one that was given."""
        ensemble, prefit = self._ensemble(), self._is_fitted_ensemble()
        if isinstance(self.C, str) and self.C == "auto":
            fit_intercept = check_flag(self.fit_intercept, "fit_intercept")
            self.C_, leaves = choose_penalty(ensemble, data, self._loss(), fit_intercept, prefit)
            return self.C_, leaves
        self.C_ = self._weight_of_loss()
        return self.C_, LeafMap.of(Forest([ensemble if prefit else grow(ensemble, data, data.y)]), data.X)

    def _weight_of_loss(self) -> float:
        """Return the ``C`` that was given, checked."""
        if isinstance(self.C, str):
            raise ValueError(f"C must be a number or 'auto', got {self.C!r}.")
        C = check_number(self.C, "C", positive=True, allow_inf=True)
        if np.isinf(C):
            raise ValueError(
                "C must be finite: the leaf indicators of each tree add up to one, so that leaf values are not "
                "determined without a penalty."
            )
        return C

    def _refine(self, task: Task, constraint: Constraint | None, path: bool = False) -> Task:
        """Grow further trees for what the constraint asks.

        A ``C`` that was chosen for the trees of one round is divided by the number of rounds: with as many times the
        leaves, the scores are then penalised as before.
        """
        task = regrow(task, constraint, self._ensemble(), check_rounds(self.rounds, constraint))
        assert isinstance(task.feature_map, LeafMap)
        rounds = len(task.feature_map.forest.ensembles)
        if isinstance(self.C, str) and rounds > 1:
            self.C_ /= rounds
            task = replace(task, problem=replace(task.problem, weight=task.problem.weight / rounds))
        return task

    def _store_function(self, task: Task, outcome: Outcome) -> tuple[Array, Certificate]:
        leaves = task.feature_map
        assert isinstance(leaves, LeafMap)
        w, b = task.coefficients(outcome.solution)
        self._forest = leaves.forest
        self.estimators_ = leaves.forest.ensembles
        self.coef_ = w[None, :]
        self.intercept_ = np.array([b])
        scores = self._scores(leaves.columns)
        return scores, certify_function(task, outcome, float(w @ w), scores)

    def _scores(self, columns: NDArray[np.int32]) -> Array:
        return sum_values(columns, self.coef_[0]) + self.intercept_[0]

    def decision_function(self, X: Any) -> Array:
        """Return the scores, the sums of the values of each row's leaves and the intercept, shape (n,)."""
        check_is_fitted(self)
        return self._scores(self._forest.columns(validate_rows(self, X)))

    def export(self) -> list[Any]:
        """Return copies of the fitted ensembles with the learned leaf values, which decide as this classifier does.

        Their raw scores (``decision_function``, or ``predict(X, raw_score=True)`` of LightGBM and
        ``predict(X, prediction_type="RawFormulaVal")`` of CatBoost), added up over the list, are the score; a single
        one also predicts the classes, as 0 and 1. Ensembles that cannot hold the values in double precision raise a
        ``ValueError``.
        """
        check_is_fitted(self)
        return self._forest.with_values(self.coef_[0], float(self.intercept_[0]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tag_inputs(tags, self.estimator)
        return tags


def _check_fitted_ensemble(ensemble: Any, data: TrainingData) -> None:
    """Raise unless an ensemble is fitted, for two classes, and without a sensitive attribute among its features."""
    read_leaves(ensemble)
    if len(ensemble.classes_) != 2:
        raise ValueError(f"The fitted ensemble is for {len(ensemble.classes_)} classes; it must be for two.")
    names = next((getattr(ensemble, a) for a in ("feature_names_in_", "feature_names_") if hasattr(ensemble, a)), ())
    for attribute in () if data.sensitive is None else data.sensitive.attributes:
        found = np.flatnonzero(np.asarray(names, dtype=object) == attribute.name)
        if len(found):
            raise DisparateTreatmentError(
                f"The ensemble was trained on the sensitive attribute {attribute.name!r}: deciding by it is "
                "disparate treatment. Train it without that column.",
                column=int(found[0]),
                attribute=attribute.name,
            )
