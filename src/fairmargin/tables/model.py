"""A classifier for tables: from rows with named columns to decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.exceptions import DataError
from fairmargin.formatting import shorten
from fairmargin.frames import as_pandas, in_library_of
from fairmargin.tables.encoding import TableEncoder

__all__ = ["TabularModel"]

Array = NDArray[np.float64]

_SHOWN = 4  # columns named in the representation


@dataclass(frozen=True, repr=False)
class TabularModel:
    """A fitted classifier with the encoding of its table: from a frame to decisions, without sensitive columns.

    ``facts`` is plain data for people: settings, scores on held-out data, fingerprint of the training data.
    """

    estimator: Any
    encoder: TableEncoder
    target: str
    labels: tuple[str, str]
    sensitive: tuple[str, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        columns = ", ".join(shorten(c.name, 20) for c in self.encoder.columns[:_SHOWN])
        columns += ", ..." if len(self.encoder.columns) > _SHOWN else ""
        return (
            f"TabularModel({self.estimator!r}, {shorten(self.target, 40)} = {shorten(self.labels[1], 40)} from "
            f"{len(self.encoder.columns)} columns ({columns}), fair to {', '.join(self.sensitive)})"
        )

    def scores(self, frame: Any) -> Array:
        """Return ``f(x)`` of every row of a frame (pandas, polars, pyarrow)."""
        scores = np.asarray(self.estimator.decision_function(self.encoder.compact(as_pandas(frame))))
        wrong = np.flatnonzero(~np.isfinite(scores))
        if len(wrong):
            raise DataError(f"Row {wrong[0] + 1:,} has no finite score under this model; its numbers are too large.")
        return scores

    def decide(self, frame: Any) -> Any:
        """Return decision (as text of the target), score and, if there is one, probability of every row.

        The result is a frame of the same library as the one given.
        """
        scores = self.scores(frame)
        words = np.array(self.labels, dtype=object)[(scores >= 0).astype(int)]
        result = pd.DataFrame({"decision": words, "score": scores})
        if hasattr(self.estimator, "predict_proba"):
            from scipy.special import expit

            result["probability"] = expit(scores)
        return in_library_of(frame, result)

    def reasons(self, frame: pd.DataFrame, n_reasons: int = 4) -> pd.DataFrame:
        """Return the columns that moved each score most towards the decision, and by how much.

        Scores are compared with that of a person with the median of every number and the most frequent value of
        every other column of the training data; exact for linear models (see :mod:`fairmargin.reasons`).
        """
        from fairmargin.reasons import top_reasons
        from fairmargin.tables.explain import column_contributions

        moved = column_contributions(self.encoder, self.estimator, frame)
        return top_reasons(moved, self.scores(frame) >= 0, n_reasons)
