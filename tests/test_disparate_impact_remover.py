"""Repair and certification of Feldman et al.: by hand, on ties and categories, and where the reference code fails."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from fairmargin.baselines import DisparateImpactRemover, RepairedClassifier, certify_disparate_impact
from fairmargin.datasets import make_linear_synthetic

pytestmark = pytest.mark.numerical


def repaired(X, z, **parameters):
    return DisparateImpactRemover(**parameters).fit_transform(X, sensitive_features=z)


# Two groups of four, ten apart: the target is in the middle.
X = np.array([0.0, 1, 2, 3, 10, 11, 12, 13])[:, None]
Z = np.repeat(["a", "b"], 4)


def test_full_repair_by_hand():
    # The median of two is the middle between them, not the lower.
    assert repaired(X, Z).ravel().tolist() == [5, 6, 7, 8, 5, 6, 7, 8]


def test_three_groups_by_hand():
    x = np.array([0.0, 1, 10, 12, 100, 200])[:, None]
    assert repaired(x, list("aabbcc")).ravel().tolist() == [10, 12, 10, 12, 10, 12]


def test_geometric_repair_goes_part_of_the_way_in_values():
    assert repaired(X, Z, repair=0.5).ravel() == pytest.approx([2.5, 3.5, 4.5, 5.5, 7.5, 8.5, 9.5, 10.5])
    assert repaired(X, Z, repair=0.0).ravel().tolist() == X.ravel().tolist()


def test_combinatorial_repair_goes_part_of_the_way_in_ranks():
    # Ranks among all eight are 1/16, 3/16, ...; a target of 5, between 3 (7/16) and 10 (9/16), has
    # 7/16 + 2/7 * 2/16. For the first person half way is at 1/16 + (6/16 + 4/112) / 2, and values go 1 per 2/16.
    rank = 0.5 * (1 / 16 + 7 / 16 + 4 / 112)
    assert repaired(X, Z, repair=0.5, kind="combinatorial")[0, 0] == pytest.approx((rank - 1 / 16) * 8)
    full = repaired(X, Z, kind="combinatorial").ravel()
    assert full == pytest.approx([5, 6, 7, 8, 5, 6, 7, 8])
    # The two kinds differ: one is a repair in values, the other in ranks.
    assert repaired(X, Z, repair=0.5, kind="combinatorial")[0, 0] != pytest.approx(repaired(X, Z, repair=0.5)[0, 0])


def test_multiplicity_counts():
    # Nine of ten at 0 in group a, one of ten in group b. By distinct values alone both have quantiles (0, 1).
    x = np.array([0.0] * 9 + [1.0] + [0.0] + [1.0] * 9)[:, None]
    z = np.repeat(["a", "b"], 10)
    fixed = repaired(np.tile(x, (400, 1)), np.tile(z, 400), random_state=0).ravel()
    z = np.tile(z, 400)
    # The target is 0 up to rank 1/10, 1/2 up to 9/10 and 1 beyond, in both groups.
    for group in "ab":
        shares = [np.mean(fixed[z == group] == value) for value in (0.0, 0.5, 1.0)]
        assert shares == pytest.approx([0.1, 0.8, 0.1], abs=0.03)


def samples(kind, n=4000):
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1], n)
    if kind == "indicator":
        return (rng.random(2 * n) < np.where(z == 1, 0.7, 0.3)).astype(float), z
    if kind == "continuous":
        return rng.normal(size=2 * n) + z, z
    # Mostly zero, as capital gains are.
    return np.where(rng.random(2 * n) < np.where(z == 1, 0.5, 0.8), 0.0, rng.exponential(size=2 * n) + z), z


@pytest.mark.parametrize("kind", ["indicator", "continuous", "atom"])
def test_groups_have_the_same_distribution_after_repair(kind):
    x, z = samples(kind)
    assert ks_2samp(x[z == 0], x[z == 1]).statistic > 0.3
    fixed = repaired(x[:, None], z, random_state=1).ravel()
    # Two samples of 4,000 from one distribution differ by more than this once in a hundred thousand times.
    assert ks_2samp(fixed[z == 0], fixed[z == 1]).statistic < 2.48 * np.sqrt(2 / 4000)
    if kind == "continuous":
        assert fixed[z == 0].mean() == pytest.approx(0.5 * x.mean() + 0.25, abs=0.06)
        for g in (0, 1):  # ranks within a group stay
            assert (np.diff(fixed[z == g][np.argsort(x[z == g])]) >= 0).all()


def test_middle_ranks_use_no_chance():
    x, z = samples("atom", 500)
    first = repaired(x[:, None], z, ties="middle", random_state=1)
    assert np.array_equal(first, repaired(x[:, None], z, ties="middle", random_state=2))
    equal = x == 0
    for g in (0, 1):
        assert len(np.unique(first[equal & (z == g)])) == 1


def test_new_people_are_repaired_by_the_training_distribution():
    remover = DisparateImpactRemover().fit(X, sensitive_features=Z)
    # One person alone, and values between and beyond those of training.
    assert remover.transform([[1.0]], sensitive_features=["a"]).tolist() == [[6.0]]
    assert remover.transform([[1.5], [-7.0], [99.0]], sensitive_features=list("aab")).ravel() == pytest.approx(
        [6.5, 5.0, 8.0]
    )


def test_categories():
    rng = np.random.default_rng(0)
    n = 6000
    z = np.repeat(["f", "m"], n)
    job = np.repeat(list("abcabc"), [3600, 1800, 600, 1200, 1800, 3000])
    frame = pd.DataFrame({"job": pd.Categorical(job), "age": rng.normal(size=2 * n)})
    fixed = repaired(frame, z, random_state=0)
    assert list(fixed.columns) == ["job", "age"]
    assert fixed["job"].dtype == frame["job"].dtype
    shares = pd.crosstab(z, fixed["job"], normalize="index").to_numpy()
    assert shares == pytest.approx(np.array([[0.4, 0.3, 0.3]] * 2), abs=0.03)
    # As few as possible are moved: a fifth of all, from the category that a group has too much of.
    changed = (fixed["job"] != frame["job"]).to_numpy()
    assert changed.mean() == pytest.approx(0.2, abs=0.02)
    assert set(job[changed & (z == "f")]) == {"a"}
    half = repaired(frame, z, repair=0.5, random_state=0)
    assert (half["job"] != frame["job"]).mean() == pytest.approx(0.1, abs=0.02)
    odd = DisparateImpactRemover().fit(frame, sensitive_features=z)
    new = odd.transform(pd.DataFrame({"job": ["never", None], "age": [0.0, 1.0]}), sensitive_features=["f", "m"])
    assert new["job"].iloc[0] == "never"
    assert pd.isna(new["job"].iloc[1])


def mixed(n=1000):
    """Return an indicator, a category and a number, by which people differ, and groups."""
    rng = np.random.default_rng(0)
    z = np.repeat(["f", "m"], n // 2)
    flag = (rng.random(n) < np.where(z == "m", 0.7, 0.3)).astype(float)
    job = np.where(rng.random(n) < np.where(z == "m", 0.8, 0.4), "cook", "clerk")
    return pd.DataFrame({"flag": flag, "job": job, "age": rng.normal(40, 10, n)}), z


def test_nobodys_repair_depends_on_who_else_is_in_the_table():
    frame, z = mixed()
    remover = DisparateImpactRemover(random_state=3).fit(frame, sensitive_features=z)
    together = remover.transform(frame, sensitive_features=z)
    # Neither one by one, nor in another order and company.
    few = range(0, 1000, 25)
    alone = [remover.transform(frame.iloc[[i]], sensitive_features=z[[i]]) for i in few]
    pd.testing.assert_frame_equal(pd.concat(alone, ignore_index=True), together.iloc[few].reset_index(drop=True))
    back = remover.transform(frame[::-1], sensitive_features=z[::-1])
    pd.testing.assert_frame_equal(back[::-1].reset_index(drop=True), together)
    # Draws of different people, columns and seeds differ.
    assert together["flag"].nunique() > 1
    other = DisparateImpactRemover(random_state=4).fit_transform(frame, sensitive_features=z)
    assert (other["flag"] != together["flag"]).any()
    assert (other["job"] != together["job"]).any()


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(0)])
def test_other_sources_of_chance_go_on(random_state):
    frame, z = mixed()
    remover = DisparateImpactRemover(random_state=random_state).fit(frame, sensitive_features=z)
    first, second = (remover.transform(frame, sensitive_features=z) for _ in range(2))
    assert (first["flag"] != second["flag"]).any()


def test_several_attributes_are_their_combinations():
    rng = np.random.default_rng(1)
    both = pd.DataFrame({"sex": rng.choice(["f", "m"], 400), "race": rng.choice(["x", "y"], 400)})
    x = rng.normal(size=(400, 2)) + (both["sex"] == "m").to_numpy()[:, None]
    joint = both["sex"] + both["race"]
    assert np.array_equal(repaired(x, both), repaired(x, joint))


def test_the_classifier_needs_z_and_hands_on_what_it_wraps():
    features, y, z = make_linear_synthetic(1000, random_state=0)
    model = RepairedClassifier(LogisticRegression()).fit(features, y, sensitive_features=z)
    plain = LogisticRegression().fit(features, y)

    def gap(decided):
        return abs(np.mean(decided[z == 1] == 1) - np.mean(decided[z == 0] == 1))

    assert gap(model.predict(features, sensitive_features=z)) < 0.3 * gap(plain.predict(features))
    for decide in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(ValueError, match="RepairedClassifier, to decide, needs sensitive_features"):
            decide(features)
    with pytest.raises(ValueError, match="values that were not there"):
        model.predict(features, sensitive_features=z + 5)
    none = RepairedClassifier(LogisticRegression(), repair=0.0).fit(features, y, sensitive_features=z)
    assert np.array_equal(none.predict(features, sensitive_features=z), plain.predict(features))
    assert not hasattr(RepairedClassifier(LinearSVC()), "predict_proba")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"repair": 1.5}, "repair must be a number between 0 and 1"),
        ({"kind": "both"}, "kind must be 'geometric' or 'combinatorial', got 'both'"),
        ({"ties": None}, "ties must be 'random' or 'middle'"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        DisparateImpactRemover(**parameters).fit(X, sensitive_features=Z)


# ------------------------------------------------------------------------------------------------------------
# Certification
# ------------------------------------------------------------------------------------------------------------


def test_the_threshold_by_hand():
    # beta = 0.2 in the group of the lower share: 1/2 - 0.1 * (1.25 - 1) = 0.475, which is 1/2 - beta/8.
    y, z = np.array([1] * 20 + [0] * 80 + [1] * 50 + [0] * 50), np.repeat([0, 1], 100)
    found = certify_disparate_impact(
        np.zeros((200, 1)), y, sensitive_features=z, auditors={"none": DummyClassifier()}
    )
    assert found.beta == 0.2
    assert found.threshold == pytest.approx(0.475)
    # Always the same group: wrong about all of one and none of the other. No bound on 100 people is that sharp.
    assert found.auditors.loc["none", "balanced_error"] == 0.5
    assert found.auditors.loc["none", "at_least"] == pytest.approx(0.5 * (0.05 / 2) ** (1 / 100))
    assert found.certified == (found.auditors["at_least"] > 0.475).all()


def test_disparate_impact_bounds_the_balanced_error():
    # Of any decisions with disparate impact at tau, used as a guess of z, the error is below the threshold.
    rng = np.random.default_rng(0)
    for _ in range(200):
        favoured = rng.uniform(0.05, 1.0)
        beta = favoured * rng.uniform(0, 0.8)
        error = 0.5 * ((1 - favoured) + beta)
        assert error <= 0.5 - 0.5 * beta * (1 / 0.8 - 1) + 1e-12


def test_certified_only_where_features_do_not_tell():
    rng = np.random.default_rng(2)
    z = rng.integers(2, size=6000)
    y = rng.random(6000) < np.where(z == 1, 0.9, 0.7)
    noise = rng.normal(size=(6000, 2))
    auditors = {"logistic regression": LogisticRegression(class_weight="balanced")}
    blind = certify_disparate_impact(noise, y, sensitive_features=z, auditors=auditors)
    telling = certify_disparate_impact(noise + z[:, None], y, sensitive_features=z, auditors=auditors)
    assert blind.certified
    assert not telling.certified
    assert telling.auditors.loc["logistic regression", "balanced_error"] < 0.3


def test_default_auditors_find_what_a_linear_one_cannot():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1500, 2))
    z = (x[:, 0] * x[:, 1] > 0).astype(int)
    y = rng.random(1500) < 0.5
    found = certify_disparate_impact(x, y, sensitive_features=z, cv=3)
    assert found.auditors.loc["boosted trees", "balanced_error"] < 0.1
    assert found.auditors.loc["logistic regression", "balanced_error"] > 0.4
    assert not found.certified


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tau": 0.0}, "tau must be positive"),
        ({"confidence": 95}, "confidence must be a number between 0 and 1"),
        ({"auditors": {}}, "at least one"),
        ({"cv": 0}, "cv must be a positive"),
    ],
)
def test_certification_checks_its_parameters(parameters, message):
    y = np.tile([0, 1], 4)
    with pytest.raises(ValueError, match=message):
        certify_disparate_impact(X, y, sensitive_features=Z, **parameters)
    with pytest.raises(ValueError, match="exactly two values"):
        certify_disparate_impact(X, y, sensitive_features=list("aabbccdd"))
