"""How cost grows: with people, columns, attributes, points of a frontier, and the share of zeros."""

import numpy as np
import scipy.sparse as sp
from findings import exponent, seconds, times
from harness import interleaved, log, median, timed
from people import made

from fairmargin import FairLinearSVC, FairLogisticRegression, FairnessFrontier

TITLE = "How cost grows"
BUDGET = (120, 14)
ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
COLUMNS = (5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
ATTRIBUTES = (1, 2, 5, 10, 20, 50)
POINTS = (2, 5, 11, 21, 51, 101)
DENSITIES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def run(found, budget):
    quick = found.quick
    found.text(
        """Made data, fair at c = 0, one thread; medians of up to three fits. The exponent is the slope of the log-log
        curve over its upper half. Cells are empty where the hinge loss was left out for the time it takes."""
    )
    rows = ROWS[:5] if quick else ROWS
    sweep(found, budget.share(0.3), "rows", "people, 20 columns", rows, lambda n: made(n, 20), 3_000_000)
    columns = COLUMNS[:6] if quick else COLUMNS
    n = 5_000 if quick else 20_000
    sweep(found, budget.share(0.3), "columns", f"columns, {n:,} people", columns, lambda d: made(n, d), 500)
    attributes = ATTRIBUTES[:4] if quick else ATTRIBUTES
    n = 5_000 if quick else 30_000
    sweep(
        found,
        budget.share(0.15),
        "attributes",
        f"attributes, {n:,} people, 60 columns",
        attributes,
        lambda k: made(n, 60, k),
        50,
    )
    points(found, budget.share(0.12), made(n, 20), POINTS[:4] if quick else POINTS)
    sparse(found, budget.share(0.2), (5_000, 100) if quick else (50_000, 300), DENSITIES[::2] if quick else DENSITIES)


def sweep(found, budget, key, label, values, make, hinge_up_to):
    """Time both losses over ``values``; the hinge loss, which takes longer, up to a size."""
    took = {"logistic": ([], []), "hinge": ([], [])}
    for value in values:
        people = make(value)
        for loss, estimator in (("logistic", FairLogisticRegression), ("hinge", FairLinearSVC)):
            if (loss == "hinge" and value > hinge_up_to) or budget.left <= 0:
                continue
            took[loss][0].append(value)
            took[loss][1].append(
                best_of(lambda e=estimator, p=people: e().fit(p.X, p.y, sensitive_features=p.z), budget)
            )
        log(f"  {key} {value:,}: {budget.spent:.0f} s")
    took = {loss: pair for loss, pair in took.items() if pair[0]}
    found.table(
        (label, *(f"{v:,}" for v in values), "exponent"),
        [
            (
                loss,
                *(dict(zip(xs, map(seconds, ys), strict=True)).get(v, "") for v in values),
                f"{exponent(xs, ys):.2f}",
            )
            for loss, (xs, ys) in took.items()
        ],
    )
    found.plot(f"growth_{key}", f"Time of a fair fit over {label}", label.split(",")[0], "seconds", took, fitted=True)


def best_of(work, budget):
    """Return the median of up to three runs, fewer where they are long."""
    runs = []
    while len(runs) < 3 and (not runs or (budget.left > 0 and sum(runs) < 3.0)):
        runs.append(timed(work)[1])
    return median(runs)


def points(found, budget, people, values):
    took = []
    for n in values:
        frontier = FairnessFrontier(FairLogisticRegression(), n_points=n)
        took.append(best_of(lambda f=frontier: f.fit(people.X, people.y, sensitive_features=people.z), budget))
    found.table(
        ("points of a frontier", *values, "exponent"),
        [("logistic", *map(seconds, took), f"{exponent(values, took):.2f}")],
    )
    found.plot(
        "growth_points",
        "Time of a frontier over its points",
        "points",
        "seconds",
        {"logistic": (values, took)},
        fitted=True,
    )


def sparse(found, budget, shape, densities):
    n, d = shape
    rng = np.random.default_rng(0)
    took = {"sparse (CSR)": [], "dense": []}
    for density in densities:
        S = sp.random_array((n, d), density=density, format="csr", rng=rng, data_sampler=rng.standard_normal)
        w, v = rng.standard_normal(d), rng.standard_normal(d)
        y = (S @ w + rng.logistic(size=n) * np.sqrt(density * d) > 0).astype(int)
        z = (S @ (v + w) + rng.standard_normal(n) > 0).astype(int)
        X = S.toarray()
        works = {
            "sparse (CSR)": lambda S=S, y=y, z=z: FairLogisticRegression().fit(S, y, sensitive_features=z),
            "dense": lambda X=X, y=y, z=z: FairLogisticRegression().fit(X, y, sensitive_features=z),
        }
        runs, _ = interleaved(works, 1 if budget.left < 0.5 * budget.seconds else 3, budget)
        for name, s in runs.items():
            took[name].append(median(s))
    ratio = [a / b for a, b in zip(took["sparse (CSR)"], took["dense"], strict=True)]
    found.table(
        (f"share of non-zeros, {n:,} x {d}", *densities),
        [(name, *map(seconds, s)) for name, s in took.items()] + [("sparse / dense", *map(times, ratio))],
    )
    found.plot(
        "growth_density",
        f"Sparse against dense, {n:,} x {d}",
        "share of non-zeros",
        "seconds",
        {name: (densities, s) for name, s in took.items()},
    )
