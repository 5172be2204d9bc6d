"""What scores do, whatever the cut: how well they rank, how far groups lie apart, and whether a score means the
same in every group.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from sklearn.metrics import roc_auc_score

from fairmargin.audit.scores import score_groups
from fairmargin.decisions import count_groups
from fairmargin.rate_statistics import rate_interval
from fairmargin.sensitive import Attribute, encode_sensitive
from fairmargin.tables.study import Part

__all__ = ["calibration", "distributions", "measure_scores"]

Array = NDArray[np.float64]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_BINS = 5  # fifths of everybody: with more, groups of a few hundred people have bins of a handful


def measure_scores(scores: Array, part: Part, *, method: str, min_people: int) -> dict[str, Any]:
    """Return how well scores rank people, and how far apart they put groups.

    Returns
    -------
    dict
        ``auc``: area under the ROC curve; ``ks``: largest distance between the distributions of the scores of both
        labels (Kolmogorov and Smirnov); None without both labels. ``smd``: of all groups that are judged, the
        standardised mean difference of largest size, and ``smd_group`` whose it is.
    """
    label = part.y == 1
    both = bool(label.any() and not label.all())
    smd, group = _largest_difference(scores, part, method, min_people)
    return {
        "auc": float(roc_auc_score(label, scores)) if both else None,
        "ks": float(ks_2samp(scores[label], scores[~label], method="asymp").statistic) if both else None,
        "smd": smd,
        "smd_group": group,
    }


def _largest_difference(scores: Array, part: Part, method: str, min_people: int) -> tuple[float | None, str | None]:
    best: tuple[float | None, str | None] = (None, None)
    for attribute in _attributes(part):
        counts = count_groups(attribute, scores >= 0, min_people=min_people)
        base = _base(counts, method)
        judged = dict(zip(map(str, attribute.categories), counts.judged(method), strict=True))
        for row in score_groups([(attribute, base)], scores):
            if row.smd is not None and judged[row.group] and (best[0] is None or _is_larger(row.smd, best[0])):
                best = row.smd, f"{row.attribute} = {row.group}"
    return best


def _is_larger(value: float, other: float) -> bool:
    """Whether a difference is larger in size; of two groups that differ from each other, the lower one is named."""
    if abs(abs(value) - abs(other)) <= 1e-12:
        return value < other
    return abs(value) > abs(other)


def _base(counts: Any, method: str) -> int | None:
    """Return the index of the group of the highest rate where groups are compared with it."""
    if method != "between_groups":
        return None
    return int(np.argmax(np.where(counts.may_be_highest, counts.rate, -1.0)))


def calibration(scores: Array, part: Part, *, probabilities: bool) -> list[dict[str, Any]]:
    """Return, for every group and fifth of everybody's scores, how many have the favourable label.

    Parameters
    ----------
    scores : array of shape (n,)
    part : Part of n people
    probabilities : bool
        Whether the logistic function turns scores into probabilities; then ``expected`` is their mean.
    """
    from scipy.special import expit

    edges = np.unique(np.quantile(scores, np.linspace(0, 1, _BINS + 1)[1:-1]))
    bins = np.searchsorted(edges, scores, side="right")
    n_bins = len(edges) + 1
    expected = expit(scores) if probabilities else None
    rows = []
    for name, group, inside in _groups(part):
        for k in range(n_bins):
            here = inside & (bins == k)
            n, hits = int(here.sum()), int(np.sum(part.y[here] == 1))
            low, high = rate_interval(hits, n) if n else (None, None)
            rows.append(
                {
                    "attribute": name,
                    "group": group,
                    "bin": k + 1,
                    "bins": n_bins,
                    "people": n,
                    "positives": hits,
                    "rate": hits / n if n else None,
                    "low": low,
                    "high": high,
                    "expected": float(expected[here].mean()) if n and expected is not None else None,
                }
            )
    return rows


def distributions(scores: Array, part: Part) -> list[dict[str, Any]]:
    """Return quantiles of the scores of every group, and of everybody first."""
    rows = []
    everybody = ("", "everybody", np.ones(len(scores), dtype=bool))
    for name, group, inside in (everybody, *_groups(part)):
        values = scores[inside]
        quantiles = [float(q) for q in np.quantile(values, QUANTILES)]
        rows.append({"attribute": name, "group": group, "people": len(values), "quantiles": quantiles})
    return rows


def _attributes(part: Part) -> list[Attribute]:
    """Return the attributes with the groups that anybody is in."""
    attributes = encode_sensitive(part.sensitive, len(part), groups=False).attributes
    return [attribute.take(np.arange(len(part))) for attribute in attributes]


def _groups(part: Part) -> list[tuple[str, str, NDArray[np.bool_]]]:
    """Return attribute, name and members of every group that anybody is in."""
    found = []
    for attribute in _attributes(part):
        assert attribute.codes is not None
        for k, category in enumerate(attribute.categories):
            found.append((attribute.name, str(category), attribute.codes == k))
    return found
