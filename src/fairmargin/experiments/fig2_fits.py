"""The fits behind figure 2: each function is one unit of work, for one data set, method and split."""

from __future__ import annotations

from typing import Any

from sklearn.naive_bayes import GaussianNB

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairnessFrontier,
    PRuleBound,
)
from fairmargin.baselines import PreferentialSampling, PrejudiceRemover
from fairmargin.experiments._data import SETS, expected_warnings, measure_parts, train_and_test

__all__ = ["OURS", "carried", "frontier", "parity", "penalty", "ranked", "regularised", "sampled"]

OURS = {"C-LR": FairLogisticRegression, "C-SVM": FairLinearSVC}


def frontier(dataset: str, method: str, split: int, points: int) -> list[dict[str, Any]]:
    """Trace C-LR or C-SVM from the unconstrained classifier to zero covariance."""
    train, test = train_and_test(dataset, split)
    path = FairnessFrontier(OURS[method](), n_points=points).fit(train.X, train.y, sensitive_features=train.Z)
    rows = []
    for point, (_, row) in zip(path.estimators_, path.table_.iterrows(), strict=True):
        rows.append(
            {
                "setting": row["factor"],
                "covariance": abs(float(point.covariance_.iloc[0])),
                "relative_loss": row["relative_loss"],
                "loss_increase": 100.0 * row["loss_increase"],
                "gap": point.certificate_.gap,
                **measure_parts(dataset, point, train, test),
            }
        )
    return rows


def sampled(dataset: str, method: str, split: int, strength: float) -> list[dict[str, Any]]:
    """Fit PS-LR or PS-SVM; ``strength`` 1 is the method as published, less goes part of the way."""
    train, test = train_and_test(dataset, split)
    base = FairLogisticRegression if method == "PS-LR" else FairLinearSVC
    fitted = PreferentialSampling(base(constraint=None), strength=strength)
    fitted.fit(train.X, train.y, sensitive_features=train.Z[SETS[dataset].attribute])
    return [{"setting": strength, **measure_parts(dataset, fitted, train, test)}]


def regularised(dataset: str, method: str, split: int, eta: float) -> list[dict[str, Any]]:
    """Fit R-LR, the prejudice remover; it needs the sensitive attribute to decide."""
    train, test = train_and_test(dataset, split)
    with expected_warnings():
        fitted = PrejudiceRemover(eta=eta)
        fitted.fit(train.X, train.y, sensitive_features=train.Z[SETS[dataset].attribute])
    measures = measure_parts(dataset, fitted, train, test, needs=["sensitive_features"])
    return [{"setting": eta, **measures}]


def parity(dataset: str, method: str, split: int, p: float) -> list[dict[str, Any]]:
    """Ask for the p%-rule itself, and see what covariance it comes with."""
    train, test = train_and_test(dataset, split)
    with expected_warnings():
        fitted = OURS[method](constraint=PRuleBound(p)).fit(train.X, train.y, sensitive_features=train.Z)
    share = float(fitted.covariance_.iloc[0] / fitted.unconstrained_covariance_.iloc[0])
    return [{"covariance_share": share, **measure_parts(dataset, fitted, train, test)}]


def carried(dataset: str, method: str, split: int) -> list[dict[str, Any]]:
    """See who carries the change from the unconstrained covariance to zero: people far on the negative side?"""
    train, _ = train_and_test(dataset, split)
    with expected_warnings():
        free, fair = (
            OURS[method](constraint=constraint).fit(train.X, train.y, sensitive_features=train.Z)
            for constraint in (None, CovarianceBound(0.0))
        )
    z = (train.Z[SETS[dataset].attribute] == SETS[dataset].non_protected).to_numpy(dtype=float)
    after = fair.decision_function(train.X)
    change = (z - z.mean()) * (free.decision_function(train.X) - after)
    far = after < -1.0
    return [{"people": 100.0 * float(far.mean()), "change": 100.0 * float(change[far].sum() / change.sum())}]


def ranked(dataset: str, method: str, split: int) -> list[dict[str, Any]]:
    """Fit PS-LR or PS-SVM as published, with a naive Bayes ranker instead of the classifier itself."""
    train, test = train_and_test(dataset, split)
    base = FairLogisticRegression if method == "PS-LR" else FairLinearSVC
    fitted = PreferentialSampling(base(constraint=None), ranker=GaussianNB())
    fitted.fit(train.X, train.y, sensitive_features=train.Z[SETS[dataset].attribute])
    return [measure_parts(dataset, fitted, train, test)]


def penalty(dataset: str, method: str, split: int, C: float) -> list[dict[str, Any]]:
    """Ask for zero covariance under another penalty, and count the solver's passes over the data."""
    train, test = train_and_test(dataset, split)
    with expected_warnings():
        fitted = [
            OURS[method](C=C, constraint=constraint).fit(train.X, train.y, sensitive_features=train.Z)
            for constraint in (None, CovarianceBound(0.0))
        ]
    free, fair = (measure_parts(dataset, classifier, train, test) for classifier in fitted)
    before = {f"free_{key}": value for key, value in free.items()}
    return [{**before, **fair, "free_passes": int(fitted[0].n_iter_), "passes": int(fitted[1].n_iter_)}]
