"""Business necessity, refuted or not: which covariance no classifier within a bound on the loss can fall below.

A proof comes with every solution of ``min L s.t. |cov_k| <= b_k``: its multipliers ``nu`` and dual bound ``D`` give,
for *every* classifier, ``L >= D + sum_k |nu_k| (b_k - |cov_k|)``. Whoever stays within ``L <= (1 + gamma) L*``
therefore has ``sum_k |nu_k| |cov_k| >= sum_k |nu_k| b_k - ((1 + gamma) L* - D)``. It is a statement about training
losses and covariances of scores, not about decisions and not about other people. (Without a penalty, ``C = inf``, the
dual bound and so the statement hold within the radius that the certificate names.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Necessity", "prove_necessity"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Necessity:
    """What a bound on the loss makes necessary.

    Attributes
    ----------
    gamma : float
        Of the bound on the loss.
    norm : {"max", "sum"}
        How covariances are put together, each relative to ``unit``.
    least : float
        No classifier within the bound has a smaller norm of the covariances, by the dual bound; 0 where nothing is
        proved.
    attained : float
        The norm of the classifier returned.
    columns : tuple of (attribute, category, unit)
        The covariance of each counted column by which it is measured.
    kind : str
        What was learned, in the words of the statement.
    """

    gamma: float
    norm: str
    least: float
    attained: float
    columns: tuple[tuple[str, str, float], ...]
    kind: str = "classifier"

    @property
    def statement(self) -> str:
        """The proof, or that there is none, in words for readers."""
        within = f"within {100 * self.gamma:g}% of the best training loss"
        limits = "This is about losses and score gaps of the people trained on, not about decisions or other people."
        if self.least <= 0.0:
            return f"Not refuted: a {self.kind} of this kind {within} may have no covariance at all. {limits}"
        if self.norm == "sum" and len(self.columns) > 1:
            what = f"add up to less than {self.least:.4g} (this one's: {self.attained:.4g})"
            return f"Proved: of no {self.kind} of this kind {within} the relative covariances {what}. {limits}"
        each = [f"{self.least * unit:.4g} with {name} = {category}" for name, category, unit in self.columns]
        what = each[0] if len(each) == 1 else f"all of these at once: {', '.join(each)}"
        times = f"{self.attained / self.least:.4g}"
        share = "which this one attains" if times == "1" else f"this one has {times} times that"
        return f"Proved: no {self.kind} of this kind {within} has a covariance below {what} ({share}). {limits}"


def prove_necessity(
    gamma: float,
    norm: str,
    labels: Sequence[tuple[Any, ...]],
    unit: Array,
    covariance: Array,
    bound: Array,
    multipliers: Array,
    missing: float,
) -> Necessity:
    """Return what the multipliers of a solution prove.

    Parameters
    ----------
    gamma, norm
        As in :class:`fairmargin.LossBound`.
    labels : list of (attribute, category) or (attribute, category, condition)
        Of the K columns.
    unit : (K,)
        By which covariances are measured; infinite for columns that do not count.
    covariance : (K,)
        Of the classifier returned.
    bound : (K,)
        Bounds on the covariances that the solution was solved with.
    multipliers : (K,)
    missing : float
        ``(1 + gamma) L* - D``: the part of the bound on the loss that the proof does not cover.
    """
    counted = np.isfinite(unit)
    relative = np.abs(covariance[counted]) / unit[counted]
    weight = np.abs(multipliers[counted]) * unit[counted]
    pull = float(weight @ (bound[counted] / unit[counted])) - max(missing, 0.0)
    scale = float(weight.max(initial=0.0) if norm == "sum" else weight.sum())
    least = max(pull / scale, 0.0) if scale > 0.0 else 0.0
    attained = float(relative.sum() if norm == "sum" else relative.max(initial=0.0))
    words = [(str(name), " | ".join(map(str, category))) for name, *category in labels]
    named = [(*word, float(u)) for word, u in zip(words, unit, strict=True)]
    columns = tuple(column for column, counts in zip(named, counted, strict=True) if counts)
    return Necessity(float(gamma), norm, min(least, attained), attained, columns)
