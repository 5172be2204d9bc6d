"""The whole frontier, relative to one fit and to one fit of a peer."""

import numpy as np
import peers
from findings import seconds, times
from harness import apart, interleaved, median
from people import load, split

from fairmargin import CovarianceBound, FairLinearSVC, FairLogisticRegression, FairnessFrontier, PRuleBound

TITLE = "The whole frontier"
BUDGET = (100, 14)
POINTS = (21, 101)


def run(found, budget):
    found.text(
        """Every point is a fitted classifier with its certificate. "one fit" is the fair fit at c = 0.
        ExponentiatedGradient (difference bound 0.01, LogisticRegression(C=1) with newton-cholesky) is one model of a
        peer."""
    )
    series = {}
    for name in ["Adult"] if found.quick else ["Adult", "Bank"]:
        train, _ = split(load(name).of("sex" if name == "Adult" else "age_group"), 0)
        if found.quick:
            train = train.take(np.arange(3000))
        peer = apart(lambda t=train: peers.exponentiated_gradient(t, 0.01) and None, 60.0)
        for label, estimator in (("logistic", FairLogisticRegression()), ("hinge", FairLinearSVC())):
            measure(found, budget.share(0.24), train, label, estimator, peer, series)
    measure_rule(found, budget)
    found.plot("frontier", "Time of a frontier, one fit = 1", "points", "times one fit", series, fitted=True)


def measure_rule(found, budget):
    """Measure the frontier of the p%-rule beside one fit of a rule, on everybody of Adult."""
    adult = load("Adult")
    for attributes in (["sex"], ["race"]):
        people = adult.of(attributes[0])
        rows = np.arange(3000) if found.quick else np.arange(len(people.y))
        people, z = people.take(rows), {"sensitive_features": people.take(rows).z}
        works = {
            "one PRuleBound(80)": lambda p=people, z=z: FairLogisticRegression(constraint=PRuleBound(80)).fit(
                p.X, p.y, **z
            ),
            "21 levels": lambda p=people, z=z: FairnessFrontier(FairLogisticRegression(), which="p_rule").fit(
                p.X, p.y, **z
            ),
        }
        runs, _ = interleaved(works, 1 if found.quick else 3, budget.share(0.1))
        one, all_levels = (median(runs[k]) for k in works)
        rows = [(k, seconds(median(runs[k])), times(median(runs[k]) / one), len(runs[k])) for k in works]
        found.table((f"Adult, {attributes[0]}, p%-rule", "time", "x one fit", "runs"), rows)
        claim = f"Adult, {attributes[0]}: 21 levels of the p%-rule / one PRuleBound fit"
        found.claim(claim, "at most 10", times(all_levels / one), all_levels / one <= 10)


def measure(found, budget, train, label, estimator, peer, series):
    z = {"sensitive_features": train.z}
    works = {"one fit": lambda: estimator.set_params(constraint=CovarianceBound()).fit(train.X, train.y, **z)}
    for n in POINTS if not found.quick else (11, 21):
        works[f"{n} points"] = lambda n=n: FairnessFrontier(estimator, n_points=n).fit(train.X, train.y, **z)
    runs, errors = interleaved(works, 1 if found.quick else 3, budget)
    one = median(runs["one fit"])
    eg = peer.get("seconds")
    rows = [
        (k, seconds(median(s)), times(median(s) / one), times(median(s) / eg) if eg else peer["error"], len(s))
        for k, s in runs.items()
    ]
    rows += [(k, error) for k, error in errors.items()]
    if eg:
        rows.append(("one ExponentiatedGradient", seconds(eg), times(eg / one), "1.00", 1))
    found.table((f"{train.name}, {label}", "time", "x one fit", "x one ExponentiatedGradient", "runs"), rows)
    series[f"{train.name}, {label}"] = (
        [1] + [int(k.split()[0]) for k in runs if k.endswith("points")],
        [1.0] + [median(s) / one for k, s in runs.items() if k.endswith("points")],
    )
    longest = list(works)[-1]
    ratio = median(runs[longest]) / one if longest in runs else None
    found.claim(
        f"{train.name}: frontier of {longest} ({label}) / one fit",
        "at most 20",
        times(ratio),
        None if ratio is None else ratio <= 20,
    )
    if label == "logistic":
        against = median(runs[longest]) / eg if eg and longest in runs else None
        found.claim(
            f"{train.name}: frontier of {longest} / one fairlearn ExponentiatedGradient fit",
            "below 1",
            times(against),
            None if against is None else against < 1,
        )
