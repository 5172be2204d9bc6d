"""Fairness of decisions among several classes: one rate per class and group.

A p%-rule compares how often groups are given a decision. Of several classes each has its own rule; ``favourable``
names the ones that people want to be given, and ``combined=True`` takes these together, as one decision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, column_or_1d

from fairmargin.inputs import check_labels, check_same_order
from fairmargin.metrics import Method, p_rule, positive_rates
from fairmargin.multiclass.labels import favourable_classes

__all__ = ["class_p_rules", "class_rates", "classes_for", "is_among"]


def class_p_rules(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    favourable: Any = None,
    combined: bool = False,
    method: Method = "one_vs_rest",
    min_people: int = 1,
    notion: Any = "selection_rate",
    strata: Any = None,
) -> pd.Series:
    """Return the p of the p%-rule, in percent, of each favourable class.

    Parameters
    ----------
    y_true : array of shape (n,) or None
        Used to know the classes that nobody is given, which have nan, and by notions that depend on labels.
    y_pred : array of shape (n,)
        Decisions.
    sensitive_features : array, series or frame of shape (n,) or (n, k)
    sample_weight : array of shape (n,), optional
    favourable : label or list of labels, optional
        The classes to judge; all by default.
    combined : bool, default=False
        Whether to judge the favourable classes as one decision: any of them against the others.
    method, min_people, strata
        As in :func:`fairmargin.p_rule`.
    notion : str or Notion, default="selection_rate"
        Which rates are compared; the people of a class have its positive label.

    Returns
    -------
    pandas.Series
        One entry per class; nan for a class that nobody is given.

    See Also
    --------
    class_rates : The rates by class and group.

    Examples
    --------
    >>> decided = ["clerk", "boss", "boss", "sales", "boss", "clerk"]
    >>> class_p_rules(None, decided, sensitive_features=list("fffmmm"), favourable="boss").round(1).to_dict()
    {'boss': 50.0}
    """
    people = {"sensitive_features": sensitive_features, "sample_weight": sample_weight, "strata": strata}
    check_same_order(y_true=y_true, y_pred=y_pred, **people)
    rules = {}
    for name, labels in classes_for(y_true, y_pred, favourable, combined).items():
        rules[name] = p_rule(
            None if y_true is None else is_among(y_true, labels),
            is_among(y_pred, labels),
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            pos_label=1,
            method=method,
            min_people=min_people,
            notion=notion,
            strata=strata,
            zero_division=float("nan"),
        )
    return pd.Series(rules, name="p_rule")


def class_rates(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    favourable: Any = None,
    combined: bool = False,
    notion: Any = "selection_rate",
    strata: Any = None,
) -> pd.DataFrame:
    """Return how often each group is given each favourable class: one row per class, attribute and category.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, sample_weight, favourable, combined, notion, strata
        As in :func:`class_p_rules`.

    Returns
    -------
    pandas.DataFrame
        Columns as in :func:`fairmargin.positive_rates`.

    See Also
    --------
    class_p_rules : The p%-rule of each class.

    Examples
    --------
    >>> decided = ["clerk", "boss", "boss", "sales", "boss", "clerk"]
    >>> class_rates(None, decided, sensitive_features=list("fffmmm"), favourable="boss")["rate"].round(2).tolist()
    [0.67, 0.33]
    """
    people = {"sensitive_features": sensitive_features, "sample_weight": sample_weight, "strata": strata}
    check_same_order(y_true=y_true, y_pred=y_pred, **people)
    tables = {
        name: positive_rates(
            None if y_true is None else is_among(y_true, labels),
            is_among(y_pred, labels),
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            pos_label=1,
            notion=notion,
            strata=strata,
        )
        for name, labels in classes_for(y_true, y_pred, favourable, combined).items()
    }
    return pd.concat(tables, names=["class"])


def classes_for(y_true: Any, y_pred: Any, favourable: Any = None, combined: bool = False) -> dict[Any, list[Any]]:
    """Return the classes that each judged decision is for, by its name: one each, or all favourable ones together.

    ``combined`` puts the favourable classes into one decision, called by their names joined by " or ".
    """
    check_labels(y_pred, "y_pred")
    decided = column_or_1d(y_pred)
    if len(decided) == 0:
        raise ValueError("y_pred is empty: there are no decisions to compare.")
    known = [decided]
    if y_true is not None:
        check_labels(y_true, "y_true")
        check_consistent_length(y_true, decided)
        known.append(column_or_1d(y_true))
    classes = np.unique(np.concatenate(known))
    named = [classes.tolist()[q] for q in favourable_classes(favourable, classes)]
    if not combined:
        return {label: [label] for label in named}
    if len(named) == len(classes):
        raise ValueError("Combined, all classes are one decision that everybody is given; name some in favourable.")
    return {" or ".join(map(str, named)): named}


def is_among(values: Any, labels: list[Any]) -> NDArray[np.int_]:
    """Return 1 for values that are one of the labels and 0 for others, (n,)."""
    return np.isin(np.asarray(values).ravel(), labels).astype(int)
