"""What each column is taken for, and why: codes and identifiers do not pass as numbers in silence."""

import io
import sys

import numpy as np
import pandas as pd
import pytest

from fairmargin.cli import run
from fairmargin.exceptions import DataError
from fairmargin.tables import read_table
from fairmargin.tables.column_kinds import CategoryColumn, NumberColumn
from fairmargin.tables.encoding import TableEncoder


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    n = 200
    return pd.DataFrame(
        {
            "id": np.arange(1000, 1000 + n),
            "education": rng.integers(0, 7, n),
            "sex": rng.integers(1, 3, n),
            "age": rng.integers(18, 80, n),
            "height": rng.normal(170, 10, n),
            "job": rng.choice(["a", "b"], n),
            "region": pd.Categorical(rng.integers(1, 5, n)),
        }
    )


def test_every_column_is_said_and_suspects_are_listed(frame):
    encoder = TableEncoder.fit(frame)
    kinds = {column.name: column.kind for column in encoder.columns}
    assert kinds == dict.fromkeys(("id", "education", "sex", "age", "height"), "number") | {
        "job": "category",
        "region": "category",
    }
    for name in frame:
        assert any(note.startswith(f"{name!r} was taken as") for note in encoder.taken)
    assert "'region' was taken as categories: the file says so." in encoder.taken
    assert [text.split()[0] for text in encoder.suspects] == ["'id'", "'education'"]
    assert "7 different whole numbers" in encoder.suspects[1]


def test_columns_are_taken_as_asked(frame):
    encoder = TableEncoder.fit(
        frame.assign(code=[str(k % 5) for k in range(200)]), categorical=["education"], numeric=["code", "id"]
    )
    columns = {column.name: column for column in encoder.columns}
    assert isinstance(columns["education"], CategoryColumn)
    assert isinstance(columns["code"], NumberColumn)
    assert encoder.suspects == ()
    with pytest.raises(DataError, match="categorical and numeric at once"):
        TableEncoder.fit(frame, categorical=["age"], numeric=["age"])
    with pytest.raises(DataError, match="'job' should hold numbers"):
        TableEncoder.fit(frame, numeric=["job"])


def test_all_missing_columns_are_named_at_once(frame):
    encoder = TableEncoder.fit(frame)
    with pytest.raises(DataError, match="'sex', 'age' are missing"):
        encoder.transform(frame.drop(columns=["sex", "age"]))


def test_on_the_command_line(frame, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    frame = frame.assign(g=rng.choice(["x", "y"], 200), y=(frame["height"] + rng.normal(0, 5, 200) > 170).astype(int))
    text = frame.to_csv(index=False, sep=";", decimal=",")
    ask = ["-t", "y", "-s", "g", "--decimal", ",", "--constraint", "none"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(["train", "-", *ask, "--verbose"]) == 0
    out = capsys.readouterr().out
    assert "If these are codes, give --categorical" in out
    assert "leave identifiers out (--exclude)" in out
    assert "'height' was taken as a number" in out
    (tmp_path / "d.csv").write_text(text)
    assert run(["train", "d.csv", *ask, "--categorical", "education,region", "-x", "id"]) == 0
    assert "if they are codes" not in capsys.readouterr().out
    assert run(["train", "d.csv", *ask, "--categorical", "nothing"]) == 2
    assert "--categorical" in capsys.readouterr().err
    assert read_table(tmp_path / "d.csv", decimal=",").frame["height"].dtype == float
    with pytest.raises(DataError, match="decimal mark is a point or a comma"):
        read_table(tmp_path / "d.csv", decimal="x")
