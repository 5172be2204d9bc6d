"""Fitted models as ONNX graphs, which decide without Python: :func:`to_onnx` and :func:`to_inputs`.

Graphs compute in double precision, so that their labels are those of the model and their probabilities agree with it
to rounding. scikit-learn's steps are converted by skl2onnx, the classifiers and encoders of this package by
converters of their own, which :func:`register_converters` makes known to skl2onnx. Install with
``pip install "fairmargin[onnx]"``.
"""

from fairmargin.onnx.conversion import register_converters, to_onnx
from fairmargin.onnx.inputs import to_inputs

__all__ = ["register_converters", "to_inputs", "to_onnx"]
