"""Tables: whatever the file looks like, the same people; the encoder against pandas, and told what it never saw."""

import ast
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairmargin
from fairmargin.cli.options import FLAGS
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.tables import (
    DataError,
    TableEncoder,
    find_column,
    group_column,
    prepare,
    read_table,
    read_target,
    table_of_frame,
)

PEOPLE = pd.DataFrame(
    {
        "age": [20, 30, 40, 50],
        "note": ["plain", 'with "quotes"', "a;b|c", "two\nlines"],
        "sex": ["f", "m", "f", "m"],
    }
)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", [True, False])
def test_delimiter_and_header_are_found_out(delimiter, header, tmp_path):
    people = PEOPLE.replace({"a;b|c": "abc"})
    people.to_csv(tmp_path / "p.csv", sep=delimiter, header=header, index=False)
    table = read_table(tmp_path / "p.csv")
    expected = list(people.columns) if header else ["column_1", "column_2", "column_3"]
    assert table.frame.columns.tolist() == expected
    np.testing.assert_array_equal(table.frame.to_numpy(), people.to_numpy())
    assert any("no header" in note for note in table.notes) == (not header)
    assert any("separated by" in note for note in table.notes) == (delimiter != ",")


def test_other_forms_of_the_same_file(tmp_path):
    text = PEOPLE.to_csv(index=False)
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "crlf.csv").write_bytes(text.replace("two\nlines", "two lines").replace("\n", "\r\n").encode())
    PEOPLE.to_parquet(tmp_path / "p.parquet")
    for name in ("bom.csv", "p.csv.gz", "p.parquet"):
        np.testing.assert_array_equal(read_table(tmp_path / name).frame.to_numpy(), PEOPLE.to_numpy())
    assert read_table(tmp_path / "crlf.csv").frame.shape == (4, 3)
    (tmp_path / "latin.csv").write_bytes("stra\xdfe,x\n\xe4,1\n".encode("latin-1"))
    assert read_table(tmp_path / "latin.csv", encoding="latin-1").frame.columns.tolist() == ["straße", "x"]


def test_headers_that_are_numbers_and_names_twice(tmp_path):
    (tmp_path / "years.csv").write_text("country,2019,2020\nA,1.5,2\nB,3,4\n")
    assert read_table(tmp_path / "years.csv").frame.columns[0] == "column_1"  # like the lines that follow
    assert read_table(tmp_path / "years.csv", header=True).frame.columns.tolist() == ["country", "2019", "2020"]
    (tmp_path / "twice.csv").write_text("a, a ,b\n1,2,3\n4,5,6\n")
    assert read_table(tmp_path / "twice.csv").frame.columns.tolist() == ["a", "a ", "b"]
    (tmp_path / "text.csv").write_text("sex,job\nf,x\nm,y\n")
    assert read_table(tmp_path / "text.csv").frame.columns.tolist() == ["sex", "job"]


def test_adult_is_recognised_with_the_comment_of_its_test_file(tmp_path):
    line = (
        "25, Private, 226802, 11th, 7, Never-married, Farming-fishing, Own-child, Black, Male, 0, 0, 40, ?, <=50K.\n"
    )
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + line * 3)
    table = read_table(tmp_path / "adult.test")
    assert table.frame.columns[[0, 9, 14]].tolist() == ["age", "sex", "income"]
    assert table.frame["native_country"].isna().all()
    assert "comment" in table.notes[0]
    assert "UCI Adult" in table.notes[1]


@pytest.mark.parametrize("names", [None, "adult"])
def test_labels_of_the_test_file_of_adult_are_those_of_its_training_file(tmp_path, names):
    """Their full stops made four labels of two, so that a model could not be tested on the file made for it."""
    people = "39, State-gov, 77516, Bachelors, 13, Never-married, Sales, Wife, White, Female, 0, 0, 40, Cuba, "
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + f"{people}<=50K.\n{people}>50K.\n{people}?\n" * 2)
    (tmp_path / "adult.data").write_text(f"{people}<=50K\n{people}>50K\n" * 2)
    tested, trained = (read_table(tmp_path / f"adult.{part}", names=names) for part in ("test", "data"))
    assert set(tested.frame["income"].dropna()) == set(trained.frame["income"]) == {"<=50K", ">50K"}
    assert tested.frame["income"].isna().sum() == 2
    assert any("full stop" in note for note in tested.notes)
    assert not any("full stop" in note for note in trained.notes)
    (tmp_path / "own.csv").write_text("income,job\n<=50K.,1\n>50K.,2\n")
    assert set(read_table(tmp_path / "own.csv").frame["income"]) == {"<=50K.", ">50K."}


def test_the_fingerprint_is_that_of_the_file(tmp_path):
    import hashlib

    (tmp_path / "p.csv").write_text(PEOPLE.to_csv(index=False))
    table = read_table(tmp_path / "p.csv")
    assert table.sha256 == hashlib.sha256((tmp_path / "p.csv").read_bytes()).hexdigest()
    assert table.fingerprint["rows"] == 4


@pytest.mark.parametrize(
    ("values", "positive", "labels"),
    [
        ([0, 1, 1], None, ("0", "1")),
        ([-1.0, 1.0, 1.0], None, ("-1", "1")),
        ([False, True, True], None, ("False", "True")),
        (["no", "yes", "yes"], "yes", ("no", "yes")),
        ([1, 2, 2], "2.0", ("1", "2")),
        ([0, 1, 1], "0", ("1", "0")),
        ([False, True, True], "TRUE", ("False", "True")),
    ],
)
def test_targets(values, positive, labels):
    accepted, known, found = read_target(pd.Series(values, name="y"), positive)
    assert found == labels
    assert known.all()
    assert accepted.tolist() == [str(int(v) if isinstance(v, float) else v) == labels[1] for v in values]


def test_groups_of_numbers_codes_and_gaps():
    ages = pd.Series([10.0, 25.0, 30.0, 60.0, np.nan], name="age")
    groups, notes = group_column(ages, edges=[25, 60])
    assert groups.tolist() == ["under 25", "25 to under 60", "25 to under 60", "60 and over", "(missing)"]
    assert "missing for 1 person" in notes[0]
    codes, notes = group_column(pd.Series([1, 2, 3, 1], name="code"))
    assert codes.tolist() == ["1", "2", "3", "1"]
    assert notes == []
    quarters, notes = group_column(pd.Series(range(100), name="n"))
    assert quarters.value_counts().tolist() == [25, 25, 25, 25]
    with pytest.raises(DataError, match="missing for 1 person") as caught:
        group_column(ages, edges=[25], missing="error")
    assert (caught.value.field, caught.value.suggestion) == ("missing_sensitive", "group")
    with pytest.raises(DataError, match=r"left out \('drop'\), not 'what'"):
        group_column(ages, missing="what")


def test_the_encoder_is_what_pandas_would_do():
    people = make_credit_demo(500)
    encoder = TableEncoder.fit(people, min_frequency=1)
    X = pd.DataFrame(encoder.transform(people), columns=encoder.feature_names)
    income = people["income"].fillna(people["income"].median())
    np.testing.assert_allclose(X["income"], (income - income.mean()) / income.std(ddof=0))
    for level in ("rented", "owned", "free"):
        if f"housing={level}" in X:
            np.testing.assert_array_equal(X[f"housing={level}"], (people["housing"] == level).astype(float))
    assert f"housing={people['housing'].mode()[0]}" not in X  # the most frequent is the reference
    assert not X.isna().any().any()


def test_the_encoder_survives_json_and_order():
    people = make_credit_demo(300)
    encoder = TableEncoder.fit(people)
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again == encoder
    np.testing.assert_array_equal(again.transform(people), encoder.transform(people))
    shuffled = people.sample(frac=1.0, random_state=0)
    np.testing.assert_array_equal(encoder.transform(shuffled), encoder.transform(people)[shuffled.index])


@settings(max_examples=25)
@given(
    st.lists(st.one_of(st.none(), st.text(max_size=5), st.integers(-3, 3), st.booleans()), min_size=4, max_size=40)
)
def test_any_categories_can_be_encoded(values):
    frame = pd.DataFrame({"c": pd.Series(values, dtype=object), "x": np.arange(len(values)) % 3})
    encoder = TableEncoder.fit(frame, min_frequency=1)
    X = encoder.transform(frame)
    assert np.isfinite(X).all()
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    np.testing.assert_array_equal(again.transform(frame), X)


def test_rare_and_unseen_levels_are_one():
    frame = pd.DataFrame({"town": ["A"] * 50 + ["B"] * 40 + [f"t{k}" for k in range(10)]})
    encoder = TableEncoder.fit(frame, min_frequency=5)
    assert encoder.feature_names == ["town=(other)", "town=B"]
    assert encoder.notes == ("'town': 10 rare of 12 values (10 people) are put together.",)
    new = pd.DataFrame({"town": ["A", "B", "t3", "never seen", None]})
    assert encoder.transform(new).tolist() == [[0, 0], [0, 1], [1, 0], [1, 0], [1, 0]]
    plain = TableEncoder.fit(frame.head(90), min_frequency=5)
    assert plain.transform(new.head(4)).tolist() == [[0], [1], [0], [0]]
    assert plain.warnings(new.head(4)) == ["'town' has values for 2 people that training never saw."]


def test_columns_that_say_nothing_are_left_out():
    n = 60
    frame = pd.DataFrame(
        {
            "x": np.arange(n),
            "constant": 1,
            "empty": np.full(n, np.nan),
            "id": [f"person {k}" for k in range(n)],
            "when": pd.date_range("2020-01-01", periods=n),
            "same": "a",
        }
    )
    encoder = TableEncoder.fit(frame)
    assert encoder.feature_names == ["x"]
    assert len(encoder.notes) == 5
    with pytest.raises(DataError, match="No feature is left"):
        TableEncoder.fit(frame[["same"]])


def test_wide_numbers_and_infinities():
    frame = pd.DataFrame(
        {"x": [1.0, np.inf, 3.0, np.nan], "big": [1e308, -1e308, 0.0, 1.0], "i": pd.array([1, None, 3, 4])}
    )
    X = TableEncoder.fit(frame[["x", "i"]]).transform(frame)
    assert np.isfinite(X).all()


def test_the_split_has_its_share_of_every_group():
    people = make_credit_demo(2000)
    study = prepare(table_of_frame(people, "demo"), target="repaid", positive="yes", sensitive=["sex", "origin"])
    assert study.people == 2000
    for columns in (["sex"], ["sex", "origin"]):
        whole, held_out = people.groupby(columns).size(), study.test.sensitive.groupby(columns).size()
        np.testing.assert_allclose(held_out / whole, 0.3, atol=0.01)
    assert study.test.y.mean() == pytest.approx((people["repaid"] == "yes").mean(), abs=0.01)
    again = prepare(table_of_frame(people, "demo"), target="repaid", positive="yes", sensitive=["sex", "origin"])
    np.testing.assert_array_equal(again.train.X, study.train.X)
    other = prepare(table_of_frame(people, "demo"), target="repaid", positive="yes", sensitive=["sex"], seed=1)
    assert not np.array_equal(other.test.y, study.test.y)


def test_the_encoding_is_learnt_from_training_only():
    people = make_credit_demo(600)
    study = prepare(table_of_frame(people, "demo"), target="repaid", positive="yes", sensitive=["sex"])
    ages = people["age"].to_numpy()[study.train.frame.index]
    assert study.encoder.columns[0].mean == pytest.approx(ages.mean())
    assert study.encoder.columns[0].mean != pytest.approx(people["age"].mean(), rel=1e-9)


def test_all_missing_sensitive_columns_are_named_at_once():
    with pytest.raises(DataError, match="no sensitive columns 'sx', 'origine'; the columns are age, note, sex"):
        prepare(table_of_frame(PEOPLE, "people"), target="note", sensitive=["sx", "origine", "sex"])


def test_the_nearest_name_is_suggested():
    frame = pd.DataFrame(columns=["native_country", "hours_per_week", "x" * 300])
    for wrong, right in (
        ("native-country", "native_country"),
        ("Hours_per_week", "hours_per_week"),
        ("hour_per_wek", "hours_per_week"),
    ):
        with pytest.raises(DataError, match=f"did you mean '{right}'"):
            find_column(frame, wrong)
    with pytest.raises(DataError) as caught:
        find_column(frame, "zzz\n\n")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_level_called_other_does_not_clash_with_the_merged_ones():
    frame = pd.DataFrame({"town": ["A"] * 40 + ["(other)"] * 30 + ["B"] * 20 + [f"t{k}" for k in range(10)]})
    encoder = TableEncoder.fit(frame, min_frequency=5)
    assert encoder.feature_names == ["town=(other)", "town=B"]
    X = encoder.transform(frame)
    assert X.sum(axis=0).tolist() == [40, 20]


@pytest.mark.parametrize(
    ("trained", "new"),
    [
        (["TRUE", "FALSE", "unknown"], ["TRUE", "FALSE"]),
        (["TRUE", "FALSE"], ["TRUE", "FALSE", "unknown"]),
        (["True", "False", "true"], ["True", "False"]),
        (["01", "02", "A"], ["01", "02"]),
        (["1e3", "2", "A"], ["1e3", "2"]),
        (["1.50", "2", "A"], ["1.50", "2"]),
    ],
)
def test_a_value_is_the_same_whatever_else_the_column_holds(trained, new, tmp_path):
    for name, values in (("trained", trained), ("new", new)):
        (tmp_path / f"{name}.csv").write_text("flag,x\n" + "".join(f"{v},{k}\n" for k, v in enumerate(values * 20)))
    before, after = (read_table(tmp_path / f"{name}.csv").frame for name in ("trained", "new"))
    encoder = TableEncoder.fit(before[["flag"]], min_frequency=1)
    X, again = encoder.transform(before), encoder.transform(after)
    shared = [value for value in new if value in trained]
    for value in shared:
        np.testing.assert_array_equal(X[trained.index(value)], again[new.index(value)])
    assert len(np.unique(again[[new.index(value) for value in shared]], axis=0)) == len(shared)
    assert encoder.warnings(after) == (
        [] if set(new) <= set(trained) else ["'flag' has values for 20 people that training never saw."]
    )


def test_very_many_categories_are_encoded_in_no_time():
    import time

    frame = pd.DataFrame({"id": [f"p{k // 3}" for k in range(60_000)]})
    begun = time.process_time()
    TableEncoder.fit(frame, min_frequency=1, max_levels=10_000)
    assert time.process_time() - begun < 5.0  # it was quadratic: minutes


def test_numbers_whose_square_overflows_are_left_out():
    frame = pd.DataFrame({"big": [1e308, -1e308, 0.0, 1.0], "x": [1.0, 2.0, 3.0, 4.0]})
    encoder = TableEncoder.fit(frame)
    assert encoder.feature_names == ["x"]
    assert encoder.notes == ("'big' holds numbers beyond 1e+150 and was left out.",)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"target": "zzz"}, "target"),
        ({"sensitive": ["zzz"]}, "sensitive"),
        ({"sensitive": []}, "sensitive"),
        ({"sensitive": ["sex", "sex"]}, "sensitive"),
        ({"sensitive": ["repaid"]}, "sensitive"),
        ({"positive": "zzz"}, "positive"),
        ({"positive": None}, "positive"),
        ({"target": "age"}, "target"),
        ({"features": ["zzz"]}, "features"),
        ({"features": ["sex"]}, "features"),
        ({"exclude": ["zzz"]}, "exclude"),
        ({"bins": {"age": [30]}}, "bins"),
        ({"bins": {"sex": [30]}}, "bins"),
        ({"missing_sensitive": "zzz"}, "missing_sensitive"),
        ({"min_frequency": -1.0}, "min_frequency"),
        ({"test_share": 1.0}, "test_share"),
        ({"seed": -1}, "seed"),
    ],
)
def test_errors_carry_the_parameter_they_are_about(options, field):
    table = table_of_frame(make_credit_demo(100), "demo")
    asked = {"target": "repaid", "positive": "yes", "sensitive": ["sex"]} | options
    with pytest.raises(DataError) as caught:
        prepare(table, **asked)
    assert caught.value.field == field
    assert "--" not in str(caught.value)


def texts_of(path):
    """Return the text constants of a module, without its docstrings."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {id(n.body[0].value) for n in ast.walk(tree) if isinstance(n, documented) and ast.get_docstring(n)}
    constants = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in docstrings)
    return [n.value for n in constants if isinstance(n.value, str)]


def test_only_the_command_line_knows_options():
    package = Path(fairmargin.__file__).parent
    modules = [*(package / "tables").glob("*.py"), *(package / "report").glob("*.py")]
    modules += (package / "audit").glob("*.py")
    assert len(modules) > 15
    for path in modules:
        for text in texts_of(path):
            # pip's own options, in what to install, are not ours.
            ours = text.replace("pip install --upgrade", "")
            assert not re.search(r"(?<![-\w])--[a-zA-Z]", ours), (path.name, text)


def test_every_parameter_that_an_error_names_has_an_option():
    package = Path(fairmargin.__file__).parent
    fields = set()
    for path in (package / "tables").glob("*.py"):
        calls = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.keyword) and n.arg == "field")
        fields |= {n.value.value for n in calls if isinstance(n.value, ast.Constant) and n.value.value is not None}
    assert {"bins", "missing_sensitive", "delimiter", "constraint"} <= fields
    assert fields <= set(FLAGS)


def test_former_addresses_still_work():
    from fairmargin import io, tabular, workflow

    assert tabular.read_table is read_table
    assert tabular.DataError is DataError
    assert {"train", "trace", "make_estimator", "parse_constraint", "ESTIMATORS"} <= set(dir(workflow))
    assert {"save", "load", "ModelFileError", "FORMAT_VERSION"} <= set(dir(io))
