"""A made-up credit data set for demonstrations: nobody in it exists, and nothing about real people follows from it.

4,000 applicants, whether they repaid, their sex and origin, and features of the usual kinds: numbers (some
missing), categories (some rare), and two that give the sex away in part (occupation, working hours). Generated in
code from a seed; no data file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.utils import check_random_state

__all__ = ["make_credit_demo"]

_OCCUPATIONS = np.array(["craft", "office", "care", "sales", "technical", "managing", "farming", "art"], dtype=object)
_BY_SEX = {
    "man": [0.27, 0.12, 0.04, 0.13, 0.24, 0.14, 0.05, 0.01],
    "woman": [0.05, 0.30, 0.24, 0.18, 0.08, 0.11, 0.02, 0.02],
}
_PAY = dict(zip(_OCCUPATIONS, [0.0, 0.05, -0.25, -0.1, 0.3, 0.5, -0.3, -0.2], strict=True))
_PURPOSES = np.array(["car", "furniture", "education", "business", "repairs"], dtype=object)


def make_credit_demo(n_people: int = 4000, random_state: Any = 0) -> pd.DataFrame:
    """Draw the made-up applicants.

    Parameters
    ----------
    n_people : int
    random_state : int, RandomState instance or None

    Returns
    -------
    DataFrame
        Features, the sensitive columns ``sex`` and ``origin``, and the target ``repaid`` ("yes" or "no").
    """
    rng = check_random_state(random_state)
    sex = rng.choice(["man", "woman"], size=n_people, p=[0.58, 0.42])
    origin = rng.choice(["local", "abroad"], size=n_people, p=[0.75, 0.25])
    occupation = np.where(
        sex == "man",
        rng.choice(_OCCUPATIONS, size=n_people, p=_BY_SEX["man"]),
        rng.choice(_OCCUPATIONS, size=n_people, p=_BY_SEX["woman"]),
    )
    age = np.clip(rng.gamma(9.0, 4.6, n_people), 18, 80).round()
    hours = np.clip(rng.normal(np.where(sex == "man", 40, 32), 7, n_people), 5, 70).round()
    pay = np.array([_PAY[o] for o in occupation]) + 0.02 * (hours - 38) + 0.008 * (age - 40)
    income = np.exp(7.6 + pay + rng.normal(0, 0.3, n_people)).round(-1)
    employed = np.clip(rng.exponential(0.16 * (age - 16)), 0, 45).round(1)
    amount = np.exp(rng.normal(8.2, 0.6, n_people)).round(-2)
    housing = rng.choice(np.array(["owned", "rented", "free"], dtype=object), size=n_people, p=[0.42, 0.5, 0.08])
    purpose = rng.choice(_PURPOSES, size=n_people, p=[0.4, 0.25, 0.12, 0.13, 0.1])
    late = rng.poisson(np.where(origin == "local", 0.5, 0.75))
    score = (
        -0.25
        + 1.6 * (np.log(income) - 7.6)
        - 0.7 * (np.log(amount) - 8.2)
        + 0.05 * employed
        - 0.55 * late
        + 0.3 * (housing == "owned")
        - 0.4 * (purpose == "business")
        - 0.2 * (origin == "abroad")
    )
    repaid = rng.uniform(size=n_people) < expit(1.8 * score)
    income = np.where(rng.uniform(size=n_people) < 0.03, np.nan, income)
    return pd.DataFrame(
        {
            "age": age,
            "income": income,
            "amount": amount,
            "years_employed": employed,
            "hours_per_week": hours,
            "late_payments": late,
            "occupation": occupation,
            "housing": housing,
            "purpose": purpose,
            "sex": sex,
            "origin": origin,
            "repaid": np.where(repaid, "yes", "no"),
        }
    )
