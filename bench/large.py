"""Three million rows in memory: against as many bare products X' D X, and in how much memory."""

import numpy as np
import peers
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
    peer = apart(
        lambda: int(peers.scikit_learn_model(people, "newton-cholesky").n_iter_[0]), max(30.0, 0.4 * budget.left)
    )
    passes = phases.passes(n)
    iterations = model.certificate_.n_iter
    found.text(
        f"""{n:,} x {d} made numbers ({megabytes(people.X.nbytes)} MB), one binary attribute, c = 0, logistic
        loss, one thread.
        The bare product is blocks of rows, scaled and multiplied by BLAS: {seconds(one)}. The fit went
        {", ".join(f"{passes[p]:.2f} times through the data for {p}" for p in PASSES)} (samples by
        their share, single precision as a half). The fit that is asked for is two: without the constraint, to
        compare with, and with it, the last stage. Its Hessians come from samples: of bare products on all rows it
        forms next to none, and a ratio to those would mean nothing. The yardstick is one bare product for each
        iteration of the last stage, as a Newton method would need that forms its Hessians; how many it would
        need from zero, scikit-learn's shows."""
    )
    gap = f"{model.certificate_.gap:.0e}"
    rows = [("fair fit", iterations, seconds(whole), times(whole / one), megabytes(memory.get("peak")), gap)]
    if "error" in peer:
        rows.append(("scikit-learn newton-cholesky (unconstrained)", "", peer["error"], "", "", ""))
    else:
        words = seconds(peer["seconds"]), times(peer["seconds"] / one), megabytes(peer["peak"]), ""
        rows.append(("scikit-learn newton-cholesky (unconstrained)", peer["value"], *words))
    found.table(("", "iterations", "time", "in bare products", "extra MB", "gap"), rows)
    found.claim(
        f"{n:,} x {d}: fair fit / as many bare X' D X products as its last stage had iterations ({iterations})",
        "at most 3",
        times(whole / (iterations * one)),
        whole <= 3 * iterations * one,
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
