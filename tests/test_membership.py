"""Groups known as probabilities: zeros and ones are groups, the rest is linear in them, and its error covers."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from fairmargin import (
    CertifiedClassifier,
    CovarianceBound,
    CovariancePenalty,
    FairLinearSVC,
    FairLogisticRegression,
    FairMultinomialLogisticRegression,
    FairnessFrontier,
    FairSVC,
    FairTreeClassifier,
    IndividualLossBound,
    LossBound,
    Membership,
    PRuleBound,
    certify,
    cv_score,
    decision_boundary_covariance,
    fair_top_k,
    p_rule,
    positive_rates,
)
from fairmargin.audit import audit
from fairmargin.audit.profiles import apply_profile
from fairmargin.audit.scores import by_quantile
from fairmargin.baselines import PrejudiceRemover, Reweighing
from fairmargin.discrimination_rules import find_discrimination_rules
from fairmargin.experiments.comparison import compare
from fairmargin.proxies import find_proxies
from fairmargin.sensitive import encode_sensitive

CONSTRAINTS = {
    "covariance": CovarianceBound(0.02),
    "relative": CovarianceBound(0.1, relative=True),
    "opportunity": CovarianceBound(0.0, notion="true_positive_rate"),
    "loss": LossBound(0.01),
    "individual": IndividualLossBound(0.5, keep_positive="accepted"),
    "rule": PRuleBound(80),
    "rule between groups": PRuleBound(80, method="between_groups", min_people=30),
    "rule of errors": PRuleBound(difference=0.15, notion="false_positive_rate"),
    "penalty": CovariancePenalty(20.0),
    "several": [CovarianceBound(0.3), LossBound(0.05)],
}


def people(groups=3, n=400, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.choice(list("abc")[:groups], n)
    X = rng.normal(size=(n, 6)) + np.outer(z == "a", [0.6, 0.3, 0.0, 0.0, 0.0, 0.0])
    y = (X.sum(axis=1) + rng.normal(size=n) > 0.3).astype(int)
    return X, y, pd.Series(z, name="race")


def sure(z):
    """Return groups as probabilities of 0 and 1."""
    return Membership(pd.get_dummies(z, dtype=float), name="race")


def unsure(z, share=0.8):
    """Return groups as probabilities that favour the true one."""
    table = share * pd.get_dummies(z, dtype=float)
    return Membership(table + (1.0 - share) / table.shape[1], name="race")


# --- Zeros and ones --------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_on_certain_membership_are_those_on_groups(name, groups):
    X, y, z = people(groups)
    clf = FairLogisticRegression(constraint=CONSTRAINTS[name])
    one = clf.fit(X, y, sensitive_features=z)
    coef, intercept, covariance = one.coef_, one.intercept_, one.covariance_
    two = clf.fit(X, y, sensitive_features=sure(z))
    np.testing.assert_array_equal(two.coef_, coef)
    np.testing.assert_array_equal(two.intercept_, intercept)
    pd.testing.assert_series_equal(two.covariance_, covariance)


@pytest.mark.parametrize(
    "clf", [FairLinearSVC(), FairSVC(C=0.1), FairTreeClassifier(constraint=PRuleBound(40))], ids=repr
)
def test_other_estimators(clf):
    X, y, z = people(n=200)
    expected = clf.fit(X, y, sensitive_features=z).decision_function(X)
    np.testing.assert_array_equal(clf.fit(X, y, sensitive_features=sure(z)).decision_function(X), expected)


@pytest.mark.parametrize("constraint", [CovarianceBound(0.0), PRuleBound(80, path="decisions")], ids=repr)
def test_several_classes(constraint):
    X, y, z = people()
    y = np.where(X[:, 3] > 0.8, 2, y)
    clf = FairMultinomialLogisticRegression(constraint=constraint)
    expected = clf.fit(X, y, sensitive_features=z).coef_
    np.testing.assert_allclose(clf.fit(X, y, sensitive_features=sure(z)).coef_, expected, atol=1e-12)


@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.TrivialClassifierWarning")  # a 100%-rule is a point, too
@pytest.mark.parametrize("which", ["covariance", "p_rule"])
def test_frontiers(which):
    X, y, z = people()
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=4, which=which)
    expected = frontier.fit(X, y, sensitive_features=z, eval_set=(X, y, z)).table_
    found = frontier.fit(X, y, sensitive_features=sure(z), eval_set=(X, y, sure(z))).table_
    pd.testing.assert_frame_equal(found, expected)


ASKED = {
    "alone": {},
    "odds": {"notion": "equalized_odds"},
    "strata": {"strata": np.arange(400) % 3 == 0},
    "weights": {"sample_weight": 1.0 + np.arange(400) % 5},
}


@pytest.mark.parametrize("name", ASKED)
def test_metrics_of_certain_membership_are_those_of_groups(name):
    X, y, z = people()
    decided, more = (X[:, 0] > 0.2).astype(int), ASKED[name]
    for metric in (p_rule, cv_score):
        for method in ("one_vs_rest", "between_groups"):
            expected = metric(y, decided, sensitive_features=z, method=method, **more)
            assert metric(y, decided, sensitive_features=sure(z), method=method, **more) == expected
    rates = positive_rates(y, decided, sensitive_features=sure(z), **more)
    assert (rates.pop("membership_error") == 0).all()
    expected = positive_rates(y, decided, sensitive_features=z, **more)
    pd.testing.assert_frame_equal(rates, expected, check_dtype=False, check_index_type=False)
    expected = decision_boundary_covariance(y, X[:, 0], sensitive_features=z, **more)
    found = decision_boundary_covariance(y, X[:, 0], sensitive_features=sure(z), **more)
    pd.testing.assert_series_equal(found, expected)


# --- In between ------------------------------------------------------------------------------------------


def test_rates_are_weighted_by_probabilities():
    X, y, z = people()
    decided, table = X[:, 0] > 0.2, unsure(z)
    rates = positive_rates(y, decided.astype(int), sensitive_features=table)
    p = table.probabilities
    np.testing.assert_allclose(rates["rate"], decided @ p / p.sum(axis=0))
    rest = decided @ (1 - p) / (1 - p).sum(axis=0)
    np.testing.assert_allclose(rates["rate_of_rest"], rest)
    ratio = rates["rate"] / rest
    least = 100 * np.minimum(ratio, 1 / ratio).min()
    assert p_rule(y, decided.astype(int), sensitive_features=table) == pytest.approx(least)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_take_probabilities(name):
    X, y, z = people()
    table = unsure(z)
    clf = FairLogisticRegression(constraint=CONSTRAINTS[name]).fit(X, y, sensitive_features=table)
    centred = table.probabilities - table.probabilities.mean(axis=0)
    covariance = clf.covariance_["race"] if name != "opportunity" else None
    if covariance is not None and name not in ("several", "rule of errors"):
        np.testing.assert_allclose(covariance, centred.T @ clf.decision_function(X) / len(y), atol=1e-8)
    if name == "covariance":
        assert np.abs(covariance).max() <= 0.02 + 1e-8
    if name == "rule":
        assert p_rule(y, clf.predict(X), sensitive_features=table) >= 80


# --- The error that not knowing the groups adds ----------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_of_not_knowing_the_groups_covers(weighted):
    rng = np.random.default_rng(5)
    n, draws = 300, 2000
    p = rng.dirichlet([1.0, 0.7, 0.4], n)
    decided = (rng.random(n) < 0.2 + 0.5 * p[:, 0]).astype(int)  # depends on probabilities, not on the group
    weight = rng.uniform(0.2, 3.0, n) if weighted else np.ones(n)
    rates = positive_rates(None, decided, sensitive_features=Membership(p), sample_weight=weight, pos_label=1)
    groups = (rng.random((draws, n, 1)) > np.cumsum(p, axis=1)[:, :2]).sum(axis=2)
    for g in range(3):
        inside = (groups == g) * weight
        missed = (
            np.abs(inside @ decided / inside.sum(axis=1) - rates["rate"].iloc[g]) / rates["membership_error"].iloc[g]
        )
        # Four standard deviations of a share of 2,000 draws, and a point for what is of second order.
        assert np.mean(missed <= 1.96) == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / draws) + 0.01)
        assert np.mean(missed <= 0.98) == pytest.approx(0.673, abs=4 * np.sqrt(0.673 * 0.327 / draws) + 0.01)


# --- Audits ----------------------------------------------------------------------------------------------


def test_an_audit_of_certain_membership_is_that_of_the_groups():
    X, y, z = people()
    certain = Membership((np.asarray(z)[:, None] == np.unique(z)).astype(float), groups=np.unique(z), name="race")
    decided = X[:, 0] > 0.3
    for more in ({}, {"y_true": y == 1}, {"sample_weight": np.arange(len(y)) % 3}):
        one = audit(decided, sensitive_features={"race": certain}, pos_label=True, **more)
        two = audit(decided, sensitive_features={"race": z}, pos_label=True, **more)
        assert "probabilities only" in one.notes[0]
        for mine, theirs in zip(one.attributes[0].groups, two.attributes[0].groups, strict=True):
            shown = ("people", "positives", "rate", "rate_low", "rate_high", "ratio", "p_value", "finding")
            assert [getattr(mine, k) for k in shown] == pytest.approx([getattr(theirs, k) for k in shown])
        mine, theirs = ([(e.rate, e.p_value) for e in a.error_rates] for a in (one, two))
        np.testing.assert_allclose(np.array(mine, float), np.array(theirs, float), rtol=1e-9)


@pytest.mark.parametrize("notion", ["selection_rate", "true_positive_rate"])
def test_an_audit_of_scores_and_strata_with_certain_membership_is_that_of_the_groups(notion):
    X, y, z = people()
    certain = Membership((np.asarray(z)[:, None] == np.unique(z)).astype(float), groups=np.unique(z), name="race")
    decided, more = X[:, 0] > 0.3, {"y_true": y == 1, "scores": X[:, 1], "strata": X[:, 2] > 0, "notion": notion}
    one = audit(decided, sensitive_features={"race": certain}, pos_label=True, **more)
    two = audit(decided, sensitive_features={"race": z}, pos_label=True, **more)
    assert one.strata == two.strata
    assert one.scored == two.scored
    assert dict(one.attributes[0].covariance) == pytest.approx(dict(two.attributes[0].covariance))
    for mine, theirs in zip(one.scoring[0].groups, two.scoring[0].groups, strict=True):
        assert (mine.rate, mine.p_value) == pytest.approx((theirs.rate, theirs.p_value))


def test_scores_of_unsure_groups_are_weighted_by_their_probabilities():
    X, y, z = people()
    table, scores = unsure(z), X[:, 1]
    p = table.probabilities
    found = audit(y, sensitive_features=table, scores=scores, y_true=y)
    assert len(found.scored) == p.shape[1]
    for k, group in enumerate(found.scored):
        mean = p[:, k] @ scores / p[:, k].sum()
        rest = (1 - p[:, k]) @ scores / (1 - p[:, k]).sum()
        assert group.mean == pytest.approx(mean)
        assert group.people == round(p[:, k].sum())
        assert group.auc == pytest.approx(roc_auc_score(y, scores, sample_weight=p[:, k]))
        if group.smd is not None:
            assert group.smd == pytest.approx((mean - rest) / scores.std())


def test_strata_of_unsure_groups_are_pooled_by_expected_counts():
    rng = np.random.default_rng(3)
    n = 600
    p, stratum, decided = rng.beta(0.5, 0.5, n), rng.integers(0, 3, n), rng.random(n) < 0.4
    found = audit(decided, sensitive_features=Membership(np.column_stack([1 - p, p])), pos_label=True, strata=stratum)
    (row,) = found.strata
    q = p if row.group == "1" else 1 - p
    top = bottom = 0.0  # Mantel and Haenszel's ratio of rates
    for s in range(3):
        who = stratum == s
        a, b = q[who] @ decided[who], (1 - q[who]) @ decided[who]
        top += a * (1 - q[who]).sum() / who.sum()
        bottom += b * q[who].sum() / who.sum()
    assert row.common.ratio == pytest.approx(100 * top / bottom)


def test_the_test_within_strata_of_unsure_groups_keeps_its_level():
    rng = np.random.default_rng(0)
    draws, rejected = 200, 0
    for _ in range(draws):
        p, stratum = rng.beta(0.5, 0.5, 400), rng.integers(0, 3, 400)
        decided = rng.random(400) < 0.2 + 0.25 * stratum  # alike in both groups within each stratum
        table = Membership(np.column_stack([1 - p, p]))
        found = audit(decided, sensitive_features=table, pos_label=True, strata=stratum)
        rejected += found.strata[0].common.p_value < 0.05
    assert rejected / draws <= 0.05


def test_the_intervals_of_an_audit_cover_the_rate_of_the_groups():
    rng = np.random.default_rng(0)
    draws, n, covered = 300, 400, 0
    table = rng.dirichlet([1.0, 1.0], n)
    rate = 0.2 + 0.5 * table[:, 0]  # decisions depend on what the probabilities know of the group only
    for _ in range(draws):
        decided = rng.random(n) < rate
        in_group = rng.random(n) < table[:, 0]
        found = audit(decided, sensitive_features=Membership(table), pos_label=True).attributes[0].groups[0]
        covered += found.rate_low <= decided[in_group].mean() <= found.rate_high
    assert covered / draws > 0.93  # conservative: of the rate among these people, only the group is unknown


def test_an_audit_puts_small_unsure_groups_together():
    table = np.random.default_rng(1).dirichlet([3.0, 2.0, 0.2, 0.1], 300)
    found = audit(table[:, 0] > 0.5, sensitive_features=Membership(table), pos_label=True, max_groups=3)
    groups = found.attributes[0].groups
    assert groups[-1].group == "other (2 groups)"
    assert groups[-1].people == round(table[:, 2:].sum())


@pytest.mark.parametrize("reference", [None, {"race": "a"}])
def test_a_group_without_people_is_left_out_of_an_audit_of_scores(reference):
    """A column of zeros changes nothing, as a group that does not occur among known ones."""
    share = np.random.default_rng(0).random(100)
    decided = (share > 0.5).astype(int)
    table = np.c_[share, (1 - share) / 2, (1 - share) / 2]
    three = Membership(table, groups=["a", "b", "c"], name="race")
    four = Membership(np.c_[table, 0 * share], groups=["a", "b", "c", "d"], name="race")
    known, more = (
        audit(decided, sensitive_features=z, scores=share, y_true=decided, min_people=10, reference=reference)
        for z in (three, four)
    )
    assert [(g.group, g.people) for g in more.scored] == [(g.group, g.people) for g in known.scored]
    assert [g.mean for g in more.scored] == pytest.approx([g.mean for g in known.scored])
    for mine, theirs in ((more.attributes, known.attributes), (more.scoring, known.scoring)):
        assert [(g.group, g.people) for g in mine[0].groups] == [(g.group, g.people) for g in theirs[0].groups]
        assert [g.rate for g in mine[0].groups] == pytest.approx([g.rate for g in theirs[0].groups])
    attributes = (encode_sensitive(z, groups=False).attributes[0] for z in (three, four))
    few, all_of_them = (by_quantile([(attribute, None)], share) for attribute in attributes)
    assert [(c.group, c.quantile) for c in all_of_them] == [(c.group, c.quantile) for c in few]
    assert [c.ratio for c in all_of_them] == pytest.approx([c.ratio for c in few])


# --- What needs to know the groups raises ----------------------------------------------------------------

X_, Y_, Z_ = people()
COUNTING = {
    "audit of features": lambda z: audit(Y_, sensitive_features={"race": z}, features=pd.DataFrame(X_)),
    "certify": lambda z: certify(FairLogisticRegression(constraint=None).fit(X_, Y_), X_, sensitive_features=z, p=40),
    "confidence": lambda z: FairLogisticRegression(constraint=PRuleBound(40, confidence=0.8)).fit(
        X_, Y_, sensitive_features=z
    ),
    "safety set": lambda z: FairLogisticRegression(constraint=PRuleBound(40, confidence=0.8)).fit(
        X_, Y_, sensitive_features=Z_, safety_set=(X_ + 0.01, {"race": z})
    ),
    "wrapper": lambda z: CertifiedClassifier(FairLogisticRegression(), p=40).fit(X_, Y_, sensitive_features=z),
    "selection": lambda z: fair_top_k(X_[:, 0], 20, sensitive_features=z),
    "profile": lambda z: apply_profile("us-four-fifths", Y_, sensitive_features=z),
    "proxies": lambda z: find_proxies(pd.DataFrame(X_), z),
    "discriminatory rules": lambda z: find_discrimination_rules(pd.DataFrame(X_), z, Y_ == 1),
    "comparison of methods": lambda z: compare(X_, Y_, sensitive_features=z),
    "compared method": lambda z: Reweighing(FairLogisticRegression(constraint=None)).fit(
        X_, Y_, sensitive_features=z
    ),
    "compared method of two groups": lambda z: PrejudiceRemover().fit(X_, Y_, sensitive_features={"race": z}),
    "compared method to decide": lambda z: (
        PrejudiceRemover()
        .fit(X_, Y_, sensitive_features={"race": np.asarray(Z_) == np.asarray(Z_)[0]})
        .predict(X_, sensitive_features=z)
    ),
    "promise to a group": lambda z: FairLogisticRegression(
        constraint=IndividualLossBound(keep_positive={"race": "a"})
    ).fit(X_, Y_, sensitive_features=z),
}


@pytest.mark.parametrize("name", COUNTING)
def test_what_counts_people_refuses_probabilities(name):
    with pytest.raises(ValueError, match=r"'race'.* is known as probabilities only") as error:
        COUNTING[name](unsure(Z_))
    assert str(error.value).count(". ") == 0


# --- Bad tables ------------------------------------------------------------------------------------------

BAD = {
    "sum": ([[0.5, 0.5], [0.5, 0.4]], {}, r"of 1 people do not add up to one \(row 1: 0.9\)"),
    "rounded": ([[0.33, 0.33, 0.33]], {}, r"do not add up to one \(row 0: 0.99\)"),
    "negative": ([[1.5, -0.5]], {}, "numbers from 0 to 1"),
    "text": ([["a", "b"]], {}, "must be a dense table of numbers; a list is not one"),
    "sparse": (sp.csr_matrix(np.eye(2)), {}, "must be a dense table of numbers; a csr_matrix is not one"),
    "missing": ([[np.nan, 1.0]], {}, "numbers from 0 to 1"),
    "one column": ([[1.0]], {}, "at least two groups"),
    "a vector": ([0.5, 0.5], {}, "table of one row per person"),
    "too few names": ([[0.5, 0.5]], {"groups": ["a"]}, "names 1 groups, but there are 2 columns"),
    "names twice": ([[0.5, 0.5]], {"groups": ["a", "a"]}, "same label twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables(case):
    table, more, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        Membership(table, **more)


def test_rows_must_agree():
    X, y, z = people()
    with pytest.raises(ValueError, match="399 rows, but there are 400 people"):
        FairLogisticRegression().fit(X, y, sensitive_features=unsure(z).take(slice(399)))


def test_probabilities_that_tell_nothing():
    X, y, _ = people()
    with pytest.raises(ValueError, match="of 'race' are the same for everybody: there is nothing"):
        FairLogisticRegression().fit(X, y, sensitive_features=Membership(np.full((len(y), 2), 0.5), name="race"))


def test_a_group_that_nobody_may_belong_to():
    X, y, _ = people()
    share = np.linspace(0.1, 0.9, len(y))
    race = Membership(np.c_[share, 1 - share, 0 * share], groups=np.array(["a", "b", "c"]), name="race")
    with pytest.raises(ValueError, match="Nobody has any probability of belonging to the group 'c' of 'race'") as e:
        FairLogisticRegression().fit(X, y, sensitive_features=race)
    assert "leave out that column" in str(e.value)
    assert str(e.value).count(". ") == 0


def test_groups_named_by_an_array_read_as_written():
    table = Membership([[0.5, 0.5], [0.2, 0.8]], groups=np.unique(["a", "b"]))
    assert repr(table) == "Membership(people=2, groups=['a', 'b'], name='group')"
    assert [type(g) for g in Membership([[0.5, 0.5]], groups=np.array([3, 7])).groups] == [int, int]
