"""What a fitted multinomial classifier is worth, computed from its public attributes alone, in numpy.

The dual bound is computed once more: probabilities of the fitted scores, mixed with one distribution so that they sum
up to the masses of the classes, and the fitted multipliers give a lower bound on the objective of every feasible
classifier. Tolerances are those of ``recompute.py``.
"""

import numpy as np
import scipy.sparse as sp

from fairmargin.coded_matrix import CodedMatrix
from recompute import CONDITIONS, EPS, FEASIBLE, MARGIN, STATED, column, named_columns, sample_weights, within


def dense(X):
    if sp.issparse(X) or isinstance(X, CodedMatrix):
        return X.toarray()
    return np.asarray(X, dtype=float)


class RecomputedClasses:
    """Objective, dual bound and covariances of a fitted classifier on its training data."""

    def __init__(self, model, X, y, sample_weight=None, sensitive_features=None, strata=None):
        self.model, self.people = model, sensitive_features
        self.X, labels = dense(X), np.asarray(y).ravel()
        self.weight = sample_weights(len(labels), sample_weight)
        kept = self.weight > 0
        self.kept, self.X, labels, self.weight = kept, self.X[kept], labels[kept], self.weight[kept]
        self.strata = None if strata is None else {n: np.asarray(v)[kept] for n, v in named_columns(strata)}
        W, b = model.coef_, model.intercept_
        if len(W) == 1:
            W, b = np.vstack([-W, W]) / 2, np.append(-b, b) / 2
        self.W, self.Q = W, len(W)
        self.F = self.X @ W.T + b
        self.Y = (labels[:, None] == model.classes_).astype(float)
        self.C = 1.0 if np.isinf(model.C) else model.C
        self.ridge = 0.0 if np.isinf(model.C) else 2.0 if self.Q == 2 else 1.0
        self.c = self.C * self.weight * self.factors()[self.Y.argmax(axis=1)]
        margin = self.F - (self.F * self.Y).sum(axis=1, keepdims=True)
        top = margin.max(axis=1, keepdims=True)
        E = np.exp(margin - top)
        self.P = E / E.sum(axis=1, keepdims=True)
        others = (E * (1 - self.Y)).sum(axis=1)
        self.losses = top[:, 0] + np.log1p(others + np.exp(-top[:, 0]) - 1)
        self.objective = float(self.c @ self.losses) + 0.5 * self.ridge * float(np.sum(W**2))
        size = np.abs(self.X) @ np.abs(W).T + np.abs(b)
        self.errors = (self.X.shape[1] + 4) * EPS * size
        self.rounding = 2 * float(self.c @ (np.abs(self.P - self.Y) * self.errors).sum(axis=1))
        self.rounding += 1e-13 * abs(self.objective)
        self.unit = max(abs(self.objective), 1e-16 * float(self.c.sum() * np.log(self.Q)))

    def factors(self):
        asked = self.model.class_weight
        if asked is None:
            return np.ones(self.Q)
        if asked == "balanced":
            return self.weight.sum() / (self.Q * (self.weight @ self.Y))
        return np.array([asked.get(label, 1.0) for label in self.model.classes_.tolist()])

    def columns(self, q):
        """Return ``z - zbar`` among the people who count for a class, shape (N, K), scaled to a mean over all."""
        given, found, rows = dict(named_columns(self.people)), self.conditions(q), []
        for name, category, *among in self.model.covariance_.index:
            counts, sign = found[among[0]] if among else next(iter(found.values()))
            z, share = column(given[str(name)], category)[self.kept], self.weight * counts
            rows.append(sign * counts * (z - z @ share / share.sum()) * (self.weight.sum() / share.sum()))
        return np.column_stack(rows)

    def conditions(self, q):
        """Return who counts for a class and which decision is counted, by condition."""
        notion = getattr(self.bound(q), "notion", "selection_rate")
        name = notion if isinstance(notion, str) else notion.name
        return within(CONDITIONS[name](2 * self.Y[:, q] - 1), self.strata)

    def bound(self, q):
        constraint = self.model.constraint
        constraint = constraint() if isinstance(constraint, type) else constraint
        if hasattr(constraint, "get"):
            return constraint.get(self.model.classes_.tolist()[q])
        return constraint

    def covariances(self):
        """Return covariances, what rounding may do to them and their natural size, each (Q, K)."""
        found = []
        share = self.weight / self.weight.sum()
        others = (self.F - self.F.mean(axis=1, keepdims=True)) * (self.Q / (self.Q - 1))
        for q in range(self.Q):
            Z = self.columns(q) * share[:, None]
            error = 2 * self.errors.max(axis=1) + 4 * EPS * len(Z) ** 0.5 * np.abs(self.F).max(axis=1)
            found.append((Z.T @ others[:, q], np.abs(Z).T @ error, np.abs(Z).T @ (np.abs(others[:, q]) + MARGIN)))
        return (np.array(part) for part in zip(*found, strict=True))

    def bounds(self):
        """Return the bound on every covariance, (Q, K), infinite where there is none."""
        rows = []
        for q, label in enumerate(self.model.classes_):
            free = np.abs(self.model.unconstrained_covariance_[label].to_numpy())
            asked = self.bound(q)
            c = np.full(len(free), np.inf if asked is None else np.nan)
            if asked is not None:
                c[:] = (
                    asked.c
                    if isinstance(asked.c, (int, float))
                    else [asked.c.get(name, np.inf) for name, *_ in self.model.covariance_.index]
                )
                c = c * free if asked.relative else c
            rows.append(c)
        return np.array(rows)

    def dual_bound(self):
        """Return a lower bound on the objective of every feasible classifier with these multipliers."""
        P, mass = self.P, self.c.sum()
        entropy = -np.sum(P * np.log(np.maximum(P, 1e-300)), axis=1)
        wanted, given = self.c @ self.Y, self.c @ P
        share = max(0.0, float(np.max(1 - wanted / given))) if self.model.fit_intercept else 0.0
        total = float(self.c @ entropy)
        if share > 0:
            v = np.maximum((wanted - (1 - share) * given) / (share * mass), 0)
            total = (1 - share) * total - share * mass * float(v @ np.log(np.maximum(v, 1e-300)))
            P = (1 - share) * P + share * v
        r = self.X.T @ (self.c[:, None] * (P - self.Y))  # (d, Q)
        nu = np.zeros((self.Q, 0)) if self.model.multipliers_ is None else self.model.multipliers_.to_numpy().T
        pushed = np.zeros_like(r)
        for q in range(self.Q if nu.size else 0):
            A = self.X.T @ (self.columns(q) * (self.weight / self.weight.sum())[:, None])  # (d, K)
            direction = np.full(self.Q, -1.0 / (self.Q - 1))
            direction[q] = 1.0
            pushed += np.outer(A @ nu[q], direction)
        r = r + pushed
        if nu.any():
            total -= float(np.sum(np.abs(nu[nu != 0]) * self.bounds()[nu != 0]))
        return total - float(np.sum(r**2)) / (2 * self.ridge)


def faults(model, X, y, sample_weight=None, sensitive_features=None, strata=None):
    """Return what contradicts the certificate of a classifier that is called solved, one sentence each."""
    seen = RecomputedClasses(model, X, y, sample_weight, sensitive_features, strata)
    proof, found = model.certificate_, []
    is_rule = type(model.constraint).__name__ == "PRuleBound"
    if abs(model.decision_function(X)[seen.kept] - (seen.F if seen.Q > 2 else seen.F[:, 1] - seen.F[:, 0])).max() > (
        2 * seen.errors.max()
    ):
        found.append("scores differ from those of the coefficients")
    if is_rule:
        return found + rule_faults(seen)
    if abs(seen.objective - proof.objective) > seen.rounding + STATED * seen.unit:
        found.append(f"objective {seen.objective!r} at the coefficients, certified {proof.objective!r}")
    room = max(model.tol, 1e-15) + seen.rounding / seen.unit
    if seen.ridge:
        for name, bound in (("certified", proof.dual_bound), ("recomputed", seen.dual_bound())):
            gap = (seen.objective - bound) / seen.unit
            if not -room <= gap <= room:
                found.append(f"gap {gap:.2e} to the {name} bound, outside of {room:.2e}")
    if not proof.violation >= 0:
        found.append(f"violation {proof.violation!r}")
    if model.covariance_ is not None:
        value, rounding, size = seen.covariances()
        if np.any(np.abs(value - model.covariance_.to_numpy().T) > rounding + STATED * size):
            found.append("covariances of the scores differ from those stated")
        if model.constraint is not None and np.any(np.abs(value) > seen.bounds() + rounding + FEASIBLE * size):
            found.append(f"bounds missed: {value}")
    return found


def rule_faults(seen):
    from recompute import rates_of

    model, rule, found = seen.model, seen.model.constraint, []
    decided = model.classes_[np.argmax(seen.F, axis=1)]
    for label, reached in model.p_rule_.items():
        ratios, gaps = [], []
        for counts, sign in seen.conditions(list(model.classes_).index(label)).values():
            events = (decided == label) == (sign > 0)
            for _, values in named_columns(seen.people):
                kept = values.take(seen.kept) if hasattr(values, "probabilities") else np.asarray(values)[seen.kept]
                rates = rates_of(events, kept, seen.weight * counts)
                ratios += [min(r) / max(r) for r in rates if max(r) > 0]
                gaps += [abs(a - b) for a, b in rates]
        stated = {
            "ratio": (100 * min(ratios, default=1.0), reached),
            "difference": (max(gaps), model.cv_score_[label]),
        }
        for kind, (seen_now, said) in stated.items():
            if rule.method == "one_vs_rest" and abs(seen_now - said) > 1e-9:
                found.append(f"a {kind} of {seen_now!r} for {label!r}, {said!r} stated")
        if not (
            reached >= rule.p - 1e-9 if rule.difference is None else model.cv_score_[label] <= rule.difference + 1e-9
        ):
            found.append(f"{reached!r}% and {model.cv_score_[label]!r} for {label!r}, asked for {rule!r}")
    return found
