"""The document: every figure and table, every claim of the paper, and whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fairmargin.atomic_write import write_atomic
from fairmargin.experiments._experiment import Experiment, Output, Plan
from fairmargin.experiments.claims import HOLDS, IN_PART, NOT, Claim, claims_frame

__all__ = ["Section", "markdown_table", "write_document"]

_SIGNS = {HOLDS: "✓ holds", IN_PART: "◐ holds in part", NOT: "✗ does not hold"}


@dataclass(frozen=True)
class Section:
    """An experiment and what it gave."""

    experiment: Experiment
    output: Output


def write_document(sections: Sequence[Section], plan: Plan, folder: Path, *, figures: str) -> Path:
    """Write ``reproduction.md`` to a folder; the figures are in its subfolder ``figures``."""
    claims = sorted((c for section in sections for c in section.output.claims), key=lambda c: c.number)
    parts = [_opening(claims, plan), _claims(claims)]
    parts += [_section(section, figures) for section in sections]
    path = folder / "reproduction.md"
    write_atomic(path, "\n\n".join(parts) + "\n")
    return path


def _opening(claims: Sequence[Claim], plan: Plan) -> str:
    counts = {sign: sum(claim.verdict == sign for claim in claims) for sign in _SIGNS}
    command = f"fairmargin reproduce{' --quick' if plan.quick else ''}"
    splits = len(plan.splits)
    return f"""# The paper, reproduced

*Fairness Constraints: Mechanisms for Fair Classification* (Zafar, Valera, Gomez Rodriguez, Gummadi, AISTATS 2017),
run with this package. This page is written by `{command}`; no number in it is set by hand.

Averages are over {splits} random splits into 70% training and 30% test people (for synthetic data: {splits} draws).
Unlike the paper, all classifiers have a ridge penalty (C = 1), because without one a few people with extreme scores
can remove any covariance while the decisions hardly change. Shares and accuracies are in percent; their differences
are in points.

Verdicts are computed. A claim about several data sets or methods holds in part if it holds for some of them. The
words of the paper are read as follows: "comparable", within 1 point of accuracy; "small" or "modest" loss, under 3
points; a "100%-rule", over 97%; "about zero" covariance, under 10% of the unconstrained one; "the lower ... the
higher", never reversed by more than half a point.

Of {len(claims)} claims, {counts[HOLDS]} hold, {counts[IN_PART]} hold in part and {counts[NOT]} do not hold."""


def _claims(claims: Sequence[Claim]) -> str:
    table = claims_frame(claims)
    lines = ["## Claims", "", "| | Where | The paper says | Measured | Verdict |", "|---|---|---|---|---|"]
    for _, row in table.iterrows():
        cells = [str(row["number"]), row["where"], row["says"], row["measured"], _SIGNS[row["verdict"]]]
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    failing = table[(table["verdict"] != HOLDS) & (table["why"] != "")]
    if len(failing):
        lines += ["", "### Where they do not hold, and why", ""]
        lines += [f"- **{row['number']}** ({row['verdict']}): {row['why'].strip()}" for _, row in failing.iterrows()]
    return "\n".join(lines)


def _section(section: Section, figures: str) -> str:
    experiment, output = section.experiment, section.output
    numbers = ", ".join(str(claim.number) for claim in sorted(output.claims, key=lambda c: c.number))
    lines = [f"## {experiment.title}", ""]
    for name in output.figures:
        lines += [f"![{experiment.title}]({figures}/{name}.png)", ""]
    lines.append(f"{experiment.note} Run it with `fairmargin reproduce {experiment.name}`.")
    if numbers:
        lines[-1] += f" Claims: {numbers}."
    for title, table in output.tables.items():
        lines += ["", f"**{title}**", "", markdown_table(table)]
    return "\n".join(lines)


def markdown_table(table: pd.DataFrame) -> str:
    """Return a table as Markdown; whole numbers get thousands separators."""
    numeric = [pd.api.types.is_numeric_dtype(table[column]) for column in table]
    lines = ["| " + " | ".join(map(str, table)) + " |"]
    lines.append("|" + "|".join("---:" if is_number else "---" for is_number in numeric) + "|")
    for _, row in table.iterrows():
        lines.append("| " + " | ".join(_cell(_text(value)) for value in row) + " |")
    return "\n".join(lines)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if hasattr(value, "__index__") and not isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
