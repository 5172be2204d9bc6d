"""
A fair support vector machine with a kernel
===========================================

The paper's non-linear synthetic data. :class:`fairmargin.FairSVC` has the interface of scikit-learn's ``SVC``
and takes every constraint. Zero covariance says little about decisions where the loss ignores everybody beyond
its margin, as the hinge loss does; the logistic loss sees everybody's score.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from fairmargin import CovarianceBound, CovarianceWarning, FairSVC, PRuleBound, p_rule
from fairmargin.datasets import make_nonlinear_synthetic

X, y, z = make_nonlinear_synthetic(800, phi=np.pi / 8, random_state=0)
models = {
    "hinge, unconstrained": FairSVC(constraint=None),
    "hinge, zero covariance": FairSVC(constraint=CovarianceBound(0.0)),
    "logistic, zero covariance": FairSVC(loss="logistic", constraint=CovarianceBound(0.0)),
    "logistic, 80%-rule": FairSVC(loss="logistic", constraint=PRuleBound(80)),
}

# %%
# Shaded green is accepted. The second classifier raises a ``CovarianceWarning``: its covariance is zero, and its
# decisions are about as unequal as before. The picture shows the same.
GREEN, RED = "#1b7837", "#b2182b"
grid = np.meshgrid(np.linspace(-12, 12, 120), np.linspace(-12, 12, 120))
fig, axes = plt.subplots(2, 2, figsize=(8, 8.4), layout="constrained", sharex=True, sharey=True)
for ax, (name, clf) in zip(axes.ravel(), models.items(), strict=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CovarianceWarning)
        clf.fit(X, y, sensitive_features=z)
    rule = p_rule(y, clf.predict(X), sensitive_features=z)
    scores = clf.decision_function(np.column_stack([g.ravel() for g in grid])).reshape(grid[0].shape)
    ax.contourf(*grid, scores >= 0, levels=[-0.5, 0.5, 1.5], colors=[RED, GREEN], alpha=0.15)
    ax.contour(*grid, scores, levels=[0.0], colors="black", linewidths=1.5)
    for label, colour in ((1, GREEN), (-1, RED)):
        for group, marker in ((0, "x"), (1, ".")):
            ax.scatter(*X[(y == label) & (z == group)].T, s=14, marker=marker, color=colour, linewidths=0.8)
    ax.set_title(f"{name}\naccuracy {clf.score(X, y):.1%}, p%-rule {rule:.0f}%", fontsize=10)
    ax.set(xlim=(-12, 12), ylim=(-12, 12))
