"""How often a rule breaks in the population: ``PRuleBound(p)`` beside ``PRuleBound(p, confidence=0.95)``.

The population is a whole data set. People are drawn from it with replacement, a classifier is fitted on them, and
its rule is computed on the population. One line per draw is appended to a file, so that a run can be stopped and
resumed::

    python bench/guarantee.py --draws 1000                # as long as it takes; again to resume
    python bench/guarantee.py --draws 1000 --minutes 30   # as many draws as there is time for
    python bench/guarantee.py --kinds asymptotic --data COMPAS   # one method, one data set
    python bench/guarantee.py --table                     # only the table, into docs/coverage.md
"""

import argparse
import itertools
import json
import multiprocessing
import time
import warnings
from pathlib import Path

import numpy as np
from people import load
from scipy.stats import beta
from threadpoolctl import threadpool_limits

from fairmargin import FairLogisticRegression, NotCertifiedError, PRuleBound, p_rule

SETS = {"Adult, sex": ("Adult", "sex"), "Bank, age": ("Bank", "age_group"), "COMPAS, race": ("COMPAS", "race")}
SIZES = (2_000, 10_000)
LEVELS = (80, 90)
CONFIDENCE = 0.95
PLAIN_DRAWS = 100  # of the other two methods: enough beside a half
KINDS = {"plain": {}, "exact": {"confidence": CONFIDENCE}}
KINDS["asymptotic"] = {"confidence": CONFIDENCE, "guarantee": "asymptotic"}
ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "bench" / "guarantee.jsonl"
TABLE = ROOT / "docs" / "coverage.md"


def fit_one(people, case, n, p, kind, draw):
    """Return the population's rule and accuracy of a classifier fitted on one draw; None where none was returned."""
    rng = np.random.default_rng([draw, list(SETS).index(case), n])
    drawn = people.take(rng.integers(len(people), size=n))
    constraint = PRuleBound(p, **KINDS[kind])
    try:
        model = FairLogisticRegression(constraint=constraint).fit(drawn.X, drawn.y, sensitive_features=drawn.z)
    except NotCertifiedError:
        return {"rule": None, "accuracy": None}
    decided = model.predict(people.X)
    return {
        "rule": p_rule(None, decided, sensitive_features=people.z),
        "accuracy": float(np.mean(decided == people.y)),
    }


def jobs(draws, kinds, data):
    """Return what to measure: the guarantee first in every draw, as that is what the number of draws is for."""
    cases = [case for case, (name, _) in SETS.items() if name in data]
    every = itertools.product(range(draws), sorted(kinds, key=lambda kind: kind != "exact"), cases, SIZES, LEVELS)
    return [(case, n, p, kind, draw) for draw, kind, case, n, p in every if kind == "exact" or draw < PLAIN_DRAWS]


def measure(draws, minutes, kinds, data, workers):
    done = {tuple(row[k] for k in ("case", "n", "p", "kind", "draw")) for row in read()}
    left = [job for job in jobs(draws, kinds, data) if job not in done]
    end = time.monotonic() + 60 * minutes
    with multiprocessing.Pool(workers) as pool, FILE.open("a", encoding="utf-8") as file:
        for row in pool.imap_unordered(run_one, left):
            file.write(json.dumps(row) + "\n")
            file.flush()
            if time.monotonic() > end:
                break


def run_one(job):
    case, n, p, kind, draw = job
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        people = load(SETS[case][0]).of(SETS[case][1])
        return {"case": case, "n": n, "p": p, "kind": kind, "draw": draw, **fit_one(people, *job)}


def read():
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []


def interval(k, n):
    """Return the 95% interval of Clopper and Pearson of a share."""
    low = beta.ppf(0.025, k, n - k + 1) if k else 0.0
    high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
    return low, high


def table():
    rows = read()
    lines = [
        "| data | n | p | method | draws | broken | 95% interval | nothing returned | accuracy |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    names = {
        "plain": "`PRuleBound(p)`",
        "exact": "`PRuleBound(p, confidence=0.95)`",
        "asymptotic": '`..., guarantee="asymptotic"`',
    }
    for case in SETS:
        for n in SIZES:
            for p in LEVELS:
                for kind, name in names.items():
                    mine = [r for r in rows if (r["case"], r["n"], r["p"], r["kind"]) == (case, n, p, kind)]
                    if mine:
                        lines.append(f"| {case} | {n:,} | {p} | {name} | {line(mine, p)} |")
    return "\n".join(lines) + "\n"


def line(rows, p):
    returned = [r for r in rows if r["rule"] is not None]
    broken = sum(r["rule"] < p for r in returned)
    low, high = interval(broken, len(rows))
    accuracy = f"{100 * np.mean([r['accuracy'] for r in returned]):.2f}" if returned else "-"
    nothing = (len(rows) - len(returned)) / len(rows)
    share = f"{broken / len(rows):.1%} | {low:.1%} to {high:.1%}"
    return f"{len(rows):,} | {share} | {nothing:.1%} | {accuracy}"


def write_table():
    text = TABLE.read_text(encoding="utf-8")
    mark = "<!-- table -->"
    head, _, rest = text.partition(mark)
    _, _, tail = rest.partition(mark)
    TABLE.write_text(f"{head}{mark}\n{table()}{mark}{tail}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--kinds", default="plain,exact,asymptotic")
    parser.add_argument("--data", default="Adult,Bank,COMPAS")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    if not options.table:
        kinds, data = options.kinds.split(","), options.data.split(",")
        measure(options.draws, options.minutes, kinds, data, options.workers)
    write_table()
    print(table())


if __name__ == "__main__":
    main()
