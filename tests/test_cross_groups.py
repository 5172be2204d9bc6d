"""Crossed groups as columns: the same in every container, small ones merged, and bounded wherever they are given."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairMultinomialLogisticRegression,
    FairnessFrontier,
    FairRegressor,
    FairSVC,
    FairTreeClassifier,
    GroupMeansBound,
    Membership,
    PRuleBound,
    cross_groups,
    p_rule,
    positive_rates,
)
from fairmargin.audit import audit

CROSSED = "sex × race"
EFFECTS = np.array([1.0, 0.5, 1.0, -0.5, 0.5, 1.0])


def people(n=600, seed=0):
    """Return people of whom only those in one combination of groups differ."""
    rng = np.random.default_rng(seed)
    Z = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "race": rng.choice(["a", "b"], n)})
    alike = (Z["sex"] == "m") == (Z["race"] == "a")
    X = rng.normal(size=(n, 6)) + np.outer(alike, [1.0, 0.5, 0.0, 0.0, 0.0, 0.0])
    y = (X @ EFFECTS + rng.normal(size=n) > 0.7).astype(int)
    return X, y, Z


def means(values, groups):
    return pd.Series(values).groupby(np.asarray(groups)).mean()


# --- What comes out --------------------------------------------------------------------------------------


def test_columns_are_kept_and_crossed_ones_follow():
    _, _, Z = people()
    Z.index = np.arange(len(Z))[::-1]
    crossed = cross_groups(Z)
    assert list(crossed.columns) == ["sex", "race", CROSSED]
    pd.testing.assert_frame_equal(crossed[["sex", "race"]], Z)
    assert (crossed[CROSSED].astype(str) == Z["sex"] + " × " + Z["race"]).all()
    assert list(crossed[CROSSED].cat.categories) == ["f × a", "f × b", "m × a", "m × b"]


def test_pairs_are_chosen_by_name():
    _, _, Z = people()
    Z["age"] = pd.cut(np.random.default_rng(1).normal(size=len(Z)), [-9, 0, 9], labels=["young", "old"])
    crossed = cross_groups(Z, [("sex", "race"), ("race", "age")])
    assert list(crossed.columns) == ["sex", "race", "age", CROSSED, "race × age"]
    assert list(crossed["race × age"].cat.categories) == ["a × young", "a × old", "b × young", "b × old"]
    assert cross_groups(Z)["sex × race × age"].nunique() == 8


@pytest.mark.parametrize("container", ["polars", "mapping", "array", "pyarrow", "other indices"])
def test_containers(container):
    _, _, Z = people(200)
    made = {
        "polars": pl.DataFrame(Z.to_dict("list")),
        "pyarrow": pl.DataFrame(Z.to_dict("list")).to_arrow(),
        "mapping": Z.to_dict("list"),
        "array": Z.to_numpy(),
        "other indices": {"sex": Z["sex"], "race": Z["race"].set_axis(np.arange(100, 300))},
    }[container]
    crossed = cross_groups(made)
    if container in ("polars", "pyarrow"):
        assert type(crossed) is type(made)
    last = crossed.to_pandas() if container == "pyarrow" else crossed
    name = "sensitive_0 × sensitive_1" if container == "array" else CROSSED
    assert list(last[name]) == list(cross_groups(Z)[CROSSED])


def test_numbers_are_kept_and_not_crossed():
    _, _, Z = people(200)
    Z["age"] = np.random.default_rng(0).normal(size=200)
    crossed = cross_groups(Z)
    assert list(crossed.columns) == ["sex", "race", "age", CROSSED]
    assert crossed["age"].dtype == float


def sized(**sizes):
    """Return people with the given number in each combination, named by two letters."""
    pairs = [list(pair) for pair, n in sizes.items() for _ in range(n)]
    return pd.DataFrame(pairs, columns=["sex", "race"])


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"fa": 50, "fb": 30, "ma": 30}, {"f × a": 50, "f × b": 30, "m × a": 30}),
        ({"fa": 50, "fb": 29, "ma": 3, "mb": 40}, {"f × a": 50, "m × b": 40, "other (2 groups)": 32}),
        ({"fa": 50, "fb": 29, "mb": 40}, {"f × a": 50, "other (2 groups)": 69}),  # the next smallest joins
        ({"fa": 50, "fb": 9, "ma": 9, "mb": 40}, {"f × a": 50, "other (3 groups)": 58}),
    ],
)
def test_small_groups_are_merged_by_the_stated_rule(sizes, expected):
    crossed = cross_groups(sized(**sizes))[CROSSED]
    assert crossed.value_counts(sort=False).to_dict() == expected
    assert cross_groups(sized(**sizes), min_people=1)[CROSSED].nunique() == len(sizes)


def test_the_metrics_cross_alike():
    X, y, Z = people(140)
    decided = (X[:, 0] > 0.5).astype(int)
    one = positive_rates(y, decided, sensitive_features=Z, intersections=True)
    two = positive_rates(y, decided, sensitive_features=cross_groups(Z))
    pd.testing.assert_frame_equal(one, two)


def test_a_part_of_the_people_keeps_the_groups():
    X, y, Z = people()
    crossed = cross_groups(Z)
    clf = FairLogisticRegression().fit(X[:400], y[:400], sensitive_features=crossed[:400])
    table = positive_rates(y[400:], clf.predict(X[400:]), sensitive_features=crossed[400:])
    assert list(table.loc[CROSSED].index) == list(crossed[CROSSED].cat.categories)


# --- What it is for --------------------------------------------------------------------------------------

SCORED = {
    "logistic": FairLogisticRegression(),
    "svm": FairLinearSVC(),
    "margin": FairMarginClassifier(loss="squared_hinge"),
    "kernel": FairSVC(C=0.1),
    "trees": FairTreeClassifier(),
}


@pytest.mark.parametrize("name", SCORED)
def test_scores_of_crossed_groups_are_alike_without_covariance(name):
    X, y, Z = people(300)
    crossed = cross_groups(Z)
    clf = SCORED[name].set_params(constraint=CovarianceBound(0.0))
    apart = np.ptp(means(clf.fit(X, y, sensitive_features=Z).decision_function(X), crossed[CROSSED]))
    together = np.ptp(means(clf.fit(X, y, sensitive_features=crossed).decision_function(X), crossed[CROSSED]))
    assert apart > 0.1
    assert together < 1e-6


def test_a_rule_holds_for_crossed_groups():
    X, y, Z = people()
    clf = FairLogisticRegression(constraint=PRuleBound(80))
    alone = clf.fit(X, y, sensitive_features=Z).predict(X)
    assert p_rule(y, alone, sensitive_features=Z) >= 80
    assert p_rule(y, alone, sensitive_features=Z, intersections=True) < 75
    both = clf.fit(X, y, sensitive_features=cross_groups(Z)).predict(X)
    assert p_rule(y, both, sensitive_features=Z, intersections=True) >= 80


def test_regression_classes_and_frontiers():
    X, y, Z = people(300)
    crossed = cross_groups(Z)
    target = X @ EFFECTS
    regressor = FairRegressor(constraint=GroupMeansBound(0.1))
    assert np.ptp(means(regressor.fit(X, target, sensitive_features=Z).predict(X), crossed[CROSSED])) > 0.5
    fair = regressor.fit(X, target, sensitive_features=crossed).predict(X)
    assert np.ptp(means(fair, crossed[CROSSED])) <= 0.1 + 1e-6
    classes = FairMultinomialLogisticRegression().fit(X, np.where(target > 1, 2, y), sensitive_features=crossed)
    assert CROSSED in classes.covariance_.index.get_level_values("attribute")
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=3)
    frontier.fit(X, y, sensitive_features=crossed, eval_set=(X, y, crossed))
    last = frontier.table_.iloc[-1]
    least = p_rule(y, frontier.estimators_[-1].predict(X), sensitive_features=crossed)
    assert last["test_p_rule"] == pytest.approx(least)


# --- Bad input -------------------------------------------------------------------------------------------

_Z = sized(fa=50, fb=40, ma=30, mb=30)
BAD = {
    "one attribute": (lambda: cross_groups(_Z["sex"]), "at least two sensitive attributes with groups"),
    "unknown name": (lambda: cross_groups(_Z, [("sex", "age")]), "names 'age', which is no sensitive attribute"),
    "not pairs": (lambda: cross_groups(_Z, "sex"), "intersections must be True"),
    "no number": (lambda: cross_groups(_Z, min_people=0), "min_people must be a positive whole number"),
    "too few": (lambda: cross_groups(_Z[:10]), "cannot be merged into two of at least 30 people"),
    "twice": (lambda: cross_groups(cross_groups(_Z), [("sex", "race")]), "'sex × race' would be there twice"),
    "missing": (lambda: cross_groups(_Z.where(_Z != "a")), "'race' is missing"),
    "lengths": (lambda: cross_groups({"a": list("xy"), "b": list("xyz")}), "different numbers of people"),
    "numbers": (lambda: cross_groups(_Z.assign(age=np.arange(150.0)), [("sex", "age")]), "has no groups"),
    "probabilities": (
        lambda: cross_groups({name: Membership(np.full((150, 2), 0.5)) for name in ("sex", "race")}),
        "'sex' and 'race' are both known as probabilities only",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_an_error_in_one_sentence(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_probabilities_beside_crossed_groups():
    table = Membership(np.tile([0.7, 0.3], (150, 1)), groups=["x", "y"])
    rates = positive_rates(None, [1, 0] * 75, sensitive_features={**cross_groups(_Z), "origin": table})
    assert list(rates.index.get_level_values(0).unique()) == ["sex", "race", CROSSED, "origin"]


def test_an_attribute_known_as_probabilities_is_crossed_with_known_ones():
    X, y, Z = people()
    share = np.random.default_rng(1).random(len(y))
    table = np.column_stack([share, 1.0 - share])
    crossed = cross_groups({"race": Z["race"], "sex": Membership(table, groups=["f", "m"])})
    cells = crossed["race × sex"]
    assert cells.groups == ("a × f", "a × m", "b × f", "b × m")
    is_a = (Z["race"] == "a").to_numpy()
    np.testing.assert_allclose(cells.probabilities, np.column_stack([table * is_a[:, None], table * ~is_a[:, None]]))
    fair = FairLogisticRegression(constraint=CovarianceBound(0.0)).fit(X, y, sensitive_features=crossed)
    scores = fair.decision_function(X)
    centred = cells.probabilities - cells.probabilities.mean(axis=0)
    np.testing.assert_allclose(centred.T @ scores / len(y), 0.0, atol=1e-9)


def test_several_attributes_known_as_probabilities_are_left_out():
    tables = {name: Membership(np.full((150, 2), 0.5)) for name in ("race", "origin")}
    crossed = cross_groups({**tables, "sex": _Z["sex"], "town": _Z["race"]})
    assert list(crossed) == ["race", "origin", "sex", "town", "sex × town"]


@pytest.mark.parametrize("min_people", [1, 160])
def test_certain_probabilities_are_crossed_as_groups_are(min_people):
    _, y, Z = people()
    certain = {"sex": Membership(pd.get_dummies(Z["sex"], dtype=float)), "race": Z["race"]}
    known, table = (cross_groups(z, min_people=min_people)[CROSSED] for z in (Z, certain))
    assert list(table.groups) == list(known.cat.categories)
    np.testing.assert_array_equal(table.probabilities, pd.get_dummies(known, dtype=float))
    expected = p_rule(None, y, sensitive_features=Z, intersections=True)
    assert p_rule(None, y, sensitive_features=certain, intersections=True) == pytest.approx(expected)
    audits = [audit(y, sensitive_features=z, intersections=True).groups for z in (Z, certain)]
    np.testing.assert_allclose([g.rate for g in audits[1]], [g.rate for g in audits[0]])
