"""The case for a proposed model: verdict, cost, evidence, the search on record, the record of the run."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp
from sklearn.base import clone
from sklearn.metrics import precision_score, recall_score, roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler
from statsmodels.stats.contingency_tables import mcnemar

from fairmargin import FairLogisticRegression, PerformanceBound, io, p_rule
from fairmargin.audit import audit
from fairmargin.cli import run
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.exceptions import DataError
from fairmargin.formatting import interval
from fairmargin.rate_statistics import paired_difference
from fairmargin.report import add_record, is_intact, to_html, to_markdown
from fairmargin.report.candidates import Selection
from fairmargin.report.plain import plain
from fairmargin.report.verdict import FAILS, FAILS_MAYBE, NO_VERDICT, PASSES, PASSES_MAYBE, judge
from fairmargin.tables import prepare, table_of_frame
from fairmargin.tables.jobs import propose, refit, train
from fairmargin.tables.specifications import make_estimator, parse_constraint, parse_gains, parse_selection

QUESTION = {"target": "repaid", "positive": "yes", "sensitive": ["sex", "origin"]}


@pytest.fixture(scope="module")
def study():
    return prepare(table_of_frame(make_credit_demo(1500), "demo"), **QUESTION)


@pytest.fixture(scope="module")
def proposed(study):
    return propose(study, make_estimator(), n_points=5)


def verdict(rates, people, asked=80.0, held_out=True, **options):
    """Return the verdict on groups with these rates."""
    decisions = np.concatenate([np.arange(n) < round(rate * n) for rate, n in zip(rates, people, strict=True)])
    groups = np.repeat([f"g{k}" for k in range(len(rates))], people)
    found = audit(decisions.astype(int), sensitive_features=groups, **options)
    return judge(plain(found.to_dict()), asked=asked, held_out=held_out)


@pytest.mark.parametrize(
    ("rates", "people", "status"),
    [
        ((0.50, 0.49), (5000, 5000), PASSES),
        ((0.50, 0.42), (300, 300), PASSES_MAYBE),
        ((0.50, 0.38), (100, 100), FAILS_MAYBE),
        ((0.50, 0.20), (2000, 2000), FAILS),
        ((0.50, 0.50, 0.20), (2000, 2000, 2000), FAILS),
        ((1.0, 1.0), (100, 100), NO_VERDICT),
        ((0.5, 0.2), (100, 5), NO_VERDICT),
    ],
)
def test_verdicts(rates, people, status):
    found = verdict(rates, people)
    assert found["status"] == status
    starts = {PASSES: "Yes. ", PASSES_MAYBE: "Yes on", FAILS_MAYBE: "Not on", FAILS: "No. ", NO_VERDICT: "No verdict"}
    assert found["headline"].startswith(starts[status])
    if status != NO_VERDICT:
        assert found["margin"] == pytest.approx(found["p_rule"] - 80.0)
        assert found["low"] <= found["p_rule"] <= found["high"]
        assert {g["group"] for g in found["below"]} <= {"g0", "g1", "g2"}
        assert bool(found["below"]) == (status in (FAILS, FAILS_MAYBE))


def test_the_interval_shown_is_that_of_the_group_that_decides():
    """A small group has the lowest rule and proves nothing; a large one is below beyond doubt."""
    found = verdict((0.50, 0.35, 1 / 3), (4000, 2000, 30), method="between_groups", min_people=30)
    assert found["status"] == FAILS
    assert found["below"][0]["group"] == "g2"
    assert found["below"][0]["high"] == 100.0
    decides = found["below"][1]
    assert decides["high"] < decides["corrected"] < 80.0
    limits = f"{decides['low']:.1f}–{decides['high']:.1f}%"
    assert f"The 95% interval of the ratio of sensitive = g1 is {limits}. It lies below 80%" in found["sure"]


def test_nothing_is_sure_of_the_people_trained_on():
    assert verdict((0.50, 0.49), (5000, 5000), held_out=False)["status"] == PASSES_MAYBE
    assert verdict((0.50, 0.20), (5000, 5000), held_out=False)["status"] == FAILS_MAYBE


def test_small_groups_are_named_and_decide_nothing():
    found = verdict((0.5, 0.5, 0.0), (3000, 3000, 8))
    assert found["status"] == PASSES
    assert "Not judged, too few people" in found["for_whom"]
    assert "g2 (8)" in found["for_whom"]


def test_a_rule_just_missed_is_visibly_missed():
    found = verdict((0.5, 0.39985), (20000, 20000))
    assert found["status"] == FAILS_MAYBE
    assert "p%-rule 79.97%" in found["for_whom"]


def test_sentences_show_the_limits_of_the_table():
    decisions = np.repeat([1, 0, 1, 0], [40, 60, 44, 56])
    found = plain(audit(decisions, sensitive_features=np.repeat(["a", "b"], 100)).to_dict())
    group = next(g for g in found["attributes"][0]["groups"] if g["ratio"] is not None)
    assert group["ratio_high"] > 100.0
    said = judge(found, asked=80.0, held_out=True)["sure"]
    assert interval(group["ratio_low"], group["ratio_high"]) in said


def test_limits_of_others_than_the_group_are_turned():
    """A group far above everybody else: it is the others who are below, and the interval is theirs."""
    found = verdict((0.8, 0.4, 0.4), (300, 300, 300))
    assert "ratio of everybody except sensitive = g0 is " in found["sure"]
    low, high = map(float, re.search(r"is ([\d.]+)–([\d.]+)%", found["sure"]).groups())
    assert low < 50.0 < high < 80.0


@pytest.mark.parametrize(
    "notion", ["true_positive_rate", "false_positive_rate", "false_negative_rate", "error_rate", "equalized_odds"]
)
def test_the_verdict_is_about_the_notion_that_was_asked_for(study, notion):
    asked = {"method": study.method, "min_people": study.min_people}
    model = make_estimator("logistic", parse_constraint("p-rule=70", notion=notion, **asked))
    _, summary = train(study, model, {"constraint": "p-rule=70"})
    found, test = summary["proposal"]["verdict"], study.test
    accepted = (model.decision_function(test.X) >= 0).astype(int)
    about = {"sensitive_features": test.sensitive, "method": study.method, "min_people": study.min_people}
    assert found["asked"] == 70.0
    assert found["p_rule"] == pytest.approx(p_rule(test.y, accepted, notion=notion, **about))
    assert found["status"].startswith("passes" if found["p_rule"] >= 70.0 else "fails")
    assert "rate" in found["headline"]
    assert summary["audit"]["notion"] == notion
    assert summary["test"]["p_rule"] == pytest.approx(found["p_rule"])


@pytest.mark.slow
def test_sure_verdicts_are_seldom_wrong():
    """At a true ratio of just 80%, "passes" and "fails" must each be rare, with several groups, too."""
    rng = np.random.default_rng(0)
    said = []
    groups = np.repeat(["a", "b", "c", "d"], 500)
    for _ in range(150):
        # Against everybody else: (0.4 * 1500) / ... solved so that group a is at exactly 80% of the others' rate.
        decisions = rng.uniform(size=2000) < np.repeat([0.4, 0.5, 0.5, 0.5], 500)
        found = audit(decisions.astype(int), sensitive_features=groups)
        said.append(judge(plain(found.to_dict()), asked=80.0, held_out=True)["status"])
    assert np.mean(np.array(said) == PASSES) <= 0.05
    assert np.mean(np.array(said) == FAILS) <= 0.05


def test_paired_differences_are_mcnemars():
    for first, second, n in ((10, 20, 200), (0, 7, 60), (3, 3, 40), (0, 0, 50)):
        found = paired_difference(first, second, n)
        theirs = mcnemar([[n - first - second, first], [second, 0]], exact=True)
        assert found["p_value"] == pytest.approx(theirs.pvalue)
        assert found["difference"] == (first - second) / n
        assert found["difference_low"] <= found["difference"] <= found["difference_high"]


@pytest.mark.slow
@pytest.mark.parametrize(("p", "q"), [(0.05, 0.05), (0.02, 0.10), (0.2, 0.25), (0.005, 0.01)])
@pytest.mark.parametrize("n", [50, 1000])
def test_paired_differences_are_covered(p, q, n):
    rng = np.random.default_rng(n)
    pairs, times = np.unique(rng.multinomial(n, [p, q, 1 - p - q], size=2000)[:, :2], axis=0, return_counts=True)
    found = [paired_difference(a, b, n) for a, b in pairs.tolist()]
    hits = [f["difference_low"] <= p - q <= f["difference_high"] for f in found]
    assert np.average(hits, weights=times) >= 0.94


def test_evidence_is_that_of_scikit_learn(study, proposed):
    model, summary = proposed
    test = study.test
    scores = model.estimator.decision_function(test.X)
    decided = (scores >= 0).astype(int)
    details = summary["answers"][0]["details"]["test"]
    assert details["auc"] == pytest.approx(roc_auc_score(test.y, scores))
    assert details["ks"] == pytest.approx(ks_2samp(scores[test.y == 1], scores[test.y == 0]).statistic)
    woman = (test.sensitive["sex"] == "woman").to_numpy()
    apart = {}
    for name in ("sex", "origin"):
        for group in test.sensitive[name].unique():
            inside = (test.sensitive[name] == group).to_numpy()
            apart[name, group] = (scores[inside].mean() - scores[~inside].mean()) / scores.std()
    assert abs(details["smd"]) == pytest.approx(max(map(abs, apart.values())))
    rates = {(r["group"], r["measure"]): r["rate"] for r in summary["audit"]["error_rates"]}
    assert rates["woman", "true positive rate"] == pytest.approx(recall_score(test.y[woman], decided[woman]))
    assert rates["woman", "precision"] == pytest.approx(precision_score(test.y[woman], decided[woman]))
    scored = {r["group"]: r["auc"] for r in summary["audit"]["scored"]}
    assert scored["woman"] == pytest.approx(roc_auc_score(test.y[woman], scores[woman]))
    parts = [r for r in summary["proposal"]["calibration"] if r["group"] == "woman"]
    assert sum(r["people"] for r in parts) == woman.sum()
    edges = np.quantile(scores, [0.2, 0.4, 0.6, 0.8])
    lowest = woman & (scores < edges[0])
    assert parts[0]["rate"] == pytest.approx(test.y[lowest].mean())
    probabilities = model.estimator.predict_proba(test.X)[:, 1]
    assert parts[0]["expected"] == pytest.approx(probabilities[lowest].mean())
    everybody = summary["proposal"]["distributions"][0]
    assert everybody["quantiles"] == pytest.approx(np.quantile(scores, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist())


def test_cost_and_changes_are_counted(study, proposed):
    model, summary = proposed
    free = FairLogisticRegression(constraint=None).fit(study.train.X, study.train.y)
    now, before, label = model.estimator.predict(study.test.X), free.predict(study.test.X), study.test.y
    cost = summary["proposal"]["cost"]
    assert cost["difference"] == pytest.approx(np.mean(now == label) - np.mean(before == label))
    rows = {(g["attribute"], g["group"]): g for g in summary["proposal"]["groups"]}
    for (attribute, group), row in rows.items():
        inside = (study.test.sensitive[attribute] == group).to_numpy()
        assert row["gained"] == np.sum((now > before) & inside)
        assert row["lost"] == np.sum((now < before) & inside)
        assert row["label_rate"] == pytest.approx(label[inside].mean())
        assert row["rate_before"] == pytest.approx(before[inside].mean())
    lower = rows["sex", "woman"]["rate"] < rows["sex", "man"]["rate"]
    group = ("sex", "woman") if lower else ("sex", "man")
    assert rows[group]["direction"].startswith("less often than")


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["p-rule=85", "loss=2%", "accuracy=1%", "auc=0.5%", "profit=10%"])
def test_the_best_candidate_is_proposed(study, asked):
    selection = parse_selection(asked, {"tp": 1.0, "fp": -1.0})
    _, summary = propose(study, make_estimator(), selection, n_points=4)
    record = {row["key"]: row for row in summary["candidates"]}
    chosen = record[summary["proposal"]["key"]]
    details = {a["key"]: a["details"] for a in summary["answers"]}
    for curve in summary["curves"]:
        details |= {f"{curve['key']}-{k}": point for k, point in enumerate(curve["points"])}
    free, best = summary["unconstrained"]["train"], details[summary["proposal"]["key"]]["train"]
    useful = [d for d in details.values() if d["train"]["decides_alike"] is None]
    if selection.kind == "p-rule":
        rivals = [d["train"]["accuracy"] for d in useful if d["train"]["p_rule"] >= selection.value]
        assert best["accuracy"] == max(rivals)
        assert best["p_rule"] >= selection.value
    else:
        floor = {"accuracy": "accuracy", "auc": "auc", "profit": "gain"}
        if selection.kind == "loss":
            rivals = [d["train"]["p_rule"] for d in useful if d["loss_increase"] <= selection.value + 1e-9]
        else:
            key = floor[selection.kind]
            least = free[key] * (1 - selection.value)
            rivals = [d["train"]["p_rule"] for d in useful if d["train"][key] >= least - 1e-9]
        assert best["p_rule"] == pytest.approx(max(rivals))
    assert sum(row["chosen"] for row in record.values()) == 1
    assert chosen["why"] == "proposed"
    assert all(row["why"] for row in record.values())
    measured = ("accuracy", "auc", "ks", "loss_increase", "smd")
    assert all(row[key] is not None for row in record.values() for key in measured)


def test_no_marker_beats_the_first_curve_in_training(proposed):
    _, summary = proposed
    curve = [p["train"] for p in summary["curves"][0]["points"]]
    others = [a["details"]["train"] for a in summary["answers"]] + [
        p["train"] for p in summary["curves"][1]["points"]
    ]
    levels = [p["level"] for p in summary["curves"][0]["points"]]
    for level, point in zip(levels, curve, strict=True):
        for other in others:
            if other["p_rule"] is not None and other["p_rule"] >= level:
                assert point["accuracy"] >= other["accuracy"] - 1e-12
    # Nor does a mark in the chart lie above the line between two points.
    assert summary["curve_leads"]
    drawn = sorted((p["p_rule"], p["accuracy"]) for p in curve)
    for answer in (a["details"]["train"] for a in summary["answers"]):
        if answer["decides_alike"] is None and drawn[0][0] <= answer["p_rule"] <= drawn[-1][0]:
            assert answer["accuracy"] <= np.interp(answer["p_rule"], *zip(*drawn, strict=True)) + 1e-9


@pytest.mark.parametrize("measure", ["accuracy", "auc", "profit"])
def test_performance_bounds(study, measure):
    X, y, z = study.train.X, study.train.y, study.train.sensitive
    gains = {"tp": 2.0, "fp": -1.0, "tn": 0.5} if measure == "profit" else None
    label = y == 1

    def value(clf):
        scores = clf.decision_function(X)
        if measure == "auc":
            return roc_auc_score(y, scores)
        right = scores >= 0
        if measure == "accuracy":
            return np.mean(right == label)
        return np.mean(2.0 * (right & label) - (right & ~label) + 0.5 * (~right & ~label))

    free = FairLogisticRegression(constraint=None).fit(X, y)
    factors = []
    for gamma in (0.0, 0.01, 0.03, 1.0):
        clf = FairLogisticRegression(constraint=PerformanceBound(gamma, measure, gains=gains))
        clf.fit(X, y, sensitive_features=z)
        assert value(clf) >= (1 - gamma) * value(free) - 1e-9
        assert clf.performance_ == pytest.approx(value(clf))
        assert clf.unconstrained_performance_ == pytest.approx(value(free))
        covariance = np.abs(clf.covariance_ / clf.unconstrained_covariance_)
        assert covariance.max() <= clf.factor_ + 1e-6
        factors.append(clf.factor_)
    assert factors == sorted(factors, reverse=True)
    assert factors[-1] == 0.0


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((-0.1,), {}, "gamma must be zero or positive"),
        ((0.1, "recall"), {}, "measure must be"),
        ((0.1, "profit"), {}, "gains say what decisions are worth"),
        ((0.1,), {"gains": {"tp": 1}}, "gains say what decisions are worth"),
        ((0.1, "profit"), {"gains": {"hit": 1}}, "gains must be a mapping"),
        ((0.1, "profit"), {"gains": {"tp": np.nan}}, "must be a finite number"),
    ],
)
def test_performance_bounds_say_what_is_wrong(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        PerformanceBound(*arguments, **options)


def test_selections_and_gains_as_text():
    assert parse_selection("p-rule=85") == Selection("p-rule", 85.0)
    assert parse_selection("auc=0.5%") == Selection("auc", 0.005)
    assert parse_gains("tp=1, fp=-5") == {"tp": 1.0, "fp": -5.0}
    for text, words in (
        ("p-rule=0.8", "did you mean 80"),
        ("best", "There is no selection"),
        ("loss=x", "not a number"),
        ("profit=1%", "needs the worth of decisions"),
        ("accuracy=-1", "takes a share from 0 on"),
    ):
        with pytest.raises(DataError, match=words):
            parse_selection(text)
    for text in ("tp", "hit=3", "tp=inf"):
        with pytest.raises(DataError, match="not understood"):
            parse_gains(text)


def test_the_record_shows_changes(proposed):
    summary = json.loads(json.dumps(proposed[1]))
    add_record(summary, title="Small loans", author="A. Author", made="2026-01-31", command="fairmargin frontier")
    assert is_intact(summary)
    assert is_intact(json.loads(json.dumps(summary)))
    assert not is_intact({**summary, "title": "Large loans"})
    signed = json.loads(json.dumps(proposed[1]))
    add_record(signed, key=b"0123456789abcdef")
    assert is_intact(signed, b"0123456789abcdef")
    assert not is_intact(signed)
    assert not is_intact(signed, b"another key here")
    for text in (to_html(summary), to_markdown(summary)):
        assert summary["record"]["digest"] in text
        assert all(word in text for word in ("Small loans", "A. Author", "2026-01-31"))


def test_a_refitted_model_has_seen_everybody(study, proposed):
    model, _ = proposed
    everybody = prepare(table_of_frame(make_credit_demo(1500), "demo"), test_share=0.0, **QUESTION)
    again = refit(model, everybody)
    expected = FairLogisticRegression(constraint=model.estimator.constraint)
    expected.fit(everybody.train.X, everybody.train.y, sensitive_features=everybody.train.sensitive)
    np.testing.assert_allclose(again.estimator.coef_, expected.coef_)
    assert "Trained again on all 1,500 people" in again.facts["notes"][-1]
    with pytest.raises(DataError, match="test_share=0"):
        refit(model, study)


def test_a_point_is_selected_saved_and_used(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_credit_demo(700).to_csv("people.csv", index=False)
    Path("names.json").write_text('{"sex": {"woman": "women", "man": "men"}}')
    Path("key").write_text("a key of at least 16 bytes")
    ask = ["people.csv", "-t", "repaid", "-p", "yes", "-s", "sex", "-x", "origin", "--value-names", "names.json"]
    head = ["--title", "Loans", "--purpose", "Small loans", "--author", "A. Author", "--date", "2026-01-31"]
    outputs = ["-o", "r.html", "-o", "m.json", "--json", "r.json", "--sign-with", "key", "--points", "4"]
    assert run(["frontier", *ask, *head, "--select", "p-rule=85", *outputs]) == 0
    out = capsys.readouterr().out
    assert out.endswith("report: r.html\nmodel: m.json\n")
    summary = json.loads(Path("r.json").read_text())
    record = summary["record"]
    assert record["model_sha256"] == hashlib.sha256(Path("m.json").read_bytes()).hexdigest()
    assert record["data_sha256"] == hashlib.sha256(Path("people.csv").read_bytes()).hexdigest()
    assert record["command"].startswith("fairmargin frontier people.csv -t repaid")
    assert is_intact(summary, b"a key of at least 16 bytes")
    page = Path("r.html").read_text()
    assert all(word in page for word in ("Loans", "Small loans", "A. Author", "2026-01-31", "women"))
    model = io.load("m.json")
    decided = model.scores(pd.read_csv("people.csv")) >= 0
    assert model.estimator.constraint.p >= 80
    assert model.facts["test"]["p_rule"] == summary["proposal"]["verdict"]["p_rule"]
    assert 0 < decided.mean() < 1
    assert run(["frontier", *ask, "--select", "p-rule=85", "-o", "m2.json", "--refit", "--points", "4", "-q"]) == 0
    assert "Trained again" in io.load("m2.json").facts["notes"][-1]
    assert Path("fairmargin-report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "m.json"], "Say which model to write"),
        (["-o", "a.html", "-o", "b.html"], "one report and one model"),
        (["--refit"], "--refit is for a model that is written"),
        (["--select", "p-rule=0.8"], "option --select"),
        (["--select", "profit=1%"], "Try --gains"),
        (["--value-names", "none.json"], "option --value-names"),
        (["--sign-with", "none"], "option --sign-with"),
    ],
)
def test_mistakes_in_one_line(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_credit_demo(120).to_csv("people.csv", index=False)
    assert run(["frontier", "people.csv", "-t", "repaid", "-p", "yes", "-s", "sex", "--points", "2", *arguments]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1]", "must be an object of objects"),
        ("{", "is no JSON file"),
        ('{"age": {"1": "a"}}', "is no sensitive column"),
        ('{"sex": {"cat": "a"}}', "has no group 'cat' to name; there are 'man', 'woman'"),
    ],
)
def test_wrong_names_of_values(content, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_credit_demo(120).to_csv("people.csv", index=False)
    Path("names.json").write_text(content)
    assert run(["audit", "people.csv", "-t", "repaid", "-p", "yes", "-s", "sex", "--value-names", "names.json"]) == 2
    assert words in capsys.readouterr().err


def test_training_writes_the_same_page(tmp_path, monkeypatch, study):
    monkeypatch.chdir(tmp_path)
    make_credit_demo(500).to_csv("people.csv", index=False)
    ask = ["-t", "repaid", "-p", "yes", "-s", "sex", "--constraint", "accuracy=1%", "--html", "t.html", "-q"]
    assert run(["train", "people.csv", *ask]) == 0
    page = Path("t.html").read_text()
    assert "Does this model pass?" in page
    assert "accuracy=1%" in page
    _, summary = train(study, make_estimator(constraint=parse_constraint("p-rule=90")))
    assert summary["proposal"]["verdict"]["asked"] == 90.0
    for line in summary["proposal"]["lines"]:
        assert line["answer"].split(".")[0] in to_html(summary).replace("&#39;", "'")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.CovarianceWarning")
def test_a_pipeline_is_proposed_saved_and_trained_again(study, tmp_path):
    """The same search behind a scaler: what is saved decides as what was proposed, also after training on all."""
    pipe = make_pipeline(MinMaxScaler(), FairLogisticRegression())
    model, summary = propose(study, pipe, n_points=3)
    assert isinstance(model.estimator, Pipeline)
    accepted = (model.scores(study.test.frame) >= 0).astype(int)
    rule = p_rule(study.test.y, accepted, sensitive_features=study.test.sensitive, min_people=study.min_people)
    assert summary["proposal"]["verdict"]["p_rule"] == pytest.approx(rule)
    assert summary["settings"]["estimator"] == "MinMaxScaler() > FairLogisticRegression"
    io.save(model, tmp_path / "m.json")
    again = io.load(tmp_path / "m.json")
    np.testing.assert_array_equal(again.scores(study.test.frame), model.scores(study.test.frame))
    everybody = prepare(table_of_frame(make_credit_demo(1500), "demo"), **QUESTION, test_share=0.0)
    whole = refit(model, everybody)
    assert whole.estimator[0].n_samples_seen_ == everybody.people
    assert "<html" in to_html(summary)
    _, trained = train(
        study, clone(pipe).set_params(fairlogisticregression__constraint=parse_constraint("p-rule=80"))
    )
    assert trained["proposal"]["verdict"]["asked"] == 80.0


def test_the_model_without_a_limit_is_proposed_where_it_is_as_good():
    """A search gains a little accuracy on the people trained on, by chance; that is no reason to change decisions."""

    def row(accuracy, rule, factor=None, level=None):
        train = {"accuracy": accuracy, "p_rule": rule, "people": 400, "decides_alike": None}
        return {"train": train, "factor": factor, "level": level, "loss_increase": 0.0}

    free, near, far = row(0.70, 85.0, 1.0), row(0.72, 90.0, None, 90.0), row(0.73, 85.0, None, 85.0)
    selection = Selection("p-rule", 80.0)  # one standard error is 2.2 points
    assert selection.choose([near, free], free, 400) == 1
    assert "without a limit" in selection.describe(free)
    assert "less than a standard error" in selection.why_not(near, free, free)
    assert selection.choose([near, far, free], free, 400) == 1
    assert selection.choose([near, free], free, 40_000) == 0  # a sample in the report does not count
    assert selection.choose([near, row(0.70, 75.0, 1.0)], free, 400) == 0  # it breaks the rule
    assert Selection("accuracy", 0.1).choose([near, free], free, 400) == 0  # where the fairest is asked for
    fairer = row(0.70, 97.0, None, 97.0)
    assert selection.why_not(fairer, free, free) == "no more accurate than the model without a limit"
    assert "without a limit" not in selection.describe(row(0.70, 60.0, 1.0))  # where no candidate keeps the rule
    assert "true positive rate" in Selection("p-rule", 80.0, notion="true_positive_rate").describe(free)
    assert selection.describe(near) == selection.words
