"""Fitted attributes as plain JSON data, and back; nothing that is read is executed.

What JSON does not have (arrays, tuples, infinite numbers, the package's own records) is written as a dict whose first
key begins with a dollar sign.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from fairmargin.constraints import Constraint
from fairmargin.exceptions import ModelFileError
from fairmargin.trusted_types import package_subclasses

__all__ = ["from_plain", "parse_json", "to_plain"]

_RECORDS = {
    "Certificate": "fairmargin.problem",
    "ConstraintRecord": "fairmargin.formulations.several.record",
    "GroupRecord": "fairmargin.guarantee.record",
    "Guarantee": "fairmargin.guarantee.record",
    "Movement": "fairmargin.diagnostics",
    "Necessity": "fairmargin.formulations.necessity",
}
_KINDS = {"b": bool, "i": np.int64, "u": np.int64, "f": np.float64, "U": str, "O": object}


def parse_json(text: str) -> Any:
    """Return the data of a JSON text; raise ValueError for names given twice and numbers that are not finite."""
    return json.loads(text, object_pairs_hook=_distinct, parse_constant=_not_a_number, parse_float=_finite)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has the name {twice!r} twice")
    return found


def _not_a_number(text: str) -> float:
    raise ValueError(f"it has the number {text}")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value


def to_plain(value: Any) -> Any:
    """Return a value as JSON data; raise ModelFileError where there is no way to write it."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return to_plain(value.item())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$number": str(value)}
    if isinstance(value, np.ndarray):
        return {"$array": to_plain(value.tolist()), "kind": _array_kind(value)}
    if isinstance(value, list):
        return [to_plain(v) for v in value]
    if isinstance(value, tuple):
        return {"$tuple": [to_plain(v) for v in value]}
    if isinstance(value, Mapping):
        return _mapping_to_plain(value)
    return _object_to_plain(value)


def _mapping_to_plain(value: Mapping[Any, Any]) -> dict[str, Any]:
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {key: to_plain(v) for key, v in value.items()}
    return {"$pairs": [[to_plain(k), to_plain(v)] for k, v in value.items()]}


def _object_to_plain(value: Any) -> dict[str, Any]:
    if sp.issparse(value):
        rows = value.tocsr()
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": list(rows.shape)}
        return {"$sparse": to_plain(parts)}
    if isinstance(value, pd.Series):
        index = value.index
        names = [None if n is None else str(n) for n in index.names]
        return {"$series": to_plain(value.tolist()), "index": to_plain(index.tolist()), "names": names}
    if isinstance(value, type) and value in _constraints().values():
        return {"$constraint": value.__name__}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        kind = "$constraint" if name in _constraints() else "$record" if name in _RECORDS else None
        if kind is not None:
            fields = {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
            return {kind: name, "fields": fields}
    raise ModelFileError(f"A model with {type(value).__name__} in it cannot be saved as plain data.")


def _constraints() -> dict[str, type]:
    """Return the constraints of :mod:`fairmargin.constraints` by name: what a file may ask for."""
    import_module("fairmargin.formulations")  # and with it every constraint
    found = package_subclasses(Constraint)  # those for regressions, too, if they are imported
    return {cls.__name__: cls for cls in found if cls.__module__.startswith("fairmargin.constraints.")}


def _array_kind(array: np.ndarray) -> str:
    kind = array.dtype.kind
    if kind not in _KINDS:
        raise ModelFileError(f"An array of {array.dtype} cannot be saved as plain data.")
    return kind


def from_plain(plain: Any) -> Any:
    """Return the value that :func:`to_plain` wrote."""
    if isinstance(plain, list):
        return [from_plain(v) for v in plain]
    if not isinstance(plain, dict):
        return plain
    mark = next((key for key in plain if key.startswith("$")), None)
    if mark is None:
        return {key: from_plain(v) for key, v in plain.items()}
    if mark not in _READERS:
        raise ValueError(f"it has an unknown mark {mark!r}")
    return _READERS[mark](plain[mark], plain)


def _array(value: Any, plain: Mapping[str, Any]) -> Any:
    return np.array(from_plain(value), dtype=_KINDS[plain["kind"]])


def _pairs(value: Any, plain: Mapping[str, Any]) -> Any:
    return {from_plain(k): from_plain(v) for k, v in value}


def _sparse(value: Any, plain: Mapping[str, Any]) -> Any:
    parts = from_plain(value)
    rows = sp.csr_matrix((parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"]))
    rows.check_format(full_check=True)  # an index out of bounds would read memory of others
    return rows


def _series(value: Any, plain: Mapping[str, Any]) -> Any:
    values, index, names = from_plain(value), from_plain(plain["index"]), plain["names"]
    if len(names) > 1:
        return pd.Series(values, index=pd.MultiIndex.from_tuples(index, names=names), dtype=float)
    return pd.Series(values, index=pd.Index(index, name=names[0]))


def _constraint(value: Any, plain: Mapping[str, Any]) -> Any:
    known = _constraints()
    if value not in known:
        raise ValueError(f"it has an unknown constraint {value!r}")
    cls = known[value]
    return cls(**from_plain(plain["fields"])) if "fields" in plain else cls


def _record(value: Any, plain: Mapping[str, Any]) -> Any:
    if value not in _RECORDS:
        raise ValueError(f"it has an unknown record {value!r}")
    cls = getattr(import_module(_RECORDS[value]), value)
    known = {f.name for f in dataclasses.fields(cls)}
    return cls(**{k: v for k, v in from_plain(plain["fields"]).items() if k in known})


_READERS: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "$number": lambda value, plain: float(value),
    "$array": _array,
    "$tuple": lambda value, plain: tuple(from_plain(value)),
    "$pairs": _pairs,
    "$sparse": _sparse,
    "$series": _series,
    "$constraint": _constraint,
    "$record": _record,
}
