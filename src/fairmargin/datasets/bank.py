"""UCI Bank Marketing: does a client of a Portuguese bank subscribe to a term deposit when called?

41,188 people (``bank-additional-full.csv``); ``unknown`` is kept as a level of its own.

- ``target``: 1 for a subscription (4,640 people), 0 otherwise; ``target_names`` has the labels of the file.
- ``sensitive_features``: ``age_group``, whether the client is between 25 and 60 years old (both included);
  ``age`` has the years themselves. Age is not a feature.
- ``data``: the other 19 columns of the file, with underscores for the dots in their names.

Note that ``duration``, the length of the call, is known only after the decision to call. It is kept because
the paper uses it; leave it out for a model that is to be used.

Whoever has ``unknown`` for ``housing`` has it for ``loan`` too, so the encoded matrix holds one column twice
(rank 51 of 52 columns).

Source: Moro, S., Rita, P. and Cortez, P. (2014), Bank Marketing, UCI Machine Learning Repository, CC BY 4.0.
"""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from fairmargin.datasets import _files
from fairmargin.datasets._tables import bunch, readable_columns

__all__ = ["load_bank"]

_files.publish(
    _files.RemoteFile(
        "bank-additional-full.csv",
        "74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8",
        f"{_files.UCI}/00222/bank-additional.zip",
        member="bank-additional/bank-additional-full.csv",
    )
)

CATEGORICAL = [
    "job",
    "marital",
    "education",
    "default",
    "housing",
    "loan",
    "contact",
    "month",
    "day_of_week",
    "poutcome",
    "y",
]
AGE_GROUPS = ["25 to 60", "under 25 or over 60"]


def load_bank(*, encoded: bool = False) -> Bunch:
    """Load UCI Bank Marketing: 41,188 clients, subscription to a term deposit, age between 25 and 60 or not.

    The file is looked for in ``$FAIRMARGIN_DATA``, then in the cache, then downloaded (extra ``data``).

    Parameters
    ----------
    encoded : bool
        False: ``data`` is a frame of numbers and categories. True: ``data`` is a frame of float64 with
        standardised numbers and one indicator per level but the first (52 columns), ready for a linear
        classifier.

    Returns
    -------
    Bunch
        ``data`` (n, d), ``target`` (n,) in {0, 1} with 1 the favourable outcome, ``sensitive_features`` (n,
        1) with the column ``age_group``, ``age`` (n,) in years, ``feature_names``, ``target_names``,
        ``DESCR``.
    """
    table = _parse(_files.read("bank-additional-full.csv"))
    loaded = bunch(
        table.drop(columns=["age", "y"]),
        (table["y"] == "yes").to_numpy(),
        _age_group(table["age"].to_numpy()).to_frame(),
        target_name="subscribed",
        target_names=("no", "yes"),
        encoded=encoded,
        description=__doc__,
    )
    loaded.age = table["age"]
    return loaded


def _parse(text: bytes) -> pd.DataFrame:
    table = pd.read_csv(io.BytesIO(text), sep=";", dtype=dict.fromkeys(CATEGORICAL, "category"))
    return readable_columns(table)


def _age_group(age: np.ndarray) -> pd.Series:
    outside = (age < 25) | (age > 60)
    groups = pd.Categorical.from_codes(outside.astype(np.int8), pd.Index(AGE_GROUPS))
    return pd.Series(groups, name="age_group")
