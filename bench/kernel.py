"""Kernel machines on Adult (rbf): fit and predict against libsvm, in one process and in turn.

    python bench/kernel.py [N ...]          default: 4000 10000 30000

``fit`` and ``predict`` are seconds of the processor, ``x`` what they are of libsvm's time (predict: how many times
faster): medians over rounds in which every classifier has its turn.
``excess`` is the training objective over the best known one of that problem, ``peak`` the growth of the process's
memory while fitting. A row "full kernel" ends within 1e-3 of the optimum with the full kernel, proved; the
others consider functions of landmarks. Needs the Adult files (see FAIRMARGIN_DATA).
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time
import tracemalloc
import warnings
from functools import partial
from statistics import median

import numpy as np
from sklearn.svm import SVC

from fairmargin import FairSVC, p_rule
from fairmargin.datasets import load_adult

SIZES = (4000, 10_000, 30_000)
N_TEST = 5000
TRACED = 10_000  # people up to whom memory is traced, in a fit of its own, and rounds are repeated
ROUNDS = 3
SETTINGS = {
    "landmarks": {"refine": False},
    "landmarks, fair": {"refine": False, "fair": True},
    "full kernel": {"refine": True},
    "full kernel, fair": {"refine": True, "fair": True},
}
COLUMNS = (
    "people",
    "classifier",
    "fit",
    "x",
    "predict",
    "x",
    "excess",
    "rank",
    "support",
    "peak MB",
    "test acc",
    "p%",
)


def main(sizes=SIZES):
    rows = [row for n in sizes for row in compare(n)]
    widths = [max(len(str(row[j])) for row in [COLUMNS, *rows]) for j in range(len(COLUMNS))]
    for row in [COLUMNS, *rows]:
        cells = [
            str(c).ljust(w) if j == 1 else str(c).rjust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells))
    return rows


def compare(n):
    data = people(n)
    models = {"libsvm": lambda: (SVC(), {})} | {
        name: partial(make, asked, data[2]) for name, asked in SETTINGS.items()
    }
    rounds = [{name: measure(make_model, *data) for name, make_model in models.items()} for _ in range(rounds_of(n))]
    rows = []
    for name, make_model in models.items():
        first = rounds[0][name]
        fit, predict = (median(r[name][k] for r in rounds) for k in ("fit", "predict"))
        slower = median(r[name]["fit"] / r["libsvm"]["fit"] for r in rounds)
        faster = median(r["libsvm"]["predict"] / r[name]["predict"] for r in rounds)
        peak = "" if n > TRACED or name == "libsvm" else round(memory_of(make_model, *data[:2]) / 1e6)
        row = n, name, fit, slower, predict, faster, first["objective"], first["rank"], first["support"], peak
        rows.append((*row, *first["quality"]))
    best = {fair: min(r[6] for r in rows if r[1].endswith("fair") == fair) for fair in (False, True)}
    return [tidy(row, best[row[1].endswith("fair")]) for row in rows]


def rounds_of(n):
    return ROUNDS if n <= TRACED else 1


def make(asked, z):
    """Return a classifier and further arguments of its ``fit``."""
    asked = dict(asked)
    if asked.pop("fair", False):
        return FairSVC(**asked), {"sensitive_features": z}
    return FairSVC(constraint=None, **asked), {}


def measure(make_model, X, y, z, X_test, y_test, z_test):
    model, sensitive = make_model()
    _, fit = timed(lambda: model.fit(X, y, **sensitive))
    scores, predict = timed(lambda: model.decision_function(X_test))
    objective = libsvms_objective(model, X, y) if isinstance(model, SVC) else model.certificate_.objective
    return {
        "fit": fit,
        "predict": predict,
        "objective": objective,
        "rank": getattr(model, "rank_", ""),
        "support": len(model.support_),
        "quality": quality(scores, y_test, z_test),
    }


def libsvms_objective(svc, X, y):
    own = svc.decision_function(X)
    return 0.5 * svc.dual_coef_[0] @ (own[svc.support_] - svc.intercept_[0]) + np.maximum(0, 1 - y * own).sum()


def memory_of(make_model, X, y):
    """Return the growth of the process's memory while fitting."""
    model, sensitive = make_model()
    tracemalloc.start()
    timed(lambda: model.fit(X, y, **sensitive))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def tidy(row, best):
    n, name, fit, x_fit, predict, x_predict, value, *rest = row
    excess = "" if name == "libsvm" else f"{value / best - 1:.1e}"
    return (n, name, f"{fit:.2f}", f"{x_fit:.2f}", f"{predict:.3f}", f"{x_predict:.1f}", excess, *rest)


def quality(scores, y, z):
    decided = np.where(scores >= 0, 1, -1)
    return f"{np.mean(decided == y):.3f}", f"{p_rule(y, decided, sensitive_features=z):.0f}"


def timed(work):
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = work()
    return result, time.process_time() - start


def people(n):
    table = load_adult(encoded=True)
    X, y = table.data.to_numpy(), 2 * table.target.to_numpy() - 1
    z = table.sensitive_features["sex"].to_numpy()
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.sort(order[:n]), np.sort(order[-N_TEST:])
    return X[train], y[train], z[train], X[test], y[test], z[test]


if __name__ == "__main__":
    main([int(a) for a in sys.argv[1:]] or SIZES)
