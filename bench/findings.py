"""What a section found: text, tables, plots and claims, written to a file as they come."""

import json
import math

import numpy as np


class Findings:
    """A section's findings; each is saved at once, so that a section that is stopped keeps what it had."""

    def __init__(self, path, title, quick):
        self.path, self.title, self.quick = path, title, quick
        self.blocks, self.claims, self.figures = [], [], {}
        self.status, self.seconds = "running", None

    def text(self, words):
        self._add({"text": " ".join(words.split())})

    def heading(self, words):
        self._add({"heading": words})

    def table(self, columns, rows, note=""):
        self._add({"columns": list(columns), "rows": [list(row) for row in rows], "note": " ".join(note.split())})

    def plot(self, name, title, x, y, series, *, log=True, fitted=False):
        """Add a plot; ``series`` maps a label to (xs, ys). With ``fitted``, exponents are put in the legend."""
        series = {label: [list(map(float, xs)), list(map(float, ys))] for label, (xs, ys) in series.items()}
        self._add({"plot": name, "title": title, "x": x, "y": y, "series": series, "log": log, "fitted": fitted})

    def claim(self, source, asked, measured, holds):
        """Note whether a claim holds: True, False, or None where it could not be measured."""
        holds = None if holds is None else bool(holds)
        self.claims.append({"source": source, "asked": asked, "measured": measured, "holds": holds})
        self.save()

    def _add(self, block):
        self.blocks.append(block)
        self.save()

    def save(self):
        content = {k: v for k, v in vars(self).items() if k != "path"}
        text = json.dumps(content, indent=1, default=_plain)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(text + "\n")
        part.replace(self.path)


def _plain(value):
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not plain")


def seconds(s):
    """Return seconds in words of three digits."""
    if s is None or not math.isfinite(s):
        return ""
    return f"{1e3 * s:.0f} ms" if s < 0.9995 else f"{s:.3g} s" if s < 100 else f"{s:.0f} s"


def times(ratio):
    """Return a ratio with two or three digits."""
    if ratio is None or not math.isfinite(ratio):
        return ""
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def megabytes(size):
    return "" if size is None else f"{size / 1e6:.0f}" if size >= 1e7 else f"{size / 1e6:.1f}"


def exponent(xs, ys):
    """Return the slope of log y over log x on the upper half of the points, at least three of them."""
    keep = max(3, math.ceil(len(xs) / 2))
    x, y = np.log(np.asarray(xs, float)[-keep:]), np.log(np.asarray(ys, float)[-keep:])
    return float(np.polyfit(x, y, 1)[0]) if len(x) >= 2 else float("nan")
