"""Models as plain JSON.

:func:`save` writes a fitted classifier, alone or with the encoding of its table
(:class:`fairmargin.tabular.TabularModel`); :func:`load` reads it back. Loading executes nothing: the file names
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
import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fairmargin.exceptions import ModelFileError
from fairmargin.files import write_atomic

__all__ = ["FORMAT_VERSION", "ModelFileError", "load", "save"]

FORMAT = "fairmargin-model"
FORMAT_VERSION = 1

# The only classes that a file can name, and where they live.
_ESTIMATORS = {
    "FairLogisticRegression": "fairmargin.linear",
    "FairLinearSVC": "fairmargin.linear",
    "FairMarginClassifier": "fairmargin.linear",
    "FairSVC": "fairmargin.kernel",
}
_CONSTRAINTS = ("CovarianceBound", "LossBound", "IndividualLossBound", "PRuleBound")
_RECORDS = {"Certificate": "fairmargin.problem", "Movement": "fairmargin.diagnostics"}
_KINDS = {"b": bool, "i": np.int64, "u": np.int64, "f": np.float64, "U": str, "O": object}


def save(model: Any, path: str | Path) -> None:
    """Write a fitted classifier, or a ``TabularModel``, to a JSON file.

    Parameters
    ----------
    model : fitted estimator of this package or TabularModel
    path : path
        A file that is there is replaced at once, when the new one is complete.
    """
    text = json.dumps(_model_to_plain(model), ensure_ascii=False, allow_nan=False, indent=1)
    write_atomic(path, text + "\n")


def load(path: str | Path) -> Any:
    """Read what :func:`save` wrote; nothing in the file is executed.

    Returns
    -------
    fitted estimator or TabularModel
    """
    path = Path(path)
    plain = _read_json(path)
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ModelFileError(f"{path.name} is not a model of fairmargin.")
    version = plain.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFileError(f"{path.name} is damaged: its format version is {version!r}.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path.name} was written by a newer fairmargin (model format {version}, this one reads up to "
            f"{FORMAT_VERSION}); upgrade with: pip install --upgrade fairmargin."
        )
    try:
        return _model_from_plain(plain)
    except ModelFileError as error:
        raise ModelFileError(f"{path.name}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(f"{path.name} is damaged: {_reason(error)}.") from None


def _read_json(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ModelFileError(f"There is no model file {str(path)!r}.") from None
    except IsADirectoryError:
        raise ModelFileError(f"{str(path)!r} is a folder, not a model file.") from None
    except UnicodeDecodeError:
        raise ModelFileError(f"{path.name} is not a model of fairmargin (no JSON text).") from None
    except OSError as error:
        raise ModelFileError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from None
    if not text.strip():
        raise ModelFileError(f"{path.name} is empty; train the model again.")
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ModelFileError(f"{path.name} is not a whole JSON file{where}; is it a model of fairmargin?") from None


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())[:150].rstrip(".")
    return f"it lacks {text}" if isinstance(error, KeyError) else text


def _model_to_plain(model: Any) -> dict[str, Any]:
    from fairmargin import __version__
    from fairmargin.tabular import TabularModel

    table = None
    estimator = model
    if isinstance(model, TabularModel):
        estimator = model.estimator
        table = {
            "encoder": model.encoder.to_dict(),
            "target": model.target,
            "labels": list(model.labels),
            "sensitive": list(model.sensitive),
            "facts": _to_plain(model.facts),
        }
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "fairmargin": __version__,
        "estimator": _estimator_to_plain(estimator),
        "table": table,
    }


def _model_from_plain(plain: Mapping[str, Any]) -> Any:
    from fairmargin.tabular import TableEncoder, TabularModel

    estimator = _estimator_from_plain(plain["estimator"])
    table = plain["table"]
    if table is None:
        return estimator
    encoder = TableEncoder.from_dict(table["encoder"])
    width = len(encoder.feature_names)
    if width != estimator.n_features_in_:
        raise ValueError(f"its encoding has {width} features, its classifier {estimator.n_features_in_}")
    negative, positive = table["labels"]
    facts = _from_plain(table["facts"])
    return TabularModel(estimator, encoder, table["target"], (negative, positive), tuple(table["sensitive"]), facts)


def _estimator_to_plain(estimator: Any) -> dict[str, Any]:
    name = type(estimator).__name__
    if name not in _ESTIMATORS or type(estimator).__module__ != _ESTIMATORS[name]:
        known = ", ".join(_ESTIMATORS)
        raise ModelFileError(f"A {name} cannot be saved; what can are {known}, alone or as a TabularModel.")
    fitted = {key: value for key, value in vars(estimator).items() if key.endswith("_") and not key.startswith("__")}
    if "classes_" not in fitted:
        raise ModelFileError(f"This {name} is not fitted: there is nothing to save.")
    plain = {
        "class": name,
        "parameters": _to_plain(estimator.get_params(deep=False)),
        "fitted": _to_plain(fitted),
    }
    if "_kernel" in vars(estimator):  # None where the kernel matrix is the user's own
        kernel = estimator._kernel
        plain["kernel"] = None if kernel is None else _to_plain(dataclasses.asdict(kernel))
    return plain


def _estimator_from_plain(plain: Mapping[str, Any]) -> Any:
    name = plain["class"]
    if name not in _ESTIMATORS:
        raise ModelFileError(f"It holds a classifier that this fairmargin does not know, {name!r}.")
    cls = getattr(import_module(_ESTIMATORS[name]), name)
    estimator = cls(**_from_plain(plain["parameters"]))
    for key, value in _from_plain(plain["fitted"]).items():
        if not isinstance(key, str) or not key.isidentifier() or not key.endswith("_") or key.startswith("__"):
            raise ValueError(f"it has a fitted attribute {key!r}")
        setattr(estimator, key, value)
    if "kernel" in plain:
        from fairmargin.kernel.matrix import NAMES, Kernel

        kernel = _from_plain(plain["kernel"])
        if kernel is not None and kernel["function"] not in NAMES:
            raise ValueError(f"it has an unknown kernel {kernel['function']!r}")
        estimator._kernel = None if kernel is None else Kernel(**kernel)
    _check_fitted(estimator)
    return estimator


def _check_fitted(estimator: Any) -> None:
    """Refuse a model whose numbers cannot decide."""
    if np.shape(estimator.classes_) != (2,):
        raise ValueError("it does not have two classes")
    if "dual_coef_" in vars(estimator):
        coef, width = estimator.dual_coef_, len(estimator.support_)
        vectors = np.shape(estimator.support_vectors_)
        if estimator._kernel is not None and width and vectors != (width, estimator.n_features_in_):
            raise ValueError(f"its support vectors have the shape {vectors}")
    else:
        coef, width = estimator.coef_, estimator.n_features_in_
    if np.shape(coef) != (1, width):
        raise ValueError(f"it has {np.size(coef)} coefficients where {width} are needed")
    if np.shape(estimator.intercept_) != (1,):
        raise ValueError("it has no intercept")
    if not (np.all(np.isfinite(coef)) and np.all(np.isfinite(estimator.intercept_))):
        raise ValueError("a coefficient is not a finite number")


def _to_plain(value: Any) -> Any:
    """Return ``value`` as JSON data; what JSON does not have is a dict with one key that begins with a dollar."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return _to_plain(value.item())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$number": str(value)}
    if isinstance(value, np.ndarray):
        return {"$array": _to_plain(value.tolist()), "kind": _array_kind(value)}
    if isinstance(value, list):
        return [_to_plain(v) for v in value]
    if isinstance(value, tuple):
        return {"$tuple": [_to_plain(v) for v in value]}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _to_plain(v) for key, v in value.items()}
        return {"$pairs": [[_to_plain(k), _to_plain(v)] for k, v in value.items()]}
    return _object_to_plain(value)


def _object_to_plain(value: Any) -> dict[str, Any]:
    import pandas as pd
    import scipy.sparse as sp

    if sp.issparse(value):
        rows = value.tocsr()
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": list(rows.shape)}
        return {"$sparse": _to_plain(parts)}
    if isinstance(value, pd.Series):
        index = value.index
        names = [None if n is None else str(n) for n in index.names]
        return {"$series": _to_plain(value.tolist()), "index": _to_plain(index.tolist()), "names": names}
    if isinstance(value, type) and value.__name__ in _CONSTRAINTS and value.__module__ == "fairmargin.constraints":
        return {"$constraint": value.__name__}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        kind = "$constraint" if name in _CONSTRAINTS else "$record" if name in _RECORDS else None
        if kind is not None:
            fields = {f.name: _to_plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
            return {kind: name, "fields": fields}
    raise ModelFileError(f"A model with {type(value).__name__} in it cannot be saved as plain data.")


def _array_kind(array: np.ndarray) -> str:
    kind = array.dtype.kind
    if kind not in _KINDS:
        raise ModelFileError(f"An array of {array.dtype} cannot be saved as plain data.")
    return kind


def _from_plain(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_from_plain(v) for v in plain]
    if not isinstance(plain, dict):
        return plain
    marker = next((key for key in plain if key.startswith("$")), None)
    if marker is None:
        return {key: _from_plain(v) for key, v in plain.items()}
    return _marked_from_plain(marker, plain)


def _marked_from_plain(marker: str, plain: dict[str, Any]) -> Any:
    value = plain[marker]
    if marker == "$number":
        return float(value)
    if marker == "$array":
        return np.array(_from_plain(value), dtype=_KINDS[plain["kind"]])
    if marker == "$tuple":
        return tuple(_from_plain(value))
    if marker == "$pairs":
        return {_from_plain(k): _from_plain(v) for k, v in value}
    if marker == "$sparse":
        import scipy.sparse as sp

        parts = _from_plain(value)
        return sp.csr_matrix((parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"]))
    if marker == "$series":
        return _series(_from_plain(value), _from_plain(plain["index"]), plain["names"])
    if marker == "$constraint" and value in _CONSTRAINTS:
        cls = getattr(import_module("fairmargin.constraints"), value)
        return cls(**_from_plain(plain["fields"])) if "fields" in plain else cls
    if marker == "$record" and value in _RECORDS:
        cls = getattr(import_module(_RECORDS[value]), value)
        known = {f.name for f in dataclasses.fields(cls)}
        return cls(**{k: v for k, v in _from_plain(plain["fields"]).items() if k in known})
    raise ValueError(f"it has an unknown mark {marker!r}")


def _series(values: list[Any], index: list[Any], names: list[Any]) -> Any:
    import pandas as pd

    if len(names) > 1:
        return pd.Series(values, index=pd.MultiIndex.from_tuples(index, names=names), dtype=float)
    return pd.Series(values, index=pd.Index(index, name=names[0]))
