"""Attributes as the audit compares them: groups, their intersections, and the group named as reference."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.intersections import cross_members
from fairmargin.sensitive import Attribute, encode_sensitive

__all__ = ["intersection", "merge_small", "named_reference", "with_groups"]


def with_groups(
    sensitive_features: Any, n: int, max_groups: int, counts: NDArray[np.int64] | None = None
) -> list[tuple[Attribute, int]]:
    """Return the attributes, and how many small groups of each were put together; raise for a numeric one."""
    attributes = encode_sensitive(sensitive_features, n, groups=False).attributes
    for attribute in attributes:
        if attribute.is_numeric:
            raise ValueError(
                f"The sensitive attribute {attribute.name!r} is numeric and has no groups; cut it into some "
                "(e.g. with pandas.cut)."
            )
    return [merge_small(a, max_groups, counts) for a in attributes]


def intersection(
    sensitive_features: Any, n: int, max_groups: int, counts: NDArray[np.int64] | None = None
) -> tuple[Attribute, int]:
    """Return the groups that all attributes make together as one attribute, and how many were put together."""
    attributes = encode_sensitive(sensitive_features, n, groups=False).attributes
    if len(attributes) < 2:
        raise ValueError("Intersections need at least two sensitive attributes.")
    return merge_small(cross_members(attributes), max_groups, counts)


def merge_small(
    attribute: Attribute, max_groups: int, counts: NDArray[np.int64] | None = None
) -> tuple[Attribute, int]:
    """Put the smallest of more than ``max_groups`` groups together; return how many these are."""
    size = len(attribute.categories)
    if size <= max_groups:
        return attribute, 0
    rows = len(attribute.members()) if counts is None else len(counts)
    people = attribute.group_weights(np.ones(rows) if counts is None else counts.astype(float))
    kept = np.sort(np.argsort(-people, kind="stable")[: max_groups - 1])
    position = np.full(size, max_groups - 1)
    position[kept] = np.arange(max_groups - 1)
    merged = size - len(kept)
    categories = (*(attribute.categories[g] for g in kept), f"other ({merged} groups)")
    if attribute.probabilities is not None:
        table = attribute.probabilities
        joined = np.column_stack([table[:, kept], 1.0 - table[:, kept].sum(axis=1)])
        return Attribute(attribute.name, categories, probabilities=np.clip(joined, 0.0, 1.0)), merged
    assert attribute.codes is not None
    return Attribute(attribute.name, categories, position[attribute.codes].astype(np.intp)), merged


def named_reference(reference: Mapping[str, Any] | None, attribute: Attribute) -> str | None:
    """Return the group of an attribute that ``reference`` names, None if it names none."""
    named = (reference or {}).get(attribute.name)
    if named is None:
        return None
    groups = [str(c) for c in attribute.categories]
    if str(named) not in groups:
        near = difflib.get_close_matches(str(named), groups, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, groups[:8]))}."
        raise ValueError(f"The reference {named!r} is no group of {attribute.name!r}; {hint}")
    return str(named)
