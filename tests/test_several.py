"""Several constraints at once: one convex problem, against an independent solver; conflicts are named."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from cvxpy_reference import leave_out, solve_reference
from fairmargin import (
    CovarianceBound,
    CovariancePenalty,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairMultinomialLogisticRegression,
    FairSVC,
    FairTreeClassifier,
    IndividualLossBound,
    InfeasibleError,
    LossBound,
    PRuleBound,
)
from test_covariance_penalty import LOSSES, TIGHT, covariance_rows, make_people

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning"),
    pytest.mark.filterwarnings("ignore::fairmargin.TrivialClassifierWarning"),
]

LARGEST = {  # the margin at which the loss is u
    "logistic": lambda u: -np.log(np.expm1(u)),
    "hinge": lambda u: 1.0 - u,
    "squared_hinge": lambda u: 1.0 - np.sqrt(u),
}


class Reference:
    """The same question to cvxpy and Clarabel: each constraint from its definition."""

    def __init__(self, X, y, people, C, loss):
        self.X, self.y, self.people, self.loss = X, y, people, loss
        self.w, self.b = cp.Variable(X.shape[1]), cp.Variable()
        self.margins = cp.multiply(y, X @ self.w + self.b)
        self.value = C * cp.sum(LOSSES[loss](self.margins)) + 0.5 * cp.sum_squares(self.w)
        solve_reference(cp.Problem(cp.Minimize(self.value)), **TIGHT)
        self.best = float(self.value.value)
        self.free = self.margins.value, self.w.value, self.b.value
        self.asked, self.least = [], None

    def covariances(self, notion):
        A = covariance_rows(self.y, self.people, notion)
        free = A.T @ (self.X @ self.free[1] + self.free[2])
        return A.T @ self.X @ self.w + A.sum(axis=0) * self.b, np.abs(free)

    def add(self, constraint):
        covariance, reach = self.covariances(constraint.notion)
        if isinstance(constraint, CovarianceBound):
            self.asked.append(cp.abs(covariance) <= constraint.c * (reach if constraint.relative else 1.0))
            return
        if isinstance(constraint, LossBound):
            self.asked.append(self.value <= (1 + constraint.gamma) * self.best)
        else:
            self.promise(constraint)
        if self.least is None:
            self.least = cp.max(cp.multiply(1 / reach, cp.abs(covariance)))

    def promise(self, constraint):
        margins, w, _ = self.free
        if np.isfinite(constraint.gamma):
            value = LOSSES[self.loss](margins).value
            allowed = LARGEST[self.loss](np.maximum((1 + constraint.gamma) * value, 1e-300))
            self.asked.append(self.margins >= np.minimum(allowed, margins))
            self.asked.append(cp.sum_squares(self.w) <= (1 + constraint.gamma) * float(w @ w))
        if constraint.keep_positive is not None:
            kept = np.flatnonzero(self.y * margins >= 0)
            self.asked.append(cp.multiply(self.y[kept], self.margins[kept]) >= 0)

    def solve(self):
        """Return the least of what is minimised; None if nothing satisfies all."""
        problem = cp.Problem(cp.Minimize(self.value if self.least is None else self.least), self.asked)
        try:
            problem.solve("CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        except cp.error.SolverError:
            leave_out("Clarabel failed")
        if problem.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
            return None
        if problem.status != cp.OPTIMAL:
            leave_out(f"Clarabel ended {problem.status!r}")
        return float(problem.value)


def draw_constraints(rng):
    """Return two or three constraints that are not the same."""
    kinds = [
        lambda: CovarianceBound(float(rng.uniform(0, 0.2))),
        lambda: CovarianceBound(float(rng.uniform(0.2, 0.9)), relative=True, notion="true_positive_rate"),
        lambda: CovarianceBound(float(rng.uniform(0.3, 1)), relative=True, notion="equalized_odds"),
        lambda: LossBound(float(10 ** rng.uniform(-2.5, -0.5)), notion=rng.choice(["selection_rate", "error_rate"])),
        lambda: IndividualLossBound(float(10 ** rng.uniform(-1, 0.7))),
        lambda: IndividualLossBound(keep_positive="accepted", notion="true_positive_rate"),
    ]
    chosen = rng.choice(len(kinds), size=rng.integers(2, 4), replace=False)
    return [kinds[k]() for k in chosen]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The solver stopped")
@settings(max_examples=40, derandomize=True, phases=[Phase.generate])
@given(seed=st.integers(0, 10**6), C=st.sampled_from([0.1, 1.0, 10.0]), loss=st.sampled_from(sorted(LOSSES)))
def test_agrees_with_an_independent_solver(seed, C, loss):
    X, y, people = make_people(seed)
    asked = draw_constraints(np.random.default_rng(seed))
    reference = Reference(X, y, people, C, loss)
    for constraint in asked:
        reference.add(constraint)
    best = reference.solve()
    classifier = FairMarginClassifier(loss, C=C, constraint=asked)
    if best is None:
        with pytest.raises(InfeasibleError, match="contradict|Without"):
            classifier.fit(X, y, sensitive_features=people)
        return
    classifier.fit(X, y, sensitive_features=people)
    mine = classifier.certificate_.objective
    if reference.least is not None:
        reference.w.value, reference.b.value = classifier.coef_[0], classifier.intercept_[0]
        mine = float(reference.least.value)
    assert mine == pytest.approx(best, rel=1e-6, abs=2e-6)
    assert classifier.certificate_.status == "solved"
    assert all(record.violation <= 1e-8 for record in classifier.constraints_)
