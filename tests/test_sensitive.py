"""Sensitive attributes: whatever they come in, the same named columns come out."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairmargin import CovarianceBound, FairLogisticRegression, decision_boundary_covariance
from fairmargin.sensitive import NUMERIC, encode_sensitive

SEX = ["m", "f", "f", "m", "m"]
CONTAINERS = {
    "list": SEX,
    "array": np.array(SEX),
    "objects": np.array(SEX, dtype=object),
    "column": np.array(SEX)[:, None],
    "pandas": pd.Series(SEX),
    "pandas string": pd.Series(SEX, dtype="string"),
    "pandas categorical": pd.Series(SEX, dtype="category"),
    "pandas with unused category": pd.Series(pd.Categorical(SEX, categories=["x", "f", "m"])),
    "pandas other index": pd.Series(SEX, index=[9, 8, 7, 6, 5]),
    "polars": pl.Series(SEX),
    "polars categorical": pl.Series(SEX, dtype=pl.Categorical),
    "polars enum": pl.Series(SEX, dtype=pl.Enum(["f", "m"])),
    "polars frame": pl.DataFrame({"sensitive": SEX}),
    "polars lazy": pl.LazyFrame({"sensitive": SEX}),
    "mapping": {"sensitive": SEX},
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_binary_attribute_is_one_column(container):
    sensitive = encode_sensitive(CONTAINERS[container], 5)
    assert sensitive.labels == [("sensitive", "m")]
    np.testing.assert_array_equal(sensitive.columns()[:, 0], [1, 0, 0, 1, 1])


TRUE_FALSE = {
    "numpy": np.array([True, False, True]),
    "pandas": pd.Series([True, False, True]),
    "pandas nullable": pd.Series([True, False, True], dtype="boolean"),
    "pandas objects": pd.Series([True, False, True], dtype=object),
    "polars": pl.Series([True, False, True]),
    "integers": [1, 0, 1],
    "nullable integers": pd.Series([1, 0, 1], dtype="Int64"),
    "floats": [1.0, 0.0, 1.0],
    "minus": [1, -1, 1],
}


@pytest.mark.parametrize("kind", TRUE_FALSE)
def test_two_values_of_any_type_are_binary(kind):
    sensitive = encode_sensitive(TRUE_FALSE[kind], 3)
    [attribute] = sensitive.attributes
    assert not attribute.is_numeric
    assert attribute.categories[0] < attribute.categories[1]
    np.testing.assert_array_equal(sensitive.columns()[:, 0], [1, 0, 1])


NUMBERS = {
    "numpy": np.array([20.5, 31.0, 45.0]),
    "pandas": pd.Series([20.5, 31.0, 45.0]),
    "nullable": pd.Series([20.5, 31.0, 45.0], dtype="Float64"),
    "polars": pl.Series([20.5, 31.0, 45.0]),
    "single": np.array([20.5, 31.0, 45.0], dtype=np.float32),
    "objects": np.array([20.5, 31.0, 45.0], dtype=object),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_stay_numbers(kind):
    sensitive = encode_sensitive(NUMBERS[kind], 3)
    assert sensitive.labels == [("sensitive", NUMERIC)]
    np.testing.assert_array_equal(sensitive.columns()[:, 0], [20.5, 31.0, 45.0])


def test_a_few_whole_numbers_might_be_codes_and_are_asked_about():
    with pytest.warns(UserWarning, match="3 different whole numbers and is treated as a number.*convert the column"):
        encode_sensitive(pd.Series([1, 2, 3, 1], name="race"))
    assert encode_sensitive(pd.Series([1, 2, 3, 1], dtype="category")).labels == [("sensitive", k) for k in (1, 2, 3)]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, dict])
def test_several_attributes_keep_names_and_categories(frame):
    table = frame({"sex": SEX, "race": ["w", "b", "o", "w", "b"], "age": [20.5, 31.0, 45.0, 62.0, 33.0]})
    sensitive = encode_sensitive(table, 5)
    assert sensitive.labels == [("sex", "m"), ("race", "b"), ("race", "o"), ("race", "w"), ("age", NUMERIC)]
    columns = sensitive.columns()
    np.testing.assert_array_equal(columns[:, 1:4].sum(axis=1), 1)
    series = sensitive.series(np.arange(5.0), "covariance")
    assert series["race", "o"] == 2.0
    assert list(series.index.names) == ["attribute", "category"]


def test_an_array_of_columns_is_numbered():
    sensitive = encode_sensitive(np.array([["m", "a"], ["f", "b"], ["f", "c"]]))
    assert [a.name for a in sensitive.attributes] == ["sensitive_0", "sensitive_1"]


def test_mixed_types_have_an_order():
    sensitive = encode_sensitive(np.array([1, "a", 2.5, "b"], dtype=object))
    assert sensitive.attributes[0].categories == (1, 2.5, "a", "b")


def test_columns_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"columns of the same name|unique column names"):
        encode_sensitive(pd.DataFrame([[1, 2], [3, 4]], columns=["sex", "sex"]))


def test_centred_columns_have_weighted_mean_zero():
    weight = np.array([1.0, 2.0, 0.5, 4.0, 1.0])
    centred = encode_sensitive({"sex": SEX, "age": [20.5, 31.0, 45.0, 62.0, 33.0]}).centred(weight)
    np.testing.assert_allclose(weight @ centred, 0, atol=1e-12)


def test_a_bound_on_either_of_two_values_is_the_same():
    sensitive = encode_sensitive({"sex": SEX})
    for value in ("m", "f"):
        assert CovarianceBound({"sex": {value: 0.3}}).thresholds(sensitive).tolist() == [0.3]
    assert CovarianceBound({"sex": {"m": 0.3, "f": 0.1}}).thresholds(sensitive).tolist() == [0.1]


def test_bounds_reach_the_columns_they_name():
    sensitive = encode_sensitive({"sex": SEX, "race": ["w", "b", "o", "w", "b"], "age": [20.5, 31, 45, 62, 33]})
    assert CovarianceBound(0.2).thresholds(sensitive).tolist() == [0.2] * 5
    bound = CovarianceBound({"race": {"b": 0.0}, "age": 3})
    assert bound.thresholds(sensitive).tolist() == [np.inf, 0.0, np.inf, np.inf, 3.0]
    assert CovarianceBound({"race": 0.1}).thresholds(sensitive).tolist() == [np.inf, 0.1, 0.1, 0.1, np.inf]


@pytest.mark.parametrize(
    "kind", ["pandas categorical", "polars categorical", "polars enum", "pandas string", "polars"]
)
def test_training_sees_the_same_people(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = X[:, 0] + rng.normal(size=100) > 0
    text = np.where(X[:, 0] + rng.normal(size=100) > 0, "m", "f")
    makers = {
        "pandas categorical": lambda v: pd.Series(v, dtype="category"),
        "pandas string": lambda v: pd.Series(v, dtype="string"),
        "polars": pl.Series,
        "polars categorical": lambda v: pl.Series(v, dtype=pl.Categorical),
        "polars enum": lambda v: pl.Series(v, dtype=pl.Enum(["f", "m"])),
    }
    plain = FairLogisticRegression().fit(X, y, sensitive_features=text)
    model = FairLogisticRegression().fit(X, y, sensitive_features=makers[kind](list(text)))
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    pd.testing.assert_series_equal(model.covariance_, plain.covariance_)
    again = decision_boundary_covariance(y, model.decision_function(X), sensitive_features=text)
    np.testing.assert_allclose(again, model.covariance_, atol=1e-14)
