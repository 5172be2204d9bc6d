"""Wide and sparse data, and many categories: beside scikit-learn's unconstrained solvers, and glum on tabmat."""

from dataclasses import replace

import numpy as np
import pandas as pd
import peers
import scipy.sparse as sp
from findings import megabytes, seconds, times
from harness import apart, interleaved, log, median, timed
from people import People, load

from fairmargin import CategoryEncoder, FairLogisticRegression, LeafFeatures

TITLE = "Wide and sparse data, many categories"
BUDGET = (200, 20)
SHAPES = ((20_000, 2_000), (20_000, 6_000), (8_000, 12_000), (50_000, 50_000))
QUICK_SHAPES = ((4_000, 1_000), (2_000, 3_000))
SOLVERS = ("lbfgs", "newton-cg", "liblinear")
ASKED, TOLERANCES = 1e-6, 10.0 ** -np.arange(4, 11)  # gap, and the tolerances that are tried for it
LEVELS = (10, 100, 1_000, 10_000)


def run(found, budget):
    found.text(
        """Logistic loss, C = 1 unless said otherwise, one thread. The fair fit (c = 0) is solved to a proved gap of
        1e-9 and includes the unconstrained classifier that it is compared with; the others are unconstrained, at
        their default tolerance, with their gap to our dual bound, and then at the first of 1e-4, 1e-5, ... at which
        their gap is at most 1e-6. Extra MB is the largest memory of the process above what it had before the fit."""
    )
    sparse_table(found, budget.share(0.35))
    leaves(found, budget.share(0.25))
    categories(found, budget.share(0.4))


# --- Sparse


def sparse_people(n, d, per_row=60, seed=0):
    """Entries anywhere, as many in every row, normally distributed; a known signal."""
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, d, (n, per_row)), axis=1)
    X = sp.csr_matrix((rng.standard_normal(n * per_row), columns.ravel(), np.arange(n + 1) * per_row), shape=(n, d))
    X.sum_duplicates()
    w, other = rng.standard_normal((2, d)) / np.sqrt(per_row)
    y = 2.0 * (X @ w) + rng.logistic(size=n) > 0
    z = X @ (w + other) + rng.standard_normal(n) > 0
    return as_people(f"{n:,} x {d:,}", X, y, z)


def text(n, d, per_row=60, seed=0):
    """A bag of words: terms by Zipf's law, sublinear tf-idf of unit norm, a signal in every term."""
    from sklearn.feature_extraction.text import TfidfTransformer

    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, d + 1)
    counts = rng.poisson(per_row, n).clip(5)
    terms = np.searchsorted(np.cumsum(share / share.sum()), rng.random(counts.sum())).clip(0, d - 1)
    X = sp.csr_matrix((np.ones(len(terms)), terms, np.concatenate([[0], np.cumsum(counts)])), shape=(n, d))
    X.sum_duplicates()
    X = TfidfTransformer(sublinear_tf=True).fit_transform(X)
    w, other = rng.standard_normal((2, d))
    signal, lean = (spread(X @ v) for v in (w, 0.5 * w + other))
    y = 1.5 * signal + rng.logistic(size=n) > 0
    z = lean + 0.5 * rng.standard_normal(n) > 0
    return as_people(f"bag of words, {n:,} x {d:,}", X, y, z)


def spread(values):
    return (values - values.mean()) / values.std()


def as_people(name, X, y, z):
    return People(name, X, np.asarray(y).astype(int), pd.DataFrame({"z": np.asarray(z).astype(int)}))


def sparse_table(found, budget):
    shapes = QUICK_SHAPES if found.quick else SHAPES
    rows = []
    for n, d in shapes:
        rows.append(compare(sparse_people(n, d), budget)[0])
    size = 5_000 if found.quick else 100_000
    row, ratio, fastest = compare(text(size, size), budget)
    rows.append(row)
    for name, *_, to_gap in rows:
        found.claim(
            f"{name}: fair fit at a gap of 1e-9 / scikit-learn's fastest free one at a gap of at most 1e-6",
            "at most 2",
            to_gap,
            float(to_gap.split()[0]) <= 2.0,
        )
    found.table(
        (
            "rows x columns",
            "X, MB",
            *(f"{s} (gap)" for s in SOLVERS),
            "fair fit",
            "gap",
            "extra MB",
            "fair / fastest",
            "/ fastest at a gap of 1e-6",
        ),
        rows,
        "60 entries per row; the bag of words has terms by Zipf's law.",
    )
    found.claim(
        f"bag of words, {size:,} x {size:,}: fair fit / scikit-learn's fastest, default tolerance ({fastest})",
        "at most 2",
        times(ratio),
        ratio <= 2.0,
    )


def compare(people, budget):
    """Return a row of the table, the ratio to the fastest solver, and which that is."""
    works = {solver: (lambda s=solver: peers.scikit_learn_model(people, s)) for solver in SOLVERS}
    works["fair"] = lambda: fair(people)
    best = FairLogisticRegression(constraint=None).fit(people.X, people.y).certificate_.dual_bound
    gaps, accurate = {}, {}
    for solver in SOLVERS:
        gaps[solver] = gap_of(works[solver](), people, best)
        tol = next(
            (t for t in TOLERANCES if gap_of(peers.scikit_learn_model(people, solver, tol=t), people, best) <= ASKED),
            None,
        )
        if tol is not None:
            accurate[solver] = f"{solver}, tol = {tol:.0e}"
            works[accurate[solver]] = lambda s=solver, t=tol: peers.scikit_learn_model(people, s, tol=t)
    took, _ = interleaved(works, 3, budget, least=1)
    fastest = min(SOLVERS, key=lambda s: median(took[s]))
    ratio = median(took["fair"]) / median(took[fastest])
    first = min(accurate.values(), key=lambda way: median(took[way]))
    to_gap = f"{median(took['fair']) / median(took[first]):.2f} ({first}, {seconds(median(took[first]))})"
    model = fair(people)
    memory = apart(lambda: fair(people).certificate_.gap, 120.0, in_use=True)
    log(f"  {people.name}: {ratio:.2f} times {fastest}")
    return (
        (
            people.name,
            megabytes(size_of(people.X)),
            *(f"{seconds(median(took[s]))} ({gaps[s]:.0e})" for s in SOLVERS),
            seconds(median(took["fair"])),
            f"{model.certificate_.gap:.0e}",
            megabytes(memory.get("peak")),
            times(ratio),
            to_gap,
        ),
        ratio,
        fastest,
    )


def gap_of(model, people, best):
    """Return the relative distance of a model's objective to our dual bound."""
    return peers.logistic(people, model.coef_[0], model.intercept_[0]) / best - 1.0


def fair(people, C=1.0):
    return FairLogisticRegression(C).fit(people.X, people.y, sensitive_features=people.z)


def size_of(X):
    return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sp.issparse(X) else X.nbytes


# --- Leaves of trees


def leaves(found, budget):
    """Time the fair leaf values of boosted trees on Adult, beside lbfgs without the constraint."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    people = load("Adult").of("sex")
    trees = 30 if found.quick else 200
    ensemble = HistGradientBoostingClassifier(max_iter=trees, max_leaf_nodes=31, early_stopping=False, random_state=0)
    X = LeafFeatures(ensemble).fit_transform(people.X, people.y)
    made = replace(people, X=sp.csr_matrix(X, dtype=np.float64))
    model, ours = timed(lambda: fair(made, 0.1))
    theirs = timed(lambda: peers.scikit_learn_model(made, "lbfgs", 0.1))[1]
    found.text(
        f"""Leaves of {trees} boosted trees on Adult (sex, C = 0.1): {made.X.shape[0]:,} x {made.X.shape[1]:,} with
        {trees} entries per row. The fair leaf values take {seconds(ours)} to a gap of {model.certificate_.gap:.0e},
        scikit-learn's lbfgs without a constraint {seconds(theirs)}."""
    )
    log(f"  leaves: {ours:.1f} s, lbfgs {theirs:.1f} s")


# --- Categories


def categorical(n, levels=LEVELS, seed=0):
    """A made table of four numbers and one column for each number of levels, some of which are frequent."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n, 4)), columns=[f"number {j}" for j in range(4)])
    score, lean = frame.to_numpy() @ rng.standard_normal((4, 2)).T[0], rng.standard_normal(n)
    for k in levels:
        share = 1.0 / np.arange(1, k + 1) ** 0.7
        codes = np.searchsorted(np.cumsum(share / share.sum()), rng.random(n)).clip(0, k - 1)
        effect, other = rng.standard_normal((2, k)) / np.sqrt(len(levels))
        score, lean = score + effect[codes], lean + (effect + other)[codes]
        frame[f"{k} levels"] = pd.Categorical.from_codes(codes, [f"{i:05}" for i in range(k)])
    y, z = score + rng.logistic(size=n) > 0, lean > 0
    return frame, y.astype(int), pd.DataFrame({"z": z.astype(int)})


def categories(found, budget):
    adult = load("Adult").of("sex")
    n = 20_000 if found.quick else 1_000_000
    rows = []
    for name, (frame, y, z) in {
        "Adult, every category": (as_categories(adult.frame), adult.y, adult.z),
        f"made, {n:,} rows": categorical(n, LEVELS[:3] if found.quick else LEVELS),
    }.items():
        rows += all_ways(name, frame, y, z, budget)
    found.table(
        ("", "way", "columns", "data, MB", "time", "objective", "extra MB"),
        rows,
        """All categories are indicators with a coefficient of their own; numbers are standardised. Data are what a
        way holds the table in; extra MB is what the fit takes beyond these.""",
    )


def as_categories(frame):
    """Return the table with standardised numbers and everything else as categories."""
    frame = frame.copy()
    for name in frame.columns:
        number = pd.api.types.is_numeric_dtype(frame[name])
        frame[name] = spread(frame[name].astype(float)) if number else frame[name].astype(str).astype("category")
    return frame


def all_ways(name, frame, y, z, budget):
    X = CategoryEncoder().fit_transform(frame)
    one_hot = as_csr(X)
    coded, sparse = People(name, X, y, z), People(name, one_hot, y, z)
    ways = {
        "fair, codes": (X, lambda: fair(coded).certificate_.objective),
        "fair, one-hot CSR": (one_hot, lambda: fair(sparse).certificate_.objective),
        "unconstrained, codes": (X, lambda: free(coded).certificate_.objective),
        "unconstrained, lbfgs on CSR": (one_hot, lambda: scikit_learn(sparse, "lbfgs")),
        "unconstrained, newton-cg on CSR": (one_hot, lambda: scikit_learn(sparse, "newton-cg")),
        "unconstrained, glum on tabmat": (None, lambda: glum(frame, y)),
    }
    rows = []
    for way, (matrix, work) in ways.items():
        answer = apart(work, max(120.0, 0.5 * budget.left), in_use=True)
        size = tabmat_bytes(frame) if matrix is None else size_of(matrix)
        value = answer.get("error") or f"{answer['value']:.6g}"
        took = answer.get("seconds")
        rows.append((name, way, X.shape[1], megabytes(size), seconds(took), value, megabytes(answer.get("peak"))))
        log(f"  {name}, {way}: {answer}")
    return rows


def as_csr(X):
    """Return the indicators and numbers of a coded matrix as a sparse matrix."""
    parts = [(X.places[j], sp.csr_matrix(X.numbers[:, [j]])) for j in range(len(X.places))]
    n = len(X)
    for code, size, start in zip(X.codes, X.sizes, X.starts, strict=True):
        parts.append((start, sp.csr_matrix((np.ones(n), code, np.arange(n + 1)), shape=(n, size))))
    return sp.hstack([part for _, part in sorted(parts, key=lambda pair: pair[0])], format="csr")


def free(people):
    return FairLogisticRegression(constraint=None).fit(people.X, people.y)


def scikit_learn(people, solver):
    model = peers.scikit_learn_model(people, solver)
    return peers.logistic(people, model.coef_[0], model.intercept_[0])


def glum_matrix(frame):
    import tabmat

    return tabmat.from_pandas(frame, cat_threshold=0)


def tabmat_bytes(frame):
    numbers = sum(pd.api.types.is_numeric_dtype(frame[name]) for name in frame.columns)
    return len(frame) * (8 * numbers + 4 * (len(frame.columns) - numbers))


def glum(frame, y):
    """Return the objective that glum reaches on tabmat's matrix."""
    from glum import GeneralizedLinearRegressor

    matrix = glum_matrix(frame)
    model = GeneralizedLinearRegressor(family="binomial", alpha=1.0 / len(y), l1_ratio=0).fit(matrix, y.astype(float))
    scores = matrix.matvec(model.coef_) + model.intercept_
    return float(np.logaddexp(0.0, -(2.0 * y - 1.0) * scores).sum() + 0.5 * model.coef_ @ model.coef_)
