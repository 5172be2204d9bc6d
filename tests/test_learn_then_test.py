"""A p%-rule for people not seen yet: PRuleBound(confidence=...), pipelines, weights, the command line, files."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from fairmargin import (
    CertifiedClassifier,
    CovarianceBound,
    CovariancePenalty,
    FairLinearSVC,
    FairLogisticRegression,
    FairSVC,
    FairTreeClassifier,
    IndividualLossBound,
    InfeasibleError,
    LossBound,
    NotCertifiedError,
    PerformanceBound,
    PRuleBound,
    io,
    p_rule,
)
from fairmargin.cli import run
from fairmargin.exceptions import FavourableClassWarning

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore::fairmargin.SmallGroupWarning", "ignore::fairmargin.CovarianceWarning"),
]


def people(n, seed=0, groups=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    z = np.digitize(0.6 * X[:, 0] + rng.normal(size=n), [0.0] if groups == 2 else [-0.6, 0.6])
    y = (X[:, 0] + X[:, 1] + rng.normal(size=n) > 0).astype(int)
    return X, y, np.array(list("abc"))[z]


@pytest.mark.parametrize(
    "beside",
    [
        CovarianceBound(0.1),
        CovarianceBound(0.1, notion="true_positive_rate"),
        CovariancePenalty(200.0),
        LossBound(0.3),
        IndividualLossBound(keep_positive="accepted"),
        PerformanceBound(0.1),
        PRuleBound(difference=0.2, notion="true_positive_rate"),
    ],
    ids=repr,
)
def test_a_tested_rule_beside_other_constraints(beside):
    X, y, z = people(2000)
    guarantee = "asymptotic" if isinstance(beside, PRuleBound) else "exact"
    rule = PRuleBound(60, confidence=0.9, guarantee=guarantee)
    clf = FairLogisticRegression(constraint=[beside, rule]).fit(X, y, sensitive_features=z)
    train = getattr(clf, "trained_rows_", np.arange(2000))
    aside = np.setdiff1d(np.arange(2000), train) if guarantee == "exact" else np.arange(2000)
    assert (clf.guarantee_.p, clf.guarantee_.people) == (60, len(aside))
    assert [record.constraint for record in clf.constraints_] == [beside, rule]
    assert all(record.violation <= 1e-9 for record in clf.constraints_)  # on the people who train
    assert p_rule(y[train], clf.predict(X[train]), sensitive_features=z[train]) >= 60
    if isinstance(beside, IndividualLossBound):
        free = FairLogisticRegression(constraint=None).fit(X[train], y[train])
        assert np.all(clf.predict(X[train]) >= free.predict(X[train]))
    alone = FairLogisticRegression(constraint=rule).fit(X, y, sensitive_features=z)
    assert clf.score(X[train], y[train]) <= alone.score(X[train], y[train]) + 0.01


def test_a_list_that_leaves_nothing_to_test():
    X, y, z = people(300)
    rule = PRuleBound(95, confidence=0.9)
    with pytest.raises(NotCertifiedError, match="No classifier keeps the other constraints, the 95%-rule"):
        FairLogisticRegression(constraint=[LossBound(0.001), rule]).fit(X, y, sensitive_features=z)
    with pytest.raises(InfeasibleError, match=r"Without IndividualLossBound\(gamma=0.01"):
        FairLogisticRegression(constraint=[IndividualLossBound(0.01), CovarianceBound(0.0), rule]).fit(
            X, y, sensitive_features=z
        )


def test_a_pipeline_with_a_tested_rule_in_a_list():
    X, y, z = people(2000)
    last = FairLogisticRegression(constraint=[CovarianceBound(0.2), PRuleBound(60, confidence=0.9, safety_size=800)])
    clf = CertifiedClassifier(make_pipeline(StandardScaler(), last)).fit(X, y, sensitive_features=z)
    assert clf.guarantee_.people == 800
    assert abs(clf.estimator_[-1].covariance_).max() <= 0.2 + 1e-9


@pytest.mark.parametrize("estimator", [FairLogisticRegression(), FairLinearSVC(), FairSVC(max_rank=30, refine=False)])
def test_a_guarantee_says_what_was_tested(estimator):
    X, y, z = people(3000)
    clf = estimator.set_params(constraint=PRuleBound(70, confidence=0.9, random_state=3))
    if isinstance(clf, FairSVC):
        with pytest.warns(match="landmarks|kernel"):
            clf.fit(X, y, sensitive_features=z)
    else:
        clf.fit(X, y, sensitive_features=z)
    found = clf.guarantee_
    assert (found.p, found.confidence, found.kind, found.people, found.seed) == (70, 0.9, "exact", 1500, 3)
    aside = np.setdiff1d(np.arange(3000), clf.trained_rows_)
    assert len(aside) == 1500
    accepted = clf.predict(X[aside]) == 1
    for group in found.groups:  # what was counted are the decisions of the classifier returned
        inside = z[aside] == group.group
        assert (group.people, group.accepted) == (inside.sum(), accepted[inside].sum())
    assert clf.p_rule_ >= 70
    assert found.candidates >= 1


def test_the_split_is_the_seeds_and_nothing_else():
    X, y, z = people(2000)
    fits = [
        FairLogisticRegression(constraint=PRuleBound(60, confidence=0.9, random_state=s)).fit(
            X, y, sensitive_features=z
        )
        for s in (0, 0, 1)
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert np.any(fits[0].coef_ != fits[2].coef_)


def test_people_given_to_test_on():
    X, y, z = people(3000)
    new_X, _, new_z = people(2000, seed=1)
    constraint = PRuleBound(70, confidence=0.95)
    clf = FairLogisticRegression(constraint=constraint)
    clf.fit(X, y, sensitive_features=z, safety_set=(new_X, new_z))
    assert clf.guarantee_.people == 2000
    assert clf.guarantee_.seed is None
    assert not hasattr(clf, "trained_rows_")
    clf.set_params(constraint=CovarianceBound(0.0)).fit(X, y, sensitive_features=z)
    assert not hasattr(clf, "guarantee_")


def test_too_few_people_say_how_many_are_needed():
    X, y, z = people(200)
    clf = FairLogisticRegression(constraint=PRuleBound(90, confidence=0.95))
    with pytest.raises(NotCertifiedError, match="for training and test together, would succeed") as caught:
        clf.fit(X, y, sensitive_features=z)
    assert caught.value.people_needed > 200
    assert not hasattr(clf, "coef_")


def test_a_group_without_people_set_aside_is_named():
    X, y, z = people(3000)
    z = z.copy()
    z[:2] = "c"
    inside = np.r_[0:1500, 1500:3000]
    with pytest.raises(NotCertifiedError, match="nobody to test in sensitive='c'"):
        FairLogisticRegression(constraint=PRuleBound(60, confidence=0.9)).fit(
            X[inside], y, sensitive_features=z, safety_set=(X[10:1500], z[10:1500])
        )


def test_deciding_nearly_the_same_for_everybody_is_not_tested():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(2000, 2)), np.repeat(["a", "b"], 1000)
    X[:, 0] += 3 * (z == "b")
    y = (z == "b") ^ (rng.random(2000) < 0.1)
    with pytest.raises(NotCertifiedError, match="there is nothing to test"):
        FairLogisticRegression(constraint=PRuleBound(95, confidence=0.95, min_gain=0.5)).fit(
            X, y, sensitive_features=z
        )


@pytest.mark.slow
def test_coverage_over_draws_of_made_people():
    """At most 5% of draws, up to chance (p = 1e-4), return a classifier whose rule is broken in the population."""
    X, _, z = people(60_000, seed=9)
    broken = returned = 0
    draws = 50
    for draw in range(draws):
        rows = people(600, seed=100 + draw)
        clf = FairLogisticRegression(constraint=PRuleBound(70, confidence=0.95))
        try:
            clf.fit(rows[0], rows[1], sensitive_features=rows[2])
        except NotCertifiedError:
            continue
        returned += 1
        accepted = clf.predict(X) == 1
        rates = [accepted[z == group].mean() for group in "ab"]
        broken += min(rates) / max(rates) < 0.70
    assert broken <= binom.isf(1e-4, draws, 0.05)
    assert returned >= draws / 4  # and it is of use


def test_cross_fitting_lets_everybody_train_and_is_called_asymptotic():
    X, y, z = people(1500)
    constraint = PRuleBound(75, confidence=0.9, guarantee="asymptotic")
    clf = FairLogisticRegression(constraint=constraint).fit(X, y, sensitive_features=z)
    assert (clf.guarantee_.kind, clf.guarantee_.people) == ("cross-fitted", 1500)
    assert "not used in training" not in clf.guarantee_.statement
    assert "by cross-fitting on the 1,500 people used in training" in clf.guarantee_.statement
    assert "exact only for many people" in clf.guarantee_.statement
    with pytest.raises(ValueError, match="takes no safety_set"):
        clf.fit(X, y, sensitive_features=z, safety_set=(X, z))


def test_weights_are_tested_asymptotically():
    X, y, z = people(4000)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 4000)
    constraint = PRuleBound(70, confidence=0.9)
    clf = FairLogisticRegression(constraint=constraint).fit(X, y, weight, sensitive_features=z)
    assert clf.guarantee_.kind == "asymptotic"
    twice = FairLogisticRegression(constraint=constraint).fit(X, y, np.full(4000, 2.0), sensitive_features=z)
    assert twice.guarantee_.kind == "exact"


def test_three_groups_and_two_attributes():
    X, y, z = people(6000, groups=3)
    other = np.where(np.random.default_rng(0).random(6000) < 0.4, "x", "y")
    both = pd.DataFrame({"first": z, "second": other})
    clf = FairLogisticRegression(constraint=PRuleBound(60, confidence=0.9)).fit(X, y, sensitive_features=both)
    assert [g.group for g in clf.guarantee_.groups] == ["a", "b", "c", "x", "y"]
    assert "people of each first (a, b, c) are accepted at least 60% as often as everybody else" in (
        clf.guarantee_.statement
    )


def test_pipelines_and_searches_that_saw_the_people_are_refused():
    X, y, z = people(2000)
    clf = FairLogisticRegression(constraint=PRuleBound(70, confidence=0.9))
    with pytest.raises(ValueError, match=r"A Pipeline has seen .* CertifiedClassifier\(pipeline\)"):
        make_pipeline(StandardScaler(), clf).fit(X, y, fairlogisticregression__sensitive_features=z)
    search = GridSearchCV(clf, {"C": [0.1, 1.0]}, error_score="raise")
    with pytest.raises(ValueError, match="A GridSearchCV has seen"):
        search.fit(X, y, sensitive_features=z)


class NamedPipeline(Pipeline):
    """A pipeline of somebody else's module."""


def test_wrappers_and_subclasses_do_not_get_past_that_check():
    X, y, z = people(400)
    clf = FairLogisticRegression(constraint=PRuleBound(70, confidence=0.9))
    with pytest.raises(ValueError, match="A NamedPipeline has seen"):
        NamedPipeline([("scale", StandardScaler()), ("fair", clf)]).fit(X, y, fair__sensitive_features=z)
    for wrapped in (CertifiedClassifier(clf), CertifiedClassifier(LogisticRegression())):
        pipe = make_pipeline(StandardScaler(), wrapped)
        with pytest.raises(ValueError, match="A Pipeline has seen"):
            pipe.fit(X, y, certifiedclassifier__sensitive_features=z)


def test_trees_grown_before_need_people_they_have_not_seen():
    X, y, z = people(2000)
    new_X, _, new_z = people(2000, seed=1)
    trees = RandomForestClassifier(5, max_leaf_nodes=6, random_state=0).fit(X, y)
    rule = PRuleBound(50, confidence=0.9)
    for asked in (rule, [rule, CovarianceBound(0.5)]):
        clf = FairTreeClassifier(trees, C=0.1, prefit=True, constraint=asked)
        with pytest.raises(ValueError, match="ensemble may have seen the people who would test the rule"):
            clf.fit(X, y, sensitive_features=z)
        assert clf.fit(X, y, sensitive_features=z, safety_set=(new_X, new_z)).guarantee_.people == 2000


def test_a_wrapped_pipeline_keeps_people_from_its_scaler():
    X, y, z = people(3000)
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression(constraint=PRuleBound(70, confidence=0.9)))
    clf = CertifiedClassifier(pipe).fit(X, y, sensitive_features=z)
    np.testing.assert_allclose(clf.estimator_[0].mean_, X[clf.trained_rows_].mean(axis=0))
    assert (clf.guarantee_.people, clf.guarantee_.seed) == (1500, 0)
    assert set(clf.predict(X)) == {0, 1}
    assert clf.predict_proba(X).shape == (3000, 2)


def test_a_list_of_one_rule_is_that_rule():
    X, y, z = people(3000)
    rule = PRuleBound(70, confidence=0.9, safety_size=1000)
    alone, listed = (
        CertifiedClassifier(FairLogisticRegression(constraint=asked)).fit(X, y, sensitive_features=z)
        for asked in (rule, [rule])
    )
    assert listed.guarantee_ == alone.guarantee_
    assert (listed.guarantee_.p, listed.guarantee_.confidence, listed.guarantee_.people) == (70, 0.9, 1000)
    assert len(listed.trained_rows_) == 2000


def test_a_rule_without_a_confidence_in_a_wrapped_pipeline_is_named_as_the_reason():
    X, y, z = people(3000)
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression(constraint=PRuleBound(90)))
    said = r"The pipeline's rule has no confidence, .*: write PRuleBound\(90, confidence=0.99\) in it\.$"
    with pytest.raises(NotCertifiedError, match=said):
        CertifiedClassifier(pipe, p=90, confidence=0.99).fit(X, y, sensitive_features=z)
    pipe.set_params(fairlogisticregression__constraint=None)
    with pytest.raises(NotCertifiedError) as error:
        CertifiedClassifier(pipe, p=90, confidence=0.99).fit(X, y, sensitive_features=z)
    assert "has no confidence" not in str(error.value)


def test_any_classifier_can_be_wrapped():
    X, y, _ = people(3000)
    group = np.random.default_rng(0).choice(["a", "b"], 3000)
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]})
    clf = CertifiedClassifier(search, p=80, safety_size=1000).fit(X, y, sensitive_features=group)
    assert (clf.guarantee_.people, clf.guarantee_.candidates) == (1000, 1)
    with pytest.raises(NotCertifiedError):
        CertifiedClassifier(LogisticRegression(), p=99).fit(X, y, sensitive_features=group)


def test_model_files_keep_the_guarantee(tmp_path):
    X, y, z = people(2000)
    clf = FairLogisticRegression(constraint=PRuleBound(60, confidence=0.9)).fit(X, y, sensitive_features=z)
    io.save(clf, tmp_path / "model.json")
    again = io.load(tmp_path / "model.json")
    assert again.guarantee_ == clf.guarantee_
    assert again.constraint == clf.constraint


def test_the_command_line_tests_on_the_people_held_out(tmp_path, capsys):
    files = {name: tmp_path / name for name in ("m.json", "s.json", "s.md")}
    asked = ["train", "--demo", "--constraint", "p-rule=70", "--confidence", "0.95", "--test-share", "0.5"]
    outputs = ["-o", str(files["m.json"]), "--json", str(files["s.json"]), "--markdown", str(files["s.md"])]
    assert run([*asked, *outputs]) == 0
    summary = json.loads(files["s.json"].read_text())
    assert summary["guarantee"]["statement"].startswith("Tested on 2,0")
    assert summary["guarantee"]["people"] == summary["data"]["test_people"]
    assert summary["settings"]["stratify"] is False
    assert "Guarantee: Tested on" in files["s.md"].read_text()
    assert "guarantee: Tested on" in capsys.readouterr().out
    model = io.load(files["m.json"])
    assert model.facts["guarantee"]["p"] == 70
    assert model.estimator.guarantee_.seed == 0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--constraint", "loss=0.1", "--confidence", "0.9"], "Try --constraint p-rule=80"),
        (["--constraint", "p-rule=80", "--confidence", "95"], "did you mean 0.95"),
        (["--constraint", "p-rule=80", "--confidence", "0.9", "--test-share", "0"], "option --test-share"),
        (["--constraint", "p-rule=99", "--confidence", "0.95"], "do not support the 99%-rule"),
    ],
)
def test_the_command_line_explains(options, match, tmp_path, capsys):
    assert run(["train", "--demo", *options, "-o", str(tmp_path / "m.json")]) == 2
    assert match in capsys.readouterr().err
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"confidence": 95}, "did you mean 0.95"),
        ({"confidence": True}, "confidence must be a number"),
        ({"safety_size": 0.0}, "safety_size must be a share"),
        ({"safety_size": 1.5}, "safety_size must be a share"),
        ({"random_state": -1}, "random_state must be"),
        ({"guarantee": "maybe"}, "guarantee must be"),
        ({"min_gain": 2}, "min_gain must be"),
    ],
)
def test_bad_parameters(wrong, match):
    with pytest.raises(ValueError, match=match):
        PRuleBound(80, **{"confidence": 0.95, **wrong})


def test_bad_safety_sets():
    X, y, z = people(300)
    clf = FairLogisticRegression(constraint=PRuleBound(60, confidence=0.9))
    with pytest.raises(ValueError, match="must be a pair"):
        clf.fit(X, y, sensitive_features=z, safety_set=X)
    with pytest.raises(ValueError, match="they must agree"):
        clf.fit(X, y, sensitive_features=z, safety_set=(X, pd.Series(z, name="sex")))
    with pytest.raises(ValueError, match="X has 2 features"):
        clf.fit(X, y, sensitive_features=z, safety_set=(X[:, :2], z))
    with pytest.raises(ValueError, match="leaves nobody"):
        FairLogisticRegression(constraint=PRuleBound(60, confidence=0.9, safety_size=400)).fit(
            X, y, sensitive_features=z
        )
    with pytest.raises(ValueError, match="this constraint tests nobody"):
        FairLogisticRegression().fit(X, y, sensitive_features=z, safety_set=(X, z))


def test_a_wrapper_asks_for_the_favourable_class():
    X, y, _ = people(3000)
    words = np.where(y == 1, "accept", "refuse")
    group = np.random.default_rng(0).choice(["a", "b"], 3000)
    with pytest.warns(FavourableClassWarning, match="'refuse' is taken as the favourable class"):
        CertifiedClassifier(LogisticRegression()).fit(X, words, sensitive_features=group)
    for estimator in (LogisticRegression(), FairLogisticRegression(constraint=PRuleBound(70, confidence=0.9))):
        clf = CertifiedClassifier(estimator, p=70, pos_label="accept").fit(X, words, sensitive_features=group)
        aside = np.setdiff1d(np.arange(3000), clf.trained_rows_)
        assert clf.guarantee_.positive == "accept"
        assert sum(g.accepted for g in clf.guarantee_.groups) == np.sum(clf.predict(X[aside]) == "accept")
    with pytest.raises(ValueError, match="contradicts pos_label='refuse' of the estimator"):
        CertifiedClassifier(FairLogisticRegression(pos_label="refuse"), pos_label="accept").fit(
            X, words, sensitive_features=group
        )


def test_wrappers_divide_weights_as_the_people():
    X, y, _ = people(3000)
    group = np.random.default_rng(0).choice(["a", "b"], 3000)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 3000)
    tested = FairLogisticRegression(constraint=PRuleBound(60, confidence=0.9))
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    for estimator in (LogisticRegression(), pipe, GridSearchCV(pipe, {"logisticregression__C": [1.0]}), tested):
        clf = CertifiedClassifier(estimator, p=60).fit(X, y, weight, sensitive_features=group)
        aside = np.setdiff1d(np.arange(3000), clf.trained_rows_)
        assert clf.guarantee_.kind == "asymptotic"
        for found in clf.guarantee_.groups:
            rows = aside[group[aside] == found.group]
            np.testing.assert_allclose(found.rate, np.average(clf.predict(X[rows]), weights=weight[rows]))
    rows = clf.trained_rows_
    plain = LogisticRegression().fit(X[rows], y[rows], weight[rows])
    wrapped = CertifiedClassifier(LogisticRegression(), p=60).fit(X, y, weight, sensitive_features=group)
    np.testing.assert_array_equal(wrapped.estimator_.coef_, plain.coef_)


def test_wrappers_refuse_parameters_that_they_cannot_pass_on():
    X, y, z = people(400)
    tested = FairLogisticRegression(constraint=PRuleBound(60, confidence=0.9))
    with pytest.raises(ValueError, match="fit cannot pass 'verbose' on to FairLogisticRegression"):
        CertifiedClassifier(tested).fit(X, y, sensitive_features=z, verbose=1)
    with pytest.raises(ValueError, match=r"sample_weight cannot be passed on: KNeighborsClassifier.fit takes none"):
        CertifiedClassifier(KNeighborsClassifier()).fit(X, y, np.ones(400), sensitive_features=z)
    with pytest.raises(ValueError, match="'offset' on, which has one entry per person"):
        CertifiedClassifier(LogisticRegression()).fit(X, y, sensitive_features=z, offset=np.ones(400))


def test_a_wrapped_pipeline_or_search_gets_the_sensitive_features():
    X, y, z = people(3000)
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression(constraint=PRuleBound(90)))
    for estimator in (pipe, GridSearchCV(pipe, {"fairlogisticregression__C": [1.0]}, cv=2)):
        clf = CertifiedClassifier(estimator, p=60).fit(X, y, sensitive_features=z)
        assert clf.guarantee_.people == 1500


def test_a_wrapper_is_like_what_it_wraps():
    X, y, z = people(2000)
    frame = pd.DataFrame(X, columns=["one", "two", "three"])
    clf = CertifiedClassifier(FairLogisticRegression(constraint=PRuleBound(60, confidence=0.9)))
    assert get_tags(clf).input_tags.sparse
    assert not hasattr(clf, "n_features_in_")
    clf.fit(frame, y, sensitive_features=z)
    assert (clf.n_features_in_, list(clf.feature_names_in_)) == (3, ["one", "two", "three"])
    clf.set_params(estimator__constraint=PRuleBound(90, confidence=0.95))
    with pytest.raises(NotCertifiedError):
        clf.fit(frame[:200], y[:200], sensitive_features=z[:200])
    for name in ("estimator_", "guarantee_", "trained_rows_", "classes_", "n_features_in_"):
        assert not hasattr(clf, name)
    with pytest.raises(NotFittedError):
        clf.predict(frame)
