"""Fair classification with convex margin-based classifiers: exact, fast and certified."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairmargin.cards import model_card
    from fairmargin.constraints import (
        CovarianceBound,
        CovariancePenalty,
        IndividualLossBound,
        LossBound,
        PerformanceBound,
        PRuleBound,
    )
    from fairmargin.displays import (
        ErrorRateDisplay,
        FrontierDisplay,
        GainLossDisplay,
        GroupPredictionDisplay,
        GroupRateDisplay,
    )
    from fairmargin.exceptions import (
        ApproximationWarning,
        CovarianceWarning,
        InfeasibleError,
        NotCertifiedError,
        SmallGroupWarning,
        TrivialClassifierWarning,
    )
    from fairmargin.frontier import FairnessFrontier
    from fairmargin.guarantee import Guarantee, certify
    from fairmargin.guarantee.wrapper import CertifiedClassifier
    from fairmargin.intersections import cross_groups
    from fairmargin.kernel import FairSVC, KernelFeatures
    from fairmargin.linear import FairLinearSVC, FairLogisticRegression, FairMarginClassifier
    from fairmargin.membership import Membership
    from fairmargin.metrics import cv_score, decision_boundary_covariance, p_rule, positive_rates
    from fairmargin.multiclass import (
        FairMultinomialLogisticRegression,
        FairOneVsRestClassifier,
        class_p_rules,
        class_rates,
    )
    from fairmargin.regression import CalibrationBound, FairRegressor, GroupMeansBound, RegressionFrontier
    from fairmargin.selection import fair_ranking, fair_top_k
    from fairmargin.trees import FairTreeClassifier, LeafFeatures

__version__ = "0.1.0"

# Where each public name lives. Modules are imported at the first use of one of their names, so that
# `fairmargin --help` need not wait for scikit-learn; keep in step with the imports above.
_HOME = {
    "ApproximationWarning": "exceptions",
    "CalibrationBound": "regression",
    "CategoryEncoder": "categories",
    "CertifiedClassifier": "guarantee.wrapper",
    "CovarianceBound": "constraints",
    "CovariancePenalty": "constraints",
    "CovarianceWarning": "exceptions",
    "ErrorRateDisplay": "displays",
    "FairLinearSVC": "linear",
    "FairLogisticRegression": "linear",
    "FairMarginClassifier": "linear",
    "FairMultinomialLogisticRegression": "multiclass",
    "FairOneVsRestClassifier": "multiclass",
    "FairRegressor": "regression",
    "FairSVC": "kernel",
    "FairTreeClassifier": "trees",
    "FairnessFrontier": "frontier",
    "FrontierDisplay": "displays",
    "GroupMeansBound": "regression",
    "GainLossDisplay": "displays",
    "GroupPredictionDisplay": "displays",
    "GroupRateDisplay": "displays",
    "Guarantee": "guarantee",
    "IndividualLossBound": "constraints",
    "InfeasibleError": "exceptions",
    "KernelFeatures": "kernel",
    "LeafFeatures": "trees",
    "LossBound": "constraints",
    "Membership": "membership",
    "NotCertifiedError": "exceptions",
    "PRuleBound": "constraints",
    "PerformanceBound": "constraints",
    "RegressionFrontier": "regression",
    "SmallGroupWarning": "exceptions",
    "TrivialClassifierWarning": "exceptions",
    "certify": "guarantee",
    "class_p_rules": "multiclass",
    "class_rates": "multiclass",
    "cross_groups": "intersections",
    "cv_score": "metrics",
    "decision_boundary_covariance": "metrics",
    "fair_ranking": "selection",
    "fair_top_k": "selection",
    "model_card": "cards",
    "p_rule": "metrics",
    "positive_rates": "metrics",
}

__all__ = [
    "ApproximationWarning",
    "CalibrationBound",
    "CategoryEncoder",
    "CertifiedClassifier",
    "CovarianceBound",
    "CovariancePenalty",
    "CovarianceWarning",
    "ErrorRateDisplay",
    "FairLinearSVC",
    "FairLogisticRegression",
    "FairMarginClassifier",
    "FairMultinomialLogisticRegression",
    "FairOneVsRestClassifier",
    "FairRegressor",
    "FairSVC",
    "FairTreeClassifier",
    "FairnessFrontier",
    "FrontierDisplay",
    "GainLossDisplay",
    "GroupMeansBound",
    "GroupPredictionDisplay",
    "GroupRateDisplay",
    "Guarantee",
    "IndividualLossBound",
    "InfeasibleError",
    "KernelFeatures",
    "LeafFeatures",
    "LossBound",
    "Membership",
    "NotCertifiedError",
    "PRuleBound",
    "PerformanceBound",
    "RegressionFrontier",
    "SmallGroupWarning",
    "TrivialClassifierWarning",
    "__version__",
    "certify",
    "class_p_rules",
    "class_rates",
    "cross_groups",
    "cv_score",
    "decision_boundary_covariance",
    "fair_ranking",
    "fair_top_k",
    "model_card",
    "p_rule",
    "positive_rates",
]


def __getattr__(name: str) -> Any:
    """Return a public name or module, imported at its first use."""
    if name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name.isidentifier() and not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    modules = (module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    return sorted({*globals(), *__all__, *modules})
