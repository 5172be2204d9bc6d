"""What notebooks show of audits, frontiers and fitted estimators: small tables as HTML, every name escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from fairmargin.formatting import NONE, interval, percent, points, probability, ratio_beside, signed_percent

__all__ = ["audit_html", "classifier_html", "frontier_html"]

_MOST = 25  # rows of a table in a notebook
_USUAL = 80.0  # the four-fifths rule: what rounds to it but is not shows further digits


def audit_html(found: Any) -> str:
    """Return the groups of an audit as HTML."""
    lowest = found.lowest
    head = f"Audit of {found.people:,} people, {found.positives:,} positive decisions."
    if lowest is not None:
        rule = ratio_beside(lowest.rule, found.threshold)
        head += f" Lowest ratio: {lowest.attribute} = {lowest.group}, {rule}; {lowest.finding}."
    rows = [
        (
            f"{g.attribute} = {g.group}",
            f"{g.people:,}",
            percent(g.rate),
            ratio_beside(g.ratio, found.threshold),
            interval(g.ratio_low, g.ratio_high, beside=(found.threshold,)),
            points(g.difference),
            probability(g.p_adjusted),
            g.finding,
        )
        for g in found.groups
    ]
    columns = ("group", "people", "rate", "ratio", "95% interval", "difference", "p (adj.)", "finding")
    return _table(head, columns, rows)


def frontier_html(frontier: Any) -> str:
    """Return the points of a fitted frontier as HTML."""
    table = frontier.table_
    place = "level" if "level" in table else "factor"
    names = [c.removesuffix("_accuracy") for c in map(str, table) if c.endswith("_accuracy")]
    columns = [place, "loss", *(f"{name}: {what}" for name in names for what in ("accuracy", "p%-rule"))]
    rows = []
    for _, row in table.iterrows():
        where = f"{row[place]:.1f}%" if place == "level" else f"{row[place]:.2f}"
        cells = [where, signed_percent(row["loss_increase"])]
        for name in names:
            cells += [percent(row[f"{name}_accuracy"]), _percentage(row.get(f"{name}_p_rule"))]
        rows.append(cells)
    what = (
        "the most accurate classifier found at each level" if place == "level" else "least loss for each covariance"
    )
    return _table(f"Frontier of {len(table)} points: {what}.", columns, rows)


def classifier_html(classifier: Any) -> str:
    """Return certificate, covariances and rates of a fitted classifier as HTML."""
    from fairmargin.report.proof import describe_proof

    said = [describe_proof(classifier)["text"]]
    if hasattr(classifier, "p_rule_"):
        said.append(f"p%-rule on the people trained on: {_percentage(classifier.p_rule_)}.")
    said += [getattr(classifier, name).statement for name in ("guarantee_", "necessity_") if _has(classifier, name)]
    if getattr(classifier, "covariance_", None) is None:
        return _table(" ".join(said), (), ())
    before = classifier.unconstrained_covariance_
    rows = []
    for key, value in classifier.covariance_.items():
        was = NONE if before is None else f"{before[key]:.4g}"
        rows.append((" = ".join(map(str, key)), was, f"{value:.4g}", f"{abs(classifier.multipliers_[key]):.4g}"))
    tables = _table(" ".join(said), ("covariance with", "no limit", "here", "shadow price"), rows)
    rates = getattr(classifier, "training_rates_", None)
    if rates is None:
        return tables
    shown = [(" = ".join(map(str, key)), percent(rate)) for key, rate in rates.items()]
    return tables + _table("Positive rates of the people trained on.", ("group", "rate"), shown)


def _has(classifier: Any, name: str) -> bool:
    return getattr(classifier, name, None) is not None


def _percentage(value: Any) -> str:
    return NONE if value is None or value != value else ratio_beside(float(value), _USUAL)


def _table(head: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    listed = list(rows)
    more = f"<p>{len(listed) - _MOST:,} more rows.</p>" if len(listed) > _MOST else ""
    names = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in row) + "</tr>" for row in listed[:_MOST])
    table = f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>" if columns else ""
    return f"<div><p>{escape(head)}</p>{table}{more}</div>"
