"""The evidence for a proposed model, as tables that are the same in every output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from fairmargin import formatting
from fairmargin.report.sections import Section, audit_sections, limits_of, number, section_of

__all__ = ["RATES", "all_sections", "candidate_section", "rates_section"]

RATES = "Rates: labels, no limit, this model"  # the title under which renderers know the table
_Column = Callable[[Mapping[str, Any]], str]


def all_sections(summary: Mapping[str, Any]) -> list[Section]:
    """Return every table that follows the verdict: the proposed model's own first, then those of its audit."""
    if "proposal" not in summary:
        return audit_sections(summary)
    proposal, limits = summary["proposal"], limits_of(summary)
    found = [
        rates_section(proposal, limits, summary["audit"]),
        *audit_sections(summary),
        _calibration(proposal["calibration"]),
        _distributions(proposal["distributions"]),
        candidate_section(summary["candidates"], limits),
    ]
    return [section for section in found if section.rows]


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['attribute']} = {row['group']}" if row["attribute"] else str(row["group"])


def rates_section(proposal: Mapping[str, Any], limits: tuple[float, ...], audit: Mapping[str, Any]) -> Section:
    """Return the rates of groups: of the labels, without a limit, and under the proposed model."""
    if audit["notion"] != "selection_rate":
        return _rates_of_notion(proposal, limits, audit)
    columns: dict[str, _Column] = {
        "group": _name,
        "people": lambda r: f"{r['people']:,}",
        "labels": lambda r: formatting.percent(r["label_rate"]),
        "no limit": lambda r: formatting.percent(r["rate_before"]),
        "this model": lambda r: formatting.percent(r["rate"]),
        "95% interval": lambda r: formatting.interval(100 * r["low"], 100 * r["high"]),
        "ratio": lambda r: formatting.ratio_beside(r["ratio"], *limits),
        "accepted": lambda r: str(r["direction"]),
        "gain / lose": lambda r: f"{r['gained']:,} / {r['lost']:,}",
    }
    text = (
        "The favourable decision by group: in the labels, under the model without a limit, and under this model. "
        "All on the same people."
    )
    return section_of(RATES, text, columns, proposal["groups"], left=(7,))


def _rates_of_notion(proposal: Mapping[str, Any], limits: tuple[float, ...], audit: Mapping[str, Any]) -> Section:
    """Return the rates of groups by a notion that needs labels, which labels themselves have none of."""
    columns: dict[str, _Column] = {
        "group": _name,
        "people": lambda r: f"{r['people']:,}",
        "no limit": lambda r: formatting.percent(r["rate_before"]),
        "this model": lambda r: formatting.percent(r["rate"]),
        "95% interval": lambda r: formatting.interval(100 * r["low"], 100 * r["high"]),
        "ratio": lambda r: formatting.ratio_beside(r["ratio"], *limits),
        str(audit["counted"]): lambda r: str(r["direction"]),
        "gain / lose": lambda r: f"{r['gained']:,} / {r['lost']:,}",
    }
    text = (
        f"The {audit['rate']} by group, among {audit['among']}: under the model without a limit, and under "
        "this model. All on the same people."
    )
    return section_of(RATES, text, columns, proposal["groups"], left=(6,))


def _calibration(rows: Sequence[Mapping[str, Any]]) -> Section:
    if not rows:
        return Section("", "", (), ())
    count = rows[0]["bins"]
    ends = {1: "lowest scores", count: "highest scores"}
    columns = ("group", *(ends.get(k, f"part {k} of {count}") for k in range(1, count + 1)))
    table = [
        (_name(group[0]), *(_observed(row) for row in group))
        for group in (list(g) for _, g in groupby(rows, key=lambda r: (r["attribute"], r["group"])))
    ]
    expected = any(row["expected"] is not None for row in rows)
    text = (
        f"Everybody is sorted by score and cut into {count} equal parts. Shown is the share with the favourable label"
    )
    text += ", after the stroke the share that the model expects" if expected else ""
    text += ". In brackets: people. Where groups differ in a column, the same score does not mean the same."
    return Section("Calibration by group", text, columns, tuple(table))


def _observed(row: Mapping[str, Any]) -> str:
    if not row["people"]:
        return formatting.NONE
    expected = "" if row["expected"] is None else f" / {formatting.percent(row['expected'], 0)}"
    return f"{formatting.percent(row['rate'], 0)}{expected} ({row['people']:,})"


def _distributions(rows: Sequence[Mapping[str, Any]]) -> Section:
    columns: dict[str, _Column] = {"group": _name, "people": lambda r: f"{r['people']:,}"}
    for k, name in enumerate(("5%", "25%", "median", "75%", "95%")):
        columns[name] = lambda r, k=k: f"{r['quantiles'][k]:.2f}"  # type: ignore[misc]
    text = "5% of a group have a score below the one under 5%, and so on. A score of 0 or more gives the favourable "
    text += "decision."
    return section_of("Scores of this model by group", text, columns, rows)


def candidate_section(rows: Sequence[Mapping[str, Any]], limits: tuple[float, ...] = ()) -> Section:
    """Return the record of the search."""
    columns: dict[str, _Column] = {
        "candidate": lambda r: ("★ " if r["chosen"] else "") + str(r["label"]),
        "proof": lambda r: str(r["proof"]).partition(",")[0],
        "training: accuracy": lambda r: formatting.percent(r["train_accuracy"], 2),
        "p%-rule": lambda r: formatting.ratio_beside(r["train_p_rule"], *limits),
        "held out: accuracy": lambda r: formatting.percent(r["accuracy"]),
        "AUC": lambda r: number(r["auc"], 3),
        "KS": lambda r: number(r["ks"], 3),
        "p%-rule (AIR)": lambda r: formatting.ratio_beside(r["p_rule"], *limits),
        "SMD": lambda r: formatting.NONE if r["smd"] is None else f"{r['smd']:+.2f}",
        "loss": lambda r: formatting.signed_percent(r["loss_increase"]),
        "why not": lambda r: str(r["why"]),
    }
    if any(r["gain"] is not None for r in rows):
        columns = {**columns, "gain": lambda r: number(r["gain"], 4), "why not": columns.pop("why not")}
    text = (
        "Every candidate, and why it was not chosen. The choice was made on the people trained on. AIR: adverse "
        "impact ratio, the lowest p%-rule of a group. SMD: largest standardised mean difference of scores between "
        "groups. KS: largest distance between the scores of both labels. Loss: training loss against no limit. "
        "Proof: optimal means that no model with as little covariance has less training loss; searched means that "
        "none better was found."
    )
    shown = tuple(tuple(show(row) for show in columns.values()) for row in rows)
    return Section("What was tried", text, tuple(columns), shown, (1, len(columns) - 1))
