"""A promise to every person: what it costs beside one fair fit."""

import warnings

import numpy as np
from findings import seconds, times
from harness import interleaved, median
from people import load, split

from fairmargin import FairLogisticRegression, IndividualLossBound, p_rule

TITLE = "Promises to single people"
BUDGET = (70, 12)
GAMMAS = (0.1, 0.5, 1.0)


def run(found, budget):
    warnings.simplefilter("ignore")
    train, test = split(load("Adult").of("sex"), 0)
    gammas = GAMMAS
    if found.quick:
        train, gammas = train.take(np.arange(2000)), (0.5,)
    asked = {"one fair fit": None, **{f"gamma = {g:g}": IndividualLossBound(g) for g in gammas}}
    asked["keep whoever is accepted"] = IndividualLossBound(keep_positive="accepted")
    asked["gamma = 0.5, keep whoever is accepted"] = IndividualLossBound(0.5, keep_positive="accepted")
    kept = {}
    runs, errors = interleaved(
        {name: lambda n=name, c=c: kept.update({n: fit(train, c)}) for name, c in asked.items()},
        1 if found.quick else 3,
        budget.share(0.6),
    )
    one = median(runs["one fair fit"])
    rows = []
    for name, constraint in asked.items():
        if name in errors:
            rows.append((name, errors[name]))
            continue
        model = kept[name]
        decided = model.predict(test.X)
        rows.append(
            (
                name,
                seconds(median(runs[name])),
                times(median(runs[name]) / one),
                "" if constraint is None else f"{model.factor_:.3f}",
                f"{100 * np.mean(decided == test.y):.2f}",
                f"{p_rule(test.y, decided, sensitive_features=test.z):.0f}",
                f"{len(getattr(model, 'binding_', []))}",
                f"{model.certificate_.violation:.0e}",
            )
        )
    found.text(
        f"Adult, sex, {len(train):,} people to train on, each with a bound. The least covariance "
        "does not fix the classifier: it is the one of least loss among those that attain it."
    )
    found.table(
        (
            "asked",
            "time",
            "x one fair fit",
            "covariance left (share of c*)",
            "test accuracy %",
            "test p%",
            "binding people",
            "violation",
        ),
        rows,
    )
    for g in gammas:
        name = f"gamma = {g:g}"
        ratio = median(runs[name]) / one if name in runs else None
        found.claim(
            f"Adult: IndividualLossBound({g:g}) on all training rows / one fair fit",
            "at most 20",
            times(ratio),
            None if ratio is None else ratio <= 20,
        )


def fit(people, constraint):
    settings = {} if constraint is None else {"constraint": constraint}
    return FairLogisticRegression(**settings).fit(people.X, people.y, sensitive_features=people.z)
