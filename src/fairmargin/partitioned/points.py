"""Points of a frontier on partitioned data: fitted models, and rows of the frontier's table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from fairmargin.constraints import Constraint
from fairmargin.decisions import GroupCounts
from fairmargin.formulations import Outcome
from fairmargin.frontier import describe_decisions
from fairmargin.notions import get_notion
from fairmargin.partitioned.counts import Counted, accepted_weight, count_decisions, training_rates
from fairmargin.partitioned.study import PartitionedStudy, PartitionedTask
from fairmargin.partitioned.training import make_model, store_outcome
from fairmargin.tables.model import TabularModel

__all__ = ["describe_counted", "make_point", "table_row"]


def make_point(
    study: PartitionedStudy,
    posed: PartitionedTask,
    prototype: Any,
    constraint: Constraint | None,
    outcome: Outcome,
    found: Counted,
) -> TabularModel:
    """Return an outcome as a model, whose decisions were counted on all rows."""
    estimator = clone(prototype).set_params(constraint=constraint)
    store_outcome(estimator, posed, outcome, constraint, warn=False)
    estimator.training_rates_ = training_rates(study.census, found)
    return make_model(study, posed, estimator)


def table_row(posed: PartitionedTask, fitted: Any) -> dict[str, float]:
    """Return objective, covariances and multipliers of a fitted estimator by column of the table."""
    found = {"objective": fitted.certificate_.objective}
    for word, series in (("covariance", fitted.covariance_), ("multiplier", fitted.multipliers_)):
        found |= {
            f"{word}[{name}]": float(value) for name, value in zip(posed.task.columns.names, series, strict=True)
        }
    return found


def describe_counted(
    study: PartitionedStudy, found: Counted, notion: Any, *, method: str, min_people: int
) -> dict[str, float]:
    """Return accuracy, p%-rule, CV score and rates on all rows by column of the table, from counts at one cut."""
    conditions = get_notion(notion).conditions(np.array([-1.0, 1.0]))
    counts = [_at_zero(c) for c in count_decisions(study.census, found, conditions, min_people)]
    weight = found[0][1].sum(axis=1).astype(float)  # (2, 2): class, refused or accepted
    accepted = accepted_weight(weight)[:, 0]
    accuracy = (accepted[1] + weight[0].sum() - accepted[0]) / weight.sum()
    return describe_decisions(float(accuracy), counts, "train", method)


def _at_zero(counts: GroupCounts) -> GroupCounts:
    return replace(counts, positives=counts.positives[:, 0])
