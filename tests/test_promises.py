"""What is promised must hold in what ``predict`` does: each of these once did not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairnessFrontier,
    IndividualLossBound,
    LossBound,
    PRuleBound,
    cv_score,
    p_rule,
)
from fairmargin.datasets import make_linear_synthetic
from fairmargin.exceptions import FavourableClassWarning
from fairmargin.losses import LogisticLoss

quiet = pytest.mark.filterwarnings("ignore::fairmargin.SmallGroupWarning", "ignore::fairmargin.CovarianceWarning")


@quiet
@pytest.mark.parametrize("estimator", [FairLogisticRegression(), FairLinearSVC(), FairLogisticRegression(C=np.inf)])
@pytest.mark.parametrize("seed", range(4))
def test_a_kept_decision_is_kept_by_predict(estimator, seed):
    """Scores that bind at zero must not end a rounding error below it."""
    X, y, z = make_linear_synthetic(400, random_state=seed)
    X = np.hstack([X, np.random.default_rng(seed).normal(size=(400, 3))])
    free = estimator.set_params(constraint=None).fit(X, y).predict(X)
    estimator.set_params(constraint=IndividualLossBound(keep_positive="accepted")).fit(X, y, sensitive_features=z)
    assert np.all(estimator.predict(X)[free == 1] == 1)


@quiet
def test_refusing_everybody_answers_no_question():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 3000)
    X = np.column_stack([z + 0.3 * rng.normal(size=3000), 0.05 * rng.normal(size=3000)])
    y = (rng.random(3000) < np.where(z == 1, 0.55, 0.1)).astype(int)
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=6).fit(X, y, sensitive_features=z)
    refused = [not clf.predict(X).any() for clf in frontier.estimators_]
    assert any(refused)
    assert frontier.table_["train_p_rule"].isna().tolist() == refused
    with pytest.raises(ValueError, match="No point of the frontier reaches"):
        frontier.select(p_rule=80)


@quiet
@pytest.mark.parametrize("p", [100, 75, 50])
def test_a_rule_that_holds_exactly_holds(p):
    """10 of 20 and 11 of 22 are a 100%-rule, to the last digit."""
    accepted = {100: 11, 75: 11, 50: 11}[p]
    n = 20 * 100 // p
    x = np.r_[np.ones(10), -np.ones(n - 10), np.ones(accepted), -np.ones(22 - accepted)]
    z = np.r_[np.zeros(n), np.ones(22)]
    y = (x > 0).astype(int)
    clf = FairLogisticRegression(constraint=PRuleBound(int(p_rule(y, y, sensitive_features=z))))
    clf.fit(x[:, None], y, sensitive_features=z)
    assert clf.path_ == "unconstrained"


@quiet
def test_groups_without_weight_do_not_count():
    X, y, z = make_linear_synthetic(600, random_state=0)
    group = np.where(z == 1, "a", "b").astype(object)
    group[:5] = "c"
    weight = np.ones(len(y))
    weight[:5] = 0
    clf = FairLogisticRegression(constraint=PRuleBound(80))
    clf.fit(X, y, sample_weight=weight, sensitive_features=group)
    assert p_rule(y, clf.predict(X), sensitive_features=group, sample_weight=weight) >= 80


def test_balanced_classes_count_weights():
    X, y, _ = make_linear_synthetic(300, random_state=0)
    weight = np.where(y > 0, 5, 1)
    rows = np.repeat(np.arange(len(y)), weight)
    ours = FairLogisticRegression(constraint=None, class_weight="balanced")
    weighted = ours.fit(X, y, sample_weight=weight).coef_
    np.testing.assert_allclose(weighted, ours.fit(X[rows], y[rows]).coef_, rtol=1e-5)
    theirs = LogisticRegression(class_weight="balanced", tol=1e-10).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted, theirs.coef_, rtol=1e-4)


@pytest.mark.slow
@quiet
@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
@pytest.mark.parametrize("seed", range(3))
def test_certificates_say_what_their_numbers_say(estimator, seed):
    X, y, z = make_linear_synthetic(200, random_state=seed)
    X, rng = np.round(X), np.random.default_rng(seed)
    people = {"a": z, "b": rng.choice(list("uvw"), 200), "c": (X[:, 1] + rng.normal(size=200) > 0).astype(int)}
    bounds = [LossBound(0.05, norm="sum"), LossBound(0.05), IndividualLossBound(0.5), PRuleBound(70)]
    for bound in bounds:
        clf = estimator(constraint=bound).fit(X, y, sensitive_features=people)
        proof = clf.certificate_
        scores = clf.decision_function(X)
        loss = clf._loss().value(y * scores).sum() + 0.5 * np.sum(clf.coef_**2)
        assert proof.objective == pytest.approx(loss, rel=1e-9)
        assert proof.gap == pytest.approx((proof.objective - proof.dual_bound) / proof.objective, abs=1e-12)


def test_frontiers_do_not_hide_that_they_did_not_converge():
    X, y, z = make_linear_synthetic(300, random_state=0)
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        FairnessFrontier(FairLogisticRegression(max_iter=1), n_points=3).fit(X, y, sensitive_features=z)


def test_a_label_nobody_has_is_not_fair():
    with pytest.raises(ValueError, match="pos_label='Yes' is not among the labels"):
        cv_score(None, ["yes", "no", "yes", "yes"], sensitive_features=list("aabb"), pos_label="Yes")
    with pytest.raises(ValueError, match="not among the labels"):
        cv_score(None, [1, 0, 1, 1], sensitive_features=list("aabb"), pos_label="1")
    with pytest.warns(FavourableClassWarning, match="0 is taken as the favourable class"):
        assert cv_score([-1, 0, -1, 0], [-1, 0, 0, 0], sensitive_features=list("aabb")) == 0.5


def test_nothing_is_left_of_an_earlier_fit():
    X, y, z = make_linear_synthetic(200, random_state=0)
    clf = FairLogisticRegression(constraint=LossBound(0.05)).fit(X, y, sensitive_features=z)
    clf.set_params(constraint=CovarianceBound(0.0)).fit(X, y, sensitive_features=z)
    assert not hasattr(clf, "loss_increase_")


def test_frames_with_numbers_for_names():
    X, y, z = make_linear_synthetic(200, random_state=0)
    clf = FairLogisticRegression().fit(X, y, sensitive_features=pd.DataFrame({0: z}))
    assert abs(clf.covariance_.iloc[0]) < 1e-9


@pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning")  # it accepts everybody here
def test_mixed_lists_keep_their_numbers():
    X, y, z = make_linear_synthetic(200, random_state=0)
    ages = np.random.default_rng(0).normal(40, 10, 200)
    rows = [["a" if k else "b", float(age)] for k, age in zip(z, ages, strict=True)]
    clf = FairLogisticRegression().fit(X, y, sensitive_features=rows)
    assert clf.covariance_.index.tolist() == [("sensitive_0", "b"), ("sensitive_1", "(numeric)")]


def test_codes_and_copies_of_a_sensitive_attribute_are_refused():
    X, y, _ = make_linear_synthetic(200, random_state=0)
    rng = np.random.default_rng(0)
    race, age = rng.choice(list("abc"), 200), rng.normal(40, 10, 200)
    codes = np.column_stack([X, pd.Categorical(race).codes])
    with pytest.raises(ValueError, match="tells the same as the sensitive attribute 'race'"):
        FairLogisticRegression().fit(codes, y, sensitive_features={"race": race})
    single = np.column_stack([X, (age - 40) / 10]).astype(np.float32)
    with pytest.raises(ValueError, match="disparate treatment"):
        FairLogisticRegression().fit(single, y, sensitive_features={"age": age})


def test_a_loss_that_contradicts_itself_is_refused():
    class Sharp(LogisticLoss):
        def value(self, m):
            return super().value(3 * m) / 3

        def derivative(self, m):
            return super().derivative(3 * m)

        def second_derivative(self, m):
            return 3 * super().second_derivative(3 * m)

    X, y, _ = make_linear_synthetic(200, random_state=0)
    with pytest.raises(ValueError, match=r"derivatives\(m\) does not agree"):
        FairMarginClassifier(Sharp(), constraint=None).fit(X, y)


def test_a_share_of_no_loss_is_an_error():
    rng = np.random.default_rng(0)
    z, X = rng.integers(0, 2, 200), rng.normal(size=(200, 2))
    X[:, 0] += z
    y = (X[:, 0] > 0.5).astype(int)
    with pytest.raises(ValueError, match="set a finite C"):
        FairLinearSVC(C=np.inf, constraint=LossBound(0.05)).fit(X, y, sensitive_features=z)


def test_further_data_are_looked_at_first():
    X, y, z = make_linear_synthetic(200, random_state=0)
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=3)
    with pytest.raises(ValueError, match="'test' have the label 'no'"):
        frontier.fit(X, y, sensitive_features=z, eval_set=(X, np.where(y > 0, "yes", "no"), z))
    with pytest.raises(ValueError, match="cannot be called 'train'"):
        frontier.fit(X, y, sensitive_features=z, eval_set={"train": (X, y, z)})
    assert not hasattr(frontier, "table_")


def test_parameters_that_cannot_work_are_refused():
    X, y, z = make_linear_synthetic(200, random_state=0)
    with pytest.raises(ValueError, match="PRuleBound has no defaults"):
        FairLogisticRegression(constraint=PRuleBound).fit(X, y, sensitive_features=z)
    with pytest.raises(ValueError, match="max_iter must be a positive whole number"):
        FairLogisticRegression(max_iter=0.5).fit(X, y, sensitive_features=z)
    with pytest.raises(ValueError, match="third argument of fit is sample_weight"):
        FairLogisticRegression().fit(X, y, z)
