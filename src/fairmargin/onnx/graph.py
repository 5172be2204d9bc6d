"""A few words to write ONNX graphs with, over the scope and container of skl2onnx."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Graph"]


class Graph:
    """The part of a graph that one fitted estimator becomes.

    Parameters
    ----------
    scope, container
        As a converter of skl2onnx gets them.
    """

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope = scope
        self._container = container

    def constant(self, values: Any) -> str:
        """Add a constant and return its name."""
        import onnx

        array = np.asarray(values)
        kinds = {"f": onnx.TensorProto.DOUBLE, "i": onnx.TensorProto.INT64, "b": onnx.TensorProto.BOOL}
        kind = kinds.get(array.dtype.kind, onnx.TensorProto.STRING)
        content = [str(v).encode() for v in array.ravel()] if kind == onnx.TensorProto.STRING else array.ravel()
        name: str = self._scope.get_unique_variable_name("constant")
        self._container.add_initializer(name, kind, list(array.shape), content)
        return name

    def node(self, kind: str, inputs: Sequence[str], *, domain: str = "", **attributes: Any) -> str:
        """Add an operator and return the name of its output."""
        name: str = self._scope.get_unique_variable_name(kind.lower())
        self._container.add_node(
            kind,
            list(inputs),
            [name],
            op_domain=domain,
            name=self._scope.get_unique_operator_name(kind),
            **attributes,
        )
        return name

    def output(self, name: str, variable: Any) -> None:
        """Make an output of the estimator of a result."""
        self._container.add_node(
            "Identity", [name], [variable.full_name], name=self._scope.get_unique_operator_name("Identity")
        )

    def doubles(self, name: str) -> str:
        """Return a tensor in double precision."""
        import onnx

        return self.node("Cast", [name], to=onnx.TensorProto.DOUBLE)

    def integers(self, name: str) -> str:
        """Return a tensor as whole numbers, True as 1."""
        import onnx

        return self.node("Cast", [name], to=onnx.TensorProto.INT64)

    def features(self, variables: Sequence[Any]) -> str:
        """Return input variables as one matrix of doubles."""
        parts = [self.doubles(variable.full_name) for variable in variables]
        return parts[0] if len(parts) == 1 else self.node("Concat", parts, axis=1)

    def transformed(self, steps: Any, variables: Sequence[Any]) -> str:
        """Return what fitted steps of a pipeline make of input variables, in double precision."""
        from skl2onnx.algebra.onnx_operator import OnnxSubEstimator

        inner = OnnxSubEstimator(steps, *variables, op_version=self._container.target_opset)
        inner.add_to(self._scope, self._container)
        return self.doubles(inner.outputs[0].full_name)

    def as_single(self, name: str) -> str:
        """Return doubles rounded to single precision, as libraries that hold features so compare them."""
        import onnx

        return self.doubles(self.node("Cast", [name], to=onnx.TensorProto.FLOAT))

    def vector(self, name: str) -> str:
        """Return a tensor of one column as a vector."""
        return self.node("Reshape", [name, self.constant(np.array([-1]))])

    def affine(self, name: str, coef: NDArray[np.float64], intercept: float) -> str:
        """Return ``x @ coef + intercept``, a vector."""
        return self.node("Add", [self.node("MatMul", [name, self.constant(coef)]), self.constant(float(intercept))])
