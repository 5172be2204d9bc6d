"""Every method on one data set: repeated splits, one table, one picture.

::

    from fairmargin.experiments import compare

    found = compare(X, y, sensitive_features=z, out="comparison")
    found.table                       # a row per method and setting, means over the splits
    found.plot().savefig("comparison.png")
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmargin.atomic_write import write_atomic
from fairmargin.baselines import Method
from fairmargin.baselines._frames import is_number
from fairmargin.exceptions import DataError
from fairmargin.experiments import style
from fairmargin.experiments._experiment import collect
from fairmargin.experiments._work import Done, Store, run_units
from fairmargin.experiments.document import markdown_table
from fairmargin.experiments.method_runs import ComparedPeople, choose_methods, leave_out_unfit, plan_runs
from fairmargin.inputs import check_same_order
from fairmargin.membership import probabilities_refused
from fairmargin.sensitive import encode_sensitive
from fairmargin.validation import favourable_class

__all__ = ["Comparison", "compare"]

MEASURES = ("accuracy", "auc", "p_rule", "cv_score", "fpr", "fnr", "fpr_difference", "fnr_difference")

_NEAR = 3  # points of accuracy that the right panel of the picture spans
_DASHES = ("-", "--", ":")


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
        Keys of :func:`fairmargin.experiments.method_runs.every_method`; by default all.
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
    chosen, skipped = leave_out_unfit(choose_methods(methods), people.sensitive)
    folder = Path(out)
    store = Store(folder / "units")
    with store.locked():
        store.sweep()
        if fresh:
            store.clear()
        data, digest = _written(people, folder)
        units = plan_runs(chosen, n_splits, test_share, data, digest)
        try:
            run_units(units, store, jobs=jobs, done=done)
        finally:
            Path(data).unlink(missing_ok=True)  # results are passed on; people's data should not be
        rows = collect(units, store)["measure_method"].drop(columns=["data", "digest", "test_share"])
    found = Comparison(rows, _summary(rows, chosen), skipped)
    _write(found, folder)
    return found


def _checked(X: Any, y: Any, sensitive_features: Any, matrix: Any, pos_label: Any) -> ComparedPeople:
    check_same_order(X=X, y=y, sensitive_features=sensitive_features, matrix=matrix)
    frame = X.reset_index(drop=True) if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    frame = frame.set_axis([str(name) for name in frame], axis=1).apply(_plain)
    label = _checked_labels(y, pos_label)
    sensitive = encode_sensitive(sensitive_features, len(label))
    for attribute in sensitive.attributes:
        if attribute.probabilities is not None:
            raise probabilities_refused(attribute.name, "a comparison of methods")
    numeric = [a.name for a in sensitive.attributes if a.codes is None]
    if numeric:
        raise DataError(f"The sensitive attribute {numeric[0]!r} is a number; cut it into groups to compare methods.")
    words = {a.name: np.array(a.categories, dtype=object)[a.codes] for a in sensitive.attributes}
    numbers = None if matrix is None else np.asarray(matrix, dtype=float)
    if len(frame) != len(label) or (numbers is not None and len(numbers) != len(label)):
        raise DataError("X, matrix and y must have as many rows.")
    return ComparedPeople(frame, label, pd.DataFrame(words).astype(str), numbers)


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


def _written(people: ComparedPeople, folder: Path) -> tuple[str, str]:
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
