"""A summary as Markdown, for a pull request, a wiki or a model card."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairmargin import formatting
from fairmargin.formatting import escape_markdown as _plain
from fairmargin.report.evidence import all_sections
from fairmargin.report.sections import asked_for, limits_of
from fairmargin.report.terminal import training_rows

__all__ = ["to_markdown"]


def to_markdown(summary: Mapping[str, Any]) -> str:
    """Return a summary as Markdown text."""
    parts: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
        "audit": _audit,
        "train": _train,
        "frontier": _frontier,
    }
    lines = [f"# {_plain(summary['title'])}", "", f"> {summary['disclaimer']}", ""]
    lines += _purpose(summary.get("record"))
    lines += [f"Data: {_plain(summary['data']['source'])}, SHA-256 `{summary['data']['sha256']}`.", ""]
    lines += _verdict(summary)
    if summary["warnings"]:
        lines += ["## Warnings", "", *(f"- {_plain(warning)}" for warning in summary["warnings"]), ""]
    lines += parts[summary["kind"]](summary)
    if summary["notes"]:
        lines += ["## Notes", "", *(f"- {_plain(note)}" for note in summary["notes"]), ""]
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    settings = ", ".join(f"{_plain(key)} = {_plain(value)}" for key, value in summary["settings"].items())
    lines += ["## Settings", "", settings, "", f"Made with {versions}.", "", *_record(summary.get("record"))]
    return "\n".join(lines).rstrip("\n") + "\n"


def _verdict(summary: Mapping[str, Any]) -> list[str]:
    verdict = summary["verdict"] if "verdict" in summary else summary["proposal"]["verdict"]
    lines = ["## Verdict", "", f"**{_plain(verdict['headline'])}**", ""]
    if "proposal" in summary:
        answers = summary["proposal"]["lines"]
        return [*lines, *(f"- **{line['question']}** {_plain(line['answer'])}" for line in answers), ""]
    return [*lines, *(f"- {_plain(verdict[key])}" for key in ("passes", "for_whom", "sure") if verdict[key]), ""]


def _purpose(record: Mapping[str, Any] | None) -> list[str]:
    if record is None:
        return []
    said = [f"{key.capitalize()}: {_plain(record[key])}." for key in ("purpose", "author", "date") if record[key]]
    return [" ".join(said), ""]


def _record(record: Mapping[str, Any] | None) -> list[str]:
    if record is None:
        return []
    lines = ["## Run record", ""]
    for key in ("command", "seed", "data_sha256", "test_sha256", "model_sha256"):
        if record[key] is not None:
            lines.append(f"- {key.replace('_', ' ')}: {_plain(record[key])}")
    return [*lines, f"- {record['digest_kind']} of this summary as JSON: {record['digest']}", ""]


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    names = list(header)
    lines = [f"| {' | '.join(names)} |", f"|{'|'.join(['---', *['---:'] * (len(names) - 1)])}|"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def _audit(summary: Mapping[str, Any]) -> list[str]:
    audit = summary["audit"]
    favourable = _plain(summary["settings"].get("positive", formatting.NONE))
    share = formatting.percent(audit["positives"] / audit["people"])
    lines = [f"{formatting.people(audit['people'])}, {audit['positives']:,} positive decisions ({share}); "]
    lines[0] += f"favourable: {favourable}."
    lines.append("")
    return [*lines, *_groups(audit), *_proxies(audit["proxies"]), *_rules(audit["rules"]), *_sections(summary)]


def _sections(summary: Mapping[str, Any]) -> list[str]:
    lines = []
    for section in all_sections(summary):
        rows = ([_plain(cell) for cell in row] for row in section.rows)
        lines += [f"## {_plain(section.title)}", "", _plain(section.text), "", *_table(section.columns, rows)]
    return lines


def _groups(audit: Mapping[str, Any]) -> list[str]:
    rate = "rate" if audit["notion"] == "selection_rate" else audit["rate"]
    header = ("group", "people", rate, "ratio", "95% interval", "difference", "z", "p (adjusted)", "shortfall")
    by = "" if rate == "rate" else f", by the {rate} among {audit['among']}"
    least = f"Groups under {audit['min_people']} people decide nothing in this table."
    lines = [f"p%-rule ({audit['rule']}): {audit['compared']}{by}. {least}", ""]
    for attribute in audit["attributes"]:
        rows = (
            (
                _plain(g["group"]),
                f"{g['people']:,}",
                formatting.percent(g["rate"]),
                formatting.ratio_beside(g["ratio"], audit["threshold"]),
                formatting.interval(g["ratio_low"], g["ratio_high"], beside=(audit["threshold"],)),
                formatting.points(g["difference"]),
                formatting.deviations(g["z"]),
                formatting.probability(g["p_adjusted"]),
                formatting.whole(g["shortfall"]),
                formatting.ratio_beside(g["ratio_one_more"], audit["threshold"]),
                g["finding"],
            )
            for g in attribute["groups"]
        )
        rule = formatting.ratio_beside(attribute["p_rule"], audit["threshold"])
        score = formatting.percent(attribute["cv_score"])
        lines += [f"### {_plain(attribute['name'])}", ""]
        lines += [f"Compared with {_plain(attribute['reference'])}; p%-rule {rule}, CV score {score}.", ""]
        lines += _table((*header, "with one more", "finding"), rows)
    return lines


def _proxies(proxies: list[Mapping[str, Any]]) -> list[str]:
    if not proxies:
        return []
    rows = (
        (
            _plain(p["feature"]),
            _plain(p["attribute"]),
            f"{p['association']:.2f}",
            formatting.percent(p["guessed"]),
            formatting.percent(p["baseline"]),
        )
        for p in proxies[:15]
    )
    header = ("feature", "tells of", "Cramér's V", "guessed right", "without it")
    return ["## Features that tell something about a sensitive attribute", "", *_table(header, rows)]


def _rules(rules: list[Mapping[str, Any]]) -> list[str]:
    if not rules:
        return []
    rows = (
        (
            _plain(f"{r['attribute']} = {r['group']}"),
            _plain(" and ".join(r["context"]) or "everybody"),
            _plain(" and ".join(r["proxy"]) or formatting.NONE),
            f"{r['people']:,}",
            formatting.percent(r["confidence"]),
            formatting.percent(r["context_confidence"]),
            f"{r['lift']:.2f}",
        )
        for r in rules
    )
    header = ("group", "among", "recognised by", "people", "refused", "of all there", "lift")
    return ["## Combinations in which a group is refused more often", "", *_table(header, rows)]


def _train(summary: Mapping[str, Any]) -> list[str]:
    limits = limits_of(summary)
    rows = [
        (
            label,
            formatting.percent(row["accuracy"]),
            formatting.interval(100 * row["accuracy_low"], 100 * row["accuracy_high"]),
            formatting.percent(row["rate"]),
            formatting.ratio_beside(row["p_rule"], *limits),
            formatting.interval(row["p_rule_low"], row["p_rule_high"], beside=limits),
            formatting.percent(row["cv_score"]),
        )
        for label, row in training_rows(summary)
    ]
    header = ("people", "accuracy", "95% interval", "accepted", "p%-rule", "95% interval", "CV score")
    data, shown = summary["data"], summary["test"] or summary["train"]
    lines = [f"Favourable: {_plain(data['target'])} = {_plain(data['positive'])}. "]
    lines[0] += f"Asked for: {_plain(asked_for(summary['settings']))}. "
    lines[0] += f"Deciding the same for everybody is right in {formatting.percent(shown['constant_accuracy'])}."
    lines += ["", *_table(header, rows), f"Certificate: {_plain(summary['proof']['text'])}", ""]
    for key in ("guarantee", "necessity"):
        if summary[key] is not None:
            lines += [f"{key.capitalize()}: {_plain(summary[key]['statement'])}", ""]
    return [*lines, "## Decisions", "", *_groups(summary["audit"]), *_sections(summary)]


def _frontier(summary: Mapping[str, Any]) -> list[str]:
    where = "held-out people" if summary["held_out"] else "the people trained on"
    first, data = summary["unconstrained"]["test"], summary["data"]
    lines = ["## Decisions of the proposed model", "", f"On {first['people']:,} {where}. "]
    lines[-1] += f"Favourable: {_plain(data['target'])} = {_plain(data['positive'])}. "
    lines[-1] += f"Deciding the same for everybody is right in {formatting.percent(first['constant_accuracy'])}."
    lines += ["", *_groups(summary["audit"]), *_sections(summary)]
    labels = summary["labels_audit"]
    lines += ["## The labels of the people trained on", "", *_groups(labels)]
    lines += [*_proxies(labels["proxies"]), *_rules(labels["rules"])]
    return [*lines, "## Decisions without a limit", "", *_groups(summary["proposal"]["unconstrained_audit"])]
