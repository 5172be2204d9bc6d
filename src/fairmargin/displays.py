"""Drawings of decisions by group, in scikit-learn's Display style.

Those of frontiers are in :mod:`fairmargin.frontier_display`.

Each class has ``from_estimator``, ``plot`` and, for decisions made already, ``from_predictions``; a frontier, which
is made of fits, has ``from_frontier`` instead. Drawing needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from fairmargin.audit.errors import ERROR_RATES
from fairmargin.decisions import count_groups
from fairmargin.frontier_display import FrontierDisplay
from fairmargin.inputs import check_container, check_no_missing, check_same_order
from fairmargin.rate_statistics import rate_interval
from fairmargin.sensitive import Attribute, encode_groups, encode_sensitive

__all__ = ["ErrorRateDisplay", "FrontierDisplay", "GainLossDisplay", "GroupPredictionDisplay", "GroupRateDisplay"]


class _GroupDisplay:
    """A table by attribute and group, drawn as horizontal bars.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    """

    label = ""

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table

    def _axes(self, ax: Any) -> Any:
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError('Drawing needs matplotlib: pip install "fairmargin[plot]".') from None
        if ax is None:
            height = 1.2 + 0.35 * len(self._names())
            _, ax = plt.subplots(layout="constrained", figsize=(6.4, height))
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _names(self) -> list[str]:
        return list(
            dict.fromkeys(f"{a} = {g}" for a, g in zip(self.table["attribute"], self.table["group"], strict=True))
        )

    def _finish(self, ax: Any, names: Sequence[str]) -> None:
        ax.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in names])  # no formulas in names
        ax.invert_yaxis()
        ax.set_xlabel(self.label)
        ax.grid(axis="x", alpha=0.3)


class GroupRateDisplay(_GroupDisplay):
    """Positive rates by group, with their 95% intervals.

    Parameters
    ----------
    table : DataFrame
        Columns ``attribute``, ``group``, ``people``, ``rate``, ``low``, ``high``, one row per group.

    See Also
    --------
    ErrorRateDisplay : Draws error rates by group.
    positive_rates : The same rates as a table.

    Examples
    --------
    >>> from fairmargin import GroupRateDisplay
    >>> display = GroupRateDisplay.from_predictions([1, 1, 0, 0], sensitive_features=["a", "a", "b", "b"], plot=False)
    >>> display.table["rate"].tolist()
    [1.0, 0.0]
    """

    label = "positive rate"

    @classmethod
    def from_predictions(
        cls,
        y_pred: Any,
        *,
        sensitive_features: Any,
        pos_label: Any = 1,
        confidence: float = 0.95,
        ax: Any = None,
        plot: bool = True,
    ) -> GroupRateDisplay:
        """Draw decisions, positive where they equal ``pos_label``."""
        check_same_order(y_pred=y_pred, sensitive_features=sensitive_features)
        positive = np.asarray(y_pred) == pos_label
        display = cls(pd.DataFrame(_rates(positive, np.ones(len(positive), bool), sensitive_features, confidence)))
        return display.plot(ax=ax) if plot else display

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, sensitive_features: Any, confidence: float = 0.95, ax: Any = None
    ) -> GroupRateDisplay:
        """Draw the decisions of a fitted classifier; positive is ``classes_[1]``."""
        check_same_order(X=X, sensitive_features=sensitive_features)
        positive = estimator.classes_[1]
        options: dict[str, Any] = {"pos_label": positive, "confidence": confidence, "ax": ax}
        return cls.from_predictions(estimator.predict(X), sensitive_features=sensitive_features, **options)

    def plot(self, ax: Any = None, **bar_options: Any) -> GroupRateDisplay:
        """Draw on ``ax``, or on new axes."""
        ax = self._axes(ax)
        rate = self.table["rate"].to_numpy()
        lengths = [rate - self.table["low"], self.table["high"] - rate]
        ax.barh(range(len(rate)), rate, xerr=lengths, **{"height": 0.6, "ecolor": "0.3"} | bar_options)
        self._finish(ax, self._names())
        return self


class ErrorRateDisplay(_GroupDisplay):
    """True positive rate, false positive rate and precision by group, with their 95% intervals.

    Parameters
    ----------
    table : DataFrame
        Columns ``attribute``, ``group``, ``measure``, ``people``, ``rate``, ``low``, ``high``.

    See Also
    --------
    GroupRateDisplay : Draws positive rates by group.
    GainLossDisplay : Draws who gains and who loses.

    Examples
    --------
    >>> row = {"attribute": "sex", "group": "f", "measure": "precision", "people": 20}
    >>> ErrorRateDisplay(pd.DataFrame([{**row, "rate": 0.5, "low": 0.3, "high": 0.7}])).table["rate"].tolist()
    [0.5]
    """

    label = "rate"

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        *,
        sensitive_features: Any,
        pos_label: Any = 1,
        measures: Sequence[str] = ("true positive rate", "false positive rate", "precision"),
        confidence: float = 0.95,
        ax: Any = None,
    ) -> ErrorRateDisplay:
        """Draw the error rates of decisions; ``measures`` are those of ``fairmargin.audit.errors.ERROR_RATES``."""
        unknown = [measure for measure in measures if measure not in ERROR_RATES]
        if unknown:
            raise ValueError(f"There is no measure {unknown[0]!r}; there are {', '.join(map(repr, ERROR_RATES))}.")
        check_same_order(y_true=y_true, y_pred=y_pred, sensitive_features=sensitive_features)
        label, positive = np.asarray(y_true) == pos_label, np.asarray(y_pred) == pos_label
        outcomes = {
            "true positive rate": (positive, label),
            "false positive rate": (positive, ~label),
            "precision": (label, positive),
            "accuracy": (label == positive, np.ones(len(label), bool)),
        }
        rows = []
        for measure in measures:
            outcome, among = outcomes[measure]
            rows += [{"measure": measure, **row} for row in _rates(outcome, among, sensitive_features, confidence)]
        return cls(pd.DataFrame(rows)).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, sensitive_features: Any, ax: Any = None, **options: Any
    ) -> ErrorRateDisplay:
        """Draw the error rates of a fitted classifier; positive is ``classes_[1]``."""
        check_same_order(X=X, y=y, sensitive_features=sensitive_features)
        options |= {"pos_label": estimator.classes_[1], "ax": ax}
        return cls.from_predictions(y, estimator.predict(X), sensitive_features=sensitive_features, **options)

    def plot(self, ax: Any = None, **line_options: Any) -> ErrorRateDisplay:
        """Draw on ``ax``, or on new axes."""
        ax, names = self._axes(ax), self._names()
        measures = list(dict.fromkeys(self.table["measure"]))
        for k, (measure, marker) in enumerate(zip(measures, "osD^", strict=False)):
            rows = self.table[self.table["measure"] == measure].dropna(subset=["rate"])
            place = [names.index(f"{a} = {g}") for a, g in zip(rows["attribute"], rows["group"], strict=True)]
            height = np.array(place) + 0.18 * (k - 0.5 * (len(measures) - 1))
            lengths = [rows["rate"] - rows["low"], rows["high"] - rows["rate"]]
            ax.errorbar(rows["rate"], height, xerr=lengths, fmt=marker, label=measure, **line_options)
        self._finish(ax, names)
        ax.legend(fontsize="small")
        return self


class GainLossDisplay(_GroupDisplay):
    """Who gains and who loses the positive decision, by group.

    Parameters
    ----------
    table : DataFrame
        Columns ``attribute``, ``group``, ``people``, ``gained``, ``lost``, one row per group.

    See Also
    --------
    GroupRateDisplay : Draws positive rates by group.
    ErrorRateDisplay : Draws error rates by group.

    Examples
    --------
    >>> row = {"attribute": "sex", "group": "f", "people": 20, "gained": 3, "lost": 1}
    >>> GainLossDisplay(pd.DataFrame([row])).table["gained"].tolist()
    [3]
    """

    label = "people who lose (left) and gain (right) the positive decision"

    @classmethod
    def from_predictions(
        cls, y_before: Any, y_pred: Any, *, sensitive_features: Any, pos_label: Any = 1, ax: Any = None
    ) -> GainLossDisplay:
        """Draw the changes from one set of decisions to another on the same people."""
        check_same_order(y_before=y_before, y_pred=y_pred, sensitive_features=sensitive_features)
        before, now = np.asarray(y_before) == pos_label, np.asarray(y_pred) == pos_label
        if len(before) != len(now):
            raise ValueError(f"There are {len(before):,} decisions before and {len(now):,} now.")
        rows = []
        for attribute in _attributes(sensitive_features, len(now)):
            gained, lost = (count_groups(attribute, change) for change in (now & ~before, before & ~now))
            for k, group in enumerate(attribute.categories):
                names = {"attribute": attribute.name, "group": str(group), "people": _people(gained.people[k])}
                rows.append({**names, "gained": round(gained.positives[k]), "lost": round(lost.positives[k])})
        return cls(pd.DataFrame(rows)).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, before: Any, X: Any, *, sensitive_features: Any, ax: Any = None
    ) -> GainLossDisplay:
        """Draw the changes from the decisions of one fitted classifier, ``before``, to those of another."""
        check_same_order(X=X, sensitive_features=sensitive_features)
        options: dict[str, Any] = {"pos_label": estimator.classes_[1], "ax": ax}
        return cls.from_predictions(
            before.predict(X), estimator.predict(X), sensitive_features=sensitive_features, **options
        )

    def plot(self, ax: Any = None, **bar_options: Any) -> GainLossDisplay:
        """Draw on ``ax``, or on new axes."""
        ax, names = self._axes(ax), self._names()
        options = {"height": 0.6} | bar_options
        ax.barh(range(len(names)), self.table["gained"], label="gain", **options)
        ax.barh(range(len(names)), -self.table["lost"], label="lose", **options)
        ax.axvline(0.0, color="0.3", linewidth=0.8)
        self._finish(ax, names)
        ax.legend(fontsize="small")
        return self


class GroupPredictionDisplay(_GroupDisplay):
    """Predictions of a regression by group: quartiles as a box, 5% and 95% quantiles as whiskers, and the mean.

    Parameters
    ----------
    table : DataFrame
        Columns ``attribute``, ``group``, ``people``, ``mean``, ``q05``, ``q25``, ``median``, ``q75``, ``q95``, one
        row per group.

    See Also
    --------
    FairRegressor : Its ``group_means_`` are the means on the training data.
    GroupRateDisplay : Draws the decisions of a classifier.

    Examples
    --------
    >>> from fairmargin import GroupPredictionDisplay
    >>> groups = {"sensitive_features": ["a", "a", "b", "b"]}
    >>> GroupPredictionDisplay.from_predictions([1.0, 3.0, 2.0, 6.0], **groups, plot=False).table["mean"].tolist()
    [2.0, 4.0]
    """

    label = "prediction"

    @classmethod
    def from_predictions(
        cls, y_pred: Any, *, sensitive_features: Any, ax: Any = None, plot: bool = True
    ) -> GroupPredictionDisplay:
        """Draw predictions, or any other number per person, such as residuals."""
        predicted = _numbers_to_draw(y_pred)
        check_same_order(y_pred=y_pred, sensitive_features=sensitive_features)
        rows = []
        for attribute in encode_groups(sensitive_features, len(predicted), "sensitive_features"):
            for k, group in enumerate(attribute.categories):
                rows.append(
                    {"attribute": attribute.name, "group": str(group), **_spread(predicted[attribute.codes == k])}
                )
        display = cls(pd.DataFrame(rows))
        return display.plot(ax=ax) if plot else display

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, sensitive_features: Any, ax: Any = None
    ) -> GroupPredictionDisplay:
        """Draw the predictions of a fitted regressor."""
        check_same_order(X=X, sensitive_features=sensitive_features)
        return cls.from_predictions(estimator.predict(X), sensitive_features=sensitive_features, ax=ax)

    def plot(self, ax: Any = None, **bar_options: Any) -> GroupPredictionDisplay:
        """Draw on ``ax``, or on new axes."""
        ax, names = self._axes(ax), self._names()
        at, table = np.arange(len(names)), self.table
        options = {"height": 0.5, "color": "tab:blue", "alpha": 0.5} | bar_options
        ax.hlines(at, table["q05"], table["q95"], color="0.3")
        ax.barh(at, table["q75"] - table["q25"], left=table["q25"], **options)
        ax.plot(table["median"], at, "|", color="0.1", markersize=14, label="median")
        ax.plot(table["mean"], at, "D", color="tab:orange", markersize=5, label="mean")
        self._finish(ax, names)
        ax.legend(fontsize="small")
        return self


def _numbers_to_draw(y_pred: Any) -> NDArray[np.float64]:
    """Return predictions as numbers; raise where there are none, or others than finite ones."""
    check_container(y_pred, "y_pred")
    check_no_missing(y_pred, "y_pred")
    values = np.asarray(y_pred)
    try:
        numbers = column_or_1d(values if values.dtype.kind == "c" else values.astype(float))
    except (TypeError, ValueError):
        numbers = values
    if numbers.dtype.kind != "f" or numbers.ndim > 1:
        raise ValueError(
            f"y_pred must hold one real number per person, got {values.dtype} of shape {values.shape}; decisions are "
            "drawn by GroupRateDisplay."
        )
    if not len(numbers):
        raise ValueError("y_pred is empty: there are no predictions to draw.")
    if not np.all(np.isfinite(numbers)):
        raise ValueError("y_pred has nan or infinite values, which cannot be drawn; leave these people out.")
    return numbers


def _spread(values: NDArray[np.float64]) -> dict[str, float]:
    """Return number, mean and quantiles of values."""
    q05, q25, median, q75, q95 = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
    found = {"people": len(values), "mean": float(values.mean())}
    return {**found, "q05": q05, "q25": q25, "median": median, "q75": q75, "q95": q95}


def _people(number: float) -> int:
    """Return a number of people, which is an expected one where groups are probabilities, as audits show it."""
    return max(round(float(number)), int(number > 0))


def _attributes(sensitive_features: Any, n_people: int) -> tuple[Attribute, ...]:
    """Return the attributes of the people to draw, of whom there must be some."""
    if not n_people:
        raise ValueError("There are no decisions to draw.")
    return encode_sensitive(sensitive_features, n_people, groups=False).attributes


def _rates(outcome: Any, among: Any, sensitive_features: Any, confidence: float) -> list[dict[str, Any]]:
    """Return the rate of an outcome among some people, by group; nan where nobody counts."""
    rows = []
    for attribute in _attributes(sensitive_features, len(outcome)):
        counts = count_groups(attribute, outcome, among.astype(float))
        for group, n, k in zip(attribute.categories, counts.weight, counts.positives, strict=True):
            low, high = rate_interval(k, n, confidence) if n else (np.nan, np.nan)
            names = {"attribute": attribute.name, "group": str(group), "people": _people(n)}
            rows.append({**names, "rate": k / n if n else np.nan, "low": low, "high": high})
    return rows
