"""Every method on one data set: repeated splits, one table, one picture.

::

    from fairmargin.experiments import compare

    found = compare(X, y, sensitive_features=z, out="comparison")
    found.table                       # a row per method and setting, means over the splits
    found.plot().savefig("comparison.png")
"""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
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

from fairmargin.atomic_write import write_atomic
from fairmargin.baselines import METHODS, Capabilities, Method
from fairmargin.baselines._frames import is_number
from fairmargin.constraints import Constraint, CovarianceBound, PRuleBound
from fairmargin.exceptions import DataError
from fairmargin.experiments import style
from fairmargin.experiments._experiment import collect
from fairmargin.experiments._work import Done, Store, Unit, run_units
from fairmargin.experiments.document import markdown_table
from fairmargin.experiments.tables import OURS
from fairmargin.linear import FairLogisticRegression
from fairmargin.metrics import cv_score, p_rule, positive_rates
from fairmargin.sensitive import encode_sensitive
from fairmargin.tables.encoding import TableEncoder
from fairmargin.validation import favourable_class

__all__ = ["Comparison", "choose_methods", "compare", "every_method"]

MEASURES = ("accuracy", "auc", "p_rule", "cv_score", "fpr", "fnr", "fpr_difference", "fnr_difference")

_NEAR = 3  # points of accuracy that the right panel of the picture spans
_DASHES = ("-", "--", ":")

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


@dataclass(frozen=True)
class _People:
    """What is compared on: features, labels in {0, 1}, sensitive attributes, and a matrix if there is one."""

    frame: pd.DataFrame
    label: NDArray[np.int64]
    sensitive: pd.DataFrame
    matrix: NDArray[np.float64] | None

    def part(self, rows: NDArray[np.intp]) -> _People:
        matrix = None if self.matrix is None else self.matrix[rows]
        frame, sensitive = (table.iloc[rows].reset_index(drop=True) for table in (self.frame, self.sensitive))
        return _People(frame, self.label[rows], sensitive, matrix)

    def split(self, number: int, test_share: float) -> tuple[_People, _People]:
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
def _read_people(path: str, digest: str) -> _People:
    return _People(**pd.read_pickle(path))


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


def _fit(method: Method, model: Any, train: _People) -> Any:
    X = train.frame if method.takes_categories else train.matrix
    if method.key == "none":
        return model.fit(X, train.label)
    return model.fit(X, train.label, sensitive_features=_as_given(train.sensitive))


def _as_given(sensitive: pd.DataFrame) -> Any:
    """Return one column as a series, which every method takes."""
    return sensitive.iloc[:, 0] if sensitive.shape[1] == 1 else sensitive


def _measured(method: Method, fitted: Any, test: _People) -> dict[str, Any]:
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


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found.

    Attributes
    ----------
    rows : DataFrame
        A row per method, setting and split.
    table : DataFrame
        A row per method and setting: means over the splits; ``_std`` columns hold standard deviations.
    skipped : dict
        Methods that do not fit the data, and why.
    """

    rows: pd.DataFrame
    table: pd.DataFrame
    skipped: dict[str, str]

    def plot(self) -> Any:
        """Return a figure: accuracy against p%-rule, a curve for methods with a dial, a point for others."""
        with style.styled():
            return _draw(self.table)

    @property
    def shown(self) -> pd.DataFrame:
        """The table as text for people, shares in percent."""
        return _shown(self.table)

    def to_markdown(self) -> str:
        """Return the table as Markdown, shares in percent."""
        return markdown_table(self.shown) + "\n"


def compare(
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    matrix: Any = None,
    methods: Sequence[str] | None = None,
    n_splits: int = 5,
    test_share: float = 0.3,
    pos_label: Any = None,
    out: str | Path = "comparison",
    jobs: int = 2,
    fresh: bool = False,
    done: Done | None = None,
) -> Comparison:
    """Run every method that fits the data on repeated random splits.

    Work that is found in ``out`` is not repeated: a run that was stopped goes on where it was.

    Parameters
    ----------
    X : DataFrame or array (n, d)
        Features; categories are encoded by :class:`fairmargin.tables.encoding.TableEncoder`, learnt from the
        training people of each split.
    y : array (n,)
        Labels of two classes.
    sensitive_features : array, series or frame (n,) or (n, k)
    matrix : array (n, m), optional
        The features as numbers, where they are encoded already.
    methods : sequence of str, optional
        Keys of :func:`every_method`; by default all.
    n_splits : int
        Number of splits; the number of a split is its seed.
    test_share : float
    pos_label : label, optional
        The favourable class; by default the later one in sorted order, with a ``FavourableClassWarning`` unless the
        labels are 0 and 1, -1 and 1, or False and True.
    out : path
        Gets ``units`` (finished work), ``rows.csv``, ``table.csv``, ``table.md``, ``comparison.png`` and ``.svg``.
    jobs : int
        Number of processes.
    fresh : bool
        Forget finished work first.
    done : callable, optional
        Called with (units finished, units in all, what was finished last).
    """
    if n_splits < 1 or not 0 < test_share < 1 or jobs < 1:
        raise DataError("compare needs at least one split and one job, and a test share between 0 and 1.")
    people = _checked(X, y, sensitive_features, matrix, pos_label)
    chosen, skipped = _fitting(choose_methods(methods), people.sensitive)
    folder = Path(out)
    store = Store(folder / "units")
    with store.locked():
        store.sweep()
        if fresh:
            store.clear()
        data, digest = _written(people, folder)
        units = _units(chosen, n_splits, test_share, data, digest)
        try:
            run_units(units, store, jobs=jobs, done=done)
        finally:
            Path(data).unlink(missing_ok=True)  # results are passed on; people's data should not be
        rows = collect(units, store)["measure_method"].drop(columns=["data", "digest", "test_share"])
    found = Comparison(rows, _summary(rows, chosen), skipped)
    _write(found, folder)
    return found


def _checked(X: Any, y: Any, sensitive_features: Any, matrix: Any, pos_label: Any) -> _People:
    frame = X.reset_index(drop=True) if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    frame = frame.set_axis([str(name) for name in frame], axis=1).apply(_plain)
    label = _checked_labels(y, pos_label)
    sensitive = encode_sensitive(sensitive_features, len(label))
    numeric = [a.name for a in sensitive.attributes if a.codes is None]
    if numeric:
        raise DataError(f"The sensitive attribute {numeric[0]!r} is a number; cut it into groups to compare methods.")
    words = {a.name: np.array(a.categories, dtype=object)[a.codes] for a in sensitive.attributes}
    numbers = None if matrix is None else np.asarray(matrix, dtype=float)
    if len(frame) != len(label) or (numbers is not None and len(numbers) != len(label)):
        raise DataError("X, matrix and y must have as many rows.")
    return _People(frame, label, pd.DataFrame(words).astype(str), numbers)


def _checked_labels(y: Any, pos_label: Any) -> NDArray[np.int64]:
    """Return 1 for the favourable class and 0 for the other, (n,)."""
    codes, classes = pd.factorize(np.asarray(y), sort=True)
    if (codes < 0).any():
        raise DataError(f"y has {np.count_nonzero(codes < 0)} missing values; leave these people out.")
    if len(classes) != 2:
        raise DataError(f"Classification is binary: y must have two classes, got {len(classes)}.")
    return (classes[codes] == favourable_class(classes, pos_label)).astype(np.int64)


def _plain(column: pd.Series) -> pd.Series:
    """Return a column with one kind of missing value: nan among numbers, None among words and truth values."""
    if is_number(column):
        return column.astype(np.float64)
    if isinstance(column.dtype, pd.CategoricalDtype) or not column.isna().any():
        return column.astype(bool) if pd.api.types.is_bool_dtype(column) else column
    words = column.astype(object)
    return words.where(words.isna(), words.astype(str)).where(words.notna(), None)


def choose_methods(keys: Sequence[str] | None = None) -> list[Method]:
    """Return the methods of some keys, or all; raise for a key that does not exist."""
    known = {method.key: method for method in every_method()}
    for key in keys or ():
        if key not in known:
            raise DataError(f"There is no method {key!r}; there are {', '.join(known)}.", field="methods")
    return [known[key] for key in dict.fromkeys(keys or known)]


def _fitting(methods: list[Method], sensitive: pd.DataFrame) -> tuple[list[Method], dict[str, str]]:
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


def _written(people: _People, folder: Path) -> tuple[str, str]:
    """Write the data for the workers, and return where and their digest."""
    digest = sha256()
    for table in (people.frame, people.sensitive):
        digest.update(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())
        digest.update(repr(list(table.columns)).encode())
    digest.update(people.label.tobytes() + (b"" if people.matrix is None else people.matrix.tobytes()))
    path = folder / "people.pickle"
    content = {name: getattr(people, name) for name in ("frame", "label", "sensitive", "matrix")}
    write_atomic(path, pickle.dumps(content))
    return str(path), digest.hexdigest()[:16]


def _units(methods: list[Method], n_splits: int, test_share: float, data: str, digest: str) -> list[Unit]:
    units = []
    for method in methods:
        for setting in method.settings or (None,):
            for split in range(n_splits):
                parameters = {"method": method.key, "setting": setting, "split": split, "test_share": test_share}
                cost = _COSTS.get(method.key, 1.0)
                units.append(Unit(measure_method, {**parameters, "data": data, "digest": digest}, cost))
    return units


def _summary(rows: pd.DataFrame, methods: list[Method]) -> pd.DataFrame:
    """Return the means over the splits, in the order of the methods and their settings."""
    numbers = [c for c in map(str, rows) if c in (*MEASURES, "seconds", "warnings") or c.startswith("rate ")]
    table = []
    for method in methods:
        for setting in method.settings or (None,):
            same = rows["setting"].isna() if setting is None else rows["setting"] == setting
            of = rows[(rows["method"] == method.key) & same]
            worked = of[of["error"] == ""]
            row: dict[str, Any] = {"method": method.title, "dial": method.dial or "", "setting": setting}
            row |= {"splits": len(worked), "error": next((e for e in of["error"] if e), "")}
            row |= {name: worked[name].mean() for name in numbers}
            row |= {
                f"{name}_std": worked[name].std(ddof=0) if len(worked) > 1 else np.nan
                for name in ("accuracy", "p_rule")
            }
            table.append(row)
    return pd.DataFrame(table)


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns for people: shares in percent, one decimal."""
    shown = pd.DataFrame({"Method": table["method"]})
    shown["Setting"] = [f"{d} = {s:g}" if d else "" for d, s in zip(table["dial"], table["setting"], strict=True)]
    titles = {"accuracy": "Accuracy", "auc": "AUC", "p_rule": "p%-rule", "cv_score": "CV score"}
    titles |= {"fpr": "FPR", "fnr": "FNR", "fpr_difference": "FPR difference", "fnr_difference": "FNR difference"}
    titles |= {name: f"Rate {name.removeprefix('rate ')}" for name in map(str, table) if name.startswith("rate ")}
    for name, title in titles.items():
        factor = 1.0 if name == "p_rule" else 100.0
        shown[title] = [("–" if np.isnan(v) else f"{factor * v:.1f}") for v in table[name].astype(float)]
    shown["p%-rule"] += [("" if np.isnan(s) else f" ± {s:.1f}") for s in table["p_rule_std"].astype(float)]
    shown["CPU seconds"] = [("–" if np.isnan(s) else f"{s:.2f}") for s in table["seconds"].astype(float)]
    return shown


def _draw(table: pd.DataFrame) -> Any:
    """Draw all methods on the left, and on the right those that cost little accuracy."""
    figure, axes = style.grid(1, 2, width=14.0, height=6.0)
    worked = table[table["splits"] > 0]
    best = 100.0 * worked["accuracy"].max()
    handles = []
    for k, (title, rows) in enumerate(worked.groupby("method", sort=False)):
        # Every colour comes in several shapes and dashes, so that no two methods look the same.
        turn, place = divmod(k, len(style.SEQUENCE))
        ours = title in ("Covariance bound", "p%-rule bound")
        look = {
            "color": style.SEQUENCE[place],
            "marker": style.SHAPES[(place + 2 * turn) % len(style.SHAPES)],
            "markersize": 8 if ours or len(rows) == 1 else 6,
            "linewidth": 3.0 if ours else 1.5,
            "linestyle": _DASHES[turn % len(_DASHES)] if len(rows) > 1 else "none",
            "label": title,
        }
        lines = [axis.plot(rows["p_rule"], 100.0 * rows["accuracy"], **look)[0] for axis in axes[0]]
        handles.append(lines[0])
    for axis, title in zip(axes[0], ("all methods", f"within {_NEAR} points of the best accuracy"), strict=True):
        axis.axvline(80.0, color=style.GREY, linewidth=1.0, linestyle=":")
        axis.set(
            xlabel="p%-rule on test people (%)", ylabel="accuracy on test people (%)", title=title, xlim=(0, 101)
        )
    near = worked[100.0 * worked["accuracy"] >= best - _NEAR]
    lowest = float(near["p_rule"].min())
    axes[0, 1].set(ylim=(best - _NEAR, best + 0.1 * _NEAR), xlim=(max(0.0, lowest - 5.0), 101))
    style.below(figure, handles, columns=4)
    return figure


def _write(found: Comparison, folder: Path) -> None:
    from io import BytesIO

    write_atomic(folder / "rows.csv", found.rows.to_csv(index=False, float_format="%.10g"))
    write_atomic(folder / "table.csv", found.table.to_csv(index=False, float_format="%.10g"))
    write_atomic(folder / "table.md", found.to_markdown())
    figure = found.plot()
    for kind, options in (("png", {"dpi": 120}), ("svg", {"metadata": {"Date": None}})):
        buffer = BytesIO()
        with style.styled():
            figure.savefig(buffer, format=kind, **options)
        write_atomic(folder / f"comparison.{kind}", buffer.getvalue())
