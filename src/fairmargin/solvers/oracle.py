"""What Newton's method asks of the rows of a problem, wherever they are.

The loop of :mod:`fairmargin.solvers.newton` sees data only through an oracle: the objective at a point, its gradient
with the sums behind a dual bound, a search along a step, and a model of the curvature. Here is the oracle of data in
memory, which keeps vectors over the rows between calls. Another kind of problem registers its own with
:func:`make_oracle`; the loop, the steps and the certificate stay the same.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fairmargin.problem import Problem
from fairmargin.solvers.evaluation import Point, add_gradient, centre_intercept, evaluate
from fairmargin.solvers.line_search import search_line
from fairmargin.solvers.matrix_free import StepModel, choose_model

__all__ = ["Oracle", "make_oracle"]

Array = NDArray[np.float64]


class Oracle(Protocol):
    """Values and derivatives of one problem, and a search along a line."""

    def at(self, theta: Array, scores: Array | None = None) -> Point:
        """Return the point ``theta``, with its scores where they are known; :meth:`complete` may add the gradient."""
        ...

    def complete(self, point: Point, with_dual: bool) -> Point:
        """Return the point with its gradient and, ``with_dual``, the sums behind a dual bound."""
        ...

    def centre(self, point: Point, goal: float) -> Point:
        """Return the point with a better intercept, where that is needed for the ``goal`` and costs no pass."""
        ...

    def search(self, point: Point, step: Array, is_feasible: bool) -> Point | None:
        """Return the next point along a step, None where it does not lead downhill."""
        ...

    def choose_model(self, hessian: Array | None) -> StepModel:
        """Return the model of the curvature, starting from a Hessian where one is known."""
        ...

    def scores(self, theta: Array) -> Array:
        """Return ``Xa theta`` (N,), or an empty vector where no vectors over the rows are kept."""
        ...

    def objective(self, point: Point, theta: Array, scores: Array) -> float:
        """Return ``L(theta)`` for ``theta`` at, or one step from, a point."""
        ...

    def dual_variables(self, point: Point, multipliers: Array) -> Array:
        """Return the dual variables behind the bound at a point (N,), or an empty vector as for scores."""
        ...


class InMemory:
    """The oracle of a problem whose rows are in memory."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def at(self, theta: Array, scores: Array | None = None) -> Point:
        """Return the point without its gradient: one pass, unless its scores are known."""
        if scores is None:
            scores = self.problem.design.matvec(theta) if np.any(theta) else np.zeros_like(self.problem.y)
        return evaluate(self.problem, theta, scores)

    def complete(self, point: Point, with_dual: bool) -> Point:
        """Add gradient and dual sums: one pass."""
        return add_gradient(self.problem, point, with_dual)

    def centre(self, point: Point, goal: float) -> Point:
        """Take one Newton step of the intercept alone."""
        return centre_intercept(self.problem, point, goal)

    def search(self, point: Point, step: Array, is_feasible: bool) -> Point | None:
        """Search along the scores: one pass, whatever the number of trials."""
        return search_line(self.problem, point, step, is_feasible)

    def choose_model(self, hessian: Array | None) -> StepModel:
        """Return the model whose steps are expected to cost less."""
        return choose_model(self.problem, hessian)

    def scores(self, theta: Array) -> Array:
        """Return ``Xa theta``."""
        return self.problem.design.matvec(theta)

    def objective(self, point: Point, theta: Array, scores: Array) -> float:
        """Return ``L(theta)`` from its scores."""
        return self.problem.objective(theta, scores)

    def dual_variables(self, point: Point, multipliers: Array) -> Array:
        """Return the dual variables that the bound is about."""
        alpha = point.signed * self.problem.y
        return alpha if point.dual is None else self.problem.balanced(alpha, multipliers, point.dual)


@singledispatch
def make_oracle(problem: Problem) -> Oracle:
    """Return the oracle of a problem, by its type."""
    return InMemory(problem)
