"""The paper's linear synthetic data: unconstrained and fair logistic regression at two thresholds.

Prints a table and writes a picture of data and boundaries to demo/boundaries.png (or to the folder given).
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

from fairmargin import CovarianceBound, FairLogisticRegression, positive_rates
from fairmargin.datasets import make_linear_synthetic

ANGLES = {"π/4": np.pi / 4, "π/8": np.pi / 8}
FACTORS = [None, 0.1, 0.0]  # of the unconstrained covariance; None: no constraint
STYLES = ["-", "--", ":"]
NAMES = ["no bound", "10% of cov.", "zero cov."]
GOOD, BAD, LINE = "#0072B2", "#D55E00", "#222222"  # colour-blind safe


def fit_all(phi):
    X, y, z = make_linear_synthetic(phi=phi, random_state=0)
    fits = []
    for factor in FACTORS:
        constraint = None if factor is None else CovarianceBound(factor, relative=True)
        fits.append(FairLogisticRegression(constraint=constraint).fit(X, y, sensitive_features=z))
    return X, y, z, fits


def add_rows(table, angle, X, y, z, fits):
    for name, clf in zip(NAMES, fits, strict=True):
        rates = positive_rates(y, clf.predict(X), sensitive_features=z)
        low, high = rates["rate"].iloc[0], rates["rate"].iloc[1]
        table.add_row(
            angle,
            name,
            f"{clf.covariance_.iloc[0]:.3f}",
            f"{clf.score(X, y):.3f}",
            f"{low:.0%}",
            f"{high:.0%}",
            f"{100 * min(low, high) / max(low, high):.0f}%",
            f"{clf.certificate_.gap:.0e}",
        )


def draw(ax, angle, X, y, z, fits):
    shown = np.random.default_rng(0).permutation(len(y))[:400]
    for group, marker in ((0, "x"), (1, "o")):
        for label, colour in ((1, GOOD), (-1, BAD)):
            rows = shown[(z[shown] == group) & (y[shown] == label)]
            face = {"facecolors": "none"} if marker == "o" else {}
            ax.scatter(*X[rows].T, marker=marker, s=18, linewidths=0.9, alpha=0.75, **_colour(colour, face))
    span = np.array([-12.0, 12.0])
    for clf, style, name in zip(fits, STYLES, NAMES, strict=True):
        (w1, w2), b = clf.coef_[0], clf.intercept_[0]
        ax.plot(span, -(w1 * span + b) / w2, style, color=LINE, linewidth=2.2, label=name)
    ax.set(xlim=(-11, 9), ylim=(-8, 9), xlabel="feature 1", ylabel="feature 2", title=f"φ = {angle}")


def _colour(colour, face):
    return {"edgecolors": colour, **face} if face else {"color": colour}


def legend_of_points(fig):
    """Say what markers and colours mean, once for both panels."""
    point = plt.Line2D
    handles = [
        point([], [], color=GOOD, marker="s", linestyle="", label="label +1"),
        point([], [], color=BAD, marker="s", linestyle="", label="label -1"),
        point([], [], color="#555", marker="o", fillstyle="none", linestyle="", label="z = 1 (non-protected)"),
        point([], [], color="#555", marker="x", linestyle="", label="z = 0 (protected)"),
    ]
    lines = [point([], [], color=LINE, linestyle=s, label=n) for s, n in zip(STYLES, NAMES, strict=True)]
    fig.legend(handles=handles + lines, loc="outside lower center", ncols=4, frameon=False)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    folder.mkdir(parents=True, exist_ok=True)
    table = Table(title="4,000 people, logistic regression: covariance and positive decisions")
    for column in ("φ", "classifier", "cov.", "accuracy", "+ if z=0", "+ if z=1", "p%-rule", "gap"):
        table.add_column(column, justify="left" if column in ("φ", "classifier") else "right")
    fig, axes = plt.subplots(1, 2, figsize=(11, 5.6), layout="constrained", sharey=True)
    for ax, (angle, phi) in zip(axes, ANGLES.items(), strict=True):
        everything = fit_all(phi)
        add_rows(table, angle, *everything)
        draw(ax, angle, *everything)
        table.add_section()
    axes[1].set_ylabel("")
    legend_of_points(fig)
    path = folder / "boundaries.png"
    fig.savefig(path, dpi=130)
    Console().print(table)
    print(f"Picture of the boundaries: {path}")


if __name__ == "__main__":
    main()
