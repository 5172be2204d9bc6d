"""Notions of fairness: which people count when groups are compared, and which of their decisions.

A notion is a set of people S, which may depend on their labels, and a rate among them. Everybody and the positive
decision give selection rates (disparate impact); the people with ``y = +1`` true positive rates (equal opportunity);
both labels one after the other equalised odds; everybody and the wrong decision error rates. In a covariance bound a
notion replaces ``z_ik - zbar_k`` by

    sign_i 1{i in S} (z_ik - zbar_k^S),   zbar_k^S the (weighted) mean over S,

with ``sign_i = -1`` where the negative decision is counted, and the mean over everybody by the mean over S: a bound
``c`` is about the covariance among the people who count. The constraint stays linear in ``w``, so that no solver
knows of notions. Strata (:mod:`fairmargin.strata`) divide S.

One file per notion. A new one derives from :class:`Notion` and is decorated with :func:`register`; all modules of
this package are imported. See CONTRIBUTING.
"""

from fairmargin.named import import_modules
from fairmargin.notions.base import NOTIONS, Condition, Notion, get_notion, register
from fairmargin.notions.compared import Compared, compare
from fairmargin.notions.equalized_odds import EqualizedOdds
from fairmargin.notions.error_rate import ErrorRate
from fairmargin.notions.false_negative_rate import FalseNegativeRate
from fairmargin.notions.false_positive_rate import FalsePositiveRate
from fairmargin.notions.selection_rate import SelectionRate
from fairmargin.notions.true_positive_rate import TruePositiveRate

__all__ = [
    "NOTIONS",
    "Compared",
    "Condition",
    "EqualizedOdds",
    "ErrorRate",
    "FalseNegativeRate",
    "FalsePositiveRate",
    "Notion",
    "SelectionRate",
    "TruePositiveRate",
    "compare",
    "get_notion",
    "register",
]

import_modules(__name__, __path__)
