"""The p%-rule search by itself: accuracy, both paths, both losses, and time beside one fair fit.

    python bench/rules.py --splits 5        # into bench/RULES.md; a minute or two per split

Times are CPU seconds of one process; a ratio is to ``CovarianceBound(0.0)`` of the same loss on the same people.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from people import load, made, split
from threadpoolctl import threadpool_limits

from fairmargin import CovarianceBound, FairLinearSVC, FairLogisticRegression, PRuleBound, p_rule

LOSSES = {"logistic": FairLogisticRegression, "hinge": FairLinearSVC}
LEVELS = (80, 90, 95)
PATHS = ("auto", "decisions", "covariance")
SETS = {
    "Adult, sex": lambda: load("Adult").of("sex"),
    "Bank, age": lambda: load("Bank").of("age_group"),
    "COMPAS, race": lambda: load("COMPAS").of("race"),
    "made, 6,000 x 20": lambda: made(6_000, 20, seed=1),
}
SLOW, REPEATS = 1.0, 5  # seconds in all after which a fit is not repeated, and how often at most
FILE = Path(__file__).resolve().parent / "RULES.md"


def timed(work):
    """Return what a fit gives and its CPU seconds; of a fast one, those of the fastest of several."""
    took = []
    while not took or (sum(took) < SLOW and len(took) < REPEATS):
        start = time.process_time()
        answer = work()
        took.append(time.process_time() - start)
    return answer, min(took)


def measure(people, seed):
    """Return the figures of one split, by loss, level and path."""
    train, test = split(people, seed)
    figures = {}
    for loss, estimator in LOSSES.items():

        def fit(constraint, estimator=estimator):
            return estimator(constraint=constraint).fit(train.X, train.y, sensitive_features=train.z)

        free = fit(None)
        _, once = timed(lambda fit=fit: fit(CovarianceBound(0.0)))
        figures[loss, None, "auto"] = {"test": free.score(test.X, test.y), "train": free.score(train.X, train.y)}
        for p in LEVELS:
            for path in PATHS:
                model, seconds = timed(lambda fit=fit, p=p, path=path: fit(PRuleBound(p, path=path)))
                figures[loss, p, path] = {
                    "train": model.score(train.X, train.y),
                    "test": model.score(test.X, test.y),
                    "rule": p_rule(None, model.predict(test.X), sensitive_features=test.z),
                    "ratio": seconds / once,
                }
    return figures


def cell(rows, key, scale=100.0, digits=2):
    return f"{scale * np.mean([r[key] for r in rows]):.{digits}f}"


def table(results):
    lines = [
        "| data | p | loss | training accuracy % | of the better path | test accuracy % | test p% | time ratio |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for name, splits in results.items():
        for p in (None, *LEVELS):
            for loss in LOSSES:
                rows = [s[loss, p, "auto"] for s in splits]
                if p is None:
                    lines.append(f"| {name} | - | {loss} | {cell(rows, 'train')} | | {cell(rows, 'test')} | | |")
                    continue
                better = [max(s[loss, p, path]["train"] for path in PATHS[1:]) for s in splits]
                figures = (cell(rows, "train"), f"{100 * np.mean(better):.2f}", cell(rows, "test"))
                more = (cell(rows, "rule", 1.0, 1), f"{np.median([r['ratio'] for r in rows]):.1f}")
                lines.append(f"| {name} | {p} | {loss} | {' | '.join((*figures, *more))} |")
    behind = [
        (name, loss, p)
        for name, splits in results.items()
        for s in splits
        for loss in LOSSES
        for p in LEVELS
        if s[loss, p, "auto"]["train"] < max(s[loss, p, path]["train"] for path in PATHS) - 1e-12
    ]
    return "\n".join(lines) + f'\n\nFits with `path="auto"` behind one of the paths in training: {len(behind)}.\n'


def notes():
    """Return what the file says beside the table, which was measured once."""
    _, mark, rest = FILE.read_text(encoding="utf-8").partition("\n## A local search")
    return mark + rest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = {}
    with threadpool_limits(1):
        for name, make in SETS.items():
            people = make()
            results[name] = [measure(people, seed) for seed in range(options.splits)]
            about = __doc__.splitlines()[4]
            head = f"# The p%-rule as a target\n{options.splits} splits, 70% to train on, C = 1. {about}"
            FILE.write_text(f"{head}\n\n{table(results)}{notes()}", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
