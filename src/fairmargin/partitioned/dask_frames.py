"""Estimators on Dask frames: trained in passes over the partitions, applied partition by partition.

Columns are taken as they are, like those of an array in memory: nothing is encoded or standardised, and the penalty
is that of the coefficients of the given columns. Numbers are only moved by their mean while the solver works, which
changes nothing but the intercept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.inputs import describe_type, is_dask_frame
from fairmargin.partitioned.arrow import is_category_type, is_number_type
from fairmargin.partitioned.engines import current_client, engine_for
from fairmargin.partitioned.sources.dask import DaskSource, declared_schema
from fairmargin.partitioned.study import PartitionedStudy, prepare
from fairmargin.partitioned.training import check_estimator, check_sensitive, fit_study
from fairmargin.tables.column_kinds import NumberColumn
from fairmargin.tables.encoding import TableEncoder
from fairmargin.validation import check_flag

__all__ = ["fit_frames", "on_partitions"]

_TARGET, _WEIGHT = "(y)", "(sample_weight)"  # names that no column of the user's has


def fit_frames(estimator: Any, X: Any, y: Any, sample_weight: Any, sensitive_features: Any) -> Any:
    """Train a linear classifier on Dask frames that are partitioned alike; see ``FairClassifier.fit``.

    The workers of the current Dask client do the work or, where there is none, threads of this process.
    """
    check_estimator(estimator)
    features = _features(X)
    target = _series(y, "y").rename(_TARGET)
    weight = [] if sample_weight is None else [_series(sample_weight, "sample_weight").rename(_WEIGHT)]
    groups = [] if sensitive_features is None else [_attributes(sensitive_features)]
    sensitive = [str(name) for frame in groups for name in frame.columns]
    for name in sensitive:
        if name in features.columns:
            raise ValueError(
                f"The column {name!r} is both in X and in sensitive_features: deciding by it is disparate treatment. "
                "Leave it out of X."
            )
    check_sensitive(estimator, sensitive, "features in fit(..., sensitive_features=...)")
    client = current_client()
    study = prepare(
        DaskSource(features, target, *weight, *groups),
        engine_for(client),
        target=_TARGET,
        sensitive=sensitive,
        sample_weight=_WEIGHT if weight else None,
        features=list(features.columns),
        impute=False,
    )
    study = replace(study, encoder=_as_they_are(study, check_flag(estimator.fit_intercept, "fit_intercept")))
    fit_study(study, estimator)
    means = np.array([column.mean for column in study.encoder.columns if isinstance(column, NumberColumn)])
    estimator.intercept_ = estimator.intercept_ - estimator.coef_ @ means
    if all(isinstance(name, str) for name in X.columns):
        estimator.feature_names_in_ = np.array(X.columns, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    return estimator


def on_partitions(estimator: Any, method: str, X: Any) -> Any:
    """Return the lazily evaluated result of a method on every partition of a Dask frame, with the frame's index."""
    example = _example(estimator, method)
    return X.map_partitions(_applied, estimator, method, example, meta=example)


def _example(estimator: Any, method: str) -> pd.Series | pd.DataFrame:
    classes: NDArray[Any] = estimator.classes_
    if method == "predict":
        return pd.Series(classes[:0], name="prediction")
    if method == "decision_function":
        return pd.Series(np.empty(0), name="score")
    return pd.DataFrame(np.empty((0, 2)), columns=[str(label) for label in classes])


def _applied(part: pd.DataFrame, estimator: Any, method: str, example: Any) -> pd.Series | pd.DataFrame:
    if len(part) == 0:
        return example
    found = getattr(estimator, method)(part)
    if isinstance(example, pd.DataFrame):
        return pd.DataFrame(found, index=part.index, columns=example.columns)
    return pd.Series(found, index=part.index, name=example.name)


def _features(X: Any) -> Any:
    """Return the features with text as names and truth values as numbers; raise for other columns."""
    if X.ndim != 2:
        raise ValueError("X must be a Dask frame with one column per feature, got a series.")
    frame = X.rename(columns=str)
    for field in declared_schema([frame]):
        if str(field.type) == "bool":
            frame[field.name] = frame[field.name].astype("float64")
        elif not is_number_type(field.type):
            kind = "categories" if is_category_type(field.type) else str(field.type)
            raise ValueError(
                f"The column {field.name!r} of X holds {kind}, not numbers; encode it, or train with "
                "fairmargin.partitioned.fit, which does."
            )
    return frame


def _series(values: Any, name: str) -> Any:
    if not is_dask_frame(values):
        raise TypeError(f"{name} must be a Dask series, as X is a Dask frame; got {describe_type(values)}.")
    if values.ndim == 1:
        return values
    if len(values.columns) != 1:
        raise ValueError(f"{name} must be one column, got a frame of {len(values.columns)}.")
    return values[values.columns[0]]


def _attributes(values: Any) -> Any:
    if not is_dask_frame(values):
        raise TypeError(
            f"sensitive_features must be a Dask frame or series, as X is a Dask frame; got {describe_type(values)}."
        )
    if values.ndim == 1:
        return values.to_frame(name="sensitive" if values.name is None else str(values.name))
    return values.rename(columns=str)


def _as_they_are(study: PartitionedStudy, fit_intercept: bool) -> TableEncoder:
    """Return the encoding that keeps every column, moved by its mean where an intercept can make up for that."""
    sums, names = study.sums, study.layout.numbers
    first = sums.moments.rounded[0] / sums.n_rows
    means = [sums.reference[name] + float(first[j]) if fit_intercept else 0.0 for j, name in enumerate(names)]
    return TableEncoder(
        tuple(NumberColumn(name, mean, mean, 1.0) for name, mean in zip(names, means, strict=True)),
    )
