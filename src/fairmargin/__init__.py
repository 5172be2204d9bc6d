"""Fair classification with convex margin-based classifiers: exact, fast and certified."""

from fairmargin.constraints import CovarianceBound, IndividualLossBound, LossBound, PRuleBound
from fairmargin.diagnostics import CovarianceWarning
from fairmargin.linear import FairLinearSVC, FairLogisticRegression, FairMarginClassifier
from fairmargin.metrics import cv_score, decision_boundary_covariance, p_rule, positive_rates

__version__ = "0.1.0"

__all__ = [
    "CovarianceBound",
    "CovarianceWarning",
    "FairLinearSVC",
    "FairLogisticRegression",
    "FairMarginClassifier",
    "IndividualLossBound",
    "LossBound",
    "PRuleBound",
    "__version__",
    "cv_score",
    "decision_boundary_covariance",
    "p_rule",
    "positive_rates",
]
