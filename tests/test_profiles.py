"""Profiles: data files whose tables are counted by hand."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact

from fairmargin.audit.profiles import apply_profile, get_profile, profile_names
from fairmargin.cli import run


def people(**groups):
    """Return decisions and groups from ``name=(positives, people)``."""
    decisions = np.concatenate([np.r_[np.ones(k), np.zeros(n - k)] for k, n in groups.values()])
    names = [name.replace("missing", "(missing)") for name in groups]
    return decisions, pd.Series(np.repeat(names, [n for _, n in groups.values()]), name="race")


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_is_dated_sourced_and_modest(name):
    profile = get_profile(name)
    assert profile.name == name
    assert len(profile.dated) == 10
    assert profile.sources
    assert len(profile.leaves_out) >= 2
    words = " ".join([profile.title, profile.summary, *profile.sources, *profile.leaves_out]).lower()
    assert "lawful" not in words
    assert "complian" not in words
    made = apply_profile(profile, [1, 0] * 50, sensitive_features=["a", "a", "b", "b"] * 25, scores=np.arange(100.0))
    assert made["tables"]
    json.dumps(made, allow_nan=False)


def test_local_law_144_by_hand():
    decisions, race = people(a=(40, 100), b=(30, 60), c=(2, 3), missing=(5, 10))
    sex = pd.Series(["man", "woman"] * 86 + ["man"], name="sex")
    made = apply_profile("nyc-local-law-144", decisions, sensitive_features=pd.concat([race, sex], axis=1))
    by_race, by_sex, both = made["tables"]
    rows = {row["group"]: row for row in by_race["data"]}
    # 3 of 173 people are under 2%: listed with its rate, without a ratio, and not the highest rate.
    assert "(missing)" not in rows
    assert rows["b"]["ratio"] == 1.0
    assert rows["a"]["ratio"] == pytest.approx(0.4 / 0.5)
    assert rows["c"]["ratio"] is None
    assert rows["c"]["rate"] == pytest.approx(2 / 3)
    assert "under 2% of the data" in rows["c"]["remark"]
    assert by_race["text"] == "10 people of unknown category are not in this table."
    assert by_sex["text"].startswith("0 people")
    assert sum(row["people"] for row in both["data"]) == 163
    assert {row["group"] for row in both["data"]} >= {"a × man", "a × woman", "b × man"}
    assert made["threshold"] is None
    assert "below" not in json.dumps(made["tables"])


def test_scoring_rates_are_above_the_median():
    scores = np.r_[np.arange(50.0), np.arange(25.0, 75.0)]
    group = ["a"] * 50 + ["b"] * 50
    made = apply_profile("nyc-local-law-144", [0] * 100, sensitive_features=group, scores=scores)
    rows = {row["group"]: row for row in made["tables"][1]["data"]}
    above = scores > np.median(scores)
    assert rows["b"]["positives"] == above[50:].sum()
    assert rows["a"]["ratio"] == pytest.approx(above[:50].mean() / above[50:].mean())
    assert made["tables"][0]["data"][0]["ratio"] is None  # nobody is selected: 0/0


def test_four_fifths_by_hand():
    decisions, race = people(a=(60, 100), b=(30, 100), c=(5, 10), d=(58, 100))
    table = apply_profile("us-four-fifths", decisions, sensitive_features=race)["tables"][0]
    rows = {row["group"]: row for row in table["data"]}
    assert rows["a"]["finding"] == "compared with"
    assert rows["b"]["ratio"] == pytest.approx(0.5)
    assert rows["b"]["p_value"] == pytest.approx(fisher_exact([[30, 70], [60, 40]]).pvalue)
    assert rows["b"]["finding"] == "under four fifths, beyond chance"
    assert rows["c"]["flipped"] == pytest.approx((6 / 10) / (59 / 100))
    assert (
        "hangs on two people"
        in apply_profile(
            "us-four-fifths", *[people(a=(60, 100), c=(4, 9))[0]], sensitive_features=people(a=(60, 100), c=(4, 9))[1]
        )["tables"][0]["data"][1]["finding"]
    )
    assert rows["d"]["finding"] == "at least four fifths, may be chance"


def test_fair_lending_by_decile():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=400) + np.repeat([0.0, 0.5], 200)
    group = pd.Series(np.repeat(["a", "b"], 200), name="origin")
    made = apply_profile(
        "us-fair-lending",
        scores > 0.2,
        pos_label=True,
        sensitive_features=group,
        scores=scores,
        reference={"origin": "b"},
    )
    air, deciles = made["tables"]
    rates = [np.mean(scores[:200] > 0.2), np.mean(scores[200:] > 0.2)]
    assert air["data"][0]["ratio"] == pytest.approx(rates[0] / rates[1])
    assert air["data"][0]["smd"] == pytest.approx((scores[:200].mean() - scores[200:].mean()) / scores.std())
    assert [row["quantile"] for row in deciles["data"]] == pytest.approx(np.arange(1, 10) / 10)
    last = deciles["data"][-1]
    cut = np.quantile(scores, 0.9, method="averaged_inverted_cdf")
    assert last["ratio"] == pytest.approx(100 * np.mean(scores[:200] > cut) / np.mean(scores[200:] > cut))


def test_profiles_of_ones_own(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'us-four-fifths'"):
        get_profile("us-four-fifth")
    own = tmp_path / "own.toml"
    own.write_text((Path(get_profile.__code__.co_filename).parent / "neutral.toml").read_text())
    assert get_profile(own).name == "neutral"
    for text, message in {
        "tables = [": "no TOML file",
        "name = 'x'": "needs sources",
        own.read_text().replace('"rates"', '"rate"'): "asks for the table 'rate'",
        own.read_text() + "\nextra = 1\n[other]\n": "too many entries",
    }.items():
        (tmp_path / "bad.toml").write_text(text)
        with pytest.raises(ValueError, match=message):
            get_profile(tmp_path / "bad.toml")
    with pytest.raises(ValueError, match="cannot be read"):
        get_profile(tmp_path / "none.toml")


@pytest.mark.slow
def test_profiles_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["audit", "--demo", "--profile", "us-four-fifths", "--json", "a.json", "--html", "a.html", "-q"]) == 0
    summary = json.loads(Path("a.json").read_text())
    assert summary["profile"]["dated"]
    assert summary["settings"]["rule"] == "highest"
    assert "Four-fifths rule by sex" in Path("a.html").read_text()
    assert run(["audit", "--demo", "--profile", "neutral", "--rule", "highest", "--json", "a.json", "-q"]) == 0
    summary = json.loads(Path("a.json").read_text())
    assert summary["settings"]["rule"] == "highest"  # what is given goes before the profile
    assert any("has no such threshold" in note for note in summary["notes"])
    assert summary["verdict"]["headline"] == "No verdict. The profile neutral sets no threshold."
    assert run(["audit", "--demo", "--profile", "neutral", "--threshold", "70", "--json", "a.json", "-q"]) == 0
    assert "70%-rule" in json.loads(Path("a.json").read_text())["verdict"]["headline"]  # asked for by the user
    capsys.readouterr()
    assert run(["audit", "--demo", "--profile", "nyc"]) == 2
    assert "(option --profile)" in capsys.readouterr().err
