"""Leaves of fitted tree ensembles, one small adapter per library.

An adapter numbers the leaves of every tree from zero and finds the leaf of each row. Where the library allows leaf
values to be set, it also returns the ensemble with other values. Libraries are recognised by the methods of their
fitted estimators, so that none has to be installed for the others to work.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.validation import check_is_fitted

__all__ = ["Leaves", "check_ensemble", "fit_ensemble", "is_frozen", "read_leaves", "unfreeze"]

Array = NDArray[np.float64]
Indices = NDArray[np.int32]


class Leaves(Protocol):
    """The leaves of a fitted ensemble of T trees.

    Attributes
    ----------
    sizes : (T,)
        Number of leaves of each tree.
    """

    sizes: NDArray[np.intp]

    def indices(self, X: Any) -> Indices:
        """Return the leaf in which each row of ``X`` ends, by tree, from 0 to ``sizes - 1``; shape (n, T)."""
        ...

    def with_values(self, values: Array, intercept: float) -> Any:
        """Return a copy of the ensemble whose raw score is ``intercept`` plus the given values of a row's leaves.

        ``values`` has one entry per leaf, tree after tree.
        """
        ...


class _Adapter:
    """What adapters share: the ensemble, and by default an error for setting leaf values.

    ``mark`` is a method or parameter by which estimators of the library are recognised.
    """

    mark: ClassVar[str]
    sizes: NDArray[np.intp]

    def __init__(self, ensemble: Any) -> None:
        self.ensemble = ensemble

    @staticmethod
    def is_fitted(ensemble: Any) -> bool:
        """Whether the ensemble has been fitted."""
        try:
            check_is_fitted(ensemble)
        except NotFittedError:
            return False
        return True

    @staticmethod
    def unfitted(ensemble: Any) -> Any:
        """Return a copy of the ensemble with its parameters and without its trees."""
        return clone(ensemble)

    def indices(self, X: Any) -> Indices:
        """Return the leaves of rows."""
        raise NotImplementedError

    def with_values(self, values: Array, intercept: float) -> Any:
        """Raise: the library cannot hold these values exactly."""
        raise ValueError(
            f"{type(self.ensemble).__name__} cannot hold learned leaf values in double precision; histogram "
            "boosting, LightGBM and CatBoost can. Keep the fair classifier itself, which predicts from the leaves."
        )

    def _split(self, values: Array) -> list[Array]:
        """Return the values of each tree."""
        return np.split(values, np.cumsum(self.sizes)[:-1])


class HistGradientBoostingLeaves(_Adapter):
    """scikit-learn's histogram gradient boosting, which has no ``apply``.

    A copy of the ensemble gets the leaf numbers as leaf values. The differences of its staged scores are then the
    leaves of each row; they are exact, because all values are whole numbers.
    """

    mark = "max_bins"

    def __init__(self, ensemble: Any) -> None:
        super().__init__(ensemble)
        self.sizes = np.array([tree.get_n_leaf_nodes() for tree in _trees(ensemble)], dtype=np.intp)
        self._numbered = self.with_values(np.concatenate([np.arange(size) for size in self.sizes]), 0.0)

    def indices(self, X: Any) -> Indices:
        """Return the leaves of rows."""
        stages, before = [], 0.0
        for total in self._numbered.staged_decision_function(X):
            stages.append((total - before).astype(np.int32).reshape(len(total), -1))  # a tree, or one per class
            before = total
        return np.hstack(stages)

    def with_values(self, values: Array, intercept: float) -> Any:
        """Return a copy of the ensemble with these leaf values."""
        ensemble = deepcopy(self.ensemble)
        ensemble._baseline_prediction = np.full_like(ensemble._baseline_prediction, intercept)
        for tree, own in zip(_trees(ensemble), self._split(values), strict=True):
            tree.nodes["value"][tree.nodes["is_leaf"].astype(bool)] = own
        return ensemble


def _trees(ensemble: Any) -> list[Any]:
    return [tree for stage in ensemble._predictors for tree in stage]


class _NodeLeaves(_Adapter):
    """Ensembles that report the node in which a row ends; nodes without children are numbered in order."""

    def _number(self, is_leaf: list[NDArray[np.bool_]]) -> None:
        self.sizes = np.array([leaf.sum() for leaf in is_leaf], dtype=np.intp)
        self._rank = np.concatenate([np.cumsum(leaf) - 1 for leaf in is_leaf]).astype(np.int32)
        self._start = np.cumsum([0, *(len(leaf) for leaf in is_leaf[:-1])])

    def indices(self, X: Any) -> Indices:
        """Return the leaves of rows."""
        nodes = np.asarray(self.ensemble.apply(X)).reshape(-1, len(self.sizes))
        return self._rank[nodes.astype(np.intp, copy=False) + self._start]


class ForestLeaves(_NodeLeaves):
    """scikit-learn's random forests, extra trees, (not histogram) gradient boosting, and single trees."""

    mark = "apply"

    def __init__(self, ensemble: Any) -> None:
        super().__init__(ensemble)
        trees = getattr(ensemble, "estimators_", ensemble)
        self._number([tree.tree_.children_left < 0 for tree in np.ravel(trees)])

    def indices(self, X: Any) -> Indices:
        """Return the leaves of rows; ``apply`` lets missing values pass where ``predict`` does not."""
        if not get_tags(self.ensemble).input_tags.allow_nan:
            assert_all_finite(X, estimator_name=type(self.ensemble).__name__, input_name="X")
        return super().indices(X)


class XGBoostLeaves(_NodeLeaves):
    """XGBoost. Trees after the best iteration of early stopping are ignored."""

    mark = "get_booster"

    def __init__(self, ensemble: Any) -> None:
        super().__init__(ensemble)
        booster = ensemble.get_booster()
        nodes = booster.trees_to_dataframe()
        rounds = booster.num_boosted_rounds()
        used = getattr(ensemble, "best_iteration", rounds - 1) + 1
        last = (nodes["Tree"].max() + 1) // rounds * used  # a round may grow several trees
        is_leaf = []
        for _, rows in nodes[nodes["Tree"] < last].groupby("Tree"):
            leaf = np.zeros(rows["Node"].max() + 1, dtype=bool)
            leaf[rows["Node"][rows["Feature"] == "Leaf"]] = True
            is_leaf.append(leaf)
        self._number(is_leaf)


class LightGBMLeaves(_Adapter):
    """LightGBM."""

    mark = "booster_"

    def __init__(self, ensemble: Any) -> None:
        super().__init__(ensemble)
        trees = ensemble.booster_.dump_model(num_iteration=ensemble.best_iteration_ or -1)["tree_info"]
        self.sizes = np.array([tree["num_leaves"] for tree in trees], dtype=np.intp)

    def indices(self, X: Any) -> Indices:
        """Return the leaves of rows."""
        found = np.asarray(self.ensemble.predict(X, pred_leaf=True), dtype=np.int32)
        return found.reshape(-1, len(self.sizes))

    def with_values(self, values: Array, intercept: float) -> Any:
        """Return a copy of the ensemble with these leaf values; the first tree's have the intercept in them."""
        if "\nis_linear=1" in self.ensemble.booster_.model_to_string():
            raise ValueError(
                "LightGBM's linear trees have a linear function in every leaf, which a learned value cannot replace. "
                "Keep the fair classifier itself, which predicts from the leaves, or set linear_tree=False."
            )
        ensemble = deepcopy(self.ensemble)
        for tree, own in enumerate(self._split(values)):
            for leaf, value in enumerate(own):
                ensemble.booster_.set_leaf_output(tree, leaf, float(value) + (intercept if tree == 0 else 0.0))
        return ensemble


class CatBoostLeaves(_Adapter):
    """CatBoost, with symmetric or other trees."""

    mark = "calc_leaf_indexes"

    @staticmethod
    def is_fitted(ensemble: Any) -> bool:
        """Whether the ensemble has been fitted, in CatBoost's own terms."""
        return bool(ensemble.is_fitted())

    @staticmethod
    def unfitted(ensemble: Any) -> Any:
        """Return a copy: scikit-learn's ``clone`` refuses parameters that CatBoost copies, such as lists."""
        return type(ensemble)(**deepcopy(ensemble.get_params()))

    def __init__(self, ensemble: Any) -> None:
        super().__init__(ensemble)
        self.sizes = np.asarray(ensemble.get_tree_leaf_counts(), dtype=np.intp)

    def indices(self, X: Any) -> Indices:
        """Return the leaves of rows."""
        return np.asarray(self.ensemble.calc_leaf_indexes(X), dtype=np.int32).reshape(-1, len(self.sizes))

    def with_values(self, values: Array, intercept: float) -> Any:
        """Return a copy of the ensemble with these leaf values."""
        with TemporaryDirectory() as folder:  # only models that were fitted or read from JSON can be changed
            path = str(Path(folder) / "model.json")
            self.ensemble.save_model(path, format="json")
            ensemble = type(self.ensemble)().load_model(path, format="json")
        ensemble.set_leaf_values(np.asarray(values, dtype=float))
        ensemble.set_scale_and_bias(1.0, intercept)
        return ensemble


class PipelineLeaves(_Adapter):
    """A pipeline that ends in an ensemble."""

    mark = "steps"

    def __init__(self, ensemble: Any) -> None:
        super().__init__(ensemble)
        self._last = read_leaves(ensemble[-1])
        self.sizes = self._last.sizes

    def indices(self, X: Any) -> Indices:
        """Return the leaves of rows."""
        return self._last.indices(self.ensemble[:-1].transform(X))

    def with_values(self, values: Array, intercept: float) -> Any:
        """Return a copy of the pipeline whose last step has these leaf values."""
        from sklearn.pipeline import Pipeline

        *steps, (name, _) = self.ensemble.steps
        return Pipeline([*steps, (name, self._last.with_values(values, intercept))])


# The first one whose mark an estimator bears is taken.
_ADAPTERS: tuple[type[_Adapter], ...] = (
    PipelineLeaves,
    LightGBMLeaves,
    CatBoostLeaves,
    XGBoostLeaves,
    HistGradientBoostingLeaves,
    ForestLeaves,
)


def is_frozen(ensemble: Any) -> bool:
    """Whether an ensemble is in a ``FrozenEstimator``: fitted, and to be used as it is."""
    return isinstance(ensemble, FrozenEstimator)


def unfreeze(ensemble: Any) -> Any:
    """Return the ensemble that a ``FrozenEstimator`` holds, or the one that is given."""
    return unfreeze(ensemble.estimator) if is_frozen(ensemble) else ensemble


def _adapter_of(ensemble: Any) -> type[_Adapter]:
    """Return the adapter for an estimator, fitted or not; raise if it is not a classifier made of trees."""
    if isinstance(ensemble, type) or not hasattr(ensemble, "fit"):
        raise ValueError(
            "estimator must be an ensemble of trees with scikit-learn's interface, such as LGBMClassifier(), got "
            f"{ensemble!r}."
        )
    if not is_classifier(ensemble):
        raise ValueError(
            f"estimator must be a classifier, got {type(ensemble).__name__}: leaves grown for another task, such as "
            "regression, do not tell the classes apart. Give the library's classifier instead."
        )
    found = next((a for a in _ADAPTERS if hasattr(type(ensemble), a.mark) or a.mark in vars(ensemble)), None)
    if found is None:
        raise ValueError(
            f"{type(ensemble).__name__} has no leaves that can be read; give an ensemble of scikit-learn (histogram "
            "or other gradient boosting, random forest, extra trees), LightGBM, XGBoost or CatBoost."
        )
    return found


def check_ensemble(ensemble: Any) -> None:
    """Raise unless an estimator, fitted or not, is a classifier whose leaves can be read."""
    ensemble = unfreeze(ensemble)
    if _adapter_of(ensemble) is PipelineLeaves:
        check_ensemble(ensemble.steps[-1][1])


def read_leaves(ensemble: Any) -> Leaves:
    """Return the leaves of a fitted ensemble."""
    ensemble = unfreeze(ensemble)
    adapter = _adapter_of(ensemble)
    if not adapter.is_fitted(ensemble):
        raise NotFittedError(
            f"This {type(ensemble).__name__} is not fitted yet and has no leaves; fit it, or leave prefit=False. "
            "Where copies are made, as in cross-validation and searches, put the fitted one in a "
            "sklearn.frozen.FrozenEstimator: copies of others lose their trees."
        )
    return adapter(ensemble)


def fit_ensemble(ensemble: Any, X: Any, y: Any, weight: Array | None = None) -> Any:
    """Return a fitted copy of an ensemble, a frozen one as it is; a pipeline hands the weights to its last step."""
    check_ensemble(ensemble)
    if is_frozen(ensemble):
        return unfreeze(ensemble)
    fitted = _adapter_of(ensemble).unfitted(ensemble)
    if weight is None:
        return fitted.fit(X, y)
    prefix = f"{fitted.steps[-1][0]}__" if hasattr(fitted, "steps") else ""
    return fitted.fit(X, y, **{f"{prefix}sample_weight": weight})
