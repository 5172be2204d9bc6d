"""Notions of fairness: which people count when groups are compared.

A notion is a set of people, which may depend on their labels. Among them, the decisions (or scores) of one group are
compared with those of the others: everybody gives selection rates (disparate impact), the people with ``y = +1`` true
positive rates (equal opportunity), and so on. In a covariance bound a notion replaces ``z_ik - zbar_k`` by

    1{i in S} (z_ik - zbar_k^S),   zbar_k^S the (weighted) mean over S,

and the mean over everybody by the mean over S: a bound ``c`` is about the covariance among the people who count. The
constraint stays linear in ``w`` and free of the intercept, so that no solver knows of notions.

One file per notion. A new one derives from :class:`Notion`, is decorated with :func:`register`, and is imported
here; see CONTRIBUTING.
"""

from fairmargin.notions.base import Notion, get_notion, register
from fairmargin.notions.selection_rate import SelectionRate
from fairmargin.notions.true_positive_rate import TruePositiveRate

__all__ = ["Notion", "SelectionRate", "TruePositiveRate", "get_notion", "register"]
