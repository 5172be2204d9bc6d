"""The disparate impact remover: features repaired until their distribution is the same in every group.

Feldman, M., Friedler, S. A., Moeller, J., Scheidegger, C. and Venkatasubramanian, S. (2015), Certifying and removing
disparate impact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fairmargin.baselines._bases import AwareClassifier, wraps_one_with
from fairmargin.baselines._capabilities import Capabilities
from fairmargin.baselines._frames import is_number, read_features
from fairmargin.baselines._groups import Groups, encode_favourable
from fairmargin.baselines._row_chance import draw_by_row
from fairmargin.validation import check_share

__all__ = ["DisparateImpactRemover", "RepairedClassifier"]

_KINDS = ("geometric", "combinatorial")
_TIES = ("random", "middle")


@dataclass(frozen=True)
class _Distribution:
    """The distribution of a number among some people: its different values, and how many people have each."""

    values: np.ndarray
    counts: np.ndarray

    @classmethod
    def learn(cls, sample: np.ndarray) -> _Distribution:
        return cls(*np.unique(sample, return_counts=True))

    @property
    def _spans(self) -> tuple[np.ndarray, np.ndarray]:
        """The ranks, in [0, 1], between which each value lies; every person is 1/n wide."""
        high = np.cumsum(self.counts) / self.counts.sum()
        return high - self.counts / self.counts.sum(), high

    def rank(self, x: np.ndarray, chance: np.ndarray | None = None) -> np.ndarray:
        """Return F(x): the middle of the span of a known value, interpolated between known values.

        With ``chance`` in [0, 1), a value that several people have gets that place in its span instead.
        """
        low, high = self._spans
        ranks = np.interp(x, self.values, 0.5 * (low + high))
        if chance is not None:
            place = np.minimum(np.searchsorted(self.values, x), len(self.values) - 1)
            tied = (self.values[place] == x) & (self.counts[place] > 1)
            drawn = low[place] + (high - low)[place] * chance
            ranks = np.where(tied, drawn, ranks)
        return ranks

    def quantile(self, rank: np.ndarray) -> np.ndarray:
        """Return the value of a rank: flat over the span of a tie, interpolated between single values."""
        low, high = self._spans
        middle = 0.5 * (low + high)
        ends = [np.where(self.counts > 1, end, middle) for end in (low, high)]
        return np.interp(rank, np.column_stack(ends).ravel(), np.repeat(self.values, 2))


@dataclass(frozen=True)
class _NumberRepair:
    """A number's distribution in each group, and in all together."""

    groups: tuple[_Distribution, ...]
    pooled: _Distribution

    @classmethod
    def learn(cls, column: pd.Series, group: np.ndarray, n_groups: int) -> _NumberRepair:
        x = column.to_numpy(dtype=float)
        return cls(tuple(_Distribution.learn(x[group == g]) for g in range(n_groups)), _Distribution.learn(x))

    def apply(self, column: pd.Series, group: np.ndarray, how: _How, chance: np.ndarray) -> pd.Series:
        x = column.to_numpy(dtype=float)
        rank = np.empty(len(x))
        for g, distribution in enumerate(self.groups):
            own = group == g
            rank[own] = distribution.rank(x[own], chance[own, 0] if how.ties == "random" else None)
        full = np.median([distribution.quantile(rank) for distribution in self.groups], axis=0)
        if how.kind == "geometric":
            return pd.Series((1.0 - how.repair) * x + how.repair * full)
        between = (1.0 - how.repair) * self.pooled.rank(x) + how.repair * self.pooled.rank(full)
        return pd.Series(self.pooled.quantile(between))


@dataclass(frozen=True)
class _CategoryRepair:
    """The shares (G, m) of a column's categories in each group, and those (m,) that all are to have: the mean."""

    categories: pd.Index
    shares: np.ndarray

    @classmethod
    def learn(cls, column: pd.Series, group: np.ndarray, n_groups: int) -> _CategoryRepair:
        codes, categories = pd.factorize(column, sort=False)
        known = codes >= 0
        size = len(categories)
        counts = np.bincount(group[known] * size + codes[known], minlength=n_groups * size).reshape(n_groups, size)
        return cls(pd.Index(categories), counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))

    def apply(self, column: pd.Series, group: np.ndarray, how: _How, chance: np.ndarray) -> pd.Series:
        target = self.shares.mean(axis=0)
        codes = self.categories.get_indexer(pd.Index(column))
        repaired = codes.copy()
        for g, shares in enumerate(self.shares):
            # Categories of too large a share in the group give the surplus, at random, to those of too small a one.
            leaving = how.repair * np.divide(
                shares - target, shares, out=np.zeros_like(shares), where=shares > target
            )
            rows = np.flatnonzero((group == g) & (codes >= 0))
            moved = rows[chance[rows, 0] < leaving[codes[rows]]]
            if len(moved):
                repaired[moved] = _choose(np.maximum(target - shares, 0.0), chance[moved, 1])
        values = column.to_numpy(dtype=object).copy()
        changed = repaired != codes
        values[changed] = np.asarray(self.categories, dtype=object)[repaired[changed]]
        return pd.Series(values).astype(column.dtype)


def _choose(weights: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Return places among weights (m,), with probabilities in proportion to them, by numbers (n,) in [0, 1)."""
    high = np.cumsum(weights)
    # A product may round up to the end; the last place of a positive weight is then meant.
    return np.minimum(np.searchsorted(high, chance * high[-1], side="right"), np.flatnonzero(weights)[-1])


@dataclass(frozen=True)
class _How:
    """How far to repair, and in which way."""

    repair: float
    kind: str
    ties: str


class DisparateImpactRemover(TransformerMixin, BaseEstimator):
    """Repair each feature so that its distribution does not depend on the group, and ranks within groups stay.

    With F_s the distribution function of a number in group s, its *target* is the median of the groups' quantile
    functions, and a person's repaired value is the target's value at the person's rank within the own group::

        xbar = median_s F_s^-1(u),   u = F_{s(x)}(x)

    (the middle between both for two groups). A value that many people have spans many ranks. By default each person
    gets a random one of them, which makes the repaired distributions the same even for indicators and columns that
    are mostly zero; ``ties="middle"`` takes the middle rank, without chance and less equal. A category is kept or
    exchanged at random, as rarely as possible, so that every group has the mean of the groups' shares.

    ``repair`` below 1 goes part of the way. ``kind="geometric"``: ``(1 - repair) x + repair xbar``;
    ``kind="combinatorial"``: the same way between the *ranks* of x and xbar among everybody. Exchanged categories
    are exchanged with that probability.

    The distributions are those of the training data; new people are repaired by them. Only the distribution of each
    feature *by itself* is repaired: together, features can still tell the group. Several attributes are treated by
    their combinations.

    **The sensitive attribute is needed to transform**, and hence to decide.

    Parameters
    ----------
    repair : float in [0, 1]
        How far to repair.
    kind : {"geometric", "combinatorial"}
    ties : {"random", "middle"}
    random_state : int, RandomState or None
        Of the ranks within ties and of exchanged categories. With an integer, a person's draws are a hash of it and
        of the person's features: the same table is always repaired in the same way, and nobody's repair depends on
        who else is in the table. People with equal features are told apart by their order in the table; those who
        are transformed one by one get the draws of the first. Where that matters (tables of few indicators alone),
        give a RandomState, or None.

    Attributes
    ----------
    sensitive_values_ : ndarray (G,)
        The groups.

    See Also
    --------
    RepairedClassifier : Repairs features and trains a classifier.

    Examples
    --------
    >>> import numpy as np
    >>> from fairmargin.baselines import DisparateImpactRemover
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)
    >>> gap = lambda X: np.abs(X[z == 1].mean(axis=0) - X[z == 0].mean(axis=0)).max()
    >>> repair = DisparateImpactRemover(random_state=0).fit(X, sensitive_features=z)
    >>> bool(gap(X) > 3), bool(gap(repair.transform(X, sensitive_features=z)) < 0.01)
    (True, True)
    """

    def __init__(
        self, repair: float = 1.0, *, kind: str = "geometric", ties: str = "random", random_state: Any = 0
    ) -> None:
        self.repair = repair
        self.kind = kind
        self.ties = ties
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> DisparateImpactRemover:
        """Learn the distributions in ``X`` (n, d), a matrix or a frame with categories; ``y`` is ignored."""
        self._how()
        groups, group = Groups.learn(sensitive_features, X, method=type(self).__name__)
        frame = read_features(self, X, reset=True)
        kinds = {name: _NumberRepair if is_number(frame[name]) else _CategoryRepair for name in frame}
        self._repairs = [kinds[name].learn(frame[name], group, len(groups.values)) for name in frame]
        self._groups, self.sensitive_values_ = groups, groups.values
        return self

    def transform(self, X: Any, *, sensitive_features: Any = None) -> Any:
        """Return the repaired features (n, d); a frame if ``X`` is one with categories, else an array."""
        check_is_fitted(self)
        group = self._groups.encode(sensitive_features, X, method=f"{type(self).__name__}, to transform,")
        frame, how = read_features(self, X, reset=False), self._how()
        chance = draw_by_row(frame, self.random_state, draws=2)
        repaired = {
            name: repair.apply(frame[name], group, how, chance[:, k])
            for k, (name, repair) in enumerate(zip(frame, self._repairs, strict=True))
        }
        if all(is_number(frame[name]) for name in frame):
            return np.column_stack(list(repaired.values()))
        names = getattr(self, "feature_names_in_", range(frame.shape[1]))
        return pd.DataFrame(repaired).set_axis(list(names), axis=1)

    def fit_transform(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Any:
        """Learn the distributions and return the repaired features."""
        return self.fit(X, y, sensitive_features=sensitive_features).transform(
            X, sensitive_features=sensitive_features
        )

    def _how(self) -> _How:
        for name, known in (("kind", _KINDS), ("ties", _TIES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be {' or '.join(map(repr, known))}, got {getattr(self, name)!r}.")
        check_random_state(self.random_state)
        return _How(check_share(self.repair, "repair"), self.kind, self.ties)


class RepairedClassifier(AwareClassifier):
    """Train any classifier on features that `DisparateImpactRemover` has repaired, and repair before deciding.

    **The sensitive attribute is needed to decide**: the repair of a person depends on the group.

    Parameters
    ----------
    estimator : classifier
        Trained on the repaired features.
    repair, kind, ties, random_state
        As in `DisparateImpactRemover`.
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.

    Attributes
    ----------
    estimator_ : fitted classifier
    remover_ : fitted DisparateImpactRemover
    classes_ : ndarray (2,)
        The labels in sorted order, as the wrapped classifier has them.
    favourable_ : label
        The class that is the positive decision.

    See Also
    --------
    DisparateImpactRemover : The repair as a transformer.
    certify_disparate_impact : Tests whether features can lead to disparate impact.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import RepairedClassifier
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = RepairedClassifier(LogisticRegression(), random_state=0).fit(X, y, sensitive_features=z)
    >>> bool(p_rule(y, clf.predict(X, sensitive_features=z), sensitive_features=z) > 80)
    True
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        avoids_disparate_treatment=False,
        avoids_disparate_impact=True,
        business_necessity=False,
        polyvalent=True,
        multiple=True,
        classifiers="Any",
        needs_z_at_prediction=True,
    )

    def __init__(
        self,
        estimator: Any,
        repair: float = 1.0,
        *,
        kind: str = "geometric",
        ties: str = "random",
        random_state: Any = 0,
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.repair = repair
        self.kind = kind
        self.ties = ties
        self.random_state = random_state
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> RepairedClassifier:
        """Repair ``X`` (n, d) with the help of z (n,) or (n, k), and train on the result and ``y`` (n,)."""
        _, classes = encode_favourable(y, X, self.pos_label)
        remover = DisparateImpactRemover(self.repair, kind=self.kind, ties=self.ties, random_state=self.random_state)
        repaired = remover.fit_transform(X, sensitive_features=sensitive_features)
        self.estimator_ = clone(self.estimator).fit(repaired, y)
        self.remover_, self.classes_, self.favourable_ = remover, np.sort(classes), classes[1]
        self.n_features_in_ = remover.n_features_in_
        if hasattr(remover, "feature_names_in_"):
            self.feature_names_in_ = remover.feature_names_in_
        return self

    def _repaired(self, X: Any, sensitive_features: Any) -> Any:
        check_is_fitted(self)
        if sensitive_features is None:
            raise ValueError("RepairedClassifier, to decide, needs sensitive_features: the repair depends on them.")
        return self.remover_.transform(X, sensitive_features=sensitive_features)

    def predict(self, X: Any, *, sensitive_features: Any = None) -> Any:
        """Predict the class (n,) of each row of ``X`` (n, d), given its values of the sensitive attributes."""
        repaired = self._repaired(X, sensitive_features)
        return self.estimator_.predict(repaired)

    @available_if(wraps_one_with("predict_proba"))
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Any:
        """Predict the probability (n, 2) of each class, given the values of the sensitive attributes."""
        repaired = self._repaired(X, sensitive_features)
        return self.estimator_.predict_proba(repaired)

    @available_if(wraps_one_with("decision_function"))
    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> Any:
        """Return the score (n,) of each row, given the values of the sensitive attributes."""
        repaired = self._repaired(X, sensitive_features)
        return self.estimator_.decision_function(repaired)
