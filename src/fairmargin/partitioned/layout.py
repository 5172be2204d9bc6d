"""Which columns play which part: features, target, weight and sensitive attributes, by the types of the columns."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fairmargin.exceptions import DataError
from fairmargin.partitioned.arrow import is_category_type, is_date_type, is_number_type

__all__ = ["Layout", "make_layout"]


@dataclass(frozen=True)
class Layout:
    """The parts that columns play; small and picklable, since every task carries it.

    Attributes
    ----------
    numbers, categories : tuples of str
        Features, in the order of ``features``.
    features : tuple of str
    target : str
    weight : str or None
    groups, measures : tuples of str
        Sensitive attributes: of groups, and numbers.
    sensitive : tuple of str
        All of them, in the order given.
    notes : tuple of str
        What was left out, and why.
    """

    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    features: tuple[str, ...]
    target: str
    weight: str | None
    groups: tuple[str, ...]
    measures: tuple[str, ...]
    sensitive: tuple[str, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def columns(self) -> list[str]:
        """All columns that a pass over the data with labels and groups reads."""
        more = [self.target, *([] if self.weight is None else [self.weight]), *self.sensitive]
        return list(dict.fromkeys([*self.features, *more]))


def make_layout(
    schema: pa.Schema,
    *,
    target: str,
    sensitive: Sequence[str] = (),
    weight: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> Layout:
    """Return the layout of a schema; raise where a column does not exist or plays two parts."""
    sensitive = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    weights = [] if weight is None else [weight]
    roles: dict[str, Sequence[str]] = {"target column": [target], "sensitive column": sensitive}
    roles |= {"weight column": weights, "feature": features or ()}
    roles |= {"column to exclude": exclude, "categorical column": categorical}
    for role, names in roles.items():
        for name in names:
            _check_exists(schema, name, role)
    chosen = _choose(schema, [target, *sensitive, *weights], features, exclude)
    kinds = {name: _kind(schema.field(name).type, name, name in categorical) for name in chosen}
    notes = [
        f"{name!r} holds dates and was left out; turn it into numbers to use it."
        for name in chosen
        if not kinds[name]
    ]
    kept = tuple(name for name in chosen if kinds[name])
    if not kept:
        raise DataError("No column is left to be a feature.", field="features")
    measures = tuple(
        name for name in sensitive if is_number_type(schema.field(name).type) and name not in categorical
    )
    return Layout(
        tuple(name for name in kept if kinds[name] == "number"),
        tuple(name for name in kept if kinds[name] == "category"),
        kept,
        target,
        weight,
        tuple(name for name in sensitive if name not in measures),
        measures,
        sensitive,
        tuple(notes),
    )


def _choose(
    schema: pa.Schema, taken: Sequence[str], features: Sequence[str] | None, exclude: Sequence[str]
) -> list[str]:
    """Return the columns that may be features: those asked for, or else all that play no other part."""
    if len(set(taken)) < len(taken):
        raise DataError("Target, weight and sensitive columns must be different columns.", field="sensitive")
    for name in features or ():
        if name in taken:
            raise DataError(
                f"The column {name!r} cannot be a feature and the target, the weight or sensitive at once.",
                field="features",
            )
    chosen = [name for name in schema.names if name not in taken] if features is None else features
    return [name for name in dict.fromkeys(chosen) if name not in exclude]


def _kind(kind: pa.DataType, name: str, is_category: bool) -> str:
    """Return "number", "category", or nothing for dates, which are left out."""
    if is_category or is_category_type(kind):
        return "category"
    if is_number_type(kind):
        return "number"
    if is_date_type(kind):
        return ""
    raise DataError(
        f"The column {name!r} of type {kind} holds neither numbers nor categories; exclude it.",
        field="exclude",
        suggestion=name,
    )


def _check_exists(schema: pa.Schema, name: str, role: str) -> None:
    if name in schema.names:
        return
    near = difflib.get_close_matches(name, schema.names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the columns are {', '.join(schema.names[:12])}."
    raise DataError(f"There is no {role} {name!r}; {hint}")
