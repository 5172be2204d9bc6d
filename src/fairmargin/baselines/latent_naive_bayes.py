"""A naive Bayes model with a latent, fair label, learned by expectation maximisation.

Calders, T. and Verwer, S. (2010), Three naive Bayes approaches for discrimination-free classification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fairmargin.baselines._bases import ScoredClassifier, probabilities
from fairmargin.baselines._capabilities import Capabilities
from fairmargin.baselines._groups import BinaryGroups
from fairmargin.baselines._naive_bayes import DiscreteFeatures, LogLikelihoods, read_discrete
from fairmargin.caller import warn
from fairmargin.validation import check_count, check_number

__all__ = ["LatentNaiveBayes"]


@dataclass(frozen=True)
class _Process:
    """How the observed label comes from the latent one: ``P(L = +)`` and ``P(C = + | L, s)`` (2, 2) by s and L."""

    share: float
    observed: np.ndarray

    @classmethod
    def learn(cls, totals: np.ndarray) -> _Process:
        """Fix the process by the shares of positives: b only demoted, f only promoted, L independent of s."""
        share = totals[:, 1].sum() / totals.sum()
        rates = totals[:, 1] / totals.sum(axis=1)
        b, f = np.argsort(rates, kind="stable")
        observed = np.empty((2, 2))
        observed[b] = 0.0, rates[b] / share
        observed[f] = (rates[f] - share) / (1.0 - share), 1.0
        return cls(float(share), observed)

    def log_joint(self, label: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Return ``log P(L, C = c_i | s_i)`` (n, 2) for L = -, +."""
        seen = self.observed[group]
        prior = np.array([1.0 - self.share, self.share])
        with np.errstate(divide="ignore"):
            return np.log(prior * np.where(label[:, None] == 1, seen, 1.0 - seen))


class LatentNaiveBayes(ScoredClassifier, DiscreteFeatures):
    """Naive Bayes for a latent label L that does not depend on z, of which the observed label is a distortion.

    The model is ``P(L) P(s) P(C | L, s) prod_j P(a_j | L)``. Discrimination only demotes people of the deprived
    group b and only promotes people of the favoured group f; with the shares ``pi = P(C = +)`` and
    ``r_s = P(C = + | s)`` that leaves ``P(L = +) = pi`` and ::

        P(C = + | L = +, b) = r_b / pi     P(C = + | L = -, b) = 0
        P(C = + | L = +, f) = 1            P(C = + | L = -, f) = (r_f - pi) / (1 - pi),

    which are fixed. Expectation maximisation, begun at L = C, learns ``P(a_j | L)``. The decision is
    ``P(L = +) prod_j P(a_j | L = +) >= P(L = -) prod_j P(a_j | L = -)``; z is not needed for it. Equal shares of
    positive decisions are not guaranteed where features depend on z given L.

    Parameters
    ----------
    n_bins : int
        Numbers with more different values are cut at this many quantiles.
    smoothing : float, positive
        As in `ModifiedNaiveBayes`.
    tol : float, positive
        Relative change of the logarithm of the posterior at which to stop.
    max_iter : int
        Most iterations.
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.

    Attributes
    ----------
    classes_ : ndarray (2,)
        The labels; ``classes_[1]`` is the favourable class.
    latent_ : ndarray (n,)
        ``P(L = +)`` of each person trained on, given features, group and label.
    log_posteriors_ : ndarray ``(n_iter_,)``
        The logarithm of the posterior, up to a constant, before each iteration; it never falls.
    n_iter_ : int

    See Also
    --------
    ModifiedNaiveBayes : Changes probabilities until rates are equal.
    TwoNaiveBayes : One model per group.

    Examples
    --------
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import LatentNaiveBayes
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = LatentNaiveBayes().fit(X, y, sensitive_features=z)
    >>> bool(p_rule(y, clf.predict(X), sensitive_features=z) > 41)
    True
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        avoids_disparate_treatment=True,
        avoids_disparate_impact=True,
        business_necessity=False,
        polyvalent=False,
        multiple=False,
        classifiers="Naive Bayes",
        needs_z_at_prediction=False,
    )

    def __init__(
        self,
        *,
        n_bins: int = 10,
        smoothing: float = 1.0,
        tol: float = 1e-6,
        max_iter: int = 500,
        pos_label: Any = None,
    ) -> None:
        self.n_bins = n_bins
        self.smoothing = smoothing
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> LatentNaiveBayes:
        """Fit on ``X`` (n, d), a matrix or a frame of numbers and categories, ``y`` (n,) and z (n,)."""
        tol = check_number(self.tol, "tol", positive=True)
        max_iter = check_count(self.max_iter, "max_iter")
        people = self._read_people(X, y, sensitive_features, kind=BinaryGroups)
        self._discretiser, codes = self._discretise(X)
        process = _Process.learn(people.totals)
        self._log_odds = float(np.log(process.share) - np.log1p(-process.share))
        self._maximise(codes, people.label, process.log_joint(people.label, people.group), tol, max_iter)
        self.classes_ = people.classes
        return self

    def _maximise(
        self, codes: np.ndarray, label: np.ndarray, log_joint: np.ndarray, tol: float, max_iter: int
    ) -> None:
        """Alternate between the likelihoods given P(L) of each person, and P(L) given the likelihoods."""
        latent, history = label.astype(float), []
        for _ in range(max_iter):
            self._likelihoods = LogLikelihoods.learn(codes, latent, self._discretiser.sizes, self.smoothing)
            logs = log_joint + self._likelihoods.sums(codes)
            evidence = np.logaddexp(logs[:, 0], logs[:, 1])
            history.append(float(evidence.sum()) + self._likelihoods.log_prior(self.smoothing))
            latent = np.exp(logs[:, 1] - evidence)
            if len(history) > 1 and abs(history[-1] - history[-2]) <= tol * abs(history[-1]):
                break
        else:
            warn(
                f"Expectation maximisation did not converge in {max_iter} iterations.",
                ConvergenceWarning,
            )
        self.latent_, self.log_posteriors_, self.n_iter_ = latent, np.array(history), len(history)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the log-odds (n,) of a positive latent label."""
        check_is_fitted(self)
        return self._log_odds + self._likelihoods.ratios(read_discrete(self, self._discretiser, X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability (n, 2) of each latent label."""
        return probabilities(self.decision_function(X))
