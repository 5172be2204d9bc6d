"""Choosing the penalty of the leaf values by the loss on people held out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from fairmargin.formulations import make_task
from fairmargin.losses import Loss
from fairmargin.solvers import Start
from fairmargin.trees.forest import Forest, LeafMap, sum_values
from fairmargin.trees.growth import grow
from fairmargin.validation import TrainingData

__all__ = ["DEFAULT_C", "choose_penalty"]

Array = NDArray[np.float64]

DEFAULT_C = 0.1  # where too few people could be held out; the middle of the choices that data sets make
_GRID = 10.0 ** np.arange(-3.5, 0.6, 0.5)  # from a loss that hardly counts to leaf values of single people
_HELD_OUT = 4  # one in so many people
_FEWEST = 20  # people of each class held out: an error of a fifth of their mean loss
_TOL = 1e-4  # relative gap: well below the differences that matter between neighbours on the grid


def choose_penalty(ensemble: Any, data: TrainingData, loss: Loss, fit_intercept: bool, prefit: bool) -> float:
    """Return the C of least loss on people held out, without any constraint.

    The trees are grown without these people too, unless they were fitted beforehand. C increases along the grid, each
    solution starting from the previous one, until the loss increases.
    """
    held = _held_out(data.y)
    if min(np.sum(data.y[held] > 0), np.sum(data.y[held] < 0)) < _FEWEST:
        return DEFAULT_C
    learning, judging = _take(data, np.flatnonzero(~held)), _take(data, np.flatnonzero(held))
    forest = Forest([ensemble if prefit else grow(ensemble, learning, learning.y)])
    leaves = LeafMap.of(forest, learning.X)
    task = make_task(learning, loss, 1.0, fit_intercept, _TOL, 100, leaves).smoothed()
    columns = forest.columns(judging.X)
    best, least, start = DEFAULT_C, np.inf, None
    for C in _GRID:
        problem = replace(task.problem, weight=C * learning.loss_weight)
        solution = task.solve(problem, start)
        w, b = task.coefficients(solution)
        margins = judging.y * (sum_values(columns, w) + b)
        value = float(judging.loss_weight @ loss.value(margins))
        if value > least:
            break
        best, least, start = float(C), value, Start(solution.theta)
    return best


def _held_out(y: Array) -> NDArray[np.bool_]:
    """Return who is held out: one in four of each class, the same people every time."""
    rng = np.random.default_rng(0)
    held = np.zeros(len(y), dtype=bool)
    for sign in (-1.0, 1.0):
        people = np.flatnonzero(y == sign)
        held[rng.permutation(people)[: len(people) // _HELD_OUT]] = True
    return held


def _take(data: TrainingData, rows: NDArray[np.intp]) -> TrainingData:
    """Return some of the people, without their sensitive attributes."""
    return replace(
        data,
        X=_safe_indexing(data.X, rows),
        y=data.y[rows],
        people_weight=data.people_weight[rows],
        loss_weight=data.loss_weight[rows],
        sensitive=None,
        kept=data.kept[rows],
    )
