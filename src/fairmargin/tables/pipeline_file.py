"""Pipelines as plain data: a few transformers of scikit-learn, whose fitted state is numbers and texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import sklearn
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fairmargin.exceptions import ModelFileError
from fairmargin.formatting import shorten
from fairmargin.tables.plain_data import from_plain, to_plain

__all__ = ["PIPELINE", "pipeline_from_plain", "pipeline_to_plain"]

PIPELINE = "Pipeline"
# The only transformers that a file can name, and where they live.
_STEPS = {
    "CategoryEncoder": "fairmargin.categories",
    "MaxAbsScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "Normalizer": "sklearn.preprocessing",
    "OneHotEncoder": "sklearn.preprocessing",
    "OrdinalEncoder": "sklearn.preprocessing",
    "RobustScaler": "sklearn.preprocessing",
    "SimpleImputer": "sklearn.impute",
    "StandardScaler": "sklearn.preprocessing",
}


def pipeline_to_plain(pipeline: Pipeline, save: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Return a fitted pipeline as plain data; ``save`` is for its last step."""
    *steps, (name, last) = pipeline.steps
    return {
        "class": PIPELINE,
        "scikit-learn": sklearn.__version__,
        "steps": [[name, _step_to_plain(step)] for name, step in steps],
        "last": [name, save(last)],
    }


def pipeline_from_plain(plain: Mapping[str, Any], load: Callable[[Mapping[str, Any]], Any]) -> Pipeline:
    """Return the pipeline that :func:`pipeline_to_plain` wrote; ``load`` is for its last step."""
    if plain["scikit-learn"] != sklearn.__version__:
        _check_version(str(plain["scikit-learn"]))
    steps = [(str(name), _step_from_plain(step)) for name, step in plain["steps"]]
    name, last = plain["last"]
    return Pipeline([*steps, (str(name), load(last))])


def _check_version(version: str) -> None:
    """Refuse transformers of another release, whose attributes may mean something else."""
    if version.split(".")[:2] != sklearn.__version__.split(".")[:2]:
        raise ModelFileError(
            f"Its steps were fitted with scikit-learn {shorten(version, 20)}, and this is {sklearn.__version__}; "
            "install that release, or train the model again."
        )


def _step_to_plain(step: Any) -> Any:
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return "passthrough"
    name = type(step).__name__
    if name not in _STEPS or getattr(import_module(_STEPS[name]), name) is not type(step):
        raise ModelFileError(
            f"A pipeline with a {name} cannot be saved as JSON; its steps may be {', '.join(_STEPS)}. Use one of "
            "these (CategoryEncoder takes the place of a ColumnTransformer), or skops.io.dump(model, path), and load "
            "the file with skops.io.load(path, trusted=fairmargin.io.trusted_types())."
        )
    check_is_fitted(step)
    parameters = step.get_params(deep=False)
    fitted = {key: value for key, value in vars(step).items() if key not in parameters}
    return {
        "class": name,
        "parameters": _with_dtypes(parameters),
        "fitted": _with_dtypes(fitted),
    }


def _with_dtypes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by name as plain data, with the names of types of numbers apart from them."""
    dtypes = {key: np.dtype(value).name for key, value in values.items() if _is_dtype(value)}
    return {"values": to_plain({k: v for k, v in values.items() if k not in dtypes}), "dtypes": dtypes}


def _is_dtype(value: Any) -> bool:
    return isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic | float | int))


def _step_from_plain(plain: Any) -> Any:
    if plain == "passthrough":
        return plain
    name = plain["class"]
    if name not in _STEPS:
        raise ModelFileError(f"It holds a step that this fairmargin does not know, {shorten(name)!r}.")
    cls = getattr(import_module(_STEPS[name]), name)
    step = cls(**_from_plain(plain["parameters"]))
    for key, value in _from_plain(plain["fitted"]).items():
        if not key.isidentifier() or key.startswith("__") or hasattr(cls, key):
            raise ValueError(f"a step has a fitted attribute {shorten(key)!r}")
        setattr(step, key, value)
    check_is_fitted(step)
    _check_widths(step)
    return step


def _from_plain(plain: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = from_plain(plain["values"])
    return found | {key: np.dtype(name) for key, name in plain["dtypes"].items()}


def _check_widths(step: Any) -> None:
    """Raise ValueError for a transformer with more or fewer numbers than features."""
    for key, value in vars(step).items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.shape != (step.n_features_in_,):
            raise ValueError(f"{key} of its {type(step).__name__} has the shape {value.shape}")
