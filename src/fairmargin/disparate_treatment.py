"""Features that tell a sensitive attribute, by which no classifier may decide.

A copy has the attribute's name, or its values up to shift and scale. A recoding has more categories than the
attribute has groups: titles such as Mr, Mrs and Miss tell the sex, as everybody with a title is of one sex, although
no single column of numbers equals it. A column whose categories are nearly all different, such as an identifier,
tells every attribute by chance; it is not refused for that. Rows are taken for different people. Indicators that were
made of the categories beforehand are not recognised as one column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fairmargin.exceptions import DisparateTreatmentError
from fairmargin.sensitive import Attribute, Sensitive

__all__ = ["check_disparate_treatment", "refuse_recodings"]

Array = NDArray[np.float64]
Codes = NDArray[np.integer]

_PROBED = 4096  # columns compared with a sensitive one at a time
_CHANCE = 1e-6  # probability below which categories of one group each are no coincidence


def check_disparate_treatment(X: Any, names: list[str], sensitive: Sensitive, sources: Sequence[str] = ()) -> None:
    """Raise if a sensitive attribute is among the features, by name or by its values."""
    for attribute in sensitive.attributes:
        if attribute.name in names or attribute.name in sources:
            encoded = f"{attribute.name}="
            column = next((j for j, name in enumerate(names) if f"{name}=".startswith(encoded)), 0)
            raise DisparateTreatmentError(
                f"The sensitive attribute {attribute.name!r} is also a column of X: deciding by it is disparate "
                "treatment. Remove it from X.",
                column=column,
                attribute=repr(attribute.name),
            )
    columns = sensitive.columns()
    probe = _Probe(X, columns)
    for (name, category), column in zip(sensitive.labels, columns.T, strict=True):
        _refuse(probe.find(column, _same_up_to_scale), names, f"{name!r} ({category!r})")
    for attribute in sensitive.attributes:
        if attribute.codes is not None and len(attribute.categories) > 2:
            _refuse(probe.find(attribute.codes.astype(float), _same_groups), names, repr(attribute.name))


def _refuse(j: int | None, names: list[str], attribute: str) -> None:
    if j is not None:
        where = repr(names[j]) if names else f"number {j}"
        raise DisparateTreatmentError(
            f"Column {where} of X tells the same as the sensitive attribute {attribute}: "
            "deciding by it is disparate treatment. Remove it from X.",
            column=j,
            attribute=attribute,
        )


def _written_out(part: Any) -> Array:
    return part.toarray() if sp.issparse(part) else np.asarray(part, dtype=float)


class _Probe:
    """Columns of X, compared on a sample of people first: only the few that agree there are compared on everybody.

    The sample has 64 people and, for each sensitive column, one with its highest and one with its lowest value: no
    sensitive column is constant there, so that constant columns of X do not seem to agree with it.
    """

    def __init__(self, X: Any, columns: Array) -> None:
        n = X.shape[0]
        self.X = X
        spread = np.linspace(0, n - 1, min(n, 64)).astype(int)
        self.rows = np.unique(np.concatenate([spread, columns.argmax(axis=0), columns.argmin(axis=0)]))
        self.sample = X[self.rows]

    def find(self, column: Array, same: Callable[[Array, Array, bool], NDArray[np.bool_]]) -> int | None:
        """Return the index of a column of X that agrees with ``column`` in the sense of ``same``, if there is one."""
        for start in range(0, self.X.shape[1], _PROBED):  # a wide matrix is not written out at once
            part = _written_out(self.sample[:, start : start + _PROBED])
            for j in start + np.flatnonzero(same(part, column[self.rows], True)):
                full = _written_out(self.X[:, [j]])
                if same(full, column, False)[0]:
                    return int(j)
        return None


def _same_up_to_scale(A: Array, b: Array, constant: bool) -> NDArray[np.bool_]:
    """Return which columns of ``A`` are ``b`` shifted and scaled; ``constant`` is the answer where neither varies."""
    low, span = A.min(axis=0), np.ptp(A, axis=0)
    if np.ptp(b) == 0:
        return (span == 0) & constant
    unit = (A - low) / np.where(span > 0, span, 1.0)
    straight = ((b - b.min()) / np.ptp(b))[:, None]
    off = np.minimum(np.abs(unit - straight).max(axis=0), np.abs(unit + straight - 1.0).max(axis=0))
    return (span > 0) & (off <= 1e-6)  # as near as single precision comes


def _same_groups(A: Array, codes: Array, constant: bool) -> NDArray[np.bool_]:
    """Return which columns of ``A`` have one value for each code, another for each (codes of the categories)."""
    groups = [A[codes == code] for code in np.unique(codes)]
    values = np.array([g[0] for g in groups])
    same = np.all([np.all(g == v, axis=0) for g, v in zip(groups, values, strict=True)], axis=0)
    for j in np.flatnonzero(same):
        same[j] = len(np.unique(values[:, j])) == len(values) and (constant or len(values) > 1)
    return same


def refuse_recodings(columns: Iterable[tuple[str, int, Codes]], sensitive: Sensitive) -> None:
    """Raise if every category of a column has people of one group of a sensitive attribute only.

    Parameters
    ----------
    columns : iterable of (name, place, codes)
        Categorical columns of X; ``codes`` (N,) are whole numbers.
    sensitive : Sensitive
    """
    for name, place, codes in columns:
        for attribute in sensitive.attributes:
            if attribute.codes is not None and _tells(codes, attribute):
                raise DisparateTreatmentError(
                    f"The categories of {name!r} in X tell the sensitive attribute {attribute.name!r}: everybody in "
                    "a category is of one group, so that deciding by it is disparate treatment. Remove it from X.",
                    column=place,
                    attribute=repr(attribute.name),
                )


def _tells(codes: Codes, attribute: Attribute) -> bool:
    """Whether categories determine the group, and not by chance.

    All people of a category but the first match that one with the probability of the largest group at most.
    """
    assert attribute.codes is not None
    groups = attribute.codes
    group_of = np.full(int(codes.max()) - int(codes.min()) + 1, -1, dtype=np.intp)  # of one person of each category
    category = codes - codes.min()
    group_of[category] = groups
    if np.any(group_of[category] != groups):
        return False
    n_categories = np.count_nonzero(group_of >= 0)
    largest = np.bincount(groups).max() / len(codes)
    return bool((len(codes) - n_categories) * np.log(largest) < np.log(_CHANCE))
