"""Several classes under notions of several rates and within strata: bounds, metrics and audits."""

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

from cvxpy_reference import solve_reference
from fairmargin import (
    CovarianceBound,
    FairLogisticRegression,
    FairMultinomialLogisticRegression,
    FairOneVsRestClassifier,
    InfeasibleError,
    PRuleBound,
    class_p_rules,
    class_rates,
    p_rule,
)
from fairmargin.audit import audit
from fairmargin.multiclass import audit_classes

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore::fairmargin.exceptions.CovarianceWarning"),  # decisions compare scores
]

NOTIONS = ("selection_rate", "true_positive_rate", "false_positive_rate", "equalized_odds")


def make_people(n=240, seed=0):
    rng = np.random.default_rng(seed)
    sex, job = rng.choice(["f", "m"], n), rng.choice(["j", "k"], n)
    X = rng.normal(size=(n, 8))
    X[:, :3] += np.outer(sex == "m", [0.8, -0.4, 0.2]) + np.outer(job == "k", [0.3, 0.5, 0.0])
    y = np.array(["clerk", "manager", "sales"])[np.argmax(X[:, :3] + rng.gumbel(size=(n, 3)), axis=1)]
    return X, y, sex, job


def conditions_of(notion, member, strata):
    """Return who counts for a class under each condition; by default everybody is of one stratum."""
    among = {
        "selection_rate": [np.ones(len(member), dtype=bool)],
        "true_positive_rate": [member],
        "false_positive_rate": [~member],
        "equalized_odds": [member, ~member],
    }[notion]
    return [who & (strata == value) for who in among for value in np.unique(strata)]


def optimum(X, y, z, notion, strata, c):
    """Return the optimum of cvxpy with the covariances of all classes within ``c`` under every condition."""
    n, d = X.shape
    classes = np.unique(y)
    Q = len(classes)
    Y = (y[:, None] == classes).astype(float)
    W, b = cp.Variable((d, Q)), cp.Variable((1, Q))
    F = X @ W + np.ones((n, 1)) @ b
    loss = cp.sum(cp.log_sum_exp(F, axis=1) - cp.sum(cp.multiply(F, Y), axis=1))
    kept = []
    for q in range(Q):
        boundary = np.full(Q, -1 / (Q - 1))
        boundary[q] = 1.0
        for who in conditions_of(notion, Y[:, q] > 0, strata):
            a = (z[who] - z[who].mean()) @ X[who] / who.sum()
            kept.append(cp.abs(a @ W @ boundary) <= c)
    problem = cp.Problem(cp.Minimize(loss + cp.sum_squares(W) / 2), kept)
    solve_reference(problem, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("is_divided", [False, True])
@pytest.mark.parametrize("c", [0.0, 0.02])
def test_bounds_hold_under_every_condition_at_the_optimum_of_cvxpy(notion, is_divided, c):
    X, y, sex, job = make_people()
    given = {"strata": job} if is_divided else {}
    model = FairMultinomialLogisticRegression(constraint=CovarianceBound(c, notion=notion))
    model.fit(X, y, sensitive_features=sex, **given)
    strata = job if is_divided else np.zeros(len(y))
    assert model.certificate_.status == "solved"
    best = optimum(X, y, (sex == "m").astype(float), notion, strata, c)
    assert abs(model.certificate_.objective - best) <= 1e-7 * best
    n_conditions = len(conditions_of(notion, y == "clerk", strata))
    assert model.covariance_.shape == (n_conditions, 3)
    assert model.multipliers_.index.equals(model.covariance_.index)
    # Recomputed from the scores, whose means over the classes drop out
    F = model.decision_function(X)
    for q, label in enumerate(model.classes_):
        boundary = (F[:, q] - np.delete(F, q, axis=1).mean(axis=1))[:, None]
        for who, stated in zip(conditions_of(notion, y == label, strata), model.covariance_[label], strict=True):
            z = (sex[who] == "m").astype(float)
            value = float(np.mean((z - z.mean()) * boundary[who, 0]))
            assert abs(value - stated) <= 1e-10
            assert abs(value) <= c + 1e-8


def test_a_loose_bound_within_strata_is_the_unconstrained_classifier():
    X, y, sex, job = make_people()
    free = FairMultinomialLogisticRegression(constraint=None).fit(X, y)
    loose = CovarianceBound(50.0, notion="equalized_odds")
    model = FairMultinomialLogisticRegression(constraint=loose).fit(X, y, sensitive_features=sex, strata=job)
    np.testing.assert_allclose(model.coef_, free.coef_, atol=1e-6)


@pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning")
@pytest.mark.parametrize("path", ["covariance", "decisions"])
@pytest.mark.parametrize("asked", [{"p": 80}, {"difference": 0.06}], ids=["ratio", "difference"])
@pytest.mark.parametrize("notion", [*NOTIONS, "false_negative_rate"])
def test_rules_per_class_under_every_notion(notion, asked, path):
    X, y, sex, job = make_people(900, seed=3)
    rule = PRuleBound(**asked, notion=notion, path=path)
    for strata in (None, job):
        model = FairMultinomialLogisticRegression(constraint=rule, favourable="manager")
        try:
            model.fit(X, y, sensitive_features=sex, strata=strata)
        except InfeasibleError:
            assert path == "covariance"  # zero covariance is no rule on decisions
            continue
        decided = {"sensitive_features": sex, "notion": notion, "strata": strata, "favourable": "manager"}
        reached = class_p_rules(y, model.predict(X), **decided)
        np.testing.assert_allclose(model.p_rule_, reached)
        rates = class_rates(y, model.predict(X), **decided)["rate"]
        apart = rates.groupby([level for level in rates.index.names if level != "category"]).agg(np.ptp).max()
        assert model.cv_score_["manager"] == pytest.approx(apart)
        assert reached["manager"] >= 80 - 1e-9 if "p" in asked else apart <= 0.06 + 1e-9
        assert model.certificate_.status == "solved"
        assert model.score(X, y) > pd.Series(y).value_counts(normalize=True).max() + 0.1
        if model.path_ == "decisions" and (notion == "equalized_odds" or strata is not None):
            assert list(model.path_point_.index.names) == ["attribute", "category", "among"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_rules_per_class_within_strata_of_which_one_lacks_a_group():
    """Prices of the group that is not there were divided by its share of zero."""
    X, y, _, job = make_people(900, seed=3)
    race = np.random.default_rng(0).choice(list("pqr"), 900)
    kept = (race != "r") | (job != "k")
    people = {"sensitive_features": race[kept], "strata": job[kept]}
    rule = PRuleBound(90, path="decisions")
    model = FairMultinomialLogisticRegression(constraint=rule, favourable="manager").fit(X[kept], y[kept], **people)
    assert model.path_ == "decisions"
    assert class_p_rules(y[kept], model.predict(X[kept]), **people, favourable="manager")["manager"] >= 90
    prices = model.path_point_["manager"].xs("r", level="category")
    assert np.sum(prices == 0.0) == 1
    assert np.all(np.isfinite(prices))


def test_rules_per_class_of_two_classes_are_the_binary_rule():
    X, y, sex, _ = make_people(900, seed=1)
    y = np.where(y == "manager", "manager", "other")
    model = FairMultinomialLogisticRegression(
        constraint=PRuleBound(85, notion="true_positive_rate"), favourable="manager"
    ).fit(X, y, sensitive_features=sex)
    reached = p_rule(y, model.predict(X), sensitive_features=sex, notion="true_positive_rate", pos_label="manager")
    assert model.p_rule_["manager"] == pytest.approx(reached)
    assert reached >= 85
    with pytest.raises(ValueError, match="only defined for two classes, for which use FairLogisticRegression"):
        model.set_params(constraint=PRuleBound(80, path="rates")).fit(X, y, sensitive_features=sex)


def test_one_vs_rest_passes_strata_on():
    X, y, sex, job = make_people()
    base = FairLogisticRegression(constraint=CovarianceBound(0.0))
    model = FairOneVsRestClassifier(base).fit(X, y, sensitive_features=sex, strata=job)
    alone = base.fit(X, (y == "manager").astype(int), sensitive_features=sex, strata=job)
    np.testing.assert_array_equal(model.estimators_[1].coef_, alone.coef_)
    assert abs(model.covariance_).to_numpy().max() <= 1e-9


def test_strata_that_cannot_be_used_are_refused():
    X, y, sex, job = make_people()
    model = FairMultinomialLogisticRegression(constraint=CovarianceBound(0.0))
    with pytest.raises(ValueError, match="tell the sensitive attribute"):
        model.fit(X, y, sensitive_features=sex, strata=sex)
    with pytest.raises(ValueError, match="give sensitive_features, too"):
        FairMultinomialLogisticRegression(constraint=None).fit(X, y, strata=job)


def test_a_cell_without_people_is_named_with_its_class():
    X, y, sex, job = make_people()
    y = np.where((y == "sales") & (sex == "f") & (job == "j"), "clerk", y)
    model = FairMultinomialLogisticRegression(constraint=CovarianceBound(0.0, notion="true_positive_rate"))
    with pytest.raises(ValueError, match=r"Of the class 'sales'.*at most one group has anybody in: strata='j'"):
        model.fit(X, y, sensitive_features=sex, strata=job)


@pytest.mark.parametrize("notion", [*NOTIONS, "error_rate"])
def test_metrics_of_a_class_are_those_of_being_given_it_or_not(notion):
    X, y, sex, job = make_people()
    decided = FairMultinomialLogisticRegression(constraint=None).fit(X, y).predict(X)
    options = {"sensitive_features": sex, "notion": notion, "strata": job}
    rules = class_p_rules(y, decided, **options)
    rates = class_rates(y, decided, **options)
    audits = audit_classes(decided, sensitive_features=sex, y_true=y, notion=notion)
    for label in np.unique(y):
        truth, given = (y == label).astype(int), (decided == label).astype(int)
        assert rules[label] == p_rule(truth, given, pos_label=1, **options)
        assert rates.loc[label, "rate"].between(0, 1).all()
        alone = audit(given, sensitive_features=sex, y_true=truth, notion=notion)
        assert audits[label].attributes == alone.attributes


def test_people_without_a_label_do_not_count_in_audits_of_classes():
    _, y, sex, _ = make_people()
    decided = np.roll(y, 3)
    some = pd.Series(y, dtype=object)
    some[:40] = None
    found = audit_classes(
        decided, sensitive_features=sex, y_true=some, favourable="sales", notion="true_positive_rate"
    )
    alone = audit(
        (decided[40:] == "sales").astype(int),
        sensitive_features=sex[40:],
        y_true=(y[40:] == "sales").astype(int),
        notion="true_positive_rate",
    )
    assert found["sales"].attributes == alone.attributes
