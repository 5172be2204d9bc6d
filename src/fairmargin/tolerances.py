"""Numbers that several modules share, with where they come from; those of one algorithm stay with it."""

from __future__ import annotations

import numpy as np

__all__ = ["EPS", "HAIR", "MOST_ROUNDS", "NEAR", "NEARLY_ALL", "PATIENCE", "RIM", "ROUGH", "ROUNDING", "TINY"]

EPS = float(np.finfo(float).eps)  # rounding of one operation, 2.2e-16
TINY = float(np.finfo(float).tiny)  # keeps a denominator from being zero
ROUNDING = 1e-12  # share of its terms below which a difference is rounding: some 5,000 operations' worth
HAIR = 1e-9  # share that is well above rounding and below anything that matters; the default tolerance too
NEAR = 1e-2  # relative gap from which on Newton's method converges fast, and decisions hardly change
ROUGH = 1e-6  # gap of what is searched for rather than solved, or only serves as a reference: still five digits

NEARLY_ALL = 0.995  # share of the people decided alike above which a classifier is as good as constant
PATIENCE = 4  # iterations without progress before an iterative method gives up
RIM = 0.02  # of an interval that a search by secants leaves at either end, lest it creeps
MOST_ROUNDS = 100  # of searches that take about ten: a bisection to the last digit takes 52
