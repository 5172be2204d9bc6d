"""Converters of the estimators of this package, and the one call that uses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fairmargin.categories import CategoryEncoder
from fairmargin.guarantee.wrapper import CertifiedClassifier
from fairmargin.kernel import FairSVC, KernelFeatures
from fairmargin.linear import FairLinearSVC, FairLogisticRegression, FairMarginClassifier
from fairmargin.multiclass import FairMultinomialLogisticRegression, FairOneVsRestClassifier
from fairmargin.onnx.encoders import category_features, table_features
from fairmargin.onnx.graph import Graph
from fairmargin.onnx.inputs import NAME, as_frame, is_text
from fairmargin.onnx.kernels import kernel_matrix
from fairmargin.onnx.several import as_columns, choose_label, probabilities, scaled_to_one
from fairmargin.onnx.steps import check_runs, register_steps
from fairmargin.onnx.trees import read_splits, sum_of_leaves
from fairmargin.regression import FairRegressor
from fairmargin.tables.encoding import TableEncoder
from fairmargin.tables.model import TabularModel
from fairmargin.tolerances import ROUNDING
from fairmargin.trees import FairTreeClassifier, LeafFeatures

__all__ = ["register_converters", "to_onnx"]

# Of a fitted classifier on its inputs: a vector for two classes, a matrix with a column per class for more.
Score = Callable[[Graph, Any, Sequence[Any]], str]


def to_onnx(model: Any, X: Any, **options: Any) -> Any:
    """Return a fitted model as an ONNX graph whose labels are the model's.

    Parameters
    ----------
    model : fitted estimator, pipeline or TabularModel
        A classifier, regressor or transformer of this package, alone or as a step of a pipeline whose other steps
        skl2onnx can convert; a fitted search stands for its best estimator, a ``CertifiedClassifier`` for what it
        holds.
    X : array or frame of shape (n, n_features)
        Rows such as the model takes. Its columns and types give the inputs: a frame with categories, or for a model
        that takes columns by name, one input per column, text for categories and float64 for numbers; anything else
        one input, ``X``, a matrix of float64. No rows are needed; those that there are, are decided by the graph too,
        where onnxruntime is installed, and compared.
    **options
        Passed on to ``skl2onnx.convert_sklearn``, e.g. ``target_opset``.

    Returns
    -------
    onnx.ModelProto
        Of a classifier with the outputs ``label``, ``scores`` (values of ``decision_function``) and, for the logistic
        loss, ``probabilities`` of shape (n, n_classes). Of a regressor with the output ``prediction``.

    Raises
    ------
    ValueError
        For what has no form in ONNX: kernels that are Python functions, trees that split on categories, and encoders
        of scikit-learn with a category for missing values. Where onnxruntime is installed, also if it cannot load
        the graph, which happens for steps that skl2onnx writes in single precision, or if the scores of the rows
        ``X`` are not the model's.

    See Also
    --------
    to_inputs : rows as the runtime takes them.

    Examples
    --------
    >>> import onnxruntime
    >>> from fairmargin import FairLogisticRegression
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> from fairmargin.onnx import to_inputs, to_onnx
    >>> X, y, z = make_linear_synthetic(500, random_state=0)
    >>> clf = FairLogisticRegression().fit(X, y, sensitive_features=z)
    >>> graph = to_onnx(clf, X)
    >>> session = onnxruntime.InferenceSession(graph.SerializeToString())
    >>> (label,) = session.run(["label"], to_inputs(graph, X))
    >>> bool((label == clf.predict(X)).all())
    True
    """
    skl2onnx = register_converters()
    frame, whole = as_frame(X), _unwrapped(model)
    if isinstance(model, TabularModel):
        if frame is None:
            raise ValueError("A TabularModel takes a frame; give one with its columns.")
        decider = copy(model.estimator)
        decider.classes_ = np.array(model.labels, dtype=object)  # decisions are texts of the target
        whole = Pipeline([("encoder", _TableStep(model.encoder)), ("classifier", decider)])
        frame = frame.select([column.name for column in model.encoder.columns])
        types = _declared(frame, {column.name for column in model.encoder.columns if column.kind == "category"})
    else:
        check_is_fitted(whole)
        texts = set() if frame is None else {name for name in frame.columns if is_text(frame[name])}
        if frame is not None and (texts or _takes_columns(whole)):
            types = _declared(frame, texts)
        else:
            types = [(NAME, _tensors().DoubleTensorType([None, np.shape(X)[1]]))]
    graph = skl2onnx.convert_sklearn(whole, initial_types=types, **options)
    check_runs(graph, model, X)
    return graph


def _takes_columns(model: Any) -> bool:
    """Whether a model takes the columns of a frame by name, so that a matrix would not do."""
    if isinstance(model, Pipeline):
        return _takes_columns(model.steps[0][1])
    if isinstance(model, FairTreeClassifier):
        return any(isinstance(ensemble, Pipeline) and _takes_columns(ensemble) for ensemble in model.estimators_)
    return isinstance(model, ColumnTransformer | CategoryEncoder)


def _declared(frame: Any, texts: set[str]) -> list[tuple[str, Any]]:
    """Return the inputs of a frame: one per column."""
    kinds = {True: _tensors().StringTensorType, False: _tensors().DoubleTensorType}
    return [(name, kinds[name in texts]([None, 1])) for name in frame.columns]


def _unwrapped(model: Any) -> Any:
    """Return the estimator that decides, without searches and wrappers around it or its last step."""
    if isinstance(model, BaseSearchCV):
        return _unwrapped(model.best_estimator_)
    if isinstance(model, CertifiedClassifier):
        check_is_fitted(model)
        return _unwrapped(model.estimator_)
    if isinstance(model, Pipeline):
        *steps, (name, last) = model.steps
        return Pipeline([*steps, (name, _unwrapped(last))])
    return model


class _TableStep(TransformerMixin, BaseEstimator):
    """The encoding of a table as a step of a pipeline."""

    def __init__(self, encoder: TableEncoder) -> None:
        self.encoder = encoder

    def __sklearn_is_fitted__(self) -> bool:
        return True


def register_converters() -> Any:
    """Make the estimators of this package known to skl2onnx, for its own ``to_onnx``, and return that module."""
    try:
        import skl2onnx
    except ImportError:
        raise ImportError('ONNX export needs skl2onnx: pip install "fairmargin[onnx]".') from None
    for kind, score in _SCORES.items():
        _register(skl2onnx, kind, _classifier_shapes, _classifier(score), _parse_classifier)
    for kind, convert in _TRANSFORMERS.items():
        _register(skl2onnx, kind, _transformer_shapes, convert, partial(_parse_one, "features"))
    _register(skl2onnx, FairRegressor, _vector_shape, _convert_regressor, partial(_parse_one, "prediction"))
    register_steps(skl2onnx)
    return skl2onnx


def _register(skl2onnx: Any, kind: type, shapes: Any, convert: Any, parse: Any) -> None:
    options = {"zipmap": [True, False, "columns"]}  # which pipelines set for their last step; there is no map here
    skl2onnx.update_registered_converter(
        kind, f"Fairmargin{kind.__name__.strip('_')}", shapes, convert, parser=parse, options=options
    )


def _parse_classifier(scope: Any, model: Any, inputs: Sequence[Any], custom_parsers: Any = None) -> Any:
    """Declare the outputs of a classifier."""
    from skl2onnx import get_model_alias

    operator = scope.declare_local_operator(get_model_alias(type(model)), model)
    operator.inputs.extend(inputs)
    names = ["label", "scores"] + (["probabilities"] if hasattr(model, "predict_proba") else [])
    for name in names:
        kind = _label_type(model)() if name == "label" else _tensors().DoubleTensorType()
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _parse_one(name: str, scope: Any, model: Any, inputs: Sequence[Any], custom_parsers: Any = None) -> Any:
    """Declare one output, of doubles."""
    from skl2onnx import get_model_alias

    operator = scope.declare_local_operator(get_model_alias(type(model)), model)
    operator.inputs.extend(inputs)
    operator.outputs.append(scope.declare_local_variable(name, _tensors().DoubleTensorType()))
    return operator.outputs


def _tensors() -> Any:
    from skl2onnx.common import data_types

    return data_types


def _label_type(model: Any) -> Any:
    kinds = {"i": "Int64TensorType", "u": "Int64TensorType", "b": "BooleanTensorType", "f": "DoubleTensorType"}
    return getattr(_tensors(), kinds.get(np.asarray(model.classes_).dtype.kind, "StringTensorType"))


def _classifier_shapes(operator: Any) -> None:
    n_classes = len(operator.raw_operator.classes_)
    for variable in operator.outputs:
        wide = variable.raw_name == "probabilities" or (variable.raw_name == "scores" and n_classes > 2)
        variable.type.shape = [None, n_classes] if wide else [None]


def _transformer_shapes(operator: Any) -> None:
    operator.outputs[0].type.shape = [None, None]


def _vector_shape(operator: Any) -> None:
    operator.outputs[0].type.shape = [None]


def _classifier(score: Score) -> Any:
    """Return the converter of a classifier with a score: label, score and, where there is one, probability."""

    def convert(scope: Any, operator: Any, container: Any) -> None:
        graph, model = Graph(scope, container), operator.raw_operator
        scores = score(graph, model, operator.inputs)
        # Margin classifiers have no ties: they were settled in training.
        least = -ROUNDING if isinstance(model, FairMultinomialLogisticRegression) else 0.0
        results = [choose_label(graph, scores, model.classes_, least), scores]
        if len(operator.outputs) > len(results):
            one_per_class = isinstance(model, FairOneVsRestClassifier) and len(model.classes_) > 2
            share = scaled_to_one if one_per_class else probabilities
            results.append(share(graph, scores, len(model.classes_)))
        for result, variable in zip(results, operator.outputs, strict=True):
            graph.output(result, variable)

    return convert


def _linear_score(graph: Graph, model: Any, inputs: Sequence[Any]) -> str:
    return graph.affine(graph.features(inputs), model.coef_[0], model.intercept_[0])


def _multinomial_score(graph: Graph, model: Any, inputs: Sequence[Any]) -> str:
    if len(model.classes_) == 2:
        return _linear_score(graph, model, inputs)
    product = graph.node("MatMul", [graph.features(inputs), graph.constant(model.coef_.T)])
    return graph.node("Add", [product, graph.constant(model.intercept_)])


def _scores_of_each(graph: Graph, model: FairOneVsRestClassifier, inputs: Sequence[Any]) -> str:
    scores = [_SCORES[type(each)](graph, each, inputs) for each in model.estimators_]
    return scores[0] if len(scores) == 1 else as_columns(graph, scores)


def _convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    graph, model = Graph(scope, container), operator.raw_operator
    graph.output(graph.affine(graph.features(operator.inputs), model.coef_, model.intercept_), operator.outputs[0])


def _kernel_score(graph: Graph, model: FairSVC, inputs: Sequence[Any]) -> str:
    X = graph.features(inputs)
    kernel = kernel_matrix(graph, X, model._kernel, model.support_vectors_, model.support_)
    return graph.affine(kernel, model.dual_coef_[0], model.intercept_[0])


def _tree_score(graph: Graph, model: FairTreeClassifier, inputs: Sequence[Any]) -> str:
    heads, last = zip(*(_divided(ensemble) for ensemble in model.estimators_), strict=True)
    splits = [read_splits(ensemble) for ensemble in last]
    parts = [graph.features(inputs) if head is None else graph.transformed(head, inputs) for head in heads]
    parts = [graph.as_single(part) if own.single else part for part, own in zip(parts, splits, strict=True)]
    X = parts[0] if len(parts) == 1 else graph.node("Concat", parts, axis=1)
    widths = [int(ensemble.n_features_in_) for ensemble in last]
    offsets = np.cumsum([0, *widths[:-1]])
    trees = [(tree, int(at)) for own, at in zip(splits, offsets, strict=True) for tree in own.trees]
    sizes = [int((tree.leaf >= 0).sum()) for tree, _ in trees]
    values = np.split(model.coef_[0], np.cumsum(sizes)[:-1])
    sums = sum_of_leaves(graph, X, trees, splits[0].test, values, model.intercept_)
    return graph.vector(graph.doubles(sums))


def _divided(ensemble: Any) -> tuple[Any, Any]:
    """Return the steps before an ensemble, None if there are none, and the ensemble."""
    if not isinstance(ensemble, Pipeline):
        return None, ensemble
    return (ensemble[:-1] if len(ensemble.steps) > 1 else None), ensemble.steps[-1][1]


def _convert_kernel_features(scope: Any, operator: Any, container: Any) -> None:
    graph, model = Graph(scope, container), operator.raw_operator
    X = graph.features(operator.inputs)
    kernel = kernel_matrix(graph, X, model._kernel, model.landmarks_, model.landmark_indices_)
    graph.output(graph.node("MatMul", [kernel, graph.constant(model.basis_)]), operator.outputs[0])


def _convert_leaves(scope: Any, operator: Any, container: Any) -> None:
    """Write the indicators of leaves: a graph of one target per tree gives the number of the leaf."""
    graph, model = Graph(scope, container), operator.raw_operator
    splits = read_splits(model.estimator_)
    X = graph.features(operator.inputs)
    X = graph.as_single(X) if splits.single else X
    sizes = [int((tree.leaf >= 0).sum()) for tree in splits.trees]
    values = [np.arange(size, dtype=float) for size in sizes]
    trees = [(tree, 0) for tree in splits.trees]
    starts = np.cumsum([0, *sizes[:-1]]).astype(np.int64)
    number = graph.integers(sum_of_leaves(graph, X, trees, splits.test, values, np.zeros(len(trees))))
    place = graph.node("Add", [number, graph.constant(starts)])
    one = graph.doubles(graph.node("GreaterOrEqual", [place, graph.constant(np.int64(0))]))
    rows = graph.node("Gather", [graph.node("Shape", [X]), graph.constant(np.array([0]))], axis=0)
    shape = graph.node("Concat", [rows, graph.constant(np.array([int(sum(sizes))]))], axis=0)
    empty = graph.node("Expand", [graph.constant(0.0), shape])
    graph.output(graph.node("ScatterElements", [empty, place, one], axis=1), operator.outputs[0])


def _convert_categories(scope: Any, operator: Any, container: Any) -> None:
    graph = Graph(scope, container)
    graph.output(category_features(graph, operator.raw_operator, _by_name(operator)), operator.outputs[0])


def _convert_table(scope: Any, operator: Any, container: Any) -> None:
    graph = Graph(scope, container)
    graph.output(table_features(graph, operator.raw_operator.encoder, _by_name(operator)), operator.outputs[0])


def _by_name(operator: Any) -> dict[str, str]:
    return {variable.raw_name: variable.full_name for variable in operator.inputs}


_SCORES: dict[type, Score] = {
    FairLogisticRegression: _linear_score,
    FairLinearSVC: _linear_score,
    FairMarginClassifier: _linear_score,
    FairMultinomialLogisticRegression: _multinomial_score,
    FairOneVsRestClassifier: _scores_of_each,
    FairSVC: _kernel_score,
    FairTreeClassifier: _tree_score,
}
_TRANSFORMERS: dict[type, Any] = {
    CategoryEncoder: _convert_categories,
    KernelFeatures: _convert_kernel_features,
    LeafFeatures: _convert_leaves,
    _TableStep: _convert_table,
}
