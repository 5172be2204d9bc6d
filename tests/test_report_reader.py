"""What a reader of a report stumbles over: small groups, odd numbers, intervals, rounding, references, terms."""

import re

import numpy as np
import pytest

from fairmargin.audit import audit
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.report import audit_summary, to_html
from fairmargin.report.plain import plain
from fairmargin.report.verdict import FAILS_MAYBE, judge
from fairmargin.tables import prepare, table_of_frame
from fairmargin.tables.encoding import TableEncoder
from fairmargin.tables.jobs import propose, train
from fairmargin.tables.specifications import make_estimator, parse_constraint

QUESTION = {"target": "repaid", "positive": "yes", "sensitive": ["sex", "origin"]}


def decided(rates, people, **options):
    """Return the audit of groups with these rates."""
    decisions = np.concatenate([np.arange(n) < round(rate * n) for rate, n in zip(rates, people, strict=True)])
    groups = np.repeat([f"g{k}" for k in range(len(rates))], people)
    return audit(decisions.astype(int), sensitive_features={"group": groups}, **options)


def test_groups_that_are_not_judged_are_named_beside_the_verdict():
    found = decided((0.5, 0.5, 0.1), (200, 200, 28))
    said = "Not judged, too few people: group = g2 (28)."
    assert judge(plain(found.to_dict()), asked=80.0, held_out=None)["not_judged"] == said
    fingerprint = {"source": "x", "rows": 1, "columns": 1, "sha256": ""}
    page = to_html(audit_summary(found, title="t", what="w", fingerprint=fingerprint, settings={}))
    box = page[page.index('class="verdict') : page.index('<dl class="asked">')]
    assert said in box


def test_an_interval_that_leaves_open_whether_a_rule_is_broken_reaches_it():
    found = plain(decided((0.50, 0.37, 0.50, 0.49, 0.51), (400, 400, 400, 400, 400)).to_dict())
    verdict = judge(found, asked=86.0, held_out=True)
    assert verdict["status"] == FAILS_MAYBE
    low, high = map(float, re.search(r"comparisons at once it is ([\d.]+)–([\d.]+)%", verdict["sure"]).groups())
    assert low <= 86.0 <= high
    assert verdict["high"] < 86.0  # the interval of one group alone would say otherwise


def test_nobody_changes_places_where_rates_are_equal():
    everybody = decided((1.0, 1.0, 0.9), (50, 60, 50))
    first, second, third = everybody.groups
    assert first.ratio_one_more is second.ratio_one_more is None  # nobody is left who could be accepted
    assert third.ratio_one_more > third.ratio
    equal = decided((0.5, 0.5), (50, 60))
    assert [g.ratio_flipped for g in equal.groups] == [None, None]
    assert not any(g.flip_matters or g.flip_reverses for g in equal.groups)


@pytest.mark.parametrize("reference", ["g0", "g1"])
def test_of_two_groups_neither_may_be_far_below_the_other(reference):
    found = decided((0.3, 0.6), (200, 200), reference={"group": reference})
    assert found.lowest.rule == pytest.approx(50.0)
    verdict = judge(plain(found.to_dict()), asked=80.0, held_out=True)
    assert (verdict["status"], verdict["p_rule"]) == ("fails", pytest.approx(50.0))


def test_columns_that_may_be_codes_are_one_warning():
    rng = np.random.default_rng(0)
    frame = make_credit_demo(60)[["income"]].assign(**{f"c{k}": rng.integers(0, 3 + k, 60) for k in range(4)})
    (said,) = TableEncoder.fit(frame).suspects
    assert said.startswith("4 columns have few different whole numbers")
    assert "'c0' (3), 'c1' (4), 'c2' (5), 'c3' (6)" in said


@pytest.mark.slow
def test_a_report_compares_with_the_same_group_throughout_and_explains_its_terms():
    study = prepare(table_of_frame(make_credit_demo(900), "demo"), **QUESTION)
    _, summary = propose(study, make_estimator("logistic"), n_points=3)
    tables = [summary["audit"], summary["proposal"]["unconstrained_audit"], summary["labels_audit"]]
    assert len({tuple(a["reference"] for a in table["attributes"]) for table in tables}) == 1
    page = to_html(summary)
    linked, explained = (set(re.findall(pattern, page)) for pattern in ('href="#(term-[^"]+)"', 'id="(term-[^"]+)"'))
    assert linked
    assert linked <= explained
    cost = next(line["answer"] for line in summary["proposal"]["lines"] if line["question"].startswith("What does"))
    now, before, points = re.search(r"is ([\d.]+)% instead of ([\d.]+)% .*?: ([+-][\d.]+) points", cost).groups()
    assert float(points) == pytest.approx(float(now) - float(before), abs=1e-9)


def test_terms_of_a_page_without_a_search_are_explained():
    study = prepare(table_of_frame(make_credit_demo(500), "demo"), **QUESTION)
    _, summary = train(study, make_estimator("logistic", parse_constraint("covariance=0")))
    for page in (to_html(summary),):
        linked, explained = (
            set(re.findall(pattern, page)) for pattern in ('href="#(term-[^"]+)"', 'id="(term-[^"]+)"')
        )
        assert linked <= explained
