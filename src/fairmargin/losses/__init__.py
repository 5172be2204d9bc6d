"""Margin losses: pointwise, convex and decreasing functions of the margin ``m = y f(x)``.

A loss knows nothing of data, weights or penalties. What the rest of the package asks of one:

==================  =====================================================================
``value(m)``        ``l(m)``, convex, non-increasing, bounded below by ``infimum``
``derivative(m)``   ``l'(m) <= 0`` (for a non-smooth loss, one subgradient)
``second_derivative(m)``  ``l''(m) >= 0``; only smooth losses need it
``inverse(u)``      the smallest ``m`` with ``l(m) <= u``: ``l(m) <= u  <=>  m >= inverse(u)``
==================  =====================================================================

Write your own by deriving from :class:`Loss`; only the first three are required. Decorated with :func:`register`, a
loss is known by its name; all modules of this package are imported. See CONTRIBUTING.
"""

from fairmargin.losses.base import LOSSES, Loss, get_loss, register
from fairmargin.losses.hinges import HingeLoss, SmoothedHingeLoss, SquaredHingeLoss
from fairmargin.losses.logistic import LogisticLoss
from fairmargin.losses.modified_huber import ModifiedHuberLoss
from fairmargin.named import import_modules

__all__ = [
    "LOSSES",
    "HingeLoss",
    "LogisticLoss",
    "Loss",
    "ModifiedHuberLoss",
    "SmoothedHingeLoss",
    "SquaredHingeLoss",
    "get_loss",
    "register",
]

import_modules(__name__, __path__)
