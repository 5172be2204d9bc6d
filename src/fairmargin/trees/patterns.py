"""Indicators of leaves in fewer entries: leaves that occur together are stored together.

Trees of an ensemble divide people in much the same ways, so that of all combinations of leaves of several trees few
occur. A group of trees is one *pattern* per row, the combination that the row has there. With ``P`` (n, m) the
indicators of patterns and ``M`` (m, p) the leaves in each of them, the indicators of leaves are ``X = P M``, and so
``X w = P (M w)``, ``X' r = M' (P' r)`` and ``X' D X = M' (P' D P) M``. Boosted trees on Adult (60 of 15 leaves and
31,655 rows) take a quarter of the entries, a quarter of the time per product and a tenth per Gram matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from fairmargin.design import SparseDesign

__all__ = ["PatternDesign", "PatternMatrix", "find_patterns", "indicators"]

Array = NDArray[np.float64]
Columns = NDArray[np.int32]


class PatternMatrix:
    """The indicators of leaves (n, p), as the product of two CSR matrices.

    Parameters
    ----------
    rows : (n, m)
        The patterns of each row, one per group of trees.
    members : (m, p)
        The leaves of each pattern.
    """

    def __init__(self, rows: Any, members: Any) -> None:
        self.rows, self.members = rows, members
        self.shape = rows.shape[0], members.shape[1]
        self._rows_of_patterns, self._patterns_of_leaves = rows.T, members.T  # views

    def __getitem__(self, index: Any) -> PatternMatrix:
        """Return some rows."""
        return PatternMatrix(self.rows[index], self.members)

    def __matmul__(self, w: Array) -> Array:
        """Return ``X w``."""
        return self.rows @ (self.members @ w)

    def pull(self, r: Array) -> Array:
        """Return ``X' r``, (p,) or (p, k) for k vectors at once."""
        return self._patterns_of_leaves @ (self._rows_of_patterns @ r)

    def gram(self, weights: Array) -> Array:
        """Return ``X' diag(weights) X``, (p, p)."""
        weighted = sp.csr_matrix(
            (np.repeat(weights, np.diff(self.rows.indptr)), self.rows.indices, self.rows.indptr),
            shape=self.rows.shape,
        )
        inner = self._rows_of_patterns @ weighted
        return (self._patterns_of_leaves @ (inner @ self.members)).toarray()

    def tocsr(self) -> Any:
        """Return the indicators themselves."""
        return self.rows @ self.members

    def as_design(self, fit_intercept: bool) -> PatternDesign:
        """Return the design of this matrix, without a shift."""
        n, p = self.shape
        share = self.pull(np.full(n, 1.0 / n))
        scale = np.append(np.sqrt(np.where(share > 0, share, 1.0)), [1.0] * fit_intercept)
        return PatternDesign(self, np.zeros(p), scale, fit_intercept)


class PatternDesign(SparseDesign):
    """The design of indicators of leaves."""

    def rmatvec(self, r: Array) -> Array:
        """Return ``Xa' r``."""
        self.passes.rmatvec += 1
        return self.close_rmatvec(self.X.pull(r), r)

    def sandwich(self, weights: Array, rows: NDArray[np.intp] | None = None, single: bool = False) -> Array:
        """Return the Gram matrix."""
        if rows is not None:
            self.passes.sandwich += len(rows) / self.shape[0]
            return self.take(rows).sandwich(weights[rows])
        self.passes.sandwich += 1
        gram = self.X.gram(weights)
        if not self.fit_intercept:
            return gram
        last = self.X.pull(weights)
        return np.block([[gram, last[:, None]], [last, weights.sum()]])

    def squares(self, weights: Array, pull: Array | None = None) -> Array:
        """Return the diagonal of the Gram matrix: indicators are their squares."""
        return self.rmatvec(weights) if pull is None else pull

    def outer(self, weights: Array) -> Array:
        """Return ``Xa diag(weights) Xa'``, (n, n), for ``weights`` of the columns."""
        return self._written_out().outer(weights)

    def rows(self, index: NDArray[np.intp] | slice) -> Array:
        """Return some rows of ``Xa``."""
        return self.take(index)._written_out().rows(slice(None))

    def _written_out(self) -> SparseDesign:
        return SparseDesign(self.X.tocsr(), self.mu, self.scale, self.fit_intercept)

    def take(self, rows: NDArray[np.intp] | slice) -> PatternDesign:
        """Return the design of these rows."""
        return PatternDesign(self.X[rows], self.mu, self.scale, self.fit_intercept)

    @property
    def pass_cost(self) -> float:
        """About how many seconds a pass takes."""
        return self.cost_of_pass(self.X.rows) + self.cost_of_pass(self.X.members)

    @property
    def sandwich_cost(self) -> float:
        """About how many seconds a Gram matrix takes: that of the patterns, times their leaves on average."""
        rows, members = self.X.rows, self.X.members
        return self.cost_of_gram(rows) * (1.0 + members.nnz / max(members.shape[0], 1))

    @property
    def n_bytes(self) -> int:
        """Memory of the data."""
        parts = (self.X.rows, self.X.members)
        return sum(part.data.nbytes + part.indices.nbytes + part.indptr.nbytes for part in parts)


def find_patterns(columns: Columns, sizes: NDArray[np.intp]) -> PatternMatrix:
    """Return the indicators of leaves as patterns.

    A tree joins the group before it where that makes the entries per tree of the group fewer: each row has one, and
    each of its patterns one per tree.

    Parameters
    ----------
    columns : (n, T)
        The leaf of each row in each tree, numbered through all trees.
    sizes : (T,)
        Leaves per tree.
    """
    n = len(columns)
    starts = np.cumsum([0, *sizes[:-1]])
    groups: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []  # of each row its pattern, of that its leaves
    for leaf, size, start in zip(columns.T, sizes, starts, strict=True):
        alone = np.arange(start, start + size)[:, None]
        if groups:
            codes, leaves = groups[-1]
            joint, found = pd.factorize(codes * size + (leaf - start))
            together = np.hstack([leaves[found // size], start + (found % size)[:, None]])
            if (n + together.size) / together.shape[1] < (n + leaves.size) / leaves.shape[1]:
                groups[-1] = joint, together
                continue
        groups.append((leaf.astype(np.intp) - start, alone))
    before = np.cumsum([0, *(len(leaves) for _, leaves in groups[:-1])])
    rows = np.column_stack([codes + shift for (codes, _), shift in zip(groups, before, strict=True)])
    p = int(np.sum(sizes))
    members = sp.vstack([indicators(leaves, p) for _, leaves in groups], format="csr")
    return PatternMatrix(indicators(rows, members.shape[0]), members)


def indicators(columns: Any, n_leaves: int) -> Any:
    """Return the indicators of leaves as a CSR matrix (n, n_leaves) with a one per tree in every row."""
    n, n_trees = columns.shape
    kind = np.int32 if n * n_trees <= np.iinfo(np.int32).max else np.int64
    ends = np.arange(0, n * n_trees + 1, n_trees, dtype=kind)
    return sp.csr_matrix((np.ones(n * n_trees), columns.ravel().astype(kind, copy=False), ends), shape=(n, n_leaves))
