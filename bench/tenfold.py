"""Adult and Bank ten times over: do the ratios to scikit-learn last?"""

import numpy as np
import peers
from findings import megabytes, seconds, times
from harness import apart, interleaved, median
from people import load, repeated, split

from fairmargin import FairLinearSVC, FairLogisticRegression

TITLE = "Ten times the rows"
BUDGET = (100, 12)


def run(found, budget):
    found.text(
        """The training rows of Adult and Bank ten times over, with noise of 1% of a standard deviation on every
        feature, so that no two rows are the same (and indicators are not sparse)."""
    )
    names = ["Adult"] if found.quick else ["Adult", "Bank"]
    for name in names:
        train, _ = split(load(name).of("sex" if name == "Adult" else "age_group"), 0)
        compare(
            found, budget.share(1.0 / len(names)), repeated(train.take(np.arange(2000)) if found.quick else train, 10)
        )


def compare(found, budget, people):
    z = {"sensitive_features": people.z}
    works = {
        "**fairmargin, c = 0**": lambda: FairLogisticRegression().fit(people.X, people.y, **z),
        "fairmargin, unconstrained": lambda: FairLogisticRegression(constraint=None).fit(people.X, people.y),
        "scikit-learn newton-cholesky": lambda: peers.scikit_learn(people, "newton-cholesky"),
        "glum IRLS, dense": lambda: peers.glum(people),
    }
    runs, errors = interleaved(works, 1 if found.quick else 3, budget.share(0.4))
    hinge = {
        "**fair linear SVM, c = 0**": lambda: FairLinearSVC().fit(people.X, people.y, **z),
        "liblinear hinge, default settings": lambda: peers.liblinear_hinge(people),
    }
    slow = {name: apart(lambda w=w: w() and None, max(20.0, 0.5 * budget.left)) for name, w in hinge.items()}
    for name, answer in slow.items():
        if "error" in answer:
            errors[name] = answer["error"]
        else:
            runs[name] = [answer["seconds"]]
    n, d = people.X.shape
    peak = apart(lambda: FairLogisticRegression().fit(people.X, people.y, **z) and None, 60.0).get("peak")
    rows = [(name, seconds(median(s)), len(s)) for name, s in runs.items()] + [(k, e, 0) for k, e in errors.items()]
    found.table(
        (f"{people.name}, {n:,} x {d}", "time", "runs"),
        rows,
        f"Extra memory of the fair fit: {megabytes(peak)} MB, X itself {megabytes(people.X.nbytes)} MB.",
    )

    def claim(words, mine, theirs, limit):
        known = mine in runs and theirs in runs
        ratio = median(runs[mine]) / median(runs[theirs]) if known else None
        stopped = slow.get(theirs, {}).get("stopped")
        if mine in runs and stopped:
            most = median(runs[mine]) / stopped
            text = f"less than {times(most)}: the peer was {errors[theirs]}"
            found.claim(f"{people.name}: {words}", f"at most {limit:g}", text, True if most <= limit else None)
            return
        found.claim(f"{people.name}: {words}", f"at most {limit:g}", times(ratio), ratio <= limit if known else None)

    claim("fair logistic regression / newton-cholesky", "**fairmargin, c = 0**", "scikit-learn newton-cholesky", 1.0)
    claim(
        "fair linear SVM / liblinear hinge, default settings",
        "**fair linear SVM, c = 0**",
        "liblinear hinge, default settings",
        3.0,
    )
    share = None if peak is None else peak / people.X.nbytes
    found.claim(
        f"{people.name}: extra memory of a fair logistic regression, relative to X",
        "below 1.5",
        times(share),
        None if share is None else share < 1.5,
    )
