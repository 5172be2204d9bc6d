"""The span of functions over which a kernel problem is solved, as a feature map."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf

from fairmargin.kernel.cholesky import PartialCholesky
from fairmargin.kernel.matrix import Gram, PrecomputedGram

__all__ = ["Expansion", "Span"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_NEW = 1e-12  # share of its squared norm that a function must have outside of the span to extend it


@dataclass(frozen=True)
class Expansion:
    """The function ``f = sum_i beta_i phi(x_i)`` and its values at the training rows, both of shape (N,)."""

    beta: Array
    values: Array

    def __add__(self, other: Expansion) -> Expansion:
        return Expansion(self.beta + other.beta, self.values + other.values)

    @property
    def squared_norm(self) -> float:
        """``|f|^2 = beta' K beta``."""
        return float(self.beta @ self.values)


@dataclass(frozen=True)
class _Block:
    """Functions with coefficients ``beta`` (N, m) that were added to a span.

    ``inside`` (r, m) are their coordinates in the span before; ``corner`` (m, m), lower triangular, orthonormalises
    what they have outside of it.
    """

    beta: Any
    inside: Array
    corner: Array


@dataclass(frozen=True)
class Span:
    """The functions of some landmarks and of further directions, with an orthonormal basis.

    The rows of ``features`` (N, r) are the projections of ``phi(x_i)`` in the coordinates of the basis, so that
    ``f = F w`` has the norm ``|w|``. ``refined`` says that the span was extended until the optimum over it is close
    to the optimum over the whole space of the kernel.
    """

    gram: Gram | PrecomputedGram
    found: PartialCholesky
    features: Array
    blocks: tuple[_Block, ...] = ()
    refined: bool = False
    is_part: ClassVar[bool] = True  # of the space that a kernel's functions make up

    @classmethod
    def of_landmarks(cls, gram: Gram | PrecomputedGram, found: PartialCholesky) -> Span:
        """Return the span of the landmarks of a factorisation."""
        return cls(gram, found, found.features)

    def outside(self, function: Expansion) -> float:
        """Return ``|(I - P) f|^2``: how much of a function is outside of the span, at least 0.

        It is the difference of two norms, so the rounding error of these is added to stay on the safe side.
        """
        inside = self.features.T @ function.beta
        rounding = np.finfo(float).eps * float(np.abs(function.beta) @ np.abs(function.values))
        return max(0.0, function.squared_norm - float(inside @ inside)) + rounding

    def extended(self, functions: list[Expansion], rows: Index) -> Span | None:
        """Return the span with functions and with ``phi(x_i)`` of ``rows`` added; None if none of them is new."""
        singles = sp.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(len(self.gram), len(rows)))
        beta = sp.hstack([*(sp.csr_array(f.beta[:, None]) for f in functions), singles], format="csr")
        values = np.column_stack([*(f.values for f in functions), self.gram.block(None, rows)])
        inside = (beta.T @ self.features).T
        size = np.sqrt(np.maximum((beta.T @ values).diagonal(), np.finfo(float).tiny))
        left = (beta.T @ values - inside.T @ inside) / size / size[:, None]
        factor, order, rank, _ = dpstrf(0.5 * (left + left.T), tol=_NEW, lower=1)
        rank = min(rank, len(self.gram) - self.features.shape[1])
        if rank == 0 or left.diagonal().max() <= _NEW:
            return None
        chosen = order[:rank] - 1
        corner = np.tril(factor[:rank, :rank]) * size[chosen, None]
        inside = inside[:, chosen]
        new = values[:, chosen] - self.features @ inside
        new = scipy.linalg.solve_triangular(corner, new.T, lower=True, check_finite=False).T
        block = _Block(beta[:, chosen], inside, corner)
        return replace(self, features=np.hstack([self.features, new]), blocks=(*self.blocks, block))

    def expand(self, w: Array) -> Array:
        """Return ``beta`` (N,) of the function with coefficients ``w`` in the basis."""
        beta, w = np.zeros(len(self.gram)), w.copy()
        for block in reversed(self.blocks):
            size = len(block.corner)
            last = scipy.linalg.solve_triangular(block.corner, w[-size:], lower=True, trans="T", check_finite=False)
            w = w[:-size] - block.inside @ last
            beta += block.beta @ last
        beta[self.found.landmarks] += self.found.basis @ w
        return beta
