"""What all tests share: one BLAS thread, one check of every fit, clusters, and tests that need data files,
a browser or Java.

Such tests are skipped, with the reason, where these are not there. Where
``FAIRMARGIN_REQUIRE_DATA=1`` is set they fail instead: nothing may be left out in silence.

**Every fit is checked.** Whatever a test is about, a fit that it makes, alone or as a point of a frontier, either is
called solved and its certificate holds when it is recomputed from the fitted attributes (``recompute.py``), or a
warning was given. ``@pytest.mark.unchecked_fits`` is for tests that break the library on purpose.
"""

import os

# Before numpy is imported: on a busy machine the threads of BLAS wait for each other longer than they work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import functools
import shutil
import signal
import threading
import warnings

import hypothesis
import pytest

import recompute
import recompute_classes
import recompute_regression
from cluster_fixtures import dask_client, spark_cluster, spark_session  # noqa: F401  (fixtures)

# A run says the same thing twice: the drawn cases follow from the test. `make search` draws others each time. On a
# slow or busy machine drawing may take as long as it does.
PATIENT = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("fairmargin", **PATIENT, derandomize=True)
hypothesis.settings.register_profile("search", **PATIENT)
hypothesis.settings.load_profile("fairmargin")

# Files whose tests depend on rounding, besides those that say so themselves; run under other BLAS kernels too.
NUMERICAL = {
    "test_design.py",
    "test_estimators.py",
    "test_fit_check.py",
    "test_frontier.py",
    "test_rule_frontier.py",
    "test_gate.py",
    "test_individual_bound.py",
    "test_kernel.py",
    "test_loss_bound.py",
    "test_losses.py",
    "test_p_rule_bound.py",
    "test_promises.py",
    "test_real_data.py",
    "test_reference.py",
    "test_single_precision.py",
    "test_solvers.py",
    "test_warm_starts.py",
}

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_configure():
    # A shell without job control starts background jobs deaf to Ctrl-C, and so the processes that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in NUMERICAL:
            item.add_marker(pytest.mark.numerical)
        # Run after the others, in one process: clusters for each of several processes would be more than two cores
        # can carry.
        if {"dask_client", "spark_cluster"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)


def pytest_runtest_setup(item):
    for marker, missing in (("data", missing_data), ("browser", missing_browser), ("spark", missing_java)):
        if item.get_closest_marker(marker) and (reason := missing()):
            if os.environ.get("FAIRMARGIN_REQUIRE_DATA") == "1":
                pytest.fail(f"{reason} (FAIRMARGIN_REQUIRE_DATA=1 does not allow to skip)", pytrace=False)
            pytest.skip(reason)


class FitCheck:
    """Wraps ``fit`` of the estimators: checks the fitted attributes, and remembers the warnings of each thread.

    The wrapped methods keep their signatures, and no class or instance gains an attribute, so that clones, pickles
    and metadata routing are as without. ``warnings.warn`` is wrapped rather than recorded: filters stay as they are.
    """

    LARGEST = 5_000_000  # entries of X times classifiers above which a frontier's points are sampled

    def __init__(self):
        self.enabled = True
        self.checked = 0
        self._local = threading.local()
        self._undo = []

    def install(self):
        from fairmargin import FairMultinomialLogisticRegression, FairnessFrontier, FairRegressor, FairSVC
        from fairmargin.base import FairClassifier

        self._replace(warnings, "warn", self._listen(warnings.warn))
        for cls in {FairClassifier, FairSVC, *every_subclass(FairClassifier)}:
            if "fit" in vars(cls):
                self._replace(cls, "fit", self._checked(vars(cls)["fit"], lambda model: [model]))
        several = FairMultinomialLogisticRegression
        self._replace(several, "fit", self._checked(several.fit, lambda model: [model], recompute_classes.faults))
        regression = self._checked(FairRegressor.fit, lambda model: [model], recompute_regression.faults)
        self._replace(FairRegressor, "fit", regression)
        self._replace(FairnessFrontier, "fit", self._checked(FairnessFrontier.fit, lambda model: model.estimators_))

    def remove(self):
        for owner, name, value in reversed(self._undo):
            setattr(owner, name, value)

    def _replace(self, owner, name, value):
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def _listen(self, warn):
        @functools.wraps(warn)
        def listened(message, category=None, stacklevel=1, *args, **more):
            kind = type(message) if isinstance(message, Warning) else category
            for heard in getattr(self._local, "heard", ()):
                heard.append(getattr(kind, "__name__", "UserWarning"))
            return warn(message, category, stacklevel + 1, *args, **more)

        return listened

    def _checked(self, fit, classifiers, faults=None):
        @functools.wraps(fit)
        def checked(model, X, y, sample_weight=None, **more):
            listening = self._local.__dict__.setdefault("heard", [])
            heard = []
            listening.append(heard)
            try:
                result = fit(model, X, y, sample_weight, **more)
            finally:
                listening.pop()
            if self.enabled and not listening:
                if hasattr(X, "map_partitions"):  # Dask frames are checked as what they stand for
                    X, y, sample_weight, more["sensitive_features"] = dask_frames(
                        X, y, sample_weight, more.get("sensitive_features")
                    )
                people, strata = more.get("sensitive_features"), more.get("strata")
                self._check(classifiers(model), heard, X, y, sample_weight, people, strata, faults)
            return result

        return checked

    def _check(self, models, heard, X, y, sample_weight, people, strata=None, faults=None):
        size = X.shape[0] * X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else 0
        few = max(2, self.LARGEST // max(size, 1))
        chosen = models if len(models) <= few else [*models[:: -(-len(models) // few)], models[-1]]
        for whole in chosen:
            model, rows = whole, X
            if hasattr(whole, "steps"):  # a pipeline: its last step has seen what the others make of X
                model, rows = whole[-1], whole[:-1].transform(X) if len(whole) > 1 else X
            self.checked += 1
            status = model.certificate_.status
            if status != "solved":
                if not {"ApproximationWarning", "ConvergenceWarning"} & set(heard):
                    pytest.fail(f"{model!r} ended {status!r} without a warning", pytrace=False)
                continue
            if faults is None:
                found = recompute.faults(model, *recompute.trained(model, rows, y, sample_weight, people, strata))
            else:
                found = faults(model, X, y, sample_weight, people, *([] if strata is None else [strata]))
            if found and "ApproximationWarning" not in heard:
                pytest.fail(f"{model!r} is called solved, but: {'; '.join(found)}", pytrace=False)


def dask_frames(*values):
    import dask

    return dask.compute(*values, scheduler="synchronous")


def every_subclass(cls):
    return {s for sub in cls.__subclasses__() for s in (sub, *every_subclass(sub))}


@pytest.fixture(scope="session")
def fit_check():
    check = FitCheck()
    check.install()
    yield check
    check.remove()


@pytest.fixture(autouse=True)
def _every_fit_is_checked(request, fit_check):
    fit_check.enabled = request.node.get_closest_marker("unchecked_fits") is None
    yield
    fit_check.enabled = True


def missing_data():
    """Say which data files are not on this computer; tests do not download them."""
    from fairmargin.datasets import _files

    names = [name for name in _files.FILES if not _files.is_available(name)]
    return f"no {', '.join(names)} in $FAIRMARGIN_DATA or the cache" if names else ""


def missing_browser():
    """Say which part of the browser is not on the path."""
    if not any(shutil.which(name) for name in BROWSERS):
        return "no chromium on the path"
    return "" if shutil.which("chromedriver") else "no chromedriver on the path"


def missing_java():
    """Say that Spark cannot run here."""
    return "" if shutil.which("java") or os.environ.get("JAVA_HOME") else "no java on the path, which Spark needs"


def pytest_addoption(parser):
    parser.addoption("--fuzz-size", type=int, default=10_000, help="number of random problems (tests/test_fuzz.py)")
    parser.addoption("--fuzz-first", type=int, default=0, help="the first of their seeds, a multiple of 500")


def pytest_generate_tests(metafunc):
    if "fuzz_chunk" in metafunc.fixturenames:
        first, number = (metafunc.config.getoption(name) for name in ("--fuzz-first", "--fuzz-size"))
        size = metafunc.module.CHUNK
        metafunc.parametrize("fuzz_chunk", range(first // size, -(-(first + number) // size)))
