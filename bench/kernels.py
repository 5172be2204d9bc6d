"""Kernel machines beside libsvm; the measuring itself is in kernel.py."""

import time
import warnings

import kernel
from harness import apart, log

TITLE = "Kernel machines (Adult, rbf)"
BUDGET = (190, 14)
SIZES = (4000, 10_000, 30_000)


def run(found, budget):
    warnings.simplefilter("ignore")
    found.text(
        """`fit` and `predict` in seconds; `x` is what they are of libsvm's (for predict: how many times
        faster). `excess`:
        training objective over the best known of that problem. "full kernel" ends within 1e-3 of the optimum with the
        full kernel, proved; "landmarks" considers functions of the landmarks only. Peak memory is that of a
        second fit."""
    )
    rows = []
    for n in (1000,) if found.quick else SIZES:
        started = time.perf_counter()
        answer = apart(lambda n=n: kernel.compare(n), max(10.0, budget.left))
        log(f"  {n} people: {time.perf_counter() - started:.0f} s")
        rows += answer.get("value") or [(n, answer.get("error"))]
        if "value" in answer:
            claims(found, n, answer["value"])
    found.table(kernel.COLUMNS, rows)


def claims(found, n, rows):
    """The claim is about the default settings, which are landmarks only for this many people."""
    for row in rows:
        if row[1] != "landmarks, fair" or (n != 10_000 and not found.quick):
            continue
        what = f"Adult, rbf, {n:,} people, default tolerance"
        fit, predict = float(row[3]), float(row[5])
        found.claim(f"{what}: fair fit / libsvm's unconstrained fit", "at most 1", row[3], fit <= 1.0)
        found.claim(f"{what}: prediction, times faster than libsvm", "at least 3", row[5], predict >= 3.0)
