"""People whom a parameter names: by the groups they are in, by a mask or by indices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.inputs import check_container
from fairmargin.sensitive import Sensitive

__all__ = ["as_mask", "in_groups"]


def in_groups(sensitive: Sensitive, asked: Mapping[str, Any], parameter: str) -> NDArray[np.bool_]:
    """Return who is in all of the groups that ``asked`` names; ``parameter`` is what messages call it."""
    if not asked:
        raise ValueError(f"{parameter} is an empty mapping; name at least one attribute.")
    by_name = {a.name: a for a in sensitive.attributes}
    chosen = []
    for name, wanted in asked.items():
        if name not in by_name:
            known = ", ".join(map(repr, by_name))
            raise ValueError(f"{parameter} names the attribute {name!r}; the known ones are {known}.")
        attribute = by_name[name]
        if attribute.codes is None:
            kind = "numeric and has no groups" if attribute.is_numeric else "known as probabilities only"
            raise ValueError(f"{parameter} names {name!r}, which is {kind}.")
        if isinstance(wanted, np.ndarray | pd.Series | pd.Index):
            wanted = wanted.tolist()
        values = list(wanted) if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
        unknown = [value for value in values if value not in attribute.categories]
        if unknown:
            known = ", ".join(map(repr, attribute.categories))
            raise ValueError(
                f"{parameter} names the category {unknown[0]!r} of {name!r}, which does not occur; "
                f"the known ones are {known}."
            )
        chosen.append(np.isin(attribute.codes, [attribute.categories.index(value) for value in values]))
    return np.logical_and.reduce(chosen)


def as_mask(asked: Any, n: int, parameter: str) -> NDArray[np.bool_]:
    """Return a mask of n people from a mask or from indices."""
    check_container(asked, parameter)
    people = np.asarray(asked)
    if people.ndim != 1:
        raise ValueError(f"{parameter} must have one dimension, got {people.ndim}.")
    if people.dtype == bool:
        if len(people) != n:
            raise ValueError(f"{parameter} has {len(people)} entries, but there are {n} people in X.")
        return people
    mask = np.zeros(n, dtype=bool)
    if people.size == 0:
        return mask
    if not np.issubdtype(people.dtype, np.integer) or people.min() < 0 or people.max() >= n:
        raise ValueError(f"{parameter} must be a mask or indices from 0 to {n - 1}.")
    mask[people] = True
    return mask
