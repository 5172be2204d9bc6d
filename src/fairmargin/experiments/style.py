"""One look for all figures: colours that the colour-blind can tell apart, large letters, legends outside the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["COLOURS", "FAIR", "MARKERS", "UNFAIR", "below", "grid", "styled"]

# Okabe and Ito's palette; the markers tell the methods apart without any colour.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#666666",
)
COLOURS = {
    "C-LR": BLUE,
    "C-SVM": VERMILION,
    "PS-LR": GREEN,
    "PS-SVM": PURPLE,
    "R-LR": ORANGE,
    "γ-LR": BLUE,
    "Fine-γ-LR": VERMILION,
}
MARKERS = {"C-LR": "o", "C-SVM": "s", "PS-LR": "^", "PS-SVM": "v", "R-LR": "D", "γ-LR": "o", "Fine-γ-LR": "s"}
FAIR, UNFAIR = BLUE, VERMILION
SEQUENCE = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY]
SHAPES = ["o", "s", "^", "v", "D", "P", "X"]

_RC: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 12,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 12,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.8,
    "legend.fontsize": 12,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 5.5,
    "svg.hashsalt": "fairmargin",  # the same drawing gives the same file
    "svg.fonttype": "none",
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of this module; the user's settings come back afterwards."""
    import matplotlib

    with matplotlib.rc_context({**dict(matplotlib.rcParamsDefault), **_RC}):
        yield


def grid(rows: int, columns: int, *, width: float = 9.0, height: float = 3.2, **options: Any) -> tuple[Any, Any]:
    """Return a figure and its axes (rows, columns); ``height`` is that of one row, in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height * rows + 0.5), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def below(figure: Any, handles: Sequence[Any], columns: int | None = None) -> None:
    """Put one legend under all panels, where it covers nothing."""
    labels = [handle.get_label() for handle in handles]
    figure.legend(handles, labels, loc="outside lower center", ncols=columns or len(handles), handlelength=2.6)
