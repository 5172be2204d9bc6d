"""Classifiers of this package at the end of scikit-learn pipelines: constraints, fitting, and what they know."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline

__all__ = ["fit_to_groups", "last_step", "with_constraint"]


def last_step(model: Any) -> Any:
    """Return the classifier at the end of a pipeline, or the classifier itself."""
    return model[-1] if isinstance(model, Pipeline) else model


def with_constraint(model: Any, constraint: Any) -> Any:
    """Return an unfitted copy of a classifier, or of a pipeline to one, with another constraint."""
    copied = clone(model)
    last_step(copied).set_params(constraint=constraint)
    return copied


def fit_to_groups(model: Any, X: Any, y: Any, **groups: Any) -> Any:
    """Fit a classifier, or a pipeline whose last step gets what is known of groups (``sensitive_features=...``)."""
    if isinstance(model, Pipeline) and not get_config()["enable_metadata_routing"]:
        groups = {f"{model.steps[-1][0]}__{name}": value for name, value in groups.items()}
    return model.fit(X, y, **groups)
