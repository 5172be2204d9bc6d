"""Bad input gets one clear sentence, and nothing is trained."""

import inspect
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from fairmargin import (
    CertifiedClassifier,
    CovarianceBound,
    CovariancePenalty,
    FairLinearSVC,
    FairLogisticRegression,
    FairMarginClassifier,
    FairMultinomialLogisticRegression,
    FairnessFrontier,
    FairOneVsRestClassifier,
    FairRegressor,
    FairTreeClassifier,
    LossBound,
    RegressionFrontier,
    decision_boundary_covariance,
    p_rule,
)
from fairmargin.audit import audit
from fairmargin.exceptions import DisparateTreatmentError

N = 60
ESTIMATORS = [FairLogisticRegression, FairLinearSVC, FairMarginClassifier]


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    z = np.where(X[:, 0] + rng.normal(size=N) > 0, "m", "f")
    y = (X[:, 1] + rng.normal(size=N) > 0).astype(int)
    return {"X": X, "y": y, "sensitive_features": z}


def spoil(array, value):
    array = np.array(array, dtype=float)
    array.flat[5] = value
    return array


def masked(array):
    return np.ma.masked_array(array, mask=np.arange(np.size(array)).reshape(np.shape(array)) == 5)


def assert_refused(model, words, **fit):
    with pytest.raises(ValueError, match=words) as caught:
        model.fit(fit.pop("X"), fit.pop("y"), **fit)
    message = str(caught.value)
    assert message.strip()
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "certificate_")
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError):
        model.predict(np.zeros((2, 3)))
    return message


BAD_FITS = {
    "no sensitive features": ({"sensitive_features": None}, "needs sensitive_features in fit.*constraint=None"),
    "nan in X": ({"X": lambda p: spoil(p["X"], np.nan)}, "NaN"),
    "inf in X": ({"X": lambda p: spoil(p["X"], np.inf)}, "infinity"),
    "nan in sparse X": ({"X": lambda p: sp.csr_matrix(spoil(p["X"], np.nan))}, "NaN"),
    "nan in z": (
        {"sensitive_features": lambda p: spoil(np.arange(N), np.nan)},
        "'sensitive' is missing .nan. for 1 people",
    ),
    "none in z": ({"sensitive_features": ["a", None] * (N // 2)}, "is missing .nan. for 30 people"),
    "null in polars z": ({"sensitive_features": pl.Series("sex", ["a", None] * (N // 2))}, "'sex' is missing"),
    "inf in z": ({"sensitive_features": lambda p: spoil(np.arange(N), np.inf)}, "infinite values"),
    "names of columns": ({"sensitive_features": ["sex"]}, "has 1 rows, .* give the values of the columns, not their"),
    "name of a column": ({"sensitive_features": "sex"}, "got a str; give the values, not the name of a column"),
    "short z": ({"sensitive_features": ["a", "b"]}, "has 2 rows, but there are 60 people in X"),
    "short y": ({"y": [0, 1]}, "inconsistent numbers of samples"),
    "short weight": ({"sample_weight": [1.0, 2.0]}, "sample_weight"),
    "one group": ({"sensitive_features": ["a"] * N}, "'sensitive' has only one group .'a'."),
    "one group, numbers": ({"sensitive_features": np.zeros(N)}, "only one group"),
    "one group of weight": (
        {"sensitive_features": ["a"] * 30 + ["b"] * 30, "sample_weight": [1.0] * 30 + [0.0] * 30},
        "only one group",
    ),
    "one class": ({"y": np.ones(N)}, "one class"),
    "one class of weight": (
        {"y": np.repeat([0, 1], 30), "sample_weight": [1.0] * 30 + [0.0] * 30},
        "positive weight are of one class",
    ),
    "three classes": ({"y": np.arange(N) % 3}, "Only binary classification is supported"),
    "regression target": ({"y": np.linspace(0, 1, N)}, "Unknown label type|binary"),
    "nan in y": ({"y": lambda p: spoil(p["y"], np.nan)}, "y contains NaN: 1 of 60 values are missing"),
    "None in y": ({"y": lambda p: [None, None, *map(str, p["y"][2:])]}, "y contains NaN: 2 of 60 values are missing"),
    "lazy X": ({"X": lambda p: pl.LazyFrame(p["X"])}, r"got a LazyFrame; call \.collect\(\) to read it"),
    "negative weight": ({"sample_weight": lambda p: spoil(np.ones(N), -1.0)}, "[Nn]egative values"),
    "nan weight": ({"sample_weight": lambda p: spoil(np.ones(N), np.nan)}, "NaN"),
    "no weight": ({"sample_weight": np.zeros(N)}, "Every sample weight is zero|at least one non-zero"),
    "no people": ({"X": np.empty((0, 3)), "y": [], "sensitive_features": []}, "0 sample"),
    "no features": ({"X": np.empty((N, 0))}, "0 feature"),
    "scalar z": ({"sensitive_features": 1.0}, "sensitive_features must be an array, .*, got a float"),
    "numpy scalar z": ({"sensitive_features": np.array(1.0)}, "one entry for each person, got the single value"),
    "set z": ({"sensitive_features": {"a", "b"}}, "sensitive_features must be an array, .*, got a set"),
    "generator z": (
        {"sensitive_features": (c for c in "ab")},
        "must be an array, .*, got a generator",
    ),
    "scalar in a mapping": ({"sensitive_features": {"sex": 1}}, "attribute 'sex' must be an array, .*, got an int"),
    "lists as groups": ({"sensitive_features": [[1], [1, 2]] * (N // 2)}, "rows of equal length"),
    "dicts as groups": ({"sensitive_features": [{"sex": "m"}] * N}, "must hold numbers or labels, got a dict"),
    "lists in a series": ({"sensitive_features": pd.Series([[1], [1, 2]] * (N // 2))}, "one plain value for each"),
    "complex z": ({"sensitive_features": lambda p: p["X"][:, 2] ** 2 + 1j}, "'sensitive' holds complex numbers"),
    "complex objects as z": (
        {"sensitive_features": lambda p: (p["X"][:, 2] ** 2 + 1j).astype(object)},
        "'sensitive' holds complex numbers",
    ),
    "masked X": ({"X": lambda p: masked(p["X"])}, "X has 1 masked values"),
    "masked y": ({"y": lambda p: masked(p["y"])}, "y has 1 masked values"),
    "masked weight": ({"sample_weight": lambda p: masked(np.ones(N))}, "sample_weight has 1 masked values"),
    "masked z": ({"sensitive_features": lambda p: masked(p["sensitive_features"])}, "has 1 masked values"),
    "masked z columns": ({"sensitive_features": lambda p: masked(p["X"] > 0)}, "has 1 masked values"),
    "masked z in a mapping": (
        {"sensitive_features": lambda p: {"sex": masked(p["sensitive_features"])}},
        "'sex' has 1 masked values",
    ),
    "masked z in a list": (
        {"sensitive_features": lambda p: [np.ma.masked, *p["sensitive_features"][1:]]},
        "has 1 masked values",
    ),
    "too many groups": (
        {"X": np.ones((300, 1)), "y": [0, 1] * 150, "sensitive_features": np.arange(300).astype(str)},
        "'sensitive' has 300 groups; training takes at most 256. Merge groups",
    ),
    "no X": ({"X": None}, "X must be an array, series, frame or list, got None"),
    "dict X": ({"X": {"a": [1.0]}}, "X must be an array, .*, got a dict"),
    "number as X": ({"X": 3}, "X must be an array, .*, got an int"),
    "ragged X": ({"X": [[1.0], [1.0, 2.0]] * (N // 2)}, "X must have rows of equal length"),
    "dict y": ({"y": {"a": 1}}, "y must be an array, .*, got a dict"),
    "no y": ({"y": None}, "requires y to be passed"),
    "dict weight": ({"sample_weight": {0: 1.0}}, "sample_weight must be an array, .*, got a dict"),
    "set weight": ({"sample_weight": {1.0}}, "sample_weight must be an array, .*, got a set"),
    "cube z": ({"sensitive_features": np.zeros((N, 2, 2))}, "one or two dimensions, got 3"),
    "no z column": ({"sensitive_features": pd.DataFrame(index=range(N))}, "no column"),
    "complex X": ({"X": lambda p: p["X"] + 1j}, "[Cc]omplex"),
    "text in X": ({"X": lambda p: p["X"].astype(str).astype(object) + "x"}, "X holds text.*CategoryEncoder"),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("what", BAD_FITS)
def test_bad_data_are_refused(estimator, what, people):
    changes, words = BAD_FITS[what]
    changed = {name: value(people) if callable(value) else value for name, value in changes.items()}
    assert_refused(estimator(), words, **(people | changed))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"C": 0}, "C must be positive"),
        ({"C": -1.0}, "C must be positive"),
        ({"C": np.nan}, "C must be finite"),
        ({"C": "1"}, "C must be a number"),
        ({"C": None}, "C must be a number"),
        ({"C": True}, "C must be a number"),
        ({"tol": 0.0}, "tol must be positive"),
        ({"tol": np.inf}, "tol must be finite"),
        ({"max_iter": 0}, "max_iter must be a positive whole number"),
        ({"max_iter": "many"}, "max_iter must be a positive whole number"),
        ({"constraint": 0.1}, "constraint must be None, a constraint for classifiers"),
        ({"constraint": "p_rule"}, "constraint must be None, a constraint for classifiers"),
        ({"class_weight": {0: 1.0, 1: 0.0}}, "class_weight must be positive"),
        ({"class_weight": {0: 1.0, 1: -2.0}}, "class_weight must be positive"),
        ({"class_weight": [1.0, 2.0]}, "class_weight must be None, 'balanced' or a mapping"),
        ({"fit_intercept": "no"}, "fit_intercept must be True or False, got 'no'"),
        ({"fit_intercept": None}, "fit_intercept must be True or False, got None"),
        ({"fit_intercept": 2}, "fit_intercept must be True or False, got 2"),
    ],
)
def test_bad_parameters_are_refused(estimator, parameters, words, people):
    assert_refused(estimator(**parameters), words, **people)


@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.parametrize("asked", [None, CovarianceBound(0.0), CovariancePenalty(1e300)])
def test_numbers_beyond_float64_are_refused_in_a_sentence(C, asked, people):
    """Such a fit once ended with coefficients of nan, and with warnings of numpy about overflows."""
    model = FairLogisticRegression(C=C, constraint=asked)
    n = len(people["y"])
    assert_refused(model, "sum of sample_weight is beyond", **people | {"sample_weight": np.full(n, 1e308)})
    assert_refused(FairLogisticRegression(C=1e308, constraint=asked), "C times the sum of the weights", **people)
    huge = people["X"] * np.array([1.0, 1e200, 1.0])
    for X in (huge, sp.csr_matrix(huge)):
        assert_refused(model, "has values whose squares are beyond", **people | {"X": X})


def test_unknown_losses_are_refused(people):
    assert_refused(FairLinearSVC(loss="logistic"), "loss must be 'hinge' or 'squared_hinge'", **people)
    assert_refused(FairMarginClassifier(loss="l2"), "Unknown loss 'l2'; the known ones are", **people)


@pytest.mark.parametrize(
    ("c", "words"),
    [
        (-0.1, "must be zero or positive, got -0.1"),
        (np.nan, "must be zero or positive, got nan"),
        ("0.1", "must be a number, got '0.1'"),
        (None, "must be a number, got None"),
        (True, "must be a number, got True"),
        ([0.1], "must be a number"),
        ({}, "empty mapping"),
        ({"sex": {}}, "of 'sex' is an empty mapping"),
        ({"sex": -1}, "of 'sex' must be zero or positive"),
        ({"race": {"Black": "none"}}, "of 'race' of 'Black' must be a number"),
    ],
)
def test_bad_bounds_cannot_be_written_down(c, words):
    with pytest.raises(ValueError, match=words):
        CovarianceBound(c)


def test_relative_is_yes_or_no():
    with pytest.raises(ValueError, match="relative must be True or False"):
        CovarianceBound(0.1, relative="yes")


@pytest.mark.parametrize(
    ("c", "words"),
    [
        ({"gender": 0.0}, "attribute 'gender', which is not among the sensitive features; the known ones are 'sex'"),
        ({"sex": {"x": 0.0}}, "category 'x' of 'sex', which does not occur; the known ones are 'f', 'm'"),
        ({"age": {"old": 0.0}}, "'age' is numeric and has no categories"),
    ],
)
def test_bounds_on_the_unknown_name_the_known(c, words, people):
    table = pd.DataFrame({"sex": people["sensitive_features"], "age": np.linspace(20.5, 70, N)})
    assert_refused(
        FairLogisticRegression(constraint=CovarianceBound(c)), words, **people | {"sensitive_features": table}
    )


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_sensitive_attribute_among_the_features_is_refused_by_name(frame, people):
    X = frame({"income": people["X"][:, 0], "sex": people["X"][:, 1]})
    z = frame({"sex": people["sensitive_features"]})
    words = "'sex' is also a column of X: deciding by it is disparate treatment"
    assert_refused(FairLogisticRegression(), words, X=X, y=people["y"], sensitive_features=z)
    with pytest.raises(DisparateTreatmentError) as refused:
        FairLogisticRegression().fit(X, people["y"], sensitive_features=z)
    assert (refused.value.column, refused.value.attribute) == (1, "'sex'")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("code", [(0, 1), (1, 0), (-1, 1), (3.5, 7.25)])
def test_a_sensitive_attribute_among_the_features_is_refused_by_its_values(code, sparse, people):
    column = np.where(people["sensitive_features"] == "m", *code)
    X = np.column_stack([people["X"], column])
    words = "Column number 3 of X tells the same as the sensitive attribute 'sensitive'"
    assert_refused(FairLogisticRegression(), words, **people | {"X": sp.csr_matrix(X) if sparse else X})


@pytest.mark.parametrize("sparse", [False, True])
def test_one_category_or_a_number_among_the_features_is_refused(sparse, people):
    race = np.array(["a", "b", "c"])[np.arange(N) % 3]
    age = 20 + 50 * np.random.default_rng(1).random(N)
    kind = sp.csr_matrix if sparse else np.asarray
    X = kind(np.column_stack([people["X"], race == "b"]))
    assert_refused(FairLinearSVC(), r"Column number 3.*\('b'\)", **people | {"X": X, "sensitive_features": race})
    X = kind(np.column_stack([people["X"], age / 365.25]))
    assert_refused(
        FairLinearSVC(), "Column number 3.*disparate treatment", **people | {"X": X, "sensitive_features": age}
    )


def test_a_rare_difference_is_no_disparate_treatment():
    """Equal on nearly everybody is not equal; a constant column is not equal either."""
    rng = np.random.default_rng(0)
    z = rng.random(5000) < 0.5
    proxy = z.copy()
    proxy[[17, 4018]] ^= True
    X = np.column_stack([proxy, rng.normal(size=5000), np.ones(5000)]).astype(float)
    y = X[:, 1] + proxy + rng.normal(size=5000) > 0.5
    assert FairLogisticRegression().fit(X, y, sensitive_features=z).certificate_.gap <= 1e-9


def test_a_failed_fit_leaves_an_earlier_one_alone(people):
    model = FairLogisticRegression().fit(people["X"], people["y"], sensitive_features=people["sensitive_features"])
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="one group"):
        model.fit(people["X"], people["y"], sensitive_features=np.zeros(N))
    np.testing.assert_array_equal(model.coef_, before)


def test_numbers_of_features_must_agree_when_deciding(people):
    model = FairLogisticRegression().fit(people["X"], people["y"], sensitive_features=people["sensitive_features"])
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.predict(np.zeros((2, 4)))


def test_masked_arrays_without_masked_values_are_arrays(people):
    whole = {name: np.ma.masked_array(values) for name, values in people.items()}
    model = FairLogisticRegression().fit(**whole)
    np.testing.assert_array_equal(model.coef_, FairLogisticRegression().fit(**people).coef_)


def test_zero_and_one_are_flags_too(people):
    assert FairLogisticRegression(fit_intercept=0).fit(**people).intercept_ == 0
    assert FairLogisticRegression(fit_intercept=np.True_).fit(**people).intercept_ != 0


def test_rare_groups_and_rare_features_are_not_compared_on_everybody(monkeypatch):
    """Indicators that are all zero on a sample seem to agree; each such pair would cost a pass over everybody."""
    from fairmargin import disparate_treatment, validation

    n, rare = 3000, 40
    rng = np.random.default_rng(0)
    X = np.zeros((n, rare + 1))
    X[:, 0] = rng.normal(size=n)
    X[rng.permutation(n)[: 3 * rare], 1 + np.arange(3 * rare) % rare] = 1.0
    z = np.full(n, "common", dtype=object)
    z[rng.permutation(n)[: 3 * rare]] = [f"rare {k % rare}" for k in range(3 * rare)]
    compared = []
    whole = disparate_treatment._same_up_to_scale

    def counting(A, b, constant):
        compared.append(len(A) == n)
        return whole(A, b, constant)

    monkeypatch.setattr(disparate_treatment, "_same_up_to_scale", counting)
    data = validation.validate_training(
        FairLogisticRegression(), X, X[:, 0] > 0, z, None, class_weight=None, needs_sensitive=True
    )
    assert len(data.sensitive.labels) == rare + 1
    assert sum(compared) <= rare  # it was rare * rare


def test_metrics_refuse_too():
    for bad in (None, {"a": 1}, {1, 2}, 3, "abc", len):
        with pytest.raises(ValueError, match="y_pred must be an array, series, frame or list"):
            p_rule(None, bad, sensitive_features=["a", "b"])
    with pytest.raises(ValueError, match="y_pred has 1 masked values"):
        p_rule(None, masked(np.arange(10) % 2), sensitive_features=list("ab") * 5)
    with pytest.raises(ValueError, match="sample_weight has 1 masked values"):
        p_rule(None, [0, 1] * 5, sensitive_features=list("ab") * 5, sample_weight=masked(np.ones(10)))
    with pytest.raises(ValueError, match="y_score has complex values"):
        decision_boundary_covariance(None, np.ones(2) + 1j, sensitive_features=["a", "b"])
    with pytest.raises(ValueError, match="y_score has 1 masked values"):
        decision_boundary_covariance(None, masked(np.ones(10)), sensitive_features=list("ab") * 5)
    with pytest.raises(ValueError, match="decisions has 1 masked values"):
        audit(masked(np.arange(10) % 2), sensitive_features=list("ab") * 5)
    with pytest.raises(ValueError, match="weights must be None or a mapping"):
        LossBound(0.1, weights=[1.0])
    with pytest.raises(ValueError, match="y_pred is empty"):
        p_rule(None, [], sensitive_features=[])
    with pytest.raises(ValueError, match="has 2 rows"):
        p_rule(None, [0, 1, 1], sensitive_features=["a", "b"])
    with pytest.raises(ValueError, match="fewer than two groups"):
        p_rule(None, [0, 1], sensitive_features=["a", "a"])
    with pytest.raises(ValueError, match="method must be"):
        p_rule(None, [0, 1], sensitive_features=["a", "b"], method="all")
    with pytest.raises(ValueError, match="numeric and has no groups"):
        p_rule(None, [0, 1, 1], sensitive_features=[0.5, 1.5, 2.5])
    with pytest.raises(ValueError, match="give pos_label"):
        p_rule(None, ["a", "b", "c"], sensitive_features=[0, 1, 1])


def test_a_refit_that_fails_leaves_no_classifier():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    y = (X[:, 0] > 0).astype(int)
    model = FairLogisticRegression(constraint=None).fit(X, y)
    with pytest.raises(ValueError, match=r"only one class \(1\)"):
        model.fit(X[:, :3], np.ones(50, dtype=int))
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_masked_features_are_not_decided_on():
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = FairLogisticRegression(constraint=None).fit(X, (X[:, 0] > 0).astype(int))
    with pytest.raises(ValueError, match="X has 1 masked values"):
        model.predict(np.ma.masked_array(X, mask=np.arange(X.size).reshape(X.shape) == 4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": np.nan}, "threshold must be finite"),
        ({"threshold": 0.0}, "threshold is in percent"),
        ({"threshold": 120}, "threshold is in percent"),
        ({"confidence": 95}, "confidence is a probability"),
        ({"min_people": 0}, "min_people must be a positive whole number"),
        ({"max_groups": 2.5}, "max_groups must be a positive whole number"),
        (
            {"reference": {"race": "a"}},
            "reference names 'race', which is no sensitive attribute; there are '",
        ),
    ],
)
def test_an_audit_refuses_options_it_cannot_use(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        audit([1, 0, 1, 0], sensitive_features=["a", "a", "b", "b"], **options)


@pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning")
def test_rows_in_another_order_are_refused():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    z, y = pd.Series(np.tile(["f", "m"], 30), name="sex"), pd.Series(rng.integers(0, 2, 60))
    shuffled = z.sample(frac=1.0, random_state=0)
    with pytest.raises(ValueError, match=r"same labels in another order.*sensitive_features\.loc"):
        FairLogisticRegression().fit(X, y, sensitive_features=shuffled)
    with pytest.raises(ValueError, match="X and y have the same labels"):
        FairLogisticRegression().fit(X, y.iloc[::-1], sensitive_features=z)
    aligned = FairLogisticRegression().fit(X, y, sensitive_features=shuffled.loc[X.index])
    with pytest.raises(ValueError, match=r"y and sensitive_features have the same labels in another order"):
        FairLogisticRegression().fit(X.to_numpy(), y, sensitive_features=shuffled)  # as behind a transformer
    with pytest.raises(ValueError, match=r"y_true and sensitive_features have the same labels in another order"):
        p_rule(y, y, sensitive_features=shuffled)
    other = z.set_axis(np.arange(100, 160))  # labels of its own say nothing about the order
    same = FairLogisticRegression().fit(X, y, sensitive_features=other)
    np.testing.assert_array_equal(aligned.coef_, same.coef_)


def test_an_audit_of_words_needs_the_favourable_one():
    with pytest.raises(ValueError, match="give pos_label, one of 'granted', 'rejected'"):
        audit(["granted", "rejected"] * 20, sensitive_features=["f", "m", "m", "f"] * 10)


@pytest.mark.parametrize(
    "estimator",
    [
        FairLogisticRegression(),
        FairTreeClassifier(),
        FairRegressor(),
        FairMultinomialLogisticRegression(),
        FairOneVsRestClassifier(),
        FairnessFrontier(FairLogisticRegression()),
        RegressionFrontier(FairRegressor()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_misspelled_argument_is_recognised(people, estimator):
    name = type(estimator).__name__
    with pytest.raises(TypeError, match=rf"{name}.fit\(\) takes no argument .* did you mean 'sensitive_features'\?"):
        estimator.fit(people["X"], people["y"], sensitive_feature=people["sensitive_features"])
    with pytest.raises(TypeError, match=r"takes no argument 'colour'; it takes X, y, sample_weight, sensitive_"):
        estimator.fit(people["X"], people["y"], colour=1)
    assert "sensitive_features" in inspect.signature(estimator.fit).parameters  # which scikit-learn routes by


def test_a_misspelled_argument_is_recognised_where_others_are_passed_on(people):
    clf = CertifiedClassifier(FairLogisticRegression())
    X, y, z = people.values()
    with pytest.raises(
        TypeError, match=r"Certified.*no argument 'sensitive_feature'; did you mean 'sensitive_features'\?"
    ):
        clf.fit(X, y, sensitive_feature=z)
    with pytest.raises(ValueError, match="cannot pass 'sensitive_feature' on, which has one entry per person"):
        clf.fit(X, y, sensitive_features=z, sensitive_feature=z)


def test_a_frontier_of_classifiers_takes_no_regressor(people):
    with pytest.raises(ValueError, match="for regressors there is RegressionFrontier"):
        FairnessFrontier(FairRegressor(), n_points=2).fit(**people)
