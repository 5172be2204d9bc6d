"""Contributions of a table's columns to a model's scores: all indicators of a column count as one feature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.reasons import add_orders, group_reasons, linear_coefficients
from fairmargin.tables.column_kinds import CategoryColumn, NumberColumn
from fairmargin.tables.encoding import TableEncoder
from fairmargin.tables.model import TabularModel
from fairmargin.tables.study import Study

__all__ = ["column_contributions", "reasons_of_groups", "reference_row"]


def reference_row(encoder: TableEncoder) -> pd.DataFrame:
    """Return the person that others are compared with: medians and most frequent values of the training data."""
    return pd.DataFrame({column.name: [_typical(column)] for column in encoder.columns})


def _typical(column: NumberColumn | CategoryColumn) -> Any:
    return getattr(column, "median" if column.kind == "number" else "reference")


def column_contributions(
    encoder: TableEncoder, estimator: Any, frame: pd.DataFrame, *, n_orders: int = 4, seed: int = 0
) -> pd.DataFrame:
    """Return the contribution of every column to every score, against :func:`reference_row`.

    Exact for estimators that are linear in the encoded columns; by random orders of the columns for the others (see
    :mod:`fairmargin.reasons`).
    """
    people = frame[[column.name for column in encoder.columns]]
    row = reference_row(encoder)
    names = [column.name for column in encoder.columns]
    coefficients = linear_coefficients(estimator, encoder.transform(people.iloc[:5]))
    if coefficients is None:

        def scores(mixed: pd.DataFrame) -> NDArray[np.float64]:
            return np.asarray(estimator.decision_function(encoder.compact(mixed)))

        mixable = people.astype({c.name: object for c in encoder.columns if c.kind == "category"})
        return pd.DataFrame(add_orders(scores, mixable, row, n_orders, seed), columns=names)
    moved = np.empty((len(people), len(names)))
    start = 0
    for k, column in enumerate(encoder.columns):
        stop = start + len(column.features)
        encoded = np.zeros((len(people) + 1, stop - start))
        column.encode(people[column.name].reset_index(drop=True), encoded[:-1])
        column.encode(row[column.name], encoded[-1:])
        moved[:, k] = (encoded[:-1] - encoded[-1]) @ coefficients[start:stop]
        start = stop
    return pd.DataFrame(moved, columns=names)


def reasons_of_groups(model: TabularModel, study: Study, n_reasons: int = 4) -> list[dict[str, Any]]:
    """Return the columns that set the mean scores of groups apart, of the people held out (or of all trained on).

    Nothing for models that are not linear, where contributions of so many people take long and are estimates.
    """
    part = study.test if len(study.test) else study.train
    if linear_coefficients(model.estimator, model.encoder.transform(part.frame.iloc[:5])) is None:
        return []
    moved = column_contributions(model.encoder, model.estimator, part.frame)
    rows = group_reasons(moved, part.sensitive, n_reasons).to_dict("records")
    return [{str(key): value for key, value in row.items()} for row in rows]
