"""Growing trees: on the labels, and then on what decisions are worth under a p%-rule.

At prices ``u`` of the decision path (:mod:`fairmargin.formulations.prule`), accepting person i is worth ``c_i = y_i -
2 sum_k u_k (z_ik - p_k)``. Trees that predict ``sign(c_i)``, weighted by ``|c_i|``, separate the people for whom the
decision matters most under the rule. ``z`` enters the training targets and is never used in a split.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from fairmargin.constraints import Constraint, PRuleBound
from fairmargin.formulations import Task
from fairmargin.formulations.prule import PRuleOutcome, solve_p_rule
from fairmargin.formulations.prule.families import DecisionFamily
from fairmargin.trees.adapters import fit_ensemble
from fairmargin.trees.forest import Forest, LeafMap
from fairmargin.validation import TrainingData, check_count

__all__ = ["check_rounds", "grow", "regrow"]

Array = NDArray[np.float64]

_PRICE_TOL = 1e-4  # gap of the fits that only find prices, which are rounded to three digits


def check_rounds(rounds: Any, constraint: Constraint | None) -> int:
    """Return the number of rounds; raise for more than one under a constraint that sets no prices."""
    rounds = check_count(rounds, "rounds")
    if rounds > 1 and not isinstance(constraint, PRuleBound):
        raise ValueError(
            f"rounds={rounds} grows trees on the prices that a PRuleBound sets, but the constraint is "
            f"{constraint!r}; set rounds=1."
        )
    return rounds


def grow(ensemble: Any, data: TrainingData, costs: Array, people: NDArray[np.intp] | None = None) -> Any:
    """Return a copy of an ensemble fitted to the signs of costs (N,), weighted by their sizes, for some people."""
    X, weight = data.X, data.loss_weight * np.abs(costs)
    if people is not None:
        X, costs, weight = _safe_indexing(X, people), costs[people], weight[people]
    return fit_ensemble(ensemble, X, (costs > 0).astype(int), None if np.all(weight == 1.0) else weight)


def regrow(task: Task, constraint: Constraint | None, ensemble: Any, rounds: int) -> Task:
    """Return the task on the trees of all rounds; later ones are grown on the costs at the prices found."""
    for _ in range(rounds - 1):
        assert isinstance(constraint, PRuleBound)
        costs = _costs(task, constraint)
        if costs is None:
            break
        leaves = task.feature_map
        assert isinstance(leaves, LeafMap)
        more = Forest([grow(ensemble, task.data, costs)])
        columns = np.hstack([leaves.columns, more.columns(task.data.X) + np.int32(leaves.forest.n_leaves)])
        task = task.on(LeafMap(Forest([*leaves.forest.ensembles, *more.ensembles]), columns))
    return task


def _costs(task: Task, constraint: PRuleBound) -> Array | None:
    """Return the costs at the prices that a rule needs on the task's features; None where it needs none."""
    rough = replace(task, tol=max(task.tol, _PRICE_TOL))
    outcome = solve_p_rule(replace(constraint, path="decisions"), rough)
    assert isinstance(outcome, PRuleOutcome)
    if outcome.path != "decisions":
        return None
    assert outcome.unconstrained is not None
    return DecisionFamily(task, outcome.unconstrained).costs(outcome.path_point.to_numpy())
