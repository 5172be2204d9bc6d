"""Preferential sampling: resample people near the decision boundary until label and z are independent.

Kamiran, F. and Calders, T. (2010), Classification with no discrimination by preferential sampling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing, indexable

from fairmargin.baselines._bases import RankedPeople, RankingClassifier
from fairmargin.baselines._groups import positive_targets

__all__ = ["PreferentialSampling"]


class PreferentialSampling(RankingClassifier):
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
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.

    Attributes
    ----------
    estimator_, ranker_ : fitted classifiers
    classes_ : ndarray (2,)
        The labels in sorted order, as the wrapped classifier has them.
    favourable_ : label
        The class that is the positive decision.
    copies_ : ndarray (n,) of int
        How often each row of the training data was used.

    See Also
    --------
    Massaging : Changes labels of the same people.
    Reweighing : Weights instead of copies.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import PreferentialSampling
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = PreferentialSampling(LogisticRegression()).fit(X, y, sensitive_features=z)
    >>> round(p_rule(y, clf.predict(X), sensitive_features=z))
    50
    """

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> PreferentialSampling:
        """Resample ``X`` (n, d) and ``y`` (n,) with the help of z (n,) or (n, k), and train on the result."""
        people = self._rank(X, y, sensitive_features)
        self.copies_ = _copies(people)
        rows = np.repeat(np.arange(len(people.label)), self.copies_)
        self.estimator_ = clone(self.estimator).fit(*(_safe_indexing(part, rows) for part in indexable(X, y)))
        self._set_classes(people.classes)
        return self


def _copies(people: RankedPeople) -> np.ndarray:
    """How often each row is to appear (n,)."""
    totals, label = people.totals, people.label
    positives = positive_targets(totals, people.strength)
    targets = np.column_stack([totals.sum(axis=1) - positives, positives])
    copies = np.empty(len(label), dtype=np.int64)
    for g, c in np.ndindex(*totals.shape):
        rows = np.flatnonzero((people.group == g) & (label == c))
        towards_boundary = people.score[rows] if c == 1 else -people.score[rows]
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
