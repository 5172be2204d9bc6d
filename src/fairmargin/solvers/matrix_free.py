"""Newton's method without Hessians: the model for wide and sparse data, and the choice between the two models.

A product with the Hessian, ``H v = Xa'(c l'' * (Xa v)) + rho v``, is two passes over the data; forming ``H`` takes
p / 2 multiplications per entry and factoring it p^3 / 3. So on wide data the step is found by conjugate gradients
(:mod:`fairmargin.solvers.projected_cg`), which need 3 to 15 products per step where columns are not very dependent.

**Preconditioner.** An intercept is coupled with every column and makes ``H`` ill-conditioned however the columns are
scaled. It is eliminated: with ``h`` the intercept's column of ``H`` (``h_b`` its diagonal entry), the rest is
``H - h h' / h_b``, the Hessian of weighted and centred columns, and is preconditioned by its diagonal. On a bag of
words of 100,000 columns a fair classifier then takes 17 products; with the diagonal of ``H`` itself it takes 94.

**Few curved rows.** The hinge loss with a narrow corner curves few rows, but these so much that the diagonal says
little. With ``R`` the ridge and ``G`` the n curved rows, ``(R + G' D G)^-1`` takes one factor of the n x n matrix
``D^-1 + G R^-1 G'``: where a step has taken more products than that is worth, it becomes the preconditioner.

**Tolerance.** A step is taken once the duality gap that its residual is worth (in a quadratic, and with the intercept
centred) is a small share of the present one, or below the goal.

Reference: Dembo, Eisenstat and Steihaug, Inexact Newton methods, SIAM J. Numer. Anal. 19, 1982.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from fairmargin.design import Design, SparseDesign
from fairmargin.problem import Problem
from fairmargin.solvers.curvature import Curvature, hessian_weights
from fairmargin.solvers.evaluation import Point
from fairmargin.solvers.projected_cg import QuadraticModel, minimise_model
from fairmargin.solvers.quadratic_step import Factor
from fairmargin.tolerances import NEAR

__all__ = ["MatrixFree", "StepModel", "choose_model", "is_affordable", "prefers_products"]

Array = NDArray[np.float64]

# What a solve takes, roughly: with Hessians, three of them and a factor for each of eight steps; without, this many
# products (17 to 90 were counted on text, 570 on the leaves of trees).
_HESSIANS, _FACTORS, _PRODUCTS = 3, 8, 150
_FACTOR_COST = 2e-11  # seconds per p^3: a third of that many multiplications at 16 billion a second
# A Hessian, its scaled copy and its factor may take twice the memory of X, or this many bytes.
_COPIES, _FREE_BYTES = 3, 1 << 28
_FORCING = 0.1  # share of the residual that a step may leave; the square of it is the share of the gap
_FINEST = 1e-4  # the least such share: beyond, rounding of the products shows
_OF_GOAL = 0.2  # share of the gap's goal that a residual may be worth
_MOST = 1000  # products in one step; what they lead to is a descent direction in any case


class StepModel(Protocol):
    """A quadratic model of ``L`` from iteration to iteration: how Newton's method finds its steps."""

    @property
    def hessian(self) -> Array | None:
        """The Hessian in use, if there is one."""
        ...

    def step(self, point: Point, multipliers: Array, gap: float, last_gap: float, goal: float) -> tuple[Array, Array]:
        """Return the step from a point with these multipliers and this gap, and the multipliers after it."""
        ...

    def refine(self, point: Point) -> tuple[Array, Array] | None:
        """Return one more step without a new model, and its multipliers; None where that is not possible."""
        ...

    def learn(self, before: Point, after: Point) -> None:
        """Take note of a step that was taken."""
        ...

    def reject(self) -> bool:
        """Prepare for another try after a step that led nowhere; return whether there is anything left to try."""
        ...


def choose_model(problem: Problem, hessian: Array | None = None) -> StepModel:
    """Return the model whose steps are expected to cost less; a Hessian that is known is used."""
    if hessian is None and prefers_products(problem):
        return MatrixFree(problem)
    return Curvature(problem, hessian)


def prefers_products(problem: Problem) -> bool:
    """Whether a solve by products alone is expected to cost less, or there is no memory for a Hessian."""
    if not is_affordable(problem):
        return True
    # Without a penalty the gap is linear in the residual, which must be found to more digits than products give.
    return bool(np.any(problem.ridge)) and _direct_cost(problem) > _PRODUCTS * _product_cost(problem)


def is_affordable(problem: Problem) -> bool:
    """Whether there is memory for the Hessian and its factor."""
    p = problem.design.shape[1]
    return 8 * _COPIES * p**2 <= max(2 * problem.design.n_bytes, _FREE_BYTES)


def _direct_cost(problem: Problem) -> float:
    """Return about how many seconds a solve with Hessians takes."""
    return _HESSIANS * problem.design.sandwich_cost + _FACTORS * _FACTOR_COST * problem.design.shape[1] ** 3


def _product_cost(problem: Problem) -> float:
    """Return about how many seconds a product with the Hessian takes."""
    return 2.0 * problem.design.pass_cost


class MatrixFree:
    """Steps by conjugate gradients.

    How many products they take depends on the data. Once they have cost as much as a solve with Hessians, and where
    there is memory for these, Hessians take over: at worst, a solve takes about twice as long as with the better of
    the two.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._forcing = _FORCING
        self._direct: Curvature | None = None
        self._squares: Array | None = None
        self._last = 0  # products of the last step with a diagonal
        self._left = np.inf
        if is_affordable(problem):
            self._left = max(_direct_cost(problem) / _product_cost(problem), _PRODUCTS)

    @property
    def hessian(self) -> Array | None:
        """None as long as there are only products."""
        return None if self._direct is None else self._direct.hessian

    def step(self, point: Point, multipliers: Array, gap: float, last_gap: float, goal: float) -> tuple[Array, Array]:
        """Return the step from a point with these multipliers and this gap, and the multipliers after it."""
        if self._left <= 0:
            if self._direct is None:
                self._direct = Curvature(self.problem)
            return self._direct.step(point, multipliers, gap, last_gap, goal)
        share = gap / self.problem.gap_unit(point.objective)
        hessian = _Hessian(self.problem, point, self._squares if share < NEAR else None)  # it changes little
        self._squares = hessian.squares
        forcing = min(self._forcing, max(_FINEST, np.sqrt(share)))
        most, worth = int(min(self._left, _MOST)), self._worth_of_rows(hessian)
        if worth > self._last:
            found = self._minimise(hessian, hessian.precondition, point, multipliers, forcing, goal, min(most, worth))
            self._last = hessian.n_products
        if worth <= self._last:
            system = _RowSystem(hessian)
            found = self._minimise(hessian, system.precondition, point, multipliers, forcing, goal, most)
        self._left -= hessian.n_products
        return found

    def _minimise(
        self,
        hessian: _Hessian,
        inverse: Callable[[Array], Array],
        point: Point,
        multipliers: Array,
        forcing: float,
        goal: float,
        most: int,
    ) -> tuple[Array, Array]:
        """Return the step of at most so many products, with a preconditioner, and its multipliers."""
        test = _Test(self.problem, hessian, forcing**2, _OF_GOAL * goal)
        # The intercept's own step comes first and takes no product: with it the residual stays centred to the end.
        shift = hessian.intercept_step(point.gradient)
        gradient = hessian.centre(point.gradient)
        model = QuadraticModel(point.theta + shift, gradient, hessian.product, inverse)
        step, nu = minimise_model(self.problem, model, multipliers, test.is_enough, most)
        return step + shift, nu

    def _worth_of_rows(self, hessian: _Hessian) -> int:
        """Return how many products take as long as a factor of the curved rows' matrix; too many without one."""
        n = int(np.count_nonzero(hessian.weights))
        if (
            not n
            or not _RowSystem.is_possible(hessian)
            or 16 * n**2 > max(2 * self.problem.design.n_bytes, _FREE_BYTES)
        ):
            return 2 * _MOST
        return int(_FACTOR_COST * n**3 / _product_cost(self.problem)) + 1

    def refine(self, point: Point) -> tuple[Array, Array] | None:
        """Return None: one more step would cost about as much as the last one."""
        return None if self._direct is None else self._direct.refine(point)

    def learn(self, before: Point, after: Point) -> None:
        """Take note of a step that was taken."""
        if self._direct is not None:
            self._direct.learn(before, after)

    def reject(self) -> bool:
        """Ask for steps closer to the minimum of the model."""
        if self._direct is not None:
            return self._direct.reject()
        self._forcing *= _FORCING
        if self._forcing < _FINEST and np.isfinite(self._left):
            self._left = 0
            return True
        return self._forcing >= _FINEST


class _Hessian:
    """Products with the Hessian at a point, and the preconditioner that belongs to it."""

    def __init__(self, problem: Problem, point: Point, squares: Array | None) -> None:
        self.ridge = problem.ridge
        self.n_products = 0
        self.weights = problem.weight * hessian_weights(problem, point)
        self.design: Design = problem.design
        if 0 < point.n_curved < 0.5 * len(self.weights):  # rows without curvature add nothing
            curved = np.flatnonzero(self.weights)
            self.design, self.weights = self.design.take(curved), self.weights[curved]
        is_free = self.design.fit_intercept and self.ridge[-1] == 0
        column = self.design.rmatvec(self.weights) if is_free else None
        self.squares = self.design.squares(self.weights, column) if squares is None else squares
        diagonal = self.squares + self.ridge
        # What centring takes away of the intercept's column, relative to its diagonal entry.
        self.intercept = np.zeros_like(diagonal)
        self._top = 0.0
        if column is not None and column[-1] > 0:
            self._top = float(column[-1])
            self.intercept = column / self._top
            # Cancellation may leave less than the penalty alone is worth.
            diagonal = np.maximum(diagonal - column * self.intercept, self.ridge)
        self._diagonal = np.where(diagonal > 0, diagonal, 1.0)

    def product(self, v: Array) -> Array:
        """Return ``H v``."""
        self.n_products += 1
        return self.design.rmatvec(self.weights * self.design.matvec(v)) + self.ridge * v

    def centre(self, r: Array) -> Array:
        """Return a residual after the step of the intercept alone that makes its own entry zero."""
        return r - r[-1] * self.intercept

    def intercept_step(self, r: Array) -> Array:
        """Return the step of the intercept alone that makes its own entry of a residual zero."""
        step = np.zeros_like(r)
        if self._top > 0:
            step[-1] = -r[-1] / self._top
        return step

    def precondition(self, r: Array) -> Array:
        """Return ``P^-1 r``."""
        u = self.centre(r) / self._diagonal
        if self._top > 0:
            u[-1] = r[-1] / self._top - float(self.intercept[:-1] @ u[:-1])
        return u


class _RowSystem:
    """The inverse of a Hessian of few curved rows ``X``, of weights ``W`` and with the penalty ``R``.

    Woodbury's formula, ``A^-1 = R^-1 - R^-1 X' M^-1 X R^-1`` with ``M = X R^-1 X' + W^-1``, for the columns that have
    a penalty. An intercept without one is eliminated: ``A^-1 X' W 1 = R^-1 X' M^-1 1``, and what it has left of its
    own curvature is ``1' M^-1 1``.
    """

    def __init__(self, hessian: _Hessian) -> None:
        curved = np.flatnonzero(hessian.weights)
        self._design = cast(SparseDesign, hessian.design.take(curved))
        penalised = hessian.ridge > 0
        self._inverse_ridge = np.where(penalised, 1.0 / np.where(penalised, hessian.ridge, 1.0), 0.0)
        matrix = self._design.outer(self._inverse_ridge)
        matrix[np.diag_indices_from(matrix)] += 1.0 / hessian.weights[curved]
        self._factor = Factor(matrix)
        self._pull: Array | None = None
        if not penalised[-1]:
            ones = self._factor.solve(np.ones(len(curved)))
            self._pull, self._left = self._inverse_ridge * self._design.rmatvec(ones), float(ones.sum())

    @staticmethod
    def is_possible(hessian: _Hessian) -> bool:
        """Whether rows are sparse, so that their inner products are cheap, and every column has a penalty."""
        ridge = hessian.ridge[:-1] if hessian.design.fit_intercept else hessian.ridge
        return isinstance(hessian.design, SparseDesign) and bool(np.all(ridge > 0))

    def precondition(self, r: Array) -> Array:
        """Return ``P^-1 r``."""
        u = self._inverse_ridge * r
        u = u - self._inverse_ridge * self._design.rmatvec(self._factor.solve(self._design.matvec(u)))
        if self._pull is not None:
            intercept = (r[-1] - float(self._pull @ r)) / self._left
            u = u - intercept * self._pull
            u[-1] = intercept
        return u


class _Test:
    """Whether a residual is worth no more than a share of the gap that the first one is worth, or than a floor."""

    def __init__(self, problem: Problem, hessian: _Hessian, share: float, floor: float) -> None:
        self.problem, self.hessian, self.share, self.floor = problem, hessian, share, floor
        self._enough: float | None = None

    def is_enough(self, r: Array) -> bool:
        """Whether ``r`` is small enough; the first one asked about sets the measure and never is.

        The gap that is to be closed has a share of the intercept in it, which centring leaves out: without a first
        product, a point whose intercept alone is off would stay where it is.
        """
        worth = self._worth(self.hessian.centre(r))
        if self._enough is None:
            self._enough = max(self.share * worth, self.floor)
            return False
        return worth <= self._enough

    def _worth(self, r: Array) -> float:
        """Return the gap that the dual bound leaves between a point and its residual."""
        worth = 0.5 * float(self.problem.inverse_ridge @ (r * r))
        if len(self.problem.unpenalised) <= int(self.problem.design.fit_intercept):
            return worth
        free = self.problem.unpenalised
        return worth + float(np.sum(np.abs(r[free]) / self.problem.design.scale[free]))
