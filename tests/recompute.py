"""What a fitted classifier is worth, computed from its public attributes alone.

Nothing here comes from the library: losses, weights, means, covariances and rates are written down once more, in
numpy, and scores come from ``decision_function``, which is what decides. Every tolerance is derived:

- a score ``x.w + b`` of d terms is known to ``(d + 2) eps (|x|.|w| + |b|)``; objectives and covariances inherit that;
- a bound may be missed by ``FEASIBLE`` of the natural size of what is bounded: ``mean |z - zbar| |f|`` of a
  covariance, the largest score of a promise;
- a gap may be as large as the estimator's ``tol`` (or the wider one that its formulation states), relative to the
  objective or, where that is nearly zero, to 1e-16 of the objective at zero.
"""

import numpy as np
import scipy.sparse as sp

from fairmargin.coded_matrix import CodedMatrix

EPS = np.finfo(float).eps
FEASIBLE = 1e-8  # share of the natural size of a bounded quantity by which its bound may be missed
STATED = 1e-10  # share of an objective or a covariance by which its statement may be off, beyond rounding
MARGIN = 1e-6  # scores below this, where a margin is 1, are nothing
SECANT = 1e-3  # length of the secants of losses: the rounding of values, over it, is far below the slope
STATED_GAPS = {"sum": 1e-6, "individual": 1e-6}  # wider than tol by the formulation's own statement

VALUES = {  # losses by name
    "logistic": lambda m: np.maximum(-m, 0) + np.log1p(np.exp(-np.abs(m))),
    "hinge": lambda m: np.maximum(1 - m, 0),
    "squared_hinge": lambda m: np.maximum(1 - m, 0) ** 2,
    "smoothed_hinge": lambda m: np.where(m < 0.5, 0.75 - m, np.maximum(1 - m, 0) ** 2),
    "modified_huber": lambda m: np.where(m < -1, -4 * m, np.maximum(1 - m, 0) ** 2),
}
# By notion, given labels in {-1, +1}: the conditions under which groups are compared, each with its name, who counts,
# and +1 where the positive decision is counted, -1 where the negative one is.
CONDITIONS = {
    "selection_rate": lambda y: [("", np.ones(len(y)), np.ones(len(y)))],
    "true_positive_rate": lambda y: [("", (y > 0) * 1.0, np.ones(len(y)))],
    "false_positive_rate": lambda y: [("", (y < 0) * 1.0, np.ones(len(y)))],
    "false_negative_rate": lambda y: [("", (y > 0) * 1.0, -np.ones(len(y)))],
    "error_rate": lambda y: [("", np.ones(len(y)), -y)],
    "equalized_odds": lambda y: [("y=+1", (y > 0) * 1.0, np.ones(len(y))), ("y=-1", (y < 0) * 1.0, np.ones(len(y)))],
}


def loss_of(model):
    """Return the loss as a function of the margin, and the size of its slope: of a short secant, which is steeper."""
    loss = getattr(model, "loss", "logistic")
    value = VALUES[loss] if isinstance(loss, str) else loss.value
    return value, lambda m: (value(m - SECANT) - value(m)) / SECANT


def conditions(model, signed, strata=None):
    """Return the conditions of the constraint's notion, by name: who counts, and the sign of what is counted."""
    names = dict.fromkeys(notion_name(c) for c in asked_of(model))
    found = []
    for notion in names:
        for name, who, sign in CONDITIONS[notion](signed):
            found.append((", ".join(filter(None, [notion, name])) if len(names) > 1 else name, who, sign))
    return within(found, strata)


def within(found, strata=None):
    """Return conditions, given as (name, who counts, sign), by name and divided by strata."""
    if strata is None:
        return {name: rest for name, *rest in found}
    columns = [("strata" if name == "sensitive" else name, np.asarray(v)) for name, v in named_columns(strata)]
    label = " × ".join(name for name, _ in columns)
    values = [" × ".join(map(str, row)) for row in zip(*(v.tolist() for _, v in columns), strict=True)]
    values = columns[0][1].tolist() if len(columns) == 1 else values
    divided = {}
    for name, who, sign in found:
        for value in dict.fromkeys(values):
            inside = np.array([v == value for v in values])
            divided[", ".join(filter(None, [name, f"{label}={value!r}"]))] = [who * inside, sign]
    return divided


def asked_of(model):
    """Return the constraints of a classifier as a list."""
    return list(model.constraint) if isinstance(model.constraint, (list, tuple)) else [model.constraint]


def notion_name(constraint):
    notion = getattr(constraint, "notion", "selection_rate")
    return notion if isinstance(notion, str) else notion.name


def belongs(model, constraint, among):
    """Whether the condition called ``among`` is one of the constraint's notion."""
    notion = notion_name(constraint)
    alone = len(dict.fromkeys(map(notion_name, asked_of(model)))) == 1
    return alone or str(among) == notion or str(among).startswith(notion + ", ")


def signs(model, y):
    return np.where(np.asarray(y).ravel() == model.classes_[1], 1.0, -1.0)


def sample_weights(n, sample_weight):
    if sample_weight is None:
        return np.ones(n)
    weight = np.asarray(sample_weight, dtype=float)
    return np.full(n, float(weight)) if weight.ndim == 0 else weight


def loss_weights(model, signed, weight):
    """Return ``C s_i`` times the factor of the class."""
    factor = np.ones_like(weight)
    if isinstance(model.class_weight, str):  # balanced
        up = weight[signed > 0].sum()
        factor = weight.sum() / (2 * np.where(signed > 0, up, weight.sum() - up))
    elif model.class_weight is not None:
        given = dict(model.class_weight)
        down, up = (float(given.get(c, 1.0)) for c in model.classes_)
        factor = np.where(signed > 0, up, down)
    C = getattr(model, "C_", model.C)  # as chosen by the classifier
    return weight * factor * (1.0 if np.isinf(C) else C)


def penalty(model, scores):
    """Return ``1/2 ||f||^2``, of a kernel machine by the values of ``f`` at its support vectors."""
    if np.isinf(getattr(model, "C_", model.C)):
        return 0.0
    if hasattr(model, "coef_"):
        return 0.5 * float(np.sum(np.asarray(model.coef_, dtype=np.longdouble) ** 2))
    rows = getattr(model, "trained_rows_", None)  # scores are of these people, the support is among all
    support = model.support_ if rows is None else np.searchsorted(rows, model.support_)
    return 0.5 * float(model.dual_coef_[0] @ (scores[support] - model.intercept_[0]))


def score_errors(model, X, scores):
    """Return by how much each score may be off through rounding."""
    if not hasattr(model, "coef_"):
        return np.full(len(scores), 1e-9 * (np.abs(scores).max() + np.abs(model.dual_coef_).sum()))
    if hasattr(model, "estimators_"):  # a tree ensemble: one leaf value per tree
        terms = sum(count_trees(e) for e in model.estimators_)
        size = terms * np.abs(model.coef_).max() + abs(model.intercept_[0])
        return np.full(len(scores), (terms + 2) * EPS * size)
    matrix = X if sp.issparse(X) or isinstance(X, CodedMatrix) else np.asarray(X, dtype=float)
    size = np.asarray(abs(matrix) @ np.abs(model.coef_[0])).ravel() + abs(model.intercept_[0])
    return (matrix.shape[1] + 2) * EPS * size


def count_trees(ensemble):
    """Return at least as many trees as an ensemble has, of any library."""
    names = ("n_iter_", "n_estimators_", "n_estimators", "tree_count_")
    last = getattr(ensemble, "steps", [(None, ensemble)])[-1][1]
    return max(int(getattr(last, name, None) or 1) for name in names)


class Recomputed:
    """Objective, gap, covariances and violation of a fitted classifier on its training data."""

    def __init__(self, model, X, y, sample_weight=None, sensitive_features=None, strata=None):
        self.strata = strata
        self.model, self.proof = model, model.certificate_
        self.scores = model.decision_function(X)
        self.signed = signs(model, y)
        self.weight = sample_weights(len(self.signed), sample_weight)
        self.people = sensitive_features
        self.errors = score_errors(model, X, self.scores)
        value, slope = loss_of(model)
        c = loss_weights(model, self.signed, self.weight)
        margins = self.signed * self.scores
        self.losses = float(np.sum(c * value(margins), where=c > 0))
        self.objective = self.losses + penalty(model, self.scores)
        # Slopes grow with the loss at most twice as fast as the margin falls: the error at its far end counts.
        self.rounding = 2 * float(np.sum(c * slope(margins - self.errors) * self.errors, where=c > 0))
        self.rounding += 1e-13 * abs(self.objective)
        self.unit = max(abs(self.objective), 1e-16 * float(c.sum() * value(np.zeros(1))[0]), np.finfo(float).tiny)

    @property
    def gap(self):
        """The relative gap of the recomputed objective to the certified bound; negative where it is below."""
        return (self.objective - self.proof.dual_bound) / self.unit

    def columns(self):
        """Return sensitive columns, who counts and the sign of what is counted, in the order of ``covariance_``."""
        given = sensitive_table(self.people, self.model.constraint)
        found = conditions(self.model, self.signed, self.strata)
        only = next(iter(found)) if len(found) == 1 else None
        columns, counts, signs = [], [], []
        for name, category, *among in self.model.covariance_.index:
            columns.append(column(given[str(name)], category))
            who, sign = found[among[0] if among else only]
            counts.append(who)
            signs.append(sign)
        return np.column_stack(columns), np.column_stack(counts), np.column_stack(signs)

    def covariances(self):
        """Return the covariances, what they may be off through rounding, and their natural size, each (K,)."""
        Z, counts, signs = self.columns()
        share = (self.weight / self.weight.sum())[:, None]
        largest = np.abs(Z).max(axis=0)
        counted = (share * counts).sum(axis=0)
        # Attributes far from zero (years) leave the rounding of a sum in their mean: less of it in more digits.
        exact = share.astype(np.longdouble) * counts
        Z = counts * np.asarray(Z - (Z * exact).sum(axis=0) / exact.sum(axis=0), dtype=float) / counted
        weighted = Z * signs * share
        rounding = np.abs(weighted).T @ self.errors
        rounding += 4 * EPS * largest / counted * (share[:, 0] @ np.abs(self.scores))
        rounding += 4 * EPS * len(self.scores) ** 0.5 * (np.abs(weighted).T @ np.abs(self.scores))
        return weighted.T @ self.scores, rounding, np.abs(weighted).T @ (np.abs(self.scores) + MARGIN)


def sensitive_table(people, constraint):
    """Return the values of every attribute by name."""
    return dict(named_columns(people))


def named_columns(people):
    """Yield (name, values) of sensitive features in any of the forms that ``fit`` takes."""
    if hasattr(people, "collect"):
        people = people.collect()
    if hasattr(people, "probabilities"):
        yield str(people.name), people
    elif hasattr(people, "columns"):  # a frame of pandas or polars
        for k, name in enumerate(people.columns):
            yield str(name), people.iloc[:, k] if hasattr(people, "iloc") else people[name]
    elif hasattr(people, "items") and not hasattr(people, "to_numpy"):
        yield from ((str(name), values) for name, values in people.items())
    elif hasattr(people, "to_numpy"):
        yield (str(people.name) if getattr(people, "name", None) not in (None, "") else "sensitive"), people
    else:
        nested = isinstance(people, list | tuple) and any(isinstance(row, list | tuple) for row in people)
        table = np.asarray(people, dtype=object if nested else None)
        if table.ndim == 1 or table.shape[1] == 1:
            yield "sensitive", table.reshape(len(table))
        else:
            yield from ((f"sensitive_{k}", table[:, k]) for k in range(table.shape[1]))


def column(values, category):
    if hasattr(values, "probabilities"):
        return values.probabilities[:, values.groups.index(category)]
    values = np.asarray(values)
    if isinstance(category, str) and category == "(numeric)":
        return values.astype(float)
    same = np.array([v == category for v in values.tolist()], dtype=float)
    return same if same.any() else np.array([str(v) == str(category) for v in values.tolist()], dtype=float)


def covariance_bounds(model, constraint):
    """Return the bound on each covariance that a constraint states, infinite where there is none."""
    labels = [label[:2] for label in model.covariance_.index]
    c = constraint.c
    if isinstance(c, (int, float, np.number)):
        bounds = np.full(len(labels), float(c))
    else:
        bounds = np.array([bound_of(c, name, category, labels) for name, category in labels])
    own = [belongs(model, constraint, label[-1]) for label in model.covariance_.index]
    bounds = np.where(own, bounds, np.inf)
    if not constraint.relative:
        return bounds
    free = np.abs(model.unconstrained_covariance_.to_numpy())
    return np.where(np.isfinite(bounds), np.where(np.isfinite(bounds), bounds, 0.0) * free, np.inf)


def bound_of(c, name, category, labels):
    asked = c.get(name, np.inf)
    if not hasattr(asked, "items"):
        return float(asked)
    if (
        len({label for label in labels if label[0] == name}) == 1
    ):  # a binary attribute has one column for both of its values
        return float(min(asked.values()))
    return float(asked.get(category, np.inf))


def rates_of(decisions, values, weight, least=1, smooth_below=None):
    """Return the rates of each group and of the rest.

    Only where both are at least ``least`` people (of a positive weight); none where that is nowhere. Groups of fewer
    than ``smooth_below`` people are filled up to it with people accepted at the rate of the rest. People without
    weight are left out.
    """
    total, accepted, people = {}, {}, {}
    for group, inside in shares_of(values, weight).items():
        total[group], accepted[group] = weight @ inside, (weight * inside) @ decisions
        people[group] = np.sum(inside[weight > 0])
        if smooth_below is not None and people[group] < smooth_below:
            more = total[group] * (smooth_below / people[group] - 1)
            accepted[group] += more * np.average(decisions, weights=weight * (1.0 - inside))
            total[group] += more
    pairs = []
    for group in total:
        if min(people[group], sum(people.values()) - people[group]) < least:
            continue
        a = accepted[group] / total[group]
        b = (sum(accepted.values()) - accepted[group]) / (sum(total.values()) - total[group])
        pairs.append((a, b))
    return pairs


def shares_of(values, weight):
    """Return which share of each person is in each group: 0 or 1, or a probability."""
    if hasattr(values, "probabilities"):
        found = dict(zip(values.groups, values.probabilities.T, strict=True))
        return {group: share for group, share in found.items() if weight @ share > 0}
    groups = np.asarray(values).astype(str)
    return {group: (groups == group).astype(float) for group in np.unique(groups[weight > 0])}


def stated_tolerance(model):
    """Return the relative gap up to which a fit of this kind may be called solved."""
    tol = max(model.tol, 1e-15)
    for constraint in asked_of(model):
        name = type(constraint).__name__
        if name == "LossBound" and constraint.norm == "sum":
            tol = max(tol, STATED_GAPS["sum"])
        if name == "IndividualLossBound":
            tol = max(tol, STATED_GAPS["individual"])
    if hasattr(model, "dual_coef_") and getattr(model, "refined_", False):
        tol = 2 * (tol + model.approximation_tol)
    return tol


def trained(model, X, y, sample_weight, people, strata=None):
    """Return the data of the people who trained a classifier: everybody, unless some were set aside to test it."""
    if not hasattr(model, "trained_rows_"):
        return X, y, sample_weight, people, strata
    rows = model.trained_rows_
    weight = None if sample_weight is None else sample_weights(len(y), sample_weight)[rows]
    people = {name: np.asarray(values)[rows] for name, values in named_columns(people)}
    X = X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X)[rows] if not sp.issparse(X) else X[rows]
    strata = None if strata is None else {name: np.asarray(values)[rows] for name, values in named_columns(strata)}
    return X, np.asarray(y)[rows], weight, people, strata


def faults(model, X, y, sample_weight=None, sensitive_features=None, strata=None):
    """Return what contradicts the certificate of a classifier that is called solved, one sentence each."""
    seen = Recomputed(model, X, y, sample_weight, sensitive_features, strata)
    found = []
    if not np.isfinite(seen.objective):
        return [f"the objective at the returned coefficients is {seen.objective}"]
    if abs(seen.objective - seen.proof.objective) > seen.rounding + STATED * seen.unit:
        found.append(f"objective {seen.objective!r} at the coefficients, certified {seen.proof.objective!r}")
    names = [type(c).__name__ for c in asked_of(model)]
    if "PRuleBound" not in names:
        room = stated_tolerance(model) + seen.rounding / seen.unit
        if not seen.gap <= room:
            found.append(f"gap {seen.gap:.2e} above {room:.2e}")
        if not seen.gap >= -room:
            found.append(f"objective below its own dual bound by {-seen.gap:.2e}, more than {room:.2e}")
    if not seen.proof.violation >= 0:
        found.append(f"violation {seen.proof.violation!r}")
    if model.covariance_ is not None and sensitive_features is not None:
        found += covariance_faults(seen)
    for constraint in asked_of(model):
        if type(constraint).__name__ == "PRuleBound":
            found += rule_faults(seen, constraint)
        if type(constraint).__name__ == "LossBound" and not model.loss_increase_ <= constraint.gamma + 1e-8:
            found.append(f"loss increase {model.loss_increase_!r} above {constraint.gamma!r}")
    return found


def covariance_faults(seen):
    model, found = seen.model, []
    value, rounding, size = seen.covariances()
    off = np.abs(value - model.covariance_.to_numpy()) - rounding - STATED * size
    if np.any(off > 0):
        found.append(f"covariances {value} of the scores, {model.covariance_.to_numpy()} stated")
    if type(model.constraint).__name__ == "CovariancePenalty":
        found += price_faults(model, value, rounding + FEASIBLE * size)
    for constraint in asked_of(model):
        if type(constraint).__name__ == "CovarianceBound":
            bounds = covariance_bounds(model, constraint)
            missed = np.abs(value) - bounds - rounding - FEASIBLE * size
            if np.any(missed > 0):
                found.append(f"bounds {bounds} missed: {value}, by {missed.max():.2e} beyond tolerance")
    return found


def price_faults(model, covariance, room):
    """Return whether multipliers exceed their prices, or miss one where there is covariance."""
    price = model.constraint.price
    labels = [label[:2] for label in model.covariance_.index]
    if isinstance(price, (int, float, np.number)):
        price = np.full(len(labels), float(price))
    else:
        price = np.array([price_of(price, name, category, labels) for name, category in labels])
    found, nu = [], model.multipliers_.to_numpy()
    if np.any(np.abs(nu) > price * (1 + FEASIBLE)):
        found.append(f"multipliers {nu} beyond the prices {price}")
    # A bound on the objective would not notice a price that is not paid.
    unpaid = (np.abs(covariance) > room) & (np.abs(nu - np.sign(covariance) * price) > FEASIBLE * price)
    if np.any(unpaid):
        found.append(f"multipliers {nu} at the covariances {covariance} and the prices {price}")
    bounds = model.bound_.to_numpy()
    if np.any(np.abs(covariance) > bounds + room) or np.any(np.isfinite(bounds) != (price > 0)):
        found.append(f"bounds {bounds} for the covariances {covariance}")
    return found


def price_of(price, name, category, labels):
    asked = price.get(name, 0.0)
    if not hasattr(asked, "items"):
        return float(asked)
    if len({label for label in labels if label[0] == name}) == 1:
        return float(sum(asked.values()))
    return float(asked.get(category, 0.0))


def rule_faults(seen, asked):
    model, found = seen.model, []
    if asked.method != "one_vs_rest":
        return found
    given = dict(named_columns(seen.people))
    below = None if asked.confidence is not None else asked.smooth_below
    for name in dict.fromkeys(model.covariance_.index.get_level_values(0)):
        for among, (who, sign) in conditions(model, seen.signed, seen.strata).items():
            if not belongs(model, asked, among):
                continue
            counted = (seen.scores >= 0) == (sign > 0)
            rates = rates_of(counted, given[str(name)], seen.weight * who, asked.min_people, below)
            for a, b in rates:
                if asked.difference is not None and not abs(a - b) <= asked.difference + 1e-12:
                    found.append(f"rates {a!r} and {b!r} of {name!r} {among}, asked for {asked.difference!r}")
                if asked.p is not None and not 100 * min(a, b) >= (asked.p - 1e-9) * max(a, b):
                    found.append(f"rates {a!r} and {b!r} of {name!r} {among}, asked for a {asked.p!r}%-rule")
    return found
