"""Which columns play which part: features, target, weight and sensitive attributes, by the types of the columns."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fairmargin.exceptions import DataError
from fairmargin.partitioned.arrow import check_tells_groups, is_category_type, is_date_type, is_number_type

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
    _check_roles(schema, roles)
    by_kind: dict[str, list[str]] = {"number": [], "category": [], "date": [], "nothing": []}
    chosen = _choose(schema, [target, *sensitive, *weights], features, exclude)
    for name in chosen:
        by_kind[_kind(schema.field(name).type, name, name in categorical)].append(name)
    kept = tuple(name for name in chosen if name not in by_kind["date"] + by_kind["nothing"])
    if not kept:
        raise DataError("No column is left to be a feature.", field="features")
    measures = tuple(
        name for name in sensitive if is_number_type(schema.field(name).type) and name not in categorical
    )
    return Layout(
        tuple(by_kind["number"]),
        tuple(by_kind["category"]),
        kept,
        target,
        weight,
        tuple(name for name in sensitive if name not in measures),
        measures,
        sensitive,
        _notes(by_kind),
    )


def _check_roles(schema: pa.Schema, roles: Mapping[str, Sequence[str]]) -> None:
    """Raise for a column that does not exist, or whose values cannot play its part."""
    for role, names in roles.items():
        for name in names:
            _check_exists(schema, name, role)
    for part in ("target", "sensitive"):
        for name in roles[f"{part} column"]:
            check_tells_groups(schema, name, part)
    for name in roles["weight column"]:
        _check_holds_numbers(schema.field(name).type, name)


def _notes(by_kind: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return what to say of the columns that are left out."""
    dates = (f"{name!r} holds dates and was left out; turn it into numbers to use it." for name in by_kind["date"])
    return (*dates, *(f"{name!r} has no values and was left out." for name in by_kind["nothing"]))


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
    """Return "number", "category", "date", or "nothing" where no file has a value."""
    if pa.types.is_null(kind):
        return "nothing"
    if is_category or is_category_type(kind):
        return "category"
    if is_number_type(kind):
        return "number"
    if is_date_type(kind):
        return "date"
    raise DataError(
        f"The column {name!r} of type {kind} holds neither numbers nor categories; exclude it.",
        field="exclude",
        suggestion=name,
    )


def _check_holds_numbers(kind: pa.DataType, name: str) -> None:
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (is_number_type(values) or pa.types.is_boolean(values) or pa.types.is_null(values)):
        raise DataError(f"The weight column {name!r} does not hold numbers.", field="weight")


def _check_exists(schema: pa.Schema, name: str, role: str) -> None:
    if name in schema.names:
        return
    near = difflib.get_close_matches(name, schema.names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the columns are {', '.join(schema.names[:12])}."
    raise DataError(f"There is no {role} {name!r}; {hint}")
