"""Proxies: features that tell much about a sensitive attribute, by which a classifier could use it after all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.inputs import check_same_order
from fairmargin.membership import Membership, probabilities_refused
from fairmargin.sensitive import read_columns

__all__ = ["Proxy", "find_proxies"]


@dataclass(frozen=True)
class Proxy:
    """A feature that tells something about a sensitive attribute.

    Attributes
    ----------
    attribute, feature : str
    association : float
        Cramér's V, in [0, 1]; numbers are cut into tenths.
    guessed : float
        Share of people whose group is guessed right from the feature alone.
    baseline : float
        The same without it: the share of the largest group.
    """

    attribute: str
    feature: str
    association: float
    guessed: float
    baseline: float


def find_proxies(features: pd.DataFrame, sensitive_features: Any, *, at_least: float = 0.1) -> list[Proxy]:
    """List the features that tell something about a sensitive attribute, the most telling first.

    Each feature alone; that many weak ones together can tell as much is not seen here. Combinations by which a group
    is refused more often are found by :func:`fairmargin.discrimination_rules.find_discrimination_rules`.

    Parameters
    ----------
    features : DataFrame of n rows
        Numbers are cut into tenths, everything else counts as categories (the 50 most frequent).
    sensitive_features : array, series or frame
    at_least : float, default=0.1
        Associations (Cramér's V) below this are left out.
    """
    check_same_order(features=features, sensitive_features=sensitive_features)
    found = []
    coded = {str(name): _coded(column) for name, column in features.items()}
    for name, column in read_columns(sensitive_features):
        if isinstance(column, Membership):
            raise probabilities_refused(name, "a search for proxies")
        groups = pd.factorize(column)[0]
        baseline = float(np.bincount(groups[groups >= 0]).max() / len(groups))
        for feature, codes in coded.items():
            association, guessed = _association(codes, groups)
            if association >= at_least:
                found.append(Proxy(name, feature, association, guessed, baseline))
    return sorted(found, key=lambda p: (-p.association, p.attribute, p.feature))


def _coded(column: pd.Series) -> NDArray[np.intp]:
    """Return a code for each person: tenths of numbers, or the 50 most frequent values, and the rest."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column) and column.nunique() > 10:
        codes = pd.qcut(column, 10, labels=False, duplicates="drop").to_numpy(dtype=float)
        return np.where(np.isnan(codes), 10, np.nan_to_num(codes)).astype(np.intp)
    codes, values = pd.factorize(column, use_na_sentinel=False)
    if len(values) > 50:
        common = np.argsort(-np.bincount(codes), kind="stable")[:50]
        codes = np.where(np.isin(codes, common), codes, -1)
        codes = np.unique(codes, return_inverse=True)[1]
    return codes.astype(np.intp)


def _association(codes: NDArray[np.intp], groups: NDArray[np.intp]) -> tuple[float, float]:
    """Return Cramér's V, 0 where chance may have made it, and the share guessed right."""
    from scipy.stats import chi2_contingency
    from scipy.stats.contingency import association

    shape = codes.max() + 1, groups.max() + 1
    table = np.bincount(codes * shape[1] + groups, minlength=shape[0] * shape[1]).reshape(shape)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    guessed = float(table.max(axis=1).sum() / table.sum())
    if min(table.shape) < 2:
        return 0.0, guessed
    if chi2_contingency(table, correction=False).pvalue > 0.01:
        return 0.0, guessed  # with few people, chance alone makes an association
    return float(association(table, method="cramer")), guessed
