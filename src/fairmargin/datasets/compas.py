"""COMPAS: is a person arrested in Broward County, Florida, free of a new offence for two years?

6,172 of the 7,214 people of ``compas-scores-two-years.csv``, after the filter of ProPublica's analysis: the
score was given within 30 days of the arrest, it is known whether the person offended again, the charge is not
an ordinary traffic offence, and the score is given.

- ``target``: 1 for *no* recidivism within two years (3,363 people), 0 for recidivism. In every data set here
  1 is the outcome a person would wish for; beware when comparing with work that predicts ``two_year_recid``.
- ``sensitive_features``: ``sex`` and ``race`` as in the file; they are not features.
- ``data``: ``age``, ``juv_fel_count``, ``juv_misd_count``, ``juv_other_count``, ``priors_count`` and
  ``c_charge_degree`` (F for felony, M for misdemeanour). The COMPAS scores themselves are not features.

The label is a new *arrest*, not a new offence, and so carries whatever bias policing has.

Source: Angwin, J., Larson, J., Mattu, S. and Kirchner, L. (2016), Machine Bias, ProPublica; the data are
published with the analysis at https://github.com/propublica/compas-analysis.
"""

from __future__ import annotations

import io

import pandas as pd
from sklearn.utils import Bunch

from fairmargin.datasets import _files
from fairmargin.datasets._tables import bunch

__all__ = ["load_compas"]

_files.publish(
    _files.RemoteFile(
        "compas-scores-two-years.csv",
        "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
        "https://raw.githubusercontent.com/propublica/compas-analysis/master/compas-scores-two-years.csv",
    )
)

FEATURES = ["age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "c_charge_degree"]
SENSITIVE = ["sex", "race"]
FILTERED_BY = ["days_b_screening_arrest", "is_recid", "score_text"]
CATEGORICAL = ["c_charge_degree", *SENSITIVE, "score_text"]


def load_compas(*, encoded: bool = False) -> Bunch:
    """Load COMPAS after ProPublica's filter: 6,172 people, no recidivism within two years, sex and race.

    The file is looked for in ``$FAIRMARGIN_DATA``, then in the cache, then downloaded (extra ``data``).

    Parameters
    ----------
    encoded : bool
        False: ``data`` is a frame of numbers and categories. True: ``data`` is a frame of float64 with
        standardised numbers and one indicator per level but the first (6 columns), ready for a linear
        classifier.

    Returns
    -------
    Bunch
        ``data`` (n, d), ``target`` (n,) in {0, 1} with 1 the favourable outcome (no recidivism),
        ``sensitive_features`` (n, 2) with columns ``sex`` and ``race``, ``feature_names``, ``target_names``,
        ``DESCR``.
    """
    table = _parse(_files.read("compas-scores-two-years.csv"))
    return bunch(
        table[FEATURES],
        (table["two_year_recid"] == 0).to_numpy(),
        table[SENSITIVE],
        target_name="no_recidivism",
        target_names=("recidivism", "no recidivism"),
        encoded=encoded,
        description=__doc__,
    )


def _parse(text: bytes) -> pd.DataFrame:
    """Parse the file and keep the people whose record is sound, as ProPublica did."""
    table = pd.read_csv(
        io.BytesIO(text),
        usecols=[*FEATURES, *SENSITIVE, *FILTERED_BY, "two_year_recid"],
        dtype=dict.fromkeys(CATEGORICAL, "category"),
    )
    kept = (
        table["days_b_screening_arrest"].between(-30, 30)
        & (table["is_recid"] != -1)
        & (table["c_charge_degree"] != "O")
        & table["score_text"].notna()
    )
    table = table[kept].reset_index(drop=True)
    for name in CATEGORICAL:
        table[name] = table[name].cat.remove_unused_categories()
    return table
