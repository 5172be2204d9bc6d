"""What the three naive Bayes models of Calders and Verwer share: discrete features, likelihoods, balancing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from fairmargin.baselines._frames import is_number, read_features
from fairmargin.caller import warn
from fairmargin.validation import check_count, check_number

__all__ = ["Balance", "DiscreteFeatures", "Discretiser", "LogLikelihoods", "balance", "log_odds", "read_discrete"]


@dataclass(frozen=True)
class Discretiser:
    """How each column becomes a code: inner limits of bins for numbers, the known values of categories.

    Numbers with at most ``n_bins`` different values keep them; the others are cut at quantiles, with frequent values
    apart.
    """

    columns: tuple[tuple[str, np.ndarray | pd.Index], ...]

    @classmethod
    def learn(cls, frame: pd.DataFrame, n_bins: int) -> Discretiser:
        return cls(tuple(_learn_column(frame[name], n_bins) for name in frame))

    @property
    def sizes(self) -> list[int]:
        """Number of values of each column."""
        return [len(found) + (1 if kind == "limits" else 0) for kind, found in self.columns]

    def codes(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the code (n, m) of each value; -1 for a category that was not there in training."""
        return np.column_stack(
            [
                np.searchsorted(found, frame[name].to_numpy(), side="right")
                if kind == "limits"
                else found.get_indexer(_categories(frame[name]))  # type: ignore[union-attr]
                for name, (kind, found) in zip(frame, self.columns, strict=True)
            ]
        )


def _learn_column(column: pd.Series, n_bins: int) -> tuple[str, np.ndarray | pd.Index]:
    if not is_number(column):
        return "values", pd.Index(_categories(column).unique())
    values, counts = np.unique(column.to_numpy(), return_counts=True)
    between = 0.5 * (values[1:] + values[:-1])
    if len(values) <= n_bins:
        return "limits", between
    # A value more frequent than a bin would be has a bin of its own, or it would swallow its neighbours' limits.
    heavy = counts > len(column) / n_bins
    light = np.repeat(values[~heavy], counts[~heavy])
    n_light = max(n_bins - int(heavy.sum()), 1)
    quantiles = np.quantile(light, np.arange(1, n_light) / n_light)
    around = between[heavy[1:] | heavy[:-1]]
    limits = np.unique(np.concatenate([quantiles, around]))
    return "limits", limits[limits > values[0]]


def _categories(column: pd.Series) -> pd.Index:
    """Return the values as objects, with one for all kinds of missing."""
    return pd.Index(column.astype(object).where(column.notna(), "(missing)"))


class DiscreteFeatures(BaseEstimator):
    """Base of the models: the binning of features, and the smoothing of counts."""

    n_bins: int
    smoothing: float

    def _discretise(self, X: Any) -> tuple[Discretiser, np.ndarray]:
        frame = read_features(self, X, reset=True)
        n_bins = check_count(self.n_bins, "n_bins")
        check_number(self.smoothing, "smoothing", positive=True)
        discretiser = Discretiser.learn(frame, n_bins)
        return discretiser, discretiser.codes(frame)


def read_discrete(estimator: Any, discretiser: Discretiser, X: Any) -> np.ndarray:
    """Return the codes (n, m) of new people."""
    return discretiser.codes(read_features(estimator, X, reset=False))


@dataclass(frozen=True)
class LogLikelihoods:
    """``log P(a_j | +)`` and ``log P(a_j | -)`` of every value a_j of every column j, as (2, m_j) tables.

    ``P(a_j | c) = (N(a_j, c) + b / m_j) / (N(c) + b)`` with b the smoothing and m_j the number of values.
    """

    tables: tuple[np.ndarray, ...]

    @classmethod
    def learn(cls, codes: np.ndarray, positive: np.ndarray, sizes: list[int], smoothing: float) -> LogLikelihoods:
        """Learn from codes (n, m) and the weight (n,), in [0, 1], with which each row counts as positive."""
        tables = []
        for column, size in zip(codes.T, sizes, strict=True):
            counts = np.stack([np.bincount(column, weights=w, minlength=size) for w in (1.0 - positive, positive)])
            smoothed = counts + smoothing / size
            tables.append(np.log(smoothed) - np.log(smoothed.sum(axis=1, keepdims=True)))
        return cls(tuple(tables))

    def sums(self, codes: np.ndarray) -> np.ndarray:
        """Return ``sum_j log P(a_j | c)`` (n, 2) for c = -, +; a value never seen says nothing."""
        total = np.zeros((len(codes), 2))
        for column, table in zip(codes.T, self.tables, strict=True):
            total += np.hstack([table, np.zeros((2, 1))]).T[column]
        return total

    def ratios(self, codes: np.ndarray) -> np.ndarray:
        """Return ``sum_j log P(a_j | +) / P(a_j | -)`` (n,)."""
        sums = self.sums(codes)
        return sums[:, 1] - sums[:, 0]

    def log_prior(self, smoothing: float) -> float:
        """Return the logarithm of the Dirichlet prior's density, up to a constant."""
        return float(sum(smoothing / table.shape[1] * table.sum() for table in self.tables))


@dataclass(frozen=True)
class Balance:
    """The result of balancing: counts (2, 2) by group and label, discrimination left, steps taken."""

    counts: np.ndarray
    discrimination: float
    n_iter: int


def balance(
    ratio: np.ndarray, group: np.ndarray, totals: np.ndarray, *, smoothing: float, step: float, max_iter: int
) -> Balance:
    """Move counts N(s, c), which define P(c | s), until the predictions for the training data treat the groups alike.

    With b the group of the lower and f that of the higher share of positive labels, and as long as f has the higher
    share of positive predictions: where fewer people are predicted positive than are,
    ``N(b, +) += step N(f, -)`` and ``N(b, -) -= step N(f, -)``; otherwise ``N(f, -) += step N(b, +)`` and
    ``N(f, +) -= step N(b, +)``. It ends early, with a warning, where a count would not stay positive.

    ``ratio`` (n,) are the log-likelihood ratios, ``totals`` (2, 2) the counts by group and label.
    """
    b, f = np.argsort(totals[:, 1] / totals.sum(axis=1), kind="stable")
    # A step shifts the threshold of one group: with the ratios sorted, a pass over the data is a binary search.
    ordered = [np.sort(ratio[group == g]) for g in (0, 1)]
    counts = totals.astype(float)
    for n_iter in range(max_iter + 1):
        accepted = np.array(
            [len(r) - np.searchsorted(r, -log_odds(counts[g], smoothing)) for g, r in enumerate(ordered)]
        )
        shares = accepted / totals.sum(axis=1)
        discrimination = float(shares[f] - shares[b])
        if discrimination <= 0:
            return Balance(counts, discrimination, n_iter)
        moved = counts.copy()
        if accepted.sum() < totals[:, 1].sum():
            moved[b] += step * counts[f, 0] * np.array([-1.0, 1.0])
        else:
            moved[f] += step * counts[b, 1] * np.array([1.0, -1.0])
        if (moved <= 0).any() or n_iter == max_iter:
            break
        counts = moved
    warn(
        f"Balancing ended after {n_iter} steps with a difference of {discrimination:.3g} between the groups' "
        "positive shares in the training data; no count can be moved further, or max_iter is too small.",
        ConvergenceWarning,
    )
    return Balance(counts, discrimination, n_iter)


def log_odds(counts: np.ndarray, smoothing: float) -> float:
    """Return ``log P(+ | s) / P(- | s)`` from the counts (2,) of a group's labels, half of the smoothing on each."""
    return float(np.log(counts[1] + 0.5 * smoothing) - np.log(counts[0] + 0.5 * smoothing))
