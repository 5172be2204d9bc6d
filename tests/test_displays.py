"""What notebooks show: HTML of audits, frontiers and fitted estimators, and drawings by group."""

import warnings
from functools import partial

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import precision_score, recall_score

mpl.use("Agg")
import matplotlib.pyplot as plt

from fairmargin import (
    CovarianceBound,
    ErrorRateDisplay,
    FairLogisticRegression,
    FairnessFrontier,
    FairRegressor,
    FrontierDisplay,
    GainLossDisplay,
    GroupPredictionDisplay,
    GroupRateDisplay,
    Membership,
    PRuleBound,
    RegressionFrontier,
)
from fairmargin.audit import audit
from fairmargin.datasets import make_linear_synthetic
from fairmargin.formatting import ratio_beside

HOSTILE = "<script>alert(1)</script>$x^"


@pytest.fixture(scope="module")
def data():
    X, y, z = make_linear_synthetic(600, random_state=0)
    return X, np.where(y > 0, 1, 0), pd.Series(np.where(z == 1, HOSTILE, "b"), name="group")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_audits_and_frontiers_have_html(data):
    X, y, z = data
    html = audit(y, sensitive_features=z)._repr_html_()
    assert "<table>" in html
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=3)
    assert "points:" not in frontier._repr_html_()
    frontier.fit(X, y, sensitive_features=z)
    html = frontier._repr_html_()
    assert "Frontier of 3 points: least loss for each covariance." in html
    assert f"{100 * frontier.table_['train_accuracy'][0]:.1f}%" in html
    rules = FairnessFrontier(FairLogisticRegression(), n_points=3, which="p_rule")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at 100% everybody is decided alike
        rules.fit(X, y, sensitive_features=z)
    assert "the most accurate classifier found at each level" in rules._repr_mimebundle_()["text/html"]


@pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning")
def test_a_frontier_is_traced_and_drawn(data):
    X, y, z = data
    display = FrontierDisplay.from_estimator(
        FairLogisticRegression(), X, y, sensitive_features=z, n_points=3, eval_set=(X[:300], y[:300], z[:300])
    )
    assert [line.get_label() for line in display.lines_] == ["train", "test"]
    assert display.frontier_.which == "p_rule"
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), display.frontier_.table_["train_p_rule"])


@pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning")
def test_a_frontier_names_the_rates_it_compares(data):
    X, y, z = data
    for notion, label in (
        ("selection_rate", "p%-rule (percent)"),
        ("true_positive_rate", "p%-rule of true positive rates (percent)"),
    ):
        estimator = FairLogisticRegression(constraint=CovarianceBound(0.0, notion=notion))
        frontier = FairnessFrontier(estimator, n_points=3).fit(X, y, sensitive_features=z)
        assert frontier.plot().ax_.get_xlabel() == label


def test_fitted_estimators_show_certificate_and_rates(data):
    X, y, z = data
    clf = FairLogisticRegression(constraint=PRuleBound(80))
    assert "Positive rates" not in clf._repr_html_()
    clf.fit(X, y, sensitive_features=z)
    html = clf._repr_html_()
    assert "Found by a search" in html
    assert f"p%-rule on the people trained on: {ratio_beside(clf.p_rule_, 80.0)}" in html
    for group in (HOSTILE, "b"):
        rate = np.mean(clf.predict(X)[z == group])
        assert clf.training_rates_["group", group] == pytest.approx(rate)
        assert f"{100 * rate:.1f}%" in html
    assert "alert(1)</script>" not in html.split("Positive rates")[1]
    exact = FairLogisticRegression().fit(X, y, sensitive_features=z)
    assert "Proved optimal" in exact._repr_html_()
    assert "Proved optimal" in FairLogisticRegression(constraint=None).fit(X, y)._repr_html_()
    numbers = np.random.default_rng(0).normal(size=len(y))  # which have no groups
    assert FairLogisticRegression().fit(X, y, sensitive_features=numbers).training_rates_ is None


def test_rates_and_error_rates_are_drawn(data):
    X, y, z = data
    clf = FairLogisticRegression().fit(X, y, sensitive_features=z)
    decided = clf.predict(X)
    display = GroupRateDisplay.from_estimator(clf, X, sensitive_features=z)
    display.figure_.canvas.draw()  # names with $ must not be read as formulas
    drawn = sorted(bar.get_width() for bar in display.ax_.patches)
    assert drawn == pytest.approx(sorted(np.mean(decided[z == g]) for g in z.unique()))
    _, ax = plt.subplots()
    errors = ErrorRateDisplay.from_estimator(clf, X, y, sensitive_features=z, ax=ax)
    assert errors.ax_ is ax
    table = errors.table.set_index(["group", "measure"])["rate"]
    b = (z == "b").to_numpy()
    assert table["b", "true positive rate"] == pytest.approx(recall_score(y[b], decided[b]))
    assert table["b", "precision"] == pytest.approx(precision_score(y[b], decided[b]))
    with pytest.raises(ValueError, match="no measure 'recall'"):
        ErrorRateDisplay.from_predictions(y, decided, sensitive_features=z, measures=["recall"])
    nobody = ErrorRateDisplay.from_predictions(y, np.zeros_like(y), sensitive_features=z)
    assert nobody.table.query("measure == 'precision'")["rate"].isna().all()


def test_gains_and_losses_are_drawn(data):
    X, y, z = data
    free = FairLogisticRegression(constraint=None).fit(X, y)
    fair = FairLogisticRegression().fit(X, y, sensitive_features=z)
    display = GainLossDisplay.from_estimator(fair, free, X, sensitive_features=z)
    now, before = fair.predict(X), free.predict(X)
    for row in display.table.itertuples():
        inside = (z == row.group).to_numpy()
        assert row.gained == np.sum((now > before) & inside)
        assert row.lost == np.sum((now < before) & inside)
    with pytest.raises(ValueError, match="3 decisions before and 2 now"):
        GainLossDisplay.from_predictions([1, 0, 1], [1, 0], sensitive_features=["a", "b"])


def test_regressions_are_drawn(data):
    X, _, z = data
    wage = X @ [1.0, 2.0] + np.random.default_rng(0).normal(size=len(X))
    display = FrontierDisplay.from_estimator(
        FairRegressor(), X, wage, sensitive_features=z, n_points=3, eval_set=(X[:300], wage[:300], z[:300])
    )
    assert [line.get_label() for line in display.lines_] == ["train", "test"]
    table = display.frontier_.table_
    np.testing.assert_array_equal(display.lines_[1].get_xdata(), table["test_covariance"])
    np.testing.assert_array_equal(display.lines_[1].get_ydata(), table["test_r2"])
    frontier = RegressionFrontier(FairRegressor(), n_points=3).fit(X, wage, sensitive_features=z)
    drawn = frontier.plot(x="mean_difference", y="mae", on="train")
    assert drawn.ax_.get_xlabel() == "largest difference of group means"
    fair = frontier.estimators_[-1]
    boxes = GroupPredictionDisplay.from_estimator(fair, X, sensitive_features=z)
    boxes.figure_.canvas.draw()
    for row in boxes.table.itertuples():
        values = fair.predict(X)[(z == row.group).to_numpy()]
        assert (row.people, row.median) == (len(values), pytest.approx(np.median(values)))
        assert row.mean == pytest.approx(fair.group_means_["group", row.group])
    with pytest.raises(ValueError, match="y_pred contains NaN: 1 of 2 values"):
        GroupPredictionDisplay.from_predictions([1.0, None], sensitive_features=["a", "b"])
    with pytest.raises(ValueError, match="y_pred has nan or infinite values"):
        GroupPredictionDisplay.from_predictions([1.0, np.inf], sensitive_features=["a", "b"], plot=False)
    with pytest.raises(ValueError, match="cut numbers into groups"):
        GroupPredictionDisplay.from_predictions(wage, sensitive_features=wage)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        ([], "y_pred is empty: there are no predictions to draw"),
        (
            ["a", "b"],
            r"y_pred must hold one real number per person, got .* of shape \(2,\); decisions are drawn by Group",
        ),
        ([1.0 + 2.0j, 3.0], "y_pred must hold one real number per person, got complex128"),
        (np.ones((2, 2)), r"y_pred must hold one real number per person, got float64 of shape \(2, 2\)"),
    ],
)
def test_only_predictions_that_are_numbers_are_drawn(predictions, message):
    with pytest.raises(ValueError, match=message):
        GroupPredictionDisplay.from_predictions(predictions, sensitive_features=["a", "b"][: len(predictions)])


def test_no_decisions_are_not_drawn():
    nobody = {"sensitive_features": []}
    for draw in (GroupRateDisplay.from_predictions, partial(ErrorRateDisplay.from_predictions, [])):
        with pytest.raises(ValueError, match="no decisions to draw"):
            draw([], **nobody)
    with pytest.raises(ValueError, match="no decisions to draw"):
        GainLossDisplay.from_predictions([], [], **nobody)


def test_expected_numbers_of_people_are_rounded_as_in_audits():
    rng = np.random.default_rng(0)
    race = Membership(rng.dirichlet([1, 1], 600), groups=["a", "b"], name="race")
    before, decided = rng.integers(0, 2, 600), rng.integers(0, 2, 600)
    listed = [group.people for group in audit(decided, sensitive_features=race).attributes[0].groups]
    assert sum(listed) == 600
    rates = GroupRateDisplay.from_predictions(decided, sensitive_features=race, plot=False).table
    assert rates["people"].tolist() == listed
    changes = GainLossDisplay.from_predictions(before, decided, sensitive_features=race).table
    assert changes["people"].tolist() == listed
    assert changes["gained"].sum() == pytest.approx(np.sum(decided > before), abs=1)  # two numbers are rounded
