"""
How a fairness constraint turns a decision boundary
===================================================

The paper's synthetic data: two features, a label, and a sensitive attribute ``z`` that is correlated with the
label. The smaller the angle φ, the stronger the correlation, and the more a fair classifier has to give up.
"""

import matplotlib.pyplot as plt
import numpy as np

from fairmargin import CovarianceBound, FairLogisticRegression, p_rule
from fairmargin.datasets import make_linear_synthetic

# %%
# Three classifiers per data set: without a constraint, with at most 10% of the unconstrained classifier's covariance,
# and with zero covariance between ``z`` and the distance to the boundary.
CONSTRAINTS = {
    "unconstrained": None,
    "10% of the covariance": CovarianceBound(0.1, relative=True),
    "zero covariance": CovarianceBound(0.0),
}
STYLES = ["-", "--", ":"]
GOOD, BAD = "#0072B2", "#D55E00"


def draw_people(ax, X, y, z):
    for label, colour in ((1, GOOD), (-1, BAD)):
        for group, marker in ((0, "x"), (1, "o")):
            rows = np.flatnonzero((y == label) & (z == group))[:100]
            colours = {"facecolors": "none", "edgecolors": colour} if marker == "o" else {"color": colour}
            ax.scatter(*X[rows].T, marker=marker, s=16, linewidths=0.9, alpha=0.7, **colours)


def draw_boundary(ax, clf, style, name):
    span = np.array([-12.0, 12.0])
    (w1, w2), b = clf.coef_[0], clf.intercept_[0]
    ax.plot(span, -(w1 * span + b) / w2, style, color="#222222", linewidth=2, label=name)


# %%
# Crosses are people with ``z = 0``, circles with ``z = 1``; blue is the favourable label.
fig, axes = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained", sharey=True)
for ax, (name, phi) in zip(axes, {"π/4": np.pi / 4, "π/8": np.pi / 8}.items(), strict=True):
    X, y, z = make_linear_synthetic(phi=phi, random_state=0)
    draw_people(ax, X, y, z)
    for style, (asked, constraint) in zip(STYLES, CONSTRAINTS.items(), strict=True):
        clf = FairLogisticRegression(constraint=constraint).fit(X, y, sensitive_features=z)
        rule = p_rule(y, clf.predict(X), sensitive_features=z)
        print(f"φ = {name}, {asked:22} accuracy {clf.score(X, y):.1%}  p%-rule {rule:3.0f}%")
        draw_boundary(ax, clf, style, f"{asked}: p%-rule {rule:.0f}%")
    ax.set(xlim=(-11, 9), ylim=(-8, 9), xlabel="feature 1", title=f"φ = {name}")
    ax.legend(loc="lower left", fontsize=8)
axes[0].set_ylabel("feature 2")
