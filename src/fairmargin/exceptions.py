"""All warning and error classes of the package, in alphabetical order."""

from __future__ import annotations

__all__ = [
    "ApproximationWarning",
    "CovarianceWarning",
    "DataError",
    "DataFileError",
    "DisparateTreatmentError",
    "EngineError",
    "FavourableClassWarning",
    "IndefiniteKernelError",
    "InfeasibleError",
    "ModelFileError",
    "NotCertifiedError",
    "SmallGroupWarning",
    "TrivialClassifierWarning",
    "UnwritableError",
    "WorkError",
]


class ApproximationWarning(UserWarning):
    """A kernel was approximated less closely than requested."""


class CovarianceWarning(UserWarning):
    """The covariance fell, but the disparity of the decisions hardly did."""


class DataError(ValueError):
    """A table, or what is asked of it, cannot be used; the message says why in one line.

    Attributes
    ----------
    field : str or None
        Name of the parameter that the error is about, e.g. ``"positive"``, so that a caller can say in its own terms
        (an option, a form field) what to change.
    suggestion : str or None
        A value of that parameter that would help.
    """

    def __init__(self, message: str, *, field: str | None = None, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.suggestion = suggestion


class DataFileError(OSError):
    """A data file is not available, or its content is not what it should be."""


class DisparateTreatmentError(ValueError):
    """A feature is a copy or a recoding of a sensitive attribute.

    Attributes
    ----------
    column : int
        Index of the feature in ``X``.
    attribute : str
        The sensitive attribute and, where it is about one, the category, in words.
    """

    def __init__(self, message: str, *, column: int, attribute: str) -> None:
        super().__init__(message)
        self.column = column
        self.attribute = attribute


class EngineError(RuntimeError):
    """An engine or its workers cannot be reached, or cannot do what they are asked for."""


class FavourableClassWarning(UserWarning):
    """Which of two classes is favourable was not said, and their names do not tell."""


class IndefiniteKernelError(ValueError):
    """The kernel is not an inner product."""


class InfeasibleError(ValueError):
    """No classifier was found that satisfies the constraint."""


class ModelFileError(ValueError):
    """A model file cannot be written or read; the message says why in one line."""


class NotCertifiedError(ValueError):
    """The people set aside do not support the rule at the confidence asked for.

    Attributes
    ----------
    failed : tuple of str
        The comparisons that failed, in words, e.g. ``"sex='Female' against sex='Male'"``.
    people_needed : int or None
        A rough estimate of how many people a test that succeeds four times in five would need, if the rates are as
        seen; None where more people would not help, or the estimate is too uncertain.
    """

    def __init__(self, message: str, *, failed: tuple[str, ...] = (), people_needed: int | None = None) -> None:
        super().__init__(message)
        self.failed = failed
        self.people_needed = people_needed


class SmallGroupWarning(UserWarning):
    """A group is too small to estimate its positive rate as precisely as the rule requires."""


class TrivialClassifierWarning(UserWarning):
    """The classifier decides the same for everybody, or is no more accurate than one that does.

    Of a regressor: it predicts nearly the same for everybody.
    """


class UnwritableError(OSError):
    """A file cannot be written; the message says why in one line."""


class WorkError(RuntimeError):
    """Some units of work failed; the results of the others are kept."""
