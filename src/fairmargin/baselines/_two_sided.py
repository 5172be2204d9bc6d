"""Linear classifiers of least loss where each person may count for both labels, by the solvers of this package."""

from __future__ import annotations

import numpy as np

from fairmargin.linear import FairMarginClassifier

__all__ = ["minimise_two_sided"]


def minimise_two_sided(
    X: np.ndarray, up: np.ndarray, down: np.ndarray, *, loss: str, C: float, tol: float = 1e-6
) -> tuple[np.ndarray, float]:
    """Return ``w`` (d,) and ``b`` that minimise ``C sum_i up_i l(f_i) + down_i l(-f_i) + 1/2 ||w||^2``.

    ``up`` and ``down`` (n,) are weights of at least 0. Where all speak for one decision, everybody gets it, at a
    score of 1 or -1, which costs no hinge loss.
    """
    for_up, for_down = np.flatnonzero(up > 0), np.flatnonzero(down > 0)
    if not len(for_up) or not len(for_down):
        return np.zeros(X.shape[1]), 1.0 if len(for_up) else -1.0
    rows = np.concatenate([for_up, for_down])
    label = np.repeat([1, 0], [len(for_up), len(for_down)])
    weight = np.concatenate([up[for_up], down[for_down]])
    model = FairMarginClassifier(loss, C, constraint=None, tol=tol).fit(X[rows], label, weight)
    return model.coef_[0], float(model.intercept_[0])
