"""From checked people to the multinomial problem, and what a constraint means for several classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.constraints import CovarianceBound
from fairmargin.design import make_design
from fairmargin.formulations.task import covariance_rows
from fairmargin.multiclass.newton import SUBSAMPLE_GAP, MultinomialSolution, solve_multinomial, subsample
from fairmargin.multiclass.objective import MultinomialObjective
from fairmargin.multiclass.problem import MultinomialProblem, class_rows
from fairmargin.notions import Compared, Notion, compare, get_notion
from fairmargin.row_space import reduce_rank, reduce_wide
from fairmargin.sensitive import Attribute, Sensitive
from fairmargin.several import FOR_TWO
from fairmargin.tolerances import ROUGH

__all__ = [
    "ClassData",
    "ClassOutcome",
    "ClassTask",
    "boundary_scores",
    "for_two",
    "make_class_task",
    "solve_classes",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ClassData:
    """Checked data of the people with a positive weight.

    ``X`` (N, d); ``codes`` (N,) index ``classes`` (Q,); ``people_weight`` (N,) defines means and covariances;
    ``loss_weight`` (N,) has the class weights in it; ``favourable`` indexes the classes that rules are about. Groups
    are compared within ``strata``, if there are any.
    """

    X: Any
    codes: NDArray[np.intp]
    classes: NDArray[Any]
    people_weight: Array
    loss_weight: Array
    sensitive: Sensitive | None
    favourable: tuple[int, ...]
    strata: Attribute | None = None


@dataclass(frozen=True)
class ClassTask:
    """Data, loss and penalty of one training, before anything is asked of it.

    Attributes
    ----------
    problem : MultinomialProblem
        With the rows of every (class, column) pair, class by class, and infinite bounds.
    data : ClassData
    centred : list of (N, K)
        ``z - zbar`` for each class, among the people whom the notion counts there; one column per sensitive column
        and condition.
    compared : tuple of Compared
        The same with who counts, for each class; empty without sensitive features.
    weight_of_loss : float
        ``C``, 1 for ``inf``.
    feature_map : object or None
        Coordinates in which the problem is written, with ``expand``; None for the columns of ``X``.
    """

    problem: MultinomialProblem
    data: ClassData
    centred: list[Array]
    compared: tuple[Compared, ...]
    weight_of_loss: float
    tol: float
    max_iter: int
    feature_map: Any = None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.data.classes)

    @property
    def sensitive(self) -> Sensitive:
        """The sensitive attributes, which a constraint needs."""
        assert self.data.sensitive is not None
        return self.data.sensitive

    @property
    def columns(self) -> Compared:
        """The columns of the first class, whose labels are those of all."""
        return self.compared[0]

    @property
    def n_columns(self) -> int:
        """Number of columns K per class: sensitive columns, under each condition."""
        return self.centred[0].shape[1]

    def solve(
        self, problem: MultinomialProblem, start: MultinomialSolution | None = None, tol: float | None = None
    ) -> MultinomialSolution:
        """Solve a problem of this task, to the task's accuracy by default."""
        return solve_multinomial(problem, start=start, tol=max(tol or 0.0, self.tol), max_iter=self.max_iter)

    @cached_property
    def free(self) -> MultinomialSolution:
        """The unconstrained solution, solved once: rough where it is only compared with."""
        return self.solve(self.problem.unconstrained(), self.part_free, tol=ROUGH)

    @cached_property
    def part(self) -> MultinomialProblem | None:
        """The unconstrained problem on a subsample, where there are rows enough for one."""
        return subsample(self.problem.unconstrained())

    @cached_property
    def part_free(self) -> MultinomialSolution | None:
        """Its solution, roughly."""
        if self.part is None:
            return None
        return solve_multinomial(self.part, tol=SUBSAMPLE_GAP, max_iter=self.max_iter)

    @cached_property
    def exact_free(self) -> MultinomialSolution:
        """The unconstrained solution to the task's accuracy."""
        return self.solve(self.problem.unconstrained(), self.free)

    def coefficients(self, phi: Array) -> tuple[Array, Array]:
        """Return weights (Q, d) and intercepts (Q,) of the columns of ``X``."""
        design = self.problem.objective.design
        pairs = [design.to_original(theta) for theta in self.problem.objective.coefficients(phi)]
        expand = (lambda w: w) if self.feature_map is None else self.feature_map.expand
        return np.array([expand(w) for w, _ in pairs]), np.array([b for _, b in pairs])

    def covariance(self, scores: Array) -> Array:
        """Return the covariances (Q, K) of the boundaries of all classes, from the scores (Q, N)."""
        share = self.data.people_weight / self.data.people_weight.sum()
        return np.array([z.T @ (share * s) for z, s in zip(self.centred, boundary_scores(scores), strict=True)])


@dataclass(frozen=True)
class ClassOutcome:
    """A solved task: the solution, the problem it solves, and further fitted attributes by name."""

    solution: MultinomialSolution
    problem: MultinomialProblem
    free: MultinomialSolution
    more: dict[str, Any] = field(default_factory=dict)


def boundary_scores(scores: Array) -> Array:
    """Return the score of each class less the mean of the others', (Q, N)."""
    n_classes = len(scores)
    return (scores - scores.mean(axis=0)) * (n_classes / (n_classes - 1.0))


def make_class_task(
    data: ClassData, C: float, fit_intercept: bool, tol: float, max_iter: int, notions: list[Any]
) -> ClassTask:
    """Write down the problem: label masses, penalty and covariance rows; ``notions`` has one notion per class."""
    is_penalised = bool(np.isfinite(C))
    feature_map = _coordinates(data.X, is_penalised, fit_intercept)
    design = make_design(data.X if feature_map is None else feature_map.features, fit_intercept)
    Q, n = len(data.classes), len(data.codes)
    factor = C if is_penalised else 1.0
    masses = np.zeros((Q, n))
    masses[data.codes, np.arange(n)] = factor * data.loss_weight
    # Of two classes the weights are w/2 and -w/2: twice the ridge makes the penalty that of w.
    ridge = np.full(design.shape[1], (2.0 if Q == 2 else 1.0) * is_penalised)
    if fit_intercept:
        ridge[-1] = 0.0
    compared = _compared(data, notions)
    centred = [c.centred for c in compared] or [np.empty((n, 0))] * Q
    if len({z.shape[1] for z in centred}) > 1:
        raise ValueError(
            "The bounds of single classes must have the same number of rates: under 'equalized_odds', of which there "
            "are two, bound all classes, or name notions of one rate."
        )
    rows = class_rows(_rows_by_class(design, centred, data.people_weight))
    free = np.full(len(rows), np.inf)
    problem = MultinomialProblem(MultinomialObjective(design, masses, ridge), rows, -free, free)
    return ClassTask(problem, data, centred, tuple(compared), factor, tol, max_iter, feature_map)


def _rows_by_class(design: Any, centred: list[Array], weight: Array) -> list[Array]:
    """Return the covariance rows of each class; classes that share their columns share them."""
    known: dict[int, Array] = {}
    for z in centred:
        if id(z) not in known:
            known[id(z)] = covariance_rows(design, z, weight)
    return [known[id(z)] for z in centred]


def _compared(data: ClassData, notions: list[Any]) -> list[Compared]:
    """Return the columns of each class; a notion about labels sees "this class or another"."""
    if data.sensitive is None:
        return []
    found: list[Compared] = []
    known: dict[str, Compared] = {}  # of notions that do not depend on labels, whatever the class
    for q, notion in enumerate(map(get_notion, notions)):
        if notion.name not in known:
            compared = _compared_for(q, notion, data, data.sensitive)
            if notion.needs_labels:
                found.append(compared)
                continue
            known[notion.name] = compared
        found.append(known[notion.name])
    return found


def _compared_for(q: int, notion: Notion, data: ClassData, sensitive: Sensitive) -> Compared:
    """Return the columns among the people who count for one class against the others."""
    signed = np.where(data.codes == q, 1.0, -1.0)
    try:
        compared = compare(sensitive, notion, signed, data.people_weight, data.strata)
    except ValueError as error:
        if not notion.needs_labels:
            raise
        label = data.classes.tolist()[q]
        raise ValueError(f"Of the class {label!r}, the positive label, against the others: {error}") from None
    if any(np.ptp(condition.sign) > 0 for condition in compared.conditions):
        raise ValueError(
            f"The notion {notion.name!r} is only defined for two classes{for_two(data.classes)}; several classes "
            "take 'selection_rate', 'true_positive_rate', 'false_positive_rate', 'false_negative_rate' or "
            "'equalized_odds'."
        )
    return compared


def for_two(classes: NDArray[Any]) -> str:
    """Return, for messages, who takes what several classes do not, where there are but two."""
    return ", for which use FairLogisticRegression" if len(classes) == 2 else ""


def _coordinates(X: Any, is_penalised: bool, fit_intercept: bool) -> Any:
    """Return fewer coordinates in which the same classifiers can be written, where there are any; else None."""
    n, d = X.shape
    if not is_penalised:
        return reduce_rank(X, fit_intercept)
    return reduce_wide(X) if d > n and isinstance(X, np.ndarray) else None


@singledispatch
def solve_classes(constraint: Any, task: ClassTask) -> ClassOutcome:
    """Return the outcome of a task under ``constraint``."""
    if isinstance(constraint, FOR_TWO):
        raise ValueError(
            f"{type(constraint).__name__} is only defined for two classes{for_two(task.data.classes)}; several "
            "classes take CovarianceBound, a mapping from class to CovarianceBound, PRuleBound or None."
        )
    if isinstance(constraint, list | tuple):
        raise ValueError(
            f"Several constraints at once are only defined for two classes{for_two(task.data.classes)}; give one "
            "constraint, or a mapping from class to CovarianceBound."
        )
    raise ValueError(
        "constraint must be None, CovarianceBound, a mapping from class to CovarianceBound, or PRuleBound, got "
        f"{constraint!r}."
    )


@solve_classes.register
def solve_unconstrained_classes(constraint: None, task: ClassTask) -> ClassOutcome:
    """Return the solution without any constraint."""
    solution = task.exact_free
    return ClassOutcome(solution, task.problem.unconstrained(), solution)


@solve_classes.register
def solve_bounded_classes(constraint: CovarianceBound, task: ClassTask) -> ClassOutcome:
    """Return the solution with the same bound for every class."""
    return _solve_bounds([constraint] * task.n_classes, task)


@solve_classes.register(Mapping)
def solve_bounds_by_class(constraint: Mapping[Any, Any], task: ClassTask) -> ClassOutcome:
    """Return the solution with a bound for each class named."""
    return _solve_bounds([constraint.get(label) for label in task.data.classes.tolist()], task)


def _solve_bounds(bounds: list[CovarianceBound | None], task: ClassTask) -> ClassOutcome:
    """Return the least objective with every covariance of every class within its bound; None does not bound."""
    infinite = np.full(task.n_columns, np.inf)
    asked = [infinite if b is None else task.columns.repeated(b.thresholds(task.sensitive)) for b in bounds]
    is_relative = any(b is not None and b.relative for b in bounds)
    free = task.exact_free if is_relative else task.free
    reference = np.abs(task.problem.rows @ free.phi).reshape(task.n_classes, -1)
    for q, b in enumerate(bounds):
        if b is not None and b.relative:
            bounded = np.isfinite(asked[q])
            asked[q] = np.where(bounded, np.where(bounded, asked[q], 0.0) * reference[q], np.inf)
    bound = np.concatenate(asked)
    problem = task.problem.with_bounds(-bound, bound)
    return ClassOutcome(task.solve(problem, _start(task, problem, free)), problem, free)


def _start(task: ClassTask, problem: MultinomialProblem, free: MultinomialSolution) -> MultinomialSolution:
    """Return a start: the solution on a subsample, which keeps the same constraints, or the unconstrained one."""
    part = task.part
    if part is None or task.part_free is None:
        return free
    posed = part.with_rows_of(problem)
    return solve_multinomial(posed, start=task.part_free, tol=SUBSAMPLE_GAP, max_iter=task.max_iter)
