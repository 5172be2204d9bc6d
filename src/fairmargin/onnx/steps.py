"""Steps of scikit-learn before a classifier whose stock graphs would not load, or would decide differently."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from fairmargin.onnx.graph import Graph
from fairmargin.onnx.imputers import count_imputed, imputed, is_missing
from fairmargin.onnx.inputs import to_inputs

__all__ = ["check_runs", "register_steps"]

_COMPARED = 10_000  # rows that are decided twice, of any number given


def register_steps(skl2onnx: Any) -> None:
    """Register converters of imputers and encoders, which call the stock ones where those are right."""
    skl2onnx.update_registered_converter(SimpleImputer, "FairmarginSimpleImputer", _imputer_shapes, _convert_imputer)
    from skl2onnx.operator_converters.one_hot_encoder import convert_sklearn_one_hot_encoder
    from skl2onnx.operator_converters.ordinal_encoder import convert_sklearn_ordinal_encoder
    from skl2onnx.shape_calculators.one_hot_encoder import calculate_sklearn_one_hot_encoder_output_shapes
    from skl2onnx.shape_calculators.ordinal_encoder import calculate_sklearn_ordinal_encoder_output_shapes

    stock = {
        OneHotEncoder: (calculate_sklearn_one_hot_encoder_output_shapes, convert_sklearn_one_hot_encoder),
        OrdinalEncoder: (calculate_sklearn_ordinal_encoder_output_shapes, convert_sklearn_ordinal_encoder),
    }
    for kind, (shapes, convert) in stock.items():
        alias = skl2onnx.get_model_alias(kind)
        skl2onnx.update_registered_converter(kind, alias, shapes, _without_missing(convert))


def check_runs(graph: Any, model: Any, X: Any) -> None:
    """Raise if onnxruntime, where it is installed, cannot run a graph, or scores rows ``X`` as the model does not."""
    try:
        import onnxruntime
    except ImportError:
        return
    try:
        session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime has an exception class per status
        raise ValueError(
            f"onnxruntime cannot load the graph of this model ({_reason(error)}). The classifiers of fairmargin "
            "compute in double precision, which a converter of skl2onnx for one of the other steps does not support; "
            "replace that step, or apply it before the graph."
        ) from error
    predicts = isinstance(model, BaseEstimator) and is_regressor(model)
    if not (predicts or hasattr(model, "decision_function")) or not hasattr(X, "shape") or not X.shape[0]:
        return
    X = X[:_COMPARED]
    try:
        scores = np.asarray(model.predict(X) if predicts else model.decision_function(X))
    except ValueError:  # columns of the right types, but no rows that the model takes
        return
    try:
        (found,) = session.run(["prediction" if predicts else "scores"], to_inputs(graph, X))
    except Exception as error:
        raise ValueError(
            f"onnxruntime cannot run the graph of this model on X ({_reason(error)}); give columns of text, numbers "
            "and booleans to imputers and encoders of their own."
        ) from error
    # Trees of single precision may leave a rounding of that size.
    is_wrong = np.abs(found.reshape(scores.shape) - scores) > 1e-5 * (1.0 + np.abs(scores))
    wrong = int(is_wrong.reshape(len(scores), -1).any(axis=1).sum())
    if wrong:
        raise ValueError(
            f"The ONNX graph of this model gives other scores than the model for {wrong} of {len(scores)} rows of X. "
            "An empty text stands for a missing value in ONNX: replace it by a word before an imputer; or one of the "
            "steps is converted differently by skl2onnx, and has to be applied before the graph."
        )


def _reason(error: Exception) -> str:
    return str(error).rpartition(" : ")[2].strip()


def _without_missing(convert: Any) -> Any:
    """Return a converter that refuses encoders with a category for missing values, which stock graphs misread."""

    def checked(scope: Any, operator: Any, container: Any) -> None:
        encoder = operator.raw_operator
        if any(is_missing(value) for levels in encoder.categories_ for value in np.asarray(levels, dtype=object)):
            raise ValueError(
                f"{type(encoder).__name__} has a category for missing values, which its ONNX graph would not "
                "recognise; put a SimpleImputer before it, or use fairmargin.CategoryEncoder."
            )
        convert(scope, operator, container)

    return checked


def _is_text(operator: Any) -> bool:
    from skl2onnx.common.data_types import StringTensorType

    return isinstance(operator.inputs[0].type, StringTensorType)


def _is_stock(operator: Any) -> bool:
    """Whether the stock graph of an imputer runs: in single precision and for integers."""
    from skl2onnx.common.data_types import DoubleTensorType

    return not (_is_text(operator) or isinstance(operator.inputs[0].type, DoubleTensorType))


def _imputer_shapes(operator: Any) -> None:
    from skl2onnx.shape_calculators.imputer import calculate_sklearn_imputer_output_shapes

    if _is_stock(operator):
        calculate_sklearn_imputer_output_shapes(operator)
    else:
        operator.outputs[0].type.shape = [None, count_imputed(operator.raw_operator)]


def _convert_imputer(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx.operator_converters.imputer_op import convert_sklearn_imputer

    if _is_stock(operator):
        convert_sklearn_imputer(scope, operator, container)
        return
    graph, names = Graph(scope, container), [variable.full_name for variable in operator.inputs]
    X = names[0] if len(names) == 1 else graph.node("Concat", names, axis=1)
    graph.output(imputed(graph, operator.raw_operator, X, text=_is_text(operator)), operator.outputs[0])
