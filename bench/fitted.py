"""The fitted numbers of every constraint and loss, saved by one version of the package and compared by another.

    python bench/fitted.py save before.json      # with the old code on the path
    python bench/fitted.py compare before.json   # with the new code: refits everything and prints the differences

Adult, Bank, COMPAS and the synthetic data. The objective of a saved fit is computed here from its scores and
coefficients, not read from its certificate. ``compare`` exits with 1 where an objective that was solved before
differs by more than 1e-7, relative; a searched classifier (``PRuleBound``) must be at least as accurate as before.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import base64
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import fairmargin
from fairmargin import (
    CovarianceBound,
    FairMarginClassifier,
    FairnessFrontier,
    FairSVC,
    IndividualLossBound,
    LossBound,
    PRuleBound,
    p_rule,
)
from fairmargin.datasets import load_adult, load_bank, load_compas, make_linear_synthetic, make_nonlinear_synthetic

LOSSES = ("logistic", "hinge", "squared_hinge", "smoothed_hinge")
TOLERANCE = 1e-7  # of objectives, relative
ROUNDS = 2  # fits of which the fastest is reported
FEW = 3000  # rows that promises to individuals are made to, and that kernels are fitted on at most

ONE = {  # constraints on the first sensitive attribute
    "none": None,
    "cov 0": CovarianceBound(0.0),
    "cov 0.02": CovarianceBound(0.02),
    "cov 30%": CovarianceBound(0.3, relative=True),
    "loss 3%": LossBound(0.03),
    "p-rule 80": PRuleBound(80),
    "p-rule 90": PRuleBound(90),
}
ALL = {  # and on all attributes together, where there are several
    "cov 0, all": CovarianceBound(0.0),
    "cov 30%, all": CovarianceBound(0.3, relative=True),
    "loss 3%, all": LossBound(0.03),
    "loss 3% sum, all": LossBound(0.03, norm="sum"),
}
INDIVIDUAL = {
    "individual 50%": IndividualLossBound(0.5),
    "individual keep": IndividualLossBound(keep_positive="accepted"),
}
VALUES = {
    "logistic": lambda m: np.logaddexp(0.0, -m),
    "hinge": lambda m: np.maximum(1.0 - m, 0.0),
    "squared_hinge": lambda m: np.maximum(1.0 - m, 0.0) ** 2,
    "smoothed_hinge": lambda m: np.where(m < 0.5, 0.75 - m, np.maximum(1.0 - m, 0.0) ** 2),
}


def tables():
    """Yield name, features, labels and sensitive attributes (a dict of columns) of each data set."""
    for name, load in (("adult", load_adult), ("bank", load_bank), ("compas", load_compas)):
        bunch = load(encoded=True)
        people = {c: bunch.sensitive_features[c].astype(str).to_numpy() for c in bunch.sensitive_features}
        yield name, np.asarray(bunch.data, dtype=float), np.asarray(bunch.target), people
    X, y, z = make_linear_synthetic(4000, random_state=0)
    yield "synthetic", X, y, {"z": z}


def jobs():
    """Yield (name, estimator, X, y, sensitive features) of everything that is fitted."""
    for name, X, y, people in tables():
        first = dict(list(people.items())[:1])
        rows = np.sort(np.random.default_rng(0).permutation(len(y))[:FEW])
        few = X[rows], y[rows], {k: v[rows] for k, v in first.items()}
        for loss in LOSSES:
            for label, constraint in ONE.items():
                yield f"{name} {loss} {label}", FairMarginClassifier(loss, constraint=constraint), X, y, first
            for label, constraint in ALL.items() if len(people) > 1 else ():
                yield f"{name} {loss} {label}", FairMarginClassifier(loss, constraint=constraint), X, y, people
            for label, constraint in INDIVIDUAL.items():
                yield f"{name} {loss} {label}", FairMarginClassifier(loss, constraint=constraint), *few
        yield f"{name} frontier", FairnessFrontier(FairMarginClassifier("logistic"), n_points=11), X, y, first
    yield f"{name} frontier hinge", FairnessFrontier(FairMarginClassifier("hinge"), n_points=11), X, y, first
    X, y, z = make_nonlinear_synthetic(500, random_state=0)
    for loss in ("hinge", "logistic"):
        for label, constraint in (("none", None), ("cov 0", CovarianceBound(0.0))):
            svc = FairSVC(loss=loss, constraint=constraint, approximation_tol=1e-6, tol=1e-9)
            yield f"kernel {loss} {label}", svc, X, y, {"z": z}


def measure(estimator, X, y, people):
    """Fit and return the numbers of the fit, one record per classifier (a frontier has several)."""
    seconds = []
    try:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            estimator.fit(X, y, sensitive_features=people)
            seconds.append(time.perf_counter() - start)
    except Exception as error:  # a fit that fails is a number of its own
        return [{"status": f"{type(error).__name__}: {error}", "seconds": 0.0}]
    if isinstance(estimator, FairnessFrontier):
        share = min(seconds) / len(estimator.estimators_)
        return [describe(point, X, y, people, share) for point in estimator.estimators_]
    return [describe(estimator, X, y, people, min(seconds))]


def describe(model, X, y, people, seconds):
    proof = model.certificate_
    scores = model.decision_function(X)
    signed = np.where(y == model.classes_[1], 1.0, -1.0)
    loss = model.C * VALUES[model.loss](signed * scores).sum()
    linear = hasattr(model, "coef_")
    covariance = [] if model.covariance_ is None else model.covariance_.tolist()
    return {
        "status": proof.status,
        "objective": loss + 0.5 * float(np.sum(model.coef_**2)) if linear else proof.objective,
        "certified": proof.objective,
        "dual_bound": proof.dual_bound,
        "gap": proof.gap,
        "violation": proof.violation,
        "iterations": int(proof.n_iter),
        "coef": model.coef_[0].tolist() if linear else None,
        "intercept": float(model.intercept_[0]),
        "covariance": covariance,
        "factor": getattr(model, "factor_", None),
        "accuracy": float(np.mean((scores >= 0) == (signed > 0))),
        "p_rule": [float(p_rule(y, model.predict(X), sensitive_features=z)) for z in people.values()],
        "decisions": base64.b64encode(np.packbits(scores >= 0)).decode(),
        "n": len(y),
        "nearest": float(np.abs(scores).min()),
        "seconds": seconds,
        "searched": isinstance(model.constraint, PRuleBound),
    }


def run():
    numbers = {}
    for name, *job in jobs():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            numbers[name] = measure(*job)
        print(f"{name}: {numbers[name][-1]['status']}", file=sys.stderr, flush=True)
    return numbers


def decisions(record):
    return np.unpackbits(np.frombuffer(base64.b64decode(record["decisions"]), np.uint8))[: record["n"]]


def verdict(old, new):
    """Return (what to print of the pair, whether the new fit fails the comparison)."""
    if "objective" not in old or "objective" not in new:
        changed = "objective" in old and "objective" not in new
        return f"{old['status'][:40]} -> {new['status'][:60]}", changed
    difference = (new["objective"] - old["objective"]) / abs(old["objective"])
    moved = int(np.sum(decisions(old) != decisions(new)))
    share = new["seconds"] / max(old["seconds"], 1e-9)
    text = f"{difference:+9.1e} {moved:6d} changed, time x{share:5.2f}, gap {old['gap']:.0e} -> {new['gap']:.0e}"
    text += f", violation {old['violation']:.0e} -> {new['violation']:.0e}"
    if old["factor"] is not None and new["factor"] is not None:
        text += f", factor {new['factor'] - old['factor']:+.1e}"
    if old["status"] != new["status"]:
        text += f", {old['status']} -> {new['status']}"
    if old["searched"]:
        text += f", accuracy {old['accuracy']:.5f} -> {new['accuracy']:.5f}"
        text += f", p%-rule {min(old['p_rule']):.2f} -> {min(new['p_rule']):.2f}"
        return text, new["accuracy"] < old["accuracy"]
    lost = old["status"] == "solved" and new["status"] != "solved"
    return text, lost or (old["status"] == "solved" and abs(difference) > TOLERANCE)


def compare(before, after):
    """Print a line per classifier and return how many fail."""
    failed, total, ratios = 0, 0, []
    for name, records in before.items():
        for k, (old, new) in enumerate(zip(records, after[name], strict=True)):
            text, wrong = verdict(old, new)
            failed, total = failed + wrong, total + 1
            if old["seconds"] > 0 and new["seconds"] > 0:
                ratios.append((new["seconds"] / old["seconds"], new["seconds"] - old["seconds"], name))
            point = f" [{k}]" if len(records) > 1 else ""
            print(f"{'FAIL' if wrong else 'ok  '} {name + point:42s} {text}")
    sums = [sum(r["seconds"] for records in side.values() for r in records) for side in (before, after)]
    print(f"\n{total} classifiers, {failed} beyond {TOLERANCE:g} or worse; seconds {sums[0]:.1f} -> {sums[1]:.1f}")
    slower = [f"{name} x{r:.2f} (+{d:.2f} s)" for r, d, name in sorted(ratios, reverse=True) if r > 1.25 and d > 0.01]
    print("more than 25% and 10 ms slower: " + ("; ".join(slower) or "none"))
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["save", "compare"])
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    print(f"fairmargin at {Path(fairmargin.__file__).parent}", file=sys.stderr)
    if arguments.what == "save":
        arguments.file.write_text(json.dumps(run()))
        return 0
    return int(compare(json.loads(arguments.file.read_text()), run()) > 0)


if __name__ == "__main__":
    sys.exit(main())
