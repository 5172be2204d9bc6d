"""What a fitted regression is worth, computed from its public attributes alone, in numpy.

Objective and bounded quantities come from ``coef_`` and ``intercept_``. For the smooth losses the dual bound is
computed once more: the slopes of the losses at the fitted residuals and ``multipliers_`` give a lower bound on the
objective of every feasible function. Tolerances are those of ``recompute.py``.
"""

import numpy as np
import scipy.sparse as sp

from fairmargin.coded_matrix import CodedMatrix
from recompute import EPS, FEASIBLE, STATED, column, named_columns, sample_weights

# Gap of a dual bound that is made of the fitted residuals rather than of the solver's dual variables: what is scaled
# down for the intercept is of the size of the gradient, about the root of the gap.
PROVED = 1e-5


def dense(X):
    return X.toarray() if sp.issparse(X) or isinstance(X, CodedMatrix) else np.asarray(X, dtype=float)


def pieces(model, r):
    """Return ``rho(r)`` and ``rho'(r)``; the conjugate of the smooth ones is ``a^2 / 2``."""
    if model.loss == "quantile":
        q = model.quantile
        return np.maximum(q * r, (q - 1) * r), np.where(r > 0, q, q - 1)
    slope = r if model.loss == "squared_error" else np.clip(r, -model.delta, model.delta)
    return slope * r - slope**2 / 2, slope


class RecomputedRegression:
    """Objective, dual bound and bounded quantities of a fitted regression on its training data."""

    def __init__(self, model, X, y, sample_weight=None, sensitive_features=None, strata=None):
        self.model = model
        actual = np.asarray(y, dtype=float).ravel()
        weight = sample_weights(len(actual), sample_weight)
        self.kept = weight > 0
        self.X, self.y, self.weight = dense(X)[self.kept], actual[self.kept], weight[self.kept]
        self.f = self.X @ model.coef_ + model.intercept_
        self.c = self.weight * (1.0 if np.isinf(model.C) else model.C)
        self.ridge = 0.0 if np.isinf(model.C) else 1.0
        value, self.slope = pieces(model, self.y - self.f)
        self.objective = float(self.c @ value) + 0.5 * self.ridge * float(model.coef_ @ model.coef_)
        self.errors = (self.X.shape[1] + 4) * EPS * (np.abs(self.X) @ np.abs(model.coef_) + abs(model.intercept_))
        self.rounding = 2 * float(self.c @ (np.abs(self.slope) * self.errors + EPS * np.abs(self.slope * self.y)))
        centre = np.average(self.y, weights=self.weight) if model.fit_intercept else 0.0
        self.at_constant = float(self.c @ pieces(model, self.y - centre)[0])
        # The library's unit has the mean or a quantile for a centre: of the same size, within a factor of four.
        self.unit = max(abs(self.objective), 0.25e-6 * self.at_constant, 1e-300)
        self.strata, self.given = None, {}
        if sensitive_features is not None and not hasattr(sensitive_features, "probabilities"):
            self.given = {name: np.asarray(v)[self.kept] for name, v in named_columns(sensitive_features)}
        if strata is not None:
            parts = [np.asarray(v)[self.kept].tolist() for _, v in named_columns(strata)]
            self.strata = np.array([" × ".join(map(str, row)) for row in zip(*parts, strict=True)])

    def functionals(self):
        """Yield (label, column u, middle) of what was bounded; ``sum u f`` is the bounded value."""
        for label in self.model.multipliers_.index:
            quantity, name, category = label if len(label) == 3 and label[0] in KINDS else ("covariance", *label[:2])
            category, inside = self.place(category)
            yield label, *KINDS[quantity](self, self.given[name], category, inside)

    def place(self, category):
        """Return the category without its stratum, and who is in that."""
        if self.strata is None:
            return category, np.ones(len(self.y))
        category, _, stratum = str(category).rpartition(" | ")
        value = stratum.split("=", 1)[1].strip("'")
        return category, (self.strata == value) * 1.0

    def covariance(self, values, category, inside):
        z, share = column(values, category), self.weight * inside / (self.weight @ inside)
        return share * (z - share @ z), 0.0

    def difference(self, values, category, inside):
        first, second = str(category).split(" - ")
        return self.mean(values, first, inside) - self.mean(values, second, inside), 0.0

    def residual(self, values, category, inside):
        u = self.mean(values, category, inside)
        return u, float(u @ self.y)

    def mean(self, values, category, inside):
        chosen = self.weight * inside * column(values, category)
        return chosen / chosen.sum()

    def dual_bound(self):
        """Return a lower bound on the objective of every feasible function, near the fitted one where unpenalised."""
        slope = self.slope.copy()
        found = list(zip(self.model.multipliers_, self.functionals(), strict=True))
        # An unpenalised intercept wants the dual variables to add up to what the multipliers pull: scale one sign
        # down.
        level = float(self.c @ slope) - sum(nu * float(u.sum()) for nu, (_, u, _) in found)
        if self.model.fit_intercept and level != 0:
            side = np.sign(slope) == np.sign(level)
            slope[side] *= 1 - min(abs(level) / float(self.c[side] @ np.abs(slope[side])), 1.0)
        alpha = self.c * slope
        bound = float(alpha @ self.y - 0.5 * (self.c @ slope**2))
        pull = self.X.T @ alpha
        for nu, (_, u, _) in found:
            pull = pull - nu * (self.X.T @ u)
            bound -= nu * float(u @ self.f)  # the bound that a multiplier belongs to is attained: checked beside this
        if self.ridge:
            return bound - 0.5 * float(pull @ pull)
        return bound - 10 * float(np.abs(pull) @ np.abs(self.model.coef_))


KINDS = {
    "covariance": RecomputedRegression.covariance,
    "difference of means": RecomputedRegression.difference,
    "mean residual": RecomputedRegression.residual,
}


def asked_bounds(constraint, name):
    """Return the bound of a constraint on an attribute, infinite where it has none."""
    given = getattr(constraint, "c", getattr(constraint, "difference", None))
    if hasattr(given, "get"):
        given = given.get(name, np.inf)
    return np.inf if hasattr(given, "get") else float(given)  # bounds by category have tests of their own


def bounded_faults(seen):
    model, found = seen.model, []
    asked = model.constraint if isinstance(model.constraint, list | tuple) else [model.constraint]
    asked = [c() if isinstance(c, type) else c for c in asked]
    kinds = {
        "CovarianceBound": "covariance",
        "GroupMeansBound": "difference of means",
        "CalibrationBound": "mean residual",
    }
    for label, u, middle in seen.functionals():
        quantity, name = label[0], label[1]
        value = float(u @ seen.f) - middle
        room = float(np.abs(u) @ (seen.errors + EPS * np.abs(seen.y))) + FEASIBLE * float(
            np.abs(u) @ np.abs(seen.f - middle)
        )
        room += FEASIBLE * float(np.abs(u) @ np.abs(seen.y - np.median(seen.y)))
        for constraint in asked:
            if kinds.get(type(constraint).__name__) != quantity or getattr(constraint, "relative", False):
                continue
            if abs(value) > asked_bounds(constraint, name) + room:
                found.append(f"{label} is {value!r}, bounded by {asked_bounds(constraint, name)!r}")
    return found


def faults(model, X, y, sample_weight=None, sensitive_features=None, strata=None):
    """Return what contradicts the certificate of a regression that is called solved, one sentence each."""
    seen = RecomputedRegression(model, X, y, sample_weight, sensitive_features, strata)
    found, proof = [], model.certificate_
    if abs(seen.objective - proof.objective) > seen.rounding + STATED * seen.unit:
        found.append(f"objective {seen.objective!r} at the coefficients, certified {proof.objective!r}")
    gap, room = (seen.objective - proof.dual_bound) / seen.unit, model.tol + seen.rounding / seen.unit
    if not abs(gap) <= 4 * room:
        found.append(f"gap {gap:.2e} above {room:.2e}")
    if not proof.violation >= 0:
        found.append(f"violation {proof.violation!r}")
    if not seen.given or model.multipliers_ is None or any(v.dtype == float for v in seen.given.values()):
        return found
    found += bounded_faults(seen)
    if model.loss != "quantile":
        proved = (seen.objective - seen.dual_bound()) / seen.unit
        if not abs(proved) <= PROVED + 1e3 * seen.rounding / seen.unit:
            found.append(f"recomputed gap {proved:.2e}")
    return found
