"""Three million rows in memory: against as many bare products X' D X, and in how much memory."""

import numpy as np
from counting import PASSES, watched
from findings import megabytes, seconds, times
from harness import apart, log, median, timed
from people import made

from fairmargin import FairLinearSVC, FairLogisticRegression
from fairmargin.design import make_design

TITLE = "Three million rows by fifty columns"
BUDGET = (100, 10)


def run(found, budget):
    n, d = (100_000, 50) if found.quick else (3_000_000, 50)
    people = made(n, d)
    weights = np.random.default_rng(1).random(n)
    design = make_design(people.X)
    bare, fits = [], []
    for number in range(3):
        if number and budget.left < 0.5 * budget.seconds:
            break
        bare.append(timed(lambda: design.sandwich(weights))[1])
        with watched() as phases:
            model, took = timed(lambda: fit(people))
        fits.append(took)
        log(f"  {n:,} x {d}: {took:.1f} s, one product {bare[-1]:.2f} s")
    one, whole = median(bare), median(fits)
    memory = apart(lambda: fit(people).certificate_.gap, 120.0)
    passes = phases.passes(n)
    iterations = model.certificate_.n_iter
    found.text(
        f"""{n:,} x {d} made numbers ({megabytes(people.X.nbytes)} MB), one binary attribute, c = 0, logistic
        loss, one thread.
        The bare product is blocks of rows, scaled and multiplied by BLAS: {seconds(one)}. The fit went
        {", ".join(f"{passes[p]:.2f} times through the data for {p}" for p in PASSES)} (samples by
        their share, single precision as a half). The fit that is asked for is two: without the constraint, to
        compare with, and with it, the last stage."""
    )
    formed = passes["X' D X"]
    gap = f"{model.certificate_.gap:.0e}"
    rows = [("fair fit", seconds(whole), "", megabytes(memory.get("peak")), gap)]
    for words, count in (
        ("as many bare products as it formed", formed),
        ("as many as the last stage's Newton iterations", iterations),
    ):
        rows.append((f"{words}: {count:.2f}", seconds(count * one), times(whole / (count * one)), "", ""))
    found.table(("", "time", "fit / this", "extra MB", "gap"), rows)
    # The fit forms hardly any product on all rows, its Hessians come from samples: the claim can be read in two ways.
    for words, count in (("as it formed itself", formed), ("as its last stage had iterations", iterations)):
        found.claim(
            f"{n:,} x {d}: fair fit / as many bare X' D X products {words} ({count:.2f})",
            "at most 3",
            times(whole / (count * one)),
            whole <= 3 * count * one,
        )
    peak = memory.get("peak")
    found.claim(
        f"{n:,} x {d}: extra memory",
        "under 1 GiB",
        memory.get("error") or f"{peak / 2**30:.2f} GiB",
        None if peak is None else peak < 2**30,
    )
    if budget.left > 0.3 * budget.seconds or found.quick:
        hinge = apart(
            lambda: FairLinearSVC().fit(people.X, people.y, sensitive_features=people.z).certificate_.gap,
            max(10.0, budget.left),
        )
        words = (
            hinge.get("error")
            or f"{seconds(hinge['seconds'])}, gap {hinge['value']:.0e}, {megabytes(hinge['peak'])} MB"
        )
        found.text(f"The fair linear SVM on the same people: {words}.")


def fit(people):
    return FairLogisticRegression().fit(people.X, people.y, sensitive_features=people.z)
