"""Several classes: multinomial logistic regression and one-vs-rest under fairness constraints, and their metrics."""

from fairmargin.multiclass.classifier import FairMultinomialLogisticRegression
from fairmargin.multiclass.metrics import class_p_rules, class_rates
from fairmargin.multiclass.one_vs_rest import FairOneVsRestClassifier
from fairmargin.multiclass.screening import audit_classes

__all__ = [
    "FairMultinomialLogisticRegression",
    "FairOneVsRestClassifier",
    "audit_classes",
    "class_p_rules",
    "class_rates",
]
