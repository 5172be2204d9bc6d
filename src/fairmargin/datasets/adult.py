"""UCI Adult: does a person of the 1994 US census earn more than 50,000 dollars a year?

45,222 people after rows with a missing value (``?``) are dropped from ``adult.data`` and ``adult.test``
together.

- ``target``: 1 for an income above 50K (11,208 people), 0 otherwise; ``target_names`` has the labels of the
  file.
- ``sensitive_features``: ``sex`` and ``race`` as in the file; they are not features.
- ``data``: ``age``, ``workclass``, ``education``, ``education_num``, ``marital_status``, ``occupation``,
  ``relationship``, ``capital_gain``, ``capital_loss``, ``hours_per_week``, ``native_country``. The sampling
  weight ``fnlwgt`` is not a feature. ``native_country`` is United-States or Other. The levels of
  ``education`` below the 9th grade are one (Below-9th), as are those from the 9th to the 12th (9th-to-12th).

Note that ``relationship`` (Husband, Wife) all but gives the sex away: leaving ``sex`` out of the features is
not enough to be fair.

Source: Becker, B. and Kohavi, R. (1996), Adult, UCI Machine Learning Repository, CC BY 4.0.
"""

from __future__ import annotations

import io

import pandas as pd
from sklearn.utils import Bunch

from fairmargin.datasets import _files
from fairmargin.datasets._tables import bunch

__all__ = ["load_adult"]

_files.publish(
    _files.RemoteFile(
        "adult.data",
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        f"{_files.UCI}/adult/adult.data",
    ),
    _files.RemoteFile(
        "adult.test",
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        f"{_files.UCI}/adult/adult.test",
    ),
)

NUMERIC = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
]
SENSITIVE = ["sex", "race"]

MERGED_EDUCATION = {
    **dict.fromkeys(["Preschool", "1st-4th", "5th-6th", "7th-8th"], "Below-9th"),
    **dict.fromkeys(["9th", "10th", "11th", "12th"], "9th-to-12th"),
}


def load_adult(*, encoded: bool = False) -> Bunch:
    """Load UCI Adult, cleaned as in the paper: 45,222 people, income above 50K, sex and race.

    The files are looked for in ``$FAIRMARGIN_DATA``, then in the cache, then downloaded (extra ``data``).

    Parameters
    ----------
    encoded : bool
        False: ``data`` is a frame of numbers and categories. True: ``data`` is a frame of float64 with
        standardised numbers and one indicator per level but the first (45 columns), ready for a linear
        classifier.

    Returns
    -------
    Bunch
        ``data`` (n, d), ``target`` (n,) in {0, 1} with 1 the favourable outcome, ``sensitive_features`` (n,
        2) with columns ``sex`` and ``race``, ``feature_names``, ``target_names``, ``DESCR``.
    """
    table = _parse(_files.read("adult.data"), _files.read("adult.test"))
    return bunch(
        table.drop(columns=[*SENSITIVE, "fnlwgt", "income"]),
        table["income"].str.startswith(">50K").to_numpy(),
        table[SENSITIVE],
        target_name="income",
        target_names=("<=50K", ">50K"),
        encoded=encoded,
        description=__doc__,
    )


def _parse(train: bytes, test: bytes) -> pd.DataFrame:
    """Parse both files as one, so that their categories agree, and drop the rows with a missing value."""
    # The test file opens with a line that is no data, and its labels end in a full stop.
    text = train + test.partition(b"\n")[2]
    table = pd.read_csv(
        io.BytesIO(text),
        names=COLUMNS,
        skipinitialspace=True,
        na_values="?",
        dtype={name: "category" for name in COLUMNS if name not in NUMERIC},
    )
    table = table.dropna(ignore_index=True)
    table["native_country"] = _domestic(table["native_country"])
    table["education"] = _merge(table["education"], MERGED_EDUCATION)
    for name in table.select_dtypes("category"):
        table[name] = table[name].cat.remove_unused_categories()
    return table


def _merge(column: pd.Series, merged: dict[str, str]) -> pd.Series:
    """Rename levels, several to one where asked; work on the levels, not on the rows."""
    renamed = [merged.get(level, level) for level in column.cat.categories]
    levels = pd.Index(sorted(set(renamed)))
    codes = levels.get_indexer(renamed)[column.cat.codes]
    return pd.Series(pd.Categorical.from_codes(codes, levels), name=column.name)


def _domestic(country: pd.Series) -> pd.Series:
    abroad = {level: "Other" for level in country.cat.categories if level != "United-States"}
    return _merge(country, abroad)
