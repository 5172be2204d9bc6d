"""Reweighing: weigh the training data so that label and z are independent.

Kamiran, F. and Calders, T. (2012), Data preprocessing techniques for classification without discrimination.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _check_sample_weight, has_fit_parameter

from fairmargin.baselines._bases import PreparedClassifier
from fairmargin.baselines._capabilities import Capabilities
from fairmargin.inputs import check_same_order
from fairmargin.validation import check_share

__all__ = ["Reweighing"]


class Reweighing(PreparedClassifier):
    """Train any classifier that takes sample weights on data weighed so that the label does not depend on z.

    A person of group s and label c weighs ``w_sc = N_s N_c / (N N_sc)``, with N people in all, N_s in the
    group, N_c of the label and N_sc of both: what the cell would hold if s and c were independent, over what
    it holds. A ``strength`` below 1 makes it ``1 + strength * (w_sc - 1)``. With ``sample_weight`` the counts are
    sums of weights, and the two weights are multiplied.

    The label's independence of z in the *training* data does not make the decisions independent of z.

    The authors treat one attribute of two values. More values, and several attributes (a group is then a
    combination of values), are an extension of this package by the same rule.

    Parameters
    ----------
    estimator : classifier
        Its ``fit`` takes ``sample_weight``; of a pipeline, the last step's does.
    strength : float in [0, 1]
        How much of the way to independence to go; 1 is the method as published, 0 leaves the weights alone.
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.

    Attributes
    ----------
    estimator_ : fitted classifier
    classes_ : ndarray (2,)
        The labels in sorted order, as the wrapped classifier has them.
    favourable_ : label
        The class that is the positive decision.
    weights_ : ndarray (n,)
        The weight of each row of the training data.

    See Also
    --------
    Massaging : Changes labels instead of weights.
    PreferentialSampling : Repeats and drops people instead.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from fairmargin import p_rule
    >>> from fairmargin.baselines import Reweighing
    >>> from fairmargin.datasets import make_linear_synthetic
    >>> X, y, z = make_linear_synthetic(400, random_state=0)        # without a method the p%-rule is 41
    >>> clf = Reweighing(LogisticRegression()).fit(X, y, sensitive_features=z)
    >>> round(p_rule(y, clf.predict(X), sensitive_features=z))
    43
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        avoids_disparate_treatment=True,
        avoids_disparate_impact=True,
        business_necessity=False,
        polyvalent=True,
        multiple=True,
        classifiers="Any that takes sample weights",
        needs_z_at_prediction=False,
        extensions=("polyvalent", "multiple"),
    )

    def __init__(self, estimator: Any, *, strength: float = 1.0, pos_label: Any = None) -> None:
        self.estimator = estimator
        self.strength = strength
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> Reweighing:
        """Weigh ``X`` (n, d) and ``y`` (n,) with the help of z (n,) or (n, k), and train on the result."""
        strength = check_share(self.strength, "strength")
        check_same_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        people = self._read_people(X, y, sensitive_features, weight=weight)
        totals = people.totals
        expected = np.outer(totals.sum(axis=1), totals.sum(axis=0)) / totals.sum()
        self.weights_ = weight * (1.0 + strength * (expected / totals - 1.0))[people.group, people.label]
        estimator = clone(self.estimator)
        self.estimator_ = estimator.fit(X, y, **{_weight_parameter(estimator): self.weights_})
        self._set_classes(people.classes)
        return self


def _weight_parameter(estimator: Any) -> str:
    """Name of the argument of ``estimator.fit`` that takes the weights."""
    # A pipeline hands arguments to its steps by name, unless the user has asked for metadata routing.
    if isinstance(estimator, Pipeline) and not get_config()["enable_metadata_routing"]:
        name, last = estimator.steps[-1]
        return f"{name}__{_weight_parameter(last)}"
    if not isinstance(estimator, Pipeline) and not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            f"Reweighing needs a classifier that takes sample_weight; {type(estimator).__name__} does not."
        )
    return "sample_weight"
