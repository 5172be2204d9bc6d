"""Rules on decisions over partitioned data: kept by everybody, at a certified point of a family."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import recompute
from fairmargin import (
    CovarianceBound,
    CovariancePenalty,
    FairLinearSVC,
    FairLogisticRegression,
    IndividualLossBound,
    LossBound,
    PRuleBound,
    cv_score,
    p_rule,
)
from fairmargin.exceptions import InfeasibleError, SmallGroupWarning
from fairmargin.partitioned import fit
from fairmargin.partitioned.engines.local import LocalEngine
from fairmargin.partitioned.sources import parquet as parquet_source
from partitioned_data import coded_people, people, roles, write

pytestmark = pytest.mark.numerical


@pytest.fixture(autouse=True)
def _small_partitions(monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 1)


@pytest.fixture(scope="module")
def frame():
    frame = people(20_000, seed=5)
    rng = np.random.default_rng(5)
    frame["x0"] += frame["sex"] == "man"
    frame["x3"] += 0.5 * (frame["origin"] == "b")
    frame["y"] = (rng.random(len(frame)) < 1 / (1 + np.exp(0.8 - frame["x0"] - 0.5 * frame["x3"]))).astype(int)
    return frame


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    return write(frame, tmp_path_factory.mktemp("people"))


def train(estimator, folder, sensitive, weight=None):
    return fit(
        estimator,
        folder,
        **roles(sensitive, weight),
        sample_size=5000,
        engine=LocalEngine(2),
    )


@pytest.mark.parametrize(
    ("estimator", "sensitive", "weight"),
    [
        (FairLogisticRegression(constraint=PRuleBound(80)), ["sex"], None),
        (FairLogisticRegression(constraint=PRuleBound(90, path="covariance")), ["sex"], "weight"),
        (FairLogisticRegression(0.1, constraint=PRuleBound(85, path="decisions")), ["origin", "sex"], None),
        (FairLogisticRegression(constraint=PRuleBound(85), class_weight={0: 1.5}), ["sex"], None),
        (FairLinearSVC(0.01, constraint=PRuleBound(80)), ["sex"], None),
    ],
)
def test_the_rule_holds_for_everybody(estimator, sensitive, weight, frame, folder):
    estimator = clone(estimator)
    model = train(estimator, folder, sensitive, weight)
    X, weights = model.encoder.transform(frame), None if weight is None else frame[weight]
    reached = p_rule(frame["y"], estimator.predict(X), sensitive_features=frame[sensitive], sample_weight=weights)
    assert reached >= estimator.constraint.p
    assert estimator.p_rule_ == pytest.approx(reached, rel=1e-12)
    for (name, group), rate in estimator.training_rates_.items():
        chosen = (frame[name].astype(str) == group).to_numpy()
        decided, kept = estimator.predict(X[chosen]), None if weights is None else weights[chosen]
        assert rate == pytest.approx(np.average(decided, weights=kept), rel=1e-12)
    assert estimator.path_certificate_.status == "solved"
    assert estimator.path_certificate_.gap <= estimator.tol
    # Of use: well above the better constant decision (0.5 to 0.6 here), and near the classifier found in memory.
    twin = clone(estimator).fit(X, frame["y"], sample_weight=weights, sensitive_features=frame[sensitive])
    assert estimator.path_ in ("covariance", "decisions")
    assert estimator.score(X, frame["y"], weights) > twin.score(X, frame["y"], weights) - 0.02


def test_the_point_is_solved_on_all_rows(frame, folder):
    """The decision path's problem at the prices found, written down once more, has the certified objective."""
    estimator = FairLogisticRegression(constraint=PRuleBound(80, path="decisions"))
    model = train(estimator, folder, ["sex", "origin"])
    prices = estimator.path_point_
    columns = np.column_stack([(frame[name] == category).to_numpy(float) for name, category in prices.index])
    cost = np.where(frame["y"] == 1, 1.0, -1.0) - 2 * (columns - columns.mean(axis=0)) @ prices.to_numpy()
    scores = estimator.decision_function(model.encoder.transform(frame)) - estimator.intercept_shift_
    losses = np.abs(cost) @ np.logaddexp(0, -np.sign(cost) * scores)
    value = losses + 0.5 * float(np.sum(estimator.coef_**2))
    assert value == pytest.approx(estimator.path_certificate_.objective, rel=1e-11)
    twin = FairLogisticRegression(constraint=None, tol=1e-10)
    twin.fit(model.encoder.transform(frame), cost >= 0, sample_weight=np.abs(cost))
    assert value <= twin.certificate_.objective * (1 + 2e-9)


def test_small_groups_are_warned_of_as_in_memory(frame, tmp_path):
    few = frame.iloc[:1500].assign(tribe=np.where(np.arange(1500) % 30 == 0, "few", "many"))
    folder = write(few, tmp_path / "people")
    estimator = FairLogisticRegression(constraint=PRuleBound(80))
    with pytest.warns(SmallGroupWarning, match=r"tribe='few' \(50 people\)"):
        model = train(estimator, folder, ["tribe"])
    X = model.encoder.transform(few)
    with pytest.warns(SmallGroupWarning, match=r"tribe='few' \(50 people\)"):
        clone(estimator).fit(X, few["y"], sensitive_features=few[["tribe"]])


def test_a_number_has_no_groups(folder):
    with pytest.raises(ValueError, match="number"):
        train(FairLogisticRegression(constraint=PRuleBound(80)), folder, ["age"])


def test_a_confidence_needs_people_set_aside(folder):
    with pytest.raises(ValueError, match="without a confidence"):
        train(FairLogisticRegression(constraint=PRuleBound(80, confidence=0.9)), folder, ["sex"])


@pytest.mark.parametrize(
    "constraint",
    [
        PRuleBound(90, notion="true_positive_rate", path="decisions"),
        PRuleBound(difference=0.05, notion="equalized_odds", path="decisions"),
        PRuleBound(difference=0.03, notion="error_rate"),
    ],
)
def test_rules_of_other_notions_hold_for_everybody(constraint, frame, folder):
    estimator = FairLogisticRegression(constraint=constraint)
    model = train(estimator, folder, ["sex"])
    decided = estimator.predict(model.encoder.transform(frame))
    about = {"sensitive_features": frame["sex"], "notion": constraint.notion}
    ratio, difference = p_rule(frame["y"], decided, **about), cv_score(frame["y"], decided, **about)
    assert ratio >= (constraint.p or 0)
    assert difference <= (constraint.difference or 1)
    assert estimator.p_rule_ == pytest.approx(ratio)
    assert estimator.cv_score_ == pytest.approx(difference)
    assert estimator.path_certificate_.status == "solved"


class NotOnOnePath(FairLogisticRegression):
    """A classifier to which no rule is feasible on some of the paths."""

    blocked = ("decisions",)

    def fit(self, *args, **more):
        if self.constraint.path in self.blocked:
            raise InfeasibleError(f"Not on the path {self.constraint.path}.")
        return super().fit(*args, **more)


def test_one_of_two_paths_is_enough(folder, monkeypatch):
    estimator = NotOnOnePath(constraint=PRuleBound(difference=0.05, notion="error_rate"))
    train(estimator, folder, ["sex"])
    assert estimator.path_ != "decisions"
    assert estimator.cv_score_ <= 0.05
    monkeypatch.setattr(NotOnOnePath, "blocked", ("decisions", "covariance"))
    with pytest.raises(InfeasibleError, match="Not on the path decisions"):
        train(estimator, folder, ["sex"])


def test_prices_of_equalised_odds_are_charged_by_label(frame, folder):
    estimator = FairLogisticRegression(constraint=PRuleBound(difference=0.02, notion="equalized_odds"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = train(estimator.set_params(constraint__path="decisions"), folder, ["sex"])
    assert estimator.path_ == "decisions"
    y = np.where(frame["y"] == 1, 1.0, -1.0)
    woman = (frame["sex"] == estimator.path_point_.index[0][1]).to_numpy(float)
    cost = y.copy()
    for price, label in zip(estimator.path_point_, (1, -1), strict=True):
        cost -= 2 * price * np.where(y == label, woman - woman[y == label].mean(), 0.0)
    scores = estimator.decision_function(model.encoder.transform(frame)) - estimator.intercept_shift_
    value = np.abs(cost) @ np.logaddexp(0, -np.sign(cost) * scores) + 0.5 * float(np.sum(estimator.coef_**2))
    assert value == pytest.approx(estimator.path_certificate_.objective, rel=1e-11)


def test_every_path_is_solved_on_all_rows(frame, folder):
    """Where the sample is searched along two paths, everybody decides between what was found there."""
    found = {}
    for path in ("decisions", "covariance", "auto"):
        rule = PRuleBound(difference=0.05, notion="true_positive_rate", path=path)
        estimator = FairLogisticRegression(constraint=rule)
        model = train(estimator, folder, ["sex"])
        found[path] = estimator.score(model.encoder.transform(frame), frame["y"])
    # Fewer cuts of each are counted where there are two; a person is 5e-5 of them.
    assert found["auto"] >= max(found["decisions"], found["covariance"]) - 5e-4


@pytest.mark.parametrize("estimator", [FairLogisticRegression, FairLinearSVC])
@pytest.mark.parametrize("p", [80, 90])
def test_no_cut_goes_through_people_of_one_score(estimator, p, tmp_path):
    """Rounding decided them: 81.4% was measured, and the model's own decisions had 82.4%."""
    data = coded_people(seed=3)
    columns = {"target": "y", "sensitive": ["sex"]}
    model = fit(estimator(constraint=PRuleBound(p)), write(data, tmp_path, 1, 1000), **columns, sample_size=1500)
    X, clf = model.encoder.transform(data), model.estimator
    scores = clf.decision_function(X)
    assert np.abs(scores).min() > 1e-12 * np.abs(scores).max()
    assert clf.p_rule_ == pytest.approx(p_rule(data["y"], clf.predict(X), sensitive_features=data["sex"]), abs=1e-9)


LISTS = {
    "bound on the loss": (FairLogisticRegression(0.1, constraint=[PRuleBound(45), LossBound(0.2)]), "weight"),
    "bound on a covariance": (FairLogisticRegression(constraint=[CovarianceBound(0.05), PRuleBound(80)]), None),
    "a price": (
        FairLogisticRegression(constraint=[PRuleBound(80, path="covariance"), CovariancePenalty(500.0)]),
        None,
    ),
    "rules of two notions": (
        FairLogisticRegression(constraint=[PRuleBound(75), PRuleBound(80, notion="true_positive_rate")]),
        "weight",
    ),
    "covariances of errors": (
        FairLogisticRegression(
            constraint=[
                PRuleBound(difference=0.02, notion="error_rate"),
                CovarianceBound(0.05, notion="error_rate"),
                LossBound(0.05),
            ]
        ),
        None,
    ),
    "hinge": (FairLinearSVC(0.01, constraint=[PRuleBound(60), CovarianceBound(0.2), LossBound(0.9)]), None),
    "decisions that are kept": (
        FairLogisticRegression(constraint=[PRuleBound(80), IndividualLossBound(keep_positive="accepted")]),
        None,
    ),
    "bounded losses of a group": (
        FairLogisticRegression(
            constraint=[
                IndividualLossBound(3.0, {"sex": "woman"}),
                PRuleBound(36),
                CovarianceBound(0.9, relative=True),
            ]
        ),
        "weight",
    ),
    "decisions that are kept, another notion": (
        FairLogisticRegression(
            0.1,
            constraint=[
                IndividualLossBound(keep_positive="accepted"),
                PRuleBound(difference=0.1, notion="true_positive_rate"),
                CovarianceBound(0.1),
            ],
        ),
        None,
    ),
    "hinge with promises": (
        FairLinearSVC(0.01, constraint=[PRuleBound(45), IndividualLossBound(keep_positive="accepted")]),
        None,
    ),
}


@pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning")
@pytest.mark.parametrize("case", LISTS)
def test_rules_beside_other_constraints(case, frame, folder):
    """Every rule and every other constraint of the list holds for everybody, at about the accuracy of memory."""
    estimator, weight = LISTS[case]
    estimator = clone(estimator)
    model = train(estimator, folder, ["sex"], weight)
    X, weights = model.encoder.transform(frame), None if weight is None else frame[weight]
    assert recompute.faults(estimator, X, frame["y"], weights, frame[["sex"]]) == []
    decided = estimator.predict(X)
    for found in estimator.constraints_:
        assert found.violation <= 1e-9
        if isinstance(found.constraint, PRuleBound):
            about = {"sensitive_features": frame["sex"], "notion": found.constraint.notion, "sample_weight": weights}
            reached = p_rule(frame["y"], decided, **about)
            assert found.figures["p_rule"] == pytest.approx(reached, rel=1e-12)
            assert reached >= (found.constraint.p or 0)
            assert cv_score(frame["y"], decided, **about) <= (found.constraint.difference or 1)
    twin = clone(estimator).fit(X, frame["y"], sample_weight=weights, sensitive_features=frame[["sex"]])
    assert estimator.score(X, frame["y"], weights) > twin.score(X, frame["y"], weights) - 0.01
    check_promises(estimator, X, frame, weights)


def check_promises(estimator, X, frame, weights):
    """Compare everybody's loss and decision with those of an unconstrained classifier fitted in memory."""
    free = clone(estimator).set_params(constraint=None).fit(X, frame["y"], sample_weight=weights)
    signed = np.where(frame["y"] == 1, 1, -1)
    counted = np.ones(len(X), bool) if weights is None else weights.to_numpy() > 0
    before, scores = free.decision_function(X), estimator.decision_function(X)
    for promise in estimator.constraint:
        if not isinstance(promise, IndividualLossBound):
            continue
        if np.isfinite(promise.gamma):
            allowed = (1 + promise.gamma) * np.logaddexp(0, -signed * before)
            assert np.all((np.logaddexp(0, -signed * scores) <= allowed * (1 + 1e-4))[counted])
        keeps = counted & (before > 1e-3) & ((frame["sex"] == "woman") | (promise.keep_positive == "accepted"))
        assert keeps.sum() > 100
        assert np.all(scores[keeps] >= 0)


def test_the_number_of_workers_changes_no_bit_of_a_rule_beside_promises(folder):
    found = []
    for n_jobs in (1, 2):
        estimator = clone(LISTS["bounded losses of a group"][0])
        fit(estimator, folder, **roles(["sex"]), sample_size=5000, engine=LocalEngine(n_jobs))
        found.append(np.append(estimator.coef_, estimator.intercept_))
    np.testing.assert_array_equal(*found)


def test_a_promise_is_what_costs_the_rule_its_accuracy(frame, folder):
    """The rule alone refuses people who were accepted; beside the promise it accepts others instead."""
    scores = {}
    for asked in (PRuleBound(80), [PRuleBound(80), IndividualLossBound(keep_positive="accepted")]):
        estimator = FairLogisticRegression(constraint=asked)
        X = train(estimator, folder, ["sex"]).encoder.transform(frame)
        scores[str(asked)] = estimator.decision_function(X)
    before = FairLogisticRegression(constraint=None).fit(X, frame["y"]).decision_function(X)
    alone, beside = scores.values()
    assert np.any(alone[before > 1e-3] < 0)
    assert not np.any(beside[before > 1e-3] < 0)


def test_a_bound_on_the_loss_moves_the_cut(frame, folder):
    """A tighter bound costs accuracy that the rule alone would keep, and is met by the loss of everybody."""
    losses = []
    for gamma in (0.3, 0.16):
        estimator = FairLogisticRegression(constraint=[PRuleBound(45), LossBound(gamma)])
        X = train(estimator, folder, ["sex"]).encoder.transform(frame)
        margins = np.where(frame["y"] == 1, 1, -1) * estimator.decision_function(X)
        losses.append(np.logaddexp(0, -margins).sum() + 0.5 * float(np.sum(estimator.coef_**2)))
        free = FairLogisticRegression(constraint=None).fit(X, frame["y"]).certificate_.objective
        assert losses[-1] <= (1 + gamma) * free * (1 + 1e-9)
    assert losses[1] < losses[0]


def test_a_list_without_a_classifier_says_so_once(folder):
    estimator = FairLogisticRegression(constraint=[PRuleBound(99), LossBound(1e-4)])
    with pytest.raises(InfeasibleError, match="99%-rule") as caught:
        train(estimator, folder, ["sex"])
    assert str(caught.value).count("Ask for less") == 1
