"""Every notion of fairness as a target, beside fairlearn's ExponentiatedGradient with the corresponding moment.

    python bench/notions.py --splits 5        # into bench/NOTIONS.md and bench/plots/; about two minutes per split

ExponentiatedGradient runs first, for two of its bounds; its largest difference of expected rates on the training
people is then the ``difference`` of our ``PRuleBound``. Accuracies of its randomised classifier are expected ones.
Times are CPU seconds of one process with one thread.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from people import load, split
from threadpoolctl import threadpool_limits

from fairmargin import FairLogisticRegression, FairnessFrontier, PRuleBound, positive_rates
from fairmargin.notions import get_notion

MOMENTS = {
    "true_positive_rate": "TruePositiveRateParity",
    "false_positive_rate": "FalsePositiveRateParity",
    "equalized_odds": "EqualizedOdds",
    "error_rate": "ErrorRateParity",
}
BOUNDS = (0.03, 0.01)  # of fairlearn: each group's rate against everybody's
SETS = {"Adult, sex": ("Adult", "sex"), "COMPAS, race": ("COMPAS", "race")}
FOLDER = Path(__file__).resolve().parent
FILE, FIGURE = FOLDER / "NOTIONS.md", FOLDER / "plots" / "compas_mistreatment.png"
T_95 = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 10: 2.262}  # two-sided, n - 1 degrees of freedom


def timed(work):
    start = time.process_time()
    return work(), time.process_time() - start


def difference(people, accepted, notion):
    """Return the largest difference of (expected) rates between the two groups."""
    found = []
    for condition in get_notion(notion).conditions(people.signed):
        events = np.where(condition.sign > 0, accepted, 1.0 - accepted)
        rates = [events[condition.counts & (people.z01 == group)].mean() for group in (0, 1)]
        found.append(abs(rates[1] - rates[0]))
    return max(found)


def accuracy(people, accepted):
    return float(np.where(people.y == 1, accepted, 1.0 - accepted).mean())


def gradient(train, notion, bound):
    """Return the expected decisions of fairlearn's classifier as a function, and its CPU time."""
    import fairlearn.reductions
    from sklearn.linear_model import LogisticRegression

    moment = getattr(fairlearn.reductions, MOMENTS[notion])(difference_bound=bound)
    base = LogisticRegression(C=1.0, solver="newton-cholesky")
    model = fairlearn.reductions.ExponentiatedGradient(base, moment)
    _, seconds = timed(lambda: model.fit(train.X, train.y, sensitive_features=train.z.iloc[:, 0]))
    return (lambda X: np.asarray(model._pmf_predict(X))[:, 1]), seconds


def measure(people, seed):
    """Return one row per notion and bound of one split."""
    train, test = split(people, seed)
    free = FairLogisticRegression(constraint=None).fit(train.X, train.y)
    rows = []
    for notion in MOMENTS:
        for bound in BOUNDS:
            theirs, slow = gradient(train, notion, bound)
            allowed = difference(train, theirs(train.X), notion)
            asked = FairLogisticRegression(constraint=PRuleBound(difference=max(allowed, 1e-6), notion=notion))
            ours, fast = timed(
                lambda asked=asked: asked.fit(train.X, train.y, sensitive_features=train.z)  # fitted in place
            )
            ours_test, theirs_test = (ours.predict(test.X) == 1).astype(float), theirs(test.X)
            rows.append(
                {
                    "notion": notion,
                    "bound": bound,
                    "free": accuracy(test, (free.predict(test.X) == 1).astype(float)),
                    "allowed": allowed,
                    "train ours": accuracy(train, (ours.predict(train.X) == 1).astype(float)),
                    "train theirs": accuracy(train, theirs(train.X)),
                    "ours": accuracy(test, ours_test),
                    "theirs": accuracy(test, theirs_test),
                    "gap ours": difference(test, ours_test, notion),
                    "gap theirs": difference(test, theirs_test, notion),
                    "ratio": slow / fast,
                    "seconds": fast,
                    "path": ours.path_,
                }
            )
            print(people.name, seed, rows[-1], flush=True)
    return rows


def table(results, splits):
    lines = [
        "| data | notion | difference in training | unconstrained % | ours % | EG % | ours - EG, 95% interval "
        "| held-out difference, ours / EG | EG's time / ours |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, rows in results.items():
        for notion in MOMENTS:
            for bound in BOUNDS:
                chosen = [r for r in rows if r["notion"] == notion and r["bound"] == bound]
                lines.append(f"| {name} | {notion.replace('_', ' ')} | {cells(chosen, splits)} |")
    return "\n".join(lines)


def cells(rows, splits):
    mean = {key: np.mean([r[key] for r in rows]) for key in rows[0] if key not in ("notion", "path")}
    ahead = np.array([100 * (r["ours"] - r["theirs"]) for r in rows])
    half = T_95.get(splits, 1.96) * ahead.std(ddof=1) / np.sqrt(splits) if splits > 1 else np.nan
    parts = (
        f"{mean['allowed']:.4f}",
        f"{100 * mean['free']:.2f}",
        f"{100 * mean['ours']:.2f}",
        f"{100 * mean['theirs']:.2f}",
        f"{ahead.mean():+.2f} ± {half:.2f}",
        f"{mean['gap ours']:.3f} / {mean['gap theirs']:.3f}",
        f"{np.median([r['ratio'] for r in rows]):.0f}",
    )
    return " | ".join(parts)


def trade_off(splits):
    """Trace accuracy against the difference of rates of wrong high-risk decisions on COMPAS, and draw it."""
    import matplotlib.pyplot as plt

    people = load("COMPAS").of("race")
    notion = "false_negative_rate"  # the favourable class is the positive one here: no reoffence
    rule = PRuleBound(80, notion=notion)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    rows = []
    for seed in range(splits):
        train, test = split(people, seed)
        frontier = FairnessFrontier(FairLogisticRegression(constraint=rule), n_points=11, which="p_rule")
        frontier.fit(train.X, train.y, sensitive_features=train.z, eval_set=(test.X, test.y, test.z))
        shown = frontier.table_
        for on, style in (("train", "-o"), ("test", "--s")):
            colour = "tab:blue" if on == "train" else "tab:orange"
            options = {"markersize": 3, "color": colour, "alpha": 0.5, "label": on if seed == 0 else None}
            left.plot(shown[f"{on}_cv_score"], 100 * shown[f"{on}_accuracy"], style, **options)
        fitted = [
            FairLogisticRegression(constraint=asked).fit(train.X, train.y, sensitive_features=train.z)
            for asked in (None, *(PRuleBound(90, notion=notion, path=path) for path in ("auto", "ccp")))
        ]
        for name, model in zip(("unconstrained", "90%-rule", '90%-rule, `path="ccp"`'), fitted, strict=True):
            rates = positive_rates(test.y, model.predict(test.X), sensitive_features=test.z, notion=notion)
            values = dict(zip(rates.index.get_level_values("category"), rates["rate"], strict=True))
            rows.append((name, model.score(test.X, test.y), values))
        groups = list(values)
        right.plot(shown["test_cv_score"], shown[f"test_rate[race={groups[0]}]"], "-", color="tab:red", alpha=0.5)
        right.plot(shown["test_cv_score"], shown[f"test_rate[race={groups[1]}]"], "-", color="tab:green", alpha=0.5)
    left.set(xlabel="difference of rates", ylabel="accuracy, percent")
    left.legend()
    right.set(xlabel="held-out difference of rates", ylabel="held-out rate of wrong high-risk decisions")
    right.plot([], [], color="tab:red", label=str(groups[0]))
    right.plot([], [], color="tab:green", label=str(groups[1]))
    right.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=110)
    return trade_off_table(rows)


def trade_off_table(rows):
    groups = list(rows[0][2])
    lines = [
        f"| COMPAS, held out | accuracy % | wrongly of high risk, {groups[0]} | {groups[1]} |",
        "|---|---:|---:|---:|",
    ]
    for name in dict.fromkeys(row[0] for row in rows):
        chosen = [row for row in rows if row[0] == name]
        rates = [f"{np.mean([row[2][g] for row in chosen]):.3f}" for g in groups]
        lines.append(f"| {name} | {100 * np.mean([row[1] for row in chosen]):.2f} | {' | '.join(rates)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = {}
    with threadpool_limits(1):
        for name, (data, attribute) in SETS.items():
            people = load(data).of(attribute)
            results[name] = [row for seed in range(options.splits) for row in measure(people, seed)]
        drawn = trade_off(options.splits)
    write(results, drawn, options.splits)


def write(results, drawn, splits):
    """Write the tables."""
    about = " ".join(__doc__.split("\n\n")[2].split())
    text = (
        f"# Notions of fairness as targets\n{splits} splits, 70% to train on, logistic loss, C = 1; held-out "
        f"accuracy. {about}\n\n{table(results, splits)}\n\n## Wrong high-risk decisions on COMPAS\n"
        'The trade-off of Zafar et al. (WWW 2017), by `FairnessFrontier(which="p_rule")`. They count people who did '
        "not reoffend and are called of high risk as false positives; here not to reoffend is the positive class, so "
        "that these are false negatives.\n\n"
        f"![trade-off](plots/{FIGURE.name})\n\n{drawn}\n"
    )
    FILE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
