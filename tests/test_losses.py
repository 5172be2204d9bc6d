"""Losses: convex, decreasing, with derivatives, inverses and conjugates that belong to their values."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmargin import CovarianceBound, FairMarginClassifier, losses
from fairmargin.losses import HingeLoss, LogisticLoss, Loss, ModifiedHuberLoss, SmoothedHingeLoss, get_loss
from recompute import VALUES

LOSSES = [*map(get_loss, losses.LOSSES.names), SmoothedHingeLoss(0.1)]
SMOOTH = [loss for loss in LOSSES if loss.smooth]
margins = st.floats(-50, 50)
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def at(function, *values):
    return [float(v) for v in function(np.array(values))]


@every_loss
@given(a=margins, b=margins, t=st.floats(0, 1))
def test_convex_decreasing_and_above_the_infimum(loss, a, b, t):
    low, high = min(a, b), max(a, b)
    at_low, at_high, between = at(loss.value, low, high, low + t * (high - low))
    assert at_low >= at_high >= loss.infimum
    assert between <= (1 - t) * at_low + t * at_high + 1e-12 * (1 + at_low)


@pytest.mark.parametrize("name", losses.LOSSES.names)
@given(m=margins)
def test_values_are_those_of_the_formula_that_fits_are_checked_by(name, m):
    assert at(get_loss(name).value, m) == pytest.approx(at(VALUES[name], m), rel=1e-12, abs=1e-12)


@every_loss
@given(a=margins, b=margins)
def test_the_derivative_supports_the_loss(loss, a, b):
    [value, other], [slope] = at(loss.value, a, b), at(loss.derivative, a)
    assert slope <= 0
    assert other >= value + slope * (b - a) - 1e-12 * (1 + value)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@given(m=margins)
def test_derivatives_match_finite_differences(loss, m):
    m = m + 1e-3 * np.pi  # off the corners
    h = 1e-6
    [low, high], [slope] = at(loss.value, m - h, m + h), at(loss.derivative, m)
    assert (high - low) / (2 * h) == pytest.approx(slope, abs=1e-6, rel=1e-6)
    [below, above], [curvature] = at(loss.derivative, m - h, m + h), at(loss.second_derivative, m)
    assert (above - below) / (2 * h) == pytest.approx(curvature, abs=1e-4)
    together = [float(part[0]) for part in loss.derivatives(np.array([m]))]
    assert together == pytest.approx([*at(loss.value, m), slope, curvature], rel=1e-12, abs=1e-300)


@every_loss
@given(u=st.floats(1e-6, 1e3))
def test_the_inverse_is_the_smallest_margin_with_at_most_that_loss(loss, u):
    [m] = at(loss.inverse, u)
    [value, before] = at(loss.value, m, m - 1e-6 * (1 + abs(m)))
    assert value <= u * (1 + 1e-9)
    assert before > u


@every_loss
def test_no_margin_reaches_less_than_the_infimum(loss):
    assert at(loss.inverse, -1.0) == [np.inf]
    assert at(Loss.inverse.__get__(loss), -1.0) == [np.inf]


@every_loss
@given(u=st.floats(1e-3, 30))
def test_the_general_inverse_finds_the_same(loss, u):
    assert at(Loss.inverse.__get__(loss), u) == pytest.approx(at(loss.inverse, u), rel=1e-9, abs=1e-9)


@every_loss
@given(m=margins, other=margins)
def test_the_dual_term_is_a_lower_bound_everywhere(loss, m, other):
    """Fenchel: ``l(x) >= -a x + dual(a)`` for every x, with equality at the margin that ``a`` belongs to."""
    a = -loss.derivative(np.array([m]))
    [dual] = loss.dual_terms(np.array([m]), a)
    [here, there] = at(loss.value, m, other)
    assert there >= dual - a[0] * other - 1e-10 * (1 + abs(a[0] * other) + here)
    assert here == pytest.approx(dual - a[0] * m, abs=1e-10, rel=1e-10)


def test_the_logistic_loss_neither_overflows_nor_loses_digits():
    loss = LogisticLoss()
    assert at(loss.value, -800.0, 0.0, 40.0) == pytest.approx([800.0, np.log(2), np.exp(-40)], rel=1e-14)
    assert at(loss.inverse, 0.0, np.inf) == [np.inf, -np.inf]
    assert at(loss.inverse, 700.0) == pytest.approx([-700.0])


def test_the_smoothed_hinge_tends_to_the_hinge():
    m = np.linspace(-3, 3, 101)
    assert np.max(np.abs(SmoothedHingeLoss(1e-6).value(m) - HingeLoss().value(m))) <= 1e-6


def test_the_modified_huber_loss_is_the_squared_hinge_with_a_straight_tail():
    loss = ModifiedHuberLoss()
    assert at(loss.value, -5.0, -1.0, 0.0, 0.5, 1.0, 3.0) == [20.0, 4.0, 1.0, 0.25, 0.0, 0.0]
    assert at(loss.derivative, -5.0, -1.0, 0.0, 1.0) == [-4.0, -4.0, -2.0, 0.0]
    assert at(loss.inverse, 0.0, 1.0, 4.0, 20.0) == [1.0, 0.0, -1.0, -5.0]


@pytest.mark.parametrize("width", [0.0, -1.0, np.nan, np.inf])
def test_the_width_must_be_positive(width):
    with pytest.raises(ValueError, match="width of the smoothed hinge must be a positive number"):
        SmoothedHingeLoss(width)


def test_losses_are_values():
    assert SmoothedHingeLoss(0.5) == SmoothedHingeLoss()
    assert SmoothedHingeLoss(0.2) != SmoothedHingeLoss()
    assert hash(SmoothedHingeLoss(0.5)) == hash(SmoothedHingeLoss())
    assert repr(SmoothedHingeLoss(0.2)) == "SmoothedHingeLoss(width=0.2)"
    assert get_loss("hinge") == HingeLoss()


class Exponential(Loss):
    name = "exponential"

    def value(self, m):
        return np.exp(-m)

    def derivative(self, m):
        return -np.exp(-m)

    def second_derivative(self, m):
        return np.exp(-m)


def broken(**methods):
    return type("Broken", (Exponential,), {name: lambda self, m, f=f: f(m) for name, f in methods.items()})()


def test_an_own_loss_is_solved_like_the_built_in_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    z = X[:, 0] + rng.normal(size=300) > 0
    y = X[:, 0] + X[:, 1] + rng.normal(size=300) > 0
    model = FairMarginClassifier(Exponential(), constraint=CovarianceBound(0.0)).fit(X, y, sensitive_features=z)
    assert model.certificate_.gap <= 1e-9
    assert abs(model.covariance_.iloc[0]) <= 1e-8


def test_an_own_loss_that_says_it_is_logistic_is_the_logistic_loss():
    class Mine(Loss):
        value, derivative, second_derivative = (
            LogisticLoss.value,
            LogisticLoss.derivative,
            LogisticLoss.second_derivative,
        )

    X, y = np.random.default_rng(1).normal(size=(60, 3)), np.arange(60) % 2
    mine = FairMarginClassifier(Mine(), constraint=None).fit(X, y)
    theirs = FairMarginClassifier("logistic", constraint=None).fit(X, y)
    np.testing.assert_allclose(mine.coef_, theirs.coef_, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        ("squared", "Unknown loss 'squared'; the known ones are"),
        (HingeLoss, "loss must be one of"),
        (lambda m: -m, "loss must be one of"),
        (Loss(), "does not define value"),
        (broken(value=np.exp, derivative=np.exp), "increases in the margin"),
        (broken(value=lambda m: -np.tanh(m) + 1, derivative=lambda m: -1 / np.cosh(m) ** 2), "not convex"),
        (broken(derivative=lambda m: -2 * np.exp(-m)), "is not the derivative"),
        (broken(value=lambda m: np.where(m > 0, np.nan, -m)), "one finite number for each margin"),
        (broken(value=lambda m: np.exp(-m) - 1), "falls below its infimum"),
    ],
)
def test_a_loss_that_breaks_the_contract_is_refused(loss, words):
    with pytest.raises(ValueError, match=words):
        get_loss(loss)


def test_a_file_in_a_package_is_known_without_being_named(tmp_path, monkeypatch):
    folder = tmp_path / "kinds"
    folder.mkdir()
    lines = "from fairmargin.named import import_modules", "found = []", "import_modules(__name__, __path__)"
    (folder / "__init__.py").write_text("\n".join(lines))
    for name in ("one", "two"):
        (folder / f"{name}.py").write_text(f"import kinds\nkinds.found.append({name!r})")
    monkeypatch.syspath_prepend(tmp_path)
    assert import_module("kinds").found == ["one", "two"]


def test_a_copied_loss_does_not_take_the_place_of_another():
    """Whatever lies in the package is imported: a copy with the same name silently became the loss of that name."""

    class Copy(LogisticLoss):
        pass

    with pytest.raises(ValueError, match=r"test_losses.Copy has the name 'logistic', which is that of fairmargin"):
        losses.register(Copy)
    assert type(get_loss("logistic")) is LogisticLoss
