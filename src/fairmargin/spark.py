"""Fair classifiers for Spark frames, in the style of ``pyspark.ml``; they can be stages of its pipelines.

::

    from fairmargin.spark import FairLogisticRegression

    frame = spark.read.parquet("hdfs:///people")
    classifier = FairLogisticRegression(featuresCols=["age", "job"], labelCol="repaid", sensitiveCols=["sex"])
    model = classifier.fit(frame)
    model.transform(frame)  # with prediction, score and probability
    model.estimator.certificate_

Executors work on partitions, the driver takes the Newton steps. A frame that is nothing but columns of Parquet files
is read by the executors row group by row group; any other frame is handed to Python through Arrow in every pass.
Numbers are standardised and categories encoded as by :func:`fairmargin.partitioned.fit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.base import clone

from fairmargin import linear
from fairmargin.partitioned.engines.spark import SparkEngine
from fairmargin.partitioned.sources.spark import quoted, spark_source
from fairmargin.partitioned.training import check_estimator, check_sensitive, fit
from fairmargin.tables.model import TabularModel

try:
    from pyspark.ml import Estimator, Model
    from pyspark.sql import DataFrame, functions, types
except ImportError:
    raise ImportError('fairmargin.spark needs PySpark: pip install "fairmargin[spark]".') from None

__all__ = ["FairLinearSVC", "FairLogisticRegression", "FairMarginClassifier", "FairModel"]

_PACKED = "fairmargin_decision"  # all that is decided of a row, until it is unpacked into columns
_TYPES = {"b": types.BooleanType, "i": types.LongType, "u": types.LongType, "f": types.DoubleType}


class _SparkClassifier(Estimator):
    """A linear classifier that is trained on columns of a Spark frame.

    Parameters
    ----------
    featuresCols : list of str
        Numbers, text and truth values; never sensitive columns.
    labelCol : str, default="label"
        Labels of two values.
    sensitiveCols : list of str
        Attributes that the classifier must be fair to; used in ``fit`` alone.
    weightCol : str, optional
    predictionCol, scoreCol, probabilityCol : str
        Columns that ``transform`` adds: the decision, the score ``f(x)``, and the probability of the positive class
        (logistic loss only).
    minFrequency, maxLevels, sampleSize, seed
        As ``min_frequency``, ``max_levels``, ``sample_size`` and ``seed`` of :func:`fairmargin.partitioned.fit`.
    **parameters
        Of the classifier of the same name in :mod:`fairmargin`: ``C``, ``constraint``, ``pos_label`` and others.

    Attributes
    ----------
    estimator : classifier of :mod:`fairmargin`
        What ``fit`` trains a clone of.
    """

    _wrapped: ClassVar[type]

    def __init__(
        self,
        *,
        featuresCols: Sequence[str],
        labelCol: str = "label",
        sensitiveCols: Sequence[str] = (),
        weightCol: str | None = None,
        predictionCol: str = "prediction",
        scoreCol: str = "score",
        probabilityCol: str = "probability",
        minFrequency: float = 0.005,
        maxLevels: int = 50,
        sampleSize: int = 1_000_000,
        seed: int = 0,
        **parameters: Any,
    ) -> None:
        super().__init__()
        self.featuresCols = _names(featuresCols)
        self.labelCol = labelCol
        self.sensitiveCols = _names(sensitiveCols)
        self.weightCol = weightCol
        self.outputCols = (predictionCol, scoreCol, probabilityCol)
        self.minFrequency = minFrequency
        self.maxLevels = maxLevels
        self.sampleSize = sampleSize
        self.seed = seed
        self.estimator = self._wrapped(**parameters)

    def _fit(self, dataset: DataFrame) -> FairModel:
        check_estimator(self.estimator)
        check_sensitive(self.estimator, self.sensitiveCols, "columns; name them with sensitiveCols=[...]")
        weight = [] if self.weightCol is None else [self.weightCol]
        columns = [*self.featuresCols, self.labelCol, *self.sensitiveCols, *weight]
        _check_columns(dataset, columns)
        engine = SparkEngine(dataset.sparkSession)
        model = fit(
            clone(self.estimator),
            spark_source(dataset.select([quoted(name) for name in dict.fromkeys(columns)])),
            target=self.labelCol,
            sensitive=self.sensitiveCols,
            sample_weight=self.weightCol,
            features=self.featuresCols,
            engine=engine,
            min_frequency=self.minFrequency,
            max_levels=self.maxLevels,
            sample_size=self.sampleSize,
            seed=self.seed,
        )
        return FairModel(model, *self.outputCols)


class FairLogisticRegression(_SparkClassifier):
    """:class:`fairmargin.FairLogisticRegression` on Spark frames."""

    _wrapped = linear.FairLogisticRegression


class FairLinearSVC(_SparkClassifier):
    """:class:`fairmargin.FairLinearSVC` on Spark frames."""

    _wrapped = linear.FairLinearSVC


class FairMarginClassifier(_SparkClassifier):
    """:class:`fairmargin.FairMarginClassifier` on Spark frames."""

    _wrapped = linear.FairMarginClassifier


for _cls in (FairLogisticRegression, FairLinearSVC, FairMarginClassifier):
    _cls.__doc__ = f"{_cls.__doc__}\n{(_SparkClassifier.__doc__ or '').partition(chr(10))[2]}"


class FairModel(Model):
    """A fitted classifier that decides on Spark frames; it needs the features alone.

    Parameters
    ----------
    model : TabularModel
        What ``fit`` of the classifiers here found, or what :func:`fairmargin.io.load` has read.
    predictionCol, scoreCol, probabilityCol : str

    Attributes
    ----------
    estimator : fitted classifier of :mod:`fairmargin`
        With ``certificate_``, ``coef_``, ``covariance_`` and all other fitted attributes.
    """

    def __init__(
        self,
        model: TabularModel,
        predictionCol: str = "prediction",
        scoreCol: str = "score",
        probabilityCol: str = "probability",
    ) -> None:
        super().__init__()
        self.model = model
        self.outputCols = (predictionCol, scoreCol, probabilityCol)

    @property
    def estimator(self) -> Any:
        """The fitted estimator."""
        return self.model.estimator

    def save(self, path: str | Path) -> None:
        """Write the model as JSON, which :func:`fairmargin.io.load` and the command line read."""
        from fairmargin import io

        io.save(self.model, path)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        features = [column.name for column in self.model.encoder.columns]
        _check_columns(dataset, features)
        has_probability = hasattr(self.estimator, "predict_proba")
        prediction, score, probability = self.outputCols
        kind = _TYPES.get(np.asarray(self.estimator.classes_).dtype.kind, types.StringType)
        fields = [types.StructField(prediction, kind()), types.StructField(score, types.DoubleType())]
        fields += [types.StructField(probability, types.DoubleType())] if has_probability else []
        for field in fields:
            if field.name in dataset.columns:
                raise ValueError(f"The frame has a column {field.name!r} already; rename it, or name another output.")
        model, names = self.model, [field.name for field in fields]

        def decide(people: pd.DataFrame) -> pd.DataFrame:
            scores = model.scores(people)
            found = [model.estimator.classes_[(scores >= 0).astype(int)], scores, expit(scores)]
            return pd.DataFrame(dict(zip(names, found, strict=False)))

        udf = functions.pandas_udf(decide, types.StructType(fields))  # type: ignore[call-overload]
        decided = udf(functions.struct(*[functions.col(quoted(name)) for name in features]))
        given = [functions.col(quoted(name)) for name in dataset.columns]
        packed = dataset.withColumn(_PACKED, decided)
        return packed.select(*given, *[functions.col(_PACKED).getField(name).alias(name) for name in names])


def _names(given: Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _check_columns(dataset: DataFrame, needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in dataset.columns]
    if missing:
        raise ValueError(f"The frame has no column {', '.join(map(repr, missing))}; it has {dataset.columns[:12]}.")
