"""Which class is favourable: named with ``pos_label``, or said aloud."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV

from fairmargin import (
    FairLinearSVC,
    FairLogisticRegression,
    FairnessFrontier,
    FairSVC,
    IndividualLossBound,
    PRuleBound,
    io,
)
from fairmargin.baselines import METHODS, PrejudiceRemover, SituationTesting, certify_disparate_impact
from fairmargin.datasets import make_linear_synthetic
from fairmargin.exceptions import FavourableClassWarning


@pytest.fixture(scope="module")
def data():
    X, y, z = make_linear_synthetic(300, random_state=0)
    return X, np.where(np.asarray(y) > 0, "approved", "denied"), np.where(np.asarray(y) > 0, 1, 0), z


def test_words_give_a_warning_that_names_the_class(data):
    X, words, codes, z = data
    with pytest.warns(FavourableClassWarning, match="'denied' is taken as the favourable class"):
        FairLogisticRegression().fit(X, words, sensitive_features=z)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for labels in (codes, 2 * codes - 1, codes.astype(bool)):
            FairLogisticRegression().fit(X, labels, sensitive_features=z)
        FairLogisticRegression(constraint=None).fit(X, words)


@pytest.mark.parametrize("estimator", [FairLogisticRegression(), FairLinearSVC(), FairSVC(C=0.5)], ids=str)
def test_the_class_named_is_the_positive_decision(data, estimator):
    X, words, codes, z = data
    named = estimator.set_params(pos_label="approved").fit(X, words, sensitive_features=z)
    coded = type(estimator)(**estimator.get_params() | {"pos_label": None}).fit(X, codes, sensitive_features=z)
    assert named.classes_.tolist() == ["denied", "approved"]
    np.testing.assert_array_equal(named.decision_function(X), coded.decision_function(X))
    np.testing.assert_array_equal(named.predict(X) == "approved", coded.predict(X) == 1)


def test_promises_and_rules_are_about_it(data, tmp_path):
    X, words, _, z = data
    free = FairLogisticRegression(constraint=None, pos_label="approved").fit(X, words)
    approved = free.predict(X) == "approved"
    kept = FairLogisticRegression(constraint=IndividualLossBound(keep_positive="accepted"), pos_label="approved")
    kept.fit(X, words, sensitive_features=z)
    assert np.all(kept.predict(X)[approved] == "approved")
    rule = FairLogisticRegression(constraint=PRuleBound(60), pos_label="approved").fit(X, words, sensitive_features=z)
    rates = [np.mean(rule.predict(X)[np.asarray(z) == v] == "approved") for v in np.unique(z)]
    assert 100 * min(rates) / max(rates) >= 60.0
    np.testing.assert_allclose(free.predict_proba(X)[:, 1] >= 0.5, approved)
    io.save(rule, tmp_path / "m.json")
    np.testing.assert_array_equal(io.load(tmp_path / "m.json").predict(X), rule.predict(X))
    frontier = FairnessFrontier(FairLogisticRegression(pos_label="approved"), n_points=2)
    frontier.fit(X, words, sensitive_features=z, eval_set=(X, words, z))
    assert frontier.table_["test_accuracy"][0] == pytest.approx(np.mean(free.predict(X) == words), abs=0.01)


def test_a_class_that_does_not_occur_is_refused(data):
    X, words, _, z = data
    with pytest.raises(ValueError, match="pos_label='yes' is not among the labels of y"):
        FairLogisticRegression(pos_label="yes").fit(X, words, sensitive_features=z)


def compared(method, **more):
    """Return a compared method that is fast on a few people; ``more`` are its parameters."""
    fast = {"situation-testing": {"k": 5}, "fair-representations": {"n_init": 1, "max_iter": 20, "parity": 0.1}}
    fast["fair-representations-by-group"] = fast["fair-representations"]
    return method.make(LogisticRegression()).set_params(**fast.get(method.key, {}), **more)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.key)
def test_compared_methods_take_the_favourable_class_by_name(data, method):
    X, words, codes, z = data
    asked = {"sensitive_features": z}
    decide = asked if method.capabilities.needs_z_at_prediction else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.warns(FavourableClassWarning, match="'denied' is taken as the favourable class") as heard:
            compared(method).fit(X, words, **asked)
        assert {w.filename for w in heard if w.category is FavourableClassWarning} == {__file__}
        named = compared(method, pos_label="approved").fit(X, words, **asked)
        coded = compared(method).fit(X, codes, **asked)
    decided = named.predict(X, **decide)
    assert np.mean((decided == "approved") == (coded.predict(X, **decide) == 1)) > 0.99  # to rounding
    score = named.decision_function(X, **decide)
    np.testing.assert_array_equal(named.classes_[(score >= 0).astype(int)], decided)
    assert getattr(named, "favourable_", named.classes_[1]) == "approved"
    with pytest.raises(ValueError, match="is not among the labels"):
        compared(method, pos_label="maybe").fit(X, words, **asked)


def test_labels_other_than_0_and_1_come_back_as_they_went_in(data):
    """A wrapper of the prejudice remover wrote labels 0 and 1 whatever it had been given."""
    X, _, codes, z = data
    coded = PrejudiceRemover().fit(X, codes, sensitive_features=z)
    named = PrejudiceRemover(pos_label=2).fit(X, codes + 1, sensitive_features=z)
    bad = PrejudiceRemover(pos_label=1).fit(X, 2 - codes, sensitive_features=z)  # 1 is good and 2 is bad
    decided = coded.predict(X, sensitive_features=z)
    np.testing.assert_array_equal(named.predict(X, sensitive_features=z), decided + 1)
    np.testing.assert_array_equal(bad.predict(X, sensitive_features=z), 2 - decided)
    assert bad.classes_.tolist() == [2, 1]


def test_changed_labels_are_the_favourable_ones(data):
    X, words, codes, z = data
    for method in ("massaging", "situation-testing"):
        make = next(m for m in METHODS if m.key == method)
        named = compared(make, pos_label="approved").fit(X, words, sensitive_features=z)
        coded = compared(make).fit(X, codes, sensitive_features=z)
        assert set(named.labels_[named.promoted_]) == {"approved"}
        np.testing.assert_array_equal(named.promoted_, coded.promoted_)


def test_the_certificate_takes_the_share_of_the_favourable_class(data):
    X, words, codes, z = data
    auditors = {"one": LogisticRegression()}
    named = certify_disparate_impact(X, words, sensitive_features=z, auditors=auditors, pos_label="approved")
    assert named.beta == certify_disparate_impact(X, codes, sensitive_features=z, auditors=auditors).beta
    with pytest.warns(FavourableClassWarning):
        other = certify_disparate_impact(X, words, sensitive_features=z, auditors=auditors)
    assert other.beta != named.beta


def test_situation_testing_knows_the_negative_decision(data):
    X, words, codes, z = data
    named = SituationTesting(k=5, pos_label="approved").fit(X, words, sensitive_features=z)
    coded = SituationTesting(k=5).fit(X, codes, sensitive_features=z)
    np.testing.assert_array_equal(named.tested_, coded.tested_)
    assert set(words[named.tested_]) == {"denied"}


def test_the_recipe_for_scorers_that_sort_labels(data):
    """``roc_auc`` takes the last label in sorted order as positive, the documented scorer the favourable one."""
    X, words, codes, _ = data
    asked = {"constraint": None, "pos_label": "approved"}
    fitted = FairLogisticRegression(**asked).fit(X, words)
    assert fitted.classes_.tolist() == ["denied", "approved"]
    by_recipe = lambda model, X, y: roc_auc_score(y == "approved", model.decision_function(X))  # noqa: E731
    assert by_recipe(fitted, X, words) > 0.8
    assert get_scorer("roc_auc")(fitted, X, words) == pytest.approx(1.0 - by_recipe(fitted, X, words))
    grid = {"C": [1e-6, 1e-3, 1.0]}
    search = GridSearchCV(FairLogisticRegression(**asked), grid, scoring=by_recipe, cv=3).fit(X, words)
    coded = GridSearchCV(FairLogisticRegression(constraint=None), grid, scoring="roc_auc", cv=3).fit(X, codes)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], coded.cv_results_["mean_test_score"])
    assert search.best_params_ == coded.best_params_
