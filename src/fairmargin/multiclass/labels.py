"""Labels of several classes: checked, coded and weighted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from fairmargin.multiclass.task import ClassData
from fairmargin.strata import strata_to_fit
from fairmargin.tolerances import HAIR, ROUNDING
from fairmargin.validation import ONE_AT_A_TIME, People

__all__ = ["class_data", "class_weights", "decide", "favourable_classes", "read_labels"]

Array = NDArray[np.float64]


def read_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes in sorted order and the code of each label."""
    codes, found = pd.factorize(y)  # hashing: sorting 50,000 texts would take as long as the fit
    are_texts = y.dtype.kind in "OUS" and all(isinstance(label, str) for label in found)
    if not are_texts and y.dtype.kind not in "biu":
        with ONE_AT_A_TIME:
            check_classification_targets(y)
    order = np.argsort(found)
    classes = np.asarray(found)[order]
    codes = np.argsort(order)[codes]
    if len(classes) < 2:
        raise ValueError(
            f"y has only one class ({classes.tolist()[0]!r}); a classifier needs two classes to learn from."
        )
    return classes, codes.astype(np.intp)


def decide(scores: Array) -> NDArray[np.intp]:
    """Return the class that scores decide for: of (n, Q) the highest, of (n,) the second where a score is at least 0.

    Of scores that are equal up to rounding, which differs from machine to machine, the earlier class is decided (the
    second of two). Where constraints leave nothing else, all scores are.
    """
    if scores.ndim == 1:
        return (scores >= -ROUNDING).astype(np.intp)
    room = HAIR * np.abs(scores).max(axis=1) + ROUNDING
    return np.argmax(scores >= (scores.max(axis=1) - room)[:, None], axis=1)


def favourable_classes(favourable: Any, classes: NDArray[Any]) -> tuple[int, ...]:
    """Return the indices of the favourable classes: those named, a single label or several, or all."""
    labels = classes.tolist()
    if favourable is None:
        return tuple(range(len(labels)))
    named = [favourable] if np.ndim(favourable) == 0 else list(favourable)
    if not named:
        raise ValueError("favourable is empty; name at least one class, or None for all.")
    unknown = [label for label in named if label not in labels]
    if unknown:
        known = ", ".join(map(repr, labels))
        raise ValueError(f"favourable names {unknown[0]!r}, which is not among the classes; they are {known}.")
    return tuple(sorted({labels.index(label) for label in named}))


def class_data(people: People, class_weight: Any, favourable: Any, strata: Any = None) -> ClassData:
    """Return checked people with their labels coded, their loss weighted by class, and their strata."""
    classes, codes = people.y
    codes = codes[people.kept]
    present = np.bincount(codes, minlength=len(classes)) > 0
    if not np.all(present):
        absent = classes[~present].tolist()[0]
        raise ValueError(
            f"Nobody with a positive weight has class {absent!r}; leave out its people, or give them weight."
        )
    factors = class_weights(class_weight, classes, codes, people.weight)
    weight = people.weight * factors[codes]
    named, within = favourable_classes(favourable, classes), strata_to_fit(strata, people)
    return ClassData(people.X, codes, classes, people.weight, weight, people.sensitive, named, within)


def class_weights(class_weight: Any, classes: NDArray[Any], codes: NDArray[np.intp], weight: Array) -> Array:
    """Return the factor of each class, (Q,)."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":  # by weight: copies count as their weight does
        return weight.sum() / (len(classes) * np.bincount(codes, weights=weight, minlength=len(classes)))
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight must be None, 'balanced' or a mapping from class to factor, got {class_weight!r}."
        )
    factors = compute_class_weight(class_weight, classes=classes, y=classes[codes])
    if np.any(factors <= 0) or not np.all(np.isfinite(factors)):
        raise ValueError(f"class_weight must be positive for every class, got {class_weight!r}.")
    return np.asarray(factors, dtype=float)
