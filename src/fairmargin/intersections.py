"""Groups crossed: the people who are in a group of one attribute and in a group of another.

Cells with few people say little and cost a constraint each. Crossed groups of fewer than ``min_people`` people are
put together into one, called "other (k groups)"; where even these are fewer than ``min_people`` together, the
smallest of the remaining groups joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.sensitive import Attribute, Sensitive

__all__ = ["BETWEEN", "SMALL_CELL", "check_intersections", "cross", "merge_small", "with_intersections"]

BETWEEN = " × "
SMALL_CELL = 30  # people below which a crossed group is merged: as in the audit, too few to conclude from


def check_intersections(intersections: Any) -> None:
    """Raise unless ``intersections`` is True, False, or a list of tuples of names."""
    if isinstance(intersections, bool | np.bool_):
        return
    valid = isinstance(intersections, list | tuple) and all(
        isinstance(pair, list | tuple) and len(pair) > 1 and all(isinstance(name, str) for name in pair)
        for pair in intersections
    )
    if not valid or not intersections:
        raise ValueError(
            "intersections must be True, False or a list of attributes to cross, e.g. [('sex', 'race')], got "
            f"{intersections!r}."
        )


def with_intersections(sensitive: Sensitive, intersections: Any, min_people: int = SMALL_CELL) -> Sensitive:
    """Return the attributes and, after them, those that cross them.

    Parameters
    ----------
    sensitive : Sensitive
    intersections : bool or list of tuples of names
        True crosses all attributes with groups; a list names which to cross.
    min_people : int
        Size under which a crossed group is merged.
    """
    check_intersections(intersections)
    if isinstance(intersections, bool | np.bool_):
        if not intersections:
            return sensitive
        chosen = [tuple(a.name for a in sensitive.attributes if a.codes is not None)]
    else:
        chosen = [tuple(pair) for pair in intersections]
    crossed = [merge_small(cross(_named(sensitive, names)), min_people) for names in chosen]
    return Sensitive((*sensitive.attributes, *crossed))


def _named(sensitive: Sensitive, names: Sequence[str]) -> list[Attribute]:
    by_name = {a.name: a for a in sensitive.attributes}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ValueError(
            f"intersections names {unknown[0]!r}, which is no sensitive attribute; there are "
            f"{', '.join(map(repr, by_name))}."
        )
    if len(set(names)) < 2:
        raise ValueError("Intersections need at least two sensitive attributes with groups.")
    return [by_name[name] for name in names]


def cross(attributes: Sequence[Attribute]) -> Attribute:
    """Return the attribute whose groups are the combinations of groups that occur."""
    code = np.zeros(len(_codes(attributes[0])), dtype=np.int64)
    for a in attributes:
        code = code * len(a.categories) + _codes(a)
    present, codes = np.unique(code, return_inverse=True)
    categories = []
    for value in present.tolist():
        parts = []
        for a in reversed(attributes):
            value, part = divmod(value, len(a.categories))
            parts.append(str(a.categories[part]))
        categories.append(BETWEEN.join(reversed(parts)))
    return Attribute(BETWEEN.join(a.name for a in attributes), tuple(categories), codes.astype(np.intp))


def merge_small(attribute: Attribute, min_people: int) -> Attribute:
    """Return the attribute with its groups of fewer than ``min_people`` people put together."""
    codes = _codes(attribute)
    people = np.bincount(codes, minlength=len(attribute.categories))
    order = np.argsort(people, kind="stable")
    merged = int(np.count_nonzero(people < min_people))
    if merged == 0:
        return attribute
    if people[order[:merged]].sum() < min_people:
        merged += 1
    kept = np.sort(order[merged:])
    if len(kept) == 0:
        raise ValueError(
            f"The crossed groups of {attribute.name!r} have fewer than {min_people} people each: nothing is left to "
            "compare. Cross fewer attributes, or merge groups first."
        )
    position = np.full(len(people), len(kept))
    position[kept] = np.arange(len(kept))
    categories = (*(attribute.categories[k] for k in kept), f"other ({merged} groups)")
    return Attribute(attribute.name, categories, position[codes].astype(np.intp))


def _codes(attribute: Attribute) -> NDArray[np.intp]:
    if attribute.codes is None:
        raise ValueError(
            f"The attribute {attribute.name!r} has no groups of single people to cross; give one group for each "
            "person (bin numbers, e.g. with pandas.cut)."
        )
    return attribute.codes
