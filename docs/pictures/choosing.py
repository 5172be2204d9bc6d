"""Draw the decision tree of "Which constraint should I choose?" as a small SVG, whose text can be searched.

python docs/pictures/choosing.py            # writes choosing.svg beside this file
"""

from __future__ import annotations

from html import escape
from pathlib import Path

# From top to bottom. "yes" leads to the box on the right, "no" down to the next question.
STEPS = [
    (
        ("Must approval rates keep a ratio", "for people not seen yet?"),
        "PRuleBound(80, confidence=0.95)",
        "tested on people set aside",
    ),
    (
        ("Must they keep a ratio, such as the", "80%-rule, in the training data?"),
        "PRuleBound(80)",
        "the most accurate classifier found",
    ),
    (
        ("Is accuracy given, and fairness", "to go as far as it allows?"),
        "LossBound(0.02)",
        "business necessity, with a proof",
    ),
    (
        ("May nobody be worse off", "than under today's model?"),
        'IndividualLossBound(keep_positive="accepted")',
        "promises to single people",
    ),
    (
        ("Must scores not lean towards", "a group, provably at best loss?"),
        "CovarianceBound(0.0)",
        "the default",
    ),
]
LAST = ('FairnessFrontier(estimator, which="p_rule")', "look at the whole trade-off first")

WIDTH, TOP, STEP, HEIGHT = 760, 16, 100, 60
ASK_X, ASK_WIDTH = 16, 292
USE_X, USE_WIDTH = 386, 358
INK, LINE, ASK, USE = "#1b1f24", "#5b6770", "#eef4fb", "#e7f5ec"
SANS, MONO = "system-ui, sans-serif", "ui-monospace, Menlo, Consolas, monospace"


def text(x: float, y: float, words: str, size: float = 14.5, family: str = SANS, colour: str = INK) -> str:
    """Return a line of centred text."""
    style = f'font-family="{family}" font-size="{size}" fill="{colour}" text-anchor="middle"'
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'


def box(x: float, y: float, width: float, fill: str) -> str:
    """Return a box with round corners."""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="10" fill="{fill}" stroke="{LINE}"/>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """Return an arrow."""
    ends = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
    return f'<line {ends} stroke="{LINE}" stroke-width="1.6" marker-end="url(#tip)"/>'


def use(x: float, y: float, width: float, call: str, note: str) -> list[str]:
    """Return the box of what to use."""
    middle = x + width / 2
    lines = [text(middle, y + 26, call, 12.5, MONO), text(middle, y + 46, note, 12.5, SANS, LINE)]
    return [box(x, y, width, USE), *lines]


def draw() -> str:
    """Return the picture."""
    height = TOP + STEP * len(STEPS) + HEIGHT + 16
    tip = f'<path d="M0,0 L9,4 L0,8 z" fill="{LINE}"/>'
    marker = '<marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-label="Decision tree: from what you have to show to a constraint">',
        f"<defs>{marker}{tip}</marker></defs>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    middle = ASK_X + ASK_WIDTH / 2
    for place, (question, call, note) in enumerate(STEPS):
        y = TOP + STEP * place
        parts += [box(ASK_X, y, ASK_WIDTH, ASK), text(middle, y + 26, question[0]), text(middle, y + 46, question[1])]
        parts += [arrow(ASK_X + ASK_WIDTH, y + HEIGHT / 2, USE_X - 2, y + HEIGHT / 2)]
        parts += [text((ASK_X + ASK_WIDTH + USE_X) / 2, y + HEIGHT / 2 - 7, "yes", 13, SANS, LINE)]
        parts += use(USE_X, y, USE_WIDTH, call, note)
        parts += [arrow(middle, y + HEIGHT, middle, y + STEP - 2)]
        parts += [text(middle + 18, y + HEIGHT + 25, "no", 13, SANS, LINE)]
    parts += use(ASK_X, TOP + STEP * len(STEPS), USE_WIDTH, *LAST)
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_name("choosing.svg").write_text(draw(), encoding="utf-8")
