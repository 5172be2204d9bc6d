"""Results in the caller's frame library: polars and pyarrow in, polars and pyarrow out."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairmargin import FairLogisticRegression, positive_rates
from fairmargin.datasets.demo import make_credit_demo
from fairmargin.frames import as_pandas
from fairmargin.tables import TabularModel, prepare, table_of_frame

TABLE = make_credit_demo(400)
LIBRARIES = {"polars": (pl.from_pandas, pl.DataFrame), "pyarrow": (pa.Table.from_pandas, pa.Table)}


@pytest.fixture(scope="module")
def model():
    study = prepare(table_of_frame(TABLE, "demo"), target="repaid", positive="yes", sensitive=["sex"])
    clf = FairLogisticRegression().fit(study.train.X, study.train.y, sensitive_features=study.train.sensitive)
    return TabularModel(clf, study.encoder, study.target, study.labels, study.sensitive)


@pytest.mark.parametrize("name", LIBRARIES)
def test_decisions_of_a_table(name, model):
    convert, kind = LIBRARIES[name]
    expected, found = model.decide(TABLE), model.decide(convert(TABLE))
    assert isinstance(expected, pd.DataFrame)
    assert isinstance(found, kind)
    pd.testing.assert_frame_equal(as_pandas(found), as_pandas(expected), check_dtype=False)


@pytest.mark.parametrize("name", LIBRARIES)
def test_rates_by_group(name):
    convert, kind = LIBRARIES[name]
    people = pd.DataFrame({"sex": list("ffmm") * 5, "member": [True, False] * 10})
    decisions = np.arange(20) % 3 == 0
    expected = positive_rates(None, decisions, sensitive_features=people, pos_label=True)
    found = positive_rates(None, decisions, sensitive_features=convert(people), pos_label=True)
    assert isinstance(found, kind)
    flat = as_pandas(found)
    assert list(flat.columns) == ["attribute", "category", *expected.columns]
    assert flat["category"].tolist() == [str(category) for _, category in expected.index]
    np.testing.assert_array_equal(flat["rate"], expected["rate"])


def test_a_polars_column_is_enough():
    found = positive_rates(None, [1, 0, 1, 1], sensitive_features=pl.Series("sex", list("ffmm")))
    assert isinstance(found, pl.DataFrame)
    assert found["rate"].to_list() == [0.5, 1.0]


def test_what_is_no_frame_is_refused(model):
    with pytest.raises(TypeError, match="Expected a frame"):
        model.decide([[1, 2]])
