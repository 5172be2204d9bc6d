"""Rows are taken by position: pandas arguments of one call whose row labels are in another order must raise."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from fairmargin import (
    CertifiedClassifier,
    CovarianceBound,
    ErrorRateDisplay,
    FairLinearSVC,
    FairLogisticRegression,
    FairMultinomialLogisticRegression,
    FairnessFrontier,
    FairOneVsRestClassifier,
    FairRegressor,
    FairTreeClassifier,
    GainLossDisplay,
    GroupPredictionDisplay,
    GroupRateDisplay,
    Membership,
    PRuleBound,
    RegressionFrontier,
    certify,
    class_p_rules,
    class_rates,
    cross_groups,
    cv_score,
    decision_boundary_covariance,
    fair_ranking,
    fair_top_k,
    model_card,
    p_rule,
    positive_rates,
)
from fairmargin.audit import audit
from fairmargin.audit.profiles import apply_profile
from fairmargin.baselines import (
    DatasetConstraints,
    DisparateImpactRemover,
    FairnessThroughAwareness,
    PrejudiceRemover,
    Reweighing,
)
from fairmargin.discrimination_rules import find_discrimination_rules
from fairmargin.experiments.comparison import compare
from fairmargin.multiclass import audit_classes
from fairmargin.proxies import find_proxies

ANOTHER_ORDER = "have the same labels in another order, and rows are taken by position: give "


class Decided:
    """A fitted classifier (and regressor) that reads its decisions from the features."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        return np.asarray(X)[:, 0].astype(int)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    labels = [f"person {k}" for k in rng.permutation(200)]
    columns = {
        "y": rng.integers(0, 2, 200),
        "d": rng.integers(0, 2, 200),
        "before": rng.integers(0, 2, 200),
        "w": rng.uniform(0.5, 2.0, 200),
        "f": rng.normal(size=200),
        "z": rng.choice(["f", "m"], 200),
        "s": rng.choice(["north", "south"], 200),
        "n": rng.integers(1, 9, 200),
    }
    found = {name: pd.Series(values, index=labels, name=name) for name, values in columns.items()}
    X = pd.DataFrame(rng.normal(size=(200, 2)), index=labels, columns=["a", "b"])
    return found | {"X": X.assign(a=found["d"].astype(float))}


def fit(estimator, *parts):
    """Return the call of a fit with these parts of the rows beside X, y and the sensitive attribute."""
    return lambda r: estimator.fit(r["X"], r["y"], sensitive_features=r["z"], **{name: r[k] for name, k in parts})


WEIGHED, IN_STRATA = ("sample_weight", "w"), ("strata", "s")
HALF = {"z": {"f": 0.5}}
ASKED = {"p": 80, "confidence": 0.9}
METRIC_ROWS = ("y", "d", "z", "w", "s")

CALLS = {
    **{
        metric.__name__: (
            lambda r, metric=metric: metric(
                r["y"], r["d"], sensitive_features=r["z"], sample_weight=r["w"], strata=r["s"]
            ),
            METRIC_ROWS,
        )
        for metric in (p_rule, cv_score, positive_rates, class_p_rules, class_rates)
    },
    "decision_boundary_covariance": (
        lambda r: decision_boundary_covariance(
            r["y"], r["f"], sensitive_features=r["z"], sample_weight=r["w"], strata=r["s"]
        ),
        ("y", "f", "z", "w", "s"),
    ),
    "audit": (
        lambda r: audit(
            r["d"], sensitive_features=r["z"], y_true=r["y"], sample_weight=r["w"], scores=r["f"], features=r["X"]
        ),
        ("d", "z", "y", "w", "f", "X"),
    ),
    "audit of cells": (
        lambda r: audit(r["d"], sensitive_features=r["z"], strata=r["s"], counts=r["n"]),
        ("d", "z", "s", "n"),
    ),
    "audit_classes": (
        lambda r: audit_classes(
            r["d"], sensitive_features=r["z"], y_true=r["y"], sample_weight=r["w"], scores=r["f"], features=r["X"]
        ),
        ("d", "z", "y", "w", "f", "X"),
    ),
    "apply_profile": (
        lambda r: apply_profile("us-fair-lending", r["d"], sensitive_features=r["z"], scores=r["f"]),
        ("d", "z", "f"),
    ),
    "find_proxies": (lambda r: find_proxies(r["X"], r["z"]), ("X", "z")),
    "find_discrimination_rules": (lambda r: find_discrimination_rules(r["X"], r["z"], r["d"]), ("X", "z", "d")),
    "certify": (
        lambda r: certify(Decided(), r["X"], r["y"], sensitive_features=r["z"], sample_weight=r["w"], p=10),
        ("X", "y", "z", "w"),
    ),
    "model_card": (
        lambda r: model_card(Decided(), r["X"], r["y"], sensitive_features=r["z"], sample_weight=r["w"]),
        ("X", "y", "z", "w"),
    ),
    "GroupRateDisplay": (
        lambda r: GroupRateDisplay.from_predictions(r["d"], sensitive_features=r["z"]),
        ("d", "z"),
    ),
    "GroupRateDisplay of an estimator": (
        lambda r: GroupRateDisplay.from_estimator(Decided(), r["X"], sensitive_features=r["z"]),
        ("X", "z"),
    ),
    "ErrorRateDisplay": (
        lambda r: ErrorRateDisplay.from_predictions(r["y"], r["d"], sensitive_features=r["z"]),
        ("y", "d", "z"),
    ),
    "ErrorRateDisplay of an estimator": (
        lambda r: ErrorRateDisplay.from_estimator(Decided(), r["X"], r["y"], sensitive_features=r["z"]),
        ("X", "y", "z"),
    ),
    "GainLossDisplay": (
        lambda r: GainLossDisplay.from_predictions(r["before"], r["d"], sensitive_features=r["z"]),
        ("before", "d", "z"),
    ),
    "GainLossDisplay of an estimator": (
        lambda r: GainLossDisplay.from_estimator(Decided(), Decided(), r["X"], sensitive_features=r["z"]),
        ("X", "z"),
    ),
    "GroupPredictionDisplay": (
        lambda r: GroupPredictionDisplay.from_predictions(r["f"], sensitive_features=r["z"]),
        ("f", "z"),
    ),
    "GroupPredictionDisplay of an estimator": (
        lambda r: GroupPredictionDisplay.from_estimator(Decided(), r["X"], sensitive_features=r["z"]),
        ("X", "z"),
    ),
    "fair_top_k": (lambda r: fair_top_k(r["f"], 10, sensitive_features=r["z"], at_least=HALF), ("f", "z")),
    "fair_ranking": (lambda r: fair_ranking(r["f"], sensitive_features=r["z"], at_least=HALF), ("f", "z")),
    "cross_groups": (lambda r: cross_groups({"z": r["z"], "s": r["s"]}), ("z", "s")),
    **{
        type(estimator).__name__: (fit(estimator, WEIGHED, IN_STRATA), ("X", "y", "z", "w", "s"))
        for estimator in (
            FairLogisticRegression(constraint=CovarianceBound(0.1)),
            FairLinearSVC(constraint=CovarianceBound(0.1)),
            FairTreeClassifier(constraint=CovarianceBound(0.1)),
            FairRegressor(constraint=CovarianceBound(0.1)),
            FairMultinomialLogisticRegression(constraint=CovarianceBound(0.1)),
            FairOneVsRestClassifier(FairLogisticRegression(constraint=CovarianceBound(0.1))),
            FairnessFrontier(FairLogisticRegression(), n_points=2),
            RegressionFrontier(FairRegressor(), n_points=2),
        )
    },
    **{
        type(estimator).__name__: (fit(estimator, WEIGHED), ("X", "y", "z", "w"))
        for estimator in (
            CertifiedClassifier(LogisticRegression(), **ASKED),
            Reweighing(LogisticRegression()),
            PrejudiceRemover(),
        )
    },
    **{
        type(estimator).__name__: (fit(estimator), ("X", "y", "z"))
        for estimator in (DatasetConstraints(), FairnessThroughAwareness())
    },
    "DisparateImpactRemover": (
        lambda r: DisparateImpactRemover().fit_transform(r["X"], sensitive_features=r["z"]),
        ("X", "z"),
    ),
    "score of a compared method": (
        lambda r: (
            PrejudiceRemover()
            .fit(r["X"].to_numpy(), r["y"].to_numpy(), sensitive_features=r["z"].to_numpy())
            .score(r["X"], r["y"], r["w"], sensitive_features=r["z"])
        ),
        ("X", "y", "w", "z"),
    ),
    "compare": (lambda r: compare(r["X"], r["y"], sensitive_features=r["z"], matrix=r["X"]), ("X", "y", "z")),
    "safety_set": (
        lambda r: FairLogisticRegression(constraint=PRuleBound(**ASKED)).fit(
            r["X"].to_numpy(),
            r["y"].to_numpy(),
            sensitive_features={"z": r["z"].to_numpy()},
            safety_set=(r["X"], r["z"], r["w"], r["y"]),
        ),
        ("X", "z", "w", "y"),
    ),
    "eval_set": (
        lambda r: FairnessFrontier(FairLogisticRegression(), n_points=2).fit(
            r["X"].to_numpy(),
            r["y"].to_numpy(),
            sensitive_features={"z": r["z"].to_numpy()},
            eval_set={"later": (r["X"], r["y"], {"z": r["z"]}, r["w"])},
        ),
        ("X", "y", "z", "w"),
    ),
}


@pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning")
@pytest.mark.parametrize(("call", "part"), [(call, part) for call, (_, parts) in CALLS.items() for part in parts])
def test_rows_in_another_order_raise_whichever_argument_has_them(call, part, rows):
    with pytest.raises(ValueError, match=ANOTHER_ORDER):
        CALLS[call][0]({**rows, part: rows[part].iloc[::-1]})


@pytest.mark.parametrize("given", ["reset", "own", "repeated", "array", "polars"])
@pytest.mark.parametrize("part", METRIC_ROWS)
def test_other_labels_and_none_tell_no_order(part, given, rows):
    told = {
        "reset": lambda column: column.reset_index(drop=True),
        "own": lambda column: column.set_axis(np.arange(500, 700)),
        "repeated": lambda column: column.set_axis(np.repeat(column.index[::-2], 2)),
        "array": lambda column: column.to_numpy(),
        "polars": lambda column: pl.Series(column.name, column.to_numpy()),
    }[given]
    call = CALLS["p_rule"][0]
    assert call({**rows, part: told(rows[part])}) == call(rows)


def test_the_message_names_both_and_says_what_to_do(rows):
    z = rows["z"].iloc[::-1]
    with pytest.raises(
        ValueError, match=r"rows of y_pred and sensitive_features have.* give sensitive_features\.loc\["
    ):
        p_rule(None, rows["d"], sensitive_features=z)
    give = r"give sensitive_features\['sex'\]\.loc\[y_pred\.index\]"
    with pytest.raises(ValueError, match=rf"rows of y_pred and sensitive_features\['sex'\] have.* {give}"):
        p_rule(None, rows["d"], sensitive_features={"sex": z})
    with pytest.raises(ValueError, match=r"rows of sensitive_features\['s'\] and sensitive_features\['z'\] have"):
        p_rule(None, rows["d"].to_numpy(), sensitive_features={"s": rows["s"], "z": z})
    with pytest.raises(
        ValueError, match=r"rows of eval_set\[0\] and eval_set\[2\] have.* eval_set\[2\]\.loc\[eval_set"
    ):
        FairnessFrontier(FairLogisticRegression()).fit(
            rows["X"], rows["y"], sensitive_features=rows["z"], eval_set=(rows["X"], rows["y"].to_numpy(), z)
        )


def test_default_labels_are_labels_too():
    """A series that was shuffled keeps its labels 0, 1, ...: beside one that was not, it is in another order."""
    sex = pd.Series(["a", "b"] * 500, name="sex")
    decided, shuffled = (sex == "a").astype(int), sex.sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match=ANOTHER_ORDER):
        audit(decided, sensitive_features=shuffled)
    with pytest.raises(ValueError, match=ANOTHER_ORDER):
        certify(Decided(), decided.to_frame(), sensitive_features=shuffled, p=60, confidence=0.9)
    assert p_rule(None, decided, sensitive_features=sex) == 0.0
    assert p_rule(None, decided, sensitive_features=shuffled.loc[decided.index]) == 0.0


def test_probabilities_have_the_labels_of_their_frame(rows):
    share = np.random.default_rng(0).uniform(size=200)
    table = pd.DataFrame({"a": share, "b": 1.0 - share}, index=rows["d"].index)
    with pytest.raises(ValueError, match=r"make sensitive_features of probabilities\.loc\[y_pred\.index\]"):
        p_rule(None, rows["d"], sensitive_features=Membership(table.iloc[::-1]))
    known = p_rule(None, rows["d"], sensitive_features=Membership(table))
    assert known == p_rule(None, rows["d"], sensitive_features=Membership(table.to_numpy()))


def test_labels_of_several_levels_and_of_other_kinds_are_compared(rows):
    d, z = rows["d"].reset_index(drop=True), rows["z"].reset_index(drop=True)
    levels = pd.MultiIndex.from_product([["x", "y"], range(100)])
    with pytest.raises(ValueError, match=ANOTHER_ORDER):
        p_rule(None, d.set_axis(levels), sensitive_features=z.set_axis(levels[::-1]))
    expected = p_rule(None, d, sensitive_features=z)
    days = pd.date_range("2020-01-01", periods=200)
    for one, other in ((levels, d.index), (d.index, levels), (days, d.index), (days, days.tz_localize("UTC"))):
        assert p_rule(None, d.set_axis(one), sensitive_features=z.set_axis(other)) == expected
