"""What a formulation returns, and the certificate of what is kept of it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from fairmargin.caller import warn
from fairmargin.diagnostics import warn_if_constant
from fairmargin.problem import ROUNDING_ROOM, Certificate, Problem, Solution, largest
from fairmargin.tolerances import ROUNDING

if TYPE_CHECKING:
    from fairmargin.formulations.task import Task

__all__ = ["Outcome", "as_sure_as", "certify_function", "loss_increase", "warn_unless_solved"]

Array = NDArray[np.float64]

_CLOSE = 1e-3  # relative gap below which a classifier decides as the best one does, but for a handful of people


@dataclass(frozen=True)
class Outcome:
    """A solved task.

    A formulation with more to tell derives from this class: every further field, ``name``, becomes the fitted
    attribute ``name_`` unless its metadata say ``fitted=False``. So do the properties named in ``measured``: what is
    measured on the final scores, which moving people off the boundary changes.

    Attributes
    ----------
    solution : Solution
    problem : Problem
        What ``solution`` solves: with the bounds on covariances (first) and promises to people (after them).
    unconstrained : Solution or None
        The solution without a constraint, where it was needed.
    n_ties : int
        People whose score was zero up to rounding, and who were moved off the boundary together.
    is_as_solved : bool
        Whether the solution is as :func:`fairmargin.solvers.solve` returned it.
    """

    solution: Solution
    problem: Problem
    unconstrained: Solution | None = None
    n_ties: int = 0
    is_as_solved: bool = False
    measured: ClassVar[tuple[str, ...]] = ()

    def broken(self, scores: Array) -> Array:
        """Return by how much scores break each promise about decisions or people; not positive where it is kept."""
        return np.empty(0)

    def check(self, scores: Array) -> None:
        """Raise where the scores of the fitted function break what must hold to the last digit."""

    def warn(self, scores: Array) -> None:
        """Warn of what the scores of the fitted function show, for the caller of ``fit``."""
        if self.unconstrained is not None:
            warn_if_constant(self.unconstrained.scores, scores)

    def fitted_attributes(self) -> dict[str, Any]:
        """Return the fitted attributes that are this formulation's own."""
        return {name + "_": getattr(self, name) for name in _own_fields(type(self))}

    @classmethod
    def all_fitted_attributes(cls) -> set[str]:
        """Return the names of the fitted attributes that any formulation leaves behind."""
        names = {name + "_" for name in _own_fields(cls)}
        return names.union(*(kind.all_fitted_attributes() for kind in cls.__subclasses__()))


def _own_fields(kind: type[Outcome]) -> list[str]:
    shared = {f.name for f in fields(Outcome)}
    own = [f.name for f in fields(kind) if f.name not in shared and f.metadata.get("fitted", True)]
    return [*own, *kind.measured]


def certify_function(
    task: Task,
    outcome: Outcome,
    squared_norm: float,
    scores: Array,
    *,
    tol: float | None = None,
    rounding: float = 0.0,
) -> Certificate:
    """Return the certificate of the function that predicts, from its norm and its scores on the training data.

    Objective and violation are computed from these; the dual bound is the solver's. A function that differs from the
    solution, for lack of digits in its coefficients, is "inaccurate".

    Parameters
    ----------
    task, outcome
        What was solved.
    squared_norm : float
        Of the function's coefficients, as the penalty has it.
    scores : (N,)
        By the code that predicts.
    tol : float, optional
        How far the objective may be from the solver's, relatively; by default the task's tolerance.
    rounding : float
        What a score may be off by, relative to the largest, beyond the rounding of a plain product.
    """
    problem, proof = task.problem, outcome.solution.certificate
    if scores is outcome.solution.scores:
        value = proof.objective
    else:
        value = float(problem.weight @ problem.loss.value(problem.y * scores))
        value += 0.5 * squared_norm if np.any(problem.ridge) else 0.0
    missed, room = _missed(task, outcome, scores, rounding)
    gap = problem.relative_gap(value, proof.dual_bound)
    is_same = abs(value - proof.objective) <= (task.tol if tol is None else tol) * problem.gap_unit(proof.objective)
    is_kept = bool(np.all(missed <= room))
    status = proof.status if proof.status != "solved" or (is_same and is_kept) else "inaccurate"
    return replace(proof, objective=value, gap=gap, violation=largest(missed), status=status)


def _missed(task: Task, outcome: Outcome, scores: Array, rounding: float) -> tuple[Array, Array]:
    """Return by how much every bound and promise is missed by scores, and how much of that rounding may be."""
    broken = outcome.broken(scores)
    magnitude = np.abs(scores)
    size = largest(magnitude) if len(broken) or rounding else 0.0
    room = np.full(len(broken), ROUNDING_ROOM * (1.0 + size) + rounding * size)
    K = task.centred.shape[1]
    if not K or outcome.problem.n_rows < K:
        return broken, room
    covariance = task.covariance(scores)
    lower, upper = outcome.problem.lower[:K], outcome.problem.upper[:K]
    sizes = task.deviations.sizes
    summed = np.sqrt(len(scores)) * np.finfo(float).eps * (sizes @ magnitude)
    if rounding:
        summed += rounding * size * sizes.sum(axis=1)
    missed = np.maximum(covariance - upper, lower - covariance)
    return np.append(missed, broken), np.append(outcome.problem.room(outcome.solution.theta)[:K] + summed, room)


def as_sure_as(solution: Solution, reference: Solution) -> Solution:
    """Return a solution whose question refers to another one: it is not solved unless the reference is."""
    status = reference.certificate.status
    if status == "solved" or solution.certificate.status != "solved":
        return solution
    return replace(solution, certificate=replace(solution.certificate, status=status))


def loss_increase(value: float, best: float, problem: Problem) -> float:
    """Return ``value / best - 1``; raise where a share of the best objective means nothing."""
    if not best > ROUNDING * problem.at_zero:
        raise ValueError(
            "The data can be fitted or separated without any loss, and a share of a loss of zero means nothing; set "
            "a finite C."
        )
    return value / best - 1.0


def warn_unless_solved(proof: Certificate, tol: float) -> None:
    """Warn of a solver that did not reach its tolerance, for the caller's caller."""
    if proof.status == "solved":
        return
    if proof.status == "separable":
        warn(
            "The data are separable: without a penalty (C=inf) the coefficients grow without end and there is no "
            f"best classifier; training stopped at a loss of {proof.objective:.1e}. Set a finite C.",
            ConvergenceWarning,
        )
        return
    hint = "To get closer, scale the features or lower C."
    if proof.status == "iteration limit":
        hint = "To get closer, raise max_iter."
    elif tol < proof.gap <= _CLOSE:  # rounding, which neither scales nor penalties change much
        hint = "The objective is proved to be that close to the best; if that is enough, raise tol."
    reached = f"above tol={tol:.1e}; the largest violation is {proof.violation:.1e}"
    if proof.gap <= tol:
        missed = f"missed a bound (by {proof.violation:.1e} at most) or the least covariance by more than rounding"
        reached = f"within tol={tol:.1e}, but {missed}"
    warn(
        f"The solver stopped ({proof.status}) after {proof.n_iter} iterations at a relative duality gap of "
        f"{proof.gap:.1e}, {reached}. {hint}",
        ConvergenceWarning,
    )
