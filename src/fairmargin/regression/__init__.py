"""Fair regression: squared, Huber and quantile losses under bounds on covariances, group means and mean residuals."""

from fairmargin.regression.bounds import CalibrationBound, GroupMeansBound
from fairmargin.regression.frontier import RegressionFrontier
from fairmargin.regression.regressor import FairRegressor

__all__ = ["CalibrationBound", "FairRegressor", "GroupMeansBound", "RegressionFrontier"]
