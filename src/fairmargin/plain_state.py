"""Fitted estimators whose saved state is plain: arrays, lists and texts in place of pandas objects.

``pickle`` writes anything; formats that are safe to load, such as that of skops, know arrays and containers but not
the blocks of a pandas Series. An estimator with :class:`PlainState` among its bases hands over its fitted Series and
frames as dicts of arrays and gets them back as they were. In memory nothing changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["PlainState"]

_SERIES, _FRAME = "fairmargin series", "fairmargin frame"  # marks of what a dict stands for
_MARK = "stands for"


class PlainState:
    """Mixin of estimators and of what they hold: their state holds no pandas object."""

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: _pack(value) for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        restored = {name: _unpack(value) for name, value in state.items()}
        above: Any = super()
        if hasattr(above, "__setstate__"):
            above.__setstate__(restored)
        else:
            self.__dict__.update(restored)


def _pack(value: Any) -> Any:
    if isinstance(value, pd.Series):
        return {_MARK: _SERIES, "values": value.to_numpy(), "name": value.name, **_labels(value.index)}
    if isinstance(value, pd.DataFrame):
        columns = [[name, value[name].to_numpy()] for name in value.columns]
        return {_MARK: _FRAME, "columns": columns, "name": value.columns.name, **_labels(value.index)}
    return value


def _unpack(value: Any) -> Any:
    mark = value.get(_MARK) if isinstance(value, dict) else None
    if mark == _SERIES:
        return pd.Series(np.asarray(value["values"]), index=_index(value), name=value["name"])
    if mark == _FRAME:
        frame = pd.DataFrame(dict(value["columns"]), index=_index(value))
        frame.columns.name = value.get("name")
        return frame
    return value


def _labels(index: pd.Index) -> dict[str, list[Any]]:
    names = list(index.names)
    return {"labels": [list(label) for label in index] if len(names) > 1 else index.tolist(), "names": names}


def _index(value: dict[str, Any]) -> pd.Index:
    labels, names = value["labels"], value.get("names", [None])
    if len(names) > 1:
        return pd.MultiIndex.from_tuples([tuple(label) for label in labels], names=names)
    return pd.Index(labels, name=names[0])
