"""Data sets: those of the paper (Adult, Bank, two synthetic ones), COMPAS, and made-up credit applications.

``make_`` functions generate data in code and need no file. The loaders return a :class:`sklearn.utils.Bunch`
with ``data``, ``target`` (1 is the favourable outcome), ``sensitive_features``, ``feature_names``,
``target_names`` and ``DESCR``. Files are looked for in ``$FAIRMARGIN_DATA``, then in the cache, then
downloaded; their SHA-256 is checked wherever they come from.
"""

from fairmargin.datasets._files import DataFileError
from fairmargin.datasets.adult import load_adult
from fairmargin.datasets.bank import load_bank
from fairmargin.datasets.compas import load_compas
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.datasets.synthetic import make_linear_synthetic, make_nonlinear_synthetic

__all__ = [
    "DataFileError",
    "load_adult",
    "load_bank",
    "load_compas",
    "make_credit_demo",
    "make_linear_synthetic",
    "make_nonlinear_synthetic",
]
