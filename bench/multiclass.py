"""Fair multinomial fits beside scikit-learn's unconstrained newton-cholesky: CPU seconds and their ratio in one run.

    python bench/multiclass.py             some minutes; prints a table
    python bench/multiclass.py --rounds 3  fewer rounds

Both get the same arrays, labels and penalty. scikit-learn stops at its default tolerance; the fair fit proves a
relative gap of 1e-9 and fits the unconstrained classifier too, to compare with. Runs alternate; the table has
medians.
"""

import argparse
import time

import harness  # first: it sets the number of threads
import numpy as np
from sklearn.linear_model import LogisticRegression

from fairmargin import CovarianceBound, FairMultinomialLogisticRegression
from fairmargin.datasets import load_adult

GROUPS = {
    "manager": ["Exec-managerial"],
    "professional": ["Prof-specialty", "Tech-support"],
    "clerical": ["Adm-clerical", "Sales"],
    "manual": ["Craft-repair", "Machine-op-inspct", "Transport-moving", "Handlers-cleaners", "Farming-fishing"],
    "service": ["Armed-Forces", "Protective-serv", "Other-service", "Priv-house-serv"],
}


def occupations():
    """Return Adult's features without occupation and relationship, five groups of occupations, and sex."""
    raw, adult = load_adult(), load_adult(encoded=True)
    columns = [c for c in adult.data.columns if not c.startswith(("occupation", "relationship"))]
    group = {job: name for name, jobs in GROUPS.items() for job in jobs}
    return adult.data[columns].to_numpy(), raw.data["occupation"].astype(str).map(group).to_numpy(), raw


def made_up(n, d, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d)) + 0.5 * z[:, None] * rng.normal(size=d)
    y = (X @ rng.normal(size=(d, n_classes)) + 2 * rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    return X, y, np.array(["a", "b"])[z]


def cases():
    X, y, raw = occupations()
    yield "Adult, five occupations, sex", X, y, raw.sensitive_features["sex"]
    yield "Adult, five occupations, sex and race", X, y, raw.sensitive_features
    for n, d, n_classes in ((2_000, 10, 3), (20_000, 20, 3), (50_000, 50, 3), (50_000, 50, 6), (20_000, 20, 10)):
        X, y, z = made_up(n, d, n_classes)
        yield f"made up, {n:,} x {d}, {n_classes} classes", X, y, z


def cpu(work):
    with harness.warnings.catch_warnings():
        harness.warnings.simplefilter("ignore")
        start = time.process_time()
        result = work()
        return result, time.process_time() - start


def measure(X, y, z, rounds):
    works = {
        "scikit-learn": lambda: LogisticRegression(solver="newton-cholesky").fit(X, y),
        "unconstrained": lambda: FairMultinomialLogisticRegression(constraint=None).fit(X, y),
        "fair": lambda: FairMultinomialLogisticRegression(constraint=CovarianceBound(0.0)).fit(
            X, y, sensitive_features=z
        ),
    }
    seconds = {name: [] for name in works}
    fitted = {}
    for _ in range(rounds):
        for name, work in works.items():
            fitted[name], took = cpu(work)
            seconds[name].append(took)
    return {name: float(np.median(s)) for name, s in seconds.items()}, fitted


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print("| data | scikit-learn | unconstrained | fair | fair / scikit-learn | gap | accuracy free, fair |")
    print("|---|---|---|---|---|---|---|")
    for name, X, y, z in cases():
        seconds, fitted = measure(X, y, z, rounds)
        free, fair = fitted["scikit-learn"], fitted["fair"]
        took = " | ".join(f"{seconds[w]:.3f} s" for w in ("scikit-learn", "unconstrained", "fair"))
        ratio = seconds["fair"] / seconds["scikit-learn"]
        accuracy = f"{free.score(X, y):.3f}, {fair.score(X, y):.3f}"
        print(f"| {name} | {took} | {ratio:.2f} | {fair.certificate_.gap:.0e} | {accuracy} |", flush=True)


if __name__ == "__main__":
    main()
