"""Groups crossed: the people who are in a group of one attribute and in a group of another.

Cells with few people say little and cost a constraint each. Crossed groups of fewer than ``min_people`` people are
put together into one, called "other (k groups)"; where even these are fewer than ``min_people`` together, the
smallest of the remaining groups joins them. :func:`cross_groups` gives the result as columns for training.

An attribute that is known as probabilities is crossed with known ones exactly: the probability of a cell is that of
the group for the people who are in the cell's other groups, and zero for all others. How likely the combinations of
two such attributes are does not follow from the probabilities of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.frames import in_library_of
from fairmargin.inputs import check_same_order
from fairmargin.membership import Membership
from fairmargin.sensitive import Attribute, Sensitive, encode_sensitive, read_columns
from fairmargin.validation import check_count

__all__ = [
    "SMALL_CELL",
    "check_intersections",
    "cross",
    "cross_groups",
    "cross_members",
    "merge_small",
    "with_intersections",
]

_BETWEEN = " × "
SMALL_CELL = 30  # people below which a crossed group is merged: as in the audit, too few to conclude from


def cross_groups(sensitive_features: Any, intersections: Any = True, *, min_people: int = SMALL_CELL) -> Any:
    """Return sensitive attributes and, after them, crossed ones, to be given as ``sensitive_features``.

    A constraint on ``sex`` and on ``race`` bounds neither what happens to black women nor to white men. With the
    columns returned here it does, in every estimator, frontier and metric.

    Crossed groups of fewer than ``min_people`` people are put together into one, ``"other (k groups)"``. Where even
    these are fewer than ``min_people`` together, the smallest of the remaining groups joins them. People are counted
    once each, whatever their weights. Cross before people are divided into training and test sets, so that both have
    the same groups; labels are not used.

    Parameters
    ----------
    sensitive_features : array, mapping, series or frame of shape (n, k)
        At least two attributes with groups; numeric attributes are returned as they are. One of those that are
        crossed may be known as probabilities (:class:`fairmargin.Membership`).
    intersections : True or list of tuples of names, default=True
        True crosses all attributes with groups at once; a list says which to cross, e.g.
        ``[("sex", "race"), ("sex", "age")]``.
    min_people : int, default=30
        Size under which a crossed group is merged; 1 merges none.

    Returns
    -------
    pandas.DataFrame or dict
        The columns given and a categorical column for each crossed attribute, ``"sex × race"``, with the index
        given; for polars or pyarrow frames, a frame of that library. With an attribute that is known as
        probabilities, a dict of columns and of :class:`fairmargin.Membership`.

    See Also
    --------
    p_rule : Takes ``intersections`` itself, as the other metrics do.

    Examples
    --------
    >>> import pandas as pd
    >>> from fairmargin import cross_groups
    >>> people = pd.DataFrame({"sex": list("fmfmfm") * 10, "race": list("aaabbb") * 10})
    >>> cross_groups(people, min_people=20)["sex × race"].value_counts(sort=False).to_dict()
    {'f × a': 20, 'm × b': 20, 'other (2 groups)': 20}
    """
    check_count(min_people, "min_people")
    check_same_order(sensitive_features=sensitive_features)
    given = read_columns(sensitive_features)
    lengths = {name: len(column) for name, column in given}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The sensitive attributes have different numbers of people: {lengths}.")
    sensitive = with_intersections(encode_sensitive(sensitive_features, groups=False), intersections, min_people)
    columns: dict[str, Any] = {name: getattr(column, "array", column) for name, column in given}
    for a in sensitive.attributes[len(given) :]:
        if a.probabilities is not None:
            columns[a.name] = Membership(a.probabilities, groups=a.categories, name=a.name)
        else:
            columns[a.name] = pd.Categorical.from_codes(_codes(a), categories=pd.Index(a.categories))
    if any(isinstance(column, Membership) for column in columns.values()):
        return columns
    index = sensitive_features.index if isinstance(sensitive_features, pd.DataFrame) else None
    return in_library_of(sensitive_features, pd.DataFrame(columns, index=index))


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
        True crosses all attributes with groups, without those known as probabilities if there are several of these;
        a list names which to cross.
    min_people : int
        Size under which a crossed group is merged.
    """
    check_intersections(intersections)
    if isinstance(intersections, bool | np.bool_):
        if not intersections:
            return sensitive
        grouped = [a for a in sensitive.attributes if not a.is_numeric]
        known = [a for a in grouped if a.probabilities is None]
        is_one_unsure = len(grouped) - len(known) < 2
        chosen = [tuple(a.name for a in (grouped if is_one_unsure or len(known) < 2 else known))]
    else:
        chosen = [tuple(pair) for pair in intersections]
    crossed = [merge_small(cross_members(_named(sensitive, names)), min_people) for names in chosen]
    names = [a.name for a in (*sensitive.attributes, *crossed)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"The attribute {twice!r} would be there twice; cross the same attributes once.")
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
    if len(set(names)) < len(names):
        raise ValueError(f"intersections names an attribute twice in {tuple(names)!r}.")
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
        categories.append(_BETWEEN.join(reversed(parts)))
    return Attribute(_BETWEEN.join(a.name for a in attributes), tuple(categories), codes.astype(np.intp))


def cross_members(attributes: Sequence[Attribute]) -> Attribute:
    """Return the combinations of groups that occur, as probabilities where one attribute is known as these only."""
    unsure = [a.name for a in attributes if a.probabilities is not None]
    if not unsure:
        return cross(attributes)
    if len(unsure) > 1:
        raise ValueError(
            f"The sensitive attributes {unsure[0]!r} and {unsure[1]!r} are both known as probabilities only, from "
            "which those of their combinations do not follow; give a Membership of the combinations, or cross one of "
            "them at a time."
        )
    n_people = [len(_codes(a)) for a in attributes if a.probabilities is None]  # numbers are refused
    table = np.ones((n_people[0], 1))
    for a in attributes:
        table = (table[:, :, None] * a.members()[:, None, :]).reshape(len(table), -1)
    cells = [_BETWEEN.join(map(str, cell)) for cell in product(*(a.categories for a in attributes))]
    found = np.flatnonzero(table.any(axis=0))
    name = _BETWEEN.join(a.name for a in attributes)
    return Attribute(name, tuple(cells[k] for k in found), probabilities=table[:, found])


def merge_small(attribute: Attribute, min_people: int) -> Attribute:
    """Return the attribute with its groups of fewer than ``min_people`` (expected) people put together."""
    table = attribute.probabilities
    people = attribute.group_weights(np.ones(len(_codes(attribute) if table is None else table)))
    order = np.argsort(people, kind="stable")
    merged = int(np.count_nonzero(people < min_people))
    if merged == 0:
        return attribute
    if people[order[:merged]].sum() < min_people:
        merged += 1
    kept = np.sort(order[merged:])
    if len(kept) == 0:
        raise ValueError(
            f"The crossed groups of {attribute.name!r} cannot be merged into two of at least {min_people} people; "
            "cross fewer attributes, or merge groups first."
        )
    position = np.full(len(people), len(kept))
    position[kept] = np.arange(len(kept))
    categories = (*(attribute.categories[k] for k in kept), f"other ({merged} groups)")
    if table is not None:
        joined = np.column_stack([table[:, kept], table[:, order[:merged]].sum(axis=1)])
        return Attribute(attribute.name, categories, probabilities=joined)
    return Attribute(attribute.name, categories, position[_codes(attribute)].astype(np.intp))


def _codes(attribute: Attribute) -> NDArray[np.intp]:
    if attribute.codes is None:
        raise ValueError(
            f"The attribute {attribute.name!r} has no groups of single people to cross; give one group for each "
            "person (bin numbers, e.g. with pandas.cut)."
        )
    return attribute.codes
