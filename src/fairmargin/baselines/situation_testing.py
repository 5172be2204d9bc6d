"""Situation testing by nearest neighbours: who is treated worse than similar people outside the protected group.

Luong, B. T., Ruggieri, S. and Turini, F. (2011), k-NN as an implementation of situation testing for discrimination
discovery and prevention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.tree import DecisionTreeClassifier, export_text
from sklearn.utils.validation import check_is_fitted

from fairmargin.baselines._bases import PreparedClassifier
from fairmargin.baselines._capabilities import Capabilities
from fairmargin.baselines._frames import is_number, read_features
from fairmargin.baselines._groups import BinaryGroups, LabelledGroups, read_people
from fairmargin.baselines._mixed_distance import MixedDistance
from fairmargin.validation import check_count, check_flag, check_number

__all__ = ["SituationTesting", "SituationTestingCorrection"]

_NORMAL_95 = 1.96  # quantile of the normal distribution for a two-sided 95% interval


@dataclass(frozen=True)
class _Question:
    """Checked data: features, labels in {0, 1}, and who is of the protected group."""

    frame: pd.DataFrame
    label: np.ndarray
    classes: np.ndarray
    protected: np.ndarray
    value: Any


class SituationTesting(BaseEstimator):
    """Find the protected people whose neighbours outside their group were decided better than those within.

    For a person of the protected group with the negative decision, ``p1`` is the share of negative decisions among
    the k nearest other protected people, ``p2`` that among the k nearest people outside the group, and
    ``diff = p1 - p2``. The person is *t-discriminated* if ``diff >= t`` (with ``significant``, if
    ``diff - 1.96 sqrt(p1 (1 - p1) / k + p2 (1 - p2) / k) >= t``).

    The distance is a mean over the features: numbers as ``|x - x'|`` over their mean absolute deviation (3 where
    missing), categories 0 or 1 (1 where missing), ordered pandas categories by rank in [0, 1]. Equal distances go to
    the earlier row.

    Parameters
    ----------
    k : int
        Number of neighbours on each side.
    t : float
        Least difference that counts as discrimination.
    protected : value of the sensitive attribute, optional
        The protected group; by default the one with the lower share of positive labels.
    significant : bool
        Whether the difference must exceed t beyond chance.
    max_depth : int
        Depth of the tree that describes the t-discriminated people.
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.

    Attributes
    ----------
    tested_ : ndarray of int
        Rows of the protected people with a negative label.
    differences_ : ndarray
        ``diff`` of each of these.
    discriminated_ : ndarray of int
        Rows of the t-discriminated people.
    protected_ : value of the protected group.
    tree_ : DecisionTreeClassifier
        Tells the t-discriminated from the other protected people.

    See Also
    --------
    SituationTestingCorrection : Trains on corrected labels.

    Examples
    --------
    >>> from fairmargin.baselines import SituationTesting
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)
    >>> found = SituationTesting(t=0.3).fit(X, y, sensitive_features=z)
    >>> 0 < len(found.discriminated_) < len(found.tested_)
    True
    """

    def __init__(
        self,
        *,
        k: int = 32,
        t: float = 0.1,
        protected: Any = None,
        significant: bool = False,
        max_depth: int = 3,
        pos_label: Any = None,
    ) -> None:
        self.k = k
        self.t = t
        self.protected = protected
        self.significant = significant
        self.max_depth = max_depth
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> SituationTesting:
        """Test the people of ``X`` (n, d), a matrix or a frame with categories, with decisions ``y`` (n,)."""
        method = type(self).__name__
        people = read_people(X, y, sensitive_features, pos_label=self.pos_label, method=method, kind=BinaryGroups)
        asked = _read(self, X, people, self.protected)
        self.protected_ = asked.value
        self.tested_, self.differences_, self.discriminated_ = _test(
            asked, k=self.k, t=self.t, significant=self.significant
        )
        self._describe(asked)
        return self

    def _describe(self, asked: _Question) -> None:
        """Fit the tree on the protected people; categories are indicator columns with names for people."""
        names = getattr(self, "feature_names_in_", [f"feature {k}" for k in range(asked.frame.shape[1])])
        frame = asked.frame.loc[asked.protected].set_axis(list(map(str, names)), axis=1)
        words = [name for name in frame if not is_number(frame[name])]
        columns = pd.get_dummies(frame, columns=words, prefix_sep=" is ")
        found = np.zeros(len(asked.label), dtype=bool)
        found[self.discriminated_] = True
        tree = DecisionTreeClassifier(max_depth=check_count(self.max_depth, "max_depth"), random_state=0)
        self.tree_ = tree.fit(columns.to_numpy(dtype=float), found[asked.protected])
        self._tree_columns = list(columns.columns)

    def describe(self) -> str:
        """Return the tree that tells the t-discriminated from the other protected people, as text."""
        check_is_fitted(self)
        return export_text(self.tree_, feature_names=self._tree_columns, show_weights=True)


class SituationTestingCorrection(PreparedClassifier):
    """Train any classifier after giving the t-discriminated people of the training data the positive label.

    See `SituationTesting` for who they are. Labels are only changed from negative to positive: the share of positive
    labels rises, and the groups can still differ.

    Parameters
    ----------
    estimator : classifier
        Trained on the changed labels.
    k, t, protected, significant, pos_label
        As in `SituationTesting`.

    Attributes
    ----------
    estimator_ : fitted classifier
    classes_ : ndarray (2,)
        The labels in sorted order, as the wrapped classifier has them.
    favourable_ : label
        The class that labels were changed to.
    labels_ : ndarray (n,)
        The labels that the classifier was trained on.
    promoted_ : ndarray of int
        Rows whose label was changed.

    See Also
    --------
    SituationTesting : Finds the people whose labels are corrected.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import SituationTestingCorrection
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = SituationTestingCorrection(LogisticRegression(), t=0.3).fit(X, y, sensitive_features=z)
    >>> bool(p_rule(y, clf.predict(X), sensitive_features=z) > 41)
    True
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        avoids_disparate_treatment=True,
        avoids_disparate_impact=False,
        business_necessity=False,
        polyvalent=False,
        multiple=False,
        classifiers="Any score-based",
        needs_z_at_prediction=False,
    )

    def __init__(
        self,
        estimator: Any,
        *,
        k: int = 32,
        t: float = 0.1,
        protected: Any = None,
        significant: bool = False,
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.k = k
        self.t = t
        self.protected = protected
        self.significant = significant
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> SituationTestingCorrection:
        """Change labels ``y`` (n,) of ``X`` (n, d) with the help of z (n,), and train on the result."""
        people = self._read_people(X, y, sensitive_features, kind=BinaryGroups)
        asked = _read(_Columns(), X, people, self.protected)
        _, _, self.promoted_ = _test(asked, k=self.k, t=self.t, significant=self.significant)
        label = asked.label.copy()
        label[self.promoted_] = 1
        self.labels_ = asked.classes[label]
        self.estimator_ = clone(self.estimator).fit(X, self.labels_)
        self._set_classes(asked.classes)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False  # distances are of columns
        return tags


class _Columns(BaseEstimator):
    """Stands for an estimator whose number and names of features are those of the wrapped one."""


def _read(estimator: Any, X: Any, people: LabelledGroups, protected: Any) -> _Question:
    totals, groups = people.totals, people.groups
    code = int(np.argmin(totals[:, 1] / totals.sum(axis=1)))
    if protected is not None:
        known = np.flatnonzero(groups.values == protected)
        if not len(known):
            raise ValueError(f"protected must be a value of {groups.name}, got {protected!r}.")
        code = int(known[0])
    frame = read_features(estimator, X, reset=True, allow_missing=True)
    return _Question(frame, people.label, people.classes, people.group == code, groups.values[code])


def _test(asked: _Question, *, k: Any, t: Any, significant: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows tested, their differences, and the rows of those who are t-discriminated."""
    k, t, significant = check_count(k, "k"), check_number(t, "t"), check_flag(significant, "significant")
    inside, outside = np.flatnonzero(asked.protected), np.flatnonzero(~asked.protected)
    if len(inside) < k + 1 or len(outside) < k:
        raise ValueError(
            f"k = {k} neighbours are needed in each group beside the person tested, but there are {len(inside)} "
            f"protected and {len(outside)} other people; choose a smaller k."
        )
    tested = inside[asked.label[inside] == 0]
    distance = MixedDistance.of(asked.frame)
    negative = asked.label == 0
    p1, p2 = (negative[distance.neighbours(tested, rows, k)].mean(axis=1) for rows in (inside, outside))
    difference = p1 - p2
    chance = _NORMAL_95 * np.sqrt((p1 * (1 - p1) + p2 * (1 - p2)) / k) if significant else 0.0
    # Shares are multiples of 1/k: a difference that equals t must not fail it by rounding.
    return tested, difference, tested[difference - chance >= t - 1e-12]
