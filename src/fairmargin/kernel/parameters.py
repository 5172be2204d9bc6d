"""The parameters that describe a kernel, checked; ``KernelFeatures`` and ``FairSVC`` share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fairmargin.caller import warn
from fairmargin.exceptions import ApproximationWarning
from fairmargin.kernel.cholesky import PartialCholesky, check_positive, factorise, positive_part
from fairmargin.kernel.matrix import Gram, PrecomputedGram, make_kernel
from fairmargin.validation import check_number

__all__ = ["KernelParameters", "tag_inputs", "warn_of_rank"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class KernelParameters:
    """What ``KernelFeatures`` and ``FairSVC`` know of the kernel and of the factorisation."""

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    tol: float
    max_rank: int | None
    clip: bool
    random_state: Any

    @classmethod
    def of(cls, estimator: Any, tol: Any, tol_name: str) -> KernelParameters:
        """Check and return the parameters of an estimator, whose tolerance is called ``tol_name``."""
        if estimator.indefinite not in ("error", "clip"):
            raise ValueError(f"indefinite must be 'error' or 'clip', got {estimator.indefinite!r}.")
        tol = check_number(tol, tol_name)
        if not 0 <= tol < 1:
            raise ValueError(f"{tol_name} must be at least 0 and less than 1, got {tol!r}.")
        return cls(
            estimator.kernel,
            estimator.gamma,
            estimator.degree,
            estimator.coef0,
            tol,
            _check_rank(estimator.max_rank),
            estimator.indefinite == "clip",
            estimator.random_state,
        )

    @property
    def precomputed(self) -> bool:
        """Whether the user passes the kernel matrix instead of the rows."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def gram(self, X: Any, kept: Index, n_given: int, weight: Array) -> Gram | PrecomputedGram:
        """Return the kernel matrix of ``X``, which holds the rows ``kept`` of the ``n_given`` passed to ``fit``."""
        if not self.precomputed:
            return Gram(make_kernel(self.kernel, self.gamma, self.degree, self.coef0, X, weight), X)
        if X.shape[1] != n_given:
            raise ValueError(
                f"A precomputed kernel matrix must be square, one row and one column for each person, got "
                f"{n_given} rows and {X.shape[1]} columns."
            )
        gram = PrecomputedGram(X if len(kept) == n_given else X[:, kept])
        gram.check()
        return gram

    def factorise(self, gram: Gram | PrecomputedGram, tol: float, max_rank: int) -> PartialCholesky:
        """Factorise a kernel matrix, or its positive part, up to a relative trace error or a rank."""
        seed = check_random_state(self.random_state)
        if self.clip:
            return positive_part(gram, tol, max_rank, seed)
        if gram.kernel is None or not gram.kernel.is_positive:
            check_positive(gram, seed)
        return factorise(gram, tol, max_rank, seed)


def _check_rank(max_rank: Any) -> int | None:
    if max_rank is None:
        return None
    number = check_number(max_rank, "max_rank", positive=True)
    if number != int(number):
        raise ValueError(f"max_rank must be a whole number, got {max_rank!r}.")
    return int(number)


def warn_of_rank(found: PartialCholesky, tol: float, remedy: str) -> None:
    """Warn where the rank limit leaves out more of the trace than ``tol``."""
    if found.error > max(tol, 1e-12):
        warn(
            f"The rank limit of {found.features.shape[1]} leaves {found.error:.2g} of the kernel's trace out, more "
            f"than {tol:.2g}; {remedy}.",
            ApproximationWarning,
        )


def tag_inputs(tags: Any, kernel: Any) -> None:
    """Set scikit-learn's input tags: a precomputed kernel matrix is pairwise and dense."""
    precomputed = isinstance(kernel, str) and kernel == "precomputed"
    tags.input_tags.pairwise = precomputed
    tags.input_tags.sparse = not precomputed
