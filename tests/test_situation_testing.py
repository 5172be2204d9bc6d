"""Situation testing: distances, neighbours and the people found, worked out by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from fairmargin.baselines import SituationTesting, SituationTestingCorrection
from fairmargin.baselines._mixed_distance import MixedDistance
from fairmargin.datasets import make_linear_synthetic

pytestmark = pytest.mark.numerical


def test_distance_by_hand():
    grade = pd.Categorical(["low", "mid", "high", None], categories=["low", "mid", "high"], ordered=True)
    frame = pd.DataFrame({0: [0.0, 4.0, 8.0, np.nan], 1: ["a", "b", "a", None], 2: grade})
    # Mean 4, mean absolute deviation 8/3: numbers are -1.5, 0, 1.5; a missing number is 3 from every other. Ranks are
    # 0, 1/2, 1; a missing one is as far from "mid" as 1/2 can be, and 1 from "low" and "high".
    expected = [
        [0.0, 1.5 + 1 + 0.5, 3 + 0 + 1, 3 + 1 + 1],
        [1.5 + 1 + 0.5, 0.0, 1.5 + 1 + 0.5, 3 + 1 + 0.5],
        [3 + 0 + 1, 1.5 + 1 + 0.5, 0.0, 3 + 1 + 1],
        [3 + 1 + 1, 3 + 1 + 0.5, 3 + 1 + 1, 3 + 1 + 1],
    ]
    rows = np.arange(4)
    assert MixedDistance.of(frame).distances(rows, rows) == pytest.approx(np.array(expected) / 3)


@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("missing", [False, True])
def test_neighbours_are_the_nearest_in_a_stable_order(k, missing):
    rng = np.random.default_rng(k)
    frame = pd.DataFrame(
        {
            0: rng.integers(5, size=900).astype(float),
            1: rng.choice(list("abc"), 900),
            2: rng.normal(size=900).round(1),
        }
    )
    if missing:
        frame.loc[rng.random(900) < 0.1, 0] = np.nan
        frame.loc[rng.random(900) < 0.1, 1] = None
    distance = MixedDistance.of(frame)
    of, among = np.arange(0, 900, 3), np.flatnonzero(rng.random(900) < 0.7)
    found = distance.neighbours(of, among, k)
    for row, neighbours in zip(of, found, strict=True):
        others = among[among != row]
        apart = distance._sums(np.array([row]), distance._take(others))[0]
        assert np.array_equal(neighbours, others[np.argsort(apart, kind="stable")[:k]])


def situation():
    """Six protected and six other people on a line; k = 2 and t = 1/2.

    The protected person at 0 was refused, as were the protected neighbours at 1 and 2, while the others at 0 and 1
    were accepted: p1 = 1, p2 = 0. The one at 10 was refused, as were the others at 10 and 11: p1 = 1, p2 = 1.
    """
    protected = [(0, 0), (1, 0), (2, 0), (10, 0), (11, 0), (12, 1)]
    others = [(0, 1), (1, 1), (2, 1), (10, 0), (11, 0), (12, 1)]
    x, y = np.array(protected + others).T
    return x[:, None].astype(float), y, np.repeat(["p", "o"], 6)


@pytest.mark.parametrize("explicit", [None, "p"])
def test_discovery_by_hand(explicit):
    X, y, z = situation()
    found = SituationTesting(k=2, t=0.5, protected=explicit).fit(X, y, sensitive_features=z)
    assert found.protected_ == "p"
    assert found.tested_.tolist() == [0, 1, 2, 3, 4]
    # The person at 10 has protected neighbours at 11 and 12, of whom one was accepted; so does the one at 11.
    assert found.differences_.tolist() == [1.0, 1.0, 1.0, -0.5, -0.5]
    assert found.discriminated_.tolist() == [0, 1, 2]
    assert "feature 0 <= 6.00" in found.describe()
    assert SituationTesting(k=2, t=1.0).fit(X, y, sensitive_features=z).discriminated_.tolist() == [0, 1, 2]
    assert SituationTesting(k=2, t=1.01).fit(X, y, sensitive_features=z).discriminated_.size == 0


def test_the_person_is_no_neighbour_of_their_own_but_of_others():
    X, y, z = situation()
    y[:3] = 0, 1, 1
    # The neighbours of the person at 0 are those at 1 and 2, both accepted; counting the person would give 1/2.
    found = SituationTesting(k=2).fit(X, y, sensitive_features=z)
    assert found.differences_[0] == 0.0


def test_significance_asks_for_more():
    X, y, z = situation()
    y[1] = 1  # p1 = 1/2 and p2 = 0 at 0: 1/2 - 1.96 sqrt(1/8) < 0
    plain = SituationTesting(k=2, t=0.5).fit(X, y, sensitive_features=z)
    sure = SituationTesting(k=2, t=0.5, significant=True).fit(X, y, sensitive_features=z)
    assert 0 in plain.discriminated_
    assert 0 not in sure.discriminated_


def test_prevention_by_hand():
    X, y, z = situation()
    method = SituationTestingCorrection(DecisionTreeClassifier(), k=2, t=0.5).fit(X, y, sensitive_features=z)
    assert method.promoted_.tolist() == [0, 1, 2]
    assert method.labels_.tolist() == [1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1]
    assert method.predict([[0.5], [10.4]]).tolist() == [1, 0]


def test_only_promotes():
    X, y, z = make_linear_synthetic(800, random_state=0)
    method = SituationTestingCorrection(LogisticRegression(), t=0.05).fit(X, y, sensitive_features=z)
    changed = method.labels_ != y
    assert changed.any()
    assert (method.labels_[changed] == 1).all()
    favoured = int(np.mean(y[z == 1]) > np.mean(y[z == 0]))
    assert (z[changed] != favoured).all()
    assert np.array_equal(np.flatnonzero(changed), method.promoted_)


def test_description_in_words():
    rng = np.random.default_rng(0)
    job = np.repeat(["clerk", "cook"], 100)
    z = np.tile(["f", "m"], 100)
    y = ((job == "cook") | (z == "m")).astype(int)  # women are refused as clerks only
    y[[0, 100, 101, 103]] = 1, 0, 0, 0
    frame = pd.DataFrame({"job": job, "age": rng.integers(20, 60, 200).astype(float)})
    found = SituationTesting(k=8).fit(frame, y, sensitive_features=z)
    assert set(job[found.discriminated_]) == {"clerk"}
    assert "job is clerk" in found.describe() or "job is cook" in found.describe()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": 0}, "k must be a positive whole number"),
        ({"k": 6}, "k = 6 neighbours are needed .* 6 protected and 6 other people"),
        ({"t": np.nan}, "t must be finite"),
        ({"protected": "q"}, "protected must be a value of sensitive_features, got 'q'"),
        ({"significant": "no"}, "significant must be True or False"),
    ],
)
def test_parameters_are_checked(parameters, message):
    X, y, z = situation()
    for method in (SituationTesting(**parameters), SituationTestingCorrection(LogisticRegression(), **parameters)):
        with pytest.raises(ValueError, match=message):
            method.fit(X, y, sensitive_features=z)
