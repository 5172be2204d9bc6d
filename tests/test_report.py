"""The report: one plain dict in every form; names from the data are text and nothing else."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from fairmargin import FairLogisticRegression, FairnessFrontier, p_rule
from fairmargin.audit import audit
from fairmargin.formatting import clean
from fairmargin.rate_statistics import ratio_interval
from fairmargin.report import audit_summary, frontier_summary, to_html, to_json, to_markdown
from fairmargin.report.candidates import Candidate, Selection
from fairmargin.report.evaluation import evaluate
from fairmargin.report.proof import OPTIMAL, SEARCHED, UNPROVED, describe_proof
from fairmargin.report.terminal import show
from fairmargin.report.verdict import FAILS_MAYBE, NO_VERDICT, PASSES_MAYBE
from fairmargin.tables import prepare, table_of_frame
from fairmargin.tables.jobs import trace, train
from fairmargin.tables.specifications import make_estimator, parse_constraint

HOSTILE = {
    "script": "<script>document.title='executed'</script>",
    "image": '"><img src=x onerror="document.title=\'executed\'">',
    "quotes": 'it\'s "quoted" \\ `back` {{ 7*7 }} {% raw %}',
    "emoji": "👩🏽‍🔬 né ☃",
    "lines": "first\nsecond\r\nthird\u2028fourth",
    "long": "x" * 300,
    "rtl": "\u202eמין العربية",
    "end": "</script><script>document.title='executed'</script><!--",
}


def hostile_frame(n=400, seed=0):
    """People whose columns and values are called everything that could go wrong."""
    rng = np.random.default_rng(seed)
    sex = rng.choice([HOSTILE["script"], HOSTILE["rtl"]], n)
    group = rng.choice([HOSTILE["quotes"], HOSTILE["emoji"], HOSTILE["long"]], n, p=[0.5, 0.3, 0.2])
    score = rng.normal(size=n) + 0.7 * (sex == HOSTILE["rtl"])
    return pd.DataFrame(
        {
            HOSTILE["image"]: score + rng.normal(0, 0.5, n),
            HOSTILE["lines"]: rng.choice([HOSTILE["end"], HOSTILE["image"], "plain"], n),
            HOSTILE["long"]: rng.normal(size=n),
            HOSTILE["end"]: sex,
            HOSTILE["emoji"]: group,
            HOSTILE["quotes"]: np.where(score + rng.normal(0, 1, n) > 0, HOSTILE["script"], HOSTILE["end"]),
        }
    )


def hostile_summary(n_points=5):
    study = prepare(
        table_of_frame(hostile_frame(), HOSTILE["script"]),
        target=HOSTILE["quotes"],
        positive=HOSTILE["script"],
        sensitive=[HOSTILE["end"], HOSTILE["emoji"]],
    )
    return trace(study, make_estimator(), n_points=n_points)


@pytest.fixture(scope="module")
def study():
    from fairmargin.datasets.demo import make_credit_demo

    table = table_of_frame(make_credit_demo(1500), "demo")
    return prepare(table, target="repaid", positive="yes", sensitive=["sex", "origin"])


@pytest.fixture(scope="module")
def summary(study):
    return trace(study, make_estimator(), n_points=6)


@pytest.fixture(scope="module")
def page(summary):
    return to_html(summary)


class Page(HTMLParser):
    """Tags with their attributes, and the visible text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.words, self.scripts, self._inside = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._inside = tag
        if tag == "script":
            self.scripts.append([dict(attributes), ""])

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1][1] += data
        else:
            self.words.append(data)


def test_json_is_the_same_dict(summary):
    again = json.loads(to_json(summary))
    assert again == summary
    assert json.dumps(summary, allow_nan=False)


def test_points_are_what_the_classifiers_do(study, summary):
    free = FairLogisticRegression(constraint=None)
    free.fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive)
    decided = free.predict(study.test.X)
    curves = {curve["key"]: curve["points"] for curve in summary["curves"]}
    first = curves["covariance"][0]
    assert first["test"]["accuracy"] == pytest.approx(np.mean(decided == study.test.y))
    expected = p_rule(None, decided, sensitive_features=study.test.sensitive, pos_label=1)
    assert first["test"]["p_rule"] == pytest.approx(expected)
    assert (first["gained"], first["lost"]) == (0, 0)
    strict = FairLogisticRegression().fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive)
    after = strict.predict(study.test.X)
    last = curves["covariance"][-1]
    assert (last["gained"], last["lost"]) == (int(np.sum(after > decided)), int(np.sum(after < decided)))
    for row in last["test"]["groups"]:
        inside = (study.test.sensitive[row["attribute"]] == row["group"]).to_numpy()
        assert row["people"] == inside.sum()
        assert row["rate"] == pytest.approx(after[inside].mean())
        assert row["gained"] == np.sum((after > decided) & inside)
        assert row["lost"] == np.sum((after < decided) & inside)
    changes = np.abs(strict.coef_ - free.coef_).ravel()
    assert last["coefficients"][0]["feature"] == study.encoder.feature_names[int(changes.argmax())]
    assert abs(last["coefficients"][0]["change"]) == pytest.approx(changes.max(), rel=1e-4)
    assert last["loss_increase"] == pytest.approx(
        strict.certificate_.objective / free.certificate_.objective - 1, rel=1e-6
    )


def test_intervals_are_statsmodels(study):
    scores = np.random.default_rng(0).normal(size=len(study.test))
    result = evaluate(scores >= 0, study.test)
    accepted, right = scores >= 0, int(np.sum((scores >= 0) == (study.test.y == 1)))
    low, high = proportion_confint(right, len(scores), method="wilson")
    assert (result["accuracy_low"], result["accuracy_high"]) == pytest.approx((low, high))
    woman = (study.test.sensitive["sex"] == "woman").to_numpy()
    k = [int(np.sum(accepted & woman)), int(np.sum(accepted & ~woman))]
    n = [int(woman.sum()), int((~woman).sum())]
    a, b = (0, 1) if k[0] / n[0] <= k[1] / n[1] else (1, 0)
    low, high = ratio_interval(k[a], n[a], k[b], n[b])
    row = result["attributes"][0]
    assert (row["low"], row["high"]) == pytest.approx((100 * low, min(100.0, 100 * high)))
    assert row["group"] == ("woman" if a == 0 else "man")


def test_answers_do_what_they_say(study, summary):
    rule, loss, nobody = summary["answers"]
    assert [a["key"] for a in summary["answers"]] == ["proposed", "loss2", "nobody"]
    assert rule["details"]["train"]["p_rule"] >= 80.0 - 1e-9
    assert rule["details"]["proof"]["verdict"] == SEARCHED
    assert loss["details"]["loss_increase"] <= 0.02 + 1e-6
    assert nobody["details"]["loss_increase"] > 0


def test_the_page_is_one_file_that_fetches_nothing(page):
    parsed = Page(page)
    for tag, attributes in parsed.tags:
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, value)
    assert "@import" not in page.split("<script", 1)[0]
    assert "url(" not in page.split("<script", 1)[0]


def test_only_known_scripts_may_run(page):
    parsed = Page(page)
    policy = next(a["content"] for t, a in parsed.tags if t == "meta" and a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    bodies = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(b.encode()).digest()).decode() for b in bodies]
    assert len(hashes) == 2
    assert all(f"'sha256-{h}'" in policy for h in hashes)


def test_accessible_by_structure(page):
    parsed = Page(page)
    tags = [t for t, _ in parsed.tags]
    assert tags.count("h1") == 1
    assert {"main", "header", "fieldset", "noscript"} <= set(tags)
    assert dict(parsed.tags)["html"]["lang"] == "en"
    labelled = {a["for"] for t, a in parsed.tags if t == "label"}
    assert labelled == {a["id"] for t, a in parsed.tags if t in ("input", "select")}
    assert all("scope" in a for t, a in parsed.tags if t == "th")
    assert any(a.get("aria-live") == "polite" for _, a in parsed.tags)


def test_hostile_names_are_text(tmp_path):
    summary = hostile_summary()
    page = to_html(summary)
    parsed = Page(page)
    words = "".join(parsed.words)
    for name in ("script", "image", "quotes", "emoji", "long", "rtl", "end"):
        assert HOSTILE[name] in words, name
    assert not [t for t, _ in parsed.tags if t == "img"]
    assert [a.get("type") for a, _ in parsed.scripts] == ["application/json", None, None]
    groups = json.loads(parsed.scripts[0][1])["unconstrained"]["test"]["groups"]
    assert HOSTILE["script"] in {g["group"] for g in groups}
    for forms in (to_markdown(summary), to_html(audit_summary_of(hostile_frame()))):
        assert "<script>document" not in forms
        assert "<img" not in forms


def audit_summary_of(frame):
    groups = frame[[HOSTILE["end"], HOSTILE["emoji"]]]
    result = audit(
        frame[HOSTILE["quotes"]], pos_label=HOSTILE["script"], sensitive_features=groups, intersections=True
    )
    fingerprint = table_of_frame(frame, HOSTILE["script"]).fingerprint
    return audit_summary(
        result, title=HOSTILE["script"], what=HOSTILE["rtl"], fingerprint=fingerprint, settings=HOSTILE
    )


def test_markdown_tables_keep_their_columns():
    text = to_markdown(hostile_summary())
    tables = re.findall(r"(?:^\|.*\|$\n)+", text, flags=re.MULTILINE)
    assert tables
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1


def test_very_many_categories_are_grouped_with_the_count():
    rng = np.random.default_rng(0)
    n = 1200
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "town": [f"town {k % 700}" for k in range(n)],
            "colour": rng.choice(["red", "blue"], n),
            "country": np.where(
                rng.uniform(size=n) < 0.7, rng.choice(["A", "B"], n), [f"C{k % 90}" for k in range(n)]
            ),
            "y": rng.integers(0, 2, n),
        }
    )
    study = prepare(table_of_frame(frame, "many"), target="y", sensitive=["country"])
    assert any("'town'" in note and "none of them frequent" in note for note in study.notes)
    assert any("'country' has 92 groups; the 81 smallest were put together" in note for note in study.notes)
    groups = study.train.sensitive["country"]
    assert groups.nunique() == 12
    assert "other (81 groups)" in set(groups)
    page = to_html(trace(study, make_estimator(), n_points=3))
    assert "other (81 groups)" in page


def test_training_summary_in_every_form(study):
    model, summary = train(study, make_estimator("logistic", parse_constraint("p-rule=80")))
    assert summary["train"]["p_rule"] >= 80.0 - 1e-9
    assert "Certificate" in to_markdown(summary)
    assert model.facts["settings"]["seed"] == 0
    page = to_html(summary)
    assert summary["proposal"]["verdict"]["headline"] in page
    assert "<script" not in page


def test_a_rule_has_one_answer_and_its_price_is_said_right(study, summary):
    _, trained = train(study, make_estimator("logistic", parse_constraint("p-rule=80")))
    rule, proof = summary["answers"][0]["details"], trained["certificate"]
    found = next(row for row in summary["candidates"] if row["key"] == "p80")
    assert found["train_accuracy"] == trained["train"]["accuracy"]
    assert rule["train"]["accuracy"] >= found["train_accuracy"]  # the frontier's own may be better, never worse
    assert rule["path_certificate"]["gap"] <= 1e-9  # of the problem solved, not the price of the rule
    assert f"at most {proof['objective'] / proof['dual_bound'] - 1:.1%} above" in trained["proof"]["text"]


@pytest.mark.parametrize("estimator", ["logistic", "linear-svm", "squared-hinge"])
@pytest.mark.filterwarnings("ignore::fairmargin.exceptions.CovarianceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the objective is right all the same
def test_the_loss_increase_is_that_of_the_training_objective(study, estimator):
    losses = {
        "logistic": lambda m: np.logaddexp(0.0, -m),
        "linear-svm": lambda m: np.maximum(0.0, 1.0 - m),
        "squared-hinge": lambda m: np.maximum(0.0, 1.0 - m) ** 2,
    }

    def objective(constraint):
        clf = make_estimator(estimator, parse_constraint(constraint), C=0.3)
        clf.fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive)
        margins = np.where(study.train.y == 1, 1.0, -1.0) * clf.decision_function(study.train.X)
        return 0.3 * losses[estimator](margins).sum() + 0.5 * np.sum(clf.coef_**2)

    summary = trace(study, make_estimator(estimator, C=0.3), n_points=2)
    free = objective("none")
    increase = {row["key"]: row["loss_increase"] for row in summary["candidates"]}
    asked = {"p80": "p-rule=80", "loss2": "loss=0.02", "nobody": "nobody-loses=2", "covariance-1": "covariance=0"}
    for key, constraint in asked.items():
        assert increase[key] == pytest.approx(objective(constraint) / free - 1, abs=1e-7)
    assert "relative_loss" not in to_json(summary)  # which is something else: a share, from 0 to 1 along a frontier


def test_points_show_what_the_frontier_measured(study):
    train, test = study.train, study.test
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=3)
    frontier.fit(train.X, train.y, sensitive_features=train.sensitive, eval_set=(test.X, test.y, test.sensitive))
    options = {"selection": Selection(), "title": "t", "settings": {}}
    for name in ("train", "test"):
        for key in ("accuracy", "p_rule", "cv_score"):
            frontier.table_.loc[1, f"{name}_{key}"] = 0.125
    frontier.table_.loc[2, "test_p_rule"] = np.nan
    points = [
        Candidate(f"covariance-{k}", "covariance", "point", clf, "", {}, row)
        for k, (clf, (_, row)) in enumerate(zip(frontier.estimators_, frontier.table_.iterrows(), strict=True))
    ]
    shown = frontier_summary(study, points, frontier.unconstrained_, **options)["curves"][1]["points"]
    for part in ("train", "test"):
        assert [shown[1][part][key] for key in ("accuracy", "p_rule", "cv_score")] == [0.125] * 3
    assert shown[2]["test"]["p_rule"] is None
    assert shown[2]["test"]["worst"] is None
    table = frontier.table_
    assert shown[0]["test"]["accuracy"] == table["test_accuracy"][0]
    assert shown[0]["test"]["p_rule"] == table["test_p_rule"][0]
    # What the report adds agrees with what the frontier measured.
    assert min(a["p_rule"] for a in shown[0]["test"]["attributes"]) == pytest.approx(table["test_p_rule"][0])
    assert max(a["cv_score"] for a in shown[0]["test"]["attributes"]) == pytest.approx(table["test_cv_score"][0])
    for row in shown[0]["test"]["groups"]:
        assert row["rate"] == pytest.approx(table[f"test_rate[{row['attribute']}={row['group']}]"][0])


@pytest.mark.parametrize(
    ("constraint", "verdict"),
    [("p-rule=80", SEARCHED), ("covariance=0", OPTIMAL), ("loss=0.02", OPTIMAL), ("none", OPTIMAL)],
)
def test_every_form_says_the_same_of_the_proof(study, constraint, verdict, capsys):
    _, summary = train(study, make_estimator("logistic", parse_constraint(constraint)))
    assert summary["proof"]["verdict"] == verdict
    show(summary)
    printed = " ".join(capsys.readouterr().out.split())
    for text in (printed, to_markdown(summary)):
        assert summary["proof"]["text"] in text
        assert ("Proved optimal" in text) == (verdict == OPTIMAL)


def test_every_form_of_a_frontier_says_the_same_of_the_proofs(summary, page, capsys):
    exact = next(curve["points"] for curve in summary["curves"] if curve["key"] == "covariance")
    verdicts = [p["proof"]["verdict"] for p in [*exact, *(a["details"] for a in summary["answers"])]]
    assert verdicts == [*[OPTIMAL] * 6, SEARCHED, OPTIMAL, OPTIMAL]
    show(summary, verbose=True)
    for text in (capsys.readouterr().out, to_markdown(summary), page):
        (row,) = (line for line in text.splitlines() if re.match(ROW_OF_THE_RULE, line))
        assert "searched" in row
        assert "optimal" not in row
    script = Page(page).scripts[-1][1]
    assert "point.proof.text" in script
    assert "proven" not in script.lower()


# The row of the model proposed in a table: on the terminal, in Markdown, in HTML.
ROW_OF_THE_RULE = r"(\| | )?★ 80.0%-rule\s.*%|<tr data-point=.rule-\d+. class=.chosen."


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({}, OPTIMAL, "lower by more than 1.0e-10 of it; the limits are met exactly."),
        ({"violation": 1e-12}, OPTIMAL, "the limits are met within 1.0e-12."),
        ({"status": "inaccurate", "gap": 0.01}, UNPROVED, "status “inaccurate”, a relative gap of 1.0e-02"),
        ({"status": "iteration limit", "gap": np.inf}, UNPROVED, "a relative gap of inf"),
    ],
)
def test_what_a_certificate_proves(changes, verdict, words):
    certificate = SimpleNamespace(
        **{"objective": 2.0, "dual_bound": 1.6, "gap": 1e-10, "violation": 0.0, "status": "solved"} | changes
    )
    proof = describe_proof(SimpleNamespace(certificate_=certificate))
    assert proof["verdict"] == verdict
    assert proof["label"].startswith(verdict)
    assert words in proof["text"]
    searched = describe_proof(SimpleNamespace(certificate_=certificate, path_certificate_=certificate))
    assert searched["verdict"] == SEARCHED
    assert "at most 25.0% above" in searched["text"]
    assert ("solved to a relative gap" in searched["text"]) == (certificate.status == "solved")
    kernel = describe_proof(SimpleNamespace(certificate_=certificate, refined_=False))
    assert ("on the kernel's approximation" in kernel["text"]) == (verdict == OPTIMAL)


def test_nobody_held_out():
    from fairmargin.datasets.demo import make_credit_demo

    table = table_of_frame(make_credit_demo(400), "demo")
    everybody = prepare(table, target="repaid", positive="yes", sensitive=["sex"], test_share=0)
    summary = trace(everybody, make_estimator(), n_points=3)
    assert not summary["held_out"]
    assert summary["unconstrained"]["test"]["people"] == 400
    assert summary["proposal"]["verdict"]["status"] in (PASSES_MAYBE, FAILS_MAYBE)  # never sure of people trained on
    assert "nobody was held out" in to_html(summary)


def test_nobody_accepted_is_said():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.normal(size=600), "g": ["a", "b"] * 300, "y": (rng.uniform(size=600) < 0.05).astype(int)}
    )
    summary = trace(prepare(table_of_frame(frame, "rare"), target="y", sensitive=["g"]), make_estimator(), n_points=3)
    assert summary["unconstrained"]["test"]["p_rule"] is None
    assert summary["proposal"]["verdict"]["status"] == NO_VERDICT
    assert any("nobody gets the positive decision" in note for note in summary["warnings"])
    assert "NaN" not in to_json(summary)
    assert "not defined (0/0)" in to_html(summary)


def test_clean_text_stays_on_one_line():
    assert clean("a\x1b[2Jb\nc\u2028d\u202ee👩🏽‍🔬") == "a\ufffd[2Jb c d\ufffde👩🏽‍🔬"
