"""Where the time of a fit goes and how often it goes through the data: wrappers around the package's parts."""

import time
from contextlib import contextmanager
from importlib import import_module

# (module, class or None, function, phase); what a later version does not have is left out
PARTS = (
    ("fairmargin.base", None, "validate_training", "validation"),
    ("fairmargin.base", None, "make_task", "setting up"),
    ("fairmargin.base", None, "measure_movement", "diagnostics"),
    ("fairmargin.base", None, "warn_if_bought", "diagnostics"),
    ("fairmargin.design", "DenseDesign", "matvec", "X theta"),
    ("fairmargin.design", "DenseDesign", "rmatvec", "X' r"),
    ("fairmargin.design", "DenseDesign", "sandwich", "X' D X"),
    ("fairmargin.design", "DenseDesign", "take", "samples"),
    ("fairmargin.design", "DenseDesign", "single", "samples"),
    ("fairmargin.design", "SingleDesign", "matvec", "X theta"),
    ("fairmargin.design", "SingleDesign", "rmatvec", "X' r"),
    ("fairmargin.design", "SparseDesign", "matvec", "X theta"),
    ("fairmargin.design", "SparseDesign", "rmatvec", "X' r"),
    ("fairmargin.design", "SparseDesign", "sandwich", "X' D X"),
    ("fairmargin.design", "SparseDesign", "take", "samples"),
    ("fairmargin.losses", "LogisticLoss", "derivatives", "loss, pointwise"),
    ("fairmargin.losses", "LogisticLoss", "derivative", "loss, pointwise"),
    ("fairmargin.losses", "SmoothedHingeLoss", "derivatives", "loss, pointwise"),
    ("fairmargin.losses", "SmoothedHingeLoss", "derivative", "loss, pointwise"),
    ("fairmargin.solvers.small", "Factor", "__init__", "Cholesky"),
    ("fairmargin.solvers.small", "Factor", "solve", "Cholesky"),
)
PASSES = ("X theta", "X' r", "X' D X")


class Phases:
    """Seconds of each phase without the phases inside it, calls, and rows gone through."""

    def __init__(self):
        self.seconds, self.calls, self.rows = {}, {}, {}
        self._inside = []

    def wrap(self, function, phase):
        def wrapped(*args, **kwargs):
            self._inside.append(0.0)
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.perf_counter() - start
                own = took - self._inside.pop()
                if self._inside:
                    self._inside[-1] += took
                self.seconds[phase] = self.seconds.get(phase, 0.0) + own
                self.calls[phase] = self.calls.get(phase, 0) + 1
                if phase in PASSES:
                    self.rows[phase] = self.rows.get(phase, 0) + _rows(phase, args, kwargs)

        return wrapped

    def passes(self, n):
        """Return how often n rows were read, samples counted by their share."""
        return {phase: self.rows.get(phase, 0) / n for phase in PASSES}


def _rows(phase, args, kwargs):
    """Return the rows gone through; half of them in single precision, with half the bytes and half the time."""
    product = phase == "X' D X"
    subset = kwargs.get("rows", args[2] if product and len(args) > 2 else None)
    single = kwargs.get("single", args[3] if product and len(args) > 3 else args[0].X.dtype == "float32")
    return (args[0].shape[0] if subset is None else len(subset)) * (0.5 if single else 1.0)


@contextmanager
def watched():
    """Yield the phases of what is done inside."""
    phases, undo = Phases(), []
    for module, owner, name, phase in PARTS:
        try:
            place = import_module(module)
            place = place if owner is None else getattr(place, owner)
            original = place.__dict__[name]
        except (ImportError, AttributeError, KeyError):
            continue
        setattr(place, name, phases.wrap(original, phase))
        undo.append((place, name, original))
    try:
        yield phases
    finally:
        for place, name, original in undo:
            setattr(place, name, original)
