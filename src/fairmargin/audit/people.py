"""The people of an audit: what is known of each, checked, and without those who do not count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.audit.scores import check_scores
from fairmargin.inputs import check_container, check_labels, check_same_order
from fairmargin.membership import Membership
from fairmargin.notions import Condition, Notion
from fairmargin.sensitive import Sensitive, encode_groups, encode_sensitive, read_columns
from fairmargin.validation import validate_weights

__all__ = ["People"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_UNSURE = (
    "The groups of {name!r} are known as probabilities only: counts are expected ones, and intervals and tests "
    "include what not knowing the groups adds."
)


@dataclass(frozen=True)
class People:
    """Decisions on n people and what else is known of them; None for what is not.

    ``weight`` is None where weights do not differ. ``label`` is False where ``known`` is. ``counts`` are the people
    that each row stands for, None where that is one.
    """

    positive: Mask
    sensitive: Any
    label: Mask | None = None
    known: Mask | None = None
    weight: Array | None = None
    scores: Array | None = None
    strata: Any = None
    features: Any = None
    notes: tuple[str, ...] = ()
    counts: NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls,
        decisions: Any,
        pos_label: Any,
        sensitive_features: Any,
        y_true: Any = None,
        sample_weight: Any = None,
        scores: Any = None,
        strata: Any = None,
        features: pd.DataFrame | None = None,
        counts: Any = None,
    ) -> People:
        """Check what :func:`fairmargin.audit.audit` was given; people of weight zero are left out."""
        check_same_order(
            decisions=decisions,
            sensitive_features=sensitive_features,
            y_true=y_true,
            sample_weight=sample_weight,
            scores=scores,
            strata=strata,
            features=features,
            counts=counts,
        )
        positive = _accepted(decisions, pos_label)
        n = len(positive)
        unsure = [str(name) for name, column in read_columns(sensitive_features) if isinstance(column, Membership)]
        _refuse_unsure(unsure, features)
        notes = tuple(_UNSURE.format(name=name) for name in unsure)
        label, known = (None, None) if y_true is None else _labels(y_true, pos_label, n)
        values = None if scores is None else check_scores(scores, n)
        people = cls(positive, sensitive_features, label, known, None, values, strata, features, notes)
        if counts is not None:
            if not (sample_weight is None and scores is None and features is None):
                raise ValueError(
                    "counts stand for many people each, of whom weights, scores and features may differ."
                )
            return replace(people, counts=_counts(counts, n))
        return people if sample_weight is None else people._weighted(_weights(sample_weight, n))

    def _weighted(self, weight: Array) -> People:
        """Return those who count, with their weights."""
        counted = weight > 0
        if self.strata is not None and np.ptp(weight[counted]) > 0:
            raise ValueError("Strata are pooled without weights; leave out sample_weight or strata.")
        people = replace(self, weight=weight)
        return people._equal_weights() if counted.all() else people._among(counted)._equal_weights()

    def conditions(self, notion: Notion) -> tuple[Condition, ...]:
        """Return among whom a notion compares groups; people without a label do not count where it needs labels."""
        if not notion.needs_labels:
            return notion.conditions(np.ones(len(self.positive)))
        if self.label is None or self.known is None:
            raise ValueError(f"The notion {notion.name!r} compares {notion.people}: give the labels y_true, too.")
        found = notion.conditions(np.where(self.label, 1.0, -1.0))
        return tuple(replace(condition, counts=condition.counts & self.known) for condition in found)

    def among(self, counts: Mask) -> NDArray[np.int64] | None:
        """Return how many people each row stands for if only some count; None where everybody counts once."""
        if counts.all():
            return self.counts
        return np.where(counts, 1 if self.counts is None else self.counts, 0).astype(np.int64)

    def number(self, who: Mask) -> int:
        """Return how many people some rows stand for."""
        return int(who.sum() if self.counts is None else self.counts[who].sum())

    def _equal_weights(self) -> People:
        """Forget weights that do not differ."""
        assert self.weight is not None
        if np.ptp(self.weight) > 0.0:
            return self
        return People(**{**vars(self), "weight": None})

    def _among(self, counted: Mask) -> People:
        """Leave out the people who do not count, and say how many they are."""
        n, left_out = len(counted), int((~counted).sum())
        rows = np.flatnonzero(counted)
        kept: dict[str, Any] = {
            name: None if value is None else value[counted]
            for name, value in vars(self).items()
            if name in ("positive", "label", "known", "weight", "scores")
        }
        kept["sensitive"] = _words(encode_sensitive(self.sensitive, n, groups=False).take(rows))
        kept["strata"] = None
        if self.strata is not None:
            strata = Sensitive(tuple(encode_groups(self.strata, n, "strata", many=True)))
            kept["strata"] = _words(strata.take(rows))
        kept["features"] = None if self.features is None else self.features[counted].reset_index(drop=True)
        who = "person of weight zero was" if left_out == 1 else "people of weight zero were"
        return People(**kept, notes=(*self.notes, f"{left_out:,} {who} left out."))


def _accepted(decisions: Any, pos_label: Any) -> Mask:
    """Return who has the positive decision."""
    check_labels(decisions, "decisions")
    positive = (np.asarray(decisions) == pos_label).ravel()
    if not positive.any() and not isinstance(pos_label, str):
        _refuse_text(decisions, pos_label)
    if len(positive) == 0:
        raise ValueError("There are no decisions to audit.")
    return positive


def _refuse_unsure(unsure: list[str], features: pd.DataFrame | None) -> None:
    """Raise where an attribute is known as probabilities only and is to be looked for in features."""
    if unsure and features is not None:
        raise ValueError(
            f"The sensitive attribute {unsure[0]!r} is known as probabilities only, and a search for proxies and "
            "rules among features sorts single people into groups; leave out features."
        )


def _words(sensitive: Sensitive) -> dict[str, Any]:
    """Return attributes as they were given; numeric ones stay numbers."""
    columns: dict[str, Any] = {}
    for a in sensitive.attributes:
        if a.probabilities is not None:
            columns[a.name] = Membership(a.probabilities, groups=[str(c) for c in a.categories], name=a.name)
        elif a.codes is None:
            columns[a.name] = a.values
        else:
            columns[a.name] = np.array([str(c) for c in a.categories], dtype=object)[a.codes]
    return columns


def _labels(y_true: Any, pos_label: Any, n: int) -> tuple[Mask, Mask]:
    check_container(y_true, "y_true")
    values = np.asarray(y_true).ravel()
    if len(values) != n:
        raise ValueError(f"There are {len(values):,} labels in y_true for {n:,} decisions.")
    known = ~pd.isna(values)
    label = np.asarray(values == pos_label, dtype=bool) & known
    if not known.any():
        raise ValueError("No label in y_true is known: leave it out.")
    return label, known


def _weights(sample_weight: Any, n: int) -> Array:
    check_container(sample_weight, "sample_weight")
    return validate_weights(sample_weight, np.empty((n, 1)))


def _refuse_text(decisions: Any, pos_label: Any) -> None:
    """Raise an error for decisions in words of which none can be the favourable one."""
    words = sorted({value for value in np.asarray(decisions, dtype=object).ravel() if isinstance(value, str)})
    if words:
        listed = ", ".join(map(repr, words[:6])) + (", ..." if len(words) > 6 else "")
        raise ValueError(
            f"No decision is {pos_label!r}, the favourable one by default: give pos_label, one of {listed}."
        )


def _counts(counts: Any, n: int) -> NDArray[np.int64]:
    check_container(counts, "counts")
    values = np.asarray(counts).ravel()
    if len(values) != n:
        raise ValueError(f"There are {len(values):,} counts for {n:,} decisions.")
    if values.dtype.kind not in "iu" or (values < 1).any():
        raise ValueError("counts must be whole numbers of at least 1.")
    return values.astype(np.int64)
