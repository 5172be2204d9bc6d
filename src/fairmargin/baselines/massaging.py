"""Massaging: change the labels of the people nearest the decision boundary until label and z are independent.

Kamiran, F. and Calders, T. (2009), Classifying without discriminating.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from fairmargin.baselines._bases import RankingClassifier
from fairmargin.baselines._groups import positive_targets

__all__ = ["Massaging"]


class Massaging(RankingClassifier):
    """Train any classifier on labels changed, near the boundary, so that they do not depend on z.

    With N people, N_s in group s and ``N_s+`` of these positive, independence asks for ``N_s N_+ / N`` positives in
    group s. Call a group *deprived* that has fewer. A *ranker* trained on the original data scores everybody; in
    each deprived group the missing number of negatives with the highest scores is promoted, in each other group the
    surplus of positives with the lowest scores is demoted. For two groups both numbers are
    ``M = (N_b N_f+ - N_f N_b+) / N``, rounded; the number of positives in all stays as it is. Ties go to the earlier
    row.

    The labels of new people are never changed. Their independence of z in the *training* data does not make the
    decisions independent of z.

    The authors treat one attribute of two values. More values, and several attributes (a group is then a
    combination of values), are an extension of this package by the same rule.

    Parameters
    ----------
    estimator : classifier
        Trained on the changed labels.
    strength : float in [0, 1]
        How much of the way to independence to go; 1 is the method as published, 0 leaves the labels alone.
    ranker : classifier, optional
        Ranks people by ``decision_function`` or ``predict_proba``; by default a clone of ``estimator``. (The authors
        ranked by naive Bayes.)
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
    labels_ : ndarray (n,)
        The labels that the classifier was trained on.
    promoted_, demoted_ : ndarray of int
        Rows whose label was made positive, or negative.

    See Also
    --------
    Reweighing : Weights instead of changed labels.
    PreferentialSampling : Repeats and drops people instead.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import Massaging
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = Massaging(LogisticRegression()).fit(X, y, sensitive_features=z)
    >>> round(p_rule(y, clf.predict(X), sensitive_features=z))
    54
    """

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Massaging:
        """Change labels ``y`` (n,) of ``X`` (n, d) with the help of z (n,) or (n, k), and train on the result."""
        people = self._rank(X, y, sensitive_features)
        label = people.label
        missing = positive_targets(people.totals, people.strength) - people.totals[:, 1]
        changed = [_nearest(people.group == g, label, people.score, count) for g, count in enumerate(missing)]
        self.promoted_ = np.sort(np.concatenate([rows[label[rows] == 0] for rows in changed]))
        self.demoted_ = np.sort(np.concatenate([rows[label[rows] == 1] for rows in changed]))
        label[self.promoted_], label[self.demoted_] = 1, 0
        self.labels_ = people.classes[label]
        self.estimator_ = clone(self.estimator).fit(X, self.labels_)
        self._set_classes(people.classes)
        return self


def _nearest(member: np.ndarray, label: np.ndarray, score: np.ndarray, missing: int) -> np.ndarray:
    """Return the rows of a group to promote (``missing > 0``) or to demote, nearest to the boundary first."""
    rows = np.flatnonzero(member & (label == (0 if missing > 0 else 1)))
    order = np.argsort(-score[rows] if missing > 0 else score[rows], kind="stable")
    return rows[order[: abs(int(missing))]]
