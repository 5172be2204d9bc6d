"""Choosing the penalty of the leaf values by the loss on people held out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmargin.formulations import make_task
from fairmargin.losses import Loss
from fairmargin.solvers import Accuracy, Start, solve
from fairmargin.trees.forest import Forest, LeafMap
from fairmargin.trees.growth import grow
from fairmargin.validation import TrainingData

__all__ = ["DEFAULT_C", "choose_penalty"]

Array = NDArray[np.float64]

DEFAULT_C = 0.1  # where too few people could be held out; the middle of the choices that data sets make
_GRID = 10.0 ** np.arange(-3.5, 0.6, 0.5)  # from a loss that hardly counts to leaf values of single people
_HELD_OUT = 4  # one in so many people
_FEWEST = 20  # people of each class held out: an error of a fifth of their mean loss
_TOL = 1e-4  # relative gap: well below the differences that matter between neighbours on the grid


def choose_penalty(
    ensemble: Any, data: TrainingData, loss: Loss, fit_intercept: bool, prefit: bool
) -> tuple[float, LeafMap]:
    """Return the C of least loss on people held out, without any constraint, and the leaves of everybody.

    The trees are grown without these people, unless they were fitted beforehand. Leaf values are learned from
    everybody in the end: on Bank, COMPAS and Adult by sex, trees grown once more on everybody were no more accurate
    and kept rules for other people no better. C increases along the grid, each solution starting from the previous
    one, until the loss increases.
    """
    held = _held_out(data.y)
    if min(np.sum(data.y[held] > 0), np.sum(data.y[held] < 0)) < _FEWEST:
        return DEFAULT_C, LeafMap.of(Forest([ensemble if prefit else grow(ensemble, data, data.y)]), data.X)
    learning = np.flatnonzero(~held)
    leaves = LeafMap.of(Forest([ensemble if prefit else grow(ensemble, data, data.y, learning)]), data.X)
    task = make_task(replace(data, sensitive=None), loss, 1.0, fit_intercept, _TOL, 100, leaves).smoothed()
    problem, judging = task.problem.take(learning), task.problem.design.take(np.flatnonzero(held))
    best, least, start = DEFAULT_C, np.inf, None
    for C in _GRID:
        weighted = replace(problem, weight=C * data.loss_weight[learning])
        solution = solve(weighted, start=start, accuracy=Accuracy(_TOL, proof=False))
        margins = data.y[held] * judging.matvec(solution.theta)
        value = float(data.loss_weight[held] @ loss.value(margins))
        if value > least:
            break
        best, least, start = float(C), value, Start(solution.theta)
    return best, leaves


def _held_out(y: Array) -> NDArray[np.bool_]:
    """Return who is held out: one in four of each class, the same people every time."""
    rng = np.random.default_rng(0)
    held = np.zeros(len(y), dtype=bool)
    for sign in (-1.0, 1.0):
        people = np.flatnonzero(y == sign)
        held[rng.permutation(people)[: len(people) // _HELD_OUT]] = True
    return held
