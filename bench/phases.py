"""Where the time goes, against what the memory and the multipliers of the machine allow."""

import numpy as np
from counting import PASSES, watched
from findings import seconds, times
from harness import median, timed
from people import load, made, split

from fairmargin import FairLinearSVC, FairLogisticRegression

TITLE = "Where the time goes, and the physical limit"
BUDGET = (50, 12)


def run(found, budget):
    bandwidth, rate = read_bandwidth(found.quick), multiply_rate()
    found.text(
        f"""Measured in this run with one thread: reading memory {bandwidth / 1e9:.1f} GB/s (sum of an array
        far larger than the
        caches), multiplying matrices {rate / 1e9:.1f} GFLOP/s (dsyrk, 2,000 x 2,000, counted as half of a product).
        The limit of a fit is what its own passes would take at these rates: reading X once for each X theta
        and X' r, and
        N p (p + 1) operations for each X' D X or reading X, whichever takes longer. Data that fit a cache are read
        faster than that."""
    )
    cases = {
        "Adult, sex": split(load("Adult").of("sex"), 0)[0],
        "Bank, age": split(load("Bank").of("age_group"), 0)[0],
    }
    if found.quick:
        del cases["Bank, age"]
    size = 50_000 if found.quick else 1_000_000
    cases[f"made, {size:,} x 50"] = made(size, 50)
    for name, people in cases.items():
        for label, estimator in (("logistic", FairLogisticRegression), ("hinge", FairLinearSVC)):
            if label == "hinge" and (found.quick or len(people) > 100_000):
                continue
            profile(found, name, label, estimator, people, bandwidth, rate)
    _ = budget


def profile(found, name, label, estimator, people, bandwidth, rate):
    def fit():
        return estimator().fit(people.X, people.y, sensitive_features=people.z)

    timed(fit)
    plain, watching = [], []
    for _ in range(3):
        plain.append(timed(fit)[1])
        with watched() as phases:
            whole = timed(fit)[1]
        watching.append((whole, phases))
    whole, phases = sorted(watching, key=lambda w: w[0])[1]
    n, d = people.X.shape
    p = d + 1
    passes = phases.passes(n)
    reading = people.X.nbytes / bandwidth
    product = max(n * p * (p + 1) / rate, reading)
    limit = {
        "X theta": passes["X theta"] * reading,
        "X' r": passes["X' r"] * reading,
        "X' D X": passes["X' D X"] * product,
    }
    rows = []
    for phase, took in sorted(phases.seconds.items(), key=lambda item: -item[1]):
        least = limit.get(phase)
        rows.append(
            (
                phase,
                seconds(took),
                f"{100 * took / whole:.0f}%",
                phases.calls[phase],
                f"{passes[phase]:.2f}" if phase in passes else "",
                seconds(least) if least else "",
                times(took / least) if least else "",
            )
        )
    rest = whole - sum(phases.seconds.values())
    rows.append(
        ("the rest (scores, dual problem, certificate)", seconds(rest), f"{100 * rest / whole:.0f}%", "", "", "", "")
    )
    total = sum(limit.values())
    rows.append(
        (
            f"**whole fit, unwatched** ({seconds(whole)} while the parts were timed)",
            seconds(median(plain)),
            "",
            "",
            f"{sum(passes.values()):.1f}",
            seconds(total),
            times(median(plain) / total),
        )
    )
    found.table(
        (f"{name}, {label}, {n:,} x {d}", "time", "share", "calls", "passes", "limit", "times the limit"), rows
    )
    assert set(PASSES) >= set(limit)


def read_bandwidth(quick):
    """Return bytes per second of reading an array that fits no cache."""
    array = np.ones((16 if quick else 64) << 20)
    return array.nbytes / min(timed(lambda: array @ array)[1] for _ in range(5)) * 1.0


def multiply_rate():
    from scipy.linalg.blas import dsyrk

    A = np.asfortranarray(np.random.default_rng(0).random((2000, 2000)))
    return 2000 * 2000 * 2001 / min(timed(lambda: dsyrk(1.0, A))[1] for _ in range(5))
