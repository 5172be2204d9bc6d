"""A fit leaves the process as it found it, also while other threads fit: filters, BLAS threads, numpy's errors."""

import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fairmargin import (
    CovarianceBound,
    FairLinearSVC,
    FairLogisticRegression,
    FairnessFrontier,
    FairSVC,
    IndividualLossBound,
    LossBound,
    PRuleBound,
)
from fairmargin.datasets import make_linear_synthetic

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.filterwarnings("ignore::fairmargin.CovarianceWarning"),
    pytest.mark.filterwarnings("ignore::fairmargin.SmallGroupWarning"),
]
FITS = {
    "covariance": FairLogisticRegression(constraint=CovarianceBound(0.0)),
    "hinge": FairLinearSVC(constraint=CovarianceBound(0.0)),
    "loss": FairLogisticRegression(constraint=LossBound(0.05)),
    "individual": FairLogisticRegression(constraint=IndividualLossBound(0.5)),
    "p-rule": FairLogisticRegression(constraint=PRuleBound(70)),
    "no penalty": FairLogisticRegression(C=np.inf, constraint=None),
    "kernel": FairSVC(),
    "frontier": FairnessFrontier(FairLogisticRegression(), n_points=21),
}


def data(n=400):
    X, y, z = make_linear_synthetic(n, random_state=0)
    return X, y, z


def blas_threads():
    return [(p["filepath"], p["num_threads"]) for p in threadpool_info() if p["user_api"] == "blas"]


def state():
    return list(warnings.filters), blas_threads(), np.geterr(), warnings.showwarning


def is_of_others(now, expected):
    """Whether filters differ only by what checks of scikit-learn and pandas set while they run.

    Both turn warnings of numpy into errors, or watch for a DeprecationWarning, for the time of a conversion.
    """

    def ours(filters):
        return [f for f in filters if f[2] is not DeprecationWarning and not f[2].__module__.startswith("numpy")]

    return ours(now) == ours(expected)


class Watch(threading.Thread):
    """Looks at the process's state for as long as the block runs and keeps every other one it sees."""

    def __init__(self):
        super().__init__(daemon=True)
        self.expected = state()
        self.seen = {}
        self._done = threading.Event()
        self.looks = 0

    def run(self):
        names = ("warnings.filters", "BLAS threads", "numpy's error state", "warnings.showwarning")
        while not self._done.is_set():
            for name, expected, now in zip(names, self.expected, state(), strict=True):
                if now != expected and not (name == "warnings.filters" and is_of_others(now, expected)):
                    self.seen[name] = (expected, now)
            self.looks += 1
            time.sleep(0)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self.join()


@pytest.fixture
def two_blas_threads():
    """What a user has who sets nothing; the tests' own limit of one would hide a limit set by a fit."""
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("name", FITS)
def test_nothing_is_changed_after_a_fit(name):
    X, y, z = data()
    before = state()
    FITS[name].fit(X, y, sensitive_features=z)
    assert state() == before


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("name", FITS)
def test_nobody_else_sees_a_change_during_a_fit(name):
    """Another thread that multiplies matrices, warns or divides by zero does as it would without the fit."""
    X, y, z = data(2000 if name in ("covariance", "hinge", "no penalty") else 400)
    FITS[name].fit(X, y, sensitive_features=z)  # imports and first uses
    end = time.monotonic() + 600.0  # not a number of fits: on a fast machine fifty are over before the fifth look
    with Watch() as watch:
        while watch.looks < 5 and time.monotonic() < end:
            FITS[name].fit(X, y, sensitive_features=z)
    assert watch.looks >= 5
    assert watch.seen == {}


@pytest.mark.slow
@pytest.mark.usefixtures("two_blas_threads")
def test_nothing_is_left_after_concurrent_fits():
    """Frontiers in threads once left "ignore CovarianceWarning" behind, and BLAS at one thread."""
    X, y, z = data()
    before = state()

    def work(k):
        rows = np.random.default_rng(k).permutation(len(y))
        model = FairnessFrontier(FairLogisticRegression(), n_points=41)
        return model.fit(X[rows], y[rows], sensitive_features=z[rows]).table_["objective"].to_numpy()

    with ThreadPoolExecutor(4) as pool:
        objectives = list(pool.map(work, range(12)))
    assert state() == before
    for other in objectives[1:]:
        np.testing.assert_allclose(other, objectives[0], rtol=1e-8)


def test_warnings_of_others_arrive_while_a_fit_runs():
    """A filter that is set aside during a fit swallows what other threads have to say."""
    X, y, z = data()
    done = threading.Event()
    missed, given, fitted = 0, 0, []

    def fits():
        while not done.is_set():
            fitted.append(FairnessFrontier(FairLogisticRegression(), n_points=21).fit(X, y, sensitive_features=z))

    worker = threading.Thread(target=fits, daemon=True)
    from fairmargin import CovarianceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        worker.start()
        while given <= 10 or (len(fitted) < 3 and worker.is_alive()):
            given += 1
            try:
                warnings.warn("of another thread", CovarianceWarning, stacklevel=1)
                missed += 1
            except CovarianceWarning:
                pass
            time.sleep(0)
        done.set()
        worker.join()
    assert len(fitted) >= 3
    assert missed == 0


@pytest.mark.parametrize("setting", ["raise", "ignore"])
@pytest.mark.parametrize("name", FITS)
def test_a_fit_does_not_hang_on_numpys_error_state(name, setting):
    X, y, z = data()
    expected = FITS[name].fit(X, y, sensitive_features=z)
    with np.errstate(divide=setting, over=setting, invalid=setting):
        before = np.geterr()
        again = FITS[name].fit(X, y, sensitive_features=z)
        assert np.geterr() == before
    assert again is expected  # reached: nothing was raised on the way
