"""Kernel machines beside libsvm; the measuring itself is in kernel.py."""

import time
import warnings

import kernel
from harness import apart, log

TITLE = "Kernel machines (Adult, rbf)"
BUDGET = (480, 20)
SIZES = (4000, 10_000, 30_000)


def run(found, budget):
    warnings.simplefilter("ignore")
    found.text(
        """`fit` and `predict` in seconds of the processor; `x` is what they are of libsvm's (for predict: how many
        times faster), medians over rounds in which every classifier has its turn. `excess`:
        training objective over the best known of that problem. "full kernel" ends within 1e-3 of the optimum with the
        full kernel, proved; "landmarks" considers functions of the landmarks only. Peak memory is that of a
        fit of its own, up to 10,000 people."""
    )
    rows = []
    for n in (1000,) if found.quick else SIZES:
        started = time.perf_counter()
        answer = apart(lambda n=n: kernel.compare(n), max(10.0, budget.left))
        log(f"  {n} people: {time.perf_counter() - started:.0f} s")
        rows += answer["value"] if "value" in answer else [(n, answer["error"])]
        if "value" in answer:
            claims(found, n, answer["value"])
    found.table(kernel.COLUMNS, rows)


def claims(found, n, rows):
    """Compare the fits with the full kernel, as exact as libsvm's, and the landmarks where these are the default."""
    by_name = {row[1]: row for row in rows}
    row, full = by_name["landmarks, fair"], by_name["full kernel, fair"]
    if n == 10_000 or found.quick:
        what = f"Adult, rbf, {n:,} people, landmarks" + (" (the default there)" if n > 5000 else "")
        measured = f"{row[3]}, at an objective {row[6]} above the best"
        found.claim(f"{what}: fair fit / libsvm's unconstrained fit", "at most 1", measured, float(row[3]) <= 1.0)
        found.claim(f"{what}: prediction, times faster than libsvm", "at least 3", row[5], float(row[5]) >= 3.0)
    what = f"Adult, rbf, {n:,} people, full kernel (exact to 1e-3)"
    found.claim(f"{what}: fair fit / libsvm's unconstrained fit", "at most 1.5", full[3], float(full[3]) <= 1.5)
    found.claim(f"{what}: prediction, times faster than libsvm", "at least 3", full[5], float(full[5]) >= 3.0)
