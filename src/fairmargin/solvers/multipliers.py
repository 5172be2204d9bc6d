"""The hinge loss by Newton's method: the method of multipliers on its corner.

The Moreau envelope of the hinge loss around dual variables ``a`` (N,) is a smoothed hinge of width ``h`` at
shifted margins: ``min_v max(v, 0) + a (1 - m - v) + (1 - m - v)^2 / (2 h)`` is, up to a constant,
``smoothed(m - h a)``. So

    theta <- argmin sum_i c_i smoothed_h(m_i - h a_i) + penalty   subject to the rows   (Newton)
    a_i   <- clip(a_i + (1 - m_i) / h, 0, 1)

is the proximal point method on the dual of the support vector machine. It converges for every ``h`` and
faster the smaller ``h`` is; on a piecewise quadratic problem it ends after finitely many rounds. Only
people inside the rounded corner enter a Hessian, and these soon are few: an iteration costs little more
than two passes over the data. It can start anywhere, unlike an interior-point method.

References: Rockafellar, Augmented Lagrangians and applications of the proximal point algorithm, 1976;
Li, Sun and Toh, A highly efficient semismooth Newton augmented Lagrangian method, 2018.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmargin.losses import Loss, SmoothedHingeLoss
from fairmargin.problem import Problem, Solution
from fairmargin.solvers.newton import Start, solve_newton

__all__ = ["solve_multipliers"]

Array = NDArray[np.float64]

_FIRST_WIDTH = 0.5  # of the corner in the first round
_WARM_WIDTH = 1e-3  # and where dual variables are known already
_SHRINK = 0.2
_LEAST_WIDTH = 1e-10
_INNER = 0.1  # gap of a round's Newton iteration, relative to the gap of the round before


class _Envelope(Loss):
    """The smoothed hinge at margins shifted by ``width * a``, one shift a person."""

    name = "hinge envelope"

    def __init__(self, width: float, a: Array) -> None:
        self._smoothed, self._shift = SmoothedHingeLoss(width), width * a

    def value(self, m: Array) -> Array:
        return self._smoothed.value(m - self._shift)

    def derivative(self, m: Array) -> Array:
        return self._smoothed.derivative(m - self._shift)

    def second_derivative(self, m: Array) -> Array:
        return self._smoothed.second_derivative(m - self._shift)

    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        return self._smoothed.derivatives(m - self._shift)


def solve_multipliers(
    problem: Problem, *, start: Start | None = None, tol: float = 1e-9, max_iter: int = 200
) -> Solution:
    """Solve a problem with the hinge loss to a relative duality gap of ``tol``."""
    loss: Loss = SmoothedHingeLoss(_FIRST_WIDTH)
    width, n_iter, gap = _FIRST_WIDTH, 0, 1e-2
    if start is not None and start.alpha is not None:
        width = _WARM_WIDTH
        loss = _Envelope(width, start.alpha / problem.weight)
    while True:
        smooth = replace(problem, loss=loss)
        inner = solve_newton(smooth, start=start, tol=max(_INNER * gap, 1e-2 * tol), max_iter=max_iter - n_iter)
        n_iter += inner.certificate.n_iter
        a = inner.alpha / problem.weight
        certificate = problem.certify(
            inner.theta, inner.multipliers, inner.scores, inner.alpha, n_iter, "solved"
        )
        gap = certificate.gap
        if gap <= tol:
            break
        if n_iter >= max_iter or width <= _LEAST_WIDTH:
            status = "iteration limit" if n_iter >= max_iter else "inaccurate"
            certificate = replace(certificate, status=status)
            break
        width *= _SHRINK
        loss = _Envelope(width, a)
        start = Start(inner.theta, inner.multipliers)
    return replace(inner, certificate=certificate, hessian=None)
