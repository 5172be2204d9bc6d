"""Random problems with everything that goes wrong with data; a seed says it all."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from fairmargin import (
    CovarianceBound,
    CovariancePenalty,
    FairMarginClassifier,
    IndividualLossBound,
    LossBound,
    PRuleBound,
)

LOSSES = ("logistic", "hinge", "squared_hinge", "smoothed_hinge")
ASKED = ("none", "zero", "absolute", "mapping", "relative", "loss", "loss sum", "individual", "keep", "rule")
SHARES = (0.12, 0.17, 0.15, 0.11, 0.16, 0.05, 0.03, 0.07, 0.07, 0.07)


@dataclass
class Case:
    seed: int
    X: Any
    y: np.ndarray
    people: dict
    weight: np.ndarray | None
    model: Any
    asked: str
    words: list = field(default_factory=list)

    def __str__(self):
        n, d = self.X.shape
        return f"seed {self.seed}: {n} x {d}, {' '.join(self.words)}, {self.model!r}"


def draw(seed):
    """Return the problem of a seed."""
    rng = np.random.default_rng([20260, seed])
    n = int(rng.choice([8, 15, 30, 60, 120], p=[0.1, 0.2, 0.35, 0.25, 0.1]))
    X, words = draw_features(rng, n)
    people, signal = draw_people(rng, n, X)
    y = draw_labels(rng, X, signal)
    weight = draw_weights(rng, n, words)
    asked = str(rng.choice(ASKED, p=SHARES))
    if asked == "rule":
        people = {"group": np.where(signal > np.quantile(signal, rng.choice([0.3, 0.5, 0.7])), "b", "a")}
        people["group"][:2] = "a", "b"
    model = FairMarginClassifier(
        str(rng.choice(LOSSES)),
        C=float(rng.choice([*10.0 ** np.arange(-4, 7), np.inf], p=[*[0.85 / 11] * 11, 0.15])),
        constraint=draw_constraint(rng, asked, people),
        fit_intercept=bool(rng.random() > 0.15),
        class_weight=[None, None, "balanced", {0: 0.2, 1: 3.0}][rng.integers(4)],
    )
    if rng.random() < 0.12:
        X, words = X.astype(np.float32), [*words, "float32"]
    if rng.random() < 0.12:
        X, words = sp.csr_matrix(X), [*words, "sparse"]
    return Case(seed, X, y, people, weight, model, asked, words)


def draw_priced(seed):
    """Return a problem with a price on covariances, with columns that nearly depend on each other, or with both."""
    case = draw(seed)
    rng = np.random.default_rng([20261, seed])
    if rng.random() < 0.7 or case.asked == "rule":
        price = float(10.0 ** rng.uniform(-2, 6))
        case.asked, case.model = "price", case.model.set_params(constraint=CovariancePenalty(price))
    if rng.random() < 0.5 and not sp.issparse(case.X):
        copy = case.X @ rng.normal(size=case.X.shape[1])
        copy = copy + 10.0 ** rng.integers(-12, -2) * copy.std() * rng.normal(size=len(copy))
        case.X = np.column_stack([case.X, copy]).astype(case.X.dtype)
        case.words.append("nearly dependent")
    return case


def draw_features(rng, n):
    d = int(rng.integers(1, 9))
    words = []
    if rng.random() < 0.12:
        d, words = int(n + rng.integers(1, 15)), ["wide"]
    X = rng.normal(size=(n, d))
    kind = str(
        rng.choice(["plain", "codes", "binary", "skewed", "low rank", "copies"], p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.1])
    )
    words.append(kind)
    if kind == "codes":
        X = np.rint(1.5 * X)
    if kind == "binary":
        X = (X > 0.5).astype(float)
    if kind == "skewed":
        X = np.exp(1.5 * X)
    if kind == "low rank":
        rank = int(rng.integers(1, min(n, d) + 1))
        X = X[:, :rank] @ rng.normal(size=(rank, d))
    if kind == "copies":
        X = np.column_stack([X, X[:, :1], X @ rng.normal(size=d)])
    for word, change, chance in CHANGES:
        if rng.random() < chance:
            X, words = change(rng, X), [*words, word]
    return X, words


def scaled(rng, X):
    return X * 10.0 ** rng.integers(-3, 4, size=X.shape[1])


def constant(rng, X):
    return np.column_stack([X, np.full(len(X), rng.choice([0.0, 0.1, 3.0, 1e6]))])


def huge(rng, X):
    return np.column_stack([X, 10.0 ** rng.integers(5, 9) * rng.normal(size=len(X))])


def shifted(rng, X):
    return X + rng.choice([0.0, 5.0, 1e3, 1e6], size=X.shape[1])


CHANGES = (("scaled", scaled, 0.15), ("constant", constant, 0.15), ("huge", huge, 0.08), ("shifted", shifted, 0.12))


def draw_people(rng, n, X):
    """Return sensitive attributes and the number that they go with."""
    spread = X.std(axis=0)
    j = int(np.argmax(spread > 0))
    base = (X[:, j] - X[:, j].mean()) / (spread[j] or 1.0)
    people, signal = {}, base
    for k in range(int(rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1]))):
        signal = rng.choice([0.0, 0.7, 2.0]) * base + rng.normal(size=n)
        kind = rng.choice(["binary", "groups", "numeric", "far", "nano"], p=[0.45, 0.2, 0.2, 0.1, 0.05])
        if kind == "binary":
            values = (signal > np.median(signal)).astype(int)
            values[:2] = 0, 1
        elif kind == "groups":
            values = np.array(list("abcde"))[np.clip(np.rint(signal + 2).astype(int), 0, int(rng.integers(2, 5)))]
            values[:3] = list("abc")
        else:
            values = {"numeric": signal, "far": 2000.0 + np.rint(10 * signal) + 0.1, "nano": 1e9 * signal}[str(kind)]
        people[f"z{k}"] = values
    return people, signal


def draw_labels(rng, X, signal):
    size = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    score = ((X - X.mean(axis=0)) / size) @ rng.normal(size=X.shape[1]) + 0.5 * signal
    score = score + rng.choice([0.0, 0.5, 2.0]) * (score.std() + 0.1) * rng.normal(size=len(score))
    y = (score > np.quantile(score, rng.choice([0.5, 0.5, 0.8]))).astype(int)
    y[:4] = 0, 1, 0, 1
    return y


def draw_weights(rng, n, words):
    kind = str(rng.choice(["none", "random", "whole", "uneven"], p=[0.6, 0.2, 0.1, 0.1]))
    if kind == "none":
        return None
    words.append(f"{kind} weights")
    if kind == "whole":
        weight = rng.integers(0, 4, size=n).astype(float)
    else:
        weight = rng.exponential(size=n) if kind == "random" else 10.0 ** rng.uniform(-4, 4, size=n)
    weight[:4] = np.maximum(weight[:4], 0.5)
    return weight


def draw_constraint(rng, asked, people):
    spread = {
        k: float(np.std(v)) if v.dtype.kind in "if" and len(np.unique(v)) > 2 else 1.0 for k, v in people.items()
    }
    share = float(rng.choice([1e-4, 0.01, 0.1]))
    gamma = float(rng.choice([1e-3, 0.02, 0.1, 0.5]))
    return {
        "none": lambda: None,
        "zero": lambda: CovarianceBound(0.0),
        "absolute": lambda: CovarianceBound(share * min(spread.values())),
        "mapping": lambda: CovarianceBound({k: share * v for k, v in list(spread.items())[:2]}),
        "relative": lambda: CovarianceBound(float(rng.choice([0.0, 0.1, 0.5, 0.9])), relative=True),
        "loss": lambda: LossBound(gamma, weights={k: float(rng.choice([0.5, 1, 2])) for k in people}),
        "loss sum": lambda: LossBound(gamma, norm="sum"),
        "individual": lambda: IndividualLossBound(float(rng.choice([0.1, 0.5, 2.0]))),
        "keep": lambda: IndividualLossBound(float(rng.choice([1.0, np.inf])), keep_positive="accepted"),
        "rule": lambda: PRuleBound(float(rng.choice([50, 80, 95]))),
    }[asked]()
