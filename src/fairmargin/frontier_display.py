"""The drawing of a frontier, in scikit-learn's Display style. Drawing needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.utils.validation import check_is_fitted

from fairmargin.formulations.prule.rule import rates_in_words
from fairmargin.notions import get_notion

if TYPE_CHECKING:
    from fairmargin.frontier import FairnessFrontier
    from fairmargin.regression import RegressionFrontier

__all__ = ["FrontierDisplay"]


class FrontierDisplay:
    """A drawing of a frontier of classifiers or of regressions, in scikit-learn's Display style.

    Parameters
    ----------
    table : pandas.DataFrame
        ``table_`` of a frontier.
    x, y : str
        What is drawn: "p_rule", "accuracy", "cv_score", of regressions "covariance", "mean_difference", "r2", "mae",
        "loss", or a column of the table.
    on : list of str
        The data sets to draw.
    rates : str, default=""
        What the p%-rule and the CV score compare, in words, for the labels of axes; empty for selection rates.

    Attributes
    ----------
    ax_ , figure_ : matplotlib axes and figure
    lines_ : list of matplotlib lines
    frontier_ : FairnessFrontier or RegressionFrontier
        What was fitted, after ``from_estimator``.

    See Also
    --------
    FairnessFrontier, RegressionFrontier : Their ``plot`` returns one.

    Examples
    --------
    >>> import pandas as pd
    >>> from fairmargin import FrontierDisplay
    >>> table = pd.DataFrame({"train_p_rule": [40.0, 80.0], "train_accuracy": [0.85, 0.83]})
    >>> FrontierDisplay(table, on=["train"]).x
    'p_rule'
    """

    frontier_: FairnessFrontier | RegressionFrontier

    def __init__(
        self, table: pd.DataFrame, *, x: str = "p_rule", y: str = "accuracy", on: list[str], rates: str = ""
    ) -> None:
        self.table, self.x, self.y, self.on, self.rates = table, x, y, on, rates

    @classmethod
    def from_frontier(
        cls,
        frontier: FairnessFrontier | RegressionFrontier,
        *,
        x: str | None = None,
        y: str | None = None,
        on: str | None = None,
        ax: Any = None,
    ) -> FrontierDisplay:
        """Draw a fitted frontier, on all data sets it was measured on or on the one called ``on``.

        By default, classifiers are drawn by accuracy and p%-rule, regressions by R2 and largest covariance.
        """
        check_is_fitted(frontier)
        usual = ("p_rule", "accuracy") if "train_accuracy" in frontier.table_ else ("covariance", "r2")
        ending = f"_{usual[1]}"
        sets = [c[: -len(ending)] for c in map(str, frontier.table_) if c.endswith(ending)] if on is None else [on]
        rates = rates_in_words(get_notion(frontier._asked.notion))
        return cls(frontier.table_, x=x or usual[0], y=y or usual[1], on=sets, rates=rates).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        n_points: int = 21,
        eval_set: Any = None,
        x: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> FrontierDisplay:
        """Trace the frontier of an unfitted estimator of this package, or of a pipeline ending in one, and draw it.

        As for scikit-learn's ``LearningCurveDisplay``, the work is done here: ``frontier_`` is the fitted
        :class:`FairnessFrontier` or, of a regressor, :class:`RegressionFrontier`.

        Parameters
        ----------
        estimator, X, y, sensitive_features, eval_set
            As in :class:`FairnessFrontier` and its ``fit``; the frontier is drawn on every set.
        n_points, **options
            Parameters of the frontier; of classifiers, ``which`` is "p_rule" by default.
        x, ax
            As in :meth:`from_frontier`.
        """
        from fairmargin.frontier import FairnessFrontier
        from fairmargin.regression import RegressionFrontier

        if is_regressor(estimator):
            frontier: Any = RegressionFrontier(estimator, n_points=n_points, **options)
        else:
            frontier = FairnessFrontier(estimator, n_points=n_points, **{"which": "p_rule"} | options)
        frontier.fit(X, y, sensitive_features=sensitive_features, eval_set=eval_set)
        display = cls.from_frontier(frontier, x=x, ax=ax)
        display.frontier_ = frontier
        return display

    def plot(self, ax: Any = None, **line_options: Any) -> FrontierDisplay:
        """Draw on ``ax``, or on new axes."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError('Drawing needs matplotlib: pip install "fairmargin[plot]".') from None
        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        self.lines_ = []
        for name, style in zip(self.on, ["-o", "--s", ":^", "-.d"] * 8, strict=False):
            options = {"markersize": 3.5, "label": name} | line_options
            self.lines_ += ax.plot(self._values(self.x, name), self._values(self.y, name), style, **options)
        ax.set_xlabel(_axis_name(self.x, self.rates))
        ax.set_ylabel(_axis_name(self.y, self.rates))
        ax.grid(alpha=0.3)
        if len(self.on) > 1:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _values(self, what: str, name: str) -> NDArray[np.float64]:
        for column in (f"{name}_{what}", what):
            if column in self.table:
                return self.table[column].to_numpy()
        raise ValueError(f"The frontier's table has no {what!r}; its columns are {', '.join(map(str, self.table))}.")


def _axis_name(what: str, rates: str = "") -> str:
    names = {"p_rule": f"p%-rule{rates and f' of {rates}'} (percent)", "r2": "R2"}
    names |= {"cv_score": f"CV score (difference of {rates or 'rates'})"}
    names |= {"mae": "mean absolute error", "mean_difference": "largest difference of group means"}
    return names.get(what, what.replace("_", " "))
