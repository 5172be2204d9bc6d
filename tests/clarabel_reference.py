"""The reference of the random problems: conic programs handed to Clarabel directly, and sums in extended precision.

Nothing here comes from the library. Features are centred (with an intercept) and divided by their size for Clarabel's
sake; what it returns is turned back and judged in ``longdouble``, so that its own tolerances do not matter.
"""

from dataclasses import dataclass

import clarabel
import numpy as np
import scipy.sparse as sp

from recompute import VALUES

Long = np.longdouble
ATTEMPTS = (
    {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12},
    {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9, "static_regularization_constant": 1e-7},
)


@dataclass
class Setting:
    """One problem: ``min sum_i c_i l(y_i (x_i.w + b)) + ridge/2 ||w||^2``; ``rows @ w`` are the covariances."""

    X: np.ndarray
    y: np.ndarray
    c: np.ndarray
    loss: str
    ridge: float
    intercept: bool
    rows: np.ndarray

    def __post_init__(self):
        mean = self.X.mean(axis=0) if self.intercept else np.zeros(self.X.shape[1])
        centred = self.X - mean
        size = np.sqrt((centred**2).mean(axis=0))
        # A column that is constant but for rounding has nothing to say beside an intercept.
        self.used = size > 1e-13 * (np.abs(mean) + np.abs(self.X).max(axis=0, initial=0.0))
        self.mean, self.size = mean[self.used], size[self.used]
        self.F = centred[:, self.used] / self.size
        self.A = self.rows[:, self.used] / self.size

    def back(self, v, b):
        """Return ``(w, b)`` in the features as they were given."""
        w = np.zeros(self.X.shape[1])
        w[self.used] = v / self.size
        return w, b - float(self.mean @ w[self.used])

    def objective(self, w, b):
        """Return the objective in extended precision."""
        m = self.y * (self.X.astype(Long) @ w.astype(Long) + Long(b))
        return float(self.c.astype(Long) @ VALUES[self.loss](m) + Long(self.ridge) / 2 * np.sum(w.astype(Long) ** 2))

    @property
    def at_zero(self):
        return float(self.c.sum() * VALUES[self.loss](np.zeros(1))[0])


@dataclass
class Answer:
    w: np.ndarray
    b: float
    exact: bool
    value: float


def solve(setting, G=None, h=None, objective=True, price=None, promises=None, radius=np.inf):
    """Minimise the objective subject to ``G @ (v, t) <= h``; return an answer or None.

    ``G`` speaks of scaled coefficients ``v`` and of one more variable ``t``, which costs ``price``. Without
    ``objective`` only ``t`` is minimised. ``promises = (sign, tau, who)`` asks for ``sign f(x_who) >= tau``, and
    ``radius`` bounds ``||w||``.
    """
    program = Program(setting, objective, price)
    if G is not None:
        program.at_most(G, h)
    if promises is not None:
        program.promise(*promises)
    if np.isfinite(radius):
        program.ball(radius)
    for settings in ATTEMPTS:
        found = program.run(settings)
        if found is not None:
            return found
    return None


EXTRA = {"logistic": 3, "hinge": 1, "squared_hinge": 1, "smoothed_hinge": 2}  # auxiliary variables per row


class Program:
    """Columns are (v, t, b, auxiliary variables of each row's loss)."""

    def __init__(self, setting, objective, price):
        self.s = setting
        n, d = setting.F.shape
        self.n, self.d = n, d
        self.t, self.b, self.first = d, d + 1, d + 2
        self.width = self.first + (EXTRA[setting.loss] * n if objective else 0)
        self.unit = max(1.0, float(setting.c.sum())) if objective else 1.0
        self.P, self.q = np.zeros(self.width), np.zeros(self.width)
        self.blocks = {"zero": [], "less": [], "ball": [], "exp": []}
        self.q[self.t] = price or 0.0
        if not setting.intercept:
            self._add("zero", self._rows(1, {self.b: 1.0}), [0.0])
        if price is None:
            self._add("zero", self._rows(1, {self.t: 1.0}), [0.0])
        if objective:
            self.P[:d] = setting.ridge / setting.size**2 / self.unit
            self._losses()

    def _rows(self, count, entries):
        rows = sp.lil_matrix((count, self.width))
        for column, value in entries.items():
            rows[:, column] = value
        return rows.tocsr()

    def _add(self, kind, rows, right):
        self.blocks[kind].append((sp.csr_matrix(rows), np.asarray(right, dtype=float)))

    def _margins(self):
        """Return the margins as rows over all columns."""
        M = sp.hstack([sp.csr_matrix(self.s.y[:, None] * self.s.F), sp.csr_matrix((self.n, 1)), self.s.y[:, None]])
        return sp.hstack([M, sp.csr_matrix((self.n, self.width - self.first))]).tocsr()

    def _aux(self, k):
        eye = sp.eye(self.n, format="csr")
        left = sp.csr_matrix((self.n, self.first + k * self.n))
        right = sp.csr_matrix((self.n, self.width - self.first - (k + 1) * self.n))
        return sp.hstack([left, eye, right]).tocsr()

    def _losses(self):
        c, n, first = self.s.c / self.unit, self.n, self.first
        M, one = self._margins(), np.ones(self.n)
        if self.s.loss == "logistic":  # log(1 + exp(-m)) <= u: exp(-u) <= p, exp(-m - u) <= r, p + r <= 1
            u, p, r = self._aux(0), self._aux(1), self._aux(2)
            self.q[first : first + n] = c
            self._add("less", p + r, one)
            for x, z in ((-u, p), (-M - u, r)):
                stack = sp.vstack([-x, sp.csr_matrix((n, self.width)), -z]).tocsr()
                order = np.arange(3 * n).reshape(3, n).T.ravel()
                self._add("exp", stack[order], np.concatenate([0 * one, one, 0 * one])[order])
            return
        short = -M - self._aux(0)  # 1 - m <= first auxiliary (+ second)
        self._add("less", -self._aux(0), 0 * one)
        if self.s.loss == "hinge":
            self.q[first : first + n] = c
        else:
            self.P[first : first + n] = 2 * c
        if self.s.loss == "smoothed_hinge":
            short = short - self._aux(1)
            self._add("less", -self._aux(1), 0 * one)
            self.q[first + n : first + 2 * n] = c
        self._add("less", short, -one)

    def at_most(self, G, h):
        G = sp.hstack([sp.csr_matrix(G), sp.csr_matrix((len(h), self.width - G.shape[1]))])
        self._add("less", G, h)

    def promise(self, sign, tau, who):
        f = sp.hstack([sp.csr_matrix(self.s.F[who]), sp.csr_matrix((len(who), 1)), np.ones((len(who), 1))])
        f = sp.hstack([f, sp.csr_matrix((len(who), self.width - self.first))])
        self._add("less", sp.diags(-sign) @ f, -tau)

    def ball(self, radius):
        w = sp.hstack([sp.diags(-1 / self.s.size / radius), sp.csr_matrix((self.d, self.width - self.d))])
        self._add("ball", sp.vstack([sp.csr_matrix((1, self.width)), w]), np.append(1.0, np.zeros(self.d)))

    def run(self, settings):
        options = clarabel.DefaultSettings()
        options.verbose, options.max_iter = False, 200
        for name, value in settings.items():
            setattr(options, name, value)
        cones, A, b = [], [], []
        kinds = {"zero": clarabel.ZeroConeT, "less": clarabel.NonnegativeConeT, "ball": clarabel.SecondOrderConeT}
        for kind, blocks in self.blocks.items():
            for rows, right in blocks:
                A.append(rows)
                b.append(right)
                if kind == "exp":
                    cones += [clarabel.ExponentialConeT()] * (len(right) // 3)
                else:
                    cones.append(kinds[kind](len(right)))
        P = sp.diags(self.P).tocsc()
        solver = clarabel.DefaultSolver(P, self.q, sp.vstack(A).tocsc(), np.concatenate(b), cones, options)
        found = solver.solve()
        status = str(found.status)
        if status not in ("Solved", "AlmostSolved"):
            return None
        x = np.array(found.x)
        w, intercept = self.s.back(x[: self.d], x[self.b] if self.s.intercept else 0.0)
        return Answer(w, intercept, status == "Solved", float(x[self.t]))


def covariance_rows(setting, bounds):
    """Return ``G, h`` of ``|A v| <= bounds``."""
    finite = np.isfinite(bounds)
    A, bounds = setting.A[finite], bounds[finite]
    return np.vstack([A, -A]), np.concatenate([bounds, bounds])


def dual_bound(setting, w, b, multipliers, bounds):
    """Return a lower bound on the objective of every feasible point, from the slopes at a point, in ``longdouble``.

    For a penalised, smooth problem: ``a_i = -l'(m_i)`` is dual feasible once the classes balance, which scaling one
    of them down achieves. Weak duality makes the bound right whatever the point is.
    """
    X, y, c = (np.asarray(v, dtype=Long) for v in (setting.X, setting.y, setting.c))
    m = y * (X @ w.astype(Long) + Long(b))
    value = VALUES[setting.loss](m)
    short = np.maximum(1 - m, 0)
    a = {
        "logistic": lambda: np.exp(-(np.maximum(m, 0) + np.log1p(np.exp(-np.abs(m))))),
        "squared_hinge": lambda: 2 * short,
        "smoothed_hinge": lambda: np.minimum(2 * short, 1),
    }[setting.loss]()
    ratio = np.ones_like(m)
    if setting.intercept:
        up, down = (c * a)[y > 0].sum(), (c * a)[y < 0].sum()
        ratio = np.where(y > 0, min(1, down / up) if up > 0 else 1, min(1, up / down) if down > 0 else 1)
    terms = c @ (ratio * (value + a * m))  # -l*(-a) = l(m) + a m, and l*(0) = 0
    nu = np.where(np.isfinite(bounds), multipliers, 0.0).astype(Long)
    r = X.T @ (c * ratio * a * y) - setting.rows.astype(Long).T @ nu
    support = np.abs(nu) @ np.where(np.isfinite(bounds), bounds, 0.0)
    return float(terms - r @ r / (2 * setting.ridge) - support)
