"""Preferential sampling: resample people near the decision boundary until label and z are independent.

Kamiran, F. and Calders, T. (2010), Classification with no discrimination by preferential sampling.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from fairmargin.baselines._common import BinaryGroups, Capabilities, cell_totals, encode_labels
from fairmargin.baselines._meta import PreparedClassifier

__all__ = ["PreferentialSampling"]


class PreferentialSampling(PreparedClassifier):
    """Train any score-based classifier on data resampled so that the label does not depend on z.

    With N people, N_s in group s, N_c of label c and N_sc of both, independence asks for
    ``E_sc = N_s N_c / N`` people in each cell. Call *deprived* the group with the lower share of positives.
    Then

    - the deprived positives and the favoured negatives are too few by m, and grow by duplicating people,
    - the deprived negatives and the favoured positives are too many by m, and lose people,

    where ``m = strength * |N_1 N_0+ - N_0 N_1+| / N``, rounded. Group and class sizes stay as they are. The
    people to duplicate or drop are those nearest the decision boundary of a *ranker* trained on the original
    data: positives of the lowest score, negatives of the highest. A cell that must more than double is
    duplicated as a whole first. Ties go to the earlier row, so that the result is deterministic.

    The label's independence of z in the *training* data does not make the decisions independent of z.

    Parameters
    ----------
    estimator : classifier
        Anything with ``decision_function`` or ``predict_proba``. Trained on the resampled data.
    strength : float in [0, 1]
        How much of the way to independence to go; 1 is the method as published, 0 leaves the data alone.
    ranker : classifier, optional
        Ranks people by their score; by default a clone of ``estimator``.

    Attributes
    ----------
    estimator_, ranker_ : fitted classifiers
    classes_ : ndarray (2,)
        The labels; ``classes_[1]`` is the positive class.
    copies_ : ndarray (n,) of int
        How often each row of the training data was used.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        avoids_disparate_treatment=True,
        avoids_disparate_impact=True,
        business_necessity=False,
        polyvalent=False,
        multiple=False,
        classifiers="Any score-based",
        needs_z_at_prediction=False,
    )

    def __init__(self, estimator: Any, *, strength: float = 1.0, ranker: Any = None) -> None:
        self.estimator = estimator
        self.strength = strength
        self.ranker = ranker

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> PreferentialSampling:
        """Resample ``X`` (n, d) and ``y`` (n,) with the help of z (n,), and train on the result."""
        strength = _checked_strength(self.strength)
        label, classes = encode_labels(y, X)
        groups, group = BinaryGroups.learn(sensitive_features, X, method=type(self).__name__)
        totals = cell_totals(group, label, groups, classes)
        self.ranker_ = clone(self.estimator if self.ranker is None else self.ranker).fit(X, y)
        self.copies_ = _copies(group, label, _score(self.ranker_, X), totals, strength)
        rows = np.repeat(np.arange(len(label)), self.copies_)
        self.estimator_ = clone(self.estimator).fit(_safe_indexing(X, rows), _safe_indexing(y, rows))
        self.classes_ = classes
        return self


def _checked_strength(strength: Any) -> float:
    if not isinstance(strength, Real) or not 0 <= float(strength) <= 1:
        raise ValueError(f"strength must be a number between 0 and 1, got {strength!r}.")
    return float(strength)


def _score(ranker: Any, X: Any) -> np.ndarray:
    """Score (n,) of each row, higher for the positive class."""
    if hasattr(ranker, "decision_function"):
        return np.asarray(ranker.decision_function(X))
    if hasattr(ranker, "predict_proba"):
        return np.asarray(ranker.predict_proba(X))[:, 1]
    raise ValueError(
        f"PreferentialSampling needs a score-based classifier, but {type(ranker).__name__} has neither "
        "decision_function nor predict_proba."
    )


def _copies(
    group: np.ndarray, label: np.ndarray, score: np.ndarray, totals: np.ndarray, strength: float
) -> np.ndarray:
    """How often each row is to appear (n,), given the cell sizes ``totals`` (2, 2) by group and label."""
    deprived = int(np.argmin(totals[:, 1] / totals.sum(axis=1)))
    surplus = totals[deprived].sum() * totals[1 - deprived, 1] - totals[1 - deprived].sum() * totals[deprived, 1]
    shift = int(np.rint(strength * surplus / totals.sum()))
    copies = np.empty(len(label), dtype=np.int64)
    for g in (0, 1):
        for c in (0, 1):
            rows = np.flatnonzero((group == g) & (label == c))
            # The same shift with alternating sign keeps the sizes of groups and of classes.
            grows = (g == deprived) == (c == 1)
            size = len(rows) + (shift if grows else -shift)
            towards_boundary = score[rows] if c == 1 else -score[rows]
            nearest_first = np.argsort(towards_boundary, kind="stable")
            copies[rows[nearest_first]] = _spread(size, len(rows), extra_first=grows)
    return copies


def _spread(size: int, n_rows: int, *, extra_first: bool) -> np.ndarray:
    """Spread ``size`` copies over rows in order; the odd ones out are the first rows, or else the last."""
    whole, extra = divmod(size, n_rows)
    copies = np.full(n_rows, whole)
    copies[slice(extra) if extra_first else slice(n_rows - extra, n_rows)] += 1
    return copies
