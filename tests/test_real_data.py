"""Adult and Bank at zero covariance: solved, fair, and next to what scikit-learn finds without a constraint."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fairmargin import FairLinearSVC, FairLogisticRegression, decision_boundary_covariance
from fairmargin.datasets import load_adult, load_bank
from fairmargin.losses import get_loss

pytestmark = [pytest.mark.data, pytest.mark.slow]


@pytest.fixture(scope="module", params=["adult", "bank"])
def people(request):
    data = load_adult(encoded=True) if request.param == "adult" else load_bank(encoded=True)
    return np.asarray(data.data, dtype=float), np.asarray(data.target), data.sensitive_features


def objective(model, X, y, loss):
    signed = np.where(y == 1, 1.0, -1.0)
    w = model.coef_[0]
    return get_loss(loss).value(signed * (X @ w + model.intercept_[0])).sum() + 0.5 * w @ w


@pytest.mark.parametrize(("estimator", "loss"), [(FairLogisticRegression, "logistic"), (FairLinearSVC, "hinge")])
@pytest.mark.parametrize("attributes", ["first", "all"])
@pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning")
def test_zero_covariance_is_reached_and_proved(people, estimator, loss, attributes):
    X, y, z = people
    z = z.iloc[:, :1] if attributes == "first" else z
    model = estimator().fit(X, y, sensitive_features=z)
    assert model.certificate_.gap <= 1e-8
    assert model.certificate_.status == "solved"
    assert objective(model, X, y, loss) == pytest.approx(model.certificate_.objective, rel=1e-10)
    covariance = decision_boundary_covariance(y, model.decision_function(X), sensitive_features=z)
    assert np.all(np.abs(covariance) <= 1e-8)
    free = estimator(constraint=None).fit(X, y)
    assert free.certificate_.objective < model.certificate_.dual_bound
    assert model.score(X, y) > 0.75


def test_without_a_constraint_it_is_scikit_learns_optimum(people):
    X, y, _ = people
    ours = FairLogisticRegression(constraint=None).fit(X, y)
    theirs = LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(X, y)
    assert objective(ours, X, y, "logistic") == pytest.approx(objective(theirs, X, y, "logistic"), rel=1e-8)
