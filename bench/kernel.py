"""Kernel machines on Adult (rbf): fit and predict against libsvm, in one process and in turn.

    python bench/kernel.py [N ...]          default: 4000 10000 30000

``fit`` and ``predict`` are seconds, ``x`` what they are of libsvm's time (predict: how many times faster).
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

import numpy as np
from sklearn.svm import SVC

from fairmargin import FairSVC, p_rule
from fairmargin.datasets import load_adult

SIZES = (4000, 10_000, 30_000)
N_TEST = 5000
TRACED = 10_000  # people up to whom memory is traced, in a second fit
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
    X, y, z, X_test, y_test, z_test = people(n)
    svc, fit, _ = timed(lambda: SVC().fit(X, y))
    scores, predict, _ = timed(lambda: svc.decision_function(X_test))
    own = svc.decision_function(X)
    best_free = 0.5 * svc.dual_coef_[0] @ (own[svc.support_] - svc.intercept_[0]) + np.maximum(0, 1 - y * own).sum()
    rows = [
        (n, "libsvm", fit, 1.0, predict, 1.0, best_free, "", len(svc.support_), "", *quality(scores, y_test, z_test))
    ]
    settings = {
        "landmarks": {"refine": False},
        "landmarks, fair": {"refine": False, "fair": True},
        "full kernel": {"refine": True},
        "full kernel, fair": {"refine": True, "fair": True},
    }
    for name, asked in settings.items():
        rows.append(measure(n, name, dict(asked), (X, y, z), (X_test, y_test, z_test), fit, predict))
    best = {fair: min(r[6] for r in rows if r[1].endswith("fair") == fair) for fair in (False, True)}
    return [tidy(row, best[row[1].endswith("fair")]) for row in rows]


def measure(n, name, asked, train, test, fit_libsvm, predict_libsvm):
    X, y, z = train
    fair = asked.pop("fair", False)
    clf = FairSVC(**asked) if fair else FairSVC(constraint=None, **asked)
    sensitive = {"sensitive_features": z} if fair else {}
    clf, fit, _ = timed(lambda: clf.fit(X, y, **sensitive))
    peak = None
    if n <= TRACED:
        *_, peak = timed(lambda: FairSVC(**clf.get_params()).fit(X, y, **sensitive), memory=True)
    scores, predict, _ = timed(lambda: clf.decision_function(test[0]))
    ratios = fit, fit / fit_libsvm, predict, predict_libsvm / predict
    facts = clf.certificate_.objective, clf.rank_, len(clf.support_), "" if peak is None else round(peak / 1e6)
    return (n, name, *ratios, *facts, *quality(scores, *test[1:]))


def tidy(row, best):
    n, name, fit, x_fit, predict, x_predict, value, *rest = row
    excess = "" if name == "libsvm" else f"{value / best - 1:.1e}"
    return (n, name, f"{fit:.2f}", f"{x_fit:.2f}", f"{predict:.3f}", f"{x_predict:.1f}", excess, *rest)


def quality(scores, y, z):
    decided = np.where(scores >= 0, 1, -1)
    return f"{np.mean(decided == y):.3f}", f"{p_rule(y, decided, sensitive_features=z):.0f}"


def timed(work, memory=False):
    if memory:
        tracemalloc.start()
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = work()
    seconds = time.perf_counter() - start
    peak = 0
    if memory:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return result, seconds, peak


def people(n):
    table = load_adult(encoded=True)
    X, y = table.data.to_numpy(), 2 * table.target.to_numpy() - 1
    z = table.sensitive_features["sex"].to_numpy()
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.sort(order[:n]), np.sort(order[-N_TEST:])
    return X[train], y[train], z[train], X[test], y[test], z[test]


if __name__ == "__main__":
    main([int(a) for a in sys.argv[1:]] or SIZES)
