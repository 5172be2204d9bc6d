"""What goes into a solver and how it may end, in plain types.

A solver is a function ``solve(problem, *, start, accuracy) -> Solution``. It knows the problem and nothing of the
constraint, the estimator or the precision of its caller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmargin.problem import Solution
from fairmargin.tolerances import HAIR

__all__ = ["Accuracy", "Start"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Accuracy:
    """When to stop.

    Attributes
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Iterations after which to stop.
    proof : bool
        Whether the gap must be proved by a dual bound. Otherwise Newton's own estimate of the distance to the
        optimum (the Newton decrement) is trusted, and the certificate proves nothing: good enough for a start.
    """

    tol: float = HAIR
    max_iter: int = 200
    proof: bool = True


@dataclass(frozen=True)
class Start:
    """Where to begin: a point and, where known, what belongs to it.

    Attributes
    ----------
    theta : (p,)
    multipliers : (K,) or None
    hessian : (p, p) or None
        Of ``L``, at or near ``theta``.
    alpha : (N,) or None
        Dual variables; only the method of multipliers uses them.
    n_iter : int
        Iterations on the same rows that were spent to get there; they count.
    scores : (N,) or None
        ``Xa theta`` up to rounding, where they are known: the pass for them is saved.
    """

    theta: Array
    multipliers: Array | None = None
    hessian: Array | None = None
    alpha: Array | None = None
    n_iter: int = 0
    scores: Array | None = None

    @classmethod
    def at(cls, solution: Solution) -> Start:
        """Return a start from everything a solution knows."""
        return cls(solution.theta, solution.multipliers, solution.hessian, solution.alpha)
