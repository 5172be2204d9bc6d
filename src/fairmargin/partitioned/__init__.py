"""Tables in partitions: data larger than memory, on one computer or on a cluster.

A *source* says where the rows are, an *engine* runs a function on every partition and merges the results in partition
order. What is computed on a partition is a numerical pass; neither sources nor engines know about it.

:func:`fit` trains a linear classifier on a source::

    from fairmargin import FairLogisticRegression
    from fairmargin.partitioned import fit

    model = fit(FairLogisticRegression(), "data/*.parquet", target="repaid", sensitive=["sex"])

==============  ============================================================================================
``contract``    what sources, engines and passes agree on
``scan``        the first pass: counts, moments, sums by label and group, a sample of rows
``prepare``     from these sums to the encoding, the classes and the covariance rows
``passes``      what a solver asks of all rows: sums at a point, counts by score, rows near the margin
``problem``     the problem behind the passes, and how Newton's method sees it
``solver``      a start from the sample, then passes until the gap is proved
``lockstep``    several solvers that share every pass
``training``    from an estimator and a source to a fitted model
``frontier``    all points of the trade-off in the same passes
==============  ============================================================================================
"""

try:
    import pyarrow  # noqa: F401  (asked for here, once, so that the error names what to install)
except ImportError:
    raise ImportError('Data in partitions need pyarrow: pip install "fairmargin[cli]".') from None

from fairmargin.partitioned.frontier import PartitionedFrontier, trace, trace_levels, trace_study
from fairmargin.partitioned.study import PartitionedStudy, prepare
from fairmargin.partitioned.training import fit, fit_study

__all__ = [
    "PartitionedFrontier",
    "PartitionedStudy",
    "fit",
    "fit_study",
    "prepare",
    "trace",
    "trace_levels",
    "trace_study",
]
