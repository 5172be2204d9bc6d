"""Classifiers on Spark frames: as on the same files without Spark, and usable in pipelines of pyspark.ml."""

import numpy as np
import pytest

from fairmargin import CovarianceBound, io, linear
from fairmargin.partitioned import fit
from fairmargin.partitioned.engines.local import LocalEngine
from fairmargin.partitioned.sources import parquet as parquet_source
from partitioned_data import people, write

cluster = pytest.mark.spark
# PySpark says so of pandas 3 whenever Arrow is used.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

FEATURES = ["x0", "x1", "year", "job"]


@pytest.fixture(scope="module")
def frame():
    return people(6000)


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    return write(frame, tmp_path_factory.mktemp("people"), files=2, row_group=800)


@pytest.fixture(scope="module")
def plain(spark_session, folder):
    return spark_session.read.parquet(f"file://{folder}")


@pytest.fixture(autouse=True)
def _small_partitions(monkeypatch):
    monkeypatch.setattr(parquet_source, "FEW_ROWS", 1)


def without_spark(estimator, folder, **more):
    return fit(estimator, folder, target="y", sensitive=["sex"], features=FEATURES, engine=LocalEngine(1), **more)


@cluster
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("FairLogisticRegression", {"constraint": CovarianceBound(0.01)}),
        ("FairLinearSVC", {"C": 0.01}),
        ("FairMarginClassifier", {"loss": "squared_hinge"}),
    ],
)
def test_as_without_spark(name, parameters, plain, folder):
    from fairmargin import spark

    classifier = getattr(spark, name)(featuresCols=FEATURES, labelCol="y", sensitiveCols=["sex"], **parameters)
    model = classifier.fit(plain)
    twin = without_spark(getattr(linear, name)(**parameters), folder)
    # Row groups are read by the executors: the same digits.
    np.testing.assert_array_equal(model.estimator.coef_, twin.estimator.coef_)
    assert model.estimator.certificate_.status == "solved"
    assert not hasattr(classifier.estimator, "certificate_")


@cluster
def test_decides_without_sensitive_columns(plain, frame, tmp_path):
    from fairmargin.spark import FairLogisticRegression, FairModel

    model = FairLogisticRegression(
        featuresCols=FEATURES, labelCol="y", sensitiveCols="sex", weightCol="weight", predictionCol="approved"
    ).fit(plain.where("x2 > -3"))  # a frame that is not plain files
    applied = model.transform(plain.drop("sex", "y", "weight"))
    assert applied.columns[-3:] == ["approved", "score", "probability"]
    assert dict(applied.dtypes)["approved"] == "bigint"
    found = applied.toArrow().to_pandas().sort_values(["x0", "x1"], ignore_index=True)
    expected = model.model.decide(frame).assign(x0=frame["x0"], x1=frame["x1"])
    expected = expected.sort_values(["x0", "x1"], ignore_index=True)
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["probability"], expected["probability"], rtol=1e-12)
    assert found["approved"].astype(str).tolist() == expected["decision"].tolist()
    model.save(tmp_path / "model.json")
    again = FairModel(io.load(tmp_path / "model.json")).transform(plain.limit(5)).toArrow().to_pandas()
    assert {"prediction", "score", "probability"} <= set(again)


@cluster
def test_in_a_pipeline_with_words_as_labels(plain):
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import SQLTransformer

    from fairmargin.spark import FairLinearSVC

    named = SQLTransformer(statement="SELECT *, IF(y = 1, 'yes', 'no') AS `re.paid` FROM __THIS__")
    classifier = FairLinearSVC(
        featuresCols=["x0", "x1"], labelCol="re.paid", sensitiveCols=["sex"], pos_label="yes", loss="squared_hinge"
    )
    frame = plain.where("x2 > 0.5")  # limit() may choose other people in every pass
    applied = Pipeline(stages=[named, classifier]).fit(frame).transform(frame)
    assert "probability" not in applied.columns
    assert {row.prediction for row in applied.select("prediction").collect()} == {"yes", "no"}


@cluster
def test_what_cannot_be(plain):
    from fairmargin.spark import FairLogisticRegression

    with pytest.raises(ValueError, match="The frame has no column 'x9'; it has"):
        FairLogisticRegression(featuresCols=["x9"], labelCol="y", sensitiveCols=["sex"]).fit(plain)
    with pytest.raises(ValueError, match=r"name them with sensitiveCols=\[\.\.\.\]"):
        FairLogisticRegression(featuresCols=FEATURES, labelCol="y").fit(plain)
    with pytest.raises(ValueError, match="'sex' cannot be a feature"):
        FairLogisticRegression(featuresCols=["x0", "sex"], labelCol="y", sensitiveCols=["sex"]).fit(plain)
    model = FairLogisticRegression(featuresCols=FEATURES, labelCol="y", sensitiveCols=["sex"], predictionCol="y")
    with pytest.raises(ValueError, match="has a column 'y' already"):
        model.fit(plain).transform(plain)


def test_without_pyspark(monkeypatch):
    import importlib
    import sys

    for name in [name for name in sys.modules if name.startswith(("pyspark", "fairmargin.spark"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark.ml", None)
    with pytest.raises(ImportError, match=r'pip install "fairmargin\[spark\]"'):
        importlib.import_module("fairmargin.spark")
