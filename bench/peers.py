"""The same problems, given to others. Every function returns ``(w, b)`` unless it says otherwise."""

import numpy as np
import scipy.optimize
import scipy.sparse as sp

# --- The problem, evaluated independently of anybody's own report


def logistic(people, w, b, C=1.0):
    """Return ``C sum log(1 + exp(-m)) + 1/2 |w|^2`` (the sum alone for C = inf)."""
    return logistic_of(people, people.X @ w + b, w, C)


def logistic_of(people, scores, w, C=1.0):
    loss = np.logaddexp(0.0, -people.signed * scores).sum()
    return loss if np.isinf(C) else C * loss + 0.5 * w @ w


def hinge(people, w, b, C=1.0):
    m = people.signed * (people.X @ w + b)
    return C * np.maximum(0.0, 1.0 - m).sum() + 0.5 * w @ w


def covariance(people, w):
    z = people.z01
    return float((z - z.mean()) @ (people.X @ w) / len(z))


def covariance_row(people):
    z = people.z01
    return (z - z.mean()) @ people.X / len(z)


# --- Unconstrained


def scikit_learn(people, solver, C=1.0):
    model = scikit_learn_model(people, solver, C)
    return model.coef_[0], model.intercept_[0]


def scikit_learn_model(people, solver, C=1.0, tol=1e-4):
    """Return the fitted model itself."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=C, solver=solver, max_iter=1000, tol=tol).fit(people.X, people.y)


def liblinear_hinge(people, **settings):
    from sklearn.svm import LinearSVC

    model = LinearSVC(loss="hinge", random_state=0, **settings).fit(people.X, people.y)
    return model.coef_[0], model.intercept_[0]


def libsvm_linear(people):
    from sklearn.svm import SVC

    model = SVC(kernel="linear", cache_size=1000).fit(people.X, people.y)
    return model.coef_[0], model.intercept_[0]


def glum(people, matrix=None, C=1.0):
    """Return ``(w, b)`` of glum's IRLS; columns in the order of ``matrix``."""
    from glum import GeneralizedLinearRegressor

    model = GeneralizedLinearRegressor(family="binomial", alpha=1.0 / (C * len(people)), l1_ratio=0, solver="irls-ls")
    model.fit(people.X if matrix is None else matrix, people.y.astype(float))
    return model.coef_, float(model.intercept_)


def tabmat_matrix(people):
    """Return the features as tabmat holds them best: dense numbers and categories without one-hot expansion."""
    import pandas as pd
    import tabmat

    frame = people.frame.copy()
    for name in frame.columns:
        if name in people.columns:  # a number: standardised as in X
            frame[name] = people.X[:, people.columns.index(name)]
        else:
            frame[name] = pd.Categorical(frame[name])
    return tabmat.from_pandas(frame, drop_first=True, cat_threshold=1)


# --- Fair


def scikit_lego(people, c, penalty="l2"):
    """Return scikit-lego's classifier. Its "l2" is ``sum loss + |w|``: the norm, not half its square.

    At its optimum ``|w| = r`` that is the problem with half the square and ``C = r``, so the two can be compared.
    """
    from sklego.linear_model import DemographicParityClassifier

    table = np.column_stack([people.X, people.z01])
    model = DemographicParityClassifier(covariance_threshold=c, sensitive_cols=[people.X.shape[1]], penalty=penalty)
    inner = model.fit(table, people.y).estimators_[0]
    return np.ravel(inner.coef_), float(np.ravel(inner.intercept_)[0])


def cvxpy_logistic(people, c, solver, C=1.0):
    import cvxpy as cp

    w, b = cp.Variable(people.X.shape[1]), cp.Variable()
    loss = cp.sum(cp.logistic(-cp.multiply(people.signed, people.X @ w + b)))
    penalty = 0 if np.isinf(C) else 0.5 * cp.sum_squares(w)
    row = covariance_row(people)
    asked = [] if c is None else [cp.abs(row @ w) <= c]
    cp.Problem(cp.Minimize((1.0 if np.isinf(C) else C) * loss + penalty), asked).solve(solver=solver)
    return w.value, float(b.value)


def cvxpy_hinge(people, c, solver, C=1.0):
    import cvxpy as cp

    w, b = cp.Variable(people.X.shape[1]), cp.Variable()
    loss = cp.sum(cp.pos(1 - cp.multiply(people.signed, people.X @ w + b)))
    asked = [cp.abs(covariance_row(people) @ w) <= c]
    cp.Problem(cp.Minimize(C * loss + 0.5 * cp.sum_squares(w)), asked).solve(solver=solver)
    return w.value, float(b.value)


def cvxpy_loss_bound(people, limit, solver, C=1.0):
    """Minimise the covariance subject to an objective of at most ``limit``."""
    import cvxpy as cp

    w, b = cp.Variable(people.X.shape[1]), cp.Variable()
    loss = cp.sum(cp.logistic(-cp.multiply(people.signed, people.X @ w + b)))
    asked = [C * loss + 0.5 * cp.sum_squares(w) <= limit]
    cp.Problem(cp.Minimize(cp.abs(covariance_row(people) @ w)), asked).solve(solver=solver)
    return w.value, float(b.value)


def slsqp(people, c, C=1.0, start=0, lean=False):
    """What the authors' code does: SLSQP from a random start, gradients by finite differences.

    Like theirs it sums up the losses of positive and of negative margins by different formulas, and calls a function
    for the covariance that centres the attribute each time. ``lean`` does both with less work.
    """
    X, y, z = np.column_stack([people.X, np.ones(len(people))]), people.signed, people.z01
    centred = z - z.mean()

    def log_probabilities(margins):
        good = margins > 0
        result = np.empty_like(margins)
        result[good] = -np.log(1.0 + np.exp(-margins[good]))
        result[~good] = margins[~good] - np.log(1.0 + np.exp(margins[~good]))
        return result

    def objective(theta):
        margins = y * (X @ theta)
        loss = np.logaddexp(0.0, -margins).sum() if lean else -np.sum(log_probabilities(margins))
        return loss if np.isinf(C) else C * loss + 0.5 * theta[:-1] @ theta[:-1]

    def room(theta):
        return c - abs((centred if lean else z - np.mean(z)) @ (X @ theta)) / len(z)

    answer = scipy.optimize.minimize(
        objective,
        np.random.default_rng(start).random(X.shape[1]),
        method="SLSQP",
        options={"maxiter": 100_000},
        constraints={"type": "ineq", "fun": room},
    )
    return answer.x[:-1], float(answer.x[-1])


def highs_individual(people, w, b, gamma):
    """Minimise |cov| with a bound on everybody's loss, all rows at once; ``(w, b)`` is the unconstrained optimum."""
    X, y = people.X, people.signed
    loss = np.logaddexp(0.0, -y * (X @ w + b))
    allowed = (1.0 + gamma) * loss
    tau = -(allowed + np.log1p(-np.exp(-allowed)))  # the smallest margin with that loss
    row = covariance_row(people)
    d = X.shape[1]
    # variables: w, b, t; t >= |row w|; y (X w + b) >= tau
    promises = sp.csr_array(np.column_stack([-y[:, None] * X, -y, np.zeros(len(y))]))
    sides = sp.csr_array(np.vstack([np.append(row, [0.0, -1.0]), np.append(-row, [0.0, -1.0])]))
    answer = scipy.optimize.linprog(
        np.append(np.zeros(d + 1), 1.0),
        A_ub=sp.vstack([promises, sides]),
        b_ub=np.concatenate([-tau, [0.0, 0.0]]),
        bounds=[(None, None)] * (d + 1) + [(0, None)],
        method="highs",
    )
    if answer.x is None:
        raise RuntimeError(answer.message)
    return answer.x[:d], float(answer.x[d])


def exponentiated_gradient(people, bound, solver="newton-cholesky"):
    """Return a fitted ExponentiatedGradient; newton-cholesky is the fastest of scikit-learn's solvers here."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient
    from sklearn.linear_model import LogisticRegression

    model = ExponentiatedGradient(LogisticRegression(C=1.0, solver=solver), DemographicParity(difference_bound=bound))
    return model.fit(people.X, people.y, sensitive_features=people.z)


def grid_search(people, size, solver="newton-cholesky"):
    from fairlearn.reductions import DemographicParity, GridSearch
    from sklearn.linear_model import LogisticRegression

    model = GridSearch(LogisticRegression(C=1.0, solver=solver), DemographicParity(), grid_size=size)
    return model.fit(people.X, people.y, sensitive_features=people.z)
