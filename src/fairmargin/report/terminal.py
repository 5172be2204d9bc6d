"""A summary on the terminal: tables for people, plain and wide enough where the output is piped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from fairmargin import text

__all__ = ["show"]


def show(summary: Mapping[str, Any]) -> None:
    """Print a summary."""
    from rich.console import Console

    # A pipe has no width: wide lines are better there than columns cut off.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160, markup=False, emoji=False)
    parts = {"audit": _audit, "train": _train, "frontier": _frontier}
    console.print(text.clean(summary["title"]), style="bold")
    parts[summary["kind"]](console, summary)
    for note in summary["notes"]:
        console.print(text.clean(f"note: {note}"), style="dim")
    console.print(summary["disclaimer"], style="italic")


def _table(title: str, *columns: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(title=text.clean(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for k, column in enumerate(columns):
        name = column.lstrip("<")
        table.add_column(name, justify="left" if k == 0 or column.startswith("<") else "right", overflow="fold")
    return table


def _name(value: Any) -> str:
    return text.clean(text.short(value))


def _audit(console: Any, summary: Mapping[str, Any]) -> None:
    audit = summary["audit"]
    console.print(f"{audit['people']:,} people, {audit['positives']:,} positive decisions")
    for attribute in audit["attributes"]:
        console.print(_audit_table(attribute, console.width))
        console.print(_measures(attribute))
    _proxies(console, audit["proxies"])


def _audit_table(attribute: Mapping[str, Any], width: int) -> Any:
    from rich.text import Text

    columns: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "group": lambda g: Text(_name(g["group"])),
        "people": lambda g: f"{g['people']:,}",
        "rate": lambda g: text.percent(g["rate"]),
        "ratio": lambda g: text.ratio(g["ratio"]),
        "95% interval": lambda g: text.interval(g["ratio_low"], g["ratio_high"]),
        "difference": lambda g: text.points(g["difference"]),
        "z": lambda g: text.NONE if g["z"] is None else f"{g['z']:+.1f}",
        "p (adj.)": lambda g: text.probability(g["p_adjusted"]),
        "shortfall": lambda g: text.NONE if g["shortfall"] is None else f"{g['shortfall']:,.0f}",
        "one more": lambda g: text.ratio(g["ratio_one_more"]) + (" !" if g["one_decision_matters"] else ""),
        "<finding": lambda g: Text(g["finding"], style="bold" if g["finding"].startswith("below") else ""),
    }
    if width < 120:  # what does not fit is in the files
        columns = {name: show for name, show in columns.items() if name not in ("difference", "z", "one more")}
    table = _table(f"{_name(attribute['name'])} (compared with {_name(attribute['reference'])})", *columns)
    for group in attribute["groups"]:
        table.add_row(*(show(group) for show in columns.values()))
    return table


def _measures(attribute: Mapping[str, Any]) -> str:
    parts = [
        f"p%-rule {text.ratio(attribute['p_rule'])} (lowest over highest rate "
        f"{text.ratio(attribute['p_rule_between_groups'])})",
        f"CV score {text.percent(attribute['cv_score'])}",
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
        row = (f"{p['association']:.2f}", text.percent(p["guessed"]), text.percent(p["baseline"]))
        table.add_row(Text(_name(p["feature"])), Text(_name(p["attribute"])), *row)
    console.print(table)


def _train(console: Any, summary: Mapping[str, Any]) -> None:
    data = summary["data"]
    console.print(f"{data['train_people']:,} people trained on, {data['test_people']:,} held out")
    table = _table("", "", "accuracy", "p%-rule", "95% interval", "CV score")
    for label, key in (("training", "train"), ("held out", "test")):
        row = summary[key]
        if row is not None:
            span = text.interval(row["p_rule_low"], row["p_rule_high"])
            values = (text.percent(row["accuracy"]), text.ratio(row["p_rule"]), span, text.percent(row["cv_score"]))
            table.add_row(label, *values)
    console.print(table)
    for attribute in summary["audit"]["attributes"]:
        console.print(_audit_table(attribute, console.width))
    console.print(_proof(summary))


def _proof(summary: Mapping[str, Any]) -> str:
    """Say what is proved, in the words that the constraint allows."""
    proof = summary["certificate"]
    if str(summary["settings"].get("constraint", "")).startswith(("p-rule", "PRuleBound")):
        bound = proof["dual_bound"]
        above = f"at most {proof['objective'] / bound - 1.0:.1%} above" if bound > 0 else "not known to be near"
        return (
            f"certificate: a rule on decisions is searched for, not proved best; the training objective is {above} "
            f"what any classifier, fair or not, can have"
        )
    return (
        f"certificate: {proof['status']}, relative gap {proof['gap']:.1e}, largest violation {proof['violation']:.1e}"
    )


def _frontier(console: Any, summary: Mapping[str, Any]) -> None:
    data = summary["data"]
    console.print(f"{data['train_people']:,} people trained on, {data['test_people']:,} held out")
    where = "held-out" if summary["held_out"] else "training"
    table = _table(f"On {where} people", "point", "accuracy", "p%-rule", "95% interval", "gained", "lost", "loss")
    shown = [(f"{100 * p['factor']:.0f}% of covariance", p) for p in summary["points"]]
    shown += [(a["question"], a["details"]) for a in summary["answers"] if a["details"]]
    for label, p in shown:
        test = p["test"]
        table.add_row(
            label,
            text.percent(test["accuracy"]),
            text.ratio(test["p_rule"]),
            text.interval(test["p_rule_low"], test["p_rule_high"]),
            f"{p['gained']:,}",
            f"{p['lost']:,}",
            text.NONE if p["relative_loss"] is None else f"{100 * p['relative_loss']:+.1f}%",
        )
    console.print(table)
