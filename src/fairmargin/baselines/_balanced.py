"""The part that the modified and the two naive Bayes models share: training, and decisions that need z."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairmargin.baselines._bases import AwareClassifier
from fairmargin.baselines._capabilities import Capabilities
from fairmargin.baselines._groups import BinaryGroups
from fairmargin.baselines._naive_bayes import (
    DiscreteFeatures,
    LogLikelihoods,
    balance,
    log_odds,
    read_discrete,
)
from fairmargin.validation import check_count, check_number

__all__ = ["BalancedNaiveBayes"]


class BalancedNaiveBayes(AwareClassifier, DiscreteFeatures):
    """Naive Bayes with P(c | s) moved until the training predictions are balanced; subclasses learn likelihoods."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        avoids_disparate_treatment=False,
        avoids_disparate_impact=True,
        business_necessity=False,
        polyvalent=False,
        multiple=False,
        classifiers="Naive Bayes",
        needs_z_at_prediction=True,
    )

    def __init__(
        self,
        *,
        n_bins: int = 10,
        smoothing: float = 1.0,
        step: float = 0.01,
        max_iter: int = 10_000,
        pos_label: Any = None,
    ) -> None:
        self.n_bins = n_bins
        self.smoothing = smoothing
        self.step = step
        self.max_iter = max_iter
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Any:
        """Fit on ``X`` (n, d), a matrix or a frame of numbers and categories, ``y`` (n,) and z (n,)."""
        step = check_number(self.step, "step", positive=True)
        max_iter = check_count(self.max_iter, "max_iter")
        people = self._read_people(X, y, sensitive_features, kind=BinaryGroups)
        self._discretiser, codes = self._discretise(X)
        self._likelihoods = self._learn(codes, people.label, people.group)
        ratio = self._ratios(codes, people.group)
        found = balance(ratio, people.group, people.totals, smoothing=self.smoothing, step=step, max_iter=max_iter)
        self.counts_, self.discrimination_, self.n_iter_ = found.counts, found.discrimination, found.n_iter
        self._know(people)
        return self

    def _learn(self, codes: np.ndarray, label: np.ndarray, group: np.ndarray) -> list[LogLikelihoods]:
        """Return the likelihoods to use for each of the two groups."""
        raise NotImplementedError

    def _likelihoods_of(self, codes: np.ndarray, label: np.ndarray) -> LogLikelihoods:
        return LogLikelihoods.learn(codes, label.astype(float), self._discretiser.sizes, self.smoothing)

    def _ratios(self, codes: np.ndarray, group: np.ndarray) -> np.ndarray:
        ratio = np.empty(len(codes))
        for g in (0, 1):
            ratio[group == g] = self._likelihoods[g].ratios(codes[group == g])
        return ratio

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return the log-odds (n,) of ``classes_[1]``, given the value of the sensitive attribute."""
        check_is_fitted(self)
        group = self._encode_groups(sensitive_features, X)
        codes = read_discrete(self, self._discretiser, X)
        prior = np.array([log_odds(counts, self.smoothing) for counts in self.counts_])
        return self._ratios(codes, group) + prior[group]
