"""Several constraints at once: one convex problem, against an independent solver; conflicts are named."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from cvxpy_reference import leave_out, solve_reference
from fairmargin import (
    CovarianceBound,
    CovariancePenalty,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairMultinomialLogisticRegression,
    FairnessFrontier,
    FairSVC,
    FairTreeClassifier,
    GroupMeansBound,
    IndividualLossBound,
    InfeasibleError,
    LossBound,
    PerformanceBound,
    PRuleBound,
    SmallGroupWarning,
    TrivialClassifierWarning,
    cv_score,
    p_rule,
)
from fairmargin.datasets import make_linear_synthetic
from fairmargin.formulations import region
from fairmargin.formulations.prule.judge import make_judge
from fairmargin.notions import Notion
from fairmargin.tables.plain_data import from_plain, to_plain
from fairmargin.tables.specifications import parse_constraints
from test_covariance_penalty import LOSSES, TIGHT, covariance_rows, make_people

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore:Solution may be inaccurate"),  # of Clarabel: the case is left out
    pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning"),
    pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning"),
    pytest.mark.filterwarnings("ignore::fairmargin.SmallGroupWarning"),
]

LARGEST = {  # the margin at which the loss is u
    "logistic": lambda u: -np.log(np.expm1(u)),
    "hinge": lambda u: 1.0 - u,
    "squared_hinge": lambda u: 1.0 - np.sqrt(u),
}


class Reference:
    """The same question to cvxpy and Clarabel: each constraint from its definition."""

    def __init__(self, X, y, people, C, loss):
        self.X, self.y, self.people, self.loss = X, y, people, loss
        self.w, self.b = cp.Variable(X.shape[1]), cp.Variable()
        self.margins = cp.multiply(y, X @ self.w + self.b)
        self.value = C * cp.sum(LOSSES[loss](self.margins)) + 0.5 * cp.sum_squares(self.w)
        solve_reference(cp.Problem(cp.Minimize(self.value)), **TIGHT)
        self.best = float(self.value.value)
        self.free = self.margins.value, self.w.value, self.b.value
        self.asked, self.least = [], None

    def covariances(self, notion):
        A = covariance_rows(self.y, self.people, notion)
        free = A.T @ (self.X @ self.free[1] + self.free[2])
        return A.T @ self.X @ self.w + A.sum(axis=0) * self.b, np.abs(free)

    def add(self, constraint):
        covariance, reach = self.covariances(constraint.notion)
        if isinstance(constraint, CovarianceBound):
            self.asked.append(cp.abs(covariance) <= constraint.c * (reach if constraint.relative else 1.0))
            return
        if isinstance(constraint, LossBound):
            self.asked.append(self.value <= (1 + constraint.gamma) * self.best)
        else:
            self.promise(constraint)
        if self.least is None:
            self.least = cp.max(cp.multiply(1 / reach, cp.abs(covariance)))

    def promise(self, constraint):
        margins, w, _ = self.free
        if np.isfinite(constraint.gamma):
            value = LOSSES[self.loss](margins).value
            allowed = LARGEST[self.loss](np.maximum((1 + constraint.gamma) * value, 1e-300))
            self.asked.append(self.margins >= np.minimum(allowed, margins))
            self.asked.append(cp.sum_squares(self.w) <= (1 + constraint.gamma) * float(w @ w))
        if constraint.keep_positive is not None:
            kept = np.flatnonzero(self.y * margins >= 0)
            self.asked.append(cp.multiply(self.y[kept], self.margins[kept]) >= 0)

    def solve(self):
        """Return the least of what is minimised; None if nothing satisfies all."""
        problem = cp.Problem(cp.Minimize(self.value if self.least is None else self.least), self.asked)
        try:
            problem.solve("CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        except cp.error.SolverError:
            leave_out("Clarabel failed")
        if problem.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
            return None
        if problem.status != cp.OPTIMAL:
            leave_out(f"Clarabel ended {problem.status!r}")
        return float(problem.value)


def draw_constraints(rng):
    """Return two or three constraints that are not the same."""
    kinds = [
        lambda: CovarianceBound(float(rng.uniform(0, 0.2))),
        lambda: CovarianceBound(float(rng.uniform(0.2, 0.9)), relative=True, notion="true_positive_rate"),
        lambda: CovarianceBound(float(rng.uniform(0.3, 1)), relative=True, notion="equalized_odds"),
        lambda: LossBound(float(10 ** rng.uniform(-2.5, -0.5)), notion=rng.choice(["selection_rate", "error_rate"])),
        lambda: IndividualLossBound(float(10 ** rng.uniform(-1, 0.7))),
        lambda: IndividualLossBound(keep_positive="accepted", notion="true_positive_rate"),
    ]
    chosen = rng.choice(len(kinds), size=rng.integers(2, 4), replace=False)
    return [kinds[k]() for k in chosen]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The solver stopped")
@settings(max_examples=20, phases=[Phase.generate])
@given(seed=st.integers(0, 10**6), C=st.sampled_from([0.1, 1.0, 10.0]), loss=st.sampled_from(sorted(LOSSES)))
def test_agrees_with_an_independent_solver(seed, C, loss):
    X, y, people = make_people(seed)
    asked = draw_constraints(np.random.default_rng(seed))
    reference = Reference(X, y, people, C, loss)
    for constraint in asked:
        reference.add(constraint)
    best = reference.solve()
    classifier = FairMarginClassifier(loss, C=C, constraint=asked)
    if best is None:
        with pytest.raises(InfeasibleError, match=r"contradict|Without|was found"):
            classifier.fit(X, y, sensitive_features=people)
        return
    classifier.fit(X, y, sensitive_features=people)
    mine = classifier.certificate_.objective
    if reference.least is not None:
        reference.w.value, reference.b.value = classifier.coef_[0], classifier.intercept_[0]
        mine = float(reference.least.value)
    assert mine == pytest.approx(best, rel=1e-6, abs=2e-6)
    assert classifier.certificate_.status == "solved"
    assert all(record.violation <= 1e-8 for record in classifier.constraints_)


@pytest.mark.parametrize("estimator", [FairLogisticRegression(), FairLinearSVC(), FairSVC(), FairTreeClassifier()])
def test_every_estimator_takes_a_list(estimator):
    X, y, people = make_people(1, 250, categories=3)
    asked = [CovarianceBound(0.3, relative=True, notion="true_positive_rate"), CovarianceBound(0.05)]
    fitted = clone(estimator).set_params(constraint=asked).fit(X, y, sensitive_features=people)
    assert fitted.certificate_.status == "solved"
    equal, overall = fitted.constraints_
    assert (equal.covariance.abs() <= equal.bound + 1e-9).all()
    assert (overall.covariance.abs() <= 0.05 + 1e-9).all()
    assert overall.multipliers.abs().max() > 0
    assert set(fitted.covariance_.index.get_level_values("among")) == {"true_positive_rate", "selection_rate"}


def test_two_bounds_are_one_with_both():
    X, y, people = make_people(2, 250, categories=3)
    two = FairLogisticRegression(constraint=[CovarianceBound({"race": 0.05}), CovarianceBound({"sex": 0.0})])
    one = FairLogisticRegression(constraint=CovarianceBound({"race": 0.05, "sex": 0.0}))
    two.fit(X, y, sensitive_features=people)
    one.fit(X, y, sensitive_features=people)
    np.testing.assert_allclose(two.coef_, one.coef_, atol=1e-6)
    np.testing.assert_allclose(two.multipliers_, one.multipliers_, atol=1e-3)
    race, sex = two.constraints_
    assert (race.multipliers["sex"] == 0).all()
    assert (sex.multipliers["race"] == 0).all()


def test_the_first_of_them_decides_whose_covariance_is_least():
    X, y, people = make_people(3, 300)
    fitted = {}
    for notion in ("selection_rate", "true_positive_rate"):
        other = "true_positive_rate" if notion == "selection_rate" else "selection_rate"
        asked = [LossBound(0.03, notion=notion), IndividualLossBound(1.0, notion=other)]
        fitted[notion] = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=people)
        assert fitted[notion].constraints_[0].bound is not None
        assert fitted[notion].constraints_[1].bound is None
        assert fitted[notion].loss_increase_ <= 0.03 + 1e-9
    for notion, best in fitted.items():
        assert relative(best, notion) <= min(relative(model, notion) for model in fitted.values()) * (1 + 1e-6)


def relative(model, notion):
    """Return the largest covariance under a notion, relative to the unconstrained classifier's."""
    rows = model.covariance_.index.get_level_values("among") == notion
    return (model.covariance_[rows].abs() / model.unconstrained_covariance_[rows].abs()).max()


def test_promises_hold_beside_a_bound():
    X, y, people = make_people(4, 300)
    free = FairLogisticRegression(constraint=None).fit(X, y)
    accepted = free.decision_function(X) >= 0
    asked = [CovarianceBound(0.02), IndividualLossBound(keep_positive="accepted")]
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=people)
    assert np.all(model.predict(X)[accepted] == 1)
    assert model.covariance_.abs().max() <= 0.02 + 1e-9
    assert all(record.violation <= 1e-9 for record in model.constraints_)


def test_a_price_beside_a_bound():
    X, y, people = make_people(5, 300, categories=2)  # with more, multipliers are a choice
    asked = [CovariancePenalty({"race": 30.0}), CovarianceBound({"sex": 0.0})]
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=people)
    assert model.covariance_["sex"].abs().max() < 1e-9
    assert (model.multipliers_["race"].abs() <= 30.0 * (1 + 1e-4)).all()
    alone = FairLogisticRegression(constraint=CovarianceBound({"sex": 0.0})).fit(X, y, sensitive_features=people)
    assert model.covariance_["race"].abs().sum() < alone.covariance_["race"].abs().sum()


def test_a_cell_without_people_is_named_beside_the_notions_of_a_list():
    X, y, people = make_people(0)
    asked = [CovarianceBound(0.0), PRuleBound(80, notion="true_positive_rate")]
    words = r"'selection_rate and true_positive_rate' .* nobody is in sex='f' among the people with a positive label"
    with pytest.raises(ValueError, match=words):
        FairLogisticRegression(constraint=asked).fit(
            X, np.where(people["sex"] == "f", -1.0, y), sensitive_features=people
        )


def test_conflicts_name_the_constraints_that_contradict_each_other():
    X, y, people = make_people(6, 300)
    bound, budget, promise = CovarianceBound(0.0), LossBound(1e-4), IndividualLossBound(10.0)
    with pytest.raises(InfeasibleError) as error:
        FairLogisticRegression(constraint=[promise, bound, budget]).fit(X, y, sensitive_features=people)
    named = str(error.value).partition(" contradict")[0]
    assert "CovarianceBound" in named
    assert "LossBound(gamma=0.0001" in named
    assert "IndividualLossBound" not in named


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "promise",
    [IndividualLossBound(0.5), IndividualLossBound(keep_positive="accepted"), IndividualLossBound(3.0)],
    ids=["tight", "kept", "loose"],
)
@pytest.mark.parametrize("gamma", [0.02, 5.0])
@pytest.mark.filterwarnings("ignore:The solver stopped")
def test_the_sum_of_covariances_under_promises(loss, seed, promise, gamma):
    X, y, people = make_people(seed)
    bound = LossBound(gamma, "sum")
    model = FairMarginClassifier(loss, constraint=[bound, promise]).fit(X, y, sensitive_features=people)
    assert model.certificate_.gap <= 1e-6
    assert model.certificate_.violation <= 1e-7
    reference = Reference(X, y, people, 1.0, loss)
    for constraint in (bound, promise):
        reference.add(constraint)
    covariance, _ = reference.covariances("selection_rate")
    reach = model.unconstrained_covariance_.abs().to_numpy()
    reference.least = cp.sum(cp.multiply(1 / reach, cp.abs(covariance)))
    found = (model.covariance_.abs() / reach).sum()
    assert abs(found - reference.solve()) <= 1e-4 * len(reach)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([], "empty list"),
        ([CovarianceBound(0.1), CovarianceBound(0.1)], "given twice"),
        ([IndividualLossBound([1.0, 2.0]), IndividualLossBound([1.0, 2.0])], "given twice"),
        ([CovarianceBound(0.1), "p-rule"], "must hold constraints only, got 'p-rule'"),
        ([CovarianceBound, PRuleBound], "PRuleBound has no defaults"),
        ([GroupMeansBound(1.0), CovarianceBound(0.1)], "GroupMeansBound cannot be in a classifier's list"),
        ([PRuleBound(70, confidence=0.9), PRuleBound(80, confidence=0.9)], "Only one rule in a list can be tested"),
        ([PRuleBound(80, path="decisions"), PRuleBound(difference=0.1)], "on one path.*'decisions' and 'auto'"),
    ],
)
def test_bad_lists(asked, message):
    X, y, people = make_people(7)
    with pytest.raises(ValueError, match=message):
        FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=people)


def test_a_list_of_one_is_the_constraint_itself():
    X, y, people = make_people(8)
    one = FairLogisticRegression(constraint=[CovarianceBound(0.1)]).fit(X, y, sensitive_features=people)
    assert not hasattr(one, "constraints_")
    assert one.covariance_.abs().max() <= 0.1 + 1e-9


def test_several_classes_take_no_list():
    X, _, people = make_people(9)
    asked = [CovarianceBound(0.0), LossBound(0.1)]
    with pytest.raises(ValueError, match="only defined for two classes; give one constraint"):
        FairMultinomialLogisticRegression(constraint=asked).fit(X, np.arange(len(X)) % 3, sensitive_features=people)


def test_parameters_of_a_list_can_be_searched_over():
    model = FairLogisticRegression(constraint=[CovarianceBound(0.1), LossBound(0.1)])
    model.set_params(constraint__0__c=0.5)
    assert model.constraint == [CovarianceBound(0.5), LossBound(0.1)]
    with pytest.raises(ValueError, match="no constraint parameter"):
        model.set_params(constraint__2__c=0.5)


def people_of_one_attribute(seed, n=300):
    X, y, people = make_people(seed, n, categories=2)
    return X, y, people[["race"]]


def test_a_rule_and_the_promise_that_nobody_loses():
    X, y, people = people_of_one_attribute(0, 400)
    free = FairLogisticRegression(constraint=None).fit(X, y)
    accepted = free.predict(X) == 1
    asked = [PRuleBound(80), IndividualLossBound(keep_positive="accepted")]
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=people)
    alone = FairLogisticRegression(constraint=PRuleBound(80)).fit(X, y, sensitive_features=people)
    assert p_rule(y, free.predict(X), sensitive_features=people) < 80
    assert not np.all(alone.predict(X)[accepted] == 1)  # the rule alone would have refused some of them
    assert np.all(model.predict(X)[accepted] == 1)
    assert p_rule(y, model.predict(X), sensitive_features=people) >= 80
    rule, promise = model.constraints_
    assert rule.figures["p_rule"] == pytest.approx(model.p_rule_)
    assert promise.violation == 0
    assert alone.score(X, y) >= model.score(X, y)


@pytest.mark.parametrize("estimator", [FairLogisticRegression(), FairLinearSVC(), FairTreeClassifier()])
def test_a_rule_beside_a_bound(estimator):
    X, y, people = people_of_one_attribute(1)
    asked = [PRuleBound(85), CovarianceBound(0.02, notion="true_positive_rate")]
    model = clone(estimator).set_params(constraint=asked).fit(X, y, sensitive_features=people)
    assert p_rule(y, model.predict(X), sensitive_features=people) >= 85
    scores, counted = model.decision_function(X), y > 0
    z = (people["race"] == "1").to_numpy(float)[counted]
    assert abs(np.mean((z - z.mean()) * scores[counted])) <= 0.02 + 1e-8
    assert model.score(X, y) > 0.5


def test_two_rules_are_judged_together():
    X, y, people = people_of_one_attribute(0, 400)
    asked = [PRuleBound(75), PRuleBound(difference=0.1, notion="equalized_odds")]
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=people)
    decided = model.predict(X)
    assert p_rule(y, decided, sensitive_features=people) >= 75
    assert cv_score(y, decided, sensitive_features=people, notion="equalized_odds") <= 0.1 + 1e-12


def people_of_unequal_labels(n=1000):
    """Return people whom a weak feature hardly tells apart: deciding the same for everybody is hard to beat."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, n)
    y = (rng.random(n) < np.where(z == 1, 0.42, 0.23)).astype(int)
    return rng.normal(size=(n, 1)) + 0.3 * y[:, None], y, z


@pytest.mark.parametrize("order", [1, -1])
def test_a_constant_must_keep_every_rule(order):
    X, y, z = people_of_unequal_labels()
    asked = [PRuleBound(difference=0.3), PRuleBound(95, notion="error_rate")][::order]
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=z)
    assert [record.violation for record in model.constraints_] == [0, 0]
    decided = model.predict(X)
    assert p_rule(y, decided, sensitive_features=z, notion="error_rate") >= 95
    assert cv_score(y, decided, sensitive_features=z) <= 0.3
    # Refusing everybody is more accurate and keeps the rule on selection rates; its errors are the unequal labels.
    assert model.score(X, y) < 1 - y.mean()
    assert p_rule(y, np.zeros(len(y)), sensitive_features=z, notion="error_rate") < 95


@pytest.mark.parametrize("order", [1, -1])
def test_a_list_shows_the_measures_of_its_first_rule(order):
    X, y, people = people_of_one_attribute(0, 400)
    asked = [PRuleBound(75), PRuleBound(difference=0.1, notion="equalized_odds")][::order]
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=people)
    decided, notion = model.predict(X), asked[0].notion
    assert model.p_rule_ == pytest.approx(p_rule(y, decided, sensitive_features=people, notion=notion))
    assert model.cv_score_ == pytest.approx(cv_score(y, decided, sensitive_features=people, notion=notion))
    assert model.p_rule_ == pytest.approx(model.constraints_[0].figures["p_rule"])


def test_each_rule_warns_of_its_own_small_groups():
    X, y, people = people_of_one_attribute(0, 400)
    asked = [PRuleBound(difference=0.9), PRuleBound(difference=0.1, notion="true_positive_rate")]
    with pytest.warns(SmallGroupWarning) as caught:
        FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=people)
    told = [str(w.message) for w in caught if w.category is SmallGroupWarning]
    assert len(told) == 1
    assert "at most 0.1 between true positive rates" in told[0]


def test_the_constant_that_promises_allow():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 400)
    X = 4.0 * ((z == 1) | (rng.random(400) < 0.05))[:, None]
    y = ((z == 1) & (rng.random(400) < 0.8)).astype(int)
    assert y.mean() < 0.5  # refusing everybody is more accurate, but takes from the accepted
    asked = [PRuleBound(95), IndividualLossBound(keep_positive="accepted")]
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=z)
    assert model.predict(X).all()
    assert all(record.violation == 0 for record in model.constraints_)


def test_the_search_stops_where_promises_leave_no_classifier(monkeypatch):
    X, y, z = make_linear_synthetic(600, random_state=0)
    failed, solve = [], region.solve

    def counted(*args, **kwargs):
        solution = solve(*args, **kwargs)
        failed.append(solution.certificate.status == "iteration limit")
        return solution

    monkeypatch.setattr(region, "solve", counted)
    asked = [IndividualLossBound(0.5), PRuleBound(46.8)]
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=z)
    assert p_rule(y, model.predict(X), sensitive_features=z) >= 46.8
    assert all(record.violation <= 1e-9 for record in model.constraints_)
    assert 0 < sum(failed) <= 4  # the end of the covariance path, and the halvings around its best point


@pytest.mark.parametrize("room", [1e-5, 1e-6])
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_promises_that_bind_either_way_leave_the_cut_where_it_is(seed, room):
    """Where promises to score high and to score low both have no room, rounding left no cut at all."""
    X, y, z = make_linear_synthetic(400, random_state=seed)
    promise = IndividualLossBound(1.0)
    model = FairLogisticRegression(constraint=promise).fit(X, y, sensitive_features=z)
    least = float(np.abs(model.covariance_).max())
    reached = p_rule(y, model.predict(X), sensitive_features=z)
    asked = [CovarianceBound(least * (1 + room)), promise, PRuleBound(0.9 * reached, path="covariance")]
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=z)
    assert p_rule(y, model.predict(X), sensitive_features=z) >= 0.9 * reached
    assert all(record.violation <= 1e-9 for record in model.constraints_)


def test_a_rule_of_a_list_on_covariances_of_errors_has_no_multipliers():
    X, y, z = make_linear_synthetic(200, random_state=2)
    asked = [PRuleBound(70, notion="error_rate", path="ccp"), IndividualLossBound(1.0)]
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=z)
    assert model.path_ == "ccp"
    assert model.multipliers_.isna().all()


def test_the_cut_of_a_rule_keeps_a_bound_that_depends_on_it():
    X, y, people = people_of_one_attribute(2)
    asked = [PRuleBound(80), CovarianceBound(0.01, notion="error_rate")]
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=people)
    z = (people["race"] == "1").to_numpy(float)
    wrong = -y * model.decision_function(X)
    assert abs(np.mean((z - z.mean()) * wrong)) <= 0.01 + 1e-8


@pytest.mark.parametrize("estimator", [FairLogisticRegression(), FairLinearSVC()])
def test_a_rule_within_a_bound_on_the_loss(estimator):
    X, y, z = make_linear_synthetic(600, random_state=0)
    free = clone(estimator).set_params(constraint=None).fit(X, y)
    alone = clone(estimator).set_params(constraint=PRuleBound(58)).fit(X, y, sensitive_features=z)
    spent = alone.certificate_.objective / free.certificate_.objective - 1
    model = clone(estimator).set_params(constraint=[PRuleBound(58), LossBound(0.99 * spent)])
    model.fit(X, y, sensitive_features=z)
    scores = model.decision_function(X)
    losses = (
        np.logaddexp(0, -y * scores) if isinstance(model, FairLogisticRegression) else np.maximum(0, 1 - y * scores)
    )
    value = losses.sum() + 0.5 * np.sum(model.coef_**2)
    assert value <= (1 + 0.99 * spent) * free.certificate_.objective * (1 + 1e-8)
    assert p_rule(y, model.predict(X), sensitive_features=z) >= 58
    assert all(record.violation <= 1e-8 for record in model.constraints_)
    with pytest.raises(
        InfeasibleError, match=r"No classifier was found that keeps both PRuleBound.* and LossBound.*\)\. Ask"
    ):
        model.set_params(constraint__1__gamma=1e-3).fit(X, y, sensitive_features=z)


def test_a_price_is_charged_as_far_as_the_loss_allows():
    X, y, people = people_of_one_attribute(5)
    priced = FairLogisticRegression(constraint=CovariancePenalty(40.0)).fit(X, y, sensitive_features=people)
    free = FairLogisticRegression(constraint=None).fit(X, y).certificate_.objective
    spent = priced.certificate_.objective / free - 1
    loose = FairLogisticRegression(constraint=[CovariancePenalty(40.0), LossBound(2 * spent)])
    np.testing.assert_allclose(loose.fit(X, y, sensitive_features=people).coef_, priced.coef_, atol=1e-6)
    tight = FairLogisticRegression(constraint=[CovariancePenalty(40.0), LossBound(0.5 * spent)])
    tight.fit(X, y, sensitive_features=people)
    # The least L + price |cov| within the budget spends it; its multiplier is a share of the price.
    assert tight.loss_increase_ == pytest.approx(0.5 * spent, rel=1e-5)
    assert 0 < tight.multipliers_.abs().iloc[0] < 40.0
    alone = FairLogisticRegression(constraint=LossBound(0.5 * spent)).fit(X, y, sensitive_features=people)
    np.testing.assert_allclose(tight.covariance_, alone.covariance_, rtol=1e-5)


def test_a_price_beside_a_rule_is_the_bound_it_corresponds_to():
    X, y, people = people_of_one_attribute(0, 400)
    priced = FairLogisticRegression(constraint=CovariancePenalty(20.0)).fit(X, y, sensitive_features=people)
    asked = [CovariancePenalty(20.0), PRuleBound(80)]
    model = FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=people)
    assert p_rule(y, model.predict(X), sensitive_features=people) >= 80
    assert (model.covariance_.abs() <= priced.bound_ * (1 + 1e-6)).all()
    np.testing.assert_allclose(model.constraints_[0].bound, priced.bound_, rtol=1e-6)


@pytest.mark.parametrize(
    "beside",
    [CovarianceBound(0.7), LossBound(0.02), IndividualLossBound(2.0), CovariancePenalty(30.0), PRuleBound(48)],
    ids=lambda c: type(c).__name__,
)
@pytest.mark.parametrize(
    "bound",
    [
        PerformanceBound(0.02),
        PerformanceBound(0.02, "auc"),
        PerformanceBound(0.1, "profit", gains={"tp": 1, "fp": -2}),
    ],
    ids=lambda c: c.measure,
)
def test_a_bound_on_performance_beside_others(bound, beside):
    X, y, z = make_linear_synthetic(400, random_state=1)
    model = FairLogisticRegression(constraint=[bound, beside]).fit(X, y, sensitive_features=z)
    record, other = model.constraints_
    assert record.violation <= 1e-9
    assert other.violation <= 1e-8
    least = (1 - bound.gamma) * record.figures["unconstrained_performance"]
    assert record.figures["performance"] >= least - 1e-9
    assert model.covariance_.abs().max() < model.unconstrained_covariance_.abs().max()


def test_the_sum_of_covariances_within_a_bound_on_performance():
    X, y, people = make_people(1, 400)
    sums = []
    for gamma in (0.0, 0.005, 0.02, 0.5):
        bounds = [LossBound(0.2, "sum"), PerformanceBound(gamma)]
        model = FairLogisticRegression(constraint=bounds).fit(X, y, sensitive_features=people)
        assert model.certificate_.status == "solved"
        assert all(record.violation <= 1e-9 for record in model.constraints_)
        sums.append((model.covariance_ / model.unconstrained_covariance_).abs().sum())
    assert sums == sorted(sums, reverse=True)
    assert sums[-1] < sums[0]
    alone = FairLogisticRegression(constraint=LossBound(0.2, "sum")).fit(X, y, sensitive_features=people)
    assert sums[-1] == pytest.approx((alone.covariance_ / alone.unconstrained_covariance_).abs().sum(), abs=1e-6)


def test_performance_that_other_constraints_do_not_leave():
    X, y, z = make_linear_synthetic(400, random_state=1)
    with pytest.raises(
        InfeasibleError, match=r"more of the accuracy than allowed.*No classifier was found that keeps both"
    ):
        FairLogisticRegression(constraint=[PerformanceBound(0.0), CovarianceBound(0.0)]).fit(
            X, y, sensitive_features=z
        )


def test_each_rule_guides_the_search_by_its_own_sizes():
    X, y, people = people_of_one_attribute(0, 400)
    race = people["race"].to_numpy(copy=True)
    race[:6] = "rare"
    strict = PRuleBound(difference=0.9, min_people=50)
    loose = PRuleBound(difference=0.15, notion="true_positive_rate", min_people=50)
    model = FairLogisticRegression(constraint=[strict, loose]).fit(X, y, sensitive_features={"race": race})
    assert model.score(X, y) > 0.5
    judge = make_judge(strict, model._prepare(X, y, None, {"race": race}))
    assert set(np.flatnonzero(judge.trust_in_gaps == 0)) == {2, 5}  # the rare group, under both notions


def test_lists_as_text_and_in_files(tmp_path):
    asked = parse_constraints(["p-rule=80", "nobody-loses"])
    assert [type(one) for one in asked] == [PRuleBound, IndividualLossBound]
    X, y, people = people_of_one_attribute(3)
    model = FairLogisticRegression(constraint=[CovarianceBound(0.1), LossBound(0.5)])
    model.fit(X, y, sensitive_features=people)
    again = from_plain(to_plain(model.constraints_))
    assert again[0].constraint == CovarianceBound(0.1)
    assert again[1].figures == model.constraints_[1].figures
    for texts, message in (
        (["none", "loss=0.1"], "cannot be combined"),
        (["loss=0.1", "loss=0.1"], "given twice"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_constraints(texts)
    tested, bound = parse_constraints(["p-rule=80", "loss=0.1"], confidence=0.9)
    assert (tested, bound) == (PRuleBound(80, confidence=0.9), LossBound(0.1))
    for texts, many in ((["p-rule=80", "p-rule=90"], "2"), (["loss=0.1", "covariance=0"], "none")):
        with pytest.raises(ValueError, match=f"for one p%-rule, .* these constraints have {many}"):
            parse_constraints(texts, confidence=0.9)


def test_a_frontier_of_least_loss_under_other_constraints():
    X, y, z = make_linear_synthetic(400, random_state=1)
    free = FairLogisticRegression(constraint=None).fit(X, y)
    accepted = free.predict(X) == 1
    asked = [IndividualLossBound(keep_positive="accepted"), CovarianceBound(0.1), LossBound(0.3)]
    frontier = FairnessFrontier(FairLogisticRegression(constraint=asked), n_points=6)
    with pytest.warns(UserWarning, match=r"The frontier ends at factor [\d.]+: from [\d.]+ on, no classifier"):
        frontier.fit(X, y, sensitive_features=z)
    table, reach = frontier.table_, frontier.unconstrained_.covariance_
    assert 2 <= len(table) < 6  # the loss, or a promise, ends it
    assert (table["loss_increase"] <= 0.3 + 1e-8).all()
    for factor, model in zip(table["factor"], frontier.estimators_, strict=True):
        assert np.all(model.predict(X)[accepted] == 1)
        assert (model.covariance_.abs() <= factor * reach.abs() + 1e-8).all()
        bounded = model.get_params()["constraint"][0]
        assert bounded == CovarianceBound(round(factor, 12), relative=True)
    # Without promises that bind, the points are those of the plain frontier.
    loose = FairnessFrontier(FairLogisticRegression(constraint=[CovarianceBound(0.1), LossBound(9.0)]), n_points=3)
    plain = FairnessFrontier(FairLogisticRegression(), n_points=3).fit(X, y, sensitive_features=z)
    loose.fit(X, y, sensitive_features=z)
    np.testing.assert_allclose(loose.table_["objective"], plain.table_["objective"], rtol=1e-7)


def test_a_frontier_of_a_rule_under_other_constraints():
    X, y, people = people_of_one_attribute(0, 400)
    accepted = FairLogisticRegression(constraint=None).fit(X, y).predict(X) == 1
    asked = [IndividualLossBound(keep_positive="accepted"), PRuleBound(80)]
    frontier = FairnessFrontier(FairLogisticRegression(constraint=asked), n_points=3, which="p_rule", levels=[80])
    frontier.fit(X, y, sensitive_features=people, eval_set=(X, y, people))
    table = frontier.table_
    assert (table["train_p_rule"] >= table["level"] - 1e-9).all()
    assert (np.diff(table["train_accuracy"]) <= 1e-12).all()
    assert all(np.all(model.predict(X)[accepted] == 1) for model in frontier.estimators_)
    np.testing.assert_array_equal(table["test_p_rule"], table["train_p_rule"])


def test_a_frontier_of_a_list_ends_before_everybody_is_decided_alike():
    """Its last point once accepted everybody, without a word."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    z = np.where(X[:, 0] + rng.normal(size=600) > 0, "a", "b")
    y = (X[:, 0] + X[:, 1] + rng.normal(size=600) > 0).astype(int)
    asked = [PRuleBound(80), IndividualLossBound(keep_positive="accepted")]
    frontier = FairnessFrontier(FairLogisticRegression(constraint=asked), which="p_rule", n_points=4)
    with pytest.warns(TrivialClassifierWarning, match=r"at 100% of the p%-rule\. The frontier ends at 84"):
        frontier.fit(X, y, sensitive_features=z)
    assert all(0 < model.predict(X).mean() < 1 for model in frontier.estimators_)
    assert len(frontier.estimators_) == len(frontier.table_) == 3


@pytest.mark.parametrize(
    "other",
    [CovarianceBound(0.0), CovariancePenalty(1e3), LossBound(0.5), IndividualLossBound(keep_positive="accepted")],
    ids=["bound", "price", "loss", "promise"],
)
def test_the_bound_beside_a_rule_is_that_of_all_classifiers(other):
    """It once was that of the classifiers that keep the other constraints, and a report said otherwise."""
    X, y, people = people_of_one_attribute(0, 400)
    free = FairLogisticRegression(constraint=None).fit(X, y).certificate_
    model = FairLogisticRegression(constraint=[PRuleBound(70), other]).fit(X, y, sensitive_features=people)
    proof = model.certificate_
    assert proof.dual_bound == pytest.approx(free.dual_bound, rel=1e-8)
    assert proof.gap == pytest.approx(1.0 - proof.dual_bound / proof.objective, rel=1e-12)


def test_a_frontier_tests_nobody_and_says_so():
    """Its classifiers once had a rule with a confidence in their list, and no guarantee."""
    X, y, z = make_linear_synthetic(400, random_state=1)
    asked = [PRuleBound(50), PRuleBound(40, notion="true_positive_rate", confidence=0.9)]
    frontier = FairnessFrontier(FairLogisticRegression(constraint=asked), which="p_rule", n_points=2)
    for point in frontier.fit(X, y, sensitive_features=z).estimators_:
        assert [rule.confidence for rule in point.constraint] == [None, None]


@pytest.mark.parametrize(
    ("asked", "which", "message"),
    [
        ([CovarianceBound(0.1), LossBound(0.5)], "loss", "is for one constraint"),
        ([CovarianceBound(0.1), PRuleBound(80)], "covariance", "PRuleBound changes what is minimised"),
        ([CovariancePenalty(1.0), LossBound(0.5)], "covariance", "CovariancePenalty changes what is minimised"),
    ],
)
def test_lists_that_no_frontier_traces(asked, which, message):
    X, y, people = people_of_one_attribute(4)
    frontier = FairnessFrontier(FairLogisticRegression(constraint=asked), which=which)
    with pytest.raises(ValueError, match=message):
        frontier.fit(X, y, sensitive_features=people)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smoothed_hinge"])
@pytest.mark.parametrize(
    "other",
    [CovarianceBound(0.5, relative=True), CovarianceBound(0.0), IndividualLossBound(1.0), PRuleBound(50)],
    ids=lambda c: type(c).__name__,
)
def test_a_share_of_no_loss_is_an_error_in_lists_too(loss, other):
    """Alone it always was; beside another constraint the bound was met by a loss increase of nan."""
    X = np.arange(20.0)[:, None]
    y, z = (X[:, 0] > 9).astype(int), np.arange(20) % 2
    model = FairMarginClassifier(loss, C=np.inf, constraint=[LossBound(0.1), other])
    with pytest.raises(ValueError, match="a share of a loss of zero means nothing"):
        model.fit(X, y, sensitive_features=z)


@pytest.mark.filterwarnings("error")
def test_prices_whose_covariances_are_zero_but_for_rounding():
    """As bounds of 1e-17 they sent the solver to coefficients of 1e167."""
    r = np.random.default_rng(0)
    X = r.normal(size=(80, 85)) + 10.0 ** r.integers(0, 7, 85)
    y = (r.normal(size=80) > 0).astype(int)
    people = {"a": r.choice(list("uvwxyz"), 80), "b": r.choice(list("klmnop"), 80)}
    asked = [CovariancePenalty(100.0, notion="error_rate"), CovarianceBound(0.1, True, notion="true_positive_rate")]
    model = FairMarginClassifier("squared_hinge", C=1e5, constraint=asked).fit(X, y, sensitive_features=people)
    assert model.certificate_.status == "solved"


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_no_rule_is_kept_by_rounding(loss):
    """Bounds that leave zero scores only leave nothing to cut: a rule was "kept" by the signs of 1e-22."""
    r = np.random.default_rng(1)
    X, y = r.normal(size=(60, 2)), np.arange(60) % 2
    z = np.array(list("abcde"))[r.integers(0, 5, 60)]
    y[z == "a"] = 1  # accepting everybody makes unequal errors
    asked = [PRuleBound(difference=0.3, notion="error_rate"), CovarianceBound(0.0, notion="error_rate")]
    model = FairMarginClassifier(loss, constraint=asked)
    with pytest.raises(InfeasibleError, match="No classifier"):
        model.fit(X, y, sensitive_features=z)


def test_prices_that_are_not_paid_are_not_solved():
    """The solution at its covariances was "solved" where the search for the covariances that are worth it was not."""
    X = np.array([[8, 4, 4, 4, 9, 3, 12, 3, 10, 0]]).T // np.array([8, 4, 2, 1]) % 2
    y, z = np.isin(np.arange(10), [1, 3, 8]).astype(int), np.array(list("fmmfmffmff"))
    asked = [CovariancePenalty(1.0, notion="equalized_odds"), CovarianceBound(0.0, notion="false_negative_rate")]
    model = FairMarginClassifier("squared_hinge", C=np.inf, class_weight="balanced", constraint=asked)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, sensitive_features=z)
    priced = model.certificate_.objective + np.abs(model.covariance_.to_numpy()[:2]).sum()
    if model.certificate_.status == "solved":
        assert priced == pytest.approx(2.5, rel=1e-8)  # by Clarabel
    else:
        assert any(issubclass(w.category, ConvergenceWarning) for w in caught)


def test_constraints_show_what_was_asked_for():
    shown = [
        ("PRuleBound(p=80)", PRuleBound(80)),
        ("PRuleBound(p=80, path='decisions', confidence=0.9)", PRuleBound(80, "decisions", confidence=0.9)),
        ("PRuleBound(difference=0.05)", PRuleBound(difference=0.05)),
        ("CovarianceBound(c=0.0)", CovarianceBound()),
        ("IndividualLossBound(gamma=array([1., 2.]))", IndividualLossBound(np.array([1.0, 2.0]))),
    ]
    for text, constraint in shown:
        assert repr(constraint) == text


class Part(Notion):
    """Decisions about some of the people, whose notions once all had one name."""

    name, people, rate, needs_labels = "part", "a part", "positive rate", False

    def __init__(self, chosen):
        self.chosen = chosen

    def counts(self, y):
        return self.chosen


def test_different_notions_of_one_name_are_refused():
    """The first of them was once dropped, and reported as kept."""
    X, y, people = people_of_one_attribute(0, 400)
    first = np.arange(400) < 200
    asked = [CovarianceBound(0.0, notion=Part(first)), CovarianceBound(0.0, notion=Part(~first))]
    with pytest.raises(ValueError, match="Two different notions of the list have the name 'part'"):
        FairLogisticRegression(constraint=asked).fit(X, y, sensitive_features=people)
    assert Part(first) == Part(first.copy()) != Part(~first)
    assert hash(Part(first)) == hash(Part(first.copy()))
