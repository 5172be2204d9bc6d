"""Thousands of random problems: none may be silently wrong.

A fit is *silently wrong* where it is called solved, or ends otherwise without a warning, and an independent solver or
the certificate recomputed in extended precision says that it is infeasible, not optimal, or not what it claims to be.
A case whose reference fails is counted and left out, at most ``SKIPPED`` of all. Every failure names its seed:
``python tests/test_fuzz.py 4711`` repeats one, ``python tests/test_fuzz.py 0 20000`` a range, and
``pytest tests/test_fuzz.py -m heavy --fuzz-size 100000`` runs a night's worth, and ``--fuzz-first 10000`` others.
"""

import collections
import sys
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from clarabel_reference import Setting, covariance_rows, dual_bound, solve
from fuzz_problems import draw, draw_priced
from recompute import FEASIBLE, VALUES, Recomputed, covariance_bounds, faults, loss_weights, sample_weights, signs

pytestmark = [pytest.mark.heavy, pytest.mark.slow, pytest.mark.unchecked_fits]

CHUNK = 500
SKIPPED = 0.02
WORSE = 1e-7  # relative excess over a feasible reference from which on a fit is not optimal
REFUSALS = (
    "disparate treatment",
    "share of a loss of zero means nothing",
    "No classifier",
    "Classifiers that reach",
    "only one group",
    "finite C",
    "promise",
    "keep_positive cannot be kept: by the rounding",  # kept by predict, or an error
)


def test_no_fit_is_silently_wrong(fuzz_chunk):
    wrong, counts = run(range(fuzz_chunk * CHUNK, (fuzz_chunk + 1) * CHUNK))
    print(dict(counts))
    assert not wrong, "\n".join(wrong)
    assert counts["unverified"] <= SKIPPED * CHUNK


@pytest.mark.parametrize("part", range(2))
def test_no_fit_with_a_price_or_nearly_dependent_columns_is_silently_wrong(part):
    wrong, counts = run(range(part * CHUNK, (part + 1) * CHUNK), draw_priced)
    print(dict(counts))
    assert not wrong, "\n".join(wrong)
    assert counts["unverified"] <= SKIPPED * CHUNK


def run(seeds, draw=draw):
    """Return the failures of some seeds, and how often each verdict was given."""
    wrong, counts = [], collections.Counter()
    for seed in seeds:
        case = draw(seed)
        verdict, text = judge(case)
        counts[verdict] += 1
        if verdict == "wrong":
            wrong.append(f"{case}: {text}")
    return wrong, counts


def fit(model, case):
    """Return the names of the warnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(case.X, case.y, sample_weight=case.weight, sensitive_features=case.people)
    return [w.category.__name__ for w in caught]


def judge(case):
    """Return a verdict (ok, refused, warned, unverified, wrong) and what is wrong."""
    before = case.X.copy()
    try:
        told = fit(case.model, case)
    except ValueError as error:
        known = any(words in str(error) for words in REFUSALS)
        return ("refused", "") if known else ("wrong", f"refused: {error}")
    except Exception as error:
        return "wrong", f"crashed: {type(error).__name__}: {error}"
    changed = (before != case.X).nnz if sp.issparse(before) else int(np.sum(before != case.X))
    if changed:
        return "wrong", f"{changed} entries of X changed"
    if case.model.certificate_.status != "solved":
        quiet = "ConvergenceWarning" not in told
        return ("wrong", f"{case.model.certificate_.status} without a warning") if quiet else ("warned", "")
    found = faults(case.model, case.X, case.y, case.weight, case.people)
    if found:
        return "wrong", "; ".join(found)
    judges = {"loss": judge_budget, "loss sum": judge_budget, "individual": judge_promises, "keep": judge_promises}
    judges |= {"rule": judge_rule, "price": judge_price}
    return judges.get(case.asked, judge_bound)(Fitted(case), told)


class Fitted:
    """A fitted case as the reference sees it: dense, in double precision, without the rows of no weight."""

    def __init__(self, case):
        self.case, self.model = case, case.model
        weight = sample_weights(len(case.y), case.weight)
        kept = weight > 0
        X = case.X.toarray() if sp.issparse(case.X) else case.X
        self.X, self.kept, self.weight = X[kept].astype(float), kept, weight[kept]
        self.y = signs(case.model, case.y)[kept]
        self.w, self.b = case.model.coef_[0], float(case.model.intercept_[0])
        self.Z = Recomputed(case.model, case.X, case.y, case.weight, case.people).columns()[0][kept]
        share = (self.weight / self.weight.sum()).astype(np.longdouble)[:, None]
        centred = self.Z.astype(np.longdouble)
        centred = (centred - (centred * share).sum(axis=0)) * share
        middle = self.X - self.X.mean(axis=0)
        rows = np.asarray(centred.T @ middle.astype(np.longdouble), dtype=float)
        noise = 64 * np.finfo(float).eps * (np.abs(centred).T @ np.abs(self.X)).astype(float)
        rows[np.abs(rows) <= noise] = 0.0
        self.noise = noise @ np.abs(self.w)  # of each covariance, from features as far from zero as they are
        scores = np.abs(self.X @ self.w + self.b)
        self.size = np.asarray(np.abs(centred).T @ scores, dtype=float)  # natural size of each covariance
        c = loss_weights(self.model, self.y, self.weight)
        ridge = 0.0 if np.isinf(self.model.C) else 1.0
        self.setting = Setting(self.X, self.y, c, self.model.loss, ridge, self.model.fit_intercept, rows)
        self.value = self.setting.objective(self.w, self.b)
        error = (X.shape[1] + 2) * np.finfo(float).eps * (np.abs(self.X) @ np.abs(self.w) + abs(self.b))
        slope = (
            2 * np.maximum(1 - self.y * (self.X @ self.w + self.b), 0) + 1 if "squared" in self.model.loss else 1.0
        )
        self.rounding = 2 * float(np.sum(c * slope * error))

    @property
    def unit(self):
        return max(abs(self.value), 1e-16 * self.setting.at_zero)

    def worse_than(self, answer, bounds):
        """Say by how much a reference, charged for what it misses, is below the fit or its dual bound, or ''."""
        reference = self.setting.objective(answer.w, answer.b)
        missed = np.maximum(np.abs(self.setting.rows @ answer.w) - np.where(np.isfinite(bounds), bounds, np.inf), 0)
        price = np.zeros(1) if self.model.multipliers_ is None else np.abs(self.model.multipliers_.to_numpy())
        allowance = float(np.nan_to_num(price) @ missed) if len(price) == len(missed) else 0.0
        allowance += self.rounding + WORSE * self.unit
        if not self.value <= reference + allowance:
            return f"objective {self.value!r}, a feasible classifier has {reference!r} (missed {missed.max():.1e})"
        bound = self.model.certificate_.dual_bound
        if self.setting.ridge > 0 and not bound <= reference + allowance:
            return f"dual bound {bound!r}, a feasible classifier has {reference!r} (missed {missed.max():.1e})"
        return ""


def judge_bound(fitted, told):
    bounds = np.full(len(fitted.setting.rows), np.inf)
    if fitted.model.constraint is not None:
        bounds = covariance_bounds(fitted.model, fitted.model.constraint)
    return judge_optimum(fitted, bounds)


def judge_price(fitted, told):
    """The optimum under a price is that under the bounds it leads to, with multipliers up to the price.

    Where a covariance remains, its multiplier is the price. One that is zero up to the tolerance of bounds is zero.
    """
    price, nu = fitted.model.constraint.price, np.abs(fitted.model.multipliers_.to_numpy())
    here = np.abs(fitted.setting.rows @ fitted.w)
    if np.any(nu > price * (1 + WORSE)):
        return "wrong", f"a multiplier of {nu.max()!r} above the price {price!r}"
    lost = float((price - nu) @ np.where(here > FEASIBLE * fitted.size + fitted.noise, here, 0.0))
    if not lost <= WORSE * fitted.unit + fitted.rounding:
        return "wrong", f"covariances that are worth {lost:.3g} more than their multipliers say"
    return judge_optimum(fitted, here)


def judge_optimum(fitted, bounds):
    setting = fitted.setting
    answer = solve(setting, *padded(*covariance_rows(setting, bounds)))
    if answer is None:
        return judge_by_duality(fitted, bounds)
    text = fitted.worse_than(answer, bounds)
    return ("wrong", text) if text else ("ok", "")


def padded(G, h):
    """Return rows with a column for t."""
    return np.column_stack([G, np.zeros(len(h))]), h


def judge_by_duality(fitted, bounds):
    """Judge a fit by its own dual variables, in extended precision, where the reference has failed."""
    setting, model = fitted.setting, fitted.model
    if setting.loss == "hinge" or setting.ridge == 0:
        return "unverified", ""
    multipliers = np.zeros(len(bounds)) if model.multipliers_ is None else model.multipliers_.to_numpy()
    lower = dual_bound(setting, fitted.w, fitted.b, multipliers, bounds)
    proved = fitted.value - lower <= 1e-6 * fitted.unit + fitted.rounding
    return ("ok", "") if proved else ("unverified", "")


def judge_budget(fitted, told):
    """The loss is within its budget, and no classifier with clearly less covariance is."""
    setting, model = fitted.setting, fitted.model
    free = solve(setting)
    if free is None:
        return "unverified", ""
    best = setting.objective(free.w, free.b)
    gamma = model.constraint.gamma
    if not fitted.value <= (1 + gamma) * best * (1 + WORSE) + fitted.rounding:
        return "wrong", f"objective {fitted.value!r} over the budget {(1 + gamma) * best!r}"
    claimed = fitted.value / (1 + model.loss_increase_)  # what the fit takes for the least objective of all
    if not claimed <= best * (1 + WORSE) + fitted.rounding:
        return "wrong", f"least objective {claimed!r}, but {best!r} is possible"
    best = min(best, claimed)  # a reference may stop early too
    weights = column_weights(model)
    reach = np.abs(model.unconstrained_covariance_.to_numpy())
    counted = (weights > 0) & (reach > 1e-7 * fitted.size)
    if not np.any(counted):
        return "ok", ""
    A = setting.A[counted] * (weights[counted] / reach[counted])[:, None]
    rows = sign_patterns(len(A)) @ A if model.constraint.norm == "sum" else np.vstack([A, -A])
    scale = np.zeros_like(reach)
    scale[counted] = weights[counted] / reach[counted]

    def norm(w):
        return float(getattr(np, model.constraint.norm)(np.abs(setting.rows @ w) * scale))

    step = 1e-3 * float(weights[counted].sum())
    less = norm(fitted.w) - step
    if less <= 0:
        return "ok", ""
    answer = solve(setting, *padded(rows, np.full(len(rows), less)))
    if answer is None:
        return "unverified", ""
    value = setting.objective(answer.w, answer.b)
    if value <= (1 + gamma) * best * (1 - 1e-5) and norm(answer.w) <= less + 0.1 * step:
        return "wrong", f"covariance {norm(fitted.w):.6g}, but {norm(answer.w):.6g} costs {value!r} of {best!r}"
    return "ok", ""


def column_weights(model):
    given = model.constraint.weights or {}
    return np.array([float(given.get(name, 1.0)) for name, _ in model.covariance_.index])


def sign_patterns(k):
    return np.array(np.meshgrid(*[[-1.0, 1.0]] * k)).reshape(k, -1).T


FAR = 500.0  # margin from which on the logistic loss is exp(-m) to the last digit
INVERSES = {  # the least margin of a loss u
    "logistic": lambda u: -np.log(np.expm1(np.maximum(u, 1e-300))),
    "hinge": lambda u: 1 - u,
    "squared_hinge": lambda u: 1 - np.sqrt(u),
    "smoothed_hinge": lambda u: np.where(u <= 0.25, 1 - np.sqrt(np.maximum(u, 0)), 0.75 - u),
}


def judge_promises(fitted, told):
    """Every promise is kept, and the covariance is as small as the promises allow."""
    case, model, setting = fitted.case, fitted.model, fitted.setting
    free = type(model)(**(model.get_params(deep=False) | {"constraint": None}))
    fit(free, case)
    if free.certificate_.status != "solved":
        return "unverified", ""
    gamma, value = float(model.constraint.gamma), VALUES[model.loss]
    before, after = (m.decision_function(case.X)[fitted.kept] for m in (free, model))
    hair = FEASIBLE * (1 + np.abs(before).max())
    keeps = (before >= 0) & (model.constraint.keep_positive is not None)
    if np.any(after[keeps] < 0):
        return "wrong", f"{np.sum(after[keeps] < 0)} accepted people are refused, at {after[keeps].min():.1e}"
    margins = fitted.y * before
    sign, tau, who = [np.ones(keeps.sum())], [np.zeros(keeps.sum())], [np.flatnonzero(keeps)]
    radius = np.inf
    if np.isfinite(gamma):
        allowed = (1 + gamma) * value(margins)
        least = np.minimum(INVERSES[model.loss](allowed), margins)
        if model.loss == "logistic":  # exp(-m) leaves the range of numbers: l(m - log(1 + gamma)) = (1 + gamma) l(m)
            least = np.where(margins > FAR, margins - np.log1p(gamma), least)
        broken = least - fitted.y * after - hair
        if np.any(broken > 0):
            return "wrong", f"{np.sum(broken > 0)} promises broken, by margins of {broken.max() + hair:.1e}"
        length = np.linalg.norm(free.coef_) * np.sqrt(1 + gamma)
        if setting.ridge > 0:
            radius = max(length, 1e-12)
            if np.linalg.norm(fitted.w) > radius * (1 + 1e-6):
                return "wrong", f"penalty {np.linalg.norm(fitted.w) ** 2:.9g} above {radius**2:.9g}"
        sign, tau, who = [*sign, fitted.y], [*tau, least], [*who, np.arange(len(least))]
    return judge_least_covariance(fitted, tuple(map(np.concatenate, (sign, tau, who))), radius)


def judge_least_covariance(fitted, promises, radius):
    setting, model = fitted.setting, fitted.model
    reach = np.abs(model.unconstrained_covariance_.to_numpy())
    counted = reach > 1e-7 * fitted.size
    if setting.ridge == 0 or not np.any(counted):  # without a penalty the point of comparison need not be unique
        return "ok", ""
    A = setting.A[counted] / reach[counted, None]
    one = -np.ones((len(A), 1))
    G = np.vstack([np.hstack([A, one]), np.hstack([-A, one])])
    answer = solve(setting, G, np.zeros(len(G)), objective=False, price=1.0, promises=promises, radius=radius)
    if answer is None:
        return "unverified", ""
    here = float(np.max(np.abs(setting.rows[counted] @ fitted.w) / reach[counted]))
    if here > max(answer.value, 0.0) + 1e-3 and answer.exact:
        return "wrong", f"covariance factor {here:.6g}, promises allow {answer.value:.6g}"
    return "ok", ""


def judge_rule(fitted, told):
    """The rule was checked with the certificate; here: nothing worse than deciding the same for everybody."""
    accept = fitted.X @ fitted.w + fitted.b >= 0
    if (np.all(accept) or not np.any(accept)) and not told:
        return "wrong", "decides the same for everybody without a word"
    accuracy = fitted.weight[accept == (fitted.y > 0)].sum() / fitted.weight.sum()
    positive = fitted.weight[fitted.y > 0].sum() / fitted.weight.sum()
    constant = max(positive, 1 - positive) if fitted.model.fit_intercept else positive
    if accuracy < constant - 1e-9 and not told:
        return "wrong", f"accuracy {accuracy:.4f}, a constant decision has {constant:.4f}"
    return "ok", ""


def main(first, last):
    """Print failures as they come, and at the end the counts and the slowest cases."""
    total, slowest = collections.Counter(), []
    for seed in range(first, last):
        start = time.process_time()
        wrong, counts = run([seed])
        total += counts
        slowest.append((round(time.process_time() - start, 1), seed))
        print(*wrong, sep="\n", end="\n" if wrong else "", flush=True)
    print(dict(total), "slowest (seconds, seed):", sorted(slowest)[-5:])


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:]]
    main(numbers[0], numbers[1] if len(numbers) > 1 else numbers[0] + 1)
