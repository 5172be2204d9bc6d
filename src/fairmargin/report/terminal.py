"""A summary on the terminal: tables for people, plain and wide enough where the output is piped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairmargin import formatting
from fairmargin.report.evidence import all_sections
from fairmargin.report.sections import asked_for, limits_of, profile_titles
from fairmargin.tables.encoding import TAKEN_AS

__all__ = ["show", "training_rows"]

_LISTED = 12  # columns named on one line


# Tables that were asked for by an option of their own, so that nobody has to ask twice.
_ASKED_FOR = ("Within strata", "Since the earlier audit", "Other splits")


def show(summary: Mapping[str, Any], verbose: bool = False, rest_is: str = "in the other reports") -> None:
    """Print a summary: what a reader needs to decide or, if ``verbose``, everything.

    The first part is the verdict with its answers, warnings, what was measured in training or the groups of an audit,
    what was asked for by an option of its own, and where the rest is, in the words of the interface.
    """
    from rich.console import Console

    # A pipe has no width: wide lines are better there than columns cut off.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160, markup=False, emoji=False)
    parts = {"audit": _audit, "train": _train, "frontier": _frontier}
    console.print(formatting.clean(summary["title"]), style="bold")
    for line, style in _verdict(summary):
        console.print(formatting.clean(line), style=style)
    for warning in summary["warnings"]:
        console.print(formatting.clean(f"warning: {warning}"), style="bold yellow")
    parts[summary["kind"]](console, summary, verbose)
    for note in summary["notes"] if verbose else _other_notes(summary):
        console.print(formatting.clean(f"note: {note}"), style="dim")
    if not verbose:
        console.print(formatting.clean(f"{_rest(summary)}: {rest_is}."), style="dim")
    console.print(summary["disclaimer"], style="italic")


def _other_notes(summary: Mapping[str, Any]) -> list[str]:
    """Return the notes, with one line instead of one for each column about what columns were taken for."""
    notes = [note for note in summary["notes"] if TAKEN_AS not in note]
    columns = summary["data"].get("features") if len(notes) < len(summary["notes"]) else None
    if columns:
        kinds = {"numbers": [c for c in columns if c["kind"] == "number"]}
        kinds["categories"] = [c for c in columns if c["kind"] != "number"]
        listed = [f"as {kind}: {_some(c['name'] for c in found)}" for kind, found in kinds.items() if found]
        notes.append(f"Columns taken {'; '.join(listed)}.")
    return notes


def _some(names: Iterable[Any]) -> str:
    shown = [formatting.shorten(name, 40) for name in names]
    more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    return ", ".join(shown[:_LISTED]) + more


def _rest(summary: Mapping[str, Any]) -> str:
    """Say what is not shown."""
    if summary["kind"] == "audit":
        return _rest_of_audit(summary["audit"])
    return {
        "train": "Groups one by one, error rates, scores, calibration and what each column was taken for",
        "frontier": "Groups one by one, error rates, scores, calibration, every candidate and why it was not chosen",
    }[summary["kind"]]


def _rest_of_audit(audit: Mapping[str, Any]) -> str:
    """Name what an audit found and a short output leaves out."""
    found = {
        "error rates": audit["error_rates"],
        "odds": True,
        "scores": audit["scored"],
        "proxies": audit["proxies"],
        "combinations": audit["rules"],
    }
    *others, last = [name for name, there in found.items() if there]
    text = f"{', '.join(others)} and {last}" if others else last
    return text[0].upper() + text[1:]


def _verdict(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the verdict and the answers that follow it, each with its style."""
    verdict = summary["verdict"] if "verdict" in summary else summary["proposal"]["verdict"]
    lines = [(verdict["headline"], "bold")]
    if "proposal" in summary:
        return lines + [(f"{line['question']} {line['answer']}", "") for line in summary["proposal"]["lines"]]
    return lines + [(verdict[key], "") for key in ("passes", "for_whom", "sure") if verdict[key]]


def _table(title: str, *columns: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(title=formatting.clean(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for k, column in enumerate(columns):
        name = column.lstrip("<")
        table.add_column(name, justify="left" if k == 0 or column.startswith("<") else "right", overflow="fold")
    return table


def _name(value: Any) -> str:
    return formatting.clean(formatting.shorten(value, 40))


def _audit(console: Any, summary: Mapping[str, Any], verbose: bool) -> None:
    audit = summary["audit"]
    favourable = formatting.clean(f"favourable: {summary['settings'].get('positive', formatting.NONE)}")
    console.print(
        f"{formatting.people(audit['people'])}, {audit['positives']:,} positive decisions "
        f"({formatting.percent(audit['positives'] / audit['people'])}; {favourable})"
    )
    console.print(
        f"p%-rule ({audit['rule']}): {audit['compared']}; groups under {audit['min_people']} decide nothing"
    )
    _rates_compared(console, audit)
    for attribute in audit["attributes"]:
        console.print(_audit_table(attribute, audit["threshold"], console.width))
        console.print(_measures(attribute, audit["threshold"]))
    if verbose:
        _proxies(console, audit["proxies"])
        _rules(console, audit["rules"])
    _sections(console, summary, verbose)


def _rates_compared(console: Any, audit: Mapping[str, Any]) -> None:
    """Say which rates are compared where these are not selection rates."""
    if audit["notion"] != "selection_rate":
        who = formatting.people(audit["compared_people"])
        console.print(f"rates compared: {audit['rate']}, among {audit['among']} ({who})")


def _sections(console: Any, summary: Mapping[str, Any], verbose: bool) -> None:
    """Print the further tables of a summary, or only those that were asked for."""
    from rich.text import Text

    asked_for = (*_ASKED_FOR, *profile_titles(summary))
    for section in all_sections(summary):
        if not verbose and section.title not in asked_for:
            continue
        columns = [f"<{name}" if k in section.left else name for k, name in enumerate(section.columns)]
        table = _table(section.title, *columns)
        for row in section.rows:
            table.add_row(*(Text(formatting.clean(cell)) for cell in row))
        console.print(table)
        console.print(formatting.clean(section.text), style="dim")


def _audit_table(attribute: Mapping[str, Any], threshold: float, width: int) -> Any:
    from rich.text import Text

    columns: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "group": lambda g: Text(_name(g["group"])),
        "people": lambda g: f"{g['people']:,}",
        "rate": lambda g: formatting.percent(g["rate"]),
        "95% of rate": lambda g: formatting.interval(100 * g["rate_low"], 100 * g["rate_high"]),
        "ratio": lambda g: formatting.ratio_beside(g["ratio"], threshold),
        "95% interval": lambda g: formatting.interval(g["ratio_low"], g["ratio_high"], beside=(threshold,)),
        "difference": lambda g: formatting.points(g["difference"]),
        "z": lambda g: formatting.deviations(g["z"]),
        "p (adj.)": lambda g: formatting.probability(g["p_adjusted"]),
        "shortfall": lambda g: formatting.whole(g["shortfall"]),
        "one more": lambda g: (
            formatting.ratio_beside(g["ratio_one_more"], threshold) + (" !" if g["one_decision_matters"] else "")
        ),
        "<finding": lambda g: Text(g["finding"], style="bold" if "below" in g["finding"] else ""),
    }
    if width < 120:  # what does not fit is in the files
        columns = {
            name: show for name, show in columns.items() if name not in ("95% of rate", "difference", "z", "one more")
        }
    table = _table(f"{_name(attribute['name'])} (compared with {_name(attribute['reference'])})", *columns)
    for group in attribute["groups"]:
        table.add_row(*(show(group) for show in columns.values()))
    return table


def _measures(attribute: Mapping[str, Any], threshold: float) -> str:
    parts = [
        f"p%-rule {formatting.ratio_beside(attribute['p_rule'], threshold)} (lowest over highest rate "
        f"{formatting.ratio_beside(attribute['p_rule_between_groups'], threshold)})",
        f"CV score {formatting.percent(attribute['cv_score'])}",
    ]
    if attribute["covariance"]:
        listed = ", ".join(f"{_name(c['group'])} {c['value']:+.4g}" for c in attribute["covariance"])
        parts.append(f"decision boundary covariance: {listed}")
    return "; ".join(parts)


def _proxies(console: Any, proxies: list[Mapping[str, Any]]) -> None:
    from rich.text import Text

    if not proxies:
        return
    title = "Features that tell something about a sensitive attribute"
    table = _table(title, "feature", "<tells of", "Cramér's V", "guessed right", "without it")
    for p in proxies[:12]:
        row = (f"{p['association']:.2f}", formatting.percent(p["guessed"]), formatting.percent(p["baseline"]))
        table.add_row(Text(_name(p["feature"])), Text(_name(p["attribute"])), *row)
    console.print(table)


def _rules(console: Any, rules: list[Mapping[str, Any]]) -> None:
    from rich.text import Text

    if not rules:
        return
    title = "Combinations in which a group is refused more often"
    table = _table(title, "group", "<among", "<recognised by", "people", "refused", "of all there", "lift")
    for r in rules:
        words = (
            f"{r['attribute']} = {r['group']}",
            " and ".join(r["context"]) or "everybody",
            " and ".join(r["proxy"]),
        )
        row = (f"{r['people']:,}", formatting.percent(r["confidence"]), formatting.percent(r["context_confidence"]))
        table.add_row(*(Text(_name(w)) if w else Text(formatting.NONE) for w in words), *row, f"{r['lift']:.2f}")
    console.print(table)


def _train(console: Any, summary: Mapping[str, Any], verbose: bool) -> None:
    _study(console, summary)
    console.print(formatting.clean(f"asked for: {asked_for(summary['settings'])}"))
    table = _table(
        f"Decisions, by {summary['audit']['rate']}{'s' if summary['audit']['notion'] == 'selection_rate' else ''}",
        "",
        "accuracy",
        "95% interval",
        "accepted",
        "p%-rule",
        "95% interval",
        "CV score",
    )
    limits = limits_of(summary)
    for label, row in training_rows(summary):
        span = formatting.interval(row["p_rule_low"], row["p_rule_high"], beside=limits)
        accuracy, score = formatting.percent(row["accuracy"]), formatting.percent(row["cv_score"])
        around = formatting.interval(100 * row["accuracy_low"], 100 * row["accuracy_high"])
        accepted = formatting.percent(row["rate"])
        table.add_row(label, accuracy, around, accepted, formatting.ratio_beside(row["p_rule"], *limits), span, score)
    console.print(table)
    shown = summary["test"] or summary["train"]
    console.print(f"deciding the same for everybody is right in {formatting.percent(shown['constant_accuracy'])}")
    if verbose:
        console.print(f"{summary['audit']['rate']} by group:")
        _groups(console, summary)
    _sections(console, summary, verbose)
    console.print(f"certificate: {summary['proof']['text']}")
    for key in ("guarantee", "necessity"):
        if summary[key] is not None:
            console.print(formatting.clean(f"{key}: {summary[key]['statement']}"))


def _frontier(console: Any, summary: Mapping[str, Any], verbose: bool) -> None:
    _study(console, summary)
    if verbose:
        _groups(console, summary)
    _sections(console, summary, verbose)


def _groups(console: Any, summary: Mapping[str, Any]) -> None:
    for attribute in summary["audit"]["attributes"]:
        console.print(_audit_table(attribute, summary["audit"]["threshold"], console.width))


def _study(console: Any, summary: Mapping[str, Any]) -> None:
    data = summary["data"]
    console.print(f"{formatting.people(data['train_people'])} trained on, {data['test_people']:,} held out")
    console.print(formatting.clean(f"favourable: {data['target']} = {data['positive']}"))
    least = f"groups under {data['min_people']} decide nothing"
    if summary.get("guarantee"):
        least += " here; the guarantee says who was tested"
    console.print(f"p%-rule ({data['rule']}): {data['compared']}; {least}")
    _rates_compared(console, summary["audit"])


def training_rows(summary: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what was measured in training, with a name for each row."""
    held_out = "held out" if summary["held_out"] else "training"
    rows = [("training", summary["train"]), ("held out", summary["test"])]
    rows.append((f"without a constraint ({held_out})", summary["unconstrained"]))
    return [(label, row) for label, row in rows if row is not None]
