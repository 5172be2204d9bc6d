"""Names of :mod:`fairmargin.tables.jobs` and :mod:`fairmargin.tables.specifications` under their former address."""

from fairmargin.tables.jobs import trace, train
from fairmargin.tables.specifications import ESTIMATORS, make_estimator, parse_constraint

__all__ = ["ESTIMATORS", "make_estimator", "parse_constraint", "trace", "train"]
