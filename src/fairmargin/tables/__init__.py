"""From a file to decisions: reading tables, groups, encoding, studies, models and their files.

:mod:`fairmargin.tables.jobs` trains and traces on a study; :mod:`fairmargin.io` saves and loads models.
"""

from __future__ import annotations

from fairmargin.exceptions import DataError
from fairmargin.tables.columns import find_column
from fairmargin.tables.encoding import TableEncoder
from fairmargin.tables.groups import group_column
from fairmargin.tables.model import TabularModel
from fairmargin.tables.reader import Table, read_table, table_of_frame
from fairmargin.tables.study import Study, prepare
from fairmargin.tables.target import read_target

__all__ = [
    "DataError",
    "Study",
    "Table",
    "TableEncoder",
    "TabularModel",
    "find_column",
    "group_column",
    "prepare",
    "read_table",
    "read_target",
    "table_of_frame",
]
