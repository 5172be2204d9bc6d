"""What the loaders share: the returned bunch, and the encoding of a frame as a matrix."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

__all__ = ["bunch", "encode", "readable_columns"]


def readable_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return ``frame`` with ``.`` and ``-`` in column names replaced by underscores."""
    return frame.rename(columns=lambda name: name.replace(".", "_").replace("-", "_"))


def encode(data: pd.DataFrame) -> pd.DataFrame:
    """Encode a frame of numeric and category columns as a float64 matrix, kept in a frame for its names.

    Numeric columns are standardised over all rows, ``(x - mean) / sd`` (a constant column becomes 0). A
    category column with L levels becomes L - 1 indicators named ``column=level``; the first level is the
    reference, so that the matrix has full rank beside an intercept, without a penalty too (unless the
    data themselves say something twice). Shape (n, d) to
    (n, d').
    """
    names: list[str] = []
    blocks: list[np.ndarray] = []
    for name, column in data.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            levels = column.cat.categories
            indicators = column.cat.codes.to_numpy()[:, None] == np.arange(1, len(levels))
            blocks.append(indicators.astype(np.float64))
            names += [f"{name}={level}" for level in levels[1:]]
        else:
            blocks.append(_standardised(column.to_numpy(dtype=np.float64))[:, None])
            names.append(str(name))
    # One block of memory, so that numpy sees the frame without a copy.
    return pd.DataFrame(np.hstack(blocks), columns=names)


def _standardised(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean()
    scale = centred.std()
    return centred / scale if scale > 0 else centred


def bunch(
    data: pd.DataFrame,
    target: np.ndarray,
    sensitive_features: pd.DataFrame,
    *,
    target_name: str,
    target_names: tuple[str, str],
    encoded: bool,
    description: str | None,
) -> Bunch:
    """Assemble what every loader returns; ``target`` (n,) is true for the favourable outcome."""
    if encoded:
        data = encode(data)
    return Bunch(
        data=data,
        target=pd.Series(target.astype(np.int64), name=target_name),
        sensitive_features=sensitive_features,
        feature_names=list(data.columns),
        target_names=target_names,
        DESCR=description or "",
    )
