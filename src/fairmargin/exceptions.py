"""All warning and error classes of the package, in alphabetical order."""

from __future__ import annotations

__all__ = [
    "ApproximationWarning",
    "CovarianceWarning",
    "DataFileError",
    "IndefiniteKernelError",
    "InfeasibleError",
    "ModelFileError",
    "SmallGroupWarning",
    "TrivialClassifierWarning",
    "UnwritableError",
    "WorkError",
]


class ApproximationWarning(UserWarning):
    """A kernel was approximated less closely than requested."""


class CovarianceWarning(UserWarning):
    """The covariance fell, but the disparity of the decisions hardly did."""


class DataFileError(OSError):
    """A data file is not available, or its content is not what it should be."""


class IndefiniteKernelError(ValueError):
    """The kernel is not an inner product."""


class InfeasibleError(ValueError):
    """No classifier was found that satisfies the constraint."""


class ModelFileError(ValueError):
    """A model file cannot be written or read; the message says why in one line."""


class SmallGroupWarning(UserWarning):
    """A group is too small to estimate its positive rate as precisely as the rule requires."""


class TrivialClassifierWarning(UserWarning):
    """The classifier decides the same for everybody, or is no more accurate than one that does."""


class UnwritableError(OSError):
    """A file cannot be written; the message says why in one line."""


class WorkError(RuntimeError):
    """Some units of work failed; the results of the others are kept."""
