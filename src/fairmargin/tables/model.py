"""A classifier for tables: from rows with named columns to decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.exceptions import DataError
from fairmargin.tables.encoding import TableEncoder

__all__ = ["TabularModel"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
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

    def scores(self, frame: pd.DataFrame) -> Array:
        """Return ``f(x)`` of every row."""
        scores = np.asarray(self.estimator.decision_function(self.encoder.compact(frame)))
        wrong = np.flatnonzero(~np.isfinite(scores))
        if len(wrong):
            raise DataError(f"Row {wrong[0] + 1:,} has no finite score under this model; its numbers are too large.")
        return scores

    def decide(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return decision (as text of the target), score and, if there is one, probability of every row."""
        scores = self.scores(frame)
        words = np.array(self.labels, dtype=object)[(scores >= 0).astype(int)]
        result = pd.DataFrame({"decision": words, "score": scores})
        if hasattr(self.estimator, "predict_proba"):
            from scipy.special import expit

            result["probability"] = expit(scores)
        return result
