"""The data tables of the appendix, and Table 1: what each method can do, from what the code declares."""

from __future__ import annotations

import inspect
from typing import Any

import pandas as pd

from fairmargin import FairLinearSVC, FairLogisticRegression, FairMarginClassifier, FairSVC
from fairmargin.baselines import METHODS, Capabilities, PreferentialSampling, PrejudiceRemover
from fairmargin.baselines.registry import TABLE_COLUMNS
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

COLUMNS = list(TABLE_COLUMNS)
# What the paper's table says, by row; of some rows the package has several variants.
PAPERS_MARKS: dict[str, tuple[Any, ...]] = {
    "Our method": (True, True, True, True, True, "Any convex margin-based"),
    "Kamiran and Calders (2010)": (True, True, False, False, False, "Any score-based"),
    "Calders and Verwer (2010)": (True, True, False, False, False, "Naive Bayes"),
    "Luong et al. (2011)": (True, False, False, False, False, "Any score-based"),
    "Kamishima et al. (2011)": (False, True, False, False, False, "Logistic regression"),
    "Zemel et al. (2013)": (True, True, False, False, False, "Log loss"),
    "Feldman et al. (2015)": (True, True, False, True, True, "Any (only numerical non-sensitive attributes)"),
    "Goh et al. (2016)": (True, True, False, True, True, "Ramp loss"),
}

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


def _marks(capabilities: Capabilities) -> list[Any]:
    return [getattr(capabilities, name) for name in TABLE_COLUMNS.values()]


def _published(capabilities: Capabilities) -> list[Any]:
    """Return the marks without what this package adds to the method."""
    return [getattr(capabilities, name) and name not in capabilities.extensions for name in TABLE_COLUMNS.values()]


def _rows() -> list[tuple[str, str, str, Capabilities]]:
    """Return reference, variant, class and declaration of our method and of all others."""
    ours = ("Our method", "", ", ".join(e.__name__ for e in ESTIMATORS), OURS)
    return [ours, *((m.reference, m.title, m.estimator.__name__, m.capabilities) for m in METHODS)]


def capability_table() -> pd.DataFrame:
    """Return Table 1 as the code declares it: a row for each method or variant, and the class that declares it."""
    rows = [(name, variant, *_marks(c), source) for name, variant, source, c in _rows()]
    return pd.DataFrame(rows, columns=["Method", "Variant", *COLUMNS, "Declared by"])


def _word(mark: Any) -> str:
    return {True: "yes", False: "no"}[mark] if isinstance(mark, bool) else str(mark)


def compared_table() -> pd.DataFrame:
    """Return Table 1 in words, with what the paper says where that differs."""
    rows = []
    for name, variant, source, declared in _rows():
        paper = PAPERS_MARKS.get(name)
        marks = []
        for k, (column, mark) in enumerate(zip(TABLE_COLUMNS.values(), _marks(declared), strict=True)):
            word = _word(mark)
            said = None if paper is None or column == "classifiers" else _word(paper[k])
            if said not in (None, word):
                word += (
                    f" (paper: {said})" if column not in declared.extensions else f" (an extension; paper: {said})"
                )
            elif column in declared.extensions:
                word += " (an extension)"
            marks.append(word)
        rows.append((name, variant, *marks, "yes" if paper else "no", source))
    return pd.DataFrame(rows, columns=["Method", "Variant", *COLUMNS, "In the paper's table", "Declared by"])


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
    others = table[table["Method"] != "Our method"]
    asked = slice(2, 5)  # business necessity, polyvalent, multiple
    rows = [(name, variant, _published(c)) for name, variant, _, c in _rows() if name in PAPERS_MARKS]
    agree = [marks[asked] == list(PAPERS_MARKS[name][asked]) for name, _, marks in rows]
    treatment = [variant for name, variant, marks in rows if marks[0] != PAPERS_MARKS[name][0]]
    published = {
        e: [e.capabilities.polyvalent, e.capabilities.multiple] for e in (PreferentialSampling, PrejudiceRemover)
    }
    extended = {e: [n in e.capabilities.extensions for n in ("polyvalent", "multiple")] for e in published}
    claims = [
        Claim(
            2,
            "Table 1",
            "No prior method addresses business necessity; many take no polyvalent or several attributes",
            f"{int(others['Business necessity'].sum())} of {len(others)} others declare business necessity; as "
            f"published, {sum(agree)} of {len(agree)} variants have the paper's marks for it, for polyvalent and for "
            "several attributes. They differ in disparate treatment, as z is needed to decide, for: "
            + ", ".join(treatment),
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
            "as published: PrejudiceRemover refuses anything but one attribute of two values; PreferentialSampling "
            "takes more by an extension of this package",
            verdict(
                [
                    not takes or added
                    for e in published
                    for takes, added in zip(published[e], extended[e], strict=True)
                ]
            ),
        ),
    ]
    note = "Table 1: which kinds of unfairness a method avoids, and what it takes"
    return Output(numbers={"table1": table}, tables={note: compared_table()}, claims=claims)


def _data_units(plan: Plan) -> list[Unit]:
    return [Unit(counts, {}, 0.5)]


EXPERIMENTS = [
    Experiment(
        "table1",
        "Table 1: capabilities of the methods",
        "Every row is generated from what a class declares, and every declaration is exercised by a test; "
        "what the paper says is added where it differs. Two of Calders and Verwer's three models, Zemel et "
        "al.'s representation with weights for each group and Feldman et al.'s repair of features look at the "
        "sensitive attribute of whoever is decided on, so that the paper's “yes” under disparate treatment is "
        "true of some variants only. An extension is what this package adds to a method as published.",
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
