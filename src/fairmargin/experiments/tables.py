"""The data tables of the appendix, and Table 1: what each method can do, from what the code declares."""

from __future__ import annotations

import inspect
from typing import Any

import pandas as pd

from fairmargin import FairLinearSVC, FairLogisticRegression, FairMarginClassifier, FairSVC
from fairmargin.baselines import Capabilities, PreferentialSampling, PrejudiceRemover, Reweighing
from fairmargin.datasets import load_adult, load_bank
from fairmargin.experiments._experiment import Experiment, Output, Plan, Results
from fairmargin.experiments._work import Unit
from fairmargin.experiments.claims import Claim, listed, verdict

__all__ = ["EXPERIMENTS", "OURS", "capability_table", "needs_z"]

OURS = Capabilities(
    avoids_disparate_treatment=True,
    avoids_disparate_impact=True,
    business_necessity=True,  # LossBound, IndividualLossBound
    polyvalent=True,
    multiple=True,
    classifiers="Any convex margin-based",
    needs_z_at_prediction=False,
)
ESTIMATORS = [FairLogisticRegression, FairLinearSVC, FairMarginClassifier, FairSVC]

# Methods of the paper's Table 1 that are not in the package: its own marks, and not checked by any code.
FROM_THE_PAPER = {
    "Calders and Verwer (2010)": (True, True, False, False, False, "Naive Bayes"),
    "Luong et al. (2011)": (True, False, False, False, False, "Any score-based"),
    "Zemel et al. (2013)": (True, True, False, False, False, "Log loss"),
    "Feldman et al. (2015)": (True, True, False, True, True, "Any (only numerical non-sensitive attributes)"),
    "Goh et al. (2016)": (True, True, False, True, True, "Ramp loss"),
}
# What the paper's table says of methods that the package has.
PAPERS_MARKS = {
    "Our method": (True, True, True, True, True, "Any convex margin-based"),
    "Kamiran and Calders (2010)": (True, True, False, False, False, "Any score-based"),
    "Kamishima et al. (2011)": (False, True, False, False, False, "Logistic regression"),
}
COLUMNS = [
    "Disparate treatment",
    "Disparate impact",
    "Business necessity",
    "Polyvalent attributes",
    "Multiple attributes",
    "Classifiers",
]

PAPERS_COUNTS = {
    ("Adult", "Male"): (20988, 9539),
    ("Adult", "Female"): (13026, 1669),
    ("Bank", "25 to 60"): (35240, 3970),
    ("Bank", "under 25 or over 60"): (1308, 670),
    ("Adult", "Amer-Indian-Eskimo"): (382, 53),
    ("Adult", "Asian-Pac-Islander"): (934, 369),
    ("Adult", "White"): (28696, 10207),
    ("Adult", "Black"): (3694, 534),
    ("Adult", "Other"): (308, 45),
}


def needs_z(estimator: type) -> bool:
    """Whether deciding takes the sensitive attribute, by the signature of ``predict``."""
    return "sensitive_features" in inspect.signature(estimator.predict).parameters  # type: ignore[attr-defined]


def _marks(capabilities: Capabilities) -> tuple[Any, ...]:
    return (
        capabilities.avoids_disparate_treatment,
        capabilities.avoids_disparate_impact,
        capabilities.business_necessity,
        capabilities.polyvalent,
        capabilities.multiple,
        capabilities.classifiers,
    )


def capability_table() -> pd.DataFrame:
    """Return Table 1: a row for each method, and where what it says comes from."""
    declared = {
        "Our method": (OURS, ", ".join(e.__name__ for e in ESTIMATORS)),
        "Kamiran and Calders (2010)": (PreferentialSampling.capabilities, "PreferentialSampling"),
        "Kamiran and Calders (2012), not in the paper's table": (Reweighing.capabilities, "Reweighing"),
        "Kamishima et al. (2011)": (PrejudiceRemover.capabilities, "PrejudiceRemover"),
    }
    rows = [(name, *_marks(c), f"declared by {source}") for name, (c, source) in declared.items()]
    rows += [(name, *marks, "from the paper") for name, marks in FROM_THE_PAPER.items()]
    return pd.DataFrame(rows, columns=["Method", *COLUMNS, "Source"])


def counts() -> list[dict[str, Any]]:
    """Count people by sensitive value and label."""
    rows = []
    for title, data in (("Adult", load_adult()), ("Bank", load_bank())):
        for attribute in data.sensitive_features:
            found = pd.crosstab(data.sensitive_features[attribute], data.target)
            for value, row in found.iterrows():
                negative, positive = int(row[0]), int(row[1])
                rows.append(
                    {
                        "data": title,
                        "attribute": attribute,
                        "value": value,
                        "negative": negative,
                        "positive": positive,
                    }
                )
    return rows


def _make_data(results: Results) -> Output:
    table = results["counts"]
    table["total"] = table["negative"] + table["positive"]
    found = {(r["data"], r["value"]): (r["negative"], r["positive"]) for _, r in table.iterrows()}
    same = {key: found.get(key) == counts for key, counts in PAPERS_COUNTS.items()}
    claim = Claim(
        36,
        "App. B.2, Tables 2 and 3",
        "45,222 people of Adult and 41,188 of Bank, by sensitive value and label",
        f"{sum(same.values())} of the paper's {len(same)} rows are met exactly; "
        + listed(
            f"{d} has {table[(table['data'] == d)].groupby('attribute')['total'].sum().iloc[0]:,} people"
            for d in ("Adult", "Bank")
        ),
        verdict(same.values()),
    )
    shown = table.set_axis(["Data", "Attribute", "Value", "Negative", "Positive", "Total"], axis=1)
    return Output(numbers={"data": table}, tables={"People by sensitive value and label": shown}, claims=[claim])


def _make_table1(results: Results) -> Output:
    table = capability_table()
    declared = {row.iloc[0]: tuple(row.iloc[1:7]) for _, row in table.iterrows()}
    agree = [declared[name] == marks for name, marks in PAPERS_MARKS.items()]
    others = table[table["Method"] != "Our method"]
    one = "one sensitive attribute of two values"
    claims = [
        Claim(
            2,
            "Table 1",
            "No prior method addresses business necessity; many take no polyvalent or several attributes",
            f"{int(others['Business necessity'].sum())} of {len(others)} others declare business necessity, "
            f"{int(others['Polyvalent attributes'].sum())} polyvalent and {int(others['Multiple attributes'].sum())} "
            f"several attributes; {sum(agree)} of {len(agree)} declarations of the code equal the paper's marks",
            verdict([not others["Business necessity"].any(), all(agree)]),
        ),
        Claim(
            20,
            "Sec. 4.2, Fig. 2c (i)",
            "R-LR needs the sensitive attribute to decide; our classifiers do not",
            "predict takes sensitive_features: "
            + listed(f"{e.__name__} {'yes' if needs_z(e) else 'no'}" for e in (*ESTIMATORS, PrejudiceRemover)),
            verdict([needs_z(PrejudiceRemover), not any(needs_z(e) for e in ESTIMATORS)]),
        ),
        Claim(
            24,
            "Sec. 4.2",
            "The compared methods cannot handle non-binary or several sensitive attributes",
            f"PreferentialSampling and PrejudiceRemover refuse anything but {one}",
            verdict(
                [
                    not c.polyvalent and not c.multiple
                    for c in (PreferentialSampling.capabilities, PrejudiceRemover.capabilities)
                ]
            ),
        ),
    ]
    marks = table.copy()
    for column in COLUMNS[:-1]:
        marks[column] = marks[column].map({True: "yes", False: "no"})
    note = "Table 1: which kinds of unfairness a method avoids, and what it takes"
    return Output(numbers={"table1": table}, tables={note: marks}, claims=claims)


def _data_units(plan: Plan) -> list[Unit]:
    return [Unit(counts, {}, 0.5)]


EXPERIMENTS = [
    Experiment(
        "table1",
        "Table 1: capabilities of the methods",
        "Generated from what the classes declare; rows marked “from the paper” are methods that the package does not "
        "have. Of those, Calders and Verwer's two-model method, Zemel et al.'s representation with weights for each "
        "group and Feldman et al.'s repair of features look at the sensitive attribute of whoever is decided on, so "
        "that “yes” under disparate treatment is true of some of their variants only.",
        lambda plan: [],
        _make_table1,
    ),
    Experiment(
        "data",
        "Tables 2 and 3 (appendix): the data",
        "Adult is both files without the rows that have a missing value; Bank is the full file.",
        _data_units,
        _make_data,
    ),
]
