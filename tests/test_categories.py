"""Categorical columns as codes: the same matrix as the indicators, in less memory, with the same classifier."""

import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from fairmargin import (
    CategoryEncoder,
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairnessFrontier,
    FairSVC,
    PRuleBound,
)
from fairmargin.coded_matrix import CodedMatrix
from fairmargin.design import make_design
from fairmargin.exceptions import DisparateTreatmentError
from fairmargin.solvers.matrix_free import MatrixFree, choose_model
from fairmargin.tables.encoding import TableEncoder

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning", "ignore::fairmargin.TrivialClassifierWarning"),
]


def people(n=600, levels=(3, 12, 40), seed=0):
    """Return a frame of two numbers and some categories, labels and a sensitive attribute."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(40, 12, n), "hours": rng.normal(size=n)})
    score = frame["hours"].to_numpy() + 0.03 * (frame["age"].to_numpy() - 40)
    lean = rng.normal(size=n)
    for j, k in enumerate(levels):
        codes = rng.integers(0, k, n)
        effect, other = rng.normal(size=k), rng.normal(size=k)
        score, lean = score + effect[codes], lean + (effect + other)[codes]
        frame[f"c{j}"] = pd.Categorical.from_codes(codes, [f"level {i}" for i in range(k)])
    y = (score + rng.logistic(size=n) > 0).astype(int)
    return frame, y, (lean > 0).astype(int)


def one_hot(frame):
    """Return the indicators of everything that is not a number, by pandas."""
    return pd.get_dummies(frame, dtype=float, prefix_sep="=")


def coded(seed, n, q, sizes):
    """Return a random coded matrix, numbers and categories in any order."""
    rng = np.random.default_rng(seed)
    kinds = rng.permutation([0] * q + list(range(1, len(sizes) + 1)))
    places, starts, at = [], [0] * len(sizes), 0
    for kind in kinds:
        if kind:
            starts[kind - 1] = at
            at += sizes[kind - 1]
        else:
            places.append(at)
            at += 1
    codes = [rng.integers(0, k + 1, n).astype(np.int32) for k in sizes]
    numbers = rng.normal(size=(n, q)) + np.where(np.arange(q) == 0, 2000.0, 0.0)  # a year: it is shifted
    return CodedMatrix(numbers, np.array(places, dtype=np.intp), codes, sizes, starts), rng


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 120),
    q=st.integers(0, 3),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    intercept=st.booleans(),
)
def test_the_operations_are_those_of_the_indicators(seed, n, q, sizes, intercept):
    X, rng = coded(seed, n, q, sizes)
    full = X.toarray()
    design = make_design(X, intercept)
    Xa = np.hstack([full - design.mu, np.ones((n, 1))]) if intercept else full
    theta, r, R, weight = rng.normal(size=Xa.shape[1]), rng.normal(size=n), rng.normal(size=(n, 2)), rng.random(n)
    # X w and mu w are of the size of X before they cancel.
    size = (1 + np.abs(full).max()) ** 2 * n * Xa.shape[1]
    gram = Xa.T @ (weight[:, None] * Xa)
    assert design.shape == Xa.shape
    for found, expected in (
        (design.matvec(theta), Xa @ theta),
        (design.rmatvec(r), Xa.T @ r),
        (design.rmatvec(R), Xa.T @ R),
        (design.sandwich(weight), gram),
        (design.squares(weight), gram.diagonal()),
        (X @ R[: full.shape[1]] if full.shape[1] <= n else R, full @ R[: full.shape[1]] if full.shape[1] <= n else R),
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14 * size)
    chosen = rng.integers(0, n, 5)
    np.testing.assert_array_equal(design.rows(chosen), Xa[chosen])
    np.testing.assert_array_equal(design.take(chosen).rows(slice(None)), Xa[chosen])
    np.testing.assert_allclose(
        design.sandwich(weight, chosen), Xa[chosen].T @ (weight[chosen, None] * Xa[chosen]), rtol=0, atol=1e-14 * size
    )
    np.testing.assert_array_equal(X[:, [0]], full[:, [0]])


def test_columns_of_few_combinations_are_read_together_and_nothing_changes():
    X, rng = coded(0, 2000, 2, [9, 1, 60, 4])
    design, full = make_design(X), X.toarray()
    assert [sorted(cells.sizes) for cells in design._cells] == [[1, 4, 9], [60]]
    Xa = np.hstack([full - design.mu, np.ones((2000, 1))])
    theta, r = rng.normal(size=Xa.shape[1]), rng.normal(size=2000)
    size = 1e-14 * (1 + np.abs(full).max()) ** 2 * Xa.size
    np.testing.assert_allclose(design.matvec(theta), Xa @ theta, rtol=0, atol=size)
    np.testing.assert_allclose(design.rmatvec(r), Xa.T @ r, rtol=0, atol=size)
    squares = design.squares(r**2)
    np.testing.assert_allclose(squares, r**2 @ Xa**2, rtol=0, atol=size)
    np.testing.assert_array_equal(design.squares(r**2, design.rmatvec(r**2)), squares)


@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.parametrize("constraint", [None, CovarianceBound(0.0), CovarianceBound(0.02)], ids=str)
def test_the_classifier_is_that_of_the_indicators(constraint, C):
    frame, y, z = people(levels=(3, 12))
    encoder = CategoryEncoder()
    X = encoder.fit_transform(frame)
    expected = one_hot(frame)[list(encoder.get_feature_names_out())]
    np.testing.assert_array_equal(X.toarray(), expected)
    ours = FairLogisticRegression(C, constraint=constraint).fit(X, y, sensitive_features=z)
    dense = FairLogisticRegression(C, constraint=constraint).fit(expected.to_numpy(), y, sensitive_features=z)
    assert ours.certificate_.status == "solved"
    assert ours.certificate_.objective == pytest.approx(dense.certificate_.objective, rel=2e-9)
    if np.isfinite(C):
        apart = np.sqrt(2.0 * 2e-9 * dense.certificate_.objective)
        assert np.linalg.norm(ours.coef_ - dense.coef_) <= apart
    np.testing.assert_allclose(
        ours.decision_function(X), X.toarray() @ ours.coef_[0] + ours.intercept_[0], rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("estimator", [FairLinearSVC(), FairLogisticRegression(constraint=PRuleBound(80)), FairSVC()])
def test_every_estimator_takes_them(estimator):
    frame, y, z = people(200, levels=(3, 5))
    X = CategoryEncoder().fit_transform(frame)
    model = clone(estimator).fit(X, y, sensitive_features=z)
    assert model.certificate_.status == "solved"
    assert len(model.predict(X)) == len(y)


def test_a_frontier_and_weights_of_zero():
    frame, y, z = people()
    X = CategoryEncoder().fit_transform(frame)
    frontier = FairnessFrontier(FairLogisticRegression(), n_points=4).fit(X, y, sensitive_features=z)
    assert {model.certificate_.status for model in frontier.estimators_} == {"solved"}
    weight = (np.arange(len(y)) % 3 > 0).astype(float)
    kept = np.flatnonzero(weight)
    first = FairLogisticRegression().fit(X, y, weight, sensitive_features=z)
    second = FairLogisticRegression().fit(X[kept], y[kept], sensitive_features=z[kept])
    np.testing.assert_allclose(first.coef_, second.coef_, atol=1e-12)


def test_one_row_is_an_array():
    frame, _, _ = people()
    X = CategoryEncoder().fit(frame).transform(frame)
    for row in (X[3], X[3, :], X[-1], X[3, 1:4]):
        assert row.ndim == 1
    np.testing.assert_array_equal(X[3], X.toarray()[3])
    np.testing.assert_array_equal(X[3, 1:4], X.toarray()[3, 1:4])


def test_frames_go_through_a_pipeline():
    frame, y, z = people()
    model = make_pipeline(CategoryEncoder(), FairLogisticRegression())
    model.fit(frame, y, fairlogisticregression__sensitive_features=z)
    assert len(model.predict(frame)) == len(y)
    names = model[0].get_feature_names_out()
    assert len(names) == model[-1].coef_.shape[1]
    assert {"age", "c1=level 3"} <= set(names)


@pytest.mark.parametrize("library", ["pandas", "polars", "categories", "numbers"])
def test_the_recipe_for_frames_with_text_works_as_the_error_gives_it(library):
    frame, y, z = people()
    frame = frame[["age", "c0"]].astype({"c0": object}).rename(columns={"c0": "job"})
    frame.loc[:20, "job"] = None
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    elif library == "categories":
        frame = frame.astype({"job": "category"})
    elif library == "numbers":  # which say nothing of an order
        frame["job"] = frame["job"].astype("category").cat.rename_categories(lambda job: int(job[-1]))
    with pytest.raises(ValueError, match=r"X holds text or categories in 'job'\. ") as caught:
        FairLogisticRegression().fit(frame, y, sensitive_features=z)
    recipe = re.search(r"make_pipeline\(.*?\(\)\)", str(caught.value)).group()
    argument = re.search(r"\w+__sensitive_features", str(caught.value)).group()
    model = eval(recipe).fit(frame, y, **{argument: z})
    assert model[0].categories_["job"][-1] is None  # missing values are a category of their own
    assert set(model.predict(frame)) == {0, 1}
    assert abs(model[-1].covariance_).max() < 1e-9


def test_columns_of_text_among_numbers_are_named():
    """Numbers of several types in a column of objects remain numbers."""
    frame = pd.DataFrame({"age": [1.5, True] * 10, "job": [1, "x"] * 10}, dtype=object)
    y, z = [0, 1] * 10, ["p", "q", "q", "p"] * 5
    with pytest.raises(ValueError, match=r"X holds text or categories in 'job'\. "):
        FairLogisticRegression().fit(frame, y, sensitive_features=z)
    FairLogisticRegression().fit(frame[["age"]], y, sensitive_features=z)


def test_columns_of_any_order_and_kind():
    frame = pd.DataFrame(
        {
            "text": ["b", None, "a", "b"],
            "number": [1, 2, 3, 4],
            "flag": [True, False, True, True],
            "level": pd.Categorical(["x", "y", "x", None]),
        }
    )
    encoder = CategoryEncoder().fit(frame)
    names = ["text=a", "text=b", "text=None", "number", "flag=False", "flag=True", "level=x", "level=y", "level=None"]
    assert list(encoder.get_feature_names_out()) == names
    expected = [
        [0, 1, 0, 1, 0, 1, 1, 0, 0],
        [0, 0, 1, 2, 1, 0, 0, 1, 0],
        [1, 0, 0, 3, 0, 1, 1, 0, 0],
        [0, 1, 0, 4, 0, 1, 0, 0, 1],
    ]
    np.testing.assert_array_equal(encoder.transform(frame), expected)
    np.testing.assert_array_equal(encoder.transform(frame[["level", "flag", "number", "text"]]), expected)


def test_numbers_stay_numbers_behind_an_imputer():
    """An imputer of the most frequent value returns columns of objects, whatever they were before."""
    frame = pd.DataFrame({"age": [20.0, None, 40.0, 40.0], "job": ["clerk", "smith", None, "clerk"]})
    imputed = SimpleImputer(strategy="most_frequent", missing_values=np.nan).set_output(transform="pandas")
    frame = imputed.fit_transform(frame.fillna({"job": np.nan}))
    assert frame["age"].dtype == object
    X = CategoryEncoder().fit_transform(frame)
    assert X.names == ("age", "job=clerk", "job=smith")
    np.testing.assert_array_equal(X.toarray()[:, 0], [20.0, 40.0, 40.0, 40.0])
    with pytest.raises(TypeError, match=r"set_output\(transform='pandas'\)"):
        CategoryEncoder().fit(frame.to_numpy())


def test_categories_never_seen_add_nothing_or_are_refused():
    frame, y, z = people()
    encoder = CategoryEncoder().fit(frame)
    model = FairLogisticRegression().fit(encoder.transform(frame), y, sensitive_features=z)
    new = frame.iloc[:5].assign(c1="never seen")
    X = encoder.transform(new)
    own = [j for j, name in enumerate(X.names) if not name.startswith("c1=")]
    expected = X.toarray()[:, own] @ model.coef_[0][own] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="category 'never seen', which training never saw"):
        clone(encoder).set_params(unknown="error").fit(frame).transform(new)


def test_a_recoding_of_a_sensitive_attribute_is_refused():
    frame, y, z = people()
    race = np.arange(len(y)) % 4
    encoder = CategoryEncoder()
    for sensitive, column in (
        (z, np.where(z == 1, "u", "v")),  # the same two groups
        (z, np.where(z == 1, "u", frame["c1"].astype(str))),  # one of them, among others
        (np.array(list("abcd"))[race], np.array(["four", "one", "three", "two"])[race]),
    ):
        with pytest.raises(DisparateTreatmentError, match=r"code=.*tells the same as the sensitive attribute"):
            FairLogisticRegression().fit(
                encoder.fit_transform(frame.assign(code=column)), y, sensitive_features=sensitive
            )
    with pytest.raises(ValueError, match="'c1' is also a column of X"):
        FairLogisticRegression().fit(
            encoder.fit_transform(frame), y, sensitive_features=pd.DataFrame({"c1": frame["c1"].astype(str)})
        )


def test_categories_finer_than_a_sensitive_attribute_are_refused():
    frame, y, z = people()
    n = len(y)
    finer = np.char.add(np.where(z == 1, "u=", "v="), (np.arange(n) % 2).astype(str))
    model, encoder = FairLogisticRegression(), CategoryEncoder()
    with pytest.raises(DisparateTreatmentError, match="categories of 'code' in X tell the sensitive attribute"):
        model.fit(encoder.fit_transform(frame.assign(code=finer)), y, sensitive_features=z)
    mixed = np.where(np.arange(n) == 0, finer[z == 1 - z[0]][0], finer)  # one person of the other group
    model.fit(encoder.fit_transform(frame.assign(code=mixed)), y, sensitive_features=z)
    weights = (np.arange(n) > 0).astype(float)  # that person does not count
    with pytest.raises(DisparateTreatmentError, match="tell the sensitive attribute"):
        model.fit(encoder.fit_transform(frame.assign(code=mixed)), y, weights, sensitive_features=z)
    identifiers = np.char.add("person ", np.arange(n).astype(str))  # tell everything by chance
    model.fit(encoder.fit_transform(frame.assign(code=identifiers)), y, sensitive_features=z)


def test_what_is_no_frame_no_number_or_another_width_is_refused():
    frame, y, z = people()
    with pytest.raises(TypeError, match="needs a frame"):
        CategoryEncoder().fit(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="unknown must be"):
        CategoryEncoder(unknown="guess").fit(frame)
    with pytest.raises(ValueError, match="'age' contains NaN"):
        CategoryEncoder().fit_transform(frame.assign(age=np.nan))
    with pytest.raises(ValueError, match=r"'age' of type .* neither numbers nor categories"):
        CategoryEncoder().fit_transform(frame.assign(age=pd.Timestamp("2020-01-01")))
    encoder = CategoryEncoder().fit(frame)
    with pytest.raises(ValueError, match="no column 'c2'"):
        encoder.transform(frame.drop(columns="c2"))
    model = FairLogisticRegression().fit(encoder.transform(frame), y, sensitive_features=z)
    with pytest.raises(ValueError, match="is expecting 57 features"):
        model.predict(CategoryEncoder().fit_transform(frame.drop(columns="c2")))


def test_many_categories_take_little_memory_and_no_hessian():
    """19,500 categories: less than half the memory of a sparse matrix, a hundredth of a dense one while fitting."""
    frame, y, z = people(50_000, levels=(10, 5000, 15_000))
    X = CategoryEncoder().fit_transform(frame)
    model = FairLogisticRegression()
    task = model._prepare(X, y, None, z)
    assert isinstance(choose_model(task.problem), MatrixFree)
    as_sparse = 5 * 50_000 * (8 + 4)  # an entry and its index, five in a row
    model.fit(X[:5000], y[:5000], sensitive_features=z[:5000])  # what is imported on first use
    tracemalloc.start()
    model.fit(X, y, sensitive_features=z)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert X.nbytes <= as_sparse / 2
    assert peak <= 8 * 50_000 * X.shape[1] / 100


def test_the_command_lines_encoder_uses_codes_where_there_are_many():
    frame, _, _ = people(3000, levels=(4, 90, 60))
    for most, kind in ((50, np.ndarray), (100, CodedMatrix)):
        encoder = TableEncoder.fit(
            frame.drop(columns="hours" if most == 50 else []), min_frequency=1, max_levels=most
        )
        compact = encoder.compact(frame)
        assert isinstance(compact, kind) or most == 50
        np.testing.assert_array_equal(np.asarray(compact), encoder.transform(frame))


def test_rows_that_scikit_learn_selects_stay_codes():
    X = CategoryEncoder().fit_transform(people()[0])
    full, rows = X.toarray(), np.array([5, 0, 5, 17])
    for part in (X[rows], X[rows, ...], X[rows, :], train_test_split(X, shuffle=False, train_size=4)[0]):
        assert isinstance(part, CodedMatrix)
        assert part.nbytes * len(X) == X.nbytes * len(part)
    np.testing.assert_array_equal(X[rows, ...].toarray(), full[rows])
    for where in (rows, slice(3, 9), full[:, 0] > 40, 7):
        np.testing.assert_array_equal(X[where, 1:30:7], full[where, 1:30:7])
    tracemalloc.start()
    X[rows, :40]
    assert tracemalloc.get_traced_memory()[1] < full.nbytes / 10  # the columns of these rows, not of all
    tracemalloc.stop()


def test_the_output_is_codes_whatever_scikit_learn_is_set_to():
    frame = people()[0]
    assert not hasattr(CategoryEncoder(), "set_output")
    with config_context(transform_output="pandas"):
        assert isinstance(CategoryEncoder().fit_transform(frame), CodedMatrix)
    with pytest.raises(ValueError, match="Unable to configure output for CategoryEncoder"):
        make_pipeline(CategoryEncoder(), FairLogisticRegression()).set_output(transform="pandas")


def test_a_coded_matrix_is_shown_in_one_line():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]})
    assert repr(CategoryEncoder().fit_transform(frame)).startswith("<CodedMatrix of shape (3, 4)")
