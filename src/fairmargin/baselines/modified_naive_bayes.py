"""Modified naive Bayes: the prior of the label given z is moved until predictions are balanced.

Calders, T. and Verwer, S. (2010), Three naive Bayes approaches for discrimination-free classification.
"""

from __future__ import annotations

import numpy as np

from fairmargin.baselines._balanced import BalancedNaiveBayes
from fairmargin.baselines._naive_bayes import LogLikelihoods

__all__ = ["ModifiedNaiveBayes"]


class ModifiedNaiveBayes(BalancedNaiveBayes):
    """Naive Bayes ``P(c | s) prod_j P(a_j | c)`` whose P(c | s) is moved until both groups are accepted alike.

    The likelihoods ``P(a_j | c)`` are learned once from everybody. The counts N(s, c) behind ``P(c | s)`` are moved
    in steps as long as the group of the higher share of positive labels (f) also has the higher share of positive
    *predictions* in the training data: where fewer people are predicted positive than are,
    ``N(b, +) += step N(f, -)`` and ``N(b, -) -= step N(f, -)``; otherwise ``N(f, -) += step N(b, +)`` and
    ``N(f, +) -= step N(b, +)``. Which group is favoured is read off the labels, not off the coding of z.

    **The sensitive attribute is needed to decide**: people who differ in z only can be treated differently.

    Parameters
    ----------
    n_bins : int
        Numbers with more different values are cut at this many quantiles.
    smoothing : float, positive
        ``P(a_j | c) = (N(a_j, c) + smoothing / m_j) / (N(c) + smoothing)`` for a column of m_j values; half of it is
        added to each count of labels.
    step : float, positive
        Share of a count that is moved in each step.
    max_iter : int
        Most steps of balancing.
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.

    Attributes
    ----------
    classes_ : ndarray (2,)
        The labels; ``classes_[1]`` is the favourable class.
    sensitive_values_ : ndarray (2,)
        The values of the sensitive attribute, in the order of the rows of ``counts_``.
    counts_ : ndarray (2, 2)
        The balanced counts by group and label.
    discrimination_ : float
        Difference of the groups' positive shares among the training predictions, favoured less deprived.
    n_iter_ : int
        Steps of balancing.

    See Also
    --------
    TwoNaiveBayes : One model per group.
    LatentNaiveBayes : A hidden fair label.

    Examples
    --------
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import ModifiedNaiveBayes
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = ModifiedNaiveBayes().fit(X, y, sensitive_features=z)
    >>> round(p_rule(y, clf.predict(X, sensitive_features=z), sensitive_features=z))
    93
    """

    def _learn(self, codes: np.ndarray, label: np.ndarray, group: np.ndarray) -> list[LogLikelihoods]:
        return 2 * [self._likelihoods_of(codes, label)]
