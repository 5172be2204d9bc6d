"""Trees of fitted ensembles as ONNX operators.

A reader per library turns trees into tables of nodes; the leaf numbers in them are those of
:mod:`fairmargin.trees.adapters`, so that learned leaf values can be attached. Splits on categories have no reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.onnx.graph import Graph
from fairmargin.trees import adapters

__all__ = ["Splits", "read_splits", "sum_of_leaves"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Tree:
    """The nodes of a tree, the root first.

    Attributes
    ----------
    feature, yes, no : (m,)
        What a node tests, and the node where a row goes on if the test holds, and if not.
    threshold : (m,)
        The test is ``x <= threshold`` (or ``<``, see :class:`Splits`).
    missing_yes : (m,)
        Whether a missing value goes on as if the test held.
    leaf : (m,)
        Number of the leaf among the leaves of the tree, -1 for nodes that test.
    """

    feature: Index
    threshold: Array
    yes: Index
    no: Index
    missing_yes: NDArray[np.bool_]
    leaf: Index


@dataclass(frozen=True)
class Splits:
    """The trees of an ensemble, how it compares, and whether it rounds features to single precision first."""

    trees: list[Tree]
    test: str = "BRANCH_LEQ"
    single: bool = False


def read_splits(ensemble: Any) -> Splits:
    """Return the trees of a fitted ensemble, which is not a pipeline."""
    leaves = adapters.read_leaves(ensemble)
    return _READERS[type(leaves)](adapters.unfreeze(ensemble), len(leaves.sizes))


def _refuse_categories(ensemble: Any) -> None:
    raise ValueError(
        f"This {type(ensemble).__name__} splits on categories, which cannot be exported; encode them as numbers or "
        "indicators before the ensemble."
    )


def _numbered(is_leaf: NDArray[np.bool_]) -> Index:
    return np.where(is_leaf, np.cumsum(is_leaf) - 1, -1).astype(np.int64)


def _histogram_splits(ensemble: Any, n_trees: int) -> Splits:
    trees = []
    for tree in (tree for stage in ensemble._predictors for tree in stage):
        nodes = tree.nodes
        if nodes["is_categorical"].any():
            _refuse_categories(ensemble)
        trees.append(
            Tree(
                nodes["feature_idx"].astype(np.int64),
                nodes["num_threshold"].astype(float),
                nodes["left"].astype(np.int64),
                nodes["right"].astype(np.int64),
                nodes["missing_go_to_left"].astype(bool),
                _numbered(nodes["is_leaf"].astype(bool)),
            )
        )
    return Splits(trees)


def _forest_splits(ensemble: Any, n_trees: int) -> Splits:
    trees = []
    for member in np.ravel(getattr(ensemble, "estimators_", ensemble)):
        tree = member.tree_
        is_leaf = tree.children_left < 0
        missing = np.asarray(getattr(tree, "missing_go_to_left", np.zeros(len(is_leaf)))).astype(bool)
        yes, no = (
            np.where(is_leaf, 0, child).astype(np.int64) for child in (tree.children_left, tree.children_right)
        )
        feature = np.where(is_leaf, 0, tree.feature).astype(np.int64)
        trees.append(Tree(feature, tree.threshold.astype(float), yes, no, missing, _numbered(is_leaf)))
    return Splits(trees, single=True)


def _lightgbm_splits(ensemble: Any, n_trees: int) -> Splits:
    found = ensemble.booster_.dump_model(num_iteration=ensemble.best_iteration_ or -1)["tree_info"]
    return Splits([_lightgbm_tree(ensemble, tree["tree_structure"]) for tree in found])


def _lightgbm_tree(ensemble: Any, root: dict[str, Any]) -> Tree:
    rows: list[tuple[int, float, int, int, bool, int]] = []

    def add(node: dict[str, Any]) -> int:
        at = len(rows)
        rows.append((0, 0.0, 0, 0, False, int(node.get("leaf_index", 0))))
        if "split_feature" not in node:
            return at
        if node["decision_type"] != "<=":
            _refuse_categories(ensemble)
        threshold = float(node["threshold"])
        yes, no = add(node["left_child"]), add(node["right_child"])
        rows[at] = (int(node["split_feature"]), threshold, yes, no, _lightgbm_missing(node, threshold), -1)
        return at

    add(root)
    return _tree_of(rows)


def _lightgbm_missing(node: dict[str, Any], threshold: float) -> bool:
    """Return where a missing value goes on: by default, or as a zero in nodes that met none in training."""
    if node["missing_type"] == "Zero":
        raise ValueError("LightGBM's zero_as_missing has no form in ONNX.")
    return bool(node["default_left"]) if node["missing_type"] == "NaN" else threshold >= 0.0


def _tree_of(rows: Sequence[tuple[int, float, int, int, bool, int]]) -> Tree:
    feature, threshold, yes, no, missing, leaf = zip(*rows, strict=True)
    whole = [np.array(column, dtype=np.int64) for column in (feature, yes, no, leaf)]
    return Tree(
        whole[0], np.array(threshold, dtype=float), whole[1], whole[2], np.array(missing, dtype=bool), whole[3]
    )


def _xgboost_splits(ensemble: Any, n_trees: int) -> Splits:
    raw = json.loads(bytes(ensemble.get_booster().save_raw("json")))
    trees = raw["learner"]["gradient_booster"]["model"]["trees"][:n_trees]
    return Splits([_xgboost_tree(ensemble, tree) for tree in trees], "BRANCH_LT", single=True)


def _xgboost_tree(ensemble: Any, tree: dict[str, Any]) -> Tree:
    if any(tree.get("split_type", ())):
        _refuse_categories(ensemble)
    left, right = (np.array(tree[side], dtype=np.int64) for side in ("left_children", "right_children"))
    is_leaf = left < 0
    is_leaf &= _reached(left, right)  # nodes that pruning left behind are no leaves
    threshold = np.array(tree["split_conditions"], dtype=np.float32).astype(float)
    yes, no = (np.where(child < 0, 0, child) for child in (left, right))
    feature = np.array(tree["split_indices"], dtype=np.int64)
    return Tree(feature, threshold, yes, no, np.array(tree["default_left"]).astype(bool), _numbered(is_leaf))


def _reached(left: Index, right: Index) -> NDArray[np.bool_]:
    reached, ahead = np.zeros(len(left), dtype=bool), [0]
    while ahead:
        node = ahead.pop()
        reached[node] = True
        ahead += [int(child[node]) for child in (left, right) if left[node] >= 0]
    return reached


def _catboost_splits(ensemble: Any, n_trees: int) -> Splits:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        ensemble.save_model(str(path), format="json")
        model = json.loads(path.read_text(encoding="utf-8"))
    if "oblivious_trees" not in model:
        raise ValueError("CatBoost's trees are exported if they are symmetric, its default grow_policy.")
    columns = model["features_info"].get("float_features", [])
    return Splits([_catboost_tree(ensemble, tree, columns) for tree in model["oblivious_trees"]], single=True)


def _catboost_tree(ensemble: Any, tree: dict[str, Any], columns: Sequence[dict[str, Any]]) -> Tree:
    """Return a symmetric tree: split d sets bit d of the leaf's number where ``x > border``."""
    splits = tree["splits"] or []
    if any(split["split_type"] != "FloatFeature" for split in splits):
        _refuse_categories(ensemble)
    rows: list[tuple[int, float, int, int, bool, int]] = []

    def add(depth: int, number: int) -> int:
        at = len(rows)
        rows.append((0, 0.0, 0, 0, False, number))
        if depth < len(splits):
            split = splits[depth]
            column = columns[split["float_feature_index"]]
            yes, no = add(depth + 1, number), add(depth + 1, number | 1 << depth)
            border = float(np.float32(split["border"]))
            missing_yes = column.get("nan_value_treatment", "AsIs") != "AsTrue"
            rows[at] = (int(column["flat_feature_index"]), border, yes, no, missing_yes, -1)
        return at

    add(0, 0)
    return _tree_of(rows)


_READERS: dict[type, Callable[[Any, int], Splits]] = {
    adapters.HistGradientBoostingLeaves: _histogram_splits,
    adapters.ForestLeaves: _forest_splits,
    adapters.LightGBMLeaves: _lightgbm_splits,
    adapters.XGBoostLeaves: _xgboost_splits,
    adapters.CatBoostLeaves: _catboost_splits,
}


def sum_of_leaves(
    graph: Graph, X: str, trees: Sequence[tuple[Tree, int]], test: str, values: Sequence[Array], base: Array
) -> str:
    """Return the sums of the values of each row's leaves, (n, number of targets), rounded once, to single precision.

    Parameters
    ----------
    trees : sequence of (Tree, offset)
        The trees and the column of ``X`` at which the features of each begin.
    test : str
        How nodes compare.
    values : one array per tree
        Values by leaf: (leaves,) for one target, or one target per tree if ``base`` has as many entries.
    base : (number of targets,)
        Added to the sums.
    """
    from onnx import numpy_helper

    several = len(base) > 1
    nodes = [_node_columns(tree, offset, at, test) for at, (tree, offset) in enumerate(trees)]
    column = {name: np.concatenate([part[name] for part in nodes]) for name in nodes[0]}
    at_leaf = [np.flatnonzero(tree.leaf >= 0) for tree, _ in trees]
    weights = [own[tree.leaf[where]] for (tree, _), where, own in zip(trees, at_leaf, values, strict=True)]
    tree_ids = np.concatenate([np.full(len(where), k) for k, where in enumerate(at_leaf)])
    return graph.node(
        "TreeEnsembleRegressor",
        [X],
        domain="ai.onnx.ml",
        op_version=3,
        n_targets=len(base),
        post_transform="NONE",
        aggregate_function="SUM",
        base_values_as_tensor=numpy_helper.from_array(np.asarray(base, dtype=np.float64), "base"),
        nodes_modes=column["mode"].tolist(),
        nodes_values_as_tensor=numpy_helper.from_array(column["threshold"], "thresholds"),
        target_treeids=tree_ids.tolist(),
        target_nodeids=np.concatenate(at_leaf).tolist(),
        target_ids=(tree_ids if several else np.zeros_like(tree_ids)).tolist(),
        target_weights_as_tensor=numpy_helper.from_array(np.concatenate(weights).astype(np.float64), "weights"),
        **{f"nodes_{name}": column[name].tolist() for name in _WHOLE},
    )


_WHOLE = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids", "missing_value_tracks_true")


def _node_columns(tree: Tree, offset: int, number: int, test: str) -> dict[str, NDArray[Any]]:
    is_leaf = tree.leaf >= 0
    n = len(is_leaf)

    def inner(values: NDArray[Any]) -> Index:
        return np.where(is_leaf, 0, values).astype(np.int64)

    return {
        "treeids": np.full(n, number),
        "nodeids": np.arange(n),
        "featureids": inner(tree.feature + offset),
        "truenodeids": inner(tree.yes),
        "falsenodeids": inner(tree.no),
        "missing_value_tracks_true": inner(tree.missing_yes),
        "threshold": np.where(is_leaf, 0.0, tree.threshold),
        "mode": np.where(is_leaf, "LEAF", test),
    }
