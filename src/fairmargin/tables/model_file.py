"""Models as plain JSON files.

:func:`save` writes a fitted classifier, alone or with the encoding of its table
(:class:`fairmargin.tables.TabularModel`); :func:`load` reads it back. Loading executes nothing: the file names
one of a few known classes, and everything else in it is numbers and text. Numbers are written with all their digits,
so that a model that was saved and loaded decides bit for bit as before.

Layout (version 1)::

    {"format": "fairmargin-model", "format_version": 1, "fairmargin": "0.1.0",
     "estimator": {"class": ..., "parameters": {...}, "fitted": {...}},
     "table": {"encoder": ..., "target": ..., "labels": [...], "sensitive": [...], "facts": {...}} or null}
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fairmargin.atomic_write import write_atomic
from fairmargin.exceptions import ModelFileError
from fairmargin.formatting import shorten
from fairmargin.missing_file import describe_missing
from fairmargin.tables.encoding import TableEncoder
from fairmargin.tables.model import TabularModel
from fairmargin.tables.pipeline_file import PIPELINE, pipeline_from_plain, pipeline_to_plain
from fairmargin.tables.plain_data import from_plain, parse_json, to_plain

__all__ = ["FORMAT_VERSION", "ModelFileError", "load", "save", "to_json"]

FORMAT = "fairmargin-model"
FORMAT_VERSION = 1
_MAX_BYTES = 1 << 30  # far more than any model needs; what is larger, or has no end, is not one

# The only classes that a file can name, and where they live.
_ESTIMATORS = {
    "FairLogisticRegression": "fairmargin.linear",
    "FairLinearSVC": "fairmargin.linear",
    "FairMarginClassifier": "fairmargin.linear",
    "FairSVC": "fairmargin.kernel",
}
# What wrong data make the constructors of numpy, pandas and our own classes raise.
_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError)


def save(model: Any, path: str | Path) -> None:
    """Write a fitted linear or kernel classifier, a pipeline or a ``TabularModel``, to a JSON file.

    Parameters
    ----------
    model : FairLogisticRegression, FairLinearSVC, FairMarginClassifier, FairSVC, Pipeline or TabularModel
        Fitted. A pipeline ends in one of these classifiers; its other steps may be a :class:`CategoryEncoder` and
        scikit-learn's scalers, encoders and ``SimpleImputer``. A ``TabularModel`` is a classifier with the encoding
        of its table. No other estimator can be saved so: ``FairTreeClassifier`` holds an ensemble of another library
        and ``CertifiedClassifier`` any classifier, which skops (see :func:`fairmargin.io.trusted_types`) or
        ``pickle`` can keep.
    path : path
        An existing file is replaced at once, when the new one is complete.
    """
    write_atomic(path, to_json(model))


def to_json(model: Any) -> str:
    """Return the JSON text that :func:`save` writes."""
    return json.dumps(_model_to_plain(model), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def load(path: str | Path) -> Any:
    """Read what :func:`save` wrote; nothing in the file is executed.

    Returns
    -------
    fitted estimator or TabularModel

    Raises
    ------
    ModelFileError
        If the file is not a model, or its content cannot be right.
    """
    path = Path(path)
    plain = _read_json(path)
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ModelFileError(f"{path.name} is not a model of fairmargin.")
    version = plain.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFileError(f"{path.name} is damaged: its format version is {shorten(repr(version))}.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path.name} was written by a newer fairmargin (model format {version}, this one reads up to "
            f"{FORMAT_VERSION}); upgrade with: pip install --upgrade fairmargin."
        )
    try:
        return _model_from_plain(plain)
    except ModelFileError as error:
        raise ModelFileError(f"{path.name}: {error}") from None
    except _DAMAGE as error:
        raise ModelFileError(f"{path.name} is damaged: {_reason(error)}.") from None


def _read_json(path: Path) -> Any:
    text = _read_text(path)
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        raise ModelFileError(
            f"{path.name} is not a whole JSON file (line {error.lineno}); is it a model of fairmargin?"
        ) from None
    except RecursionError:
        raise ModelFileError(f"{path.name} is nested too deeply; is it a model of fairmargin?") from None
    except ValueError as error:
        raise ModelFileError(f"{path.name} is damaged: {_reason(error)}.") from None


def _read_text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_BYTES + 1)
        text = content.decode()
    except FileNotFoundError:
        raise ModelFileError(describe_missing(path, "model file")) from None
    except IsADirectoryError:
        raise ModelFileError(f"{str(path)!r} is a folder, not a model file.") from None
    except UnicodeDecodeError:
        raise ModelFileError(f"{path.name} is not a model of fairmargin (no JSON text).") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise ModelFileError(f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(content) > _MAX_BYTES:
        raise ModelFileError(f"{path.name} is larger than {_MAX_BYTES:,} bytes; it is not a model of fairmargin.")
    if not text.strip():
        raise ModelFileError(f"{path.name} is empty; train the model again.")
    return text


def _reason(error: Exception) -> str:
    text = shorten(error, 150).rstrip(".")
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return f"it lacks {text}" if isinstance(error, KeyError) else text


def _model_to_plain(model: Any) -> dict[str, Any]:
    from fairmargin import __version__

    table = None
    estimator = model
    if isinstance(model, TabularModel):
        estimator = model.estimator
        table = {
            "encoder": model.encoder.to_dict(),
            "target": model.target,
            "labels": list(model.labels),
            "sensitive": list(model.sensitive),
            "facts": to_plain(model.facts),
        }
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "fairmargin": __version__,
        "estimator": _estimator_to_plain(estimator),
        "table": table,
    }


def _model_from_plain(plain: Mapping[str, Any]) -> Any:
    estimator = _estimator_from_plain(plain["estimator"])
    table = plain["table"]
    if table is None:
        return estimator
    encoder = TableEncoder.from_dict(table["encoder"])
    width = len(encoder.feature_names)
    if width != estimator.n_features_in_:
        raise ValueError(f"its encoding has {width} features, its classifier {estimator.n_features_in_}")
    target, labels, sensitive = table["target"], table["labels"], table["sensitive"]
    texts = [target, *labels, *sensitive]
    if not (isinstance(labels, list) and isinstance(sensitive, list) and all(isinstance(t, str) for t in texts)):
        raise ValueError("its target, labels and sensitive columns are not texts")
    if len(set(labels)) != 2 or len(labels) != 2:
        raise ValueError("its labels are not two different texts")
    return TabularModel(
        estimator, encoder, target, (labels[0], labels[1]), tuple(sensitive), from_plain(table["facts"])
    )


def _estimator_to_plain(estimator: Any) -> dict[str, Any]:
    if isinstance(estimator, Pipeline):
        return pipeline_to_plain(estimator, _estimator_to_plain)
    name = type(estimator).__name__
    if name not in _ESTIMATORS or type(estimator).__module__ != _ESTIMATORS[name]:
        known = ", ".join(_ESTIMATORS)
        raise ModelFileError(
            f"A {name} cannot be saved as JSON, only {known}, alone, in a pipeline or as a TabularModel. Use "
            "skops.io.dump(model, path), and load the file with "
            "skops.io.load(path, trusted=fairmargin.io.trusted_types())."
        )
    fitted = {key: value for key, value in vars(estimator).items() if key.endswith("_") and not key.startswith("__")}
    if "classes_" not in fitted:
        raise ModelFileError(f"This {name} is not fitted: there is nothing to save.")
    plain = {
        "class": name,
        "parameters": to_plain(estimator.get_params(deep=False)),
        "fitted": to_plain(fitted),
    }
    if "_kernel" in vars(estimator):  # None where the kernel matrix is the user's own
        kernel = estimator._kernel
        plain["kernel"] = None if kernel is None else to_plain(dataclasses.asdict(kernel))
    return plain


def _estimator_from_plain(plain: Mapping[str, Any]) -> Any:
    name = plain["class"]
    if name == PIPELINE:
        return pipeline_from_plain(plain, _estimator_from_plain)
    if name not in _ESTIMATORS:
        raise ModelFileError(f"It holds a classifier that this fairmargin does not know, {shorten(name)!r}.")
    cls = getattr(import_module(_ESTIMATORS[name]), name)
    estimator = cls(**from_plain(plain["parameters"]))
    for key, value in from_plain(plain["fitted"]).items():
        if not isinstance(key, str) or not key.isidentifier() or not key.endswith("_") or key.startswith("__"):
            raise ValueError(f"it has a fitted attribute {shorten(key)!r}")
        setattr(estimator, key, value)
    if "kernel" in plain:
        estimator._kernel = _kernel_from_plain(plain["kernel"])
    _check_fitted(estimator)
    return estimator


def _kernel_from_plain(plain: Any) -> Any:
    from fairmargin.kernel.matrix import NAMES, Kernel

    if plain is None:
        return None
    kernel = from_plain(plain)
    if kernel["function"] not in NAMES:
        raise ValueError(f"it has an unknown kernel {shorten(kernel['function'])!r}")
    _check_finite("a parameter of its kernel", [value for name, value in kernel.items() if name != "function"])
    return Kernel(**kernel)


def _check_fitted(estimator: Any) -> None:
    """Raise ValueError for a model whose numbers cannot decide."""
    if len(set(np.ravel(estimator.classes_).tolist())) != 2 or np.shape(estimator.classes_) != (2,):
        raise ValueError("it does not have two classes")
    width = estimator.n_features_in_
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise ValueError(f"its number of features is {shorten(width)!r}")
    if "dual_coef_" in vars(estimator):
        coef, size = estimator.dual_coef_, len(estimator.support_)
        _check_support(estimator, size, width)
    else:
        coef, size = estimator.coef_, width
    if np.shape(coef) != (1, size):
        raise ValueError(f"it has {np.size(coef)} coefficients where {size} are needed")
    if np.shape(estimator.intercept_) != (1,):
        raise ValueError("it has no intercept")
    _check_finite("a coefficient", coef)
    _check_finite("its intercept", estimator.intercept_)
    hasattr(estimator, "predict_proba")  # raises where the loss is not one of ours
    check_is_fitted(estimator)


def _check_support(estimator: Any, size: int, width: int) -> None:
    vectors = estimator.support_vectors_
    if estimator._kernel is None:  # the user's own kernel matrix has one column per person trained on
        support = np.asarray(estimator.support_)
        if size and (support.dtype.kind not in "iu" or support.min() < 0 or support.max() >= width):
            raise ValueError("its support does not lie within its features")
    elif size and np.shape(vectors) != (size, width):
        raise ValueError(f"its support vectors have the shape {np.shape(vectors)}")
    _check_finite("a support vector", vectors.data if sp.issparse(vectors) else vectors)


def _check_finite(what: str, values: Any) -> None:
    numbers = np.asarray(values)
    if numbers.size and (numbers.dtype.kind not in "iuf" or not np.all(np.isfinite(numbers))):
        raise ValueError(f"{what} is not a finite number")
