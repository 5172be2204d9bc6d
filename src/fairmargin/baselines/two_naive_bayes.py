"""Two naive Bayes models, one per group, balanced by the prior of the label given z (CV2NB).

Calders, T. and Verwer, S. (2010), Three naive Bayes approaches for discrimination-free classification.
"""

from __future__ import annotations

import numpy as np

from fairmargin.baselines._balanced import BalancedNaiveBayes
from fairmargin.baselines._naive_bayes import LogLikelihoods

__all__ = ["TwoNaiveBayes"]


class TwoNaiveBayes(BalancedNaiveBayes):
    """One naive Bayes model per group, ``P(c | s) prod_j P(a_j | c, s)``, whose P(c | s) is moved until balanced.

    As `ModifiedNaiveBayes`, but each group has likelihoods of its own, so that no feature is judged by what it
    means in the other group.

    **The sensitive attribute is needed to decide**: people who differ in z only can be treated differently.

    Parameters
    ----------
    n_bins, smoothing, step, max_iter, pos_label
        As in `ModifiedNaiveBayes`.

    Attributes
    ----------
    classes_, sensitive_values_, counts_, discrimination_, n_iter_
        As in `ModifiedNaiveBayes`.

    See Also
    --------
    ModifiedNaiveBayes : One model with changed probabilities.
    LatentNaiveBayes : A hidden fair label.

    Examples
    --------
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import TwoNaiveBayes
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = TwoNaiveBayes().fit(X, y, sensitive_features=z)
    >>> round(p_rule(y, clf.predict(X, sensitive_features=z), sensitive_features=z))
    99
    """

    def _learn(self, codes: np.ndarray, label: np.ndarray, group: np.ndarray) -> list[LogLikelihoods]:
        return [self._likelihoods_of(codes[group == g], label[group == g]) for g in (0, 1)]
