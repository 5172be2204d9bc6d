"""Made-up stand-ins for seven kinds of public tables that people bring: same columns, codes, sizes and traps.

``python tests/seven_tables.py FOLDER`` writes them as CSV files. Nobody in them exists.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["ASK", "TABLES", "make_table"]


def german_credit(rng: np.random.Generator) -> pd.DataFrame:
    """1,000 rows of text codes; the label is 1 (good) or 2 (bad)."""
    n = 1000
    status = rng.choice(["A11", "A12", "A13", "A14"], n, p=[0.27, 0.27, 0.06, 0.4])
    personal = rng.choice(["A91", "A92", "A93", "A94"], n, p=[0.05, 0.31, 0.55, 0.09])
    duration, amount = rng.integers(4, 61, n), rng.lognormal(7.8, 0.75, n).round()
    score = 1.2 * (status == "A14") - 0.03 * (duration - 20) - 0.35 * (personal == "A92") + 0.6
    frame = {"status": status, "duration": duration, "history": rng.choice([f"A3{k}" for k in range(5)], n)}
    frame |= {"purpose": rng.choice([f"A4{k}" for k in range(10)], n), "amount": amount, "personal_status": personal}
    frame |= {"age": rng.integers(19, 76, n), "foreign": rng.choice(["A201", "A202"], n, p=[0.963, 0.037])}
    return pd.DataFrame({**frame, "credit": np.where(score + rng.logistic(size=n) > 0, 1, 2)})


def law_school(rng: np.random.Generator) -> pd.DataFrame:
    """Most people pass: a favourable outcome that is hard to miss."""
    n = 3000
    race = rng.choice(["White", "Black", "Hisp", "Asian", "Other"], n, p=[0.84, 0.06, 0.05, 0.04, 0.01])
    lsat = (37 + 5 * rng.normal(size=n) - 6 * (race == "Black") - 3 * (race == "Hisp")).round(1)
    ugpa = np.clip(3.2 + 0.4 * rng.normal(size=n), 1.5, 4.0).round(2)
    score = 2.6 + 0.12 * (lsat - 36) + 0.8 * (ugpa - 3.2)
    frame = {"decile1": rng.integers(1, 11, n), "lsat": lsat, "ugpa": ugpa, "fulltime": rng.choice([1, 2], n)}
    frame |= {"fam_inc": rng.integers(1, 6, n), "male": rng.integers(0, 2, n), "race": race}
    return pd.DataFrame({**frame, "pass_bar": (score + rng.logistic(size=n) > 0).astype(int)})


def dutch_census(rng: np.random.Generator) -> pd.DataFrame:
    """Whole-number codes everywhere."""
    n = 4000
    sex, education = rng.integers(1, 3, n), rng.integers(0, 6, n)
    score = 0.8 * (education - 2.5) - 0.9 * (sex == 2) + 0.3
    frame = {"sex": sex, "age": rng.integers(4, 16, n), "household_position": rng.choice([1110, 1121, 1122, 1131], n)}
    frame |= {"household_size": rng.choice([111, 112, 113, 114, 125], n), "citizenship": rng.integers(1, 4, n)}
    frame |= {"edu_level": education, "economic_status": rng.choice([111, 112, 120], n)}
    frame |= {"cur_eco_activity": rng.choice([111, 122, 131, 135, 138], n), "marital_status": rng.integers(1, 5, n)}
    return pd.DataFrame({**frame, "occupation": np.where(score + rng.logistic(size=n) > 0, "2_1", "5_4_9")})


def card_clients(rng: np.random.Generator) -> pd.DataFrame:
    """SEX 1/2, EDUCATION 0-6, an identifier; 1 is the unfavourable label."""
    n = 4000
    education = rng.choice(7, n, p=[0.0005, 0.35, 0.47, 0.16, 0.004, 0.01, 0.0055])
    delay = rng.choice(np.arange(-2, 9), n, p=[0.1, 0.2, 0.5, 0.1, 0.06, 0.01, 0.01, 0.005, 0.005, 0.005, 0.005])
    sex = rng.integers(1, 3, n)
    score = -1.4 + 0.7 * delay + 0.2 * (sex == 1) + 0.1 * (education == 3)
    frame = {"ID": np.arange(1, n + 1), "LIMIT_BAL": rng.lognormal(11.7, 0.8, n).round(-3), "SEX": sex}
    frame |= {"EDUCATION": education, "MARRIAGE": rng.integers(0, 4, n), "AGE": rng.integers(21, 75, n)}
    frame |= {"PAY_0": delay, "BILL_AMT1": rng.normal(50_000, 70_000, n).round()}
    return pd.DataFrame({**frame, "default": (score + rng.logistic(size=n) > 0).astype(int)})


def oulad(rng: np.random.Generator) -> pd.DataFrame:
    """Student numbers, bands of age, missing values."""
    n = 3000
    imd = rng.choice(["0-10%", "10-20", "20-30%", "50-60%", "90-100%"], n).astype(object)
    imd[rng.uniform(size=n) < 0.04] = None
    credits, attempts = rng.choice([30, 60, 90, 120], n), rng.choice([0, 1, 2], n, p=[0.85, 0.12, 0.03])
    disability = rng.choice(["N", "Y"], n, p=[0.9, 0.1])
    score = 0.4 - 0.012 * (credits - 60) - 0.5 * attempts - 0.4 * (disability == "Y") + 0.4 * (imd == "90-100%")
    frame = {"id_student": rng.permutation(np.arange(10_000, 10_000 + n)), "gender": rng.choice(["M", "F"], n)}
    frame |= {"region": rng.choice(["Scotland", "Wales", "Ireland"], n), "imd_band": imd, "disability": disability}
    frame |= {"age_band": rng.choice(["0-35", "35-55", "55<="], n, p=[0.7, 0.29, 0.01])}
    frame |= {"num_of_prev_attempts": attempts, "studied_credits": credits}
    return pd.DataFrame({**frame, "final_result": np.where(score + rng.logistic(size=n) > 0, "Pass", "Fail")})


def ricci(rng: np.random.Generator) -> pd.DataFrame:
    """118 rows: hardly anybody to hold out."""
    n = 118
    race = rng.choice(["W", "B", "H"], n, p=[0.58, 0.23, 0.19])
    oral, written = rng.normal(70, 10, n).round(1), (72 + rng.normal(0, 8, n) - 6 * (race != "W")).round()
    combine = (0.6 * written + 0.4 * oral).round(2)
    position = rng.choice(["Captain", "Lieutenant"], n, p=[0.35, 0.65])
    decided = np.where(combine >= 71, "promoted", "no promotion")
    return pd.DataFrame({"Position": position, "Oral": oral, "Written": written, "Race": race, "Promotion": decided})


def student_performance(rng: np.random.Generator) -> pd.DataFrame:
    """Text and whole numbers, semicolons between columns."""
    n = 649
    failures, study = rng.choice(4, n, p=[0.84, 0.11, 0.03, 0.02]), rng.integers(1, 5, n)
    sex = rng.choice(["F", "M"], n, p=[0.59, 0.41])
    score = 1.2 - 1.1 * failures + 0.35 * (study - 2) - 0.3 * (sex == "M")
    frame = {"school": rng.choice(["GP", "MS"], n), "sex": sex, "age": rng.integers(15, 23, n)}
    frame |= {"address": rng.choice(["U", "R"], n), "Medu": rng.integers(0, 5, n), "studytime": study}
    frame |= {"failures": failures, "absences": rng.poisson(3.7, n)}
    return pd.DataFrame({**frame, "passed": np.where(score + rng.logistic(size=n) > 0, "yes", "no")})


TABLES = (german_credit, law_school, dutch_census, card_clients, oulad, ricci, student_performance)

# What a user would ask of each: target, favourable value, sensitive columns and further options.
ASK: dict[str, list[str]] = {
    "german_credit": ["-t", "credit", "-p", "1", "-s", "personal_status", "-s", "foreign"],
    "law_school": ["-t", "pass_bar", "-p", "1", "-s", "race", "--categorical", "fulltime"],
    "dutch_census": ["-t", "occupation", "-p", "2_1", "-s", "sex", "--categorical", "household_position"],
    "card_clients": ["-t", "default", "-p", "0", "-s", "SEX,EDUCATION", "-x", "ID"],
    "oulad": ["-t", "final_result", "-p", "Pass", "-s", "disability,age_band", "-x", "id_student"],
    "ricci": ["-t", "Promotion", "-p", "promoted", "-s", "Race", "--min-people", "5"],
    "student_performance": ["-t", "passed", "-p", "yes", "-s", "sex"],
}


def make_table(name: str, seed: int = 0) -> pd.DataFrame:
    """Return one of the tables."""
    makers: dict[str, Any] = {maker.__name__: maker for maker in TABLES}
    return makers[name](np.random.default_rng(seed))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for maker in TABLES:
        separator = ";" if maker is student_performance else ","
        make_table(maker.__name__).to_csv(folder / f"{maker.__name__}.csv", index=False, sep=separator)
