"""Membership in groups that is known as probabilities only.

Where an attribute is not recorded, it is often estimated, e.g. from names and addresses (BISG): every person has a
probability for every group. :class:`Membership` holds such a table and stands for an attribute wherever sensitive
features are taken. Everything that is linear in the indicator of a group takes its probability instead: covariances,
and sums of people and of decisions by group. A rate of group g is then ``sum_i p_ig e_i / sum_i p_ig``, which
estimates the group's rate without bias only if, among people of equal probabilities, decisions do not depend on the
group (Chen, Kallus, Mao, Svacha, Udell, *Fairness Under Unawareness*, 2019). What not knowing the groups adds to the
uncertainty of a rate is in ``membership_error`` of :func:`fairmargin.positive_rates`; audits add it to that of the
draw of people. Guarantees are exact tests of counted people, which such a table does not have, and raise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.inputs import check_container, describe_type

__all__ = ["Membership", "probabilities_refused"]

Array = NDArray[np.float64]

_SUM = 1e-6  # by which the probabilities of a person may miss one: as near as single precision and CSV files come


class Membership:
    """Probabilities of belonging to each of G groups, one row per person.

    Parameters
    ----------
    probabilities : array or frame of shape (n, G)
        Each row adds up to one. The column names of a frame are the groups.
    groups : sequence of G labels, optional
        The groups, for an array; by default 0 to G - 1.
    name : str, default="group"
        Name of the attribute; the key stands for it where ``sensitive_features`` is a mapping.

    Attributes
    ----------
    index : pandas.Index or None
        Row labels of a pandas frame, by which rows in another order are noticed.

    See Also
    --------
    cross_groups : Crosses attributes; one of them may be known as probabilities.

    Examples
    --------
    >>> from fairmargin import Membership, positive_rates
    >>> race = Membership([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]], groups=["a", "b"], name="race")
    >>> positive_rates(None, [1, 0, 1], sensitive_features=race)["rate"].round(3).tolist()
    [0.875, 0.429]
    """

    def __init__(self, probabilities: Any, *, groups: Any = None, name: str = "group") -> None:
        if hasattr(probabilities, "columns") and groups is None:
            groups = list(probabilities.columns)
        check_container(probabilities, "probabilities")
        self.index = probabilities.index if isinstance(probabilities, pd.DataFrame) else None
        self.probabilities = _checked(_as_numbers(probabilities))
        width = self.probabilities.shape[1]
        self.groups = tuple(range(width)) if groups is None else tuple(map(_plain, groups))
        self.name = name
        if len(self.groups) != width:
            raise ValueError(f"groups names {len(self.groups)} groups, but there are {width} columns.")
        if len(set(self.groups)) < width:
            raise ValueError(f"groups has the same label twice: {list(self.groups)}.")

    def __len__(self) -> int:
        return len(self.probabilities)

    def __repr__(self) -> str:
        return f"Membership(people={len(self)}, groups={list(self.groups)}, name={self.name!r})"

    def take(self, rows: Any) -> Membership:
        """Return the membership of some of the people."""
        return Membership(self.probabilities[rows], groups=self.groups, name=self.name)


def probabilities_refused(name: str, what: str) -> ValueError:
    """Return the error for an attribute known as probabilities only, where ``what`` has to count people by group."""
    return ValueError(
        f"The sensitive attribute {name!r} is known as probabilities only, and {what} counts the people of each "
        "group; use positive_rates, whose membership_error is what not knowing the groups adds to the error."
    )


def _plain(label: Any) -> Any:
    """Return a label as Python writes it, without numpy's type."""
    return label.item() if isinstance(label, np.generic) else label


def _as_numbers(probabilities: Any) -> Array:
    try:
        return np.asarray(probabilities, dtype=float)
    except (TypeError, ValueError):  # text, or a sparse matrix, of which numpy makes a single object
        kind = describe_type(probabilities)
        raise ValueError(f"Membership probabilities must be a dense table of numbers; {kind} is not one.") from None


def _checked(table: Array) -> Array:
    if table.ndim != 2 or table.shape[1] < 2 or not len(table):
        raise ValueError(
            "Membership probabilities must be a table of one row per person and one column per group, of at least "
            f"two groups, got the shape {table.shape}."
        )
    if not np.all(np.isfinite(table)) or np.any(table < 0) or np.any(table > 1 + _SUM):
        raise ValueError("Membership probabilities must be numbers from 0 to 1.")
    off = np.flatnonzero(np.abs(table.sum(axis=1) - 1.0) > _SUM)
    if len(off):
        raise ValueError(
            f"The membership probabilities of {len(off)} people do not add up to one (row {off[0]}: "
            f"{table[off[0]].sum():.6g}); give every person's probabilities of all groups."
        )
    return table / table.sum(axis=1, keepdims=True)
