"""Preferential sampling: resample people near the decision boundary until label and z are independent.

Kamiran, F. and Calders, T. (2010), Classification with no discrimination by preferential sampling.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from fairmargin.baselines._common import (
    Capabilities,
    Groups,
    cell_totals,
    check_share,
    encode_labels,
    positive_targets,
    scores_of,
)
from fairmargin.baselines._meta import PreparedClassifier

__all__ = ["PreferentialSampling"]


class PreferentialSampling(PreparedClassifier):
    """Train any score-based classifier on data resampled so that the label does not depend on z.

    With N people, N_s in group s, N_c of label c and N_sc of both, independence asks for
    ``E_sc = N_s N_c / N`` people in each cell. Call *deprived* a group with fewer positives than that. Then

    - the positives of a deprived group and the negatives of the others are too few, and grow by duplicating people,
    - the negatives of a deprived group and the positives of the others are too many, and lose people,

    until cell (s, c) has ``N_sc + strength * (E_sc - N_sc)``, rounded so that group and class sizes stay as they
    are. The people to duplicate or drop are those nearest the decision boundary of a *ranker* trained on the
    original data: positives of the lowest score, negatives of the highest. A cell that must more than double is
    duplicated as a whole first. Ties go to the earlier row, so that the result is deterministic.

    The label's independence of z in the *training* data does not make the decisions independent of z.

    The authors treat one attribute of two values. More values, and several attributes (a group is then a
    combination of values), are an extension of this package by the same rule.

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
        polyvalent=True,
        multiple=True,
        classifiers="Any score-based",
        needs_z_at_prediction=False,
        extensions=("polyvalent", "multiple"),
    )

    def __init__(self, estimator: Any, *, strength: float = 1.0, ranker: Any = None) -> None:
        self.estimator = estimator
        self.strength = strength
        self.ranker = ranker

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> PreferentialSampling:
        """Resample ``X`` (n, d) and ``y`` (n,) with the help of z (n,) or (n, k), and train on the result."""
        strength = check_share(self.strength, "strength")
        label, classes = encode_labels(y, X)
        groups, group = Groups.learn(sensitive_features, X, method=type(self).__name__)
        totals = cell_totals(group, label, groups, classes)
        self.ranker_ = clone(self.estimator if self.ranker is None else self.ranker).fit(X, y)
        score = scores_of(self.ranker_, X, method=type(self).__name__)
        self.copies_ = _copies(group, label, score, totals, strength)
        rows = np.repeat(np.arange(len(label)), self.copies_)
        self.estimator_ = clone(self.estimator).fit(_safe_indexing(X, rows), _safe_indexing(y, rows))
        self.classes_ = classes
        return self


def _copies(
    group: np.ndarray, label: np.ndarray, score: np.ndarray, totals: np.ndarray, strength: float
) -> np.ndarray:
    """How often each row is to appear (n,), given the cell sizes ``totals`` (G, 2) by group and label."""
    positives = positive_targets(totals, strength)
    targets = np.column_stack([totals.sum(axis=1) - positives, positives])
    copies = np.empty(len(label), dtype=np.int64)
    for g, c in np.ndindex(*totals.shape):
        rows = np.flatnonzero((group == g) & (label == c))
        towards_boundary = score[rows] if c == 1 else -score[rows]
        nearest_first = np.argsort(towards_boundary, kind="stable")
        size = int(targets[g, c])
        copies[rows[nearest_first]] = _spread(size, len(rows), extra_first=size > len(rows))
    return copies


def _spread(size: int, n_rows: int, *, extra_first: bool) -> np.ndarray:
    """Spread ``size`` copies over rows in order; the odd ones out are the first rows, or else the last."""
    whole, extra = divmod(size, n_rows)
    copies = np.full(n_rows, whole)
    copies[slice(extra) if extra_first else slice(n_rows - extra, n_rows)] += 1
    return copies
