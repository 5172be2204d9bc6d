"""The paper's picture of a fair non-linear SVM: decision regions without and with zero covariance.

Draws the appendix's synthetic data for two angles, trains an RBF SVM with and without the constraint, prints
accuracy and p%-rule, and writes the regions as a picture.

    python examples/nonlinear.py [nonlinear.png]
"""

import math
import sys
import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from fairmargin import CovarianceBound, CovarianceWarning, FairSVC, p_rule
from fairmargin.datasets import make_nonlinear_synthetic

ANGLES = {"π/4": math.pi / 4, "π/8": math.pi / 8}
POSITIVE, NEGATIVE = "#1b7837", "#b2182b"


def main(path="nonlinear.png"):
    figure, axes = plt.subplots(2, 3, figsize=(12, 8.2), sharex=True, sharey=True, layout="constrained")
    print(
        f"{'phi':>5} {'loss':>9} {'constraint':>12} {'accuracy':>9} {'p%-rule':>8} {'covariance':>11} {'people':>7}"
    )
    for row, (name, phi) in zip(axes, ANGLES.items(), strict=True):
        X, y, z = make_nonlinear_synthetic(4000, phi=phi, random_state=0)
        for ax, loss, constraint in zip(row, ("hinge", "hinge", "logistic"), (None, 0.0, 0.0), strict=True):
            clf = FairSVC(loss=loss, constraint=None if constraint is None else CovarianceBound(constraint))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CovarianceWarning)  # told below, in numbers
                clf.fit(X, y, sensitive_features=z)
            decided = clf.predict(X)
            accuracy, rule = np.mean(decided == y), p_rule(y, decided, sensitive_features=z)
            asked = "none" if constraint is None else f"|cov| <= {constraint:g}"
            cov = float(clf.covariance_.iloc[0])
            print(f"{name:>5} {loss:>9} {asked:>12} {accuracy:9.3f} {rule:7.0f}% {cov:11.4f} {len(clf.support_):7d}")
            kind = "SVM" if loss == "hinge" else "logistic"
            title = f"φ = {name}, {kind}, {'unconstrained' if constraint is None else 'zero covariance'}"
            draw(ax, clf, X, y, z, f"{title}\naccuracy {accuracy:.1%}, p%-rule {rule:.0f}%")
    handles = [
        plt.Line2D(
            [], [], linestyle="", marker=marker, color=colour, markerfacecolor="none", label=f"{label}, {group}"
        )
        for colour, label in ((POSITIVE, "y = +1"), (NEGATIVE, "y = −1"))
        for marker, group in (("x", "z = 0"), ("o", "z = 1"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


def draw(ax, clf, X, y, z, title):
    low, high = np.array([-12.0, -12.0]), np.array([12.0, 12.0])
    grid = np.meshgrid(*(np.linspace(a, b, 250) for a, b in zip(low, high, strict=True)))
    scores = clf.decision_function(np.column_stack([g.ravel() for g in grid])).reshape(grid[0].shape)
    ax.contourf(*grid, scores >= 0, levels=[-0.5, 0.5, 1.5], colors=[NEGATIVE, POSITIVE], alpha=0.15)
    ax.contour(*grid, scores, levels=[0.0], colors="black", linewidths=1.5)
    shown = np.arange(len(y)) < 500
    for label, colour in ((1, POSITIVE), (-1, NEGATIVE)):
        for group, marker in ((0, "x"), (1, "o")):
            at = X[shown & (y == label) & (z == group)]
            face = {"facecolors": "none"} if marker == "o" else {}
            ax.scatter(at[:, 0], at[:, 1], s=14, marker=marker, linewidths=0.8, **_colour(colour, face))
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.set_title(title, fontsize=10)


def _colour(colour, face):
    return {"edgecolors": colour, **face} if face else {"color": colour}


if __name__ == "__main__":
    main(*sys.argv[1:])
