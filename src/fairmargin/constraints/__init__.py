"""What can be asked of a classifier: immutable descriptions, free of data.

An estimator takes one as ``constraint=``. What each means is worked out in :mod:`fairmargin.formulations`
once there are data; here are only the words and the checks that need none.
"""

from fairmargin.constraints.base import Constraint
from fairmargin.constraints.covariance import CovarianceBound
from fairmargin.constraints.individual import IndividualLossBound
from fairmargin.constraints.loss import LossBound
from fairmargin.constraints.penalty import CovariancePenalty
from fairmargin.constraints.performance import PerformanceBound
from fairmargin.constraints.prule import PRuleBound

__all__ = [
    "Constraint",
    "CovarianceBound",
    "CovariancePenalty",
    "IndividualLossBound",
    "LossBound",
    "PRuleBound",
    "PerformanceBound",
]
