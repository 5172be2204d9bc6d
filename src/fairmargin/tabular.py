"""The names of :mod:`fairmargin.tables` under their former address."""

from fairmargin.tables import *  # noqa: F403
