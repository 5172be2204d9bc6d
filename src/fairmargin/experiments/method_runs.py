"""One method at one setting on one split of the data: what a comparison of methods runs, over and over."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fairmargin.baselines import METHODS, Capabilities, Method
from fairmargin.baselines._frames import is_number
from fairmargin.constraints import Constraint, CovarianceBound, PRuleBound
from fairmargin.exceptions import DataError
from fairmargin.experiments._work import Unit
from fairmargin.experiments.tables import OURS
from fairmargin.linear import FairLogisticRegression
from fairmargin.metrics import cv_score, p_rule, positive_rates
from fairmargin.tables.encoding import TableEncoder

__all__ = ["ComparedPeople", "choose_methods", "every_method", "leave_out_unfit", "measure_method", "plan_runs"]

# Rough seconds per fit on 30,000 people, so that long work begins first.
_COSTS = {"dataset-constraints": 6.0, "fair-representations": 4.0, "fair-representations-by-group": 4.0}
_COSTS |= {"situation-testing": 10.0}

# What the dials of this package's own classifier ask for.
_ASKS: dict[str, Callable[[float], Constraint]] = {
    "covariance": lambda c: CovarianceBound(c, relative=True),
    "p-rule": PRuleBound,
}
_UNCONSTRAINED = Capabilities(True, False, False, True, True, "Logistic regression", False)


def every_method() -> list[Method]:
    """Return the unconstrained classifier, this package's two ways to ask for fairness, and all compared methods."""

    def fair(key: str, title: str, make: Callable[[Any], Any], **more: Any) -> Method:
        return Method(key, title, "Zafar et al. (2017)", FairLogisticRegression, OURS, make, **more)

    plain = Method("none", "No constraint", "", LogisticRegression, _UNCONSTRAINED, lambda base: base)
    covariance = fair(
        "covariance",
        "Covariance bound",
        lambda base: FairLogisticRegression(),
        dial="c",
        settings=(0.8, 0.6, 0.4, 0.2, 0.0),
    )
    rule = fair(
        "p-rule",
        "p%-rule bound",
        lambda base: FairLogisticRegression(constraint=PRuleBound(80)),
        dial="p",
        settings=(50.0, 65.0, 80.0, 90.0),
    )
    return [plain, covariance, rule, *METHODS]


def choose_methods(keys: Sequence[str] | None = None) -> list[Method]:
    """Return the methods of some keys, or all; raise for a key that does not exist."""
    known = {method.key: method for method in every_method()}
    for key in keys or ():
        if key not in known:
            raise DataError(f"There is no method {key!r}; there are {', '.join(known)}.", field="methods")
    return [known[key] for key in dict.fromkeys(keys or known)]


def leave_out_unfit(methods: list[Method], sensitive: pd.DataFrame) -> tuple[list[Method], dict[str, str]]:
    """Return the methods that take such attributes, and why the others do not."""
    skipped = {}
    most = int(sensitive.nunique().max())
    for method in methods:
        if sensitive.shape[1] > 1 and not method.capabilities.multiple:
            skipped[method.title] = "takes one sensitive attribute"
        elif most > 2 and not method.capabilities.polyvalent:
            skipped[method.title] = "takes an attribute of two values"
    chosen = [method for method in methods if method.title not in skipped]
    if not chosen:
        raise DataError("None of the methods takes such sensitive attributes.")
    return chosen, skipped


def plan_runs(methods: list[Method], n_splits: int, test_share: float, data: str, digest: str) -> list[Unit]:
    """Return the units of work: every setting of every method on every split."""
    units = []
    for method in methods:
        for setting in method.settings or (None,):
            for split in range(n_splits):
                parameters = {"method": method.key, "setting": setting, "split": split, "test_share": test_share}
                cost = _COSTS.get(method.key, 1.0)
                units.append(Unit(measure_method, {**parameters, "data": data, "digest": digest}, cost))
    return units


@dataclass(frozen=True)
class ComparedPeople:
    """What is compared on: features, labels in {0, 1}, sensitive attributes, and a matrix if there is one."""

    frame: pd.DataFrame
    label: NDArray[np.int64]
    sensitive: pd.DataFrame
    matrix: NDArray[np.float64] | None

    def part(self, rows: NDArray[np.intp]) -> ComparedPeople:
        """Return some of the people."""
        matrix = None if self.matrix is None else self.matrix[rows]
        frame, sensitive = (table.iloc[rows].reset_index(drop=True) for table in (self.frame, self.sensitive))
        return ComparedPeople(frame, self.label[rows], sensitive, matrix)

    def split(self, number: int, test_share: float) -> tuple[ComparedPeople, ComparedPeople]:
        """Return the training and the test people of a random split, both with a matrix learnt from the first."""
        rows = train_test_split(np.arange(len(self.label)), test_size=test_share, random_state=number)
        train, test = (self.part(part) for part in rows)
        if train.matrix is None:
            encoder = TableEncoder.fit(train.frame)
            train, test = (replace(part, matrix=encoder.transform(part.frame)) for part in (train, test))
        medians = _medians(train.frame)
        train, test = (replace(part, frame=part.frame.fillna(medians)) for part in (train, test))
        return train, test


def _medians(frame: pd.DataFrame) -> dict[Any, float]:
    """Return what missing numbers become, as in the matrix; missing categories are one of their own everywhere."""
    numbers = [name for name in frame if is_number(frame[name])]
    return {name: float(frame[name].median()) if frame[name].notna().any() else 0.0 for name in numbers}


@lru_cache(maxsize=1)
def _read_people(path: str, digest: str) -> ComparedPeople:
    return ComparedPeople(**pd.read_pickle(path))


def measure_method(
    method: str, setting: float | None, split: int, test_share: float, data: str, digest: str
) -> list[dict[str, Any]]:
    """Train a method on one split and return what is measured of it on the test people."""
    chosen = {m.key: m for m in every_method()}[method]
    train, test = _read_people(data, digest).split(split, test_share)
    model = _set(chosen, chosen.make(_base(train.frame, chosen.takes_categories)), setting)
    begun = time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            fitted = _fit(chosen, model, train)
        except ValueError as error:  # a cell without people, a rule that cannot be kept
            return [{"error": " ".join(str(error).split())}]
        seconds = time.process_time() - begun
        row = _measured(chosen, fitted, test)
    return [{**row, "seconds": seconds, "warnings": len(said), "error": ""}]


def _base(frame: pd.DataFrame, takes_categories: bool) -> Any:
    """Return the logistic regression that methods wrap, with an encoding of categories where it gets them."""
    base = LogisticRegression(solver="newton-cholesky")
    if not takes_categories:
        return base
    numbers = [name for name in frame if pd.api.types.is_numeric_dtype(frame[name])]
    words = [name for name in frame if name not in numbers]
    indicators = OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False)
    steps = [("numbers", StandardScaler(), numbers), ("words", indicators, words)]
    return make_pipeline(ColumnTransformer(steps), base)


def _set(method: Method, model: Any, setting: float | None) -> Any:
    """Return the classifier with its dial at a setting."""
    if setting is None or method.dial is None:
        return model
    if method.key in _ASKS:
        return model.set_params(constraint=_ASKS[method.key](setting))
    return model.set_params(**{method.dial: setting})


def _fit(method: Method, model: Any, train: ComparedPeople) -> Any:
    X = train.frame if method.takes_categories else train.matrix
    if method.key == "none":
        return model.fit(X, train.label)
    return model.fit(X, train.label, sensitive_features=_as_given(train.sensitive))


def _as_given(sensitive: pd.DataFrame) -> Any:
    """Return one column as a series, which every method takes."""
    return sensitive.iloc[:, 0] if sensitive.shape[1] == 1 else sensitive


def _measured(method: Method, fitted: Any, test: ComparedPeople) -> dict[str, Any]:
    X = test.frame if method.takes_categories else test.matrix
    needs = {"sensitive_features": _as_given(test.sensitive)} if method.capabilities.needs_z_at_prediction else {}
    decided = np.asarray(fitted.predict(X, **needs))
    decide = getattr(fitted, "decision_function", None)
    scores = decide(X, **needs) if decide is not None else fitted.predict_proba(X, **needs)[:, 1]
    positive, label = decided == 1, test.label == 1
    groups: dict[str, Any] = {"sensitive_features": test.sensitive, "pos_label": 1}
    rates = positive_rates(None, decided, **groups)["rate"].reset_index()
    return {
        "accuracy": float(np.mean(positive == label)),
        "auc": float(roc_auc_score(label, scores)),
        "p_rule": p_rule(None, decided, zero_division=100.0, **groups),
        "cv_score": cv_score(None, decided, **groups),
        "fpr": float(positive[~label].mean()),
        "fnr": float((~positive)[label].mean()),
        **{
            f"{name}_difference": _difference(decided, test.sensitive, of)
            for name, of in (("fpr", ~label), ("fnr", label))
        },
        **{f"rate {r['attribute']}={r['category']}": float(r["rate"]) for r in rates.to_dict("records")},
    }


def _difference(decided: NDArray[Any], sensitive: pd.DataFrame, of: NDArray[np.bool_]) -> float:
    """Return the largest difference of positive rates among some people; nan where a group has nobody there."""
    there = sensitive[of].reset_index(drop=True)
    if (there.nunique() < sensitive.nunique()).any():
        return float("nan")
    return cv_score(None, decided[of], sensitive_features=there, pos_label=1)
