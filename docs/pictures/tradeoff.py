"""Measure and draw the picture of the README: accuracy against the p%-rule on Adult, beside fairlearn.

    python docs/pictures/tradeoff.py            # two minutes; writes tradeoff.png beside this file

Adult, sex, 70% training and 30% test people of one split, logistic regression with C = 1 for everybody. Every
point is what people not trained on see. fairlearn's ExponentiatedGradient is a random mixture of classifiers,
of which the mean over ten draws of the decisions is shown; ThresholdOptimizer needs the sensitive attribute to
decide.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from fairmargin import FairLogisticRegression, FairnessFrontier, TrivialClassifierWarning, p_rule
from fairmargin.datasets import load_adult

SLACKS = (0.12, 0.09, 0.06, 0.04, 0.02, 0.01, 0.002)  # bounds on the difference of positive rates
DRAWS = 10
OURS, THEIRS, AWARE = "#0072B2", "#D55E00", "#777777"


def measure():
    """Return the points of each method as (p%-rule, accuracy) in percent, and CPU seconds."""
    adult = load_adult(encoded=True)
    split = train_test_split(adult.data, adult.target, adult.sensitive_features["sex"], test_size=0.3, random_state=0)
    X, X_test, y, y_test, z, z_test = split

    def judge(decisions):
        return p_rule(y_test, decisions, sensitive_features=z_test), 100 * np.mean(decisions == y_test)

    points, seconds = {}, {}
    started = time.process_time()
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=15, which="p_rule", levels=[98])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrivialClassifierWarning)  # at 100% nobody is accepted; that is no point
        frontier.fit(X, y, sensitive_features=z)
    seconds["fairmargin"] = time.process_time() - started
    decided = [clf.predict(X_test) for clf in frontier.estimators_]
    points["fairmargin"] = [judge(decisions) for decisions in decided if len(np.unique(decisions)) == 2]

    base = LogisticRegression(solver="newton-cholesky")
    started = time.process_time()
    mixtures = []
    for slack in SLACKS:
        model = ExponentiatedGradient(base, DemographicParity(difference_bound=slack), eps=min(0.01, slack / 2))
        mixtures.append(model.fit(X, y, sensitive_features=z))
    seconds["ExponentiatedGradient"] = time.process_time() - started
    points["ExponentiatedGradient"] = [
        np.mean([judge(model.predict(X_test, random_state=seed)) for seed in range(DRAWS)], axis=0)
        for model in mixtures
    ]
    started = time.process_time()
    aware = ThresholdOptimizer(estimator=base, constraints="demographic_parity", predict_method="predict_proba")
    aware.fit(X, y, sensitive_features=z)
    seconds["ThresholdOptimizer"] = time.process_time() - started
    points["ThresholdOptimizer"] = [
        np.mean(
            [judge(aware.predict(X_test, sensitive_features=z_test, random_state=s)) for s in range(DRAWS)], axis=0
        )
    ]
    return points, seconds


def draw(points, path):
    """Write the picture."""
    fig, ax = plt.subplots(figsize=(7.2, 4.1), layout="constrained")
    styles = {
        "fairmargin": ("o-", OURS, "fairmargin: one classifier per point"),
        "ExponentiatedGradient": ("s--", THEIRS, "fairlearn ExponentiatedGradient: a random mixture"),
        "ThresholdOptimizer": ("^", AWARE, "fairlearn ThresholdOptimizer: decides by sex"),
    }
    for name, (style, colour, label) in styles.items():
        ax.plot(*np.array(points[name]).T, style, color=colour, label=label, markersize=5, linewidth=1.8)
    ax.axvline(80, color="#bbbbbb", linewidth=1, zorder=0)
    ax.annotate("80%-rule", (80, ax.get_ylim()[1]), (4, -12), textcoords="offset points", color="#555555")
    ax.set(xlabel="p%-rule between the sexes, people not trained on", ylabel="accuracy in percent")
    ax.set_title("Adult, logistic regression, held-out people", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="lower left")
    fig.savefig(path, dpi=110)


def main():
    """Measure, print and draw."""
    points, seconds = measure()
    for name, rows in points.items():
        print(f"{name}: {seconds[name]:.1f} CPU seconds for {len(rows)} points")
        for rule, accuracy in rows:
            print(f"   p%-rule {rule:6.1f}   accuracy {accuracy:6.2f}")
    draw(points, Path(__file__).with_name("tradeoff.png"))


if __name__ == "__main__":
    main()
